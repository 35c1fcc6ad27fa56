//! What PostgreSQL is asked, and what its answers mean. The statements are for PostgreSQL 14 to 18.
//!
//! Promises to change nothing and to be in nobody's way: they read catalogues and statistics; sizes are those of the last VACUUM or ANALYZE, because
//! asking for present ones locks each table. A session that has run [`PREPARATION`] gives up after five seconds a statement, and
//! after one second behind a lock.

use std::time::Duration;

use observe::{ACTIVITY, Blocking, LOCKS, backends, locks, prepared as prepared_holders};

use super::answer::{Answer, Cells};
use super::{Ask, part};
use crate::facts::Unseen;
use crate::postgres::{
    DatabaseFigures, Duplicate, ForeignKey, Identity, Indexes, Postgres, PreparedTransaction, Replica, Slot, Snapshots,
    Standby, Statement, Statements, TableFigures, UnusedIndex,
};
use crate::words::quoted;

/// What the session is told first, one statement at a time.
//= pg18 runtime-config-client#GUC-STATEMENT-TIMEOUT
pub const PREPARATION: [&str; 7] = [
    "SET application_name = 'pgweir doctor'",
    "SET default_transaction_read_only = on",
    "SET statement_timeout = '5s'",
    "SET lock_timeout = '1s'",
    "SET client_encoding = 'UTF8'",
    "SET search_path = pg_catalog",
    "SET max_parallel_workers_per_gather = 0",
];

/// Patroni gives these two settings, among others, to PostgreSQL's command line.
const IDENTITY: &str = "SELECT current_setting('server_version') AS version, current_database() AS database, current_user AS role, \
pg_has_role('pg_monitor', 'USAGE') AS sees_all, pg_is_in_recovery() AS is_standby, pg_backend_pid() AS pid, \
(SELECT count(*) = 2 FROM pg_settings WHERE name IN ('cluster_name', 'wal_log_hints') AND source = 'command line') AS is_of_patroni";

/// `reset_val`: our own SET does not count.
const SETTINGS: &str = "SELECT name, reset_val FROM pg_settings WHERE name IN ('max_connections', 'port', 'cluster_name', \
'superuser_reserved_connections', 'reserved_connections', 'idle_in_transaction_session_timeout', 'statement_timeout', \
'transaction_timeout', 'lock_timeout', 'log_lock_waits', 'log_temp_files', 'work_mem', 'autovacuum', 'track_counts', \
'autovacuum_max_workers', 'autovacuum_freeze_max_age', 'vacuum_failsafe_age', 'autovacuum_multixact_freeze_max_age', \
'vacuum_multixact_failsafe_age', 'autovacuum_vacuum_cost_limit', 'vacuum_cost_limit', 'autovacuum_vacuum_cost_delay', \
'vacuum_cost_delay', 'password_encryption', 'ssl', 'deadlock_timeout', \
'max_slot_wal_keep_size', 'idle_replication_slot_timeout', 'pg_stat_statements.track_utility')";

const ROLE_SETTINGS: &str = "SELECT DISTINCT split_part(unnest(setconfig), '=', 1) AS name FROM pg_db_role_setting";

/// Before PostgreSQL 15 each database has the time at which its statistics began; since then only one whose statistics were reset. Those of the whole
/// server have it always, and begin anew when all statistics are lost.
const DATABASES: &str = "SELECT d.datname, age(d.datfrozenxid) AS frozen_age, mxid_age(d.datminmxid) AS multixact_age, s.temp_files, s.temp_bytes, \
extract(epoch FROM clock_timestamp() - s.stats_reset) AS counted_for, \
(SELECT extract(epoch FROM clock_timestamp() - least(a.stats_reset, b.stats_reset, w.stats_reset)) \
FROM pg_stat_archiver a, pg_stat_bgwriter b, pg_stat_wal w) AS counted_at_most \
FROM pg_database d LEFT JOIN pg_stat_database s ON s.datid = d.oid WHERE d.datallowconn";

