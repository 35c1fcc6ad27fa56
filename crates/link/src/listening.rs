//! One server that listens for all sessions of its pool on this worker, so that LISTEN keeps none of them on a server.
//!
//! ```text
//!   client: LISTEN jobs ──► the listener: LISTEN "jobs" ──► answered ──► the server: LISTEN jobs ──► ReadyForQuery
//!   client: COMMIT      ──► the listener: (empty)       ──► answered ──► the server: COMMIT; from here on it is notified
//!   client: NOTIFY jobs ──► the server ──► the listener: (empty) ──► answered ──► NotificationResponse, ReadyForQuery
//! ```
//!
//! The client's statement goes to its server unchanged, for its command tag or its error. The server gets UNLISTEN *
//! before the next session, and notifications that it sends for these channels meanwhile are dropped.
//!
//! A session receives every notification that is committed after its own LISTEN, and none that was committed before the
//! message that committed its LISTEN was sent. It receives them outside transactions only, before the ReadyForQuery
//! that ends one. If the listener is lost, its sessions end. An UNLISTEN outside a transaction block is sent once the
//! listener has answered, so that earlier notifications are received first. A session's own notification comes after
//! the ParameterStatus messages of the same statement; in PostgreSQL it would come before them.
//!
//! While there is no listener, a session that has not begun a transaction waits without a server, so that the server
//! can become the listener.
//!
//! In some cases a session listens on its own server and keeps it: the pool has one server, the session has another
//! encoding, the server would truncate the channel's name, no server was available in time, the session knows its
//! server's process id, or a function may have run LISTEN. If such a session also uses the listener for other channels,
//! the order between both is not kept.
//!
//! Within a transaction, `pg_listening_channels()` shows the channels of the server, not those of the session.
//!
//! //= pg18 sql-listen
//! //= pg18 sql-notify

use std::sync::Arc;

use session_state::parameters::Tracked;
use session_state::state::{Effect, Effects, ListenerWait, Pins, Reading, is_portable, write_identifier};
use session_state::tracker::Tracker;
use units::ConnId;
use wire::backend::{Notification, Status};
use wire::frontend::{Parse, Query};

use crate::answers::Answers;
use crate::pool::Pool;
use crate::requests::Requests;
use crate::server::{Answerer, Expect, Server, ServerState};
use crate::session::Session;
use crate::texts;

pub const UNLISTEN: &[u8] = b"UNLISTEN *";

/// A message that may change the session's channels is about to be sent. False: it waits for the listener.
pub(crate) fn may_listen(requests: &mut Requests<'_>, effects: &mut Effects) -> bool {
    // A session that listens or has sent NOTIFY has a tracker.
    let Some(tracker) = &requests.link.session.facts.tracker else { return true };
    let ends = effects.iter().any(|effect| matches!(effect, Effect::End | Effect::PrepareTransaction))
        && tracker.notifications.subscriptions().is_some();
    let listens = effects.iter().any(|effect| matches!(effect, Effect::Listen(_)));
    let leaves = leaves_listener(requests.link.server, requests.link.session, requests.link.pool, effects);
    // In a failed transaction only its end has an effect; that may be under way.
    let failed = requests.link.server.transaction.status == Status::Failed && requests.link.server.ledger.is_clear();
    if !(ends || listens || leaves) || failed {
        // It may have waited before answers showed that it need not. The next message has to wait anew.
        if let Some(tracker) = requests
            .link
            .session
            .facts
            .tracker
            .as_mut()
            .filter(|tracker| tracker.notifications.listener_wait() == ListenerWait::MaySend)
        {
            tracker.notifications.subscriptions_mut().listener_wait = ListenerWait::Nothing;
        }
        return true;
    }
    if listens && tracker.notifications.has_said() && requests.link.server.ledger.owed().awaits_own_ready() {
        // The NOTIFY may belong to an earlier transaction: then it must be committed before the LISTEN is.
        requests.call_for_answers();
        return false;
    }
    let is_new = choose_listeners(requests, effects);
    let (awaited, _) = requests.link.server.ledger.owing();
    let tracker = requests.link.session.facts.tracker.as_mut().expect("it had one above");
    // An UNLISTEN under way removes committed channels, and a LISTEN after it is not committed yet.
    let has_more = tracker
        .notifications
        .subscriptions()
        .is_some_and(|subscriptions| subscriptions.has_more_than(tracker.journal.channels()));
    let uncommitted = has_more || tracker.notifications.subscriptions().is_some() && tracker.under_way.is_unlistening();
    // What is under way may end the transaction that the last ReadyForQuery reported.
    let alone = requests.link.server.transaction.status == Status::Idle
        || requests.link.server.ledger.owed().awaits_own_ready();
    let commits = uncommitted && (ends || alone);
    match tracker.notifications.listener_wait() {
        ListenerWait::ToSend { .. } | ListenerWait::ToBeReady => false,
        ListenerWait::Nothing if !(is_new || commits || leaves) => true,
        ListenerWait::MaySend if !is_new => {
            let subscriptions = tracker.notifications.subscriptions_mut();
            subscriptions.listener_wait = ListenerWait::Nothing;
            if commits {
                subscriptions.commits(awaited);
            }
            true
        }
        ListenerWait::Nothing | ListenerWait::MaySend => {
            tracker.notifications.subscriptions_mut().listener_wait = ListenerWait::ToSend { since: requests.now };
            requests.link.pool.listener.get_or_insert_default().join_next_round(requests.link.conn);
            requests.attends = true;
            false
        }
    }
}

