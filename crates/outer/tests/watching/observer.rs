//! The observer on a PostgreSQL that does not play along: of another version, without rights, silent, gone; and texts of clients that are no texts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};
use std::{env, fs};

use demo::Binaries;
use outer::{Authority, Client, Stage, Wishes, eventually, frontend};

fn console(stage: &Stage) -> Client {
    Client::login(stage.pooler.address(), "postgres", "pgbouncer").expect("an administrator")
}

type Shown = BTreeMap<String, Option<String>>;

fn show(stage: &Stage, what: &str) -> Vec<Shown> {
    let answer = console(stage).query(&format!("SHOW {what}")).expect("an answer");
    assert!(answer.errors.is_empty(), "{what}: {:?}", answer.errors);
    answer.rows.iter().map(|row| answer.names.iter().cloned().zip(row.iter().cloned()).collect()).collect()
}

/// Repeats `look` until it finds something: if PostgreSQL answers too late, only the pooler's half is shown, and the observer then rests
/// for twenty times as long as it has waited.
fn found<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(300), "it is never seen: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn wishes(settings: &[(&'static str, &str)]) -> Wishes {
    let mut all = vec![("observe_memory", "67108864".to_owned())];
    all.extend(settings.iter().map(|(name, value)| (*name, (*value).to_owned())));
    Wishes { settings: all, ..Wishes::default() }
}

fn run(client: &mut Client, sql: &str) {
    let answer = client.query(sql).expect("connected");
    assert!(answer.errors.is_empty(), "{sql}: {:?}", answer.errors);
}

#[test]
fn each_version_of_postgresql_is_joined() {
    let Some(folder) = env::var_os("PGWEIR_POSTGRESQLS").filter(|folder| !folder.is_empty()) else {
        return joined(&Stage::set(&wishes(&[])));
    };
    for major in ["14", "16", "17", "18"] {
        let tree = Path::new(&folder).join(major);
        let binaries = Binaries::at(&tree.join("bin"), Some(&tree)).expect("tools/postgresql-versions has made it");
        joined(&Stage::set_on(binaries, &wishes(&[])));
    }
}

/// Each column of ours is what PostgreSQL says of the same backend.
fn joined(stage: &Stage) {
    let mut client = stage.client();
    run(&mut client, "create table t (id int); begin; insert into t values (1) /*controller:carts,correlation_id:9*/");
    let mut stranger = stage.cluster.psql("postgres", "select version()").expect("it answers");
    stranger.truncate(20);
    let mut theirs = String::new();
    // It is idle in its transaction a moment before it waits for its client.
    eventually("it waits", || {
        theirs = stage.direct(
            "select pid || ' ' || state || ' ' || wait_event_type || ':' || wait_event from pg_stat_activity where query like 'create table t%'",
        );
        !theirs.is_empty()
    });
    // A reading that began before the session had its server shows both apart.
    let is_it = |row: &Shown| {
        let is_clients = row["origin"].as_deref() == Some("client") && row["wait_event"].is_some();
        row["tags"].as_deref() == Some("controller=carts correlation_id=9") && is_clients
    };
    let row = found(&stranger, || show(stage, "ACTIVITY").into_iter().find(is_it));
    let text = |name: &str| row[name].clone().unwrap_or_default();
    let ours = format!("{} {} {}:{}", text("pid"), text("state"), text("wait_event_type"), text("wait_event"));
    assert_eq!(ours, theirs, "{stranger}");
    assert_eq!(text("client_addr"), "127.0.0.1", "{stranger}");
    assert!(text("transaction_age").parse::<f64>().expect("seconds") >= 0.0, "{stranger}");
    found(&stranger, || {
        show(stage, "STATES").into_iter().find(|row| row["state"].as_deref() == Some("idle in transaction"))
    });
}

