//! The tracked parameters of the model world. Each has few values, so that a digit stands for one.

use std::collections::BTreeMap;

/// Names and values of settings.
pub type Settings = BTreeMap<String, String>;

pub const COUNT: usize = 6;

pub const NAMES: [&str; COUNT] =
    ["client_encoding", "DateStyle", "TimeZone", "standard_conforming_strings", "application_name", "IntervalStyle"];

/// Their names in lower case.
pub const LOWER: [&str; COUNT] =
    ["client_encoding", "datestyle", "timezone", "standard_conforming_strings", "application_name", "intervalstyle"];

/// The index of `application_name`.
pub const APPLICATION_NAME: usize = 4;

/// So many values of `application_name` are never drawn by chance: worlds made for classes use them.
pub const OF_CLASSES: u8 = 10;

/// The value of each parameter, as an index.
pub type Values = [u8; COUNT];

/// The values with which the model PostgreSQL starts: the first of each.
pub const DEFAULTS: Values = [0; COUNT];

/// As PostgreSQL would report them.
const VALUES: [&[&str]; COUNT] = [
    &["UTF8", "LATIN1", "SQL_ASCII"],
    &["ISO, MDY", "German, DMY", "SQL, YMD"],
    &["UTC", "Europe/Zurich", "Asia/Tokyo"],
    &["on", "off"],
    &[
        "",
        "psql",
        "it's a \\ name; really",
        "app0",
        "app1",
        "app2",
        "app3",
        "app4",
        "app5",
        "app6",
        "app7",
        "app8",
        "app9",
    ],
    &["postgres", "iso_8601", "sql_standard"],
];

#[must_use]
pub fn value(parameter: usize, digit: u8) -> &'static str {
    VALUES[parameter][usize::from(digit)]
}

/// How many values a client may draw by chance.
#[must_use]
pub fn choices(parameter: usize) -> u8 {
    let kept = if parameter == APPLICATION_NAME { OF_CLASSES } else { 0 };
    VALUES[parameter].len() as u8 - kept
}

/// The `application_name` of a class.
#[must_use]
pub fn of_class(index: usize) -> u8 {
    choices(APPLICATION_NAME) + index as u8
}

#[must_use]
pub fn index(name: &str) -> Option<usize> {
    NAMES.iter().position(|known| known.eq_ignore_ascii_case(name))
}

#[must_use]
pub fn digit(parameter: usize, value: &str) -> Option<u8> {
    VALUES[parameter].iter().position(|known| *known == value).map(|at| at as u8)
}

/// Settings that have these values.
#[must_use]
pub fn settings(values: Values) -> Settings {
    let named = |(parameter, &digit): (usize, &u8)| (LOWER[parameter].to_owned(), value(parameter, digit).to_owned());
    values.iter().enumerate().map(named).collect()
}

/// The values of settings; `setting` returns one by name.
#[must_use]
pub fn values<'s>(setting: impl Fn(&str) -> &'s str) -> Values {
    std::array::from_fn(|parameter| {
        let found = digit(parameter, setting(LOWER[parameter]));
        found.expect("a reported parameter has no other values")
    })
}

/// Writes a SET that means the same whatever standard_conforming_strings says.
#[must_use]
pub fn set_text(parameter: usize, digit: u8) -> String {
    let escaped = value(parameter, digit).replace('\\', "\\\\").replace('\'', "''");
    format!("set {} = E'{escaped}'", NAMES[parameter])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Command;

    #[test]
    fn what_is_set_is_understood() {
        for (parameter, values) in VALUES.iter().enumerate() {
            for digit in 0..values.len() as u8 {
                let text = set_text(parameter, digit);
                let wanted = vec![value(parameter, digit).to_owned()];
                let Some(Command::Set { name, value, local: false }) = Command::parse(&text) else { panic!("{text}") };
                assert_eq!((index(&name), value), (Some(parameter), Some(wanted)), "{text}");
            }
        }
    }
}
