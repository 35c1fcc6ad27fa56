//! Worlds in which a setting promises something that other worlds seldom ask for: clients that stay in a transaction for seconds, a
//! reserve, servers of a minimum, reloads that change a user's limit or remove a database, channels that many listen to.
//!
//! All of it is drawn from streams of its own, so that all else in a world stays as it is.

use std::sync::Arc;
use std::time::Duration;

use pooling::Settings;
use pooling::settings::{Database, PoolSize};

use crate::plan::{Plan, Wishes};
use crate::random::Random;

/// How long a client dawdles that does, in microseconds.
const DAWDLE_US: (u64, u64) = (3_000_000, 6_000_000);

/// In worlds in which somebody dawdles, the time-outs that let others wait meanwhile.
const WAIT: Duration = Duration::from_secs(120);

/// How long servers live of which some are to be kept.
const LIFETIME: Duration = Duration::from_secs(20);

/// What is asked for in this world beside what all worlds have.
#[derive(Copy, Clone, Debug, Default)]
pub struct Promises {
    /// Per mille of the clients that rest for seconds, in a transaction or between two.
    pub dawdlers: u32,
    /// Clients say and listen on a channel of their database's, not of their own.
    pub shared_channels: bool,
    /// Clients add columns to tables that they have prepared statements of.
    pub alters_tables: bool,
    /// Clients send cancels with a wrong secret while a query runs.
    pub wrong_cancels: bool,
    /// Databases with a forced user keep some servers open, which live for long.
    pub keeps_minimum: bool,
    /// A reload changes max_user_connections.
    pub changes_user_limit: bool,
    /// A reload removes a database.
    pub removes_database: bool,
    /// Clients leave in the midst of a COPY, between two messages.
    pub leaves_copies: bool,
    /// Servers die often, and the pooler is late to hear of it.
    pub last_words: bool,
}

/// How many servers a pool may have beyond its size.
pub(crate) fn reserve(settings: &Settings, database: &str, user: &str) -> u32 {
    let own = settings.users.get(user).and_then(|user| user.reserve_pool_size);
    let entry = settings.database(database).and_then(|entry| entry.settings.reserve_pool_size);
    own.or(entry).unwrap_or(settings.global.pools.reserve_pool_size)
}

/// A stream of this world's for one purpose.
fn stream(seed: u64, purpose: &[u8; 8]) -> Random {
    Random::new(seed ^ u64::from_be_bytes(*purpose))
}

impl Promises {
    /// `is_plain`: the world is made for one check, where nothing else is wished for.
    pub(crate) fn draw(wishes: &Wishes, is_plain: bool) -> Promises {
        if is_plain {
            return Promises::default();
        }
        let mut random = stream(wishes.seed, b"promises");
        let often = if wishes.promises { 4 } else { 1 };
        let mut chance = |per_mille: u32| random.chance(often * per_mille);
        let removes_database = chance(120);
        // Who is idle when it goes has to be told.
        let dawdles = removes_database || chance(150);
        let (shared_channels, alters_tables, wrong_cancels) = (chance(250), chance(250), chance(250));
        let (keeps_minimum, changes_user_limit) = (chance(150), chance(100));
        let (leaves_copies, last_words) = (chance(150), chance(100));
        Promises {
            dawdlers: if dawdles { random.range(50, 400) as u32 } else { 0 },
            shared_channels,
            alters_tables,
            wrong_cancels,
            keeps_minimum,
            changes_user_limit,
            removes_database,
            leaves_copies,
            last_words,
        }
    }
}

