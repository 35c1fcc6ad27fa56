//! class_file: which clients are in which class, one rule a line, and the first that fits decides.
//!
//! ```text
//!   # database   user        application      tag                class
//!   all          all         sidekiq*         all                background
//!   shop,mail    "the boss"  all              action:export*     reports
//! ```
//!
//! Promises to read what is written as in PostgreSQL's pg_hba.conf: blanks between fields, commas between names, double
//! quotes around what holds either of them or would mean something else (a doubled one stands for itself), `#` for
//! comments. `all` fits anything; a `*` after a name, outside of the quotes, fits all names that begin with it; `""` is
//! the empty name. Every mistake is reported with its line. Does not read other files, roles, addresses or regular
//! expressions: a name that looks like one has to stand in quotes.

use queueing::classes::{Class, ClassId, Pattern, Rule, TagPattern};

use crate::problem::{PROBLEMS_MAX, Place, Problem, clean, quoted};

/// What each login, and each transaction where tags are looked at, may cost is bounded by it.
pub(crate) const RULES_MAX: usize = 10_000;
/// As many rules of a hundred characters.
pub const FILE_BYTES_MAX: usize = 1 << 20;

const FIELDS: [&str; 5] = ["database", "user", "application", "tag", "class"];
/// So many are listed where one of them was expected.
const CLASSES_SHOWN_MAX: usize = 12;

/// A rule and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleLine {
    /// Counted from 1.
    pub line: u32,
    pub rule: Rule,
}

/// The rules of the file; what is wrong with it goes to `problems`, as errors.
#[must_use]
pub fn parse(file: &str, bytes: &[u8], classes: &[Class], problems: &mut Vec<Problem>) -> Vec<RuleLine> {
    let mut place = Place { file: file.to_owned(), line: 0 };
    if bytes.len() > FILE_BYTES_MAX {
        let expected = format!("at most {FILE_BYTES_MAX}");
        problems.push(Problem::error(&place, "", format!("{} bytes or more", bytes.len()), expected));
        return Vec::new();
    }
    let mut rules = Vec::new();
    let known_before = problems.len();
    for line in bytes.split(|byte| *byte == b'\n') {
        if problems.len() - known_before >= PROBLEMS_MAX {
            break;
        }
        place.line += 1;
        let Some(rule) = rule(line, classes, &place, problems) else { continue };
        if rules.len() == RULES_MAX {
            problems.push(Problem::error(&place, "", "one more rule".to_owned(), format!("at most {RULES_MAX}")));
            break;
        }
        rules.push(RuleLine { line: place.line, rule });
    }
    rules
}

/// The rule on a line; `None` if there is none. One with a mistake is reported and ignored.
fn rule(line: &[u8], classes: &[Class], place: &Place, problems: &mut Vec<Problem>) -> Option<Rule> {
    let mut wrong = |key: &str, found: String, expected: &str| {
        problems.push(Problem::error(place, key, found, expected.to_owned()));
    };
    let Some(line) = std::str::from_utf8(line).ok().filter(|line| !line.contains('\0')) else {
        wrong("", "bytes that are no text".to_owned(), "text in UTF-8");
        return None;
    };
    let fields = match fields(line) {
        Ok(fields) if fields.is_empty() => return None,
        Ok(fields) => fields,
        Err(Wrong { field, found, expected }) => {
            wrong(FIELDS.get(field).copied().unwrap_or(""), found, expected);
            return None;
        }
    };
    let [databases, users, applications, tags, class] = fields.as_slice() else {
        let found = match fields.len() {
            1 => "1 field".to_owned(),
            count => format!("{count} fields"),
        };
        wrong("", found, &format!("five: {}", FIELDS.join(" ")));
        return None;
    };
    // Both are read, so that mistakes in both are reported.
    let tags = tag_patterns(tags).map_err(|found| wrong("tag", found, "all, or key:value"));
    let class = class_of(class, classes).map_err(|(found, expected)| wrong("class", found, &expected));
    let patterns = |words: &[Word]| words.iter().map(|word| word.pattern(0)).collect();
    Some(Rule {
        databases: patterns(databases),
        users: patterns(users),
        applications: patterns(applications),
        tags: tags.ok()?,
        class: class.ok()?,
    })
}

/// What is found where a key and a value were expected is the error.
fn tag_patterns(words: &[Word]) -> Result<Vec<TagPattern>, String> {
    let mut tags = Vec::new();
    for word in words {
        if word.pattern(0) == Pattern::All {
            // Beside it nothing else matters.
            return Ok(Vec::new());
        }
        let colon = word.colon.filter(|colon| is_key(&word.text[..*colon])).ok_or_else(|| word.shown())?;
        tags.push(TagPattern { key: word.text.as_bytes()[..colon].into(), value: word.pattern(colon + 1) });
    }
    Ok(tags)
}