/// With the number of dead rows at which autovacuum comes. The parameter of PostgreSQL 18 is not there before.
//= pg18 routine-vacuuming#AUTOVACUUM
const TABLES: &str = "\
WITH tables AS (SELECT s.*, c.reltuples, c.reloptions, \
coalesce((SELECT option_value FROM pg_options_to_table(c.reloptions) WHERE option_name = 'autovacuum_vacuum_threshold'), \
current_setting('autovacuum_vacuum_threshold'))::float8 AS base, \
coalesce((SELECT option_value FROM pg_options_to_table(c.reloptions) WHERE option_name = 'autovacuum_vacuum_scale_factor'), \
current_setting('autovacuum_vacuum_scale_factor'))::float8 AS factor, \
coalesce((SELECT option_value FROM pg_options_to_table(c.reloptions) WHERE option_name = 'autovacuum_vacuum_max_threshold'), \
current_setting('autovacuum_vacuum_max_threshold', true))::float8 AS most, \
coalesce((SELECT option_value FROM pg_options_to_table(c.reloptions) WHERE option_name = 'autovacuum_enabled'), 'true') AS enabled \
FROM pg_stat_user_tables s JOIN pg_class c ON c.oid = s.relid WHERE c.relpersistence <> 't'), \
due AS (SELECT *, least(base + factor * greatest(reltuples, 0), nullif(most, -1)) AS threshold FROM tables), \
dead AS (SELECT * FROM due ORDER BY n_dead_tup / greatest(threshold, 1) DESC LIMIT 20), \
scanned AS (SELECT * FROM due ORDER BY seq_tup_read DESC NULLS LAST LIMIT 20) \
SELECT schemaname, relname, n_live_tup, n_dead_tup, threshold, enabled IN ('false', 'off', 'no', '0') AS is_switched_off, \
extract(epoch FROM clock_timestamp() - greatest(last_vacuum, last_autovacuum)) AS vacuumed, seq_scan, seq_tup_read, \
coalesce(idx_scan, 0) AS idx_scan \
FROM (SELECT * FROM dead UNION SELECT * FROM scanned) AS chosen ORDER BY 1, 2";

/// No constraint, no replica identity and no CLUSTER needs them. Parts of an index of a partitioned table are left out: they cannot be dropped alone.
//= pg18 sql-alterindex
const UNUSED: &str = "\
SELECT s.schemaname, s.relname, s.indexrelname, c.relpages::bigint * current_setting('block_size')::bigint AS size, \
t.n_tup_ins + t.n_tup_upd + t.n_tup_del AS writes \
FROM pg_stat_user_indexes s JOIN pg_index i USING (indexrelid) JOIN pg_class c ON c.oid = s.indexrelid \
JOIN pg_stat_user_tables t ON t.relid = s.relid \
WHERE s.idx_scan = 0 AND NOT i.indisunique AND NOT i.indisreplident AND NOT i.indisclustered AND NOT i.indisexclusion \
AND NOT c.relispartition \
AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = s.indexrelid) \
ORDER BY c.relpages DESC LIMIT 50";

/// Of two that are equal but for uniqueness, the one that no constraint needs; else the younger one. A unique one only if the other takes the same
/// rows, at the same time: `indnullsnotdistinct` is there since PostgreSQL 15. Parts of an index of a partitioned table cannot be dropped alone.
//= pg18 catalog-pg-index
const DUPLICATES: &str = "\
WITH indexes AS (SELECT i.*, c.relname AS name, c.relam, c.relpages, c.relispartition, \
to_jsonb(i) ->> 'indnullsnotdistinct' AS nulls, \
EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid) AS is_needed \
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid \
JOIN pg_namespace n ON n.oid = t.relnamespace \
WHERE i.indisvalid AND c.relkind = 'i' AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')) \
SELECT n.nspname AS schemaname, t.relname, y.name AS indexrelname, x.name AS same_as, \
y.relpages::bigint * current_setting('block_size')::bigint AS size \
FROM indexes x JOIN indexes y ON x.indrelid = y.indrelid AND x.indexrelid <> y.indexrelid AND x.relam = y.relam \
JOIN pg_class t ON t.oid = x.indrelid JOIN pg_namespace n ON n.oid = t.relnamespace \
WHERE NOT y.is_needed AND NOT y.indisreplident AND x.indnkeyatts = y.indnkeyatts AND x.indkey::text = y.indkey::text AND x.indclass::text = y.indclass::text \
AND x.indcollation::text = y.indcollation::text AND x.indoption::text = y.indoption::text \
AND NOT y.relispartition \
AND (NOT y.indisunique OR (x.indisunique AND x.indimmediate = y.indimmediate AND x.nulls IS NOT DISTINCT FROM y.nulls)) \
AND (x.is_needed OR (x.indisunique AND NOT y.indisunique) OR x.indexrelid < y.indexrelid) \
AND CASE WHEN x.indexprs IS NULL AND y.indexprs IS NULL AND x.indpred IS NULL AND y.indpred IS NULL THEN true \
ELSE pg_get_expr(x.indexprs, x.indrelid) IS NOT DISTINCT FROM pg_get_expr(y.indexprs, y.indrelid) \
AND pg_get_expr(x.indpred, x.indrelid) IS NOT DISTINCT FROM pg_get_expr(y.indpred, y.indrelid) END \
ORDER BY y.relpages DESC LIMIT 50";

