//! Lanes: transactions that are known to run long leave servers to the short ones, and migrations go past the line.

use std::fs;
use std::net::SocketAddr;

use outer::{Client, Stage, Wishes, eventually, frontend};

/// Four servers, eight reports, four others.
const SERVERS: u32 = 4;
const REPORTS: usize = 8;
const REPORT: &str = "select pg_sleep(0.4) /* report */";
/// REPORT with another constant, which makes it the same statement: it runs until its client disconnects.
const ENDLESS: &str = "select pg_sleep(3600) /* report */";
/// No run of these statements has been timed before, so a slow machine cannot have made one of them a long one.
const OTHERS: [&str; 4] = ["select 1 as a", "select 1 as b", "select 1 as c", "select 1 as d"];

/// Puts `section` before `[pgbouncer]`, and what follows it into it.
fn configure(stage: &Stage, section: &str, settings: &str) {
    let path = stage.pooler.dir().join("pooler.ini");
    let ini = fs::read_to_string(&path).expect("its ini file");
    let ini = ini.split("[databases]\n").nth(1).expect("it has databases");
    let ini = ini.replace("[pgbouncer]\n", &format!("{section}[pgbouncer]\n{settings}"));
    fs::write(path, format!("[databases]\n{ini}")).expect("its directory is ours");
    let mut console = Client::login(stage.pooler.address(), "postgres", "pgbouncer").expect("an administrator");
    let answer = console.query("reload").expect("an answer");
    assert!(answer.errors.is_empty(), "{answer:?}\n{}", stage.pooler.log());
}

/// A column of a table of the console, of the row that begins so; empty: there is no such row.
fn shown(console: &mut Client, table: &str, row: &str, column: &str) -> String {
    let answer = console.query(&format!("show {table}")).expect("an answer");
    let at = answer.names.iter().position(|name| name == column).unwrap_or_else(|| panic!("{column}: {answer:?}"));
    let found = answer.rows.iter().find(|found| found[0].as_deref() == Some(row));
    found.and_then(|found| found[at].clone()).unwrap_or_default()
}

#[test]
fn short_transactions_do_not_queue_behind_reports() {
    let mut stage = Stage::set(&Wishes { pool: SERVERS, workers: 1, ..Wishes::default() });
    let sleeping = || stage.direct("select count(*) from pg_stat_activity where wait_event = 'PgSleep'");
    let mut console = Client::login(stage.pooler.address(), "postgres", "pgbouncer").expect("an administrator");
    let begin = |sql: &str| {
        let mut client = stage.client();
        client.send(&frontend::query(sql)).expect("connected");
        client
    };
    // In one line reports take all servers, and others wait behind them, for as long as they last.
    let in_line: Vec<Client> = (0..REPORTS).map(|_| begin(ENDLESS)).collect();
    eventually("reports have all servers", || sleeping() == "4");
    let other = begin(OTHERS[0]);
    eventually("the other waits, too", || shown(&mut console, "pools", "postgres", "cl_waiting") == "5");
    drop((in_line, other));
    eventually("nothing runs any more", || {
        stage.end_sleepers();
        sleeping() == "0"
    });

    configure(&stage, "[classes]\nreports = max=2\ndefault = long=reports long_after=0.2\n", "");
    // REPORT takes at least 0.4 s, and counts as long from then on.
    assert!(stage.client().query(REPORT).expect("served").errors.is_empty());
    eventually("it is known", || !shown(&mut console, "lanes", "postgres", "avg_time").is_empty());
    let reports: Vec<Client> = (0..REPORTS).map(|_| begin(ENDLESS)).collect();
    eventually("two run", || sleeping() == "2");
    eventually("they are told of", || shown(&mut console, "lanes", "postgres", "statement") == ENDLESS);
    eventually("the others wait", || shown(&mut console, "classes", "reports", "cl_waiting") == "6");
    // The others are served at once, on the two servers that reports leave, though no report ends.
    for sql in OTHERS {
        assert_eq!(stage.client().query(sql).expect("served").value(), Some("1"), "{sql}");
    }
    assert_eq!(sleeping(), "2", "no server was given to a report meanwhile");
    drop(reports);
    stage.assert_healthy();
}

/// A client that calls itself so from its first message on.
fn named(address: SocketAddr, name: &str) -> Client {
    let mut client = Client::connect(address).expect("it listens");
    let parameters = [("user", "postgres"), ("database", "postgres"), ("application_name", name)];
    client.send(&frontend::startup(&parameters)).expect("sent");
    client.answer().unwrap_or_else(|gone| panic!("{gone}"));
    client
}

#[test]
fn migrations_go_past_the_line_with_a_session_of_their_own() {
    let mut stage = Stage::set(&Wishes { pool: 1, workers: 1, ..Wishes::default() });
    let rules = stage.pooler.dir().join("classes.conf");
    fs::write(&rules, "postgres postgres rake* all migrations\n").expect("its directory is ours");
    let upstream = |line: &str| line.strip_prefix("postgres = ").map(str::to_owned);
    let ini = fs::read_to_string(stage.pooler.dir().join("pooler.ini")).expect("its ini file");
    let upstream = ini.lines().find_map(upstream).expect("where PostgreSQL is");
    let section = format!(
        "direct = {upstream} dbname=postgres pool_mode=session pool_size=1\n[classes]\nmigrations = database=direct\n"
    );
    configure(&stage, &section, &format!("class_file = {}\n", rules.display()));

    let mut holder = stage.client();
    holder.query("begin").expect("the only server");
    let mut waiter = stage.client();
    waiter.send(&frontend::query("select 'waited'")).expect("sent");
    let mut migration = named(stage.pooler.address(), "rake db:migrate");
    let database = migration.query("select current_database()").expect("at once");
    assert_eq!(database.value(), Some("postgres"), "the same database: {database:?}");
    let pid =
        |client: &mut Client| client.query("select pg_backend_pid()").expect("an answer").value().map(str::to_owned);
    let first = pid(&mut migration);
    migration.query("select pg_advisory_lock(4711)").expect("an answer");
    migration.query("set statement_timeout = '5min'").expect("an answer");
    assert_eq!(pid(&mut migration), first, "a session of its own");
    let mut console = Client::login(stage.pooler.address(), "postgres", "pgbouncer").expect("an administrator");
    for pool in ["direct", "postgres"] {
        eventually(pool, || shown(&mut console, "pools", pool, "database") == pool);
    }

    holder.query("commit").expect("an answer");
    assert_eq!(waiter.answer().expect("its turn").value(), Some("waited"));
    drop(migration);
    eventually("its lock is gone with it", || stage.direct("select count(*) from pg_locks where objid = 4711") == "0");
    stage.assert_healthy();
}
