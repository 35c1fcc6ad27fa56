//! Every rule is shown to fire on a small bad example, and to be silent on a good one.
//!
//! The tree itself is not looked at here: that is `tidy`'s, so that a finding is never mistaken for a broken rule.

use super::all;
use crate::ratchet;
use crate::tree::Tree;

/// Findings as `path:line: what`, without the rule.
fn found(files: &[(&str, &str)]) -> Vec<String> {
    all(&Tree::of(files)).iter().map(|finding| format!("{}:{}: {}", finding.path, finding.line, finding.what)).collect()
}

fn in_a_file(text: &str) -> Vec<String> {
    found(&[("crates/wire/src/lib.rs", text)])
}

fn lines(count: usize) -> String {
    "    a();\n".repeat(count)
}

const DEEP: &str =
    "//! A.\nfn deep() {\n    if a {\n if b {\n if c {\n if d {\n if e {\n f();\n }\n }\n }\n }\n }\n}\n";
/// Words that the rules look for, in halves.
const NOTE: &str = concat!("TO", "DO");
const MACHINE: &str = concat!("/wo", "rk/main");
const REGISTRY: &str = concat!("crates", ".io");

#[test]
fn a_file_opens_with_what_it_is() {
    assert_eq!(in_a_file("fn f() {}\n"), ["crates/wire/src/lib.rs:1: no `//!` on the first line"]);
    assert!(in_a_file("//! A.\nfn f() {}\n").is_empty());
}

#[test]
fn files_and_functions_end() {
    let file = format!("//! A.\n{}", "// b\n".repeat(1000));
    assert_eq!(in_a_file(&file), ["crates/wire/src/lib.rs:1: the file has 1001 lines"]);
    let function = |lines_in_body| format!("//! A.\nfn long() {{\n{}}}\n", lines(lines_in_body));
    assert_eq!(in_a_file(&function(119)), ["crates/wire/src/lib.rs:2: `long` has 121 lines"]);
    assert!(in_a_file(&function(118)).is_empty());
    assert_eq!(in_a_file(DEEP), ["crates/wire/src/lib.rs:7: `deep` has 5 blocks in each other"]);
}

#[test]
fn a_type_of_too_many_parts_is_found() {
    let fields = |count: usize| (0..count).map(|number| format!("    a{number}: u8,\n")).collect::<String>();
    let a_struct = |count| format!("//! A.\nstruct Large {{\n{}}}\n", fields(count));
    assert_eq!(in_a_file(&a_struct(31)), ["crates/wire/src/lib.rs:2: `Large` has 31 fields"]);
    assert!(in_a_file(&a_struct(30)).is_empty());
    let blocks = format!("//! A.\n{}", "impl Large {\n}\n".repeat(7));
    assert_eq!(in_a_file(&blocks), ["crates/wire:1: `Large` has 7 impl blocks of its own"]);
    let functions = format!("//! A.\nimpl Large {{\n{}}}\n", "    fn f() {}\n".repeat(61));
    assert_eq!(in_a_file(&functions), ["crates/wire:1: `Large` has 61 functions of its own"]);
}

#[test]
fn modules_that_import_each_other_are_counted_and_held() {
    let one = ("crates/wire/src/one.rs", "//! A.\nuse crate::two;\n");
    let two = ("crates/wire/src/two.rs", "//! A.\nuse crate::one;\n");
    assert_eq!(found(&[one, two]), ["crates/wire:1: there are 2 modules that import each other"]);
    assert!(found(&[one, two, (ratchet::PATH, "cycle crates/wire 2\n")]).is_empty());
    let loose = "crates/xtask/ratchet.txt:1: cycle crates/wire 3 is 2 now";
    assert_eq!(found(&[one, two, (ratchet::PATH, "cycle crates/wire 3\n")]), [loose]);
}

#[test]
fn a_comment_with_a_reason_excuses_and_one_without_does_not() {
    let function = |head: &str| format!("//! A.\n\n{head}\n/// Doc.\n#[inline]\nfn long() {{\n{}}}\n", lines(119));
    assert!(in_a_file(&function("// tidy: a table of cases")).is_empty());
    assert_eq!(in_a_file(&function("// tidy:")).len(), 1);
    assert_eq!(in_a_file(&function("// a table of cases")).len(), 1);
    let file = format!("//! A.\n// tidy: a table of cases\n\nfn f() {{}}\n{}", "// b\n".repeat(1000));
    assert!(in_a_file(&file).is_empty());
    assert!(in_a_file("//! A.\nfn f() {\n    a.unwrap(); // tidy: why it holds\n}\n").is_empty());
}

