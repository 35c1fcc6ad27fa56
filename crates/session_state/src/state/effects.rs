//! What the statements of one text will have done to the session once each has been confirmed by its command tag.
//!
//! //= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-COMMANDCOMPLETE

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use sql::{
    Assignment, Discarded, Isolation, Kind, Marks, Modes, Name, Scope, Statement, Text, Value, Which, setting_key,
};
use units::limits;

use super::{Again, SettingChange, State};
use crate::parameters::Tracked;
use crate::pins::Pins;

/// A statement of SQL's PREPARE.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SqlPrepare {
    pub name: Box<[u8]>,
    pub statement: SqlStatement,
}

/// What a PREPARE has prepared.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SqlStatement {
    /// The whole PREPARE; none: it was too long to keep.
    pub text: Option<Arc<[u8]>>,
    /// What EXECUTE of it does besides what its marks and names tell: it changes settings by set_config.
    pub run: Option<Arc<Effect>>,
}

impl SqlStatement {
    pub(crate) fn len(&self) -> usize {
        self.text.as_ref().map_or(0, |text| text.len())
    }

    /// The effect of EXECUTE.
    pub(crate) fn executed(&self) -> Effect {
        self.run.as_deref().map_or(Effect::Nothing, Effect::clone)
    }
}

/// One effect of a statement. A statement may have several.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Effect {
    /// None that outlives its transaction.
    Nothing,
    /// Nobody knows which: a check tells some of them, and the server is kept for the others.
    Unknown,
    /// COMMIT, ROLLBACK: the tag tells which it was.
    End,
    /// PREPARE TRANSACTION. The tag ROLLBACK is that of a failed block, or of no block: then what ran before it in its batch is committed.
    PrepareTransaction,
    /// What ran before it in its batch, and itself, is committed: an error behind it undoes nothing of that.
    Committed,
    Save(Box<[u8]>),
    Release(Box<[u8]>),
    RollBackTo(Box<[u8]>),
    Change(Arc<[SettingChange]>),
    Prepare(SqlPrepare),
    /// Nothing; but the statement must be there.
    Execute(Box<[u8]>),
    Deallocate(Box<[u8]>),
    DeallocateAll,
    DiscardAll,
    Pin(Pins),
    Unpin(Pins),
    /// These settings are something else now, and to be asked for. `parameters`: and those whose names are the values of
    /// these. `others`: and some whose names are not known.
    QueryAgain {
        names: Arc<[Box<[u8]>]>,
        parameters: Vec<u16>,
        others: bool,
    },
    /// A tracked parameter is what it was when the session began.
    Restart(Box<[u8]>),
    /// A setting that is not tracked is another until its transaction ends.
    SetLocally(Box<[u8]>),
    /// Undone with its transaction, as the next two are. //= pg18 sql-listen
    Listen(Box<[u8]>),
    /// On the server at hand: no other listens for it.
    ListenAlone,
    /// `None`: all.
    Unlisten(Option<Box<[u8]>>),
    /// A tracked parameter is another: as it is reported, if that is known. `is_local`: for its transaction only.
    Parameter {
        index: usize,
        value: Option<Box<[u8]>>,
        is_local: bool,
    },
}

impl Effect {
    /// The prepared statement that it speaks of.
    pub fn statement(&self) -> Option<&[u8]> {
        match self {
            Effect::Prepare(kept) => Some(&kept.name),
            Effect::Execute(name) | Effect::Deallocate(name) => Some(name),
            _ => None,
        }
    }

