//! Answers to messages that no server sees: a Parse or Close of a name that the pooler keeps.

use machine::action::Actions;
use units::ConnId;
use wire::backend;

use crate::server::Expect;
use crate::session::Session;

/// Sends the answer that the pooler gives instead of a server.
pub(crate) fn answer_fake(conn: ConnId, session: &mut Session, fake: Expect, actions: &mut Actions) {
    if let Some(names) = &mut session.statements.names {
        names.answered();
    }
    match fake {
        Expect::FakeParse => actions.send_new(conn, backend::encode_parse_complete),
        Expect::FakeClose => actions.send_new(conn, backend::encode_close_complete),
        _ => debug_assert!(false, "only fakes are ours to answer"),
    }
}
