//! Worlds that test features which other worlds seldom use: clients that stay in a transaction for seconds, a reserve,
//! min_pool_size, reloads that change a user's limit or remove a database, channels with many listeners.
//!
//! All of it is drawn from its own streams, so that the rest of a world does not change.

use machine::Settings;

use crate::random::Random;
use crate::secret::Secret;
use crate::wishes::Wishes;

/// How long a client pauses, in microseconds.
const DAWDLE_US: (u64, u64) = (3_000_000, 6_000_000);

/// Whether administrators give orders, and what they have ordered so far, by what it may do to clients.
#[derive(Copy, Clone, Debug, Default)]
pub struct Orders {
    pub are_given: bool,
    /// Whoever gives them has a console all the time.
    pub operator_stays: bool,
    /// Besides the other orders, one query after the other is cancelled.
    pub cancels_often: bool,
    /// Something that changes what the pooler does.
    pub changes: bool,
    /// Servers were closed that listened for clients.
    pub pauses: bool,
    pub kills: bool,
    pub client_kills: bool,
    pub disables: bool,
    /// SUSPEND has closed whoever did not take what was sent to it.
    pub suspended_too_long: bool,
    /// No timeout ends anything before this time, in microseconds: SUSPEND was taken back.
    pub spared_until: u64,
}

impl Orders {
    fn draw(seed: u64) -> Orders {
        let mut random = stream(seed, b"operator");
        let (are_given, operator_stays) = (random.chance(200), random.chance(800));
        Orders { are_given, operator_stays, cancels_often: are_given && random.chance(400), ..Orders::default() }
    }
}

/// What this world tests in addition to what all worlds test.
#[derive(Copy, Clone, Debug, Default)]
pub struct Promises {
    /// Per mille of the statements after which a client pauses for seconds, in a transaction or between two.
    pub dawdlers: u32,
    /// Clients use one channel for their whole database, not their own.
    pub shared_channels: bool,
    /// Clients add columns to tables that they have prepared statements of.
    pub alters_tables: bool,
    /// Clients send cancels with a wrong secret while a query runs.
    pub wrong_cancels: bool,
    /// Clients ask for several versions of the protocol, and servers have long cancel keys.
    pub long_keys: bool,
    /// Databases with a forced user keep some servers open, with a long lifetime.
    pub keeps_minimum: bool,
    /// A reload changes max_user_connections.
    pub changes_user_limit: bool,
    /// A reload removes a database.
    pub removes_database: bool,
    /// Clients leave during a COPY, between two messages.
    pub leaves_copies: bool,
    /// Servers die often, and the pooler gets the event late.
    pub last_words: bool,
    /// Per mille of the clients that replicate.
    pub replicas: u32,
    /// Orders at the console.
    pub orders: Orders,
    /// The seed of the streams for each client's decisions.
    seed: u64,
}

/// How many servers a pool may have beyond its size.
pub(crate) fn reserve(settings: &Settings, database: &str, user: &str) -> u32 {
    let own = settings.users.get(user).and_then(|user| user.reserve_pool_size);
    let entry = settings.database(database).and_then(|entry| entry.settings.reserve_pool_size);
    own.or(entry).unwrap_or(settings.global.pools.reserve_pool_size)
}

/// A random stream of this world for one purpose.
pub(crate) fn stream(seed: u64, purpose: &[u8; 8]) -> Random {
    Random::new(seed ^ u64::from_be_bytes(*purpose))
}

fn replicas(wishes: &Wishes, often: u32) -> u32 {
    let mut random = stream(wishes.seed, b"replicas");
    if random.chance(often * 100) { random.range(50, 400) as u32 } else { 0 }
}

impl Promises {
    /// `is_plain`: the world is made for one check, and has none of this.
    pub(crate) fn draw(wishes: &Wishes, is_plain: bool) -> Promises {
        if is_plain {
            return Promises::default();
        }
        let mut random = stream(wishes.seed, b"promises");
        let often = if wishes.promises { 4 } else { 1 };
        let mut chance = |per_mille: u32| random.chance(often * per_mille);
        let removes_database = chance(120);
        // Idle clients must get the error when their database is removed.
        let dawdles = removes_database || chance(150);
        let (shared_channels, alters_tables, wrong_cancels) = (chance(250), chance(250), chance(250));
        let (keeps_minimum, changes_user_limit) = (chance(150), chance(100));
        let (leaves_copies, last_words) = (chance(150), chance(100));
        Promises {
            dawdlers: if dawdles { random.range(50, 400) as u32 } else { 0 },
            shared_channels,
            alters_tables,
            wrong_cancels,
            long_keys: stream(wishes.seed, b"versions").chance(often * 250),
            keeps_minimum,
            changes_user_limit,
            removes_database,
            leaves_copies,
            last_words,
            replicas: replicas(wishes, often),
            orders: Orders::draw(wishes.seed),
            seed: wishes.seed,
        }
    }

    /// How long a client pauses after this statement, if it does.
    pub(crate) fn dawdles(&self, client: u32, mark: u32) -> Option<u64> {
        if self.dawdlers == 0 {
            return None;
        }
        let mut random = stream(self.seed ^ u64::from(client) << 32 ^ u64::from(mark), b"dawdling");
        random.chance(self.dawdlers).then(|| random.range(DAWDLE_US.0, DAWDLE_US.1))
    }

    /// Whether a client leaves during the COPY that it has just begun.
    pub(crate) fn leaves_copy(&self, client: u32, mark: u32) -> bool {
        let mut random = stream(self.seed ^ u64::from(client) << 32 ^ u64::from(mark), b"leaving ");
        self.leaves_copies && random.chance(200)
    }

    /// The random stream of a client that replicates; `None`: it does not.
    pub(crate) fn replica(&self, client: u32) -> Option<Random> {
        if self.replicas == 0 {
            return None;
        }
        let mut random = stream(self.seed ^ u64::from(client) << 32, b"walsends");
        random.chance(self.replicas).then_some(random)
    }

    /// The minor version of the protocol that a client asks for. In most worlds it is 0 for all.
    pub(crate) fn minor(&self, client: u32) -> u16 {
        if !self.long_keys {
            return 0;
        }
        let mut random = stream(self.seed ^ u64::from(client) << 32, b"protocol");
        [0, 2, 2, 9999][random.below(4) as usize]
    }

    /// How many bytes the secret of a server's cancel key has. In most worlds they are 4 for all.
    pub(crate) fn secret_len(&self, process: i32) -> usize {
        if !self.long_keys {
            return 4;
        }
        let mut random = stream(self.seed ^ u64::from(process.unsigned_abs()) << 32, b"longkeys");
        random.range(4, Secret::LEN_MAX as u64) as usize
    }

    /// Whether an administrator may cancel what a client runs, though it sends no CancelRequests.
    pub(crate) fn may_be_cancelled(&self, client: u32) -> bool {
        let mut random = stream(self.seed ^ u64::from(client) << 32, b"victims ");
        self.orders.are_given && random.chance(300)
    }

    /// The wrong bit in a cancel's secret, if a client sends such a cancel now.
    pub(crate) fn wrong_bit(&self, client: u32, now: u64) -> Option<u32> {
        let mut random = stream(self.seed ^ u64::from(client) << 40 ^ now, b"wrongbit");
        (self.wrong_cancels && random.chance(20)).then(|| random.below(32) as u32)
    }
}
