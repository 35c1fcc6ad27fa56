//! The login of a pool's server: what it logs in with, and what the pool learns from it.
//!
//! The messages are those of [`connections::server_login`]. Timeouts and retries are up to the caller.

use std::sync::Arc;

use auth::{Keys, Secret};
use connections::channel::Channel;
use connections::databases::Database;
use connections::encryption::Facts;
use connections::server_login::{self, Credentials, Progress};
use machine::action::Action;
use machine::work::Job;
use machine::{HostRole, Settings, Step};
use session_state::login_report::LoginReport;
use session_state::parameter_set::ParameterSet;
use session_state::parameters::Reported;
use session_state::state::check::Check;
use session_state::state::{self, Base, Effect, Effects};
use sql::Text;
use units::ConnId;
use units::random::Random;
use wire::backend::DataRow;

use crate::caches::Caches;
use crate::findings::Broken;
use crate::parameter_reports::speaks_for_pool;
use crate::pool::Pool;
use crate::server::{Begins, Identity, Server, ServerState};

/// A server that is logging in, while its bytes are read.
#[derive(Debug)]
pub struct ServerLogin<'a, 't> {
    pub step: &'a mut Step<'t>,
    pub conn: ConnId,
    pub server: &'a mut Server,
    pub pool: &'a Pool,
    pub settings: &'a Settings,
    /// For nonces.
    pub random: &'a mut Random,
}

/// The state of a login after reading.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum LoginEnd<'b> {
    /// It is not complete yet.
    Open,
    /// ReadyForQuery.
    Ready,
    /// The body of an ErrorResponse.
    Refused(&'b [u8]),
}

impl ServerLogin<'_, '_> {
    /// Reads complete messages from `at` on, up to the end of the login or of the bytes. `at` is moved past them.
    ///
    /// # Errors
    /// The server has broken the protocol, or the login is not possible.
    pub fn read<'b>(&mut self, bytes: &'b [u8], at: &mut usize) -> Result<LoginEnd<'b>, Broken> {
        let facts = self.server.identity.encryption.facts().cloned();
        let credentials = credentials(self.pool, self.settings, facts.as_ref());
        loop {
            let login = logging_in(self.server);
            let mut progress = Ok(Progress::Open);
            self.step.actions.send_new(self.conn, |out| {
                progress = login.read(bytes, at, credentials, self.random, out);
            });
            // At once: the password may change before the login is complete.
            let mark = login.mark;
            self.server.identity.mark = mark;
            match progress? {
                Progress::Open => return Ok(LoginEnd::Open),
                Progress::Derive { password, salt, iterations } => {
                    let job = Job::DeriveKeys { password, salt, iterations };
                    self.step.actions.push(Action::Compute { conn: self.conn, job });
                }
                Progress::Ready => {
                    let key = std::mem::take(&mut logging_in(self.server).key);
                    self.server.backend = key;
                    return Ok(LoginEnd::Ready);
                }
                Progress::Refused(body) => return Ok(LoginEnd::Refused(body)),
            }
        }
    }
}

/// The login of a server that is logging in.
fn logging_in(server: &mut Server) -> &mut server_login::ServerLogin {
    server.login_mut().expect("whoever reads a login has seen that the server logs in")
}

/// The keys that a login waits for have been derived.
///
/// # Errors
/// The exchange has failed.
pub fn go_on_with(
    step: &mut Step<'_>,
    conn: ConnId,
    server: &mut Server,
    pool: &mut Pool,
    keys: Keys,
) -> Result<(), Broken> {
    // By now the login may be complete.
    let Some(login) = server.login_mut() else { return Ok(()) };
    let mut answered = Ok(None);
    step.actions.send_new(conn, |out| answered = login.go_on_with(keys, out));
    if let Some(derived) = answered? {
        pool.opening.derived = Some(derived);
    }
    Ok(())
}

/// Notes what a server has reported at login. It may report more while its `connect_query` runs.
pub fn note_reported(server: &mut Server, caches: &mut Caches) {
    let login = logging_in(server);
    let reported = std::mem::take(&mut login.reported);
    let mut parameters = caches.tracked.empty();
    for (name, value) in &reported {
        let known = caches.tracked.index(name).and_then(|index| parameters.with(index, value));
        parameters = known.unwrap_or(parameters);
    }
    server.kept.parameters = caches.interned.intern(parameters);
    server.kept.at_reset = Arc::clone(&server.kept.parameters);
    server.kept.begins = Some(Box::new(Begins { reported, row: None }));
}

/// The question for the role of a server that has not reported it.
//= pg18 functions-admin#FUNCTIONS-RECOVERY-CONTROL
pub const ROLE_QUESTION: &[u8] =
    b"SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('default_transaction_read_only')";

/// The role of a new server and whether its sessions are read-only by default, as it has reported or answered. `None`: neither.
#[must_use]
pub fn take_role(server: &mut Server) -> Option<(HostRole, bool)> {
    let begins = server.kept.begins.as_mut()?;
    if let Some(role) = role_of(&begins.reported) {
        return Some(role);
    }
    let row = begins.row.take()?;
    let columns: Vec<Option<&[u8]>> = DataRow::decode(&row).ok()?.values().collect();
    let [Some(in_recovery), Some(is_read_only)] = columns[..] else { return None };
    Some((HostRole::of(in_recovery == b"t"), is_read_only == b"on"))
}

