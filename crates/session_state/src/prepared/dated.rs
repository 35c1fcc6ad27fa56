//! Constants of which PostgreSQL takes the value when a statement is prepared: `'now'`, `'today'`. What one session has prepared has that
//! session's moment, and is no other's.
//!
//! //= pg18 datatype-datetime#DATATYPE-DATETIME-SPECIAL-VALUES

const WORDS: [&[u8]; 4] = [b"now", b"today", b"tomorrow", b"yesterday"];

/// Whether a string in this text may be such a constant, or a list or range with one: it begins with such a word, or has one behind a comma.
/// Rather too often: such a statement is only not shared.
pub(super) fn has_dated_constant(query: &[u8]) -> bool {
    let begins = |byte: u8| matches!(byte, b'\'' | b'$' | b',' | b'"' | b'{' | b'[' | b'(');
    let starts = |&at: &usize| {
        let before = query[..at].trim_ascii_end().last();
        before.is_some_and(|byte| begins(*byte))
    };
    let ends =
        |end: usize| query.get(end).is_none_or(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_' && *byte != b'(');
    let has_string = query.contains(&b'\'') || query.contains(&b'$');
    has_string
        && WORDS.iter().any(|word| {
            let found = query.windows(word.len()).enumerate().filter(|(_, found)| found.eq_ignore_ascii_case(word));
            found.map(|(at, _)| at).filter(starts).any(|at| ends(at + word.len()))
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
        ] {
            assert!(has_dated_constant(text.as_bytes()), "{text}");
        }
        for text in [
            "select now()",
            "select 'nowhere'",
            "select now, today from t",
            "select 'right now'",
            "select coalesce($1, now())",
        ] {
            assert!(!has_dated_constant(text.as_bytes()), "{text}");
        }
    }
}
