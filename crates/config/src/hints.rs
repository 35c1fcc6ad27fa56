//! Words for mistakes that people make in a file: a name of another section, a comment behind a value, a time with a unit.
//!
//! Promises a hint only where it is likely to be what was meant. The settings decide which values are mistakes.

use ::settings::DatabaseSettings;
use ::settings::table;
use ::settings::value::Kind;

use crate::databases;
use crate::problem::quoted;

/// For a name that is no setting of `[pgbouncer]`.
pub(crate) fn of_name(name: &str) -> Option<String> {
    if let Some(key) = DatabaseSettings::key(name) {
        let global = key.name();
        return Some(format!("{name} is for an entry of [databases]; for all databases it is {global}"));
    }
    if databases::parameters().iter().any(|parameter| parameter.name == name) {
        return Some(format!("{name} is for an entry of [databases]"));
    }
    let [client, server] = ["client", "server"].map(|side| format!("{side}_{name}"));
    let is_of_both = name.starts_with("tls_") && [&client, &server].iter().all(|name| table::find(name).is_some());
    is_of_both.then(|| format!("{client} is for connections from clients, {server} for those to PostgreSQL"))
}

/// For a value that a setting of this kind does not take.
pub(crate) fn of_value(kind: Kind, text: &str) -> Option<String> {
    if let Some(end) = text.find([';', '#'])
        && kind.read(text[..end].trim_end()).is_ok()
    {
        return Some("a comment has a line of its own".to_owned());
    }
    let seconds = seconds(text).filter(|_| matches!(kind, Kind::Seconds | Kind::Count(_, _, "seconds")))?;
    kind.read(&seconds.to_string()).is_ok().then(|| format!("{} is {seconds}", quoted(text)))
}

/// The seconds of a time with a unit of PostgreSQL's.
//= pg18 config-setting#CONFIG-SETTING-NAMES-VALUES
fn seconds(text: &str) -> Option<f64> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    let number: f64 = number.trim_end().parse().ok()?;
    let factor = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    Some(number * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_another_section_is_known() {
        let size = "pool_size is for an entry of [databases]; for all databases it is default_pool_size";
        assert_eq!(of_name("pool_size").as_deref(), Some(size));
        assert_eq!(of_name("timezone").as_deref(), Some("timezone is for an entry of [databases]"));
        let tls = "client_tls_key_file is for connections from clients, server_tls_key_file for those to PostgreSQL";
        assert_eq!(of_name("tls_key_file").as_deref(), Some(tls));
        assert_eq!(of_name("tls_nonsense"), None);
        assert_eq!(of_name("pool_syze"), None);
    }

    #[test]
    fn a_value_with_more_than_a_value_is_known() {
        let count = Kind::Count(0, 1000, "seconds");
        assert_eq!(of_value(count, "20 ; for the night").as_deref(), Some("a comment has a line of its own"));
        assert_eq!(of_value(count, "20 # for the night").as_deref(), Some("a comment has a line of its own"));
        assert_eq!(of_value(Kind::Seconds, "10min").as_deref(), Some("\"10min\" is 600"));
        assert_eq!(of_value(Kind::Seconds, "250 ms").as_deref(), Some("\"250 ms\" is 0.25"));
        assert_eq!(of_value(count, "1h"), None, "as many are too many");
        assert_eq!(of_value(count, "x ; y"), None);
        assert_eq!(of_value(Kind::Flag, "10min"), None);
    }
}