/// Whether this is an UNLISTEN outside a transaction block while the pool's listener listens for the session. Earlier
/// notifications have been sent to the listener, but may not have arrived yet. PostgreSQL delivers them before it runs
/// the UNLISTEN.
fn leaves_listener(server: &Server, session: &Session, pool: &Pool, effects: &Effects) -> bool {
    let is_shared = || pool.listener.as_ref().is_some_and(|listener| listener.server().is_some());
    let is_subscribed = |tracker: &Tracker| {
        tracker.notifications.subscriptions().is_some_and(|subscriptions| subscriptions.interest().next().is_some())
    };
    let leaves = |effect: &Effect| matches!(effect, Effect::Unlisten(_) | Effect::DiscardAll);
    // What is under way may end the transaction that the last ReadyForQuery reported.
    let may_be_alone = server.transaction.status == Status::Idle || server.ledger.owed().awaits_own_ready();
    effects.iter().any(leaves)
        && may_be_alone
        && session.facts.tracker.as_deref().is_some_and(is_subscribed)
        && is_shared()
}

/// Whether a complete Parse has to wait for a listener. While nothing of its batch is sent, the server can be given
/// back for the wait. A text that does not begin with LISTEN is dealt with when it is executed. Where names are not
/// mapped, it is not known when that is, and the session listens on its own server.
pub(crate) fn calls_listener(requests: &mut Requests<'_>, body: &[u8]) -> bool {
    let name_end = body.iter().position(|&byte| byte == 0);
    let first = name_end.and_then(|end| body.get(end + 1..end + 7));
    if !first.is_some_and(|word| word.eq_ignore_ascii_case(b"listen")) || !requests.follows() || !requests.is_mapped() {
        return false;
    }
    let there = requests.link.pool.listener.as_ref().is_some_and(|listener| listener.server().is_some());
    // If it is malformed, its reader reports it.
    let Some(parse) = Parse::decode(body).ok().filter(|_| !there && requests.link.server.is_clean()) else {
        return false;
    };
    texts::read_text(requests, Some(parse.query));
    requests.link.session.facts.tracker.get_or_insert_default();
    let mut effects = texts::effects(requests.link.server, requests.link.session, requests.caches, parse.query);
    !may_listen(requests, &mut effects)
}

