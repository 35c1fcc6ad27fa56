//! Which transactions begin now, which wait for a limit of their class or statement, and which are refused.
//!
//! ```text
//!   first message ──► statement's limit ──► class's limit ──► a server, or its pool's queue ──► over: what it used is free
//! └ queue └ queue
//! ```
//!
//! A session that keeps its server between transactions keeps its permits too. If it had to wait for a permit while
//! other sessions wait for its server, both could wait for ever. Its class's rate limits apply to each of its
//! transactions. Statements after the first of a transaction never wait, since others may wait for locks that the
//! transaction holds. They are counted, and reduce what may begin later.

use std::sync::Arc;

use ::settings::Over;
use link::first_text::first_text;
use link::permits::Permits;
use link::pinned::take_pin_permit;
use link::request_refusal::RequestRefusal;
use link::session::{Admission, SessionState, WaitFor};
use queueing::classes::{ClassId, LimitKind};
use queueing::commented::Commented;
use queueing::limiting::limiter::{ClassLimiter, Passage, StatementLimiter};
use queueing::limiting::{Allowance, Limit, TICK};
use sql::Text;
use units::deadline::Owner;
use units::{ConnId, PoolId};

use crate::limits::deadlines::waited;
use crate::limits::permits::taken_permits;
use crate::limits::{classes, deadlines, permits, refusals};
use crate::tables::followups::RequestError;
use crate::tables::limiters::{Before, LimitWaiter, Limiters, Outcome};
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::step::Step;
use crate::tables::{Tables, lookups};

/// Whether a session's messages are forwarded.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Goes {
    On,
    /// They wait: the caller keeps them.
    Later,
    /// They were refused: the caller skips them.
    PassedOver,
}

/// Acts on the outcome of a wait, now that the messages that have waited are at hand.
fn conclude(
    sessions: &mut Sessions,
    pools: &mut Pools,
    limiters: &Limiters,
    step: &mut Step<'_>,
    conn: ConnId,
    outcome: Outcome,
    messages: &[u8],
) -> Goes {
    if let Outcome::Passed = outcome {
        permits::pass_in(sessions, limiters, step, conn);
        return Goes::On;
    }
    permits::give_up_passing(sessions, step, conn);
    match outcome {
        Outcome::Passed => {}
        Outcome::Refused(error) => refusals::refuse_for_now(sessions, pools, limiters, step, conn, &error, messages),
        Outcome::Late { since, deadline_ms } => {
            let detail = waited(step.now, since, deadline_ms);
            refusals::count_refusal(sessions, pools, step, conn, &RequestRefusal::Deadline);
            let error = deadlines::deadline_error(RequestRefusal::Deadline, detail);
            refusals::refuse_batch(sessions, step, conn, &error, messages);
        }
        Outcome::Cancelled => {
            let error = RequestError { why: RequestRefusal::UserRequest, detail: None, hint: None };
            refusals::refuse_batch(sessions, step, conn, &error, messages);
        }
    }
    Goes::PassedOver
}

/// A transaction is to begin with these messages.
pub(crate) fn admit(tables: &mut Tables, step: &mut Step<'_>, conn: ConnId, messages: &[u8]) -> Goes {
    let Tables { sessions, servers, pools, limiters, .. } = tables;
    let session = &sessions[conn];
    let since = match session.claim().admission() {
        Admission::In { .. } => return Goes::On,
        Admission::Waits { .. } => return Goes::Later,
        Admission::HasWaited { since } => since,
        Admission::Not => step.now,
    };
    if let Some(outcome) = limiters.outcomes.remove(&conn) {
        return conclude(sessions, pools, limiters, step, conn, outcome, messages);
    }
    let (class, linked) = (session.claim().class(), session.server().is_some());
    let class = if step.plan.settings.classes.is_single() {
        class
    } else {
        classes::classify(sessions, pools, step, conn, messages).0
    };
    let stated = if linked { Passage::Open } else { pass_statement(sessions, servers, limiters, step, conn, messages) };
    let passage = match stated {
        Passage::Open => pass_class(sessions, servers, limiters, step, conn, class, messages),
        passage => passage,
    };
    match passage {
        Passage::Open => {
            sessions[conn].claim_mut().has_waited(since);
            permits::pass_in(sessions, limiters, step, conn);
            Goes::On
        }
        Passage::Later => Goes::Later,
        Passage::Refused(error) => {
            permits::give_up_passing(sessions, step, conn);
            refusals::refuse_for_now(sessions, pools, limiters, step, conn, &error, messages);
            Goes::PassedOver
        }
    }
}

