//! I12: nothing is lost: when no client is left and every idle timeout has passed, no connection and no token remains.
//! Whether the pools of a removed database are forgotten is not checked.

use connections::databases::CONSOLE_DATABASE;
use machine::Look;
use units::{PoolKey, Time};

use super::WorldView;
use crate::course::Finding;
use crate::machines::Machinery;

pub(crate) fn nothing_remains(view: &WorldView<'_>) -> Result<(), Finding> {
    let mut found = view.machines.unfinished(view.plan.stop);
    let mut servers = 0;
    let mut tokens = 0;
    let settings = &view.plan.settings;
    // Servers that min_pool_size keeps open are not lost.
    let keeps =
        settings.databases.values().chain(&settings.fallback).any(|database| database.settings.min_pool_size.is_some());
    for node in view.machines.iter() {
        match &node.machinery {
            Machinery::Worker(worker) => {
                let snapshot = worker.snapshot(Time(view.now), Look::Connections);
                servers += snapshot.servers.len() as u32;
                for client in &snapshot.clients {
                    found.push(format!("{:?}: session {:?} is {}", node.place, client.conn, client.state));
                }
                for pool in snapshot.pools.iter().filter(|_| !keeps) {
                    let known = *pool.key.database == *CONSOLE_DATABASE;
                    let removed = view.plan.is_removed(&pool.key.database);
                    if !known && !removed && !settings.databases.contains_key(&*pool.key.database) {
                        found.push(format!("{:?}: {:?} is not forgotten", node.place, pool.key));
                    }
                }
                for server in snapshot.servers.iter().filter(|_| !keeps) {
                    found.push(format!("{:?}: server {:?} is {}", node.place, server.conn, server.state));
                }
            }
            Machinery::Coordinator(coordinator) => {
                for (pool, key) in coordinator.pools().filter(|(pool, _)| coordinator.held(*pool) > 0) {
                    tokens += coordinator.held(pool);
                    if keeps {
                        continue;
                    }
                    found.push(format!("{} tokens of {key:?} are out", coordinator.held(pool)));
                }
                let automatic = |key: &PoolKey| {
                    !settings.databases.contains_key(&*key.database)
                        && *key.database != *CONSOLE_DATABASE
                        && !view.plan.is_removed(&key.database)
                };
                for (_, key) in coordinator.pools().filter(|(_, key)| !keeps && automatic(key)) {
                    found.push(format!("{key:?} is not forgotten"));
                }
                if coordinator.clients() > 0 {
                    found.push(format!("{} sessions are counted", coordinator.clients()));
                }
            }
            Machinery::Door(door) => {
                if door.logins() > 0 {
                    found.push(format!("{} logins are at the door", door.logins()));
                }
            }
        }
    }
    if servers != tokens {
        found.push(format!("{tokens} tokens are out for {servers} servers"));
    }
    for (id, link) in view.network.iter().filter(|_| !keeps) {
        found.push(format!("connection {} to {:?} remains", id.number(), link.peer.who));
    }
    if !found.is_empty() {
        found.truncate(8);
        return Err((12, format!("{servers} servers are left at the end: {}", found.join("; "))));
    }
    Ok(())
}
