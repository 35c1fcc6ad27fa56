//! Connections to PostgreSQL outside of the pools follow the primary, too: those of clients that replicate, and of `auth_query`.

use demo::{Cluster, Shutdown};
use outer::standby::{PRIMARY, STANDBY, pair};
use outer::{Client, Pooler, Stage, eventually, frontend, run};

/// A pooler in front of both, of which the standby comes first in the list. Users are looked up.
fn pooler(stage: &Stage) -> Pooler {
    let (port, password) = (stage.cluster.port(), stage.cluster.password());
    let ini = format!(
        "[databases]\nwrites = host={STANDBY},{PRIMARY} port={port} dbname=postgres target_session_attrs=primary\n\
         [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {{port}}\nunix_socket_dir =\nauth_type = hba\n\
         auth_hba_file = {{dir}}/hba.conf\nauth_file = {{dir}}/users.txt\nauth_user = postgres\npool_mode = transaction\n"
    );
    let hba = "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
    let users = format!("\"postgres\" \"{password}\"\n");
    Pooler::start_with(&ini, &[("hba.conf", hba.to_owned()), ("users.txt", users)])
}

/// A user that only PostgreSQL knows logs in, and is served.
fn log_in(stage: &Stage, pooler: &Pooler, user: &str) -> Result<String, String> {
    let url = format!("postgres://{user}:secret@127.0.0.1:{}/writes", pooler.port);
    run(stage, "psql", &["-XAtc", "select pg_is_in_recovery()", &url]).map(|(answer, _)| answer.trim().to_owned())
}

/// How many connections of `auth_query` a PostgreSQL has.
fn lookups(at: &Cluster) -> String {
    let text = "select count(*) from pg_stat_activity where application_name = 'pgweir auth_query'";
    at.psql("postgres", text).expect("it answers")
}

fn replicate(pooler: &Pooler) -> Client {
    let mut client = Client::connect(pooler.address()).expect("it listens");
    let startup = [("user", "postgres"), ("database", "writes"), ("replication", "database")];
    client.send(&frontend::startup(&startup)).expect("it is read");
    let _ = client.answer().unwrap_or_else(|gone| panic!("{gone}: {}", pooler.log()));
    client
}

#[test]
fn who_replicates_and_who_is_looked_up_follow_the_primary() {
    let (mut stage, standby) = pair();
    let _ = stage.direct("create role ann login password 'secret'");
    eventually("the standby has it", || {
        standby.psql("postgres", "select count(*) from pg_roles where rolname = 'ann'").is_ok_and(|count| count == "1")
    });
    let pooler = pooler(&stage);
    assert_eq!(log_in(&stage, &pooler, "ann").as_deref(), Ok("f"), "{}", pooler.log());
    // The first lookup may have come before anything was known of the hosts.
    eventually("the standby is left", || lookups(&standby) == "0");
    assert_eq!(log_in(&stage, &pooler, "ann").as_deref(), Ok("f"));
    assert_eq!(lookups(&stage.cluster), "1", "{}", pooler.log());
    let mut replica = replicate(&pooler);
    let is_standby = |client: &mut Client| client.query("select pg_is_in_recovery()").map(|answer| answer.rows.clone());
    assert_eq!(is_standby(&mut replica).expect("an answer"), [[Some("f".to_owned())]]);

    stage.cluster.halt(Shutdown::Immediate).expect("it ends");
    assert_eq!(standby.psql("postgres", "select pg_promote()").expect("it is promoted"), "t");
    let _ = standby.psql("postgres", "create role bob login password 'secret'").expect("it takes writes");
    assert_eq!(log_in(&stage, &pooler, "bob").as_deref(), Ok("f"), "{}", pooler.log());
    assert_eq!(lookups(&standby), "1", "{}", pooler.log());
    assert!(replica.query("select 1").is_err(), "it was at the old primary");
    assert_eq!(is_standby(&mut replicate(&pooler)).expect("an answer"), [[Some("f".to_owned())]]);
}
