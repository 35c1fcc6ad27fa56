//! Several processes behind one port: a cancel request reaches its query whichever of them gets it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use outer::{Client, Pooler, Stage, Wishes, eventually, frontend};

/// Only a cancel request ends this query.
const ENDLESS: &str = "select pg_sleep(3600)";

const RUNNING: &str =
    "select count(*) from pg_stat_activity where state = 'active' and query = 'select pg_sleep(3600)'";

/// Processes with the numbers 1, 2 and so on, that all listen on one port.
struct Fleet {
    poolers: Vec<Pooler>,
    port: u16,
}

impl Fleet {
    /// `binaries`: one for each process. `more`: lines for each file's section `[pgbouncer]`.
    fn start(stage: &Stage, binaries: &[PathBuf], more: &str) -> Fleet {
        let port = demo::free_port();
        let numbers = 1..=binaries.len();
        let peers: String = numbers
            .clone()
            .map(|number| format!("{number} = host={} port={port}\n", Pooler::dir_of_one(port, number).display()))
            .collect();
        let start = |(number, binary): (usize, &PathBuf)| {
            let ini = ini(stage, &format!("peer_id = {number}\n{more}"), &peers);
            Pooler::start_one_of(binary, &ini, port, number)
        };
        Fleet { poolers: numbers.zip(binaries).map(start).collect(), port }
    }

    fn socket(&self, number: usize) -> client::Place {
        client::Place::Unix(self.poolers[number].dir().join(format!(".s.PGSQL.{}", self.port)))
    }

    fn console(&self, number: usize) -> Client {
        Client::login(self.socket(number), "postgres", "pgbouncer").expect("an administrator is let in")
    }
}

/// A file that pgweir and PgBouncer read. `more`: lines for `[pgbouncer]`.
pub(crate) fn ini(stage: &Stage, more: &str, peers: &str) -> String {
    let cluster = &stage.cluster;
    format!(
        "[databases]\npostgres = host={} port={} user=postgres password={}\n[peers]\n{peers}[pgbouncer]\n\
         listen_addr = 127.0.0.1\nlisten_port = {{port}}\nso_reuseport = 1\nunix_socket_dir = {{dir}}\nauth_type = any\n\
         admin_users = postgres\npool_mode = transaction\ndefault_pool_size = 5\n{more}",
        cluster.host(),
        cluster.port(),
        cluster.password()
    )
}

/// A query of `client` is cancelled by a request that is sent to `place`, as often as that.
fn cancel_again_and_again(stage: &Stage, client: &mut Client, place: &client::Place, times: usize) -> Duration {
    let (pid, key) = client.cancel_key();
    let mut longest = Duration::ZERO;
    for round in 0..times {
        client.send(&frontend::query(ENDLESS)).expect("connected");
        // A request that comes before its query cancels nothing.
        eventually("the query runs", || stage.direct(RUNNING) == "1");
        let begun = Instant::now();
        let mut messenger = Client::connect(place.clone()).expect("somebody listens");
        messenger.send(&frontend::cancel(pid, key)).expect("connected");
        assert_eq!(messenger.last_words(), None, "a cancel is never answered");
        let answer = client.answer().expect("a cancelled query is no reason to be disconnected");
        let code = answer.errors.first().map(|error| error.sqlstate.as_str());
        assert_eq!(code, Some("57014"), "round {round} at {place}: {answer:?}");
        longest = longest.max(begun.elapsed());
    }
    longest
}

/// Whoever gets it, and from each process to each other.
fn everybody_cancels(stage: &Stage, fleet: &Fleet) {
    let shared = client::Place::Tcp(fleet.poolers[0].address());
    let mut longest = Duration::ZERO;
    for owner in 0..fleet.poolers.len() {
        let mut client = Client::login(fleet.socket(owner), "postgres", "postgres").expect("let in");
        longest = longest.max(cancel_again_and_again(stage, &mut client, &shared, 10));
        for gets_it in 0..fleet.poolers.len() {
            longest = longest.max(cancel_again_and_again(stage, &mut client, &fleet.socket(gets_it), 10));
        }
        assert_eq!(client.query("select 1").expect("connected").value(), Some("1"));
    }
    println!(
        "{} processes, 10 cancels each from everywhere to everywhere: the slowest took {longest:?}",
        fleet.poolers.len()
    );
}

#[test]
fn three_processes_pass_cancels_on() {
    let stage = Stage::set(&Wishes::default());
    let mut fleet = Fleet::start(&stage, &[outer::binary(), outer::binary(), outer::binary()], "workers = 2\n");
    everybody_cancels(&stage, &fleet);
    let mut console = fleet.console(1);
    let dir = |number| Pooler::dir_of_one(fleet.port, number).display().to_string();
    let port = fleet.port;
    let shown = console.query("show peers").expect("answered").lines();
    assert_eq!(shown, [1, 2, 3].map(|number| format!("{number}|{}|{port}|5", dir(number))));
    eventually("nothing is left behind", || {
        console.query("show peer_pools").expect("answered").lines() == ["1|0|0|0|0", "3|0|0|0|0"]
    });
    let lists = console.query("show lists").expect("answered").lines();
    assert!(lists.contains(&"peers|3".to_owned()) && lists.contains(&"peer_pools|2".to_owned()), "{lists:?}");
    assert!(fleet.poolers.iter_mut().all(Pooler::is_alive));
}

