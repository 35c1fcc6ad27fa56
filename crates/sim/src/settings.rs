//! The settings of the model PostgreSQL other than the reported ones: their names, their values, and which roles may
//! set them.
//!
//! A departure from PostgreSQL: a custom setting that was never set is empty, not unknown. In PostgreSQL it becomes
//! known with the first SET on a server, and stays so.

use crate::parameters;

/// Roles that every user may assume. The last one is a superuser.
pub const ROLES: [&str; 3] = ["reader", "writer", "boss"];

/// A role that only a superuser may assume.
pub const FORBIDDEN_ROLE: &str = "stranger";

/// The SQLSTATE and text with which a setting is refused.
pub type SettingRefusal = (&'static str, String);

/// The values that a setting may have.
#[derive(Copy, Clone, Debug)]
enum Rule {
    /// One of these.
    One(&'static [&'static str]),
    Switch,
    /// Kilobytes, shown in the largest unit that fits.
    Size,
    Milliseconds,
    Names,
}

struct Setting {
    name: &'static str,
    default: &'static str,
    rule: Rule,
    /// Only for superusers.
    guarded: bool,
}

const fn setting(name: &'static str, default: &'static str, rule: Rule) -> Setting {
    Setting { name, default, rule, guarded: false }
}

const ISOLATIONS: &[&str] = &["read committed", "repeatable read", "serializable"];

const SETTINGS: [Setting; 9] = [
    setting("work_mem", "4MB", Rule::Size),
    setting("statement_timeout", "0", Rule::Milliseconds),
    setting("lock_timeout", "0", Rule::Milliseconds),
    setting("search_path", "\"$user\", public", Rule::Names),
    setting("default_transaction_isolation", "read committed", Rule::One(ISOLATIONS)),
    setting("default_transaction_read_only", "off", Rule::Switch),
    setting("enable_seqscan", "on", Rule::Switch),
    setting("row_security", "on", Rule::Switch),
    Setting {
        name: "session_replication_role",
        default: "origin",
        rule: Rule::One(&["origin", "replica", "local"]),
        guarded: true,
    },
];

/// Whether a role is a superuser.
#[must_use]
pub fn is_superuser(role: &str) -> bool {
    matches!(role, "user0" | "boss")
}

#[must_use]
pub fn is_role(name: &str) -> bool {
    ROLES.contains(&name) || name == FORBIDDEN_ROLE || name.starts_with("user")
}

/// Whether it is role or session authorization, which RESET ALL leaves alone.
#[must_use]
pub fn is_identity(name: &str) -> bool {
    matches!(name, "role" | "session_authorization")
}

/// Whether it is a custom setting, with a dot in its name.
#[must_use]
pub fn is_custom(name: &str) -> bool {
    name.contains('.')
}

fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

/// Whether only superusers may set it.
#[must_use]
pub fn is_guarded(name: &str) -> bool {
    find(name).is_some_and(|setting| setting.guarded)
}

/// Its default; `None`: there is no such setting. Reported parameters are not here.
#[must_use]
pub fn default(name: &str) -> Option<&'static str> {
    if is_custom(name) {
        return Some("");
    }
    find(name).map(|setting| setting.default)
}

/// The parts of a value given as one text, as in set_config: a list of names is split.
#[must_use]
pub fn parts(name: &str, value: &str) -> Vec<String> {
    if !matches!(find(name).map(|setting| setting.rule), Some(Rule::Names)) {
        return vec![value.to_owned()];
    }
    let (mut parts, mut quoted) = (vec![String::new()], false);
    for letter in value.chars() {
        match letter {
            '"' => quoted = !quoted,
            ',' if !quoted => parts.push(String::new()),
            ' ' if !quoted => {}
            _ => parts.last_mut().expect("there is one").push(letter),
        }
    }
    parts
}

