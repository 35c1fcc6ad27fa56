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

    /// A value behind its length, where -1 stands for NULL and takes no bytes.
    pub(crate) fn value(&mut self) -> Result<Option<&'a [u8]>, Error> {
        match self.i32()? {
            -1 => Ok(None),
            len => match usize::try_from(len) {
                Ok(len) => self.take(len).map(Some),
                Err(_) => Err(Error::BadValue("a value's length is below -1")),
            },
        }
    }

    /// PostgreSQL refuses a message with bytes left over, and so do we: they would be somebody's misunderstanding.
    pub(crate) fn end(&self) -> Result<(), Error> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(Error::BadValue("bytes follow the last field"))
        }
    }
}

/// Appends a value behind its length, -1 for NULL.
///
/// # Panics
/// If the value is longer than a length can say; the message around it would be too.
pub(crate) fn put_value(out: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        None => out.extend_from_slice(&(-1_i32).to_be_bytes()),
        Some(value) => {
            let len = i32::try_from(value.len())
                .expect("a value that we write ourselves is far below 2 GB");
            out.extend_from_slice(&len.to_be_bytes());
            out.extend_from_slice(value);
        }
    }
}
