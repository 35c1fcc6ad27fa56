//! What is told of a traced statement when it has been answered. Does not send anything: that is done by a thread of its own.

use std::sync::Arc;

use machine::Action;
use machine::trace::TracedStatement;

use crate::answers::Answers;
use crate::server::AskedText;

/// A traced statement has been answered.
#[cold]
pub(crate) fn tell(
    answers: &mut Answers<'_>,
    asked: &mut AskedText,
    (queued_us, opened_us, ran_us): (u64, Option<u64>, u64),
) {
    let Some(origin) = asked.trace.take() else { return };
    let rules = answers.caches.reader.rules(&answers.server.kept.parameters);
    // It left, and nobody reads its trace.
    let Some((conn, session)) = &answers.session else { return };
    let server = &answers.server;
    let mut client = session.about(*conn);
    client.cut_names();
    answers.actions.push(Action::Trace(Box::new(TracedStatement {
        origin: *origin,
        client,
        pool: answers.pool.key.clone(),
        class: session.facts.claim.class,
        queued_us,
        opened_us,
        ran_us,
        ended_at: answers.now,
        server: server.identity.name,
        address: Arc::clone(&server.identity.address),
        backend_pid: server.backend.pid,
        text: asked.text.as_slice().into(),
        rules,
        has_failed: server.transaction.answer_failed,
    })));
}
