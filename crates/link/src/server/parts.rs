//! The parts of a server: fields that change together.

mod identity;
mod kept;

use std::sync::Arc;

use session_state::parameter_set::ParameterSet;
use session_state::parameters::Parameters;
use session_state::prepared::PreparedOnServer;
use session_state::shape::Described;
use session_state::state::Defines;
use session_state::unnamed::Version;
use units::Time;
use wire::backend::Status;

pub use identity::Identity;
pub use kept::{Bare, Begins, Kept, RightsSince, ShownName};

use super::{CloseReason, Overdue, Spoken, Tally};
use crate::charge::Charge;
use crate::permits::Permits;
use crate::verdict::Verdict;

/// The message that is being read.
#[derive(Debug, Default)]
pub struct ServerIncoming {
    /// The beginning of a message that must be read whole.
    pub(crate) inbox: Vec<u8>,
    /// Bytes of the current message still to come, its tag, and whether they are the client's.
    pub(crate) skip: u32,
    pub(crate) skip_tag: u8,
    pub(crate) skip_forward: bool,
    /// Of a server that is one session's own: it streams (CopyBothResponse), and no ReadyForQuery has come since.
    pub(crate) streams: bool,
}

impl ServerIncoming {
    /// A message of the client's has begun and is not complete.
    #[inline]
    pub fn is_within_answer(&self) -> bool {
        self.skip > 0 && self.skip_forward
    }

    /// The bytes of the current message still to come.
    #[inline]
    pub fn skip(&self) -> u32 {
        self.skip
    }

    /// The beginning of a message that must be read whole.
    #[inline]
    pub fn inbox(&self) -> &[u8] {
        &self.inbox
    }

    /// How much memory the inbox has.
    pub fn capacity(&self) -> usize {
        self.inbox.capacity()
    }

    /// The inbox is read, with what has come after it.
    pub fn take_inbox(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.inbox)
    }

    /// These bytes are the beginning of a message that must be read whole.
    pub fn keep(&mut self, rest: &[u8]) {
        debug_assert!(self.inbox.is_empty(), "the inbox was taken and read");
        self.inbox = rest.to_vec();
    }

    /// The connection is opened anew: nothing of the last one is read.
    pub fn forget(&mut self) {
        self.inbox = Vec::new();
    }

    /// Its client is gone: the rest of the message goes to nobody.
    pub fn forward_no_more(&mut self) {
        self.skip_forward = false;
    }

    /// It streams, and no ReadyForQuery has come since.
    pub fn streams(&self) -> bool {
        self.streams
    }
}

/// Prepared statements on a server, and its answers about them.
#[derive(Debug)]
pub struct Statements {
    pub(crate) prepared: PreparedOnServer,
    /// The description that it is sending to the pooler.
    pub(crate) described: Described,
    /// The version of the unnamed statement that it has, if that is known.
    pub(crate) unnamed: Version,
}

impl Statements {
    /// How many statements are prepared there.
    pub fn prepared_len(&self) -> usize {
        self.prepared.len()
    }

    /// A query of the pooler's own has removed the unnamed statement.
    pub fn unnamed_gone(&mut self) {
        self.unnamed = session_state::unnamed::NONE;
    }
}

/// The values of one link. They are made when a session gets the server, and replaced when the next one does.
#[derive(Debug, Default)]
pub struct Lease {
    /// When the session got the server.
    pub(crate) linked_at: Time,
    /// How long the session had waited for it, in microseconds.
    pub(crate) waited_us: u64,
    /// When its transaction began: with the first statement that was sent.
    pub(crate) began_at: Option<Time>,
    /// Rows, bytes and times of the answer under way, for statistics.
    pub(crate) tally: Tally,
    /// Which statements its session's names stand for, for statistics.
    pub(crate) spoken: Spoken,
    /// The server's answer to the pooler's question about a statement.
    pub(crate) verdict: Verdict,
    /// The statements that its session's next text may see without naming them were tried: that text does not try them again.
    pub(crate) has_attempted: bool,
}

