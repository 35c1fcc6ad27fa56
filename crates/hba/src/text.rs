//! From files to lines of fields of words, with all that other files contribute.
//!
//! ```text
//!   host  shop,"the shop"  @staff  10.0.0.0/8  md5   # why
//!   └ field of one word  └ of two     └ of as many words as that file has
//! ```
//!
//! Blanks end a field, a comma joins the next word to it, also where blanks stand around the comma, as PgBouncer has it.
//! Double quotes keep blanks, commas and `#`, and take a word's special meaning away; a doubled one stands for itself.
//! `#` begins a comment. A backslash at the end joins the next line. Names of other files are relative to the file that
//! has them.
//!
//! //= pg18 auth-pg-hba-conf

use std::io;
use std::str::Chars;

use crate::Read;
use crate::mistake::{MISTAKES_MAX, Mistake, Wrong, quoted};

/// As in PostgreSQL.
const DEPTH_MAX: usize = 10;
/// Files that include each other twice would multiply without end in sight.
const FILES_MAX: usize = 1000;
/// Of all files together, each counted as often as it is read.
const BYTES_MAX: usize = 16 << 20;
/// Of all files together: each takes more memory than its text.
const WORDS_MAX: usize = 500_000;
/// Each login goes through all of them.
const LINES_MAX: usize = 10_000;

/// A name or a value, without its quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) text: String,
    /// It began with a quote: then it is no keyword.
    pub(crate) has_quotes: bool,
}

impl Word {
    pub(crate) fn is_keyword(&self, keyword: &str) -> bool {
        !self.has_quotes && self.text == keyword
    }
}

pub(crate) type Field = Vec<Word>;

/// A line that says something; every field has a word.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) file: String,
    /// Counted from 1; of a continued line its first one.
    pub(crate) number: u32,
    pub(crate) fields: Vec<Field>,
}

/// All lines of a file and of those that it includes.
pub(crate) fn lines(name: &str, read: &Read) -> (Vec<Line>, Vec<Mistake>) {
    let mut reader =
        Reader { read, lines: Vec::new(), mistakes: Vec::new(), files: 0, bytes: 0, words: 0, is_over: false };
    if let Err(wrong) = reader.file(name, 0) {
        reader.mistakes.push(wrong.at(name, 0));
    }
    (reader.lines, reader.mistakes)
}

struct Reader<'a> {
    read: &'a Read<'a>,
    lines: Vec<Line>,
    mistakes: Vec<Mistake>,
    files: usize,
    bytes: usize,
    words: usize,
    /// A bound was reached: nothing more is read.
    is_over: bool,
}

