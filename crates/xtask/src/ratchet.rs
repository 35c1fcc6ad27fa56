//! The ratchet: sizes over a limit that the tree has today, in a file, which may only shrink.
//!
//! A line is `file PATH LINES`, `function PATH NAME LINES`, `nesting PATH NAME BLOCKS` or `struct PATH NAME FIELDS`; of a whole crate
//! `impls CRATE TYPE BLOCKS`, `methods CRATE TYPE FUNCTIONS` or `cycle CRATE MODULES`. `#` begins a comment.

use std::fmt;

use crate::finding::Finding;
use crate::source::Source;
use crate::tree::Tree;
use crate::{knots, shape};

pub(crate) const PATH: &str = "crates/xtask/ratchet.txt";

// Refused is only what nobody would defend (docs/adr/0049-limits-are-mirrors.md). `tidy` prints how sizes are distributed.
const FILE_LINES_MAX: usize = 1000;
const FUNCTION_LINES_MAX: usize = 120;
/// Three is what we write; four is what we let pass without a word.
const NESTING_MAX: usize = 4;
const FIELDS_MAX: usize = 30;
const IMPLS_MAX: usize = 6;
const METHODS_MAX: usize = 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    File,
    Function,
    Nesting,
    Struct,
    Impls,
    Methods,
    Cycle,
}

impl Sort {
    const ALL: [Sort; 7] =
        [Sort::File, Sort::Function, Sort::Nesting, Sort::Struct, Sort::Impls, Sort::Methods, Sort::Cycle];

    /// Whether it is about something in the file or crate, which has a name.
    fn has_name(self) -> bool {
        !matches!(self, Sort::File | Sort::Cycle)
    }

    fn word(self) -> &'static str {
        match self {
            Sort::File => "file",
            Sort::Function => "function",
            Sort::Nesting => "nesting",
            Sort::Struct => "struct",
            Sort::Impls => "impls",
            Sort::Methods => "methods",
            Sort::Cycle => "cycle",
        }
    }

    pub(crate) fn unit(self) -> &'static str {
        match self {
            Sort::File | Sort::Function => "lines",
            Sort::Nesting => "blocks in each other",
            Sort::Struct => "fields",
            Sort::Impls => "impl blocks of its own",
            Sort::Methods => "functions of its own",
            Sort::Cycle => "modules that import each other",
        }
    }

    pub(crate) fn rule(self) -> &'static str {
        match self {
            Sort::File => "a file has at most 1000 lines",
            Sort::Function => "a function has at most 120 lines",
            Sort::Nesting => "nesting is at most 4: ifs go up, loops go down",
            Sort::Struct => "a struct has at most 30 fields: what changes together is a value of its own",
            Sort::Impls => "a type has at most 6 impl blocks: one that needs more is several types",
            Sort::Methods => "a type has at most 60 functions: one that needs more is several types",
            Sort::Cycle => "modules of a crate import each other in one direction",
        }
    }
}

/// Something over its limit, and by how much.
#[derive(Clone, Debug)]
pub(crate) struct Size {
    pub(crate) kind: Sort,
    pub(crate) path: String,
    /// The function's or the type's; empty for a file, and for a crate's cycles.
    pub(crate) name: String,
    pub(crate) value: usize,
    pub(crate) line: usize,
}

impl Size {
    pub(crate) fn is_about(&self, other: &Size) -> bool {
        self.kind == other.kind && self.path == other.path && self.name == other.name
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.word(), self.path)?;
        if !self.name.is_empty() {
            write!(f, " {}", self.name)?;
        }
        write!(f, " {}", self.value)
    }
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) size: Size,
    /// In the ratchet file.
    pub(crate) line: usize,
}

/// What of a file is over a limit and not excused by a comment.
pub(crate) fn sizes(source: &Source<'_>) -> Vec<Size> {
    let size = |kind, name: &str, value, line| {
        let (path, name) = (source.path.to_owned(), name.to_owned());
        Size { kind, path, name, value, line }
    };
    let mut over = Vec::new();
    if source.lines() > FILE_LINES_MAX && !source.is_excused_as_a_whole() {
        over.push(size(Sort::File, "", source.lines(), 1));
    }
    let functions = shape::functions(source);
    let excused = |function: &shape::Function<'_>| source.is_excused(function.line);
    for function in functions {
        if function.lines > FUNCTION_LINES_MAX && !excused(&function) {
            over.push(size(Sort::Function, function.name, function.lines, function.line));
        }
        if function.nesting > NESTING_MAX && !excused(&function) && !source.is_excused(function.nesting_line) {
            over.push(size(Sort::Nesting, function.name, function.nesting, function.nesting_line));
        }
    }
    for found in shape::structs(source) {
        if found.fields > FIELDS_MAX && !source.is_test_line(found.line) && !source.is_excused(found.line) {
            over.push(size(Sort::Struct, found.name, found.fields, found.line));
        }
    }
    over
}

/// What of whole crates is over a limit.
pub(crate) fn crate_sizes(sources: &[Source<'_>]) -> Vec<Size> {
    let size = |kind, path: &str, name: &str, value| {
        let (path, name) = (path.to_owned(), name.to_owned());
        Size { kind, path, name, value, line: 1 }
    };
    let mut all = Vec::new();
    for ((folder, name), bulk) in knots::bulks(sources) {
        all.push((size(Sort::Impls, folder, name, bulk.impls), IMPLS_MAX));
        all.push((size(Sort::Methods, folder, name, bulk.methods), METHODS_MAX));
    }
    for (folder, modules) in knots::cycles(sources) {
        all.push((size(Sort::Cycle, folder, "", modules.len()), 0));
    }
    all.into_iter().filter(|(size, max)| size.value > *max).map(|(size, _)| size).collect()
}

/// Entries, and the lines that are none.
pub(crate) fn read(text: &str) -> (Vec<Entry>, Vec<Finding>) {
    let (mut entries, mut bad) = (Vec::new(), Vec::new());
    for (line, text) in (1..).zip(text.lines()) {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        match parse(text) {
            Some(size) => entries.push(Entry { size, line }),
            None => bad.push(Finding::new(PATH, line, format!("`{text}`"), "a line is KIND PATH [NAME] SIZE")),
        }
    }
    (entries, bad)
}

fn parse(text: &str) -> Option<Size> {
    let parts: Vec<&str> = text.split_whitespace().collect();
    let kind = Sort::ALL.into_iter().find(|sort| parts.first() == Some(&sort.word()))?;
    let (path, name, value) = match parts.as_slice() {
        [_, path, value] if !kind.has_name() => (path, "", value),
        [_, path, name, value] if kind.has_name() => (path, *name, value),
        _ => return None,
    };
    Some(Size { kind, path: (*path).to_owned(), name: name.to_owned(), value: value.parse().ok()?, line: 0 })
}

/// The file as it may be today: entries at today's sizes where those are smaller, gone where nothing is over its limit.
pub(crate) fn shrunk(tree: &Tree) -> String {
    let text = tree.text(PATH).unwrap_or_default();
    let sources = tree.sources();
    let today: Vec<Size> = sources.iter().flat_map(sizes).chain(crate_sizes(&sources)).collect();
    let mut lines = Vec::new();
    for line in text.lines() {
        let Some(entry) = parse(line) else {
            lines.push(line.to_owned());
            continue;
        };
        let now = today.iter().filter(|size| size.is_about(&entry)).map(|size| size.value).max();
        lines.extend(now.map(|now| Size { value: now.min(entry.value), ..entry }.to_string()));
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}