    /// The same once parameters have the values that `value` tells by their numbers.
    pub(crate) fn bound<'v>(&self, value: impl Fn(u16) -> Option<&'v [u8]>) -> Effect {
        let Effect::QueryAgain { names, parameters, others } = self else { return self.clone() };
        let (mut names, mut others) = (names.to_vec(), *others);
        for number in parameters {
            match value(*number).filter(|name| is_plain_name(name)) {
                Some(name) => names.push(setting_key(name.iter().copied()).into()),
                None => others = true,
            }
        }
        Effect::QueryAgain { names: names.into(), parameters: Vec::new(), others }
    }

    /// The same where nobody will tell which values its parameters have.
    fn with_computed_names(self) -> Effect {
        match self {
            Effect::QueryAgain { names, parameters, others } => {
                Effect::QueryAgain { names, others: others || !parameters.is_empty(), parameters: Vec::new() }
            }
            effect => effect,
        }
    }

    /// Bytes that it takes, but for what copies of it share.
    fn len(&self) -> usize {
        let own = match self {
            Effect::Prepare(kept) => kept.name.len(),
            Effect::Save(name) | Effect::Release(name) | Effect::RollBackTo(name) => name.len(),
            Effect::Execute(name)
            | Effect::Deallocate(name)
            | Effect::Restart(name)
            | Effect::SetLocally(name)
            | Effect::Listen(name) => name.len(),
            Effect::Unlisten(name) | Effect::Parameter { value: name, .. } => {
                name.as_ref().map_or(0, |name| name.len())
            }
            Effect::QueryAgain { parameters, .. } => size_of_val(&parameters[..]),
            Effect::Nothing
            | Effect::Unknown
            | Effect::End
            | Effect::PrepareTransaction
            | Effect::Committed
            | Effect::Change(_)
            | Effect::DeallocateAll
            | Effect::DiscardAll
            | Effect::Pin(_)
            | Effect::Unpin(_)
            | Effect::ListenAlone => 0,
        };
        size_of::<(Effect, bool)>() + own
    }

    /// It names a setting by a parameter.
    pub(crate) fn is_unbound(&self) -> bool {
        matches!(self, Effect::QueryAgain { parameters, .. } if !parameters.is_empty())
    }

    /// What runs if a statement of this name is executed, where this effect is that it is prepared.
    pub(crate) fn prepares(&self, name: &[u8]) -> Option<Effect> {
        match self {
            Effect::Prepare(kept) if *kept.name == *name => Some(kept.statement.executed()),
            _ => None,
        }
    }

    /// What its session may keep its server for because of it.
    pub(crate) fn pins(&self) -> Pins {
        match self {
            Effect::Change(changes) if changes.iter().any(SettingChange::is_bound) => Pins::SETTING,
            Effect::QueryAgain { names, parameters, others } => {
                let asked = if names.is_empty() && parameters.is_empty() { Pins::NONE } else { Pins::SETTING };
                if *others || !parameters.is_empty() { asked | Pins::DYNAMIC } else { asked }
            }
            Effect::Prepare(_) => Pins::PREPARED,
            Effect::ListenAlone => Pins::LISTEN,
            Effect::Pin(pins) => *pins,
            Effect::Unknown => Pins::UNKNOWN | Pins::DYNAMIC,
            _ => Pins::NONE,
        }
    }

    /// Of what the statement's first words say. `source`: what was sent, if that is this statement alone.
    fn of(text: &Text<'_>, statement: &Statement<'_>, source: Option<&[u8]>, tracked: &Tracked) -> Effect {
        let owned = |name: Name<'_>| name.to_vec().into_boxed_slice();
        match statement.kind {
            Kind::Commit { .. } | Kind::Rollback { .. } => Effect::End,
            Kind::PrepareTransaction => Effect::PrepareTransaction,
            Kind::Savepoint(name) => Effect::Save(owned(name)),
            Kind::Release(name) => Effect::Release(owned(name)),
            Kind::RollbackTo(name) => Effect::RollBackTo(owned(name)),
            Kind::Set(assignment) => of_set(&assignment, tracked),
            Kind::SetCharacteristics { scope: Scope::Session, modes, .. } => {
                Effect::Change(characteristics(modes).into())
            }
            Kind::Reset(Which::All) => Effect::Change([SettingChange::ResetAll].into()),
            Kind::Reset(Which::One(name)) => reset(name, tracked),
            Kind::Discard(Discarded::All) => Effect::DiscardAll,
            Kind::Discard(Discarded::Sequences) => Effect::Unpin(Pins::SEQUENCE),
            Kind::Prepare { name, .. } => {
                // As the client wrote it, since pg_prepared_statements shows it.
                let source =
                    Some(source.unwrap_or(statement.source)).filter(|source| source.len() <= limits::STATEMENT_LEN_MAX);
                let run = of_calls(text, statement, tracked).with_computed_names();
                let run = Some(run).filter(|run| *run != Effect::Nothing).map(Arc::new);
                Effect::Prepare(SqlPrepare {
                    name: owned(name),
                    statement: SqlStatement { text: source.map(Arc::from), run },
                })
            }
            Kind::Execute(name) => Effect::Execute(owned(name)),
            Kind::Deallocate(Which::All) => Effect::DeallocateAll,
            Kind::Deallocate(Which::One(name)) => Effect::Deallocate(owned(name)),
            Kind::Listen(name) => Effect::Listen(owned(name)),
            Kind::Unlisten(Which::All) => Effect::Unlisten(None),
            Kind::Unlisten(Which::One(name)) => Effect::Unlisten(Some(owned(name))),
            Kind::Load { .. } => Effect::Pin(Pins::LOAD),
            // It has run, and no list says which role's rights and which settings of the application's own it has set.
            Kind::Unknown => Effect::Pin(Pins::DYNAMIC),
            _ => Effect::Nothing,
        }
    }
}

