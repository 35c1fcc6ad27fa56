//! What a server consists of, by what changes together.

use std::net::SocketAddr;
use std::sync::Arc;

use session_state::parameters::{Parameters, Reported};
use session_state::prepared::PreparedOnServer;
use session_state::shape::Described;
use session_state::state::{Defines, OnServer, State as SessionState};
use session_state::unnamed::Version;
use units::{ConnId, Serial, Time};
use wire::backend::Status;

use super::{Overdue, Sequences};
use crate::charge::Charge;
use crate::databases::{Address, Database};
use crate::permits::Permits;
use crate::verdict::Verdict;

/// What does not change about a connection once it stands.
#[derive(Debug)]
pub struct Identity {
    pub serial: Serial,
    /// What the log and the console call it: its id on the worker that opened it.
    pub name: ConnId,
    /// Our end, once it stands by TCP.
    pub local: Option<SocketAddr>,
    pub address: Arc<Address>,
    /// The settings it was opened by: it may travel while they are changed.
    pub opened_for: Arc<Database>,
    pub connected_at: Time,
}

/// Of the message that is being read: what has come of it, and what is to come.
#[derive(Debug, Default)]
pub struct Incoming {
    /// The beginning of a message that must be read whole.
    pub inbox: Vec<u8>,
    /// Bytes of the current message still to come, its tag, and whether they are the client's.
    pub skip: u32,
    pub skip_tag: u8,
    pub skip_forward: bool,
}

/// Prepared statements on a server, and what it has said of them.
#[derive(Debug)]
pub struct Statements {
    pub prepared: PreparedOnServer,
    /// What it is describing to the pooler.
    pub described: Described,
    /// What it was asked about a statement.
    pub verdict: Verdict,
    /// Whose unnamed statement it has, if that is known.
    pub unnamed: Version,
}

/// What sessions have set on a server, which the next one may want otherwise.
#[derive(Debug)]
pub struct Kept {
    pub parameters: Arc<Parameters>,
    /// Of the others that it reports, those that are not as its pool's servers begin with.
    pub reported: Reported,
    /// What was set on it; `None`: nothing.
    pub session_state: Option<Arc<SessionState>>,
    /// What SQL's PREPARE has left on it.
    pub on_server: OnServer,
    pub sequences: Sequences,
}

/// What may have been left on a server beyond that.
#[derive(Debug, Default)]
pub struct Traces {
    /// Somebody may have left on it what nobody followed to its end: to be cleared before anybody else gets it.
    pub soiled: bool,
    /// The same, because of what was found to be defined past the pooler: whatever its session does does not undo it.
    pub tainted: bool,
    /// What was to be run aside has failed: its statement may be there still.
    pub aside_failed: bool,
    /// What its client's transaction defines is fresh in the pool's catalogue.
    pub is_unsettled: bool,
    /// LISTEN has run on it, and no UNLISTEN * since.
    pub listens: bool,
    /// The pid that its client knew which said NOTIFY last; 0: nobody has.
    pub notified_by: i32,
    /// The beginning of the text that it was sent last, where `chaos_check` may want to name it.
    pub last_text: Option<Vec<u8>>,
}

/// PostgreSQL's process, and the secret to cancel what it runs.
#[derive(Debug, Default)]
pub struct BackendKey {
    pub pid: i32,
    pub secret: Box<[u8]>,
}

/// The transaction of its client, or the last one.
#[derive(Debug)]
pub struct Transaction {
    /// As its last ReadyForQuery said.
    pub status: Status,
    /// A ReadyForQuery has come since the link.
    #[cfg(feature = "sabotage")]
    pub status_seen: bool,
    /// When what is under way was sent, or the last answer came.
    pub query_at: Time,
    /// When it began: with the first statement that was sent.
    pub began_at: Option<Time>,
    /// What other clients have prepared may mean something else once its client's transaction is over.
    pub defines: Defines,
    /// Its client's transaction may have another's rights for itself alone.
    pub local_rights: bool,
    /// A statement under way wants these databases to be empty; no names: several do.
    pub emptying: Option<Box<[sql::Word]>>,
    /// Its client has had an error for the request being answered.
    pub answer_failed: bool,
}

/// Whether its client's messages wait for an answer.
#[derive(Debug, Default)]
pub struct Hold {
    /// Its client's messages wait for a ReadyForQuery: of its parameters, or of what decides which statements exist.
    pub is_on: bool,
    /// They wait in the midst of a batch, which the server was told to answer so far: the hold ends when nothing is owed.
    pub flushed: bool,
    /// The last wait of its session for a limit, which lasts while the session's admission says so.
    pub limit_wait: LimitWait,
}

/// A session waits for a limit with its server.
#[derive(Copy, Clone, Debug, Default)]
pub struct LimitWait {
    /// At whichever limit it came to first.
    pub since: Time,
    /// It can wait for so many milliseconds; 0: it does not say, or its session's state does.
    pub deadline_ms: u32,
}

/// Cancels of what it runs.
#[derive(Debug, Default)]
pub struct Cancelling {
    /// Cancel connections under way for whoever is, or was, linked.
    pub under_way: u32,
    /// Its client asked for a cancel before it was answered itself.
    pub is_requested: bool,
    pub overdue: Overdue,
}

/// How it is to end.
#[derive(Debug, Default)]
pub struct End {
    /// The other side has closed, or is about to: there is nobody to say goodbye to.
    pub gone: bool,
    /// Not to be used again once released, and why.
    pub close_needed: Option<&'static str>,
    /// Its client has been told by the server itself why it ends.
    pub fatal_error_forwarded: bool,
}

/// Its work: for whom, since when.
#[derive(Debug)]
pub struct Work {
    /// When the state last changed.
    pub since: Time,
    /// When it was a session's last.
    pub worked_at: Time,
    /// When it was lent to this worker, where it has served nobody yet.
    pub travelled_at: Option<Time>,
    /// It has served a session.
    pub used: bool,
    /// Who pays for it until it is free.
    pub charge: Option<Charge>,
    /// Of the transaction that a session has left behind here.
    pub permits: Option<Box<Permits>>,
}
