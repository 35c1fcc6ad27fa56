//! The keys.

use ratatui::style::Modifier;
use ratatui::text::{Line as Text, Span};

use crate::text::{Side, fit};

/// In the order in which they are needed: a low terminal shows the first.
const KEYS: [(&str, &str); 16] = [
    ("1-8, Tab", "another view"),
    ("b, B", "another table of the view; in waits: summed by what"),
    ("up, down", "another row; also j, k, g, G, PgUp, PgDn"),
    ("Enter", "all about the row's client or backend"),
    ("c", "cancel the client's query, after a y"),
    ("K", "end the client, after a y"),
    ("/", "only rows with a text; Esc: all"),
    ("<, >", "sort by another column"),
    ("r", "the other way round"),
    ("o", "order of the console, and back"),
    ("left, right", "columns that are further right"),
    ("s, S", "in waits: another span; type one"),
    ("p, blank", "pause, and go on"),
    ("u", "ask now"),
    ("?", "this page"),
    ("q", "quit"),
];

pub(super) fn lines(columns: usize) -> Vec<Text<'static>> {
    let line = |(key, what): &(&str, &str)| {
        let key = Span::styled(fit(key, 12.min(columns), Side::Left), Modifier::BOLD);
        Text::from(vec![key, Span::raw(fit(what, columns.saturating_sub(12), Side::Left))])
    };
    KEYS.iter().map(line).collect()
}
