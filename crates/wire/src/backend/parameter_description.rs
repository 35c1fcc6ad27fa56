//! ParameterDescription: the types of a prepared statement's parameters, asked for by Describe.

use super::tag;
use crate::{Error, message, reader::Reader};

//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-PARAMETERDESCRIPTION
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ParameterDescription<'a> {
    oids: &'a [u8],
}

impl<'a> ParameterDescription<'a> {
    /// # Errors
    /// If there are not as many types as the body says.
    pub fn decode(body: &'a [u8]) -> Result<ParameterDescription<'a>, Error> {
        let mut reader = Reader::new(body);
        let count = reader.count()?;
        let oids = reader.take(usize::from(count) * 4)?;
        reader.end()?;
        Ok(ParameterDescription { oids })
    }

    /// The type ids, one a parameter.
    pub fn type_oids(&self) -> impl Iterator<Item = u32> + use<'a> {
        let (oids, _) = self.oids.as_chunks::<4>();
        oids.iter().map(|oid| u32::from_be_bytes(*oid))
    }
}

/// Appends ParameterDescription.
///
/// # Panics
/// If there are more than 65,535 types.
pub fn encode_parameter_description(out: &mut Vec<u8>, type_oids: &[u32]) {
    let count = u16::try_from(type_oids.len()).expect("a statement of ours has few parameters");
    message(out, tag::PARAMETER_DESCRIPTION, |out| {
        out.extend_from_slice(&count.to_be_bytes());
        type_oids.iter().for_each(|oid| out.extend_from_slice(&oid.to_be_bytes()));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check;

    #[test]
    fn as_the_manual_has_it() {
        for (oids, wire) in [(&[][..], &b"t\0\0\0\x06\0\0"[..]), (&[23, 25], b"t\0\0\0\x0e\0\x02\0\0\0\x17\0\0\0\x19")]
        {
            let mut out = Vec::new();
            encode_parameter_description(&mut out, oids);
            assert_eq!(out, wire);
            let body = check::body(wire, tag::PARAMETER_DESCRIPTION);
            assert_eq!(ParameterDescription::decode(body).unwrap().type_oids().collect::<Vec<_>>(), oids);
            check::refuses_parts(body, |part| ParameterDescription::decode(part).is_err());
        }
    }
}