#[test]
fn a_real_pgbouncer_beside_us_passes_cancels_on_and_takes_them() {
    let Some(pgbouncer) = outer::pgbouncer() else { return };
    let stage = Stage::set(&Wishes::default());
    let mut fleet = Fleet::start(&stage, &[outer::binary(), pgbouncer.clone(), outer::binary(), pgbouncer], "");
    everybody_cancels(&stage, &fleet);
    assert!(fleet.poolers.iter_mut().all(Pooler::is_alive));
}

#[test]
fn a_peer_that_is_down_or_silent_hangs_nothing_and_a_reload_replaces_it() {
    let stage = Stage::set(&Wishes::default());
    // Its backlog takes connections that nobody ever reads.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let silent_port = silent.local_addr().expect("it is bound").port();
    let port = demo::free_port();
    let ours = Pooler::dir_of_one(port, 1);
    let peers =
        format!("1 = host={}\n2 = host=127.0.0.1 port={silent_port} pool_size=2\n3 = host=/nowhere\n", ours.display());
    let settings = "peer_id = 1\ncancel_wait_timeout = 3600\nserver_tls_sslmode = disable\n";
    let text = ini(&stage, settings, &peers);
    let mut pooler = Pooler::start_one_of(&outer::binary(), &text, port, 1);
    let address = pooler.address();
    let key_of = |number: u32| 0x2100_0007 | number << 16;
    let mut console = Client::login(address, "postgres", "pgbouncer").expect("an administrator is let in");
    let cancel = |number: u32, times: usize| -> Vec<Client> {
        let messengers = (0..times).map(|_| {
            let mut messenger = Client::connect(address).expect("the pooler listens");
            messenger.send(&frontend::cancel(key_of(number), 0xff)).expect("connected");
            messenger
        });
        messengers.collect()
    };
    let are_over = |messengers: Vec<Client>| {
        for mut messenger in messengers {
            assert_eq!(messenger.last_words(), None, "a cancel is never answered");
        }
    };
    // What is opened by the first client of all stays open: its server, and whatever else.
    let mut client = Client::login(address, "postgres", "postgres").expect("let in");
    assert_eq!(client.query("select 1").expect("served").value(), Some("1"));
    eventually("it is up", || pooler.log().contains("process up"));
    let before = pooler.descriptors();
    let silent_ones = cancel(2, 5);
    are_over(cancel(3, 5));
    eventually("two are sent, three wait; nobody is at home at the other", || {
        console.query("show peer_pools").expect("answered").lines() == ["2|2|3|2|0", "3|0|0|0|0"]
    });
    assert!(console.query("set cancel_wait_timeout = 1").expect("answered").errors.is_empty());
    assert_eq!(client.query("select 1").expect("served meanwhile").value(), Some("1"));
    eventually("each request has its time and no more", || {
        console.query("show peer_pools").expect("answered").lines() == ["2|0|0|0|0", "3|0|0|0|0"]
    });
    are_over(silent_ones);
    eventually("no descriptor is left", || pooler.descriptors() <= before);
    drop(client);
    eventually("each that was not passed on is logged", || {
        pooler.log().matches("cancel request not passed on to peer 3 (/nowhere:6432): connect failed").count() == 5
    });

    // The silent peer moves to where we are: its clients are ours now, so to say, and none has that key.
    let moved = peers.replace(&format!("host=127.0.0.1 port={silent_port} pool_size=2"), "host=127.0.0.1 port=1");
    let text = ini(&stage, settings, &moved.replace("3 = host=/nowhere\n", ""));
    let text = text.replace("{port}", &port.to_string()).replace("{dir}", &ours.display().to_string());
    std::fs::write(pooler.dir().join("pooler.ini"), text).expect("its directory is writable");
    assert_eq!(console.query("reload").expect("answered").tags, ["RELOAD"]);
    let own = format!("1|{}|6432|5", ours.display());
    assert_eq!(console.query("show peers").expect("answered").lines(), [own.as_str(), "2|127.0.0.1|1|5"]);
    are_over(cancel(2, 1));
    are_over(cancel(3, 1));
    eventually("the new address is tried", || pooler.log().contains("peer 2 (127.0.0.1:1): connect failed"));
    eventually("no entry is left", || pooler.log().contains("cancel request for peer 3, which is not configured"));
    assert!(pooler.is_alive());
}
