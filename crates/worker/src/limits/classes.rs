//! Finds a session's class when the session asks for a server, by its parameters and the comments of its text.

use std::sync::Arc;

use link::charge::Origin;
use link::first_text::first_text;
use link::session::{SessionState, WaitFor};
use machine::Settings;
use queueing::board::Board;
use queueing::classes::ClassId;
use queueing::commented::Commented;
use settings::PoolMode;
use sql::{Text, begins_transaction};
use units::{ConnId, WorkerId};

use crate::tables::owners::{Plan, Pools, Servers, Sessions};
use crate::tables::step::Step;

/// The class of a session that asks for a server for `bytes`, which begin with whole messages. Also returns what the
/// comments of its text say.
#[inline(never)]
pub(crate) fn classify(
    sessions: &mut Sessions,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    bytes: &[u8],
) -> (ClassId, Commented) {
    let session = &mut sessions[conn];
    let classes = &step.plan.settings.classes;
    step.caches.standings.look_up(classes, session);
    let known = session.claim().standing(session.parameters()).expect("it was looked up just now");
    let (class, commented) = match known.reads_tags() {
        true => known.class_of(first_text(session, bytes).unwrap_or_default()),
        false => (known.otherwise(), Commented::Unread),
    };
    session.claim_mut().take_class(class);
    if classes.class(class).long.is_some() {
        return (long_or(sessions, pools, step, class, conn, bytes), commented);
    }
    (class, commented)
}

/// The class for long transactions of `class`, if this one is expected to be long; else `class`.
#[inline(never)]
fn long_or(
    sessions: &mut Sessions,
    pools: &mut Pools,
    step: &mut Step<'_>,
    class: ClassId,
    conn: ConnId,
    bytes: &[u8],
) -> ClassId {
    let session = &mut sessions[conn];
    // It is at the console, or is being disconnected.
    let Some(pool) = pools.get_mut(session.pool()) else { return class };
    let long = step.plan.settings.classes.class(class).long;
    // In session mode a client keeps its server, so that its link is not one transaction.
    let Some(long) = long.filter(|_| pool.rules().mode() != PoolMode::Session) else { return class };
    // Without a text there is no fingerprint to look up.
    let Some(text) = first_text(session, bytes) else { return class };
    let origin = if begins_transaction(text) {
        Some(Origin::of_session(conn))
    } else {
        let rules = step.caches.reader.rules(session.parameters());
        let fingerprint = rules.and_then(|rules| Text::new(text, rules).fingerprint(&step.caches.key_of_origins).ok());
        fingerprint.map(Origin::of_text)
    };
    let is_long = origin.is_some_and(|origin| pool.measured_mut().experience_mut().expects_long(origin, text));
    session.claim_mut().take_origin(origin, is_long.then_some(long.class));
    session.claim().class()
}

/// Reads from the board what other workers have done for the classes of the pools that this worker shares.
#[inline]
pub(crate) fn read_classes(pools: &mut Pools, plan: &Plan, board: &Board) {
    if !plan.settings.classes.is_single() {
        read_board(pools, plan, board);
    }
}

fn read_board(pools: &mut Pools, plan: &Plan, board: &Board) {
    let workers = plan.settings.workers;
    for pool in pools.iter_mut().filter(|pool| pool.exchange().is_shared()) {
        let id = pool.id();
        for worker in (0..workers).map(WorkerId).filter(|worker| *worker != plan.id) {
            let version = board.classes_version(id, worker);
            pool.queue_mut().note_board(worker, version, || board.classes(id, worker));
        }
    }
}

/// Takes new classes: all waiting sessions and all linked servers are assigned to them.
pub(crate) fn reclassify(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    before: &Settings,
) {
    if before.classes == step.plan.settings.classes {
        return;
    }
    let classes = Arc::clone(&step.plan.settings.classes);
    step.caches.standings.forget();
    for conn in sessions.ids() {
        let session = &mut sessions[conn];
        session.claim_mut().forget_standing();
        let inbox = session.incoming_mut().take_inbox();
        classify(sessions, pools, step, conn, &inbox);
        sessions[conn].incoming_mut().put_back(inbox);
    }
    for pool in pools.iter_mut() {
        for waiter in pool.take_classes(&classes) {
            let session = &mut sessions[waiter.session];
            let moved = pool.queue_mut().push(session.claim().class(), waiter.session, waiter.since, waiter.since);
            if let SessionState::Waiting { wait_for: WaitFor::Server | WaitFor::Login, .. } = session.state() {
                session.take_ticket(moved);
            }
        }
    }
    for conn in servers.ids() {
        let server = &mut servers[conn];
        let pool = &mut pools[server.pool()];
        let session = server.session().and_then(|session| sessions.get(session));
        pool.charge_anew(session.map(|session| session.claim().class()).unwrap_or_default(), server);
    }
}
