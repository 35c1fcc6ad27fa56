//! All that a file or a URL says, read and found to be usable.
//!
//! Promises that SHOW CONFIG's rows follow from the values. Does not read anything, nor judge it.

use machine::Settings;

use crate::problem::{Place, Problem};
use crate::settings::Values;
use ::settings::{Key, TABLE};

/// All that a file says.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// What the program runs by; its `global` has what engine, log and console need, too.
    pub pooling: Settings,
    /// What SHOW CONFIG shows, in its order.
    pub rows: Vec<ConfigRow>,
    /// What the user should know, though the file can be used.
    pub warnings: Vec<Problem>,
    /// The name of the first entry of `[databases]` in the file, `*` too.
    pub first_database: Option<String>,
    pub(crate) values: Values,
}

/// A row of SHOW CONFIG.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigRow {
    pub key: &'static str,
    /// `None` is NULL: it has no value and no default.
    pub value: Option<String>,
    pub default: Option<&'static str>,
    /// Whether RELOAD and SET take it up.
    pub changeable: bool,
}

impl Config {
    /// An error about a setting that stands in this configuration.
    #[must_use]
    pub fn refused(&self, key: Key, found: &str, expected: &str) -> Problem {
        Problem::error(&self.place_of(key), key.name(), found.to_owned(), expected.to_owned())
    }

    /// Where a setting stands; the file as a whole, if it does not.
    pub(crate) fn place_of(&self, key: Key) -> Place {
        self.values.place(key).cloned().unwrap_or_else(|| self.whole_file())
    }

    pub(crate) fn whole_file(&self) -> Place {
        Place { file: self.pooling.global.listening.conffile.clone(), line: 0 }
    }
}

/// All parts of a `Config` that follow from the values.
pub(crate) fn assemble(values: Values, pooling: Settings, warnings: Vec<Problem>) -> Config {
    let rows = TABLE.iter().map(|setting| ConfigRow {
        key: setting.name,
        value: match setting.key {
            Key::workers => Some(pooling.workers.to_string()),
            key if values.is_null(key) => None,
            // Both hold secrets, and `stats_users` may run SHOW CONFIG.
            Key::auth_ldap_options if values.text(setting.key).contains("ldapbindpasswd") => Some("…".to_owned()),
            Key::otlp_headers if !values.text(setting.key).is_empty() => Some("…".to_owned()),
            key => Some(values.get(key).show()),
        },
        default: setting.default,
        changeable: setting.reloadable,
    });
    Config { rows: rows.collect(), pooling, warnings, first_database: None, values }
}
