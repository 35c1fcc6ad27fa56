//! PAUSE, RESUME, DISABLE, ENABLE, RECONNECT, KILL, KILL_CLIENT, KILL_QUERY, WAIT_CLOSE, SUSPEND, PROMOTED, DEMOTED: what changes the orders, what
//! is answered only when servers are closed, or all is sent, and what is passed on as a hint.
//!
//! ```text
//!   order ─► orders ─► configure: every machine
//!     └ PAUSE, WAIT_CLOSE, SUSPEND ─► waits ─ every POLL: look ─► twice in a row nothing is left ─► answered
//! ```
//!
//! Twice, since a server may be on its way from one worker that has been looked at to one that has not. Promises that no order waits for
//! another one: RESUME answers every PAUSE that it ends, with an error.
//!
//! //= pgbouncer usage.md#process-controlling-commands

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use connections::databases::CONSOLE_DATABASE;
use machine::snapshot::ClientSnapshot;
use machine::upgrade::ServersLeft;
use machine::{Hint, HintSource, Level, Look, Orders, Settings, Snapshot, Suspension};
use units::WorkerId;

use super::looking::Curious;
use super::suspension::{Suspending, unsent};
use super::{ClientOrder, Steward, hints, is_whole};
use crate::command::Order;
use crate::console::{Answer, Refusal};
use crate::past::{Past, RECALL_MAX};
use crate::plane::{Asker, Loaded, Plane, Wanted};
use crate::shutdown::{Phase, Standstill};

/// How often it is looked whether servers are closed.
pub(super) const POLL: Duration = Duration::from_millis(50);

/// To whoever gives orders at the console of a process that hands over.
pub(super) const TAKEN_OVER: &str = "another process has taken over: connect again to give it commands";

/// So many looks in a row have to find nothing left.
pub(super) const LOOKS: u32 = 2;

/// A command that is answered when servers are closed, or all is sent.
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
    /// SUSPEND: nobody logs in, and every socket has taken what was sent to it.
    NothingUnsent,
}

impl Awaited {
    fn tag(self) -> &'static str {
        match self {
            Awaited::NoServer => "PAUSE",
            Awaited::NoneClosing => "WAIT_CLOSE",
            Awaited::NothingUnsent => "SUSPEND",
        }
    }

    /// How many of these servers it still waits for.
    fn left(self, servers: &ServersLeft) -> u64 {
        match self {
            Awaited::NoServer => u64::from(servers.open),
            Awaited::NoneClosing => u64::from(servers.closing),
            // It is no matter of servers.
            Awaited::NothingUnsent => 0,
        }
    }
}

