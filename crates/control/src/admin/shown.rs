//! What follows `SHOW`: which table, which of its rows, over which time, and how they are written.
//!
//! ```text
//!   SHOW table [BY dimension] [LAST n s|min|h|d] [FROM 'time'] [TO 'time'] [LIKE 'pattern'] [FORMAT CSV|JSON]
//!               └─ WAITS only ┘ └─ WAITS, HISTORY and WHY only ─┘
//! ```

use activity::At;
use activity::history::{Dimension, Span};
use jiff::civil::{DateTime, Time};
use jiff::{Timestamp, Zoned};
use machine::Settings;

use super::{Show, show_history, show_waits, show_why};
use crate::past::{Past, Recall};
use crate::pattern::Pattern;
use crate::show_input::ShowInput;
use crate::sight::Sight;
use crate::table::{Table, TableFormat};

/// SHOW HISTORY is written whole before it is sent: a second has some hundred rows at most.
const HISTORY_SECONDS_MAX: u64 = 600;

/// A SHOW with all that it asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub show: Show,
    /// Of [`Show::Waits`].
    pub by: Dimension,
    pub during: During,
    pub like: Option<Pattern>,
    pub format: TableFormat,
}

/// Over which time; as typed, since what it means depends on what time it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct During {
    /// Seconds before now, or before `to`.
    pub last: Option<u64>,
    pub from: Option<Clock>,
    pub to: Option<Clock>,
}

/// A time of day, of today or of a day, or a moment by any clock: with an offset, such as `2026-07-01T12:00:00Z`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clock {
    Moment(Timestamp),
    Today(Time),
    Day(DateTime),
}

impl Clock {
    /// `None`: it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Clock> {
        if let Ok(moment) = text.parse() {
            return Some(Clock::Moment(moment));
        }
        let day = text.parse().ok().filter(|_| text.contains('-'));
        day.map(Clock::Day).or_else(|| text.parse().ok().map(Clock::Today))
    }

    /// In the zone of `now`. A time of today that is still to come was yesterday's.
    #[must_use]
    pub fn at(&self, now: &Zoned) -> Option<Zoned> {
        let zone = now.time_zone().clone();
        match self {
            Clock::Moment(moment) => Some(moment.to_zoned(zone)),
            Clock::Day(day) => day.to_zoned(zone).ok(),
            Clock::Today(time) => {
                let today = now.date().to_datetime(*time).to_zoned(zone.clone()).ok()?;
                if today <= *now {
                    return Some(today);
                }
                now.date().yesterday().ok()?.to_datetime(*time).to_zoned(zone).ok()
            }
        }
    }
}

impl Shown {
    /// All of it, as text.
    #[must_use]
    pub fn all(show: Show) -> Shown {
        Shown { show, by: Dimension::Event, during: During::default(), like: None, format: TableFormat::Columns }
    }

    /// `None`: it is none of these.
    pub(crate) fn parse(text: &str) -> Option<Shown> {
        let mut words = Words(text);
        let mut shown = Shown::all(Show::by_word(&words.bare()?)?);
        while let Some(word) = words.bare() {
            shown.add(&word.to_ascii_uppercase(), &mut words)?;
        }
        // What is left is no bare word.
        words.0.trim_ascii().is_empty().then_some(shown)
    }

    /// Each part may stand once.
    fn add(&mut self, word: &str, words: &mut Words<'_>) -> Option<()> {
        let (is_waits, nothing) = (self.show == Show::Waits, During::default());
        let has_span = is_waits || matches!(self.show, Show::History | Show::Why);
        match word {
            "BY" if is_waits && self.by == Dimension::Event => self.by = dimension(words)?,
            "LAST" if has_span && self.during.last.is_none() => self.during.last = Some(seconds(words)?),
            "FROM" if has_span && self.during.from == nothing.from => {
                self.during.from = Some(Clock::parse(&words.quoted()?)?);
            }
            "TO" if has_span && self.during.to == nothing.to => self.during.to = Some(Clock::parse(&words.quoted()?)?),
            "LIKE" if self.like.is_none() && self.show != Show::Help => {
                self.like = Some(Pattern::parse(&words.quoted()?)?);
            }
            "FORMAT" if self.format == TableFormat::Columns && self.show != Show::Help => {
                self.format = match words.bare()?.to_ascii_uppercase().as_str() {
                    "CSV" => TableFormat::Csv,
                    "JSON" => TableFormat::Json,
                    _ => return None,
                };
            }
            _ => return None,
        }
        Some(())
    }

    /// Why it is not shown, if it asks for too much.
    pub(crate) fn excess(&self, now: &Zoned) -> Option<String> {
        let span = show_waits::span(now, &self.during);
        let seconds = span.to.second().saturating_sub(span.from.second());
        let is_too_long = self.show == Show::History && seconds > HISTORY_SECONDS_MAX;
        let words =
            format!("SHOW HISTORY shows {} min at a time: FROM, TO and LAST say which", HISTORY_SECONDS_MAX / 60);
        is_too_long.then_some(words)
    }

