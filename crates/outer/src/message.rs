//! The bytes of protocol 3, written here once more on purpose: what pgweir's own `wire` gets wrong must not cancel out.

/// One message as it came: its type and what follows the length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub tag: u8,
    pub body: Vec<u8>,
}

impl Message {
    /// The NUL-terminated text of field `code` in an ErrorResponse or NoticeResponse.
    #[must_use]
    pub fn field(&self, code: u8) -> String {
        let value = self.body.split(|&b| b == 0).find_map(|field| field.strip_prefix(&[code]));
        value.map(|text| String::from_utf8_lossy(text).into_owned()).unwrap_or_default()
    }

    /// A RowDescription's names.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let mut rest = self.body.get(2..).unwrap_or_default();
        let mut names = Vec::new();
        // Behind each name stand 18 bytes about its type.
        while let Some(end) = rest.iter().position(|&b| b == 0) {
            names.push(String::from_utf8_lossy(&rest[..end]).into_owned());
            rest = rest.get(end + 19..).unwrap_or_default();
        }
        names
    }

    /// A DataRow's columns; NULL is `None`.
    #[must_use]
    pub fn columns(&self) -> Vec<Option<String>> {
        let mut rest = self.body.get(2..).unwrap_or_default();
        let mut columns = Vec::new();
        while let Some((length, after)) = rest.split_first_chunk::<4>() {
            let length = usize::try_from(i32::from_be_bytes(*length)).ok();
            let (value, after) = after.split_at(length.unwrap_or(0).min(after.len()));
            columns.push(length.map(|_| String::from_utf8_lossy(value).into_owned()));
            rest = after;
        }
        columns
    }
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
