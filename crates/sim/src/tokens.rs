//! A statement's text as tokens: as much of PostgreSQL's lexical rules as model clients use.
//!
//! A backslash in a literal always escapes the next letter: clients write no literal whose meaning depends on
//! standard_conforming_strings.

/// One token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// A word or a name, folded; a quoted one as it is.
    Word(String),
    Text(String),
    Number(String),
    Sign(char),
}

/// All tokens, and where each begins. `None`: a quote or comment does not end.
#[must_use]
pub fn tokens(text: &str) -> Option<Vec<(Token, usize)>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let start = at;
        let token = match byte {
            b' ' | b'\t' | b'\n' | b'\r' => {
                at += 1;
                continue;
            }
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                at += text[at..].find("*/")? + 2;
                continue;
            }
            b'e' | b'E' if bytes.get(at + 1) == Some(&b'\'') => {
                at += 1;
                Token::Text(quoted(text, &mut at)?)
            }
            b'\'' => Token::Text(quoted(text, &mut at)?),
            b'"' => Token::Word(quoted(text, &mut at)?),
            b'0'..=b'9' => Token::Number(run(text, &mut at, |letter| letter.is_ascii_alphanumeric() || letter == '.')),
            _ if byte.is_ascii_alphabetic() || byte == b'_' => {
                let in_word = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '$';
                Token::Word(run(text, &mut at, in_word).to_lowercase())
            }
            _ => {
                let sign = text[at..].chars().next()?;
                at += sign.len_utf8();
                Token::Sign(sign)
            }
        };
        found.push((token, start));
    }
    Some(found)
}

fn run(text: &str, at: &mut usize, belongs: impl Fn(char) -> bool) -> String {
    let rest = &text[*at..];
    let len = rest.find(|letter| !belongs(letter)).unwrap_or(rest.len());
    *at += len;
    rest[..len].to_owned()
}

/// Reads from the quote at `at` to after the closing one; a doubled quote stands for one.
fn quoted(text: &str, at: &mut usize) -> Option<String> {
    let mut letters = text[*at..].char_indices().peekable();
    let quote = letters.next()?.1;
    let mut inside = String::new();
    loop {
        let (offset, letter) = letters.next()?;
        if letter == '\\' {
            inside.push(letters.next()?.1);
        } else if letter != quote {
            inside.push(letter);
        } else if letters.next_if(|(_, next)| *next == quote).is_some() {
            inside.push(quote);
        } else {
            *at += offset + 1;
            return Some(inside);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_and_comments() {
        let found = tokens("SET \"App.X\" = E'it''s \\\\ \\'' /* ; */ , 12kB").expect("it is complete");
        let found: Vec<Token> = found.into_iter().map(|(token, _)| token).collect();
        let word = |text: &str| Token::Word(text.to_owned());
        let wanted = [
            word("set"),
            word("App.X"),
            Token::Sign('='),
            Token::Text("it's \\ '".to_owned()),
            Token::Sign(','),
            Token::Number("12kB".to_owned()),
        ];
        assert_eq!(found, wanted);
        assert_eq!(tokens("select 'a"), None);
    }
}
