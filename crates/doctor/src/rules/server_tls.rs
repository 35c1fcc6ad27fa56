//! Servers that are reached over a network without TLS, or with TLS that nobody checks.

use std::collections::BTreeSet;

use crate::facts::Facts;
use crate::finding::{Finding, Weight};

pub(super) fn find(facts: &Facts) -> Option<Finding> {
    let pooler = facts.pooler.as_ref()?;
    let mode = pooler.setting("server_tls_sslmode");
    let distant: BTreeSet<&str> = pooler.databases.iter().flat_map(|database| database.distant_hosts()).collect();
    if distant.is_empty() || matches!(mode, "verify-ca" | "verify-full") {
        return None;
    }
    let names: BTreeSet<&str> = pooler
        .databases
        .iter()
        .filter(|database| database.distant_hosts().next().is_some())
        .map(|database| database.name.as_str())
        .collect();
    let plain = pooler
        .servers
        .iter()
        .flatten()
        .filter(|server| !server.is_encrypted && names.contains(server.database.as_str()))
        .count();
    let is_plain = plain > 0 || matches!(mode, "disable" | "allow");
    let mut evidence = vec![format!(
        "server_tls_sslmode = {mode}; hosts: {}",
        super::first(distant.iter().map(|host| (*host).to_owned())).join(", ")
    )];
    if plain > 0 {
        evidence.push(format!("{plain} servers are open without TLS"));
    }
    Some(Finding {
        rule: "server-tls",
        weight: if is_plain { Weight::Warning } else { Weight::Notice },
        title: if is_plain { "the network between pooler and PostgreSQL sees everything".to_owned() } else { "nobody checks which PostgreSQL the pooler reaches".to_owned() },
        evidence,
        reason: "Without TLS whoever is on the way reads rows and statements; without a check of the certificate whoever is on the way can be the server.".to_owned(),
        source: "PostgreSQL manual, Protection Provided in Different Modes",
        mend: vec![
            "server_tls_sslmode = verify-full -- in the pooler's file".to_owned(),
            "server_tls_ca_file = /path/to/root.crt".to_owned(),
            "ALTER SYSTEM SET ssl = on; -- with server.crt and server.key in PostgreSQL's data directory, and hostssl in pg_hba.conf".to_owned(),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::example::{check, pooler};

    #[test]
    fn over_a_network_only() {
        let mode = |mode: &'static str, host: &'static str| {
            move |facts: &mut Facts| {
                pooler(facts).settings.insert("server_tls_sslmode".to_owned(), mode.to_owned());
                pooler(facts).databases[0].host = Some(host.to_owned());
            }
        };
        let fell_back = |facts: &mut Facts| {
            mode("prefer", "db")(facts);
            pooler(facts).servers.iter_mut().flatten().for_each(|server| server.is_encrypted = false);
        };
        check(
            find,
            &[
                ("none", &mode("disable", "db"), Some(Weight::Warning)),
                ("none, on this machine", &mode("disable", "127.0.0.1"), None),
                ("none, by a socket", &mode("disable", "/run/postgresql"), None),
                ("unchecked", &mode("require", "db"), Some(Weight::Notice)),
                ("unchecked, and not there", &fell_back, Some(Weight::Warning)),
                ("checked", &mode("verify-ca", "db"), None),
            ],
        );
    }
}
