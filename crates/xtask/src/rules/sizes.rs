//! How long files and functions are, how deep they nest, how large types are and how modules are tied, against what nobody would defend and today's exceptions.
//!
//! What is over a limit is excused by a comment at its head, or by a line in the ratchet with the very size that it has:
//! a larger one is a finding, and so is a smaller one, because then the line must follow.

use crate::finding::Finding;
use crate::ratchet::{self, Entry, Size, Sort};
use crate::source::Source;
use crate::tree::Tree;

pub(crate) fn check(tree: &Tree, sources: &[Source<'_>]) -> Vec<Finding> {
    let (entries, mut found) = ratchet::read(tree.text(ratchet::PATH).unwrap_or_default());
    let measured = measure(sources);
    for size in &measured {
        let entry = entries.iter().find(|entry| entry.size.is_about(size));
        if entry.is_none_or(|entry| entry.size.value < size.value) {
            found.push(Finding::new(&size.path, size.line, what(size), size.kind.rule()));
        }
    }
    found.extend(entries.iter().filter_map(|entry| loose(entry, &measured)));
    found
}

/// Everything over its limit that no comment excuses; of several functions of one name in a file, the largest.
pub(crate) fn measure(sources: &[Source<'_>]) -> Vec<Size> {
    let mut over: Vec<Size> = Vec::new();
    for size in sources.iter().flat_map(ratchet::sizes).chain(ratchet::crate_sizes(sources)) {
        match over.iter_mut().find(|other| other.is_about(&size)) {
            Some(other) if other.value < size.value => *other = size,
            Some(_) => {}
            None => over.push(size),
        }
    }
    over
}

fn what(size: &Size) -> String {
    match size.name.as_str() {
        "" => format!(
            "{} {} {}",
            if size.kind == Sort::File { "the file has" } else { "there are" },
            size.value,
            size.kind.unit()
        ),
        name => format!("`{name}` has {} {}", size.value, size.kind.unit()),
    }
}

/// A line of the ratchet that no longer holds anything at its size.
fn loose(entry: &Entry, measured: &[Size]) -> Option<Finding> {
    let now = measured.iter().find(|size| entry.size.is_about(size));
    let what = match now {
        Some(now) if now.value >= entry.size.value => return None,
        Some(now) => format!("{} is {} now", entry.size, now.value),
        None => format!("{} is not needed any more", entry.size),
    };
    Some(Finding::new(ratchet::PATH, entry.line, what, "the ratchet only shrinks: run `tidy --shrink`"))
}
