//! The manual has what the program says: docs/guide/errors.md each error that clients are sent, with its SQLSTATE,
//! docs/guide/log-lines.md each line of the log, and docs/guide/console.md each column of SHOW.
//!
//! What the program says is read from the transcripts and from literals of the code beside a SQLSTATE or a level; a text that is put
//! together elsewhere is found by its transcript only. In turn each row of the pages has words that stand in the code. What a
//! row says of the cause and the cure, nobody checks.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::Finding;
use crate::lexer::{Kind, Token};
use crate::source::Source;
use crate::tree::Tree;

const ERRORS: &str = "docs/guide/errors.md";
const LINES: &str = "docs/guide/log-lines.md";
const CONSOLE: &str = "docs/guide/console.md";
/// What makes the tables of SHOW.
const TABLES: &str = "crates/control/src/admin/";
const TRANSCRIPTS: &str = "crates/pooling/tests/transcripts/";
const RULE: &str = "the manual lists what the program says";
/// Whose words clients and logs get as literals beside a SQLSTATE or a level. What others put together (`config`, `authorities`, `tls`) comes
/// behind words of these.
const SPEAKERS: [&str; 18] = [
    "archive",
    "auth",
    "connections",
    "control",
    "coordinator",
    "door",
    "engine",
    "handover",
    "link",
    "machine",
    "monitor",
    "names",
    "pgweir",
    "prober",
    "queueing",
    "session_state",
    "wire",
    "worker",
];
/// What may come behind a text: what was lost with a server, a slow statement.
const TAILS: [&str; 2] = [" (lost with it: ", " statement: "];
/// How a transcript begins a line of the log.
const LEVELS: [&str; 3] = ["log", "warning", "error"];
const ANY: char = '…';
/// How a table of reasons begins.
const REASONS: &str = "| `closing because:` |";

/// A row of a page: the codes in front of it, its text in backticks.
#[derive(Debug)]
struct Row<'a> {
    line: usize,
    codes: Vec<&'a str>,
    text: &'a str,
    /// Its table has reasons of `closing because:`, no whole lines.
    is_reason: bool,
}

/// What the program says, and where that was found.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Said {
    path: String,
    line: usize,
    /// Of an error, as far as it is known.
    code: Option<String>,
    text: String,
}

pub(crate) fn check(tree: &Tree, sources: &[Source<'_>]) -> Vec<Finding> {
    let (Some(errors), Some(lines)) = (tree.text(ERRORS), tree.text(LINES)) else { return Vec::new() };
    let (errors, lines) = (rows(errors), rows(lines));
    let Spoken { to_clients, by_servers } = Spoken::of(tree);
    let speakers: Vec<&Source<'_>> = sources.iter().filter(|source| speaks(source)).collect();
    let literals = literals(&speakers);
    let mut said = errors_of_sources(&speakers);
    // A server may say what is also ours.
    said.extend(to_clients.into_iter().filter(|said| !by_servers.contains(without_tail(&said.text))));
    let missing = said.iter().filter(|said| !errors.iter().any(|row| row.has(said)));
    let mut found: Vec<Finding> = missing.map(|said| said.missing_in(ERRORS)).collect();
    let mut logged = lines_of_sources(&speakers);
    logged.extend(lines_of_transcripts(tree, &by_servers));
    let missing = logged.iter().filter(|said| !is_listed(said, &lines, &errors));
    found.extend(missing.map(|said| said.missing_in(LINES)));
    for (page, rows) in [(ERRORS, &errors), (LINES, &lines)] {
        let gone = rows.iter().filter(|row| !row.is_in(&literals));
        found.extend(gone.map(|row| Finding::new(page, row.line, format!("`{}` is not in the code", row.text), RULE)));
    }
    found
}

impl Row<'_> {
    fn has(&self, said: &Said) -> bool {
        let is_code = said.code.as_ref().is_none_or(|code| self.codes.contains(&code.as_str()));
        is_code && fits(self.text, &said.text)
    }

    /// Each piece of several words stands in a literal; without one, the whole is a literal.
    fn is_in(&self, literals: &BTreeSet<String>) -> bool {
        let pieces = self.text.split([ANY, '"', '\'', ',', ':', '(', ')']).map(str::trim);
        let pieces: Vec<&str> = pieces.filter(|piece| piece.contains(' ')).collect();
        let is_in_one = |piece: &&str| literals.iter().any(|text| text.contains(piece));
        if pieces.is_empty() { literals.iter().any(|text| fits(self.text, text)) } else { pieces.iter().all(is_in_one) }
    }
}

