//! Full queues: `max_waiting` of a class.
//!
//! At most that many sessions of a class wait in a pool; each worker where the pool lives has an equal part of it,
//! rounded up. If there are more, the newest or the oldest gets an ERROR (53400). No server has seen its statement.

use std::time::Duration;

use link::session::{State, WaitFor};
use machine::Step;
use queueing::classes::Overflow;
use queueing::refusals::Reason;
use units::ConnId;
use wire::backend::ErrorResponse;
use wire::sqlstate;

use crate::limits::limiters::Limiters;
use crate::limits::refusals;
use crate::tables::Tables;

const HINT: &str = "It was not sent to PostgreSQL, and can be sent again later.";

/// The retry time that the error names while no session has been served yet.
const UNKNOWN: Duration = Duration::from_millis(100);

/// A session has begun to wait: if too many of its class wait now, one of them is refused.
#[inline]
pub(crate) fn bound_queue(tables: &mut Tables, limiters: &mut Limiters, step: &mut Step<'_>, conn: ConnId) {
    if tables.settings.classes.bounds_queues() {
        bound_queue_of(tables, limiters, step, conn);
    }
}

#[inline(never)]
fn bound_queue_of(tables: &mut Tables, limiters: &mut Limiters, step: &mut Step<'_>, conn: ConnId) {
    let session = &tables.sessions[conn];
    // It may have been refused already, because of its deadline.
    if !matches!(session.state(), State::Waiting { wait_for: WaitFor::Server, .. }) {
        return;
    }
    let class = tables.settings.classes.class(session.claim.class);
    // This class's queue has no maximum.
    let Some(max) = class.max_waiting else { return };
    let pool = &tables.pools[session.pool];
    // Each worker's part, but at least one: otherwise no session could wait if the limit is below the number of
    // workers.
    if pool.queue.waiting(session.claim.class) <= max.div_ceil(u32::from(pool.exchange.homes.max(1))) {
        return;
    }
    let (name, id) = (class.name.clone(), session.claim.class);
    // When the next of them is served, there is room for one.
    let room_in = pool.queue.expected_wait(id, step.now, 1).unwrap_or(UNKNOWN);
    let goes = match class.overflow {
        Overflow::RejectNewest => conn,
        Overflow::DropOldest => pool.queue.oldest_of(id).expect("more wait than may").session,
    };
    let message = format!("too many clients of class \"{name}\" wait");
    let retry_ms = room_in.as_millis().max(1);
    let detail = format!("limit={max} remaining=0 retry_after_ms={retry_ms} class={name}");
    let error = ErrorResponse {
        severity: "ERROR",
        code: sqlstate::CONFIGURATION_LIMIT_EXCEEDED,
        message: &message,
        detail: Some(&detail),
        hint: Some(HINT),
    };
    refusals::count_refusal(tables, step, goes, Reason::MaxWaiting, &message);
    refusals::refuse_waiting_request(tables, limiters, step, goes, &error);
}