    /// Why SHOW WAITS has no rows, where that is not because nothing was waited for.
    pub(crate) fn why_empty(&self, settings: &Settings, shows_statements: bool) -> Option<String> {
        (self.show == Show::Waits).then(|| show_waits::why_empty(settings, &self.by, shows_statements))?
    }

    /// Whether it asks for a part of the history. SHOW WHY does only with a time.
    pub(crate) fn is_of_past(&self) -> bool {
        match self.show {
            Show::Waits | Show::History => true,
            Show::Why => self.during != During::default(),
            _ => false,
        }
    }

    /// What is to be looked at anew before the answer.
    pub(crate) fn sight(&self) -> Option<Sight> {
        self.show.sight().filter(|_| !self.is_of_past())
    }

    /// What has to be read from disk, if memory begins with `oldest`.
    pub(crate) fn recall(&self, now: &Zoned, oldest: Option<At>) -> Option<Recall> {
        if !self.is_of_past() || self.excess(now).is_some() {
            return None;
        }
        let span = show_waits::span(now, &self.during);
        let to = oldest.map_or(span.to, |oldest| At((oldest.second() * 1000).saturating_sub(1)).min(span.to));
        let span = Span { from: span.from, to };
        if span.from > span.to {
            return None;
        }
        Some(match self.show {
            Show::Waits => Recall::Waits(span, self.by.clone()),
            Show::Why => Recall::Whys(span),
            _ => Recall::Seconds(span),
        })
    }

    /// The table; `None` for SHOW HELP. `past`: what was read from disk for it.
    pub(crate) fn table(&self, input: &ShowInput<'_>, past: Option<Past>) -> Option<Table> {
        match self.show {
            Show::Waits => Some(show_waits::of(input, &self.by, &self.during, past)),
            Show::History => Some(show_history::of(input, &self.during, past.as_ref())),
            Show::Why if self.is_of_past() => Some(show_why::of(input, &self.during, past)),
            show => show.table(input),
        }
    }
}

fn dimension(words: &mut Words<'_>) -> Option<Dimension> {
    Some(match words.bare()?.to_ascii_uppercase().as_str() {
        "EVENT" => Dimension::Event,
        "EVENT_CLASS" => Dimension::Class,
        "POOL" => Dimension::Pool,
        "CLASS" => Dimension::ClientClass,
        "STATEMENT" => Dimension::Statement,
        "BLOCKER" => Dimension::Blocker,
        "TAG" => Dimension::Tag(words.quoted().or_else(|| words.bare())?.into()),
        _ => return None,
    })
}

/// `90`, `90s`, `15min`, `1h`, `2d`; a blank may stand before the unit.
fn seconds(words: &mut Words<'_>) -> Option<u64> {
    let word = words.bare()?;
    let (number, unit) = word.split_at(word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len()));
    let number: u64 = number.parse().ok()?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return None,
    };
    number.checked_mul(factor)
}

/// What is left of a text.
struct Words<'t>(&'t str);

