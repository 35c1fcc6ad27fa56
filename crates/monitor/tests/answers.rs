//! What is answered to whom, byte for byte, over sockets of this machine; and connections that go on for routes that were added.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::{get, post};
use monitor::{Format, Monitor, PATIENCE, Source, serve};

/// Only a defect takes this long.
const LONG: Duration = Duration::from_secs(120);

struct Calm;

impl Source for Calm {
    fn metrics(&self, format: Format) -> Option<Arc<str>> {
        Some(if format == Format::Text { "up 1\n" } else { "up 1\n# EOF\n" }.into())
    }

    fn is_ready(&self) -> bool {
        false
    }
}

fn served(more: Option<Router>) -> (Monitor, SocketAddr) {
    let monitor = serve("127.0.0.1:0", Arc::new(Calm), more).expect("a free port");
    let address = monitor.address().expect("one of TCP");
    (monitor, address)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(LONG)).expect("not zero");
    stream
}

/// Everything until the other side closes.
fn ask(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = connect(address);
    stream.write_all(request).expect("it is read");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer, and the end");
    answer
}

#[test]
fn a_table_of_requests() {
    let (_monitor, address) = served(None);
    let table: [(&[u8], &str, &str); 8] = [
        (b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK", "it lives\n"),
        (b"GET /ready HTTP/1.0\r\n\r\n", "HTTP/1.0 503 Service Unavailable", "it takes no clients\n"),
        (b"GET /metrics?x=1 HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK", "up 1\n"),
        (b"GET /metrics/ HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found", "there are /metrics, /live and /ready\n"),
        (b"GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found", "there are /metrics, /live and /ready\n"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405 Method Not Allowed", "GET and HEAD are allowed\n"),
        (b"POST / HTTP/1.1\r\n\r\n", "HTTP/1.1 405 Method Not Allowed", "GET and HEAD are allowed\n"),
        (b"HEAD /live HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK", ""),
    ];
    for (request, status, body) in table {
        let answer = ask(address, request);
        let (head, is) = answer.split_once("\r\n\r\n").expect("a head");
        assert_eq!((head.lines().next(), is), (Some(status), body), "{}", request.escape_ascii());
    }
}

#[test]
fn an_answer_is_these_bytes() {
    let (_monitor, address) = served(None);
    let answer = ask(address, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    let expected = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: 5\r\n\
                    Cache-Control: no-store\r\nConnection: close\r\n\r\nup 1\n";
    assert_eq!(answer, expected);
    let answer = ask(address, b"HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(answer, expected.strip_suffix("up 1\n").expect("it ends so"));
    let answer = ask(address, b"DELETE /live HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(answer.contains("\r\nAllow: GET, HEAD\r\n"), "{answer}");
}

#[test]
fn what_is_no_request_is_refused_and_closed() {
    let (_monitor, address) = served(None);
    for request in [&b"\x16\x03\x01\r\n\r\n"[..], b"GET /live\r\n\r\n", b"GET /live HTTP/1.1\r\n: x\r\n\r\n"] {
        let answer = ask(address, request);
        assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{}: {answer}", request.escape_ascii());
    }
    let many = "X: y\r\n".repeat(65);
    let answer = ask(address, format!("GET /live HTTP/1.1\r\n{many}\r\n").as_bytes());
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
}

#[test]
fn the_format_is_the_one_that_is_asked_for() {
    let (_monitor, address) = served(None);
    let accept = "application/openmetrics-text; version=1.0.0";
    let answer = ask(address, format!("GET /metrics HTTP/1.1\r\naccept: {accept}\r\n\r\n").as_bytes());
    assert!(answer.contains("\r\nContent-Type: application/openmetrics-text; version=1.0.0;"), "{answer}");
    assert!(answer.ends_with("\r\n\r\nup 1\n# EOF\n"), "{answer}");
}

fn echoing() -> Router {
    let fallback = || async { monitor::said(axum::http::StatusCode::NOT_FOUND, "not here\n") };
    Router::new()
        .route("/echo", post(|body: String| async move { body }))
        .route("/", get(|| async { "page" }))
        .fallback(fallback)
}

/// Reads one answer with a length.
fn read_one(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("a head");
        answer.push(byte[0]);
    }
    let head = String::from_utf8(answer).expect("text");
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).expect("a length");
    let mut body = vec![0; length.parse().expect("a number")];
    stream.read_exact(&mut body).expect("a body");
    head + &String::from_utf8(body).expect("text")
}

#[test]
fn a_connection_goes_on_for_what_was_added_and_has_patience_to_ask_again() {
    let (_monitor, address) = served(Some(echoing()));
    let mut stream = connect(address);
    let mut begun = Instant::now();
    for _ in 0..3 {
        begun = Instant::now();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").expect("it is read");
        assert!(read_one(&mut stream).ends_with("\r\n\r\npage"));
    }
    assert_eq!(stream.read(&mut [0]).expect("the end"), 0);
    assert!(begun.elapsed() > PATIENCE / 2, "{:?}", begun.elapsed());
    assert!(ask(address, b"GET /nowhere HTTP/1.1\r\n\r\n").ends_with("not here\n"));
    assert!(ask(address, b"GET /live HTTP/1.1\r\n\r\n").ends_with("it lives\n"));
}

/// Its head has come in time; its body does not.
#[test]
fn a_body_that_does_not_come_ends_with_the_patience() {
    let (_monitor, address) = served(Some(echoing()));
    let begun = Instant::now();
    let answer = ask(address, b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc");
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(begun.elapsed() > PATIENCE / 2, "{:?}", begun.elapsed());
}

/// A drop stops to listen, and what has been asked is answered.
#[test]
fn who_has_asked_is_answered_after_the_end() {
    let (monitor, address) = served(Some(echoing()));
    let mut stream = connect(address);
    let asked = Instant::now();
    stream.write_all(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nabc").expect("it is read");
    assert!(
        ask(address, b"GET /live HTTP/1.1\r\n\r\n").ends_with("it lives\n"),
        "whoever came before has been accepted"
    );
    drop(monitor);
    let begun = Instant::now();
    while TcpStream::connect(address).is_ok() {
        assert!(begun.elapsed() < LONG, "it listens still");
        std::thread::yield_now();
    }
    // A machine that is slow may have asked too much of its patience, which is no fault.
    let sent = stream.write_all(b"def");
    let is_late = asked.elapsed() > PATIENCE;
    let mut answer = String::new();
    let read = stream.read_to_string(&mut answer);
    assert!(is_late || sent.is_ok() && read.is_ok() && answer.ends_with("abcdef"), "{sent:?} {read:?} {answer}");
}
