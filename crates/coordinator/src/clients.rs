//! The clients that are there, and the limits on their number.

use std::sync::Arc;

use machine::Settings;
use machine::mail::Refusal;
use units::PoolKey;

use crate::counts::Counts;

/// Sessions placed and not departed.
#[derive(Debug, Default)]
pub(crate) struct Clients(Counts);

impl Clients {
    pub(crate) fn count(&self) -> u32 {
        self.0.all()
    }

    pub(crate) fn came(&mut self, database: &Arc<str>, user: &Arc<str>) {
        self.0.raise(database, user);
    }

    pub(crate) fn left(&mut self, database: &Arc<str>, user: &Arc<str>) {
        self.0.lower(database, user);
    }

    /// Whether one more may come. An error says which limit is reached.
    //= pgbouncer config.md#max_client_conn
    pub(crate) fn admit(&self, settings: &Settings, key: &PoolKey, user: &Arc<str>) -> Result<(), Refusal> {
        let full = |limit: u32, count: u32| limit > 0 && count >= limit;
        let pools = &settings.global.pools;
        if full(pools.max_client_conn, self.0.all()) {
            return Err(Refusal::MaxClientConn);
        }
        let database =
            settings.database(&key.database).and_then(|database| database.settings.max_db_client_connections);
        let database_max = database.unwrap_or(pools.max_db_client_connections);
        if full(database_max, self.0.of_database(&key.database)) {
            return Err(Refusal::MaxDbClientConnections);
        }
        let own = settings.users.get(&**user).and_then(|user| user.max_user_client_connections);
        if full(own.unwrap_or(pools.max_user_client_connections), self.0.of_user(user)) {
            return Err(Refusal::MaxUserClientConnections);
        }
        Ok(())
    }
}
