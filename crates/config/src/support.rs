//! What PgBouncer has and this program does not have yet.
//!
//! Promises that nothing is silently weaker than the file says: what would allow a login, or send in the clear what
//! should be encrypted, is an error; what merely has no effect is a warning, and only if it was changed.

use crate::encryption;
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
        if setting.effect == Effect::Partly {
            problems.extend(refused(values, setting.key));
        }
    }
    if values.text(Key::auth_dbname) == connections::databases::CONSOLE_DATABASE {
        let place = values.place(Key::auth_dbname).cloned().unwrap_or_default();
        let expected = "another database: cannot use the reserved \"pgbouncer\" database as an auth_dbname".to_owned();
        let found = quoted(values.text(Key::auth_dbname));
        problems.push(Problem::error(&place, Key::auth_dbname.name(), found, expected));
    }
    problems.extend(encryption::judge(values));
    let facility = values.text(Key::syslog_facility);
    if values.get(Key::syslog) != &Value::Number(0) && !FACILITIES.contains(&facility) {
        let place = values.place(Key::syslog_facility).cloned().unwrap_or_default();
        let expected = "auth, authpriv, daemon, user or local0 to local7; daemon it is".to_owned();
        problems.push(Problem::warning(&place, Key::syslog_facility.name(), quoted(facility), expected));
    }
    if let Some(place) = peers.filter(|_| values.is_default(Key::peer_id)) {
        let found = "an entry".to_owned();
        let expected = "peer_id to be set: without it cancel requests are not passed on".to_owned();
        problems.push(Problem::warning(place, "peers", found, expected));
    }
    problems
}

fn refused(values: &Values, key: Key) -> Option<Problem> {
    let found = values.get(key).show();
    let (is_error, expected) = match (key, found.as_str()) {
        (Key::chaos_check | Key::chaos_close | Key::chaos_poison | Key::chaos_rotate, number)
            if number != "0" && !is_chaos_allowed() =>
        {
            (true, "0: this is for tests of the pooler itself, and needs PGWEIR_CHAOS=1 in its environment")
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
