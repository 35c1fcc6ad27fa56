//! One text, read by both.

use crate::expected::{self, Inside, named};
use serde_json::Value;
use sql::{
    Assignment, Isolation, Key, Kind, Marks, Memo, Modes, Name, Pieces, Rules, Scope, SetConfig, Statement, Summary,
    Text, Which, Word,
};

/// The two did not contradict each other.
pub(crate) enum Same {
    Known,
    /// `sql` says that it does not know; and what it is.
    Unknown(String),
    /// No statement for the parser.
    Refused,
}

/// Errors: what differs.
pub(crate) fn of(text: &str) -> Result<Same, String> {
    let Ok(parsed) = pg_query::parse(text) else { return Ok(Same::Refused) };
    let trees = &parsed.protobuf.stmts;
    let read = Text::new(text.as_bytes(), Rules::default());
    let summary = Summary::of(&read);
    let statements: Vec<Statement<'_>> = read.statements().collect();
    let all = statements.iter().fold(Marks::NONE, |marks, statement| marks | statement.marks);
    if summary.marks() != all && !summary.marks().any(Marks::UNKNOWN) {
        return Err(format!("summary {:?}, statements {all:?}", summary.marks()));
    }
    if read.fingerprint(&Key::from_seed(1)).is_err() && !all.any(Marks::UNKNOWN) {
        return Err("no fingerprint".to_owned());
    }
    let mut unknown = None;
    if statements.len() != trees.len() {
        if !all.any(Marks::UNKNOWN) {
            return Err(format!("{} statements, not {}", trees.len(), statements.len()));
        }
        return Ok(Same::Unknown("how many statements".to_owned()));
    }
    for (tree, statement) in trees.iter().zip(&statements) {
        let json = serde_json::to_value(tree.stmt.as_ref().expect("a statement")).expect("it is plain");
        if statement.kind == Kind::Unknown {
            unknown = Some(named(&json).map(|(name, _)| name.to_owned()).unwrap_or_default());
            continue;
        }
        let start = usize::try_from(tree.stmt_location).expect("not negative");
        let end =
            if tree.stmt_len == 0 { text.len() } else { start + usize::try_from(tree.stmt_len).expect("not negative") };
        let is_inside =
            text.as_bytes()[start..end].windows(statement.source.len().max(1)).any(|part| part == statement.source);
        if !is_inside {
            return Err(format!("{:?} is not within the statement", String::from_utf8_lossy(statement.source)));
        }
        compare(&json, statement, &summary)?;
        set_configs(&json, statement, &read)?;
    }
    Ok(unknown.map_or(Same::Known, Same::Unknown))
}

/// The memo, and a text in pieces, mean the same as the text read at once. Errors: what differs.
pub(crate) fn remembered(text: &str, memo: &mut Memo) -> Result<(), String> {
    let read = Text::new(text.as_bytes(), Rules::default());
    let summary = Summary::of(&read);
    if *memo.summary(&read) != summary {
        return Err(format!("the memo has {:?}, not {summary:?}", memo.summary(&read)));
    }
    let mut pieces = Pieces::new(Rules::default(), 1 << 20);
    text.as_bytes().chunks(1 + text.len() % 61).for_each(|piece| pieces.add(piece));
    let Some(shape) = pieces.finish() else {
        // Numbers of more digits than are kept of a token are given up.
        let has_long_token = text.split_whitespace().any(|word| word.len() > 500);
        let may_be_lost = summary.marks().any(Marks::UNKNOWN) || has_long_token;
        return if may_be_lost { Ok(()) } else { Err("lost in pieces".to_owned()) };
    };
    let of_pieces = Summary::of(&Text::new(&shape, Rules::default()));
    if of_pieces == summary { Ok(()) } else { Err(format!("in pieces {of_pieces:?}, not {summary:?}")) }
}

