//! Metrics for Prometheus, made of the tables that the console shows, so that the two always agree.
//!
//! ```text
//!   SHOW POOLS, STATS_TOTALS, DATABASES, LISTS ─► the names of pgbouncer_exporter 0.12
//!   our own tables ─────────────────────────────► pgweir_TABLE_COLUMN: texts are labels, numbers are values
//!   SHOW HISTOGRAMS ────────────────────────────► pgweir_wait_seconds, pgweir_query_seconds, pgweir_transaction_seconds
//!   SHOW ACTIVITY, LOCK_COUNTS, HOLDERS, WAITS ─► sums over them: observed.rs
//! ```
//!
//! Promises: each series once, and no text that a client has sent but names of databases and users. A worker is looked at as for
//! `SHOW POOLS`: it counts its clients by what they do, and says nothing of each.

mod names;
mod observed;
mod page;

use std::collections::BTreeMap;

use machine::histogram::Histogram;

use crate::admin::show_histograms::{named, seconds};
use crate::averages::by_database;
use crate::plane::Exemplar;
use crate::show_input::ShowInput;
use crate::table::{Table, Type};
use crate::version;
use names::{EXPORTED, Exported, LISTS, MICROS, OWN, Own};
pub use page::Format;
use page::{Kind, Labels, Page};

/// All metrics, as text.
#[must_use]
pub fn text(input: &ShowInput<'_>, format: Format) -> String {
    let mut page = Page::new(format);
    put_single(&mut page, input);
    put_lists(&mut page, input);
    for exported in &EXPORTED {
        export(&mut page, exported, &exported.show.table(input).expect("only HELP is none"));
    }
    for own in &OWN {
        show_own(&mut page, own, &own.show.table(input).expect("only HELP is none"));
    }
    put_histograms(&mut page, input);
    put_logins(&mut page, input);
    observed::put(&mut page, input);
    page.finish()
}

fn put_single(page: &mut Page, input: &ShowInput<'_>) {
    let none = Labels::default();
    page.metric("pgbouncer_up", Kind::Gauge, "Always 1: whoever reads this has an answer.").put(&none, 1);
    let version = Labels::of([("version", version::text().as_str())]);
    page.metric("pgbouncer_version_info", Kind::Gauge, "The value of SHOW VERSION, as a label.").put(&version, 1);
    let build = Labels::of([("version", version::PGWEIR), ("compatible_with", version::PGBOUNCER)]);
    page.metric("pgweir_build_info", Kind::Gauge, "Versions, as labels.").put(&build, 1);
    let pools = &input.settings.global.pools;
    let mut config = |name: &str, key: &str, value: u32| {
        let help = format!("The setting {key}.");
        page.metric(&format!("pgbouncer_config_{name}"), Kind::Gauge, &help).put(&none, value);
    };
    config("max_client_connections", "max_client_conn", pools.max_client_conn);
    config("max_user_connections", "max_user_connections", pools.max_user_connections);
    page.metric("pgweir_log_lines_lost_total", Kind::Counter, "Lines of the log that could not be written.")
        .put(&none, input.log_lines_lost);
}

fn put_lists(page: &mut Page, input: &ShowInput<'_>) {
    let lists = crate::admin::Show::Lists.table(input).expect("only HELP is none");
    for (list, name) in LISTS {
        let row = lists.rows().find(|row| row[0] == Some(list));
        if let Some(items) = row.and_then(|row| row[1]) {
            let help = format!("The row {list} of SHOW LISTS.");
            page.metric(&format!("pgbouncer_{name}"), Kind::Gauge, &help).put(&Labels::default(), items);
        }
    }
}

