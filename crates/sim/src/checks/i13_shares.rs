//! I13: pools that share a cap share its tokens: while all of them are hungry, each gets its part of the token time, less
//! what `pooling`'s `coordinator::sharing` states. Looked at in worlds that are made for it (`--shares`), from when all pools are
//! hungry until one is not.

use std::collections::BTreeMap;

use pooling::Snapshot;
use units::{ConnId, PoolId};

use crate::rounds::Machinery;
use crate::world::{Stage, World};

/// A slice, as stated there.
const SLICE_US: u64 = 250_000;

/// What closing one server and opening another takes in such a world, and what a look comes late.
const OPENING_US: u64 = 60_000;

/// So long at least a world is looked at before it counts as one that was.
const WORTH_US: u64 = 2_000_000;

/// What was seen so far.
#[derive(Debug, Default)]
pub struct Shares {
    /// All pools are hungry since then.
    since: Option<u64>,
    looked_at: u64,
    /// Token-microseconds since then.
    held: BTreeMap<PoolId, u64>,
    /// Who waits, by worker and pool.
    waits: BTreeMap<(u16, PoolId), bool>,
    /// Since when a server is linked to the same session.
    links: BTreeMap<ConnId, (ConnId, u64)>,
    longest_us: u64,
}

pub fn check(world: &mut World, worker: u16, snapshot: &Snapshot) {
    let cap = world.plan.settings.global.pools.max_server_connections;
    if !world.plan.purpose.shares || world.stage != Stage::Working {
        return;
    }
    let now = world.now;
    let Machinery::Coordinator(coordinator) = &world.nodes[1].machinery else { return };
    let tokens: Vec<(PoolId, u32)> =
        coordinator.pools().skip(1).map(|(pool, _)| (pool, coordinator.held(pool))).collect();
    let shares = &mut world.checks.shares;
    shares.note(now, worker, snapshot);
    let hungry = |pool: PoolId| shares.waits.iter().any(|(&(_, other), &waits)| other == pool && waits);
    let all = tokens.len() > 1 && tokens.iter().all(|(pool, _)| hungry(*pool));
    let Some(since) = shares.since else {
        if all {
            (shares.since, shares.looked_at) = (Some(now), now);
        }
        return;
    };
    let elapsed = now - std::mem::replace(&mut shares.looked_at, now);
    for (pool, tokens) in &tokens {
        *shares.held.entry(*pool).or_default() += u64::from(*tokens) * elapsed;
    }
    let (lasted, pools) = (now - since, tokens.len() as u64);
    let due = u64::from(cap) * lasted / pools;
    // Once more, since it may have been ahead at the beginning.
    let slack = 2 * u64::from(cap).div_ceil(pools) * (2 * SLICE_US + shares.longest_us + OPENING_US);
    let behind = shares.held.iter().find(|(_, held)| **held + slack < due).map(|(pool, held)| (*pool, *held));
    if !all {
        shares.since = None;
        shares.held.clear();
    }
    if lasted >= WORTH_US && lasted - elapsed < WORTH_US {
        world.census.shared += 1;
    }
    if let Some((pool, held)) = behind {
        world.fail(13, format!("{pool:?} has held {held} of {due} us at {cap} tokens of {pools} pools since {since}, {slack} are allowed"));
    }
}

impl Shares {
    fn note(&mut self, now: u64, worker: u16, snapshot: &Snapshot) {
        for pool in &snapshot.pools {
            self.waits.insert((worker, pool.id), pool.cl_waiting > 0);
        }
        self.links
            .retain(|server, _| snapshot.servers.iter().any(|other| other.conn == *server) || server.owner() != worker);
        for server in &snapshot.servers {
            let Some(client) = server.link else {
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
