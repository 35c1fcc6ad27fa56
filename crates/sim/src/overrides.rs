//! Settings that override a seed's decisions, by the names and values of the configuration file.
//!
//! Every setting of the table can be given, so new ones work without a change here. The random draws of a seed do not
//! change.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::settings::value::Value;
use ::settings::{Setting, table};
use machine::Settings;

#[derive(Clone, Debug, Default)]
pub struct Overrides {
    given: BTreeMap<&'static str, Given>,
}

#[derive(Clone, Debug)]
struct Given {
    setting: &'static Setting,
    value: Value,
    /// The text as given.
    text: String,
}

impl Overrides {
    /// Adds `name=value`.
    ///
    /// # Errors
    /// There is no such setting, or it cannot have this value.
    pub fn add(&mut self, text: &str) -> Result<(), String> {
        let (name, value) = text.split_once('=').ok_or_else(|| format!("'{text}' is no name=value"))?;
        let setting = table::find(name).ok_or_else(|| format!("there is no setting '{name}'"))?;
        let read = setting.read(value).map_err(|expected| format!("{name} is {expected}, not '{value}'"))?;
        self.given.insert(setting.name, Given { setting, value: read, text: text.to_owned() });
        Ok(())
    }

    /// Applies them everywhere: no database and no user keeps a value of its own.
    pub fn apply(&self, settings: &mut Settings) {
        for given in self.given.values() {
            let key = given.setting.key;
            settings.global.set(key, &given.value);
            for database in settings.databases.values_mut().chain(&mut settings.fallback) {
                Arc::make_mut(database).settings.set(key, None);
            }
            settings.users.values_mut().for_each(|user| user.set(key, None));
        }
    }

    /// The texts as given.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.given.values().map(|given| given.text.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::wishes::Wishes;
    use settings::PoolMode;
    use units::PoolKey;

    #[test]
    fn every_setting_of_the_table_can_be_given() {
        for setting in table::TABLE {
            let mut set = Overrides::default();
            let text = format!("{}={}", setting.name, setting.default.unwrap_or_default());
            assert_eq!(set.add(&text), Ok(()), "{text}");
            set.apply(&mut Settings::default());
            assert_eq!(set.iter().collect::<Vec<_>>(), [text.as_str()]);
        }
        let mut set = Overrides::default();
        assert!(set.add("no_such=1").is_err() && set.add("pool_mode").is_err() && set.add("pool_mode=off").is_err());
    }

    #[test]
    fn what_is_given_holds_for_every_database_and_after_a_reload() {
        let wishes = |set: &Overrides| Wishes { seed: 7, set: set.clone(), ..Wishes::default() };
        let mut set = Overrides::default();
        let drawn = Plan::new(&wishes(&set));
        for text in ["pool_mode=statement", "max_prepared_statements=3"] {
            set.add(text).expect("it is a setting");
        }
        let mut plan = Plan::new(&wishes(&set));
        plan.reload(&mut crate::random::Random::new(1));
        for name in plan.settings.databases.keys() {
            let key = PoolKey { database: name.as_str().into(), user: "user0".into() };
            assert_eq!(plan.mode(&key), PoolMode::Statement);
        }
        assert_eq!(plan.settings.global.startup.max_prepared_statements, 3);
        assert_eq!(plan.extent.clients, drawn.extent.clients, "all else is as the seed decides");
    }
}