/// Names, tags, and statements are bytes of clients.
#[test]
fn texts_of_clients_are_texts() {
    let stage = Stage::set(&wishes(&[]));
    let mut client = stage.client();
    run(&mut client, "set application_name = '<b>\u{1b}[31m\"=cmd()'");
    let sql = "select pg_sleep(3600), '<script>\u{1b}]0;owned\u{7}' /*controller:'\u{202e}\"<i>\nx'*/";
    client.send(&frontend::query(sql)).expect("connected");
    eventually("it runs", || stage.direct("select count(*) from pg_stat_activity where wait_event = 'PgSleep'") == "1");
    let sleeps = |row: &Shown| row["wait_event"].as_deref() == Some("PgSleep");
    let row = found("it runs", || show(&stage, "ACTIVITY").into_iter().find(sleeps));
    assert_eq!(row["query"].as_deref(), Some(sql));
    let lines = |format: &str| -> Vec<String> {
        show(&stage, &format!("ACTIVITY FORMAT {format}"))
            .into_iter()
            .filter_map(|row| row.into_values().next()?)
            .collect()
    };
    let row = found("it runs", || {
        let text = lines("JSON").remove(0);
        assert!(!text.contains('\u{1b}'));
        let json: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        json.as_array().expect("rows").iter().find(|row| row["wait_event"] == "PgSleep").cloned()
    });
    assert_eq!(row["query"], sql);
    let line = found("it runs", || lines("CSV").into_iter().find(|line| line.contains("PgSleep")));
    assert!(line.contains("\"select pg_sleep(3600), '<script>"), "{line}");
    // What is kept has no constants.
    found("it is counted", || {
        let rows = show(&stage, "WAITS BY STATEMENT LAST 60s");
        rows.into_iter().find(|row| row["name"].as_deref() == Some("select pg_sleep(?), ?"))
    });
}

#[test]
fn a_kept_server_is_shown_with_what_it_is_kept_for() {
    let stage = Stage::set(&wishes(&[("workers", "1")]));
    let mut client = stage.client();
    run(&mut client, "create temp table basket (id int) /*job:import*/");
    // A question of the pooler's own may be the last that its server has heard.
    run(&mut client, "set search_path = pg_temp, public");
    let text = |row: &Shown, name: &str| row[name].clone().unwrap_or_default();
    let is_it = |row: &Shown| text(row, "reason") == "kept between transactions";
    let holder = found("it is a holder", || show(&stage, "HOLDERS").into_iter().find(is_it));
    let pin = found("it is pinned", || show(&stage, "PINS").into_iter().next());
    assert_eq!(text(&holder, "query"), text(&pin, "statement"));
    assert_eq!((&*text(&holder, "tags"), &*text(&holder, "keeps")), ("job=import", &*text(&pin, "reasons")));
    // What runs now is shown while it runs.
    client.send(&frontend::query("select pg_sleep(3600)")).expect("connected");
    found("its statement is shown", || {
        show(&stage, "HOLDERS").into_iter().find(|row| text(row, "query").contains("pg_sleep"))
    });
}

#[test]
fn a_role_without_rights_sees_its_own_and_is_told_what_would_help() {
    let stage = Stage::set(&wishes(&[("observe_user", "watcher"), ("observe_interval", "1")]));
    let _ = stage.direct("create role watcher login password 'w'");
    let users = stage.pooler.dir().join("users.txt");
    let text = std::fs::read_to_string(&users).expect("it is there") + "\"watcher\" \"w\"\n";
    std::fs::write(&users, text).expect("it is ours");
    run(&mut console(&stage), "RELOAD");
    let mut client = stage.client();
    run(&mut client, "begin; select 1 /*controller:hidden*/");
    eventually("the log says what it does not see", || {
        stage.pooler.log().contains("does not tell \"watcher\" what other users do: GRANT pg_monitor")
    });
    let of = |name: &str| -> Vec<Option<String>> {
        show(&stage, "ACTIVITY").into_iter().map(|row| row[name].clone()).collect()
    };
    assert!(of("tags").iter().all(Option::is_none), "nothing is told of others: {:?}", of("query"));
    // The pooler's half is there still.
    assert!(of("origin").contains(&Some("client".to_owned())));
    let _ = stage.direct("grant pg_monitor to watcher");
    found("it is seen", || of("tags").contains(&Some("controller=hidden".to_owned())).then_some(()));
}

