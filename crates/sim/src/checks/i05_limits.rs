//! I5: no limit is ever exceeded; connections count from the moment they are opened to the moment they are closed.

use std::collections::BTreeMap;

use machine::Settings;

use super::Replaced;
use crate::course::Finding;
use crate::plan::Plan;
use crate::process::Process;

/// For so long after a reload a connection may be opened that was granted before.
const RELOAD_US: u64 = 200_000;

/// Connections that the pooler holds.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    by_database: BTreeMap<u16, u32>,
    /// Counted from the startup packet on, which names the user.
    by_pool: BTreeMap<(String, String), u32>,
}

impl Counts {
    /// A connection to a server was established.
    pub(crate) fn opened(&mut self, plan: &Plan, database: u16) -> Result<(), Finding> {
        let count = self.by_database.entry(database).or_default();
        *count += 1;
        let count = *count;
        let name = &plan.databases[usize::from(database)].name;
        let settings = &plan.settings;
        let all: u32 = self.by_database.values().sum();
        let limit = settings.global.pools.max_server_connections;
        if limit > 0 && all > limit {
            return Err((5, format!("there are {all} connections, max_server_connections is {limit}")));
        }
        let Some(entry) = settings.databases.get(name) else {
            // A database without a plan of its own is named only by the startup packet.
            return Ok(());
        };
        let limit = entry.settings.max_db_connections.unwrap_or(settings.global.pools.max_db_connections);
        if limit > 0 && count > limit {
            return Err((5, format!("database {database} has {count} connections, max_db_connections is {limit}")));
        }
        Ok(())
    }

    /// A server's startup packet has come: the connection, opened then, counts for its pool and its user.
    pub(super) fn started(
        &mut self,
        plan: &Plan,
        replaced: &[Replaced],
        process: &Process,
        opened_at: u64,
    ) -> Result<(), Finding> {
        let count = self.by_pool.entry((process.dbname.clone(), process.user.clone())).or_default();
        *count += 1;
        let count = *count;
        let name = &process.dbname;
        let limit = plan.pool_max(name, &process.user);
        if count > limit {
            return Err((5, format!("pool {name}/{} has {count} connections, its size is {limit}", process.user)));
        }
        let settings = &plan.settings;
        let of_database = self.by_pool.iter().filter(|((database, _), _)| database == name);
        let total: u32 = of_database.map(|(_, count)| count).sum();
        let own = settings.database(name).and_then(|entry| entry.settings.max_db_connections);
        let limit = own.unwrap_or(settings.global.pools.max_db_connections);
        if limit > 0 && total > limit {
            return Err((5, format!("{name} has {total} connections, max_db_connections is {limit}")));
        }
        let limit = user_limit(plan, replaced, &process.user, opened_at);
        let users = self.by_pool.iter().filter(|((_, user), _)| *user == process.user);
        let total: u32 = users.map(|(_, count)| count).sum();
        if limit > 0 && total > limit {
            return Err((5, format!("{} has {total} connections, max_user_connections is {limit}", process.user)));
        }
        Ok(())
    }

    /// A server's connection is closed; `counted`: the database and user that it counted for.
    pub(crate) fn closed(&mut self, database: u16, counted: Option<(String, String)>) {
        if let Some(count) = self.by_database.get_mut(&database) {
            *count -= 1;
        }
        if let Some(pool) = counted
            && let Some(count) = self.by_pool.get_mut(&pool)
        {
            *count -= 1;
        }
    }
}

/// The limit for a connection that was opened at that time. A worker that opened one just after a reload may not know
/// the reload yet.
fn user_limit(plan: &Plan, replaced: &[Replaced], user: &str, opened_at: u64) -> u32 {
    let of = |settings: &Settings| {
        let own = settings.users.get(user).and_then(|user| user.max_user_connections);
        own.unwrap_or(settings.global.pools.max_user_connections)
    };
    let recent = replaced.iter().filter(|replaced| opened_at < replaced.at + RELOAD_US);
    let limits: Vec<u32> = recent.map(|replaced| of(&replaced.settings)).chain([of(&plan.settings)]).collect();
    // 0 is no limit.
    if limits.contains(&0) { 0 } else { limits.into_iter().max().unwrap_or(0) }
}
