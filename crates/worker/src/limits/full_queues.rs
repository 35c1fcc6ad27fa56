//! Full queues: `max_waiting` of a class.
//!
//! At most that many sessions of a class wait in a pool; each worker where the pool lives has an equal part of it,
//! rounded up. If there are more, the newest or the oldest gets an ERROR (53400). No server has seen its statement.

use std::time::Duration;

use link::request_refusal::RequestRefusal;
use link::session::{SessionState, WaitFor};
use queueing::classes::Overflow;
use units::ConnId;

use crate::limits::refusals;
use crate::tables::followups::RequestError;
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::step::Step;

const HINT: &str = "It was not sent to PostgreSQL, and can be sent again later.";

/// The retry time that the error names while no session has been served yet.
const UNKNOWN: Duration = Duration::from_millis(100);

/// A session has begun to wait: if too many of its class wait now, one of them is refused.
#[inline]
pub(crate) fn bound_queue(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
) {
    if step.plan.settings.classes.bounds_queues() {
        bound_queue_of(sessions, servers, pools, step, conn);
    }
}

#[inline(never)]
fn bound_queue_of(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
) {
    let session = &sessions[conn];
    // It may have been refused already, because of its deadline.
    if !matches!(session.state(), SessionState::Waiting { wait_for: WaitFor::Server, .. }) {
        return;
    }
    let class = step.plan.settings.classes.class(session.claim().class());
    // This class's queue has no maximum.
    let Some(max) = class.max_waiting else { return };
    let pool = &pools[session.pool()];
    // Each worker's part, but at least one: otherwise no session could wait if the limit is below the number of
    // workers.
    if pool.queue().waiting(session.claim().class()) <= max.div_ceil(u32::from(pool.exchange().homes().max(1))) {
        return;
    }
    let (name, id) = (class.name.clone(), session.claim().class());
    // When the next of them is served, there is room for one.
    let room_in = pool.queue().expected_wait(id, step.now, 1).unwrap_or(UNKNOWN);
    let goes = match class.overflow {
        Overflow::RejectNewest => conn,
        Overflow::DropOldest => pool.queue().oldest_of(id).expect("more wait than may").session,
    };
    let retry_ms = room_in.as_millis().max(1);
    let detail = format!("limit={max} remaining=0 retry_after_ms={retry_ms} class={name}");
    let error =
        RequestError { why: RequestRefusal::MaxWaiting { class: name }, detail: Some(detail), hint: Some(HINT.into()) };
    refusals::count_refusal(sessions, pools, step, goes, &error.why);
    refusals::refuse_waiting_request(sessions, servers, pools, step, goes, &error);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use queueing::classes::{Class, Classes};

    use super::*;
    use crate::tables::scene::Scene;

    /// Which of so many sessions, the newest first, still wait when the last has begun to; `max` is over two homes.
    fn waiting(count: usize, max: Option<u32>, overflow: Overflow) -> Vec<bool> {
        let class = Class { max_waiting: max, overflow, ..Class::new("default") };
        let mut scene =
            Scene::new(|settings| settings.classes = Arc::new(Classes { all: vec![class], ..Classes::default() }));
        let begin = |_| {
            let conn = scene.waiter(scene.now);
            scene.run(|tables, step| {
                bound_queue(&mut tables.sessions, &mut tables.servers, &mut tables.pools, step, conn)
            });
            conn
        };
        let sessions: Vec<ConnId> = (0..count).map(begin).collect();
        let waits = |conn: &ConnId| matches!(scene.tables.sessions[*conn].state(), SessionState::Waiting { .. });
        sessions.iter().rev().map(waits).collect()
    }

    #[test]
    fn a_full_queue_refuses_the_newest_or_the_oldest() {
        assert_eq!(waiting(3, Some(4), Overflow::RejectNewest), [false, true, true]);
        assert_eq!(waiting(3, Some(4), Overflow::DropOldest), [true, true, false]);
        assert_eq!(waiting(3, None, Overflow::RejectNewest), [true; 3], "it has no bound");
    }

    #[test]
    fn each_home_has_its_part_rounded_up_and_at_least_one() {
        assert_eq!(waiting(3, Some(3), Overflow::RejectNewest), [false, true, true], "two of three");
        assert_eq!(waiting(2, Some(1), Overflow::RejectNewest), [false, true]);
        assert_eq!(waiting(2, Some(0), Overflow::RejectNewest), [false, false], "none may wait anywhere");
    }
}