impl Words<'_> {
    fn bare(&mut self) -> Option<String> {
        let text = self.0.trim_ascii_start();
        let end = text.find(|c: char| c.is_ascii_whitespace()).unwrap_or(text.len());
        let word = &text[..end];
        if word.is_empty() || word.contains(['\'', '"', ';']) {
            return None;
        }
        self.0 = &text[end..];
        Some(word.to_owned())
    }

    /// In single quotes, in which a quote is written twice; a blank stands before it.
    fn quoted(&mut self) -> Option<String> {
        let text = self.0.trim_ascii_start();
        if text.len() == self.0.len() {
            return None;
        }
        let mut out = String::new();
        let mut chars = text.strip_prefix('\'')?.char_indices().peekable();
        while let Some((at, char)) = chars.next() {
            if char != '\'' {
                out.push(char);
            } else if chars.next_if(|(_, next)| *next == '\'').is_some() {
                out.push('\'');
            } else {
                self.0 = &text[at + 2..];
                return Some(out);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_patterns() {
        let like = |show, text| {
            let like = Some(Pattern::parse(text).expect("a pattern"));
            Some(Shown { like, ..Shown::all(show) })
        };
        let table = [
            (" config like 'pool%'", like(Show::Config, "pool%")),
            ("  Stats\n LIKE\t'%a b''c;_' ", like(Show::Stats, "%a b'c;_")),
            (" like like 'x'", None),
            (" config like pool", None),
            (" config like \"pool\"", None),
            (" config like 'pool", None),
            (" config like 'a' 'b'", None),
            (" config like 'a' like 'b'", None),
            (" config like 'a\\'", None),
            (" config like", None),
            (" config ilike 'a'", None),
            (" config like'a'", None),
            (" help like 'a'", None),
            (" nothing like 'a'", None),
            (" pools format csv", Some(Shown { format: TableFormat::Csv, ..Shown::all(Show::Pools) })),
            (" pools FORMAT json format json", None),
            (" pools format yaml", None),
            (" help format json", None),
            (" pools by event", None),
        ];
        for (text, expected) in table {
            assert_eq!(Shown::parse(text), expected, "{text:?}");
        }
        let both = Shown::parse(" pools like 'a''b%' format json").expect("both");
        assert_eq!((both.format, both.like), (TableFormat::Json, Pattern::parse("a'b%")));
    }

    #[test]
    fn a_table_of_waits() {
        let by = |by| Some(Shown { by, ..Shown::all(Show::Waits) });
        let last = |seconds| {
            let during = During { last: Some(seconds), ..During::default() };
            Some(Shown { during, ..Shown::all(Show::Waits) })
        };
        let table = [
            (" waits", by(Dimension::Event)),
            (" waits by statement", by(Dimension::Statement)),
            (" waits by tag controller", by(Dimension::Tag("controller".into()))),
            (" waits by tag 'my tag'", by(Dimension::Tag("my tag".into()))),
            (" waits by nothing", None),
            (" waits by", None),
            (" waits last 90", last(90)),
            (" waits last 15min", last(900)),
            (" waits last 1h", last(3600)),
            (" waits last 1d", last(86_400)),
            (" waits last -1", None),
            (" waits last 99999999999999999999h", None),
            (" waits from 'yesterday'", None),
        ];
        for (text, expected) in table {
            assert_eq!(Shown::parse(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_history_is_shown_in_parts_and_a_length_has_so_many_seconds() {
        let now: Zoned = "2026-11-26T14:03:20+01:00[Europe/Berlin]".parse().expect("a time");
        let excess = |text| Shown::parse(text).expect("a table").excess(&now).is_some();
        assert!(!excess(" history") && !excess(" history last 10min") && !excess(" waits last 1h"));
        assert!(excess(" history last 1h") && excess(" history from '13:00' to '13:11'"));
        for (text, seconds) in [(" waits last 30s", 30), (" waits from '14:00' last 30s", 30), (" waits last 1", 1)] {
            let span = show_waits::span(&now, &Shown::parse(text).expect("a table").during);
            // Both ends are seconds of it.
            assert_eq!(span.to.second() - span.from.second() + 1, seconds, "{text}");
        }
    }

    #[test]
    fn what_memory_does_not_have_is_read_from_disk() {
        let now: Zoned = "2026-11-26T14:00:00+00:00[UTC]".parse().expect("a time");
        let ms = |text: &str| {
            let zoned = Clock::parse(text).and_then(|clock| clock.at(&now)).expect("a time");
            At(u64::try_from(zoned.timestamp().as_millisecond()).expect("after 1970"))
        };
        let oldest = At(ms("13:00").0 + 700);
        let recall = |text, oldest| Shown::parse(text).expect("a table").recall(&now, oldest);
        let until = |from, to| Some(Span { from: ms(from), to: At(to) });
        let span = |text, oldest| recall(text, oldest).map(|recall| recall.span());
        assert_eq!(span(" waits last 1h", Some(oldest)), None);
        assert_eq!(span(" waits from '02:00'", Some(oldest)), until("02:00", ms("13:00").0 - 1));
        assert_eq!(span(" history from '02:00' last 60s", Some(oldest)), until("02:00", ms("02:00").0 + 59_000));
        assert_eq!(span(" history from '02:00'", Some(oldest)), None, "it is too much");
        assert_eq!(span(" waits from '13:00'", None), until("13:00", ms("14:00").0), "nothing was seen yet");
        assert_eq!(span(" pools", Some(oldest)), None);
        let by_pool = recall(" waits by pool last 2d", Some(oldest));
        assert!(matches!(by_pool, Some(Recall::Waits(_, Dimension::Pool))), "{by_pool:?}");
    }

    #[test]
    fn a_time_of_day_is_the_last_one() {
        let now: Zoned = "2026-11-26T14:03:20+01:00[Europe/Berlin]".parse().expect("a time");
        let at = |text: &str| Some(Clock::parse(text)?.at(&now)?.to_string());
        let expected = |text: &str| Some(text.to_owned());
        assert_eq!(at("14:03:20"), expected("2026-11-26T14:03:20+01:00[Europe/Berlin]"));
        assert_eq!(at("14:04"), expected("2026-11-25T14:04:00+01:00[Europe/Berlin]"));
        assert_eq!(at("2026-11-26 13:00"), expected("2026-11-26T13:00:00+01:00[Europe/Berlin]"));
        assert_eq!(at("noon"), None);
    }
}
