//! The password of a database's `user`: in the entry itself, in a file of its own, or in a variable of the environment.
//!
//! Promises that no message repeats it. A file is read again at each reload, a variable is what it was when the process began. Does
//! not ask who else can read the file: volumes of secrets are often readable to all who share them.

use auth::Secret;

use crate::entry::EntryReader;
use crate::ini::{self, Read};
use crate::problem::quoted;
use crate::userlist;

/// PostgreSQL reads no longer one, and a line's end.
//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-PASSWORDMESSAGE
const LEN_MAX: usize = 65_530 + 2;

/// Where it stands.
pub(crate) enum Source {
    Entry(String),
    File(String),
    Variable(String),
}

impl Source {
    /// `None`: the parameter is another one, or is not set.
    pub(crate) fn of(key: &str, value: &str) -> Option<Source> {
        let kind = match key {
            "password" => Source::Entry,
            "password_file" => Source::File,
            "password_env" => Source::Variable,
            _ => return None,
        };
        (!value.is_empty()).then(|| kind(value.to_owned()))
    }

    /// The secret, or `None` with a reason among the problems.
    pub(crate) fn read(self, read: &Read, parameters: &mut EntryReader) -> Option<Secret> {
        match self {
            Source::Entry(text) => Some(secret(&text, "password", parameters)),
            Source::File(name) => match read(&name) {
                Ok(bytes) => usable(&bytes, "password_file", &quoted(&name), parameters),
                Err(error) => {
                    let found = format!("{}: {}", quoted(&name), ini::words(&error));
                    parameters.error("password_file", found, "a readable file");
                    None
                }
            },
            Source::Variable(name) => match std::env::var(&name) {
                Ok(text) => usable(text.as_bytes(), "password_env", &quoted(&name), parameters),
                Err(_) => {
                    let expected = "a variable of the environment with a password";
                    parameters.error("password_env", quoted(&name), expected);
                    None
                }
            },
        }
    }
}

/// One line of text; its end, which editors add, does not count.
fn usable(bytes: &[u8], key: &'static str, named: &str, parameters: &mut EntryReader) -> Option<Secret> {
    let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let text = std::str::from_utf8(line).ok().filter(|text| !text.is_empty() && !text.contains(['\n', '\0']));
    let Some(text) = text.filter(|_| bytes.len() <= LEN_MAX) else {
        let expected = "one line with a password, in UTF-8";
        parameters.error(key, format!("{named}, of {} bytes", bytes.len()), expected);
        return None;
    };
    Some(secret(text, key, parameters))
}

fn secret(text: &str, key: &'static str, parameters: &mut EntryReader) -> Secret {
    let secret = Secret::parse(text);
    if let Some((found, expected)) = userlist::no_hash(text, &secret) {
        parameters.warning(key, found.to_owned(), expected);
    }
    secret
}
