//! What Describe and Close are about: a prepared statement or a portal.

use crate::{Error, put_cstr, reader::Reader};

#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    Statement,
    Portal,
}

impl Target {
    /// The byte that stands for it in the message.
    pub const fn byte(self) -> u8 {
        match self {
            Target::Statement => b'S',
            Target::Portal => b'P',
        }
    }

    /// `None` if the byte stands for neither.
    pub fn from_byte(byte: u8) -> Option<Target> {
        match byte {
            b'S' => Some(Target::Statement),
            b'P' => Some(Target::Portal),
            _ => None,
        }
    }
}

/// The body that Describe and Close share.
pub(super) fn decode(body: &[u8]) -> Result<(Target, &[u8]), Error> {
    let mut reader = Reader::new(body);
    let target = Target::from_byte(reader.u8()?).ok_or(Error::BadValue("neither a statement nor a portal"))?;
    let name = reader.cstr()?;
    reader.end()?;
    Ok((target, name))
}

pub(super) fn encode(out: &mut Vec<u8>, target: Target, name: &[u8]) {
    out.push(target.byte());
    put_cstr(out, name);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_back() {
        let found: Vec<(u8, Target)> = (0..=255).filter_map(|b| Some((b, Target::from_byte(b)?))).collect();
        assert_eq!(found, [(b'P', Target::Portal), (b'S', Target::Statement)]);
        assert!(found.iter().all(|(byte, target)| target.byte() == *byte));
    }
}
