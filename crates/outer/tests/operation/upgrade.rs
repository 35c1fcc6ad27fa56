//! Online upgrade (`-R`): another process takes the place of the running one, and nobody notices.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use outer::{Client, Stage, Wishes, eventually, frontend};
use rustix::process::{Pid, Signal, kill_process};

/// The process before has to end so soon, once nobody is left there: a bound that only one that never ends reaches.
const ENDS_WITHIN: Duration = Duration::from_secs(300);

fn wishes(pool: u32, more: &[(&'static str, &str)]) -> Wishes {
    let mut settings = vec![("unix_socket_dir", "{dir}".to_owned())];
    settings.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
    Wishes { pool, settings, ..Wishes::default() }
}

/// The process before has nobody left, and ends without being told.
fn assert_ends(mut before: Child) {
    let begun = Instant::now();
    loop {
        if let Some(status) = before.try_wait().expect("it is our child") {
            assert!(status.success(), "{status}");
            return;
        }
        assert!(begun.elapsed() < ENDS_WITHIN, "the process before goes on");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A thousand clients at twenty servers wait for each other, on a busy machine for long.
const PATIENCE: Duration = Duration::from_secs(600);

/// A transfer's end, and how long it took.
type Sample = (Instant, Duration);

/// Clients that transfer money in transactions, and check that each answer is their own, until told to stop.
struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    threads: Vec<thread::JoinHandle<Vec<Sample>>>,
}

impl Load {
    fn start(stage: &Stage, clients: usize) -> Load {
        let _ = stage.direct("create table ledger (id int primary key, amount int not null)");
        let _ =
            stage.direct(&format!("insert into ledger select n, 1000000 from generate_series(0, {}) n", 2 * clients));
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let threads = (0..clients).map(|number| {
            let (stop, done) = (Arc::clone(&stop), Arc::clone(&done));
            let mut client = stage.client();
            client.set_patience(PATIENCE);
            let run = move || {
                let mut samples = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let begun = Instant::now();
                    transfer(&mut client, number, samples.len());
                    samples.push((Instant::now(), begun.elapsed()));
                    done.fetch_add(1, Ordering::Relaxed);
                }
                samples
            };
            thread::Builder::new().stack_size(256 << 10).spawn(run).expect("a thread")
        });
        let threads = threads.collect();
        Load { stop, done, threads }
    }

    /// What each client has seen.
    fn end(self) -> Vec<Sample> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().flat_map(|thread| thread.join().expect("no client has seen an error")).collect()
    }

    fn goes_on(&self, more: u64) {
        let (before, begun) = (self.done.load(Ordering::Relaxed), Instant::now());
        while self.done.load(Ordering::Relaxed) <= before + more {
            assert!(begun.elapsed() < PATIENCE, "transfers do not go on");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Takes one from one account and gives it to another, and asks for a token of its own.
fn transfer(client: &mut Client, number: usize, round: usize) {
    let (from, to) = (2 * number, 2 * number + 1);
    let token = format!("{number}-{round}");
    for sql in [
        "begin",
        &format!("update ledger set amount = amount - 1 where id = {from}"),
        &format!("select '{token}'"),
        &format!("update ledger set amount = amount + 1 where id = {to}"),
        "commit",
    ] {
        let answer = client.query(sql).unwrap_or_else(|gone| panic!("{sql}: {gone}"));
        assert!(answer.errors.is_empty(), "{sql}: {answer:?}");
        if sql.starts_with("select") {
            assert_eq!(answer.value(), Some(&*token), "I2: another's answer");
        }
    }
}

/// Backends that serve poolers, which come by TCP; whoever asks comes by the Unix socket.
fn servers(stage: &Stage) -> u32 {
    stage.direct("select count(*) from pg_stat_activity where client_port > 0").parse().expect("a count")
}

/// The part of values below which this part of them lies.
fn quantile(sorted: &[Duration], part: f64) -> Duration {
    sorted[((sorted.len() - 1) as f64 * part) as usize]
}

/// Connections that poolers have to PostgreSQL, as the kernel knows them: PostgreSQL itself has one that was closed for as long as its process
/// takes to end.
fn held(stage: &Stage) -> usize {
    let port = format!(":{:04X}", stage.cluster.port());
    // Established, or being so.
    let is_held = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.get(2).is_some_and(|remote| remote.ends_with(&port))
            && fields.get(3).is_some_and(|state| ["01", "02"].contains(state))
    };
    let of =
        |table: &str| fs::read_to_string(table).map_or(0, |table| table.lines().filter(|line| is_held(line)).count());
    of("/proc/net/tcp") + of("/proc/net/tcp6")
}

/// The kernel's table is not read in one moment: it may show a connection that was closed meanwhile beside the one that took its place. It shows no
/// such thing again and again, however slow a machine is.
fn assert_at_most(what: &str, most: usize, count: impl Fn() -> usize) {
    const LOOKS: usize = 100;
    assert!((0..LOOKS).any(|_| count() <= most), "{what}: more than {most} at {LOOKS} looks in a row");
}

#[test]
fn five_upgrades_under_a_thousand_clients_fail_lose_and_double_nothing() {
    const CLIENTS: usize = 1000;
    const POOL: u32 = 20;
    let mut stage = Stage::set(&wishes(POOL, &[("max_client_conn", "1010"), ("query_wait_timeout", "0")]));
    let load = Load::start(&stage, CLIENTS);
    load.goes_on(2000);
    let mut upgrades = Vec::new();
    for _ in 0..5 {
        let begun = Instant::now();
        let mut before = stage.pooler.upgrade();
        // Both processes together never have more servers than one may.
        while before.try_wait().expect("it is our child").is_none() && begun.elapsed() < ENDS_WITHIN {
            assert_at_most("I5: servers of both processes", POOL as usize, || held(&stage));
        }
        assert_ends(before);
        upgrades.push((begun, Instant::now()));
        load.goes_on(2000);
    }
    let samples = load.end();
    assert_eq!(stage.direct("select sum(amount) from ledger"), (1_000_000 * (2 * CLIENTS + 1)).to_string());
    let moved = stage.direct("select sum(amount - 1000000) from ledger where amount > 1000000");
    assert_eq!(moved, samples.len().to_string(), "every confirmed transfer was made once");
    let during = |(end, took): &&Sample| upgrades.iter().any(|(from, to)| *end >= *from && *end - *took <= *to);
    let mut within: Vec<Duration> = samples.iter().filter(during).map(|(_, took)| *took).collect();
    let mut others: Vec<Duration> = samples.iter().filter(|sample| !during(sample)).map(|(_, took)| *took).collect();
    within.sort_unstable();
    others.sort_unstable();
    let shown = |sorted: &[Duration]| format!("{:?} / {:?}", quantile(sorted, 0.5), quantile(sorted, 0.999));
    println!(
        "five upgrades, {} transfers by {CLIENTS} clients: median / p99.9 during them {}, otherwise {}",
        samples.len(),
        shown(&within),
        shown(&others)
    );
    stage.assert_healthy();
}

#[test]
fn sessions_go_on_as_they_were() {
    let mut stage = Stage::set(&wishes(6, &[]));
    let mut clients: Vec<Client> = (0..4).map(|_| stage.client()).collect();
    let [plain, pinned, prepared, in_transaction] = &mut clients[..] else { unreachable!("four") };
    let run = |client: &mut Client, sql: &str| {
        let answer = client.query(sql).unwrap_or_else(|gone| panic!("{sql}: {gone}"));
        assert!(answer.errors.is_empty(), "{sql}: {answer:?}");
        answer.value().map(str::to_owned)
    };
    run(plain, "set application_name = 'plain'; set work_mem = '7MB'; set search_path = pg_catalog");
    run(plain, "prepare by_sql as select 'by sql'");
    run(pinned, "create temp table t as select 42 as n");
    run(pinned, "select pg_advisory_lock(7)");
    let pid = run(pinned, "select pg_backend_pid()");
    assert_eq!(
        prepared.extended("by_name", "select $1::text || '!'", &["here"]).expect("served").value(),
        Some("here!")
    );
    run(in_transaction, "begin");
    run(in_transaction, "create temp table u on commit drop as select 1");
    for round in 0..3 {
        let before = stage.pooler.upgrade();
        for name in ["work_mem", "application_name", "search_path"] {
            let expected = match name {
                "work_mem" => "7MB",
                "application_name" => "plain",
                _ => "pg_catalog",
            };
            assert_eq!(run(plain, &format!("show {name}")).as_deref(), Some(expected), "round {round}");
        }
        assert_eq!(run(plain, "execute by_sql").as_deref(), Some("by sql"));
        assert_eq!(run(pinned, "select n from t").as_deref(), Some("42"));
        assert_eq!(run(pinned, "select pg_backend_pid()"), pid, "it keeps its server");
        assert_eq!(run(pinned, "select count(*) from pg_locks where locktype = 'advisory'").as_deref(), Some("1"));
        let answer = prepared.prepared("by_name", &[&format!("round {round}")]).expect("it is known there too");
        assert_eq!(answer.value(), Some(&*format!("round {round}!")));
        // In its transaction until now: the process before waits for it.
        assert_eq!(run(in_transaction, "select count(*) from u").as_deref(), Some("1"));
        run(in_transaction, "commit");
        assert_ends(before);
        run(in_transaction, "begin");
        run(in_transaction, "create temp table u on commit drop as select 1");
    }
    run(in_transaction, "rollback");
    drop(clients);
    stage.assert_healthy();
}

#[test]
fn in_session_mode_sessions_keep_their_servers() {
    let mut stage = Stage::set(&wishes(3, &[("pool_mode", "session")]));
    let mut clients: Vec<Client> = (0..3).map(|_| stage.client()).collect();
    let pid = |client: &mut Client| client.query("select pg_backend_pid()").expect("served").value().map(str::to_owned);
    let pids: Vec<_> = clients.iter_mut().map(pid).collect();
    let _ = clients[0].query("set work_mem = '9MB'; listen news").expect("served");
    let before = stage.pooler.upgrade();
    assert_ends(before);
    assert_eq!(clients.iter_mut().map(pid).collect::<Vec<_>>(), pids);
    assert_eq!(clients[0].query("show work_mem").expect("served").value(), Some("9MB"));
    let _ = clients[1].query("notify news").expect("served");
    // All three are taken: a fourth waits, and gets the server of one that leaves, reset.
    drop(clients);
    assert_eq!(stage.client().query("show work_mem").expect("served").value(), Some("4MB"));
    stage.assert_healthy();
}

#[test]
fn a_cancel_finds_its_query_in_either_process() {
    // Doors give the other process two minutes to say that a cancel is over.
    let mut stage = Stage::set(&wishes(3, &[("cancel_wait_timeout", "0")]));
    let mut clients: Vec<Client> = (0..2).map(|_| stage.client()).collect();
    let sleeping = |stage: &Stage| {
        stage.direct("select count(*) from pg_stat_activity where state = 'active' and query like 'select pg_sleep%'")
    };
    let cancelled = |client: &mut Client, stage: &Stage| {
        eventually("it runs", || sleeping(stage) == "1");
        let begun = Instant::now();
        client.cancel().expect("somebody listens");
        assert!(begun.elapsed() < Duration::from_secs(60), "nobody has said that the cancel is over");
        let answer = client.answer().expect("a cancelled query is no reason to be disconnected");
        assert_eq!(answer.errors.first().map(|error| &*error.sqlstate), Some("57014"), "{answer:?}");
    };
    // It runs in the process before while the cancel comes to the new one.
    clients[0].send(&frontend::query("select pg_sleep(3600)")).expect("connected");
    eventually("it runs", || sleeping(&stage) == "1");
    let before = stage.pooler.upgrade();
    cancelled(&mut clients[0], &stage);
    assert_ends(before);
    // And with a key from a process that has ended.
    for client in &mut clients {
        client.send(&frontend::query("select pg_sleep(3600)")).expect("connected");
        cancelled(client, &stage);
    }
    stage.assert_healthy();
}

#[test]
fn if_the_new_process_does_not_start_or_dies_the_old_one_goes_on() {
    let mut stage = Stage::set(&wishes(5, &[]));
    let load = Load::start(&stage, 20);
    load.goes_on(100);
    let file = stage.pooler.dir().join("pooler.ini");
    let good = fs::read_to_string(&file).expect("it was written");
    // It has asked for everything, and then finds out that it cannot start.
    for (wrong, words) in [
        ("client_tls_sslmode = require\nclient_tls_cert_file = /nowhere\nclient_tls_key_file = /nowhere\n", "FATAL"),
        ("no_such_setting = 1\n", "FATAL cannot load config file"),
    ] {
        fs::write(&file, format!("{good}{wrong}")).expect("it is ours");
        let status = stage.pooler.start_successor().wait().expect("it is our child");
        assert!(!status.success(), "{wrong}");
        assert!(stage.pooler.log().contains(words), "{wrong}");
        load.goes_on(100);
        assert!(stage.pooler.is_alive());
        drop(stage.client());
    }
    fs::write(&file, &good).expect("it is ours");
    // It is killed when it has taken over everybody but one, whom the process before keeps.
    load.end();
    let mut client = stage.client();
    let _ = client.query("begin").expect("served");
    let before = stage.pooler.upgrade();
    kill_process(Pid::from_raw(i32::try_from(stage.pooler.pid()).expect("a pid")).expect("not 0"), Signal::KILL)
        .expect("it runs");
    eventually("the process before goes on", || stage.pooler.log().contains("going on without it"));
    assert_eq!(client.query("select 'still here'").expect("it has not moved").value(), Some("still here"));
    let _ = client.query("commit").expect("served");
    assert_eq!(stage.client().query("select 'new'").expect("served").value(), Some("new"));
    // And hands over once more.
    let killed = stage.pooler.take_back(before);
    drop(killed);
    let before = stage.pooler.upgrade();
    assert_ends(before);
    assert_eq!(client.query("select 'moved'").expect("served").value(), Some("moved"));
    stage.assert_healthy();
}

/// A console of the process that listens now.
fn console(stage: &Stage) -> Client {
    Client::login(stage.pooler.address(), "postgres", "pgbouncer").unwrap_or_else(|gone| panic!("the console: {gone}"))
}

fn order(stage: &Stage, text: &str) {
    let answer = console(stage).query(text).unwrap_or_else(|gone| panic!("{text}: {gone}"));
    assert!(answer.errors.is_empty(), "{text}: {answer:?}");
}

#[test]
fn orders_reach_whoever_is_left_in_the_process_before() {
    let mut stage = Stage::set(&wishes(3, &[]));
    let mut left = stage.client();
    let _ = left.query("begin").expect("served");
    let before = stage.pooler.upgrade();
    let mut pausing = console(&stage);
    let paused = thread::spawn(move || pausing.query("pause").map(|answer| answer.errors.is_empty()));
    eventually("the process before follows", || stage.pooler.log().contains("taking commands"));
    // A PAUSE that does not wait for the process before is answered after two looks, 50 ms from each other.
    let _ = left.query("select pg_sleep(0.5)").expect("it is in a transaction");
    assert!(!paused.is_finished(), "PAUSE is answered while a server is in use");
    let _ = left.query("commit").expect("served");
    assert_eq!(paused.join().expect("no panic").ok(), Some(true));
    eventually("all servers have ended", || servers(&stage) == 0);
    assert_ends(before);
    order(&stage, "resume");
    let _ = left.query("begin").expect("served");
    let before = stage.pooler.upgrade();
    order(&stage, "kill");
    // KILL is answered before the servers of the process before are closed.
    eventually("KILL ends the transaction in the process before", || match left.query("select 'still here'") {
        Ok(answer) => answer.errors.first().map(|error| &*error.sqlstate) == Some("57P01"),
        Err(_) => true,
    });
    assert_ends(before);
    order(&stage, "resume");
    assert_eq!(stage.client().query("select 'new'").expect("served").value(), Some("new"));
    stage.assert_healthy();
}

/// psql over TLS, for as long as it is told.
struct Psql {
    process: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl Psql {
    fn start(stage: &Stage, url: &str) -> Psql {
        let psql = stage.binaries.program("psql").expect("it comes with PostgreSQL");
        let mut command = Command::new(psql);
        command.args(["-X", "-q", "-A", "-t", "-d", url]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.stderr(Stdio::null()).spawn().expect("psql is there");
        let stdin = process.stdin.take().expect("a pipe");
        let stdout = BufReader::new(process.stdout.take().expect("a pipe"));
        let (sender, lines) = channel();
        thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Psql { process, stdin, lines }
    }

    /// The first line of the answer; `None`: it has none.
    fn ask(&mut self, sql: &str) -> Option<String> {
        // Fails if psql has ended.
        let _ = writeln!(self.stdin, "{sql};");
        self.lines.recv_timeout(PATIENCE).ok()
    }
}

impl Drop for Psql {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn clients_over_tls_are_served_where_they_are_until_upgrade_timeout_and_finish_their_transactions() {
    let (stage, ours) = Stage::encrypted();
    let ini = format!(
        "[databases]\n* = host=localhost port={} dbname=postgres user=ann password=right\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
         listen_port = {{port}}\nunix_socket_dir = {{dir}}\nauth_type = scram-sha-256\nauth_file = {{dir}}/users.txt\n\
         pool_mode = transaction\nadmin_users = ann\ndefault_pool_size = 2\nclient_tls_sslmode = allow\n\
         client_tls_cert_file = {}\nclient_tls_key_file = {}\nserver_tls_sslmode = require\nupgrade_timeout = 30\nobserve_interval = 0\n",
        stage.cluster.port(),
        ours.path("pooler.crt"),
        ours.path("pooler.key"),
    );
    let mut pooler = outer::Pooler::start(&ini, "\"ann\" \"right\"\n", None);
    let port = pooler.port;
    let url = |mode: &str| format!("host=127.0.0.1 port={port} user=ann password=right dbname=postgres sslmode={mode}");
    let [mut idle, mut busy] = [0, 1].map(|_| Psql::start(&stage, &url("require")));
    let mut clear = Psql::start(&stage, &url("disable"));
    for client in [&mut idle, &mut busy, &mut clear] {
        assert_eq!(client.ask("select 1").as_deref(), Some("1"));
    }
    assert_eq!(busy.ask("begin; select 2").as_deref(), Some("2"));
    let before = pooler.upgrade();
    // All three are served; the one in the clear by the new process. Over both there are no more servers than before. So few rounds are over long
    // before upgrade_timeout is, on a busy machine too: twenty took 25 s beside two other rings, four loops and a build.
    for _ in 0..4 {
        assert_eq!(idle.ask("select 'idle'").as_deref(), Some("idle"));
        assert_eq!(clear.ask("select 'clear'").as_deref(), Some("clear"));
        assert_at_most("I5: servers of both processes", 2, || held(&stage));
    }
    let mut newcomer = Psql::start(&stage, &url("require"));
    assert_eq!(newcomer.ask("select 'new'").as_deref(), Some("new"));
    assert_eq!(busy.ask("select 'in a transaction'").as_deref(), Some("in a transaction"));
    // The one between two transactions is told, the other one finishes first.
    eventually("upgrade_timeout is over", || pooler.log().contains("upgrade_timeout is over"));
    assert_eq!(busy.ask("select 'still'").as_deref(), Some("still"));
    assert_eq!(busy.ask("select count(*) from pg_class where relname = 'pg_class'; commit").as_deref(), Some("1"));
    assert_ends(before);
    assert!(idle.process.try_wait().is_ok() && idle.ask("select 1").is_none(), "it was ended");
    assert_eq!(newcomer.ask("select 'new'").as_deref(), Some("new"));
    assert_eq!(clear.ask("select 'clear'").as_deref(), Some("clear"));
}
