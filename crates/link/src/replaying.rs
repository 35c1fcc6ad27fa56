//! What a server is sent so that it has its session's parameters and settings.

use std::sync::Arc;

use connections::server::{Answerer, Expect, Server};
use machine::Turn;
use session_state::parameters::Tracked;
use session_state::state::{Risk, State};
use units::ConnId;
use wire::frontend::Query;

use crate::session::Session;

/// Sends what makes a server's parameters and settings its session's. Where it matters that they are, the session's
/// messages wait for the answer. False: there was nothing to send.
pub fn replay(
    turn: &mut Turn<'_>,
    session: &mut Session,
    server_id: ConnId,
    server: &mut Server,
    tracked: &Tracked,
) -> bool {
    let mut text = Vec::new();
    session.parameters.write_difference(&server.kept.parameters, tracked, &mut text);
    let base = State::default();
    let wanted = session.tracker.as_ref().map(|tracker| tracker.state());
    let (to, from) = (wanted.map_or(&base, |state| state), server.kept.session_state.as_deref().unwrap_or(&base));
    let is_same = match (wanted, &server.kept.session_state) {
        (Some(wanted), Some(found)) => Arc::ptr_eq(wanted, found),
        (wanted, found) => wanted.is_none() && found.is_none(),
    };
    let risk = match from.is_hasty() && !(text.is_empty() && to == from) {
        true => {
            text.clear();
            State::write_unhurrying(&mut text);
            session.parameters.write_difference(&server.kept.parameters, tracked, &mut text);
            to.write_difference(&from.unhurried(), &mut text).max(Risk::Low)
        }
        false if is_same => Risk::None,
        false => to.write_difference(from, &mut text),
    };
    // Until it says yes, what it has is not known.
    server.traces.soiled |= risk != Risk::None;
    server.kept.session_state = wanted.filter(|state| !state.is_base()).map(Arc::clone);
    if text.is_empty() {
        session.parameters = Arc::clone(&server.kept.parameters);
        if !std::mem::replace(&mut session.confirmed, true) {
            session.reset_to = Some(Arc::clone(&server.kept.parameters));
        }
        return false;
    }
    server.ledger.sent(Answerer::Replay, Expect::Query);
    server.statements.unnamed = session_state::unnamed::NONE;
    server.gate.is_shut = !session.confirmed || risk == Risk::High;
    turn.actions.send_new(server_id, |out| Query { text: &text }.encode(out));
    true
}
