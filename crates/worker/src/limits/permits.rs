//! What a session's transaction uses of the limits of its class and statement: taken, counted, given back.

use std::sync::Arc;

use connections::Permits;
use connections::server::Server;
use link::session::{Admission, Session};
use machine::Step;
use machine::mail::ToCoordinator;
use queueing::limiting::limiter::ClassLimiter;
use queueing::limiting::{CallBack, Limit};
use units::table::Table;
use units::{ConnId, PoolId, Time};
use wire::backend::ParameterStatus;

use crate::limits::limiters::{Limiters, Outcome};
use crate::tables::Tables;
use crate::tables::followups::Before;

/// A session keeps its server: is its transaction over?
pub(crate) fn note_transaction_end(tables: &mut Tables, conn: ConnId, server: ConnId) {
    let session = &mut tables.sessions[conn];
    let is_in = matches!(session.claim.admission, Admission::In { .. });
    if is_in && !session.is_torn() && tables.servers[server].is_between_transactions() {
        // Its permits stay with its server.
        session.claim.admission = Admission::Not;
    }
}

/// Who waits with its server waits no more. False: it does not.
pub(crate) fn end_linked_wait(
    tables: &mut Tables,
    limiters: &mut Limiters,
    step: &mut Step<'_>,
    conn: ConnId,
    outcome: Outcome,
) -> bool {
    let session = &mut tables.sessions[conn];
    let (Some(_), Admission::Waits { ticket }) = (session.server(), session.claim.admission) else { return false };
    let wait = limiters.leave_queue(step.now, ticket).expect("who waits for a limit is in its line");
    session.claim.admission = Admission::Halfway { since: wait.since };
    settle_linked(tables, limiters, conn, outcome);
    // Whoever was behind it may need less.
    tables.agenda.admit(wait.before);
    true
}

/// What has become of its wait is told as soon as its server has said what it is saying.
pub(crate) fn settle_linked(tables: &mut Tables, limiters: &mut Limiters, conn: ConnId, outcome: Outcome) {
    limiters.outcomes.insert(conn, outcome);
    tables.agenda.reconsider(conn);
}

pub(crate) fn take_class_permit(
    tables: &mut Tables,
    limiters: &mut Limiters,
    now: Time,
    conn: ConnId,
    index: usize,
    asked_at: Time,
) {
    let limiter = &limiters.classes[index];
    if limiter.limits.active.is_some() {
        permits_of(&mut tables.sessions[conn], now, asked_at).class = Some(Arc::clone(&limiter.name));
    }
}

/// Gives back what nobody here has use for, and asks for what they want.
pub(crate) fn settle_limit(tables: &mut Tables, limiters: &mut Limiters, step: &mut Step<'_>, before: Before) {
    let now = step.now;
    let (mut asks, mut back) = (Vec::new(), Vec::new());
    let look_at = match before {
        Before::Class(index) => {
            let limiter = &mut limiters.classes[index];
            back.extend(limiter.unspent(now).map(|(kind, count)| (limiter.limit(kind), count)));
            asks.extend(limiter.requests(now).into_iter().map(|(kind, count)| (limiter.limit(kind), count)));
            limiter.next_at(now)
        }
        Before::Statement(fingerprint) => {
            // It was not used any more, and forgotten.
            let Some(limiter) = limiters.statements.get_mut(&fingerprint) else { return };
            let waiting = limiter.waiting();
            let count = limiter.permits.settled(waiting) + limiter.permits.unspent(now, waiting);
            back.push((Limit::Statement(fingerprint), count));
            asks.push((Limit::Statement(fingerprint), limiter.permits.request(waiting)));
            limiter.permits.next_at(waiting)
        }
    };
    limiters.look(look_at);
    for (limit, count) in back {
        give_back(tables, step, limit, count, 0);
    }
    let worker = tables.id;
    for (limit, count) in asks.into_iter().filter(|(_, count)| *count > 0) {
        let mail = ToCoordinator::RequestAllowance { limit, worker, count };
        step.actions.post_to_coordinator(mail);
    }
}

/// The coordinator wants permits back.
pub(crate) fn called_back(
    tables: &mut Tables,
    limiters: &mut Limiters,
    step: &mut Step<'_>,
    limit: &Limit,
    call: &CallBack,
) {
    let called = match limit {
        Limit::Class(name, _) => {
            let limiter = limiters.classes.iter_mut().find(|limiter| limiter.name == *name);
            limiter.map(|limiter| limiter.called(call))
        }
        Limit::Statement(fingerprint) => {
            let limiter = limiters.statements.get_mut(fingerprint);
            limiter.map(|limiter| limiter.permits.called(call, limiter.waiting()))
        }
    };
    let (count, missing) = called.unwrap_or((0, call.count));
    give_back(tables, step, limit.clone(), count, missing);
}

pub(crate) fn give_back(tables: &mut Tables, step: &mut Step<'_>, limit: Limit, count: u32, missing: u32) {
    if count > 0 || missing > 0 {
        let mail = ToCoordinator::Unspent { limit, worker: tables.id, count, missing };
        step.actions.post_to_coordinator(mail);
    }
}

