//! Changes of a plan for worlds made for one check, and for [`Promises`].

use std::sync::Arc;
use std::time::Duration;

use auth::{Password, Secret};
use connections::databases::Database;
use machine::Settings;
use settings::{DatabaseSettings, Fidelity, Global, PoolMode, PoolSize};

use super::{ANY_NAME, DatabasePlan, PASSWORD, Plan};
use crate::conditions::{Faults, Manners, Weather};
use crate::contest::Contest;
use crate::curve::{CEILING, Curve, FLOOR};
use crate::parameters::DEFAULTS;
use crate::promises::{Promises, stream};
use crate::random::Random;
use crate::wishes::Wishes;

/// The number of clients in a world in which a size must be found: always more than servers.
const CLIENTS: u32 = 48;

/// In worlds in which clients pause for seconds, the timeouts of the other clients, which wait meanwhile.
const WAIT: Duration = Duration::from_secs(120);

/// The lifetime of servers in worlds in which min_pool_size keeps some.
const LIFETIME: Duration = Duration::from_secs(20);

impl Plan {
    /// Makes it a world for `i13_shares`: pools share a cap, each always has work, and nothing goes wrong.
    pub(super) fn crowd(&mut self, wishes: &Wishes) {
        let mut random = Random::new(self.seed ^ 0x0063_726f_7764);
        self.databases.retain(|database| database.name != ANY_NAME);
        self.begin_with_nothing();
        let old = &self.settings;
        let entries = old.databases.iter().map(|(name, database)| {
            let plain = Database::new(name, database.hosts.clone());
            let (forced_user, password) = (database.forced_user.clone(), database.password.clone());
            let startup = database.startup.clone();
            let settings = DatabaseSettings { pool_mode: Some(PoolMode::Transaction), ..DatabaseSettings::default() };
            (name.clone(), Arc::new(Database { forced_user, password, startup, settings, ..plain }))
        });
        let mut settings = Settings {
            databases: entries.collect(),
            secrets: old.secrets.clone(),
            workers: old.workers,
            global: plain(&old.global, wishes),
            ..Settings::default()
        };
        settings.global.pools.max_client_conn = 10_000;
        settings.global.pools.max_server_connections = random.range(1, 6) as u32;
        self.settings = Arc::new(settings);
        let calm = Weather::draw(&mut random, true);
        // With a slow network much time passes in few steps.
        self.weather = Weather { pieces: 0, delay_min: 200, delay_max: 1_500, ..calm };
        (self.faults, self.reloads, self.stop, self.extent.look_every) = (Faults::default(), 0, None, 1);
        self.extent.clients = 25 * self.users.len() as u32 * self.databases.len() as u32;
        self.extent.visits = u32::MAX;
        self.extent.steps_max = 30_000;
        let sleep_max = *random.pick(&[2_000, 20_000, 100_000]);
        self.manners = Manners::draw(&mut random, true, sleep_max);
        self.manners.be_plain();
    }

    /// Makes it such a world.
    pub(super) fn contend(&mut self, wishes: &Wishes) {
        let mut random = Random::new(self.seed ^ 0x636c_6173_6865);
        self.workers = wishes.workers.unwrap_or_else(|| random.range(1, 4) as u16);
        let (contest, servers) = Contest::draw(&mut random, self.workers);
        let (name, user) = ("base0".to_owned(), &self.users[0].name);
        let hosts = self.settings.databases.values().next().map(|database| database.hosts.clone());
        let database = Database {
            forced_user: Some(user.clone()),
            password: Some(Secret::Plain(Password::new(PASSWORD))),
            settings: DatabaseSettings {
                pool_size: Some(PoolSize::Fixed(servers)),
                pool_mode: Some(PoolMode::Transaction),
                ..DatabaseSettings::default()
            },
            ..Database::new(&name, hosts.expect("every world has a database"))
        };
        let old = &self.settings;
        let mut settings = Settings {
            databases: [(name.clone(), Arc::new(database))].into(),
            secrets: old.secrets.clone(),
            workers: self.workers,
            classes: Arc::new(contest.classes()),
            global: plain(&old.global, wishes),
            ..Settings::default()
        };
        settings.global.pools.max_client_conn = 10_000;
        super::apply_sabotage(&mut settings, wishes);
        self.settings = Arc::new(settings);
        self.databases = vec![DatabasePlan { name, forced: Some(0), defaults: DEFAULTS, begins: &[] }];
        self.weather = contest_weather(&mut random);
        let mut maybe = |most: u64| if random.chance(300) { random.skewed(1, most) as u32 } else { 0 };
        self.faults = Faults { late_board: maybe(500), full_mailbox: maybe(300), ..Faults::default() };
        (self.reloads, self.stop, self.extent.look_every, self.purpose.shares) = (0, None, 1, false);
        (self.extent.clients, self.extent.visits) = (contest.clients(), u32::MAX);
        self.extent.steps_max = wishes.steps.unwrap_or(60_000);
        self.manners.be_plain();
        self.purpose.contest = Some(contest);
    }

