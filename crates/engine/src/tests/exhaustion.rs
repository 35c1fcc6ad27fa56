//! Running out of descriptors, in a process of its own, since the limit is for the whole process.

use std::io::Read;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, setrlimit};

use super::{PATIENCE, Stage, client, ping};

/// Few enough that a test can use them up.
const DESCRIPTORS: u64 = 64;

#[test]
fn without_descriptors_clients_get_an_error_and_the_loop_does_not_spin() {
    let this = std::env::current_exe().expect("it runs");
    let name = "tests::exhaustion::in_a_process_of_its_own";
    let output = std::process::Command::new(this)
        .args(["--exact", name, "--ignored", "--nocapture", "--test-threads=1"])
        .output()
        .expect("it can run itself");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

/// Whether this connection was refused with 53300.
fn is_refused(mut stream: impl Read) -> bool {
    let mut answer = Vec::new();
    // A reset after the message is an end too.
    let _ = stream.read_to_end(&mut answer);
    answer.windows(5).any(|code| code == b"53300")
}

#[test]
#[ignore = "started by the test above, in a process whose limit it may change"]
fn in_a_process_of_its_own() {
    // The engine raises its limit to the hard limit, so the hard limit is lowered before it starts.
    let limit = Rlimit { current: Some(DESCRIPTORS), maximum: Some(DESCRIPTORS) };
    setrlimit(Resource::Nofile, limit).expect("lowering is always allowed");
    let stage = Stage::open(1, |_| None);
    let mut first = stage.tcp();
    ping(&mut first, b"in time");
    stage.expect("accept");
    tcp_is_refused_before_the_end(&stage);
    ping(&mut first, b"still served");
    the_end_needs_no_descriptor(&stage, &mut first);
}

/// TCP clients leave the last descriptors to servers and the Unix socket.
fn tcp_is_refused_before_the_end(stage: &Stage) {
    let mut clients = Vec::new();
    // The test's own sockets count in the same process, so there is not even room for half of them.
    let refused = (0..DESCRIPTORS).find_map(|_| {
        let stream = client(stage.addresses()[0]);
        let begun = Instant::now();
        let refused = loop {
            if stage.has_noted("accept", Duration::from_millis(1)) {
                break false;
            }
            if stage.counters().turned_away > 0 {
                break is_refused(&stream);
            }
            assert!(begun.elapsed() < PATIENCE, "neither accepted nor turned away");
        };
        clients.push(stream);
        refused.then_some(())
    });
    assert!(refused.is_some(), "TCP clients took the last descriptor");
    assert_eq!(stage.counters().turned_away, 1, "the log has to say how many were turned away");
    drop(clients);
    ping(&mut stage.unix(), b"the console comes in");
}

fn the_end_needs_no_descriptor(stage: &Stage, first: &mut TcpStream) {
    // Use up all but two: one for the test's socket, one for the engine's attempt.
    let path = stage.unix_path();
    let mut held: Vec<std::fs::File> = Vec::new();
    while let Ok(file) = std::fs::File::open("/dev/null") {
        held.push(file);
    }
    held.pop();
    let stream = UnixStream::connect(&path).expect("its own end is the last descriptor");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time");
    assert!(is_refused(&stream), "a client in the kernel's queue got no error");
    drop(stream);
    let begun = Instant::now();
    let before = stage.counters();
    assert_eq!(before.turned_away, 2);
    ping(first, b"still served");
    let turned = stage.counters().rounds - before.rounds;
    // Ten times a second it looks whether there is room again.
    let looked = u64::try_from(begun.elapsed().as_millis() / 50).expect("a test is short");
    assert!(turned < 20 + looked, "{turned} rounds in {:?}: the loop spins", begun.elapsed());
    drop(held);
    // The pause ends by itself.
    let mut later = UnixStream::connect(&path).expect("there is room again");
    later.set_read_timeout(Some(PATIENCE)).expect("a time");
    ping(&mut later, b"in again");
}
