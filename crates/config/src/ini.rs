//! The ini file as PgBouncer reads it: sections, assignments, comments, `%include`.
//!
//! Promises to terminate within the bounds below on any bytes, and to go on after a mistake, so that one run finds all
//! of them. PgBouncer stops at the first; what either of them accepts means the same. Does not know any setting.

use std::io;

use crate::problem::{PROBLEMS_MAX, Place, Problem, quoted};

/// As in PgBouncer.
const INCLUDE_DEPTH_MAX: usize = 10;
/// Files that include each other twice would multiply without end in sight.
const FILES_MAX: usize = 1000;
/// No ini file is that large; one that is was given by mistake.
pub const FILE_BYTES_MAX: usize = 16 << 20;
/// Of all files together.
const TOTAL_BYTES_MAX: usize = 64 << 20;

/// Sections and assignments of all files together; each takes more memory than its text.
const ITEMS_MAX: usize = 250_000;

/// How files are read: by name, at most `FILE_BYTES_MAX` and one more byte.
pub type Read<'a> = dyn Fn(&str) -> io::Result<Vec<u8>> + 'a;

#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    Section(String),
    Assignment { key: String, value: String },
}

/// Items in the order of reading, those of an included file where it is included.
pub struct Reader<'a> {
    read: &'a Read<'a>,
    pub items: Vec<(Place, Item)>,
    pub problems: Vec<Problem>,
    files: usize,
    bytes: usize,
}

impl<'a> Reader<'a> {
    #[must_use]
    pub(crate) fn new(read: &'a Read<'a>) -> Reader<'a> {
        Reader { read, items: Vec::new(), problems: Vec::new(), files: 0, bytes: 0 }
    }

    /// Reads a file and what it includes. `at` is where the file's name stands.
    pub(crate) fn file(&mut self, name: &str, at: &Place, depth: usize) {
        let refused = if depth > INCLUDE_DEPTH_MAX {
            Some(format!("at most {INCLUDE_DEPTH_MAX} files inside each other"))
        } else if self.files == FILES_MAX {
            Some(format!("at most {FILES_MAX} files"))
        } else {
            None
        };
        if let Some(expected) = refused {
            return self.wrong(Problem::error(at, "%include", "one more".to_owned(), expected));
        }
        self.files += 1;
        match (self.read)(name) {
            Err(error) => {
                let found = format!("{}: {}", quoted(name), words(&error));
                self.wrong(Problem::error(at, "", found, "a readable file".to_owned()));
            }
            Ok(bytes) => {
                self.bytes += bytes.len();
                if bytes.len() > FILE_BYTES_MAX || self.bytes > TOTAL_BYTES_MAX {
                    let found = format!("{}: {} bytes or more", quoted(name), bytes.len());
                    let expected = format!("at most {FILE_BYTES_MAX} bytes a file, {TOTAL_BYTES_MAX} in all");
                    return self.wrong(Problem::error(at, "", found, expected));
                }
                self.text(name, &bytes, depth);
            }
        }
    }

    fn text(&mut self, name: &str, bytes: &[u8], depth: usize) {
        let mut cursor = Cursor { bytes, at: 0, line: 1 };
        loop {
            cursor.skip_while(is_space);
            let place = Place { file: name.to_owned(), line: cursor.line };
            let Some(first) = cursor.peek() else { return };
            match first {
                b'#' | b';' => cursor.skip_while(|byte| byte != b'\n'),
                b'[' => self.section(&mut cursor, &place),
                b'%' => self.include(&mut cursor, &place, depth),
                _ => self.assignment(&mut cursor, &place),
            }
            if self.items.len() > ITEMS_MAX {
                let expected = format!("at most {ITEMS_MAX} lines that say something");
                return self.wrong(Problem::error(&place, "", "one more".to_owned(), expected));
            }
            if self.problems.len() >= PROBLEMS_MAX {
                return;
            }
        }
    }

    /// What follows the bracket on the same line is read on: PgBouncer's format has tokens rather than lines.
    fn section(&mut self, cursor: &mut Cursor, place: &Place) {
        cursor.at += 1;
        let name = cursor.take_while(|byte| byte != b']' && byte != b'\n');
        if cursor.peek() != Some(b']') {
            let found = quoted(&format!("[{}", String::from_utf8_lossy(name)));
            return self.wrong(Problem::error(place, "", found, "a closing ]".to_owned()));
        }
        cursor.at += 1;
        let name = String::from_utf8_lossy(name).into_owned();
        self.items.push((place.clone(), Item::Section(name)));
    }

    fn include(&mut self, cursor: &mut Cursor, place: &Place, depth: usize) {
        let line = cursor.rest_of_line();
        let name = line.strip_prefix(b"%include").filter(|rest| rest.first().is_some_and(|&byte| is_blank(byte)));
        match name.map(|name| std::str::from_utf8(name.trim_ascii())) {
            Some(Ok(name)) if !name.is_empty() && !name.contains('\0') => self.file(name, place, depth + 1),
            _ => {
                let found = quoted(&String::from_utf8_lossy(line));
                self.wrong(Problem::error(place, "", found, "%include and a file's name".to_owned()));
            }
        }
    }

    fn assignment(&mut self, cursor: &mut Cursor, place: &Place) {
        let start = cursor.at;
        let key = cursor.key();
        cursor.skip_while(is_blank);
        let (Some(key), Some(b'=')) = (key, cursor.peek()) else {
            cursor.at = start;
            let line = cursor.rest_of_line();
            // What stands after the = may be a password.
            let shown = line.split(|&byte| byte == b'=').next().unwrap_or(line).trim_ascii();
            let expected = "name = value, with a name that has other characters than letters, digits, _ . - and * in double quotes";
            return self.wrong(Problem::error(place, "", quoted(&String::from_utf8_lossy(shown)), expected.to_owned()));
        };
        cursor.at += 1;
        let value = cursor.rest_of_line().trim_ascii();
        match std::str::from_utf8(value) {
            Ok(value) if !value.contains('\0') => {
                let value = value.to_owned();
                self.items.push((place.clone(), Item::Assignment { key, value }));
            }
            _ => {
                let found = "bytes that are no text".to_owned();
                self.wrong(Problem::error(place, &key, found, "text in UTF-8".to_owned()));
            }
        }
    }

    fn wrong(&mut self, problem: Problem) {
        self.problems.push(problem);
    }
}

