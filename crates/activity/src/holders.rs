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

/// The sessions that have a server. Those that wait for a lock come last: they are victims themselves. Before them the sessions of pools in which
/// clients wait come first, and among equals the one that has had its server longest.
#[must_use]
pub fn holders(moment: &Moment) -> Vec<Holder<'_>> {
    let mut holders: Vec<Holder<'_>> = moment.rows.iter().filter_map(|row| holder(moment, row)).collect();
    holders.sort_by_key(|holder| {
        let id = holder.row.session.as_ref().map(|session| session.id.serial);
        (holder.reason == Reason::Blocked, holder.waiting == 0, Reverse(holder.held), id)
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use machine::Peer;
    use observe::{Backend, LockMode, Object, Waiter};
    use units::{ConnId, Serial, WorkerId};

    use super::*;
    use crate::moment::{Origin, Pool};
    use crate::session::{Session, SessionId, Times};
    use crate::tags::Tags;

    fn row(number: i32, pool: &str, held: u64, waits: bool) -> Row {
        let id = SessionId {
            serial: Serial(number),
            name: ConnId::from_bits(1),
            worker: WorkerId(0),
            conn: ConnId::from_bits(1),
        };
        let times = Times { transaction: Some(Duration::from_secs(held)), ..Times::default() };
        let session = Session {
            id,
            peer: Peer::Unix { uid: 0, pid: 0 },
            pool: PoolKey { database: pool.into(), user: "app".into() },
            application_name: String::new(),
            class: "default".into(),
            fingerprint: None,
            times,
            keeps: None,
            kept_for: None,
            text: None,
        };
        let object = Object { kind: "relation".into(), key: "1".into(), name: None };
        let waiter =
            Waiter { object, mode: LockMode::Exclusive, waiting: Duration::from_secs(held), blockers: Vec::new() };
        let backend = Some(Arc::new(Backend { pid: number, ..Backend::default() }));
        let waiter = waits.then_some(waiter);
        Row {
            host: Some(0),
            backend,
            session: Some(session),
            origin: Origin::Client,
            tags: Tags::default(),
            waiter,
            behind: 0,
        }
    }

    /// The longest holder of the pool with a queue waits for a lock: it is a victim, and the last one.
    #[test]
    fn sessions_that_wait_for_a_lock_come_last() {
        let pool = |name: &str, waiting| {
            (PoolKey { database: name.into(), user: "app".into() }, Pool { waiting, ..Pool::default() })
        };
        let rows = vec![
            row(1, "shop", 90, true),
            row(2, "shop", 5, false),
            row(3, "calm", 70, false),
            row(4, "calm", 80, true),
        ];
        let moment = Moment { rows, pools: [pool("shop", 7), pool("calm", 0)].into(), ..Moment::default() };
        let order: Vec<i32> = holders(&moment).iter().filter_map(|holder| holder.row.pid()).collect();
        assert_eq!(order, [2, 3, 1, 4]);
    }
}
