//! Names of settings, as a tracker of session state keeps and writes them.
//!
//! A setting has one key, however it was written: servers compare names without regard to case, and know two by older
//! names too. A key written in quotes, part by part, is that setting's name in SET and RESET, whatever words it is of.

use crate::scan::WORD_LEN_MAX;

/// Settings that go by an older name as well; what is set by it is set by the newer.
//= pg18 runtime-config-resource#GUC-WORK-MEM
const OLDER_NAMES: [(&[u8], &[u8]); 2] = [(b"sort_mem", b"work_mem"), (b"vacuum_mem", b"maintenance_work_mem")];

/// The key of a setting by its name: that of a statement ([`crate::Name::bytes`]) or a string that set_config was given.
pub fn setting_key(name: impl IntoIterator<Item = u8>) -> Vec<u8> {
    let key: Vec<u8> = name.into_iter().map(|byte| byte.to_ascii_lowercase()).collect();
    match OLDER_NAMES.iter().find(|(older, _)| *older == key) {
        Some((_, newer)) => newer.to_vec(),
        None => key,
    }
}

/// Whether a statement that runs with another's value of this setting, or with none, may do or show what it must not:
///
/// * `role` and `session_authorization` are whose rights it has,
/// * names with a dot are the applications' own, and what row security asks for most: `app.tenant`,
/// * `row_security` off is an error where rows would be hidden, and on hides them,
/// * `session_replication_role` turns triggers off, those that check foreign keys too,
/// * `search_path` decides which tables and functions its names mean.
///
/// A wrong value of any other setting is a wrong answer at worst, or a slow one.
//= pg18 ddl-rowsecurity
pub fn is_dangerous(key: &[u8]) -> bool {
    let is_known: &[&[u8]] =
        &[b"role", b"session_authorization", b"row_security", b"session_replication_role", b"search_path"];
    is_known.contains(&key) || key.contains(&b'.')
}

/// The name of the setting with this key, to be written behind SET or RESET. `None` for what no statement can name for
/// certain: an empty part or one that the server would cut, a zero byte, and bytes beyond ASCII, which mean what the
/// client's encoding says.
//= pg18 sql-syntax-lexical#SQL-SYNTAX-IDENTIFIERS
pub fn quoted_setting(key: &[u8]) -> Option<Vec<u8>> {
    let mut quoted = Vec::with_capacity(key.len() + 5);
    for part in key.split(|byte| *byte == b'.') {
        let is_name = (1..=WORD_LEN_MAX).contains(&part.len()) && part.iter().all(|byte| (1..0x80).contains(byte));
        is_name.then_some(())?;
        if !quoted.is_empty() {
            quoted.push(b'.');
        }
        quoted.push(b'"');
        for byte in part {
            quoted.extend(std::iter::repeat_n(*byte, if *byte == b'"' { 2 } else { 1 }));
        }
        quoted.push(b'"');
    }
    Some(quoted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Rules, Text, Which};

    #[test]
    fn a_setting_has_one_key() {
        for (name, key) in [
            ("TimeZone", "timezone"),
            ("app.User_ID", "app.user_id"),
            ("Sort_Mem", "work_mem"),
            ("vacuum_mem", "maintenance_work_mem"),
            ("my.sort_mem", "my.sort_mem"),
        ] {
            assert_eq!(setting_key(name.bytes()), key.as_bytes());
        }
    }

    #[test]
    fn rights_and_the_applications_own_are_dangerous() {
        for key in
            ["role", "session_authorization", "row_security", "session_replication_role", "search_path", "a.b", "."]
        {
            assert!(is_dangerous(key.as_bytes()), "{key}");
        }
        for key in ["", "work_mem", "timezone", "roles", "statement_timeout"] {
            assert!(!is_dangerous(key.as_bytes()), "{key}");
        }
    }

    #[test]
    fn a_key_is_quoted_part_by_part() {
        let long = ["x".repeat(63), "x".repeat(64)];
        for (key, quoted) in [
            ("work_mem", Some("\"work_mem\"")),
            ("all", Some("\"all\"")),
            ("app.user_id", Some("\"app\".\"user_id\"")),
            ("a.b.c", Some("\"a\".\"b\".\"c\"")),
            ("a\"; drop.b\"", Some("\"a\"\"; drop\".\"b\"\"\"")),
            ("", None),
            (".", None),
            ("a.", None),
            ("a..b", None),
            ("a\0b", None),
            ("a.é", None),
            (long[0].as_str(), Some(&format!("\"{}\"", long[0]))),
            (long[1].as_str(), None),
        ] {
            assert_eq!(quoted_setting(key.as_bytes()).as_deref(), quoted.map(str::as_bytes), "{key}");
        }
    }

    #[test]
    fn what_is_quoted_is_read_again_as_that_setting() {
        for key in ["all", "role", "time", "session", "order.select", "a$b.c d", "\"", "local.x\"\"y", "a.b.c.d"] {
            let quoted = quoted_setting(key.as_bytes()).expect("it can be written");
            let source = [b"reset ".as_slice(), &quoted].concat();
            let text = Text::new(&source, Rules::default());
            let kinds: Vec<Kind<'_>> = text.statements().map(|statement| statement.kind).collect();
            let [Kind::Reset(Which::One(name))] = kinds.as_slice() else { panic!("{key}: {kinds:?}") };
            assert_eq!(setting_key(name.bytes()), key.as_bytes());
        }
    }
}
