//! The move from PgBouncer to pgweir and back on one port, step by step as the guide "From PgBouncer" says, while clients come and go.
//!
//! A connection that the kernel has accepted is lost with the listener that it was given to, if its process has not accepted it before. PgBouncer
//! closes its listener at once; pgweir accepts first all who wait. `net.ipv4.tcp_migrate_req = 1` gives the others to the other process.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use outer::{Client, Pooler, Stage, Wishes, eventually, frontend};

use super::peers::ini;

const THREADS: u64 = 4;

/// Transactions before each step, and after it.
const SOME: u64 = 40;

/// The failures of a client that connects anew for each transaction.
#[derive(Default)]
struct Met {
    /// Connections that were closed before their first answer.
    lost: u64,
    errors: Vec<String>,
}

struct Crowd {
    ends: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Met>>,
}

impl Crowd {
    fn begin(port: u16) -> Crowd {
        let (ends, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let threads = (0..THREADS).map(|_| {
            let (ends, done) = (Arc::clone(&ends), Arc::clone(&done));
            std::thread::spawn(move || come_and_go(port, &ends, &done))
        });
        Crowd { threads: threads.collect(), ends, done }
    }

    /// Until some transactions more are done.
    fn goes_on(&self) {
        let before = self.done.load(Ordering::Relaxed);
        eventually("clients are served", || self.done.load(Ordering::Relaxed) >= before + SOME);
    }

    fn end(self) -> Met {
        self.ends.store(true, Ordering::Relaxed);
        let mut all = Met::default();
        for thread in self.threads {
            let met = thread.join().expect("it panics at nothing");
            all.lost += met.lost;
            all.errors.extend(met.errors);
        }
        all
    }
}

fn come_and_go(port: u16, ends: &AtomicBool, done: &AtomicU64) -> Met {
    let mut met = Met::default();
    while !ends.load(Ordering::Relaxed) {
        let mut client = match Client::login(std::net::SocketAddr::from(([127, 0, 0, 1], port)), "postgres", "postgres")
        {
            Ok(client) => client,
            Err(gone) if gone.error.is_none() && gone.how.kind() != ErrorKind::ConnectionRefused => {
                met.lost += 1;
                continue;
            }
            Err(gone) => {
                met.errors.push(format!("at the login: {gone}"));
                continue;
            }
        };
        match client.query("select 1") {
            Ok(answer) if answer.value() == Some("1") => _ = done.fetch_add(1, Ordering::Relaxed),
            Ok(answer) => met.errors.push(format!("{:?}", answer.errors)),
            Err(gone) => met.errors.push(gone.to_string()),
        }
        // Nobody waits for an answer.
        let _ = client.send(&frontend::terminate());
    }
    met
}

/// Begins beside the other one, which then ends when its clients have left.
fn take_over(stage: &Stage, crowd: &Crowd, binary: &Path, number: usize, (port, mut other): (u16, Pooler)) -> Pooler {
    let next = start(stage, binary, port, number);
    let socket = client::Place::Unix(other.dir().join(format!(".s.PGSQL.{port}")));
    let mut console = Client::login(socket, "postgres", "pgbouncer").expect("an administrator is let in");
    let answer = console.query("SHUTDOWN WAIT_FOR_CLIENTS").expect("the console answers");
    assert!(answer.errors.is_empty(), "{answer:?}");
    drop(console);
    eventually("it ends with its last client", || !other.is_alive());
    crowd.goes_on();
    next
}

fn start(stage: &Stage, binary: &Path, port: u16, number: usize) -> Pooler {
    Pooler::start_one_of(binary, &ini(stage, "", ""), port, number)
}

#[test]
fn clients_are_moved_from_pgbouncer_and_back() {
    let Some(pgbouncer) = outer::pgbouncer() else { return };
    let stage = Stage::set(&Wishes::default());
    let port = demo::free_port();
    let first = start(&stage, &pgbouncer, port, 1);
    let crowd = Crowd::begin(port);
    crowd.goes_on();
    let ours = take_over(&stage, &crowd, &outer::binary(), 2, (port, first));
    let last = take_over(&stage, &crowd, &pgbouncer, 3, (port, ours));
    let met = crowd.end();
    println!("{} connections were lost with a listener", met.lost);
    assert!(met.errors.is_empty(), "{:?}", met.errors);
    // Each client may be in the queue of each of the two listeners that are closed.
    assert!(met.lost <= 2 * THREADS, "{} connections were lost", met.lost);
    drop(last);
}
