//! Which CancelRequest and which KILL_QUERY reaches which query (I4).
//!
//! A cancel travels on a connection of its own and hits whatever its backend is then doing. So it is sent only while
//! the server owes the key's owner an answer. The server is not given to another session until PostgreSQL has closed
//! that connection, which it does after it has sent the signal. If that is not seen in time, the server is closed.
//!
//! //= pg18 protocol-flow#PROTOCOL-FLOW-CANCELING-REQUESTS

use connections::encryption::Next;
use link::loss::Told;
use link::request_refusal::RequestRefusal;
use link::server::{CloseReason, Server, ServerState};
use link::session::{SessionState, WaitFor};
use machine::Secured;
use machine::action::Action;
use machine::mail::{CancelTicket, ToDoor};
use machine::sabotage::{Fault, does};
use units::deadline::Owner;
use units::{ConnId, Serial};

use crate::limits::{permits, pin_queue, refusals};
use crate::servers::{cancellers, drains, free_servers};
use crate::sessions::links;
use crate::tables::cancels::take_back;
use crate::tables::limiters::Outcome;
use crate::tables::owners::{Plan, Pools, Servers, Sessions};
use crate::tables::step::Step;
use crate::tables::{self, backpressure};

/// The door has received a CancelRequest whose key names this worker. `ticket`: whom to tell when it has been carried out.
pub(crate) fn cancel_requested(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    (pid, secret): (i32, &[u8]),
    ticket: Option<CancelTicket>,
) {
    let conn = owner_of(sessions, servers, step.plan, pid, secret);
    if let Some(conn) = conn {
        cancel_query(sessions, servers, pools, step, conn);
    }
    if let Some(ticket) = ticket {
        let server = conn.and_then(|conn| sessions.get(conn)?.server());
        servers.cancels.await_end(ticket, server);
    }
}

/// The session whose client has this key. `None`: it has ended, or never was: as in PostgreSQL, there is no answer.
fn owner_of(sessions: &Sessions, servers: &Servers, plan: &Plan, pid: i32, secret: &[u8]) -> Option<ConnId> {
    let halves = does(&plan.settings, Fault::HalfASecret);
    let is_owner = |conn: ConnId| {
        // It may have ended.
        let own = &sessions.get(conn)?.identity().cancel_secret;
        let fits = if halves { own.half_fits(secret) } else { own.fits(secret) };
        fits.then_some(conn)
    };
    let conn = match machine::pids::from_virtual_pid(pid, servers.cancels.pid_key) {
        // One that was told another process id is not at its place: only that one's key is worth anything.
        Some((owner, slot)) if owner == plan.id.0 => {
            let is_placed = |conn: &ConnId| servers.cancels.other_pid_of(*conn).is_none_or(|other| other == pid);
            sessions.id_at(slot).filter(is_placed).and_then(is_owner)
        }
        Some(_) | None => None,
    };
    conn.or_else(|| servers.cancels.knowing(pid).find_map(is_owner))
}

/// Tells doors which requests have been carried out: PostgreSQL has ended the connections of all cancels of that server's work.
pub(crate) fn tell_of_ends(servers: &mut Servers, step: &mut Step<'_>) {
    let Servers { cancels, table, .. } = servers;
    let strikes = |server| {
        let server: Option<&Server> = table.get(server);
        server.is_some_and(|server| server.cancel().under_way() > 0 || server.cancel().is_requested())
    };
    for CancelTicket { door, number } in cancels.take_over(strikes) {
        step.actions.post_to_door(door, ToDoor::CancelOver { number });
    }
}

/// An administrator cancels what a session runs or waits with. The session may have ended meanwhile, or its query.
pub(crate) fn kill_query(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    serial: Serial,
) {
    if sessions.get(conn).is_some_and(|session| session.identity().serial == serial) {
        cancel_query(sessions, servers, pools, step, conn);
    }
}

fn cancel_query(sessions: &mut Sessions, servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, conn: ConnId) {
    match sessions[conn].state() {
        SessionState::Linked { server } => {
            if !permits::end_linked_wait(sessions, servers, step, conn, Outcome::Cancelled) {
                cancellers::cancel_linked(sessions, servers, pools, step, conn, server, &RequestRefusal::UserRequest);
            }
        }
        SessionState::Replicating { server } => {
            cancellers::cancel_linked(sessions, servers, pools, step, conn, server, &RequestRefusal::UserRequest)
        }
        // The client does not know its key yet.
        SessionState::Waiting { wait_for: WaitFor::Login | WaitFor::Own, .. } | SessionState::Opening { .. } => {}
        SessionState::Waiting { .. } => cancel_waiting(sessions, servers, pools, step, conn),
        SessionState::Idle { .. } if machine::sabotage::forwards_late_cancel(&step.plan.settings) => {
            let linked = servers.iter().find(|(_, server)| server.session().is_some());
            if let Some((stranger, _)) = linked {
                cancellers::start_cancel(servers, pools, step, stranger);
            }
        }
        SessionState::Idle { .. }
        | SessionState::LostBlock { .. }
        | SessionState::Welcoming { .. }
        | SessionState::Console { .. }
        | SessionState::Leaving { .. } => {}
    }
}

