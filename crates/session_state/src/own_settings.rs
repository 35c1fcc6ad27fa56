//! Settings of the pooler's own, `pgweir.*`: which there are, when they may be set, and what they may be.
//!
//! To PostgreSQL they are custom settings, which may have any name and any value. Here a wrong one is refused as PostgreSQL
//! refuses a wrong one of its own: at login by the door; later PostgreSQL is made to raise the error in front of the
//! statement, so that a transaction fails by it as by any other.
//!
//! Judges only names and values that mean the same however they are read; others go to PostgreSQL as they are.

use sql::{Assignment, Kind, Marks, Scope, Statement, Text, Value, Which, setting_key};
use units::names::shown;
use units::{limits, milliseconds};
use wire::{SqlState, sqlstate};

/// How long a client can wait for a server.
pub const DEADLINE: &[u8] = b"pgweir.deadline_ms";
/// What a client asks for that must know the process id of its server as PostgreSQL has it: it is pinned for life.
pub const STABLE_BACKEND_PID: &[u8] = b"pgweir.stable_backend_pid";
/// The parameter by which a client requests reports of how much its limits leave.
pub const REPORT_LIMITS: &[u8] = b"pgweir.report_limits";

const PREFIX: &[u8] = b"pgweir.";
/// The parameters in which it gets these reports.
const REPORTED: [&[u8]; 2] = [b"pgweir.limit_remaining", b"pgweir.limit_retry_after_ms"];

/// The tag and the quotes of the statement that raises an error.
const RAISE: &[u8] = b"DO LANGUAGE plpgsql $pgweir$BEGIN RAISE EXCEPTION USING ";

/// An error as PostgreSQL words it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub code: SqlState,
    pub message: String,
    hint: Option<&'static str>,
}

impl Refusal {
    fn new(code: SqlState, message: String) -> Refusal {
        Refusal { code, message, hint: None }
    }

    /// A statement that ends with this error. Its words have neither quotes nor backslashes in them.
    pub(crate) fn raised(&self) -> Vec<u8> {
        let hint = self.hint.map(|hint| format!(",HINT='{hint}'")).unwrap_or_default();
        let rest = format!("ERRCODE='{}',MESSAGE='{}'{hint};END$pgweir$", self.code, self.message);
        [RAISE, rest.as_bytes()].concat()
    }
}

/// Whether a statement was made by [`Refusal::raised`].
pub fn is_raised(text: &[u8]) -> bool {
    text.starts_with(RAISE)
}

/// Whether a text has the name of one in it, as far as its bytes tell.
pub fn is_named_in(text: &[u8]) -> bool {
    text.windows(PREFIX.len() - 1).any(|bytes| bytes.eq_ignore_ascii_case(&PREFIX[..PREFIX.len() - 1]))
}

/// Statements that raise the errors of a text's, in their order. What SET LOCAL sets is over before it could matter, and a call of
/// set_config beside something else may not be run, or not with this value.
pub fn raised(text: &Text<'_>) -> Vec<Vec<u8>> {
    text.statements().flat_map(|statement| raised_by(text, &statement)).collect()
}

/// Whether one statement of a text raises such an error.
pub fn is_refused(text: &Text<'_>, statement: &Statement<'_>) -> bool {
    !raised_by(text, statement).is_empty()
}

fn raised_by(text: &Text<'_>, statement: &Statement<'_>) -> Vec<Vec<u8>> {
    let mut raised = Vec::new();
    let mut judge = |name: &mut dyn Iterator<Item = u8>, value: Option<&[u8]>| {
        raised.extend(by_statement(&setting_key(name), value).map(|refusal| refusal.raised()));
    };
    match statement.kind {
        Kind::Set(Assignment { name, scope: Scope::Session, value, .. }) => {
            let value = if let Value::Given(value) = value { plain(value) } else { None };
            judge(&mut name.bytes(), value);
        }
        Kind::Reset(Which::One(name)) => judge(&mut name.bytes(), None),
        _ if statement.marks.any(Marks::SET_CONFIG) && statement.only_sets_config(text) => {
            for call in statement.set_config_calls(text) {
                let Some(name) = call.name else { continue };
                judge(&mut name.iter().copied(), call.value.and_then(plain_text));
            }
        }
        _ => {}
    }
    raised
}

