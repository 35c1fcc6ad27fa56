//! docs/session-state.md names a test for each kind of state, docs/cves.md one for each vulnerability: each must be there. The pages of errors
//! and log lines have each reason.

#![expect(clippy::disallowed_methods, reason = "documents and transcripts are files")]

mod reasons;

use std::collections::BTreeSet;
use std::path::Path;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

#[test]
fn every_test_that_the_list_of_session_state_names_is_there() {
    let root = Path::new(ROOT);
    let page = std::fs::read_to_string(root.join("docs/session-state.md")).expect("the list is there");
    // What SHOW PINS calls them has a section of its own.
    let (list, _) = page.split_once("\n## ").expect("the list comes first");
    let rows: Vec<&str> = list.lines().filter(|line| line.starts_with("| ") && line.ends_with("` |")).collect();
    assert!(rows.len() > 45, "only {} rows name a test", rows.len());
    let kinds = list.lines().filter(|line| line.starts_with("| ")).count();
    assert_eq!(kinds, rows.len() + 1, "a row names no test");
    let path = |row: &&str| row.trim_end_matches("` |").rsplit('`').next().expect("rsplit gives one").to_owned();
    let missing: Vec<String> = rows.iter().map(path).filter(|path| !is_there(root, path)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

fn is_there(root: &Path, path: &str) -> bool {
    let folder =
        if path.starts_with("crates/") { root.to_owned() } else { root.join("crates/pooling/tests/transcripts") };
    folder.join(path).is_file()
}

#[test]
fn every_vulnerability_has_the_test_that_is_named_after_it() {
    let root = Path::new(ROOT);
    let page = std::fs::read_to_string(root.join("docs/cves.md")).expect("the page is there");
    let rows: Vec<Vec<&str>> =
        page.lines().filter(|line| line.starts_with("| CVE-")).map(|line| line.split(" | ").collect()).collect();
    assert!(rows.len() >= 17, "only {} rows", rows.len());
    let mut listed = BTreeSet::new();
    for row in &rows {
        let [id, _, test, path] = row.as_slice() else { panic!("{row:?}") };
        let (id, test) = (id.trim_start_matches("| "), test.trim_matches('`'));
        assert!(test.contains(&id.to_lowercase().replace('-', "_")), "{test} is not named after {id}");
        let path = path.trim_end_matches(" |");
        let text = std::fs::read_to_string(root.join(path)).unwrap_or_else(|why| panic!("{path}: {why}"));
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let at = lines.iter().position(|line| line.starts_with(&format!("fn {test}(")));
        let is_test = at.is_some_and(|at| lines[at - 1] == "#[test]");
        assert!(is_test, "{path} has no test {test}");
        listed.insert((path.to_owned(), test.to_owned()));
    }
    assert_eq!(listed, tests_named_after_vulnerabilities(root), "the page and the tree");
}

/// Paths and names of the tests that begin with `cve_`.
fn tests_named_after_vulnerabilities(root: &Path) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    let mut folders = vec![root.join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("it can be read") {
            let path = entry.expect("it can be read").path();
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
                continue;
            }
            if path.extension().is_none_or(|end| end != "rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("it is text");
            let names = text.lines().filter_map(|line| line.trim().strip_prefix("fn cve_")?.split('(').next());
            let place = path.strip_prefix(root).expect("it is below").display().to_string();
            found.extend(names.map(|name| (place.clone(), format!("cve_{name}"))));
        }
    }
    found
}
