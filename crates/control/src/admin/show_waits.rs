//! `SHOW WAITS`: what was waited for over any part of the last hour, or of what is on disk, summed by what one asks for. PgBouncer has none.
//!
//! A sample is a session, or a backend of a stranger, that did or waited for something when it was looked: once in `observe_interval`.
//! Users in `stats_users` do not see statements, tags and blockers.

use activity::At;
use activity::history::{Dimension, Span};
use jiff::Zoned;
use machine::Settings;

use super::shown::During;
use crate::past::{Past, PastWaits};
use crate::show_input::ShowInput;
use crate::table::{Column, Table, big, count, int, numeric, text, words};

const COLUMNS: &[Column] = &[
    // What they have in common, by what was asked for.
    text("name"),
    numeric("samples"),
    // Of all samples of that time, in percent.
    numeric("percent"),
    // The most at one moment, and on average.
    int("max"),
    numeric("avg"),
    // Looks that found one, and all looks.
    int("seen"),
    int("looks"),
    text("from"),
    text("to"),
];

/// Over which time, if nothing is said.
const LAST_SECONDS: u64 = 300;

/// By event, over the last five minutes.
pub(super) fn table(input: &ShowInput<'_>) -> Table {
    of(input, &Dimension::Event, &During::default(), None)
}

pub(super) fn of(input: &ShowInput<'_>, by: &Dimension, during: &During, past: Option<Past>) -> Table {
    let mut table = Table::new(COLUMNS);
    if is_private(by) && !input.shows_statements {
        return table;
    }
    let span = span(&input.now, during);
    let left = in_memory(past.as_ref(), span);
    let read = match past {
        Some(Past::Waits(_, read)) => read,
        Some(Past::Seconds(..) | Past::Whys(..) | Past::Refused(_)) | None => PastWaits::default(),
    };
    let PastWaits { looks, samples: all, sums } = read.and(input.history, left, by);
    let ends = [span.from, span.to].map(|at| time_of_day(&input.now, at));
    for sum in sums {
        // In tenths, rounded; nothing is divided by nothing, as there is a sample.
        let tenths = sum.samples * 1000 / all.max(1);
        let hundredths = sum.samples * 100 / (looks as u64).max(1);
        table.push(vec![
            words(sum.name),
            big(sum.samples),
            words(format!("{}.{}", tenths / 10, tenths % 10)),
            count(sum.most),
            words(format!("{}.{:02}", hundredths / 100, hundredths % 100)),
            count(sum.seconds),
            count(looks),
            words(&ends[0]),
            words(&ends[1]),
        ]);
    }
    table
}

fn is_private(by: &Dimension) -> bool {
    matches!(by, Dimension::Statement | Dimension::Tag(_) | Dimension::Blocker)
}

/// Why there are no rows, where that does not depend on what was waited for.
pub(super) fn why_empty(settings: &Settings, by: &Dimension, shows_statements: bool) -> Option<String> {
    if is_private(by) && !shows_statements {
        return Some("only users in admin_users see statements, tags and blockers".to_owned());
    }
    let Dimension::Tag(tag) = by else { return None };
    let kept = &settings.global.observing.observe_tags;
    let is_kept = kept.iter().any(|other| **other == **tag);
    let names = if kept.is_empty() { "none".to_owned() } else { kept.join(", ") };
    (!is_kept).then(|| format!("the tag \"{tag}\" is not counted: observe_tags names {names}"))
}

/// The part of a span behind the part that was read from disk.
pub(super) fn in_memory(past: Option<&Past>, span: Span) -> Span {
    match past {
        Some(Past::Seconds(read, _) | Past::Waits(read, _) | Past::Whys(read, _)) => {
            Span { from: span.from.max(At(read.to.second().saturating_add(1).saturating_mul(1000))), ..span }
        }
        Some(Past::Refused(_)) | None => span,
    }
}

pub(crate) fn span(now: &Zoned, during: &During) -> Span {
    let ms = |zoned: &Zoned| At(u64::try_from(zoned.timestamp().as_millisecond()).unwrap_or(0));
    let to = during.to.as_ref().and_then(|clock| clock.at(now)).as_ref().map_or(ms(now), ms);
    let before = |seconds: u64| At(to.0.saturating_sub(seconds.saturating_sub(1).saturating_mul(1000)));
    let from = during.from.as_ref().and_then(|clock| clock.at(now)).as_ref().map(ms);
    let from = from.unwrap_or_else(|| before(during.last.unwrap_or(LAST_SECONDS)));
    // From a time with a length: so long after it.
    match (&during.from, &during.to, during.last) {
        // The last second is one of them.
        (Some(_), None, Some(last)) => {
            Span { from, to: At(from.0.saturating_add(last.saturating_sub(1).saturating_mul(1000))) }
        }
        _ => Span { from, to },
    }
}

pub(super) fn time_of_day(now: &Zoned, at: At) -> String {
    let timestamp = jiff::Timestamp::from_millisecond(i64::try_from(at.0).unwrap_or(i64::MAX)).unwrap_or_default();
    timestamp.to_zoned(now.time_zone().clone()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}
