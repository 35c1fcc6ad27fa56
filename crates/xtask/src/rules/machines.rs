//! Rules do not take a whole machine: a function outside of a crate's root has no parameter `&mut Worker`, `&mut Coordinator` or
//! `&mut Door`. What it changes stands in its parameters instead.
//!
//! Tests may. Methods are another matter: how many blocks and functions a type has is bounded by the ratchet.

use crate::finding::Finding;
use crate::lexer::Kind;
use crate::source::Source;

const MACHINES: [&str; 3] = ["Worker", "Coordinator", "Door"];
const RULE: &str = "a rule takes the tables that it changes, not a whole machine";

pub(crate) fn check(source: &Source<'_>) -> Vec<Finding> {
    let is_root = source.path.ends_with("/src/lib.rs") || source.path.ends_with("/src/main.rs");
    if is_root || source.is_test {
        return Vec::new();
    }
    let borrows = (0..source.code.len()).filter_map(|at| borrowed(source, at));
    let borrows = borrows.filter(|(_, line)| !source.is_test_line(*line));
    borrows.map(|(name, line)| Finding::new(source.path, line, format!("`&mut {name}`"), RULE)).collect()
}

/// The machine, and the line, where `&mut Worker` stands at `at`; with a lifetime or a path before its name, too.
fn borrowed<'a>(source: &Source<'a>, at: usize) -> Option<(&'a str, usize)> {
    if source.code[at].text != "&" {
        return None;
    }
    let mut rest = source.code[at + 1..].iter().skip_while(|token| token.kind == Kind::Lifetime).peekable();
    rest.next_if(|token| token.text == "mut")?;
    let mut name = rest.next()?;
    while rest.next_if(|token| token.text == "::").is_some() {
        name = rest.next()?;
    }
    MACHINES.contains(&name.text).then_some((name.text, name.line))
}
