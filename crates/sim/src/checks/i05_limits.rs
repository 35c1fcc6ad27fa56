//! I5: no limit is ever exceeded; connections count from the moment they are opened to the moment they are closed.

use std::collections::BTreeMap;

use pooling::Settings;
use units::{ConnId, Kind};

use crate::network::{LinkId, Peer};
use crate::postgres::Process;
use crate::world::World;

/// So long after a reload a connection may be opened that was granted before.
const RELOAD_US: u64 = 200_000;

/// Connections that the pooler holds.
#[derive(Debug, Default)]
pub struct Counts {
    by_database: BTreeMap<u16, u32>,
    /// From the startup packet on, which says the user.
    by_pool: BTreeMap<(String, String), u32>,
}

impl World {
    pub(crate) fn count_opened(&mut self, database: u16, conn: ConnId) {
        if conn.kind() != Kind::Server {
            return;
        }
        let count = self.checks.limits.by_database.entry(database).or_default();
        *count += 1;
        let count = *count;
        let name = &self.plan.databases[usize::from(database)].name;
        let settings = &self.plan.settings;
        let all: u32 = self.checks.limits.by_database.values().sum();
        let limit = settings.global.pools.max_server_connections;
        if limit > 0 && all > limit {
            return self.fail(5, format!("there are {all} connections, max_server_connections is {limit}"));
        }
        let Some(entry) = settings.databases.get(name) else {
            // Of which one it is of those that have no plan of their own, its startup packet will say.
            return;
        };
        let limit = entry.settings.max_db_connections.unwrap_or(settings.global.pools.max_db_connections);
        if limit > 0 && count > limit {
            self.fail(5, format!("database {database} has {count} connections, max_db_connections is {limit}"));
        }
    }

    /// A server's startup packet has come: the connection counts for its pool and its user.
    pub(crate) fn count_started(&mut self, process: &Process) {
        let held = self.network.get(process.link).is_some_and(|link| !link.pooler_closed);
        if !held {
            return;
        }
        if let Some(link) = self.network.get_mut(process.link) {
            link.counted = Some((process.dbname.clone(), process.user.clone()));
        }
        let count = self.checks.limits.by_pool.entry((process.dbname.clone(), process.user.clone())).or_default();
        *count += 1;
        let count = *count;
        let name = &process.dbname;
        let limit = self.plan.pool_max(name, &process.user);
        if count > limit {
            return self.fail(5, format!("pool {name}/{} has {count} connections, its size is {limit}", process.user));
        }
        let settings = &self.plan.settings;
        let of_database = self.checks.limits.by_pool.iter().filter(|((database, _), _)| database == name);
        let total: u32 = of_database.map(|(_, count)| count).sum();
        let own = settings.database(name).and_then(|entry| entry.settings.max_db_connections);
        let limit = own.unwrap_or(settings.global.pools.max_db_connections);
        if limit > 0 && total > limit {
            return self.fail(5, format!("{name} has {total} connections, max_db_connections is {limit}"));
        }
        let opened_at = self.network.get(process.link).map_or(0, |link| link.opened_at);
        let limit = self.user_limit(&process.user, opened_at);
        let users = self.checks.limits.by_pool.iter().filter(|((_, user), _)| *user == process.user);
        let total: u32 = users.map(|(_, count)| count).sum();
        if limit > 0 && total > limit {
            self.fail(5, format!("{} has {total} connections, max_user_connections is {limit}", process.user));
        }
    }

    /// What a connection must keep to that was opened then. Whoever was asked for one just before a reload may not know of it.
    fn user_limit(&self, user: &str, opened_at: u64) -> u32 {
        let of = |settings: &Settings| {
            let own = settings.users.get(user).and_then(|user| user.max_user_connections);
            own.unwrap_or(settings.global.pools.max_user_connections)
        };
        let recent = self.checks.reloaded_at.iter().zip(&self.plan.past).filter(|(at, _)| opened_at < *at + RELOAD_US);
        let limits: Vec<u32> = recent.map(|(_, before)| of(before)).chain([of(&self.plan.settings)]).collect();
        // 0 is no limit.
        if limits.contains(&0) { 0 } else { limits.into_iter().max().unwrap_or(0) }
    }

    pub(crate) fn count_closed(&mut self, id: LinkId, conn: ConnId) {
        if conn.kind() != Kind::Server {
            return;
        }
        let Some(link) = self.network.get_mut(id) else { return };
        let Peer::Postgres { database, .. } = link.peer else { return };
        let counted = link.counted.take();
        if let Some(count) = self.checks.limits.by_database.get_mut(&database) {
            *count -= 1;
        }
        if let Some(pool) = counted
            && let Some(count) = self.checks.limits.by_pool.get_mut(&pool)
        {
            *count -= 1;
        }
    }
}