/// Chooses for each channel whether the pool's listener or the session's own server listens. Returns whether the
/// listener got a new one.
fn choose_listeners(requests: &mut Requests<'_>, effects: &mut Effects) -> bool {
    let mut is_new = false;
    for effect in effects.iter_mut() {
        let Effect::Listen(name) = &*effect else { continue };
        if !may_share(requests.link.server, requests.link.session, requests.link.pool, name) {
            *effect = Effect::ListenAlone;
            continue;
        }
        let subscriptions =
            requests.link.session.facts.tracker.get_or_insert_default().notifications.subscriptions_mut();
        if subscriptions.take_interest(name) {
            is_new = true;
            requests.link.pool.listener.get_or_insert_default().listen(name, requests.link.conn);
        }
    }
    is_new
}

fn may_share(server: &Server, session: &Session, pool: &Pool, name: &[u8]) -> bool {
    // Without either, the session listens on its own server.
    let (Some(tracker), Some(report)) = (&session.facts.tracker, &pool.welcome.report) else { return false };
    if tracker.notifications.subscriptions().is_some_and(|subscriptions| subscriptions.is_interested(name)) {
        return true;
    }
    // From the commit of a LISTEN on its own server on, the session gets notifications from that server. Before that, a
    // session that uses the listener for one channel can use it for the next too: notifications come in the order of
    // the NOTIFYs.
    let subscribed =
        tracker.notifications.subscriptions().is_some_and(|subscriptions| subscriptions.interest().next().is_some());
    let alone = if subscribed { tracker.journal.channels().alone } else { tracker.journal.listens_alone() };
    let free = tracker
        .notifications
        .subscriptions()
        .is_none_or(|subscriptions| !subscriptions.alone && subscriptions.has_room())
        && !alone
        && !tracker.pinning.pins().any(Pins::BACKEND_PID);
    let encoding = server.kept.parameters.get(Tracked::CLIENT_ENCODING);
    let same = encoding == report.parameters.get(Tracked::CLIENT_ENCODING);
    let is_utf8 = encoding.is_some_and(|encoding| encoding.eq_ignore_ascii_case(b"UTF8"));
    pool.rules.shares_listener && free && same && is_portable(name, is_utf8)
}

/// A text is sent. If it may run NOTIFY, listening sessions get the process id that the client knows; and if the session
/// itself listens, it gets the notification before the ReadyForQuery.
#[inline]
pub(crate) fn note_notify(requests: &mut Requests<'_>, reading: Reading, text: Option<&[u8]>) {
    if reading.may_notify() {
        note_text(requests, reading, text);
    }
}

#[cold]
fn note_text(requests: &mut Requests<'_>, reading: Reading, text: Option<&[u8]>) {
    let notifies = |text: &[u8]| {
        reading.notifies(text, &requests.link.pool.names.known) || reading.executes() && executes_notify(requests, text)
    };
    // A text that is not all at hand may run NOTIFY.
    if !text.is_none_or(notifies) {
        return;
    }
    let (server, session, conn) = (&mut *requests.link.server, &mut *requests.link.session, requests.link.conn);
    server.facts.traces.notified_by = pid_in_notifications(session, conn, server);
    let (awaited, _) = server.ledger.owing();
    if let Some(tracker) = &mut session.facts.tracker {
        tracker.notifications.says(awaited);
    }
}

/// The process id that the session's client knows, for notifications that the session causes on this server.
pub fn pid_in_notifications(session: &Session, conn: ConnId, server: &Server) -> i32 {
    let has_real_pid =
        session.facts.tracker.as_ref().is_some_and(|tracker| tracker.pinning.pins().any(Pins::BACKEND_PID));
    if has_real_pid { server.backend.pid } else { session.identity.pid(conn) }
}

/// Whether a statement that a text runs by EXECUTE may run NOTIFY.
fn executes_notify(requests: &mut Requests<'_>, text: &[u8]) -> bool {
    let effects = texts::effects(requests.link.server, requests.link.session, requests.caches, text);
    let executed = texts::executed(requests, &effects);
    let known = &requests.link.pool.names.known;
    // A statement whose text is not kept may do so. If there is none, the server reports that.
    let notifies = |(reading, text): &(Reading, Arc<[u8]>)| reading.may_notify() && reading.notifies(text, known);
    executed.iter().any(|executed| executed.as_ref().is_none_or(notifies))
}

