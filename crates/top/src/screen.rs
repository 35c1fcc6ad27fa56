//! The state of the program: what was answered, what is looked at, what the user is doing.
//!
//! ```text
//!   keys ───► step ───► Effect   quit, ask at once, end a query or a client
//!   answers ► take                                     (questions says what to ask)
//!   draw, text_of: what is on the screen
//! ```
//!
//! Pure: whoever calls reads keys, talks to the console and has a clock.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::choice::Choice;
use crate::looking::Looking;
use crate::orders::Order;
use crate::rates::Rates;
use crate::rows::Table;
use crate::text::clean;
use crate::views::{Shown, TAGS, View};

/// What came of one question, or of an order; an error is in the console's words.
pub(crate) type Answered = Result<Table, String>;

/// From the console.
#[derive(Clone, Debug)]
pub enum Heard {
    /// Questions with their answers.
    Answers(Vec<(String, Answered)>),
    /// It does not answer, and why.
    Lost(String),
    Done(Order, Result<(), String>),
}

/// The connection to the console.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Connecting,
    Up,
    Lost(String),
}

/// Whether the screen follows what goes on.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Refresh {
    Running,
    Paused,
}

/// What keys are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    View,
    Help,
    Typing(Purpose, String),
    Looking(Looking),
    /// An order waits for a `y`; then it goes on as before.
    Confirming(Order, Box<Mode>),
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Filter,
    /// Of `SHOW WAITS`: `LAST 15min`, `FROM '14:03' TO '14:04'`.
    Span,
}

/// Whether colours are used.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Palette {
    Colours,
    Plain,
}

/// Spans that a key goes through.
pub(crate) const SPANS: [&str; 5] = ["LAST 60s", "LAST 5min", "LAST 15min", "LAST 30min", "LAST 60min"];

/// All of it.
#[derive(Clone, Debug)]
pub struct Screen {
    /// The console's address, as shown.
    pub(crate) place: String,
    pub(crate) palette: Palette,
    pub(crate) view: View,
    pub(crate) choices: BTreeMap<View, Choice>,
    pub(crate) span: String,
    pub(crate) tags: Vec<String>,
    pub(crate) answers: BTreeMap<String, Answered>,
    pub(crate) rates: Rates,
    pub(crate) line: Line,
    pub(crate) refresh: Refresh,
    pub(crate) mode: Mode,
    /// What became of an order.
    pub(crate) notice: Option<String>,
}

impl Screen {
    #[must_use]
    pub fn new(place: &str, palette: Palette) -> Screen {
        Screen {
            place: clean(place),
            palette,
            view: View::Overview,
            choices: BTreeMap::new(),
            span: SPANS[1].to_owned(),
            tags: Vec::new(),
            answers: BTreeMap::new(),
            rates: Rates::default(),
            line: Line::Connecting,
            refresh: Refresh::Running,
            mode: Mode::View,
            notice: None,
        }
    }

    /// What to ask now.
    #[must_use]
    pub fn questions(&self) -> Vec<String> {
        let mut all = match (&self.mode, self.shown()) {
            (Mode::Looking(looking), _) => looking.subject.questions(),
            (_, Some(shown)) => vec![shown.sql],
            (_, None) => View::overview(),
        };
        // Once is enough: the setting changes seldom.
        if self.view == View::Waits && !self.answers.contains_key(TAGS) {
            all.push(TAGS.to_owned());
        }
        all
    }

    /// Whether it waits for the next look.
    #[must_use]
    pub fn refresh(&self) -> Refresh {
        self.refresh
    }

    /// `now`: since the program began.
    pub fn take(&mut self, heard: Heard, now: Duration) {
        match heard {
            Heard::Lost(why) => self.line = Line::Lost(clean(&why)),
            Heard::Done(order, result) => self.notice = Some(clean(&order.came_to(&result))),
            Heard::Answers(answers) => {
                self.line = Line::Up;
                answers.into_iter().for_each(|(sql, answer)| self.keep(sql, answer, now));
                self.settle();
            }
        }
    }

    fn keep(&mut self, sql: String, answer: Answered, now: Duration) {
        match (&*sql, &answer) {
            ("SHOW TOTALS", Ok(totals)) => self.rates.take(totals, now),
            (TAGS, Ok(settings)) => self.tags = tags(settings),
            _ => {}
        }
        self.answers.insert(sql, answer.map_err(|why| clean(&why)));
    }

    fn settle(&mut self) {
        let answers = &self.answers;
        if let Mode::Looking(looking) = &mut self.mode {
            looking.take(|sql| answers.get(sql)?.as_ref().ok());
        }
        let Some(shown) = self.shown() else { return };
        if let Some(Ok(table)) = self.answers.get(&shown.sql) {
            self.choices.entry(self.view).or_default().settle(table, shown.shape);
        }
    }

    /// The table that the view shows; the overview shows none.
    #[must_use]
    pub fn shown(&self) -> Option<Shown> {
        let tables = self.view.tables(&self.tags, &self.span);
        let at = self.choice().map_or(0, |choice| choice.table);
        tables.get(at).or(tables.first()).cloned()
    }

