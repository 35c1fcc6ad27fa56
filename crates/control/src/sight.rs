//! What is to be looked at anew before a `SHOW` is answered.

/// The later ones hold those before them.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sight {
    /// What backends do. Locks as they are due: reading them costs PostgreSQL more.
    Backends,
    /// Locks too, in any case.
    Locks,
}
