//! Statements that begin, end and divide transactions. //= pg18 sql-begin

use crate::head::Head;
use crate::kind::{Isolation, Kind, Modes};
use crate::name::Name;
use crate::scan;
use crate::text::{Rules, Text};

/// With all its modes, and a comment.
const BEGIN_MAX: usize = 1024;

/// Whether a text is one statement that begins a transaction, and nothing else. What cannot be read is not.
#[inline]
pub fn begins_transaction(text: &[u8]) -> bool {
    let is_spaced = text.first().is_some_and(u8::is_ascii_whitespace);
    may_begin_transaction(if is_spaced { text.trim_ascii_start() } else { text }) && is_begin(text)
}

/// Whether a text may be such a statement. Most are told apart by their first two bytes: BEGIN, START, or a comment.
#[inline]
#[must_use]
pub fn may_begin_transaction(words: &[u8]) -> bool {
    matches!(
        words,
        [b'b' | b'B', b'e' | b'E', ..] | [b's' | b'S', b't' | b'T', ..] | [b'/', b'*', ..] | [b'-', b'-', ..]
    )
}

#[inline(never)]
fn is_begin(text: &[u8]) -> bool {
    if text.len() > BEGIN_MAX || !may_begin_transaction(after_comments(text)) {
        return false;
    }
    let text = Text::new(text, Rules::default());
    let mut statements = text.statements();
    let first = statements.next().map(|statement| statement.kind);
    matches!(first, Some(Kind::Begin(_))) && statements.next().is_none()
}

/// What stands behind the comments that a text begins with; nothing if one of them does not end.
pub(crate) fn after_comments(text: &[u8]) -> &[u8] {
    let mut rest = text.trim_ascii_start();
    while rest.len() > 1 && scan::is_comment(rest, 0) {
        let Some(end) = scan::any_comment(rest, 0) else { return &[] };
        rest = rest[end..].trim_ascii_start();
    }
    rest
}

/// The kind of the statement with this first word; the cursor stands behind it.
pub(crate) fn kind<'t>(first: &[u8], head: &mut Head<'_, 't>) -> Option<Kind<'t>> {
    match first {
        b"begin" => {
            work(head);
            modes(head).map(Kind::Begin)
        }
        b"start" => {
            head.take("transaction").then_some(())?;
            modes(head).map(Kind::Begin)
        }
        b"commit" if head.take("prepared") => head.strings().map(|_| Kind::CommitPrepared),
        b"commit" | b"end" => {
            work(head);
            chain(head).map(|chain| Kind::Commit { chain })
        }
        b"rollback" => rollback(head),
        b"abort" => {
            work(head);
            chain(head).map(|chain| Kind::Rollback { chain })
        }
        b"savepoint" => head.name().map(Kind::Savepoint),
        b"release" => savepoint(head).map(Kind::Release),
        _ => None,
    }
}

fn work(head: &mut Head<'_, '_>) {
    head.take_any(&["work", "transaction"]);
}

/// AND CHAIN, AND NO CHAIN, or nothing.
fn chain(head: &mut Head<'_, '_>) -> Option<bool> {
    if !head.take("and") {
        return Some(false);
    }
    let no = head.take("no");
    head.take("chain").then_some(!no)
}

//= pg18 sql-rollback-to
fn rollback<'t>(head: &mut Head<'_, 't>) -> Option<Kind<'t>> {
    if head.take("prepared") {
        return head.strings().map(|_| Kind::RollbackPrepared);
    }
    work(head);
    if head.take("to") {
        return savepoint(head).map(Kind::RollbackTo);
    }
    chain(head).map(|chain| Kind::Rollback { chain })
}

/// A savepoint's name, with or without SAVEPOINT before it; one may be named so.
fn savepoint<'t>(head: &mut Head<'_, 't>) -> Option<Name<'t>> {
    if head.at("savepoint") && !head.next().done() {
        head.advance();
    }
    head.name()
}

/// What a transaction is to be like, with or without commas between. //= pg18 sql-set-transaction
pub(crate) fn modes(head: &mut Head<'_, '_>) -> Option<Modes> {
    let mut modes = Modes::default();
    let mut is_first = true;
    while !head.done() {
        if !is_first && head.at_byte(b',') {
            head.advance();
        }
        mode(head, &mut modes)?;
        is_first = false;
    }
    Some(modes)
}

fn mode(head: &mut Head<'_, '_>, modes: &mut Modes) -> Option<()> {
    let first = head.clone();
    head.advance();
    match first.word() {
        b"isolation" => modes.isolation = Some(isolation(head)?),
        b"read" if head.take("only") => modes.read_only = Some(true),
        b"read" if head.take("write") => modes.read_only = Some(false),
        b"deferrable" => modes.deferrable = Some(true),
        b"not" if head.take("deferrable") => modes.deferrable = Some(false),
        _ => return None,
    }
    Some(())
}

fn isolation(head: &mut Head<'_, '_>) -> Option<Isolation> {
    head.take("level").then_some(())?;
    let levels: [(&[&str], Isolation); 4] = [
        (&["read", "uncommitted"], Isolation::ReadUncommitted),
        (&["read", "committed"], Isolation::ReadCommitted),
        (&["repeatable", "read"], Isolation::RepeatableRead),
        (&["serializable"], Isolation::Serializable),
    ];
    levels.into_iter().find_map(|(words, level)| head.take_all(words).map(|()| level))
}

#[cfg(test)]
mod tests {
    use super::begins_transaction;

    #[test]
    fn a_bare_begin_is_distinguished_from_everything_else() {
        let begins = [
            "begin",
            " BEGIN ;",
            "start transaction isolation level serializable",
            "/* x */ begin work",
            "-- x\nbegin",
            "/* x */ -- y\r\n/* /* z */ */ bEGIN",
        ];
        for text in begins {
            assert!(begins_transaction(text.as_bytes()), "{text}");
        }
        let others = [
            "",
            "begin; select 1",
            "select 1",
            "beginning",
            "/* begin */ select 1",
            "/* begin",
            "-- begin",
            "/*/* x */ begin",
            "b",
            "-",
            "commit",
            "begin transaction foo",
            "start",
        ];
        for text in others {
            assert!(!begins_transaction(text.as_bytes()), "{text}");
        }
    }
}