impl Lease {
    /// A session gets the server, for which it has waited this long.
    #[inline(always)]
    pub(crate) fn of(now: Time, waited_us: u64) -> Lease {
        Lease {
            linked_at: now,
            waited_us,
            began_at: Some(now),
            tally: Tally::of(waited_us),
            spoken: Spoken::default(),
            verdict: Verdict::None,
            has_attempted: false,
        }
    }

    /// When its transaction began.
    #[inline]
    pub fn began_at(&self) -> Option<Time> {
        self.began_at
    }

    /// How long its session had waited for it, in microseconds.
    pub fn waited_us(&self) -> u64 {
        self.waited_us
    }
}

/// Other marks that sessions leave on a server.
#[derive(Debug, Default)]
pub struct Traces {
    /// A session may have left state on it that was not followed: it is reset before the next session gets it.
    pub(crate) needs_reset: bool,
    /// A reset is removing its base, which is set again after it.
    pub(crate) bare: Option<Bare>,
    /// The same, because the catalogue shows side effects that were defined past the pooler. A DISCARD ALL of its
    /// session does not clear this mark.
    pub(crate) tainted: bool,
    /// A statement that the pooler ran before the client's has failed: what it should have removed may still be there.
    pub(crate) prelude_failed: bool,
    /// Its client's open transaction defines something that the pool has noted.
    pub(crate) is_unsettled: bool,
    /// A session has had temporary objects on it, or may have: PostgreSQL no longer takes another `temp_buffers` there.
    //= pg18 runtime-config-resource#GUC-TEMP-BUFFERS
    pub(crate) has_local_buffers: bool,
    /// LISTEN has run on it, and no UNLISTEN * since.
    pub(crate) listens: bool,
    /// The process id, as known to its client, of the last session that ran NOTIFY on it; 0: none has.
    pub(crate) notified_by: i32,
    /// The beginning of the last text that it was sent, kept for messages of `chaos_check`.
    pub(crate) last_text: Option<Vec<u8>>,
    /// The query of the configuration's own that it is answering may set parameters.
    pub(crate) query_sets: bool,
}

impl Traces {
    /// Whether a session has left something that the next one must not have.
    pub(crate) fn are_any(&self) -> bool {
        self.needs_reset || self.tainted || self.has_local_buffers || self.listens
    }

    /// It is reset before the next session gets it.
    #[inline]
    pub fn needs_reset(&self) -> bool {
        self.needs_reset
    }

    /// Something may be left on it that was not followed.
    pub fn reset_needed(&mut self) {
        self.needs_reset = true;
    }

    /// DISCARD ALL has been answered.
    pub fn cleared(&mut self) {
        self.needs_reset = false;
    }

    /// The reset that has removed its base, until the base is set again.
    pub fn bare(&self) -> Option<Bare> {
        self.bare
    }

    /// The catalogue shows side effects that were defined past the pooler, which may have left something on it.
    pub fn taint(&mut self) {
        self.tainted = true;
    }

    /// It is free: if it is tainted, it needs a reset. Whether it was.
    pub fn take_taint(&mut self) -> bool {
        self.needs_reset |= self.tainted;
        std::mem::take(&mut self.tainted)
    }

    /// Its client's open transaction defines something that the pool has noted.
    pub fn is_unsettled(&self) -> bool {
        self.is_unsettled
    }

    /// It is free: no transaction on it defines anything any more. Whether one was noted.
    pub fn take_unsettled(&mut self) -> bool {
        std::mem::take(&mut self.is_unsettled)
    }

    /// PostgreSQL takes no other `temp_buffers` there.
    pub fn has_local_buffers(&self) -> bool {
        self.has_local_buffers
    }

    /// LISTEN has run on it, and no UNLISTEN * since.
    #[inline]
    pub fn listens(&self) -> bool {
        self.listens
    }

    /// UNLISTEN * has been answered.
    pub fn unlistened(&mut self) {
        self.listens = false;
    }

    /// The process id, as known to its client, of the last session that ran NOTIFY on it.
    pub fn notified_by(&self) -> Option<i32> {
        (self.notified_by != 0).then_some(self.notified_by)
    }

    /// A session gets it while `chaos_check` compares: the beginning of the last text is kept from now on.
    pub fn keep_texts(&mut self) {
        self.last_text.get_or_insert_default().clear();
    }

