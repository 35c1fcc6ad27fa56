//! Names of things: workers, pools, connections. Never a bare integer.
//!
//! A connection's id is 64 bits, so that it fits an epoll token: whose table it is in, which slot, which generation of
//! that slot. An event that comes late for a connection that is gone never hits the slot's next tenant.
//!
//! ```text
//!  62  60 59       51 50            27 26                 0
//! ┌──────┬───────────┬────────────────┬────────────────────┐
//! │ kind │  worker   │      slot      │     generation     │
//! └──────┴───────────┴────────────────┴────────────────────┘
//! ```

use std::fmt;
use std::sync::Arc;

/// A thread that owns sessions and servers. At most [`WorkerId::COUNT_MAX`] of them.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u16);

impl WorkerId {
    /// As many as fit a cancel key beside the slot.
    pub const COUNT_MAX: u16 = 512;
}

/// A door: where clients are until they have logged in.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DoorId(pub u8);

/// Servers for one database and user, over all workers. Given out densely by the coordinator.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(pub u32);

/// What a pool is for: the database's name as clients know it, and the user after forcing.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct PoolKey {
    pub database: Arc<str>,
    pub user: Arc<str>,
}

impl fmt::Debug for PoolKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.database, self.user)
    }
}

/// A row of a worker's table of statements: its place, and which of the place's tenants it is.
///
/// A row that was dropped since is told from the next one in its place; after a million tenants of one place no longer, and
/// a call may then be counted for another statement.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct StatementRow(u32);

impl StatementRow {
    /// None: the statement is not known, or not counted.
    pub const NONE: StatementRow = StatementRow(0);
    const PLACE_BITS: u32 = 12;
    /// So many places have names.
    pub const PLACES: usize = 1 << StatementRow::PLACE_BITS;

    /// The `tenant`-th row in this place. None of these is [`StatementRow::NONE`].
    #[must_use]
    pub fn new(place: usize, tenant: u32) -> StatementRow {
        debug_assert!(place < StatementRow::PLACES, "the table has no more places");
        let tenants = (1 << (32 - StatementRow::PLACE_BITS)) - 1;
        StatementRow((tenant % tenants + 1) << StatementRow::PLACE_BITS | place as u32)
    }

    #[must_use]
    pub fn is_known(self) -> bool {
        self != StatementRow::NONE
    }

    #[inline(always)]
    #[must_use]
    pub fn place(self) -> usize {
        self.0 as usize % StatementRow::PLACES
    }
}

/// Which of the machines in one place it is, one after another: one that panicked is followed by another, which has nothing
/// of what that one had.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Life(pub u32);

impl Life {
    /// Of whoever comes after it.
    #[must_use]
    pub fn next(self) -> Life {
        Life(self.0.wrapping_add(1))
    }
}

/// A small number for people to tell clients and servers by, all over the process and for as long as they live: one
/// sequence for both, in the order in which the coordinator let them in.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Serial(pub i32);

impl Serial {
    /// The next number. It is an int4 on the console: after 2³¹ − 1 it begins again.
    pub fn advance(&mut self) -> Serial {
        self.0 = self.0.checked_add(1).unwrap_or(1);
        *self
    }
}

/// What kind of connection an id names.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A client that has not logged in yet; at a door.
    Login = 0,
    /// A client's session; at a worker.
    Client = 1,
    /// A connection to PostgreSQL; at a worker.
    Server = 2,
    /// A connection to PostgreSQL that carries one CancelRequest; at a worker.
    Cancel = 3,
    /// A connection to PostgreSQL that looks up users' secrets; at a door.
    Lookup = 4,
    /// A connection to another process of the pooler that carries one CancelRequest; at a door.
    Peer = 5,
}

impl Kind {
    pub const COUNT: usize = 6;
    /// By the three bits of an id; those that no kind has are not given out.
    const BY_BITS: [Kind; 8] =
        [Kind::Login, Kind::Client, Kind::Server, Kind::Cancel, Kind::Lookup, Kind::Peer, Kind::Peer, Kind::Peer];
}

/// One connection of one machine (a worker or a door).
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(u64);

