//! Which worlds have databases with two hosts, and at which ports.

use std::net::IpAddr;
use std::sync::Arc;

use connections::databases::{Address, Database, Host, LoadBalanceHosts, TargetSessionAttrs};
use machine::Settings;

use super::Plan;
use crate::random::Random;

/// The first port of the first hosts, and how far the others are from them.
const FIRST_PORT: u16 = 5000;
const APART: u16 = 100;

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
    pub(super) fn spread(&mut self) {
        let mut random = Random::new(self.seed ^ 0x7370_7265_6164);
        if !random.chance(120) {
            return;
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
        self.give_roles();
    }

    /// Sometimes one host of each database is a standby, and databases want a role. From a stream of its own too.
    fn give_roles(&mut self) {
        use TargetSessionAttrs::{Any, PreferStandby, Primary, ReadOnly, ReadWrite, Standby};
        let mut random = Random::new(self.seed ^ 0x726f_6c65);
        // A change of roles ends servers, which clients do not expect elsewhere.
        if self.faults.every == 0 || !random.chance(700) {
            return;
        }
        self.standbys = vec![[false, true]; self.databases.len()];
        let Settings { databases, fallback, .. } = Arc::make_mut(&mut self.settings);
        for database in databases.values_mut().chain(fallback) {
            let wanted = *random.pick(&[ReadWrite, ReadWrite, Primary, Standby, ReadOnly, PreferStandby, Any]);
            Arc::make_mut(database).target_session_attrs = wanted;
        }
    }

    /// Whether a host is a standby; `None`: hosts have no roles.
    #[must_use]
    pub fn is_standby(&self, place: Place) -> Option<bool> {
        self.standbys.get(place.database).map(|standbys| standbys[place.host])
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
