//! The servers of one pool at one moment, counted by their activity.

use std::collections::BTreeMap;
use std::time::Duration;

use units::PoolKey;

use super::index::Index;
use super::{MOST_PERCENT, STATEMENT_LEN_MAX};
use crate::moment::{CPU, Pool, Row, View};
use crate::tags::Tags;

/// The servers of a pool. Each is counted in one of these fields, besides `open` and `on_processor`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Servers {
    /// All that are connected, or being connected.
    pub open: u32,
    /// Servers that wait for a lock.
    pub behind: u32,
    /// Servers that wait for a synchronous standby.
    pub standby: u32,
    /// Servers that run a statement.
    pub computing: u32,
    /// Those of `computing` that wait for nothing at PostgreSQL: they have a processor, or want one.
    pub on_processor: u32,
    /// They run a statement, and PostgreSQL has not told its wait event.
    pub unseen: u32,
    /// Their client is idle in its transaction.
    pub idle_in_transaction: u32,
    /// Their client keeps them between its transactions.
    pub kept: u32,
    /// No client has them, and they are not free yet: a statement of a client that has gone comes to its end, or is being cancelled.
    pub ending: u32,
    /// No client has them.
    pub idle: u32,
    /// Servers that are being connected.
    pub login: u32,
    /// The longest of the statements that run.
    pub longest_statement: Duration,
}

impl Servers {
    /// Whether `count` servers are most of the open ones, by [`MOST_PERCENT`].
    pub(super) fn is_most(&self, count: u32) -> bool {
        count > 0 && u64::from(count) * 100 >= u64::from(self.open) * u64::from(MOST_PERCENT)
    }
}

/// The servers of a pool, and the rows that a verdict may name.
pub(super) struct Survey<'m> {
    pub(super) servers: Servers,
    /// The servers that wait for a lock.
    pub(super) behind: Vec<&'m Row>,
    pub(super) longest_idle: Option<&'m Row>,
    pub(super) longest_kept: Option<&'m Row>,
    /// The servers that run a statement.
    pub(super) computing: Vec<&'m Row>,
}

/// The statement that most of a pool's computing servers run.
#[derive(Clone, Debug, PartialEq)]
pub struct Busiest {
    /// The servers that run it.
    pub count: u32,
    /// Its beginning, without constants.
    pub statement: String,
    /// Those of one of the servers.
    pub tags: Tags,
}

enum Doing {
    Behind,
    Standby,
    IdleInTransaction,
    Kept,
    Computing,
    Unseen,
}

pub(super) fn survey<'m>(index: &Index<'m>, key: &PoolKey, pool: &Pool) -> Survey<'m> {
    let mut servers = Servers { idle: pool.servers_idle, login: pool.servers_login, ..Servers::default() };
    let (behind, computing) = (Vec::new(), Vec::new());
    let mut survey = Survey { servers, behind, longest_idle: None, longest_kept: None, computing };
    let hosts = &index.moment.hosts;
    let is_read = !hosts.is_empty() && hosts.iter().all(|host| matches!(host.view, View::Whole(_)));
    let mut seen = 0_u32;
    for row in index.with_server(key).iter().copied() {
        seen += 1;
        match doing(row, is_read) {
            Doing::Behind => {
                servers.behind += 1;
                survey.behind.push(row);
            }
            Doing::Standby => servers.standby += 1,
            Doing::IdleInTransaction => {
                servers.idle_in_transaction += 1;
                survey.longest_idle = survey.longest_idle.filter(|other| idle(other) >= idle(row)).or(Some(row));
            }
            Doing::Kept => {
                servers.kept += 1;
                survey.longest_kept = survey.longest_kept.filter(|other| kept(other) >= kept(row)).or(Some(row));
            }
            Doing::Computing => {
                servers.computing += 1;
                servers.on_processor += u32::from(row.wait() == Some(CPU));
                survey.computing.push(row);
                servers.longest_statement = servers.longest_statement.max(statement_age(row));
            }
            Doing::Unseen => servers.unseen += 1,
        }
    }
    servers.ending = pool.servers_active.saturating_sub(seen);
    servers.open = pool.servers_active.max(seen) + servers.idle + servers.login;
    survey.servers = servers;
    survey
}

pub(super) fn has_server_of(row: &Row, key: &PoolKey) -> bool {
    row.session.as_ref().is_some_and(|session| session.pool == *key && session.times.waiting.is_none())
}

/// `is_read`: PostgreSQL has said what its backends do.
fn doing(row: &Row, is_read: bool) -> Doing {
    let times = row.session.as_ref().map(|session| session.times).unwrap_or_default();
    let wait = row.backend.as_ref().and_then(|backend| backend.wait.as_ref());
    if row.waiter.is_some() || wait.is_some_and(|wait| wait.class == "Lock") {
        return Doing::Behind;
    }
    //= pg18 monitoring-stats#WAIT-EVENT-IPC-TABLE
    // Before PostgreSQL 17 it is written SyncRep, too.
    if wait.is_some_and(|wait| wait.class == "IPC" && wait.event.eq_ignore_ascii_case("SyncRep")) {
        return Doing::Standby;
    }
    if row.is_idle_in_transaction() || (times.transaction.is_some() && times.idle.is_some()) {
        return Doing::IdleInTransaction;
    }
    match (times.transaction, times.kept, &row.backend) {
        (None, Some(_), _) => Doing::Kept,
        // It got its server after PostgreSQL was asked: where transactions are short, most have.
        (_, _, None) if is_read => Doing::Computing,
        (_, _, None) => Doing::Unseen,
        // A role without pg_monitor is not told the state.
        (_, _, Some(backend)) if backend.state.is_none() => Doing::Unseen,
        _ => Doing::Computing,
    }
}

/// How long its statement has run; at most, if PostgreSQL has not said it: as long as its transaction.
fn statement_age(row: &Row) -> Duration {
    let transaction = || row.session.as_ref().and_then(|session| session.times.transaction);
    row.backend.as_ref().map_or_else(transaction, |backend| backend.ages.query).unwrap_or_default()
}

/// The time since its client was last active in its transaction.
pub(super) fn idle(row: &Row) -> Duration {
    let backend = row.backend.as_ref().filter(|_| row.is_idle_in_transaction()).and_then(|backend| backend.ages.state);
    backend.or_else(|| row.session.as_ref()?.times.idle).unwrap_or_default()
}

fn kept(row: &Row) -> Duration {
    row.session.as_ref().and_then(|session| session.times.kept).unwrap_or_default()
}

/// `None`: the statements are not known, or each server runs another one.
pub(super) fn busiest(rows: &[&Row]) -> Option<Busiest> {
    let mut found: BTreeMap<String, (u32, &Tags)> = BTreeMap::new();
    for row in rows {
        let Some(text) = row.statement().filter(|text| !text.is_empty()) else { continue };
        let statement = sql::redacted_by_any_rules(text.as_bytes(), STATEMENT_LEN_MAX);
        found.entry(statement).or_insert((0, &row.tags)).0 += 1;
    }
    let (statement, (count, tags)) = found.into_iter().max_by_key(|(_, (count, _))| *count)?;
    (count > 1 || rows.len() == 1).then(|| Busiest { count, statement, tags: tags.clone() })
}
