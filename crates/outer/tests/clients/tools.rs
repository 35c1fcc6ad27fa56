//! Clients as people use them, with their defaults: pgbench, psql, psycopg.

use outer::{Pgbench, Stage, Wishes, psql, python};

/// Runs pgbench. Asserts that each client's transactions (`-c` times `-t`) have all succeeded and that pgbench printed nothing but figures.
fn clean(stage: &Stage, arguments: &[&str]) -> Pgbench {
    let run = Pgbench::run(stage, arguments).unwrap_or_else(|wrote| panic!("pgbench {arguments:?}: {wrote}"));
    println!("pgbench {}: {:.0} tps, {:.2} ms", arguments.join(" "), run.tps, run.latency_ms);
    let of = |name: &str| {
        arguments.iter().skip_while(|word| **word != name).nth(1).and_then(|word| word.parse::<u64>().ok())
    };
    let wanted = of("-c").zip(of("-t")).map(|(clients, each)| clients * each);
    assert_eq!(
        (Some(run.transactions), run.failed, run.complaints.as_str()),
        (wanted, 0, ""),
        "{arguments:?}: {run:?}"
    );
    run
}

#[test]
fn pgbench_by_every_protocol_with_1_to_1000_clients_on_20_servers() {
    pgbench_by_every_protocol(&[1, 64, 1000], 2_000);
}

#[test]
#[ignore = "test-full: a minute of load; in the gate: pgbench_by_every_protocol_with_1_to_1000_clients_on_20_servers, in a third of it"]
fn pgbench_by_every_protocol_with_more_numbers_of_clients() {
    pgbench_by_every_protocol(&[1, 8, 64, 300, 1000], 10_000);
}

/// Counts transactions, not seconds: on a busy machine, a thousand clients may have prepared nothing after a second.
fn pgbench_by_every_protocol(numbers: &[u32], transactions: u32) {
    // A thousand clients at twenty servers wait for each other, on a busy machine for long, and would be told so.
    let settings = vec![("query_wait_timeout", "0".to_owned()), ("query_wait_notify", "0".to_owned())];
    let mut stage = Stage::set(&Wishes { settings, ..Wishes::default() });
    Pgbench::prepare(&stage, 10);
    for mode in ["simple", "extended", "prepared"] {
        for &clients in numbers {
            let each = (transactions / clients).max(3);
            let work = ["-c", &clients.to_string(), "-t", &each.to_string()].map(str::to_owned);
            let work = work.each_ref().map(String::as_str);
            let select = clean(&stage, &[&["-M", mode, "-S", "-j", "2"], &work[..]].concat());
            // pgbench waits for the answer to each PREPARE with its whole thread: clients of that thread that are within a
            // transaction would keep their servers from the one that waits. So each client gets a thread.
            let threads = if mode == "prepared" { clients } else { 2 }.to_string();
            let update = clean(&stage, &[&["-M", mode, "-j", &threads], &work[..]].concat());
            let all = u64::from(clients * each);
            assert_eq!((select.transactions, update.transactions), (all, all), "{mode}, {clients} clients");
        }
    }
    assert!(stage.backends() <= 20, "{} backends for a pool of 20", stage.backends());
    // TPC-B keeps three sums equal, whatever the order of its transactions.
    let sums = "select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history), \
                (select sum(bbalance) from pgbench_branches) = (select sum(delta) from pgbench_history), \
                (select sum(tbalance) from pgbench_tellers) = (select sum(delta) from pgbench_history)";
    assert_eq!(stage.direct(sums), "t|t|t");
    stage.assert_healthy();
}

#[test]
fn pgbench_with_a_connection_for_each_transaction_and_scram() {
    let mut stage = Stage::set(&Wishes { auth: "scram-sha-256", ..Wishes::default() });
    Pgbench::prepare(&stage, 1);
    for mode in ["simple", "prepared"] {
        let run = clean(&stage, &["-C", "-M", mode, "-S", "-c", "8", "-j", "2", "-t", "50"]);
        println!("logins a second by SCRAM: {:.0}", run.tps);
    }
    assert!(stage.backends() <= 20);
    assert!(stage.pooler.is_alive());
}

#[test]
fn pgbench_pipelines() {
    let mut stage = Stage::set(&Wishes { pool: 2, ..Wishes::default() });
    Pgbench::prepare(&stage, 1);
    let script = stage.pooler.dir().join("pipeline.sql");
    let statement = "select abalance from pgbench_accounts where aid = :aid;\n".repeat(20);
    let text = format!("\\set aid random(1, 100000)\n\\startpipeline\n{statement}\\endpipeline\n");
    std::fs::write(&script, text).expect("our own directory");
    for mode in ["extended", "prepared"] {
        clean(&stage, &["-M", mode, "-f", &script.display().to_string(), "-c", "32", "-j", "2", "-t", "20"]);
    }
    stage.assert_healthy();
}

#[test]
fn psql_as_a_person_uses_it() {
    let stage = Stage::set(&Wishes { auth: "scram-sha-256", pool: 2, ..Wishes::default() });
    let said = |sql: &str| psql(&stage, &["-Atc", sql]).unwrap_or_else(|wrote| panic!("{sql}: {wrote}"));
    assert_eq!(said("select 1; select 'two'").0, "1\ntwo\n");
    assert_eq!(said("create table t as select i, i * i as square from generate_series(1, 5) i").0, "SELECT 5\n");
    let described = said("\\d t").0;
    assert!(described.contains("square|integer"), "{described}");
    assert_eq!(said("copy t to stdout").0, "1\t1\n2\t4\n3\t9\n4\t16\n5\t25\n");
    let error = psql(&stage, &["-v", "VERBOSITY=verbose", "-c", "select 1/0"]).expect_err("division by zero");
    assert!(error.contains("22012") && error.contains("int4div"), "all fields of the error arrive: {error}");
    let (_, notice) = said("do $$ begin raise notice 'look here'; end $$");
    assert!(notice.contains("look here"), "{notice}");
    // Large objects use the protocol's function calls.
    let file = stage.pooler.dir().join("object");
    std::fs::write(&file, vec![b'x'; 100_000]).expect("our own directory");
    let (imported, _) = said(&format!("\\lo_import {}", file.display()));
    assert!(imported.contains("lo_import"), "{imported}");
    assert_eq!(said("select sum(length(data)) from pg_largeobject").0, "100000\n");
    println!("psql: queries, describe, COPY, errors, notices, large objects");
}

#[test]
fn the_console_answers_psql() {
    let stage = Stage::set(&Wishes::default());
    stage.client().query("select 1").expect("a pool exists now");
    let url = stage.url_of("pgbouncer");
    for (command, expected) in
        [("show version", "PgBouncer"), ("show pools", "postgres"), ("show databases", "postgres")]
    {
        let (shown, _) = psql(&stage, &["-At", "-d", &url, "-c", command]).expect("the console answers");
        assert!(shown.contains(expected), "{command}: {shown}");
    }
}

#[test]
fn psycopg_with_its_defaults() {
    let mut stage = Stage::set(&Wishes { auth: "scram-sha-256", pool: 3, ..Wishes::default() });
    let said = python("defaults.py", &[&stage.url()]).unwrap_or_else(|wrote| panic!("{wrote}"));
    println!("{}", said.trim());
    assert!(stage.pooler.is_alive());
}