/// Whether a setting, by its key, is the pooler's own.
pub(crate) fn is_own(key: &[u8]) -> bool {
    key.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

/// What is wrong with setting one in a startup packet.
pub fn at_login(key: &[u8], value: &[u8]) -> Option<Refusal> {
    let key = key.to_ascii_lowercase();
    match &key[..] {
        DEADLINE => deadline(value),
        STABLE_BACKEND_PID | REPORT_LIMITS => None,
        _ if is_own(&key) => Some(unknown(&key)),
        _ => None,
    }
}

/// What is wrong with setting one by a statement, or with resetting it (`value`: none, or one that is unknown).
pub(crate) fn by_statement(key: &[u8], value: Option<&[u8]>) -> Option<Refusal> {
    let is_name = key.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'));
    if !is_own(key) || !is_name || key.len() > limits::SHOWN_NAME_LEN_MAX {
        return None;
    }
    let name = String::from_utf8_lossy(key);
    match key {
        DEADLINE => value.and_then(deadline),
        STABLE_BACKEND_PID | REPORT_LIMITS => {
            let message = format!("parameter \"{name}\" cannot be set after connection start");
            Some(Refusal::new(sqlstate::CANT_CHANGE_RUNTIME_PARAM, message))
        }
        _ if REPORTED.contains(&key) => {
            let message = format!("parameter \"{name}\" cannot be changed");
            Some(Refusal::new(sqlstate::CANT_CHANGE_RUNTIME_PARAM, message))
        }
        _ => Some(unknown(key)),
    }
}

fn unknown(key: &[u8]) -> Refusal {
    let key = key.escape_ascii().to_string();
    let message = format!("unrecognized configuration parameter \"{}\"", shown(&key));
    Refusal::new(sqlstate::UNDEFINED_OBJECT, message)
}

fn deadline(value: &[u8]) -> Option<Refusal> {
    // An empty text is what a setting is that has been reset.
    if value.is_empty() || milliseconds(value).is_some() {
        return None;
    }
    let value = value.escape_ascii().to_string();
    let message = format!("invalid value for parameter \"pgweir.deadline_ms\": \"{}\"", shown(&value));
    let hint = Some("Valid units for this parameter are \"ms\", \"s\", \"min\", \"h\", and \"d\".");
    Some(Refusal { code: sqlstate::INVALID_PARAMETER_VALUE, message, hint })
}

/// A value of a call, if what is said of it can be repeated in a string.
pub(crate) fn plain_text(value: &[u8]) -> Option<&[u8]> {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'\'' | b'\\' | b'"' | b'$');
    let is_short = value.len() <= limits::SHOWN_NAME_LEN_MAX;
    (is_short && value.iter().all(|byte| *byte == b' ' || is_plain(byte))).then_some(value)
}

