//! The plan of a seed's world: settings, databases, users, network, faults, clients.

pub mod hosts;
mod special;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use auth::{Md5Hash, Password, Secret, Verifier};
use connections::databases::{Address, Database, Host};
use machine::Settings;
use machine::peering::{PeerEntry, PeerId};
use settings::{AuthType, DatabaseSettings, Effective, Fidelity, PoolMode, PoolSize};
use settings::{SslMode, TestSettings, UserSettings};
use units::PoolKey;

use crate::conditions::{Faults, Manners, Weather};
use crate::contest::Contest;
use crate::curve::Curve;
use crate::overrides::Overrides;
use crate::parameters::{self, Values};
use crate::promises::{self, Promises, stream};
use crate::random::Random;
use crate::wishes::Wishes;

/// SCRAM's iterations in the model world: two, to save time.
const ITERATIONS: u32 = 2;

/// The plan of all databases that have no plan of their own.
pub const ANY_NAME: &str = "*";

pub const PASSWORD: &str = "a password";

/// How a user logs in at the model PostgreSQL.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Login {
    Trust,
    Clear,
    Md5,
    Scram,
}

/// One user, at the pooler and at PostgreSQL.
#[derive(Clone, Debug)]
pub struct UserPlan {
    pub name: String,
    pub verifier: Verifier,
    pub login: Login,
}

/// One database.
#[derive(Clone, Debug)]
pub struct DatabasePlan {
    pub name: String,
    pub forced: Option<usize>,
    pub defaults: Values,
    /// What its connect_query sets, where sessions are followed.
    pub begins: &'static [(&'static str, &'static str)],
}

/// The size of a world, and its length.
#[derive(Copy, Clone, Debug)]
pub struct Extent {
    pub steps_max: u64,
    /// Clients present at a time.
    pub clients: u32,
    /// Clients in total.
    pub visits: u32,
    /// The number of rounds between two runs of the expensive checks.
    pub look_every: u64,
}

/// The check for which a world is made, if any.
#[derive(Clone, Debug, Default)]
pub struct Purpose {
    /// Pools share a cap; checked for fairness.
    pub shares: bool,
    /// Classes share a pool; checked for fairness.
    pub contest: Option<Contest>,
    /// How long concurrent statements take, in worlds in which a size must be found.
    pub curve: Option<Curve>,
}

/// Everything that a seed decides before the world begins.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub workers: u16,
    pub extent: Extent,
    pub settings: Arc<Settings>,
    pub users: Vec<UserPlan>,
    pub databases: Vec<DatabasePlan>,
    pub weather: Weather,
    pub faults: Faults,
    pub manners: Manners,
    /// Clients' events are delivered before servers': a deliberate fault, to show that the checks catch it.
    pub clients_first: bool,
    /// Settings from before a reload.
    pub past: Vec<Arc<Settings>>,
    /// The number of reloads.
    pub reloads: u32,
    /// How the pooler is stopped when the work is done.
    pub stop: Option<machine::Stop>,
    pub purpose: Purpose,
    pub promises: Promises,
    /// For each database and each of its two hosts, whether the host is a standby. Empty: hosts have no roles.
    pub standbys: Vec<[bool; 2]>,
    /// The prober, if there is one.
    pub probing: Option<hosts::Probing>,
    /// Per mille of the servers that are lent and are long on their way.
    pub late_loans: u32,
    set: Overrides,
}

impl Plan {
    /// How many microseconds some commits wait for their synchronous standby: longer than a query may take.
    pub(crate) fn slow_commits(&self) -> Option<u64> {
        let timeout = self.settings.global.waiting.query_timeout.filter(|_| self.seed.is_multiple_of(2))?;
        Some(2 * timeout.as_micros() as u64)
    }

