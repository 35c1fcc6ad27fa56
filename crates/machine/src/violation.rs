//! What must hold after every step of a machine, and did not.

use std::fmt;

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// As ARCHITECTURE.md numbers them.
    pub invariant: u8,
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "I{}: {}", self.invariant, self.what)
    }
}

impl std::error::Error for Violation {}