/// Foreign keys whose columns no index begins with, in any order.
const FOREIGN_KEYS: &str = "\
SELECT n.nspname AS schemaname, c.relname, k.conname, s.n_live_tup, f.relname AS target, fs.n_tup_del AS target_deletes, \
(SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY u.place) FROM unnest(k.conkey) WITH ORDINALITY AS u(number, place) \
JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.number) AS columns \
FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace \
JOIN pg_class f ON f.oid = k.confrelid JOIN pg_stat_user_tables s ON s.relid = k.conrelid \
LEFT JOIN pg_stat_user_tables fs ON fs.relid = k.confrelid \
WHERE k.contype = 'f' AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = k.conrelid AND i.indisvalid AND i.indpred IS NULL \
AND (i.indkey::int2[])[0:cardinality(k.conkey) - 1] @> k.conkey) \
ORDER BY s.n_live_tup DESC LIMIT 50";

const SLOTS: &str = "SELECT slot_name, active, greatest(age(xmin), age(catalog_xmin)) AS xmin_age, \
CASE WHEN NOT pg_is_in_recovery() THEN pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint END AS kept \
FROM pg_replication_slots";

const PREPARED: &str = "SELECT gid, owner, extract(epoch FROM clock_timestamp() - prepared) AS age FROM pg_prepared_xacts ORDER BY prepared LIMIT 20";

const STANDBYS: &str =
    "SELECT application_name, age(backend_xmin) AS xmin_age FROM pg_stat_replication WHERE backend_xmin IS NOT NULL";

/// Programs that only keep the log replay nothing. A subscriber's slot is logical.
const REPLICAS: &str = "SELECT r.application_name, host(r.client_addr) AS client_addr FROM pg_stat_replication r \
WHERE r.replay_lsn IS NOT NULL \
AND NOT EXISTS (SELECT FROM pg_replication_slots s WHERE s.active_pid = r.pid AND s.slot_type = 'logical') ORDER BY 1, 2";

const VACUUMS: &str = "SELECT pid FROM pg_stat_progress_vacuum";

const EXTENSION: &str = "SELECT n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace \
WHERE e.extname = 'pg_stat_statements'";

/// Asks a server all that rules want to know, over a session that has run [`PREPARATION`].
///
/// # Errors
/// It does not even say who it is, in its words.
pub fn postgres(place: String, ask: &mut Ask<'_>, unseen: &mut Vec<Unseen>) -> Result<Postgres, String> {
    let identity = identity(place, &ask(IDENTITY)?);
    if !identity.sees_all {
        unseen.push(Unseen {
            what: "backends of other roles, their statements, standbys".to_owned(),
            why: format!("the role {} has not the rights of pg_monitor", identity.role),
            mend: Some(format!("GRANT pg_monitor TO {};", quoted(&identity.role))),
        });
    }
    if identity.is_standby {
        unseen.push(Unseen {
            what: "tables, indexes, autovacuum, the age of rows".to_owned(),
            why: "this server is a standby, and what mends them is done on the primary".to_owned(),
            mend: Some("pgweir doctor --postgres 'postgres://USER@PRIMARY/DATABASE'".to_owned()),
        });
    }
    let mut read = Postgres { identity, ..Postgres::default() };
    read.settings = part(ask, unseen, "settings", SETTINGS, |answer| {
        answer.cells().map(|row| (row.text("name"), row.text("reset_val"))).collect()
    });
    read.role_settings = part(ask, unseen, "settings of roles", ROLE_SETTINGS, |answer| {
        answer.cells().map(|row| row.text("name")).collect()
    });
    read.backends = part(ask, unseen, "backends", ACTIVITY, |answer| backends(&answer.rows));
    (read.blocking, read.prepared_holders) = part(ask, unseen, "locks", LOCKS, |answer| {
        (Blocking::of(&locks(&answer.rows)), prepared_holders(&answer.rows))
    });
    read.databases = part(ask, unseen, "databases", DATABASES, |answer| answer.all(database));
    read.tables = part(ask, unseen, "tables", TABLES, |answer| answer.all(table));
    read.indexes = Indexes {
        unused: part(ask, unseen, "unused indexes", UNUSED, |answer| answer.all(unused)),
        duplicates: part(ask, unseen, "duplicate indexes", DUPLICATES, |answer| answer.all(duplicate)),
        foreign_keys: part(ask, unseen, "foreign keys", FOREIGN_KEYS, |answer| answer.all(foreign_key)),
    };
    read.snapshots = Snapshots {
        slots: part(ask, unseen, "replication slots", SLOTS, |answer| answer.all(slot)),
        prepared: part(ask, unseen, "prepared transactions", PREPARED, |answer| answer.all(prepared)),
        standbys: part(ask, unseen, "standbys", STANDBYS, |answer| answer.all(standby)),
        vacuums: part(ask, unseen, "vacuums under way", VACUUMS, |answer| {
            answer.cells().map(|row| row.number("pid")).collect()
        }),
    };
    read.replicas = part(ask, unseen, "standbys", REPLICAS, |answer| answer.all(replica));
    read.statements = statements(ask, unseen);
    Ok(read)
}

