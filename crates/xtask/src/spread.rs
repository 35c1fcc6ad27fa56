//! How sizes are distributed: of files, functions, types, and of commits. A mirror, printed by every `tidy`; what the ratchet refuses is far
//! beyond the end of it.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::source::Source;
use crate::tree::crate_of;
use crate::{knots, shape};

/// One size, and where it is.
type Measured = (usize, String);

/// The last commits that are looked at.
const COMMITS: &str = "-300";

/// A commit's name, and the paths that it changed.
pub(crate) type Commit = (String, Vec<String>);

/// The last commits, without merges; none where git cannot say.
pub(crate) fn commits(root: &Path) -> Vec<Commit> {
    let log = ["log", COMMITS, "--no-merges", "--format=%x00%h", "--name-only"];
    let Ok(output) = Command::new("git").args(log).current_dir(root).output() else { return Vec::new() };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let commit = |part: &str| {
        let mut lines = part.lines().filter(|line| !line.is_empty()).map(str::to_owned);
        Some((lines.next()?, lines.collect()))
    };
    text.split('\0').filter_map(commit).collect()
}

/// A table: median, p90, p99, maximum and its place.
pub(crate) fn print(sources: &[Source<'_>], commits: &[Commit]) -> String {
    let mut text = format!("{:<28} {:>6} {:>6} {:>6} {:>6}\n", "", "median", "p90", "p99", "max");
    for (name, sizes) in [
        ("lines a file", files(sources)),
        ("lines a function", functions(sources)),
        ("fields a struct", fields(sources)),
        ("functions a type", bulks(sources, |bulk| bulk.methods)),
        ("impl blocks a type", bulks(sources, |bulk| bulk.impls)),
        ("files a commit", changed(commits, |paths| paths.len())),
        (
            "crates a commit",
            changed(commits, |paths| paths.iter().filter_map(|path| crate_of(path)).collect::<BTreeSet<_>>().len()),
        ),
    ] {
        text += &row(name, sizes);
    }
    text
}

fn row(name: &str, mut sizes: Vec<Measured>) -> String {
    sizes.sort();
    let Some((max, place)) = sizes.last() else { return String::new() };
    let at = |percent| percentile(&sizes, percent);
    format!("{name:<28} {:>6} {:>6} {:>6} {max:>6}  {place}\n", at(50), at(90), at(99))
}

/// The value at `percent` of the way through sorted sizes.
fn percentile(sorted: &[Measured], percent: usize) -> usize {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last * percent).div_ceil(100)).map_or(0, |(size, _)| *size)
}

fn files(sources: &[Source<'_>]) -> Vec<Measured> {
    sources.iter().map(|source| (source.lines(), source.path.to_owned())).collect()
}

fn functions(sources: &[Source<'_>]) -> Vec<Measured> {
    let of = |source: &Source<'_>| {
        let sized = |function: shape::Function<'_>| (function.lines, format!("{}: {}", source.path, function.name));
        shape::functions(source).into_iter().map(sized).collect::<Vec<_>>()
    };
    sources.iter().flat_map(of).collect()
}

fn fields(sources: &[Source<'_>]) -> Vec<Measured> {
    let of = |source: &Source<'_>| {
        let program = shape::structs(source).into_iter().filter(|found| !source.is_test_line(found.line));
        program.map(|found| (found.fields, format!("{}: {}", source.path, found.name))).collect::<Vec<_>>()
    };
    sources.iter().flat_map(of).collect()
}

fn bulks(sources: &[Source<'_>], size: impl Fn(&knots::Bulk) -> usize) -> Vec<Measured> {
    knots::bulks(sources).iter().map(|((folder, name), bulk)| (size(bulk), format!("{folder}: {name}"))).collect()
}

fn changed(commits: &[Commit], size: impl Fn(&[String]) -> usize) -> Vec<Measured> {
    commits.iter().map(|(name, paths)| (size(paths), name.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    #[test]
    fn each_size_has_its_row_and_its_largest_has_a_place() {
        let one = "//! A.\nstruct Wide {\n    a: u8,\n    b: u8,\n}\nimpl Wide {\n    fn f() {\n    }\n}\n";
        let tree = Tree::of(&[("crates/wire/src/lib.rs", one), ("crates/sql/src/lib.rs", "//! B.\nfn g() {}\n")]);
        let commits = vec![
            ("aaaa".to_owned(), vec!["crates/wire/src/lib.rs".to_owned(), "README.md".to_owned()]),
            ("bbbb".to_owned(), vec!["README.md".to_owned()]),
        ];
        let printed = print(&tree.sources(), &commits);
        let rows: Vec<Vec<&str>> = printed.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
        let row = |name: &str| rows.iter().find(|row| row.join(" ").starts_with(name)).expect("it has a row").join(" ");
        assert_eq!(row("lines a file"), "lines a file 9 9 9 9 crates/wire/src/lib.rs");
        assert_eq!(row("lines a function"), "lines a function 2 2 2 2 crates/wire/src/lib.rs: f");
        assert_eq!(row("fields a struct"), "fields a struct 2 2 2 2 crates/wire/src/lib.rs: Wide");
        assert_eq!(row("functions a type"), "functions a type 1 1 1 1 crates/wire: Wide");
        assert_eq!(row("files a commit"), "files a commit 2 2 2 2 aaaa");
        assert_eq!(row("crates a commit"), "crates a commit 1 1 1 1 aaaa");
        assert!(!print(&tree.sources(), &[]).contains("a commit"), "git cannot say");
    }

    #[test]
    fn percentiles_of_few_sizes() {
        let sizes = |values: &[usize]| values.iter().map(|value| (*value, String::new())).collect::<Vec<_>>();
        let at = |values: &[usize], percent| percentile(&sizes(values), percent);
        assert_eq!((at(&[], 50), at(&[7], 99), at(&[1, 2, 3], 50), at(&[1, 2, 3], 99)), (0, 7, 2, 3));
    }
}
