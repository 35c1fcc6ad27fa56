//! What only a whole crate shows: types with many `impl` blocks and methods, and modules that import each other.
//!
//! A module here is one that stands directly in the crate's root, with all that is in it. Imports are `crate::…`, and `super::…`
//! where that is the root; a name that the root re-exports counts as its module's. Traits' `impl` blocks do not count, tests neither.

use std::collections::{BTreeMap, BTreeSet};

use crate::lexer::Kind;
use crate::source::{Source, matching};

/// A type's own `impl` blocks, all together.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Bulk {
    pub(crate) impls: usize,
    pub(crate) methods: usize,
}

/// The folder of the crate that a file of a program belongs to: `crates/wire`.
pub(crate) fn folder<'a>(source: &Source<'a>) -> Option<&'a str> {
    let (folder, _) = source.path.split_once("/src/")?;
    (!source.is_test).then_some(folder)
}

/// By crate and type.
pub(crate) fn bulks<'a>(sources: &[Source<'a>]) -> BTreeMap<(&'a str, &'a str), Bulk> {
    let mut bulks: BTreeMap<(&str, &str), Bulk> = BTreeMap::new();
    for source in sources {
        let Some(folder) = folder(source) else { continue };
        for (name, methods) in (0..source.code.len()).filter_map(|at| own_impl(source, at)) {
            let bulk = bulks.entry((folder, name)).or_default();
            bulk.impls += 1;
            bulk.methods += methods;
        }
    }
    bulks
}

/// The type's name and how many functions are in it, if an `impl` block that is no trait's begins at `at`.
fn own_impl<'a>(source: &Source<'a>, at: usize) -> Option<(&'a str, usize)> {
    let code = &source.code;
    let begins = at == 0 || ["}", ";", "]", "{"].contains(&code[at - 1].text);
    if code[at].text != "impl" || !begins || source.is_test_line(code[at].line) {
        return None;
    }
    let mut here = at + 1;
    if code.get(here)?.text == "<" {
        here = behind_angles(source, here)?;
    }
    let mut name = None;
    let open = loop {
        match code.get(here)? {
            token if token.text == "{" => break here,
            token if token.text == "for" => return None,
            token if token.text == "<" => here = behind_angles(source, here)?,
            token if token.text == "where" => here += code[here..].iter().position(|token| token.text == "{")?,
            token => {
                name = Some(token.text).filter(|_| token.kind == Kind::Word).or(name);
                here += 1;
            }
        }
    };
    let body = &code[open..matching(code, open)?];
    Some((name?, body.iter().filter(|token| token.text == "fn" && token.kind == Kind::Word).count()))
}

/// The token behind the angle brackets that open at `open`. An arrow's does not close them.
fn behind_angles(source: &Source<'_>, open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in source.code.iter().enumerate().skip(open) {
        match token.text {
            "<" => depth += 1,
            ">" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at + 1);
        }
    }
    None
}

/// For each crate the modules that import one another, directly or by others.
pub(crate) fn cycles<'a>(sources: &[Source<'a>]) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut crates: BTreeMap<&str, Vec<&Source<'a>>> = BTreeMap::new();
    for source in sources {
        if let Some(folder) = folder(source) {
            crates.entry(folder).or_default().push(source);
        }
    }
    crates.into_iter().map(|(folder, sources)| (folder, knotted(&imports(&sources)))).collect()
}

/// What each module of a crate imports of the others.
fn imports<'a>(sources: &[&Source<'a>]) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let modules: BTreeSet<&str> = sources.iter().filter_map(|source| module(source.path)).collect();
    let roots = sources.iter().filter(|source| module(source.path).is_none());
    let exported: BTreeMap<&str, &str> = roots.flat_map(|root| exports(root, &modules)).collect();
    let mut graph: BTreeMap<&str, BTreeSet<&str>> = modules.iter().map(|module| (*module, BTreeSet::new())).collect();
    for source in sources {
        let Some(own) = module(source.path) else { continue };
        let named = named(source).into_iter();
        let others = named.filter_map(|name| modules.get(name).copied().or_else(|| exported.get(name).copied()));
        graph.entry(own).or_default().extend(others.filter(|other| *other != own));
    }
    graph
}

/// The module right below the root that a file is, or lies in; `None`: the root itself, or another program beside it.
fn module(path: &str) -> Option<&str> {
    let (_, inside) = path.split_once("/src/")?;
    let first = inside.split('/').next()?;
    let name = first.strip_suffix(".rs").unwrap_or(first);
    (!["lib", "main", "bin"].contains(&name)).then_some(name)
}

