//! Replication through the pooler with PostgreSQL's own tools: copies, received WAL, logical decoding, subscriptions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use demo::{Cluster, Options, Shutdown};
use outer::{Client, Pgbench, Pooler, Stage, Wishes, eventually, frontend, psql, run};

const SEGMENT: u64 = 16 * 1024 * 1024;

fn wishes() -> Wishes {
    let postgres = vec![("wal_level", "logical"), ("max_wal_senders", "30"), ("max_replication_slots", "30")];
    Wishes { any_database: true, auth: "scram-sha-256", postgres, ..Wishes::default() }
}

/// A tool's words through the pooler.
fn tool(stage: &Stage, name: &str, arguments: &[&str]) -> (String, String) {
    let url = stage.url();
    run(stage, name, &[&["-d", &url], arguments].concat())
        .unwrap_or_else(|wrote| panic!("{name} {arguments:?}: {wrote}"))
}

fn console(stage: &Stage, command: &str) -> Vec<String> {
    let (shown, _) =
        psql(stage, &["-At", "-d", &stage.url_of("pgbouncer"), "-c", command]).expect("the console answers");
    shown.lines().map(str::to_owned).collect()
}

/// The kinds of replication of the clients and servers there are.
fn kinds(stage: &Stage, show: &str) -> Vec<String> {
    let rows = console(stage, show);
    let kinds = rows.iter().filter_map(|row| row.split('|').nth(3)).filter(|kind| *kind != "none");
    kinds.map(str::to_owned).collect()
}

fn path(dir: &Path) -> String {
    dir.display().to_string()
}

/// Gives a directory to the account that PostgreSQL runs as.
fn give_to(cluster: &Cluster, dir: &Path) {
    if let Some(account) = cluster.account() {
        let owner = format!("{}:{}", account.uid, account.gid);
        let given = Command::new("chown").args(["-R", &owner]).arg(dir).status().expect("chown is there");
        assert!(given.success());
    }
}

/// That somebody new is served, and the pooler lives.
fn assert_well(stage: &mut Stage) {
    assert_eq!(psql(stage, &["-Atc", "select 'well'"]).expect("a newcomer is served").0, "well\n");
    assert!(stage.pooler.is_alive());
}

/// A raw connection that replicates.
fn replica(pooler: &Pooler, kind: &str) -> Client {
    let mut client = Client::connect(pooler.address()).expect("it listens");
    let startup = [("user", "postgres"), ("database", "postgres"), ("replication", kind)];
    client.send(&frontend::startup(&startup)).expect("connected");
    client.answer().unwrap_or_else(|gone| panic!("{gone}"));
    client
}

fn lsn(stage: &Stage, expression: &str) -> u64 {
    let bytes = stage.direct(&format!("select ({expression} - '0/0')::bigint"));
    bytes.parse().expect("a number of bytes")
}

fn shown(lsn: u64) -> String {
    format!("{:X}/{:X}", lsn >> 32, lsn & 0xffff_ffff)
}

#[test]
fn pg_basebackup_makes_copies_that_verify_and_start() {
    let mut stage = Stage::set(&wishes());
    Pgbench::prepare(&stage, 5);
    let sum = "select count(*), sum(aid), sum(hashtext(t::text)) from pgbench_accounts t";
    let original = stage.direct(sum);
    for how in ["fetch", "stream"] {
        let copy = stage.pooler.dir().join(format!("copy-{how}"));
        let begun = Instant::now();
        tool(&stage, "pg_basebackup", &["-D", &path(&copy), "-X", how, "-c", "fast"]);
        let took = begun.elapsed();
        let (verdict, _) = run(&stage, "pg_verifybackup", &[&path(&copy)]).unwrap_or_else(|wrote| panic!("{wrote}"));
        assert!(verdict.contains("successfully verified"), "{verdict}");
        give_to(&stage.cluster, &copy);
        let options = Options { data: Some(copy), ..Options::default() };
        let started = Cluster::start(&stage.binaries, options).unwrap_or_else(|error| panic!("the copy: {error}"));
        assert_eq!(started.psql("postgres", sum).expect("it answers"), original, "{how}");
        println!("pg_basebackup -X {how}: {took:?}, verified and started");
    }
    let attempt = "login attempt: db=replication user=postgres tls=no replication=yes";
    eventually(attempt, || stage.pooler.log().contains(attempt));
    eventually("no server is left", || console(&stage, "show servers").iter().all(|row| !row.contains("physical")));
    assert_well(&mut stage);
}