/// What a value in SQL stands for, if it is a plain string or a plain word or number.
pub(crate) fn plain(source: &[u8]) -> Option<&[u8]> {
    let quoted = source.strip_prefix(b"'").and_then(|rest| rest.strip_suffix(b"'"));
    match quoted {
        _ if source.len() > limits::SHOWN_NAME_LEN_MAX => None,
        Some(inner) => plain_text(inner),
        None => {
            let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+' | b'.');
            source.iter().all(is_word).then_some(source)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(refusal: Option<Refusal>) -> Option<String> {
        refusal.map(|refusal| format!("{} {}", refusal.code, refusal.message))
    }

    #[test]
    fn a_statement_may_set_the_deadline_and_nothing_else() {
        let unknown = |name: &str| Some(format!("42704 unrecognized configuration parameter \"{name}\""));
        let wrong =
            |value: &str| Some(format!("22023 invalid value for parameter \"pgweir.deadline_ms\": \"{value}\""));
        let table: [(&str, Option<&str>, Option<String>); 14] = [
            ("pgweir.deadline_ms", Some("200"), None),
            ("pgweir.deadline_ms", Some("1 min"), None),
            ("pgweir.deadline_ms", Some("2h"), None),
            ("pgweir.deadline_ms", Some(""), None),
            ("pgweir.deadline_ms", None, None),
            ("pgweir.deadline_ms", Some("abc"), wrong("abc")),
            ("pgweir.deadline_ms", Some("-1"), wrong("-1")),
            ("pgweir.deadline_ms", Some("9999999d"), wrong("9999999d")),
            ("pgweir.frob", Some("1"), unknown("pgweir.frob")),
            ("pgweir.frob", None, unknown("pgweir.frob")),
            (
                "pgweir.stable_backend_pid",
                Some("on"),
                Some("55P02 parameter \"pgweir.stable_backend_pid\" cannot be set after connection start".to_owned()),
            ),
            (
                "pgweir.limit_remaining",
                Some("1"),
                Some("55P02 parameter \"pgweir.limit_remaining\" cannot be changed".to_owned()),
            ),
            ("pgweirs.frob", Some("1"), None),
            ("app.tenant", Some("1"), None),
        ];
        for (name, value, expected) in table {
            let found = told(by_statement(name.as_bytes(), value.map(str::as_bytes)));
            assert_eq!(found, expected, "{name} {value:?}");
        }
        assert_eq!(by_statement(b"pgweir.fr'ob", None), None, "PostgreSQL knows what is wrong with such a name");
    }

    #[test]
    fn a_startup_packet_may_set_three() {
        let at_login = |name: &str, value: &str| told(at_login(name.as_bytes(), value.as_bytes()));
        assert_eq!(at_login("pgweir.stable_backend_pid", "on"), None);
        assert_eq!(at_login("pgweir.report_limits", "on"), None);
        assert_eq!(at_login("PgWeir.Deadline_ms", "200"), None);
        assert_eq!(at_login("geqo", "off"), None);
        let wrong = at_login("pgweir.deadline_ms", "soon").expect("it is no time");
        assert!(wrong.starts_with("22023 "), "{wrong}");
        let unknown = at_login("PGWEIR.frob", "1").expect("there is none");
        assert_eq!(unknown, "42704 unrecognized configuration parameter \"pgweir.frob\"");
    }

    #[test]
    fn a_text_raises_what_is_wrong_in_it() {
        let codes = |text: &str| {
            let raised = raised(&Text::new(text.as_bytes(), sql::Rules::default()));
            let code = |one: Vec<u8>| String::from_utf8_lossy(&one[RAISE.len() + 9..RAISE.len() + 14]).into_owned();
            raised.into_iter().map(code).collect::<Vec<_>>().join(" ")
        };
        let table = [
            ("set pgweir.deadline_ms = '1h'", ""),
            ("reset PgWeir.Deadline_ms", ""),
            ("set \"pgweir\".deadline_ms = 'abc'", "22023"),
            ("set session pgweir.deadline_ms to abc", "22023"),
            ("set local pgweir.frob = 1", ""),
            ("set PgWeir.frob to default", "42704"),
            ("reset pgweir.frob", "42704"),
            ("set pgweir.report_limits = on", "55P02"),
            ("select set_config('pgweir.frob', '', false)", "42704"),
            ("select case when false then set_config('pgweir.frob', '1', false) end", ""),
            ("select 1; set pgweir.frob = 1; set pgweir.deadline_ms = 'x'", "42704 22023"),
            ("select 'pgweir.frob'", ""),
        ];
        for (text, expected) in table {
            assert_eq!(codes(text), expected, "{text}");
        }
        assert!(is_named_in(b"SET PgWeir.frob = 1") && !is_named_in(b"set search_path = pgw"));
    }

    #[test]
    fn only_plain_values_are_judged() {
        let table = [
            ("'abc'", Some("abc")),
            ("'1 min'", Some("1 min")),
            ("200", Some("200")),
            ("-5", Some("-5")),
            ("soon", Some("soon")),
            ("''", Some("")),
            ("E'\\x32'", None),
            ("'it''s'", None),
            ("1, 2", None),
            ("$$5$$", None),
            ("\"x\"", None),
            ("U&'5'", None),
        ];
        for (source, expected) in table {
            assert_eq!(plain(source.as_bytes()), expected.map(str::as_bytes), "{source}");
        }
    }

    #[test]
    fn the_raising_statement_has_the_error_in_it() {
        let refusal = by_statement(DEADLINE, Some(b"abc")).expect("it is no time");
        let text = String::from_utf8(refusal.raised()).expect("ASCII");
        let expected = "DO LANGUAGE plpgsql $pgweir$BEGIN RAISE EXCEPTION USING ERRCODE='22023',MESSAGE='invalid value for parameter \
                        \"pgweir.deadline_ms\": \"abc\"',HINT='Valid units for this parameter are \"ms\", \"s\", \"min\", \"h\", and \
                        \"d\".';END$pgweir$";
        assert_eq!(text, expected);
        assert!(is_raised(text.as_bytes()) && !is_raised(b"DISCARD SEQUENCES"));
    }
}