    /// A text is sent, other than a client's.
    pub fn note_text(&mut self, text: &[u8]) {
        if let Some(last) = &mut self.last_text {
            last.clear();
            last.extend_from_slice(text);
        }
    }

    /// The beginning of the last text that it was sent.
    pub fn last_text(&self) -> &[u8] {
        self.last_text.as_deref().unwrap_or_default()
    }
}

/// The transaction of its client, or the last one.
#[derive(Debug)]
pub struct Transaction {
    /// The status in its last ReadyForQuery.
    pub(crate) status: Status,
    /// A ReadyForQuery has come since the link.
    #[cfg(debug_assertions)]
    pub(crate) status_seen: bool,
    /// When the query under way was sent, or the last answer came.
    pub(crate) query_at: Time,
    /// Its client has got an error for the request being answered.
    pub(crate) answer_failed: bool,
    /// The client has got a CommandComplete for it.
    pub(crate) answer_tagged: bool,
}

impl Transaction {
    #[inline]
    pub fn status(&self) -> Status {
        self.status
    }

    /// When the query under way was sent, or the last answer came.
    #[inline]
    pub fn query_at(&self) -> Time {
        self.query_at
    }

    /// A query, or a message with the timeout of a query, is sent.
    #[inline]
    pub fn query_sent(&mut self, now: Time) {
        self.query_at = now;
    }

    /// Its client has got an error for the request being answered.
    pub fn answer_failed(&self) -> bool {
        self.answer_failed
    }

    /// None, since `at`.
    #[must_use]
    pub(crate) fn idle(at: Time) -> Transaction {
        Transaction {
            status: Status::Idle,
            #[cfg(debug_assertions)]
            status_seen: false,
            query_at: at,
            answer_failed: false,
            answer_tagged: false,
        }
    }
}

/// Effects of its client's statements under way besides their answers.
#[derive(Debug, Default)]
pub struct UnderWay {
    /// Whether statements that other clients have prepared may mean something else after this transaction.
    pub(crate) defines: Defines,
    /// Its client's transaction may run under another role by SET LOCAL.
    pub(crate) local_rights: bool,
    /// A statement under way needs these databases to have no connections; no names: several statements do.
    pub(crate) emptying: Option<Box<[sql::Word]>>,
    /// The parameters that its session has again if the transaction is rolled back, once one of them is reported.
    pub(crate) before: Option<Box<Before>>,
}

/// The parameters of a session before its transaction.
#[derive(Clone, Debug)]
pub struct Before {
    pub(crate) parameters: Arc<Parameters>,
    /// Those of them that it has set itself.
    pub(crate) own: ParameterSet,
}

impl UnderWay {
    pub(crate) fn are_any(&self) -> bool {
        let has_defined = self.defines != Defines::Nothing;
        has_defined || self.local_rights || self.emptying.is_some() || self.before.is_some()
    }
}

/// Whether its client's messages wait for an answer.
#[derive(Debug, Default)]
pub struct Hold {
    waits: Waits,
    /// The last wait of its session for a limit. It is valid while the session's admission says that it waits.
    pub(crate) limit_wait: LimitWait,
}

/// What its client's messages wait for.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
enum Waits {
    #[default]
    No,
    /// For a ReadyForQuery: after the replay, or after a message that decides which statements exist.
    ForReady,
    /// Within a batch, and a Flush was sent: until nothing is owed.
    ForFlushed,
}

impl Hold {
    /// The session waits for a limit, since `since`. Its deadline is in milliseconds; 0: none.
    pub fn wait_for_limit(&mut self, since: Time, deadline_ms: u32) {
        self.begin();
        self.limit_wait = LimitWait { since, deadline_ms };
    }

    /// The last wait of its session for a limit.
    pub fn limit_wait(&self) -> LimitWait {
        self.limit_wait
    }

    #[inline]
    pub fn is_on(&self) -> bool {
        self.waits != Waits::No
    }

    /// They wait behind a Flush.
    pub(crate) fn is_flushed(&self) -> bool {
        self.waits == Waits::ForFlushed
    }

    /// They wait from now on, if they do not yet.
    pub fn begin(&mut self) {
        if self.waits == Waits::No {
            self.waits = Waits::ForReady;
        }
    }

