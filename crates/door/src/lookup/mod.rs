//! Secrets that are looked up in a database: `auth_query`, run as `auth_user`.
//!
//! ```text
//!   target      which database a login's lookup goes to
//!   hosts       at which of its hosts that database is asked
//!   waiting     which logins wait for which lookup
//!   connection  one connection for each lookup database: its login, what it owes
//!   answer      a lookup's messages, and what its answer says       timestamp   until when a password is valid
//!   search      the schema of names that the query has without one
//!   cache       what was said last, for when the database cannot be reached
//! ```
//!
//! A connection is opened when a login first needs it, closed when it has idled for `server_idle_timeout`, and belongs to
//! no pool. Each login gets exactly one [`Outcome`], unless it leaves before. Promises that a login learns within
//! [`limits::LOOKUP_WAIT`], or `failover_wait` if that is longer, that its database cannot be reached; that what was said
//! earlier is used only then; and that nobody is let in because a lookup has failed. Does not know what a login does with a
//! secret.
//!
//! //= pgbouncer config.md#auth_query

mod answer;
mod cache;
mod connection;
mod end;
mod hosts;
mod opening;
#[cfg(test)]
mod random_worlds;
mod search;
mod target;
mod timestamp;
mod waiting;

pub use end::LookupEnd;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use answer::{Answer, Fault, Found};
use auth::Secret;
use cache::Cache;
use connection::{Connection, News};
use connections::Broken;
use connections::channel::Channel;
use connections::databases::{Address, CONSOLE_DATABASE, Database};
use connections::server_login::{Credentials, Derived};
use machine::Settings;
use machine::action::{Action, Actions};
use machine::event::Event;
use machine::observe::{About, Fact, Level, Topic};
use machine::upstreams::Upstreams;
use machine::work::{Done, Job};
use search::Resolved;
use target::{Route, Target};
use units::random::Random;
use units::table::Table;
use units::{ConnId, DoorId, Kind, Life, Time, limits};
use waiting::Waiting;
use wire::{SqlState, frontend, sqlstate};

use crate::kinds::Kinds;

/// What comes of a lookup for one login.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Outcome {
    /// There is no such user.
    Unknown,
    Found(Secret),
    NoPassword,
    Expired,
    /// The settings are wrong, or the lookup has failed; the log says how.
    Wrong,
    /// This lookup database cannot be reached.
    Unreachable(Arc<str>),
    /// Too many different lookup databases are asked.
    TooMany,
    /// A reload has changed where it is looked up: to be asked anew.
    Again,
}

impl Outcome {
    fn of(found: Option<&Found>, now: Time) -> Outcome {
        match found {
            None => Outcome::Unknown,
            Some(found) if found.validity.is_over(now) => Outcome::Expired,
            Some(Found { secret: None, .. }) => Outcome::NoPassword,
            Some(Found { secret: Some(secret), .. }) => Outcome::Found(secret.clone()),
        }
    }
}

/// What becomes of a login that needs a lookup.
#[derive(Debug)]
pub(super) enum Begun {
    /// It is not known beyond auth_file.
    NoLookup,
    /// An outcome follows.
    Waits,
    Now(Outcome),
    /// As [`Outcome::Wrong`]; why, for the log.
    Misconfigured(String),
    /// The lookup database of this name is disabled.
    Disabled(String),
}

/// What a step works with.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    pub(super) now: Time,
    pub(super) settings: &'a Settings,
    pub(super) random: &'a mut Random,
    pub(super) actions: &'a mut Actions,
}

/// Whether a lookup database can be used, as far as is known.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Health {
    Fine,
    /// The last try to reach it has failed. The next one is made at this time, if a login waits.
    Down(Time),
    /// It has refused the login of `auth_user`: what was said earlier is not used.
    Refusing(Time),
}

impl Health {
    /// Before this time no connection is opened.
    fn retry_at(self) -> Time {
        match self {
            Health::Fine => Time::ZERO,
            Health::Down(until) | Health::Refusing(until) => until,
        }
    }
}

/// A lookup database.
#[derive(Debug)]
struct Site {
    database: Arc<Database>,
    /// What `auth_user` logs in with.
    secret: Option<Secret>,
    /// Keys derived from it.
    derived: Option<Derived>,
    waiting: Waiting,
    conn: Option<ConnId>,
    health: Health,
    /// The hosts at which a connection was lost since each of them was tried last, and until when the others come before them.
    lost: Vec<(Address, Time)>,
    used_at: Time,
    /// Its entry in [`Lookups::due`].
    due: Option<Time>,
}

