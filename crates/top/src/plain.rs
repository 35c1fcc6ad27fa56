//! A view as lines of text, for scripts and for output that is no terminal.
//!
//! Promises one line a row, in columns, with nothing cut; `-` is an empty value. Does not quote: who needs that asks the console for CSV or JSON.

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use crate::choice::Choice;
use crate::draw::grid::{Column, cell, measured};
use crate::draw::{draw, refused};
use crate::rows::Row;
use crate::screen::Screen;
use crate::text::{Side, fit};
use crate::views::Shown;

/// The overview is as wide and high.
const OVERVIEW: (u16, u16) = (120, 40);

/// # Errors
/// In words, if the console has refused to show it.
pub fn text_of(screen: &Screen) -> Result<String, String> {
    let Some(shown) = screen.shown() else { return Ok(overview(screen)) };
    if let Some(why) = refused(screen, &shown) {
        return Err(why);
    }
    Ok(table(screen, &shown))
}

fn table(screen: &Screen, shown: &Shown) -> String {
    let usual = Choice::default();
    let choice = screen.choice().unwrap_or(&usual);
    let table = screen.table(&shown.sql).expect("it is not refused");
    let rows = choice.rows(table, shown.shape);
    let columns = measured(table, &rows, choice, shown.shape);
    let joined = |cells: Vec<String>| cells.join("  ").trim_end().to_owned() + "\n";
    let mut text = joined(columns.iter().map(|column| fit(&column.name, of(column), column.side)).collect());
    for row in rows {
        text.push_str(&joined(columns.iter().map(|column| value(table.row(row), column, shown)).collect()));
    }
    text
}

/// Titles are names here, which may be longer.
fn of(column: &Column) -> usize {
    column.columns.max(column.name.len())
}

fn value(row: Row<'_>, column: &Column, shown: &Shown) -> String {
    let text = row.get(&column.name).map_or_else(|| "-".to_owned(), |value| cell(shown.shape, &column.name, value));
    // Rows beyond those that were measured may be wider, and are not cut.
    let columns = of(column).max(crate::text::width(&text));
    fit(&text, columns, if row.get(&column.name).is_some() { column.side } else { Side::Left })
}

fn overview(screen: &Screen) -> String {
    let mut terminal = Terminal::new(TestBackend::new(OVERVIEW.0, OVERVIEW.1)).expect("memory cannot fail");
    terminal.draw(|frame| draw(screen, frame)).expect("memory cannot fail");
    let shown = lines_of(terminal.backend().buffer());
    // Without tabs and keys.
    let last = shown.len() - 1;
    let body = shown.into_iter().take(last).enumerate().filter(|(at, _)| *at != 1).map(|(_, line)| line);
    let mut text = body.collect::<Vec<_>>().join("\n");
    text.truncate(text.trim_end().len());
    text + "\n"
}

/// What a screen shows, line by line.
pub(crate) fn lines_of(buffer: &ratatui::buffer::Buffer) -> Vec<String> {
    let line = |y: u16| {
        let mut text = String::new();
        let mut x = 0;
        while x < buffer.area.width {
            let symbol = buffer[(x, y)].symbol();
            text.push_str(symbol);
            // What is behind a wide character is hidden by it.
            x += u16::try_from(crate::text::width(symbol)).unwrap_or(1).max(1);
        }
        text.trim_end().to_owned()
    };
    (0..buffer.area.height).map(line).collect()
}
