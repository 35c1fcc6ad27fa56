//! Which columns of the console's tables are metrics, and what they are called.

use super::page::Kind;
use crate::admin::Show;

/// A column of PgBouncer's, and what pgbouncer_exporter makes of it: the metric's name without that of the table, and the factor to seconds.
pub(super) type Named = (&'static str, &'static str, f64);

pub(super) const MICROS: f64 = 1e-6;

/// A table of PgBouncer's as pgbouncer_exporter exports it.
pub(super) struct Exported {
    pub(super) show: Show,
    /// In SHOW.
    pub(super) word: &'static str,
    pub(super) prefix: &'static str,
    pub(super) kind: Kind,
    pub(super) labels: &'static [&'static str],
    pub(super) columns: &'static [Named],
}

pub(super) const EXPORTED: [Exported; 3] = [
    Exported {
        show: Show::StatsTotals,
        word: "STATS_TOTALS",
        prefix: "pgbouncer_stats_totals",
        kind: Kind::Counter,
        labels: &["database"],
        columns: &[
            ("query_count", "queries_pooled_total", 1.0),
            ("query_time", "queries_duration_seconds_total", MICROS),
            ("bytes_received", "received_bytes_total", 1.0),
            ("bytes_sent", "sent_bytes_total", 1.0),
            ("wait_time", "client_wait_seconds_total", MICROS),
            ("xact_count", "sql_transactions_pooled_total", 1.0),
            ("xact_time", "server_in_transaction_seconds_total", MICROS),
            ("client_parse_count", "client_parses_total", 1.0),
            ("server_parse_count", "server_parses_total", 1.0),
            ("bind_count", "binds_total", 1.0),
            ("server_assignment_count", "server_assignments_total", 1.0),
        ],
    },
    Exported {
        show: Show::Pools,
        word: "POOLS",
        prefix: "pgbouncer_pools",
        kind: Kind::Gauge,
        labels: &["database", "user"],
        columns: &[
            ("cl_active", "client_active_connections", 1.0),
            ("cl_active_cancel_req", "client_active_cancel_connections", 1.0),
            ("cl_waiting", "client_waiting_connections", 1.0),
            ("cl_waiting_cancel_req", "client_waiting_cancel_connections", 1.0),
            ("sv_active", "server_active_connections", 1.0),
            ("sv_active_cancel", "server_active_cancel_connections", 1.0),
            ("sv_being_canceled", "server_being_canceled_connections", 1.0),
            ("sv_idle", "server_idle_connections", 1.0),
            ("sv_used", "server_used_connections", 1.0),
            ("sv_tested", "server_testing_connections", 1.0),
            ("sv_login", "server_login_connections", 1.0),
            ("maxwait", "client_maxwait_seconds", 1.0),
        ],
    },
    Exported {
        show: Show::Databases,
        word: "DATABASES",
        prefix: "pgbouncer_databases",
        kind: Kind::Gauge,
        labels: &["name", "host", "port", "database", "force_user", "pool_mode"],
        columns: &[
            ("pool_size", "pool_size", 1.0),
            ("reserve_pool_size", "reserve_pool", 1.0),
            ("max_connections", "max_connections", 1.0),
            ("current_connections", "current_connections", 1.0),
            ("paused", "paused", 1.0),
            ("disabled", "disabled", 1.0),
        ],
    },
];

/// Rows of SHOW LISTS, as pgbouncer_exporter names them.
pub(super) const LISTS: [(&str, &str); 11] = [
    ("databases", "databases"),
    ("users", "users"),
    ("pools", "pools"),
    ("free_clients", "free_clients"),
    ("used_clients", "used_clients"),
    ("login_clients", "login_clients"),
    ("free_servers", "free_servers"),
    ("used_servers", "used_servers"),
    ("dns_names", "cached_dns_names"),
    ("dns_zones", "cached_dns_zones"),
    ("dns_queries", "in_flight_dns_queries"),
];

/// A table of our own: `pgweir_TABLE_COLUMN` for each column that is a number.
pub(super) struct Own {
    pub(super) show: Show,
    /// In the names of its metrics, and in SHOW.
    pub(super) word: &'static str,
    /// Columns that are labels. Other texts are for people, and left out.
    pub(super) labels: &'static [&'static str],
    /// Columns of counts are numeric, and never fall. These are numeric, and are no counts.
    pub(super) gauges: &'static [&'static str],
    /// Numbers that cannot be added up, of rows that differ by nothing that is a label.
    pub(super) left_out: &'static [&'static str],
}

impl Own {
    const fn new(show: Show, word: &'static str, labels: &'static [&'static str]) -> Own {
        Own { show, word, labels, gauges: &[], left_out: &[] }
    }
}

pub(super) const OWN: [Own; 9] = [
    Own { gauges: &["share", "maxwait_seconds", "starvation"], ..Own::new(Show::Classes, "classes", &["class"]) },
    Own::new(Show::Limits, "limits", &["class", "kind", "fingerprint"]),
    // Statements are forgotten that are long no more.
    Own { gauges: &["count"], left_out: &["avg_time"], ..Own::new(Show::Lanes, "lanes", &["database", "user"]) },
    Own::new(Show::Fidelity, "fidelity", &["database", "user", "pool_fidelity"]),
    Own::new(Show::FidelityReasons, "fidelity_reasons", &["database", "user", "reason"]),
    Own::new(Show::Sizing, "sizing", &["database", "user"]),
    Own::new(Show::Events, "events", &["database", "user", "class", "event", "sqlstate"]),
    Own::new(Show::Workers, "workers", &["worker"]),
    Own { left_out: &["observed", "retry_in", "probed"], ..Own::new(Show::Hosts, "hosts", &["host", "port"]) },
];
