//! How a lookup's connection is opened: encrypted as `server_tls_sslmode` says, and tried the other way where libpq would. After a reload, the
//! connections that would be opened in another way are closed.

use std::sync::Arc;

use connections::databases::{Address, Host};
use connections::encryption::{Next, is_alike};
use machine::Secured;
use machine::action::Action;
use machine::observe::{Ends, Level, Topic};
use settings::TlsSettings;
use units::ConnId;
use wire::SqlState;

use super::end::LookupEnd;
use super::target::is_same_place;
use super::{Lookups, Loss, Outcome, Site, Turn, secret_of};

impl Lookups {
    /// The connection is open.
    pub(super) fn opened(&mut self, turn: &mut Turn<'_>, conn: ConnId, ends: Option<&Ends>) {
        let Some(connection) = self.connections.get_mut(conn) else {
            // A door that has panicked has asked for it.
            return turn.actions.push(Action::Close { conn, last_words: false });
        };
        if !connection.is_connecting() {
            return;
        }
        connection.remote =
            ends.map(|Ends { remote, .. }| Address { host: Host::Ip(remote.ip()), port: remote.port() });
        let next = connection.encryption.opened();
        let from = ends.map(|ends| format!(" (from {})", ends.local)).unwrap_or_default();
        self.tell(turn, conn, Level::Log, Topic::Connections, format!("new connection to server{from}"));
        self.go_on(turn, conn, next);
    }

    /// Whether a site's connection stands to an address that its host does not have any more.
    pub(super) fn is_left(&self, turn: &Turn<'_>, site: &Site) -> bool {
        let connection = site.conn.map(|conn| &self.connections[conn]);
        connection.is_some_and(|connection| {
            let remote = connection.remote.as_ref();
            remote.is_some_and(|remote| turn.settings.orders.addresses.have_left(&connection.address, remote))
        })
    }

    /// Takes new settings, `old` those of TLS before: a lookup database that is another one now, or has to be reached in another way,
    /// is asked anew.
    pub(crate) fn configure(&mut self, turn: &mut Turn<'_>, old: &TlsSettings) {
        self.upstreams.configure(turn.settings);
        for target in self.sites.keys().cloned().collect::<Vec<_>>() {
            let site = &self.sites[&target];
            let found = turn.settings.database(&target.database);
            let is_same = found.as_ref().is_some_and(|found| {
                is_same_place(found, &site.database)
                    && secret_of(&target, found, turn.settings) == site.secret
                    && found.hosts.iter().all(|address| is_alike(&turn.settings.global.tls, old, address))
            });
            let is_listed = |conn: ConnId| {
                found.as_ref().is_some_and(|found| found.hosts.contains(&self.connections[conn].address))
            };
            let is_left = self.is_left(turn, site) || !site.conn.is_none_or(is_listed);
            if let Some(found) = found.filter(|_| is_same && !is_left) {
                // Its `target_session_attrs` may have changed.
                self.sites.get_mut(&target).expect("it was there").database = found;
                self.arm(turn, &target);
                continue;
            }
            let logins = site.waiting.all();
            self.outcomes.extend(logins.into_iter().map(|(login, _)| (login, Outcome::Again)));
            self.cache.forget(&target);
            let why = if is_same { LookupEnd::Obsolete } else { LookupEnd::DatabaseChanged };
            self.remove_site(turn, &target, &why);
        }
    }

    /// Does the next thing before the login, or begins that.
    pub(super) fn go_on(&mut self, turn: &mut Turn<'_>, conn: ConnId, next: Next) {
        if turn.actions.encrypt(conn, next) {
            let connection = &mut self.connections[conn];
            let database = &self.sites[&connection.target].database;
            turn.actions.send_new(conn, |out| connection.log_in(database, out));
        }
    }

    /// The end of a handshake.
    pub(super) fn secured(&mut self, turn: &mut Turn<'_>, conn: ConnId, outcome: Result<Box<Secured>, String>) {
        // It may have been closed meanwhile.
        let Some(connection) = self.connections.get_mut(conn) else { return };
        match outcome {
            Ok(secured) => {
                let words = format!("SSL established: {}", secured.shown());
                let next = connection.encryption.secured((*secured).into());
                self.tell(turn, conn, Level::Log, Topic::Connections, words);
                self.go_on(turn, conn, next);
            }
            Err(why) => self.lost(turn, conn, &LookupEnd::TlsFailed { why }, Loss::Down),
        }
    }

    /// A login was refused: whether it is tried the other way.
    pub(super) fn retries(&mut self, conn: ConnId, code: SqlState) -> bool {
        self.connections.get_mut(conn).is_some_and(|connection| connection.encryption.retries_after_refusal(code))
    }

    pub(super) fn connect_again(&mut self, turn: &mut Turn<'_>, conn: ConnId, why: &LookupEnd) {
        let connection = &mut self.connections[conn];
        connection.connect_again();
        let other = if connection.encryption.begins_with_tls() { "with" } else { "without" };
        let address = Arc::clone(&connection.address);
        self.tell(turn, conn, Level::Log, Topic::Connections, format!("{why}; trying {other} TLS"));
        turn.actions.push(Action::Close { conn, last_words: false });
        turn.actions.push(Action::Open { conn, address });
    }
}
