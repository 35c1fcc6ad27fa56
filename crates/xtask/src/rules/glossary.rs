//! docs/glossary.md says where its words are in the code: each name in backticks in a row's last cell is a word of some Rust file.
//!
//! Files there are checked as everywhere, by the rule about links. Whether the word means what the row says, nobody checks.

use std::collections::BTreeSet;

use crate::finding::Finding;
use crate::lexer::Kind;
use crate::source::Source;
use crate::tree::Tree;

const PAGE: &str = "docs/glossary.md";
const RULE: &str = "the glossary names what the code has";

pub(crate) fn check(tree: &Tree, sources: &[Source<'_>]) -> Vec<Finding> {
    let Some(page) = tree.text(PAGE) else { return Vec::new() };
    let tokens = sources.iter().flat_map(|source| &source.code);
    let words: BTreeSet<&str> = tokens.filter(|token| token.kind == Kind::Word).map(|token| token.text).collect();
    let mut found = Vec::new();
    for (line, row) in (1..).zip(page.lines()) {
        let cells: Vec<&str> = row.split('|').collect();
        let [.., place, _] = cells.as_slice() else { continue };
        let named = place.split('`').skip(1).step_by(2).filter(|span| is_name(span));
        let gone = named.filter(|span| !span.split("::").all(|word| words.contains(word) || has_crate(tree, word)));
        found.extend(gone.map(|span| Finding::new(PAGE, line, format!("`{span}`"), RULE)));
    }
    found
}

/// `Type`, `function`, `Type::member`.
fn is_name(span: &str) -> bool {
    span.chars().all(|c| c.is_alphanumeric() || "_:".contains(c))
}

fn has_crate(tree: &Tree, word: &str) -> bool {
    tree.has(&format!("crates/{word}"))
}