/// The role of the server of a session that replicates, which is asked nothing.
#[must_use]
pub fn own_role(server: &Server) -> Option<(HostRole, bool)> {
    match server.state() {
        ServerState::LoggingIn(login) => role_of(&login.reported),
        _ => None,
    }
}

/// The role of a server that has reported these parameters, as PostgreSQL 14 and later do.
//= pg18 protocol-flow#PROTOCOL-ASYNC
fn role_of(reported: &Reported) -> Option<(HostRole, bool)> {
    let value = |name: &[u8]| reported.iter().find(|(known, _)| **known == *name).map(|(_, value)| &**value);
    let in_hot_standby = value(b"in_hot_standby")?;
    Some((HostRole::of(in_hot_standby == b"on"), value(b"default_transaction_read_only") == Some(b"on")))
}

/// Whether new servers of the pool are asked what they begin with. Where texts are not read, a `connect_query` runs again after each
/// reset: what it sets need not be known.
pub fn asks_for_base(pool: &Pool, settings: &Settings) -> bool {
    settings.reads_base && (pool.rules.follows() || pool.database.connect_query.is_none())
}

/// The question for a new server's base; `None`: it is not asked.
pub fn question_about_base(pool: &Pool, settings: &Settings, caches: &Caches, server: &Server) -> Option<Check> {
    asks_for_base(pool, settings).then(|| Base::question(effects(pool, caches, server).as_ref()))
}

/// The effects of its `connect_query`, if there is one.
fn effects(pool: &Pool, caches: &Caches, server: &Server) -> Option<Effects> {
    let rules = state::rules_by(&server.kept.parameters).unwrap_or_default();
    let query = pool.database.connect_query.as_ref()?;
    Some(Effects::read(&Text::new(query.as_bytes(), rules), &caches.tracked))
}

/// A new server has been asked: notes its base, and takes its report as the pool's. The report of a server that is to be replaced counts
/// only if the pool has none.
pub fn note_begun(server: &mut Server, pool: &mut Pool, settings: &Settings, caches: &Caches) {
    let Begins { reported, row } = server.kept.begins.take().map(|begins| *begins).unwrap_or_default();
    let (question, effects) = (question_about_base(pool, settings, caches, server), effects(pool, caches, server));
    let answer = question.as_ref().zip(row);
    let base = answer.and_then(|(question, row)| Base::read(question, &row, effects.as_ref(), &caches.tracked));
    let is_asked = question.is_some() || effects.is_some();
    let base = base.or_else(|| is_asked.then(|| Base::unasked(effects.is_some())));
    server.kept.base = base.map_or_else(Arc::default, |base| pool.welcome.shared(base));
    server.kept.owners.begin(set_by_query(server, effects.as_ref()));
    let [parameters, at_login] = [&server.kept.parameters, &server.kept.at_reset].map(Arc::clone);
    let report = LoginReport::new(reported, parameters, at_login, &caches.tracked);
    let Identity { reconnects, opened_for, .. } = &server.identity;
    if pool.welcome.report.is_none() || speaks_for_pool(server, pool) {
        let is_alone = pool.servers.open() + pool.servers.opening() <= 1;
        pool.welcome.learn(report, (*reconnects, opened_for), is_alone);
    }
}

/// The tracked parameters that a new server's `connect_query` has set: those that its text names, and those that have other values since.
fn set_by_query(server: &Server, effects: Option<&Effects>) -> ParameterSet {
    let named = effects.into_iter().flat_map(Effects::iter).filter_map(|effect| match effect {
        Effect::Parameter { index, is_local: false, .. } => Some(*index),
        _ => None,
    });
    named.collect::<ParameterSet>() | server.kept.parameters.difference(&server.kept.at_reset)
}

/// The secret that this pool logs in to PostgreSQL with, and whether it is a client's.
fn own_secret<'a>(pool: &'a Pool, settings: &'a Settings) -> (Option<&'a Secret>, bool) {
    let database: &Database = &pool.database;
    let known = database.password.as_ref().or_else(|| settings.secrets.get(&*pool.key.user));
    let by_client = pool.opening.proved.secret.as_ref();
    // A password that a client has shown is good for whatever PostgreSQL asks for; a hash in auth_file is not.
    let is_clients = match known {
        Some(Secret::Plain(_)) => false,
        Some(Secret::Md5(_) | Secret::Scram(_)) | None => by_client.is_some(),
    };
    (if is_clients { by_client } else { known }, is_clients)
}

fn credentials<'a>(pool: &'a Pool, settings: &'a Settings, facts: Option<&'a Facts>) -> Credentials<'a> {
    let (secret, is_clients) = own_secret(pool, settings);
    Credentials {
        user: &pool.key.user,
        secret,
        is_clients,
        derived: pool.opening.derived.as_ref(),
        client_keys: pool.opening.proved.keys.as_ref(),
        channel: Channel::of(&pool.database, &settings.global.tls, facts),
    }
}
