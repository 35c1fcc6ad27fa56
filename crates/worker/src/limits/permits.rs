//! The permits of a session's transaction: taken, counted, given back.

use link::permits::Permits;
use link::server::Server;
use link::session::{Admission, Session};
use machine::mail::ToCoordinator;
use queueing::limiting::limiter::ClassLimiter;
use queueing::limiting::{CallBack, Limit};
use units::table::Table;
use units::{ConnId, PoolId, Time};
use wire::backend::ParameterStatus;

use crate::tables::followups::Departure;
use crate::tables::limiters::{Before, Limiters, Outcome};
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::step::Step;

/// A session keeps its server: notes it if the transaction is over.
pub(crate) fn note_transaction_end(sessions: &mut Sessions, servers: &Servers, conn: ConnId, server: ConnId) {
    let session = &mut sessions[conn];
    let is_in = matches!(session.claim().admission(), Admission::In { .. });
    if is_in && !session.is_torn() && servers[server].is_between_transactions() {
        // Its permits stay with its server.
        session.claim_mut().take_admission();
    }
}

/// Ends the wait of a linked session. False: it does not wait.
pub(crate) fn end_linked_wait(
    sessions: &mut Sessions,
    servers: &Servers,
    step: &mut Step<'_>,
    conn: ConnId,
    outcome: Outcome,
) -> bool {
    let session = &mut sessions[conn];
    let (Some(server), Admission::Waits { ticket }) = (session.server(), session.claim().admission()) else {
        return false;
    };
    // A server that was closed in this step has its session's end on the agenda.
    let Some(server) = servers.get(server) else { return false };
    session.claim_mut().has_waited(server.hold().limit_wait().since());
    step.agenda.leave_limits(Departure { session: conn, ticket: Some(ticket), outcome: Some(outcome) });
    step.agenda.reconsider(conn);
    true
}

/// The session acts on the outcome of its wait as soon as its server is between messages.
pub(crate) fn set_outcome(limiters: &mut Limiters, step: &mut Step<'_>, conn: ConnId, outcome: Outcome) {
    limiters.outcomes.insert(conn, outcome);
    step.agenda.reconsider(conn);
}

pub(crate) fn take_class_permit(
    sessions: &mut Sessions,
    limiters: &Limiters,
    now: Time,
    conn: ConnId,
    index: usize,
    asked_at: Time,
) {
    let limiter = &limiters.classes[index];
    if limiter.limits.active.is_some() {
        sessions[conn].claim_mut().ensure_permits(now, asked_at).take_class(&limiter.name);
    }
}

/// Gives unneeded allowance back to the coordinator, and requests what the waiters need.
pub(crate) fn exchange_allowance(limiters: &mut Limiters, step: &mut Step<'_>, before: Before) {
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
            // The statement was not used any more, and was forgotten.
            let Some(limiter) = limiters.statements.get_mut(&fingerprint) else { return };
            let waiting = limiter.waiting();
            let count = limiter.permits.return_recalled(waiting) + limiter.permits.unspent(now, waiting);
            back.push((Limit::Statement(fingerprint), count));
            asks.push((Limit::Statement(fingerprint), limiter.permits.request(waiting)));
            limiter.permits.next_at(waiting)
        }
    };
    limiters.look(look_at);
    for (limit, count) in back {
        give_back(step, limit, count, 0);
    }
    let worker = step.plan.id;
    for (limit, count) in asks.into_iter().filter(|(_, count)| *count > 0) {
        let mail = ToCoordinator::RequestAllowance { limit, holder: worker.into(), count };
        step.actions.post_to_coordinator(mail);
    }
}

/// The coordinator wants permits back.
pub(crate) fn called_back(limiters: &mut Limiters, step: &mut Step<'_>, limit: &Limit, call: &CallBack) {
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
    give_back(step, limit.clone(), count, missing);
}

pub(crate) fn give_back(step: &mut Step<'_>, limit: Limit, count: u32, missing: u32) {
    if count > 0 || missing > 0 {
        let mail = ToCoordinator::Unspent { limit, holder: step.plan.id.into(), count, missing };
        step.actions.post_to_coordinator(mail);
    }
}

/// The session's transaction may begin.
pub(crate) fn pass_in(sessions: &mut Sessions, limiters: &Limiters, step: &mut Step<'_>, conn: ConnId) {
    let session = &mut sessions[conn];
    let since = session.waiting_since().unwrap_or(step.now);
    session.claim_mut().admit(since);
    report_limits(sessions, limiters, step, conn);
}

/// The session's transaction does not begin. If the session is linked, it keeps its permits.
pub(crate) fn give_up_passing(sessions: &mut Sessions, step: &mut Step<'_>, conn: ConnId) {
    let session = &mut sessions[conn];
    match session.server() {
        Some(_) => _ = session.claim_mut().take_admission(),
        None => leave_limits(sessions, step, conn),
    }
}

