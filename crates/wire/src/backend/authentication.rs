//! AuthenticationOk and the requests for a proof. The code in front of the body says which it is; codes that we do not
//! speak come out as [`Authentication::Other`], so that the caller can name them. It proves nothing itself.
//!
//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-AUTHENTICATIONOK
//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-AUTHENTICATIONGSS
//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-AUTHENTICATIONGSSCONTINUE

use super::tag;
use crate::{Error, cstr, message, put_cstr, reader::Reader};

const OK: i32 = 0;
const CLEARTEXT: i32 = 3;
const MD5: i32 = 5;
const GSS: i32 = 7;
const GSS_CONTINUE: i32 = 8;
const SASL: i32 = 10;
const SASL_CONTINUE: i32 = 11;
const SASL_FINAL: i32 = 12;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Authentication<'a> {
    /// AuthenticationOk.
    Ok,
    CleartextPassword,
    Md5Password {
        salt: [u8; 4],
    },
    /// A message of GSSAPI's is asked for.
    Gss,
    /// The server's next message of GSSAPI's.
    GssContinue(&'a [u8]),
    Sasl {
        mechanisms: Mechanisms<'a>,
    },
    /// The server's next line of the mechanism.
    SaslContinue(&'a [u8]),
    /// The server's last line; [`Authentication::Ok`] follows.
    SaslFinal(&'a [u8]),
    /// Kerberos 5 without GSSAPI, SSPI, or what is not invented yet: its code.
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
            MD5 => Authentication::Md5Password { salt: reader.array()? },
            GSS => Authentication::Gss,
            GSS_CONTINUE => return Ok(Authentication::GssContinue(reader.rest())),
            SASL => {
                return Mechanisms::decode(reader.rest()).map(|mechanisms| Authentication::Sasl { mechanisms });
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
            Authentication::Gss => (GSS, &[]),
            Authentication::GssContinue(message) => (GSS_CONTINUE, message),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check;

    /// Damage may make any message one whose code we do not speak, and of those the body is not kept.
    macro_rules! exact {
        ($message:expr, $wire:expr) => {
            check::exact!(Authentication, tag::AUTHENTICATION, $message, $wire, lossy: Authentication::Other(_))
        };
    }

    #[test]
    fn as_the_manual_has_it() {
        exact!(Authentication::Ok, b"R\0\0\0\x08\0\0\0\0");
        exact!(Authentication::CleartextPassword, b"R\0\0\0\x08\0\0\0\x03");
        let md5 = Authentication::Md5Password { salt: [1, 2, 3, 0xff] };
        exact!(md5, b"R\0\0\0\x0c\0\0\0\x05\x01\x02\x03\xff");
        exact!(Authentication::Gss, b"R\0\0\0\x08\0\0\0\x07");
    }

    #[test]
    fn mechanisms_are_offered_in_order() {
        let mut out = Vec::new();
        encode_sasl(&mut out, &[b"SCRAM-SHA-256-PLUS", b"SCRAM-SHA-256"]);
        assert_eq!(out, b"R\0\0\0\x2a\0\0\0\x0aSCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0");
        let body = check::body(&out, tag::AUTHENTICATION);
        let Ok(Authentication::Sasl { mechanisms }) = Authentication::decode(body) else { panic!("SASL was offered") };
        assert_eq!(mechanisms.collect::<Vec<_>>(), [&b"SCRAM-SHA-256-PLUS"[..], b"SCRAM-SHA-256"]);
        assert!(mechanisms.offers(b"SCRAM-SHA-256") && !mechanisms.offers(b"SCRAM-SHA") && !mechanisms.offers(b""));
        exact!(Authentication::Sasl { mechanisms }, &out);
    }

    #[test]
    fn lists_of_mechanisms_that_do_not_end_well() {
        let decode = |list: &[u8]| Authentication::decode(&[&[0, 0, 0, 10], list].concat()).map(|_| ());
        assert_eq!(decode(b"\0"), Ok(()), "none offered is for the caller to judge");
        assert_eq!(decode(b"A\0\0"), Ok(()));
        for list in [&b""[..], b"A", b"A\0B", b"A\0"] {
            assert_eq!(decode(list), Err(Error::MissingTerminator), "{}", list.escape_ascii());
        }
        for list in [&b"\0\0"[..], b"A\0\0\0", b"\0A\0\0"] {
            assert_eq!(decode(list), Err(Error::BadValue("a SASL mechanism without a name")));
        }
    }

    #[test]
    fn lines_of_a_mechanism_are_any_bytes() {
        for line in [&b"r=x,s=eA==,i=4096"[..], b"", b"\0\xff"] {
            for (code, message) in [
                (8, Authentication::GssContinue(line)),
                (11, Authentication::SaslContinue(line)),
                (12, Authentication::SaslFinal(line)),
            ] {
                let mut out = Vec::new();
                message.encode(&mut out);
                let body = check::body(&out, tag::AUTHENTICATION);
                assert_eq!(body, [&[0, 0, 0, code], line].concat());
                assert_eq!(Authentication::decode(body), Ok(message));
            }
        }
    }

    #[test]
    fn what_we_do_not_speak_is_named() {
        for code in [1_i32, 2, 4, 6, 9, 13, -1, i32::MIN, i32::MAX] {
            let body = [&code.to_be_bytes()[..], b"more"].concat();
            assert_eq!(Authentication::decode(&body), Ok(Authentication::Other(code)));
        }
        let mut out = Vec::new();
        Authentication::Other(9).encode(&mut out);
        assert_eq!(out, b"R\0\0\0\x08\0\0\0\x09");
        for len in 0..4 {
            assert_eq!(Authentication::decode(&[0, 0, 0, 9][..len]), Err(Error::Truncated));
        }
    }
}
