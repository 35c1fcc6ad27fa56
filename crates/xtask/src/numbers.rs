//! A mirror: how deep functions nest, how much is asserted and tested. How large things are, `spread` prints.
//!
//! Printed, never a finding: look when a number drifts. Lines of tests are not lines of the program.

use crate::rules::{CORE, PURE, root_entries};
use crate::shape::{self, Function};
use crate::source::Source;
use crate::tree::{Tree, crate_of};

pub(crate) fn print(tree: &Tree) -> String {
    let sources = tree.sources();
    let program: Vec<&Source<'_>> = sources.iter().filter(|source| !source.is_test).collect();
    let functions: Vec<Function<'_>> = program.iter().flat_map(|source| program_functions(source)).collect();
    let deep = functions.iter().filter(|function| function.nesting > 3).count();
    let pure: Vec<&Source<'_>> = program.iter().copied().filter(|source| is_pure(source.path)).collect();

    let mut text = String::new();
    let mut row = |name: &str, is: String, target: &str| text += &format!("{name:<34} {is:<28} {target}\n");
    row("", "is".into(), "should be");
    row("functions nested deeper than 3", format!("{deep} of {}", functions.len()), "0");
    row("statics in pure crates", count(&pure, &["static"]).to_string(), "0");
    let clocks = count(&pure, &["Instant", "::", "now"]) + count(&pure, &["SystemTime", "::", "now"]);
    row("clock reads in pure crates", clocks.to_string(), "0");
    row("asserts per function in the core", two_digits(asserts_per_function(&program)), "≥ 1, at least 0.50");
    for name in PURE {
        row(
            &format!("lines of test ÷ program in {name}"),
            two_digits(tested(tree, &sources, name)),
            "≥ 1, at least 0.80",
        );
    }
    row("visible entries in the root", root_entries(tree).len().to_string(), "≤ 14, max 16");
    text
}

fn two_digits((part, whole): (usize, usize)) -> String {
    format!("{:.2} ({part} ÷ {whole})", part as f64 / whole.max(1) as f64)
}

fn is_pure(path: &str) -> bool {
    crate_of(path).is_some_and(|name| PURE.contains(&name))
}

fn program_lines(source: &Source<'_>) -> usize {
    (1..=source.lines()).filter(|line| !source.is_test_line(*line)).count()
}

fn program_functions<'a>(source: &Source<'a>) -> Vec<Function<'a>> {
    let mut functions = shape::functions(source);
    functions.retain(|function| !source.is_test_line(function.line));
    functions
}

/// How often the words stand in the program.
fn count(sources: &[&Source<'_>], words: &[&str]) -> usize {
    let places = |source: &&Source<'_>| {
        let starts = (0..source.code.len()).filter(|at| source.reads(*at, words));
        starts.filter(|at| !source.is_test_line(source.code[*at].line)).count()
    };
    sources.iter().map(places).sum()
}

/// Those outside of functions count too: `const _: () = assert!(…)`.
fn asserts_per_function(program: &[&Source<'_>]) -> (usize, usize) {
    let core = program.iter().filter(|source| crate_of(source.path).is_some_and(|name| CORE.contains(&name)));
    let both = core.map(|source| {
        let code = source.code.iter().filter(|token| !source.is_test_line(token.line)).copied();
        (shape::asserts(&code.collect::<Vec<_>>()), program_functions(source).len())
    });
    both.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

/// Lines of tests and of the program of a crate; cases as text are tests.
fn tested(tree: &Tree, sources: &[Source<'_>], name: &str) -> (usize, usize) {
    let own = sources.iter().filter(|source| crate_of(source.path) == Some(name));
    let (program, all) = own.fold((0, 0), |sum, source| {
        let program = if source.is_test { 0 } else { program_lines(source) };
        (sum.0 + program, sum.1 + source.lines())
    });
    let folder = format!("crates/{name}/tests/");
    let texts = tree.texts().filter(|(path, _)| path.starts_with(&folder) && path.ends_with(".txt"));
    let cases: usize = texts.map(|(_, text)| text.lines().count()).sum();
    (all - program + cases, program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_not_program_and_cases_are_tests() {
        let program = "//! A.\nstruct S<T: Copy> where T: Eq {\n    a: u8,\n    b: fn(x: u8),\n}\nfn f() {\n    assert!(true);\n}\n\
                       #[cfg(test)]\nmod tests {\n    fn g() {}\n}\n";
        let tree = Tree::of(&[("crates/pooling/src/lib.rs", program), ("crates/pooling/tests/a.txt", "a\nb\n")]);
        let sources = tree.sources();
        assert_eq!(tested(&tree, &sources, "pooling"), (6, 8));
        assert_eq!(asserts_per_function(&[&sources[0]]), (1, 1));
        assert!(print(&tree).contains("1.00 (1 ÷ 1)"));
    }
}
