//! Which worlds have databases with two hosts, and at which ports.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use connections::databases::{Address, Database, Host, LoadBalanceHosts, TargetSessionAttrs};
use machine::Settings;
use settings::SplitBrain;

use super::Plan;
use crate::promises::Orders;
use crate::random::Random;

/// How many hosts a database has where it has several.
pub(crate) const HOSTS: usize = 2;

/// The longest time that a lent server is on its way where loans are late, in microseconds. Another primary may be decided meanwhile.
pub(crate) const LATE_LOAN_US: u64 = 100_000;

/// The first port of the first hosts, and how far the others are from them.
const FIRST_PORT: u16 = 5000;
const APART: u16 = 100;

/// The prober of a world whose databases have two hosts.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Probing {
    /// The prober can log in, so it finds roles and timelines.
    pub is_let_in: bool,
}

/// A host of a database.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub database: usize,
    pub host: usize,
}

impl Place {
    #[must_use]
    pub fn at(port: u16) -> Place {
        let place = port - FIRST_PORT;
        Place { database: usize::from(place % APART), host: usize::from(place / APART) }
    }

    #[must_use]
    pub fn port(self) -> u16 {
        FIRST_PORT + self.database as u16 + APART * self.host as u16
    }
}

/// The name of a database's first host.
#[must_use]
pub fn name(database: usize) -> String {
    format!("db{database}.example")
}

impl Plan {
    /// Sometimes gives each database two hosts. From a stream of its own, so that all else in a world stays as it is.
    pub(super) fn spread(&mut self, is_wished: bool) {
        let mut random = Random::new(self.seed ^ 0x7370_7265_6164);
        if !(random.chance(120) || is_wished) {
            return;
        }
        if is_wished {
            self.last(&mut random);
        }
        let Settings { databases, fallback, .. } = Arc::make_mut(&mut self.settings);
        for database in databases.values_mut().chain(fallback) {
            let place = Place::at(database.hosts[0].port);
            let first = Address { host: Host::Name(name(place.database)), port: place.port() };
            let other =
                Address { host: Host::Ip(IpAddr::from([127, 0, 0, 2])), port: Place { host: 1, ..place }.port() };
            let changed: &mut Database = Arc::make_mut(database);
            changed.hosts = if random.chance(500) { vec![first, other] } else { vec![other, first] };
            if random.chance(300) {
                changed.load_balance_hosts = LoadBalanceHosts::Disable;
            }
        }
        self.give_roles(is_wished);
        self.probe();
    }

    /// Makes the world last for seconds: clients think for long, and others come in their places.
    fn last(&mut self, random: &mut Random) {
        if self.faults.every == 0 {
            self.faults.every = random.skewed(200_000, 5_000_000);
        }
        self.manners.think_max = *random.pick(&[20_000, 100_000, 300_000]);
        self.manners.units_max = self.manners.units_max.max(20);
        self.extent.clients = self.extent.clients.min(20);
        self.extent.visits = self.extent.clients * 20;
        let servers = &mut Arc::make_mut(&mut self.settings).global.servers;
        servers.server_lifetime = Duration::from_millis(random.range(3_000, 20_000));
        servers.server_idle_timeout = Some(Duration::from_millis(random.range(500, 10_000)));
        servers.server_connect_timeout = Some(Duration::from_millis(random.range(300, 1_500)));
        if random.chance(500) {
            (self.late_loans, self.weather.late) = (900, self.weather.late.max(1));
        }
        if random.chance(600) {
            self.be_free();
        }
    }

    /// Nothing but hosts keeps anybody waiting for long.
    fn be_free(&mut self) {
        let Settings { global, databases, fallback, users, .. } = Arc::make_mut(&mut self.settings);
        (global.pools.max_user_connections, global.pools.max_server_connections) = (0, 0);
        for database in databases.values_mut().chain(fallback) {
            Arc::make_mut(database).settings.max_db_connections = None;
        }
        users.values_mut().for_each(|user| user.max_user_connections = None);
        (self.reloads, self.promises.orders) = (0, Orders::default());
        self.promises.removes_database = false;
        let weather = &mut self.weather;
        (weather.pieces, weather.delay_max) = (weather.pieces.min(50), weather.delay_max.min(300));
    }