/// What a text takes away of the rights that a session has.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RoleReset {
    Role,
    /// The session's authorization as well.
    All,
}

/// What a text will do: the effects of its statements, in their order. Each statement has at least one, and is answered by
/// one command tag, which confirms all that it has.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Effects {
    /// Whether an effect is its statement's last stands beside it.
    all: Vec<(Effect, bool)>,
}

impl Effects {
    /// Of each statement in a text.
    pub fn read(text: &Text<'_>, tracked: &Tracked) -> Effects {
        let alone = text.statements().nth(1).is_none();
        let mut effects = Effects::default();
        for statement in text.statements() {
            let first = Effect::of(text, &statement, alone.then(|| text.source()), tracked);
            // What is prepared does not run yet.
            let runs = !matches!(statement.kind, Kind::Prepare { .. });
            let calls = if runs { of_calls(text, &statement, tracked) } else { Effect::Nothing };
            let committed = if statement.commits_at_once(text) { Effect::Committed } else { Effect::Nothing };
            effects.add_statement([first, calls, committed]);
        }
        effects
    }

    /// Of the one statement of a text that the protocol has prepared, where SQL's EXECUTE runs it.
    pub(crate) fn of_executed(text: &Text<'_>, tracked: &Tracked) -> Effect {
        let statement = text.statements().next();
        statement.map_or(Effect::Nothing, |statement| of_calls(text, &statement, tracked).with_computed_names())
    }

    /// Of one statement.
    pub fn of_one(effect: Effect) -> Effects {
        Effects { all: vec![(effect, true)] }
    }

    fn add_statement(&mut self, effects: impl IntoIterator<Item = Effect>) {
        let start = self.all.len();
        self.all.extend(effects.into_iter().filter(|effect| *effect != Effect::Nothing).map(|effect| (effect, false)));
        if self.all.len() == start {
            self.all.push((Effect::Nothing, false));
        }
        if let Some((_, is_last)) = self.all.last_mut() {
            *is_last = true;
        }
    }

