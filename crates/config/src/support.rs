//! What PgBouncer has and this program does not have yet.
//!
//! Promises that nothing is silently weaker than the file says: what would allow a login, or send in the clear what
//! should be encrypted, is an error; what merely has no effect is a warning, and only if it was changed.

use crate::problem::{Place, Problem, quoted};
use crate::settings::Values;
use ::settings::value::Value;
use ::settings::{Effect, Key, TABLE};

/// What PgBouncer knows; any other name is `daemon` to it.
//= pgbouncer config.md#syslog_facility
const FACILITIES: [&str; 12] = [
    "auth", "authpriv", "daemon", "user", "local0", "local1", "local2", "local3", "local4", "local5", "local6",
    "local7",
];

/// Judges the values of `[pgbouncer]`; `peers` is where `[peers]` has an entry of another process.
#[must_use]
pub(crate) fn judge(values: &Values, peers: Option<&Place>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for setting in TABLE {
        match setting.effect {
            Effect::NotYet if !values.is_default(setting.key) => problems.extend(without_effect(values, setting.key)),
            Effect::Partly => problems.extend(refused(values, setting.key)),
            _ => {}
        }
    }
    let facility = values.text(Key::syslog_facility);
    if values.get(Key::syslog) != &Value::Number(0) && !FACILITIES.contains(&facility) {
        let place = values.place(Key::syslog_facility).cloned().unwrap_or_default();
        let expected = "auth, authpriv, daemon, user or local0 to local7; daemon it is".to_owned();
        problems.push(Problem::warning(&place, Key::syslog_facility.name(), quoted(facility), expected));
    }
    if let Some(place) = peers {
        let found = "an entry".to_owned();
        let expected = "none: passing cancel requests on to peers is not supported yet".to_owned();
        problems.push(Problem::warning(place, "peers", found, expected));
    }
    problems
}

fn without_effect(values: &Values, key: Key) -> Option<Problem> {
    if is_moot(values, key) {
        return None;
    }
    let place = values.place(key).cloned().unwrap_or_default();
    let found = quoted(&values.get(key).show());
    if key == Key::auth_dbname && values.text(key) == connections::databases::CONSOLE_DATABASE {
        let expected = "another database: this one is the console's".to_owned();
        return Some(Problem::error(&place, key.name(), found, expected));
    }
    let default = quoted(&key.setting().default_value().show());
    let expected = format!("{default}: it is not supported yet and has no effect");
    Some(Problem::warning(&place, key.name(), found, expected))
}

/// What PgBouncer would not look at either, given the other settings.
fn is_moot(values: &Values, key: Key) -> bool {
    match key {
        // Used with auth_user only, and that is refused.
        Key::auth_query => true,
        // The mode decides, and it has a message of its own.
        Key::client_tls_ca_file
        | Key::client_tls_cert_file
        | Key::client_tls_key_file
        | Key::client_tls_ciphers
        | Key::client_tls13_ciphers
        | Key::client_tls_dheparams
        | Key::client_tls_ecdhcurve
        | Key::client_tls_protocols => true,
        Key::server_tls_ca_file
        | Key::server_tls_cert_file
        | Key::server_tls_key_file
        | Key::server_tls_ciphers
        | Key::server_tls13_ciphers
        | Key::server_tls_protocols => values.choice(Key::server_tls_sslmode) == "disable",
        _ => false,
    }
}

fn refused(values: &Values, key: Key) -> Option<Problem> {
    let found = values.get(key).show();
    let (is_error, expected) = match (key, found.as_str()) {
        (Key::auth_type, "cert" | "hba" | "ldap" | "pam") => {
            (true, "any, trust, plain, md5 or scram-sha-256: this one is not supported yet")
        }
        (Key::auth_user, user) if !user.is_empty() => {
            (false, "nothing, and all users in auth_file: auth_query is not supported yet, so others are refused")
        }
        (Key::chaos_check | Key::chaos_close | Key::chaos_poison | Key::chaos_rotate, number)
            if number != "0" && !is_chaos_allowed() =>
        {
            (true, "0: this is for tests of the pooler itself, and needs PGWEIR_CHAOS=1 in its environment")
        }
        (Key::disable_pqexec, number) if number != "0" => (true, "0: forbidding simple queries is not supported yet"),
        (Key::client_tls_sslmode, "allow" | "prefer") => {
            (false, "disable: TLS is not supported yet, clients that ask for it are told to go on without")
        }
        (Key::client_tls_sslmode, mode) if mode != "disable" => {
            (true, "disable: TLS is not supported yet, and clients could not log in without it")
        }
        (Key::server_tls_sslmode, "disable" | "allow" | "prefer") => return None,
        (Key::server_tls_sslmode, _) => {
            (true, "disable, allow or prefer: TLS is not supported yet, and passwords would travel without it")
        }
        _ => return None,
    };
    let place = values.place(key).cloned().unwrap_or_default();
    let make = if is_error { Problem::error } else { Problem::warning };
    Some(make(&place, key.name(), quoted(&found), expected.to_owned()))
}

/// Only this variable enables them: a file copied from a test does no harm.
fn is_chaos_allowed() -> bool {
    std::env::var_os("PGWEIR_CHAOS").is_some_and(|value| value == "1")
}
