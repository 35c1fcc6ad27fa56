//! PAUSE, RESUME, DISABLE, ENABLE, RECONNECT, KILL, KILL_CLIENT, WAIT_CLOSE: what changes the orders, and what is answered only when
//! servers are closed.
//!
//! ```text
//!   order ─► orders ─► configure: every machine
//!     └ PAUSE, WAIT_CLOSE ─► waits ─ every POLL: look ─► twice in a row nothing is left ─► answered
//! ```
//!
//! Twice, since a server may be on its way from one worker that has been looked at to one that has not. Promises that no order waits for
//! another one: RESUME answers every PAUSE that it ends, with an error.
//!
//! //= pgbouncer usage.md#process-controlling-commands

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use connections::databases::CONSOLE_DATABASE;
use machine::snapshot::{ClientSnapshot, PoolSnapshot};
use machine::{Level, Settings};
use units::WorkerId;

use super::Steward;
use crate::command::Order;
use crate::console::{Answer, Refusal};
use crate::plane::{Asker, Loaded, Plane, Wanted};
use crate::shutdown::Phase;

/// How often it is looked whether servers are closed.
pub(super) const POLL: Duration = Duration::from_millis(50);

/// So many looks in a row have to find nothing left.
const LOOKS: u32 = 2;

/// A command that is answered when servers are closed.
#[derive(Debug)]
pub(super) struct Waiting {
    asker: Asker,
    what: Awaited,
    /// `None`: all.
    database: Option<String>,
    looks: u32,
}

/// What a command waits for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Awaited {
    /// PAUSE: no server is left.
    NoServer,
    /// WAIT_CLOSE: no server is left that is to be closed when it is free.
    NoneClosing,
}

impl Awaited {
    fn tag(self) -> &'static str {
        match self {
            Awaited::NoServer => "PAUSE",
            Awaited::NoneClosing => "WAIT_CLOSE",
        }
    }

    fn left(self, pool: &PoolSnapshot) -> u32 {
        match self {
            Awaited::NoServer => pool.open_servers,
            Awaited::NoneClosing => pool.closing_servers,
        }
    }
}

