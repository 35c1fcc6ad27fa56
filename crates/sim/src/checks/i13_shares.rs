//! I13: pools that share a cap share its tokens: while sessions wait in all of them, each gets its part of the token
//! time, less the slack that `coordinator::sharing` states. Checked in worlds made for it (`--shares`), while sessions
//! wait in all pools.

use std::collections::BTreeMap;

use machine::Snapshot;
use units::{ConnId, PoolId};

use super::WorldView;
use crate::census::CheckCounts;
use crate::course::{Finding, Stage};

/// A time slice, as stated there.
const SLICE_US: u64 = 250_000;

/// The time to close one server and open another in such a world, and the delay of a check.
const OPENING_US: u64 = 60_000;

/// A world counts as checked once it was checked for so long.
const WORTH_US: u64 = 2_000_000;

/// The state of the check.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// Since when sessions wait in all pools.
    since: Option<u64>,
    looked_at: u64,
    /// Token-microseconds since then.
    held: BTreeMap<PoolId, u64>,
    /// Whether sessions wait, by worker and pool.
    waits: BTreeMap<(u16, PoolId), bool>,
    /// By server: its session, and since when they are linked.
    links: BTreeMap<ConnId, (ConnId, u64)>,
    longest_us: u64,
}

impl Shares {
    pub(super) fn check(
        &mut self,
        view: &WorldView<'_>,
        worker: u16,
        snapshot: &Snapshot,
        counts: &mut CheckCounts,
    ) -> Result<(), Finding> {
        let cap = view.plan.settings.global.pools.max_server_connections;
        if !view.plan.purpose.shares || view.stage != Stage::Working {
            return Ok(());
        }
        let now = view.now;
        let coordinator = view.machines.coordinator();
        let tokens: Vec<(PoolId, u32)> =
            coordinator.pools().skip(1).map(|(pool, _)| (pool, coordinator.held(pool))).collect();
        self.note(now, worker, snapshot);
        let waiting = |pool: PoolId| self.waits.iter().any(|(&(_, other), &waits)| other == pool && waits);
        let all = tokens.len() > 1 && tokens.iter().all(|(pool, _)| waiting(*pool));
        let Some(since) = self.since else {
            if all {
                (self.since, self.looked_at) = (Some(now), now);
            }
            return Ok(());
        };
        let elapsed = now - std::mem::replace(&mut self.looked_at, now);
        for (pool, tokens) in &tokens {
            *self.held.entry(*pool).or_default() += u64::from(*tokens) * elapsed;
        }
        let (lasted, pools) = (now - since, tokens.len() as u64);
        let due = u64::from(cap) * lasted / pools;
        // Twice, since it may have been ahead at the beginning.
        let slack = 2 * u64::from(cap).div_ceil(pools) * (2 * SLICE_US + self.longest_us + OPENING_US);
        let behind = self.held.iter().find(|(_, held)| **held + slack < due).map(|(pool, held)| (*pool, *held));
        if !all {
            self.since = None;
            self.held.clear();
        }
        if lasted >= WORTH_US && lasted - elapsed < WORTH_US {
            counts.shared += 1;
        }
        if let Some((pool, held)) = behind {
            return Err((
                13,
                format!(
                    "{pool:?} has held {held} of {due} us at {cap} tokens of {pools} pools since {since}, {slack} are allowed"
                ),
            ));
        }
        Ok(())
    }

    fn note(&mut self, now: u64, worker: u16, snapshot: &Snapshot) {
        for pool in &snapshot.pools {
            self.waits.insert((worker, pool.id), pool.clients.waiting > 0);
        }
        self.links
            .retain(|server, _| snapshot.servers.iter().any(|other| other.conn == *server) || server.owner() != worker);
        for server in &snapshot.servers {
            let Some(client) = server.link.map(|link| link.conn) else {
                self.links.remove(&server.conn);
                continue;
            };
            let link = self.links.entry(server.conn).or_insert((client, now));
            if link.0 != client {
                *link = (client, now);
            }
            self.longest_us = self.longest_us.max(now - link.1);
        }
    }
}
