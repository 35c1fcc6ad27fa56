//! A table in columns that fit: those that matter most first, the widest text last.
//!
//! Columns that are empty in all rows are left out, as is what does not fit; keys move to those further right.

use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line as Text, Span};

use crate::choice::{Choice, Direction};
use crate::rows::{Row, Table};
use crate::screen::Screen;
use crate::text::{Side, fit, one_line, width, wrap};
use crate::views::{Shape, Shown, View};
use crate::words;

/// Rows that the widths of columns are taken from.
const MEASURED_MAX: usize = 500;
/// A text that is longer is cut.
const COLUMNS_MAX: usize = 28;
/// A text is not cut to less.
const TEXT_MIN: usize = 8;
/// Of the widest text, at least.
const WIDE_MIN: usize = 16;
/// From this height on, the selected row's texts stand below the table.
const HEIGHT_WITH_TEXTS: usize = 14;
const TEXT_LINES_MAX: usize = 4;

/// A column as it is drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) columns: usize,
    pub(crate) side: Side,
}

/// The columns of a table in the order in which they matter.
pub(crate) fn column_names(table: &Table, shape: &Shape) -> Vec<String> {
    let has = |name: &str| table.names().iter().any(|other| other == name);
    let first = shape.columns.iter().filter(|name| has(name)).map(|name| (*name).to_owned());
    let is_other = |name: &&String| !shape.columns.contains(&name.as_str()) && shape.wide != Some(name.as_str());
    let others = table.names().iter().filter(is_other).cloned();
    let wide = shape.wide.filter(|name| has(name)).map(str::to_owned);
    first.chain(others).chain(wide).collect()
}

/// All columns that have something in these rows, as wide as it is.
pub(crate) fn measured(table: &Table, rows: &[usize], choice: &Choice, shape: &Shape) -> Vec<Column> {
    let sorted = choice.sorted_by(shape);
    let of = |name: String| {
        let values = || rows.iter().take(MEASURED_MAX).filter_map(|row| table.row(*row).get(&name));
        let is_sorted = sorted.is_some_and(|(column, _)| column == name);
        if values().next().is_none() && !rows.is_empty() && !is_sorted {
            return None;
        }
        let is_number = values().next().is_some() && values().all(|text| text.parse::<f64>().is_ok());
        let widest = values().map(|text| width(&cell(shape, &name, text))).max().unwrap_or(0);
        let title = title(&name, sorted);
        let columns = widest.max(width(&title));
        Some(Column { name, title, columns, side: if is_number { Side::Right } else { Side::Left } })
    };
    column_names(table, shape).into_iter().filter_map(of).collect()
}

/// Those that fit, the first that are chosen at the left, and the widest last.
fn fitting(mut all: Vec<Column>, choice: &Choice, shape: &Shape, columns: usize) -> Vec<Column> {
    let wide = all.iter().position(|column| Some(column.name.as_str()) == shape.wide).map(|at| all.remove(at));
    let at_most = |column: &Column| if column.name == "tree" { columns / 2 } else { COLUMNS_MAX.min(columns) };
    let sorted = choice.sorted_by(shape).map(|(name, _)| name.to_owned());
    let kept = wide.as_ref().map_or(0, |wide| wide.columns.min(WIDE_MIN.max(columns / 3)).min(columns));
    let mut left = columns.saturating_sub(kept);
    // Columns that nobody has named come only where the widest text is there in full.
    let mut rest_of_wide = wide.as_ref().map_or(0, |wide| wide.columns.saturating_sub(kept));
    let mut taken = Vec::new();
    // What rows are sorted by is always there, or the order has no reason.
    if let Some(at) = all.iter().skip(choice.left).position(|column| Some(&column.name) == sorted.as_ref()) {
        let at = at + choice.left;
        left = left.saturating_sub(all[at].columns.min(at_most(&all[at])) + 1);
    }
    for mut column in all.into_iter().skip(choice.left) {
        column.columns = column.columns.min(at_most(&column));
        if Some(&column.name) == sorted.as_ref() {
            taken.push(column);
            continue;
        }
        if !shape.columns.contains(&column.name.as_str()) {
            left = left.saturating_sub(std::mem::take(&mut rest_of_wide));
        }
        // Rather the beginning of a text than none of it.
        if column.columns >= left && column.side == Side::Left {
            column.columns = left.saturating_sub(1).max(TEXT_MIN);
        }
        if column.columns < left {
            left -= column.columns + 1;
            taken.push(column);
        }
    }
    if let Some(mut wide) = wide {
        wide.columns = columns.saturating_sub(taken.iter().map(|column| column.columns + 1).sum());
        taken.push(wide);
    }
    taken
}