/// A session gives up its permits and its place in a queue: its transaction is over, or the session ends.
pub(crate) fn leave_limits(sessions: &mut Sessions, step: &mut Step<'_>, conn: ConnId) {
    let claim = sessions[conn].claim_mut();
    let ticket = match claim.take_admission() {
        Admission::Waits { ticket } => Some(Some(ticket)),
        Admission::HasWaited { .. } => Some(None),
        Admission::In { .. } | Admission::Not => None,
    };
    if let Some(ticket) = ticket {
        step.agenda.leave_limits(Departure { session: conn, ticket, outcome: None });
    }
    step.agenda.release(claim.take_permits());
}

/// A session waits in no queue of the limits any more.
pub(crate) fn has_left(limiters: &mut Limiters, step: &mut Step<'_>, departure: Departure) {
    let Departure { session, ticket, outcome } = departure;
    let wait = ticket.and_then(|ticket| limiters.leave_queue(step.now, ticket));
    match outcome {
        Some(outcome) => _ = limiters.outcomes.insert(session, outcome),
        None => {
            limiters.outcomes.remove(&session);
            if let Some(wait) = wait {
                limiters.count_vain_wait(step.now, wait.before, wait.since);
            }
        }
    }
    if let Some(wait) = wait {
        // The next waiter may need less.
        step.agenda.admit(wait.before);
    }
}

/// A session ends while its server still has to finish its transaction: the server keeps the permits until then.
pub(crate) fn pass_permits_on(sessions: &mut Sessions, servers: &mut Servers, conn: ConnId, server: ConnId) {
    let session = &mut sessions[conn];
    // A server that was closed has nothing left to finish.
    if let Some(server) = servers.get_mut(server)
        && session.claim().permits().is_some()
    {
        server.work_mut().keep_permits(session.claim_mut().take_permits());
    }
}

/// Counts the transactions of a client that have ended since the pool had counted `before`.
#[inline(never)]
pub(crate) fn count_ended(
    sessions: &mut Sessions,
    pools: &Pools,
    limiters: &mut Limiters,
    step: &mut Step<'_>,
    client: Option<ConnId>,
    pool: PoolId,
    before: u64,
) {
    let ended = pools[pool].counts().totals().transactions.saturating_sub(before);
    if let Some(client) = client.filter(|_| ended > 0) {
        count_for_limits(sessions, limiters, step, client, u32::try_from(ended).unwrap_or(u32::MAX), 0);
    }
}

/// Counts statements and ended transactions of a linked session.
pub(crate) fn count_for_limits(
    sessions: &mut Sessions,
    limiters: &mut Limiters,
    step: &mut Step<'_>,
    conn: ConnId,
    transactions: u32,
    queries: u32,
) {
    let session = &mut sessions[conn];
    // Its transaction began before there were limits, or it has none.
    let Some((transactions, queries)) = session.claim_mut().pay(transactions, queries) else { return };
    let index = usize::from(session.claim().class().0);
    // Only statements are limited, no class.
    let Some(limiter) = limiters.classes.get_mut(index) else { return };
    if limiter.limits.transactions.is_some() {
        (0..transactions).for_each(|_| limiter.transactions.owe());
    }
    if limiter.limits.queries.is_some() {
        (0..queries).for_each(|_| limiter.queries.owe());
    }
    if transactions > 0 || queries > 0 {
        exchange_allowance(limiters, step, Before::Class(index));
    }
}

pub(crate) fn report_limits(sessions: &Sessions, limiters: &Limiters, step: &mut Step<'_>, conn: ConnId) {
    let session = &sessions[conn];
    if !session.claim().reports_limits() {
        return;
    }
    let limiter = limiters
        .classes
        .get(usize::from(session.claim().class().0))
        .filter(|limiter| !ClassLimiter::is_free(&limiter.limits));
    // Only its statement is limited.
    let Some((remaining, retry_ms)) = limiter.map(|limiter| limiter.left(step.now)) else { return };
    step.actions.send_new(conn, |out| {
        for (name, value) in
            [(&b"pgweir.limit_remaining"[..], u64::from(remaining)), (&b"pgweir.limit_retry_after_ms"[..], retry_ms)]
        {
            ParameterStatus { name, value: value.to_string().as_bytes() }.encode(out);
        }
    });
}

/// All permits that transactions have.
pub(crate) fn taken_permits<'t>(
    sessions: &'t Table<Session>,
    servers: &'t Table<Server>,
) -> impl Iterator<Item = &'t Permits> {
    let of_sessions = sessions.iter().filter_map(|(_, session)| session.claim().permits());
    of_sessions.chain(servers.iter().filter_map(|(_, server)| server.work().permits()))
}
