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
mod hosts;
mod hosts_without_role;
mod idle_in_transaction;
mod idle_in_transaction_timeout;
mod idle_memory;
mod kept_wal;
mod lock_timeout;
mod lock_waits;
mod log_settings;
mod missing_indexes;
mod old_snapshots;
mod one_host;
mod plain_passwords;
mod pool_sizes;
mod pool_waits;
mod server_tls;
mod strangers;
mod temp_files;
mod unique_names;
mod unused_indexes;
mod wraparound;

use crate::facts::Facts;
use crate::finding::Finding;

/// Where a rule is of use: what mends it may not run on a standby, or mend nothing there.
//= pg18 hot-standby#HOT-STANDBY-USERS
#[derive(Copy, Clone, PartialEq, Eq)]
enum On {
    Any,
    Primary,
}

type Rule = (On, fn(&Facts) -> Option<Finding>);

/// In the order in which findings of the same weight are told.
const RULES: [Rule; 27] = [
    (On::Any, connection_demand::find),
    (On::Any, one_host::find),
    (On::Any, hosts_without_role::find),
    (On::Any, lock_waits::find),
    (On::Any, idle_in_transaction::find),
    (On::Primary, wraparound::find),
    (On::Any, old_snapshots::find),
    (On::Any, kept_wal::find),
    (On::Any, pool_waits::find),
    (On::Any, heavy_statements::find),
    (On::Any, pool_sizes::find),
    (On::Any, strangers::find),
    (On::Any, idle_memory::find),
    (On::Primary, autovacuum_behind::find),
    (On::Primary, autovacuum_workers::find),
    (On::Any, server_tls::find),
    (On::Any, plain_passwords::find),
    (On::Primary, missing_indexes::find),
    (On::Primary, foreign_keys::find),
    (On::Primary, duplicate_indexes::find),
    (On::Primary, unused_indexes::find),
    (On::Any, temp_files::find),
    (On::Any, unique_names::find),
    (On::Any, client_timeout::find),
    (On::Any, idle_in_transaction_timeout::find),
    (On::Primary, lock_timeout::find),
    (On::Any, log_settings::find),
];

/// All that is found, the weightiest first.
#[must_use]
pub fn examine(facts: &Facts) -> Vec<Finding> {
    let is_standby = facts.postgres.as_ref().is_some_and(|postgres| postgres.identity.is_standby);
    let rules = RULES.iter().filter(|(on, _)| *on == On::Any || !is_standby);
    let mut found: Vec<Finding> = rules.filter_map(|(_, find)| find(facts)).collect();
    if is_standby {
        found.iter_mut().flat_map(|finding| &mut finding.mend).for_each(send_to_primary);
    }
    found.sort_by_key(|finding| finding.weight);
    found
}

/// Roles are changed on the primary only, and the standby has them from there.
fn send_to_primary(mend: &mut String) {
    if mend.starts_with("ALTER ROLE") {
        mend.push_str(if mend.contains("--") { "; on the primary" } else { " -- on the primary" });
    }
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
    fn on_a_standby_nothing_is_said_that_only_the_primary_mends() {
        let mut facts = example::healthy();
        let postgres = example::postgres(&mut facts);
        postgres.databases[0].frozen_age = 2_000_000_000;
        let index = crate::postgres::UnusedIndex { size: 1 << 30, ..Default::default() };
        postgres.indexes.unused.push(index);
        let off = [("autovacuum", "off"), ("lock_timeout", "0"), ("log_lock_waits", "off")];
        postgres.settings.extend(off.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let rules = |facts: &Facts| examine(facts).iter().map(|finding| finding.rule).collect::<Vec<_>>();
        assert_eq!(
            rules(&facts),
            ["wraparound", "autovacuum-behind", "unused-indexes", "lock-timeout", "log-settings"]
        );
        example::postgres(&mut facts).identity.is_standby = true;
        example::pooler(&mut facts).databases[0].target_session_attrs = Some("standby".to_owned());
        assert_eq!(rules(&facts), ["log-settings"]);
        example::postgres(&mut facts).databases[0].temp_bytes = 1 << 30;
        let found = examine(&facts);
        let mend = found.iter().find(|finding| finding.rule == "temp-files").map(|finding| &finding.mend);
        let ends: Vec<bool> = mend.into_iter().flatten().map(|line| line.ends_with("; on the primary")).collect();
        assert_eq!(ends, [true, false], "{found:?}");
    }

    #[test]
    fn many_things_are_counted() {
        assert_eq!(first(["a".to_owned()]), ["a"]);
        assert_eq!(first((0..7).map(|n| n.to_string())), ["0", "1", "2", "3", "4", "and 2 more"]);
    }
}
