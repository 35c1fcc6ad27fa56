//! A storm of RELOADs, half of them of a file with a mistake, while clients work: nobody is dropped, and nothing is left over.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use outer::{Client, Stage, Wishes, eventually};

const RELOADS: u64 = 800;
const CLIENTS: usize = 16;

/// What a reload may leave behind for ever. The smallest thing that could be kept of each is its settings, of which 20 databases alone take
/// more than 8 kB: were they kept, these 800 reloads would leave more than 6 MB.
const LEFT_KB_MAX: u64 = 4 * 1024;

#[test]
fn a_storm_of_reloads_drops_nobody_and_leaves_nothing() {
    let mut stage = Stage::set(&Wishes { pool: 4, workers: 2, aliases: 20, ..Wishes::default() });
    let file = stage.pooler.dir().join("pooler.ini");
    let good = std::fs::read_to_string(&file).expect("it was written");
    let other = good.replace("default_pool_size = 4", "default_pool_size = 5");
    let bad = good.replace("pool_mode = transaction", "pool_mode = transactoin");
    assert!(other != good && bad != good);
    let mut console =
        Client::login(stage.pooler.address(), "postgres", "pgbouncer").unwrap_or_else(|gone| panic!("{gone}"));
    let mut reload = |round: u64| {
        let text = [&good, &bad, &other, &bad][round as usize % 4];
        std::fs::write(&file, text).expect("its directory is writable");
        let answer = console.query("reload").expect("the console stays");
        let codes: Vec<&str> = answer.errors.iter().map(|error| error.sqlstate.as_str()).collect();
        let expected: &[&str] = if round.is_multiple_of(2) { &[] } else { &["F0000"] };
        assert_eq!(codes, expected, "{answer:?}");
    };
    let (stop, served) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut idle: Vec<Client> = (0..CLIENTS).map(|_| stage.client()).collect();
    let address = stage.pooler.address();
    let ((before, after), lasted) = thread::scope(|scope| {
        let (stop, served) = (&stop, &served);
        for number in 0..CLIENTS {
            scope.spawn(move || {
                let mut client = Client::login(address, "postgres", "postgres").expect("let in");
                while !stop.load(Ordering::Relaxed) {
                    let answer = client.query(&format!("select {number}")).expect("nobody is dropped");
                    assert_eq!(answer.value(), Some(number.to_string().as_str()), "{answer:?}");
                    served.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let stormed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            // The first ones fill what is kept to be used again.
            (0..100).for_each(&mut reload);
            let level = |pooler: &outer::Pooler| (pooler.resident_kb().0, pooler.descriptors());
            let before = level(&stage.pooler);
            let (begun, worked) = (Instant::now(), served.load(Ordering::Relaxed));
            (0..RELOADS).for_each(&mut reload);
            let lasted = begun.elapsed();
            eventually("the clients work all the while", || {
                served.load(Ordering::Relaxed) > worked + 10 * CLIENTS as u64
            });
            // One of the two files that load allows the pool one server more; besides, one may just be opened and another closed.
            eventually("no descriptor is left", || stage.pooler.descriptors() <= before.1 + 2);
            ((before, level(&stage.pooler)), lasted)
        }));
        stop.store(true, Ordering::Relaxed);
        stormed.expect("every reload is answered as its file deserves")
    });
    println!(
        "{RELOADS} reloads in {lasted:?}, {} queries of {CLIENTS} clients: \
         {} kB and {} descriptors before, {} kB and {} after",
        served.load(Ordering::Relaxed),
        before.0,
        before.1,
        after.0,
        after.1
    );
    for client in &mut idle {
        assert_eq!(client.query("select 7").expect("nobody is dropped").value(), Some("7"));
    }
    assert!(after.0 <= before.0 + LEFT_KB_MAX, "resident memory grew from {} to {} kB", before.0, after.0);
    stage.assert_healthy();
}
