//! Orders of an administrator against a real PostgreSQL: it is restarted behind PAUSE and nobody notices, KILL, KILL_CLIENT and KILL_QUERY end what
//! they name, signals do what the console does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use demo::Shutdown;
use outer::{Client, Stage, Wishes, eventually};
use rustix::process::{Pid, Signal, kill_process};

/// Types one command at a console of its own. The rows that it shows, with blanks between values.
fn order(stage: &Stage, text: &str) -> Vec<String> {
    let console = Client::login(stage.pooler.address(), "postgres", "pgbouncer");
    let answer = console.unwrap_or_else(|gone| panic!("the console: {gone}")).query(text);
    let answer = answer.unwrap_or_else(|gone| panic!("{text}: {gone}"));
    assert!(answer.errors.is_empty(), "{text}: {answer:?}");
    answer.lines()
}

/// Clients that transfer money in transactions, until told to stop. An error ends the test.
struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    threads: Vec<thread::JoinHandle<u64>>,
}

impl Load {
    fn start(stage: &Stage, clients: usize) -> Load {
        let _ = stage.direct("create table if not exists ledger (id int primary key, amount int not null)");
        let _ = stage.direct("truncate ledger");
        let _ = stage.direct(&format!("insert into ledger select n, 100 from generate_series(0, {clients}) n"));
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let threads = (0..clients).map(|number| {
            let (stop, done) = (Arc::clone(&stop), Arc::clone(&done));
            let mut client = stage.client();
            thread::spawn(move || {
                let mut transfers = 0;
                while !stop.load(Ordering::Relaxed) {
                    transfer(&mut client, number);
                    transfers += 1;
                    done.fetch_add(1, Ordering::Relaxed);
                }
                transfers
            })
        });
        let threads = threads.collect();
        Load { stop, done, threads }
    }

    /// Returns how many transfers were confirmed.
    fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().map(|thread| thread.join().expect("no client has seen an error")).sum()
    }

    fn goes_on(&self) {
        let before = self.done.load(Ordering::Relaxed);
        eventually("transfers go on", || self.done.load(Ordering::Relaxed) > before + 10);
    }
}

/// Takes one from the bank and gives it to this account, in four statements.
fn transfer(client: &mut Client, number: usize) {
    let account = number + 1;
    for sql in [
        "begin",
        &format!("update ledger set amount = amount + 1 where id = {account}"),
        "update ledger set amount = amount - 1 where id = 0",
        "commit",
    ] {
        let answer = client.query(sql).unwrap_or_else(|gone| panic!("{sql}: {gone}"));
        assert!(answer.errors.is_empty(), "{sql}: {answer:?}");
    }
}

#[test]
fn postgresql_is_restarted_behind_pause_and_nobody_notices() {
    const CLIENTS: usize = 20;
    let mut stage = Stage::set(&Wishes { pool: 5, ..Wishes::default() });
    let load = Load::start(&stage, CLIENTS);
    for round in 0..3 {
        load.goes_on();
        let begun = Instant::now();
        order(&stage, "pause");
        let paused = begun.elapsed();
        assert_eq!(order(&stage, "show servers"), Vec::<String>::new(), "it is answered when all are closed");
        // PostgreSQL's processes end a little later.
        eventually("all servers have ended", || stage.backends() == 0);
        // A smart shutdown waits for every client of PostgreSQL's.
        stage.cluster.restart(Shutdown::Smart).expect("nothing keeps PostgreSQL");
        order(&stage, "resume");
        load.goes_on();
        println!("round {round}: PAUSE took {paused:?}, all of it {:?}", begun.elapsed());
    }
    let confirmed = load.end();
    assert_eq!(stage.direct("select 100 - amount from ledger where id = 0"), confirmed.to_string());
    assert_eq!(stage.direct("select sum(amount) from ledger"), (100 * (CLIENTS + 1)).to_string());
    stage.assert_healthy();
}

#[test]
fn reconnect_replaces_every_server_and_nobody_notices() {
    let stage = Stage::set(&Wishes { pool: 5, ..Wishes::default() });
    let load = Load::start(&stage, 20);
    load.goes_on();
    let pids = "select coalesce(string_agg(pid::text, ' '), '') from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()";
    let before = stage.direct(pids);
    order(&stage, "reconnect");
    order(&stage, "wait_close");
    let is_old = |row: &String| row.split('|').any(|field| before.split(' ').any(|pid| pid == field));
    let open = order(&stage, "show servers");
    assert!(!open.iter().any(is_old), "it is answered when they are closed: {open:?}");
    // PostgreSQL's processes end a little later.
    eventually("those of before have ended", || {
        let after = stage.direct(pids);
        !before.split(' ').any(|pid| after.split(' ').any(|other| other == pid))
    });
    load.goes_on();
    load.end();
}