/// All processes of a PostgreSQL are stopped: nobody gets an answer, and the console has the pooler's half at once.
#[test]
fn a_hung_postgresql_holds_up_nobody_else() {
    let stage = Stage::set(&wishes(&[]));
    let mut client = stage.client();
    run(&mut client, "begin; select 1 /*controller:carts*/");
    found("it is observed", || show(&stage, "ACTIVITY").into_iter().find(|row| row["tags"].is_some()));
    let pid = observer(&stage);
    signal(pid, rustix::process::Signal::STOP);
    // Each of these ends while PostgreSQL gives no answer. control/tests/steward.rs proves that SHOW is answered after three seconds at the
    // latest, even if the observer gets no answer.
    for _ in 0..5 {
        assert!(show(&stage, "ACTIVITY").iter().any(|row| row["origin"].as_deref() == Some("client")));
        run(&mut client, "select 2");
    }
    found("it is said", || is_silent(&stage).then_some(()));
    signal(pid, rustix::process::Signal::CONT);
    // By itself the observer rests for twenty times as long as it has waited.
    found("whoever wants to see locks has it asked again", || {
        show(&stage, "LOCKS");
        (!is_silent(&stage)).then_some(())
    });
    found("it is observed", || show(&stage, "ACTIVITY").into_iter().find(|row| row["query"].is_some()));
    assert_said_once(&stage);
}

/// The log lines about PostgreSQL's answers to the observer, in order: true for each that reports no answer.
fn silences(stage: &Stage) -> Vec<bool> {
    let log = stage.pooler.log();
    let lines = log.lines().map(|line| (line.contains("cannot be asked what its backends do: no answer"), line));
    lines
        .filter(|(is_silent, line)| *is_silent || line.contains("answers again"))
        .map(|(is_silent, _)| is_silent)
        .collect()
}

fn is_silent(stage: &Stage) -> bool {
    silences(stage).last() == Some(&true)
}

/// On a busy machine PostgreSQL may be silent more than once; each time is logged once.
fn assert_said_once(stage: &Stage) {
    let silences = silences(stage);
    assert!(!silences.is_empty() && silences.windows(2).all(|two| two[0] != two[1]), "{}", stage.pooler.log());
}

/// The process of the observer's one connection.
fn observer(stage: &Stage) -> i32 {
    let mut pid = 0;
    eventually("it is connected", || observers(stage).parse().map(|found| pid = found).is_ok());
    pid
}

fn signal(pid: i32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid).expect("not 0");
    rustix::process::kill_process(pid, signal).expect("it is there");
}

#[test]
fn the_observer_is_one_of_max_server_connections_and_can_be_turned_off() {
    let stage = Stage::set(&wishes(&[("max_server_connections", "3")]));
    let clients: Vec<Client> = (0..6)
        .map(|_| {
            let mut client = stage.client();
            client.send(&frontend::query("begin; select pg_sleep(3600)")).expect("connected");
            client
        })
        .collect();
    eventually("two are served", || stage.backends() == 2);
    let all = "select count(*) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()";
    eventually("the observer is the third", || stage.direct(all) == "3");
    drop(clients);
    run(&mut console(&stage), "SET observe_interval = 0");
    let observers = "select count(*) from pg_stat_activity where application_name = 'pgweir observer'";
    eventually("it is gone", || stage.direct(observers) == "0");
    let mut client = stage.client();
    run(&mut client, "begin; select 1");
    assert!(
        show(&stage, "ACTIVITY").iter().any(|row| row["origin"].as_deref() == Some("client")),
        "the pooler's half is there"
    );
}