    /// Adds to each EXECUTE the effect of what it runs. `run`: of a statement by its name, where the text itself has not
    /// prepared it before; asked once for each name.
    pub(crate) fn add_executed(&mut self, mut run: impl FnMut(&[u8]) -> Effect) {
        let mut by_name: BTreeMap<Box<[u8]>, Effect> = BTreeMap::new();
        let mut all = Vec::with_capacity(self.all.len());
        for (effect, is_last) in std::mem::take(&mut self.all) {
            if let Effect::Prepare(kept) = &effect {
                by_name.insert(kept.name.clone(), kept.statement.executed());
            }
            if let Effect::Execute(name) = &effect {
                let executed = by_name.get(name).cloned().unwrap_or_else(|| run(name));
                by_name.entry(name.clone()).or_insert_with(|| executed.clone());
                if executed != Effect::Nothing {
                    // In front of the EXECUTE, which stays the last if it was.
                    all.push((executed, false));
                }
            }
            all.push((effect, is_last));
        }
        self.all = all;
    }

    /// Without what follows the first statement: PostgreSQL prepares no text of several.
    pub fn of_first(mut self) -> Effects {
        let first = self.all.iter().position(|(_, is_last)| *is_last);
        self.all.truncate(first.map_or(0, |last| last + 1));
        self
    }

