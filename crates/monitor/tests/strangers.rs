//! Clients that are slow on purpose, over sockets of this machine: each is let go of when its patience ends, and no probe waits for it.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use monitor::{CONNECTIONS_MAX, Format, HEAD_LEN_MAX, MAKERS_MAX, PATIENCE, Source, serve};

/// Only a defect takes this long.
const LONG: Duration = Duration::from_secs(120);

/// More than the buffers of any socket hold.
const PAGE_LEN: usize = 64 << 20;

struct Large(Arc<str>);

impl Source for Large {
    fn metrics(&self, _format: Format) -> Option<Arc<str>> {
        Some(Arc::clone(&self.0))
    }

    fn is_ready(&self) -> bool {
        true
    }
}

fn served() -> SocketAddr {
    let page = "x".repeat(PAGE_LEN).into();
    let monitor = serve("127.0.0.1:0", Arc::new(Large(page)), None).expect("a free port");
    let address = monitor.address().expect("one of TCP");
    // Until the end of the process.
    std::mem::forget(monitor);
    address
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(LONG)).expect("not zero");
    stream
}

fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = connect(address);
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it is read");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer, and the end");
    answer
}

/// Does this again and again until the other side has closed, which has to be the end of the patience: not before, and not never.
fn assert_ends_with_the_patience(begun: Instant, mut act: impl FnMut() -> io::Result<usize>) {
    while act().is_ok_and(|count| count > 0) {
        assert!(begun.elapsed() < LONG, "it goes on still");
        thread::sleep(Duration::from_millis(50));
    }
    assert!(begun.elapsed() > PATIENCE - Duration::from_millis(500), "{:?}", begun.elapsed());
}

/// Byte by byte, so that each arrives long before the patience for one would end.
#[test]
fn a_request_that_drips_ends_with_the_patience() {
    let address = served();
    let begun = Instant::now();
    let mut stream = connect(address);
    assert_ends_with_the_patience(begun, || stream.write(b"G"));
}

/// It takes much less than there is, and never nothing.
#[test]
fn an_answer_that_drips_ends_with_the_patience() {
    let address = served();
    let begun = Instant::now();
    let mut stream = connect(address);
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("it is read");
    let mut part = [0; 64 * 1024];
    let mut taken = 0;
    // Behind what the buffers hold comes the end, or a reset.
    assert_ends_with_the_patience(begun, || stream.read(&mut part).inspect(|count| taken += count));
    assert!(taken < PAGE_LEN, "{taken} bytes");
    let whole = get(address, "/metrics");
    assert!(whole.len() > PAGE_LEN && whole.ends_with('x'), "who takes it gets all of it");
}

#[test]
fn silent_clients_keep_no_probe_out() {
    let address = served();
    let silent: Vec<TcpStream> = (0..3 * CONNECTIONS_MAX).map(|_| connect(address)).collect();
    // How soon it gets its seat is for `room.rs`: at once.
    assert!(get(address, "/live").starts_with("HTTP/1.1 200 "));
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

/// Its metrics come when it is told, and it counts who waits for them.
#[derive(Default)]
struct Slow {
    waiting: AtomicUsize,
    most: AtomicUsize,
    is_over: AtomicBool,
}

impl Source for Slow {
    fn metrics(&self, _format: Format) -> Option<Arc<str>> {
        let waiting = self.waiting.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(waiting, Ordering::SeqCst);
        while !self.is_over.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        None
    }

    fn is_ready(&self) -> bool {
        true
    }
}

/// A thread that waits for metrics does not end when its connection makes room for another one. Others wait without a thread, and probes for none of them.
#[test]
fn clients_that_wait_for_slow_metrics_have_no_more_threads_than_is_promised() {
    let source = Arc::new(Slow::default());
    let monitor = serve("127.0.0.1:0", Arc::clone(&source) as Arc<dyn Source>, None).expect("a free port");
    let address = monitor.address().expect("one of TCP");
    let ask = |_| {
        let mut stream = connect(address);
        // It may be closed already.
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n");
        stream
    };
    let clients: Vec<TcpStream> = (0..3 * CONNECTIONS_MAX).map(ask).collect();
    assert!(get(address, "/live").starts_with("HTTP/1.1 200 "));
    let begun = Instant::now();
    while source.most.load(Ordering::SeqCst) < MAKERS_MAX {
        assert!(begun.elapsed() < LONG, "{} threads", source.most.load(Ordering::SeqCst));
        thread::yield_now();
    }
    // The last one is told in time, though nobody makes its metrics.
    let mut last = clients.last().expect("some");
    let mut answer = String::new();
    last.read_to_string(&mut answer).expect("an answer, and the end");
    let most = source.most.load(Ordering::SeqCst);
    source.is_over.store(true, Ordering::SeqCst);
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert_eq!(most, MAKERS_MAX, "threads");
}

/// Nor do those that ask, and take no answer.
#[test]
fn clients_that_read_nothing_keep_no_probe_out() {
    let address = served();
    let ask = |_| {
        let mut stream = connect(address);
        stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").expect("it is read");
        // Its answer has begun.
        stream.read_exact(&mut [0; 9]).expect("an answer");
        stream
    };
    let deaf: Vec<TcpStream> = (0..CONNECTIONS_MAX).map(ask).collect();
    assert!(get(address, "/live").starts_with("HTTP/1.1 200 "));
    drop(deaf);
}

/// Where the system has no IPv6, there is no second address to try.
#[test]
fn a_star_is_all_addresses() {
    let monitor = serve("*:0", Arc::new(Large("".into())), None).expect("a free port");
    let port = monitor.address().expect("it is one of TCP").port();
    let mut own = vec!["127.0.0.1".parse::<IpAddr>().expect("an address")];
    own.extend(TcpListener::bind("[::1]:0").map(|_| "::1".parse::<IpAddr>().expect("an address")));
    for ip in own {
        let mut stream = TcpStream::connect((ip, port)).expect("it listens there");
        stream.write_all(b"GET /ready HTTP/1.1\r\n\r\n").expect("it is read");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer, and the end");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{ip}: {answer}");
    }
}

#[test]
fn a_unix_socket_that_was_left_behind_is_replaced_and_no_other_file() {
    let folder = std::env::temp_dir().join(format!("monitor-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join("http");
    let address = format!("unix:{}", path.display());
    let listen = || serve(&address, Arc::new(Large("".into())), None);
    std::fs::write(&path, "precious").expect("a file");
    assert_eq!(listen().expect_err("a file is there").kind(), io::ErrorKind::AddrInUse);
    assert_eq!(std::fs::read(&path).expect("it is still there"), b"precious");
    std::fs::remove_file(&path).expect("our own");
    drop(UnixListener::bind(&path).expect("a socket that is then left behind"));
    let monitor = listen().expect("it is replaced");
    assert_eq!(monitor.address(), None);
    let mut stream = UnixStream::connect(&path).expect("it listens");
    stream.write_all(b"GET /ready HTTP/1.1\r\n\r\n").expect("it is read");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer, and the end");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert_eq!(listen().expect_err("somebody answers there").kind(), io::ErrorKind::AddrInUse);
    std::fs::remove_dir_all(&folder).expect("our own");
}
