//! Reads the fields of a body one after the other. It promises that no field reaches beyond the body and that a failed
//! read is an [`Error`]; it copies nothing. It does not know which message it reads.

use crate::{Error, cstr};

pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(body: &'a [u8]) -> Reader<'a> {
        Reader { rest: body }
    }

    /// What is left, without taking it.
    pub(crate) fn peek(&self) -> &'a [u8] {
        self.rest
    }

    /// Everything that is left.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(Error::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(Error::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Error> {
        self.array().map(u8::from_be_bytes)
    }

    pub(crate) fn i16(&mut self) -> Result<i16, Error> {
        self.array().map(i16::from_be_bytes)
    }

    /// A number of things. The manual calls it Int16, PostgreSQL reads it without a sign: Bind has up to 65,535 values.
    pub(crate) fn count(&mut self) -> Result<u16, Error> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Error> {
        self.array().map(i32::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn cstr(&mut self) -> Result<&'a [u8], Error> {
        let (string, rest) = cstr(self.rest).ok_or(Error::MissingTerminator)?;
        self.rest = rest;
        Ok(string)
    }

    /// A length and its value; -1 stands for NULL, without bytes.
    pub(crate) fn value(&mut self) -> Result<Option<&'a [u8]>, Error> {
        match self.i32()? {
            -1 => Ok(None),
            len => match usize::try_from(len) {
                Ok(len) => self.take(len).map(Some),
                Err(_) => Err(Error::BadValue("a value's length is below -1")),
            },
        }
    }

    /// PostgreSQL refuses a message with bytes left over, and so do we.
    pub(crate) fn end(&self) -> Result<(), Error> {
        if self.rest.is_empty() { Ok(()) } else { Err(Error::BadValue("bytes follow the last field")) }
    }
}

/// Appends a value's length and the value, -1 for NULL.
///
/// # Panics
/// If the value is longer than a length can say; the message around it would be too.
pub(crate) fn put_value(out: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        None => out.extend_from_slice(&(-1_i32).to_be_bytes()),
        Some(value) => {
            let len = i32::try_from(value.len()).expect("a value that we write ourselves is far below 2 GB");
            out.extend_from_slice(&len.to_be_bytes());
            out.extend_from_slice(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_big_endian_and_bounded() {
        let mut reader = Reader::new(&[1, 2, 3, 0xff, 0xfe, 0xff, 0xff, 0xff, 0xfd, 9]);
        assert_eq!(reader.u8(), Ok(1));
        assert_eq!(reader.count(), Ok(0x203));
        assert_eq!(reader.i16(), Ok(-2));
        assert_eq!(reader.i32(), Ok(-3));
        assert_eq!(reader.u32(), Err(Error::Truncated));
        assert_eq!(reader.peek(), [9], "a failed read takes nothing");
        assert_eq!(reader.end(), Err(Error::BadValue("bytes follow the last field")));
        assert_eq!(reader.take(2), Err(Error::Truncated));
        assert_eq!(reader.take(usize::MAX), Err(Error::Truncated));
        assert_eq!(reader.take(1), Ok(&[9][..]));
        assert_eq!(reader.end(), Ok(()));
    }

    #[test]
    fn a_value_is_believed_only_as_far_as_it_is_there() {
        let read = |len: i32, bytes: &[u8]| {
            let wire = [&len.to_be_bytes(), bytes].concat();
            Reader::new(&wire).value().map(|value| value.map(<[u8]>::to_vec))
        };
        assert_eq!(read(-1, b"xy"), Ok(None));
        assert_eq!(read(0, b"xy"), Ok(Some(vec![])));
        assert_eq!(read(2, b"xy"), Ok(Some(b"xy".to_vec())));
        assert_eq!(read(3, b"xy"), Err(Error::Truncated));
        assert_eq!(read(i32::MAX, b"xy"), Err(Error::Truncated));
        for len in [-2, i32::MIN] {
            assert_eq!(read(len, b"xy"), Err(Error::BadValue("a value's length is below -1")));
        }
        assert_eq!(Reader::new(&[0, 0, 0]).value(), Err(Error::Truncated));
    }

    #[test]
    fn values_are_written_as_they_are_read() {
        for value in [None, Some(&b""[..]), Some(&b"\0\xff"[..])] {
            let mut out = Vec::new();
            put_value(&mut out, value);
            let mut reader = Reader::new(&out);
            assert_eq!(reader.value(), Ok(value));
            assert_eq!(reader.end(), Ok(()));
        }
    }
}
