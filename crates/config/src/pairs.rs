//! `key=value key='another value'`: the text after the `=` in `[databases]`, `[users]` and `[peers]`.
//!
//! Promises libpq-like words as PgBouncer reads them: blanks around `=` are free, single quotes hold blanks, a doubled
//! quote stands for one. A tab ends a value too, where PgBouncer would take it for part of it. Errors do not repeat
//! what may be a password.
//!
//! A value may be missing at the end or be `''`: then the parameter is unset. As in libpq a word that follows `key=`
//! after blanks is its value.

use crate::problem::quoted;

/// The pairs in order, or what was found where a pair was expected.
pub(crate) fn parse(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut pairs: Vec<(String, String)> = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let end = rest.find(|c: char| c == '=' || c.is_ascii_whitespace()).unwrap_or(rest.len());
        let (key, after) = rest.split_at(end);
        let Some(after) = after.trim_start().strip_prefix('=').filter(|_| !key.is_empty()) else {
            return Err(no_pair(key, pairs.last().map(|(key, _)| key.as_str())));
        };
        let (value, after) = value(key, after.trim_start())?;
        pairs.push((key.to_owned(), value));
        rest = after.trim_start();
    }
    Ok(pairs)
}

/// The value and what follows it.
fn value<'a>(key: &str, text: &'a str) -> Result<(String, &'a str), String> {
    let Some(mut rest) = text.strip_prefix('\'') else {
        let end = text.find(|c: char| c.is_ascii_whitespace()).unwrap_or(text.len());
        return Ok((text[..end].to_owned(), &text[end..]));
    };
    let mut value = String::new();
    loop {
        let Some(end) = rest.find('\'') else {
            return Err(format!("no closing ' after {}", quoted(key)));
        };
        value.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('\'') {
            Some(after) => {
                value.push('\'');
                rest = after;
            }
            None if rest.is_empty() || rest.starts_with(|c: char| c.is_ascii_whitespace()) => return Ok((value, rest)),
            None => return Err(format!("no blank after the closing ' of {}", quoted(key))),
        }
    }
}

/// A word after `password=` may be the rest of a password with a blank in it.
fn no_pair(word: &str, last: Option<&str>) -> String {
    match last {
        Some(last) if last.contains("password") => format!("a word without = after {}", quoted(last)),
        Some(last) => format!("{} without = after {}", quoted(word), quoted(last)),
        None => format!("{} without =", quoted(word)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_as_in_pgbouncer() {
        let table: &[(&str, &[(&str, &str)])] = &[
            ("", &[]),
            ("   ", &[]),
            ("host=a port=5", &[("host", "a"), ("port", "5")]),
            (" host = a\tport =5 ", &[("host", "a"), ("port", "5")]),
            ("password='it''s two' user=x", &[("password", "it's two"), ("user", "x")]),
            ("password=''", &[("password", "")]),
            ("password=''''", &[("password", "'")]),
            ("pool_size=", &[("pool_size", "")]),
            ("host= port=5", &[("host", "port=5")]),
            ("connect_query='set x = 1; -- ='", &[("connect_query", "set x = 1; -- =")]),
            ("password=a=b'c", &[("password", "a=b'c")]),
        ];
        for (text, expected) in table {
            let pairs = parse(text).expect("the table's left column is well-formed");
            let pairs: Vec<(&str, &str)> = pairs.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            assert_eq!(pairs, *expected, "{text:?}");
        }
    }

    #[test]
    fn mistakes_are_named_and_passwords_are_not() {
        let table = [
            ("host", "\"host\" without ="),
            ("= 5", "nothing without ="),
            ("host=a b", "\"b\" without = after \"host\""),
            ("password=my secret", "a word without = after \"password\""),
            ("password='secret", "no closing ' after \"password\""),
            ("password='a'secret", "no blank after the closing ' of \"password\""),
        ];
        for (text, expected) in table {
            assert_eq!(parse(text).expect_err(text), expected);
        }
    }
}
