//! DROP DATABASE and its like fail while anybody is connected, idle servers of ours too. PostgreSQL gives those who leave
//! five seconds, so it is enough that they are told to leave when the statement is sent. PostgreSQL manual, DROP DATABASE.

use sql::Word;

use super::{Coordinator, post};
use crate::action::Actions;
use crate::id::PoolId;
use crate::limits;
use crate::mail::{Mail, Place};
use crate::time::Time;

impl Coordinator {
    /// Whatever pool has servers in a database that is called by one of `names` is to leave it, and none is opened there for
    /// min_pool_size meanwhile.
    pub(super) fn empty(&mut self, now: Time, names: &[Word], actions: &mut Actions) {
        for (index, entry) in self.pools.iter_mut().enumerate().filter(|(_, entry)| entry.is_live()) {
            let Some(database) = self.settings.database(&entry.key.database) else { continue };
            let called = Word::of(database.name_at_server().as_bytes());
            if !names.iter().any(|name| name.name() == called) {
                continue;
            }
            entry.vacant_until = now + limits::VACATING;
            if entry.tokens() == 0 {
                continue;
            }
            for &home in &entry.homes {
                post(actions, Place::Worker(home), Mail::Vacate { pool: PoolId(index as u32) });
            }
        }
    }
}
