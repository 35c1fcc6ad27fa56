//! Texts that anybody may have chosen, as a terminal may show them, and how many columns they take.
//!
//! Promises that a cleaned text has no character that moves the cursor, changes the direction of writing or has no width of its own, except marks
//! that stand on a letter, of which two at most; these characters are written out as `\x1b` or `\u{202e}`. So a text takes as many
//! columns as [`width`] says. Line breaks stay, for whoever shows a text in full; [`one_line`] is for a cell.

use std::borrow::Cow;

use unicode_width::UnicodeWidthChar as _;

/// Marks on one letter: Vietnamese and Thai need two. More are drawn over the lines above and below.
const MARKS_MAX: usize = 2;

/// A text as it may be shown, with its line breaks.
#[must_use]
pub(crate) fn clean(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    // At the beginning a mark would stand on what is in front of the text.
    let mut marks = MARKS_MAX;
    let mut rest = raw.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\r' if rest.peek() == Some(&'\n') => {}
            '\n' => {
                out.push('\n');
                marks = MARKS_MAX;
            }
            '\t' => out.push(' '),
            c if is_mark(c) && marks < MARKS_MAX => {
                out.push(c);
                marks += 1;
            }
            c if is_plain(c) => {
                out.push(c);
                marks = 0;
            }
            c if (c as u32) < 0x100 => {
                out.push_str(&format!("\\x{:02x}", c as u32));
                marks = 0;
            }
            c => {
                out.push_str(&format!("\\u{{{:x}}}", c as u32));
                marks = 0;
            }
        }
    }
    out
}

/// A cleaned text in a cell: its line breaks are blanks.
#[must_use]
pub(crate) fn one_line(clean: &str) -> Cow<'_, str> {
    if clean.contains('\n') { Cow::Owned(clean.replace('\n', " ")) } else { Cow::Borrowed(clean) }
}

/// The columns that a cleaned text takes.
#[must_use]
pub(crate) fn width(clean: &str) -> usize {
    clean.chars().map(columns).sum()
}

/// Exactly `columns_wanted` columns: cut, with `…` at its end, or filled up behind the text, or in front of it.
#[must_use]
pub(crate) fn fit(clean: &str, columns_wanted: usize, side: Side) -> String {
    let text = one_line(clean);
    let has = width(&text);
    if has <= columns_wanted {
        let blanks = " ".repeat(columns_wanted - has);
        return match side {
            Side::Left => format!("{text}{blanks}"),
            Side::Right => format!("{blanks}{text}"),
        };
    }
    let Some(room) = columns_wanted.checked_sub(1) else { return String::new() };
    let (mut cut, mut taken) = (String::new(), 0);
    for c in text.chars() {
        if taken + columns(c) > room {
            break;
        }
        taken += columns(c);
        cut.push(c);
    }
    // A wide character may leave a column.
    format!("{cut}…{}", " ".repeat(room - taken))
}

/// The side of a cell that a text begins at.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

/// Lines of at most `columns_max` columns, broken at blanks where there are any, and where the text itself has line breaks.
#[must_use]
pub(crate) fn wrap(clean: &str, columns_max: usize) -> Vec<String> {
    let columns_max = columns_max.max(2);
    clean.split('\n').flat_map(|line| wrap_line(line, columns_max)).collect()
}

fn wrap_line(line: &str, columns_max: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut current = String::new();
    for word in line.split_inclusive(' ') {
        if !current.is_empty() && width(&current) + width(word.trim_end()) > columns_max {
            lines.push(std::mem::take(&mut current));
        }
        for c in word.chars() {
            if width(&current) + columns(c) > columns_max {
                lines.push(std::mem::take(&mut current));
                // A blank has done its work.
                if c == ' ' {
                    continue;
                }
            }
            current.push(c);
        }
    }
    lines.push(current);
    lines.iter_mut().for_each(|line| line.truncate(line.trim_end_matches(' ').len()));
    lines
}

fn columns(c: char) -> usize {
    c.width().unwrap_or(0)
}

/// Stands on the letter in front of it, in all terminals.
fn is_mark(c: char) -> bool {
    // Vowels of a Korean syllable are joined with it, or not, as a terminal likes.
    let is_jamo = ('\u{1160}'..='\u{11ff}').contains(&c) || ('\u{d7b0}'..='\u{d7ff}').contains(&c);
    columns(c) == 0 && !c.is_control() && !is_invisible(c) && !is_jamo
}

/// Default_Ignorable_Code_Point, and other characters that tell how those around them are written.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{13430}'..='\u{1345f}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Has a width on which terminals agree.
fn is_plain(c: char) -> bool {
    // It changes the emoji in front of it, or stands for itself, as a terminal likes.
    let is_shade_of_skin = ('\u{1f3fb}'..='\u{1f3ff}').contains(&c);
    !c.is_control() && columns(c) > 0 && !is_invisible(c) && !is_shade_of_skin
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        let table = [
            ("plain", "plain"),
            ("\u{1b}[31mred\u{7}", "\\x1b[31mred\\x07"),
            ("\u{9b}2J", "\\x9b2J"),
            ("a\r\nb\rc\td", "a\nb\\x0dc d"),
            ("abc\u{202e}fed\u{200b}\u{feff}", "abc\\u{202e}fed\\u{200b}\\u{feff}"),
            ("e\u{301}", "e\u{301}"),
            ("\u{301}e\u{301}\u{302}\u{303}", "\\u{301}e\u{301}\u{302}\\u{303}"),
            ("名前 שם اسم", "名前 שם اسم"),
            ("👩\u{200d}👧 👍\u{1f3fd} ❤\u{fe0f}", "👩\\u{200d}👧 👍\\u{1f3fd} ❤\\u{fe0f}"),
            ("กี่ हिन्दी", "กี่ हिन्दी"),
            ("line\u{2028}line", "line\\u{2028}line"),
            ("bad\u{fffd}", "bad\u{fffd}"),
        ];
        for (raw, expected) in table {
            assert_eq!(clean(raw), expected, "{raw:?}");
        }
    }

    #[test]
    fn of_any_character_only_what_has_a_width_is_left() {
        for c in '\0'..=char::MAX {
            let shown = clean(&format!("a{c}"));
            for c in shown.chars().filter(|c| *c != '\n') {
                assert!(!c.is_control() && (columns(c) > 0 || is_mark(c)), "{c:?} of {shown:?}");
            }
            assert!(
                !shown.contains(['\u{200e}', '\u{200f}', '\u{202a}', '\u{202e}', '\u{2066}', '\u{2069}', '\u{61c}'])
            );
        }
    }

    #[test]
    fn a_cell_has_its_columns_whatever_is_in_it() {
        for text in ["", "abc", "名前名前", "e\u{301}e\u{301}e\u{301}e\u{301}", "a\nb\nc\nd\ne", "ab名"] {
            for columns in 0..8 {
                for side in [Side::Left, Side::Right] {
                    assert_eq!(width(&fit(text, columns, side)), columns, "{text:?} in {columns}");
                }
            }
        }
        assert_eq!(fit("名前名前", 4, Side::Left), "名… ");
        assert_eq!(fit("12", 4, Side::Right), "  12");
    }

    #[test]
    fn lines_break_at_blanks_and_have_no_more_than_their_columns() {
        assert_eq!(wrap("select * from orders\nwhere id = 1", 10), ["select *", "from", "orders", "where id =", "1"]);
        assert_eq!(wrap("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrap("", 3), [""]);
        for line in wrap("名前名前 a名前名前名前 bbbbbbbbbbbb", 5) {
            assert!(width(&line) <= 5, "{line}");
        }
    }
}
