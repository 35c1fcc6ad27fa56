//! `pgweir doctor` on real servers: each situation that it looks for is made, and named with its evidence; where all is well it finds nothing; with
//! a role that may see little it says what it does not see; and what it cannot reach is an error.

use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use client::Place;
use demo::Binaries;
use outer::standby::{PRIMARY, STANDBY, pair};
use outer::{Client, Stage, Wishes, eventually, frontend};
use serde_json::Value;

/// Until each situation is found: many times what it takes.
const FOUND_WITHIN: Duration = Duration::from_secs(300);

/// What it says, and its exit status.
struct Report {
    status: i32,
    json: Value,
    stderr: String,
}

impl Report {
    /// A finding's evidence in one text; empty if there is no such finding.
    fn evidence(&self, rule: &str) -> String {
        self.finding(rule).map(|finding| finding["evidence"].to_string()).unwrap_or_default()
    }

    fn finding(&self, rule: &str) -> Option<&Value> {
        self.json["findings"].as_array()?.iter().find(|finding| finding["rule"] == rule)
    }

    fn rules(&self) -> Vec<&str> {
        self.json["findings"].as_array().into_iter().flatten().filter_map(|finding| finding["rule"].as_str()).collect()
    }

    fn unseen(&self) -> String {
        self.json["unseen"].to_string()
    }
}

