//! Statements that take longer than `log_min_duration`, for the log.
//!
//! While it is off, a session's messages cost one look at the pool's threshold. While it is on, they do not take the short ways, and the
//! beginning of each text is kept until its answer.

use std::sync::LazyLock;

use connections::server::{Asked, AskedText};
use machine::observe::{Fact, Level, SlowStatement, Topic};
use sql::WantedTag;
use units::{Time, limits};
use wire::frontend::tag;

use crate::answers::Answers;
use crate::first_text::first_text;
use crate::pool::Pool;
use crate::requests::Requests;
use crate::session::Session;

/// Tags of comments by which a statement is found again in other logs and traces.
const TAGS: [&str; 2] = ["correlation_id", "traceparent"];

static WANTED: LazyLock<[WantedTag; 2]> = LazyLock::new(|| TAGS.map(|tag| WantedTag::new(tag.as_bytes())));

/// What a server keeps of the statements of the session that gets it now.
#[inline]
#[must_use]
pub fn linked(pool: &Pool, session: &Session, now: Time) -> Option<Box<Asked>> {
    pool.measured.slow_after.is_some().then(|| Box::new(Asked::linked(session.waited_us(now))))
}

/// A message is about to be dealt with. It may come again, if it has to wait.
#[cold]
pub(crate) fn hear(requests: &mut Requests<'_>, message: u8, at_hand: &[u8]) {
    // A reload may have turned it on since the link.
    let asked = requests.server.traces.asked.get_or_insert_with(|| Box::new(Asked::linked(0)));
    if !matches!(message, tag::QUERY | tag::PARSE | tag::BIND) || !asked.is_curious() {
        return;
    }
    if let Some(text) = first_text(requests.session, at_hand) {
        let tags =
            TAGS.iter().zip(WANTED.iter()).filter_map(|(tag, wanted)| Some((*tag, (*wanted.first(text)?).into())));
        let tags = tags.collect();
        asked.hear(AskedText { text: text[..text.len().min(limits::LOGGED_TEXT_LEN_MAX)].into(), tags });
    }
}

/// It has been dealt with.
#[cold]
pub(crate) fn dealt_with(requests: &mut Requests<'_>, message: u8) {
    if let Some(asked) = requests.server.traces.asked.as_mut()
        && matches!(message, tag::QUERY | tag::SYNC | tag::FUNCTION_CALL)
    {
        asked.ended();
    }
}

/// The client's oldest statement has been answered.
#[cold]
pub(crate) fn answered(answers: &mut Answers<'_>) {
    let is_last = answers.server.ledger.depth() <= 1;
    let Some((queued_us, asked)) = answers.server.traces.asked.as_mut().map(|asked| asked.answered(is_last)) else {
        return;
    };
    let ran_us = answers.now.micros_since(answers.server.transaction.query_at);
    // A reload may have turned it off meanwhile.
    let Some(slow_after) = answers.pool.measured.slow_after else { return };
    let Some((conn, session)) = &answers.session else { return };
    if u128::from(queued_us + ran_us) < slow_after.as_micros() {
        return;
    }
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut statement = shown(&asked.text);
    if asked.text.len() == limits::LOGGED_TEXT_LEN_MAX {
        // Half a character may be at its end.
        statement = format!("{}…", statement.trim_end_matches('\u{fffd}'));
    }
    let slow = SlowStatement {
        queued_us,
        ran_us,
        server: answers.server.identity.name,
        statement,
        tags: asked.tags.iter().map(|(tag, value)| (*tag, shown(value))).collect(),
    };
    answers.actions.tell(Fact::of_statement(Level::Log, Topic::Statements, session.about(*conn), slow));
}
