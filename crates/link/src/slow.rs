//! Statements that take longer than `log_min_duration`, for the log, and those that are traced.
//!
//! While both are off, a session's messages cost one look whether the pool wants them. While one is on, the beginning of each text is kept until
//! its answer. The answer of a statement that is logged or traced is read on the general way.

use std::sync::LazyLock;

use machine::observe::{About, Fact, Level, SlowStatement, Topic};
use sql::WantedTag;
use units::limits;
use wire::backend::Status;
use wire::frontend::tag;

use crate::answers::Answers;
use crate::first_text::first_text;
use crate::kept_texts::origin;
use crate::requests::Requests;
use crate::server::{Asked, AskedText};
use crate::slow_lines::Permit;
use crate::tracing;

/// A longer value is cut.
const TAG_LEN_MAX: usize = 256;

/// Tags of comments by which a statement is found again in other logs and traces.
const TAGS: [&str; 2] = ["correlation_id", "traceparent"];

static WANTED: LazyLock<[WantedTag; 2]> = LazyLock::new(|| TAGS.map(|tag| WantedTag::new(tag.as_bytes())));

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
        rows: answers.server.lease.tally.rows(),
        class: answers.caches.slow_lines.class(session.facts.claim.class),
        server: answers.server.identity.name,
        statement,
        tags: asked.tags.iter().map(|(tag, value)| (*tag, shown(value))).collect(),
    };
    answers.actions.tell(Fact::of_statement(Level::Log, Topic::Statements, session.about(*conn), slow));
}