/// Writes about as much WAL.
fn write_wal(stage: &Stage, segments: u64) {
    for _ in 0..segments {
        let _ = stage.direct("insert into filler select repeat(md5(i::text), 20) from generate_series(1, 3000) i");
        let _ = stage.direct("select pg_switch_wal()");
    }
}

#[test]
fn pg_receivewal_gets_what_postgresql_wrote() {
    let mut stage = Stage::set(&wishes());
    let _ = stage.direct("create table filler (t text)");
    tool(&stage, "pg_receivewal", &["--create-slot", "-S", "archive"]);
    for slot in [None, Some("archive")] {
        let wal = stage.pooler.dir().join(format!("wal-{}", slot.unwrap_or("none")));
        fs::create_dir(&wal).expect("a fresh name");
        let begin = lsn(&stage, "pg_current_wal_lsn()");
        let end = shown((begin / SEGMENT + 3) * SEGMENT);
        let dir = path(&wal);
        let mut arguments = vec!["-D", &dir, "-n", "-E", &end, "--synchronous"];
        arguments.extend(slot.map(|slot| ["-S", slot]).into_iter().flatten());
        std::thread::scope(|scope| {
            let received = scope.spawn(|| tool(&stage, "pg_receivewal", &arguments));
            eventually("it streams", || stage.direct("select count(*) from pg_stat_replication") == "1");
            // The one before it may be shown for a moment longer.
            eventually("it is shown", || {
                ["show clients", "show servers"].map(|show| kinds(&stage, show)) == [["physical"]; 2]
            });
            write_wal(&stage, 4);
            received.join().expect("it ends by itself at that position");
        });
        let mut segments: Vec<PathBuf> =
            fs::read_dir(&wal).expect("our own").map(|entry| entry.expect("readable").path()).collect();
        segments.sort();
        segments.retain(|segment| segment.extension().is_none());
        let originals = stage.cluster.data().join("pg_wal");
        for segment in &segments {
            let name = segment.file_name().expect("a file");
            let (own, original) = (fs::read(segment).expect("ours"), fs::read(originals.join(name)).expect("kept"));
            assert!(own == original, "{slot:?}: {} differs", path(segment));
        }
        assert!(segments.len() >= 2, "{slot:?}: {segments:?}");
        println!("pg_receivewal, slot {slot:?}: {} whole segments, as PostgreSQL has them", segments.len());
        eventually("PostgreSQL sends nothing more", || stage.direct("select count(*) from pg_stat_replication") == "0");
    }
    tool(&stage, "pg_receivewal", &["--drop-slot", "-S", "archive"]);
    assert_eq!(stage.direct("select count(*) from pg_replication_slots"), "0");
    assert_well(&mut stage);
}

