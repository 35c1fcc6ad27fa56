//! Where the secret of a login's user is looked up.
//!
//! //= pgbouncer config.md#auth_query

use std::sync::Arc;

use connections::databases::{CONSOLE_DATABASE, Database};
use machine::Settings;
use settings::AUTH_QUERY;

/// Asked in place of the default `auth_query`, which names neither the table's schema nor the operator's, and has no
/// `valid_until`.
const QUALIFIED: &str = "SELECT rolname, rolpassword, rolvaliduntil FROM pg_catalog.pg_authid \
    WHERE rolname OPERATOR(pg_catalog.=) $1 AND rolcanlogin";

/// A lookup database: what its connection is opened for. Each has one connection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target {
    /// The name of its entry in `[databases]`.
    pub(super) database: Arc<str>,
    /// `auth_user`.
    pub(super) user: Arc<str>,
    pub(super) query: Arc<str>,
}

/// What is to be done for a user who is not in auth_file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// No `auth_user` is set, or no database is there to look in: nobody is known beyond auth_file.
    None,
    To(Target),
    /// The settings are wrong, and how, for the log.
    Wrong(String),
    /// An administrator has disabled it. Its name.
    Disabled(String),
}

impl Route {
    /// For a client that has named this database.
    pub(super) fn find(settings: &Settings, database: &str) -> Route {
        let global = &settings.global.login;
        let entry = settings.database(database);
        let own = entry.as_deref();
        let Some(user) = own.and_then(|own| own.auth_user.as_ref()).or(global.auth_user.as_ref()) else {
            return Route::None;
        };
        let named = own.and_then(|own| own.auth_dbname.as_deref()).or(global.auth_dbname.as_deref());
        let name = named.unwrap_or(database);
        if name == CONSOLE_DATABASE {
            let text = "cannot use the reserved \"pgbouncer\" database as an auth_dbname";
            return Route::Wrong(text.to_owned());
        }
        if settings.database(name).is_none() {
            return match named {
                Some(_) => Route::Wrong(format!("authentication database \"{name}\" is not configured")),
                // It is told after the password that there is no such database.
                None => Route::None,
            };
        }
        if settings.orders.of(name).disabled {
            return Route::Disabled(name.to_owned());
        }
        let query = own.and_then(|own| own.auth_query.as_deref()).unwrap_or(&global.auth_query);
        let query = if query == AUTH_QUERY { QUALIFIED } else { query };
        Route::To(Target { database: name.into(), user: user.as_str().into(), query: query.into() })
    }
}

/// Whether a connection for the entry `old` is as good as one for `new`, if its host is still listed.
pub(super) fn is_same_place(new: &Database, old: &Database) -> bool {
    new.name_at_server() == old.name_at_server() && new.hosts.iter().any(|host| old.hosts.contains(host))
}

#[cfg(test)]
mod tests {
    use connections::databases::Database;

    use super::*;

    fn settings(change: impl FnOnce(&mut Settings, &mut Database)) -> Settings {
        let mut settings = Settings::default();
        let mut database = Database::new("app", Vec::new());
        change(&mut settings, &mut database);
        settings.databases.insert("lookups".to_owned(), Arc::new(Database::new("lookups", Vec::new())));
        settings.databases.insert("app".to_owned(), Arc::new(database));
        settings
    }

    fn target(database: &str, user: &str, query: &str) -> Route {
        Route::To(Target { database: database.into(), user: user.into(), query: query.into() })
    }

    #[test]
    fn a_databases_own_words_come_first() {
        let without = settings(|_, _| ());
        assert_eq!(Route::find(&without, "app"), Route::None);
        let global = settings(|settings, _| settings.global.login.auth_user = Some("asker".to_owned()));
        assert_eq!(Route::find(&global, "app"), target("app", "asker", QUALIFIED));
        let own = settings(|settings, app| {
            settings.global.login.auth_user = Some("asker".to_owned());
            settings.global.login.auth_dbname = Some("nowhere".to_owned());
            app.auth_user = Some("other".to_owned());
            app.auth_dbname = Some("lookups".to_owned());
            app.auth_query = Some("select 1".to_owned());
        });
        assert_eq!(Route::find(&own, "app"), target("lookups", "other", "select 1"));
    }

    #[test]
    fn a_lookup_database_that_cannot_be_one_is_said_in_the_log() {
        let asking = |auth_dbname: Option<&str>| {
            settings(|settings, _| {
                settings.global.login.auth_user = Some("asker".to_owned());
                settings.global.login.auth_dbname = auth_dbname.map(str::to_owned);
            })
        };
        let reserved = "cannot use the reserved \"pgbouncer\" database as an auth_dbname".to_owned();
        assert_eq!(Route::find(&asking(None), "pgbouncer"), Route::Wrong(reserved.clone()));
        assert_eq!(Route::find(&asking(Some("pgbouncer")), "app"), Route::Wrong(reserved));
        let missing = "authentication database \"nowhere\" is not configured".to_owned();
        assert_eq!(Route::find(&asking(Some("nowhere")), "app"), Route::Wrong(missing));
        assert_eq!(Route::find(&asking(Some("lookups")), "pgbouncer"), target("lookups", "asker", QUALIFIED));
        assert_eq!(Route::find(&asking(None), "nowhere"), Route::None);
    }
}
