//! A database with one host, of which there are copies: a standby that is promoted is not found.
//!
//! The host may be a name or an address that moves to the next primary. That cannot be seen from here, so a host by name is a notice only, and nothing is
//! found where another port shows that a proxy is between.

use std::net::IpAddr;

use super::hosts;
use crate::facts::Facts;
use crate::finding::{Finding, Weight};
use crate::pooler::PooledDatabase;

pub(super) fn find(facts: &Facts) -> Option<Finding> {
    let postgres = facts.postgres.as_ref()?;
    let is_standby = postgres.identity.is_standby;
    if !is_standby && postgres.replicas.is_empty() && !postgres.identity.is_of_patroni {
        return None;
    }
    let is_direct = |database: &&PooledDatabase| postgres.setting("port") == database.port.to_string();
    let one: Vec<&PooledDatabase> = hosts::that_lead_here(facts)
        .filter(|database| database.hosts().count() <= 1 && database.takes_any_role())
        .filter(is_direct)
        .collect();
    let first = one.first()?;
    let names: Vec<&str> = one.iter().map(|database| database.name.as_str()).collect();
    let names = super::first(names.iter().map(|name| (*name).to_owned())).join(", ");
    let is_name = first.hosts().any(|host| host.parse::<IpAddr>().is_err() && !host.starts_with(['/', '@']));
    let what = match (is_standby, postgres.replicas.len()) {
        (true, _) => "that is a standby".to_owned(),
        (false, 0) => "Patroni runs it".to_owned(),
        (false, 1) => "it has a standby".to_owned(),
        (false, count) => format!("it has {count} standbys"),
    };
    let has = if one.len() == 1 { "has" } else { "have" };
    let reason = if is_standby {
        "A standby refuses writes (25006), and a database that is meant for reads says so by target_session_attrs."
    } else {
        "When a standby is promoted, the pooler still asks the host of before: clients wait, and then get errors, until somebody changes the file."
    };
    Some(Finding {
        rule: "one-host",
        weight: if is_name && !is_standby { Weight::Notice } else { Weight::Warning },
        title: format!("{names} {has} one host, and {what}"),
        evidence: hosts::evidence(facts, &one),
        reason: reason.to_owned(),
        source: "pgweir's guide, A primary and its standbys",
        mend: hosts::mend(facts, first),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::Replica;
    use crate::rules::example::{check, pooler, postgres};

    fn standby(facts: &mut Facts) {
        postgres(facts).identity.is_standby = true;
    }

    fn replicated(facts: &mut Facts) {
        let replica = |name: &str, address: &str| Replica { name: name.to_owned(), address: Some(address.to_owned()) };
        postgres(facts).replicas = vec![replica("node2", "10.0.0.10"), replica("node3", "10.0.0.11")];
    }

    fn wants(attrs: &'static str) -> impl Fn(&mut Facts) {
        move |facts: &mut Facts| {
            replicated(facts);
            pooler(facts).databases[0].target_session_attrs = Some(attrs.to_owned());
        }
    }

    #[test]
    fn one_host_that_has_copies_is_found() {
        let patroni = |facts: &mut Facts| postgres(facts).identity.is_of_patroni = true;
        let several = |facts: &mut Facts| {
            replicated(facts);
            pooler(facts).databases[0].host = Some("10.0.0.9,10.0.0.10".to_owned());
        };
        let by_name = |facts: &mut Facts| {
            replicated(facts);
            pooler(facts).databases[0].host = Some("primary.example.org".to_owned());
        };
        let by_proxy = |facts: &mut Facts| {
            replicated(facts);
            pooler(facts).databases[0].port = 5000;
        };
        let elsewhere = |facts: &mut Facts| {
            replicated(facts);
            pooler(facts).databases[0].host = Some("10.9.9.9".to_owned());
            pooler(facts).servers = None;
        };
        let standby_by_name = |facts: &mut Facts| {
            by_name(facts);
            standby(facts);
        };
        check(
            find,
            &[
                ("standbys stream", &replicated, Some(Weight::Warning)),
                ("Patroni, whose standbys are down or not shown", &patroni, Some(Weight::Warning)),
                ("it is a standby", &standby, Some(Weight::Warning)),
                ("a role is wanted", &wants("read-write"), None),
                ("any role is", &wants("any"), Some(Weight::Warning)),
                ("several hosts", &several, None),
                ("a name, which may move", &by_name, Some(Weight::Notice)),
                ("a name that leads to a standby", &standby_by_name, Some(Weight::Warning)),
                ("a proxy is between", &by_proxy, None),
                ("the pooler is before another server", &elsewhere, None),
            ],
        );
    }

    #[test]
    fn the_remedy_names_all_hosts() {
        let mut facts = super::super::example::healthy();
        replicated(&mut facts);
        let found = find(&facts).expect("it is found");
        assert_eq!(found.title, "shop has one host, and it has 2 standbys");
        assert_eq!(
            found.mend[0],
            "shop = host=10.0.0.9,10.0.0.10,10.0.0.11 port=5432 target_session_attrs=primary -- in [databases]: all hosts, and the role"
        );
        assert_eq!(found.evidence[1], "standbys that stream: node2 (10.0.0.10), node3 (10.0.0.11)");
    }
}
