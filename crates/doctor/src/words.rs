//! Texts of others, numbers and names, as they are printed.
//!
//! Promises that [`plain`] gives one line without control characters, and without what turns the direction of writing; that a name in
//! [`quoted`] is one name for PostgreSQL, whatever is in it.

use std::fmt::Write as _;
use std::time::Duration;

/// A text of somebody else's, made visible.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if is_hidden(c) => _ = write!(out, "\\u{{{:x}}}", u32::from(c)),
            c => out.push(c),
        }
    }
    out
}

/// What a terminal obeys or does not show: controls, marks of direction, separators of lines.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// The beginning of a statement, on one line.
pub(crate) fn shortened(sql: &str) -> String {
    const CHARS_MAX: usize = 100;
    let line = sql.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// A name as SQL has it, safe in any statement.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A table or index in its schema, as SQL has it.
pub(crate) fn qualified(schema: &str, name: &str) -> String {
    format!("{}.{}", quoted(schema), quoted(name))
}

/// A text as a literal of SQL.
pub(crate) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// `3 pools`, `1 pool`.
pub(crate) fn counted(count: u64, what: &str) -> String {
    format!("{} {what}{}", number(count), if count == 1 { "" } else { "s" })
}

/// With commas between thousands.
pub(crate) fn number(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count of bytes with its unit, in powers of 1024.
pub(crate) fn bytes(count: u64) -> String {
    let units = [("GB", 30_u32), ("MB", 20), ("kB", 10)];
    match units.into_iter().find(|(_, shift)| count >= 1 << shift) {
        Some((unit, shift)) => {
            let value = count as f64 / (1_u64 << shift) as f64;
            if value < 10.0 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
        }
        None => format!("{count} bytes"),
    }
}

/// `2 h 5 min`, `4.2 s`, `12 ms`.
pub(crate) fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 if time.as_millis() == 0 => format!("{} µs", time.as_micros()),
        0 => format!("{} ms", time.as_millis()),
        1..10 => format!("{:.1} s", time.as_secs_f64()),
        10..120 => format!("{seconds} s"),
        120..7200 => two(seconds, (60, "min"), (1, "s")),
        7200..172_800 => two(seconds, (3600, "h"), (60, "min")),
        _ => two(seconds, (86_400, "days"), (3600, "h")),
    }
}

fn two(seconds: u64, (large, large_unit): (u64, &str), (small, small_unit): (u64, &str)) -> String {
    match seconds % large / small {
        0 => format!("{} {large_unit}", seconds / large),
        rest => format!("{} {large_unit} {rest} {small_unit}", seconds / large),
    }
}

/// A part of a whole.
pub(crate) fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_others_become_one_visible_line() {
        assert_eq!(plain("a\x1b[2Jb\nc\u{9b}d\u{202e}e"), "a\\u{1b}[2Jb\\nc\\u{9b}d\\u{202e}e");
        assert_eq!(plain("Ünï <b>"), "Ünï <b>");
    }

    #[test]
    fn a_statement_is_cut_between_letters() {
        assert_eq!(shortened("SELECT\n  1"), "SELECT 1");
        let long = shortened(&"ü".repeat(300));
        assert_eq!(long.chars().count(), 101);
    }

    #[test]
    fn a_name_stays_one_name() {
        assert_eq!(qualified("public", "x\"; DROP TABLE t; --"), "\"public\".\"x\"\"; DROP TABLE t; --\"");
        assert_eq!(literal("o'b"), "'o''b'");
    }

    #[test]
    fn numbers_have_units() {
        assert_eq!((number(1_234_567), number(999)), ("1,234,567".to_owned(), "999".to_owned()));
        assert_eq!(
            (bytes(1536), bytes(5 << 30), bytes(12)),
            ("1.5 kB".to_owned(), "5.0 GB".to_owned(), "12 bytes".to_owned())
        );
        let spans =
            [(250, "250 ms"), (4200, "4.2 s"), (119_000, "119 s"), (125_000, "2 min 5 s"), (7_500_000, "2 h 5 min")];
        for (ms, words) in spans {
            assert_eq!(span(Duration::from_millis(ms)), words);
        }
    }
}