/// Its transaction may begin.
pub(crate) fn pass_in(tables: &mut Tables, limiters: &mut Limiters, step: &mut Step<'_>, conn: ConnId) {
    let session = &mut tables.sessions[conn];
    let since = session.waiting_since().unwrap_or(step.now);
    session.claim.admission = Admission::In { since, transactions: 1, queries: 1 };
    report_limits(tables, limiters, step, conn);
}

/// It does not begin its transaction. What belongs to a server that it has stays with that.
pub(crate) fn give_up_passing(tables: &mut Tables, limiters: &mut Limiters, step: &mut Step<'_>, conn: ConnId) {
    let session = &mut tables.sessions[conn];
    match session.server() {
        Some(_) => session.claim.admission = Admission::Not,
        None => leave_limits(tables, limiters, step, conn),
    }
}

/// A session has nothing to do with limits any more: its transaction is over, or it goes.
pub(crate) fn leave_limits(tables: &mut Tables, limiters: &mut Limiters, step: &mut Step<'_>, conn: ConnId) {
    let session = &mut tables.sessions[conn];
    let admission = std::mem::take(&mut session.claim.admission);
    let permits = session.claim.permits.take();
    limiters.outcomes.remove(&conn);
    if let Admission::Waits { ticket } = admission
        && let Some(wait) = limiters.leave_queue(step.now, ticket)
    {
        limiters.count_vain_wait(step.now, wait.before, wait.since);
        // Whoever was behind it may need less.
        tables.agenda.admit(wait.before);
    }
    tables.agenda.release(permits);
}

/// A session goes, and its server has still to be done with its transaction: its permits are that server's until then.
pub(crate) fn pass_permits_on(tables: &mut Tables, conn: ConnId, server: ConnId) {
    let session = &mut tables.sessions[conn];
    // One that was closed has nothing left to be done with.
    if let Some(server) = tables.servers.get_mut(server)
        && session.claim.permits.is_some()
    {
        debug_assert!(server.work.permits.is_none(), "a server has the slots of one transaction");
        server.work.permits = session.claim.permits.take();
    }
}

/// So many transactions of that server's client have ended since there were `before`.
#[inline(never)]
pub(crate) fn count_ended(
    tables: &mut Tables,
    limiters: &mut Limiters,
    step: &mut Step<'_>,
    client: Option<ConnId>,
    pool: PoolId,
    before: u64,
) {
    let ended = tables.pools[pool].counts.totals.transactions.saturating_sub(before);
    if let Some(client) = client.filter(|_| ended > 0) {
        count_for_limits(tables, limiters, step, client, u32::try_from(ended).unwrap_or(u32::MAX), 0);
    }
}

/// What goes on with a linked session at its server: so many statements, and transactions that ended.
pub(crate) fn count_for_limits(
    tables: &mut Tables,
    limiters: &mut Limiters,
    step: &mut Step<'_>,
    conn: ConnId,
    transactions: u32,
    queries: u32,
) {
    let session = &mut tables.sessions[conn];
    // Its transaction began before there were limits, or none has begun.
    let Admission::In { transactions: begun, queries: asked, .. } = &mut session.claim.admission else { return };
    let paid = |credit: &mut u8, count: u32| {
        let free = u32::from(*credit).min(count);
        *credit -= free as u8;
        count - free
    };
    let (transactions, queries) = (paid(begun, transactions), paid(asked, queries));
    let index = usize::from(session.claim.class.0);
    // Statements are limited, and no class.
    let Some(limiter) = limiters.classes.get_mut(index) else { return };
    if limiter.limits.transactions.is_some() {
        (0..transactions).for_each(|_| limiter.transactions.owe());
    }
    if limiter.limits.queries.is_some() {
        (0..queries).for_each(|_| limiter.queries.owe());
    }
    if transactions > 0 || queries > 0 {
        settle_limit(tables, limiters, step, Before::Class(index));
    }
}

pub(crate) fn report_limits(tables: &mut Tables, limiters: &mut Limiters, step: &mut Step<'_>, conn: ConnId) {
    let session = &tables.sessions[conn];
    if !session.claim.reports_limits {
        return;
    }
    let limiter = limiters
        .classes
        .get(usize::from(session.claim.class.0))
        .filter(|limiter| !ClassLimiter::is_free(&limiter.limits));
    // It is limited by its statement only.
    let Some((remaining, retry_ms)) = limiter.map(|limiter| limiter.left(step.now)) else { return };
    step.actions.send_new(conn, |out| {
        for (name, value) in
            [(&b"pgweir.limit_remaining"[..], u64::from(remaining)), (&b"pgweir.limit_retry_after_ms"[..], retry_ms)]
        {
            ParameterStatus { name, value: value.to_string().as_bytes() }.encode(out);
        }
    });
}

/// The permits of a session's transaction, which was asked for then.
pub(crate) fn permits_of(session: &mut Session, now: Time, asked_at: Time) -> &mut Permits {
    session.claim.permits.get_or_insert_with(|| Box::new(Permits::new(now, asked_at)))
}

/// All permits that transactions have.
pub(crate) fn taken_permits<'t>(
    sessions: &'t Table<Session>,
    servers: &'t Table<Server>,
) -> impl Iterator<Item = &'t Permits> {
    let of_sessions = sessions.iter().filter_map(|(_, session)| session.claim.permits.as_deref());
    of_sessions.chain(servers.iter().filter_map(|(_, server)| server.work.permits.as_deref()))
}