fn doctor(arguments: &[&str]) -> Report {
    let output = Command::new(outer::binary()).arg("doctor").args(arguments).arg("--json").output().expect("it runs");
    let stdout = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(stdout.chars().all(|c| c == '\n' || !c.is_control()), "{stdout:?}");
    Report {
        status: output.status.code().expect("it ends by itself"),
        json: serde_json::from_str(&stdout).unwrap_or_default(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// With the pooler's console and the server, past the pooler.
fn both(stage: &Stage, more: &[&str]) -> Report {
    let (console, server) = (stage.url_of("pgbouncer"), stage.cluster.url("postgres"));
    doctor(&[&[&console, "--postgres", &server], more].concat())
}

/// Those that `tools/postgresql-versions` has made; without it, the one that is here.
fn versions() -> Vec<Option<Binaries>> {
    let Some(folder) = env::var_os("PGWEIR_POSTGRESQLS").filter(|folder| !folder.is_empty()) else { return vec![None] };
    let of = |major: &str| {
        let tree = PathBuf::from(&folder).join(major);
        Some(Binaries::at(&tree.join("bin"), Some(&tree)).expect("tools/postgresql-versions has made it"))
    };
    vec![of("14"), of("16"), of("18")]
}

fn set(binaries: Option<Binaries>, wishes: &Wishes) -> Stage {
    match binaries {
        Some(binaries) => Stage::set_on(binaries, wishes),
        None => Stage::set(wishes),
    }
}

fn run(client: &mut Client, sql: &str) {
    let answer = client.query(sql).expect("connected");
    assert!(answer.errors.is_empty(), "{sql}: {:?}", answer.errors);
}

/// A client of PostgreSQL's, past the pooler.
fn stranger(stage: &Stage) -> Client {
    let dir = stage.cluster.socket_dir().to_str().expect("a plain path");
    let place = Place::of(dir, stage.cluster.port()).expect("a directory");
    Client::login(place, "postgres", "postgres").unwrap_or_else(|gone| panic!("login: {gone}"))
}

#[test]
fn each_situation_is_named_with_its_evidence() {
    versions().into_iter().for_each(situations);
}

// tidy: a table of situations
fn situations(binaries: Option<Binaries>) {
    // Debian has it in another package.
    let has_statements = binaries.is_some();
    let mut postgres = vec![("autovacuum", "off"), ("max_prepared_transactions", "5"), ("password_encryption", "md5")];
    if has_statements {
        postgres.push(("shared_preload_libraries", "pg_stat_statements"));
    }
    let wishes = Wishes {
        pool: 8,
        max_connections: 30,
        settings: vec![("query_wait_timeout", "3600".to_owned())],
        postgres,
        ..Wishes::default()
    };
    let stage = set(binaries, &wishes);
    println!("PostgreSQL {}", stage.direct("show server_version"));
    tables(&stage);
    if has_statements {
        make(&stage, "create schema \"ext'\"; create extension pg_stat_statements schema \"ext'\"");
        let unseen = both(&stage, &[]).unseen();
        assert!(!unseen.contains("statements and their times"), "{unseen}");
    }
    let (mut holder, mut waiter, mut reader) = (stage.client(), stage.client(), stage.client());
    run(
        &mut holder,
        "set application_name = 'evil <b>'; begin; update orders set note = 'mine' where id = 1 /* \x1b[31m */",
    );
    waiter.send(&frontend::query("update orders set note = 'too' where id = 1")).expect("connected");
    run(&mut reader, "begin isolation level repeatable read; select count(*) from orders");
    let mut prepared = stage.client();
    run(&mut prepared, "begin; create table later (id int); prepare transaction 'it''s'");
    let strangers: Vec<Client> = (0..6).map(|_| stranger(&stage)).collect();
    let queue = fill(&stage);

    let expected = [
        ("connection-demand", "9 processes × 8 = 72 connections"),
        ("lock-waits", "idle in transaction, is before 1"),
        ("idle-in-transaction", "evil <b>"),
        ("old-snapshots", "prepared transaction it's of postgres"),
        ("old-snapshots", "begin isolation level repeatable read"),
        ("autovacuum-behind", "public.orders: 20,000 dead rows"),
        ("autovacuum-behind", "autovacuum = off"),
        ("unused-indexes", "public.un\\\\nused on orders"),
        ("duplicate-indexes", "orders_again is the same as orders_customer"),
        ("foreign-keys", "public.items (order_id) refers to orders"),
        ("missing-indexes", "public.scanned: 10,000 rows, read from end to end"),
        ("temp-files", "work_mem"),
        ("strangers", "user postgres"),
        ("pool-waits", "postgres/postgres: 1 client waiting now"),
        ("pool-sizes", "servers may be busy at once over all processes, on 1 core"),
        ("plain-passwords", "password_encryption = md5"),
        ("client-timeout", "query_wait_timeout = 3600"),
        ("log-settings", "log_lock_waits = off"),
        ("lock-timeout", "lock_timeout = 0"),
        ("idle-in-transaction-timeout", "idle_in_transaction_session_timeout = 0"),
    ];
    let asked = ["--replicas", "9", "--cores", "1", "--client-timeout", "30", "--long", "1"];
    let mut last = String::new();
    // Statistics come to be known within a second or so, and transactions grow old.
    let mut is_found = || {
        let report = both(&stage, &asked);
        let one = both(&stage, &["--long", "1"]);
        if report.status != 1 {
            // The doctor fails if a server does not answer within ten seconds.
            last = report.stderr;
            return false;
        }
        // Those of other processes could be theirs.
        let of = |rule: &str| if rule == "strangers" { one.evidence(rule) } else { report.evidence(rule) };
        let missing = expected.iter().filter(|(rule, words)| !of(rule).contains(words));
        last = missing.map(|(rule, words)| format!("{rule}: no {words:?} in {}\n", of(rule))).collect();
        if last.is_empty() {
            assert_eq!(report.finding("lock-waits").expect("found")["weight"], "warning");
            assert_eq!(report.finding("idle-in-transaction").expect("found")["weight"], "critical");
            let undo = report.finding("old-snapshots").expect("found")["mend"].to_string();
            assert!(undo.contains("ROLLBACK PREPARED 'it''s';"), "{undo}");
        }
        last.is_empty()
    };
    let deadline = Instant::now() + FOUND_WITHIN;
    while !is_found() && Instant::now() < deadline {}
    assert!(last.is_empty(), "{}: {last}", stage.direct("show server_version"));
    drop((holder, waiter, reader, strangers, queue));
}

/// What indexes, dead rows and temporary files need. Each line ends its session, so that its statistics are known soon.
fn tables(stage: &Stage) {
    for sql in [
        "create table orders (id int primary key, customer int, note text); \
         insert into orders select n, n, 'new' from generate_series(1, 20000) n",
        "insert into orders select n, n, 'new' from generate_series(20001, 60000) n",
        "create index orders_customer on orders (customer); create index orders_again on orders (customer); \
         create index \"un\nused\" on orders (note, id); analyze orders",
        "update orders set note = 'seen' where id <= 20000",
        "create table items (id int, order_id int references orders); \
         insert into items select n, n from generate_series(1, 10000) n",
        "create table scanned (id int); insert into scanned select generate_series(1, 10000)",
        "do $$ begin for n in 1..100 loop perform count(*) from scanned; end loop; end $$",
        // 1.1 GB.
        "set work_mem = '64kB'; \
         with wide as materialized (select repeat('x', 8000) from generate_series(1, 140000)) select count(*) from wide",
    ] {
        make(stage, sql);
    }
}

/// Takes the five servers that are left of eight, and one more client waits.
fn fill(stage: &Stage) -> Vec<Client> {
    let mut clients: Vec<Client> = (0..6).map(|_| stage.client()).collect();
    let (last, others) = clients.split_last_mut().expect("six");
    others.iter_mut().for_each(|client| run(client, "begin"));
    last.send(&frontend::query("begin")).expect("connected");
    clients
}

/// Runs it past the pooler, in a session of its own.
fn make(stage: &Stage, sql: &str) {
    stage.cluster.psql("postgres", sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// Settings with which there is nothing to say.
const WELL: [(&str, &str); 4] = [
    ("log_lock_waits", "on"),
    ("log_temp_files", "0"),
    ("idle_in_transaction_session_timeout", "60s"),
    ("lock_timeout", "5s"),
];

#[test]
fn where_all_is_well_nothing_is_found() {
    for binaries in versions() {
        let settings = vec![("query_wait_timeout", "20".to_owned())];
        let stage = set(binaries, &Wishes { pool: 2, settings, postgres: WELL.to_vec(), ..Wishes::default() });
        make(&stage, "create table orders (id int primary key); insert into orders select generate_series(1, 100)");
        alike(&stage);
        let mut client = stage.client();
        run(&mut client, "select count(*) from orders");
        let report = both(&stage, &["--cores", "4", "--client-timeout", "30"]);
        assert_eq!((report.rules(), report.status), (vec![], 0), "{}", report.json);
        let looked = report.json["looked_at"].to_string();
        assert!(
            looked.contains("the pooler at") && looked.contains("PostgreSQL") && looked.contains("this machine"),
            "{looked}"
        );
    }
}

/// Indexes that look the same and are not, and some that cannot be dropped alone.
fn alike(stage: &Stage) {
    make(
        stage,
        "create table later (id int); create unique index later_now on later (id); \
         alter table later add unique (id) deferrable",
    );
    if stage.direct("show server_version_num").trim().parse::<u32>().expect("a number") >= 150_000 {
        make(
            stage,
            "create table nothing (id int); create unique index nothing_often on nothing (id); \
             create unique index nothing_once on nothing (id) nulls not distinct",
        );
    }
    make(
        stage,
        "create table parts (id int, note text) partition by range (id); \
         create table parts_1 partition of parts for values from (0) to (100000); \
         insert into parts select n, md5(n::text) from generate_series(1, 60000) n; \
         create index on parts (note, id); create index on parts (note, id); analyze parts",
    );
    let size = "select min(relpages) * 8 from pg_class where relispartition and relkind = 'i'";
    assert!(stage.direct(size).trim().parse::<u32>().expect("kB") >= 1024, "large enough to be told of");
}

#[test]
fn a_file_leads_to_the_pooler_and_to_postgresql() {
    let stage = Stage::set(&Wishes { pool: 2, postgres: WELL.to_vec(), ..Wishes::default() });
    let file = stage.pooler.dir().join("pooler.ini");
    let file = file.to_str().expect("a plain path");
    let report = doctor(&[file, "--cores", "4"]);
    let looked = report.json["looked_at"].to_string();
    assert!(looked.contains(&format!("the pooler at 127.0.0.1:{}", stage.pooler.port)), "{looked} {}", report.unseen());
    assert!(looked.contains(&format!("at {}:{}", stage.cluster.host(), stage.cluster.port())), "{looked}");
    // The stage's own files, which everybody on this machine may read.
    assert_eq!((report.rules(), report.status), (vec!["plain-passwords"], 1), "{}", report.json);
    assert!(!report.json.to_string().contains(stage.cluster.password()), "no password is printed");
}

#[test]
fn a_role_with_few_rights_is_told_what_it_does_not_see() {
    let stage = Stage::set(&Wishes { pool: 2, postgres: WELL.to_vec(), ..Wishes::default() });
    make(&stage, "create role \"o\"\"b\" login password 'weak'");
    let mut holder = stage.client();
    run(&mut holder, "begin; create table mine (id int)");
    let url = format!("postgres://o%22b:weak@{}:{}/postgres", stage.cluster.host(), stage.cluster.port());
    let look = || doctor(&["--postgres", &url, "--long", "1"]);
    let blind = look();
    assert_eq!(blind.status, 0, "{} {}", blind.json, blind.stderr);
    let grant = blind.json["unseen"][0]["mend"].as_str().expect("what would show it").to_owned();
    assert_eq!(grant, "GRANT pg_monitor TO \"o\"\"b\";");
    make(&stage, &grant);
    eventually("it is seen with the right that was named", || !look().evidence("idle-in-transaction").is_empty());
    assert!(!look().unseen().contains("pg_monitor"));
}

#[test]
fn what_it_cannot_reach_is_an_error() {
    let stage = Stage::set(&Wishes::default());
    let console = stage.url_of("pgbouncer").replace(stage.cluster.password(), "wrong");
    let nowhere = format!("postgres://postgres:x@127.0.0.1:{}/postgres", demo::free_port());
    for arguments in [
        vec![nowhere.as_str()],
        vec!["--postgres", &nowhere],
        vec!["/nowhere.ini"],
        vec![&stage.url_of("pgbouncer"), "--postgres", &nowhere],
    ] {
        let report = doctor(&arguments);
        assert_eq!(report.status, 2, "{arguments:?}: {}", report.json);
        assert!(report.stderr.starts_with("pgweir doctor: "), "{}", report.stderr);
    }
    // Clients are trusted here: the console asks for no password.
    assert_ne!(doctor(&[&console]).status, 2);
}

/// Somebody keeps a table locked, and it goes on: it waits for no lock of anybody's.
#[test]
fn it_is_not_held_up_by_locks() {
    let stage = Stage::set(&Wishes { pool: 2, postgres: WELL.to_vec(), ..Wishes::default() });
    make(
        &stage,
        "create table orders (id int primary key, n int); create index on orders (n) where n > 1; create index on orders (n) where n > 1",
    );
    let mut holder = stage.client();
    run(&mut holder, "begin; lock table orders in access exclusive mode");
    // The doctor ends while the lock is held.
    let begun = Instant::now();
    let report = both(&stage, &[]);
    assert!(report.json["looked_at"].to_string().contains("PostgreSQL"), "{}", report.stderr);
    let locked = "select count(*) from pg_locks where mode = 'AccessExclusiveLock' and relation = 'orders'::regclass";
    assert_eq!(stage.direct(locked), "1");
    println!("with a locked table: {:?}; not seen: {}", begun.elapsed(), report.unseen());
}

/// A file with one database, before a primary and its standby.
#[test]
fn a_file_that_knows_one_host_of_several_is_found() {
    let (stage, _standby) = pair();
    let (port, password) = (stage.cluster.port(), stage.cluster.password());
    let file = stage.pooler.dir().join("alone.ini");
    let examined = |hosts: &str| {
        let database = format!("shop = {hosts} port={port} dbname=postgres user=postgres password={password}");
        let rest = "[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = 1\nunix_socket_dir =\nauth_type = any\n";
        std::fs::write(&file, format!("[databases]\n{database}\n{rest}")).expect("our own folder");
        doctor(&[&file.display().to_string()])
    };
    let found = examined(&format!("host={PRIMARY}"));
    let finding = found.finding("one-host").unwrap_or_else(|| panic!("{} {}", found.json, found.stderr));
    assert_eq!(
        (&finding["title"], &finding["weight"]),
        (&"shop has one host, and it has a standby".into(), &"warning".into())
    );
    assert!(found.evidence("one-host").contains("standbys that stream: walreceiver"), "{finding}");
    let mend = finding["mend"][0].as_str().expect("a text");
    assert!(mend.contains(&format!("host={PRIMARY},")) && mend.contains("target_session_attrs=primary"), "{mend}");
    let found = examined(&format!("host={STANDBY}"));
    assert_eq!(
        found.finding("one-host").map(|finding| &finding["title"]),
        Some(&"shop has one host, and that is a standby".into())
    );
    let found = examined(&format!("host={PRIMARY},{STANDBY} target_session_attrs=any"));
    assert_eq!(
        found.finding("hosts-without-role").map(|finding| &finding["title"]),
        Some(&"writes of shop go to standbys, too".into())
    );
    for sound in [
        format!("host={PRIMARY},{STANDBY} target_session_attrs=primary"),
        format!("host={STANDBY} target_session_attrs=standby"),
    ] {
        let rules = examined(&sound).json.to_string();
        assert!(!rules.contains("one-host") && !rules.contains("hosts-without-role"), "{sound}: {rules}");
    }
}
