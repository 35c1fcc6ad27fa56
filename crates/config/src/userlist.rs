//! `auth_file`: `"user" "secret" …`, one user a line.
//!
//! Promises what PgBouncer does: `""` stands for one quote, `;` begins a comment line, the rest of a line is ignored,
//! and a file that is broken somewhere counts up to there. Never repeats a secret in a message.
//= pgbouncer config.md#authentication-file-format

use std::collections::BTreeMap;

use auth::Secret;

use crate::problem::{PROBLEMS_MAX, Place, Problem};

/// A name of this many bytes, quotes doubled, is too long for PgBouncer.
const NAME_BYTES_LIMIT: usize = 128;
/// A secret may be longer than a PostgreSQL password message ever is, and no longer.
const SECRET_BYTES_LIMIT: usize = 65_536;

/// The users of the file and what was wrong with it, as warnings.
#[must_use]
pub fn parse(file: &str, bytes: &[u8]) -> (BTreeMap<String, Secret>, Vec<Problem>) {
    let mut users = Users::new();
    let mut problems = Vec::new();
    let mut rest = bytes;
    let mut place = Place { file: file.to_owned(), line: 1 };
    let mut counted = bytes;
    loop {
        rest = rest.trim_ascii_start();
        place.line = place.line.saturating_add(lines(&counted[..counted.len() - rest.len()]));
        counted = rest;
        match rest.first() {
            None => break,
            Some(b';') => {}
            Some(b'"') => match entry(rest) {
                Ok((name, (secret, after))) => {
                    add(&mut users, name, secret, &place, &mut problems);
                    rest = after;
                }
                Err(found) => {
                    problems.push(broken(&place, found));
                    break;
                }
            },
            Some(_) => {
                problems.push(broken(&place, "a line without quotes".to_owned()));
                break;
            }
        }
        rest = match rest.iter().position(|&byte| byte == b'\n') {
            Some(end) => &rest[end..],
            None => break,
        };
    }
    (users.into_iter().map(|(name, (secret, _))| (name, secret)).collect(), problems)
}

/// With the line of each.
type Users = BTreeMap<String, (Secret, u32)>;

/// What begins as a hash and is none: PgBouncer takes it for a password, and so do we, but such passwords are rare.
#[must_use]
pub(crate) fn no_hash(text: &str, secret: &Secret) -> Option<(&'static str, &'static str)> {
    let Secret::Plain(_) = secret else { return None };
    if text.starts_with("SCRAM-SHA-256$") {
        let expected =
            "SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey, all of it: as it is the text is the password";
        return Some(("a secret that begins as a SCRAM verifier and is none", expected));
    }
    let expected = "md5 and 32 digits of 0-9 and a-f: as it is the text is the password";
    text.starts_with("md5").then_some(("a secret that begins as an md5 hash and is none", expected))
}

fn add(users: &mut Users, name: Vec<u8>, secret: Vec<u8>, place: &Place, problems: &mut Vec<Problem>) {
    match (String::from_utf8(name), String::from_utf8(secret)) {
        (Ok(name), Ok(secret)) if !name.contains('\0') && !secret.contains('\0') => {
            let parsed = Secret::parse(&secret);
            let mut warn = |found: &str, expected: String| {
                if problems.len() < PROBLEMS_MAX {
                    problems.push(Problem::warning(place, "auth_file", found.to_owned(), expected));
                }
            };
            if let Some((found, expected)) = no_hash(&secret, &parsed) {
                warn(found, expected.to_owned());
            }
            if let Some((_, line)) = users.insert(name, (parsed, place.line)) {
                warn("a user a second time", format!("it once: the last one counts, and line {line} has no effect"));
            }
        }
        _ => {
            let found = "bytes that are no text".to_owned();
            let expected = "text in UTF-8; this user is left out".to_owned();
            problems.push(Problem::warning(place, "auth_file", found, expected));
        }
    }
}

/// What stood between quotes, and what follows them.
type Field<'a> = (Vec<u8>, &'a [u8]);

/// The name and the secret.
fn entry(text: &[u8]) -> Result<(Vec<u8>, Field<'_>), String> {
    let (name, after) = field(text, NAME_BYTES_LIMIT, "user name")?;
    let start = after.iter().position(|&byte| byte == b'"');
    let Some(start) = start else {
        return Err("a user without a secret".to_owned());
    };
    Ok((name, field(&after[start..], SECRET_BYTES_LIMIT, "secret")?))
}

/// What stands between quotes; as in PgBouncer the end of a line does not end it.
fn field<'a>(text: &'a [u8], limit: usize, what: &str) -> Result<Field<'a>, String> {
    let mut value = Vec::new();
    let mut rest = &text[1..];
    loop {
        let Some(end) = rest.iter().position(|&byte| byte == b'"') else {
            return Err(format!("a {what} without its closing quote"));
        };
        value.extend_from_slice(&rest[..end]);
        rest = &rest[end + 1..];
        if value.len() >= limit {
            return Err(format!("a {what} of {limit} bytes or more"));
        }
        match rest.first() {
            Some(b'"') => {
                value.push(b'"');
                rest = &rest[1..];
            }
            _ => return Ok((value, rest)),
        }
    }
}

fn broken(place: &Place, found: String) -> Problem {
    let expected = "\"user\" \"secret\"; the file is not read any further".to_owned();
    Problem::warning(place, "auth_file", found, expected)
}

fn lines(text: &[u8]) -> u32 {
    let ends = text.iter().filter(|&&byte| byte == b'\n').count();
    u32::try_from(ends).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_may_be_as_long_as_a_password_message() {
        for (len, fits) in [(65_530, true), (65_535, true), (65_536, false)] {
            let text = format!("\"ann\" \"{}\"\n\"bob\" \"b\"", "x".repeat(len));
            let (users, problems) = parse("users.txt", text.as_bytes());
            assert_eq!(users.len(), if fits { 2 } else { 0 }, "{len}");
            assert_eq!(problems.is_empty(), fits, "{len}");
        }
    }

    #[test]
    fn many_users_take_time_in_proportion() {
        let text: String = (0..200_000).map(|number| format!("\"user{number}\" \"secret\"\n")).collect();
        let (users, problems) = parse("users.txt", format!("{text}broken").as_bytes());
        assert_eq!(users.len(), 200_000);
        assert_eq!(problems[0].line, 200_001);
    }
}