/// No server has seen the query: it is answered as cancelled here.
fn cancel_waiting(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
) {
    let session = &mut sessions[conn];
    if !take_back(step, conn, session, &RequestRefusal::UserRequest) {
        return;
    }
    let more = !session.incoming().inbox().is_empty();
    tables::leave_queue(sessions, pools, step, conn);
    sessions[conn].stop_waiting(step.now);
    refusals::lose_begun(sessions, step, conn, Told::Lost);
    permits::leave_limits(sessions, step, conn);
    pin_queue::return_pin_permit(sessions, pools, step, conn);
    step.agenda.arm(Owner::Conn(conn));
    if more {
        // Whether the client is read again is decided when the rest of its messages has been looked at.
        step.agenda.reconsider(conn);
    } else {
        backpressure::balance_if_paused(sessions, servers, step, conn);
    }
}

pub(crate) fn canceller_opened(
    sessions: &Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
) {
    // It may have been closed meanwhile.
    let Some(canceller) = servers.cancels.get_mut(conn) else { return };
    let next = canceller.encryption.opened();
    canceller_goes_on(sessions, servers, pools, step, conn, next);
}

/// Bytes of a connection that is to carry a CancelRequest: the answer to SSLRequest. PostgreSQL says nothing else there.
pub(crate) fn canceller_answered(
    sessions: &Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    bytes: &[u8],
) {
    // It may have been closed meanwhile.
    let Some(canceller) = servers.cancels.get_mut(conn).filter(|canceller| !canceller.sent) else { return };
    match canceller.encryption.received(bytes) {
        Ok(next) => canceller_goes_on(sessions, servers, pools, step, conn, next),
        Err(_) => canceller_done(sessions, servers, pools, step, conn),
    }
}

/// The end of its handshake.
pub(crate) fn canceller_secured(
    sessions: &Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    outcome: Result<Box<Secured>, String>,
) {
    // It may have been closed meanwhile.
    let Some(canceller) = servers.cancels.get_mut(conn) else { return };
    match outcome {
        Ok(secured) => {
            let next = canceller.encryption.secured((*secured).into());
            canceller_goes_on(sessions, servers, pools, step, conn, next);
        }
        Err(_) => canceller_done(sessions, servers, pools, step, conn),
    }
}

fn canceller_goes_on(
    sessions: &Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    next: Next,
) {
    if !step.actions.encrypt(conn, next) {
        return;
    }
    let canceller = servers.cancels.get_mut(conn).expect("its connection has just been spoken of");
    let server = servers.table.get(canceller.server);
    if !server.is_some_and(|server| canceller.send(&mut step.machine, conn, server, &step.plan.settings)) {
        canceller_done(sessions, servers, pools, step, conn);
    }
}

/// PostgreSQL has closed the connection, or it could not be opened: the cancel is over.
pub(crate) fn canceller_done(
    sessions: &Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
) {
    // It may have been closed meanwhile.
    let Some(canceller) = servers.cancels.remove(conn) else { return };
    step.actions.push(Action::Close { conn, last_words: false });
    pools[canceller.pool].counts_mut().cancel_ended();
    // Its server may be gone.
    let Some(server) = servers.get_mut(canceller.server) else { return };
    let is_over = server.cancel_mut().ended();
    match *server.state() {
        ServerState::Held if is_over => {
            // If it is held for another reason too, the timeout of that begins now.
            server.work_mut().begin_anew(step.now);
            free_servers::free(servers, pools, step, canceller.server);
            step.agenda.arm(Owner::Conn(canceller.server));
        }
        ServerState::Draining { .. } => drains::drain_progress(servers, pools, step, canceller.server),
        ServerState::Linked(session) if is_over => {
            strikes_no_more(sessions, servers, step, canceller.server, session);
        }
        _ => {}
    }
}

/// PostgreSQL did not finish the cancel in time. If it was sent, it may hit at any time, so its server is closed.
pub(crate) fn canceller_late(
    sessions: &Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
) {
    let canceller = servers.cancels.get(conn).expect("its deadline has come");
    let doubtful = canceller.sent.then_some(canceller.server);
    if let Some(server) = doubtful.and_then(|id| servers.get_mut(id)) {
        server.end_mut().close_when_released(CloseReason::CancelWaitTimeout);
    }
    canceller_done(sessions, servers, pools, step, conn);
}

/// The last cancel for a linked server is over.
fn strikes_no_more(sessions: &Sessions, servers: &mut Servers, step: &mut Step<'_>, server_id: ConnId, conn: ConnId) {
    let server = &mut servers[server_id];
    if server.cancel_mut().strikes_no_more() && links::ends_hold(sessions, servers, server_id, conn) {
        step.agenda.go_on(conn);
    }
}

#[cfg(test)]
mod tests {

    use machine::CancelSecret;
    use machine::pids::{PidKey, virtual_pid};
    use wire::frontend::Query;

    use super::*;
    use crate::tables::scene::{POOL, Scene, THERE};

    const SECRET: [u8; 4] = [0x12, 0x34, 0x56, 0x78];