fn pass_statement(
    sessions: &mut Sessions,
    servers: &mut Servers,
    limiters: &mut Limiters,
    step: &mut Step<'_>,
    conn: ConnId,
    messages: &[u8],
) -> Passage {
    let limits = &step.plan.settings.global.classes;
    // A session that has a permit has begun with that statement, whatever has come after it meanwhile.
    let session = &mut sessions[conn];
    let has_permit = session.claim().permits().is_some_and(|permits| permits.statement().is_some());
    if has_permit || !limiters.counts_statements {
        return Passage::Open;
    }
    // Messages without a text (no Query or Parse) belong to no statement's limit.
    let Some(text) = first_text(session, messages) else { return Passage::Open };
    let rules = step.caches.reader.rules(session.parameters());
    let fingerprint = rules.and_then(|rules| Text::new(text, rules).fingerprint(&limiters.key).ok());
    // All texts that the lexer cannot read share one fingerprint.
    let fingerprint = fingerprint.map_or(0, |fingerprint| fingerprint.bits()[0]);
    // This statement has no limit.
    let Some(limit) = limits.statement_limit(fingerprint) else { return Passage::Open };
    let limiter = limiters.statement(step.now, fingerprint, text);
    let passage =
        if limiter.queue.is_empty() { limiter.pass(step.now, limit, limits.fingerprint_over) } else { Passage::Later };
    match passage {
        Passage::Open => {
            let asked_at = session.waiting_since().unwrap_or(step.now);
            session.claim_mut().ensure_permits(step.now, asked_at).take_statement(fingerprint);
        }
        Passage::Later => {
            let kind = (limits.fingerprint_over == Over::Delay).then_some(LimitKind::Active);
            wait_at(sessions, servers, limiters, step, conn, (Before::Statement(fingerprint), kind), messages);
        }
        Passage::Refused(_) => {}
    }
    passage
}

fn pass_class(
    sessions: &mut Sessions,
    servers: &mut Servers,
    limiters: &mut Limiters,
    step: &mut Step<'_>,
    conn: ConnId,
    class: ClassId,
    messages: &[u8],
) -> Passage {
    let index = usize::from(class.0);
    let Some(limiter) = limiters.classes.get_mut(index).filter(|limiter| !ClassLimiter::is_free(&limiter.limits))
    else {
        return Passage::Open;
    };
    let session = &sessions[conn];
    let linked = session.server().is_some();
    let passage = if limiter.is_next(linked) { limiter.pass(step.now, linked) } else { Passage::Later };
    match passage {
        Passage::Open if linked => {}
        Passage::Open => {
            let asked_at = session.waiting_since().unwrap_or(step.now);
            permits::take_class_permit(sessions, limiters, step.now, conn, index, asked_at);
        }
        Passage::Later => {
            let kind = limiter.delays();
            wait_at(sessions, servers, limiters, step, conn, (Before::Class(index), kind), messages);
        }
        Passage::Refused(_) => {}
    }
    passage
}

fn wait_at(
    sessions: &mut Sessions,
    servers: &mut Servers,
    limiters: &mut Limiters,
    step: &mut Step<'_>,
    conn: ConnId,
    (before, kind): (Before, Option<LimitKind>),
    messages: &[u8],
) {
    let session = &mut sessions[conn];
    let since = session.waiting_since().unwrap_or(step.now);
    let linked = session.server().is_some();
    let deadline_ms = session.deadline_ms(messages, Commented::Unread);
    let ticket = limiters.enter_queue(LimitWaiter { conn, before, linked, since, entered: step.now, kind });
    session.claim_mut().wait(ticket);
    match session.state() {
        SessionState::Linked { server } => {
            let is_between = servers[server].is_between_transactions();
            debug_assert!(is_between, "others may wait for the locks of a transaction under way");
            servers[server].hold_mut().wait_for_limit(since, deadline_ms.unwrap_or_default());
        }
        _ => {
            // A session that will be refused gets no notice about waiting.
            let notified = kind.is_none();
            session.wait(since, WaitFor::Limit, ticket, notified);
            // The pace of a limit's queue is not known: no request is refused before its deadline.
            if let Some(allowed) = deadline_ms {
                session.take_deadline(allowed);
            }
        }
    }
    step.agenda.arm(Owner::Conn(conn));
    permits::exchange_allowance(limiters, step, before);
}