/// How many modules a file lies below the root.
fn depth(path: &str) -> usize {
    let inside = path.split_once("/src/").map_or("", |(_, inside)| inside);
    inside.split('/').count() - usize::from(inside.ends_with("/mod.rs"))
}

/// Names that the root re-exports, each with its module.
fn exports<'a>(root: &Source<'a>, modules: &BTreeSet<&'a str>) -> Vec<(&'a str, &'a str)> {
    let starts = (0..root.code.len()).filter(|at| root.code[*at].text == "use");
    let lists = starts.filter_map(|at| {
        let end = at + root.code[at..].iter().position(|token| token.text == ";")?;
        let words: Vec<&str> =
            root.code[at + 1..end].iter().filter(|token| token.kind == Kind::Word).map(|token| token.text).collect();
        let (module, names) = words.split_first()?;
        let module = *modules.get(module)?;
        Some(names.iter().map(|name| (*name, module)).collect::<Vec<_>>())
    });
    lists.flatten().collect()
}

/// What stands right behind `crate::`, and behind as many `super::` as lead to the root.
fn named<'a>(source: &Source<'a>) -> Vec<&'a str> {
    let depth = depth(source.path);
    let climb: Vec<&str> = ["super", "::"].repeat(depth);
    let mut found = Vec::new();
    for at in 0..source.code.len() {
        if source.is_test_line(source.code[at].line) {
            continue;
        }
        let is_climb = source.reads(at, &climb) && !(at > 0 && source.code[at - 1].text == "::");
        let behind = if source.reads(at, &["crate", "::"]) {
            at + 2
        } else if is_climb {
            at + climb.len()
        } else {
            continue;
        };
        found.extend(listed(source, behind));
    }
    found
}

/// One name, or those of a list in braces.
fn listed<'a>(source: &Source<'a>, at: usize) -> Vec<&'a str> {
    let code = &source.code;
    let Some(first) = code.get(at) else { return Vec::new() };
    if first.text != "{" {
        return vec![first.text];
    }
    let Some(close) = matching(code, at) else { return Vec::new() };
    let (mut names, mut here) = (Vec::new(), at + 1);
    while here < close {
        names.push(code[here].text);
        // On to the next comma of this list.
        while here < close && code[here].text != "," {
            here = if code[here].text == "{" { matching(code, here).unwrap_or(close) + 1 } else { here + 1 };
        }
        here += 1;
    }
    names
}

/// Modules from which a way leads back to themselves.
fn knotted<'a>(graph: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> BTreeSet<&'a str> {
    let reaches_itself = |start: &&'a str| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![*start]);
        while let Some(module) = open.pop() {
            for next in graph.get(module).into_iter().flatten() {
                if seen.insert(*next) {
                    open.push(next);
                }
            }
        }
        seen.contains(start)
    };
    graph.keys().copied().filter(reaches_itself).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source<'a>(path: &'a str, text: &'a str) -> Source<'a> {
        Source::new(path, text)
    }

    #[test]
    fn own_impl_blocks_of_a_type_are_added_up_and_traits_are_not() {
        let one = "impl<'a, F: Fn(u8) -> u8> Own<'a, F> where F: Copy {\n fn a() {}\n fn b() {}\n}\nimpl Clone for Own {\n fn c() {}\n}\n";
        let two = "fn x() -> impl Copy {}\nimpl super::Own {\n fn d() {}\n}\n#[cfg(test)]\nmod tests {\n impl Own {\n fn e() {}\n}\n}\n";
        let sources = [source("crates/a/src/one.rs", one), source("crates/a/src/two.rs", two)];
        let bulks = bulks(&sources);
        assert_eq!(bulks.into_iter().collect::<Vec<_>>(), [(("crates/a", "Own"), Bulk { impls: 2, methods: 3 })]);
    }

    #[test]
    fn modules_that_import_each_other_are_found_by_every_way_of_naming() {
        let files = [
            ("crates/a/src/lib.rs", "mod one; mod two; mod three; mod four; pub use two::{Two, inner::Deep};"),
            ("crates/a/src/one.rs", "use crate::{three::X, Two};"),
            ("crates/a/src/two/mod.rs", "fn f() { super::three::g() }"),
            ("crates/a/src/two/inner.rs", "use super::super::four::Y; use super::three::Z;"),
            ("crates/a/src/three.rs", "use crate::one;"),
            ("crates/a/src/four.rs", "#[cfg(test)]\nmod tests {\n use crate::two::Two;\n}\n"),
        ];
        let sources = files.map(|(path, text)| source(path, text));
        let cycles = cycles(&sources);
        assert_eq!(cycles["crates/a"].iter().copied().collect::<Vec<_>>(), ["one", "three", "two"]);
    }
}
