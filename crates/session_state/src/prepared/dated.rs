//! Constants of which PostgreSQL takes the value when a statement is prepared: `'now'`, `'today'`. What one session has prepared has that
//! session's moment, and is no other's.
//!
//! //= pg18 datatype-datetime#DATATYPE-DATETIME-SPECIAL-VALUES

const WORDS: [&[u8]; 4] = [b"now", b"today", b"tomorrow", b"yesterday"];

/// Whether a string in this text may be such a constant, or have one in it, as `'10:00 today'` and `'[now,infinity)'` have. Rather too often:
/// such a statement is only not shared. Where an odd number of quotes stands before a word, it is in a string; a string in dollars is
/// looked at only where it begins with the word.
pub(super) fn has_dated_constant(query: &[u8]) -> bool {
    let is_in_word = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let is_found = |at: usize, len: usize| {
        let (before, after) = (&query[..at], query.get(at + len));
        let in_quotes = before.iter().filter(|byte| **byte == b'\'').count() % 2 == 1;
        let begins = before.trim_ascii_end().ends_with(b"$");
        (in_quotes || begins) && !is_in_word(before.last()) && !is_in_word(after) && after != Some(&b'(')
    };
    let may_have_strings = query.contains(&b'\'') || query.contains(&b'$');
    may_have_strings
        && WORDS.iter().any(|word| {
            let mut found = query.windows(word.len()).enumerate();
            found.any(|(at, text)| text.eq_ignore_ascii_case(word) && is_found(at, word.len()))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_found_in_strings() {
        for text in [
            "select 'now'::timestamptz",
            "select timestamp ' Today 10:00'",
            "select date E'tomorrow'",
            "select * from t where at > 'yesterday'",
            "select '{now,today}'::timestamptz[]",
            "select '[2020-01-01, tomorrow)'::daterange",
            "select $$now$$::date",
            "select $x$ now$x$::date",
            "select timestamp '10:00 today'",
            "select 'it''s', '04:05 Tomorrow'::timestamp",
        ] {
            assert!(has_dated_constant(text.as_bytes()), "{text}");
        }
        for text in [
            "select now()",
            "select 'nowhere'",
            "select now, today from t",
            "select 'know'",
            "select coalesce($1, now())",
        ] {
            assert!(!has_dated_constant(text.as_bytes()), "{text}");
        }
    }
}
