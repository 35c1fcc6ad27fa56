//! docs/session-state.md names a test for each kind of state: each must be there.

#![expect(clippy::disallowed_methods, reason = "documents and transcripts are files")]

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
