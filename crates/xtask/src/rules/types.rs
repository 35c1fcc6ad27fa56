//! A type's name means one thing in its crate: no two types of a crate have the same.
//!
//! Tests do not count, and neither do types within an `impl` or a trait: those are named by their owner.

use std::collections::BTreeMap;

use crate::finding::Finding;
use crate::knots;
use crate::lexer::Kind;
use crate::source::{Source, matching};

const RULE: &str = "a type's name is declared once in a crate";

pub(crate) fn check(sources: &[Source<'_>]) -> Vec<Finding> {
    let mut first: BTreeMap<(&str, &str), String> = BTreeMap::new();
    let mut found = Vec::new();
    for source in sources {
        let Some(folder) = knots::folder(source) else { continue };
        for (name, line) in declared(source) {
            if source.is_excused(line) {
                continue;
            }
            let Some(other) = first.get(&(folder, name)) else {
                first.insert((folder, name), format!("{}:{line}", source.path));
                continue;
            };
            found.push(Finding::new(source.path, line, format!("`{name}` is a type in {other} too"), RULE));
        }
    }
    found
}

/// Names and lines of what `source` declares.
fn declared<'a>(source: &Source<'a>) -> Vec<(&'a str, usize)> {
    let code = &source.code;
    let (mut names, mut at) = (Vec::new(), 0);
    while let Some(token) = code.get(at) {
        if ["impl", "trait"].contains(&token.text)
            && let Some(open) = block(source, at)
        {
            names.extend((token.text == "trait").then(|| (code[at + 1].text, token.line)));
            at = matching(code, open).unwrap_or(open) + 1;
            continue;
        }
        let declares = ["struct", "enum", "union", "type"].contains(&token.text) && token.kind == Kind::Word;
        if let Some(name) = code.get(at + 1).filter(|name| declares && name.kind == Kind::Word) {
            names.push((name.text, token.line));
        }
        at += 1;
    }
    names.retain(|(_, line)| !source.is_test_line(*line));
    names
}

/// The brace of an `impl` or a trait that begins at `at`; none where `impl` stands in a signature.
fn block(source: &Source<'_>, at: usize) -> Option<usize> {
    let begins = at == 0 || ["}", ";", "]", "{", ")", "pub", "unsafe"].contains(&source.code[at - 1].text);
    let open = source.code[at..].iter().position(|token| ["{", ";"].contains(&token.text))?;
    (begins && source.code[at + open].text == "{").then_some(at + open)
}