/// Other keys are none that a comment could have: `sql::comment_tags`.
fn is_key(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

/// The class by its name, or what was found and what was expected.
fn class_of(words: &[Word], classes: &[Class]) -> Result<ClassId, (String, String)> {
    let [word] = words else {
        return Err((format!("{} names", words.len()), "one class".to_owned()));
    };
    let index = classes.iter().position(|class| *class.name == *word.text).filter(|_| !word.has_star);
    if let Some(index) = index.and_then(|index| u8::try_from(index).ok()) {
        return Ok(ClassId(index));
    }
    let names: Vec<&str> = classes.iter().map(|class| &*class.name).collect();
    let mut expected = match names.as_slice() {
        [only] => format!("{only}, since [classes] has no other"),
        [default, others @ ..] => {
            let shown = others[..others.len().min(CLASSES_SHOWN_MAX)].join(", ");
            let more = if others.len() > CLASSES_SHOWN_MAX { ", …" } else { "" };
            format!("a class of [classes], {shown}{more}, or {default}")
        }
        [] => unreachable!("there is always the default class"),
    };
    if let Some(near) = settings::nearest(&word.text, &names) {
        expected.push_str(&format!("; did you mean {near}?"));
    }
    // A class with an impossible name is reported elsewhere, and not printed here.
    Err((word.shown(), clean(&expected)))
}

/// One name of a list, without its quotes.
#[derive(Debug, Default)]
struct Word {
    text: String,
    /// Without quotes a name may have a meaning.
    has_quotes: bool,
    /// It ended with a star outside of quotes, which is not in the text.
    has_star: bool,
    /// Where its first colon outside of quotes is.
    colon: Option<usize>,
}

impl Word {
    /// Of the text from there on.
    fn pattern(&self, from: usize) -> Pattern {
        let text = &self.text[from..];
        match (self.has_star, text) {
            (true, "") => Pattern::All,
            (true, _) => Pattern::BeginsWith(text.as_bytes().into()),
            (false, "all") if from == 0 && !self.has_quotes => Pattern::All,
            (false, _) => Pattern::Exactly(text.as_bytes().into()),
        }
    }

    fn shown(&self) -> String {
        let star = if self.has_star { "*" } else { "" };
        quoted(&format!("{}{star}", self.text))
    }
}

/// What is wrong with a line, and in which of its fields, counted from 0.
struct Wrong {
    field: usize,
    found: String,
    expected: &'static str,
}

/// The fields of a line, each with its names; none on a line that says nothing.
fn fields(line: &str) -> Result<Vec<Vec<Word>>, Wrong> {
    let mut fields = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() && !rest.starts_with('#') {
        let field = fields.len();
        let mut words = Vec::new();
        loop {
            let (word, after) =
                word(rest).map_err(|(found, expected)| Wrong { field, found: quoted(found), expected })?;
            words.push(word);
            rest = after.trim_start();
            match rest.strip_prefix(',') {
                Some(after) => rest = after.trim_start(),
                None => break,
            }
        }
        fields.push(words);
    }
    Ok(fields)
}

/// The word at the beginning of a text and what follows it, or what is wrong with it.
fn word(text: &str) -> Result<(Word, &str), (&str, &'static str)> {
    let ends = |c: char| c.is_whitespace() || c == ',' || c == '#';
    // As far as there are no quotes.
    let shown = || &text[..text.find(ends).unwrap_or(text.len())];
    let mut word = Word::default();
    let mut rest = text;
    if rest.starts_with(['@', '+', '/', '!']) {
        let expected = "a name, in double quotes if it begins so: files, roles and regular expressions are not read";
        return Err((shown(), expected));
    }
    while let Some(c) = rest.chars().next().filter(|c| !ends(*c)) {
        if word.has_star {
            return Err((shown(), "a * at the end only; in double quotes it is a character as any other"));
        }
        if c == '"' {
            let (inside, after) = within_quotes(&rest[1..]).ok_or((shown(), "a closing \" on the same line"))?;
            word.text.push_str(&inside);
            word.has_quotes = true;
            rest = after;
            continue;
        }
        match c {
            '*' => word.has_star = true,
            ':' if word.colon.is_none() => {
                word.colon = Some(word.text.len());
                word.text.push(c);
            }
            _ => word.text.push(c),
        }
        rest = &rest[c.len_utf8()..];
    }
    if rest.len() == text.len() {
        return Err((shown(), "a name before and after each comma"));
    }
    Ok((word, rest))
}

/// What stands before the closing quote, and what follows it.
fn within_quotes(text: &str) -> Option<(String, &str)> {
    let mut inside = String::new();
    let mut rest = text;
    loop {
        let end = rest.find('"')?;
        inside.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(after) => {
                inside.push('"');
                rest = after;
            }
            None => return Some((inside, rest)),
        }
    }
}