    #[must_use]
    pub fn new(wishes: &Wishes) -> Plan {
        let mut random = Random::new(wishes.seed ^ 0x706c_616e);
        let calm = wishes.calm || random.chance(150);
        let workers = wishes.workers.unwrap_or_else(|| *random.pick(&[1, 1, 1, 2, 2, 3, 4, 8]));
        let clients = if calm { random.range(1, 4) } else { random.skewed(2, 200) } as u32;
        let (users, databases, settings) = settle(&mut random, workers, clients, wishes);
        let stop = *random.pick(&[
            None,
            None,
            Some(machine::Stop::WaitForClients),
            Some(machine::Stop::WaitForServers),
            Some(machine::Stop::Immediate),
        ]);
        let reloads = if random.chance(300) { random.range(1, 4) as u32 } else { 0 };
        let sleep_max = *random.pick(&[500, 5_000, 50_000]);
        let mut plan = Plan {
            seed: wishes.seed,
            extent: Extent {
                steps_max: wishes.steps.unwrap_or_else(|| random.range(2_000, 20_000)),
                clients,
                visits: clients * random.range(1, 4) as u32,
                look_every: if clients <= 12 { 1 } else { u64::from(clients) / 4 },
            },
            workers,
            settings: Arc::new(settings),
            users,
            databases,
            weather: Weather::draw(&mut random, calm),
            faults: if calm || random.chance(200) { Faults::default() } else { Faults::draw(&mut random) },
            manners: Manners { memory: memory(wishes.seed), ..Manners::draw(&mut random, calm, sleep_max) },
            clients_first: clients_first(wishes),
            past: Vec::new(),
            reloads,
            stop,
            purpose: Purpose {
                shares: wishes.shares || wishes.sizes.is_none() && crowded(wishes),
                ..Purpose::default()
            },
            promises: Promises::default(),
            standbys: Vec::new(),
            probing: None,
            late_loans: 0,
            set: wishes.set.clone(),
        };
        if crate::contest::is_wished(wishes) {
            plan.contend(wishes);
        } else if plan.purpose.shares {
            plan.crowd(wishes);
        }
        if let Some(size) = wishes.sizes {
            plan.find_size(size, wishes);
        }
        let is_plain =
            wishes.calm || plan.purpose.shares || plan.purpose.contest.is_some() || plan.purpose.curve.is_some();
        plan.promises = Promises::draw(wishes, is_plain);
        if !is_plain {
            plan.faults.panics = panics(wishes);
            plan.faults.old_clock = old_clock(wishes.seed);
            plan.spread(wishes.hosts);
            plan.limit_uses();
        }
        plan.promise();
        plan.set.apply(Arc::make_mut(&mut plan.settings));
        plan
    }

    /// Sometimes limits how often a server is given to sessions. From a stream of its own too.
    fn limit_uses(&mut self) {
        let mut random = Random::new(self.seed ^ 0x7573_6573);
        if random.chance(80) {
            Arc::make_mut(&mut self.settings).global.servers.server_max_uses = random.skewed(1, 50) as u32;
        }
    }

    /// How far a machine's clock may be behind, in microseconds. What it takes to have lasted for some time may have lasted for less by as much.
    #[must_use]
    pub fn clock_error(&self) -> u64 {
        if self.faults.old_clock > 0 { OLD_CLOCK_US } else { 0 }
    }

    /// Whether PostgreSQL can do TLS.
    #[must_use]
    pub fn has_tls(&self) -> bool {
        encryption(self.seed).1
    }

    /// Whether a pool of this mode cancels overdue queries instead of closing their clients.
    #[must_use]
    pub fn cancels_overdue(&self, mode: PoolMode) -> bool {
        let follows = self.settings.global.pools.pool_fidelity != Fidelity::Classic && mode != PoolMode::Session;
        follows && self.settings.global.waiting.query_timeout.is_some()
    }