    /// Its databases lose their connect_query.
    fn begin_with_nothing(&mut self) {
        self.databases.iter_mut().for_each(|database| database.begins = &[]);
    }

    /// Makes it a world with one pool of this size, whose clients always have work.
    pub(super) fn find_size(&mut self, size: PoolSize, wishes: &Wishes) {
        let mut random = Random::new(self.seed ^ 0x7369_7a65);
        self.purpose.curve = Some(Curve::draw(self.seed));
        self.databases.retain(|database| self.settings.databases.contains_key(&*database.name));
        self.databases.truncate(1);
        self.users.truncate(1);
        self.begin_with_nothing();
        let old = &self.settings;
        let name = self.databases[0].name.clone();
        let hosts = old.databases[&*name].hosts.clone();
        let startup = old.databases[&*name].startup.clone();
        // One pool: a forced user is the first one.
        let forced = self.databases[0].forced.map(|_| 0);
        self.databases[0].forced = forced;
        let forced_user = forced.map(|user: usize| self.users[user].name.clone());
        let password = old.databases[&*name].password.clone();
        let database = Database {
            startup,
            forced_user,
            password,
            settings: DatabaseSettings { pool_mode: Some(PoolMode::Transaction), ..DatabaseSettings::default() },
            ..Database::new(&name, hosts)
        };
        let mut settings = Settings {
            databases: [(name, Arc::new(database))].into_iter().collect(),
            secrets: old.secrets.clone(),
            workers: old.workers,
            auto_pool_size_start: random.range(2, 32) as u32,
            global: plain(&old.global, wishes),
            ..Settings::default()
        };
        settings.global.pools.default_pool_size = size;
        settings.global.pools.auto_pool_size_min = FLOOR;
        settings.global.pools.auto_pool_size_max = CEILING;
        self.settings = Arc::new(settings);
        self.weather = Weather { delay_min: 10, delay_max: 40, late: 0, pieces: 0, ..self.weather };
        self.weather.bytewise = false;
        (self.weather.room_min, self.weather.room_max) = (60_000, 200_000);
        (self.faults, self.reloads, self.stop) = (Faults::default(), 0, None);
        (self.extent.clients, self.extent.visits, self.extent.look_every) = (CLIENTS, u32::MAX, 64);
        self.extent.steps_max = u64::MAX;
        self.manners = Manners {
            cancellers: 0,
            slow: 0,
            vanish: 0,
            wrong_password: 0,
            pipeline: 0,
            errors: 0,
            large: 0,
            sets: 0,
            memory: 0,
            hostile: 0,
            consoles: 0,
            lost: 0,
            think_max: 0,
            sleep_max: 1,
            units_max: 1_000_000,
        };
    }

    /// Sets timeouts for what is promised: short ones for pauses in a transaction, long ones for clients that wait
    /// meanwhile.
    pub(super) fn promise(&mut self) {
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
        if self.promises.orders.are_given {
            let timeout = Duration::from_millis(random.range(1, 200));
            Arc::make_mut(&mut self.settings).global.console.suspend_timeout = Some(timeout);
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
            // Servers are held for seconds, so that others wait for the reserve.
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

    /// The changes of a reload for what is promised.
    pub(super) fn reload_promises(&self, settings: &mut Settings) {
        let mut random = stream(self.seed ^ self.past.len() as u64, b"reloaded");
        if self.promises.changes_user_limit {
            settings.global.pools.max_user_connections = random.range(1, 6) as u32;
        }
        // With a `*` database none can be removed.
        if self.promises.removes_database && settings.fallback.is_none() && settings.databases.len() > 1 {
            settings.databases.pop_last();
        }
    }
}

/// Any weather, but large pieces: with small ones few transactions take many steps.
fn contest_weather(random: &mut Random) -> Weather {
    Weather {
        delay_min: 10,
        delay_max: if random.chance(600) { 50 } else { random.skewed(50, 2_000) },
        late: *random.pick(&[0, 0, 0, 5]),
        pieces: *random.pick(&[0, 0, 50]),
        bytewise: false,
        room_min: 8_000,
        room_max: 200_000,
    }
}

/// The settings of a world made for one check: the defaults, with the login method of `old`.
fn plain(old: &Global, wishes: &Wishes) -> Global {
    let mut global = Global::default();
    global.login.auth_type = old.login.auth_type;
    global.tls = old.tls.clone();
    global.login.scram_iterations = old.login.scram_iterations;
    global.pools.pool_fidelity = wishes.fidelity.unwrap_or(Fidelity::Classic);
    global.servers.server_idle_timeout = Some(Duration::from_secs(10));
    global
}
