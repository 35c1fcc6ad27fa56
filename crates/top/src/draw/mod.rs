//! The screen as text in cells.
//!
//! ```text
//!   pgweir top  address            state    title
//!   1 overview 2 pools 3 classes …          tabs
//!   …                                       the view: overview, grid, look, help
//!   /: filter  b: by …                      keys; or a question, what is typed, what became of an order
//! ```
//!
//! Promises to draw something in any size, and nothing that is told by colour alone.

pub(crate) mod grid;
mod help;
mod look;
mod overview;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line as Text, Span};

use crate::orders::is_unknown;
use crate::screen::{Line, Mode, Palette, Purpose, Refresh, Screen};
use crate::text::{Side, fit, width};
use crate::views::{Shown, View};

/// Below this nothing can be read.
const SMALLEST: (u16, u16) = (20, 5);

/// Draws it.
pub fn draw(screen: &Screen, frame: &mut Frame<'_>) {
    let area = frame.area();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        return put(frame, area, &[Text::raw("too small")]);
    }
    let row = |y: u16| Rect { y, height: 1, ..area };
    let columns = usize::from(area.width);
    put(frame, row(0), &[title(screen, columns)]);
    put(frame, row(1), &[tabs(screen, columns)]);
    put(frame, row(area.height - 1), &[footer(screen, columns)]);
    let body = Rect { y: 2, height: area.height - 3, ..area };
    let lines = match &screen.mode {
        Mode::Help => help::lines(columns),
        Mode::Looking(looking) => look::lines(screen, looking, body),
        Mode::Confirming(_, back) => match &**back {
            Mode::Looking(looking) => look::lines(screen, looking, body),
            _ => of_view(screen, body),
        },
        Mode::View | Mode::Typing(..) => of_view(screen, body),
    };
    put(frame, body, &lines);
}

fn of_view(screen: &Screen, body: Rect) -> Vec<Text<'static>> {
    match screen.shown() {
        None => overview::lines(screen, usize::from(body.width), usize::from(body.height)),
        Some(shown) => match refused(screen, &shown) {
            Some(text) => crate::text::wrap(&text, usize::from(body.width)).into_iter().map(Text::from).collect(),
            None => grid::lines(screen, &shown, body),
        },
    }
}

/// Why there is no table.
pub(crate) fn refused(screen: &Screen, shown: &Shown) -> Option<String> {
    match screen.answers.get(&shown.sql) {
        None => Some(match &screen.line {
            Line::Lost(_) => String::new(),
            Line::Connecting | Line::Up => "asking the console …".to_owned(),
        }),
        Some(Ok(_)) => None,
        Some(Err(why)) if is_unknown(why) => Some(format!("this pgweir has no SHOW {}", shown.shape.show)),
        Some(Err(why)) => Some(format!("{}: {why}", shown.sql)),
    }
}

/// Each line in a row of its own, cut at both edges.
fn put(frame: &mut Frame<'_>, area: Rect, lines: &[Text<'_>]) {
    for (y, line) in (area.y..area.y.saturating_add(area.height)).zip(lines) {
        frame.render_widget(line, Rect { y, height: 1, ..area });
    }
}

fn title(screen: &Screen, columns: usize) -> Text<'static> {
    let state = match (&screen.line, screen.refresh) {
        (Line::Lost(_), _) => " LOST ",
        (_, Refresh::Paused) => " PAUSED ",
        (Line::Connecting, _) => " connecting ",
        (Line::Up, _) => "",
    };
    let name = "pgweir top ";
    let room = columns.saturating_sub(width(name) + width(state));
    Text::from(vec![
        Span::styled(name, Modifier::BOLD),
        Span::raw(fit(&screen.place, room, Side::Left)),
        Span::styled(state, screen.loud()),
    ])
}

/// The names of all views, if there is room; else their numbers.
fn tabs(screen: &Screen, columns: usize) -> Text<'static> {
    let named = |view: View, number: usize| format!("{number} {}", view.name());
    let all: Vec<(View, usize)> = View::ALL.into_iter().zip(1..).collect();
    let long: usize = all.iter().map(|(view, number)| width(&named(*view, *number))).sum();
    let gap = if long + 2 * all.len() <= columns { "  " } else { " " };
    let is_long = long + all.len() <= columns;
    let mut spans = Vec::new();
    for (view, number) in all {
        let is_here = view == screen.view;
        let text = if is_here || is_long { named(view, number) } else { number.to_string() };
        spans.push(Span::styled(text, if is_here { Style::new().reversed() } else { Style::new() }));
        spans.push(Span::raw(gap));
    }
    Text::from(spans)
}

fn footer(screen: &Screen, columns: usize) -> Text<'static> {
    let line = |text: &str, style: Style| Text::styled(fit(text, columns, Side::Left), style);
    match (&screen.mode, &screen.notice, &screen.line) {
        (Mode::Confirming(order, _), ..) => {
            line(&format!("{} y: yes, any other key: no", order.question()), screen.loud())
        }
        (_, Some(notice), _) => line(notice, Style::new().bold()),
        (Mode::Typing(purpose, text), ..) => {
            let name = match purpose {
                Purpose::Filter => "filter",
                Purpose::Span => "span",
            };
            // The end is what is being typed.
            let text = crate::text::clean(text);
            let over = (width(&text) + name.len() + 3).saturating_sub(columns);
            let shown: String = text.chars().skip(over).collect();
            line(&format!("{name}: {shown}_"), Style::new().bold())
        }
        (_, _, Line::Lost(why)) => line(&format!("trying again: {why}"), screen.loud()),
        (mode, ..) => line(&keys(screen, mode), Style::new().dim()),
    }
}

fn keys(screen: &Screen, mode: &Mode) -> String {
    let keys = match (mode, screen.view) {
        (Mode::Help, _) => "any key: back",
        (Mode::Looking(_), _) => "Esc: back  c: cancel its query  K: end it  up/down: scroll  q: quit",
        (_, View::Overview) => "?: help  q: quit  1-8: views  p: pause",
        (_, View::Waits) => "?: help  b: by  s: span  /: filter  Enter: look  <>: sort  q: quit",
        (_, View::Statements) => "?: help  Enter: look  /: filter  <>: sort  r: reverse  q: quit",
        _ => "?: help  Enter: look  c: cancel  K: end  b: table  /: filter  <>: sort  q: quit",
    };
    keys.to_owned()
}

impl Screen {
    /// What must not be missed. Red is told from the background on light and on dark terminals; white and yellow, and blue and black, are not.
    fn loud(&self) -> Style {
        match self.palette {
            Palette::Colours => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD | Modifier::REVERSED),
            Palette::Plain => Style::new().add_modifier(Modifier::BOLD | Modifier::REVERSED),
        }
    }

    fn bad(&self) -> Style {
        match self.palette {
            Palette::Colours => Style::new().fg(Color::Red).bold(),
            Palette::Plain => Style::new().bold(),
        }
    }

    fn bar(&self) -> Style {
        match self.palette {
            Palette::Colours => Style::new().fg(Color::Magenta),
            Palette::Plain => Style::new(),
        }
    }
}