impl Plan {
    /// Makes room for what is promised: short time-outs for what clients do, long ones for those who wait meanwhile.
    pub(crate) fn promise(&mut self) {
        let mut random = stream(self.seed, b"settings");
        let Promises { dawdlers, keeps_minimum, changes_user_limit, removes_database, .. } = self.promises;
        if changes_user_limit || removes_database {
            self.reloads = self.reloads.max(random.range(1, 3) as u32);
        }
        if self.promises.last_words {
            let mut random = stream(self.seed, b"lastword");
            self.faults.every = random.skewed(5_000, 50_000);
            self.faults.late_round = 300;
        }
        if dawdlers == 0 && !keeps_minimum {
            return;
        }
        let mut settings = Settings::clone(&self.settings);
        if keeps_minimum {
            settings.global.servers.server_lifetime = LIFETIME;
            for database in settings.databases.values_mut().filter(|database| database.forced_user.is_some()) {
                Arc::make_mut(database).settings.min_pool_size = Some(random.range(1, 3) as u32);
            }
        }
        if dawdlers > 0 && random.chance(500) {
            settings.global.waiting.idle_transaction_timeout = Some(Duration::from_millis(random.skewed(20, 1_000)));
        } else if dawdlers > 0 {
            // Servers are held for seconds: others wait for the reserve.
            (settings.global.waiting.idle_transaction_timeout, settings.global.waiting.transaction_timeout) =
                (None, None);
            settings.global.waiting.query_wait_timeout = Some(WAIT);
            settings.global.servers.server_connect_timeout = Some(Duration::from_millis(random.skewed(100, 400)));
            settings.global.servers.server_login_retry = Duration::from_millis(random.skewed(10, 100));
            for database in settings.databases.values_mut() {
                let database: &mut Database = Arc::make_mut(database);
                database.settings.pool_size = Some(PoolSize::Fixed(random.range(1, 3) as u32));
                database.settings.reserve_pool_size = Some(random.range(1, 2) as u32);
                database.settings.max_db_connections = None;
            }
            (settings.global.pools.max_user_connections, settings.global.pools.max_server_connections) = (0, 0);
        }
        self.settings = Arc::new(settings);
    }

    /// What a reload changes beside what all reloads do.
    pub(crate) fn reload_promises(&self, settings: &mut Settings) {
        let mut random = stream(self.seed ^ self.past.len() as u64, b"reloaded");
        if self.promises.changes_user_limit {
            settings.global.pools.max_user_connections = random.range(1, 6) as u32;
        }
        // Where there is a database of any name, none can be removed.
        if self.promises.removes_database && settings.fallback.is_none() && settings.databases.len() > 1 {
            settings.databases.pop_last();
        }
    }

    /// How long a client rests before what it does next, if it dawdles there.
    pub(crate) fn dawdles(&self, client: u32, mark: u32) -> Option<u64> {
        if self.promises.dawdlers == 0 {
            return None;
        }
        let mut random = stream(self.seed ^ u64::from(client) << 32 ^ u64::from(mark), b"dawdling");
        random.chance(self.promises.dawdlers).then(|| random.range(DAWDLE_US.0, DAWDLE_US.1))
    }

    /// Whether a client leaves in the midst of the COPY that it has just begun.
    pub(crate) fn leaves_copy(&self, client: u32, mark: u32) -> bool {
        let mut random = stream(self.seed ^ u64::from(client) << 32 ^ u64::from(mark), b"leaving ");
        self.promises.leaves_copies && random.chance(200)
    }

    /// Whether a client that binds a statement of a changed table sends much behind it in the same batch.
    pub(crate) fn goes_on_long(&self, client: u32, mark: u32) -> bool {
        let mut random = stream(self.seed ^ u64::from(client) << 32 ^ u64::from(mark), b"longlong");
        // Where everything comes in small pieces, it would take all the steps there are.
        self.weather.pieces < 300 && !self.weather.bytewise && random.chance(150)
    }

    /// Which bit of a cancel's secret is wrong, if a client sends such a cancel now.
    pub(crate) fn wrong_bit(&self, client: u32, now: u64) -> Option<u32> {
        let mut random = stream(self.seed ^ u64::from(client) << 40 ^ now, b"wrongbit");
        (self.promises.wrong_cancels && random.chance(20)).then(|| random.below(32) as u32)
    }

    /// Whether a database was there and is no more.
    #[must_use]
    pub fn is_removed(&self, database: &str) -> bool {
        self.promises.removes_database
            && self.settings.database(database).is_none()
            && self.past.iter().any(|before| before.database(database).is_some())
    }
}
