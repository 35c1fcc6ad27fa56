//! Message borders of PostgreSQL's protocol 3, as a client needs them.
//!
//! Promises: hands out whole messages however the bytes were split, copies only what was split, and allocates nothing on a
//! length's say-so. Does not know what a message means.

/// No answer of a trial is longer (1 MiB).
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// What is left of a message that has not arrived as a whole.
#[derive(Default)]
pub(crate) struct Frames {
    rest: Vec<u8>,
}

impl Frames {
    /// Calls `each` with tag and body of every message that is whole now.
    ///
    /// # Errors
    /// An impossible length, or whatever `each` returns; the stream is of no use afterwards.
    pub(crate) fn feed(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(u8, &[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        if self.rest.is_empty() {
            let used = split(bytes, &mut each)?;
            self.rest.extend_from_slice(&bytes[used..]);
            return Ok(());
        }
        self.rest.extend_from_slice(bytes);
        let used = split(&self.rest, &mut each)?;
        self.rest.drain(..used);
        Ok(())
    }
}

/// Hands out the whole messages at the front; how many bytes they took.
fn split(bytes: &[u8], each: &mut impl FnMut(u8, &[u8]) -> Result<(), String>) -> Result<usize, String> {
    let mut used = 0;
    while let Some((tag, body)) = first(&bytes[used..])? {
        each(tag, body)?;
        used += 5 + body.len();
    }
    Ok(used)
}

//= pg18 protocol-message-formats
fn first(bytes: &[u8]) -> Result<Option<(u8, &[u8])>, String> {
    let Some((header, rest)) = bytes.split_first_chunk::<5>() else { return Ok(None) };
    let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
    if !(4..=MESSAGE_BYTES_MAX).contains(&length) {
        return Err(format!("a message '{}' says that it is {length} bytes long", header[0].escape_ascii()));
    }
    Ok(rest.get(..length - 4).map(|body| (header[0], body)))
}

/// Appends one message.
pub(crate) fn put(out: &mut Vec<u8>, tag: u8, parts: &[&[u8]]) {
    let length: usize = 4 + parts.iter().map(|part| part.len()).sum::<usize>();
    out.push(tag);
    out.extend_from_slice(&u32::try_from(length).expect("our own messages are short").to_be_bytes());
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// The startup packet, which has no tag.
pub(crate) fn startup(user: &str, database: &str, application: &str) -> Vec<u8> {
    const PROTOCOL: u32 = 3 << 16;
    let mut body = PROTOCOL.to_be_bytes().to_vec();
    for text in ["user", user, "database", database, "application_name", application] {
        body.extend_from_slice(text.as_bytes());
        body.push(0);
    }
    body.push(0);
    let length = u32::try_from(body.len() + 4).expect("names are short");
    [&length.to_be_bytes()[..], &body].concat()
}

/// An ErrorResponse in words: SQLSTATE (C) and message (M).
pub(crate) fn refusal(body: &[u8]) -> String {
    let field = |code: u8| {
        let value = body.split(|byte| *byte == 0).find_map(|field| field.strip_prefix(&[code]));
        value.map(|text| String::from_utf8_lossy(text).into_owned()).unwrap_or_default()
    };
    format!("{}: {}", field(b'C'), field(b'M'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_whole_however_they_were_split() {
        let mut bytes = Vec::new();
        put(&mut bytes, b'Q', &[b"select 1", b"\0"]);
        put(&mut bytes, b'S', &[]);
        for size in 1..=bytes.len() {
            let (mut frames, mut seen) = (Frames::default(), Vec::new());
            for piece in bytes.chunks(size) {
                let each = |tag, body: &[u8]| {
                    seen.push((tag, body.to_vec()));
                    Ok(())
                };
                frames.feed(piece, each).expect("well formed");
            }
            assert_eq!(seen, [(b'Q', b"select 1\0".to_vec()), (b'S', Vec::new())]);
        }
    }

    #[test]
    fn an_impossible_length_is_an_error() {
        for length in [0_u32, 3, u32::MAX] {
            let bytes = [&[b'Z'][..], &length.to_be_bytes()].concat();
            assert!(Frames::default().feed(&bytes, |_, _| Ok(())).is_err());
        }
    }

    #[test]
    fn an_error_is_its_sqlstate_and_message() {
        assert_eq!(refusal(b"SFATAL\0C53300\0Mtoo many\0\0"), "53300: too many");
        assert_eq!(refusal(b""), ": ");
    }
}