#[test]
fn kill_and_kill_client_end_what_they_name() {
    let mut stage = Stage::set(&Wishes::default());
    let (mut victim, mut other) = (stage.client(), stage.client());
    victim.query("set application_name = 'victim'").expect("served");
    let id = id_of(&stage, "victim");
    order(&stage, &format!("kill_client {id}"));
    let gone = victim.query("select 1").expect_err("it was ended");
    assert!(gone.to_string().contains("admin forced disconnect"), "{gone}");
    assert_eq!(other.query("select 'here'").expect("served").value(), Some("here"));
    order(&stage, "kill postgres");
    assert!(other.query("select 1").expect_err("it was ended").to_string().contains("database removed"));
    eventually("its server has ended", || stage.backends() == 0);
    order(&stage, "resume postgres");
    stage.assert_healthy();
}

/// The id of the client with this application_name.
fn id_of(stage: &Stage, name: &str) -> String {
    let mut id = None;
    // A worker that does not answer in time is left out.
    eventually("it is shown", || {
        let rows = order(stage, "show clients");
        let row = rows.iter().find(|row| row.contains(name));
        id = row.map(|row| row.split('|').nth(20).expect("the id's column").to_owned());
        id.is_some()
    });
    id.expect("it was shown")
}

/// A client sleeps until it is cancelled. The error that it gets, and what it is answered afterwards.
fn sleeper(mut client: Client) -> thread::JoinHandle<(String, Option<String>)> {
    thread::spawn(move || {
        let cancelled = client.query("select pg_sleep(3600)").expect("the connection stands");
        let after = client.query("select 'here'").expect("served").value().map(str::to_owned);
        (format!("{:?}", cancelled.errors), after)
    })
}

#[test]
fn kill_query_cancels_what_one_client_runs_or_waits_with_and_both_stay() {
    let mut stage = Stage::set(&Wishes { pool: 1, ..Wishes::default() });
    let (mut runner, mut waiter) = (stage.client(), stage.client());
    runner.query("set application_name = 'runner'").expect("served");
    waiter.query("set application_name = 'waiter'").expect("served");
    let (runner_id, waiter_id) = (id_of(&stage, "runner"), id_of(&stage, "waiter"));
    let mut console = Client::login(stage.pooler.address(), "postgres", "pgbouncer").expect("the console");
    let refused = console.query(&format!("kill_query {runner_id}")).expect("answered");
    assert!(format!("{:?}", refused.errors).contains("client runs no query"), "{refused:?}");
    let ran = sleeper(runner);
    let sleeping = "select count(*) from pg_stat_activity where query = 'select pg_sleep(3600)' and state = 'active'";
    eventually("one sleeps", || stage.direct(sleeping) == "1");
    let waited = sleeper(waiter);
    eventually("one waits", || order(&stage, "show clients").iter().any(|row| row.contains("|waiting|")));
    order(&stage, &format!("kill_query {waiter_id}"));
    assert_eq!(stage.direct(sleeping), "1", "the other's query runs on");
    order(&stage, &format!("kill_query {runner_id}"));
    for outcome in [waited, ran] {
        let (error, after) = outcome.join().expect("no panic");
        assert!(error.contains("canceling statement due to user request"), "{error}");
        assert_eq!(after.as_deref(), Some("here"));
    }
    stage.assert_healthy();
}

#[test]
fn disable_keeps_newcomers_out_and_signals_pause() {
    let mut stage = Stage::set(&Wishes::default());
    let mut client = stage.client();
    order(&stage, "disable postgres");
    let refused = Client::login(stage.pooler.address(), "postgres", "postgres").err().expect("it is disabled");
    assert!(refused.to_string().contains("database \"postgres\" is disabled"), "{refused}");
    assert_eq!(client.query("select 'here'").expect("served").value(), Some("here"));
    order(&stage, "enable postgres");
    let pid = Pid::from_raw(i32::try_from(stage.pooler.pid()).expect("a pid")).expect("a pid");
    kill_process(pid, Signal::USR1).expect("it runs");
    eventually("all servers are closed", || stage.backends() == 0);
    let waiter = thread::spawn(move || client.query("select 'served'").map(|answer| answer.value().map(str::to_owned)));
    let waits = || order(&stage, "show pools").iter().any(|row| row.starts_with("postgres|postgres|0|1|"));
    eventually("it waits", waits);
    kill_process(pid, Signal::USR2).expect("it runs");
    let served = waiter.join().expect("no panic").expect("it is served");
    assert_eq!(served.as_deref(), Some("served"));
    for line in ["got SIGUSR1, pausing all activity", "got SIGUSR2, continuing from PAUSE"] {
        eventually("the log says so", || stage.pooler.log().contains(line));
    }
    stage.assert_healthy();
}

