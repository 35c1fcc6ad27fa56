//! What clients that have not logged in can make the pooler keep: it has a bound, an honest login goes through meanwhile,
//! and the memory is given back when they have left.

use std::time::{Duration, Instant};

use outer::{Client, Stage, Wishes, eventually, frontend};

const CLIENTS: usize = 9_000;
const GROWTH_KB_MAX: u64 = 40 * 1024;
const LEFT_KB_MAX: u64 = 5 * 1024;

/// As long as a startup packet may be, with as many parameters as there is room for.
fn filled(parameter: impl Fn(usize) -> Vec<u8>) -> Vec<u8> {
    let mut body = [&196_608_u32.to_be_bytes()[..], b"user\0postgres\0"].concat();
    for number in 0.. {
        let next = parameter(number);
        if body.len() + next.len() >= 10_000 {
            break;
        }
        body.extend_from_slice(&next);
    }
    body.push(0);
    frontend::untagged(&body)
}

/// Logs in while the attackers wait, who have an hour: a login that waits for them, because of a defect, times out after two minutes. How
/// long it takes is only printed.
fn honest_login(stage: &Stage) -> Duration {
    let begun = Instant::now();
    let target = format!("{}?connect_timeout=120", stage.url());
    outer::psql(stage, &["-d", &target, "-c", "select 1"]).expect("an honest client is let in");
    begun.elapsed()
}

/// 9,000 clients send this and wait.
fn attack(what: &str, packet: &[u8]) {
    let settings = [("max_client_conn", "18000"), ("client_login_timeout", "3600"), ("listen_backlog", "4096")];
    let settings = settings.map(|(name, value)| (name, value.to_owned())).to_vec();
    let mut stage = Stage::set(&Wishes { auth: "scram-sha-256", settings, alone: true, ..Wishes::default() });
    honest_login(&stage);
    let (before, _) = stage.pooler.resident_kb();
    let mut clients = Vec::new();
    let mut honest = Vec::new();
    let (begun, cpu) = (Instant::now(), stage.pooler.cpu());
    for number in 0..CLIENTS {
        let mut client = Client::connect(stage.pooler.address()).expect("it listens");
        // The pooler may have closed the connection already.
        let _ = client.send(packet);
        clients.push(client);
        if number % 1_000 == 999 {
            honest.push(honest_login(&stage));
        }
    }
    let (lasted, cpu) = (begun.elapsed(), stage.pooler.cpu() - cpu);
    honest.sort_unstable();
    let (usual, slowest) = (honest[honest.len() / 2], honest[honest.len() - 1]);
    let (_, most) = stage.pooler.resident_kb();
    drop(clients);
    let gone = Instant::now();
    let mut left = most;
    eventually("nearly all of the memory is given back", || {
        std::thread::sleep(Duration::from_millis(200));
        (left, _) = stage.pooler.resident_kb();
        left.saturating_sub(before) <= LEFT_KB_MAX
    });
    println!(
        "{what}: {CLIENTS} clients in {lasted:?}, {cpu:?} of processor time; resident {before} kB before, {} kB more at \
         most, {} kB more {:?} after they left; an honest login (psql and all) takes {usual:?}, {slowest:?} at most",
        most - before,
        left.saturating_sub(before),
        gone.elapsed(),
    );
    assert!(most - before <= GROWTH_KB_MAX, "{} kB for clients that have proved nothing", most - before);
    assert!(stage.pooler.is_alive());
}

#[test]
#[ignore = "test-full: 9,000 clients; in the gate: as_many_names_as_there_is_room_for"]
fn one_tiny_parameter_over_and_over() {
    attack("a", &filled(|_| b"a\0\0".to_vec()));
}

#[test]
#[ignore = "test-full: 9,000 clients; in the gate: as_many_names_as_there_is_room_for"]
fn a_tracked_parameter_over_and_over() {
    attack("TimeZone", &filled(|_| b"TimeZone\0\0".to_vec()));
}

#[test]
fn options_over_and_over() {
    attack("options", &filled(|_| b"options\0-ca=\0".to_vec()));
}

#[test]
fn as_many_names_as_there_is_room_for() {
    attack("many names", &filled(|number| format!("{number:x}\0\0").into_bytes()));
}
