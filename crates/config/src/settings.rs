//! The values of `[pgbouncer]` as a file sets them, and the settings that follow.
//!
//! Promises that SHOW CONFIG shows what the file says, and that the program runs by the same. Does not judge whether values make sense together: `support` and `explain` do.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ::settings::{Global, Key, Origin, ROWS, Setting, TABLE};
use auth::Secret;
use machine::Settings;
use queueing::classes::Classes;

use crate::built::Built;
use crate::problem::Place;
use ::settings::value::Value;

/// A hundred years, and no arithmetic overflows.
const NEVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// One value for each row of the table, with the place where it was set.
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    values: Vec<Value>,
    places: Vec<Option<Place>>,
    /// What the program that reads them was built with.
    pub(crate) built: Built,
    /// Users that URLs name. They count more than auth_file's.
    pub(crate) url_users: BTreeMap<String, Secret>,
}

impl Default for Values {
    fn default() -> Values {
        let values = ROWS.iter().map(Setting::default_value).collect();
        Values { values, places: vec![None; ROWS.len()], built: Built::default(), url_users: BTreeMap::new() }
    }
}

impl Values {
    pub(crate) fn set(&mut self, key: Key, value: Value, place: Option<Place>) {
        self.values[key as usize] = value;
        self.places[key as usize] = place;
    }

    /// What `[pgbouncer]` does when it begins: all go back to their default, but those of which PgBouncer's is NULL, and our own: they
    /// may stand in a file that includes PgBouncer's. Returns the names of those that lost a value.
    pub(crate) fn restart(&mut self) -> Vec<&'static str> {
        let mut lost = Vec::new();
        let is_lost = |setting: &&&Setting| setting.default.is_some() && setting.origin == Origin::PgBouncer;
        for setting in TABLE.iter().filter(is_lost) {
            let value = setting.default_value();
            if self.get(setting.key) != &value {
                lost.push(setting.name);
            }
            self.set(setting.key, value, None);
        }
        lost
    }

    #[must_use]
    pub(crate) fn get(&self, key: Key) -> &Value {
        &self.values[key as usize]
    }

    /// Where the value comes from, if not from the table.
    #[must_use]
    pub(crate) fn place(&self, key: Key) -> Option<&Place> {
        self.places[key as usize].as_ref()
    }

    /// Whether it is PgBouncer's NULL: a setting without a default that was not set, not even to an empty value.
    /// Numbers are never NULL.
    #[must_use]
    pub(crate) fn is_null(&self, key: Key) -> bool {
        let is_empty = matches!(self.get(key), Value::Text(text) if text.is_empty());
        is_empty && key.setting().default.is_none() && self.place(key).is_none()
    }

    #[must_use]
    pub(crate) fn is_default(&self, key: Key) -> bool {
        *self.get(key) == key.setting().default_value()
    }

    #[must_use]
    pub(crate) fn text(&self, key: Key) -> &str {
        match self.get(key) {
            Value::Text(text) => text,
            other => unreachable!("{} is text, not {other:?}", key.name()),
        }
    }

    #[must_use]
    pub(crate) fn choice(&self, key: Key) -> &'static str {
        match self.get(key) {
            Value::Choice(name) => name,
            other => unreachable!("{} is a choice, not {other:?}", key.name()),
        }
    }

    /// As the program uses them.
    #[must_use]
    pub(crate) fn typed(&self) -> Global {
        let mut global = Global::default();
        for setting in &ROWS {
            global.set(setting.key, self.get(setting.key));
        }
        // PgBouncer takes 0 too. Its period is then as short as its event loop's rounds.
        let period = &mut global.console.stats_period;
        *period = (*period).max(Duration::from_secs(1));
        global
    }
}

/// The settings of the decisions, without databases, users, secrets, classes and rules. `cores` is what `workers = 0` stands for.
#[must_use]
pub(crate) fn pooling(values: &Values, cores: u16) -> Settings {
    let global = values.typed();
    let workers = match global.listening.workers {
        0 => cores.max(1),
        chosen => u16::try_from(chosen).expect("the table bounds workers by 1024"),
    };
    Settings {
        workers,
        // A guess, as good where PostgreSQL is here as it is anywhere.
        auto_pool_size_start: (2 * u32::from(cores)).clamp(4, 32),
        classes: Arc::new(Classes { ageing: ageing(&global), ..Classes::default() }),
        global,
        ..Settings::default()
    }
}

/// How long it takes to count as of one priority more. Never: longer than any wait.
#[must_use]
pub(crate) fn ageing(global: &Global) -> Duration {
    global.classes.class_ageing.unwrap_or(NEVER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_file_the_defaults_of_the_decisions_come_out() {
        let mut settings = pooling(&Values::default(), 1);
        settings.workers = 1;
        assert_eq!(settings, Settings::default());
    }

    #[test]
    fn workers_follow_the_cores_unless_set() {
        let mut values = Values::default();
        assert_eq!(pooling(&values, 8).workers, 8);
        assert_eq!(pooling(&values, 0).workers, 1);
        values.set(Key::workers, Value::Number(3), None);
        assert_eq!(pooling(&values, 8).workers, 3);
    }
}
