//! What a `console` block of the documentation shows, and whether a terminal shows it.
//!
//! A line behind `$` is a command of the shell; the lines below are found in this order in what it prints, numbers and the width
//! of columns aside; `…` stands for any text.

use crate::examples::Block;

/// Numbers, widths and rules of tables aside.
fn normal(line: &str) -> String {
    let mut out = String::new();
    for c in line.chars() {
        match c {
            '0'..='9' if out.ends_with('#') => {}
            '0'..='9' => out.push('#'),
            '.' if out.ends_with('#') => {}
            '-' if out.ends_with('-') => {}
            c if c.is_whitespace() && (out.is_empty() || out.ends_with([' ', '|'])) => {}
            c if c.is_whitespace() => out.push(' '),
            '|' => {
                out.truncate(out.trim_end().len());
                out.push('|');
            }
            c => out.push(c),
        }
    }
    out.trim_end().to_owned()
}

fn is_rule(line: &str) -> bool {
    !line.is_empty() && line.chars().all(|c| matches!(c, '-' | '+' | '…' | ' '))
}

/// Whether a line is as it is shown.
#[must_use]
pub fn is_shown(line: &str, shown: &str) -> bool {
    let (line, mut parts) = (normal(line), shown.split('…').map(normal).collect::<Vec<_>>());
    let last = parts.pop().unwrap_or_default();
    if parts.is_empty() {
        return line == last;
    }
    let mut rest = match line.strip_prefix(parts.remove(0).as_str()) {
        Some(rest) => rest,
        None => return false,
    };
    for part in parts {
        match rest.split_once(part.as_str()) {
            Some((_, behind)) => rest = behind,
            None => return false,
        }
    }
    rest.ends_with(last.as_str())
}

/// Commands, each with what is shown of its output.
///
/// # Panics
/// If the block begins with no command.
#[must_use]
pub fn commands(block: &Block) -> Vec<(String, Vec<String>)> {
    let mut commands: Vec<(String, Vec<String>)> = Vec::new();
    for line in block.text.lines() {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command.to_owned(), Vec::new())),
            (None, Some((_, shown))) if !line.is_empty() && !is_rule(line) => shown.push(line.to_owned()),
            (None, Some(_)) => {}
            (None, None) => panic!("{}: it begins with no command", block.place),
        }
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_compared_but_for_numbers_and_widths() {
        assert!(is_shown(
            "tps = 8103.5 (without initial connection time)",
            "tps = 23019.279294 (without initial connection time)"
        ));
        assert!(is_shown(" postgres |  postgres |   0 |", " postgres  | postgres  |         7 |"));
        assert!(is_shown(" a | 1 | x | y | 9", " a | 2 | … | 7"));
        assert!(is_shown("DETAIL:  place=1 of 1 expected_wait_ms=17", "DETAIL:  place=3 of 4…"));
        assert!(!is_shown("ERROR:  other", "ERROR:  canceling statement"));
        assert!(!is_shown(" a | 1 | x", " a | 2 | … | b"));
    }
}
