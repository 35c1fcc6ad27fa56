//! What a key does.
//!
//! Promises that a client is ended only after a `y` to the question that names it.

use crate::choice::{Choice, RowOrder};
use crate::draw::grid::column_names;
use crate::looking::{Looking, Subject};
use crate::orders::{Kind, Order};
use crate::rows::Table;
use crate::screen::{Mode, Purpose, Refresh, SPANS, Screen, span_of};
use crate::views::{Shown, View};

/// A key, whatever a terminal sends for it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Key {
    Char(char),
    Enter,
    Escape,
    Tab,
    BackTab,
    Backspace,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    /// Ctrl-C.
    Interrupt,
}

/// What is to be done besides drawing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    None,
    Quit,
    /// Ask at once.
    Ask,
    Order(Order),
}

/// Rows of a page, whatever the terminal's height.
const PAGE: isize = 10;
/// Of a filter or a span.
const TYPED_MAX: usize = 200;

impl Screen {
    pub fn step(&mut self, key: Key) -> Effect {
        if key == Key::Interrupt {
            return Effect::Quit;
        }
        self.notice = None;
        match std::mem::replace(&mut self.mode, Mode::View) {
            Mode::View => self.in_view(key),
            Mode::Help => Effect::None,
            Mode::Typing(purpose, text) => self.typing(purpose, text, key),
            Mode::Looking(looking) => self.in_look(looking, key),
            Mode::Confirming(order, back) => {
                self.mode = *back;
                if key == Key::Char('y') { Effect::Order(order) } else { Effect::None }
            }
        }
    }

    fn in_view(&mut self, key: Key) -> Effect {
        match key {
            Key::Char('q') => return Effect::Quit,
            Key::Char('?' | 'h') => self.mode = Mode::Help,
            Key::Char('p' | ' ') => return self.pause(),
            Key::Char('u') => return Effect::Ask,
            Key::Char(digit @ '1'..='8') => return self.go(View::ALL[digit as usize - '1' as usize]),
            Key::Tab => return self.go_by(1),
            Key::BackTab => return self.go_by(View::ALL.len() - 1),
            _ => return self.in_table(key),
        }
        Effect::None
    }

    fn go(&mut self, view: View) -> Effect {
        self.view = view;
        Effect::Ask
    }

    fn go_by(&mut self, steps: usize) -> Effect {
        let now = View::ALL.iter().position(|view| *view == self.view).expect("all are in the list");
        self.go(View::ALL[(now + steps) % View::ALL.len()])
    }

    fn pause(&mut self) -> Effect {
        self.refresh = match self.refresh {
            Refresh::Running => Refresh::Paused,
            Refresh::Paused => Refresh::Running,
        };
        Effect::None
    }

    /// Keys that need a table.
    fn in_table(&mut self, key: Key) -> Effect {
        let Some(shown) = self.shown() else { return Effect::None };
        let empty = Table::default();
        let table = self.answers.get(&shown.sql).and_then(|answer| answer.as_ref().ok()).unwrap_or(&empty);
        let choice = self.choices.entry(self.view).or_default();
        match key {
            Key::Up | Key::Char('k') => choice.move_by(table, shown.shape, -1),
            Key::Down | Key::Char('j') => choice.move_by(table, shown.shape, 1),
            Key::PageUp => choice.move_by(table, shown.shape, -PAGE),
            Key::PageDown => choice.move_by(table, shown.shape, PAGE),
            Key::Home | Key::Char('g') => choice.move_by(table, shown.shape, isize::MIN),
            Key::End | Key::Char('G') => choice.move_by(table, shown.shape, isize::MAX),
            Key::Left => choice.left = choice.left.saturating_sub(1),
            Key::Right => choice.left = (choice.left + 1).min(table.names().len().saturating_sub(1)),
            Key::Char('<') => choice.sort_by_next(&column_names(table, shown.shape), shown.shape, -1),
            Key::Char('>') => choice.sort_by_next(&column_names(table, shown.shape), shown.shape, 1),
            Key::Char('r') => choice.reverse(shown.shape),
            Key::Char('o') if choice.order == RowOrder::Console => choice.order = RowOrder::Usual,
            Key::Char('o') => choice.order = RowOrder::Console,
            Key::Escape => choice.filter.clear(),
            Key::Char('/') => self.mode = Mode::Typing(Purpose::Filter, choice.filter.clone()),
            Key::Char('b') => return self.next_table(1),
            Key::Char('B') => return self.next_table(-1),
            Key::Char('s') if self.view == View::Waits => return self.next_span(),
            Key::Char('S') if self.view == View::Waits => {
                self.mode = Mode::Typing(Purpose::Span, self.span.clone());
            }
            Key::Enter => return self.look(&shown),
            Key::Char('c') => self.confirm(Kind::Query, &shown),
            Key::Char('K') => self.confirm(Kind::Client, &shown),
            _ => {}
        }
        Effect::None
    }