    /// Mostly a prober asks the hosts. From a stream of its own too.
    fn probe(&mut self) {
        let mut random = Random::new(self.seed ^ 0x7072_6f62_6572);
        let settings = &mut Arc::make_mut(&mut self.settings).global;
        settings.servers.host_timeout = Some(Duration::from_millis(random.skewed(200, 3_000)));
        if random.chance(400) && self.faults.every > 0 {
            settings.servers.failover_wait = Duration::from_millis(random.skewed(1, 2_000));
        }
        settings.servers.split_brain =
            *random.pick(&[SplitBrain::Hold, SplitBrain::Hold, SplitBrain::HighestTimeline, SplitBrain::Stay]);
        if random.chance(150) {
            settings.servers.host_check_interval = None;
        } else {
            self.probing = Some(Probing { is_let_in: random.chance(850) });
        }
    }

    /// Sometimes one host of each database is a standby, and databases want a role. From a stream of its own too.
    fn give_roles(&mut self, is_wished: bool) {
        use TargetSessionAttrs::{Any, PreferStandby, Primary, ReadOnly, ReadWrite, Standby};
        let mut random = Random::new(self.seed ^ 0x726f_6c65);
        // A change of roles ends servers, which clients do not expect elsewhere.
        if self.faults.every == 0 || !(random.chance(700) || is_wished) {
            return;
        }
        self.standbys = vec![[false, true]; self.databases.len()];
        let Settings { databases, fallback, .. } = Arc::make_mut(&mut self.settings);
        for database in databases.values_mut().chain(fallback) {
            let is_primary = is_wished && random.chance(600);
            let wanted = if is_primary {
                ReadWrite
            } else {
                *random.pick(&[ReadWrite, ReadWrite, Primary, Standby, ReadOnly, PreferStandby, Any])
            };
            Arc::make_mut(database).target_session_attrs = wanted;
        }
    }

    /// The changes of a reload for hosts: they are listed in the other order. From a stream of its own too.
    pub(super) fn reload_hosts(&self, settings: &mut Settings) {
        let mut random = Random::new(self.seed ^ self.past.len() as u64 ^ 0x6f72_6465_7200);
        for database in settings.databases.values_mut().chain(&mut settings.fallback) {
            if random.chance(500) {
                Arc::make_mut(database).hosts.reverse();
            }
        }
    }

    /// Whether a host is a standby; `None`: hosts have no roles.
    #[must_use]
    pub fn is_standby(&self, place: Place) -> Option<bool> {
        self.standbys.get(place.database).map(|standbys| standbys[place.host])
    }

    #[must_use]
    pub fn host_timeout_us(&self) -> Option<u64> {
        self.settings.global.servers.host_timeout.map(|timeout| timeout.as_micros() as u64)
    }

    /// The address of a host, as the settings have it now.
    #[must_use]
    pub fn address(&self, place: Place) -> Option<Address> {
        let databases = self.settings.databases.values().chain(&self.settings.fallback);
        databases.flat_map(|database| &database.hosts).find(|host| host.port == place.port()).cloned()
    }

    /// The number of a database's plan, by the name that clients use.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<usize> {
        Some(Place::at(self.settings.database(name)?.hosts[0].port).database)
    }

    /// The role that a database wants, by the name that clients use.
    #[must_use]
    pub fn wanted(&self, name: &str) -> TargetSessionAttrs {
        self.settings.database(name).map_or(TargetSessionAttrs::Any, |database| database.target_session_attrs)
    }

    /// Whether databases have two hosts each.
    #[must_use]
    pub fn is_spread(&self) -> bool {
        self.settings.databases.values().chain(&self.settings.fallback).any(|database| database.hosts.len() > 1)
    }
}