impl Reader<'_> {
    /// Reads a file's lines. The error is that of the file as a whole.
    fn file(&mut self, name: &str, depth: usize) -> Result<(), Wrong> {
        let bytes = self.bytes_of(name, depth)?.map_err(|error| unreadable(name, &error))?;
        for (number, line) in joined_lines(&bytes) {
            if self.mistakes.len() >= MISTAKES_MAX || self.is_over {
                break;
            }
            if let Err(wrong) = self.line(name, number, line, depth) {
                self.mistakes.push(wrong.at(name, number));
            }
        }
        Ok(())
    }

    /// What a file has; the inner error is that of reading it.
    fn bytes_of(&mut self, name: &str, depth: usize) -> Result<io::Result<Vec<u8>>, Wrong> {
        if depth > DEPTH_MAX {
            return Err(self.over(quoted(name), format!("at most {DEPTH_MAX} files inside each other")));
        }
        if self.files == FILES_MAX {
            return Err(self.over(quoted(name), format!("at most {FILES_MAX} files")));
        }
        self.files += 1;
        let bytes = (self.read)(name);
        self.bytes += bytes.as_ref().map_or(0, Vec::len);
        if self.bytes > BYTES_MAX {
            return Err(self.over(format!("{} and more", quoted(name)), format!("at most {BYTES_MAX} bytes in all")));
        }
        Ok(bytes)
    }

    fn over(&mut self, found: String, expected: String) -> Wrong {
        self.is_over = true;
        Wrong::new(found, expected)
    }

    fn line(&mut self, file: &str, number: u32, line: Vec<u8>, depth: usize) -> Result<(), Wrong> {
        let text = String::from_utf8(line).ok().filter(|text| !text.contains('\0'));
        let text = text.ok_or_else(|| Wrong::new("bytes that are no text", "text in UTF-8"))?;
        let mut fields = Vec::new();
        for field in fields_of(&text)? {
            fields.push(self.expanded(field, file, depth)?);
        }
        if let [first, second] = fields.as_slice()
            && let ([directive], [what]) = (first.as_slice(), second.as_slice())
            && self.include(&directive.text, &beside(file, &what.text), depth + 1)?
        {
            return Ok(());
        }
        if fields.is_empty() {
            return Ok(());
        }
        if self.lines.len() == LINES_MAX {
            return Err(self.over("one more line".to_owned(), format!("at most {LINES_MAX}")));
        }
        self.lines.push(Line { file: file.to_owned(), number, fields });
        Ok(())
    }

    /// False: the word is no directive.
    fn include(&mut self, directive: &str, name: &str, depth: usize) -> Result<bool, Wrong> {
        match directive {
            "include" => self.file(name, depth)?,
            "include_if_exists" => match (self.read)(name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                _ => self.file(name, depth)?,
            },
            "include_dir" => self.folder(name, depth)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The files of a folder that end in `.conf` and do not begin with a dot, by name.
    fn folder(&mut self, name: &str, depth: usize) -> Result<(), Wrong> {
        let folder = format!("{}/", name.trim_end_matches('/'));
        let listed = self.bytes_of(&folder, depth)?.map_err(|error| unreadable(name, &error))?;
        let listed = String::from_utf8_lossy(&listed).into_owned();
        let mut names: Vec<&str> = listed.lines().collect();
        names.retain(|name| name.ends_with(".conf") && !name.starts_with('.'));
        names.sort_unstable();
        for name in names {
            self.file(&format!("{folder}{name}"), depth)?;
        }
        Ok(())
    }

    /// The field with the words of its `@files` in their places.
    fn expanded(&mut self, field: Field, file: &str, depth: usize) -> Result<Field, Wrong> {
        let mut words = Vec::new();
        for word in field {
            match word.text.strip_prefix('@').filter(|name| !word.has_quotes && !name.is_empty()) {
                Some(name) => words.extend(self.words_of(&beside(file, name), depth + 1)?),
                None => words.push(word),
            }
            self.words += 1;
            if self.words > WORDS_MAX {
                return Err(self.over("one more name".to_owned(), format!("at most {WORDS_MAX}")));
            }
        }
        if words.is_empty() {
            return Err(Wrong::new("a file without names", "a name in it"));
        }
        Ok(words)
    }

    /// All words of a file, whichever lines and fields they are in.
    fn words_of(&mut self, name: &str, depth: usize) -> Result<Field, Wrong> {
        let bytes = self.bytes_of(name, depth)?.map_err(|error| unreadable(name, &error))?;
        let mut words = Vec::new();
        for (number, line) in joined_lines(&bytes) {
            let place =
                |wrong: Wrong| Wrong { found: format!("{} (line {number} of {})", wrong.found, quoted(name)), ..wrong };
            let text = String::from_utf8(line).ok().filter(|text| !text.contains('\0'));
            let text = text.ok_or_else(|| place(Wrong::new("bytes that are no text", "text in UTF-8")))?;
            for field in fields_of(&text).map_err(place)? {
                words.extend(self.expanded(field, name, depth)?);
            }
        }
        Ok(words)
    }
}

fn unreadable(name: &str, error: &io::Error) -> Wrong {
    let why = match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".to_owned(),
        io::ErrorKind::PermissionDenied => "it may not be read".to_owned(),
        kind => kind.to_string(),
    };
    Wrong::new(format!("{}: {why}", quoted(name)), "a file that can be read")
}

/// A file named in another one.
fn beside(file: &str, name: &str) -> String {
    match file.rsplit_once('/') {
        Some((folder, _)) if !name.starts_with('/') => format!("{folder}/{name}"),
        _ => name.to_owned(),
    }
}

/// Lines with the number of the first of those that a backslash joins.
fn joined_lines(bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
    let mut lines: Vec<(u32, Vec<u8>)> = Vec::new();
    let mut goes_on = false;
    for (number, line) in (1..).zip(bytes.split(|byte| *byte == b'\n')) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let (text, more) = line.strip_suffix(b"\\").map_or((line, false), |text| (text, true));
        match lines.last_mut().filter(|_| goes_on) {
            Some((_, last)) => last.extend_from_slice(text),
            None => lines.push((number, text.to_vec())),
        }
        goes_on = more;
    }
    lines
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '\x0b' | '\x0c')
}

/// The fields of a line, before `@files` are read. None on a line that says nothing.
fn fields_of(line: &str) -> Result<Vec<Field>, Wrong> {
    let mut fields: Vec<Field> = Vec::new();
    let mut chars = line.chars();
    let mut joins = false;
    while let Some(c) = chars.clone().next().filter(|c| *c != '#') {
        match c {
            c if is_blank(c) => {
                chars.next();
            }
            ',' => {
                joins = !fields.is_empty();
                chars.next();
            }
            _ => {
                let word = word(&mut chars)?;
                match fields.last_mut().filter(|_| joins) {
                    Some(field) => field.push(word),
                    None => fields.push(vec![word]),
                }
                joins = false;
            }
        }
    }
    Ok(fields)
}

/// The words of a text that is no line of a file.
pub(crate) fn words_of(text: &str) -> Result<Vec<Word>, Wrong> {
    Ok(fields_of(text)?.into_iter().flatten().collect())
}

/// The word that begins there; what follows it stays.
fn word(chars: &mut Chars) -> Result<Word, Wrong> {
    let mut word = Word { text: String::new(), has_quotes: chars.as_str().starts_with('"') };
    let mut inside = false;
    while let Some(c) = chars.clone().next().filter(|&c| inside || !(is_blank(c) || c == ',' || c == '#')) {
        chars.next();
        if c != '"' {
            word.text.push(c);
        } else if inside && chars.as_str().starts_with('"') {
            chars.next();
            word.text.push('"');
        } else {
            inside = !inside;
        }
    }
    match inside {
        // What has no end may be a password.
        true => Err(Wrong::new("a quote without an end", "a closing \" on the same line")),
        false => Ok(word),
    }
}
