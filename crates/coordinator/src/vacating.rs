//! DROP DATABASE and its like fail while anybody is connected, idle servers of ours too. PostgreSQL gives those who leave
//! five seconds, so it is enough that they are told to leave when the statement is sent. PostgreSQL manual, DROP DATABASE.
//!
//! Whoever sends such a statement needs no right to it. So only those that are connected to the same server make anybody leave,
//! and that once a minute as long as none has succeeded.

use machine::action::Actions;
use machine::mail::ToWorker;
use sql::Word;
use units::{PoolId, Time, limits};

use super::Coordinator;

impl Coordinator {
    /// Whatever pool has servers in a database that is called by one of `names`, at a server of pool `from`, is to leave it, and
    /// none is opened there for min_pool_size meanwhile.
    pub(super) fn empty(&mut self, now: Time, from: PoolId, names: &[Word], actions: &mut Actions) {
        let from = self.pools.get(from.0 as usize).and_then(|from| self.settings.database(&from.key.database));
        let Some(hosts) = from.map(|database| database.hosts.clone()) else { return };
        for (index, entry) in self.pools.iter_mut().enumerate().filter(|(_, entry)| entry.is_live()) {
            let Some(database) = self.settings.database(&entry.key.database) else { continue };
            let is_there = database.hosts.iter().any(|host| hosts.contains(host));
            let is_again = entry.vacated_at.is_some_and(|at| now < at + limits::VACATE_AGAIN);
            if is_again || !is_there || !is_named(database.name_at_server(), names) {
                continue;
            }
            (entry.vacated_at, entry.vacant_until) = (Some(now), now + limits::VACATING);
            if entry.tokens() == 0 {
                continue;
            }
            for &home in &entry.homes {
                actions.post_to_worker(home, ToWorker::Vacate { pool: PoolId(index as u32) });
            }
        }
    }

    /// A statement has succeeded that wanted these empty: the next need not wait.
    pub(super) fn emptied(&mut self, names: &[Word]) {
        for entry in self.pools.iter_mut().filter(|entry| entry.vacated_at.is_some()) {
            let database = self.settings.database(&entry.key.database);
            if database.is_none_or(|database| is_named(database.name_at_server(), names)) {
                entry.vacated_at = None;
            }
        }
    }
}

fn is_named(database: &str, names: &[Word]) -> bool {
    let called = Word::of(database.as_bytes());
    names.iter().any(|name| name.name() == called)
}