    /// Whether clients may wait for something other than a server.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.all_settings().any(crate::classes::are_limited)
    }

    /// The mode of a client's pool.
    #[must_use]
    pub fn mode(&self, key: &PoolKey) -> PoolMode {
        let user = self.settings.users.get(&*key.user).and_then(|user| user.pool_mode);
        // A client of a removed database is refused: use the mode that it had.
        let mut known = self.past.iter().chain([&self.settings]).rev();
        let database =
            known.find_map(|settings| settings.database(&key.database)).and_then(|found| found.settings.pool_mode);
        user.or(database).unwrap_or(self.settings.global.pools.pool_mode)
    }

    /// The largest size of a pool. After a reload that makes it smaller, existing servers may stay for a while.
    #[must_use]
    pub fn pool_max(&self, database: &str, user: &str) -> u32 {
        self.all_settings().map(|settings| size(settings, database, user)).max().unwrap_or(0)
    }

    /// The current settings, and the earlier ones.
    pub fn all_settings(&self) -> impl Iterator<Item = &Settings> {
        self.past.iter().chain([&self.settings]).map(|settings| &**settings)
    }

    /// Whether a client that binds a statement of a changed table sends much after it in the same batch.
    pub(crate) fn goes_on_long(&self, client: u32, mark: u32) -> bool {
        let mut random = stream(self.seed ^ u64::from(client) << 32 ^ u64::from(mark), b"longlong");
        // Where everything comes in small pieces, it would use up all steps.
        self.weather.pieces < 300 && !self.weather.bytewise && random.chance(150)
    }

    /// Whether settings may change or orders be given during the work.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.reloads > 0 || self.promises.orders.changes
    }

    /// Whether no timeout ends anything at this time, in microseconds: SUSPEND is in force, or has just been.
    #[must_use]
    pub fn is_spared(&self, now: u64) -> bool {
        self.settings.orders.is_suspended() || now < self.promises.orders.spared_until
    }

    /// Whether a reload has removed a database.
    #[must_use]
    pub fn is_removed(&self, database: &str) -> bool {
        self.promises.removes_database
            && self.settings.database(database).is_none()
            && self.past.iter().any(|before| before.database(database).is_some())
    }
    /// The settings after the next reload: other sizes, other limits.
    pub fn reload(&mut self, random: &mut Random) {
        let mut settings = Settings::clone(&self.settings);
        for database in settings.databases.values_mut() {
            let mut changed = Database::clone(database);
            changed.settings.pool_size = changed.settings.pool_size.map(|size| match size {
                PoolSize::Fixed(size) => PoolSize::Fixed(random.range(1, u64::from(size) + 3) as u32),
                PoolSize::Auto => PoolSize::Auto,
            });
            *database = Arc::new(changed);
        }
        settings.global.startup.max_prepared_statements = *random.pick(&[200, 1, 2, 5]);
        settings.global.servers.server_round_robin = random.chance(500);
        if crate::classes::are_limited(&settings) {
            crate::classes::limit_by(random, &mut settings);
        }
        if settings.own_peer_id().is_some() && random.chance(300) {
            draw_siblings(random, &mut settings);
        }
        self.reload_hosts(&mut settings);
        self.reload_promises(&mut settings);
        self.set.apply(&mut settings);
        self.past.push(std::mem::replace(&mut self.settings, Arc::new(settings)));
    }
}

fn size(settings: &Settings, database: &str, user: &str) -> u32 {
    let entry = settings.database(database).map(|entry| entry.settings.clone()).unwrap_or_default();
    let own = Effective::new(&settings.global, &entry, &settings.users.get(user).cloned().unwrap_or_default());
    own.pool_size.most(&settings.global.pools) + promises::reserve(settings, database, user)
}

#[cfg(debug_assertions)]
fn clients_first(wishes: &Wishes) -> bool {
    wishes.sabotage == Some(machine::sabotage::Sabotage::LinkBeforeFatal)
}

#[cfg(not(debug_assertions))]
fn clients_first(_: &Wishes) -> bool {
    false
}

fn settle(
    random: &mut Random,
    workers: u16,
    clients: u32,
    wishes: &Wishes,
) -> (Vec<UserPlan>, Vec<DatabasePlan>, Settings) {
    let known = *random.pick(&[AuthType::Trust, AuthType::Md5, AuthType::Scram, AuthType::Plain]);
    let auth_type = if random.chance(50) { AuthType::Any } else { known };
    let pool_fidelity = wishes.fidelity.unwrap_or_else(|| fidelity(wishes.seed));
    let mut settings = Settings { workers, ..Settings::default() };
    settings.global.login.auth_type = auth_type;
    settings.global.login.scram_iterations = ITERATIONS;
    settings.global.pools.pool_fidelity = pool_fidelity;
    // From a stream of its own: the rest of the world is as without it.
    settings.global.waiting.retry_reads = Random::new(wishes.seed ^ 0x7265_6164).chance(250);
    let mut users = Vec::new();
    for index in 0..random.range(1, 3) {
        let (plan, secret) = user(random, index as usize, auth_type);
        settings.secrets.insert(plan.name.clone(), secret);
        if random.chance(150) {
            let own =
                UserSettings { pool_size: Some(PoolSize::Fixed(random.range(1, 6) as u32)), ..UserSettings::default() };
            settings.users.insert(plan.name.clone(), own);
        }
        users.push(plan);
    }
    settings.global.console.admin_users.insert(users[0].name.clone());
    settings.global.console.stats_users.extend(users.get(1).map(|user| user.name.clone()));
    let count = random.range(1, 3) as usize;
    let any = auth_type == AuthType::Any;
    let mut databases: Vec<DatabasePlan> = (0..count).map(|index| database(random, index, &users, any)).collect();
    if random.chance(300) {
        // The last one stands for every name that is not one of the others.
        databases.push(DatabasePlan { name: ANY_NAME.to_owned(), ..database(random, count, &users, any) });
    }
    let wide = workers > 1 && random.chance(700);
    let entries = databases.iter().enumerate().map(|(index, plan)| {
        let entry = entry(random, index, plan, &users, wide);
        (plan.name.clone(), Arc::new(entry))
    });
    settings.databases = entries.collect::<BTreeMap<_, _>>();
    begin(wishes.seed, &mut databases, &mut settings);
    settings.fallback = settings.databases.remove(ANY_NAME);
    limit(random, clients, &mut settings);
    settings.global.pools.max_server_connections = together(wishes.seed);
    settings.global.tls.server_tls_sslmode = encryption(wishes.seed).0;
    time(random, &mut settings);
    overdue(wishes.seed, &mut settings);
    siblings(wishes.seed, &mut settings);
    forget(wishes.seed, &mut settings);
    crate::classes::decide(wishes.seed, &mut settings);
    found(wishes.seed, &mut settings);
    crate::classes::limit(wishes.seed, &mut settings);
    settings.global.tests = chaos(wishes.seed);
    apply_sabotage(&mut settings, wishes);
    (users, databases, settings)
}

