//! Who has the servers of a pool, for how long, and for what: SHOW HOLDERS.

use std::cmp::Reverse;
use std::time::Duration;

use units::PoolKey;

use crate::moment::{Moment, Row};

/// Why a session has a server at this moment.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// It has said nothing in its transaction.
    IdleInTransaction,
    /// It keeps its server between transactions.
    Kept,
    /// Its transaction waits for a lock.
    Blocked,
    /// Its statement runs.
    Active,
}

impl Reason {
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Reason::IdleInTransaction => "idle in transaction",
            Reason::Kept => "kept between transactions",
            Reason::Blocked => "waits for a lock",
            Reason::Active => "active",
        }
    }
}

/// A session that has a server.
#[derive(Copy, Clone, Debug)]
pub struct Holder<'m> {
    pub row: &'m Row,
    pub pool: &'m PoolKey,
    pub reason: Reason,
    /// For how long it has had the server.
    pub held: Duration,
    /// Clients of the same pool that wait for a server.
    pub waiting: u32,
}

/// All that hold a server: first those of pools in which others wait; then by how long they have held it.
#[must_use]
pub fn holders(moment: &Moment) -> Vec<Holder<'_>> {
    let mut holders: Vec<Holder<'_>> = moment.rows.iter().filter_map(|row| holder(moment, row)).collect();
    holders.sort_by_key(|holder| {
        let id = holder.row.session.as_ref().map(|session| session.id.serial);
        (holder.waiting == 0, Reverse(holder.held), id)
    });
    holders
}

fn holder<'m>(moment: &'m Moment, row: &'m Row) -> Option<Holder<'m>> {
    let session = row.session.as_ref()?;
    let times = &session.times;
    if times.waiting.is_some() {
        return None;
    }
    let is_idle = row.is_idle_in_transaction() || (times.transaction.is_some() && times.idle.is_some());
    let reason = match times.transaction {
        _ if row.waiter.is_some() => Reason::Blocked,
        _ if is_idle => Reason::IdleInTransaction,
        None if times.kept.is_some() => Reason::Kept,
        _ => Reason::Active,
    };
    let held = times.transaction.max(times.kept).unwrap_or_default();
    let waiting = moment.pools.get(&session.pool).map_or(0, |pool| pool.waiting);
    Some(Holder { row, pool: &session.pool, reason, held, waiting })
}