fn identity(place: String, answer: &Answer) -> Identity {
    let Some(row) = answer.cells().next() else { return Identity { place, ..Identity::default() } };
    Identity {
        place,
        version: row.text("version"),
        database: row.text("database"),
        role: row.text("role"),
        sees_all: row.is_true("sees_all"),
        is_standby: row.is_true("is_standby"),
        is_of_patroni: row.is_true("is_of_patroni"),
        pid: row.number("pid"),
    }
}

fn database(row: Cells<'_>) -> DatabaseFigures {
    DatabaseFigures {
        name: row.text("datname"),
        frozen_age: row.number("frozen_age"),
        multixact_age: row.number("multixact_age"),
        temp_files: row.number("temp_files"),
        temp_bytes: row.number("temp_bytes"),
        counted_for: row.maybe_seconds("counted_for"),
        counted_at_most: row.maybe_seconds("counted_at_most"),
    }
}

fn table(row: Cells<'_>) -> TableFigures {
    TableFigures {
        schema: row.text("schemaname"),
        name: row.text("relname"),
        live: row.number("n_live_tup"),
        dead: row.number("n_dead_tup"),
        threshold: row.number("threshold"),
        is_switched_off: row.is_true("is_switched_off"),
        vacuumed: row.maybe_seconds("vacuumed"),
        sequential_scans: row.number("seq_scan"),
        sequential_rows: row.number("seq_tup_read"),
        index_scans: row.number("idx_scan"),
    }
}

fn unused(row: Cells<'_>) -> UnusedIndex {
    UnusedIndex {
        schema: row.text("schemaname"),
        table: row.text("relname"),
        name: row.text("indexrelname"),
        size: row.number("size"),
        writes: row.number("writes"),
    }
}

fn duplicate(row: Cells<'_>) -> Duplicate {
    Duplicate {
        schema: row.text("schemaname"),
        table: row.text("relname"),
        name: row.text("indexrelname"),
        same_as: row.text("same_as"),
        size: row.number("size"),
    }
}

fn foreign_key(row: Cells<'_>) -> ForeignKey {
    ForeignKey {
        schema: row.text("schemaname"),
        table: row.text("relname"),
        name: row.text("conname"),
        columns: row.text("columns"),
        target: row.text("target"),
        rows: row.number("n_live_tup"),
        target_deletes: row.number("target_deletes"),
    }
}

fn slot(row: Cells<'_>) -> Slot {
    Slot {
        name: row.text("slot_name"),
        is_active: row.is_true("active"),
        xmin_age: row.maybe("xmin_age"),
        kept: row.maybe("kept"),
    }
}

fn prepared(row: Cells<'_>) -> PreparedTransaction {
    let age = row.maybe_seconds("age").unwrap_or_default();
    PreparedTransaction { name: row.text("gid"), owner: row.text("owner"), age }
}

fn standby(row: Cells<'_>) -> Standby {
    Standby { name: row.text("application_name"), xmin_age: row.number("xmin_age") }
}

fn replica(row: Cells<'_>) -> Replica {
    Replica { name: row.text("application_name"), address: row.get("client_addr").map(str::to_owned) }
}

