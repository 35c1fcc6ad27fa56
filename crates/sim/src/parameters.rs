//! The tracked parameters of the model world: few values each, so that a digit names one.

pub const COUNT: usize = 6;

pub const NAMES: [&str; COUNT] =
    ["client_encoding", "DateStyle", "TimeZone", "standard_conforming_strings", "application_name", "IntervalStyle"];

/// Which of its values each parameter has.
pub type Values = [u8; COUNT];

/// What the model PostgreSQL starts with: the first value of each.
pub const DEFAULTS: Values = [0; COUNT];

/// As PostgreSQL would report them.
const VALUES: [&[&str]; COUNT] = [
    &["UTF8", "LATIN1", "SQL_ASCII"],
    &["ISO, MDY", "German, DMY", "SQL, YMD"],
    &["UTC", "Europe/Zurich", "Asia/Tokyo"],
    &["on", "off"],
    &["", "psql", "it's a \\ name; really"],
    &["postgres", "iso_8601", "sql_standard"],
];

#[must_use]
pub fn value(parameter: usize, digit: u8) -> &'static str {
    VALUES[parameter][usize::from(digit)]
}

#[must_use]
pub fn choices(parameter: usize) -> u8 {
    VALUES[parameter].len() as u8
}

#[must_use]
pub fn index(name: &str) -> Option<usize> {
    NAMES.iter().position(|known| known.eq_ignore_ascii_case(name))
}

#[must_use]
pub fn digit(parameter: usize, value: &str) -> Option<u8> {
    VALUES[parameter].iter().position(|known| *known == value).map(|at| at as u8)
}

/// `name = 'value'`, what follows SET. `None`: an unknown name or value.
#[must_use]
pub fn parse_set(text: &str) -> Option<(usize, u8)> {
    let (name, literal) = text.split_once('=')?;
    let parameter = index(name.trim())?;
    let value = unquote(literal.trim())?;
    digit(parameter, &value).map(|digit| (parameter, digit))
}

/// Writes a SET that means the same whatever standard_conforming_strings says.
#[must_use]
pub fn set_text(parameter: usize, digit: u8) -> String {
    let escaped = value(parameter, digit).replace('\\', "\\\\").replace('\'', "''");
    format!("set {} = E'{escaped}'", NAMES[parameter])
}

fn unquote(literal: &str) -> Option<String> {
    let literal = literal.strip_prefix(['E', 'e']).unwrap_or(literal);
    let inside = literal.strip_prefix('\'')?.strip_suffix('\'')?;
    let mut value = String::new();
    let mut letters = inside.chars();
    while let Some(letter) = letters.next() {
        // Both a doubled quote and an escaped letter stand for the second of the two.
        value.push(if matches!(letter, '\'' | '\\') { letters.next()? } else { letter });
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_understood() {
        for (parameter, values) in VALUES.iter().enumerate() {
            for digit in 0..values.len() as u8 {
                let text = set_text(parameter, digit);
                assert_eq!(parse_set(&text[4..]), Some((parameter, digit)), "{text}");
            }
        }
        assert_eq!(parse_set("TimeZone='Mars/Olympus'"), None);
        assert_eq!(parse_set("application_name=''"), Some((4, 0)));
    }
}