fn compare(json: &Value, statement: &Statement<'_>, summary: &Summary) -> Result<(), String> {
    let (name, node) = named(json).ok_or("a node without a sort")?;
    let (is, should) = (shown(&statement.kind), expected::kind(name, node));
    if is != should {
        return Err(format!("kind {is}, not {should}"));
    }
    let mut inside = Inside::default();
    inside.walk(json);
    let mut marks = expected::marks(name, node) | inside.marks.unwrap_or_default();
    inside.called.iter().for_each(|function| marks |= of_a_function(function));
    if statement.marks.any(Marks::TEMPORARY) {
        marks = marks.without(Marks::RELATIONS);
    }
    if !statement.marks.contains(marks) {
        return Err(format!("{name}: marks {:?} without {:?}", statement.marks, marks.without(statement.marks)));
    }
    if summary.marks().any(Marks::UNKNOWN) {
        // A text with a part that is unknown has no words that count.
        return replayed(statement, json);
    }
    let word = |name: &str| summary.words().iter().find(|word| word.name() == Word::of(name.as_bytes())).copied();
    if let Some(function) = inside.called.iter().find(|function| !word(function).is_some_and(Word::is_called)) {
        return Err(format!("{function} is called"));
    }
    if let Some(relation) = inside.named.iter().find(|relation| word(relation).is_none() && !is_reserved(relation)) {
        return Err(format!("{relation} is named"));
    }
    replayed(statement, json)
}

/// What is said of calls of set_config is what the tree says, and all of them are local where there is no mark.
fn set_configs(json: &Value, statement: &Statement<'_>, text: &Text<'_>) -> Result<(), String> {
    let mut inside = Inside::default();
    inside.walk(json);
    let expected = inside.set_configs;
    if !statement.marks.any(Marks::SET_CONFIG)
        && let Some(call) = expected.iter().find(|call| call.local != Some(true))
    {
        return Err(format!("{call:?} is not local"));
    }
    let is_executed = matches!(statement.kind, Kind::Execute(name) if name.is(b"set_config"));
    if inside.has_type_set_config || is_executed {
        return Ok(());
    }
    let calls: Vec<SetConfig<'_>> = statement.set_config_calls(text).collect();
    let is_alone = statement.only_sets_config(text);
    if calls.len() < expected.len() || is_alone && calls.len() != expected.len() {
        return Err(format!("{} calls of set_config, not {}", calls.len(), expected.len()));
    }
    let same = |is: Option<&[u8]>, should: &Option<String>| {
        is.is_none_or(|is| Some(is) == should.as_deref().map(str::as_bytes))
    };
    for call in calls.iter().filter(|call| **call != SetConfig::default()) {
        // A string may mean a boolean too, which no parser decides.
        let is_it = |should: &expected::SetConfig| {
            let same_scope = should.local.is_none_or(|local| call.local == Some(local));
            same(call.name, &should.name) && same(call.value, &should.value) && same_scope
        };
        if !expected.iter().any(is_it) {
            return Err(format!("{call:?} is none of {expected:?}"));
        }
    }
    Ok(())
}

/// A setting's clause, and a prepared statement's body, mean the same by themselves.
fn replayed(statement: &Statement<'_>, json: &Value) -> Result<(), String> {
    let clause = match statement.kind {
        Kind::Set(Assignment { scope: Scope::Session, clause, .. })
        | Kind::SetCharacteristics { scope: Scope::Session, clause, .. } => clause,
        Kind::Prepare { body, .. } => {
            let body = String::from_utf8_lossy(body);
            return pg_query::parse(&body).map(drop).map_err(|error| format!("body {body:?}: {error}"));
        }
        _ => return Ok(()),
    };
    let again = format!("SET SESSION {}", String::from_utf8_lossy(clause));
    let parsed = pg_query::parse(&again).map_err(|error| format!("{again:?}: {error}"))?;
    let parsed = serde_json::to_value(parsed.protobuf.stmts[0].stmt.as_ref()).expect("it is plain");
    let same = without_places(parsed) == without_places(json.clone());
    same.then_some(()).ok_or_else(|| format!("{again:?} means something else"))
}

fn without_places(mut value: Value) -> Value {
    match &mut value {
        Value::Array(values) => values.iter_mut().for_each(|value| *value = without_places(value.take())),
        Value::Object(fields) => {
            fields.retain(|name, _| name != "location");
            fields.values_mut().for_each(|value| *value = without_places(value.take()));
        }
        _ => {}
    }
    value
}

