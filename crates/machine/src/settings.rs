//! Everything that changes decisions: one immutable value, replaced whole on reload.
//!
//! `config` makes it from the user's words; nothing here is text that should have been a number. Names and defaults are
//! PgBouncer's (`//= pgbouncer config.md`). A timeout that is switched off is `None`.

use std::collections::BTreeMap;
use std::sync::Arc;

use auth::Secret;
use connections::databases::{CONSOLE_DATABASE, Database};
use hba::{Directory, Maps, Provider, Rules};
use queueing::classes::Classes;
use settings::{AuthType, Effective, Global, UserSettings};

use crate::orders::Orders;
use crate::peering::{PeerEntry, PeerId};

/// Who outside vouches for clients.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vouchers {
    /// `auth_ldap_options`: who checks passwords where `auth_type` is `ldap`.
    pub ldap: Option<Arc<Directory>>,
    /// `auth_oauth_options`: whose tokens are good.
    pub provider: Option<Arc<Provider>>,
}

/// All of them. `Default` is the table's, with no databases.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub databases: BTreeMap<String, Arc<Database>>,
    /// The `*` entry: any other name, with `name` and `dbname` filled in at login.
    pub fallback: Option<Arc<Database>>,
    pub users: BTreeMap<String, UserSettings>,
    /// `auth_file`: which users may log in, and as what they log in at the server.
    pub secrets: BTreeMap<String, Secret>,
    /// `auth_hba_file`: how a client has to prove who it is, where `auth_type` is `hba`.
    pub hba: Arc<Rules>,
    /// `auth_ident_file`: which users a system user may be.
    pub ident: Arc<Maps>,
    /// Who outside vouches for clients.
    pub vouchers: Vouchers,
    /// `[peers]`; this process itself may be among them.
    pub peers: BTreeMap<PeerId, PeerEntry>,
    /// `[pgbouncer]`; databases and users may have some otherwise: see [`Settings::effective`].
    pub global: Global,
    /// Threads that own sessions and servers; at least 1. From `workers` and the machine's cores.
    pub workers: u16,
    /// The first size of pools with `pool_size = auto`. From the machine's cores.
    pub auto_pool_size_start: u32,
    /// Classes: how clients share servers.
    pub classes: Arc<Classes>,
    /// What was ordered at the console.
    pub orders: Orders,
    /// Whether side effects are read from the database. Off only in tests of something else.
    pub reads_catalogue: bool,
    /// Whether new servers are asked what they begin with. Off only in tests of something else.
    pub reads_base: bool,
    /// A deliberate fault, for tests of the tests.
    #[cfg(debug_assertions)]
    pub sabotage: Option<crate::fault::Sabotage>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            databases: BTreeMap::new(),
            fallback: None,
            users: BTreeMap::new(),
            secrets: BTreeMap::new(),
            hba: Arc::default(),
            ident: Arc::default(),
            vouchers: Vouchers::default(),
            peers: BTreeMap::new(),
            global: Global::default(),
            workers: 1,
            auto_pool_size_start: 4,
            classes: Arc::default(),
            orders: Orders::default(),
            reads_catalogue: true,
            reads_base: true,
            #[cfg(debug_assertions)]
            sabotage: None,
        }
    }
}

impl Settings {
    /// Tells the rules which provider there is. To be called when either has changed.
    pub fn join_rules_and_provider(&mut self) {
        if self.hba.as_slice().iter().any(|rule| rule.method == hba::Method::OAuth) {
            self.hba = Arc::new(self.hba.with_provider(self.vouchers.provider.as_deref()));
        }
    }

    /// What holds for one database and user.
    #[must_use]
    pub fn effective(&self, database: &Database, user: &str) -> Effective {
        let nothing = UserSettings::default();
        Effective::new(&self.global, &database.settings, self.users.get(user).unwrap_or(&nothing))
    }

    /// How clients of a database prove who they are.
    #[must_use]
    pub fn auth_type(&self, database: &str) -> AuthType {
        // The console is no database, whatever `*` says.
        let fallback = self.fallback.as_ref().filter(|_| database != CONSOLE_DATABASE);
        let own = self.databases.get(database).or(fallback).and_then(|entry| entry.settings.auth_type);
        own.unwrap_or(self.global.login.auth_type)
    }

    /// This process's number among its peers. `None`: it has none.
    #[must_use]
    pub fn own_peer_id(&self) -> Option<PeerId> {
        u16::try_from(self.global.listening.peer_id).ok().filter(|id| *id > 0).map(PeerId)
    }

    /// The other processes of `[peers]`.
    pub fn others(&self) -> impl Iterator<Item = (PeerId, &PeerEntry)> {
        let own = self.own_peer_id();
        self.peers.iter().filter(move |(id, _)| own != Some(**id)).map(|(id, peer)| (*id, peer))
    }

    /// One of them, if cancel requests are passed on: this process has a number too.
    #[must_use]
    pub fn peer(&self, id: PeerId) -> Option<&PeerEntry> {
        self.own_peer_id().filter(|own| *own != id).and_then(|_| self.peers.get(&id))
    }

    /// All to which cancel requests are passed on.
    pub fn peers(&self) -> impl Iterator<Item = (PeerId, &PeerEntry)> {
        let has_number = self.own_peer_id().is_some();
        self.others().filter(move |_| has_number)
    }

    /// Whether `auth_type` is this one, globally or of a database.
    #[must_use]
    pub fn uses(&self, auth_type: AuthType) -> bool {
        let own =
            self.databases.values().chain(&self.fallback).any(|entry| entry.settings.auth_type == Some(auth_type));
        own || self.global.login.auth_type == auth_type
    }

    /// The only user in `auth_file` whose password is known.
    #[must_use]
    pub fn only_user(&self) -> Option<&String> {
        let has_password = |secret: &Secret| matches!(secret, Secret::Plain(password) if !password.as_str().is_empty());
        let mut users = self.secrets.iter().filter(|(_, secret)| has_password(secret)).map(|(user, _)| user);
        users.next().filter(|_| users.next().is_none())
    }

    /// The entry for a database name, made from `*` if there is none of its own.
    #[must_use]
    pub fn database(&self, name: &str) -> Option<Arc<Database>> {
        if let Some(database) = self.databases.get(name) {
            return Some(Arc::clone(database));
        }
        // The console is no database, whatever `*` says.
        let fallback = self.fallback.as_ref().filter(|_| name != CONSOLE_DATABASE)?;
        let mut database = Database::clone(fallback);
        database.name = name.to_owned();
        database.automatic = true;
        Some(Arc::new(database))
    }
}
