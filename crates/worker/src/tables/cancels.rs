//! Connections that carry a CancelRequest, and clients whose process id does not tell where they are: it is their server's, one of an
//! earlier process, or tells peers whose they are.

use std::collections::{BTreeMap, BTreeSet};

use connections::encryption::Encryption;
use connections::flow::Flow;
use link::request_refusal::RequestRefusal;
use link::server::{Answerer, Server};
use link::session::Session;
use machine::action::Action;
use machine::mail::CancelTicket;
use machine::pids::PidKey;
use machine::{Settings, Step};
use units::deadline::Armed;
use units::table::Table;
use units::{ConnId, Kind, Life, PoolId, Time, limits};
use wire::backend::ErrorResponse;
use wire::frontend::{CancelRequest, tag};
use wire::{Header, SqlState, backend};

/// A connection that carries one CancelRequest to PostgreSQL.
#[derive(Debug)]
pub(crate) struct Canceller {
    pub(crate) server: ConnId,
    pub(crate) pool: PoolId,
    /// The request was sent: from now on it may hit.
    pub(crate) sent: bool,
    /// It is for a query that has taken too long, and for no other.
    overdue: bool,
    /// As its server's.
    pub(crate) encryption: Encryption,
    pub(crate) since: Time,
    pub(crate) flow: Flow,
    pub(crate) armed: Armed,
}

impl Canceller {
    /// Whether its query still runs.
    fn still_applies(&self, server: &Server, settings: &Settings) -> bool {
        let own = matches!(server.ledger().owner(), Some(Answerer::Client | Answerer::Nobody | Answerer::Prepare))
            || server.is_answering_its_own();
        let ended = self.overdue && server.overdue_since().is_none();
        own && !ended || machine::sabotage::forwards_late_cancel(settings)
    }

    /// Sends the request, now that its connection is open. False: the query has ended meanwhile, and there is nothing
    /// to cancel.
    pub(crate) fn send(&mut self, step: &mut Step<'_>, conn: ConnId, server: &Server, settings: &Settings) -> bool {
        if !self.still_applies(server, settings) {
            return false;
        }
        self.sent = true;
        let request = CancelRequest { pid: server.backend().pid, secret: &server.backend().secret };
        step.actions.send_new(conn, |out| request.encode(out));
        true
    }
}

/// A worker's cancels.
#[derive(Debug)]
pub(crate) struct Cancels {
    under_way: Table<Canceller>,
    /// As the door has it.
    pub(crate) pid_key: PidKey,
    /// Sessions whose clients know another process id than the one that names the session here: their servers', that of an earlier
    /// process, or one that tells peers whose they are. By process id, and the other way round.
    other_pids: BTreeSet<(i32, ConnId)>,
    pids: BTreeMap<ConnId, i32>,
    /// Requests that doors wait for, with the server whose work they cancel; no server: they are over.
    awaited: Vec<(CancelTicket, Option<ConnId>)>,
}

impl Cancels {
    pub(crate) fn new(owner: u16) -> Cancels {
        let under_way = Table::new(Kind::Cancel, owner);
        let pid_key = PidKey::default();
        Cancels { under_way, pid_key, other_pids: BTreeSet::new(), pids: BTreeMap::new(), awaited: Vec::new() }
    }

    /// A door waits until this request has been carried out.
    pub(crate) fn await_end(&mut self, ticket: CancelTicket, server: Option<ConnId>) {
        self.awaited.push((ticket, server));
    }

