//! The tags of statements, by a table that a server has agreed to: `crates/outer` asks one.

use sql::{Kind, Rules, Text};
use std::collections::BTreeSet;

const TABLE: &str = include_str!("tags.txt");

/// The only statement's kind.
fn kind(text: &str) -> Kind<'_> {
    let text = Text::new(text.as_bytes(), Rules::default());
    let mut statements = text.statements();
    let statement = statements.next().expect("a statement");
    assert_eq!(statements.next(), None, "{text:?}");
    statement.kind
}

#[test]
fn a_statement_may_answer_what_a_server_answered() {
    let rows: Vec<(&str, &str)> = TABLE.lines().filter_map(|line| line.split_once(" | ")).collect();
    assert!(rows.len() > 90, "only {} rows were read", rows.len());
    let mut told = BTreeSet::new();
    for (tag, text) in rows.into_iter().filter(|(tag, _)| *tag != "FAILS") {
        let kind = kind(text);
        assert!(kind.may_answer(tag.as_bytes()), "{text} answers {tag}, and {kind:?} may not");
        // In a transaction that had failed, the two that end it are answered otherwise.
        let ends = matches!(kind, Kind::Commit { .. } | Kind::PrepareTransaction) && tag == "ROLLBACK";
        let is_told = kind.tag().is_some_and(|told| tag.as_bytes().starts_with(told));
        assert!(kind.tag().is_none() || is_told || ends, "{text} answers {tag}, not {:?}", kind.tag());
        told.extend(kind.tag());
    }
    assert_eq!(told.len(), 26, "{told:?}");
}

#[test]
fn other_tags_do_not_fit() {
    for (text, tag) in [
        ("begin", "COMMIT"),
        ("commit", "BEGIN"),
        ("rollback", "COMMIT"),
        ("set x = 1", "RESET"),
        ("set x = 1", "SET 1"),
        ("set x = 1", ""),
        ("deallocate p", "DEALLOCATE ALL"),
        ("deallocate all", "DEALLOCATE"),
        ("fetch c", "SELECT 1"),
        ("fetch c", "FETCH "),
        ("fetch c", "FETCH1"),
        ("fetch c", "1"),
        ("copy t to stdout", "COPY x"),
    ] {
        assert!(!kind(text).may_answer(tag.as_bytes()), "{text} may answer {tag}");
    }
    assert!(kind("select 1").may_answer(b"SELECT 1"));
    assert!(kind("frobnicate").may_answer(b"anything"));
}
