//! Metrics for Prometheus, made of the tables that the console shows, so that the two always agree.
//!
//! ```text
//!   SHOW POOLS, STATS_TOTALS, DATABASES, LISTS ─► the names of pgbouncer_exporter 0.12
//!   our own tables ─────────────────────────────► pgweir_TABLE_COLUMN: texts are labels, numbers are values
//! ```
//!
//! Promises exposition format 0.0.4, each series once, and no text that a client has sent but names of databases and users. Looks at pools only,
//! never at each client: a scrape costs a worker as much as `SHOW POOLS`.
//!
//! [Prometheus's exposition formats](https://prometheus.io/docs/instrumenting/exposition_formats/)

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::admin::Show;
use crate::show_input::ShowInput;
use crate::table::{Table, Type};
use crate::version;

/// A column of PgBouncer's, and what pgbouncer_exporter makes of it: the metric's name without that of the table, and the factor to seconds.
type Named = (&'static str, &'static str, f64);

const MICROS: f64 = 1e-6;

/// A table of PgBouncer's as pgbouncer_exporter exports it.
struct Exported {
    show: Show,
    prefix: &'static str,
    kind: &'static str,
    labels: &'static [&'static str],
    columns: &'static [Named],
}

const EXPORTED: [Exported; 3] = [
    Exported {
        show: Show::StatsTotals,
        prefix: "pgbouncer_stats_totals",
        kind: "counter",
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
        prefix: "pgbouncer_pools",
        kind: "gauge",
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
        prefix: "pgbouncer_databases",
        kind: "gauge",
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
const LISTS: [(&str, &str); 11] = [
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

/// Our own tables, and the columns of each that are labels. Texts that are no labels are left out: they are for people.
const OWN: [(Show, &str, &[&str]); 8] = [
    (Show::Classes, "classes", &["class"]),
    (Show::Limits, "limits", &["class", "kind", "fingerprint"]),
    (Show::Lanes, "lanes", &["database", "user"]),
    (Show::Fidelity, "fidelity", &["database", "user", "pool_fidelity"]),
    (Show::FidelityReasons, "fidelity_reasons", &["database", "user", "reason"]),
    (Show::Sizing, "sizing", &["database", "user"]),
    (Show::Events, "events", &["database", "user", "class", "event", "sqlstate"]),
    (Show::Workers, "workers", &["worker"]),
];

/// All metrics, as text.
#[must_use]
pub fn text(input: &ShowInput<'_>) -> String {
    let mut page = Page::default();
    page.put("pgbouncer_up", "gauge", &[], "1");
    page.put("pgbouncer_version_info", "gauge", &[("version", version::text())], "1");
    let pools = &input.settings.global.pools;
    page.put("pgbouncer_config_max_client_connections", "gauge", &[], &pools.max_client_conn.to_string());
    page.put("pgbouncer_config_max_user_connections", "gauge", &[], &pools.max_user_connections.to_string());
    let table_of = |show: Show| show.table(input).expect("only HELP is none");
    let lists = table_of(Show::Lists);
    for (list, name) in LISTS {
        let row = lists.rows.iter().find(|row| row[0].as_deref() == Some(list));
        if let Some(items) = row.and_then(|row| row[1].as_deref()) {
            page.put(&format!("pgbouncer_{name}"), "gauge", &[], items);
        }
    }
    for exported in &EXPORTED {
        export(&mut page, exported, &table_of(exported.show));
    }
    for (show, name, labels) in OWN {
        show_own(&mut page, name, labels, &table_of(show));
    }
    page.put("pgweir_log_lines_lost_total", "counter", &[], &input.log_lines_lost.to_string());
    page.finish()
}

fn export(page: &mut Page, exported: &Exported, table: &Table) {
    let place = |name: &str| table.columns.iter().position(|column| column.name == name).expect("the table has it");
    for row in &table.rows {
        let label = |name: &&'static str| (*name, row[place(name)].clone().unwrap_or_default());
        let labels: Vec<(&str, String)> = exported.labels.iter().map(label).collect();
        for (column, name, factor) in exported.columns {
            let Some(mut number) = row[place(column)].as_deref().and_then(|value| value.parse::<f64>().ok()) else {
                continue;
            };
            if *column == "maxwait" {
                let micros = row[place("maxwait_us")].as_deref().and_then(|value| value.parse::<f64>().ok());
                number += micros.unwrap_or_default() * MICROS;
            }
            page.put(&format!("{}_{name}", exported.prefix), exported.kind, &labels, &(number * factor).to_string());
        }
    }
}

/// Names and values.
type Labels = Vec<(&'static str, String)>;

/// What SHOW has of our own: numbers of the same labels are added up, since a lane's rows differ by texts.
fn show_own(page: &mut Page, table_name: &str, names: &[&'static str], table: &Table) {
    let is_label = |name: &str| names.contains(&name);
    let mut sums: BTreeMap<(&str, Labels), f64> = BTreeMap::new();
    for row in &table.rows {
        let cells = || table.columns.iter().zip(row);
        let labels = cells().filter(|(column, _)| is_label(column.name));
        let labels: Labels = labels.filter_map(|(column, value)| Some((column.name, value.clone()?))).collect();
        for (column, value) in cells().filter(|(column, _)| !is_label(column.name) && column.kind != Type::Text) {
            if let Some(number) = value.as_deref().and_then(|value| value.parse::<f64>().ok()) {
                *sums.entry((column.name, labels.clone())).or_default() += number;
            }
        }
    }
    for ((column, labels), number) in sums {
        page.put(&format!("pgweir_{table_name}_{column}"), "untyped", &labels, &number.to_string());
    }
}

/// The lines, by metric: all lines of one have to stand together.
#[derive(Default)]
struct Page {
    families: BTreeMap<String, (&'static str, BTreeSet<String>)>,
}

impl Page {
    fn put(&mut self, name: &str, kind: &'static str, labels: &[(&str, String)], value: &str) {
        let mut line = name.to_owned();
        for (at, (label, text)) in labels.iter().enumerate() {
            line.push(if at == 0 { '{' } else { ',' });
            write!(line, "{label}=\"{}\"", escaped(text)).expect("a string takes all");
        }
        if !labels.is_empty() {
            line.push('}');
        }
        write!(line, " {value}").expect("a string takes all");
        self.families.entry(name.to_owned()).or_insert((kind, BTreeSet::new())).1.insert(line);
    }

    fn finish(self) -> String {
        let mut text = String::new();
        for (name, (kind, lines)) in self.families {
            writeln!(text, "# TYPE {name} {kind}").expect("a string takes all");
            for line in lines {
                text.push_str(&line);
                text.push('\n');
            }
        }
        text
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_lines_of_a_metric_stand_together() {
        let mut page = Page::default();
        page.put("b", "gauge", &[("x", "a\"b\\c\nd".to_owned()), ("y", String::new())], "1");
        page.put("a", "counter", &[], "2");
        page.put("b", "gauge", &[("x", "e".to_owned())], "3");
        let expected = "# TYPE a counter\na 2\n# TYPE b gauge\nb{x=\"a\\\"b\\\\c\\nd\",y=\"\"} 1\nb{x=\"e\"} 3\n";
        assert_eq!(page.finish(), expected);
    }
}
