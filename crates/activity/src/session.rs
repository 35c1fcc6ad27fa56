//! What the pooler knows of a client that has, keeps or waits for a server, at one moment.

use std::sync::Arc;
use std::time::Duration;

use machine::snapshot::ClientSnapshot;
use machine::{Peer, Settings, Snapshot};
use units::{ConnId, PoolKey, Serial, WorkerId};

/// A session that is busy: all others are counted, and not listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    pub id: SessionId,
    pub peer: Peer,
    pub pool: PoolKey,
    pub application_name: String,
    pub class: Arc<str>,
    /// Of its running or last statement, if statements are tracked.
    pub fingerprint: Option<u64>,
    pub times: Times,
    /// Why it keeps its server between transactions, if it does.
    pub keeps: Option<String>,
    /// The beginning of the statement for which it keeps it, if that is known.
    pub kept_for: Option<Box<str>>,
    /// The beginning of what it waits with. What is no UTF-8 is replaced by U+FFFD.
    pub text: Option<Box<str>>,
}

/// Which one: for the console, the log, and whoever ends it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SessionId {
    /// `id` of SHOW CLIENTS.
    pub serial: Serial,
    /// What the log calls it.
    pub name: ConnId,
    /// Where it lives.
    pub worker: WorkerId,
    pub conn: ConnId,
}

/// For how long.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    pub connected: Duration,
    /// It waits for a server, since then.
    pub waiting: Option<Duration>,
    /// It had waited for the server that it has.
    pub queued: Duration,
    /// It has had its server for this transaction.
    pub transaction: Option<Duration>,
    /// It has said nothing in its transaction.
    pub idle: Option<Duration>,
    /// It has kept its server between transactions.
    pub kept: Option<Duration>,
}

impl Times {
    /// For how long it has had its server; `None`: it has none.
    pub(crate) fn has_server_since(&self) -> Option<Duration> {
        if self.waiting.is_some() {
            return None;
        }
        self.transaction.max(self.kept).or(Some(self.connected))
    }
}

impl Session {
    /// `None`: it has no server, and waits for none.
    pub(crate) fn of(client: &ClientSnapshot, snapshot: &Snapshot, settings: &Settings) -> Option<Session> {
        let ago = |moment| snapshot.now.since(moment);
        let waiting = client.times.waiting_since.map(ago);
        if client.link.is_none() && waiting.is_none() {
            return None;
        }
        let (doing, pin) = (&client.doing, client.ties.pin.as_ref());
        Some(Session {
            id: SessionId { serial: client.serial, name: client.name, worker: snapshot.worker?, conn: client.conn },
            peer: client.peer,
            pool: client.key.clone(),
            application_name: client.application_name.clone(),
            class: settings.classes.class(client.class).name.clone(),
            fingerprint: doing.statement,
            times: Times {
                connected: ago(client.times.connected_at),
                waiting,
                queued: Duration::from_micros(doing.waited_us),
                transaction: doing.began_at.map(ago),
                idle: doing.idle_since.map(ago),
                kept: pin.map(|pin| ago(pin.since)),
            },
            keeps: pin.map(|pin| pin.kinds.words().collect::<Vec<_>>().join(", ")),
            kept_for: pin.map(|pin| &*pin.statement).filter(|text| !text.is_empty()).map(Into::into),
            text: doing.waits_with.as_deref().map(Into::into),
        })
    }
}