/// `pg_stat_statements`, in whichever schema it was made.
//= pg18 pgstatstatements
fn statements(ask: &mut Ask<'_>, unseen: &mut Vec<Unseen>) -> Option<Statements> {
    let mut miss = |why: String, mend: &str| {
        unseen.push(Unseen { what: "statements and their times".to_owned(), why, mend: Some(mend.to_owned()) });
    };
    let found = match ask(EXTENSION) {
        Ok(answer) => answer.cells().next().map(|row| quoted(&row.text("nspname"))),
        Err(why) => {
            miss(why, "CREATE EXTENSION pg_stat_statements;");
            return None;
        }
    };
    let Some(schema) = found else {
        let mend = "CREATE EXTENSION pg_stat_statements; -- after shared_preload_libraries = 'pg_stat_statements' and a restart";
        miss("pg_stat_statements is not in this database".to_owned(), mend);
        return None;
    };
    let sql = format!(
        "WITH own AS (SELECT s.* FROM {schema}.pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid \
         WHERE d.datname = current_database()) \
         SELECT query, calls, total_exec_time, temp_blks_written * current_setting('block_size')::bigint AS temp_bytes, \
         (SELECT sum(total_exec_time) FROM own) AS total, \
         (SELECT extract(epoch FROM clock_timestamp() - stats_reset) FROM {schema}.pg_stat_statements_info) AS counted_for \
         FROM own ORDER BY total_exec_time DESC LIMIT 10"
    );
    match ask(&sql) {
        Ok(answer) => Some(of_statements(&answer)),
        Err(why) => {
            miss(why, "ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'; -- then restart PostgreSQL");
            None
        }
    }
}

fn of_statements(answer: &Answer) -> Statements {
    let Some(first) = answer.cells().next() else { return Statements::default() };
    let ms =
        |row: Cells<'_>, name: &str| Duration::try_from_secs_f64(row.number::<f64>(name) / 1000.0).unwrap_or_default();
    Statements {
        counted_for: first.maybe_seconds("counted_for").unwrap_or_default(),
        total: ms(first, "total"),
        top: answer.all(|row| Statement {
            text: row.text("query"),
            calls: row.number("calls"),
            time: ms(row, "total_exec_time"),
            temp_bytes: row.number("temp_bytes"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_is_refused_is_unseen_and_the_others_are_read() {
        let mut ask = |sql: &str| {
            if sql == IDENTITY {
                let names =
                    ["version", "database", "role", "sees_all", "is_standby", "pid"].map(str::to_owned).to_vec();
                let row = ["18.1", "shop", "o\"b", "f", "f", "7"].map(|value| Some(value.to_owned())).to_vec();
                return Ok(Answer { names, rows: vec![row] });
            }
            if sql == TABLES {
                Err("57014: canceling statement due to lock timeout".to_owned())
            } else {
                Ok(Answer::default())
            }
        };
        let mut unseen = Vec::new();
        let read = postgres("here".to_owned(), &mut ask, &mut unseen).expect("it says who it is");
        assert_eq!((read.identity.version.as_str(), read.identity.pid), ("18.1", 7));
        let found: Vec<(&str, Option<&str>)> =
            unseen.iter().map(|unseen| (unseen.what.as_str(), unseen.mend.as_deref())).collect();
        assert_eq!(found[0].1, Some("GRANT pg_monitor TO \"o\"\"b\";"));
        assert_eq!(found[1], ("tables", None));
        assert_eq!(found[2].0, "statements and their times");
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn a_standby_says_once_what_needs_the_primary() {
        let count = |is_standby: &'static str| {
            let mut ask = |sql: &str| {
                let names = vec!["is_standby".to_owned()];
                let rows = vec![vec![Some(is_standby.to_owned())]];
                Ok(if sql == IDENTITY { Answer { names, rows } } else { Answer::default() })
            };
            let mut unseen = Vec::new();
            postgres("here".to_owned(), &mut ask, &mut unseen).expect("it says who it is");
            unseen.iter().filter(|unseen| unseen.why.contains("primary")).count()
        };
        assert_eq!((count("t"), count("f")), (1, 0));
    }

    #[test]
    fn a_server_that_does_not_answer_is_an_error() {
        let mut ask = |_: &str| Err("no answer: timed out".to_owned());
        assert!(postgres("here".to_owned(), &mut ask, &mut Vec::new()).is_err());
    }
}
