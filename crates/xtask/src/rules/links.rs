//! Documents point at what exists: links of every Markdown file, headings behind `#`, and files in backticks, in comments of
//! Rust files too.
//!
//! A path in backticks may leave out its beginning, as people do (`src/main.rs`), and `src/` behind its crate. Links to elsewhere
//! are not followed.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::finding::Finding;
use crate::source::Source;
use crate::tree::{Tree, below};

/// Whose folders and files of every kind in backticks are promises about the tree; of the others, only Rust files are.
const GUIDES: [&str; 2] = ["README.md", "ARCHITECTURE.md"];
/// Pages that tell of the tree as it was on a day.
const RECORDS: [&str; 1] = ["docs/mutants.md"];
const RULE: &str = "a file that is named exists";
const ENDINGS: [&str; 9] = [".rs", ".md", ".toml", ".txt", ".ini", ".json", ".yaml", ".yml", ".sh"];

pub(crate) fn check(tree: &Tree, sources: &[Source<'_>]) -> Vec<Finding> {
    let pages = tree.texts().filter(|(path, _)| path.ends_with(".md"));
    let files = Files::of(tree);
    let comments = sources.iter().flat_map(|source| of_comments(&files, source));
    pages.flat_map(|(path, text)| of_a_page(tree, &files, path, text)).chain(comments).collect()
}

/// Every Rust file's path, and each of its endings, with and without `src/`.
struct Files<'a>(BTreeSet<Cow<'a, str>>);

impl<'a> Files<'a> {
    fn of(tree: &'a Tree) -> Files<'a> {
        let mut endings = BTreeSet::new();
        for path in tree.paths().filter(|path| path.ends_with(".rs")) {
            let starts = std::iter::once(0).chain(path.match_indices('/').map(|(at, _)| at + 1));
            for ending in starts.map(|at| &path[at..]) {
                endings.insert(Cow::Borrowed(ending));
                endings.insert(Cow::Owned(ending.replacen("/src/", "/", 1)));
            }
        }
        Files(endings)
    }

    /// What a line names in backticks that is not there.
    fn missing<'t>(&self, line: &'t str) -> impl Iterator<Item = &'t str> {
        let spans = line.split('`').skip(1).step_by(2);
        spans.filter(|span| is_path(span) && span.ends_with(".rs") && !self.0.contains(*span))
    }
}

fn of_comments(files: &Files<'_>, source: &Source<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for comment in source.comments.iter().filter(|comment| !source.is_test_line(comment.line)) {
        let missing = files.missing(comment.text);
        found.extend(missing.map(|name| Finding::new(source.path, comment.line, format!("`{name}`"), RULE)));
    }
    found
}

fn of_a_page(tree: &Tree, files: &Files<'_>, path: &str, text: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    for (line, text) in prose(text) {
        for target in targets(&without_code(text)) {
            let why = broken(tree, path, target);
            found.extend(why.map(|what| Finding::new(path, line, what, "links lead somewhere")));
        }
        let named = text.split('`').skip(1).step_by(2).filter(|span| GUIDES.contains(&path) && is_path(span));
        let gone = named.filter(|named| !named.ends_with(".rs") && !is_there(tree, named));
        found.extend(gone.map(|name| Finding::new(path, line, format!("`{name}`"), RULE)));
        let missing = files.missing(text).filter(|_| !RECORDS.contains(&path));
        found.extend(missing.map(|name| Finding::new(path, line, format!("`{name}`"), RULE)));
    }
    found
}

/// Lines outside of fenced blocks, counted from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        !fenced && !is_fence
    })
}

fn without_code(line: &str) -> String {
    // A link's text may be code, so only spans that contain a whole link are dropped.
    let parts = line.split('`').enumerate();
    parts.map(|(at, part)| if at % 2 == 1 && part.contains("](") { "" } else { part }).collect()
}

/// `[text](target)` and `[name]: target`.
fn targets(line: &str) -> Vec<&str> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let reference = line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")).map(|(_, target)| target.trim());
    inline.chain(reference).collect()
}

fn broken(tree: &Tree, path: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let resolved = if file.is_empty() { Some(path.to_owned()) } else { resolve(path, file) };
    let Some(resolved) = resolved.filter(|resolved| tree.has(resolved)) else {
        return Some(format!("no file `{target}`"));
    };
    let text = tree.text(&resolved).filter(|_| resolved.ends_with(".md") && !heading.is_empty())?;
    let has = headings(text).iter().any(|slug| slug == heading);
    (!has).then(|| format!("no heading `#{heading}` in {resolved}"))
}

/// `target` as seen from the folder of `path`; `None` where it leaves the tree.
fn resolve(path: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Headings as web pages of Markdown name them.
fn headings(text: &str) -> Vec<String> {
    let titles =
        prose(text).filter_map(|(_, line)| line.strip_prefix('#').map(|rest| rest.trim_start_matches('#').trim()));
    let kept = |c: char| c.is_alphanumeric() || "-_ ".contains(c);
    titles
        .map(|title| title.to_lowercase().chars().filter(|c| kept(*c)).collect::<String>().replace(' ', "-"))
        .collect()
}

fn is_path(span: &&str) -> bool {
    let plain = span.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    let is_folder = span.ends_with('/');
    let is_file = ENDINGS.iter().any(|ending| span.len() > ending.len() && span.ends_with(ending));
    // `pgbouncer.ini` is the reader's file; our own are Rust or lie in a folder.
    let is_ours = span.contains('/') || span.ends_with(".rs") || span.ends_with(".md");
    plain && (is_folder || is_file) && is_ours && !span.starts_with(['/', '.']) && !span.starts_with("target/")
}

fn is_there(tree: &Tree, name: &str) -> bool {
    let name = name.trim_end_matches('/');
    let ending = format!("/{name}");
    let inside = format!("/{name}/");
    tree.paths().any(|path| path == name || path.ends_with(&ending) || below(path, name) || path.contains(&inside))
}
