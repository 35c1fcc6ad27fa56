//! Nothing is looked up by an id in vain without a word: `let … .get(id) … else { return };` in the machines has a comment right
//! above it that says when nothing is found. What is always found is indexed, or an `expect`.
//!
//! Only what gives no value back, or only `true`, `false`, `None` or `Ok`, is silent: an error or a call says what happens. Tests may.

use crate::finding::Finding;
use crate::source::{Source, matching};
use crate::tree::crate_of;

/// Those that keep connections and pools by ids which events, messages and deadlines bring.
const MACHINES: [&str; 5] = ["connections", "coordinator", "door", "link", "worker"];
const LOOKUPS: [&str; 3] = ["get", "get_mut", "remove"];
/// What an `else` has that says nothing.
const SILENT: [&str; 11] = ["return", "break", "continue", "true", "false", "None", "Ok", "(", ")", ";", "0"];
const RULE: &str = "say above it when nothing is found, or index the table if that cannot be";

pub(crate) fn check(source: &Source<'_>) -> Vec<Finding> {
    if !crate_of(source.path).is_some_and(|name| MACHINES.contains(&name)) {
        return Vec::new();
    }
    let lets = (0..source.code.len()).filter(|&at| source.code[at].text == "let" && is_silent(source, at));
    let lines = lets.map(|at| source.code[at].line);
    let unsaid = lines.filter(|&line| !source.is_test_line(line) && !is_said(source, line));
    unsaid.map(|line| Finding::new(source.path, line, "a look-up that may find nothing, silently", RULE)).collect()
}

/// Whether a statement that begins with `let` looks something up, and its `else` says nothing.
fn is_silent(source: &Source<'_>, at: usize) -> bool {
    let code = &source.code;
    let next = |from: usize, marks: &[&str]| (from..code.len()).find(|&here| marks.contains(&code[here].text));
    // The pattern may have braces; what is looked up in has none, or is not looked at.
    let Some(equals) = next(at, &["="]) else { return false };
    let Some(end) = next(equals, &[";", "else", "{"]) else { return false };
    let looks_up = |here: usize| LOOKUPS.contains(&code[here].text) && code[here - 1].text == ".";
    if !source.reads(end, &["else", "{"]) || !(equals + 1..end).any(looks_up) {
        return false;
    }
    let Some(close) = matching(code, end + 1) else { return false };
    code[end + 2..close].iter().all(|token| SILENT.contains(&token.text))
}

/// Whether a comment ends on the line above, or on that above a `let … else` that stands right there.
fn is_said(source: &Source<'_>, line: usize) -> bool {
    let lines: Vec<&str> = source.text.lines().collect();
    let mut above = lines[..line - 1].iter().rev().map(|text| text.trim());
    above.find(|text| !(text.starts_with("let ") && text.ends_with("};"))).is_some_and(|text| text.starts_with("//"))
}