impl Said {
    fn missing_in(&self, page: &str) -> Finding {
        let code = self.code.as_deref().unwrap_or_default();
        Finding::new(&self.path, self.line, format!("{page} lacks {code} `{}`", self.text), RULE)
    }
}

/// Columns of SHOW that the page of the console lacks. It has those of SHOW STATS in words: there are two of each.
pub(crate) fn columns(tree: &Tree, sources: &[Source<'_>]) -> Vec<Finding> {
    let Some(page) = tree.text(CONSOLE) else { return Vec::new() };
    let tables = sources.iter().filter(|source| source.path.starts_with(TABLES) && !source.path.contains("show_stats"));
    let mut found = Vec::new();
    for source in tables {
        for tokens in source.code.windows(4).filter(|tokens| !source.is_test_line(tokens[0].line)) {
            let [before, kind, opening, name] = tokens else { continue };
            let is_column = ["int", "text", "numeric", "bytea"].contains(&kind.text) && opening.text == "(";
            // A method of that name writes a value.
            let is_column = is_column && is_text(name) && before.text != ".";
            let (line, name) = (name.line, printed(name.text));
            if is_column && !name.is_empty() && !page.contains(&format!("`{name}`")) {
                let what = format!("{CONSOLE} lacks the column `{name}`");
                found.push(Finding::new(source.path, line, what, RULE));
            }
        }
    }
    found
}

/// A reason of `closing because:` is a row of its own, or the error that the client got.
fn is_listed(said: &Said, lines: &[Row<'_>], errors: &[Row<'_>]) -> bool {
    let is_in = |mut rows: std::slice::Iter<'_, Row<'_>>, is_reason, text: &str| {
        rows.any(|row| row.is_reason == is_reason && fits(row.text, text))
    };
    let is_known = |reason| is_in(lines.iter(), true, reason) || is_in(errors.iter(), false, reason);
    // A literal beside a level may be given to what writes `closing because:` in front of it.
    let is_literal_reason =
        said.path.ends_with(".rs") && lines.iter().any(|row| row.is_reason && row.text == said.text);
    is_in(lines.iter(), false, &said.text) || is_literal_reason || reason(&said.text).is_some_and(is_known)
}

fn without_tail(text: &str) -> &str {
    TAILS.iter().fold(text, |text, tail| text.split(tail).next().unwrap_or(text))
}

/// Whether a text is as a row has it: a `…` of the row stands for anything.
fn fits(row: &str, text: &str) -> bool {
    // What is put behind a text of the code may be nothing.
    let text = text.strip_suffix(ANY).filter(|text| *text == row).unwrap_or(text);
    let text = without_tail(text);
    let mut parts = row.split(ANY);
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        let at =
            if is_last { rest.len().checked_sub(part.len()).filter(|_| rest.ends_with(part)) } else { rest.find(part) };
        let Some(at) = at else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

/// Rows whose first or second cell is a text in backticks.
fn rows(page: &str) -> Vec<Row<'_>> {
    let (mut rows, mut is_reason) = (Vec::new(), false);
    for (line, row) in (1..).zip(page.lines()) {
        if row.starts_with('#') {
            is_reason = false;
        }
        if !row.starts_with("| ") {
            continue;
        }
        if row.starts_with(REASONS) {
            is_reason = true;
            continue;
        }
        let mut cells = row.split(" | ").map(|cell| cell.trim_start_matches("| "));
        let first = cells.next().unwrap_or_default();
        let (codes, cell) = if first.starts_with('`') {
            (Vec::new(), first)
        } else {
            (first.split(", ").collect(), cells.next().unwrap_or_default())
        };
        if let Some(text) = cell.split('`').nth(1) {
            rows.push(Row { line, codes, text, is_reason });
        }
    }
    rows
}

fn speaks(source: &Source<'_>) -> bool {
    let name = source.path.strip_prefix("crates/").and_then(|rest| rest.split_once("/src/"));
    name.is_some_and(|(name, file)| SPEAKERS.contains(&name) && !file.contains("_tests") && !file.contains("chaos"))
        && !source.is_test
}

/// A literal of the code as it is printed, with `…` for what is put into it.
fn printed(literal: &str) -> String {
    let inner = literal.trim_start_matches('b');
    let inner = inner.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(inner);
    let (mut text, mut chars) = (String::new(), inner.chars().peekable());
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                // The text goes on in the next line.
                Some('\n') => while chars.next_if(|c| c.is_whitespace()).is_some() {},
                Some(other) => text.push(other),
                None => {}
            },
            '{' if chars.next_if_eq(&'{').is_none() => {
                chars.by_ref().find(|c| *c == '}');
                text.push(ANY);
            }
            c => text.push(c),
        }
    }
    text
}

