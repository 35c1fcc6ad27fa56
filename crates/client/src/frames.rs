//! Message borders of PostgreSQL's protocol 3, for both ends of a load.
//!
//! Promises: hands out whole messages however the bytes were split; copies only what was split.
//! Does not know what a message means.

/// No message of a load is longer (1 MiB): a length beyond it is a broken server, not a reason to allocate.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// Cuts a stream of bytes into messages and keeps what is not yet whole.
#[derive(Debug, Default)]
pub struct Frames {
    rest: Vec<u8>,
}

impl Frames {
    /// Calls `each` with tag and body of every whole message in `bytes` and what was left from before.
    ///
    /// # Errors
    /// A length below 4 or beyond the limit; whatever `each` returns, after which the stream is not to be used.
    pub fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(u8, &[u8]) -> Result<(), String>) -> Result<(), String> {
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

/// Hands out the whole messages at the front of `bytes` and returns how many bytes they took.
fn split(bytes: &[u8], each: &mut impl FnMut(u8, &[u8]) -> Result<(), String>) -> Result<usize, String> {
    let mut used = 0;
    while let Some((tag, body)) = first(&bytes[used..])? {
        each(tag, body)?;
        used += 5 + body.len();
    }
    Ok(used)
}

/// The first message, if it is whole.
//= pg18 protocol-message-formats: a tag byte, then an Int32 length that counts itself but not the tag.
fn first(bytes: &[u8]) -> Result<Option<(u8, &[u8])>, String> {
    let Some((header, rest)) = bytes.split_first_chunk::<5>() else { return Ok(None) };
    let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
    if !(4..=MESSAGE_BYTES_MAX).contains(&length) {
        return Err(format!("message '{}' says it is {length} bytes long", header[0].escape_ascii()));
    }
    Ok(rest.get(..length - 4).map(|body| (header[0], body)))
}

/// Appends one message, its body in parts.
pub fn put(out: &mut Vec<u8>, tag: u8, body: &[&[u8]]) {
    let length = 4 + body.iter().map(|part| part.len()).sum::<usize>();
    out.push(tag);
    out.extend_from_slice(&u32::try_from(length).expect("our own messages are short").to_be_bytes());
    body.iter().for_each(|part| out.extend_from_slice(part));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(chunks: &[&[u8]]) -> Result<Vec<(u8, Vec<u8>)>, String> {
        let mut frames = Frames::default();
        let mut seen = Vec::new();
        for chunk in chunks {
            frames.feed(chunk, |tag, body| {
                seen.push((tag, body.to_vec()));
                Ok(())
            })?;
        }
        Ok(seen)
    }

    #[test]
    fn messages_come_out_whole_however_they_are_split() {
        let mut bytes = Vec::new();
        put(&mut bytes, b'Q', &[b"SELECT 1", b"\0"]);
        put(&mut bytes, b'S', &[]);
        put(&mut bytes, b'D', &[&[7; 300]]);
        let whole = all(&[&bytes]).expect("well formed");
        assert_eq!(whole.len(), 3);
        for cut in 0..bytes.len() {
            assert_eq!(all(&[&bytes[..cut], &bytes[cut..]]).as_ref(), Ok(&whole), "cut at {cut}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(all(&single), Ok(whole));
    }

    #[test]
    fn impossible_lengths_are_errors() {
        for length in [0u32, 3, 1 << 21, u32::MAX] {
            let mut bytes = vec![b'Q'];
            bytes.extend_from_slice(&length.to_be_bytes());
            assert!(all(&[&bytes]).is_err(), "{length}");
        }
    }
}
