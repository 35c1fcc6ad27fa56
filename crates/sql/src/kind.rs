//! What one statement is, with what a tracker of session state must know of it.

use crate::marks::Marks;
use crate::name::Name;

/// One statement. Whatever is said here is what PostgreSQL's grammar says of it; a statement that fails has no effect.
//= pg18 sql-commands
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind<'t> {
    /// Changes no session state by itself; what it calls may.
    Plain,
    Begin(Modes),
    Commit {
        chain: bool,
    },
    Rollback {
        chain: bool,
    },
    Savepoint(Name<'t>),
    Release(Name<'t>),
    RollbackTo(Name<'t>),
    PrepareTransaction,
    CommitPrepared,
    RollbackPrepared,
    Set(Assignment<'t>),
    /// SET SESSION CHARACTERISTICS AS TRANSACTION: the settings default_transaction_….
    SetCharacteristics {
        scope: Scope,
        modes: Modes,
        clause: &'t [u8],
    },
    /// SET TRANSACTION, and SET CONSTRAINTS: this transaction alone.
    SetTransaction,
    /// A name, or all settings. RESET ALL leaves role and authorization as they are.
    Reset(Which<'t>),
    Discard(Discarded),
    /// `body` is the statement that is prepared.
    Prepare {
        name: Name<'t>,
        body: &'t [u8],
    },
    /// Also within EXPLAIN and CREATE TABLE AS.
    Execute(Name<'t>),
    Deallocate(Which<'t>),
    Declare {
        name: Name<'t>,
        hold: bool,
    },
    Close(Which<'t>),
    /// FETCH and MOVE.
    Fetch,
    Listen(Name<'t>),
    Unlisten(Which<'t>),
    Notify(Name<'t>),
    /// `file` as written.
    Load {
        file: &'t [u8],
    },
    Copy,
    Do,
    Call,
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which<'t> {
    All,
    One(Name<'t>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Session,
    /// To the transaction's end.
    Local,
}

/// A setting and its new value. //= pg18 sql-set
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment<'t> {
    pub scope: Scope,
    /// The setting's own name where the grammar has another for it: SET TIME ZONE sets timezone, SET NAMES
    /// client_encoding, SET SCHEMA search_path, SET XML OPTION xmloption, SET ROLE role, SET SESSION AUTHORIZATION
    /// session_authorization.
    pub name: Name<'t>,
    pub value: Value<'t>,
    /// What follows SET and the scope, as written: `SET SESSION` and this set it again.
    pub clause: &'t [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'t> {
    /// As written.
    Given(&'t [u8]),
    /// DEFAULT, and what the grammar has for it: the session's own value at its start.
    Default,
    /// FROM CURRENT: what it is already.
    Current,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discarded {
    All,
    Plans,
    Sequences,
    Temporary,
}

/// Of a transaction; `None` where nothing is said. //= pg18 sql-set-transaction
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modes {
    pub isolation: Option<Isolation>,
    pub read_only: Option<bool>,
    pub deferrable: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl Kind<'_> {
    /// The mark that says there is such a statement.
    pub fn marks(&self) -> Marks {
        match self {
            Kind::Plain => Marks::NONE,
            Kind::Begin(_) => Marks::BEGIN,
            Kind::Commit { chain } => Marks::COMMIT | if_so(*chain, Marks::CHAIN),
            Kind::Rollback { chain } => Marks::ROLLBACK | if_so(*chain, Marks::CHAIN),
            Kind::Savepoint(_) | Kind::Release(_) | Kind::RollbackTo(_) => Marks::SAVEPOINT,
            Kind::PrepareTransaction => Marks::TWO_PHASE,
            Kind::CommitPrepared | Kind::RollbackPrepared => Marks::TWO_PHASE | Marks::ALONE,
            Kind::Set(Assignment { scope, name, .. }) => {
                let is = |other: &[u8]| name.lowercase().eq(other.iter().copied());
                let rights = *scope == Scope::Local && (is(b"role") || is(b"session_authorization"));
                of_a_scope(*scope) | if_so(is(b"seed"), Marks::SEED) | if_so(rights, Marks::LOCAL_RIGHTS)
            }
            Kind::SetCharacteristics { scope, .. } => of_a_scope(*scope),
            Kind::SetTransaction => Marks::SET_LOCAL,
            Kind::Reset(_) => Marks::RESET,
            Kind::Discard(Discarded::All) => Marks::DISCARD | Marks::ALONE,
            Kind::Discard(_) => Marks::DISCARD,
            Kind::Prepare { .. } => Marks::PREPARE,
            Kind::Execute(_) => Marks::EXECUTE,
            Kind::Deallocate(_) => Marks::DEALLOCATE,
            Kind::Declare { hold, .. } => Marks::DECLARE | if_so(*hold, Marks::HOLD),
            Kind::Close(_) => Marks::CLOSE,
            Kind::Fetch => Marks::FETCH,
            Kind::Listen(_) => Marks::LISTEN,
            Kind::Unlisten(_) => Marks::UNLISTEN,
            Kind::Notify(_) => Marks::NOTIFY,
            Kind::Load { .. } => Marks::LOAD,
            Kind::Copy => Marks::COPY,
            Kind::Do => Marks::BLOCK,
            Kind::Call => Marks::CALL,
            Kind::Unknown => Marks::UNKNOWN,
        }
    }
}

fn if_so(is_so: bool, marks: Marks) -> Marks {
    if is_so { marks } else { Marks::NONE }
}

fn of_a_scope(scope: Scope) -> Marks {
    match scope {
        Scope::Session => Marks::SET,
        Scope::Local => Marks::SET_LOCAL,
    }
}