fn is_text(token: &Token<'_>) -> bool {
    token.kind == Kind::Literal && token.text.starts_with('"')
}

fn literals(sources: &[&Source<'_>]) -> BTreeSet<String> {
    let tokens = sources.iter().flat_map(|source| {
        source
            .code
            .iter()
            .filter(|token| is_text(token) || token.text.starts_with("b\""))
            .filter(|token| !source.is_test_line(token.line))
    });
    tokens.map(|token| printed(token.text)).collect()
}

/// The literal that is the next argument at `at`, or what is given to its `format!`.
fn argument<'a>(source: &'a Source<'_>, at: usize) -> Option<&'a Token<'a>> {
    let at = if source.reads(at, &["format", "!", "("]) { at + 3 } else { at };
    source.code.get(at).filter(|token| is_text(token))
}

/// A literal behind a SQLSTATE, and any message.
fn errors_of_sources(sources: &[&Source<'_>]) -> Vec<Said> {
    let codes = codes(sources);
    let mut said = Vec::new();
    for source in sources {
        for at in (0..source.code.len()).filter(|at| !source.is_test_line(source.code[*at].line)) {
            let (code, text) = if source.reads(at, &["sqlstate", "::"]) && source.reads(at + 3, &[","]) {
                (codes.get(source.code[at + 2].text).cloned(), argument(source, at + 4))
            } else if source.reads(at, &["message", ":"]) {
                (None, argument(source, at + 2))
            } else {
                continue;
            };
            let Some(text) = text else { continue };
            said.push(Said { path: source.path.to_owned(), line: text.line, code, text: printed(text.text) });
        }
    }
    said
}

/// The SQLSTATEs by their names, as `wire` has them.
fn codes(sources: &[&Source<'_>]) -> BTreeMap<String, String> {
    let home = sources.iter().filter(|source| source.path.ends_with("wire/src/sqlstate.rs"));
    let mut codes = BTreeMap::new();
    for tokens in home.flat_map(|source| source.code.windows(3)) {
        if tokens[0].kind == Kind::Word && tokens[1].text == "=" && tokens[2].text.starts_with("b\"") {
            codes.insert(tokens[0].text.to_owned(), printed(tokens[2].text));
        }
    }
    codes
}

/// A literal behind a level, or behind a level and a topic.
fn lines_of_sources(sources: &[&Source<'_>]) -> Vec<Said> {
    let mut said = Vec::new();
    for source in sources {
        for at in (0..source.code.len()).filter(|at| !source.is_test_line(source.code[*at].line)) {
            if !(source.reads(at, &["Level", "::"]) && source.reads(at + 3, &[","])) {
                continue;
            }
            let has_topic = source.reads(at + 4, &["Topic", "::"]) && source.reads(at + 7, &[","]);
            let Some(text) = argument(source, if has_topic { at + 8 } else { at + 4 }) else { continue };
            said.push(Said { path: source.path.to_owned(), line: text.line, code: None, text: printed(text.text) });
        }
    }
    said
}

fn transcripts(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.texts().filter(|(path, _)| path.starts_with(TRANSCRIPTS) && path.ends_with(".txt"))
}

/// What transcripts have clients and servers say.
struct Spoken {
    to_clients: Vec<Said>,
    by_servers: BTreeSet<String>,
}

impl Spoken {
    fn of(tree: &Tree) -> Spoken {
        let mut spoken = Spoken { to_clients: Vec::new(), by_servers: BTreeSet::new() };
        for (path, text) in transcripts(tree) {
            for (line, text) in (1..).zip(text.lines()) {
                spoken.hear(path, line, text);
            }
        }
        spoken
    }

    fn hear(&mut self, path: &str, line: usize, text: &str) {
        let receiver = text.split_once(" <- ").map(|(receiver, _)| receiver.trim());
        let is_to_client =
            receiver.is_some_and(|name| name.starts_with(|c: char| c.is_ascii_lowercase()) && !name.contains('"'));
        for (code, message) in errors_in(text) {
            if is_to_client {
                self.to_clients.push(Said { path: path.to_owned(), line, code: Some(code), text: message });
            } else {
                self.by_servers.insert(message);
            }
        }
    }
}

/// Errors as a transcript writes them: `FATAL 08P01 "…"`, or their fields. Notices are none.
fn errors_in(line: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for severity in ["FATAL ", "ERROR ", "PANIC "] {
        for (at, _) in line.match_indices(severity) {
            let rest = &line[at + severity.len()..];
            let Some((code, rest)) = rest.split_at_checked(5) else { continue };
            found.extend(rest.strip_prefix(' ').and_then(quoted).map(|text| (code.to_owned(), text)));
        }
    }
    for rest in line.split("ErrorResponse S=").skip(1) {
        let field = |name: &str| rest.split_once(name).and_then(|(_, rest)| quoted(rest).or_else(|| word(rest)));
        found.extend(field(" C=").zip(field(" M=")));
    }
    found
}

fn word(rest: &str) -> Option<String> {
    rest.split_whitespace().next().map(str::to_owned)
}

/// The text in double quotes at the beginning.
fn quoted(rest: &str) -> Option<String> {
    let (mut text, mut chars) = (String::new(), rest.strip_prefix('"')?.chars());
    while let Some(c) = chars.next() {
        match c {
            '"' => return Some(text),
            '\\' => text.extend(chars.next()),
            c => text.push(c),
        }
    }
    None
}

/// Lines of the log, without those of settings for tests and those that repeat a server.
fn lines_of_transcripts(tree: &Tree, by_servers: &BTreeSet<String>) -> Vec<Said> {
    let mut said = Vec::new();
    for (path, text) in transcripts(tree) {
        for (line, text) in (1..).zip(text.lines()) {
            let Some(text) = logged(text) else { continue };
            let is_of_server = reason(text).is_some_and(|reason| by_servers.contains(reason));
            if !is_of_server && !text.contains("chaos_") {
                said.push(Said { path: path.to_owned(), line, code: None, text: text.to_owned() });
            }
        }
    }
    said
}

/// The text behind `log 1: ` or `warning: `.
fn logged(line: &str) -> Option<&str> {
    let line = line.strip_prefix("    ")?;
    let (who, text) = line.split_once(": ")?;
    let mut words = who.split(' ');
    let is_log = LEVELS.contains(&words.next()?) && words.count() <= 1;
    is_log.then_some(text)
}

/// Why a connection was closed.
fn reason(text: &str) -> Option<&str> {
    let reason = text.strip_prefix("closing because: ")?;
    let end = reason.find(" (age=").into_iter().chain(TAILS.iter().filter_map(|tail| reason.find(tail))).min();
    Some(&reason[..end.unwrap_or(reason.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(errors: &str, lines: &str, code: &str, transcript: &str) -> Vec<String> {
        let sqlstates = "//! Codes.\ncodes! { PROTOCOL_VIOLATION = b\"08P01\"; }\n";
        let path = format!("{TRANSCRIPTS}a.txt");
        let files = [
            (ERRORS, errors),
            (LINES, lines),
            ("crates/wire/src/sqlstate.rs", sqlstates),
            ("crates/door/src/lib.rs", code),
            (path.as_str(), transcript),
        ];
        let tree = Tree::of(&files);
        let sources = tree.sources();
        check(&tree, &sources).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_error_that_the_page_lacks_is_found_in_code_and_transcripts() {
        let code = "//! A door.\nfn f() { Err(Refused(sqlstate::PROTOCOL_VIOLATION, format!(\"no {what} here\"))) }\n";
        let page = "| 08P01 | FATAL `no … here` | cause |\n";
        assert_eq!(found(page, "", code, "    a <- FATAL 08P01 \"no cat here\"\n"), Vec::<String>::new());
        assert_eq!(found("", "", code, "").len(), 1, "the code says it");
        let other = "| 28000 | FATAL `no … here` | cause |\n";
        assert_eq!(found(other, "", code, "    a <- FATAL 08P01 \"no cat here\"\n").len(), 2, "another code");
        assert_eq!(found(page, "", code, "    a <- FATAL 08P01 \"a dog is here\"\n").len(), 1, "another text");
        let of_a_server = "server 1: ERROR 08P01 \"a dog is here\"\n    a <- ERROR 08P01 \"a dog is here\"\n";
        assert_eq!(found(page, "", code, of_a_server), Vec::<String>::new(), "PostgreSQL's own words");
    }

    #[test]
    fn a_line_of_the_log_that_the_page_lacks_is_found() {
        let code = "//! A door.\nfn f() { log(Level::Log, Topic::General, \"it is here\".to_owned()) }\n";
        let page = "| `it is here` | meaning |\n";
        assert_eq!(found("", page, code, "    log 1: it is here\n"), Vec::<String>::new());
        assert_eq!(found("", "", code, "").len(), 1);
        let closed = "    log a: closing because: it has gone (age=1s)\n";
        assert_eq!(found("", page, code, closed).len(), 1, "a reason that no page has");
        let reason = "| `closing because:` | meaning |\n|---|---|\n| `it … gone` | meaning |\n";
        let said = "//! A door.\nconst WHY: &str = \"it has gone\";\n";
        assert_eq!(found("", reason, said, closed), Vec::<String>::new());
        assert_eq!(found("", reason, said, "    log a: it has gone\n").len(), 1, "a reason is no line");
    }

    #[test]
    fn a_column_that_the_page_lacks_is_found() {
        let code = "//! A table.\nconst COLUMNS: &[Column] = &[text(\"name\"), int(\"count\")];\n";
        let files = [(CONSOLE, "| `MEM` | kind | `name` |\n"), ("crates/control/src/admin/show_mem.rs", code)];
        let tree = Tree::of(&files);
        let found = columns(&tree, &tree.sources());
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].to_string().contains("`count`"), "{found:?}");
    }

    #[test]
    fn a_row_whose_words_are_not_in_the_code_is_found() {
        let code = "//! A door.\nconst TEXT: &str = \"one \\\n    line\";\n";
        assert_eq!(found("| 08P01 | FATAL `one line` | cause |\n", "", code, ""), Vec::<String>::new());
        assert_eq!(found("| 08P01 | FATAL `two lines` | cause |\n", "", code, "").len(), 1);
        let code = "//! A door.\nconst TEXTS: [&str; 2] = [\"evicted\", \"{what} failed: {why}\"];\n";
        assert_eq!(found("", "| `evicted` | a |\n| `… failed: …` | b |\n", code, ""), Vec::<String>::new());
        assert_eq!(found("", "| `evict` | a |\n| `… fails: …` | b |\n", code, "").len(), 2, "a word of another text");
    }
}