/// A text that may show the session's channels is about to be sent: the server listens to them too, if that can be
/// committed first.
pub(crate) fn bring_channels(requests: &mut Requests<'_>, reading: Reading) {
    let Some(tracker) = requests.link.session.facts.tracker.as_ref().filter(|_| reading.lists_channels()) else {
        return;
    };
    let ledger = &requests.link.server.ledger;
    let between = requests.link.server.transaction.status == Status::Idle
        && !ledger.owed().awaits_own_ready()
        && !ledger.is_open();
    let mut text = Vec::new();
    for name in tracker.journal.channels().names().filter(|_| between) {
        text.extend_from_slice(b"LISTEN ");
        write_identifier(name, &mut text);
        text.push(b';');
    }
    if text.is_empty() {
        return;
    }
    requests.stream.flush(requests.link.server_id, requests.actions);
    requests.link.server.ledger.sent(Answerer::Replay, Expect::Query);
    (requests.link.server.statements.unnamed, requests.link.server.facts.traces.listens) =
        (session_state::unnamed::NONE, true);
    requests.actions.send_new(requests.link.server_id, |out| Query { text: &text }.encode(out));
}

/// The client's transaction is over: whether its ReadyForQuery may be sent. If so, earlier notifications are sent
/// first.
#[inline]
pub(crate) fn may_be_ready(answers: &mut Answers<'_>) -> bool {
    answers.tracker().is_none_or(|tracker| tracker.notifications.subscriptions().is_none())
        || waits_for_own_notification(answers)
}

fn waits_for_own_notification(answers: &mut Answers<'_>) -> bool {
    answers.findings.subscriptions = true;
    // The answer to the last message: no other message has to wait with it.
    let alone = answers.server.ledger.depth() == 1;
    let last = alone && answers.server.facts.hold.is_on();
    let (conn, session) = answers.session.as_mut().expect("a session has subscriptions");
    let tracker = session.facts.tracker.as_mut().expect("a tracker has subscriptions");
    if alone && tracker.missed().is_some() {
        // The error about lost notifications would come before the ReadyForQuery, so the client gets only that error.
        answers.findings.withheld = true;
        return false;
    }
    if !last && tracker.notifications.has_said() {
        // Its own notification must not reach it before the CommandComplete of its NOTIFY.
        return true;
    }
    if tracker.notifications.take_said() && !tracker.journal.is_deaf() {
        tracker.notifications.subscriptions_mut().listener_wait = ListenerWait::ToBeReady;
        answers.findings.withheld = true;
        return false;
    }
    let (conn, unread) = (*conn, tracker.take_unread());
    if !unread.is_empty() {
        answers.flush();
        answers.actions.send_new(conn, |out| out.extend_from_slice(&unread));
        answers.pool.counts.totals.sent += unread.len() as u64;
    }
    true
}

/// A NotificationResponse. Returns whether it is the client's.
pub(crate) fn notification(answers: &mut Answers<'_>, body: &[u8]) -> bool {
    if matches!(answers.server.state(), ServerState::Listening) {
        answers.findings.words().notifications.push(body.to_vec());
        return false;
    }
    // Notifications may also come while the server answers the pooler's check.
    let is_chore = matches!(answers.server.ledger.owner(), Some(Answerer::Chore | Answerer::Nobody));
    // The session does not listen.
    let Some(tracker) = answers.tracker() else { return false };
    // A notification that cannot be read is passed on as it is.
    let said = Notification::decode(body);
    // The listener delivers its other channels.
    let shared = said.is_ok_and(|said| {
        tracker.notifications.subscriptions().is_some_and(|subscriptions| subscriptions.is_interested(said.channel))
    });
    if is_chore || !tracker.listens_on_server() || shared {
        return false;
    }
    match said.ok().and_then(|said| answers.notifiers.known_pid(said.pid).map(|pid| Notification { pid, ..said })) {
        Some(said) => {
            let mut message = Vec::new();
            said.encode(&mut message);
            answers.send_apart(&message, true);
            false
        }
        None => true,
    }
}