fn export(page: &mut Page, exported: &Exported, table: &Table) {
    let place = |name: &str| table.columns.iter().position(|column| column.name == name).expect("the table has it");
    let rows: Vec<Vec<Option<&str>>> = table.rows().collect();
    let number = |row: &[Option<&str>], at: usize| row[at].and_then(|value| value.parse::<f64>().ok());
    let places: Vec<usize> = exported.labels.iter().map(|name| place(name)).collect();
    let labels_of = |row: &Vec<Option<&str>>| {
        let values = places.iter().map(|at| row[*at].unwrap_or_default());
        Labels::of(exported.labels.iter().copied().zip(values))
    };
    let labels: Vec<Labels> = rows.iter().map(labels_of).collect();
    for (column, name, factor) in exported.columns {
        let help = format!("The column {column} of SHOW {}.", exported.word);
        let name = format!("{}_{name}", exported.prefix);
        let mut metric = page.metric(&name, exported.kind, &help);
        let at = place(column);
        let micros_at = (*column == "maxwait").then(|| place("maxwait_us"));
        for (row, labels) in rows.iter().zip(&labels) {
            let Some(mut value) = number(row, at) else { continue };
            if let Some(micros_at) = micros_at {
                value += number(row, micros_at).unwrap_or_default() * MICROS;
            }
            metric.put(labels, value * factor);
        }
    }
}

/// What SHOW has of our own: numbers of the same labels are added up, since a lane's rows differ by texts.
fn show_own(page: &mut Page, own: &Own, table: &Table) {
    let is_label = |name: &str| own.labels.contains(&name);
    let rows: Vec<Vec<Option<&str>>> = table.rows().collect();
    let labels_of = |row: &Vec<Option<&str>>| {
        let labels = table.columns.iter().zip(row).filter(|(column, _)| is_label(column.name));
        Labels::of(labels.filter_map(|(column, value)| Some((column.name, (*value)?))))
    };
    let labels: Vec<Labels> = rows.iter().map(labels_of).collect();
    for (at, column) in table.columns.iter().enumerate() {
        if is_label(column.name) || column.kind == Type::Text || own.left_out.contains(&column.name) {
            continue;
        }
        let mut sums: BTreeMap<&Labels, f64> = BTreeMap::new();
        for (row, labels) in rows.iter().zip(&labels) {
            if let Some(number) = row[at].and_then(|value| value.parse::<f64>().ok()) {
                *sums.entry(labels).or_default() += number;
            }
        }
        let is_count = column.kind == Type::Numeric && !own.gauges.contains(&column.name);
        let (kind, end) = if is_count { (Kind::Counter, "_total") } else { (Kind::Gauge, "") };
        let name = format!("pgweir_{}_{}{end}", own.word, column.name);
        let help = format!("The column {} of SHOW {}.", column.name, own.word.to_uppercase());
        let mut metric = page.metric(&name, kind, &help);
        sums.into_iter().for_each(|(labels, number)| metric.put(labels, number));
    }
}

/// Of pools that have served somebody.
fn put_histograms(page: &mut Page, input: &ShowInput<'_>) {
    for (key, pool) in input.pools() {
        let labels = Labels::of([("database", &*key.database), ("user", &*key.user)]);
        let sums = [pool.totals.wait_us, pool.totals.query_us, pool.totals.transaction_us];
        for ((what, histogram), sum) in named(&pool.spans).into_iter().zip(sums) {
            if histogram.total() > 0 {
                let exemplars = input.exemplars.get(key).filter(|_| what == "wait");
                put_histogram(page, what, &labels, histogram, exemplars, sum);
            }
        }
    }
}

fn put_histogram(
    page: &mut Page,
    what: &str,
    labels: &Labels,
    histogram: &Histogram,
    exemplars: Option<&BTreeMap<usize, Exemplar>>,
    sum_us: u64,
) {
    let help = match what {
        "wait" => "How long sessions waited for a server, for each time that they got one.",
        "query" => "How long queries took, from when they were sent to a server until they were answered.",
        _ => "How long transactions took, from when a session got a server.",
    };
    let buckets = histogram.buckets().map(|(bound, count)| (bound.map(seconds), count));
    page.metric(&format!("pgweir_{what}_seconds"), Kind::Histogram, help).put_histogram(
        labels,
        buckets,
        exemplars,
        seconds(sum_us),
    );
}

fn put_logins(page: &mut Page, input: &ShowInput<'_>) {
    let mut logins = page.metric("pgweir_logins_total", Kind::Counter, "Clients that have logged in.");
    for (database, totals) in by_database(input.snapshots) {
        logins.put(&Labels::of([("database", &*database)]), totals.logins);
    }
    let mut refused = page.metric("pgweir_logins_refused_total", Kind::Counter, "Logins that were refused.");
    for (reason, count) in input.door.refused.counts() {
        refused.put(&Labels::of([("reason", reason)]), count);
    }
}
