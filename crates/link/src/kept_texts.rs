//! The texts that a server's statements have until their answers, where `log_min_duration` or traces want them: kept when a link begins and when
//! a Query is sent alone. Those of all other messages are kept by [`slow`](crate::slow).

use std::sync::LazyLock;

use machine::trace::TraceOrigin;
use sql::WantedTag;
use units::{Time, limits};
use wire::backend::Status;

use crate::pool::Pool;
use crate::sampling::Sampler;
use crate::server::{Asked, Server};

/// The tag of a statement that belongs to a trace.
static PARENT: LazyLock<WantedTag> = LazyLock::new(|| WantedTag::new(b"traceparent"));

/// The tag that goes with a `traceparent`.
static STATE: LazyLock<WantedTag> = LazyLock::new(|| WantedTag::new(b"tracestate"));

/// A session gets a server, which keeps its statements from now on, if the pool wants them.
#[inline]
pub(crate) fn linked(pool: &Pool, server: &mut Server, now: Time, waited_us: u64) {
    if !pool.measured.hears_texts {
        server.asked = None;
        return;
    }
    let opened_us = opened_us(server, now, waited_us);
    match &mut server.asked {
        Some(asked) => asked.linked_again(waited_us, opened_us),
        none => *none = Some(Box::new(Asked::linked(waited_us, opened_us))),
    }
}

/// A Query is sent alone, while nothing is owed. A reload may have turned lines on since the link.
#[inline]
pub(crate) fn hear_query(pool: &mut Pool, server: &mut Server, text: &[u8], now: Time) {
    if !pool.measured.hears_texts {
        return;
    }
    let asked = server.asked.get_or_insert_with(|| Box::new(Asked::linked(0, None)));
    let begins = (server.transaction.status == Status::Idle).then_some(now);
    let trace = pool.measured.sampler.as_mut().and_then(|sampler| origin(sampler, text, begins, &mut asked.sampled));
    let is_kept = trace.is_some() || pool.rules.slow_after.is_some();
    asked.hear_query(if is_kept { text } else { &[] }, trace);
}

/// The trace of a statement; `None`: it is not traced. `begins`: it begins a transaction.
pub(crate) fn origin(
    sampler: &mut Sampler,
    text: &[u8],
    begins: Option<Time>,
    begun: &mut Option<Time>,
) -> Option<Box<TraceOrigin>> {
    let parent = PARENT.first(text);
    let state = parent.as_ref().and_then(|_| STATE.first(text));
    sampler.origin((parent.as_deref(), state.as_deref()), begins, begun).map(Box::new)
}

/// Whether a text is so long that the log shows a part of it.
#[inline]
pub(crate) fn is_long(text: &[u8]) -> bool {
    text.len() >= limits::LOGGED_TEXT_LEN_MAX
}

/// The last statement under way is answered, which has run for `ran_us`. Whether nothing is shown of it: then it is forgotten.
pub(crate) fn goes_unseen(pool: &Pool, asked: &mut Asked, ran_us: u64) -> bool {
    let took_us = u128::from(asked.queued_us().saturating_add(ran_us));
    let is_slow = pool.rules.slow_after.is_some_and(|slow_after| took_us >= slow_after.as_micros());
    let goes_unseen = !is_slow && asked.is_next_untraced();
    if goes_unseen {
        asked.answered_unseen();
    }
    goes_unseen
}

/// How long the opening of a server took, if a session that has waited for so long gets it as the first one.
fn opened_us(server: &Server, now: Time, waited_us: u64) -> Option<u64> {
    let took = now.micros_since(server.identity.connected_at);
    (server.work.uses == 0 && waited_us > 0 && took <= waited_us).then_some(took)
}