#[test]
fn the_ratchet_holds_a_size_and_follows_it_down() {
    let with = |ratchet: &str| found(&[("crates/wire/src/lib.rs", DEEP), (ratchet::PATH, ratchet)]);
    let entry = |depth| format!("# Today's.\nnesting crates/wire/src/lib.rs deep {depth}\n");
    assert!(with(&entry(5)).is_empty());
    assert_eq!(with(&entry(4)), ["crates/wire/src/lib.rs:7: `deep` has 5 blocks in each other"]);
    let loose = "crates/xtask/ratchet.txt:2: nesting crates/wire/src/lib.rs deep 6 is 5 now";
    assert_eq!(with(&entry(6)), [loose]);
    let gone = format!("{}function crates/wire/src/lib.rs gone 80\n", entry(5));
    let unneeded = "crates/xtask/ratchet.txt:3: function crates/wire/src/lib.rs gone 80 is not needed any more";
    assert_eq!(with(&gone), [unneeded]);
    assert_eq!(with(&format!("{}deep 5\n", entry(5))), ["crates/xtask/ratchet.txt:3: `deep 5`"]);
    let tree = Tree::of(&[("crates/wire/src/lib.rs", DEEP), (ratchet::PATH, &format!("{}{gone}", entry(4)))]);
    assert_eq!(ratchet::shrunk(&tree), format!("{}{}", entry(4), entry(5)));
}

#[test]
fn nothing_unfinished_stays() {
    let notes =
        format!("//! A.\nfn f() {{\n    todo!();\n    unimplemented!();\n    dbg!(a);\n    // {NOTE}: later\n}}\n");
    let at = |line, what: &str| format!("crates/wire/src/lib.rs:{line}: {what}");
    assert_eq!(in_a_file(&notes), [at(3, "`todo!`"), at(4, "`unimplemented!`"), at(5, "`dbg!`"), at(6, NOTE)]);
}

#[test]
fn only_tests_unwrap() {
    let text = "//! A.\nfn f() {\n    a.unwrap();\n}\n#[cfg(test)]\nmod tests {\n    fn g() {\n        a.unwrap();\n    }\n}\n";
    assert_eq!(in_a_file(text), ["crates/wire/src/lib.rs:3: `.unwrap()`"]);
    let path = |path| found(&[(path, "//! A.\nfn f() {\n    a.unwrap();\n}\n")]).len();
    assert_eq!(
        (path("crates/engine/src/a.rs"), path("crates/engine/tests/a.rs"), path("crates/sim/src/a.rs")),
        (1, 0, 0)
    );
    let unwraps = "//! A.\nfn f() { a.unwrap() }\n";
    let module = "//! A.\n#[cfg(all(test, unix))]\nmod a_tests;\n#[cfg(not(test))]\nmod b;\n";
    let files = [("crates/x/src/lib.rs", module), ("crates/x/src/a_tests.rs", unwraps), ("crates/x/src/b.rs", unwraps)];
    assert_eq!(found(&files), ["crates/x/src/b.rs:2: `.unwrap()`"]);
}

#[test]
fn names_say_something() {
    for bad in ["mod utils {}", "struct PoolUtility;", "fn misc_checks() {}", "enum Helper {}"] {
        assert_eq!(in_a_file(&format!("//! A.\n{bad}\n")).len(), 1, "{bad}");
    }
    let good = "//! A helper, misc utils.\nstruct PoolManager;\nfn signal_handler() {}\nenum Data {}\ntype Context = u8;\nfn info() {}\n";
    assert!(in_a_file(good).is_empty());
    let path = "crates/wire/src/helpers.rs";
    assert_eq!(found(&[(path, "//! A.\n")]), ["crates/wire/src/helpers.rs:1: file or folder `helpers`"]);
}

#[test]
fn a_types_name_is_declared_once_in_a_crate() {
    let one = "//! A.\npub(crate) struct Kind;\nimpl Iterator for Kind {\n    type Item = u8;\n}\npub trait Own {\n    type Item;\n}\n";
    let two = "//! A.\nenum Kind {}\nfn f() -> impl Copy {\n    type Own = u8;\n}\n#[cfg(test)]\nmod tests {\n    struct Kind;\n}\n";
    let files = [("crates/wire/src/lib.rs", one), ("crates/wire/src/two.rs", two), ("crates/sql/src/lib.rs", one)];
    let expected = [
        "crates/wire/src/two.rs:2: `Kind` is a type in crates/wire/src/lib.rs:2 too",
        "crates/wire/src/two.rs:4: `Own` is a type in crates/wire/src/lib.rs:6 too",
    ];
    assert_eq!(found(&files), expected);
    let excused = two.replace("enum Kind", "// tidy: it is the same\nenum Kind").replace("Own", "Other");
    assert!(found(&[files[0], ("crates/wire/src/two.rs", &excused)]).is_empty());
}

