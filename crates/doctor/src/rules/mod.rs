//! The rules, one file each: what is looked for, from where on it is found, why it matters, what mends it.

#[cfg(test)]
mod example;

mod autovacuum_behind;
mod autovacuum_workers;
mod client_timeout;
mod connection_demand;
mod duplicate_indexes;
mod foreign_keys;
mod heavy_statements;
mod idle_in_transaction;
mod idle_in_transaction_timeout;
mod idle_memory;
mod kept_wal;
mod lock_timeout;
mod lock_waits;
mod log_settings;
mod missing_indexes;
mod old_snapshots;
mod plain_passwords;
mod pool_sizes;
mod pool_waits;
mod server_tls;
mod strangers;
mod temp_files;
mod unused_indexes;
mod wraparound;

use crate::facts::Facts;
use crate::finding::Finding;

/// In the order in which findings of the same weight are told.
const RULES: [fn(&Facts) -> Option<Finding>; 24] = [
    connection_demand::find,
    lock_waits::find,
    idle_in_transaction::find,
    wraparound::find,
    old_snapshots::find,
    kept_wal::find,
    pool_waits::find,
    heavy_statements::find,
    pool_sizes::find,
    strangers::find,
    idle_memory::find,
    autovacuum_behind::find,
    autovacuum_workers::find,
    server_tls::find,
    plain_passwords::find,
    missing_indexes::find,
    foreign_keys::find,
    duplicate_indexes::find,
    unused_indexes::find,
    temp_files::find,
    client_timeout::find,
    idle_in_transaction_timeout::find,
    lock_timeout::find,
    log_settings::find,
];

/// All that is found, the weightiest first.
#[must_use]
pub fn examine(facts: &Facts) -> Vec<Finding> {
    let mut found: Vec<Finding> = RULES.iter().filter_map(|find| find(facts)).collect();
    found.sort_by_key(|finding| finding.weight);
    found
}

/// So many things of one kind are named.
const NAMED_MAX: usize = 5;

/// The first lines, and how many more there are.
fn first(lines: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut lines = lines.into_iter();
    let mut first: Vec<String> = lines.by_ref().take(NAMED_MAX).collect();
    match lines.count() {
        0 => {}
        more => first.push(format!("and {more} more")),
    }
    first
}

/// What a backend is, for people: its pid, and whose it is.
fn named(backend: &observe::Backend) -> String {
    let text = |value: &Option<String>| value.as_deref().filter(|value| !value.is_empty()).map(str::to_owned);
    let user = text(&backend.user).unwrap_or_else(|| "?".to_owned());
    let database = text(&backend.database).unwrap_or_else(|| "?".to_owned());
    let application = text(&backend.application_name).map(|name| format!(", {name}")).unwrap_or_default();
    let address = text(&backend.client_addr).map(|address| format!(", from {address}")).unwrap_or_default();
    format!("pid {} ({user} in {database}{application}{address})", backend.pid)
}

/// Its statement, if it is told.
fn statement(backend: &observe::Backend) -> String {
    let query = backend.query.as_deref().filter(|query| !query.is_empty());
    query.map(|query| format!(": {}", crate::words::shortened(query))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Weight;

    #[test]
    fn nothing_is_found_where_nothing_was_seen_or_all_is_well() {
        assert_eq!(examine(&Facts::default()), []);
        assert_eq!(examine(&example::healthy()), []);
    }

    #[test]
    fn the_weightiest_comes_first() {
        let mut facts = example::healthy();
        example::postgres(&mut facts).settings.insert("log_lock_waits".to_owned(), "off".to_owned());
        facts.asked.replicas = 100;
        let weights: Vec<Weight> = examine(&facts).iter().map(|finding| finding.weight).collect();
        assert_eq!(weights[0], Weight::Critical);
        assert_eq!(weights.last(), Some(&Weight::Notice));
        assert!(weights.is_sorted());
    }

    #[test]
    fn many_things_are_counted() {
        assert_eq!(first(["a".to_owned()]), ["a"]);
        assert_eq!(first((0..7).map(|n| n.to_string())), ["0", "1", "2", "3", "4", "and 2 more"]);
    }
}
