//! What the rules about hosts share: which databases lead to the PostgreSQL that was looked at, and how its hosts are listed.

use crate::facts::Facts;
use crate::pooler::PooledDatabase;

/// The databases one of whose hosts is the PostgreSQL that was looked at: by its address, or because one of their servers is a backend there.
pub(super) fn that_lead_here(facts: &Facts) -> impl Iterator<Item = &PooledDatabase> {
    let databases = facts.pooler.iter().flat_map(|pooler| &pooler.databases);
    databases.filter(|database| {
        let (Some(pooler), Some(postgres)) = (&facts.pooler, &facts.postgres) else { return false };
        let is_named = database.hosts().any(|host| format!("{host}:{}", database.port) == postgres.identity.place);
        let is_backend = |pid: i32| {
            let mut backends = postgres.backends.iter();
            backends.any(|backend| backend.pid == pid && backend.database.as_deref() == Some(&*database.database))
        };
        let mut servers = pooler.servers.iter().flatten().filter(|server| server.database == database.name);
        is_named || servers.any(|server| is_backend(server.pid))
    })
}

pub(super) fn evidence(facts: &Facts, databases: &[&PooledDatabase]) -> Vec<String> {
    let entry = |database: &&PooledDatabase| {
        let hosts = database.hosts().collect::<Vec<_>>().join(",");
        format!("{}: host={hosts} port={}, without target_session_attrs", database.name, database.port)
    };
    let mut lines = super::first(databases.iter().map(entry));
    let Some(postgres) = &facts.postgres else { return lines };
    if !postgres.replicas.is_empty() {
        let replica = |replica: &crate::postgres::Replica| match &replica.address {
            Some(address) => format!("{} ({address})", replica.name),
            None => replica.name.clone(),
        };
        let replicas = super::first(postgres.replicas.iter().map(replica)).join(", ");
        lines.push(format!("standbys that stream: {replicas}"));
    }
    if postgres.identity.is_standby {
        lines.push(format!("{} is in recovery", postgres.identity.place));
    }
    if postgres.identity.is_of_patroni {
        lines.push(format!("Patroni has started it: cluster_name = {}", postgres.setting("cluster_name")));
    }
    lines
}

/// The entry with all hosts that are known.
pub(super) fn mend(facts: &Facts, database: &PooledDatabase) -> Vec<String> {
    let mut hosts: Vec<&str> = database.hosts().collect();
    let replicas = facts.postgres.iter().flat_map(|postgres| &postgres.replicas);
    for address in replicas.filter_map(|replica| replica.address.as_deref()) {
        if !hosts.contains(&address) {
            hosts.push(address);
        }
    }
    let more = if hosts.len() > 1 { "" } else { ",OTHER,HOSTS" };
    let (name, hosts, port) = (&database.name, hosts.join(","), database.port);
    vec![
        format!(
            "{name} = host={hosts}{more} port={port} target_session_attrs=primary -- in [databases]: all hosts, and the role"
        ),
        "target_session_attrs=prefer-standby -- for an entry of its own, if clients only read".to_owned(),
        "-- the guide \"High availability\" has the whole file, for Patroni, repmgr and others".to_owned(),
    ]
}