    fn next_table(&mut self, steps: isize) -> Effect {
        let count = self.view.tables(&self.tags, &self.span).len();
        let choice = self.choices.entry(self.view).or_default();
        let now = isize::try_from(choice.table).unwrap_or(0);
        let next = (now + steps).rem_euclid(isize::try_from(count).unwrap_or(1).max(1));
        choice.show(usize::try_from(next).unwrap_or(0));
        Effect::Ask
    }

    fn next_span(&mut self) -> Effect {
        let now = SPANS.iter().position(|span| *span == self.span);
        self.span = SPANS[now.map_or(0, |now| (now + 1) % SPANS.len())].to_owned();
        Effect::Ask
    }

    fn look(&mut self, shown: &Shown) -> Effect {
        let Some(subject) = self.of_selected(shown, |row| Subject::of(row, shown)) else { return Effect::None };
        let mut looking = Looking::at(subject);
        looking.take(|sql| self.table(sql));
        self.mode = Mode::Looking(looking);
        Effect::Ask
    }

    fn confirm(&mut self, kind: Kind, shown: &Shown) {
        match self.of_selected(shown, |row| Order::new(kind, row, shown)) {
            Some(Ok(order)) => self.mode = Mode::Confirming(order, Box::new(Mode::View)),
            Some(Err(why)) => self.notice = Some(why),
            None => {}
        }
    }

    /// Something of the selected row.
    fn of_selected<T>(&self, shown: &Shown, of: impl FnOnce(crate::rows::Row<'_>) -> T) -> Option<T> {
        let table = self.table(&shown.sql)?;
        let usual = Choice::default();
        let choice = self.choice().unwrap_or(&usual);
        let rows = choice.rows(table, shown.shape);
        let at = choice.selected(table, shown.shape, &rows)?;
        Some(of(table.row(rows[at])))
    }

    fn typing(&mut self, purpose: Purpose, mut text: String, key: Key) -> Effect {
        match key {
            Key::Escape => return Effect::None,
            Key::Enter if purpose == Purpose::Span => match span_of(&text) {
                Ok(span) => {
                    self.span = span;
                    return Effect::Ask;
                }
                Err(why) => self.notice = Some(why),
            },
            Key::Enter => {
                self.choices.entry(self.view).or_default().filter = text;
                return Effect::None;
            }
            Key::Backspace => _ = text.pop(),
            Key::Char(c) if !c.is_control() && text.len() < TYPED_MAX => text.push(c),
            _ => {}
        }
        self.mode = Mode::Typing(purpose, text);
        Effect::None
    }

    fn in_look(&mut self, mut looking: Looking, key: Key) -> Effect {
        let kind = match key {
            Key::Char('c') => Some(Kind::Query),
            Key::Char('K') => Some(Kind::Client),
            _ => None,
        };
        match (key, kind, &looking.subject) {
            (Key::Escape | Key::Enter | Key::Backspace, ..) => return Effect::Ask,
            (Key::Char('q'), ..) => return Effect::Quit,
            (Key::Char('p' | ' '), ..) => _ = self.pause(),
            (Key::Up | Key::Char('k'), ..) => looking.first = looking.first.saturating_sub(1),
            (Key::Down | Key::Char('j'), ..) => looking.first += 1,
            (Key::PageUp, ..) => looking.first = looking.first.saturating_sub(PAGE.unsigned_abs()),
            (Key::PageDown, ..) => looking.first += PAGE.unsigned_abs(),
            (Key::Home, ..) => looking.first = 0,
            (_, Some(kind), Subject::Client(id)) => {
                let order = Order::for_client(kind, id);
                self.mode = Mode::Confirming(order, Box::new(Mode::Looking(looking)));
                return Effect::None;
            }
            (_, Some(_), _) => self.notice = Some("this is no client of this pooler".to_owned()),
            _ => {}
        }
        self.mode = Mode::Looking(looking);
        Effect::None
    }
}