    /// A Flush is sent, and they wait for what it brings. False: one was sent already.
    pub(crate) fn flush(&mut self) -> bool {
        std::mem::replace(&mut self.waits, Waits::ForFlushed) != Waits::ForFlushed
    }

    /// They go on.
    #[inline]
    pub fn end(&mut self) {
        self.waits = Waits::No;
    }

    /// They wait, or go on.
    pub(crate) fn set(&mut self, is_on: bool) {
        if is_on { self.begin() } else { self.end() }
    }
}

/// The wait of a linked session for a limit.
#[derive(Copy, Clone, Debug, Default)]
pub struct LimitWait {
    /// Since when it waits for the first of its limits.
    pub(crate) since: Time,
    /// Its deadline in milliseconds; 0: none.
    pub(crate) deadline_ms: u32,
}

impl LimitWait {
    /// Since when it waits for the first of its limits.
    pub fn since(self) -> Time {
        self.since
    }

    /// Its deadline in milliseconds; 0: none.
    pub fn deadline_ms(self) -> u32 {
        self.deadline_ms
    }
}

/// Cancels of its queries.
#[derive(Debug, Default)]
pub struct Cancelling {
    /// Cancel connections under way for the linked session, or the last one.
    pub(crate) under_way: u32,
    /// Its client has asked for a cancel, which waits until the server has answered the pooler's own query.
    pub(crate) is_requested: bool,
    pub(crate) overdue: Overdue,
}

impl Cancelling {
    /// How many cancel connections are under way for the linked session, or the last one.
    #[inline]
    pub fn under_way(&self) -> u32 {
        self.under_way
    }

    /// A cancel is sent.
    pub fn begins(&mut self) {
        self.under_way += 1;
    }

    /// A cancel is over. Whether it was the last.
    pub fn ended(&mut self) -> bool {
        debug_assert!(self.under_way > 0, "a cancel that ends has begun");
        self.under_way -= 1;
        self.under_way == 0
    }

    /// Its client's cancel waits until the server has answered the pooler's own query.
    pub fn request(&mut self) {
        self.is_requested = true;
    }

    #[inline]
    pub fn is_requested(&self) -> bool {
        self.is_requested
    }

    /// The requested cancel is sent now.
    pub fn take_request(&mut self) {
        debug_assert!(self.is_requested, "nothing else waits here");
        self.is_requested = false;
    }

    /// Its query has run for longer than it may, and is cancelled.
    pub fn query_overdue(&mut self, now: Time) {
        self.overdue = Overdue::Since(now);
    }

    /// The query that was overdue has been answered, and its cancel may hit the next one.
    pub fn may_strike_next(&self) -> bool {
        self.overdue == Overdue::Answered
    }

    /// The last cancel is over. Whether it could have hit the next query until now.
    pub fn strikes_no_more(&mut self) -> bool {
        debug_assert!(self.under_way == 0, "another one may hit");
        let might = self.may_strike_next();
        if might {
            self.overdue = Overdue::No;
        }
        might
    }

    /// A session gets the server.
    #[inline]
    pub(crate) fn linked(&mut self) {
        (self.is_requested, self.overdue) = (false, Overdue::No);
    }

    /// Whether a cancel is wanted or under way, or may hit what comes next.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.under_way > 0 || self.is_requested || self.overdue != Overdue::No
    }
}

/// How it ends.
#[derive(Debug, Default)]
pub struct End {
    /// The server has closed the connection, or is about to: no Terminate is sent.
    pub(crate) gone: bool,
    /// It is closed when it is released, and why.
    pub(crate) close_needed: Option<CloseReason>,
    /// Its client has got the server's own FATAL error.
    pub(crate) fatal_error_forwarded: bool,
    /// The session that it was opened for stays.
    pub(crate) session_stays: bool,
}

impl End {
    /// The session that it was opened for waits for another server.
    pub fn session_stays(&mut self) {
        self.session_stays = true;
    }

    /// Whether the session that it was opened for ends with it.
    #[must_use]
    pub fn ends_session(&self) -> bool {
        !self.session_stays
    }

    /// The server has closed the connection, or is about to.
    pub fn is_gone(&self) -> bool {
        self.gone
    }