#[test]
fn pg_recvlogical_sees_every_change() {
    let mut stage = Stage::set(&wishes());
    let _ = stage.direct("create table t (i int primary key, word text)");
    tool(&stage, "pg_recvlogical", &["--slot", "changes", "--create-slot", "-P", "test_decoding"]);
    // Through the pooler too, in the pool beside it.
    let mut client = ["-c", "insert into t select i, 'w' || i from generate_series(1, 1000) i"];
    psql(&stage, &client).expect("rows");
    client[1] = "update t set word = repeat('long', 100000) where i = 7; delete from t where i > 990";
    psql(&stage, &client).expect("changes");
    let end = stage.direct("select pg_current_wal_lsn()");
    let _ = stage.direct("insert into t values (5000, 'behind the end')");
    let file = stage.pooler.dir().join("changes");
    let arguments = ["--slot", "changes", "--start", "-f", &path(&file), "-E", &end, "-n", "-o", "include-xids=0"];
    tool(&stage, "pg_recvlogical", &arguments);
    let changes = fs::read_to_string(&file).expect("it has written them");
    let count = |what: &str| changes.lines().filter(|line| line.contains(what)).count();
    assert_eq!((count(": INSERT:"), count(": UPDATE:"), count(": DELETE:")), (1000, 1, 10), "{}", changes.len());
    assert!(changes.contains(&"long".repeat(100_000)), "a large value arrives whole");
    tool(&stage, "pg_recvlogical", &["--slot", "changes", "--drop-slot"]);
    assert_eq!(stage.direct("select count(*) from pg_replication_slots"), "0");
    println!("pg_recvlogical: 1011 changes, one of 400,000 bytes");
    assert_well(&mut stage);
}

