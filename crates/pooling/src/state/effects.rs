//! What the statements of one text will have done to the session once each has been confirmed by its command tag.
//!
//! //= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-COMMANDCOMPLETE

use std::sync::Arc;

use sql::{Assignment, Discarded, Isolation, Kind, Modes, Name, Scope, Statement, Text, Value, Which};

use super::Change;
use super::pins::Pins;
use crate::limits;
use crate::parameters::Tracked;

/// A statement of SQL's PREPARE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) name: Box<[u8]>,
    /// The whole PREPARE; none: it was too long to keep.
    pub(crate) text: Option<Arc<[u8]>>,
    /// What it may leave behind when it is executed.
    pub(crate) pins: Pins,
}

/// Of one statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// None that outlives its transaction.
    Nothing,
    /// COMMIT, ROLLBACK, PREPARE TRANSACTION: the tag tells which it was.
    End,
    Save(Box<[u8]>),
    Release(Box<[u8]>),
    RollBackTo(Box<[u8]>),
    Change(Vec<Change>),
    Prepare(Kept),
    /// Nothing; but the statement must be there.
    Execute(Box<[u8]>),
    Deallocate(Box<[u8]>),
    DeallocateAll,
    DiscardAll,
    Pin(Pins),
    Unpin(Pins),
}

impl Effect {
    /// Of each statement in a text, in their order.
    pub(crate) fn read(text: &Text<'_>, tracked: &Tracked) -> Vec<Effect> {
        let alone = text.statements().nth(1).is_none();
        text.statements().map(|statement| Effect::of(&statement, alone.then(|| text.source()), tracked)).collect()
    }

    /// `text`: what was sent, if that is this statement alone.
    fn of(statement: &Statement<'_>, text: Option<&[u8]>, tracked: &Tracked) -> Effect {
        let owned = |name: Name<'_>| name.to_vec().into_boxed_slice();
        match statement.kind {
            Kind::Commit { .. } | Kind::Rollback { .. } | Kind::PrepareTransaction => Effect::End,
            Kind::Savepoint(name) => Effect::Save(owned(name)),
            Kind::Release(name) => Effect::Release(owned(name)),
            Kind::RollbackTo(name) => Effect::RollBackTo(owned(name)),
            Kind::Set(assignment) => of_set(&assignment, tracked),
            Kind::SetCharacteristics { scope: Scope::Session, modes, .. } => Effect::Change(characteristics(modes)),
            Kind::Reset(Which::All) => Effect::Change(vec![Change::ResetAll]),
            Kind::Reset(Which::One(name)) => reset(name, tracked),
            Kind::Discard(Discarded::All) => Effect::DiscardAll,
            Kind::Discard(Discarded::Sequences) => Effect::Unpin(Pins::SEQUENCE),
            Kind::Prepare { name, .. } => {
                // As the client wrote it, since pg_prepared_statements shows it.
                let text =
                    Some(text.unwrap_or(statement.source)).filter(|source| source.len() <= limits::STATEMENT_LEN_MAX);
                Effect::Prepare(Kept { name: owned(name), text: text.map(Arc::from), pins: Pins::of(statement.marks) })
            }
            Kind::Execute(name) => Effect::Execute(owned(name)),
            Kind::Deallocate(Which::All) => Effect::DeallocateAll,
            Kind::Deallocate(Which::One(name)) => Effect::Deallocate(owned(name)),
            Kind::Listen(_) => Effect::Pin(Pins::LISTEN),
            Kind::Unlisten(Which::All) => Effect::Unpin(Pins::LISTEN),
            Kind::Load { .. } => Effect::Pin(Pins::LOAD),
            _ => Effect::Nothing,
        }
    }
}

/// Settings that hold for one transaction however they are set, and what is no setting at all.
fn is_passing(name: &[u8]) -> bool {
    let known: [&[u8]; 4] = [b"transaction_isolation", b"transaction_read_only", b"transaction_deferrable", b"seed"];
    known.contains(&name)
}

fn of_set(assignment: &Assignment<'_>, tracked: &Tracked) -> Effect {
    let name: Box<[u8]> = assignment.name.lowercase().collect();
    if assignment.scope == Scope::Local || is_passing(&name) || tracked.index(&name).is_some() {
        return Effect::Nothing;
    }
    let change = match assignment.value {
        Value::Default => Change::Reset(name),
        Value::Given(value) if *name == *b"role" && value.eq_ignore_ascii_case(b"none") => Change::Reset(name),
        Value::Given(value) => Change::Set { name, clause: replayable(assignment.clause, value).map(Box::from) },
        Value::Current => Change::Set { name, clause: None },
    };
    Effect::Change(vec![change])
}

/// What a backslash in a string means hangs on standard_conforming_strings, which may be another when it is set again.
fn replayable<'t>(clause: &'t [u8], value: &[u8]) -> Option<&'t [u8]> {
    let plain = !value.contains(&b'\\') && clause.len() <= limits::PARAMETER_LEN_MAX;
    plain.then_some(clause)
}