/// The coordinator has answered a request for a limit.
pub(crate) fn allowed(tables: &mut Tables, step: &mut Step<'_>, limit: &Limit, allowance: &Allowance) {
    let Tables { limiters, .. } = tables;
    let before = match limit {
        Limit::Class(name, kind) => {
            let Some(index) = limiters.classes.iter().position(|limiter| limiter.name == *name) else {
                // A reload has taken the class away since it was asked for.
                return permits::give_back(step, limit.clone(), allowance.granted, 0);
            };
            let limiter = &mut limiters.classes[index];
            match kind {
                LimitKind::Active => limiter.permits.allowed(step.now, allowance),
                LimitKind::Queries => limiter.queries.allowed(step.now, allowance),
                LimitKind::Transactions | LimitKind::Logins => limiter.transactions.allowed(step.now, allowance),
            }
            Before::Class(index)
        }
        Limit::Statement(fingerprint) => {
            let Some(limiter) = limiters.statements.get_mut(fingerprint) else {
                // The statement was not used any more, and was forgotten.
                return permits::give_back(step, limit.clone(), allowance.granted, 0);
            };
            limiter.permits.allowed(step.now, allowance);
            Before::Statement(*fingerprint)
        }
    };
    open(tables, step, before);
}

/// Lets waiters pass while the limit allows it, refuses those that may not wait, and requests allowance for the rest.
pub(crate) fn open(tables: &mut Tables, step: &mut Step<'_>, before: Before) {
    let Tables { sessions, servers, pools, limiters, .. } = tables;
    let (mut through, mut late) = (Vec::new(), Vec::new());
    while let Some(ticket) = limiters.next_of(before) {
        let &LimitWaiter { conn, linked, since, .. } = limiters.waiters.get(&ticket).expect("a queue holds waiters");
        if let Some(late_link) = lookups::late(sessions, servers, step.now, conn) {
            // It takes no permit, so nothing has to be released for it.
            limiters.leave_queue(step.now, ticket);
            limiters.count_vain_wait(step.now, before, since);
            late.push((conn, since, linked.then_some(late_link)));
            continue;
        }
        let passage = match before {
            Before::Class(index) => limiters.classes[index].pass(step.now, linked),
            Before::Statement(fingerprint) => {
                let limits = &step.plan.settings.global.classes;
                let limit = limits.statement_limit(fingerprint).unwrap_or(u32::MAX);
                let limiter = limiters.statements.get_mut(&fingerprint);
                limiter.map_or(Passage::Later, |limiter| limiter.pass(step.now, limit, limits.fingerprint_over))
            }
        };
        if passage == Passage::Later {
            break;
        }
        limiters.leave_queue(step.now, ticket);
        if let (Passage::Open, Before::Class(index), false) = (&passage, before, linked) {
            permits::take_class_permit(sessions, limiters, step.now, conn, index, since);
        }
        let session = &mut sessions[conn];
        if let (Passage::Open, Before::Statement(fingerprint)) = (&passage, before) {
            session.claim_mut().ensure_permits(step.now, since).take_statement(fingerprint);
        }
        session.claim_mut().has_waited(since);
        through.push((conn, passage));
    }
    permits::exchange_allowance(limiters, step, before);
    for (conn, since, late_link) in late {
        sessions[conn].claim_mut().has_waited(since);
        match late_link {
            Some((since, deadline_ms)) => {
                permits::set_outcome(limiters, step, conn, Outcome::Late { since, deadline_ms })
            }
            None => _ = deadlines::is_too_late(sessions, servers, pools, step, conn),
        }
    }
    // The agenda's list is worked off from its end, so that the first waiter goes first.
    for (conn, passage) in through.into_iter().rev() {
        let is_class = matches!(before, Before::Class(_));
        go_through(sessions, pools, limiters, step, conn, passage, is_class);
    }
}

fn go_through(
    sessions: &mut Sessions,
    pools: &mut Pools,
    limiters: &mut Limiters,
    step: &mut Step<'_>,
    conn: ConnId,
    passage: Passage,
    is_class: bool,
) {
    let session = &mut sessions[conn];
    if session.server().is_some() {
        return match passage {
            Passage::Refused(error) => permits::set_outcome(limiters, step, conn, Outcome::Refused(error)),
            _ if is_class => permits::set_outcome(limiters, step, conn, Outcome::Passed),
            _ => step.agenda.reconsider(conn),
        };
    }
    session.stop_waiting(step.now);
    if let Passage::Refused(error) = passage {
        permits::give_up_passing(sessions, step, conn);
        let session = &mut sessions[conn];
        let inbox = session.incoming_mut().take_inbox();
        refusals::refuse_for_now(sessions, pools, limiters, step, conn, &error, &inbox);
        sessions[conn].incoming_mut().put_back(inbox);
    } else if is_class {
        permits::pass_in(sessions, limiters, step, conn);
    }
    step.agenda.reconsider(conn);
}