#[test]
fn a_subscription_copies_and_follows_beside_a_load_and_over_a_restart() {
    let mut stage = Stage::set(&Wishes { pool: 8, ..wishes() });
    Pgbench::prepare(&stage, 1);
    let tables = "create table facts (i bigserial primary key, f float8, at timestamptz, span interval)";
    let _ = stage.direct(tables);
    let fill = "insert into facts (f, at, span) select 1 / 3.0 * i, 'epoch'::timestamptz + i * '1 h'::interval, \
                i * '1 h'::interval from generate_series(1, 5000) i";
    let _ = stage.direct(fill);
    let _ = stage.direct("create publication p for table facts, pgbench_accounts, pgbench_tellers, pgbench_branches");
    let subscriber = outer::cluster(&stage.binaries, Options::default());
    let other = |sql: &str| subscriber.psql("postgres", sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    other(tables);
    for table in ["accounts", "tellers", "branches"] {
        let columns = stage.direct(&format!(
            "select string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' order by attnum) \
             from pg_attribute where attrelid = 'pgbench_{table}'::regclass and attnum > 0"
        ));
        let key = &table[..1];
        other(&format!("create table pgbench_{table} ({columns}, primary key ({key}id))"));
    }
    // Formats of the database would reach the subscriber if the connection's options did not.
    let _ = stage.direct("alter database postgres set datestyle = 'German'");
    let _ = stage.direct("alter database postgres set extra_float_digits = -10");
    let connection = stage.url();
    other(&format!("create subscription s connection '{connection}' publication p"));
    let sum = |table: &str| format!("select count(*), sum(hashtext(t::text)) from {table} t");
    let settings = "set datestyle = ISO; set extra_float_digits = 1; set timezone = UTC; ";
    let equal = |stage: &Stage, table: &str| {
        let sql = format!("{settings}{}", sum(table));
        stage.direct(&sql) == other(&sql)
    };
    let begun = Instant::now();
    let load = Pgbench::run(&stage, &["-c", "8", "-t", "100"]).unwrap_or_else(|wrote| panic!("{wrote}"));
    let all = ["facts", "pgbench_accounts", "pgbench_tellers", "pgbench_branches"];
    for table in all {
        eventually(table, || equal(&stage, table));
    }
    println!("subscription: equal {:?} after it was made, beside {:.0} tps", begun.elapsed(), load.tps);
    // Those that have copied the tables are gone by and by.
    eventually("one is left", || kinds(&stage, "show clients") == ["logical"]);
    let attempt = "login attempt: db=postgres user=postgres tls=no replication=database";
    eventually(attempt, || stage.pooler.log().contains(attempt));
    // The publisher goes away and comes back: the subscriber tries again by itself.
    stage.cluster.restart(Shutdown::Fast).expect("it comes back");
    let _ = stage.direct("delete from facts where i % 2 = 0");
    let _ = stage.direct(fill);
    eventually("it goes on after the restart", || equal(&stage, "facts"));
    // The pooler's clients are ended, and come back too.
    psql(&stage, &["-d", &stage.url_of("pgbouncer"), "-c", "kill postgres", "-c", "resume postgres"]).expect("orders");
    let _ = stage.direct("update facts set f = f * 2");
    eventually("it goes on after KILL", || equal(&stage, "facts"));
    other("drop subscription s");
    assert_eq!(stage.direct("select count(*) from pg_replication_slots"), "0");
    eventually("nobody replicates", || kinds(&stage, "show servers").is_empty());
    assert_well(&mut stage);
}

/// What psql is told that replicates, without the program's own words before it.
fn verdict(stage: &Stage, port: u16, login: &str) -> Result<String, String> {
    let target = format!("host=127.0.0.1 port={port} {login}");
    let printed = run(stage, "psql", &["-X", "-d", &target, "-Atc", "IDENTIFY_SYSTEM"]);
    let fatal = |words: String| words.split_once("FATAL:").map_or(words.clone(), |(_, fatal)| fatal.trim().to_owned());
    printed.map(|(out, _)| out.split('|').nth(3).unwrap_or_default().trim().to_owned()).map_err(fatal)
}

#[test]
fn postgresql_decides_who_may_and_its_words_arrive() {
    let stage = Stage::set(&Wishes { auth: "trust", ..wishes() });
    let roles = "create role rep login replication password 'of rep'; create role app login password 'of app';
                 create role asker superuser login password 'of asker'";
    let _ = stage.direct(roles);
    let rules = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\nhost replication rep 127.0.0.1/32 scram-sha-256\n";
    fs::write(stage.cluster.data().join("pg_hba.conf"), rules).expect("we are root or its user");
    assert_eq!(stage.direct("select pg_reload_conf()"), "t");
    // Users are looked up; their passwords reach PostgreSQL as what their proofs have shown.
    let port = stage.cluster.port();
    let mut ini =
        format!("[databases]\npostgres = host=127.0.0.1 port={port}\nreplication = host=127.0.0.1 port={port}\n");
    ini += "[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\npool_mode = transaction\n";
    ini += "auth_type = scram-sha-256\nauth_file = {dir}/users.txt\nauth_user = asker\nauth_dbname = postgres\n";
    let pooler = Pooler::start(&ini, "\"asker\" \"of asker\"\n", None);
    for (login, expected) in [
        ("user=rep password='of rep' dbname=replication replication=true", Ok("")),
        ("user=rep password='of rep' dbname=postgres replication=database", Ok("postgres")),
        ("user=rep password='of app' dbname=postgres replication=database", Err("password authentication failed")),
        (
            "user=app password='of app' dbname=postgres replication=database",
            Err("must be superuser or replication role"),
        ),
        ("user=app password='of app' dbname=replication replication=true", Err("no pg_hba.conf entry for replication")),
        ("user=nobody password=x dbname=postgres replication=database", Err("password authentication failed")),
    ] {
        let [through, direct] = [pooler.port, port].map(|port| verdict(&stage, port, login));
        assert_eq!(through, direct, "{login}");
        match expected {
            Ok(database) => assert_eq!(through.as_deref(), Ok(database), "{login}"),
            Err(words) => assert!(through.as_ref().is_err_and(|told| told.contains(words)), "{login}: {through:?}"),
        }
    }
    for words in [
        "must be superuser or replication role to start walsender",
        "no pg_hba.conf entry for replication connection from host",
    ] {
        eventually(words, || pooler.log().contains(&format!("server login failed: FATAL {words}")));
    }
    println!("six logins: the same verdict as PostgreSQL's, in the same words");
}

/// One that gets WAL from here on.
fn streaming(stage: &Stage, begin: u64) -> Client {
    let mut client = replica(&stage.pooler, "true");
    client.send(&frontend::query(&format!("START_REPLICATION PHYSICAL {}", shown(begin)))).expect("connected");
    client.answer().expect("it streams");
    client
}

/// Takes all of the WAL up to there.
fn receive_all(client: &mut Client, begin: u64, end: u64) {
    let mut at = begin;
    while at < end {
        let (tag, length) = client.header().expect("the stream goes on");
        assert_eq!(tag, b'd');
        let body = client.take(length).expect("the stream goes on");
        if body[0] == b'w' {
            let start = u64::from_be_bytes(body[1..9].try_into().expect("eight bytes"));
            assert_eq!(start, at, "without a gap");
            at += body.len() as u64 - 25;
        }
    }
}

#[test]
fn a_receiver_that_takes_nothing_costs_no_memory_and_gets_all() {
    let mut stage = Stage::set(&Wishes { auth: "trust", ..wishes() });
    let _ = stage.direct("create table filler (t text)");
    let begin = lsn(&stage, "pg_current_wal_lsn()") / SEGMENT * SEGMENT;
    let mut client = streaming(&stage, begin);
    let mut swift = streaming(&stage, begin);
    let (before, _) = stage.pooler.resident_kb();
    write_wal(&stage, 8);
    let end = lsn(&stage, "pg_current_wal_flush_lsn()");
    // `swift` receives everything; meanwhile PostgreSQL can send to `client` only what the sockets' buffers hold.
    receive_all(&mut swift, begin, end);
    let sent = stage.direct("select (min(sent_lsn) - '0/0')::bigint from pg_stat_replication");
    let sent: u64 = sent.parse().expect("a number of bytes");
    let (after, _) = stage.pooler.resident_kb();
    assert!(sent < end, "{sent} of {end}: nothing was left to be sent");
    assert!(after < before + 4_000, "{before} kB, then {after} kB");
    receive_all(&mut client, begin, end);
    println!(
        "a slow receiver: {} MB of WAL, the pooler grew by {} kB",
        (end - begin) >> 20,
        after.saturating_sub(before)
    );
    // Both ends say that it is over.
    client.send(&frontend::frame(b'c', b"")).expect("connected");
    let ended = client.answer().unwrap_or_else(|gone| panic!("{gone}"));
    assert_eq!(ended.status, b'I', "{:?}", ended.tags);
    assert!(client.query("IDENTIFY_SYSTEM").expect("the next command").errors.is_empty());
    stage.assert_healthy();
}

#[test]
fn twenty_at_once_and_one_more_waits_for_its_turn() {
    let settings = vec![("max_db_connections", "20".to_owned())];
    let mut stage = Stage::set(&Wishes { auth: "trust", pool: 20, settings, ..wishes() });
    let _ = stage.direct("create table filler (t text)");
    // An idle server of the pool is in the way of the last one.
    stage.client().query("select 1").expect("served");
    let begun = Instant::now();
    let mut clients: Vec<Client> = (0..20).map(|_| replica(&stage.pooler, "database")).collect();
    println!("20 connections that replicate: {:?}", begun.elapsed());
    eventually("the idle one has made room", || stage.pooler.log().contains("closing because: evicted"));
    assert_eq!(kinds(&stage, "show servers").len(), 20);
    for (number, client) in clients.iter_mut().enumerate() {
        let slot = format!("CREATE_REPLICATION_SLOT s{number} TEMPORARY LOGICAL test_decoding");
        let made = client.query(&slot).expect("connected");
        assert!(made.errors.is_empty(), "{:?}", made.errors);
        client.send(&frontend::query(&format!("START_REPLICATION SLOT s{number} LOGICAL 0/0"))).expect("connected");
        client.answer().expect("it streams");
    }
    let mark = "insert into filler values ('a mark for all')";
    let _ = stage.direct(mark);
    for client in &mut clients {
        let mut seen = false;
        while !seen {
            let message = client.receive().expect("the stream goes on");
            seen = message.body.windows(14).any(|window| window == b"a mark for all");
        }
    }
    // No room for more until one leaves; then the waiting one gets its place.
    std::thread::scope(|scope| {
        let late =
            scope.spawn(|| replica(&stage.pooler, "database").query("IDENTIFY_SYSTEM").expect("served").rows.len());
        eventually("it waits", || console(&stage, "show clients").iter().any(|row| row.contains("|waiting|")));
        clients.pop().expect("there are twenty").send(&frontend::terminate()).expect("connected");
        assert_eq!(late.join().expect("it was let in"), 1);
    });
    drop(clients);
    eventually("nobody replicates", || kinds(&stage, "show servers").is_empty());
    stage.assert_healthy();
}

#[test]
fn its_statements_are_cancelled_and_no_timeout_strikes_its_stream() {
    let settings =
        ["query_timeout", "idle_transaction_timeout", "transaction_timeout", "client_idle_timeout", "server_lifetime"];
    let settings = settings.map(|name| (name, "1".to_owned())).to_vec();
    let stage = Stage::set(&Wishes { auth: "trust", settings, ..wishes() });
    let mut client = replica(&stage.pooler, "database");
    client.send(&frontend::query("select pg_sleep(2.5)")).expect("connected");
    let slept = client.answer().expect("beyond every timeout");
    assert!(slept.errors.is_empty(), "{:?}", slept.errors);
    client.send(&frontend::query("select pg_sleep(600)")).expect("connected");
    eventually("it sleeps", || {
        stage.direct("select count(*) from pg_stat_activity where query ~ '^select pg_sleep.600'") == "1"
    });
    client.cancel().expect("the pooler takes note");
    let cancelled = client.answer().expect("it lives on");
    assert_eq!(cancelled.errors[0].sqlstate, "57014", "{:?}", cancelled.errors);
    client.query("CREATE_REPLICATION_SLOT s TEMPORARY LOGICAL test_decoding").expect("connected");
    client.send(&frontend::query("START_REPLICATION SLOT s LOGICAL 0/0")).expect("connected");
    client.answer().expect("it streams");
    std::thread::sleep(Duration::from_millis(2500));
    client.send(&frontend::frame(b'c', b"")).expect("it is still there");
    let ended = client.answer().unwrap_or_else(|gone| panic!("{gone}"));
    assert!(ended.errors.is_empty() && ended.status == b'I', "{ended:?}");
}

#[test]
fn a_stream_stays_with_the_old_process_in_an_upgrade() {
    let settings = vec![("unix_socket_dir", "{dir}".to_owned())];
    let mut stage = Stage::set(&Wishes { auth: "trust", settings, ..wishes() });
    let _ = stage.direct("create table filler (t text)");
    let (mut stream, mut other) = (replica(&stage.pooler, "database"), stage.client());
    other.query("select 1").expect("served");
    let made = stream.query("CREATE_REPLICATION_SLOT s TEMPORARY LOGICAL test_decoding").expect("connected");
    assert!(made.errors.is_empty(), "{:?}", made.errors);
    stream.send(&frontend::query("START_REPLICATION SLOT s LOGICAL 0/0")).expect("connected");
    stream.answer().expect("it streams");
    let mut before = stage.pooler.upgrade();
    assert_eq!(other.query("select 'moved'").expect("served").value(), Some("moved"));
    let _ = stage.direct("insert into filler values ('after the upgrade')");
    while !stream.receive().expect("it goes on").body.windows(17).any(|window| window == b"after the upgrade") {}
    assert!(before.try_wait().expect("our child").is_none(), "it has a stream to serve");
    // The new process takes others that replicate, and counts the stream of the old one.
    assert_eq!(replica(&stage.pooler, "true").query("IDENTIFY_SYSTEM").expect("served").rows.len(), 1);
    stream.send(&frontend::frame(b'c', b"")).expect("connected");
    stream.answer().expect("it ends");
    stream.send(&frontend::terminate()).expect("connected");
    eventually("the old process ends", || before.try_wait().expect("our child").is_some());
    stage.assert_healthy();
}