/// A wait of a second, with who is in its way.
#[test]
fn a_lock_wait_is_one_line_in_the_log() {
    let stage = Stage::set(&wishes(&[]));
    let mut idle = stage.client();
    run(&mut idle, "create table t (id int primary key, n int); insert into t values (1, 0)");
    run(&mut idle, "begin; update t set n = 1 where id = 1 /*controller:basket*/");
    let mut waiting = stage.client();
    waiting
        .send(&frontend::query("update t set n = 2 where id = 1 and 'secret' <> '' /*controller:checkout,\nforged:1*/"))
        .expect("connected");
    eventually("it is said", || stage.pooler.log().contains("lock wait: client"));
    let log = stage.pooler.log();
    let line = log.lines().find(|line| line.contains("lock wait: client")).expect("it is there");
    for part in [
        "controller=checkout",
        "waits for ShareLock on transactionid",
        "in its way: client",
        "controller=basket",
        "idle in transaction",
        "with ExclusiveLock",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(!line.contains("secret"), "{line}");
    // Two more samples, and no more lines.
    let looks = || {
        show(&stage, "WAITS LAST 60s")
            .first()
            .and_then(|row| row["looks"].clone())
            .and_then(|looks| looks.parse::<u32>().ok())
    };
    let before = found("it is looked", looks);
    found("it was looked twice more", || looks().filter(|now| *now >= before + 2));
    assert_eq!(stage.pooler.log().matches("lock wait:").count(), 1);
    // Nor after looks that PostgreSQL has not answered.
    let pid = observer(&stage);
    signal(pid, rustix::process::Signal::STOP);
    found("it is said", || {
        show(&stage, "LOCKS");
        is_silent(&stage).then_some(())
    });
    signal(pid, rustix::process::Signal::CONT);
    found("the waiter is seen", || show(&stage, "LOCKS").into_iter().find(|row| row["depth"].as_deref() == Some("1")));
    assert_said_once(&stage);
    assert_eq!(stage.pooler.log().matches("lock wait:").count(), 1, "{}", stage.pooler.log());
}

/// The observer's connections to PostgreSQL.
fn observers(stage: &Stage) -> String {
    stage.direct(
        "select coalesce(string_agg(pid::text, ' '), '') from pg_stat_activity where application_name = 'pgweir observer'",
    )
}

/// PostgreSQL waits for five seconds until a database is left: who asks every ten would not see in time that somebody wants it dropped.
#[test]
fn an_observer_that_seldom_asks_does_not_stay_in_a_database() {
    let stage = Stage::set(&wishes(&[("observe_interval", "10")]));
    let mut client = stage.client();
    run(&mut client, "begin; select 1");
    let is_seen = || show(&stage, "ACTIVITY").into_iter().find(|row| row["query"].is_some());
    found("it has asked", is_seen);
    eventually("it has left", || observers(&stage).is_empty());
    found("it comes when it is asked to", is_seen);
    eventually("and leaves", || observers(&stage).is_empty());
}

fn looks(stage: &Stage) -> u32 {
    let rows = show(stage, "HISTORY LAST 60s");
    let seconds: BTreeSet<_> = rows.iter().filter_map(|row| row["time"].clone()).collect();
    u32::try_from(seconds.len()).expect("a minute has few")
}

/// As with a file of PgBouncer's: each connection is one that PostgreSQL's administrator does not expect.
#[test]
fn without_trouble_no_server_is_asked() {
    let stage = Stage::set(&wishes(&[("observe_when", "trouble"), ("observe_interval", "0")]));
    let mut client = stage.client();
    // On a busy machine the first server may take a second, which is trouble: nobody looks then.
    run(&mut client, "select 1");
    run(&mut console(&stage), "SET observe_interval = 1");
    let before = looks(&stage);
    found("three seconds are in the history", || (looks(&stage) >= before + 3).then_some(()));
    assert_eq!(observers(&stage), "");
    client.send(&frontend::query("select pg_sleep(600)")).expect("connected");
    eventually("a statement takes long", || !observers(&stage).is_empty());
    let row = found("it is seen", || {
        show(&stage, "ACTIVITY").into_iter().find(|row| row["wait_event"].as_deref() == Some("PgSleep"))
    });
    assert_eq!(row["origin"].as_deref(), Some("client"));
}

#[test]
fn who_looks_first_waits_until_the_server_has_answered() {
    let stage = Stage::set(&wishes(&[("observe_when", "trouble")]));
    let mut client = stage.client();
    run(&mut client, "begin; select 1");
    // A machine that is busy may let it wait for too long: then the pooler's half is shown.
    let row = found("its backend", || show(&stage, "ACTIVITY").into_iter().find(|row| row["query"].is_some()));
    assert_eq!(row["state"].as_deref(), Some("idle in transaction"));
    assert!(!observers(&stage).is_empty());
}

#[test]
fn a_changed_interval_does_not_wait_out_the_old_one() {
    let stage = Stage::set(&wishes(&[("observe_interval", "3600")]));
    let mut client = stage.client();
    run(&mut client, "begin; select 1");
    run(&mut console(&stage), "SET observe_interval = 1");
    found("it was looked twice more", || {
        let looks = show(&stage, "WAITS LAST 60s").first().and_then(|row| row["looks"].clone())?;
        looks.parse::<u32>().ok().filter(|looks| *looks >= 3)
    });
}

#[test]
fn the_observer_connects_anew_when_encryption_is_to_be_another() {
    let stage = Stage::set(&wishes(&[("server_tls_sslmode", "prefer")]));
    eventually("it is connected", || !observers(&stage).is_empty());
    // After a slow answer it leaves by itself.
    let mut before = String::new();
    eventually("it stays where nothing has changed", || {
        before = observers(&stage);
        run(&mut console(&stage), "RELOAD");
        let _ = show(&stage, "ACTIVITY");
        !before.is_empty() && observers(&stage) == before
    });
    run(&mut console(&stage), "SET server_tls_sslmode = disable");
    eventually("it has a new connection", || {
        let now = observers(&stage);
        !now.is_empty() && now.split(' ').all(|pid| pid != before)
    });
}

#[test]
fn the_observer_connects_anew_when_a_file_of_tls_has_changed() {
    let stage = Stage::set(&wishes(&[("server_tls_sslmode", "prefer")]));
    let (first, second) = (Authority::new(&stage, "first"), Authority::new(&stage, "second"));
    let file = first.path("ca.crt");
    let mut console = console(&stage);
    run(&mut console, &format!("SET server_tls_ca_file = '{file}'"));
    let _ = show(&stage, "ACTIVITY");
    let mut before = String::new();
    eventually("it is connected", || {
        before = observers(&stage);
        before.parse::<u32>().is_ok()
    });
    first.write("ca.crt", &fs::read_to_string(second.path("ca.crt")).expect("it was just made"));
    eventually("it is noticed", || stage.pooler.log().contains("the files of TLS have changed and were read again"));
    eventually("it has a new connection", || {
        let now = observers(&stage);
        !now.is_empty() && now.split(' ').all(|pid| pid != before)
    });
}

/// A process that takes the place of one that was paused is paused from its beginning.
#[test]
fn the_observer_of_a_new_process_knows_that_it_is_paused() {
    let mut stage = Stage::set(&wishes(&[("unix_socket_dir", "{dir}"), ("observe_interval", "1")]));
    eventually("it is connected", || !observers(&stage).is_empty());
    run(&mut console(&stage), "PAUSE");
    eventually("it has left", || observers(&stage).is_empty());
    let mut before = stage.pooler.upgrade();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(2500) {
        assert_eq!(observers(&stage), "", "everything is paused");
    }
    run(&mut console(&stage), "RESUME");
    eventually("it is asked again", || !observers(&stage).is_empty());
    assert!(before.wait().expect("it is our child").success(), "nobody is left there");
}

/// Looks that are asked for while others are under way are answered, each of them: one that was lost is answered after three seconds only.
#[test]
#[ignore = "test-full: measures how long looks take; that none is lost is proven in pgweir/src/observer/looks.rs and control/tests/steward.rs"]
fn a_look_is_not_lost_beside_others() {
    let stage = Stage::set(&wishes(&[("observe_interval", "1")]));
    let mut consoles: Vec<Client> = (0..8).map(|_| console(&stage)).collect();
    let begun = Instant::now();
    for round in 0.. {
        if begun.elapsed() > Duration::from_secs(4) {
            break;
        }
        for (number, client) in consoles.iter_mut().enumerate() {
            let what = ["ACTIVITY", "LOCKS", "HOLDERS", "LOCK_COUNTS"][(round + number) % 4];
            client.send(&frontend::query(&format!("SHOW {what}"))).expect("connected");
        }
        let asked = Instant::now();
        for client in &mut consoles {
            let answer = client.answer().expect("an answer");
            assert!(answer.errors.is_empty(), "{:?}", answer.errors);
        }
        assert!(asked.elapsed() < Duration::from_millis(2500), "{:?}", asked.elapsed());
    }
}
