//! Clients that are slow on purpose, over sockets of this machine: each costs a thread for as long as its patience lasts, and no probe waits for it.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use monitor::{CONNECTIONS_MAX, HEAD_LEN_MAX, PATIENCE, Source, serve};

/// What no socket's buffers hold.
const PAGE_LEN: usize = 64 << 20;

struct Large(Arc<str>);

impl Source for Large {
    fn metrics(&self) -> Option<Arc<str>> {
        Some(Arc::clone(&self.0))
    }

    fn is_ready(&self) -> bool {
        true
    }
}

fn served() -> SocketAddr {
    let page = "x".repeat(PAGE_LEN).into();
    serve("127.0.0.1:0", Arc::new(Large(page))).expect("a free port")
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(2 * PATIENCE)).expect("not zero");
    stream
}

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = connect(address);
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it is read");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer, and the end");
    answer
}

/// How long it lasts until the other side has closed, if `act` is done again and again.
fn lasted(mut act: impl FnMut() -> io::Result<usize>) -> Duration {
    let begun = Instant::now();
    while begun.elapsed() < 3 * PATIENCE && act().is_ok_and(|count| count > 0) {
        thread::sleep(Duration::from_millis(50));
    }
    begun.elapsed()
}

fn assert_is_patience(what: &str, lasted: Duration) {
    assert!(lasted > PATIENCE - Duration::from_millis(500) && lasted < PATIENCE * 3 / 2, "{what}: {lasted:?}");
}

/// Byte by byte, so that each arrives long before the patience for one would end.
#[test]
fn a_request_that_drips_ends_with_the_patience() {
    let address = served();
    let mut stream = connect(address);
    assert_is_patience("written", lasted(|| stream.write(b"G")));
}

/// It takes much less than there is, and never nothing.
#[test]
fn an_answer_that_drips_ends_with_the_patience() {
    let address = served();
    let mut stream = connect(address);
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("it is read");
    let begun = Instant::now();
    let mut part = [0; 64 * 1024];
    let mut taken = 0;
    let mut take = || stream.read(&mut part).inspect(|count| taken += count);
    while begun.elapsed() < PATIENCE + Duration::from_secs(1) && take().is_ok_and(|count| count > 0) {
        thread::sleep(Duration::from_millis(50));
    }
    // What the buffers hold is still there; after it the end, or a reset.
    while let Ok(1..) = take() {}
    assert!(taken < PAGE_LEN, "{taken} bytes");
    assert!(begun.elapsed() < 2 * PATIENCE, "{:?}", begun.elapsed());
    let whole = get(address, "/metrics");
    assert!(whole.len() > PAGE_LEN && whole.ends_with('x'), "who takes it gets all of it");
}

#[test]
fn silent_clients_keep_no_probe_out() {
    let address = served();
    let silent: Vec<TcpStream> = (0..3 * CONNECTIONS_MAX).map(|_| connect(address)).collect();
    let begun = Instant::now();
    assert!(get(address, "/live").starts_with("HTTP/1.1 200 "));
    assert!(begun.elapsed() < PATIENCE / 5, "{:?}", begun.elapsed());
    // The first ones have made room.
    assert_eq!((&silent[0]).read(&mut [0]).expect("the end"), 0);
}

/// Though much more has been sent than was read.
#[test]
fn a_request_that_is_too_long_is_told_so() {
    let address = served();
    let mut stream = connect(address);
    stream.write_all(&vec![b'x'; 20 * HEAD_LEN_MAX]).expect("it is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer, and the end");
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
}