/// A value as PostgreSQL would show it.
///
/// # Errors
/// There is no such setting, or it cannot have this value.
pub fn canonical(name: &str, parts: &[String]) -> Result<String, SettingRefusal> {
    let refused = || ("22023", "invalid value for parameter".to_owned());
    let joined = parts.join(", ");
    if let Some(parameter) = parameters::index(name) {
        let digit = parameters::digit(parameter, &joined).ok_or_else(refused)?;
        return Ok(parameters::value(parameter, digit).to_owned());
    }
    if is_custom(name) {
        return Ok(joined);
    }
    let Some(setting) = find(name) else {
        return Err(("42704", format!("unrecognized configuration parameter \"{name}\"")));
    };
    let first = parts.first().map_or("", String::as_str);
    let value = match setting.rule {
        Rule::One(choices) => {
            choices.iter().find(|choice| choice.eq_ignore_ascii_case(first)).map(|&one| one.to_owned())
        }
        Rule::Switch => switch(first).map(str::to_owned),
        Rule::Size => size(first),
        Rule::Milliseconds => milliseconds(first),
        Rule::Names => Some(parts.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(", ")),
    };
    value.ok_or_else(refused)
}

/// A value as pg_settings lists it: a number in the setting's unit.
#[must_use]
pub fn listed(name: &str, value: &str) -> String {
    let number = |digits: &str, factor: u64| {
        digits.parse::<u64>().map_or(value.to_owned(), |count| (count * factor).to_string())
    };
    let units = match find(name).map(|setting| setting.rule) {
        Some(Rule::Size) => [("MB", 1024), ("kB", 1), ("", 1)],
        Some(Rule::Milliseconds) => [("min", 60_000), ("ms", 1), ("s", 1_000)],
        _ => return value.to_owned(),
    };
    let found =
        units.into_iter().find_map(|(unit, factor)| value.strip_suffix(unit).map(|digits| number(digits, factor)));
    found.unwrap_or_else(|| value.to_owned())
}

fn switch(text: &str) -> Option<&'static str> {
    match text.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" => Some("on"),
        "off" | "false" | "no" | "0" => Some("off"),
        _ => None,
    }
}

fn size(text: &str) -> Option<String> {
    let kilobytes: u64 = match text.strip_suffix("MB") {
        Some(megabytes) => megabytes.parse::<u64>().ok()?.checked_mul(1024)?,
        None => text.strip_suffix("kB").unwrap_or(text).parse().ok()?,
    };
    let shown =
        if kilobytes.is_multiple_of(1024) { format!("{}MB", kilobytes / 1024) } else { format!("{kilobytes}kB") };
    (64..1 << 30).contains(&kilobytes).then_some(shown)
}

fn milliseconds(text: &str) -> Option<String> {
    let value: u64 = match text.strip_suffix("min") {
        Some(minutes) => minutes.parse::<u64>().ok()?.checked_mul(60_000)?,
        None => text.strip_suffix("ms").unwrap_or(text).parse().ok()?,
    };
    Some(match value {
        0 => "0".to_owned(),
        _ if value.is_multiple_of(60_000) => format!("{}min", value / 60_000),
        _ if value.is_multiple_of(1_000) => format!("{}s", value / 1_000),
        _ => format!("{value}ms"),
    })
}

/// A name in a list, in quotes where it must be.
fn quoted(name: &str) -> String {
    let plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_as_postgresql_shows_them() {
        let shown = |name: &str, parts: &[&str]| {
            let parts: Vec<String> = parts.iter().map(|&part| part.to_owned()).collect();
            canonical(name, &parts).map_err(|(code, _)| code)
        };
        assert_eq!(shown("work_mem", &["8192kB"]), Ok("8MB".to_owned()));
        assert_eq!(shown("work_mem", &["100"]), Ok("100kB".to_owned()));
        assert_eq!(shown("statement_timeout", &["1min"]), Ok("1min".to_owned()));
        assert_eq!(shown("search_path", &["a", "B c"]), Ok("a, \"B c\"".to_owned()));
        assert_eq!(shown("enable_seqscan", &["FALSE"]), Ok("off".to_owned()));
        assert_eq!(shown("enable_seqscan", &["perhaps"]), Err("22023"));
        assert_eq!(shown("no_such", &["1"]), Err("42704"));
        assert_eq!(shown("app.x", &["1"]), Ok("1".to_owned()));
        assert_eq!((listed("work_mem", "8MB"), listed("lock_timeout", "2s")), ("8192".to_owned(), "2000".to_owned()));
        assert_eq!((listed("lock_timeout", "0"), listed("row_security", "on")), ("0".to_owned(), "on".to_owned()));
    }
}
