//! An entry `*` and clients that name one database after another: others are let in meanwhile, and what is kept of databases that
//! nobody uses has a bound.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use outer::{Client, Stage, Wishes, frontend};

const DATABASES: usize = 24_000;
/// Connections that are opened at a time.
const BATCH: usize = 1_000;
const GROWTH_KB_MAX: u64 = 40 * 1024;

/// The number of unused pools that are kept, and some more.
const KEPT_MAX: usize = 1_100;

/// How long it may take until so few pools are kept: many times what a busy machine needs.
const FORGOTTEN_WITHIN: Duration = Duration::from_secs(300);

/// Logs in again and again; how long each login took.
fn honest_logins(address: std::net::SocketAddr, ends: &AtomicBool) -> Vec<Duration> {
    let mut took = Vec::new();
    while !ends.load(Ordering::Relaxed) {
        let begun = Instant::now();
        Client::login(address, "postgres", "postgres").expect("an honest client is let in");
        took.push(begun.elapsed());
        std::thread::sleep(Duration::from_millis(20));
    }
    took.sort_unstable();
    took
}

/// Ends the honest logins when it is dropped.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn logins_that_each_name_another_database() {
    let settings = [("max_client_conn", "18000"), ("listen_backlog", "4096"), ("log_connections", "0")];
    let mut settings = settings.map(|(name, value)| (name, value.to_owned())).to_vec();
    settings.push(("log_disconnections", "0".to_owned()));
    settings.push(("log_pooler_errors", "0".to_owned()));
    let mut stage = Stage::set(&Wishes { settings, any_database: true, alone: true, ..Wishes::default() });
    let address = stage.pooler.address();
    stage.client().query("select 1").expect("served");
    let (before, _) = stage.pooler.resident_kb();
    let ends = AtomicBool::new(false);
    let (begun, cpu) = (Instant::now(), stage.pooler.cpu());
    let (took, lasted) = std::thread::scope(|scope| {
        let honest = scope.spawn(|| honest_logins(address, &ends));
        // Also if this panics.
        let ends = End(&ends);
        let mut last: Vec<Client> = Vec::new();
        for batch in 0..DATABASES / BATCH {
            let clients = (0..BATCH).map(|number| {
                let name = format!("nowhere{}", batch * BATCH + number);
                let mut client = Client::connect(address).expect("it listens");
                client.send(&frontend::startup(&[("user", "postgres"), ("database", &name)])).expect("connected");
                client
            });
            last = clients.collect();
            // The pooler's growth depends on the number of clients at a time, not on speed: when this client is served, the previous batch,
            // which has closed before, is gone.
            stage.client().query("select 1").expect("served");
        }
        drop(last);
        let lasted = begun.elapsed();
        drop(ends);
        (honest.join().expect("honest clients are let in"), lasted)
    });
    let cpu = stage.pooler.cpu() - cpu;
    let p99 = took[took.len() * 99 / 100];
    let slowest = took[took.len() - 1];
    let (_, most) = stage.pooler.resident_kb();
    let mut console = Client::login(address, "postgres", "pgbouncer").expect("the console lets us in");
    let begun = Instant::now();
    let pools = |console: &mut Client| console.query("show pools").expect("the console answers").rows.len();
    let mut kept = pools(&mut console);
    while kept > KEPT_MAX && begun.elapsed() < FORGOTTEN_WITHIN {
        std::thread::sleep(Duration::from_millis(500));
        kept = pools(&mut console);
    }
    println!(
        "{DATABASES} databases in {lasted:?}, {cpu:?} of processor time; {} honest logins meanwhile: p99 {p99:?}, {slowest:?} at \
         most; resident {before} kB before, {} kB more at most; {kept} pools are left {:?} later",
        took.len(),
        most - before,
        begun.elapsed(),
    );
    // Each honest client was let in, or its thread had panicked. How long logins took is only printed: a thousand others come at once, and
    // this test shares the machine. The transcripts login/turns* prove that logins take turns.
    assert!(kept <= KEPT_MAX, "{kept} pools are kept");
    assert!(most - before <= GROWTH_KB_MAX, "{} kB for databases that do not exist", most - before);
    stage.assert_healthy();
}
