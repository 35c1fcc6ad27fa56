//! Worlds made for `i14_classes`: classes compete for the servers of one pool, and nothing else goes wrong.
//!
//! Each class has a crowd of clients that is known by its `application_name`: few or many, with short transactions or long
//! ones, in closed loops, with pauses, or all at once and then not at all for a while.

use queueing::classes::{Class, ClassId, Classes, Pattern, Rule};

use crate::parameters::{self, APPLICATION_NAME};
use crate::random::Random;
use crate::wishes::Wishes;

/// The fewest classes that can be unfair to each other, and as many as there are names.
const CROWDS: (u64, u64) = (2, parameters::OF_CLASSES as u64);

/// With more clients a world only becomes slower.
const CLIENTS_MAX: u64 = 160;

/// The clients of one class. Times are in microseconds.
#[derive(Copy, Clone, Debug)]
pub struct ClassClients {
    pub weight: u32,
    pub clients: u32,
    /// Between two transactions, at most.
    pub think_max: u64,
    /// How long a statement takes.
    pub lasts: (u64, u64),
    /// Of a transaction, at most; 1: no BEGIN.
    pub statements: u64,
    /// It has work for so long, then none for as long; 0: always work.
    pub period: u64,
}

impl ClassClients {
    fn draw(random: &mut Random, servers: u64) -> ClassClients {
        let is_greedy = random.chance(600);
        let clients = if is_greedy { random.range(servers + 1, 3 * servers) } else { random.skewed(1, servers) };
        let is_long = random.chance(200);
        let least = if is_long { random.range(5_000, 30_000) } else { random.skewed(100, 5_000) };
        ClassClients {
            weight: random.skewed(1, 16) as u32,
            clients: clients as u32,
            think_max: if random.chance(500) { 0 } else { random.skewed(100, 50_000) },
            lasts: (least, least * random.range(1, 4)),
            statements: if random.chance(300) { random.range(2, 5) } else { 1 },
            period: if random.chance(400) { random.skewed(20_000, 500_000) } else { 0 },
        }
    }

    /// How long until it has work again; 0: it has work now.
    #[must_use]
    pub fn rests(&self, now: u64) -> u64 {
        let is_on = self.period == 0 || (now / self.period).is_multiple_of(2);
        if is_on { 0 } else { self.period - now % self.period }
    }
}

/// The classes of a contest and their clients.
#[derive(Clone, Debug)]
pub struct Contest {
    pub crowds: Vec<ClassClients>,
    /// The number of workers on which the pool lives.
    pub homes: u16,
}

impl Contest {
    pub(crate) fn draw(random: &mut Random, workers: u16) -> (Contest, u32) {
        // In half of the worlds enough for several workers.
        let servers = *random.pick(&[1, 2, 3, 5, 8, 16, 16, 20, 24, 32]);
        let mut crowds: Vec<ClassClients> = Vec::new();
        for _ in 0..random.range(CROWDS.0, CROWDS.1) {
            let crowd = ClassClients::draw(random, servers);
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

    /// The classes and their rules; the first class is `default`, which has no clients.
    pub(crate) fn classes(&self) -> Classes {
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

/// Whether this world is a contest: sometimes, if nothing else was requested.
pub(crate) fn is_wished(wishes: &Wishes) -> bool {
    let mut random = Random::new(wishes.seed ^ 0x636f_6e74_6573);
    let may =
        wishes.steps.is_none() && wishes.sizes.is_none() && !wishes.calm && !wishes.shares && wishes.workers.is_none();
    wishes.classes || may && random.chance(10)
}
