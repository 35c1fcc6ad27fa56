//! AuthenticationOk and the requests for a proof. The code in front of the body says which it is; codes that we do not
//! speak come out as [`Authentication::Other`], so that the caller can name them. It proves nothing itself.
//!
//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-AUTHENTICATIONOK

use super::tag;
use crate::{Error, cstr, message, put_cstr, reader::Reader};

const OK: i32 = 0;
const CLEARTEXT: i32 = 3;
const MD5: i32 = 5;
const SASL: i32 = 10;
const SASL_CONTINUE: i32 = 11;
const SASL_FINAL: i32 = 12;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Authentication<'a> {
    /// The client is who it says.
    Ok,
    CleartextPassword,
    Md5Password {
        salt: [u8; 4],
    },
    Sasl {
        mechanisms: Mechanisms<'a>,
    },
    /// The server's next line of the mechanism.
    SaslContinue(&'a [u8]),
    /// The server's last line; [`Authentication::Ok`] follows.
    SaslFinal(&'a [u8]),
    /// Kerberos, GSSAPI, SSPI, or what is not invented yet: its code.
    Other(i32),
}

impl<'a> Authentication<'a> {
    /// # Errors
    /// If the body is too short for its code, or longer. What follows an unknown code is not looked at.
    pub fn decode(body: &'a [u8]) -> Result<Authentication<'a>, Error> {
        let mut reader = Reader::new(body);
        let authentication = match reader.i32()? {
            OK => Authentication::Ok,
            CLEARTEXT => Authentication::CleartextPassword,
            MD5 => Authentication::Md5Password {
                salt: reader.array()?,
            },
            SASL => {
                return Mechanisms::decode(reader.rest())
                    .map(|mechanisms| Authentication::Sasl { mechanisms });
            }
            SASL_CONTINUE => return Ok(Authentication::SaslContinue(reader.rest())),
            SASL_FINAL => return Ok(Authentication::SaslFinal(reader.rest())),
            other => return Ok(Authentication::Other(other)),
        };
        reader.end()?;
        Ok(authentication)
    }

    /// Appends the whole message. `Other` is written as its bare code.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (code, rest): (i32, &[u8]) = match self {
            Authentication::Ok => (OK, &[]),
            Authentication::CleartextPassword => (CLEARTEXT, &[]),
            Authentication::Md5Password { salt } => (MD5, salt),
            Authentication::Sasl { mechanisms } => {
                return encode_names(out, *mechanisms);
            }
            Authentication::SaslContinue(line) => (SASL_CONTINUE, line),
            Authentication::SaslFinal(line) => (SASL_FINAL, line),
            Authentication::Other(code) => (*code, &[]),
        };
        message(out, tag::AUTHENTICATION, |out| {
            out.extend_from_slice(&code.to_be_bytes());
            out.extend_from_slice(rest);
        });
    }
}

/// The names of the mechanisms a server offers, best first as it sees them. Iterates by value.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Mechanisms<'a> {
    /// Names, each ended by a NUL; checked. Without the NUL that ends the list.
    rest: &'a [u8],
}

impl<'a> Mechanisms<'a> {
    fn decode(list: &'a [u8]) -> Result<Mechanisms<'a>, Error> {
        let (&last, names) = list.split_last().ok_or(Error::MissingTerminator)?;
        if last != 0 || names.last().is_some_and(|end| *end != 0) {
            return Err(Error::MissingTerminator);
        }
        let mechanisms = Mechanisms { rest: names };
        if mechanisms.into_iter().any(<[u8]>::is_empty) {
            return Err(Error::BadValue("a SASL mechanism without a name"));
        }
        Ok(mechanisms)
    }

    /// Whether the server offers this one.
    pub fn offers(self, name: &[u8]) -> bool {
        self.into_iter().any(|offered| offered == name)
    }
}

impl<'a> Iterator for Mechanisms<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (name, rest) = cstr(self.rest)?;
        self.rest = rest;
        Some(name)
    }
}

/// Appends AuthenticationSASL that offers these mechanisms, best first.
//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-AUTHENTICATIONSASL
pub fn encode_sasl(out: &mut Vec<u8>, mechanisms: &[&[u8]]) {
    encode_names(out, mechanisms.iter().copied());
}

fn encode_names<'a>(out: &mut Vec<u8>, names: impl Iterator<Item = &'a [u8]>) {
    message(out, tag::AUTHENTICATION, |out| {
        out.extend_from_slice(&SASL.to_be_bytes());
        for name in names {
            debug_assert!(!name.is_empty(), "an empty name would end the list");
            put_cstr(out, name);
        }
        out.push(0);
    });
}