fn reset(name: Name<'_>, tracked: &Tracked) -> Effect {
    let name: Box<[u8]> = name.lowercase().collect();
    match is_passing(&name) || tracked.index(&name).is_some() {
        true => Effect::Nothing,
        false => Effect::Change(vec![Change::Reset(name)]),
    }
}

/// SET SESSION CHARACTERISTICS as the settings it stands for. //= pg18 sql-set-transaction
fn characteristics(modes: Modes) -> Vec<Change> {
    let set = |name: &str, value: &str| {
        let clause = format!("{name}='{value}'").into_bytes().into();
        Change::Set { name: name.as_bytes().into(), clause: Some(clause) }
    };
    let switch = |on: bool| if on { "on" } else { "off" };
    let isolation = modes.isolation.map(|isolation| match isolation {
        Isolation::ReadUncommitted => "read uncommitted",
        Isolation::ReadCommitted => "read committed",
        Isolation::RepeatableRead => "repeatable read",
        Isolation::Serializable => "serializable",
    });
    let isolation = isolation.map(|value| set("default_transaction_isolation", value));
    let read_only = modes.read_only.map(|on| set("default_transaction_read_only", switch(on)));
    let deferrable = modes.deferrable.map(|on| set("default_transaction_deferrable", switch(on)));
    isolation.into_iter().chain(read_only).chain(deferrable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sql::Rules;

    fn read(text: &str) -> Vec<Effect> {
        Effect::read(&Text::new(text.as_bytes(), Rules::default()), &Tracked::new(&["IntervalStyle".to_owned()]))
    }

    fn set(name: &str, clause: Option<&str>) -> Effect {
        let clause = clause.map(|clause| clause.as_bytes().into());
        Effect::Change(vec![Change::Set { name: name.as_bytes().into(), clause }])
    }

    fn reset(name: &str) -> Effect {
        Effect::Change(vec![Change::Reset(name.as_bytes().into())])
    }

    #[test]
    fn each_statement_has_its_effect() {
        let named = |name: &str| -> Box<[u8]> { name.as_bytes().into() };
        let table: [(&str, Effect); 34] = [
            ("select 1", Effect::Nothing),
            ("begin", Effect::Nothing),
            ("commit and chain", Effect::End),
            ("end", Effect::End),
            ("abort", Effect::End),
            ("prepare transaction 'x'", Effect::End),
            ("savepoint A", Effect::Save(named("a"))),
            ("release \"A\"", Effect::Release(named("A"))),
            ("rollback to a", Effect::RollBackTo(named("a"))),
            ("set Work_Mem = '1MB'", set("work_mem", Some("Work_Mem = '1MB'"))),
            ("set session work_mem to default", reset("work_mem")),
            ("set local work_mem = '1MB'", Effect::Nothing),
            ("set app.user_id = '7'", set("app.user_id", Some("app.user_id = '7'"))),
            ("set app.x = 'a\\b'", set("app.x", None)),
            ("set work_mem from current", set("work_mem", None)),
            ("set time zone 'UTC'", Effect::Nothing),
            ("set intervalstyle = iso_8601", Effect::Nothing),
            ("set schema 's'", set("search_path", Some("schema 's'"))),
            ("set role r", set("role", Some("role r"))),
            ("set role none", reset("role")),
            ("reset role", reset("role")),
            ("set session authorization default", reset("session_authorization")),
            ("set transaction isolation level serializable", Effect::Nothing),
            (
                "set session characteristics as transaction read only",
                set("default_transaction_read_only", Some("default_transaction_read_only='on'")),
            ),
            ("reset all", Effect::Change(vec![Change::ResetAll])),
            ("discard all", Effect::DiscardAll),
            ("discard sequences", Effect::Unpin(Pins::SEQUENCE)),
            (
                "prepare p as select 1",
                Effect::Prepare(Kept {
                    name: named("p"),
                    text: Some(b"prepare p as select 1"[..].into()),
                    pins: Pins::NONE,
                }),
            ),
            ("explain execute P(1)", Effect::Execute(named("p"))),
            ("deallocate prepare p", Effect::Deallocate(named("p"))),
            ("deallocate all", Effect::DeallocateAll),
            ("listen c", Effect::Pin(Pins::LISTEN)),
            ("unlisten *", Effect::Unpin(Pins::LISTEN)),
            ("load 'auto_explain'", Effect::Pin(Pins::LOAD)),
        ];
        for (text, effect) in table {
            assert_eq!(read(text), [effect], "{text}");
        }
    }

    #[test]
    fn a_text_has_one_effect_for_each_command_tag() {
        assert_eq!(
            read(";; set role r; select 1;; reset role -- x"),
            [set("role", Some("role r")), Effect::Nothing, reset("role")]
        );
    }
}