struct Cursor<'b> {
    bytes: &'b [u8],
    at: usize,
    line: u32,
}

impl<'b> Cursor<'b> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip_while(&mut self, test: impl Fn(u8) -> bool) {
        self.take_while(test);
    }

    fn take_while(&mut self, test: impl Fn(u8) -> bool) -> &'b [u8] {
        let start = self.at;
        while let Some(byte) = self.peek().filter(|&byte| test(byte)) {
            self.line += u32::from(byte == b'\n');
            self.at += 1;
        }
        &self.bytes[start..self.at]
    }

    fn rest_of_line(&mut self) -> &'b [u8] {
        self.take_while(|byte| byte != b'\n')
    }

    /// A bare name, or one in double quotes (a doubled quote stands for one) or single quotes.
    //= pgbouncer config.md#section-databases
    fn key(&mut self) -> Option<String> {
        let quote = self.peek().filter(|&byte| byte == b'"' || byte == b'\'');
        let Some(quote) = quote else {
            let bare = self.take_while(|byte| byte.is_ascii_alphanumeric() || b"_.-*".contains(&byte));
            return Some(String::from_utf8_lossy(bare).into_owned());
        };
        let mut name = Vec::new();
        loop {
            self.at += 1;
            name.extend_from_slice(self.take_while(|byte| byte != quote && byte != b'\n'));
            if self.peek() != Some(quote) {
                return None;
            }
            self.at += 1;
            if self.peek() != Some(quote) {
                break;
            }
            name.push(quote);
        }
        let name = String::from_utf8(name).ok()?;
        (!name.is_empty() && !name.contains('\0')).then_some(name)
    }
}

/// As C's `isspace` in the C locale.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// The system's words for an error, without Rust's number after them.
#[must_use]
pub(crate) fn words(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}
