//! What the messages of protocol 3 say, and those that a client sends.

use std::io;

/// One message as it came: its type and what follows the length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub tag: u8,
    pub body: Vec<u8>,
}

impl Message {
    /// The text of field `code` in an ErrorResponse or NoticeResponse.
    #[must_use]
    pub fn field(&self, code: u8) -> String {
        field(&self.body, code)
    }

    /// A RowDescription's names.
    ///
    /// # Errors
    /// If the message is cut short, or holds more than it says.
    pub fn names(&self) -> io::Result<Vec<String>> {
        names(&self.body).ok_or_else(|| malformed("RowDescription"))
    }

    /// A DataRow's columns; NULL is `None`.
    ///
    /// # Errors
    /// If the message is cut short, or holds more than it says.
    pub fn columns(&self) -> io::Result<Vec<Option<String>>> {
        columns(&self.body).ok_or_else(|| malformed("DataRow"))
    }
}

fn malformed(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("a {name} that is not as long as it says"))
}

/// The NUL-terminated text of field `code` in an ErrorResponse or NoticeResponse.
fn field(body: &[u8], code: u8) -> String {
    let value = body.split(|&b| b == 0).find_map(|field| field.strip_prefix(&[code]));
    value.map(|text| String::from_utf8_lossy(text).into_owned()).unwrap_or_default()
}

/// An ErrorResponse in words: SQLSTATE (C) and message (M).
#[must_use]
pub fn refusal(body: &[u8]) -> String {
    format!("{}: {}", field(body, b'C'), field(body, b'M'))
}

//= pg18 protocol-message-formats#RowDescription
fn names(body: &[u8]) -> Option<Vec<String>> {
    let (count, mut rest) = body.split_first_chunk::<2>()?;
    let mut names = Vec::new();
    for _ in 0..u16::from_be_bytes(*count) {
        let end = rest.iter().position(|&b| b == 0)?;
        names.push(String::from_utf8_lossy(&rest[..end]).into_owned());
        // Behind each name stand 18 bytes about its type.
        rest = rest.get(end + 19..)?;
    }
    rest.is_empty().then_some(names)
}

/// A count, then for each column a length (-1 is NULL, `None`) and its bytes.
//= pg18 protocol-message-formats#DataRow
fn columns(body: &[u8]) -> Option<Vec<Option<String>>> {
    let (count, mut rest) = body.split_first_chunk::<2>()?;
    let mut columns = Vec::new();
    for _ in 0..u16::from_be_bytes(*count) {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let length = usize::try_from(i32::from_be_bytes(*length)).ok();
        let (value, after) = after.split_at_checked(length.unwrap_or(0))?;
        columns.push(length.map(|_| String::from_utf8_lossy(value).into_owned()));
        rest = after;
    }
    rest.is_empty().then_some(columns)
}

/// The text up to the next zero byte, and what follows it.
///
/// # Errors
/// No zero byte, or not UTF-8.
pub fn text(bytes: &[u8]) -> Result<(&str, &[u8]), String> {
    let end = bytes.iter().position(|byte| *byte == 0).ok_or("a text without its zero byte")?;
    let text = std::str::from_utf8(&bytes[..end]).map_err(|error| format!("a text that is not UTF-8: {error}"))?;
    Ok((text, &bytes[end + 1..]))
}

/// What a client sends.
//= pg18 protocol-message-formats
pub mod frontend {
    /// A message with a type byte.
    #[must_use]
    pub fn frame(tag: u8, body: &[u8]) -> Vec<u8> {
        let mut message = vec![tag];
        message.extend(length_of(body));
        message.extend(body);
        message
    }

    /// A message without one: startup, cancel.
    #[must_use]
    pub fn untagged(body: &[u8]) -> Vec<u8> {
        [&length_of(body)[..], body].concat()
    }

