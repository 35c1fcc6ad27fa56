//! Pages that lead into the code name what the code has: docs/developers/glossary.md in the last cell of each row, ARCHITECTURE.md anywhere. A
//! name in backticks is a word of some Rust file, of a string in it, a crate, a program of `tools/`, or a command of the Makefile.
//!
//! The rule about links checks files, here as everywhere. Nothing checks whether a name means what the page claims.

use std::collections::BTreeSet;

use crate::finding::Finding;
use crate::lexer::Kind;
use crate::source::Source;
use crate::tree::Tree;

const GLOSSARY: &str = "docs/developers/glossary.md";
const ARCHITECTURE: &str = "ARCHITECTURE.md";
const RULE: &str = "glossary and ARCHITECTURE name what the code has";

pub(crate) fn check(tree: &Tree, sources: &[Source<'_>]) -> Vec<Finding> {
    let words = words(sources);
    let mut found = Vec::new();
    for (line, row) in lines(tree, GLOSSARY) {
        let cells: Vec<&str> = row.split('|').collect();
        let [.., place, _] = cells.as_slice() else { continue };
        found.extend(gone(tree, &words, place).map(|span| Finding::new(GLOSSARY, line, format!("`{span}`"), RULE)));
    }
    for (line, text) in lines(tree, ARCHITECTURE) {
        found.extend(gone(tree, &words, text).map(|span| Finding::new(ARCHITECTURE, line, format!("`{span}`"), RULE)));
    }
    found
}

fn lines<'t>(tree: &'t Tree, page: &str) -> impl Iterator<Item = (usize, &'t str)> + use<'t> {
    (1..).zip(tree.text(page).unwrap_or_default().lines())
}

/// All words of the code and of its strings.
fn words<'s>(sources: &'s [Source<'_>]) -> BTreeSet<&'s str> {
    let mut words = BTreeSet::new();
    for token in sources.iter().flat_map(|source| &source.code) {
        match token.kind {
            Kind::Word => drop(words.insert(token.text)),
            Kind::Literal => words.extend(token.text.split(|c: char| !c.is_alphanumeric() && c != '_')),
            _ => {}
        }
    }
    words
}

/// Names in backticks that the tree does not have.
fn gone<'t>(tree: &Tree, words: &BTreeSet<&str>, text: &'t str) -> impl Iterator<Item = &'t str> {
    let spans = text.split('`').skip(1).step_by(2).filter(|span| is_name(span));
    spans.filter(|span| !span.split("::").all(|word| words.contains(word) || has_place(tree, word)))
}

/// `Type`, `function`, `Type::member`.
fn is_name(span: &str) -> bool {
    span.chars().all(|c| c.is_alphanumeric() || "_:".contains(c))
}

fn has_place(tree: &Tree, word: &str) -> bool {
    let command = format!("{word}:");
    let is_command = || tree.text("Makefile").is_some_and(|text| text.lines().any(|line| line.starts_with(&command)));
    ["crates", "tools"].iter().any(|folder| tree.has(&format!("{folder}/{word}"))) || is_command()
}