#[test]
fn set_holds_for_live_pools_until_a_reload() {
    let mut stage = Stage::set(&Wishes { pool: 1, ..Wishes::default() });
    let shown = |stage: &Stage, key: &str| {
        let rows = order(stage, "show config");
        let row = rows.iter().find(|row| row.starts_with(&format!("{key}|"))).expect("every setting is shown");
        row.split('|').nth(1).expect("its value").to_owned()
    };
    let mut clients: Vec<Client> = (0..3).map(|_| stage.client()).collect();
    clients[0].query("begin").expect("served");
    order(&stage, "set default_pool_size = 3");
    assert_eq!(shown(&stage, "default_pool_size"), "3");
    // The second and third get servers of their own while the first keeps its one.
    for client in &mut clients[1..] {
        client.query("begin").expect("a server is free");
    }
    assert_eq!(stage.backends(), 3);
    clients.iter_mut().for_each(|client| drop(client.query("commit").expect("served")));
    order(&stage, "SET query_wait_notify TO '7'");
    assert_eq!(shown(&stage, "query_wait_notify"), "7");
    // Accepted without effect, as it cannot change while the process runs.
    order(&stage, "set listen_backlog=9");
    assert_ne!(shown(&stage, "listen_backlog"), "9");
    order(&stage, "reload");
    assert_eq!(
        (shown(&stage, "default_pool_size"), shown(&stage, "query_wait_notify")),
        ("1".to_owned(), "5".to_owned())
    );
    let mut console =
        Client::login(stage.pooler.address(), "postgres", "pgbouncer").unwrap_or_else(|gone| panic!("{gone}"));
    for wrong in ["set no_such_key = 1", "set default_pool_size = many", "set pool_mode = 'elsewhere'"] {
        let answer = console.query(wrong).expect("the console goes on");
        let error = answer.errors.first().expect("it is refused");
        assert_eq!((&*error.sqlstate, &*error.message), ("08P01", "SET failed"), "{wrong}");
    }
    stage.assert_healthy();
}

/// SUSPEND under load: the pooler accepts no client and reads from none, and nothing fails. The console that has sent SUSPEND still works.
/// The transcript orders/suspend-lets-nothing-time-out proves that no timeout fires meanwhile.
#[test]
fn suspend_brings_everything_to_a_stand_and_nobody_notices() {
    const CLIENTS: usize = 20;
    const STANDS: Duration = Duration::from_millis(500);
    // A client that takes no data for suspend_timeout is closed: on a busy machine, also one that only waits for the processor.
    let settings = vec![("default_pool_size", "5".to_owned()), ("suspend_timeout", "600".to_owned())];
    let stage = Stage::set(&Wishes { settings, ..Wishes::default() });
    let load = Load::start(&stage, CLIENTS);
    let mut console = Client::login(stage.pooler.address(), "postgres", "pgbouncer").expect("an administrator");
    let mut type_it = |text: &str| console.query(text).unwrap_or_else(|gone| panic!("{text}: {gone}"));
    for _ in 0..3 {
        load.goes_on();
        let suspended = type_it("suspend");
        assert_eq!((suspended.tags.join(" ").as_str(), suspended.errors.len()), ("SUSPEND", 0), "{suspended:?}");
        assert_eq!(type_it("show state").lines(), ["active|no", "paused|no", "suspended|yes"]);
        assert_eq!(type_it("pause").errors.len(), 1);
        let done = load.done.load(Ordering::Relaxed);
        let latecomer = {
            let address = stage.pooler.address();
            thread::spawn(move || Client::login(address, "postgres", "postgres").map(drop))
        };
        let until = Instant::now() + STANDS;
        while Instant::now() < until {
            assert_eq!(type_it("show version").errors.len(), 0);
            thread::sleep(Duration::from_millis(50));
        }
        let more = load.done.load(Ordering::Relaxed) - done;
        assert!(more <= CLIENTS as u64, "{more} transfers went on, whose last answers were on their way at most");
        assert!(!latecomer.is_finished(), "nobody is accepted");
        assert_eq!(type_it("resume").tags, ["RESUME"]);
        latecomer.join().expect("no panic").expect("it is let in now");
    }
    load.goes_on();
    // The last console leaves.
    assert_eq!(type_it("suspend").tags, ["SUSPEND"]);
    drop(console);
    eventually("it resumes", || stage.pooler.log().contains("admin disappeared when suspended, doing RESUME"));
    load.goes_on();
    let confirmed = load.end();
    assert_eq!(stage.direct("select 100 - amount from ledger where id = 0"), confirmed.to_string());
    assert_eq!(stage.direct("select sum(amount) from ledger"), (100 * (CLIENTS + 1)).to_string());
}