#[test]
fn only_a_crates_root_passes_a_whole_machine() {
    let text = "//! A.\nfn f(a: &mut Worker) {}\nfn g<'a>(a: &'a mut crate::Door, b: &Worker, c: &mut Workers) {}\n#[test]\nfn t(a: &mut Worker) {}\n";
    let files = [("crates/worker/src/lib.rs", text), ("crates/worker/src/rule.rs", text)];
    assert_eq!(
        found(&files),
        ["crates/worker/src/rule.rs:2: `&mut Worker`", "crates/worker/src/rule.rs:3: `&mut Door`"]
    );
}

#[test]
fn a_lookup_in_vain_is_not_silent() {
    let text = "//! A.\nfn f() {\n    let Some(a) = t.get(id) else { return };\n    // It has gone.\n    \
         let Some(b) = t.get_mut(id).filter(|b| b.c) else {\n        return Ok(false);\n    };\n    \
         let Some(c) = t.get(id) else { return g(id) };\n    let Some(d) = e else { return };\n    \
         let f = t.get(id);\n}\n#[test]\nfn t() {\n    let Some(a) = t.get(id) else { return };\n}\n";
    let expected = ["crates/worker/src/lib.rs:3: a look-up that may find nothing, silently"];
    assert_eq!(found(&[("crates/worker/src/lib.rs", text), ("crates/sql/src/lib.rs", text)]), expected);
}

const LINTS: &str = "[lints]\nworkspace = true\n";

fn manifest(rest: &str) -> String {
    format!("{LINTS}{rest}")
}

#[test]
fn imports_go_down() {
    let up = manifest("[dependencies]\nengine.workspace = true\n[dev-dependencies]\nmachine.workspace = true\n");
    let bare = manifest("");
    let engine = manifest("[dependencies]\nmachine.workspace = true\nwire.workspace = true\n");
    let machine = manifest("[dependencies]\nwire.workspace = true\n");
    let files = |wire| {
        let rest = [("crates/engine/Cargo.toml", engine.as_str()), ("crates/machine/Cargo.toml", machine.as_str())];
        found(&[rest[0], rest[1], ("crates/machine/clippy.toml", ""), ("crates/wire/Cargo.toml", wire)])
    };
    let no_bans = "crates/wire/Cargo.toml:1: no clippy.toml beside it";
    assert_eq!(files(&up), [no_bans, "crates/wire/Cargo.toml:4: `wire` imports `engine`"]);
    assert_eq!(files(""), ["crates/wire/Cargo.toml:1: no `[lints] workspace = true`", no_bans]);
    assert_eq!(found(&[("crates/new/Cargo.toml", &bare)]), ["crates/new/Cargo.toml:1: `new` is no layer"]);
    let regress = [("crates/demo/Cargo.toml", bare.as_str()), ("crates/regress/Cargo.toml", bare.as_str())];
    assert_eq!(found(&regress), ["crates/regress/Cargo.toml:1: `regress` may import `demo`, and does not"]);
    let fuzz = manifest("[dependencies]\nregress.workspace = true\n");
    let fuzz = [("crates/regress/Cargo.toml", bare.as_str()), ("fuzz/Cargo.toml", fuzz.as_str())];
    assert_eq!(found(&fuzz), ["fuzz/Cargo.toml:4: `fuzz` imports `regress`"]);
}

#[test]
fn every_dependency_has_a_reason_and_every_reason_a_dependency() {
    let reasons = "# Every dependency\n\n| crate | where | reason |\n|---|---|---|\n| a, b | sim | speed |\n";
    let files = [
        ("crates/sim/Cargo.toml", &*manifest("[dependencies]\na = \"1\"\n[dev-dependencies]\nc = \"1\"\n")),
        ("docs/adr/0006-dependencies.md", reasons),
        ("docs/adr/README.md", "[0006](0006-dependencies.md)\n"),
    ];
    assert_eq!(found(&files), ["crates/sim/Cargo.toml:6: dependency `c`", "docs/adr/0006-dependencies.md:5: `b`"]);
}