/// From a stream of its own, so that all else in a world stays as it is.
fn chaos(seed: u64) -> TestSettings {
    let mut random = Random::new(seed ^ 0x0063_6861_6f73);
    let (chaos_rotate, chaos_close) = (random.chance(100), random.chance(50));
    TestSettings { chaos_rotate, chaos_close, chaos_seed: random.next(), ..TestSettings::default() }
}

/// Whether this world is made for I13: sometimes, if nothing else was requested.
fn crowded(wishes: &Wishes) -> bool {
    let mut random = Random::new(wishes.seed ^ 0x6372_6f77_6465);
    let may = wishes.steps.is_none() && !wishes.calm && matches!(wishes.workers, None | Some(1));
    may && random.chance(10)
}

/// Drawn from its own stream.
fn together(seed: u64) -> u32 {
    let mut random = Random::new(seed ^ 0x746f_6765_7468);
    if random.chance(200) { random.range(1, 12) as u32 } else { 0 }
}

/// Whether servers are to be reached by TLS, and whether they can be. Drawn from its own stream.
fn encryption(seed: u64) -> (SslMode, bool) {
    let mut random = Random::new(seed ^ 0x0074_6c73);
    if !random.chance(150) {
        return (SslMode::Disable, false);
    }
    let has_tls = random.chance(700);
    let modes = [SslMode::Allow, SslMode::Prefer, SslMode::Require, SslMode::VerifyFull];
    (modes[random.below(if has_tls { 4 } else { 2 }) as usize], has_tls)
}

/// Drawn from its own stream.
fn panics(wishes: &Wishes) -> u64 {
    let mut random = Random::new(wishes.seed ^ 0x7061_6e69_6300);
    if random.chance(30) || wishes.panics { random.skewed(200, 20_000) } else { 0 }
}

/// How long ago a thread may have read its clock when it reads its mail, in microseconds.
const OLD_CLOCK_US: u64 = 5_000;

/// Per mille of rounds.
fn old_clock(seed: u64) -> u32 {
    let mut random = Random::new(seed ^ 0x636c_6f63_6b00);
    if random.chance(500) { random.skewed(1, 300) as u32 } else { 0 }
}

/// The values between which the seed decides. Other fidelities must be requested: about one new world in a thousand
/// still finds a fault there.
const DECIDED: [Fidelity; 1] = [Fidelity::Classic];

/// From streams of their own too.
fn fidelity(seed: u64) -> Fidelity {
    let mut random = Random::new(seed ^ 0x6669_6465_6c69);
    *random.pick(&DECIDED)
}

/// Where it cancels, query_timeout is short, so that it often passes.
fn overdue(seed: u64, settings: &mut Settings) {
    let mut random = Random::new(seed ^ 0x006f_7665_7264_7565);
    if settings.global.pools.pool_fidelity != Fidelity::Classic && random.chance(200) {
        settings.global.waiting.query_timeout = Some(Duration::from_millis(random.skewed(3, 60)));
    }
}

/// What servers begin with beyond their login.
const BEGINS: [&[(&str, &str)]; 4] = [
    &[("app.tenant", "17")],
    &[("role", "reader")],
    &[("search_path", "poison"), ("work_mem", "8MB")],
    &[("role", "writer"), ("app.tenant", "18"), ("work_mem", "100kB")],
];