impl Site {
    fn new(target: &Target, database: Arc<Database>, settings: &Settings) -> Site {
        let secret = secret_of(target, &database, settings);
        Site {
            database,
            secret,
            derived: None,
            waiting: Waiting::default(),
            conn: None,
            health: Health::Fine,
            lost: Vec::new(),
            used_at: Time::ZERO,
            due: None,
        }
    }
}

fn secret_of(target: &Target, database: &Database, settings: &Settings) -> Option<Secret> {
    let own = database.password.as_ref().filter(|_| database.forced_user.as_deref() == Some(&*target.user));
    own.or_else(|| settings.secrets.get(&*target.user)).cloned()
}

/// All lookups of one door.
#[derive(Debug)]
pub(super) struct Lookups {
    sites: BTreeMap<Arc<Target>, Site>,
    connections: Table<Connection>,
    /// A copy of what the coordinator knows of hosts.
    upstreams: Upstreams,
    cache: Cache,
    /// When each site has to be looked at.
    due: BTreeSet<(Time, Arc<Target>)>,
    /// For logins, in order.
    outcomes: VecDeque<(ConnId, Outcome)>,
}

impl Lookups {
    pub(super) fn new(door: DoorId, settings: &Settings) -> Lookups {
        Lookups {
            sites: BTreeMap::new(),
            connections: Table::new(Kind::Lookup, u16::from(door.0)),
            upstreams: Upstreams::new(settings),
            cache: Cache::default(),
            due: BTreeSet::new(),
            outcomes: VecDeque::new(),
        }
    }

    pub(super) fn begin_life(&mut self, life: Life) {
        self.connections.begin_life(life);
    }

    /// Looks up a user for a login, which waits since then and whose client has named this database. A login that ends before
    /// its outcome must [`leave`](Lookups::leave).
    pub(super) fn begin(
        &mut self,
        turn: &mut Turn<'_>,
        (login, since): (ConnId, Time),
        database: &str,
        user: &Arc<str>,
    ) -> Begun {
        let target = match Route::find(turn.settings, database) {
            Route::None => return Begun::NoLookup,
            Route::Wrong(why) => return Begun::Misconfigured(why),
            Route::Disabled(name) => return Begun::Disabled(name),
            Route::To(target) => Arc::new(target),
        };
        if !self.has_room_for(turn, &target) {
            return Begun::Now(Outcome::TooMany);
        }
        let site = self.sites.get_mut(&target).expect("there is room for it");
        site.used_at = turn.now;
        let is_down = matches!(site.health, Health::Down(until) if turn.now < until);
        if is_down && let Some(outcome) = self.remembered(turn, &target, user) {
            return Begun::Now(outcome);
        }
        self.leave_host(turn, &target);
        let site = self.sites.get_mut(&target).expect("there is room for it");
        site.waiting.join(since + patience(turn.settings, database), user, login);
        self.advance(turn, &target);
        Begun::Waits
    }

    /// Makes a site for a target if there is none. False: there are too many that somebody waits for.
    fn has_room_for(&mut self, turn: &mut Turn<'_>, target: &Arc<Target>) -> bool {
        if self.sites.contains_key(target) {
            return true;
        }
        let Some(database) = turn.settings.database(&target.database) else { return false };
        // Anybody may name databases that only a `*` entry knows.
        let automatic = |site: &Site| site.database.automatic;
        let count = self.sites.values().filter(|site| automatic(site)).count();
        if database.automatic && count >= limits::LOOKUP_DATABASES_MAX {
            let unused = self.sites.iter().filter(|(_, site)| automatic(site) && site.waiting.is_empty());
            let Some(oldest) = unused.min_by_key(|(_, site)| site.used_at).map(|(target, _)| Arc::clone(target)) else {
                return false;
            };
            self.remove_site(turn, &oldest, &LookupEnd::AnotherDatabase);
        }
        self.sites.insert(Arc::clone(target), Site::new(target, database, turn.settings));
        true
    }