const GENERATION_BITS: u32 = 27;
const SLOT_BITS: u32 = 24;
const OWNER_BITS: u32 = 9;
/// Of the generation: so many lives follow one another before ids come again.
const LIFE_BITS: u32 = 7;

impl ConnId {
    /// Slots a table may have.
    pub const SLOTS_MAX: usize = 1 << SLOT_BITS;

    /// `owner` is the worker's or the door's number; the kind tells which.
    pub fn new(kind: Kind, owner: u16, slot: u32, generation: u32) -> ConnId {
        debug_assert!(u32::from(owner) < 1 << OWNER_BITS && slot < 1 << SLOT_BITS);
        let generation = u64::from(generation) & ((1 << GENERATION_BITS) - 1);
        let head = (kind as u64) << OWNER_BITS | u64::from(owner);
        ConnId((head << SLOT_BITS | u64::from(slot)) << GENERATION_BITS | generation)
    }

    /// The generation that a life's ids begin with: far above those of the life before.
    pub(crate) fn first_generation(life: Life) -> u32 {
        (life.0 << (GENERATION_BITS - LIFE_BITS)) & ((1 << GENERATION_BITS) - 1)
    }

    /// The 64 bits, for an epoll token.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// An id from its bits; one that was never given out finds nothing anywhere.
    #[must_use]
    pub fn from_bits(bits: u64) -> ConnId {
        ConnId(bits & !(1 << 63))
    }

    #[must_use]
    #[inline]
    pub fn kind(self) -> Kind {
        Kind::BY_BITS[(self.0 >> (GENERATION_BITS + SLOT_BITS + OWNER_BITS) & 7) as usize]
    }

    /// Index in its machine's table of this kind; small and reused.
    #[must_use]
    #[inline]
    pub fn slot(self) -> usize {
        (self.0 >> GENERATION_BITS & ((1 << SLOT_BITS) - 1)) as usize
    }

    #[must_use]
    #[inline]
    pub fn generation(self) -> u32 {
        (self.0 & ((1 << GENERATION_BITS) - 1)) as u32
    }

    /// What the log and the console call the client of this login, from here until it leaves: with the kind of a client, so
    /// that it is never 0. Only such names are shown of clients, so that none is another client's.
    pub fn name_of_login(self) -> ConnId {
        assert_eq!(self.kind(), Kind::Login, "clients are named when they connect");
        ConnId::new(Kind::Client, self.owner(), self.slot() as u32, self.generation())
    }

    /// The id of the slot's next tenant: the next generation, which wraps.
    pub(crate) fn next_in_slot(self) -> ConnId {
        ConnId::new(self.kind(), self.owner(), self.slot() as u32, self.generation().wrapping_add(1))
    }

    /// Number of the worker or door that gave the id out.
    #[must_use]
    #[inline]
    pub fn owner(self) -> u16 {
        (self.0 >> (GENERATION_BITS + SLOT_BITS) & ((1 << OWNER_BITS) - 1)) as u16
    }
}

impl fmt::Debug for ConnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = ["login", "client", "server", "cancel", "lookup", "peer"][self.kind() as usize];
        write!(f, "{kind}:{}.{}.{}", self.owner(), self.slot(), self.generation())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_keeps_its_parts() {
        let id = ConnId::new(Kind::Server, 511, 0xff_fffe, 0x7ff_fffd);
        assert_eq!((id.kind(), id.owner()), (Kind::Server, 511));
        assert_eq!((id.slot(), id.generation()), (0xff_fffe, 0x7ff_fffd));
        assert_eq!(ConnId::from_bits(id.to_bits()), id);
        for kind in [Kind::Lookup, Kind::Peer] {
            let id = ConnId::new(kind, 1, 2, 3);
            assert_eq!((id.kind(), id.owner(), id.slot(), id.generation()), (kind, 1, 2, 3));
            assert_eq!(ConnId::from_bits(id.to_bits()), id);
        }
    }

    #[test]
    fn a_generation_wraps_without_touching_the_slot() {
        let id = ConnId::new(Kind::Client, 1, 7, u32::MAX);
        assert_eq!(id.slot(), 7);
    }
}
