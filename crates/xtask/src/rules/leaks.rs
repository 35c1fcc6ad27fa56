//! What the repository does not mention: paths of somebody's machine, hosts of package registries. And how many things a
//! visitor sees first.
//!
//! Every text file but Cargo.lock. No comment excuses these. The lists are written in halves, or this file would be its
//! own finding.

use crate::finding::Finding;
use crate::tree::Tree;

const PATHS: [&str; 6] = [
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/tmp/", "brief"),
    concat!("/tmp/", "target"),
    concat!("/tmp/", "bash_jobs"),
    concat!("/home/", "runner"),
];
const REGISTRIES: [&str; 14] = [
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("pythonhosted", ".org"),
    concat!("deb.debian", ".org"),
    concat!("security.debian", ".org"),
    concat!("snapshot.debian", ".org"),
    concat!("archive.ubuntu", ".com"),
    concat!("npmjs", ".org"),
    concat!("npmjs", ".com"),
    concat!("proxy.golang", ".org"),
    concat!("rubygems", ".org"),
    concat!("maven.apache", ".org"),
    concat!("repo1.maven", ".org"),
    concat!("static.rust-lang", ".org"),
];
const ROOT_ENTRIES_MAX: usize = 16;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let texts = tree.texts().filter(|(path, _)| !path.ends_with("Cargo.lock"));
    let mut found: Vec<Finding> = texts.flat_map(|(path, text)| of_a_text(path, text)).collect();
    let entries = root_entries(tree);
    if entries.len() > ROOT_ENTRIES_MAX {
        let what = format!("{} entries: {}", entries.len(), entries.join(" "));
        found.push(Finding::new(".", 1, what, "the root shows at most 16"));
    }
    found
}

/// What `ls` shows in the root.
pub(crate) fn root_entries(tree: &Tree) -> Vec<&str> {
    let first = tree.paths().filter_map(|path| path.split('/').next());
    let mut entries: Vec<&str> = first.filter(|name| !name.starts_with('.')).collect();
    entries.sort_unstable();
    entries.dedup();
    entries
}

fn of_a_text(path: &str, text: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for leak in PATHS.iter().filter(|leak| is_absolute(line, leak)) {
            found.push(Finding::new(path, number, format!("`{leak}`"), "the tree names no path of anybody's machine"));
        }
        for host in REGISTRIES.iter().filter(|host| line.contains(**host)) {
            found.push(Finding::new(path, number, format!("`{host}`"), "the tree names no registry's host"));
        }
    }
    found
}

/// `docs/x/y/` holds no path `/y/`: something stands before its slash.
fn is_absolute(line: &str, leak: &str) -> bool {
    let before = line.match_indices(leak).map(|(at, _)| line[..at].chars().next_back());
    before.into_iter().any(|before| before.is_none_or(|c| !c.is_alphanumeric() && !"._-/~}*".contains(c)))
}