    /// Whether doors wait for requests.
    pub(crate) fn are_awaited(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Removes the requests that have been carried out. `strikes`: whether a cancel may still strike that server's work.
    pub(crate) fn take_over(&mut self, strikes: impl Fn(ConnId) -> bool) -> Vec<CancelTicket> {
        let is_over = |(_, server): &mut (CancelTicket, Option<ConnId>)| !server.is_some_and(&strikes);
        self.awaited.extract_if(.., is_over).map(|(ticket, _)| ticket).collect()
    }

    /// As [`Table::begin_life`].
    pub(crate) fn begin_life(&mut self, life: Life) {
        self.under_way.begin_life(life);
    }

    /// The sessions whose clients got this process id, which does not name them. More than one may have got it, one after the other.
    pub(crate) fn knowing(&self, pid: i32) -> impl Iterator<Item = ConnId> {
        let from = (pid, ConnId::from_bits(0));
        self.other_pids.range(from..).take_while(move |(known, _)| *known == pid).map(|(_, session)| *session)
    }

    /// A client has got this process id: its server's, or from an earlier process.
    pub(crate) fn note_pid(&mut self, pid: i32, session: ConnId) {
        self.forget_pid(session);
        self.other_pids.insert((pid, session));
        self.pids.insert(session, pid);
        debug_assert!(self.pids.len() == self.other_pids.len(), "both lists have the same sessions");
    }

    /// The process id that a session's client has got, if it is another than the session says.
    pub(crate) fn other_pid_of(&self, session: ConnId) -> Option<i32> {
        self.pids.get(&session).copied()
    }

    /// A session ends.
    #[inline]
    pub(crate) fn forget_pid(&mut self, session: ConnId) {
        if !self.pids.is_empty()
            && let Some(pid) = self.pids.remove(&session)
        {
            self.other_pids.remove(&(pid, session));
        }
    }

    /// Opens a connection to cancel a server's query. `None`: too many are under way, or the server cannot be
    /// cancelled.
    pub(crate) fn start(&mut self, step: &mut Step<'_>, server_id: ConnId, server: &mut Server) -> Option<ConnId> {
        if server.cancel().under_way() >= limits::CANCELS_PER_SERVER_MAX || server.backend().secret.is_empty() {
            return None;
        }
        server.cancel_mut().begins();
        let canceller = Canceller {
            server: server_id,
            pool: server.pool(),
            sent: false,
            overdue: server.overdue_since().is_some(),
            encryption: Encryption::like(server.identity().encryption()),
            since: step.now,
            flow: Flow::default(),
            armed: Armed::default(),
        };
        let conn = self.under_way.insert_with(|_| canceller);
        step.actions.push(Action::Open { conn, address: server.identity().address().clone() });
        Some(conn)
    }

    pub(crate) fn get(&self, conn: ConnId) -> Option<&Canceller> {
        self.under_way.get(conn)
    }

    pub(crate) fn get_mut(&mut self, conn: ConnId) -> Option<&mut Canceller> {
        self.under_way.get_mut(conn)
    }

    pub(crate) fn remove(&mut self, conn: ConnId) -> Option<Canceller> {
        self.under_way.remove(conn)
    }
}

/// Answers the first request that has not been sent to any server as cancelled. False: there is none.
pub(crate) fn take_back(step: &mut Step<'_>, conn: ConnId, session: &mut Session, why: &RequestRefusal) -> bool {
    refuse_first(step, conn, session, (why.code(), &why.to_string()))
}

/// Answers the first request that has not been sent to any server with this error. False: there is none.
pub(crate) fn refuse_first(
    step: &mut Step<'_>,
    conn: ConnId,
    session: &mut Session,
    (code, message): (SqlState, &str),
) -> bool {
    let Some(end) = first_request_len(session.incoming().inbox()) else { return false };
    session.incoming_mut().drain(end);
    session.end_retries();
    let (has_server, status) = (session.server().is_some(), session.status_after_refusal());
    if let Some(tracker) = session.tracker_mut()
        && tracker.journal.remember_role()
        && has_server
    {
        tracker.unseen.needs_clearing();
    }
    let error = ErrorResponse { severity: "ERROR", code, message, detail: None, hint: None };
    step.actions.send_new(conn, |out| {
        error.encode(out);
        backend::encode_ready(out, status);
    });
    true
}

/// Length of what a cancel takes back: up to the first Query, or the first Sync of an extended batch.
fn first_request_len(inbox: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let header = Header::parse(&inbox[at..]).ok()??;
        let end = at + header.total_len();
        if end > inbox.len() {
            return None;
        }
        if matches!(header.tag, tag::QUERY | tag::SYNC | tag::FUNCTION_CALL) {
            return Some(end);
        }
        at = end;
    }
}

#[cfg(test)]
mod tests {
    use wire::frontend::{Query, encode_sync};

    use super::*;

    #[test]
    fn a_process_id_is_known_until_its_session_ends() {
        let conn = |slot| ConnId::new(Kind::Client, 0, slot, 0);
        let mut cancels = Cancels::new(0);
        cancels.note_pid(4711, conn(1));
        cancels.note_pid(4711, conn(2));
        cancels.note_pid(4712, conn(3));
        let knowing = |cancels: &Cancels, pid| cancels.knowing(pid).collect::<Vec<_>>();
        assert_eq!(knowing(&cancels, 4711), [conn(1), conn(2)]);
        cancels.forget_pid(conn(1));
        assert_eq!((knowing(&cancels, 4711), knowing(&cancels, 4712)), (vec![conn(2)], vec![conn(3)]));
        assert_eq!(knowing(&cancels, 4713), []);
    }

    #[test]
    fn what_a_cancel_takes_back_ends_with_the_first_query_or_sync() {
        let mut inbox = Vec::new();
        wire::message(&mut inbox, tag::EXECUTE, |out| out.extend_from_slice(b"\0\0\0\0\0"));
        encode_sync(&mut inbox);
        let batch = inbox.len();
        Query { text: b"select 1" }.encode(&mut inbox);
        assert_eq!(first_request_len(&inbox), Some(batch));
        assert_eq!(first_request_len(&inbox[batch..]), Some(inbox.len() - batch));
        assert_eq!(first_request_len(&inbox[..batch - 1]), None, "the Sync is not there yet");
    }
}
