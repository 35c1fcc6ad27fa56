//! A question of a console's session to the control plane, which answers them one at a time.

use machine::Manner;
use machine::action::{Action, Question};
use machine::arrival::ConsoleRights;
use units::ConnId;

use crate::tables::owners::Sessions;
use crate::tables::step::Step;

/// Asks the control plane. Nothing that comes behind is read until it is answered.
pub(super) fn ask(
    sessions: &mut Sessions,
    step: &mut Step<'_>,
    conn: ConnId,
    rights: ConsoleRights,
    (text, manner): (Vec<u8>, Manner),
) {
    let session = &mut sessions[conn];
    session.ask(rights, true);
    session.requests(step.now);
    let user = session.identity().user.clone();
    let question = Question { text, manner, user, admin: rights == ConsoleRights::Admin };
    step.actions.push(Action::AskControl { conn, question });
}