    /// Bytes that it takes, but for what copies of it share.
    pub(crate) fn len(&self) -> usize {
        self.all.iter().map(|(effect, _)| effect.len()).sum()
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Effect> {
        self.all.iter().map(|(effect, _)| effect)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Effect> {
        self.all.iter_mut().map(|(effect, _)| effect)
    }

    /// No statement has any.
    pub fn are_none(&self) -> bool {
        self.iter().all(|effect| *effect == Effect::Nothing)
    }

    /// It only takes away the session's role, which does not fail; if it takes away another session's authorization, too: that.
    pub fn only_reset_role(&self) -> Option<RoleReset> {
        let mut reset = None;
        for effect in self.iter() {
            let more = match effect {
                Effect::Change(changes) => match &changes[..] {
                    [SettingChange::NoRole] => RoleReset::Role,
                    [SettingChange::Reset(name)] if **name == *b"role" => RoleReset::Role,
                    [SettingChange::Reset(name)] if **name == *b"session_authorization" => RoleReset::All,
                    _ => return None,
                },
                Effect::DiscardAll => RoleReset::All,
                Effect::Committed => continue,
                _ => return None,
            };
            reset = reset.max(Some(more));
        }
        reset
    }

    /// Whether a setting is set, for the session.
    pub fn set(&self, name: &[u8]) -> bool {
        let sets = |change: &SettingChange| matches!(change, SettingChange::Set { name: set, .. } if **set == *name);
        self.iter().any(|effect| matches!(effect, Effect::Change(changes) if changes.iter().any(sets)))
    }

    /// What a server's state becomes by a text that only resets; `None`: it does something else, too.
    pub fn resets(&self, mut state: State) -> Option<State> {
        for effect in self.iter() {
            match effect {
                Effect::Change(changes) if changes.iter().all(SettingChange::is_reset) => {
                    changes.iter().for_each(|change| state.apply(change));
                }
                Effect::DiscardAll => state.apply(&SettingChange::DiscardAll),
                // PostgreSQL reports it.
                Effect::Restart(_) => {}
                _ => return None,
            }
        }
        Some(state)
    }

    /// Whether a text with these does nothing but reset, so that parameters have the values of PostgreSQL's configuration or stay as they were.
    pub fn only_reset(&self) -> bool {
        self.iter().all(|effect| match effect {
            Effect::Change(changes) => changes.iter().all(SettingChange::is_reset),
            Effect::DiscardAll | Effect::DeallocateAll | Effect::Restart(_) | Effect::Committed => true,
            Effect::Unlisten(_) | Effect::Unpin(_) => true,
            _ => false,
        })
    }

    /// How many statements have them.
    pub fn statements(&self) -> usize {
        self.all.iter().filter(|(_, is_last)| *is_last).count()
    }

    /// The same once parameters have the values that `value` tells by their numbers.
    pub(crate) fn bound<'v>(&self, value: impl Fn(u16) -> Option<&'v [u8]>) -> Effects {
        Effects { all: self.all.iter().map(|(effect, is_last)| (effect.bound(&value), *is_last)).collect() }
    }

    /// Each with whether it is its statement's last.
    pub(crate) fn into_queue(self) -> VecDeque<(Effect, bool)> {
        self.all.into()
    }
}

/// Settings that hold for one transaction however they are set, and what is no setting at all.
pub(crate) fn is_passing(name: &[u8]) -> bool {
    let known: [&[u8]; 4] = [b"transaction_isolation", b"transaction_read_only", b"transaction_deferrable", b"seed"];
    known.contains(&name)
}

/// The role whose rights a session has.
pub(crate) fn is_identity(name: &[u8]) -> bool {
    name == b"role" || name == b"session_authorization"
}

fn of_set(assignment: &Assignment<'_>, tracked: &Tracked) -> Effect {
    let name: Box<[u8]> = setting_key(assignment.name.bytes()).into();
    if let Some(index) = tracked.index(&name) {
        let is_local = assignment.scope == Scope::Local;
        return match assignment.value {
            Value::Default if is_local => Effect::Parameter { index, value: None, is_local },
            Value::Default => Effect::Restart(name),
            Value::Given(value) => Effect::Parameter { index, value: reported(index, value), is_local },
            Value::Current => Effect::Nothing,
        };
    }
    if is_passing(&name) {
        return Effect::Nothing;
    }
    if assignment.scope == Scope::Local {
        return Effect::SetLocally(name);
    }
    let change = match assignment.value {
        Value::Default => SettingChange::Reset(name),
        Value::Given(value) if *name == *b"role" && value.eq_ignore_ascii_case(b"none") => SettingChange::NoRole,
        // Which one it is, search_path decides now, and may not again.
        Value::Given(value) if *name == *b"default_text_search_config" && !value.contains(&b'.') => {
            return query_again(name);
        }
        Value::Given(value) => {
            let fits = assignment.clause.len() <= limits::PARAMETER_LEN_MAX;
            if fits && !is_certain(assignment.clause, value) {
                return query_again(name);
            }
            let clause = fits.then(|| Again::Clause(assignment.clause.into()));
            SettingChange::Set { name, again: clause }
        }
        Value::Current => return query_again(name),
    };
    Effect::Change([change].into())
}

fn query_again(name: Box<[u8]>) -> Effect {
    Effect::QueryAgain { names: [name].into(), parameters: Vec::new(), others: false }
}

/// A value as it is reported, if texts are read by it; others need only be distinguished, and are as they are written.
fn reported(index: usize, value: &[u8]) -> Option<Box<[u8]>> {
    if value.len() > limits::PARAMETER_LEN_MAX {
        return None;
    }
    let bare = value.strip_prefix(b"'").and_then(|value| value.strip_suffix(b"'")).unwrap_or(value);
    if index == Tracked::CLIENT_ENCODING {
        // UTF-8 is UTF8.
        return Some(bare.iter().copied().filter(|&byte| byte != b'-').collect());
    }
    if index != Tracked::STANDARD_STRINGS {
        return Some(value.into());
    }
    match bare.to_ascii_lowercase().as_slice() {
        b"on" | b"true" | b"yes" | b"1" => Some(b"on"[..].into()),
        b"off" | b"false" | b"no" | b"0" => Some(b"off"[..].into()),
        _ => None,
    }
}

/// What a backslash in a string means hangs on standard_conforming_strings, and what a byte beyond ASCII on
/// client_encoding: both may be others where it is set again.
fn is_certain(clause: &[u8], value: &[u8]) -> bool {
    !value.contains(&b'\\') && clause.is_ascii()
}

fn reset(name: Name<'_>, tracked: &Tracked) -> Effect {
    let name: Box<[u8]> = setting_key(name.bytes()).into();
    match tracked.index(&name) {
        Some(_) => Effect::Restart(name),
        None if is_passing(&name) => Effect::Nothing,
        None => Effect::Change([SettingChange::Reset(name)].into()),
    }
}

/// A name of which the bytes mean the same whatever their type, their format, and the client's encoding.
fn is_plain_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$'))
}