/// Some connect_queries set something.
fn begin(seed: u64, databases: &mut [DatabasePlan], settings: &mut Settings) {
    let mut random = Random::new(seed ^ 0x0062_6567_696e);
    if settings.global.pools.pool_fidelity == Fidelity::Classic {
        return;
    }
    for plan in databases {
        let Some(entry) = settings.databases.get_mut(&plan.name) else { continue };
        if entry.settings.pool_mode != Some(PoolMode::Transaction) || !random.chance(300) {
            continue;
        }
        plan.begins = *random.pick(&BEGINS);
        let sets: Vec<String> = plan.begins.iter().map(|(name, value)| format!("set {name} = '{value}'")).collect();
        Arc::make_mut(entry).connect_query = Some(sets.join("; "));
    }
}

/// Other processes of the pooler.
fn siblings(seed: u64, settings: &mut Settings) {
    let mut random = Random::new(seed ^ 0x7369_626c_6e67);
    if !random.chance(120) {
        return;
    }
    settings.global.listening.peer_id = random.range(1, 3) as u32;
    draw_siblings(&mut random, settings);
}

fn draw_siblings(random: &mut Random, settings: &mut Settings) {
    let peer = |random: &mut Random, number: u16| {
        let address = Address { host: Host::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST)), port: 7000 + number };
        (PeerId(number), PeerEntry { address: Arc::new(address), pool_size: random.range(1, 3) as u32 })
    };
    let numbers: Vec<u16> = (1..=4).filter(|_| random.chance(800)).collect();
    settings.peers = numbers.into_iter().map(|number| peer(random, number)).collect();
}

/// Pools are forgotten soon; and messages are looked at for their length, though none is as long as that.
fn forget(seed: u64, settings: &mut Settings) {
    let mut random = Random::new(seed ^ 0x0066_6f72_6765_7400);
    if random.chance(250) {
        settings.global.pools.pool_idle_timeout = Some(Duration::from_millis(random.skewed(10, 2_000)));
    }
    if random.chance(250) {
        settings.global.network.max_packet_size = 1 << 30;
    }
}

/// Sizes that are found instead of given.
fn found(seed: u64, settings: &mut Settings) {
    let mut random = Random::new(seed ^ 0x0061_7574_6f00);
    if !random.chance(250) {
        return;
    }
    settings.global.pools.auto_pool_size_min = random.range(1, 3) as u32;
    settings.global.pools.auto_pool_size_max = random.range(1, 12) as u32;
    settings.auto_pool_size_start = random.range(1, 12) as u32;
    for database in settings.databases.values_mut().chain(&mut settings.fallback) {
        if random.chance(700) {
            Arc::make_mut(database).settings.pool_size = Some(PoolSize::Auto);
        }
    }
}

fn memory(seed: u64) -> u32 {
    let mut random = Random::new(seed ^ 0x6d65_6d6f_7279);
    if random.chance(700) { random.range(20, 800) as u32 } else { 0 }
}

#[cfg(debug_assertions)]
pub(crate) fn apply_sabotage(settings: &mut Settings, wishes: &Wishes) {
    settings.sabotage = wishes.sabotage;
    settings.global.waiting.retry_reads |= wishes.sabotage == Some(machine::sabotage::Sabotage::RetryWrites);
}

#[cfg(not(debug_assertions))]
pub(crate) fn apply_sabotage(_: &mut Settings, _: &Wishes) {}

/// A user whose stored secret suffices for both logins.
fn user(random: &mut Random, index: usize, auth_type: AuthType) -> (UserPlan, Secret) {
    let name = format!("user{index}");
    let verifier = Verifier::derive(PASSWORD, b"a salt of sixteen", ITERATIONS);
    let plain = Secret::Plain(Password::new(PASSWORD));
    let choice = random.below(3);
    let (secret, login) = match (choice, auth_type) {
        (0, AuthType::Md5 | AuthType::Plain) => {
            (Secret::Md5(Md5Hash::of(PASSWORD, &name)), *random.pick(&[Login::Trust, Login::Md5]))
        }
        // A SCRAM verifier opens PostgreSQL only with the keys of a client's own SCRAM proof.
        (1, AuthType::Md5 | AuthType::Scram) => {
            (Secret::Scram(verifier.clone()), *random.pick(&[Login::Trust, Login::Scram]))
        }
        _ => (plain, *random.pick(&[Login::Trust, Login::Clear, Login::Md5, Login::Scram])),
    };
    (UserPlan { name, verifier, login }, secret)
}