impl<P: Plane, L: FnMut(Wanted<'_>) -> Result<Loaded, Vec<String>>> Steward<P, L> {
    /// Carries out an order. `None`: it is answered later.
    pub(super) fn order(&mut self, asker: Asker, order: &Order) -> Option<Answer> {
        let text = match order.database() {
            Some(database) => format!("{} '{database}' command issued", order.tag()),
            None => format!("{} command issued", order.tag()),
        };
        self.plane.tell(Level::Log, text);
        match self.obey(asker, order) {
            Ok(true) => Some(Answer::done(order.tag())),
            Ok(false) => None,
            Err(words) => Some(Answer::Refused(Refusal::Words(words))),
        }
    }

    /// False: it is answered later.
    fn obey(&mut self, asker: Asker, order: &Order) -> Result<bool, String> {
        let database = order.database();
        self.check_database(order.tag(), database)?;
        let is_ending = self.phase != Phase::Running;
        match order {
            Order::Pause(_) | Order::Resume(None) | Order::Kill(_) if is_ending => {
                return Err("pooler is shutting down".to_owned());
            }
            Order::Pause(None) if self.orders.only_of(None).paused => return Err("already suspended/paused".to_owned()),
            Order::Pause(_) => {
                self.give(|orders| orders.change(database, |own| own.paused = true));
                self.wait_for(asker, Awaited::NoServer, database);
                return Ok(false);
            }
            Order::Resume(_) => self.resume(database)?,
            Order::Disable(_) => self.give(|orders| orders.change(database, |own| own.disabled = true)),
            Order::Enable(_) => self.give(|orders| orders.change(database, |own| own.disabled = false)),
            Order::Reconnect(_) => {
                // First, so that the servers that come instead go to where their host is now.
                self.plane.forget_names();
                self.give(|orders| orders.change(database, |own| own.reconnects += 1));
            }
            Order::Kill(_) => self.give(|orders| {
                orders.change(database, |own| (own.paused, own.kills) = (true, own.kills + 1));
            }),
            Order::KillClient(id) => self.kill_client(id)?,
            Order::WaitClose(_) => {
                self.wait_for(asker, Awaited::NoneClosing, database);
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether an order can be for this database.
    fn check_database(&self, tag: &str, database: Option<&str>) -> Result<(), String> {
        let Some(name) = database else { return Ok(()) };
        if name.is_empty() {
            return Err("a database is required".to_owned());
        }
        if name == CONSOLE_DATABASE {
            return Err(format!("cannot {} admin db: {name}", tag.to_ascii_lowercase()));
        }
        match self.loaded.settings.database(name) {
            Some(_) => Ok(()),
            None => Err(format!("no such database: {name}")),
        }
    }

    /// SIGUSR1, or PAUSE without a database.
    pub(super) fn pause_all(&mut self) {
        self.give(|orders| orders.change(None, |all| all.paused = true));
    }

    /// Takes back PAUSE, or what KILL has paused, and answers the PAUSE that still waits.
    pub(super) fn resume(&mut self, database: Option<&str>) -> Result<(), String> {
        if !self.orders.only_of(database).paused {
            return Err(match database {
                Some(name) => format!("database {name} is not paused"),
                None => "pooler is not paused/suspended".to_owned(),
            });
        }
        self.give(|orders| orders.change(database, |own| own.paused = false));
        let is_over =
            |waiting: &mut Waiting| waiting.what == Awaited::NoServer && waiting.database.as_deref() == database;
        let over: Vec<Waiting> = self.waiting.extract_if(.., is_over).collect();
        for waiting in over {
            let words = "RESUME came before all servers were closed".to_owned();
            self.plane.answer(waiting.asker, Answer::Refused(Refusal::Words(words)).encode(), false);
        }
        Ok(())
    }

    pub(super) fn is_paused(&self) -> bool {
        self.orders.only_of(None).paused
    }

    /// Changes the orders, and has them carried out.
    fn give(&mut self, change: impl FnOnce(&mut machine::Orders)) {
        change(&mut self.orders);
        let settings = Settings { orders: self.orders.clone(), ..Settings::clone(&self.loaded.settings) };
        self.loaded.settings = Arc::new(settings);
        self.plane.configure(Arc::clone(&self.loaded.settings));
    }

    /// The name of a host has other addresses than before: servers of those that are gone are closed.
    pub(super) fn name_moved(&mut self, name: &str, addresses: &[IpAddr]) {
        let shown: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
        self.plane.tell(Level::Log, format!("DNS: {name} has these addresses now: {}", shown.join(", ")));
        self.give(|orders| orders.addresses.moved(name, addresses));
    }

    /// Settings that were just read get the orders that hold.
    pub(super) fn keep_orders(&mut self, loaded: &mut Loaded) {
        self.orders.retain(|name| loaded.settings.database(name).is_some());
        if self.orders != loaded.settings.orders {
            let settings = Settings { orders: self.orders.clone(), ..Settings::clone(&loaded.settings) };
            loaded.settings = Arc::new(settings);
        }
    }

    fn wait_for(&mut self, asker: Asker, what: Awaited, database: Option<&str>) {
        self.waiting.push(Waiting { asker, what, database: database.map(str::to_owned), looks: 0 });
        self.review();
    }

    /// Whether a command waits until servers are closed.
    #[must_use]
    pub fn awaits_servers(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Looks whether what commands wait for has come. To be called again and again while one waits. Returns the databases (`None`: all)
    /// for which PAUSE is answered.
    pub fn review(&mut self) -> Vec<Option<String>> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let snapshots = self.plane.look(false);
        if snapshots.len() < usize::from(self.loaded.settings.workers) {
            // A worker has not answered in time.
            return Vec::new();
        }
        for waiting in &mut self.waiting {
            let concerns =
                |pool: &&PoolSnapshot| waiting.database.as_deref().is_none_or(|name| name == &*pool.key.database);
            let pools = snapshots.iter().flat_map(|snapshot| &snapshot.pools).filter(concerns);
            let left: u32 = pools.map(|pool| waiting.what.left(pool)).sum();
            waiting.looks = if left == 0 { waiting.looks + 1 } else { 0 };
        }
        let over: Vec<Waiting> = self.waiting.extract_if(.., |waiting| waiting.looks >= LOOKS).collect();
        for waiting in &over {
            self.plane.answer(waiting.asker, Answer::done(waiting.what.tag()).encode(), false);
        }
        over.into_iter().filter(|waiting| waiting.what == Awaited::NoServer).map(|waiting| waiting.database).collect()
    }

    fn kill_client(&mut self, id: &str) -> Result<(), String> {
        let number: i32 = id.parse().map_err(|_| "invalid client pointer supplied".to_owned())?;
        let is_it = |client: &&ClientSnapshot| client.serial.0 == number;
        let snapshots = self.plane.look(true);
        let client = snapshots.iter().flat_map(|snapshot| &snapshot.clients).find(is_it);
        let client = client.ok_or_else(|| "client not found".to_owned())?;
        self.plane.kill_client(WorkerId(client.conn.owner()), client.conn, client.serial);
        Ok(())
    }

    /// A shutdown begins: takes back what is paused, since nobody could later, and clients are to finish what they have begun.
    pub(super) fn resume_for_shutdown(&mut self) {
        if self.orders.pause_anything() {
            self.give(machine::Orders::resume_all);
        }
        let is_over = |waiting: &mut Waiting| waiting.what == Awaited::NoServer;
        let over: Vec<Waiting> = self.waiting.extract_if(.., is_over).collect();
        for waiting in over {
            let words = "pooler is shutting down".to_owned();
            self.plane.answer(waiting.asker, Answer::Refused(Refusal::Words(words)).encode(), false);
        }
    }
}