impl<P: Plane, L: FnMut(Wanted<'_>) -> Result<Loaded, Vec<String>>> Steward<P, L> {
    /// Carries out an order. `None`: it is answered later.
    pub(super) fn order(&mut self, asker: Asker, order: &Order) -> Option<Answer> {
        let text = match order.database().or_else(|| order.host()) {
            Some(name) => format!("{} '{name}' command issued", order.tag()),
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
        if self.has_successor && !matches!(order, Order::KillClient(_) | Order::KillQuery(_)) {
            return Err(TAKEN_OVER.to_owned());
        }
        match order {
            Order::Pause(_) | Order::Resume(None) | Order::Kill(_) | Order::Suspend if is_ending => {
                return Err("pooler is shutting down".to_owned());
            }
            Order::Pause(None) | Order::Suspend if Standstill::of(&self.orders) != Standstill::None => {
                return Err("already suspended/paused".to_owned());
            }
            // As in PgBouncer: a RESUME of all databases would leave it open which of them stay paused.
            Order::Suspend if self.orders.has_paused_databases() => {
                return Err("cannot suspend with paused databases".to_owned());
            }
            Order::Suspend if self.plane.has_predecessor() => {
                return Err("the process before this one still serves clients, whom SUSPEND would not reach".to_owned());
            }
            Order::Suspend => {
                self.suspending = Suspending::default();
                self.ready.store(false, Ordering::Relaxed);
                self.plane.accept(false);
                self.give(|orders| orders.suspension = Some(Suspension::Flushing));
                self.wait_for(asker, Awaited::NothingUnsent, None);
                return Ok(false);
            }
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
            Order::KillClient(id) => order_client(&mut self.plane, ClientOrder::Disconnect, id)?,
            Order::KillQuery(id) => order_client(&mut self.plane, ClientOrder::Cancel, id)?,
            Order::WaitClose(_) => {
                self.wait_for(asker, Awaited::NoneClosing, database);
                return Ok(false);
            }
            Order::Promoted(host) => self.pass_hint(host, true)?,
            Order::Demoted(host) => self.pass_hint(host, false)?,
        }
        Ok(true)
    }

    /// A host is the primary now, or is not any more, as somebody at the console says.
    fn pass_hint(&mut self, called: &str, is_primary: bool) -> Result<(), String> {
        let host = hints::host(&self.loaded.settings, called, &self.plane.names())?;
        self.plane.hint(Hint { host, is_primary, source: HintSource::Console });
        Ok(())
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

    /// Takes back PAUSE, or what KILL has paused, and SUSPEND, and answers those that still wait.
    pub(super) fn resume(&mut self, database: Option<&str>) -> Result<(), String> {
        let is_suspended = database.is_none() && self.orders.is_suspended();
        if !is_suspended && !self.orders.only_of(database).paused {
            return Err(match database {
                Some(name) => format!("database {name} is not paused"),
                None => "pooler is not paused/suspended".to_owned(),
            });
        }
        self.give(|orders| {
            orders.suspension = orders.suspension.filter(|_| !is_suspended);
            orders.change(database, |own| own.paused = false);
        });
        if is_suspended {
            self.ready.store(self.phase == Phase::Running, Ordering::Relaxed);
            self.plane.accept(true);
        }
        let is_of_it = |waiting: &Waiting| waiting.database.as_deref() == database;
        self.refuse_waiting("RESUME came before all servers were closed", |waiting| {
            waiting.what == Awaited::NoServer && is_of_it(waiting)
        });
        if is_suspended {
            self.refuse_waiting("RESUME came before all was sent", |waiting| waiting.what == Awaited::NothingUnsent);
        }
        Ok(())
    }

    /// Answers commands that wait for what will not come.
    pub(super) fn refuse_waiting(&mut self, words: &str, is_over: impl Fn(&Waiting) -> bool) {
        for waiting in self.waiting.extract_if(.., |waiting| is_over(waiting)) {
            let refusal = Refusal::Words(words.to_owned());
            self.plane.answer(waiting.asker, Answer::Refused(refusal).encode(), false);
        }
    }

    /// Changes the orders, and has them carried out.
    pub(super) fn give(&mut self, change: impl FnOnce(&mut machine::Orders)) {
        change(&mut self.orders);
        let settings = Settings { orders: self.orders.clone(), ..Settings::clone(&self.loaded.settings) };
        self.loaded.settings = Arc::new(settings);
        self.plane.configure(Arc::clone(&self.loaded.settings));
        self.plane.order_predecessor(&self.orders);
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
        self.look_around();
    }

    /// Whether [`Steward::review`] is to be called.
    #[must_use]
    pub fn awaits_looks(&self) -> bool {
        !self.waiting.is_empty() || self.orders.is_suspended()
    }

    /// Looks whether what commands wait for has come, or will come no more. To be called again and again while one waits. Returns the commands that are
    /// answered, and for which database (`None`: all).
    pub fn review(&mut self, now: Instant) -> Vec<(&'static str, Option<String>)> {
        for Curious { asker, question, .. } in self.looking.overdue(now) {
            self.answer_late(asker, &question, None);
        }
        for waiting in self.recalling.overdue(now) {
            let words = format!("it was not read within {} s", RECALL_MAX.as_secs());
            self.answer_late(waiting.asker, &waiting.question, Some(Past::Refused(words)));
        }
        let awaits_sending = self.waiting.iter().any(|waiting| waiting.what == Awaited::NothingUnsent);
        let timeout = self.loaded.settings.global.console.suspend_timeout;
        let is_flushing = self.orders.suspension == Some(Suspension::Flushing) && awaits_sending;
        if is_flushing && self.suspending.lasts(now, timeout) {
            self.plane.tell(Level::Log, "suspend_timeout is over, closing whoever was waited for".to_owned());
            self.give(|orders| orders.suspension = Some(Suspension::Overdue));
        }
        self.look_around()
    }

    fn look_around(&mut self) -> Vec<(&'static str, Option<String>)> {
        if !self.awaits_looks() {
            return Vec::new();
        }
        let snapshots = self.plane.look(Look::Pools);
        if !is_whole(&self.loaded, &snapshots) {
            return Vec::new();
        }
        if self.orders.is_suspended() && self.suspending.is_deserted(&snapshots) {
            self.plane.tell(Level::Log, "admin disappeared when suspended, doing RESUME".to_owned());
            // It is suspended.
            let _ = self.resume(None);
            return Vec::new();
        }
        let unsent = match self.orders.suspension {
            Some(Suspension::Flushing) => unsent(&snapshots) + self.plane.counters().door.logins,
            // Whoever has not taken everything is closed.
            Some(Suspension::Overdue) | None => 0,
        };
        let Some(servers) = servers_left(&mut self.plane, &snapshots) else { return Vec::new() };
        for waiting in &mut self.waiting {
            let concerns =
                |servers: &&ServersLeft| waiting.database.as_deref().is_none_or(|name| name == &*servers.database);
            let servers = servers.iter().filter(concerns).map(|servers| waiting.what.left(servers));
            let left = if waiting.what == Awaited::NothingUnsent { unsent } else { servers.sum() };
            waiting.looks = if left == 0 { waiting.looks + 1 } else { 0 };
        }
        let over: Vec<Waiting> = self.waiting.extract_if(.., |waiting| waiting.looks >= LOOKS).collect();
        for waiting in &over {
            self.plane.answer(waiting.asker, Answer::done(waiting.what.tag()).encode(), false);
        }
        over.into_iter().map(|waiting| (waiting.what.tag(), waiting.database)).collect()
    }

    /// The process that takes our place was given orders, which hold here with our own settings.
    pub(super) fn follow_orders(&mut self, ordered: Orders) {
        let mut orders = self.orders.clone();
        orders.follow(ordered);
        if orders == self.orders {
            return;
        }
        self.plane.tell(Level::Log, "taking commands from the process that takes over".to_owned());
        // If it was RECONNECT, servers that come instead go to where their host is now.
        self.plane.forget_names();
        self.give(|own| *own = orders);
    }

    /// A shutdown begins: takes back what is paused or suspended, since nobody could later, and clients are to finish what they have begun.
    pub(super) fn resume_for_shutdown(&mut self) {
        let was_suspended = self.orders.is_suspended();
        if self.orders.pause_anything() {
            self.give(machine::Orders::resume_all);
        }
        if was_suspended {
            // Who comes by the Unix socket is told that a shutdown has begun.
            self.plane.accept(true);
        }
        self.refuse_waiting("pooler is shutting down", |waiting| waiting.what != Awaited::NoneClosing);
    }
}

/// The process that takes our place asks which servers are left here. It asks again if it gets no answer.
pub(super) fn tell_servers(plane: &mut impl Plane, loaded: &Loaded) {
    let snapshots = plane.look(Look::Pools);
    if !is_whole(loaded, &snapshots) {
        return;
    }
    if let Some(servers) = servers_left(plane, &snapshots) {
        plane.tell_servers(servers);
    }
}

pub(super) fn order_client(plane: &mut impl Plane, order: ClientOrder, id: &str) -> Result<(), String> {
    match order {
        ClientOrder::Disconnect => kill_client(plane, id),
        ClientOrder::Cancel => kill_query(plane, id),
    }
}

fn kill_client(plane: &mut impl Plane, id: &str) -> Result<(), String> {
    let client = find_client(plane, id)?;
    plane.kill_client(WorkerId(client.conn.owner()), client.conn, client.serial);
    Ok(())
}

/// The query may end between this look and the cancel, which then finds nothing to cancel, as a CancelRequest that comes too late.
fn kill_query(plane: &mut impl Plane, id: &str) -> Result<(), String> {
    let client = find_client(plane, id)?;
    if !client.doing.has_request {
        return Err("client runs no query".to_owned());
    }
    plane.kill_query(WorkerId(client.conn.owner()), client.conn, client.serial);
    Ok(())
}

fn find_client(plane: &mut impl Plane, id: &str) -> Result<ClientSnapshot, String> {
    let number: i32 = id.parse().map_err(|_| "invalid client pointer supplied".to_owned())?;
    let is_it = |client: &ClientSnapshot| client.serial.0 == number;
    let snapshots = plane.look(Look::Connections);
    let client = snapshots.into_iter().flat_map(|snapshot| snapshot.clients).find(is_it);
    client.ok_or_else(|| "client not found".to_owned())
}

/// The servers here, as these looks at the workers show, and in the process whose place we take. `None`: that has not answered in time.
fn servers_left(plane: &mut impl Plane, snapshots: &[Snapshot]) -> Option<Vec<ServersLeft>> {
    let elsewhere = plane.servers_elsewhere()?;
    let pools = snapshots.iter().flat_map(|snapshot| &snapshot.pools);
    let here = pools.map(|pool| ServersLeft {
        database: Arc::clone(&pool.key.database),
        open: pool.open_servers,
        closing: pool.closing_servers,
    });
    Some(here.chain(elsewhere).filter(|servers| servers.open > 0).collect())
}
