//! One entry of `[databases]`, `[users]`, `[peers]` or `[classes]`: its parameters, read one by one.
//!
//! Promises that an empty value and -1 mean "not set", as in PgBouncer, and that what is no value of the parameter's
//! kind is told with file, line and parameter. Stricter than PgBouncer in one point: it reads `pool_size=ten` as 0.

use std::time::Duration;

use pooling::settings::{Fidelity, PoolMode, PoolSize};

use crate::pairs;
use crate::problem::{Place, Problem, quoted};
use crate::table::{self, FIDELITIES, POOL_MODES};
use crate::value::{INT_MAX, Kind, Value, one_of, seconds, whole};

/// One parameter of an entry, for the manual and for suggestions.
#[derive(Clone, Debug)]
pub struct Parameter {
    pub name: &'static str,
    pub doc: &'static str,
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
pub struct Parameters<'a> {
    pub entry: &'a Entry,
    pub problems: &'a mut Vec<Problem>,
}

impl Entry {
    /// `databases.app.pool_size`, as messages name it.
    #[must_use]
    pub fn key(&self, parameter: &str) -> String {
        let name: String = self.name.chars().take(63).filter(|c| !c.is_control()).collect();
        if parameter.is_empty() {
            format!("{}.{name}", self.section)
        } else {
            format!("{}.{name}.{parameter}", self.section)
        }
    }
}

impl Parameters<'_> {
    /// The pairs, none if they cannot be told apart.
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

    pub fn error(&mut self, parameter: &str, found: String, expected: &str) {
        let key = self.entry.key(parameter);
        self.problems.push(Problem::error(&self.entry.place, &key, found, expected.to_owned()));
    }

    pub fn warning(&mut self, parameter: &str, found: String, expected: &str) {
        let key = self.entry.key(parameter);
        self.problems.push(Problem::warning(&self.entry.place, &key, found, expected.to_owned()));
    }

    pub fn unknown(&mut self, parameter: &str, known: &[Parameter]) {
        let names: Vec<&str> = known.iter().map(|parameter| parameter.name).collect();
        let what = format!("a parameter of [{}]", self.entry.section);
        let key = self.entry.key(parameter);
        self.problems.push(Problem::unknown(&self.entry.place, &key, &what, &names));
    }

    pub fn text(&mut self, value: &str) -> Option<String> {
        (!value.is_empty()).then(|| value.to_owned())
    }

    pub fn count(&mut self, parameter: &str, value: &str) -> Option<u32> {
        self.number(parameter, value, 0, INT_MAX)
    }

    pub fn pool_size(&mut self, value: &str) -> Option<PoolSize> {
        if is_unset(value) {
            return None;
        }
        match Kind::Size.read(value) {
            Ok(Value::Number(number)) => u32::try_from(number).ok().map(PoolSize::Fixed),
            Ok(_) => Some(PoolSize::Auto),
            Err(expected) => {
                self.error("pool_size", quoted(value), &expected);
                None
            }
        }
    }

    pub fn port(&mut self, value: &str) -> Option<u16> {
        self.number("port", value, 1, 65535)
    }

    /// A whole number from `min` to `max`.
    pub fn number<T: TryFrom<i64>>(&mut self, parameter: &str, value: &str, min: i64, max: i64) -> Option<T> {
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
    pub fn time(&mut self, parameter: &str, value: &str) -> Option<Duration> {
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
    pub fn limit(&mut self, parameter: &str, value: &str) -> Option<Option<Duration>> {
        self.time(parameter, value).map(crate::settings::unless_zero)
    }

    pub fn flag(&mut self, parameter: &str, value: &str) -> Option<bool> {
        if is_unset(value) {
            return None;
        }
        match Kind::Flag.read(value) {
            Ok(Value::Number(number)) => Some(number != 0),
            _ => {
                self.error(parameter, quoted(value), &Kind::Flag.expected());
                None
            }
        }
    }

    pub fn pool_mode(&mut self, value: &str) -> Option<PoolMode> {
        match self.choice("pool_mode", value, POOL_MODES)? {
            "session" => Some(PoolMode::Session),
            "transaction" => Some(PoolMode::Transaction),
            _ => Some(PoolMode::Statement),
        }
    }

    pub fn pool_fidelity(&mut self, value: &str) -> Option<Fidelity> {
        match self.choice("pool_fidelity", value, FIDELITIES)? {
            "strict" => Some(Fidelity::Strict),
            "classic" => Some(Fidelity::Classic),
            _ => Some(Fidelity::Transparent),
        }
    }

    pub fn choice(&mut self, parameter: &str, value: &str, names: &'static [&'static str]) -> Option<&'static str> {
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
