//! Which class the time of a server is charged to.

use std::num::NonZeroU64;

use queueing::classes::ClassId;
use sql::Fingerprint;
use units::{ConnId, Time};

/// Identifies how a transaction began: by the fingerprint of its first text, or by its session.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin(NonZeroU64);

impl Origin {
    pub fn of_text(fingerprint: Fingerprint) -> Origin {
        Origin::from_bits(fingerprint.bits()[0])
    }

    /// For a transaction whose first text says nothing (a bare BEGIN): its session's earlier transactions count.
    pub fn of_session(conn: ConnId) -> Origin {
        // Multiplied by any large odd number, so that ids are far apart, and far from most fingerprints.
        Origin::from_bits(conn.to_bits().wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    #[must_use]
    pub(crate) fn from_bits(bits: u64) -> Origin {
        Origin(NonZeroU64::new(bits).unwrap_or(NonZeroU64::MAX))
    }
}

/// What is charged for a server while it is not free.
#[derive(Copy, Clone, Debug)]
pub struct Charge {
    pub(crate) class: ClassId,
    pub(crate) since: Time,
    /// How its transaction began, if the class has a class for long transactions.
    pub(crate) origin: Option<Origin>,
}
