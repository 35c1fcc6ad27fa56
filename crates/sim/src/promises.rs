//! Worlds in which a setting promises something that other worlds seldom ask for: clients that stay in a transaction for seconds, a
//! reserve, servers of a minimum, reloads that change a user's limit or remove a database, channels that many listen to.
//!
//! All of it is drawn from streams of its own, so that all else in a world stays as it is.

use machine::Settings;

use crate::random::Random;
use crate::wishes::Wishes;

/// How long a client dawdles that does, in microseconds.
const DAWDLE_US: (u64, u64) = (3_000_000, 6_000_000);

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
    /// What a client does in its turn is drawn from streams of its own.
    seed: u64,
}

/// How many servers a pool may have beyond its size.
pub(crate) fn reserve(settings: &Settings, database: &str, user: &str) -> u32 {
    let own = settings.users.get(user).and_then(|user| user.reserve_pool_size);
    let entry = settings.database(database).and_then(|entry| entry.settings.reserve_pool_size);
    own.or(entry).unwrap_or(settings.global.pools.reserve_pool_size)
}

/// A stream of this world's for one purpose.
pub(crate) fn stream(seed: u64, purpose: &[u8; 8]) -> Random {
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
            seed: wishes.seed,
        }
    }

    /// How long a client rests before what it does next, if it dawdles there.
    pub(crate) fn dawdles(&self, client: u32, mark: u32) -> Option<u64> {
        if self.dawdlers == 0 {
            return None;
        }
        let mut random = stream(self.seed ^ u64::from(client) << 32 ^ u64::from(mark), b"dawdling");
        random.chance(self.dawdlers).then(|| random.range(DAWDLE_US.0, DAWDLE_US.1))
    }

    /// Whether a client leaves in the midst of the COPY that it has just begun.
    pub(crate) fn leaves_copy(&self, client: u32, mark: u32) -> bool {
        let mut random = stream(self.seed ^ u64::from(client) << 32 ^ u64::from(mark), b"leaving ");
        self.leaves_copies && random.chance(200)
    }

    /// Which bit of a cancel's secret is wrong, if a client sends such a cancel now.
    pub(crate) fn wrong_bit(&self, client: u32, now: u64) -> Option<u32> {
        let mut random = stream(self.seed ^ u64::from(client) << 40 ^ now, b"wrongbit");
        (self.wrong_cancels && random.chance(20)).then(|| random.below(32) as u32)
    }
}
