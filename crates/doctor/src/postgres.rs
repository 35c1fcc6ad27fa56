//! What PostgreSQL says of itself, and of one of its databases.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use observe::{Backend, Blocking, Prepared};

/// One server, as one role in one database sees it.
#[derive(Clone, Debug, Default)]
pub struct Postgres {
    pub identity: Identity,
    /// The server's, in their base units: what the role, the database or the session have changed is left out where PostgreSQL tells.
    pub settings: BTreeMap<String, String>,
    /// Names of settings that roles or databases have.
    pub role_settings: BTreeSet<String>,
    /// All but the one that asks.
    pub backends: Vec<Backend>,
    pub blocking: Blocking,
    /// Prepared transactions that hold locks which somebody waits for, by their id in `blocking`.
    pub prepared_holders: BTreeMap<i32, Prepared>,
    pub databases: Vec<DatabaseFigures>,
    /// Those with the most dead rows, and those that are scanned most.
    pub tables: Vec<TableFigures>,
    pub indexes: Indexes,
    pub snapshots: Snapshots,
    /// Standbys that replay its log, as far as the role may see them.
    pub replicas: Vec<Replica>,
    /// `None`: pg_stat_statements is not there, or may not be read.
    pub statements: Option<Statements>,
}

/// Who was asked, and as whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    pub place: String,
    pub version: String,
    pub database: String,
    pub role: String,
    /// Whether the role has the rights of `pg_monitor`.
    pub sees_all: bool,
    pub is_standby: bool,
    /// Whether Patroni has started it.
    pub is_of_patroni: bool,
    /// The backend that answered.
    pub pid: i32,
}

/// A row of pg_stat_database, with pg_database's.
//= pg18 monitoring-stats#MONITORING-PG-STAT-DATABASE-VIEW
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatabaseFigures {
    pub name: String,
    /// Of its oldest row that is not frozen, in transactions.
    pub frozen_age: u64,
    /// Of its oldest multixact, in multixacts.
    pub multixact_age: u64,
    pub temp_files: u64,
    /// In bytes.
    pub temp_bytes: u64,
    /// For how long its statistics have been counted; `None`: since it was made.
    pub counted_for: Option<Duration>,
    /// For how long the server has counted anything: this database's statistics are not older.
    pub counted_at_most: Option<Duration>,
}

/// A row of pg_stat_user_tables, with what autovacuum would make of it.
//= pg18 monitoring-stats#MONITORING-PG-STAT-ALL-TABLES-VIEW
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableFigures {
    pub schema: String,
    pub name: String,
    pub live: u64,
    pub dead: u64,
    /// So many dead rows start a vacuum.
    pub threshold: f64,
    /// `autovacuum_enabled` is off there.
    pub is_switched_off: bool,
    /// `None`: never.
    pub vacuumed: Option<Duration>,
    pub sequential_scans: u64,
    /// Rows that these scans have read.
    pub sequential_rows: u64,
    pub index_scans: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Indexes {
    pub unused: Vec<UnusedIndex>,
    pub duplicates: Vec<Duplicate>,
    pub foreign_keys: Vec<ForeignKey>,
}

/// An index that no query has used, and that no constraint needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnusedIndex {
    pub schema: String,
    pub table: String,
    pub name: String,
    /// In bytes.
    pub size: u64,
    /// Rows that were written to its table meanwhile.
    pub writes: u64,
}

/// Two indexes that can do the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Duplicate {
    pub schema: String,
    pub table: String,
    /// The one that is needed less.
    pub name: String,
    pub same_as: String,
    /// In bytes.
    pub size: u64,
}

/// A foreign key whose table has no index for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForeignKey {
    pub schema: String,
    pub table: String,
    pub name: String,
    /// In quotes where SQL needs them.
    pub columns: String,
    pub target: String,
    pub rows: u64,
    /// Rows that were deleted from the target.
    pub target_deletes: u64,
}

/// What keeps dead rows from being removed, beside backends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshots {
    pub slots: Vec<Slot>,
    pub prepared: Vec<PreparedTransaction>,
    pub standbys: Vec<Standby>,
    /// Backends that run VACUUM: others do not heed their snapshots.
    pub vacuums: BTreeSet<i32>,
}

//= pg18 view-pg-replication-slots
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    pub name: String,
    pub is_active: bool,
    /// In transactions.
    pub xmin_age: Option<u64>,
    /// Bytes of WAL that are kept for it.
    pub kept: Option<u64>,
}

//= pg18 view-pg-prepared-xacts
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreparedTransaction {
    pub name: String,
    pub owner: String,
    pub age: Duration,
}

/// With `hot_standby_feedback`.
//= pg18 monitoring-stats#MONITORING-PG-STAT-REPLICATION-VIEW
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standby {
    pub name: String,
    pub xmin_age: u64,
}

/// A standby that streams from it.
//= pg18 monitoring-stats#MONITORING-PG-STAT-REPLICATION-VIEW
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replica {
    pub name: String,
    /// `None`: by a Unix socket.
    pub address: Option<String>,
}

/// Of this database.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statements {
    pub counted_for: Duration,
    /// Time of all statements together.
    pub total: Duration,
    /// Those that took most.
    pub top: Vec<Statement>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statement {
    pub text: String,
    pub calls: u64,
    pub time: Duration,
    /// Bytes that it wrote to temporary files.
    pub temp_bytes: u64,
}

impl Postgres {
    /// The value of a setting; empty if it has none in this version.
    #[must_use]
    pub fn setting(&self, name: &str) -> &str {
        self.settings.get(name).map_or("", String::as_str)
    }

    /// A number among them; `None`: there is none.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<i64> {
        self.setting(name).parse().ok()
    }

    /// Connections that are not for superusers only.
    //= pg18 runtime-config-connection#GUC-SUPERUSER-RESERVED-CONNECTIONS
    #[must_use]
    pub fn connections_max(&self) -> Option<u64> {
        u64::try_from(self.number("max_connections")? - self.reserved()).ok()
    }

    /// Connections of `max_connections` that are for superusers, or for `pg_use_reserved_connections`.
    #[must_use]
    pub fn reserved(&self) -> i64 {
        let reserved = ["superuser_reserved_connections", "reserved_connections"];
        reserved.into_iter().filter_map(|name| self.number(name)).sum()
    }

    /// Backends of clients. The kind of another role's is not told without `pg_monitor`, but that it is somebody's.
    pub fn clients(&self) -> impl Iterator<Item = &Backend> {
        let is_client = |kind: &str| kind == "client backend";
        self.backends.iter().filter(move |backend| {
            backend.kind.as_deref().map_or(backend.user.is_some() && backend.database.is_some(), is_client)
        })
    }

    /// The figures of the database that was looked at.
    #[must_use]
    pub fn own_database(&self) -> Option<&DatabaseFigures> {
        self.databases.iter().find(|database| database.name == self.identity.database)
    }

    /// For how many days its statistics have been counted, or a few more. A day at least: the first hours of a server say little. `None`: not known.
    #[must_use]
    pub fn days_counted(&self) -> Option<f64> {
        let own = self.own_database()?;
        let time = own.counted_for.or(own.counted_at_most)?;
        Some((time.as_secs_f64() / 86_400.0).max(1.0))
    }
}