    /// The server has closed the connection, or is about to.
    pub fn server_gone(&mut self) {
        self.gone = true;
    }

    /// Why it is closed when it is released, if it is.
    #[inline]
    pub fn close_needed(&self) -> Option<&CloseReason> {
        self.close_needed.as_ref()
    }

    /// It is closed when it is released, for this reason.
    pub fn close_when_released(&mut self, reason: CloseReason) {
        self.close_needed = Some(reason);
    }

    /// Its client has got the server's own FATAL error.
    pub fn has_forwarded_fatal_error(&self) -> bool {
        self.fatal_error_forwarded
    }
}

/// What it works for, and since when.
#[derive(Debug)]
pub struct Work {
    /// When the state last changed.
    pub(crate) since: Time,
    /// When a session last had it.
    pub(crate) worked_at: Time,
    /// When bytes last came from it.
    pub(crate) heard_at: Time,
    /// When it was lent to this worker, if no session has had it here yet.
    pub(crate) travelled_at: Option<Time>,
    /// How often it was given to a session.
    pub(crate) uses: u32,
    /// Which class its time is charged to until it is free.
    pub(crate) charge: Option<Charge>,
    /// The permits of a transaction whose session has ended.
    pub(crate) permits: Option<Box<Permits>>,
}

impl Work {
    /// When the state last changed.
    #[inline]
    pub fn since(&self) -> Time {
        self.since
    }

    /// The timeout of its state begins anew.
    pub fn begin_anew(&mut self, now: Time) {
        self.since = now;
    }

    /// It is idle, and was so already on its way here, since `since`. That is a time by the clock of the worker that has lent it, which may be ahead of
    /// this worker's: each worker reads the clock once a round.
    pub fn idle_since(&mut self, since: Time) {
        self.since = since.min(self.since);
    }

    /// When a session last had it.
    pub fn worked_at(&self) -> Time {
        self.worked_at
    }

    /// When bytes last came from it.
    pub fn heard_at(&self) -> Time {
        self.heard_at
    }

    /// When it was lent to this worker, if no session has had it here yet.
    pub fn travelled_at(&self) -> Option<Time> {
        self.travelled_at
    }

    /// Another worker has lent it, and it arrives.
    pub fn travels(&mut self, now: Time) {
        self.travelled_at = Some(now);
    }

    /// How often it was given to a session.
    #[inline]
    pub fn uses(&self) -> u32 {
        self.uses
    }

    /// It is given to a session, or becomes its pool's listener.
    #[inline]
    pub fn count_use(&mut self) {
        self.uses = self.uses.saturating_add(1);
    }

    /// Whether its time is charged to a class.
    pub fn is_charged(&self) -> bool {
        self.charge.is_some()
    }

    /// The permits of a transaction whose session has ended.
    pub fn permits(&self) -> Option<&Permits> {
        self.permits.as_deref()
    }

    /// The session of the transaction under way has ended: the permits stay until the transaction is over.
    pub fn keep_permits(&mut self, permits: Option<Box<Permits>>) {
        debug_assert!(self.permits.is_none(), "a server has the permits of one transaction");
        self.permits = permits;
    }

    /// The transaction is over.
    pub fn take_permits(&mut self) -> Option<Box<Permits>> {
        self.permits.take()
    }
}

#[cfg(test)]
mod tests {
    use connections::databases::{Address, Database, Host};
    use connections::encryption::Encryption;
    use session_state::parameters::Tracked;
    use units::{ConnId, Kind, PoolId, Serial, StatementRow};

    use super::*;
    use crate::server::{Answerer, Expect, Server, ServerFacts};
    use crate::special::{Facts, Special};

    fn server(now: Time) -> Server {
        let host = Arc::new(Address { host: Host::Unix("/run".into()), port: 5432 });
        let name = (Serial(1), ConnId::new(Kind::Server, 0, 0, 0));
        let database = Arc::new(Database::new("d", Vec::new()));
        let identity = Identity::new(name, &host, Encryption::in_the_clear(&host), database, 0, now);
        Server::connecting(now, PoolId(0), identity, Arc::new(Tracked::new(&[]).empty()))
    }

