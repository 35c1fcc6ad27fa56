//! One entry of `[databases]`, `[users]`, `[peers]` or `[classes]`: its parameters, read one by one.
//!
//! Promises that an empty value and -1 mean "not set", as in PgBouncer, and that what is no value of the parameter's
//! kind is reported with file, line and parameter. Stricter than PgBouncer in one point: it reads `pool_size=ten` as 0.

use std::borrow::Cow;
use std::time::Duration;

use ::settings::{DatabaseSettings, Key};

use crate::pairs;
use crate::problem::{Place, Problem, quoted};
use ::settings::table;
use ::settings::value::{INT_MAX, Kind, Value, one_of, seconds, whole};

/// One parameter of an entry, for the manual and for suggestions.
#[derive(Clone, Debug)]
pub struct Parameter {
    pub name: &'static str,
    pub doc: Cow<'static, str>,
}

impl Parameter {
    #[must_use]
    pub(crate) const fn new(name: &'static str, doc: &'static str) -> Parameter {
        Parameter { name, doc: Cow::Borrowed(doc) }
    }

    /// One that stands in place of the global setting of the key, and of the database's if `is_users`.
    #[must_use]
    pub(crate) fn in_place_of(name: &'static str, key: Key, is_users: bool) -> Parameter {
        let setting = key.setting();
        let database = if is_users && DatabaseSettings::key(name).is_some() { "the database's and " } else { "" };
        let global = if setting.name == name { "the global setting" } else { setting.name };
        let size = if setting.kind == Kind::Size { ": a number, or auto" } else { "" };
        Parameter { name, doc: format!("In place of {database}{global}{size}.").into() }
    }
}

/// The text of an entry, as the file has it.
#[derive(Clone, Debug)]
pub struct Entry {
    pub place: Place,
    pub section: &'static str,
    pub name: String,
    pub text: String,
}

/// Where the parameters of one entry are read and its problems gathered.
pub struct EntryReader<'a> {
    pub entry: &'a Entry,
    pub problems: &'a mut Vec<Problem>,
}

impl Entry {
    /// `databases.app.pool_size`, as messages name it.
    #[must_use]
    pub(crate) fn key(&self, parameter: &str) -> String {
        let name: String = self.name.chars().take(63).filter(|c| !c.is_control()).collect();
        if parameter.is_empty() {
            format!("{}.{name}", self.section)
        } else {
            format!("{}.{name}.{parameter}", self.section)
        }
    }
}

impl EntryReader<'_> {
    /// The pairs; none if they cannot be separated.
    pub fn pairs(&mut self) -> Vec<(String, String)> {
        match pairs::parse(&self.entry.text) {
            Ok(pairs) => {
                for (index, (key, _)) in pairs.iter().enumerate() {
                    if pairs[..index].iter().any(|(earlier, _)| earlier == key) {
                        self.warning(key, "a second one".to_owned(), "one: the last one counts");
                    }
                }
                pairs
            }
            Err(found) => {
                let name = &self.entry.name;
                let expected = match table::find(name) {
                    Some(_) => format!("{name} under [pgbouncer], where it is a setting"),
                    None => "key=value, with '' around a value that has blanks".to_owned(),
                };
                self.error("", found, &expected);
                Vec::new()
            }
        }
    }

    pub(crate) fn error(&mut self, parameter: &str, found: String, expected: &str) {
        let key = self.entry.key(parameter);
        self.problems.push(Problem::error(&self.entry.place, &key, found, expected.to_owned()));
    }

    pub(crate) fn warning(&mut self, parameter: &str, found: String, expected: &str) {
        let key = self.entry.key(parameter);
        self.problems.push(Problem::warning(&self.entry.place, &key, found, expected.to_owned()));
    }

    pub(crate) fn unknown(&mut self, parameter: &str, known: &[Parameter]) {
        let names: Vec<&str> = known.iter().map(|parameter| parameter.name).collect();
        let what = format!("a parameter of [{}]", self.entry.section);
        let key = self.entry.key(parameter);
        self.problems.push(Problem::unknown(&self.entry.place, &key, &what, &names));
    }

    pub(crate) fn text(&mut self, value: &str) -> Option<String> {
        (!value.is_empty()).then(|| value.to_owned())
    }

    /// What stands in place of a global setting; `None`: nothing does.
    pub(crate) fn setting(&mut self, parameter: &str, key: Key, value: &str) -> Option<Value> {
        let kind = key.setting().kind;
        let takes_minus = matches!(kind, Kind::Choice(_));
        if value.is_empty() || (is_unset(value) && !takes_minus) {
            return None;
        }
        match kind.read(value) {
            Ok(value) => Some(value),
            Err(expected) => {
                self.error(parameter, quoted(value), &expected);
                None
            }
        }
    }

    pub(crate) fn count(&mut self, parameter: &str, value: &str) -> Option<u32> {
        self.number(parameter, value, 0, INT_MAX)
    }

    pub(crate) fn port(&mut self, value: &str) -> Option<u16> {
        self.number("port", value, 1, 65535)
    }

    /// A whole number from `min` to `max`.
    pub(crate) fn number<T: TryFrom<i64>>(&mut self, parameter: &str, value: &str, min: i64, max: i64) -> Option<T> {
        if is_unset(value) {
            return None;
        }
        let number = whole(value).filter(|n| (min..=max).contains(n));
        if number.is_none() {
            let expected = Kind::Count(min, max, "").expected();
            self.error(parameter, quoted(value), &expected);
        }
        number.and_then(|n| T::try_from(n).ok())
    }

    /// `Some(ZERO)` is a 0 in the file.
    pub(crate) fn time(&mut self, parameter: &str, value: &str) -> Option<Duration> {
        if is_unset(value) {
            return None;
        }
        let time = seconds(value);
        if time.is_none() {
            self.error(parameter, quoted(value), &Kind::Seconds.expected());
        }
        time
    }

    /// A time of which 0 means that it is switched off.
    pub(crate) fn limit(&mut self, parameter: &str, value: &str) -> Option<Option<Duration>> {
        self.time(parameter, value).map(|time| (!time.is_zero()).then_some(time))
    }

    pub(crate) fn choice(
        &mut self,
        parameter: &str,
        value: &str,
        names: &'static [&'static str],
    ) -> Option<&'static str> {
        if value.is_empty() {
            return None;
        }
        match Kind::Choice(names).read(value) {
            Ok(Value::Choice(name)) => Some(name),
            _ => {
                self.error(parameter, quoted(value), &one_of(names));
                None
            }
        }
    }
}

fn is_unset(value: &str) -> bool {
    value.is_empty() || value == "-1"
}
