//! The manual's pages of errors and of log lines have each reason of the tables (`units::reasons!`): on the page of errors with the SQLSTATEs
//! that a client may get with it, on the other if no client gets it. `UPDATE=1` writes SQLSTATEs and missing rows; cause and
//! cure of a new row are then written by hand in place of `?`.

use std::collections::BTreeMap;
use std::path::Path;

use connections::{Barred, Broken};
use door::refused::{LookupEnd, Refused};
use link::end_reason::EndReason;
use link::request_refusal::RequestRefusal;
use link::server::CloseReason;
use units::reasons::printed;
use wire::SqlState;

use crate::ROOT;

const ERRORS: &str = "docs/guide/errors.md";
const LINES: &str = "docs/guide/log-lines.md";
const CONSOLE: &str = "## On the console";

type Rows = &'static [(&'static [SqlState], &'static str)];

/// Each table, with the headings under which its new rows are put: on the page of errors, and on that of log lines.
const TABLES: [(Rows, &str, &str); 7] = [
    (Refused::ROWS, "## Logging in", "### Why a client's connection ended"),
    (EndReason::ROWS, "## Running statements", "### Why a client's connection ended"),
    (RequestRefusal::ROWS, "## Waiting for a server", "### Why a client's connection ended"),
    (Barred::ROWS, "## Running statements", "### Why a client's connection ended"),
    (CloseReason::ROWS, "## The server is gone", "### Why a server's connection ended"),
    (Broken::ROWS, "## The server is gone", "### Why a server's connection ended"),
    (LookupEnd::ROWS, "## The server is gone", "### Why a server's connection ended"),
];

/// A page, line by line.
struct Page {
    lines: Vec<String>,
}

/// A row of a page: its line, the SQLSTATEs in front, and the texts in backticks behind them.
struct Row {
    at: usize,
    codes: Vec<String>,
    texts: Vec<String>,
}

impl Page {
    /// Of the console, whose section is the last, those that end a session: no table has its other errors.
    fn rows(&self) -> Vec<Row> {
        let console = self.lines.iter().position(|line| line == CONSOLE).unwrap_or(self.lines.len());
        let is_counted = |(at, line): &(usize, &String)| *at < console || line.contains(" | FATAL ");
        self.lines.iter().enumerate().filter(is_counted).filter_map(|(at, line)| row(at, line)).collect()
    }

    /// Puts a row at the end of the first table under a heading.
    fn add(&mut self, heading: &str, row: String) {
        let start = self.lines.iter().position(|line| line == heading).unwrap_or_else(|| panic!("no {heading}"));
        let is_row = |line: &String| line.starts_with('|');
        let first = start + self.lines[start..].iter().position(is_row).expect("a table follows");
        let len = self.lines[first..].iter().position(|line| !is_row(line)).unwrap_or(self.lines.len() - first);
        self.lines.insert(first + len, row);
    }
}

fn row(at: usize, line: &str) -> Option<Row> {
    let mut cells = line.strip_prefix("| ")?.split(" | ");
    let first = cells.next()?;
    let (codes, cell) = match first.starts_with('`') {
        true => (Vec::new(), first),
        false => (first.split(", ").map(str::to_owned).collect(), cells.next()?),
    };
    let texts: Vec<String> = cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
    (!texts.is_empty()).then_some(Row { at, codes, texts })
}

/// The texts of the tables: under which headings they belong, and the SQLSTATEs of each. Words of one field alone are another table's.
fn reasons() -> BTreeMap<String, (&'static str, &'static str, Vec<String>)> {
    let mut reasons = BTreeMap::new();
    for (rows, of_errors, of_lines) in TABLES {
        for (codes, words) in rows {
            let text = printed(words);
            if text == "…" {
                continue;
            }
            let (_, _, known) = reasons.entry(text).or_insert((of_errors, of_lines, Vec::new()));
            for code in codes.iter().map(ToString::to_string) {
                if !known.contains(&code) {
                    known.push(code);
                }
            }
        }
    }
    reasons
}

fn is_same(one: &[String], other: &[String]) -> bool {
    one.iter().all(|code| other.contains(code)) && other.iter().all(|code| one.contains(code))
}

#[test]
fn the_manual_has_each_reason_with_its_sqlstates() {
    let root = Path::new(ROOT);
    let read = |path: &str| {
        let text = std::fs::read_to_string(root.join(path)).expect("the page is there");
        Page { lines: text.lines().map(str::to_owned).collect() }
    };
    let (mut errors, mut lines) = (read(ERRORS), read(LINES));
    let mut missing = Vec::new();
    for (text, (of_errors, of_lines, codes)) in reasons() {
        let found: Vec<Row> = errors.rows().into_iter().filter(|row| row.texts.contains(&text)).collect();
        let all: Vec<String> = found.iter().flat_map(|row| row.codes.clone()).collect();
        match found.as_slice() {
            [] if codes.is_empty() => {
                if !lines.rows().iter().any(|row| row.texts.contains(&text)) {
                    missing.push(format!("{LINES} lacks `{text}`"));
                    lines.add(of_lines, format!("| `{text}` | ? |"));
                }
            }
            [] => {
                missing.push(format!("{ERRORS} lacks {} `{text}`", codes.join(", ")));
                errors.add(of_errors, format!("| {} | FATAL `{text}` | ? | ? |", codes.join(", ")));
            }
            // No client gets it, unless it is another table's.
            _ if codes.is_empty() || is_same(&all, &codes) => {}
            [row] => {
                missing.push(format!("{ERRORS} has other SQLSTATEs than {} for `{text}`", codes.join(", ")));
                let (_, rest) = errors.lines[row.at][2..].split_once(" | ").expect("the SQLSTATEs are in a cell");
                errors.lines[row.at] = format!("| {} | {rest}", codes.join(", "));
            }
            _ => missing.push(format!("{ERRORS} has {} for `{text}`, not {}", all.join(", "), codes.join(", "))),
        }
    }
    let is_unfinished = |page: &Page| page.lines.iter().any(|line| line.ends_with(" | ? |"));
    if is_unfinished(&errors) || is_unfinished(&lines) {
        missing.push("a row has no cause yet".to_owned());
    }
    if std::env::var_os("UPDATE").is_some() {
        for (path, page) in [(ERRORS, &errors), (LINES, &lines)] {
            std::fs::write(root.join(path), page.lines.join("\n") + "\n").expect("the page is written");
        }
        return;
    }
    assert!(missing.is_empty(), "run UPDATE=1 cargo test -p pooling --test documents:\n{}", missing.join("\n"));
}