    #[test]
    fn an_answer_that_nobody_waited_for_is_not_charged_to_the_next_session() {
        let (at, row) = (Time(5), StatementRow::new(2, 0));
        let mut server = server(at);
        server.linked(at, 1);
        server.lease.tally.sent(1_000_000);
        server.lease.tally.completed(b"SELECT 1000\0");
        server.lease.tally.failed();
        server.lease.has_attempted = true;
        server.linked(at, 2);
        let call = server.lease.tally.ready(Some(row), 3, at, at).expect("a Query is a call");
        assert_eq!((call.rows, call.bytes, call.queued_us, call.failed), (0, 0, 2, false));
        assert!(!server.lease.has_attempted && server.lease.waited_us() == 2);
    }

    #[test]
    fn each_fact_of_a_server_makes_its_link_special_and_a_new_server_has_none() {
        type Case = (Special, fn(&mut ServerFacts));
        let cases: [Case; 17] = [
            (Special::SERVER_PAUSED, |facts| facts.flow.keep(b"x", Vec::new)),
            (Special::SERVER_PAUSED, |facts| _ = facts.flow.watch(false)),
            (Special::HELD, |facts| facts.hold.begin()),
            (Special::CANCELLED, |facts| facts.cancel.begins()),
            (Special::CANCELLED, |facts| facts.cancel.request()),
            (Special::CANCELLED, |facts| facts.cancel.query_overdue(Time(1))),
            (Special::EFFECTS, |facts| facts.effects.local_rights = true),
            (Special::EFFECTS, |facts| facts.effects.defines = Defines::Unclear),
            (Special::EFFECTS, |facts| facts.effects.emptying = Some(Box::default())),
            (Special::EFFECTS, |facts| {
                let parameters = Arc::new(Tracked::new(&[]).empty());
                facts.effects.before = Some(Box::new(Before { parameters, own: ParameterSet::NONE }));
            }),
            (Special::EFFECTS, |facts| facts.traces.is_unsettled = true),
            (Special::CLOSES, |facts| facts.end.close_needed = Some(CloseReason::Surplus)),
            (Special::CLOSES, |facts| facts.end.fatal_error_forwarded = true),
            (Special::TRACES, |facts| facts.traces.reset_needed()),
            (Special::TRACES, |facts| facts.traces.taint()),
            (Special::TRACES, |facts| facts.traces.listens = true),
            (Special::TEXT_KEPT, |facts| facts.traces.keep_texts()),
        ];
        assert_eq!(ServerFacts::default().special(), Special::NONE);
        for (number, (special, change)) in cases.into_iter().enumerate() {
            let mut facts = ServerFacts::default();
            change(&mut facts);
            assert_eq!(facts.special(), special, "case {number}");
        }
    }

    #[test]
    fn a_server_moves_only_while_nothing_of_it_is_under_way() {
        type Case = (&'static str, fn(&mut Server));
        let cases: [Case; 12] = [
            ("an answer is owed", |server| _ = server.ledger.sent(Answerer::Chore, Expect::Query)),
            ("half a message was read", |server| server.incoming.skip = 1),
            ("it is in a transaction", |server| server.transaction.status = Status::InTransaction),
            ("its socket has not taken all", |server| server.facts.flow.keep(b"x", Vec::new)),
            ("its client's messages wait", |server| server.facts.hold.begin()),
            ("a cancel is under way", |server| server.facts.cancel.begins()),
            ("a cancel is wanted", |server| server.facts.cancel.request()),
            ("it has hung up", |server| server.facts.end.server_gone()),
            ("it is to be closed", |server| server.facts.end.close_needed = Some(CloseReason::Surplus)),
            ("a definition is not settled", |server| server.facts.traces.is_unsettled = true),
            ("a PREPARE is under way", |server| server.kept.on_server.changes_nothing()),
            ("a session replicates by it", |server| {
                server.identity.opened_for_session = Some(ConnId::new(Kind::Client, 0, 0, 0));
            }),
        ];
        assert!(server(Time(5)).can_move());
        for (why, change) in cases {
            let mut server = server(Time(5));
            change(&mut server);
            assert!(!server.can_move(), "{why}");
        }
    }
}
