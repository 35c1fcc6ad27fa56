//! What is left over from writing: `todo!`, notes to oneself, `dbg!`; and `unwrap` where the program runs.
//!
//! Tests may unwrap; so may the crates that are never shipped and whose panics are their verdict.

use crate::finding::Finding;
use crate::lexer::Kind;
use crate::source::Source;
use crate::tree::crate_of;

const UNFINISHED: [&str; 3] = ["todo", "unimplemented", "dbg"];
/// In two halves, so that this file does not break its own rule.
const NOTES: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
/// Programs around the program: a panic there is how they say that something is wrong.
const MAY_UNWRAP: [&str; 3] = ["sim", "bench", "outer"];

pub(crate) fn check(source: &Source<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, token) in source.code.iter().enumerate() {
        let is_macro = token.kind == Kind::Word && source.reads(at + 1, &["!"]);
        if is_macro && UNFINISHED.contains(&token.text) {
            let what = format!("`{}!`", token.text);
            found.push(Finding::new(source.path, token.line, what, "what is not done is not in the tree"));
        }
        if source.reads(at, &[".", "unwrap", "(", ")"]) && !may_unwrap(source, token.line) {
            let rule = "outside tests say why it holds: `expect(\"…\")`";
            found.push(Finding::new(source.path, source.code[at + 1].line, "`.unwrap()`", rule));
        }
    }
    for comment in &source.comments {
        for (line, text) in (comment.line..).zip(comment.text.lines()) {
            let words = text.split(|c: char| !c.is_alphanumeric());
            let note = words.into_iter().find(|word| NOTES.contains(word));
            let finding = |word| Finding::new(source.path, line, word, "a note to oneself belongs in the tracker");
            found.extend(note.map(finding));
        }
    }
    found
}

fn may_unwrap(source: &Source<'_>, line: usize) -> bool {
    source.is_test_line(line) || crate_of(source.path).is_some_and(|name| MAY_UNWRAP.contains(&name))
}
