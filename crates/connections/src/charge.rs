//! Whom the time of a server is charged to.

use std::num::NonZeroU64;

use queueing::classes::ClassId;
use sql::Fingerprint;
use units::{ConnId, Time};

/// How a transaction began.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin(NonZeroU64);

impl Origin {
    pub fn of_text(fingerprint: Fingerprint) -> Origin {
        Origin::from_bits(fingerprint.bits()[0])
    }

    /// Its first text says nothing: whoever has sent it has done so before.
    pub fn of_session(conn: ConnId) -> Origin {
        // Any odd number: ids are far apart then, and far from most fingerprints.
        Origin::from_bits(conn.to_bits().wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    #[must_use]
    pub fn from_bits(bits: u64) -> Origin {
        Origin(NonZeroU64::new(bits).unwrap_or(NonZeroU64::MAX))
    }
}

/// What is charged to whom while a server is not free.
#[derive(Copy, Clone, Debug)]
pub struct Charge {
    pub class: ClassId,
    pub since: Time,
    /// How its transaction began, where that tells the class.
    pub origin: Option<Origin>,
}
