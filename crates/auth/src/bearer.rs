//! OAUTHBEARER: a client shows a token instead of a password. What its messages are; whether a token is good others say.
//!
//! ```text
//!   n,,^Aauth=Bearer TOKEN^A^A ──▶          nothing more, if it is good
//!                              ◀── {"status": "invalid_token", …}
//!   ^A                         ──▶          refused
//! ```
//!
//! Promises PostgreSQL 18's grammar, and its words for what breaks it.
//!
//! //= pg18 sasl-authentication#SASL-OAUTHBEARER
//! //= rfc7628#section-3

use std::fmt;

use crate::secret::Password;

/// The mechanism's name.
pub const MECHANISM: &str = "OAUTHBEARER";

/// What stands between two keys, and alone as the client's answer to an error.
const SEPARATOR: u8 = 1;
/// What an authorization begins with, in any case.
const SCHEME: &[u8] = b"Bearer ";

/// What a client's first message shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    Token(Password),
    /// Nothing: the client wants to learn where tokens are to be had.
    Nothing,
    /// What no token can be; the words are for the log.
    Unlike(&'static str),
}

/// A message that breaks the rules.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum BearerError {
    /// A message is not what it has to be; how, is for the log.
    Malformed(&'static str),
    /// It names somebody to act for.
    AuthorizationIdentity,
}

impl BearerError {
    /// How it breaks them, for the log.
    pub fn detail(self) -> &'static str {
        match self {
            BearerError::Malformed(detail) => detail,
            BearerError::AuthorizationIdentity => "the client names an authorization identity",
        }
    }
}

impl fmt::Display for BearerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BearerError::Malformed(_) => "malformed OAUTHBEARER message",
            BearerError::AuthorizationIdentity => "client uses authorization identity, but it is not supported",
        })
    }
}

impl std::error::Error for BearerError {}

use BearerError::Malformed;

/// Reads the client's first message.
///
/// # Errors
/// It breaks the rules.
pub fn read_first(message: &[u8]) -> Result<Shown, BearerError> {
    if message.is_empty() {
        return Err(Malformed("The message is empty."));
    }
    if message.contains(&0) {
        return Err(Malformed("Message length does not match input length."));
    }
    let rest = match message {
        [b'p', ..] => {
            return Err(Malformed(
                "The server does not support channel binding for OAuth, but the client message includes channel binding data.",
            ));
        }
        [b'y' | b'n', rest @ ..] => rest,
        _ => return Err(Malformed("Unexpected channel-binding flag.")),
    };
    let rest = rest.strip_prefix(b",").ok_or(Malformed("Comma expected after the channel-binding flag."))?;
    if rest.first() == Some(&b'a') {
        return Err(BearerError::AuthorizationIdentity);
    }
    let rest = rest.strip_prefix(b",").ok_or(Malformed("Unexpected attribute in client-first-message."))?;
    let rest = rest.strip_prefix(&[SEPARATOR]).ok_or(Malformed("Key-value separator expected."))?;
    let (authorization, rest) = pairs(rest)?;
    let authorization = authorization.ok_or(Malformed("Message does not contain an auth value."))?;
    if !rest.is_empty() {
        return Err(Malformed("Message contains additional data after the final terminator."));
    }
    Ok(shown(authorization))
}

/// Reads the client's answer to an error.
///
/// # Errors
/// It is not the one that there is.
pub fn read_answer(message: &[u8]) -> Result<(), BearerError> {
    match message {
        [SEPARATOR] => Ok(()),
        _ => Err(Malformed("Client did not send a kvsep response.")),
    }
}

/// The value of `auth` among the pairs, and what follows the last of them.
fn pairs(mut rest: &[u8]) -> Result<(Option<&[u8]>, &[u8]), BearerError> {
    let mut authorization = None;
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == SEPARATOR);
        let end = end.ok_or(Malformed("Message contains an unterminated key/value pair."))?;
        let (pair, after) = (&rest[..end], &rest[end + 1..]);
        if pair.is_empty() {
            return Ok((authorization, after));
        }
        let equals = pair.iter().position(|byte| *byte == b'=');
        let equals = equals.ok_or(Malformed("Message contains a key without a value."))?;
        let (key, value) = (&pair[..equals], &pair[equals + 1..]);
        if key.is_empty() {
            return Err(Malformed("Message contains an empty key name."));
        }
        if !key.iter().all(u8::is_ascii_alphabetic) {
            return Err(Malformed("Message contains an invalid key name."));
        }
        if !value.iter().all(|byte| matches!(byte, 0x20..=0x7e | b'\t' | b'\r' | b'\n')) {
            return Err(Malformed("Message contains an invalid value."));
        }
        // Keys that nobody knows are passed over.
        if key == b"auth" && authorization.replace(value).is_some() {
            return Err(Malformed("Message contains multiple auth values."));
        }
        rest = after;
    }
    Err(Malformed("Message did not contain a final terminator."))
}

//= rfc6750#section-2.1
fn shown(authorization: &[u8]) -> Shown {
    if authorization.is_empty() {
        return Shown::Nothing;
    }
    let Some((scheme, token)) = authorization.split_at_checked(SCHEME.len()).filter(|(_, token)| !token.is_empty())
    else {
        return Shown::Unlike("Bearer token is less than 8 bytes.");
    };
    if !scheme.eq_ignore_ascii_case(SCHEME) {
        return Shown::Unlike("The authorization is no bearer token.");
    }
    let token = token.trim_ascii_start();
    if token.is_empty() {
        return Shown::Unlike("Bearer token is empty.");
    }
    let signs = token.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last + 1);
    let is_sign = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(byte);
    match std::str::from_utf8(token) {
        Ok(token) if signs > 0 && token.as_bytes()[..signs].iter().all(is_sign) => Shown::Token(Password::new(token)),
        _ => Shown::Unlike("Bearer token is not in the correct format."),
    }
}

