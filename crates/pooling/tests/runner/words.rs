//! One line of a transcript as words: bare ones, texts in double quotes, and `|` between messages.
//!
//! A text knows `\n`, `\t`, `\0`, `\\`, `\"` and `\xHH`. `x*70000` is a text of that many `x`.

/// One word; `quoted` tells `"5"` from `5`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) text: Vec<u8>,
    pub(crate) quoted: bool,
}

impl Word {
    fn is_bar(&self) -> bool {
        !self.quoted && self.text == b"|"
    }
}

/// Words that are read from the front.
#[derive(Clone, Debug)]
pub(crate) struct Words<'a> {
    rest: &'a [Word],
}

impl<'a> Words<'a> {
    pub(crate) fn new(words: &'a [Word]) -> Words<'a> {
        Words { rest: words }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn rest(&self) -> &'a [Word] {
        self.rest
    }

    /// The next word, whatever it is.
    pub(crate) fn any(&mut self) -> Option<&'a Word> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    pub(crate) fn bare(&mut self, what: &str) -> Result<&'a str, String> {
        let word = self.any().filter(|word| !word.quoted).ok_or_else(|| format!("{what} is missing"))?;
        std::str::from_utf8(&word.text).map_err(|_| format!("{what} is not UTF-8"))
    }

    pub(crate) fn text(&mut self, what: &str) -> Result<Vec<u8>, String> {
        let word = self.any().ok_or_else(|| format!("{what} is missing"))?;
        if word.quoted { Ok(word.text.clone()) } else { Ok(repeated(&word.text).unwrap_or_else(|| word.text.clone())) }
    }

    pub(crate) fn string(&mut self, what: &str) -> Result<String, String> {
        String::from_utf8(self.text(what)?).map_err(|_| format!("{what} is not UTF-8"))
    }

    pub(crate) fn number<T: std::str::FromStr>(&mut self, what: &str) -> Result<T, String> {
        let word = self.bare(what)?;
        word.parse().map_err(|_| format!("{what}: '{word}' is no number"))
    }

    /// Takes the next words if they are these.
    pub(crate) fn eat(&mut self, phrase: &str) -> bool {
        let wanted: Vec<&str> = phrase.split(' ').collect();
        let same = self.rest.len() >= wanted.len()
            && self.rest.iter().zip(&wanted).all(|(word, wanted)| !word.quoted && word.text == wanted.as_bytes());
        if same {
            self.rest = &self.rest[wanted.len()..];
        }
        same
    }

    /// The next word if it is bare.
    pub(crate) fn name(&mut self) -> Option<Vec<u8>> {
        let first = self.rest.first().filter(|word| !word.quoted)?;
        self.rest = &self.rest[1..];
        Some(repeated(&first.text).unwrap_or_else(|| first.text.clone()))
    }

    /// Whether a count of what follows comes next.
    pub(crate) fn is_times(&self) -> bool {
        self.rest.get(1).is_some_and(|word| !word.quoted && word.text == b"times")
    }

    pub(crate) fn end(&self) -> Result<(), String> {
        match self.rest.first() {
            None => Ok(()),
            Some(word) => Err(format!("'{}' is too much", String::from_utf8_lossy(&word.text))),
        }
    }

    /// What lies between the bars.
    pub(crate) fn messages(self) -> impl Iterator<Item = Words<'a>> {
        self.rest.split(Word::is_bar).map(Words::new)
    }
}

/// `x*5` as `xxxxx`.
fn repeated(word: &[u8]) -> Option<Vec<u8>> {
    let [letter, b'*', count @ ..] = word else { return None };
    let count: usize = std::str::from_utf8(count).ok()?.parse().ok()?;
    Some(vec![*letter; count])
}

pub(crate) fn split(line: &str) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let mut chars = line.chars().peekable();
    while let Some(&next) = chars.peek() {
        if next == ' ' {
            chars.next();
            continue;
        }
        let mut word = Word { text: Vec::new(), quoted: next == '"' };
        while let Some(&next) = chars.peek() {
            match next {
                ' ' => break,
                '"' => {
                    chars.next();
                    quoted(&mut chars, &mut word.text)?;
                }
                _ => {
                    chars.next();
                    word.text.extend_from_slice(next.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
        }
        words.push(word);
    }
    Ok(words)
}

fn quoted(chars: &mut impl Iterator<Item = char>, out: &mut Vec<u8>) -> Result<(), String> {
    loop {
        let next = chars.next().ok_or("a text has no end")?;
        match next {
            '"' => return Ok(()),
            '\\' => escaped(chars, out)?,
            _ => out.extend_from_slice(next.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

/// What a backslash begins: `\*x70000;` is as many letters.
fn escaped(chars: &mut impl Iterator<Item = char>, out: &mut Vec<u8>) -> Result<(), String> {
    out.push(match chars.next() {
        Some('n') => b'\n',
        Some('t') => b'\t',
        Some('0') => 0,
        Some('x') => {
            let digits: String = chars.take(2).collect();
            u8::from_str_radix(&digits, 16).map_err(|_| format!("'\\x{digits}' is no byte"))?
        }
        Some('*') => {
            let letter = chars.next().ok_or("a text has no end")?;
            let count: String = chars.take_while(|next| *next != ';').collect();
            let count = count.parse().map_err(|_| format!("'{count}' is no count"))?;
            out.extend(letter.to_string().repeat(count).bytes());
            return Ok(());
        }
        Some(other) => other as u8,
        None => return Err("a text has no end".to_owned()),
    });
    Ok(())
}

/// Bytes as a text that [`split`] reads back; a long run of one letter as `x*70000`, other long ones by their length.
pub(crate) fn show(bytes: &[u8]) -> String {
    const LONG: usize = 240;
    if bytes.len() > LONG {
        let first = bytes[0];
        return match bytes.iter().all(|byte| *byte == first) && first.is_ascii_alphanumeric() {
            true => format!("{}*{}", first as char, bytes.len()),
            false => format!("<{} bytes>", bytes.len()),
        };
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\0', "\\0");
            format!("\"{text}\"")
        }
        Err(_) => format!("\"{}\"", bytes.escape_ascii()),
    }
}