    fn remove_site(&mut self, turn: &mut Turn<'_>, target: &Arc<Target>, why: &LookupEnd) {
        self.close_of(turn, target, Level::Log, why);
        if let Some(at) = self.sites.remove(target).and_then(|site| site.due) {
            self.due.remove(&(at, Arc::clone(target)));
        }
    }

    /// A login ends before its outcome.
    pub(super) fn leave(&mut self, login: ConnId) {
        self.sites.values_mut().for_each(|site| site.waiting.leave(login));
        self.outcomes.retain(|(other, _)| *other != login);
    }

    /// The next outcome, and the login that it is for.
    pub(super) fn next_outcome(&mut self) -> Option<(ConnId, Outcome)> {
        self.outcomes.pop_front()
    }

    /// The kinds of the secrets that lookups have found.
    pub(super) fn kinds(&self) -> &Kinds {
        self.cache.kinds()
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    pub(super) fn flow_mut(&mut self, conn: ConnId) -> Option<&mut connections::Flow> {
        self.connections.get_mut(conn).map(|connection| &mut connection.flow)
    }

    pub(super) fn backlog(&self, conn: ConnId) -> &[u8] {
        self.connections.get(conn).map_or(&[], |connection| connection.flow.backlog())
    }

    /// A connection's socket has taken so much of its backlog; 0: it takes no more for now.
    fn drained(&mut self, turn: &mut Turn<'_>, conn: ConnId, count: usize) {
        // It may have been closed meanwhile.
        let Some(connection) = self.connections.get_mut(conn) else { return };
        if count > 0 {
            connection.flow.drained(count);
        }
        turn.actions.watch(conn, &mut connection.flow, true);
    }

    /// What was said of a user earlier, where it may still be used.
    fn remembered(&self, turn: &Turn<'_>, target: &Arc<Target>, user: &Arc<str>) -> Option<Outcome> {
        let ttl = turn.settings.global.login.auth_cache_ttl;
        let found = self.cache.get(turn.now, ttl, &(Arc::clone(target), Arc::clone(user)))?;
        Some(Outcome::of(Some(found), turn.now))
    }

    /// Opens the connection of a site, or sends what waits, as far as that is possible now.
    fn advance(&mut self, turn: &mut Turn<'_>, target: &Arc<Target>) {
        // It may have been removed by a reload.
        let Some(site) = self.sites.get_mut(target) else { return };
        match site.conn {
            None if site.waiting.has_pending() && site.health.retry_at() <= turn.now => {
                match hosts::choose(site, &self.upstreams, turn.now) {
                    None => {
                        site.health = Health::Down(turn.now + limits::LOOKUP_RETRY);
                        self.answer_meanwhile(turn, target);
                    }
                    Some(address) => {
                        let (to, tls) = (Arc::clone(&address), &turn.settings.global.tls);
                        let new = Connection::new(Arc::clone(target), to, tls, turn.now);
                        let conn = self.connections.insert_with(|_| new);
                        site.conn = Some(conn);
                        turn.actions.push(Action::Open { conn, address });
                    }
                }
            }
            Some(conn) if self.connections[conn].is_ready() => {
                let connection = &mut self.connections[conn];
                while let Some(user) = site.waiting.send(turn.now) {
                    turn.actions.send_new(conn, |out| connection.ask(&user, out));
                    connection.idle_since = turn.now;
                }
            }
            _ => {}
        }
        self.arm(turn, target);
    }

    /// Sees to it that the site is looked at when something of it is due.
    fn arm(&mut self, turn: &Turn<'_>, target: &Arc<Target>) {
        let Lookups { sites, connections, due, .. } = self;
        // It may have been removed by a reload.
        let Some(site) = sites.get_mut(target) else { return };
        let servers = &turn.settings.global.servers;
        let waits = site.waiting.first_to_end().map(|(until, ..)| until);
        let answers = site.waiting.sent_at().map(|at| at + limits::LOOKUP_WAIT);
        let connects = match site.conn.map(|conn| &connections[conn]) {
            None if site.waiting.has_pending() => Some(site.health.retry_at()),
            None => None,
            Some(connection) if !connection.is_ready() => {
                Some(connection.busy_since + connect_timeout(site, turn.settings))
            }
            Some(connection) if site.waiting.is_empty() => {
                servers.server_idle_timeout.map(|timeout| connection.idle_since + timeout)
            }
            Some(_) => None,
        };
        let next = [waits, answers, connects].into_iter().flatten().min();
        if site.due == next {
            return;
        }
        if let Some(at) = std::mem::replace(&mut site.due, next) {
            due.remove(&(at, Arc::clone(target)));
        }
        due.extend(next.map(|at| (at, Arc::clone(target))));
    }

    /// Something is due at some sites.
    pub(super) fn deadline_reached(&mut self, turn: &mut Turn<'_>) {
        while let Some((at, target)) = self.due.first().filter(|(at, _)| *at <= turn.now).cloned() {
            self.due.remove(&(at, Arc::clone(&target)));
            self.sites.get_mut(&target).expect("a site that is due is there").due = None;
            self.site_due(turn, &target);
            self.advance(turn, &target);
        }
    }

    fn site_due(&mut self, turn: &mut Turn<'_>, target: &Arc<Target>) {
        let site = &self.sites[target];
        if let Some(conn) = site.conn {
            let connection = &self.connections[conn];
            let is_hung = site.waiting.sent_at().is_some_and(|at| at + limits::LOOKUP_WAIT <= turn.now);
            let is_idle = |timeout: Duration| connection.idle_since + timeout <= turn.now;
            if !connection.is_ready() && connection.busy_since + connect_timeout(site, turn.settings) <= turn.now {
                self.lost(turn, conn, &LookupEnd::ConnectTimeout, Loss::Down);
            } else if is_hung {
                self.lost(turn, conn, &LookupEnd::NotAnswered, Loss::Down);
            } else if connection.is_ready()
                && site.waiting.is_empty()
                && turn.settings.global.servers.server_idle_timeout.is_some_and(is_idle)
            {
                self.close_of(turn, target, Level::Log, &LookupEnd::IdleTimeout);
            }
        }
        loop {
            let site = self.sites.get_mut(target).expect("a site that is due is there");
            let Some((until, login, user)) = site.waiting.first_to_end() else { return };
            if turn.now < until {
                return;
            }
            let user = Arc::clone(user);
            site.waiting.leave(login);
            let unreachable = || Outcome::Unreachable(Arc::clone(&target.database));
            let outcome = self.remembered(turn, target, &user).unwrap_or_else(unreachable);
            self.outcomes.push_back((login, outcome));
        }
    }

    /// An event of a connection.
    pub(super) fn event(&mut self, turn: &mut Turn<'_>, conn: ConnId, event: Event<'_>) {
        match event {
            Event::Received { bytes, .. } => self.received(turn, conn, bytes),
            Event::Hangup { .. } => self.lost(turn, conn, &LookupEnd::Crashed, Loss::Broken),
            Event::Secured { outcome, .. } => self.secured(turn, conn, outcome),
            Event::Opened { ends, .. } => self.opened(turn, conn, ends.as_deref()),
            Event::OpenFailed { why, .. } => self.lost(turn, conn, &LookupEnd::NotOpened { why }, Loss::Down),
            Event::Computed { done, .. } => self.computed(turn, conn, done),
            Event::Drained { count, .. } => self.drained(turn, conn, count),
            Event::Blocked { .. } => self.drained(turn, conn, 0),
            other => unreachable!("no event of a connection: {other:?}"),
        }
    }

    fn received(&mut self, turn: &mut Turn<'_>, conn: ConnId, bytes: &[u8]) {
        // It may have been closed in this round.
        let Some(connection) = self.connections.get_mut(conn) else { return };
        if connection.is_connecting() {
            return match connection.encryption.received(bytes) {
                Ok(next) => self.go_on(turn, conn, next),
                Err(how) => self.lost(turn, conn, &how.into(), Loss::Down),
            };
        }
        let site = &self.sites[&connection.target];
        let target = Arc::clone(&connection.target);
        let facts = connection.encryption.facts().cloned();
        let credentials = Credentials {
            user: &target.user,
            secret: site.secret.as_ref(),
            is_clients: false,
            derived: site.derived.as_ref(),
            client_keys: None,
            channel: Channel::of(&site.database, &turn.settings.global.tls, facts.as_ref()),
        };
        let (mut news, mut outcome) = (Vec::new(), Ok(()));
        turn.actions.send_new(conn, |out| {
            outcome = connection.read(bytes, credentials, turn.random, out, &mut news);
        });
        for news in news {
            self.heard(turn, conn, &target, news);
        }
        let connection = self.connections.get(conn);
        if connection.is_some_and(|connection| connection.is_obsolete && connection.is_at_rest()) {
            self.close_of(turn, &target, Level::Log, &LookupEnd::NamesUnknown);
        }
        match outcome {
            Ok(()) => self.advance(turn, &target),
            Err(why @ LookupEnd::Broken { how: Broken::WrongPasswordType }) => {
                self.lost(turn, conn, &why, Loss::Refused)
            }
            Err(why) => self.lost(turn, conn, &why, Loss::Broken),
        }
    }

    fn heard(&mut self, turn: &mut Turn<'_>, conn: ConnId, target: &Arc<Target>, news: News) {
        match news {
            News::Derive { password, salt, iterations } => {
                let job = Job::DeriveKeys { password, salt, iterations };
                turn.actions.push(Action::Compute { conn, job });
            }
            News::LoggedIn | News::Searched => self.connections[conn].idle_since = turn.now,
            News::Searches => {
                self.connections[conn].busy_since = turn.now;
                self.sites.get_mut(target).expect("a connection has its site").waiting.unsend();
            }
            News::Refused(Some(code), words) if self.retries(conn, code) => {
                self.connect_again(turn, conn, &LookupEnd::LoginRefused { words });
            }
            News::Refused(code, words) => {
                let loss = if code.is_some_and(is_final) { Loss::Refused } else { Loss::Down };
                self.lost(turn, conn, &LookupEnd::LoginRefused { words }, loss);
            }
            News::Answered(answer) => self.answered(turn, conn, target, *answer),
        }
    }

    fn answered(&mut self, turn: &mut Turn<'_>, conn: ConnId, target: &Arc<Target>, answer: Answer) {
        let site = self.sites.get_mut(target).expect("a connection has its site");
        site.health = Health::Fine;
        let (user, sent_at, logins) = site.waiting.answered().expect("every lookup that is owed was sent");
        let connection = &mut self.connections[conn];
        (connection.idle_since, connection.has_answered) = (turn.now, true);
        let misses_names = answer.misses_names();
        connection.is_obsolete |= misses_names;
        let outcome = match answer.judge(&user, sent_at) {
            Ok(found) => {
                let ttl = turn.settings.global.login.auth_cache_ttl;
                self.cache.put(turn.now, ttl, (Arc::clone(target), user), found.as_ref());
                // Its validity is as the server has judged it, after the login came.
                Outcome::of(found.as_ref(), sent_at)
            }
            Err(Fault::NoSuchName) => Outcome::Unknown,
            Err(Fault::Failed(mut why)) => {
                if let Some(Resolved::Nowhere(reason)) = connection.resolved.as_ref().filter(|_| misses_names) {
                    why = format!("{why} ({reason})");
                }
                self.tell(turn, conn, Level::Error, Topic::General, format!("auth_query failed: {why}"));
                Outcome::Wrong
            }
        };
        self.outcomes.extend(logins.into_iter().map(|login| (login, outcome.clone())));
    }

    /// Keys for a connection's login are derived.
    fn computed(&mut self, turn: &mut Turn<'_>, conn: ConnId, done: Done) {
        let Done::Keys(keys) = done else { unreachable!("a lookup's login asks for keys only") };
        // It may have been closed meanwhile.
        let Some(connection) = self.connections.get_mut(conn) else { return };
        let mut answered = Ok(None);
        turn.actions.send_new(conn, |out| answered = connection.go_on_with(*keys, out));
        match answered {
            Ok(Some(derived)) => {
                let site = self.sites.get_mut(&connection.target).expect("a connection has its site");
                site.derived = Some(derived);
            }
            Ok(None) => {}
            Err(how) => self.lost(turn, conn, &how.into(), Loss::Broken),
        }
    }

    /// A connection is lost. Logins that wait get what was said earlier, if the database is down; the others wait for the
    /// next try.
    fn lost(&mut self, turn: &mut Turn<'_>, conn: ConnId, why: &LookupEnd, loss: Loss) {
        // It may have been closed already.
        let Some(connection) = self.connections.get(conn) else { return };
        let (target, has_answered) = (Arc::clone(&connection.target), connection.has_answered);
        let host = Address::clone(&connection.address);
        let level = if loss == Loss::Left { Level::Log } else { Level::Warning };
        self.close_of(turn, &target, level, why);
        let retry = turn.settings.global.servers.server_login_retry.min(limits::LOOKUP_RETRY);
        let site = self.sites.get_mut(&target).expect("a connection has its site");
        site.waiting.unsend();
        if loss != Loss::Left && !(loss == Loss::Broken && has_answered) {
            let pause = turn.settings.global.servers.server_login_retry.max(limits::LOOKUP_RETRY);
            site.lost.retain(|(other, until)| *other != host && turn.now < *until);
            site.lost.push((host, turn.now + pause));
        }
        site.health = match loss {
            Loss::Left => Health::Fine,
            // A connection that has worked may have been closed by an administrator: another may be had at once.
            Loss::Broken if has_answered => Health::Fine,
            Loss::Broken | Loss::Down => Health::Down(turn.now + retry),
            Loss::Refused => Health::Refusing(turn.now + retry),
        };
        self.answer_meanwhile(turn, &target);
        self.advance(turn, &target);
    }

    /// A site cannot be asked now: waiting logins get the remembered answer of their user, if there is one.
    fn answer_meanwhile(&mut self, turn: &Turn<'_>, target: &Arc<Target>) {
        let site = &self.sites[target];
        let health = site.health;
        for (login, user) in site.waiting.all() {
            let outcome = match health {
                Health::Fine => None,
                Health::Down(_) => self.remembered(turn, target, &user),
                Health::Refusing(_) => Some(Outcome::Wrong),
            };
            if let Some(outcome) = outcome {
                self.sites.get_mut(target).expect("it was there").waiting.leave(login);
                self.outcomes.push_back((login, outcome));
            }
        }
    }

    /// Closes the connection of a site, if it has one. The server is told so if nothing is wrong.
    fn close_of(&mut self, turn: &mut Turn<'_>, target: &Arc<Target>, level: Level, why: &LookupEnd) {
        let site = self.sites.get_mut(target).expect("a site is closed before it is removed");
        let Some(conn) = site.conn.take() else { return };
        let connection = &self.connections[conn];
        let age = turn.now.since(connection.since).as_secs();
        if level == Level::Log && connection.is_ready() && connection.flow.is_clear() {
            turn.actions.send_new(conn, frontend::encode_terminate);
        }
        self.tell(turn, conn, level, Topic::Disconnections, format!("closing because: {why} (age={age}s)"));
        turn.actions.push(Action::Close { conn, last_words: false });
        self.connections.remove(conn);
    }

    fn tell(&self, turn: &mut Turn<'_>, conn: ConnId, level: Level, topic: Topic, text: String) {
        let connection = &self.connections[conn];
        let about = About::Server {
            conn,
            name: conn,
            database: Arc::clone(&connection.target.database),
            user: Arc::clone(&connection.target.user),
            address: Arc::clone(&connection.address),
        };
        turn.actions.tell(Fact::new(level, topic, about, text));
    }
}

/// Why a connection is lost.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Loss {
    /// It has ended.
    Broken,
    /// The database cannot be reached, or does not answer.
    Down,
    /// The database refuses `auth_user`: that is for an administrator.
    Refused,
    /// Another host is better.
    Left,
}

/// Errors at the login that do not pass: credentials, no such database, no right to connect.
fn is_final(code: SqlState) -> bool {
    &code.class() == b"28" || [sqlstate::INVALID_CATALOG_NAME, sqlstate::INSUFFICIENT_PRIVILEGE].contains(&code)
}

/// How long a login to this database waits while its lookup database cannot be reached: as those that are in wait for a host, and at the console, where
/// somebody looks for the cause, for less.
fn patience(settings: &Settings, database: &str) -> Duration {
    if database == CONSOLE_DATABASE {
        return limits::LOOKUP_WAIT;
    }
    let own = settings.database(database).and_then(|database| database.settings.failover_wait);
    own.unwrap_or(settings.global.servers.failover_wait).max(limits::LOOKUP_WAIT)
}

/// Where there are several hosts, one that does not answer leaves time for another.
fn connect_timeout(site: &Site, settings: &Settings) -> Duration {
    let most = if site.database.hosts.len() > 1 { limits::LOOKUP_WAIT / 2 } else { limits::LOOKUP_WAIT };
    settings.global.servers.server_connect_timeout.map_or(most, |timeout| timeout.min(most))
}
