//! Worlds made for one check: classes contest the servers of one pool, and nothing else goes wrong. For `i14_classes`.
//!
//! Each class has a crowd of clients that is known by its `application_name`: few or many, with short transactions or long
//! ones, in closed loops, with pauses, or all at once and then not at all for a while.

use std::sync::Arc;
use std::time::Duration;

use auth::{Password, Secret};
use pooling::Settings;
use pooling::settings::{Database, DatabaseSettings, Fidelity, Global, PoolMode, PoolSize};
use queueing::classes::{Class, ClassId, Classes, Pattern, Rule};

use crate::parameters::{self, APPLICATION_NAME, DEFAULTS};
use crate::plan::{DatabasePlan, Faults, PASSWORD, Plan, Weather, Wishes};
use crate::random::Random;

/// As few classes as can be unfair to each other, and as many as there are names for.
const CROWDS: (u64, u64) = (2, parameters::OF_CLASSES as u64);

/// More clients only make a world slower.
const CLIENTS_MAX: u64 = 160;

/// The clients of one class. Times are in microseconds.
#[derive(Copy, Clone, Debug)]
pub struct Crowd {
    pub weight: u32,
    pub clients: u32,
    /// Between two transactions, at most.
    pub think_max: u64,
    /// How long a statement takes.
    pub lasts: (u64, u64),
    /// Of a transaction, at most; 1: no BEGIN.
    pub statements: u64,
    /// It has work for so long, then none for as long; 0: always.
    pub period: u64,
}

impl Crowd {
    fn draw(random: &mut Random, servers: u64) -> Crowd {
        let is_greedy = random.chance(600);
        let clients = if is_greedy { random.range(servers + 1, 3 * servers) } else { random.skewed(1, servers) };
        let is_long = random.chance(200);
        let least = if is_long { random.range(5_000, 30_000) } else { random.skewed(100, 5_000) };
        Crowd {
            weight: random.skewed(1, 16) as u32,
            clients: clients as u32,
            think_max: if random.chance(500) { 0 } else { random.skewed(100, 50_000) },
            lasts: (least, least * random.range(1, 4)),
            statements: if random.chance(300) { random.range(2, 5) } else { 1 },
            period: if random.chance(400) { random.skewed(20_000, 500_000) } else { 0 },
        }
    }

    /// How long until it has work again; 0: it has.
    #[must_use]
    pub fn rests(&self, now: u64) -> u64 {
        let is_on = self.period == 0 || (now / self.period).is_multiple_of(2);
        if is_on { 0 } else { self.period - now % self.period }
    }
}

/// Which clients are whose, by their numbers.
#[derive(Clone, Debug)]
pub struct Contest {
    pub crowds: Vec<Crowd>,
    /// Workers that the pool lives on.
    pub homes: u16,
}

impl Contest {
    fn draw(random: &mut Random, workers: u16) -> (Contest, u32) {
        // Half of the time enough for several workers.
        let servers = *random.pick(&[1, 2, 3, 5, 8, 16, 16, 20, 24, 32]);
        let mut crowds: Vec<Crowd> = Vec::new();
        for _ in 0..random.range(CROWDS.0, CROWDS.1) {
            let crowd = Crowd::draw(random, servers);
            let present: u64 = crowds.iter().map(|crowd| u64::from(crowd.clients)).sum();
            if crowds.len() < CROWDS.0 as usize || present + u64::from(crowd.clients) <= CLIENTS_MAX {
                crowds.push(crowd);
            }
        }
        let homes = (servers as u16 / 8).clamp(1, workers);
        (Contest { crowds, homes }, servers as u32)
    }

    #[must_use]
    pub fn clients(&self) -> u32 {
        self.crowds.iter().map(|crowd| crowd.clients).sum()
    }

    /// The crowd that a client belongs to.
    #[must_use]
    pub fn crowd_of(&self, number: u32) -> usize {
        let mut rest = number % self.clients();
        self.crowds
            .iter()
            .position(|crowd| {
                let is_one = rest < crowd.clients;
                rest = rest.saturating_sub(crowd.clients);
                is_one
            })
            .expect("it is less than all of them")
    }

    /// As they are told apart: the first class is `default`, and nobody's.
    fn classes(&self) -> Classes {
        let mut classes = Classes::default();
        for (index, crowd) in self.crowds.iter().enumerate() {
            let id = ClassId(classes.all.len() as u8);
            classes.all.push(Class { weight: crowd.weight, ..Class::new(&format!("class{index}")) });
            let name = parameters::value(APPLICATION_NAME, parameters::of_class(index));
            classes.rules.push(Rule {
                databases: vec![Pattern::All],
                users: vec![Pattern::All],
                applications: vec![Pattern::Exactly(name.as_bytes().into())],
                tags: Vec::new(),
                class: id,
            });
        }
        classes
    }
}

/// Now and then a world is made for this, where nothing else is wished for.
pub(crate) fn is_wished(wishes: &Wishes) -> bool {
    let mut random = Random::new(wishes.seed ^ 0x636f_6e74_6573);
    let may =
        wishes.steps.is_none() && wishes.sizes.is_none() && !wishes.calm && !wishes.shares && wishes.workers.is_none();
    wishes.classes || may && random.chance(10)
}

impl Plan {
    /// Makes it such a world.
    pub(crate) fn contend(&mut self, wishes: &Wishes) {
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
        crate::plan::apply_sabotage(&mut settings, wishes);
        self.settings = Arc::new(settings);
        self.databases = vec![DatabasePlan { name, forced: Some(0), defaults: DEFAULTS }];
        self.weather = weather(&mut random);
        let mut maybe = |most: u64| if random.chance(300) { random.skewed(1, most) as u32 } else { 0 };
        self.faults = Faults { late_board: maybe(500), full_mailbox: maybe(300), ..Faults::default() };
        (self.reloads, self.stop, self.look_every, self.shares) = (0, None, 1, false);
        (self.clients, self.visits) = (contest.clients(), u32::MAX);
        self.steps_max = wishes.steps.unwrap_or(60_000);
        self.manners.be_plain();
        self.contest = Some(contest);
    }
}

/// Fair or not, but in large pieces: in small ones, few transactions are many steps.
fn weather(random: &mut Random) -> Weather {
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

/// The settings of a world that is made for one check: of the one before it, only how clients prove who they are.
pub(crate) fn plain(old: &Global, wishes: &Wishes) -> Global {
    let mut global = Global::default();
    global.login.auth_type = old.login.auth_type;
    global.login.scram_iterations = old.login.scram_iterations;
    global.pools.pool_fidelity = wishes.fidelity.unwrap_or(Fidelity::Classic);
    global.servers.server_idle_timeout = Some(Duration::from_secs(10));
    global
}
