//! The rules of STYLE.md that a program can check, one file a subject.
//!
//! A rule takes the tree and returns what breaks it; it never fails and never mends. Each has its bad example in
//! `tests.rs`, which shows that it fires.

mod decisions;
mod glossary;
mod layers;
mod leaks;
mod links;
mod lookups;
mod machines;
mod names;
mod panics;
mod said;
mod sizes;
#[cfg(test)]
mod tests;
mod types;

pub(crate) use layers::{CORE, PURE};
pub(crate) use leaks::root_entries;

use crate::finding::Finding;
use crate::source::Source;
use crate::tree::Tree;

/// Everything that breaks a rule, by path and line.
pub(crate) fn all(tree: &Tree) -> Vec<Finding> {
    let sources = tree.sources();
    let mut found: Vec<Finding> = sources.iter().flat_map(of_a_source).collect();
    found.extend(sizes::check(tree, &sources));
    found.extend(layers::check(tree));
    found.extend(decisions::check(tree));
    found.extend(glossary::check(tree, &sources));
    found.extend(types::check(&sources));
    found.extend(links::check(tree, &sources));
    found.extend(leaks::check(tree));
    found.extend(said::check(tree, &sources));
    found.extend(said::columns(tree, &sources));
    found.extend(crate::coverage::check(tree));
    found.sort();
    found.dedup();
    found
}

fn of_a_source(source: &Source<'_>) -> Vec<Finding> {
    let mut found = head(source);
    found.extend(panics::check(source));
    found.extend(names::check(source));
    found.extend(machines::check(source));
    found.extend(lookups::check(source));
    found.extend(crate::cite::unreadable(source));
    found.retain(|finding| !source.is_excused(finding.line));
    found
}

/// The reader's first line is what the file is about.
fn head(source: &Source<'_>) -> Vec<Finding> {
    if source.text.starts_with("//!") {
        return Vec::new();
    }
    vec![Finding::new(
        source.path,
        1,
        "no `//!` on the first line",
        "a file opens with what it is, promises and does not do",
    )]
}
