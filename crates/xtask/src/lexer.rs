//! Rust text as tokens: words, marks, strings and comments, each with its line.
//!
//! Promises that a brace in a string, a comment or a character is not a mark, and that a lifetime is not a character.
//! Never fails: what it does not know is a mark of one character. Does not interpret numbers or escapes.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Word,
    Number,
    /// Strings of every sort, and characters.
    Literal,
    Lifetime,
    Comment,
    Mark,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    /// From 1; of the first character.
    pub(crate) line: usize,
}

/// Marks of several characters, longest first; only those whose parts would mislead.
const MARKS: [&str; 12] = ["..=", "...", "..", "=>", "==", "->", "<=", ">=", "!=", "&&", "||", "::"];

pub(crate) fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    while let Some(first) = source[at..].chars().next() {
        let rest = &source[at..];
        if first.is_whitespace() {
            line += usize::from(first == '\n');
            at += first.len_utf8();
            continue;
        }
        let (kind, len) = next(rest, first);
        let text = &rest[..len];
        found.push(Token { kind, text, line });
        line += text.matches('\n').count();
        at += len;
    }
    found
}

/// Kind and length in bytes of the token at the start of `rest`.
fn next(rest: &str, first: char) -> (Kind, usize) {
    if rest.starts_with("//") {
        return (Kind::Comment, rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (Kind::Comment, block_comment(rest));
    }
    if let Some(len) = string(rest) {
        return (Kind::Literal, len);
    }
    if first == '\'' {
        return quote(rest);
    }
    if first.is_ascii_digit() {
        return (Kind::Number, number(rest));
    }
    if first == '_' || first.is_alphanumeric() {
        let raw = if rest.starts_with("r#") { 2 } else { 0 };
        return (Kind::Word, raw + span(&rest[raw..], word));
    }
    let mark = MARKS.iter().find(|mark| rest.starts_with(**mark));
    (Kind::Mark, mark.map_or(first.len_utf8(), |mark| mark.len()))
}

fn word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

fn span(text: &str, keep: impl Fn(char) -> bool) -> usize {
    text.find(|c| !keep(c)).unwrap_or(text.len())
}

fn number(rest: &str) -> usize {
    let whole = span(rest, word);
    let mut after = rest[whole..].chars();
    if after.next() == Some('.') && after.next().is_some_and(|c| c.is_ascii_digit()) {
        return whole + 1 + span(&rest[whole + 1..], word);
    }
    whole
}

/// Block comments nest in Rust.
fn block_comment(rest: &str) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while at < rest.len() {
        let here = &rest.as_bytes()[at..];
        if here.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if here.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// Length of a string with whatever prefix it has, or `None` where there is none.
fn string(rest: &str) -> Option<usize> {
    let prefix = ["br", "cr", "r", "b", "c", ""].into_iter().find(|prefix| {
        let after = rest.strip_prefix(prefix).unwrap_or_default();
        after.starts_with('"') || prefix.ends_with('r') && after.trim_start_matches('#').starts_with('"')
    })?;
    let body = &rest[prefix.len()..];
    if !prefix.ends_with('r') {
        return Some(prefix.len() + delimited(body, '"'));
    }
    let hashes = span(body, |c| c == '#');
    let inside = body[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let len = inside.find(&end).map_or(inside.len(), |found| found + end.len());
    Some(prefix.len() + hashes + 1 + len)
}

/// Length of what stands between two `mark`s, both counted, minding backslashes.
fn delimited(rest: &str, mark: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == mark {
            return at + mark.len_utf8();
        }
    }
    rest.len()
}

/// A character or a lifetime.
fn quote(rest: &str) -> (Kind, usize) {
    let mut after = rest.chars().skip(1);
    let (first, second) = (after.next(), after.next());
    if first == Some('\\') || second == Some('\'') {
        return (Kind::Literal, delimited(rest, '\''));
    }
    (Kind::Lifetime, 1 + span(&rest[1..], word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<(Kind, &str)> {
        tokens(source).into_iter().map(|token| (token.kind, token.text)).collect()
    }

    #[test]
    fn braces_in_literals_and_comments_are_no_marks() {
        for literal in [r#""{ \" }""#, "'{'", r"'\''", r##"r#"a " {"#"##, "b\"{\"", "r\"\\\"", "'\\u{7b}'"] {
            assert_eq!(texts(literal), [(Kind::Literal, literal)]);
        }
        assert_eq!(texts("/* { /* } */ { */"), [(Kind::Comment, "/* { /* } */ { */")]);
        assert_eq!(texts("// {\n}"), [(Kind::Comment, "// {"), (Kind::Mark, "}")]);
    }

    #[test]
    fn lifetimes_numbers_and_raw_words() {
        assert_eq!(texts("'a"), [(Kind::Lifetime, "'a")]);
        assert_eq!(texts("0..1_000"), [(Kind::Number, "0"), (Kind::Mark, ".."), (Kind::Number, "1_000")]);
        assert_eq!(texts("2.5"), [(Kind::Number, "2.5")]);
        assert_eq!(texts("r#type b'x'"), [(Kind::Word, "r#type"), (Kind::Word, "b"), (Kind::Literal, "'x'")]);
    }

    #[test]
    fn lines_count_from_one_and_through_long_strings() {
        let lines: Vec<usize> = tokens("a\n\"x\ny\"\nb").iter().map(|token| token.line).collect();
        assert_eq!(lines, [1, 2, 4]);
    }
}
