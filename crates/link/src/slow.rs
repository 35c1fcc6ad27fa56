//! Statements that take longer than `log_min_duration`, for the log, and those that are traced.
//!
//! While both are off, a session's messages cost one look whether the pool wants them. While one is on, the beginning of each text is kept until
//! its answer. The answer of a statement that is logged or traced is read on the general way.

use std::sync::LazyLock;

use machine::observe::{About, Fact, Level, SlowStatement, Topic};
use machine::trace::TraceOrigin;
use sql::WantedTag;
use units::{Time, limits};
use wire::backend::Status;
use wire::frontend::tag;

use crate::answers::Answers;
use crate::first_text::first_text;
use crate::pool::Pool;
use crate::requests::Requests;
use crate::sampling::Sampler;
use crate::server::{Asked, AskedText, Server};
use crate::slow_lines::Permit;
use crate::tracing;

/// What goes with a `traceparent`.
static STATE: LazyLock<WantedTag> = LazyLock::new(|| WantedTag::new(b"tracestate"));

/// A longer value is cut.
const TAG_LEN_MAX: usize = 256;

/// Tags of comments by which a statement is found again in other logs and traces.
const TAGS: [&str; 2] = ["correlation_id", "traceparent"];
const TRACE_PARENT: usize = 1;

static WANTED: LazyLock<[WantedTag; 2]> = LazyLock::new(|| TAGS.map(|tag| WantedTag::new(tag.as_bytes())));

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

/// Where a statement belongs that is traced. `begins`: it begins a transaction.
fn origin(
    sampler: &mut Sampler,
    text: &[u8],
    begins: Option<Time>,
    begun: &mut Option<Time>,
) -> Option<Box<TraceOrigin>> {
    let parent = WANTED[TRACE_PARENT].first(text);
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

/// A message is about to be dealt with. It may come again, if it has to wait.
#[cold]
pub(crate) fn hear(requests: &mut Requests<'_>, message: u8, at_hand: &[u8]) {
    // A reload may have turned it on since the link.
    let asked = requests.link.server.asked.get_or_insert_with(|| Box::new(Asked::linked(0, None)));
    if !matches!(message, tag::QUERY | tag::PARSE | tag::BIND) || !asked.is_curious() {
        return;
    }
    let Some(text) = first_text(requests.link.session, at_hand) else { return };
    let trace = requests.link.pool.measured.sampler.as_mut().and_then(|sampler| {
        let owes_nothing = requests.link.server.ledger.owing() == (0, false);
        let is_first = requests.link.server.transaction.status == Status::Idle && owes_nothing;
        let begins = is_first.then_some(requests.now);
        origin(sampler, text, begins, &mut asked.sampled)
    });
    let logs = requests.link.pool.rules.slow_after.is_some();
    // What is neither logged nor traced is known by its times only.
    let mut said = AskedText { trace, ..AskedText::default() };
    if logs || said.trace.is_some() {
        said.text = text[..text.len().min(limits::LOGGED_TEXT_LEN_MAX)].into();
    }
    if logs && said.may_be_cut() {
        said.tags = tags(text);
    }
    asked.hear(said);
}

fn tags(text: &[u8]) -> Vec<(&'static str, Box<[u8]>)> {
    let tags = TAGS.iter().zip(WANTED.iter());
    let tags = tags.filter_map(|(tag, wanted)| Some((*tag, wanted.first(text)?)));
    tags.map(|(tag, value)| (tag, value[..value.len().min(TAG_LEN_MAX)].into())).collect()
}

/// It has been dealt with.
#[cold]
pub(crate) fn dealt_with(requests: &mut Requests<'_>, message: u8) {
    if let Some(asked) = requests.link.server.asked.as_mut()
        && matches!(message, tag::QUERY | tag::SYNC | tag::FUNCTION_CALL)
    {
        asked.ended();
    }
}

/// The client's oldest statement has been answered.
#[cold]
pub(crate) fn answered(answers: &mut Answers<'_>) {
    let is_last = answers.server.ledger.depth() <= 1;
    let Some(asked) = answers.server.asked.as_mut() else { return };
    let opened_us = asked.take_opened_us();
    let (queued_us, mut asked) = asked.answered(is_last);
    let ran_us = answers.now.micros_since(answers.server.transaction.query_at);
    if asked.trace.is_some() {
        tracing::tell(answers, &mut asked, (queued_us, opened_us, ran_us));
    }
    // A reload may have turned it off meanwhile.
    let Some(slow_after) = answers.pool.rules.slow_after else { return };
    let Some((conn, session)) = &answers.session else { return };
    if u128::from(queued_us + ran_us) < slow_after.as_micros() {
        return;
    }
    let left_out = match answers.caches.slow_lines.permit(answers.now) {
        Permit::No => return,
        Permit::After { left_out } => left_out,
    };
    if left_out > 0 {
        let text = format!(
            "{left_out} lines about slow statements were left out: at most {} a second",
            limits::SLOW_LINES_MAX
        );
        answers.actions.tell(Fact::new(Level::Warning, Topic::Statements, About::Pooler, text));
    }
    let rules = answers.caches.reader.rules(&answers.server.kept.parameters);
    let mut statement = answers.caches.statistics.shown(&asked.text, rules, limits::LOGGED_TEXT_LEN_MAX);
    if asked.text.len() == limits::LOGGED_TEXT_LEN_MAX && !statement.ends_with('…') {
        // Half a character may be at its end.
        statement = format!("{}…", statement.trim_end_matches('\u{fffd}'));
    }
    if !asked.may_be_cut() {
        asked.tags = tags(&asked.text);
    }
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let slow = SlowStatement {
        queued_us,
        ran_us,
        rows: answers.server.transaction.tally.rows(),
        class: answers.caches.slow_lines.class(session.facts.claim.class),
        server: answers.server.identity.name,
        statement,
        tags: asked.tags.iter().map(|(tag, value)| (*tag, shown(value))).collect(),
    };
    answers.actions.tell(Fact::of_statement(Level::Log, Topic::Statements, session.about(*conn), slow));
}