fn database(random: &mut Random, index: usize, users: &[UserPlan], forces: bool) -> DatabasePlan {
    let mut defaults = parameters::DEFAULTS;
    if random.chance(300) {
        defaults[2] = random.range(0, 2) as u8;
    }
    let forced = (forces || random.chance(200)).then(|| random.below(users.len() as u64) as usize);
    DatabasePlan { name: format!("base{index}"), forced, defaults, begins: &[] }
}

fn entry(random: &mut Random, index: usize, plan: &DatabasePlan, users: &[UserPlan], wide: bool) -> Database {
    use PoolMode::{Session, Statement, Transaction};
    let startup =
        (plan.defaults[2] != 0).then(|| ("timezone".to_owned(), parameters::value(2, plan.defaults[2]).to_owned()));
    let pool_size = if wide && index == 0 { random.range(16, 24) } else { random.skewed(1, 10) };
    let hosts = vec![Address { host: Host::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST)), port: 5000 + index as u16 }];
    Database {
        forced_user: plan.forced.map(|user| users[user].name.clone()),
        password: plan.forced.map(|_| Secret::Plain(Password::new(PASSWORD))),
        settings: DatabaseSettings {
            pool_size: Some(PoolSize::Fixed(pool_size as u32)),
            min_pool_size: random.chance(150).then(|| random.range(1, 3) as u32),
            reserve_pool_size: random.chance(200).then(|| random.range(1, 3) as u32),
            pool_mode: Some(*random.pick(&[Transaction, Transaction, Transaction, Session, Statement])),
            max_db_connections: random.chance(200).then(|| random.range(1, 8) as u32),
            ..DatabaseSettings::default()
        },
        connect_query: random.chance(100).then(|| "select 1 0".to_owned()),
        startup: startup.into_iter().collect(),
        ..Database::new(&plan.name, hosts)
    }
}

fn limit(random: &mut Random, clients: u32, settings: &mut Settings) {
    settings.global.pools.max_client_conn =
        if random.chance(150) { random.range(1, clients.into()) as u32 } else { 10_000 };
    settings.global.pools.max_user_connections = if random.chance(150) { random.range(1, 12) as u32 } else { 0 };
    settings.global.startup.max_prepared_statements = *random.pick(&[200, 200, 1, 2, 5]);
    settings.global.servers.server_round_robin = random.chance(300);
    settings.global.servers.server_reset_query_always = random.chance(100);
}

fn time(random: &mut Random, settings: &mut Settings) {
    let mut span = |per_mille: u32, low: u64, high: u64| {
        random.chance(per_mille).then(|| Duration::from_millis(random.skewed(low, high)))
    };
    settings.global.waiting.query_wait_timeout = Some(span(300, 200, 5_000).unwrap_or(Duration::from_secs(120)));
    settings.global.waiting.query_wait_notify = span(300, 10, 1_000);
    settings.global.waiting.query_timeout = span(50, 20, 2_000);
    settings.global.waiting.idle_transaction_timeout = span(50, 20, 1_000);
    settings.global.waiting.transaction_timeout = span(50, 20, 2_000);
    settings.global.waiting.client_idle_timeout = span(50, 50, 2_000);
    settings.global.waiting.client_login_timeout = Some(span(300, 500, 5_000).unwrap_or(Duration::from_secs(60)));
    settings.global.servers.server_connect_timeout = Some(Duration::from_millis(random.skewed(100, 3_000)));
    settings.global.servers.server_idle_timeout = Some(Duration::from_millis(random.skewed(20, 10_000)));
    settings.global.servers.server_lifetime = Duration::from_millis(random.skewed(50, 20_000));
    settings.global.servers.server_login_retry = Duration::from_millis(random.skewed(10, 1_000));
    settings.global.pools.autodb_idle_timeout = Some(Duration::from_millis(random.skewed(10, 2_000)));
    settings.global.waiting.cancel_wait_timeout = Some(Duration::from_millis(random.skewed(100, 3_000)));
    settings.global.servers.server_check_delay =
        *random.pick(&[Duration::ZERO, Duration::from_millis(5), Duration::from_secs(30)]);
    settings.global.pools.reserve_pool_timeout = Some(Duration::from_millis(random.skewed(5, 500)));
}
