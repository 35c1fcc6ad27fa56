//! Whether a server can be released from its session: the state left on it must be known, and must be such that it can
//! be set on another server.
//!
//! ```text
//! all answered, no transaction ──► nothing suspected ──────────────► free: the session's state is noted as the server's
//!                                └─► suspected ──► asked ──► gone ───► free
//!                                                        └─► there ──► pinned, until it is gone
//! ```

use std::sync::Arc;

use machine::Step;
use session_state::parameters::Tracked;
use session_state::state::{Pins, needs_rights};
use session_state::tracker::{Circumstances, Settled, Tracker};
use settings::Fidelity;
use units::{ConnId, Serial};
use wire::frontend::Query;

use crate::answers::Answers;
use crate::parameter_reports;
use crate::pinned::count_pinned;
use crate::pool::Pool;
use crate::server::{Answerer, CloseReason, Expect, RightsSince, Server};
use crate::session::Session;

/// Resets a server whose state is not known.
pub const CLEAR: &[u8] = b"DISCARD ALL";

/// Whether a server can be released from its session.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Leaves {
    No,
    Yes,
    /// Yes, and the session gives its pin permit back.
    ReturnsPinPermit,
}

/// Whether a linked server whose client has all its answers may be released. If its state must be checked first, the
/// query is sent.
pub fn may_leave(
    step: &mut Step<'_>,
    session: &mut Session,
    server_id: ConnId,
    server: &mut Server,
    pool: &mut Pool,
) -> Leaves {
    let is_strict = pool.rules.fidelity == Fidelity::Strict;
    let is_doubtful = parameter_reports::is_doubtful(session, server);
    let tracker = session.facts.tracker.get_or_insert_default();
    if is_doubtful {
        tracker.pinning.doubt_parameters();
    }
    match tracker.settle(step.now, is_strict, &server.kept.base) {
        Settled::MustCheck(check) => {
            pool.counts.fidelity.checks += 1;
            server.ledger.sent(Answerer::Check, Expect::Query);
            server.statements.unnamed = session_state::unnamed::NONE;
            let mut text = Vec::new();
            check.write_text(&mut text);
            step.actions.send_new(server_id, |out| Query { text: &text }.encode(out));
            Leaves::No
        }
        Settled::Pinned => {
            count_pinned(tracker, pool);
            Leaves::No
        }
        Settled::Free => {
            let seated = std::mem::take(&mut tracker.has_pin_permit);
            hand_over(session, server);
            note_local_buffers(server, pool);
            // The check does not list custom settings, so one that a function has set would stay on the server
            // unnoticed.
            server.facts.traces.needs_reset |= pool.names.known.is_blank();
            if !seated {
                return Leaves::Yes;
            }
            pool.pins.permit_returned();
            Leaves::ReturnsPinPermit
        }
    }
}

/// The server has answered what state its client has left on it. If there is some, the client is pinned at once, since
/// its next statement may already be under way, and take long.
pub(crate) fn check_answered(answers: &mut Answers<'_>) {
    // The client has disconnected meanwhile.
    let Some(tracker) = answers.session.as_mut().and_then(|(_, session)| session.facts.tracker.as_mut()) else {
        return;
    };
    let circumstances = Circumstances {
        now: answers.now,
        is_utf8: answers.server.kept.parameters.get(Tracked::CLIENT_ENCODING) == Some(b"UTF8"),
        is_readable: !answers.pool.names.known.is_unreadable(),
        local_rights: answers.server.facts.effects.local_rights,
        base: &answers.server.kept.base,
    };
    let missed = tracker.answered(&answers.caches.tracked, circumstances);
    answers.pool.counts.fidelity.missed += u64::from(missed);
    if tracker.pinning.stays(answers.now) {
        count_pinned(tracker, answers.pool);
    }
    let checked = tracker.unseen.take_checked_parameters();
    if !checked.is_none() {
        parameter_reports::checked(answers, checked);
    }
}

/// A server's client is gone. Unless its state is known, the server will be reset, or closed if a reset is not enough.
pub fn part(server: &mut Server, tracker: Option<Box<Tracker>>) {
    // The client has left no state.
    let Some(mut tracker) = tracker else { return };
    server.facts.traces.has_local_buffers |= tracker.unseen.has_used_temporary();
    let lasting = (tracker.pinning.pins() | tracker.pinning.suspects()).lasting() & !Pins::BACKEND_PID;
    if !lasting.is_empty() {
        server.facts.end.close_needed = Some(CloseReason::ClientGoneUnclean);
    }
    if server.is_clean() && tracker.is_settled() {
        tracker.ready(true);
        note_state(server, &tracker, None);
        server.facts.traces.needs_reset |= tracker.needs_reset();
    } else {
        server.facts.traces.needs_reset = true;
    }
}

/// PostgreSQL takes no other `temp_buffers` on a server where something temporary was used: once a session of the pool has set it, such a
/// server is closed instead of handed out again.
fn note_local_buffers(server: &mut Server, pool: &mut Pool) {
    let sets = server.kept.session_state.as_ref().is_some_and(|state| state.sets_local_buffers());
    if sets {
        pool.servers.local_buffers_set();
    }
}

/// Notes the session's state as the server's.
fn hand_over(session: &mut Session, server: &mut Server) {
    let tracker = session.facts.tracker.as_mut().expect("it was settled just now");
    note_state(server, tracker, Some(session.identity.serial));
    server.facts.traces.needs_reset |= tracker.needs_reset();
    server.facts.traces.has_local_buffers |= tracker.leave();
    if tracker.is_idle() {
        session.facts.tracker = None;
    }
}

/// Notes what a session has set as what its server has. `serial`: the session's, if it goes on.
fn note_state(server: &mut Server, tracker: &Tracker, serial: Option<Serial>) {
    let state = tracker.state();
    let is_known = server.kept.session_state.as_ref().is_some_and(|found| Arc::ptr_eq(found, state));
    let given_at = server.kept.rights.map_or(server.lease.linked_at, |rights| rights.given_at);
    let has_rights = if is_known { server.kept.rights.is_some() } else { needs_rights(state) };
    let last = serial.map(|serial| (serial, tracker.rights_asked_at));
    server.kept.rights = has_rights.then_some(RightsSince { given_at, last });
    server.kept.session_state = (!state.is_initial()).then(|| Arc::clone(state));
    server.facts.traces.needs_reset |= state.needs_clearing(&server.kept.base);
}