fn title(name: &str, sorted: Option<(&str, Direction)>) -> String {
    let short = match name {
        "application_name" => "application",
        "client_id" => "client",
        "wait_event_type" => "wait_type",
        "transaction_age" => "xact_age",
        "maxwait_seconds" => "maxwait",
        name => name.strip_prefix("total_").unwrap_or(name),
    };
    match sorted {
        Some((column, Direction::GreatestFirst)) if column == name => format!("{short}▾"),
        Some((column, Direction::LeastFirst)) if column == name => format!("{short}▴"),
        _ => short.to_owned(),
    }
}

/// A value as it is shown.
pub(crate) fn cell(shape: &Shape, name: &str, value: &str) -> String {
    let is_micros = shape.show == "QUERIES" && name.ends_with("_time");
    match value.parse::<f64>() {
        Ok(number) if is_micros && number.is_finite() => words::micros(number),
        Ok(number) if name == "memory" && number.is_finite() => words::memory(number),
        _ => one_line(value).into_owned(),
    }
}

pub(super) fn lines(screen: &Screen, shown: &Shown, body: Rect) -> Vec<Text<'static>> {
    let (columns, height) = (usize::from(body.width), usize::from(body.height));
    let (Some(table), usual) = (screen.table(&shown.sql), Choice::default()) else { return Vec::new() };
    let choice = screen.choice().unwrap_or(&usual);
    let rows = choice.rows(table, shown.shape);
    let selected = choice.selected(table, shown.shape, &rows);
    let drawn = fitting(measured(table, &rows, choice, shown.shape), choice, shown.shape, columns);
    let mut lines = vec![head(screen, shown, choice, (rows.len(), table.len()), columns)];
    let titles = drawn.iter().map(|column| fit(&column.title, column.columns, column.side));
    lines.push(Text::styled(titles.collect::<Vec<_>>().join(" "), Modifier::BOLD | Modifier::UNDERLINED));
    let texts = match selected {
        Some(at) if height >= HEIGHT_WITH_TEXTS => texts(table.row(rows[at]), shown, columns),
        _ => Vec::new(),
    };
    let room = height.saturating_sub(lines.len() + texts.len());
    // The selected row is in the middle, where there is enough on both sides.
    let first = selected.unwrap_or(0).saturating_sub(room / 2).min(rows.len().saturating_sub(room));
    for (at, row) in rows.iter().enumerate().skip(first).take(room) {
        let line = row_line(screen, table.row(*row), &drawn, shown);
        lines.push(if selected == Some(at) { line.style(Modifier::REVERSED) } else { line });
    }
    lines.resize(height.saturating_sub(texts.len()).max(lines.len()), Text::default());
    lines.extend(texts);
    lines
}

/// What the table is, and how much of it is seen.
fn head(screen: &Screen, shown: &Shown, choice: &Choice, counts: (usize, usize), columns: usize) -> Text<'static> {
    let by =
        if screen.view == View::Waits { format!("by {}, {}", shown.name, screen.span) } else { shown.name.clone() };
    let (passed, all) = counts;
    let rows = if all == 1 { "1 row".to_owned() } else { format!("{all} rows") };
    let rows = if passed == all { rows } else { format!("{passed} of {rows}") };
    let filter =
        if choice.filter.is_empty() { String::new() } else { format!("  filter: {}", one_line(&choice.filter)) };
    let left = if choice.left == 0 { String::new() } else { format!("  {} columns to the left", choice.left) };
    Text::styled(fit(&format!("{by}: {rows}{filter}{left}"), columns, Side::Left), Modifier::DIM)
}

fn row_line(screen: &Screen, row: Row<'_>, drawn: &[Column], shown: &Shown) -> Text<'static> {
    let is_culprit = is_culprit(row);
    let span = |column: &Column| {
        let text = row.get(&column.name).map(|value| cell(shown.shape, &column.name, value)).unwrap_or_default();
        let style = if is_culprit { screen.bad() } else { Style::new() };
        Span::styled(fit(&text, column.columns, column.side), style)
    };
    let mut spans: Vec<Span<'static>> = Vec::new();
    for column in drawn {
        if !spans.is_empty() {
            spans.push(Span::raw(" "));
        }
        spans.push(span(column));
    }
    Text::from(spans)
}

/// In somebody's way, or waiting for a server.
fn is_culprit(row: Row<'_>) -> bool {
    let has = |name: &str| row.count(name) > 0;
    has("blocking") || has("cl_waiting") || row.get("reason") == Some("idle in transaction") && has("waiting")
}

/// The selected row's long texts.
fn texts(row: Row<'_>, shown: &Shown, columns: usize) -> Vec<Text<'static>> {
    let names = ["note", "tags", shown.shape.wide.unwrap_or("why")];
    let texts = names.iter().filter_map(|name| row.get(name)).flat_map(|text| wrap(&one_line(text), columns));
    let lines: Vec<Text<'static>> = texts.take(TEXT_LINES_MAX).map(Text::from).collect();
    if lines.is_empty() {
        return lines;
    }
    std::iter::once(Text::styled("─".repeat(columns), Modifier::DIM)).chain(lines).collect()
}