    /// A session that waits for a server with this many queries.
    fn waiter(scene: &mut Scene, queries: usize) -> ConnId {
        waiter_with(scene, queries, CancelSecret::Short(SECRET))
    }

    fn waiter_with(scene: &mut Scene, queries: usize, secret: CancelSecret) -> ConnId {
        let conn = scene.session_with(secret);
        scene.begin_waiting(conn, scene.now);
        let mut inbox = Vec::new();
        (0..queries).for_each(|_| Query { text: b"select 1" }.encode(&mut inbox));
        scene.tables.sessions[conn].incoming_mut().put_back(inbox);
        conn
    }

    /// Whether the request has ended the wait.
    fn is_cancelled(scene: &mut Scene, conn: ConnId, pid: i32, secret: &[u8]) -> bool {
        scene.run(|tables, step| {
            cancel_requested(&mut tables.sessions, &mut tables.servers, &mut tables.pools, step, (pid, secret), None)
        });
        let is_answered =
            scene.asked().iter().any(|action| matches!(action, Action::Send { conn: to, .. } if *to == conn));
        let waits = matches!(scene.tables.sessions[conn].state(), SessionState::Waiting { .. });
        assert_eq!(is_answered, !waits);
        assert_eq!(scene.tables.pools[POOL].queue().len(), u32::from(waits));
        is_answered
    }

    #[test]
    fn only_the_whole_key_of_a_waiting_session_ends_its_wait() {
        let mut scene = Scene::new(|_| ());
        let conn = waiter(&mut scene, 1);
        let pid = virtual_pid(conn, PidKey::default());
        let elsewhere =
            virtual_pid(ConnId::new(units::Kind::Client, THERE.0, conn.slot() as u32, 0), PidKey::default());
        for (what, pid, secret) in [
            ("half the secret", pid, &[0, 0, 0x56, 0x78][..]),
            ("the secret and more", pid, &[0x12, 0x34, 0x56, 0x78, 0]),
            ("a secret that differs in one bit", pid, &[0x12, 0x34, 0x56, 0x79]),
            ("a session of another worker", elsewhere, &SECRET),
            (
                "a slot that is free",
                virtual_pid(ConnId::new(units::Kind::Client, 0, 99, 0), PidKey::default()),
                &SECRET,
            ),
            ("a process id of a server", 4711, &SECRET),
        ] {
            assert!(!is_cancelled(&mut scene, conn, pid, secret), "{what}");
        }
        assert!(is_cancelled(&mut scene, conn, pid, &SECRET));
    }

    #[test]
    fn a_long_secret_counts_whole() {
        let mut scene = Scene::new(|_| ());
        let secret = CancelSecret::Long(Box::new(std::array::from_fn(|at| at as u8)));
        let conn = waiter_with(&mut scene, 1, secret.clone());
        let right = secret.bytes();
        let changed = [&right[..31], &[0]].concat();
        for wrong in [&right[..4], &right[..31], &[right, &[0]].concat(), &changed, &[0; 256]] {
            assert!(
                !is_cancelled(&mut scene, conn, virtual_pid(conn, PidKey::default()), wrong),
                "{} bytes",
                wrong.len()
            );
        }
        assert!(is_cancelled(&mut scene, conn, virtual_pid(conn, PidKey::default()), right));
    }

    #[test]
    fn a_process_id_of_a_server_needs_the_secret_of_one_that_knows_it() {
        let mut scene = Scene::new(|_| ());
        let conn = waiter(&mut scene, 1);
        scene.tables.servers.cancels.note_pid(4711, conn);
        assert!(!is_cancelled(&mut scene, conn, 4711, &[0; 4]));
        assert!(!is_cancelled(&mut scene, conn, 4712, &SECRET));
        assert!(is_cancelled(&mut scene, conn, 4711, &SECRET));
    }

    #[test]
    fn what_was_sent_after_the_cancelled_query_goes_on() {
        for (queries, goes_on) in [(1, false), (2, true)] {
            let mut scene = Scene::new(|_| ());
            let conn = waiter(&mut scene, queries);
            assert!(is_cancelled(&mut scene, conn, virtual_pid(conn, PidKey::default()), &SECRET));
            let next = scene.agenda.next();
            let reconsiders = matches!(next, Some(crate::tables::agenda::Next::Reconsider(of)) if of == conn);
            assert_eq!(reconsiders, goes_on, "{next:?}");
        }
    }

    #[test]
    fn a_session_that_waits_in_its_login_has_no_key() {
        let mut scene = Scene::new(|_| ());
        let conn = waiter(&mut scene, 1);
        scene.run(|tables, step| tables::leave_queue(&tables.sessions, &mut tables.pools, step, conn));
        let session = &mut scene.tables.sessions[conn];
        session.stop_waiting(scene.now);
        let ticket = scene.tables.pools[POOL].queue_mut().push(session.claim().class(), conn, scene.now, scene.now);
        session.wait(scene.now, WaitFor::Login, ticket, false);
        assert!(!is_cancelled(&mut scene, conn, virtual_pid(conn, PidKey::default()), &SECRET));
    }
}