/// Without quotes such a word would be no name, and it is not among the words.
fn is_reserved(name: &str) -> bool {
    pg_query::parse(&format!("select 1 from {name}")).is_err()
}

/// Written down a second time on purpose.
fn of_a_function(name: &str) -> Marks {
    match name {
        "pg_advisory_lock"
        | "pg_advisory_lock_shared"
        | "pg_try_advisory_lock"
        | "pg_try_advisory_lock_shared"
        | "pg_advisory_unlock"
        | "pg_advisory_unlock_shared"
        | "pg_advisory_unlock_all" => Marks::ADVISORY,
        "currval" | "lastval" => Marks::CURRVAL,
        "nextval" | "setval" => Marks::NEXTVAL,
        "pg_backend_pid" => Marks::BACKEND_PID,
        "setseed" => Marks::SEED,
        "pg_notify" => Marks::NOTIFY,
        "pg_listening_channels" => Marks::CHANNELS,
        "pg_export_snapshot" => Marks::SNAPSHOT,
        "pg_backup_start" | "pg_backup_stop" => Marks::BACKUP,
        "pg_create_physical_replication_slot" | "pg_create_logical_replication_slot" => Marks::SLOT,
        "dblink_connect" | "dblink_exec" => Marks::DBLINK,
        "current_setting" => Marks::SETTINGS_READ,
        _ => Marks::NONE,
    }
}

fn shown(kind: &Kind<'_>) -> String {
    let name = |name: &Name<'_>| String::from_utf8_lossy(&name.to_vec()).into_owned();
    let which = |which: &Which<'_>| match which {
        Which::All => "All".to_owned(),
        Which::One(one) => format!("One {}", name(one)),
    };
    match kind {
        Kind::Begin(modes) => format!("Begin {}", shown_modes(modes)),
        Kind::Commit { chain } => format!("Commit {chain}"),
        Kind::Rollback { chain } => format!("Rollback {chain}"),
        Kind::Savepoint(it) => format!("Savepoint {}", name(it)),
        Kind::Release(it) => format!("Release {}", name(it)),
        Kind::RollbackTo(it) => format!("RollbackTo {}", name(it)),
        Kind::Set(it) => {
            let value = match it.value {
                sql::Value::Given(_) => "Given",
                sql::Value::Default => "Default",
                sql::Value::Current => "Current",
            };
            format!("Set {:?} {} {value}", it.scope, name(&it.name).to_ascii_lowercase())
        }
        Kind::SetCharacteristics { scope, modes, .. } => format!("SetCharacteristics {scope:?} {}", shown_modes(modes)),
        Kind::Reset(it) => format!("Reset {}", which(it))
            .to_ascii_lowercase()
            .replace("reset one", "Reset One")
            .replace("reset all", "Reset All"),
        Kind::Discard(it) => format!("Discard {it:?}"),
        Kind::Prepare { name: it, .. } => format!("Prepare {}", name(it)),
        Kind::Execute(it) => format!("Execute {}", name(it)),
        Kind::Deallocate(it) => format!("Deallocate {}", which(it)),
        Kind::Declare { name: it, hold } => format!("Declare {} {hold}", name(it)),
        Kind::Close(it) => format!("Close {}", which(it)),
        Kind::Listen(it) => format!("Listen {}", name(it)),
        Kind::Unlisten(it) => format!("Unlisten {}", which(it)),
        Kind::Notify(it) => format!("Notify {}", name(it)),
        Kind::Load { .. } => "Load".to_owned(),
        kind => format!("{kind:?}"),
    }
}

fn shown_modes(modes: &Modes) -> String {
    let isolation = modes.isolation.map_or("", |isolation| match isolation {
        Isolation::ReadUncommitted => "read uncommitted",
        Isolation::ReadCommitted => "read committed",
        Isolation::RepeatableRead => "repeatable read",
        Isolation::Serializable => "serializable",
    });
    let flag = |flag: Option<bool>| flag.map_or(String::new(), |is| is.to_string());
    format!("[{isolation}] [{}] [{}]", flag(modes.read_only), flag(modes.deferrable))
}