/// Of the calls of set_config in a statement, once they run. Where nothing else is there to go wrong, their values are
/// known.
fn of_calls(text: &Text<'_>, statement: &Statement<'_>, tracked: &Tracked) -> Effect {
    if !statement.marks.any(Marks::SET_CONFIG) {
        return Effect::Nothing;
    }
    let is_certain = statement.only_sets_config(text);
    let (mut changes, mut names, mut parameters, mut others) = (Vec::new(), Vec::new(), Vec::new(), false);
    let (mut restarts, mut tracked_sets) = (Vec::new(), Vec::new());
    for call in statement.set_config_calls(text) {
        let Some(name) = call.name else {
            match call.name_parameter {
                _ if call.local == Some(true) => {}
                Some(number) => parameters.push(number),
                None => others = true,
            }
            continue;
        };
        let name: Box<[u8]> = setting_key(name.iter().copied()).into();
        let is_reset = call.is_reset && is_certain && call.local == Some(false);
        if call.local == Some(true) || is_passing(&name) || tracked.index(&name).is_some() {
            if tracked.index(&name).is_some() && call.local != Some(true) {
                match is_reset {
                    true => restarts.push(name),
                    // It may be NULL.
                    false if call.value.is_none() => names.push(name),
                    false => {
                        let index = tracked.index(&name).expect("it was just found");
                        let value = call.value.and_then(|value| reported(index, value));
                        tracked_sets.push(Effect::Parameter { index, value, is_local: false });
                    }
                }
            }
            continue;
        }
        if is_reset {
            changes.push(SettingChange::Reset(name));
            continue;
        }
        let value = call.value.filter(|value| value.is_ascii() && value.len() <= limits::PARAMETER_LEN_MAX);
        match value.filter(|_| is_certain && call.local == Some(false)) {
            Some(value) if *name == *b"role" && value.eq_ignore_ascii_case(b"none") => {
                changes.push(SettingChange::NoRole);
            }
            Some(value) => changes.push(SettingChange::Set { name, again: Some(Again::Value(value.into())) }),
            None => names.push(name),
        }
    }
    if names.is_empty() && parameters.is_empty() && !others {
        match (changes.is_empty(), restarts.len()) {
            // If there are several, a check behind the server's report shows which ones are set.
            (true, 0) if is_certain && tracked_sets.len() == 1 => return tracked_sets.remove(0),
            (true, 0) => return Effect::Nothing,
            (true, 1) => return Effect::Restart(restarts.remove(0)),
            (false, 0) => return Effect::Change(changes.into()),
            // What is set as well is asked for with it.
            _ => {}
        }
    }
    names.extend(restarts);
    // The server's answer has the value as it is in the end.
    names.extend(changes.into_iter().filter_map(|change| match change {
        SettingChange::Set { name, .. } | SettingChange::Reset(name) => Some(name),
        SettingChange::NoRole => Some(b"role"[..].into()),
        _ => None,
    }));
    // Of more, the session keeps its server all the same.
    others |= names.len().max(parameters.len()) > limits::UNREAD_MAX;
    names.truncate(limits::UNREAD_MAX);
    parameters.truncate(limits::UNREAD_MAX);
    Effect::QueryAgain { names: names.into(), parameters, others }
}

/// SET SESSION CHARACTERISTICS as the settings it stands for. //= pg18 sql-set-transaction
fn characteristics(modes: Modes) -> Vec<SettingChange> {
    let set = |name: &str, value: &str| {
        let clause = format!("{name}='{value}'").into_bytes().into();
        SettingChange::Set { name: name.as_bytes().into(), again: Some(Again::Clause(clause)) }
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
#[path = "effects_tests.rs"]
mod tests;