/// What a client is told whose token is not good, or who has shown none.
//= rfc7628#section-3.2.2
pub fn refusal(issuer: &str, scope: &str) -> Vec<u8> {
    let path = if issuer.contains("/.well-known/") { "" } else { "/.well-known/openid-configuration" };
    let (configuration, scope) = (json(&format!("{issuer}{path}")), json(scope));
    format!("{{ \"status\": \"invalid_token\", \"openid-configuration\": {configuration}, \"scope\": {scope} }}")
        .into_bytes()
}

/// As a string of JSON.
//= rfc8259#section-7
fn json(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `^` stands for the separator.
    fn read(text: &str) -> Result<Shown, &'static str> {
        read_first(text.replace('^', "\u{1}").as_bytes()).map_err(BearerError::detail)
    }

    #[test]
    fn messages_that_keep_the_rules() {
        let token = |text: &str| Ok(Shown::Token(Password::new(text)));
        let table = [
            ("n,,^auth=Bearer a.b-c_d~e+f/g==^^", token("a.b-c_d~e+f/g==")),
            ("y,,^auth=bEARER   x^^", token("x")),
            ("n,,^host=a^port=1^auth=Bearer x^other=^^", token("x")),
            ("n,,^auth=^^", Ok(Shown::Nothing)),
            ("n,,^auth=Bearer^^", Ok(Shown::Unlike("Bearer token is less than 8 bytes."))),
            ("n,,^auth=Bearer ^^", Ok(Shown::Unlike("Bearer token is less than 8 bytes."))),
            ("n,,^auth=Bearer   ^^", Ok(Shown::Unlike("Bearer token is empty."))),
            ("n,,^auth=Basic abcdef^^", Ok(Shown::Unlike("The authorization is no bearer token."))),
            ("n,,^auth=Bearer a b^^", Ok(Shown::Unlike("Bearer token is not in the correct format."))),
            ("n,,^auth=Bearer a=b^^", Ok(Shown::Unlike("Bearer token is not in the correct format."))),
            ("n,,^auth=Bearer ==^^", Ok(Shown::Unlike("Bearer token is not in the correct format."))),
        ];
        for (message, expected) in table {
            assert_eq!(read(message), expected, "{message}");
        }
    }

    #[test]
    fn messages_that_break_them() {
        let table = [
            ("", "The message is empty."),
            ("n,,^auth=Bearer x^^\0", "Message length does not match input length."),
            (
                "p=tls-server-end-point,,^auth=Bearer x^^",
                "The server does not support channel binding for OAuth, but the client message includes channel binding data.",
            ),
            ("x,,^auth=Bearer x^^", "Unexpected channel-binding flag."),
            ("n", "Comma expected after the channel-binding flag."),
            ("n^", "Comma expected after the channel-binding flag."),
            ("n,a=ann,^auth=Bearer x^^", "the client names an authorization identity"),
            ("n,b,^auth=Bearer x^^", "Unexpected attribute in client-first-message."),
            ("n,,auth=Bearer x^^", "Key-value separator expected."),
            ("n,,^", "Message did not contain a final terminator."),
            ("n,,^^", "Message does not contain an auth value."),
            ("n,,^auth=Bearer x", "Message contains an unterminated key/value pair."),
            ("n,,^auth=Bearer x^", "Message did not contain a final terminator."),
            ("n,,^auth=Bearer x^^more", "Message contains additional data after the final terminator."),
            ("n,,^auth^^", "Message contains a key without a value."),
            ("n,,^=x^^", "Message contains an empty key name."),
            ("n,,^au-th=x^^", "Message contains an invalid key name."),
            ("n,,^auth=Bearer x\u{7f}^^", "Message contains an invalid value."),
            ("n,,^auth=Bearer x^auth=Bearer y^^", "Message contains multiple auth values."),
        ];
        for (message, expected) in table {
            assert_eq!(read(message), Err(expected), "{message}");
        }
        assert_eq!(read_answer(b"\x01"), Ok(()));
        for wrong in [&b""[..], b"x", b"\x01\x01"] {
            assert!(read_answer(wrong).is_err());
        }
    }

    #[test]
    fn a_refusal_says_where_tokens_are_to_be_had() {
        let told = |issuer, scope| String::from_utf8(refusal(issuer, scope)).expect("it is text");
        assert_eq!(
            told("https://id.example", "openid \"pg\"\n"),
            "{ \"status\": \"invalid_token\", \"openid-configuration\": \"https://id.example/.well-known/openid-configuration\", \
             \"scope\": \"openid \\\"pg\\\"\\u000a\" }"
        );
        assert!(
            told("https://a/.well-known/oauth-authorization-server", "")
                .contains("\"https://a/.well-known/oauth-authorization-server\"")
        );
    }

    #[test]
    fn debug_shows_no_token() {
        let shown = read("n,,^auth=Bearer hunter2^^");
        assert!(!format!("{shown:?}").contains("hunter2"));
    }
}
