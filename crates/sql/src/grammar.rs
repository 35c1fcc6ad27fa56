//! The statements that change a session, as PostgreSQL's grammar has them: prepared statements, cursors, notifications.
//!
//! A function here is given a cursor behind the first word, and returns `None` where the statement is not of the form
//! that the manual gives: then its kind is unknown. It must use up all tokens.

use crate::head::Head;
use crate::kind::{Discarded, Kind, Which};
use crate::lexer::TokenKind;
use crate::{definitions, settings, transactions};

/// The kind of the statement that begins here; `None` if it is not known.
pub(crate) fn kind<'t>(head: &Head<'_, 't>) -> Option<Kind<'t>> {
    let mut rest = head.next();
    let kind = of_a_first_word(head.word(), &mut rest)?;
    rest.done().then_some(kind)
}

fn of_a_first_word<'t>(first: &[u8], head: &mut Head<'_, 't>) -> Option<Kind<'t>> {
    match first {
        b"begin" | b"start" | b"commit" | b"end" | b"rollback" | b"abort" | b"savepoint" | b"release" => {
            transactions::kind(first, head)
        }
        b"set" => settings::set(head),
        b"reset" => settings::reset(head),
        b"discard" => discard(head),
        b"prepare" => prepare(head),
        b"execute" => execute(head),
        b"deallocate" => deallocate(head),
        b"declare" => declare(head),
        b"close" => which(head).map(Kind::Close),
        b"listen" => head.name().map(Kind::Listen),
        b"unlisten" => unlisten(head),
        b"notify" => notify(head),
        b"load" => load(head),
        b"explain" => explain(head),
        _ => None,
    }
}

/// A name, or ALL, which is no name without quotes.
fn which<'t>(head: &mut Head<'_, 't>) -> Option<Which<'t>> {
    if head.take("all") { Some(Which::All) } else { head.name().map(Which::One) }
}

//= pg18 sql-discard
fn discard<'t>(head: &mut Head<'_, 't>) -> Option<Kind<'t>> {
    let discarded = match head.word() {
        b"all" => Discarded::All,
        b"plans" => Discarded::Plans,
        b"sequences" => Discarded::Sequences,
        b"temp" | b"temporary" => Discarded::Temporary,
        _ => return None,
    };
    head.advance();
    Some(Kind::Discard(discarded))
}

/// PREPARE of a statement, or of a transaction. //= pg18 sql-prepare
fn prepare<'t>(head: &mut Head<'_, 't>) -> Option<Kind<'t>> {
    if head.at("transaction") && head.next().kind() == Some(TokenKind::String) {
        head.advance();
        head.advance();
        return Some(Kind::PrepareTransaction);
    }
    let name = head.name()?;
    head.skip_parentheses()?;
    head.take("as").then_some(())?;
    if !head.at_any(&["select", "insert", "update", "delete", "merge", "values", "table", "with"])
        && !head.at_byte(b'(')
    {
        return None;
    }
    Some(Kind::Prepare { name, body: head.rest() })
}

//= pg18 sql-execute
fn execute<'t>(head: &mut Head<'_, 't>) -> Option<Kind<'t>> {
    let name = head.name()?;
    head.skip_parentheses()?;
    Some(Kind::Execute(name))
}

//= pg18 sql-deallocate
fn deallocate<'t>(head: &mut Head<'_, 't>) -> Option<Kind<'t>> {
    // A statement may be named so.
    if head.at("prepare") && !head.next().done() {
        head.advance();
    }
    which(head).map(Kind::Deallocate)
}

//= pg18 sql-declare
fn declare<'t>(head: &mut Head<'_, 't>) -> Option<Kind<'t>> {
    let name = head.name()?;
    while head.take_any(&["no", "scroll", "binary", "asensitive", "insensitive"]) {}
    head.take("cursor").then_some(())?;
    let hold = head.take_all(&["with", "hold"]).is_some();
    if !hold && head.at("without") {
        head.take_all(&["without", "hold"])?;
    }
    head.take("for").then_some(())?;
    head.rest();
    Some(Kind::Declare { name, hold })
}

//= pg18 sql-unlisten
fn unlisten<'t>(head: &mut Head<'_, 't>) -> Option<Kind<'t>> {
    if head.at_byte(b'*') {
        head.advance();
        return Some(Kind::Unlisten(Which::All));
    }
    head.name().map(|name| Kind::Unlisten(Which::One(name)))
}

//= pg18 sql-notify
fn notify<'t>(head: &mut Head<'_, 't>) -> Option<Kind<'t>> {
    let name = head.name()?;
    if head.at_byte(b',') {
        head.advance();
        head.strings()?;
    }
    Some(Kind::Notify(name))
}

//= pg18 sql-load
fn load<'t>(head: &mut Head<'_, 't>) -> Option<Kind<'t>> {
    let file = head.strings()?;
    Some(Kind::Load { file })
}

/// What is explained may be a prepared statement, which is then known to the server. //= pg18 sql-explain
fn explain<'t>(head: &mut Head<'_, 't>) -> Option<Kind<'t>> {
    if head.at_byte(b'(') && !explains_at_once(head) {
        head.skip_parentheses()?;
    } else {
        head.take_any(&["analyze", "analyse"]);
        head.take("verbose");
    }
    let kind = match head.word() {
        b"select" | b"insert" | b"update" | b"delete" | b"merge" | b"values" | b"table" | b"with" | b"declare"
        | b"refresh" => Kind::Plain,
        b"" if head.at_byte(b'(') => Kind::Plain,
        b"create" => definitions::kind(head),
        b"execute" => {
            head.advance();
            return execute(head);
        }
        _ => return None,
    };
    head.rest();
    Some(kind)
}

/// The parenthesis begins a query and not options: `EXPLAIN (SELECT …)`.
fn explains_at_once(head: &Head<'_, '_>) -> bool {
    let inside = head.next();
    inside.at_any(&["select", "values", "table", "with"]) || inside.at_byte(b'(')
}
