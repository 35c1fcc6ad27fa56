//! Errors and notices in which PostgreSQL names a prepared statement. Its client reads its own name there, not the one on the server.
//!
//! Promises: an error does not become longer by more than a name of PostgreSQL's, whatever its client has made the server say.

use std::ops::Range;

use units::limits;
use wire::backend::{Fields, field};
use wire::{put_cstr, sqlstate};

use crate::prepared::{RESERVED, StatementId};

const DIGITS: usize = 32;

/// The body of an ErrorResponse or a NoticeResponse with the client's name of a statement, which is `name_of` it, in place of the server's.
/// `None`: it names none.
pub fn with_client_name<'n>(body: &[u8], name_of: impl Fn(StatementId) -> Option<&'n [u8]>) -> Option<Vec<u8>> {
    let fields = Fields::decode(body);
    // Too few parameters are 08P01: "bind message supplies 1 parameters, but prepared statement "…" requires 2". What PostgreSQL logs, and the
    // client has asked for by client_min_messages, has 00000: "duration: 0.1 ms  parse …: select 1".
    let codes = [
        sqlstate::UNDEFINED_PSTATEMENT,
        sqlstate::DUPLICATE_PSTATEMENT,
        sqlstate::PROTOCOL_VIOLATION,
        sqlstate::SUCCESS,
    ];
    if !codes.contains(&fields.sqlstate()?) {
        return None;
    }
    let message = fields.message()?;
    let (place, name) = server_names(message).find_map(|(place, id)| Some((place, name_of(id)?)))?;
    let mut message = Some([&message[..place.start], shown(name), &message[place.end..]].concat());
    let mut renamed = Vec::with_capacity(body.len() + limits::SHOWN_NAME_LEN_MAX);
    for (letter, text) in fields {
        renamed.push(letter);
        let message = if letter == field::MESSAGE { message.take() } else { None };
        put_cstr(&mut renamed, message.as_deref().unwrap_or(text));
    }
    renamed.push(0);
    Some(renamed)
}

/// As much of a name as PostgreSQL keeps, and no half of a character.
fn shown(name: &[u8]) -> &[u8] {
    let mut end = name.len().min(limits::SHOWN_NAME_LEN_MAX);
    let is_within_character = |end: usize| name.get(end).is_some_and(|byte| byte & 0xc0 == 0x80);
    while end + 4 > limits::SHOWN_NAME_LEN_MAX && is_within_character(end) {
        end -= 1;
    }
    &name[..end]
}

/// Where a text has what may be the names of statements on servers, and which these are.
fn server_names(text: &[u8]) -> impl Iterator<Item = (Range<usize>, StatementId)> + '_ {
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let start = from + text[from..].windows(RESERVED.len()).position(|part| part == RESERVED)?;
            let digits = start + RESERVED.len();
            from = digits;
            if let Some(id) = text.get(digits..digits + DIGITS).and_then(statement_id) {
                return Some((start..digits + DIGITS, id));
            }
        }
    })
}

fn statement_id(digits: &[u8]) -> Option<StatementId> {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let digits = std::str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|byte| is_digit(&byte)))?;
    u128::from_str_radix(digits, 16).ok().map(StatementId::from)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use wire::frontend::Parse;

    use super::*;
    use crate::prepared::{Statement, StatementNames, statement_for_tests};

    const SAID: &str = "prepared statement \"";

    fn names(name: &[u8]) -> (StatementNames, Arc<Statement>) {
        let statement = statement_for_tests(&Parse { name, query: b"select 1", types: b"\0\0" });
        let mut names = StatementNames::default();
        assert!(names.insert(name, Arc::clone(&statement)));
        (names, statement)
    }

    fn error(code: &str, message: &str) -> Vec<u8> {
        format!("SERROR\0C{code}\0M{message}\0Wit says {message}\0\0").into_bytes()
    }

    fn server_name(statement: &Statement) -> String {
        String::from_utf8(statement.name.to_vec()).expect("ASCII")
    }

    #[test]
    fn its_client_reads_its_own_name_in_the_message_alone() {
        let (names, statement) = names(b"mine");
        let theirs = server_name(&statement);
        let (said, requires) = (format!("{SAID}{theirs}\" already exists"), format!("{SAID}{theirs}\" requires 2"));
        let lasted = format!("duration: 0.1 ms  execute {theirs}: select 1");
        for (code, message) in [("42P05", &said), ("26000", &said), ("08P01", &requires), ("00000", &lasted)] {
            let renamed = with_client_name(&error(code, message), |id| names.of_statement(id)).expect("it names one");
            let expected = message.replace(&theirs, "mine");
            let expected = format!("SERROR\0C{code}\0M{expected}\0Wit says {message}\0\0");
            assert_eq!(String::from_utf8_lossy(&renamed), expected);
        }
        assert_eq!(
            with_client_name(&error("P0001", &said), |id| names.of_statement(id)),
            None,
            "a client's own words are let be"
        );
        assert_eq!(with_client_name(b"SERROR\0C26000\0\0", |id| names.of_statement(id)), None);
    }

    #[test]
    fn an_error_does_not_grow_with_the_names_in_it() {
        let (names, statement) = names(&[b'n'; 30_000]);
        let message = server_name(&statement).repeat(1500);
        let body = error("26000", &message);
        let renamed = with_client_name(&body, |id| names.of_statement(id)).expect("it names one");
        assert!(renamed.len() <= body.len() + limits::SHOWN_NAME_LEN_MAX, "{} bytes", renamed.len());
        assert_eq!(
            Fields::decode(&renamed).message().map(|message| &message[..64]),
            Some(&[&[b'n'; 63][..], b"p"].concat()[..])
        );
    }

    #[test]
    fn a_name_is_found_behind_what_is_none() {
        let (names, statement) = names(b"mine");
        let theirs = server_name(&statement);
        let none =
            "pgweir_thing, pgweir_, pgweir_00000000000000000000000000000000, pgweir_0000000000000000000000000000000g";
        let renamed = with_client_name(&error("26000", &format!("{none}, {theirs}")), |id| names.of_statement(id))
            .expect("it names one");
        let message = Fields::decode(&renamed).message().expect("it has one");
        assert_eq!(String::from_utf8_lossy(message), format!("{none}, mine"));
        assert_eq!(with_client_name(&error("26000", &theirs[..theirs.len() - 1]), |id| names.of_statement(id)), None);
    }

    #[test]
    fn a_name_is_cut_between_characters() {
        assert_eq!(shown(b"short"), b"short");
        assert_eq!(shown(&[b'n'; 64]), &[b'n'; 63]);
        assert_eq!(shown("é".repeat(40).as_bytes()), "é".repeat(31).as_bytes());
        assert_eq!(shown(&[0xbf; 100]).len(), 59, "no such character");
    }
}