    #[must_use]
    pub fn startup(parameters: &[(&str, &str)]) -> Vec<u8> {
        let mut body = 196_608_u32.to_be_bytes().to_vec();
        for (name, value) in parameters {
            body.extend([cstring(name), cstring(value)].concat());
        }
        body.push(0);
        untagged(&body)
    }

    #[must_use]
    pub fn cancel(pid: u32, key: u32) -> Vec<u8> {
        let numbers = [80_877_102, pid, key].map(u32::to_be_bytes);
        untagged(&numbers.concat())
    }

    #[must_use]
    pub fn query(sql: &str) -> Vec<u8> {
        frame(b'Q', &cstring(sql))
    }

    #[must_use]
    pub fn parse(name: &str, sql: &str) -> Vec<u8> {
        frame(b'P', &[cstring(name), cstring(sql), vec![0, 0]].concat())
    }

    /// Binds text values to the unnamed portal; results come as text.
    #[must_use]
    pub fn bind(statement: &str, values: &[&str]) -> Vec<u8> {
        let mut body = [cstring(""), cstring(statement), vec![0, 0]].concat();
        body.extend(u16::try_from(values.len()).expect("few values").to_be_bytes());
        for value in values {
            body.extend([&length_of_value(value)[..], value.as_bytes()].concat());
        }
        body.extend([0, 0]);
        frame(b'B', &body)
    }

    #[must_use]
    pub fn execute() -> Vec<u8> {
        frame(b'E', &[0, 0, 0, 0, 0])
    }

    #[must_use]
    pub fn close_statement(name: &str) -> Vec<u8> {
        frame(b'C', &[vec![b'S'], cstring(name)].concat())
    }

    #[must_use]
    pub fn sync() -> Vec<u8> {
        frame(b'S', &[])
    }

    #[must_use]
    pub fn terminate() -> Vec<u8> {
        frame(b'X', &[])
    }

    fn cstring(text: &str) -> Vec<u8> {
        text.bytes().chain([0]).collect()
    }

    fn length_of(body: &[u8]) -> [u8; 4] {
        u32::try_from(body.len() + 4).expect("tests send no message of 4 GB").to_be_bytes()
    }

    fn length_of_value(value: &str) -> [u8; 4] {
        u32::try_from(value.len()).expect("tests send no value of 4 GB").to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_end_with_their_zero() {
        assert_eq!(text(b"ab\0cd"), Ok(("ab", &b"cd"[..])));
        assert!(text(b"ab").is_err());
        assert!(text(b"\xff\0").is_err());
    }

    #[test]
    fn columns_are_texts_or_null_and_a_row_is_as_long_as_it_says() {
        let body = [&[0, 3][..], &[0, 0, 0, 1, b'a'], &[255, 255, 255, 255], &[0, 0, 0, 2, b'b', b'c']].concat();
        assert_eq!(columns(&body), Some(vec![Some("a".to_owned()), None, Some("bc".to_owned())]));
        for malformed in [&[][..], &[0], &[0, 1], &[0, 1, 0, 0, 0, 9, b'x'], &[0, 0, 1], &body[..body.len() - 1]] {
            assert_eq!(columns(malformed), None, "{malformed:?}");
        }
    }

    #[test]
    fn a_row_description_names_its_columns() {
        let column = |name: &str| [name.as_bytes(), b"\0", &[0; 18]].concat();
        let body = [&b"\0\x02"[..], &column("database"), &column("lends")].concat();
        assert_eq!(names(&body), Some(vec!["database".to_owned(), "lends".to_owned()]));
        for malformed in [&[][..], b"\0\x01", b"\0\x01name\0", &body[..body.len() - 1], &[&body[..], b"x"].concat()] {
            assert_eq!(names(malformed), None, "{malformed:?}");
        }
    }

    #[test]
    fn an_error_is_its_sqlstate_and_message_and_may_lack_both() {
        assert_eq!(refusal(b"SFATAL\0C53300\0Mtoo many\0\0"), "53300: too many");
        assert_eq!(refusal(b""), ": ");
    }
}