    pub(crate) fn choice(&self) -> Option<&Choice> {
        self.choices.get(&self.view)
    }

    /// An answer, if it is none that was refused.
    pub(crate) fn table(&self, sql: &str) -> Option<&Table> {
        self.answers.get(sql)?.as_ref().ok()
    }

    /// What the program is started with.
    ///
    /// # Errors
    /// In words, if there is no such view, table or column.
    pub fn begin(&mut self, wanted: &Beginning) -> Result<(), String> {
        // Only this view shows another time than now.
        let usual = if wanted.span.is_some() { View::Waits } else { View::Overview };
        let view = wanted.view.as_deref().unwrap_or(usual.name());
        self.view = View::by_name(view).ok_or_else(|| {
            let all = View::ALL.map(View::name).join(", ");
            format!("there is no view {view:?}; there are {all}")
        })?;
        if let Some(span) = &wanted.span {
            if self.view != View::Waits {
                return Err(format!("{view} shows what is now: --span is for the view {}", View::Waits.name()));
            }
            self.span = span_of(span)?;
        }
        let mut choice = Choice::default();
        if let Some(name) = &wanted.table {
            // Of tags the names are known only when the console has been asked.
            if let Some(tag) = name.strip_prefix("tag ").filter(|_| self.view == View::Waits) {
                self.tags = vec![tag.to_owned()];
            }
            let tables = self.view.tables(&self.tags, &self.span);
            let found = tables.iter().position(|shown| shown.name == *name);
            let all = || tables.iter().map(|shown| shown.name.as_str()).collect::<Vec<_>>().join(", ");
            choice.table = found.ok_or_else(|| format!("{view} has no table {name:?}; it has: {}", all()))?;
        }
        if let Some(column) = &wanted.sort {
            let direction = crate::choice::Direction::GreatestFirst;
            choice.order = crate::choice::RowOrder::By { column: column.clone(), direction };
        }
        choice.filter = wanted.filter.as_deref().map(clean).unwrap_or_default();
        self.choices.insert(self.view, choice);
        Ok(())
    }
}

/// What the command line says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beginning {
    pub view: Option<String>,
    pub table: Option<String>,
    pub span: Option<String>,
    pub sort: Option<String>,
    pub filter: Option<String>,
}

/// A span as `SHOW WAITS` has it, from what a user types: `15min` alone is `LAST 15min`.
///
/// # Errors
/// If it cannot be one.
pub(crate) fn span_of(typed: &str) -> Result<String, String> {
    let typed = typed.trim();
    let is_length = typed.starts_with(|c: char| c.is_ascii_digit()) && !typed.contains(':');
    let text = if is_length { format!("LAST {typed}") } else { typed.to_owned() };
    let first = text.split_ascii_whitespace().next().unwrap_or_default().to_ascii_uppercase();
    let is_of_a_span = |c: char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '\'' | ':' | '-' | '.');
    let is_span = ["LAST", "FROM", "TO"].contains(&first.as_str()) && text.chars().all(is_of_a_span);
    if is_span { Ok(text) } else { Err("a span is like 15min, LAST 90s, or FROM '14:03' TO '14:04'".to_owned()) }
}

fn tags(settings: &Table) -> Vec<String> {
    let value = settings.rows().find_map(|row| row.get("value")).unwrap_or_default();
    value.split([',', ' ']).map(str::trim).filter(|tag| !tag.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::table;

    #[test]
    fn a_span_is_what_the_console_reads() {
        assert_eq!(span_of("15min"), Ok("LAST 15min".to_owned()));
        assert_eq!(span_of(" from '14:03' to '14:04' "), Ok("from '14:03' to '14:04'".to_owned()));
        for wrong in ["", "14:03", "LAST 5min; SHUTDOWN", "SHUTDOWN", "LAST \u{1b}"] {
            assert!(span_of(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_tags_of_the_console_become_tables() {
        let mut screen = Screen::new("h:6432", Palette::Plain);
        screen.begin(&Beginning { view: Some("waits".to_owned()), ..Beginning::default() }).expect("a view");
        assert_eq!(screen.questions(), ["SHOW WAITS BY EVENT LAST 5min", TAGS]);
        let settings = table(&["key", "value"], &[&["observe_tags", "controller, action"]]);
        screen.take(Heard::Answers(vec![(TAGS.to_owned(), Ok(settings))]), Duration::ZERO);
        assert_eq!(screen.tags, ["controller", "action"]);
        assert_eq!(screen.questions().len(), 1);
    }

    #[test]
    fn what_there_is_not_is_refused_with_what_there_is() {
        let mut screen = Screen::new("h:6432", Palette::Plain);
        let view = |view: &str, table: &str| Beginning {
            view: Some(view.to_owned()),
            table: Some(table.to_owned()),
            ..Beginning::default()
        };
        assert!(screen.begin(&view("nothing", "")).expect_err("no view").contains("overview, pools"));
        assert!(screen.begin(&view("waits", "moon")).expect_err("no table").contains("event, statement"));
        assert!(screen.begin(&view("waits", "tag controller")).is_ok());
        assert_eq!(screen.questions()[0], "SHOW WAITS BY TAG 'controller' LAST 5min");
    }
}
