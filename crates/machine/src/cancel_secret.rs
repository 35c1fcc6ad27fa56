//! The versions of the protocol that clients speak, and the secret half of their cancel keys, which has 4 bytes in 3.0 and 32
//! in 3.2. The other half of a key is the process id. The secret holds it for peers, and for a session that comes from another process: such a
//! process id does not tell the session's place.
//!
//! Promises that a secret of another length never fits, and that comparing takes the same time wherever two of the same length
//! differ. A client of 3.0 takes no memory for a long one.
//!
//! //= pg18 protocol-flow#PROTOCOL-FLOW-CANCELING-REQUESTS
//! //= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-BACKENDKEYDATA

use std::fmt;

use units::random::Random;

use crate::peering::{self, PeerId};

/// The version of the protocol that a client and the pooler speak.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    #[default]
    V3_0,
    /// Keys may be long.
    V3_2,
}

/// The newest minor version that we speak. 3.1 differs in nothing from 3.0.
const MINOR_MAX: u16 = 2;

impl Protocol {
    /// For a client that asks for this minor version, and the minor version that it is told if it has to be told one.
    #[must_use]
    pub fn negotiated(minor: u16) -> (Protocol, u16) {
        let minor = minor.min(MINOR_MAX);
        (if minor < MINOR_MAX { Protocol::V3_0 } else { Protocol::V3_2 }, minor)
    }
}

/// The secret half of a client's cancel key.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum CancelSecret {
    Short([u8; 4]),
    Long(Box<[u8; 32]>),
    /// With a process id of its own: one that names its owner to peers, or that its client got from another process.
    ShortOfPeer(i32, [u8; 4]),
    LongOfPeer(Box<(i32, [u8; 32])>),
}

impl CancelSecret {
    #[must_use]
    pub fn new(protocol: Protocol, random: &mut Random) -> CancelSecret {
        match protocol {
            Protocol::V3_0 => CancelSecret::Short(random.bytes()),
            Protocol::V3_2 => CancelSecret::Long(Box::new(random.bytes())),
        }
    }

    /// A key that tells peers whose it is.
    #[must_use]
    pub fn of_peer(own: PeerId, protocol: Protocol, random: &mut Random) -> CancelSecret {
        let pid = peering::new_pid(own, random);
        match protocol {
            Protocol::V3_0 => CancelSecret::ShortOfPeer(pid, restored(random.bytes())),
            Protocol::V3_2 => CancelSecret::LongOfPeer(Box::new((pid, restored(random.bytes())))),
        }
    }

    /// The key of a session that comes from another process, where its client got this process id.
    #[must_use]
    pub fn with_pid(self, pid: i32) -> CancelSecret {
        match self {
            CancelSecret::Short(bytes) | CancelSecret::ShortOfPeer(_, bytes) => CancelSecret::ShortOfPeer(pid, bytes),
            CancelSecret::Long(bytes) => CancelSecret::LongOfPeer(Box::new((pid, *bytes))),
            CancelSecret::LongOfPeer(key) => CancelSecret::LongOfPeer(Box::new((pid, key.1))),
        }
    }

    /// The process id that belongs to it. `None`: one that tells where the session is.
    #[must_use]
    pub fn pid(&self) -> Option<i32> {
        match self {
            CancelSecret::Short(_) | CancelSecret::Long(_) => None,
            CancelSecret::ShortOfPeer(pid, _) => Some(*pid),
            CancelSecret::LongOfPeer(key) => Some(key.0),
        }
    }

    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self {
            CancelSecret::Short(bytes) => bytes,
            CancelSecret::Long(bytes) => &**bytes,
            CancelSecret::ShortOfPeer(_, bytes) => bytes,
            CancelSecret::LongOfPeer(key) => &key.1,
        }
    }

    /// Whether a CancelRequest has this secret.
    #[must_use]
    pub fn fits(&self, given: &[u8]) -> bool {
        auth::same(self.bytes(), given)
    }

    /// A deliberate fault: as `fits`, of the last two bytes only.
    #[must_use]
    pub fn half_fits(&self, given: &[u8]) -> bool {
        let last = |bytes: &[u8]| bytes.last_chunk::<2>().copied();
        last(self.bytes()) == last(given)
    }
}

fn restored<const LEN: usize>(mut secret: [u8; LEN]) -> [u8; LEN] {
    peering::restore(&mut secret);
    secret
}

/// It shows no byte of the secret.
impl fmt::Debug for CancelSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CancelSecret({} bytes)", self.bytes().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_negotiated_down_to_ours() {
        let table = [
            (0, (Protocol::V3_0, 0)),
            (1, (Protocol::V3_0, 1)),
            (2, (Protocol::V3_2, 2)),
            (3, (Protocol::V3_2, 2)),
            (9999, (Protocol::V3_2, 2)),
            (u16::MAX, (Protocol::V3_2, 2)),
        ];
        for (asked, expected) in table {
            assert_eq!(Protocol::negotiated(asked), expected, "3.{asked}");
        }
    }

    #[test]
    fn a_secret_fits_whole_or_not_at_all() {
        let new = |protocol, own: Option<u16>| match own {
            None => CancelSecret::new(protocol, &mut Random::seeded(7)),
            Some(own) => CancelSecret::of_peer(PeerId(own), protocol, &mut Random::seeded(7)),
        };
        let table = [(Protocol::V3_0, 4), (Protocol::V3_2, 32)];
        for ((protocol, len), own) in table.into_iter().flat_map(|row| [(row, None), (row, Some(3))]) {
            let secret = new(protocol, own);
            assert_eq!(secret.pid().map(peering::owner), own.map(PeerId));
            let right = secret.bytes().to_vec();
            assert_eq!(right.len(), len);
            assert!(secret.fits(&right));
            for bit in 0..len * 8 {
                let mut wrong = right.clone();
                wrong[bit / 8] ^= 1 << (bit % 8);
                assert!(!secret.fits(&wrong), "bit {bit}");
            }
            for other in 0..=256 {
                let padded: Vec<u8> = right.iter().copied().chain(std::iter::repeat(0)).take(other).collect();
                assert_eq!(secret.fits(&padded), other == len, "{other} bytes");
            }
        }
    }

    #[test]
    fn a_short_secret_takes_no_memory_for_a_long_one() {
        assert_eq!(size_of::<CancelSecret>(), 16);
    }
}