#[test]
fn decisions_are_listed_and_what_is_listed_exists() {
    let files = [("docs/adr/0001-a.md", "# A\n"), ("docs/adr/README.md", "# Decisions\n[2](0002-b.md)\n")];
    let expected = [
        "docs/adr/0001-a.md:1: not listed",
        "docs/adr/README.md:2: no decision `0002-b.md`",
        "docs/adr/README.md:2: no file `0002-b.md`",
    ];
    assert_eq!(found(&files), expected);
}

#[test]
fn links_and_headings_lead_somewhere() {
    let page = "# A page\n[a](b.md) [c](../docs/) [d](#a-page) [e](https://example.org/x)\n```\n[f](gone.md)\n```\n`[g](gone.md)`\n\
                [h](../src.rs)\n[i](b.md#gone) [j](#gone)\n[`k`](gone.md)\n[l]: gone.md\n";
    let files = [("docs/a.md", page), ("docs/b.md", "# B\n")];
    let expected = [
        "docs/a.md:10: no file `gone.md`",
        "docs/a.md:7: no file `../src.rs`",
        "docs/a.md:8: no heading `#gone` in docs/a.md",
        "docs/a.md:8: no heading `#gone` in docs/b.md",
        "docs/a.md:9: no file `gone.md`",
    ];
    let mut found = found(&files);
    found.sort();
    assert_eq!(found, expected);
}

#[test]
fn pages_and_comments_name_files_that_exist() {
    let guide = "`wire/src/lib.rs` `wire/lib.rs` `lib.rs` `crates/wire/` `gone/` `gone.rs` `docs/gone.md` `pgbouncer.ini` `a.b` `x/y`\n";
    let code = "//! A: `wire/src/lib.rs`, not `wire/gone.rs`.\nconst NAME: &str = \"`gone.rs`\";\n";
    let files =
        [("README.md", guide), ("STYLE.md", guide), ("docs/mutants.md", guide), ("crates/wire/src/lib.rs", code)];
    let expected = [
        "README.md:1: `docs/gone.md`",
        "README.md:1: `gone.rs`",
        "README.md:1: `gone/`",
        "STYLE.md:1: `gone.rs`",
        "crates/wire/src/lib.rs:1: `wire/gone.rs`",
    ];
    assert_eq!(found(&files), expected);
}

#[test]
fn the_glossary_names_what_the_code_has() {
    let page = "| word | means | where |\n|---|---|---|\n| a | `gone` | `Kept::field` in `lib.rs`, `wire` |\n| b | b | `Kept::gone`, `Gone` |\n";
    let files = [
        ("docs/developers/glossary.md", page),
        ("crates/wire/src/lib.rs", "//! A: Gone.\nstruct Kept { field: u8 }\n"),
    ];
    assert_eq!(found(&files), ["docs/developers/glossary.md:4: `Gone`", "docs/developers/glossary.md:4: `Kept::gone`"]);
}

#[test]
fn architecture_names_what_the_tree_has() {
    let page = "`Kept` and `GONE_TYPES`, `sabotage` in a string\n`wire`, `image`, `test`, `gone`, `not a name`\n";
    let files = [
        ("ARCHITECTURE.md", page),
        ("Makefile", "test: build\n"),
        ("tools/image", ""),
        ("crates/wire/src/lib.rs", "//! A: GONE_TYPES.\nstruct Kept;\nconst A: &str = \"for sabotage\";\n"),
    ];
    assert_eq!(found(&files), ["ARCHITECTURE.md:1: `GONE_TYPES`", "ARCHITECTURE.md:2: `gone`"]);
}

#[test]
fn the_tree_names_no_machine_and_no_registry() {
    let text = format!("a = \"{MACHINE}\"\nsrc{MACHINE} ~{MACHINE}\nhttps://{REGISTRY}/\n");
    let expected = [format!("deploy/x.sh:1: `{}`", concat!("/wo", "rk/")), format!("deploy/x.sh:3: `{REGISTRY}`")];
    assert_eq!(found(&[("deploy/x.sh", &text), ("Cargo.lock", &text)]), expected);
}

#[test]
fn the_root_is_short() {
    let names: Vec<String> = (0..17).map(|at| format!("file{at:02}")).chain([".hidden".to_owned()]).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    let findings = found(&files);
    assert_eq!(findings.len(), 1);
    assert!(findings[0].starts_with(".:1: 17 entries: file00 "), "{findings:?}");
    assert!(found(&files[1..]).is_empty());
}

#[test]
fn a_citation_names_its_manual() {
    assert_eq!(in_a_file("//! A.\n//= manual page\n"), ["crates/wire/src/lib.rs:2: citation `manual page`"]);
}