/// Releases the permits of a transaction that is over: a session's, or one that a server finishes after its session has
/// ended.
pub(crate) fn release_permits(tables: &mut Tables, step: &mut Step<'_>, permits: Permits) {
    let lasted = step.now.since(permits.since());
    if let Some(name) = permits.class() {
        let limit = Limit::Class(Arc::clone(name), LimitKind::Active);
        match tables.limiters.classes.iter().position(|limiter| limiter.name == *name) {
            Some(index) => {
                let back = tables.limiters.classes[index].permits.release(step.now, lasted);
                permits::give_back(step, limit, back, 0);
                open(tables, step, Before::Class(index));
            }
            None => permits::give_back(step, limit, 1, 0),
        }
    }
    if let Some(fingerprint) = permits.statement() {
        let limiter = tables.limiters.statements.get_mut(&fingerprint);
        let waited = permits.linked_at().unwrap_or(step.now).since(permits.requested_at());
        let ran = permits.linked_at().map(|linked_at| step.now.since(linked_at));
        let back = limiter.map_or(1, |limiter| limiter.release(step.now, lasted, waited, ran));
        permits::give_back(step, Limit::Statement(fingerprint), back, 0);
        open(tables, step, Before::Statement(fingerprint));
    }
}

/// Returns allowance that was not needed for long enough to the coordinator.
pub(crate) fn tidy_limits(tables: &mut Tables, step: &mut Step<'_>) {
    if tables.limiters.look_at.is_none_or(|at| at > step.now) {
        return;
    }
    tables.limiters.look_at = None;
    for index in 0..tables.limiters.classes.len() {
        open(tables, step, Before::Class(index));
    }
    let due = |limiter: &StatementLimiter| limiter.permits.next_at(limiter.waiting()).is_some();
    let statements: Vec<u64> = tables
        .limiters
        .statements
        .iter()
        .filter(|(_, limiter)| due(limiter))
        .map(|(fingerprint, _)| *fingerprint)
        .collect();
    for fingerprint in statements {
        permits::exchange_allowance(&mut tables.limiters, step, Before::Statement(fingerprint));
    }
}

/// Takes new limits: each session that waits tries again.
pub(crate) fn configure_limits(tables: &mut Tables, step: &mut Step<'_>) {
    let Tables { sessions, servers, pools, limiters, .. } = tables;
    let had_limits = !limiters.is_none();
    let waits = std::mem::take(&mut limiters.waiters);
    for limiter in &mut limiters.classes {
        limiter.queue.clear();
        limiter.linked.clear();
    }
    limiters.statements.values_mut().for_each(|limiter| limiter.queue.clear());
    let used = |class: &str| {
        let permits = taken_permits(sessions, servers);
        permits.filter(|permits| permits.class().is_some_and(|own| **own == *class)).count() as u32
    };
    for (limit, count) in limiters.configure(&step.plan.settings, used) {
        permits::give_back(step, limit, count, 0);
    }
    for wait in waits.into_values().rev() {
        sessions[wait.conn].claim_mut().has_waited(wait.since);
        go_through(sessions, pools, limiters, step, wait.conn, Passage::Open, false);
    }
    if !limiters.is_none() {
        // Some of the allowance may not be needed any more.
        limiters.look(Some(step.now + TICK));
    } else if had_limits {
        // If there are limits again later, each session begins anew.
        limiters.outcomes.clear();
        for conn in sessions.ids() {
            sessions[conn].claim_mut().take_admission();
            // Its messages may have been held only for the limit.
            step.agenda.reconsider(conn);
        }
    }
}

/// Fewer sessions are pinned, or more may be: sessions that wait to be pinned go on.
pub(crate) fn admit_to_pin(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    id: PoolId,
) {
    loop {
        let pool = &mut pools[id];
        let Some(waiter) = pool.next_to_pin() else { return };
        if deadlines::is_too_late(sessions, servers, pools, step, waiter.session) {
            continue;
        }
        let pool = &mut pools[id];
        let session = &mut sessions[waiter.session];
        take_pin_permit(session.ensure_tracker(), pool);
        pool.counts_mut().count_wait(step.now.micros_since(waiter.since));
        session.stop_waiting(step.now);
        step.agenda.reconsider(waiter.session);
    }
}
