//! HTTP for those who watch: `/metrics`, `/live` and `/ready`.
//!
//! ```text
//!   listener ─► a thread of its own for each connection, CONNECTIONS_MAX of them ─► one request, one answer, closed
//! ```
//!
//! Promises that strangers cost little: a connection has [`PATIENCE`] for its request and for its answer, a request has [`HEAD_LEN_MAX`] bytes, and
//! what is beyond [`CONNECTIONS_MAX`] is closed at once. Nothing that a request says is kept or given on but its method and path.
//! Does not: TLS, users, more than one request a connection.
//!
//! //= rfc9112#section-9.6

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The longest head of a request: scrapers send some hundred bytes.
pub const HEAD_LEN_MAX: usize = 8 * 1024;

/// Headers of a request.
const HEADERS_MAX: usize = 64;

/// Connections at a time: a scraper or two, probes, and room for some that say nothing.
pub const CONNECTIONS_MAX: usize = 32;

/// How long a client may take to send its request, and to take its answer.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// What is watched.
pub trait Source: Send + Sync + 'static {
    /// All metrics in Prometheus's exposition format 0.0.4. `None`: they are not to be had in time.
    fn metrics(&self) -> Option<String>;

    /// Whether new clients are taken.
    fn is_ready(&self) -> bool;
}

/// Begins to serve at an address, as `127.0.0.1:9127` or `[::]:9127`.
///
/// # Errors
/// The address is none, or cannot be listened on.
pub fn serve(address: &str, source: Arc<dyn Source>) -> io::Result<()> {
    let listener = TcpListener::bind(address)?;
    let connections = Arc::new(AtomicUsize::new(0));
    thread::Builder::new().name("monitor".to_owned()).spawn(move || accept(&listener, &source, &connections))?;
    Ok(())
}

fn accept(listener: &TcpListener, source: &Arc<dyn Source>, connections: &Arc<AtomicUsize>) {
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // Without descriptors it would be tried again and again at once.
            thread::sleep(Duration::from_millis(50));
            continue;
        };
        let seat = Seat::take(connections);
        if connections.load(Ordering::Relaxed) > CONNECTIONS_MAX {
            continue;
        }
        let source = Arc::clone(source);
        let serve = move || {
            let _seat = seat;
            // A client that has left, or takes no answer, is nobody's concern.
            let _ = converse(stream, &*source);
        };
        // Without a thread the client is closed.
        let _ = thread::Builder::new().name("monitor".to_owned()).spawn(serve);
    }
}

/// One of the connections that are counted.
struct Seat(Arc<AtomicUsize>);

impl Seat {
    fn take(connections: &Arc<AtomicUsize>) -> Seat {
        connections.fetch_add(1, Ordering::Relaxed);
        Seat(Arc::clone(connections))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn converse(mut stream: TcpStream, source: &dyn Source) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let answer = match head(&mut stream)? {
        Some(head) => answer(&head, source),
        None => Answer::of("431 Request Header Fields Too Large", "the request is too long\n"),
    };
    stream.write_all(&answer.encode())
}

/// The request up to its empty line. `None`: it is too long.
fn head(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let deadline = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut part)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => head.extend_from_slice(&part[..count]),
        }
        if head.len() > HEAD_LEN_MAX {
            return Ok(None);
        }
    }
    Ok(Some(head))
}

/// An answer to one request.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: &'static str,
    kind: &'static str,
    body: String,
    /// HEAD: the length only.
    is_bare: bool,
}

impl Answer {
    fn of(status: &'static str, body: &str) -> Answer {
        Answer { status, kind: "text/plain; charset=utf-8", body: body.to_owned(), is_bare: false }
    }

    fn encode(&self) -> Vec<u8> {
        let Answer { status, kind, body, is_bare } = self;
        let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{allow}Cache-Control: no-store\r\nConnection: close\r\n\r\n",
            body.len()
        );
        let body = if *is_bare { "" } else { body };
        [head.as_bytes(), body.as_bytes()].concat()
    }
}

fn answer(head: &[u8], source: &dyn Source) -> Answer {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let (Ok(httparse::Status::Complete(_)), Some(method), Some(target)) =
        (request.parse(head), request.method, request.path)
    else {
        return Answer::of("400 Bad Request", "this is no request\n");
    };
    if !matches!(method, "GET" | "HEAD") {
        return Answer::of("405 Method Not Allowed", "GET and HEAD are allowed\n");
    }
    let path = target.split('?').next().unwrap_or_default();
    let answer = match path {
        "/live" => Answer::of("200 OK", "it lives\n"),
        "/ready" if source.is_ready() => Answer::of("200 OK", "it takes clients\n"),
        "/ready" => Answer::of("503 Service Unavailable", "it takes no clients\n"),
        "/metrics" => match source.metrics() {
            Some(body) => {
                Answer { status: "200 OK", kind: "text/plain; version=0.0.4; charset=utf-8", body, is_bare: false }
            }
            None => Answer::of("503 Service Unavailable", "metrics are not to be had in time\n"),
        },
        _ => Answer::of("404 Not Found", "there are /metrics, /live and /ready\n"),
    };
    Answer { is_bare: method == "HEAD", ..answer }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Calm;

    impl Source for Calm {
        fn metrics(&self) -> Option<String> {
            Some("up 1\n".to_owned())
        }

        fn is_ready(&self) -> bool {
            false
        }
    }

    #[test]
    fn a_table_of_requests() {
        let table: [(&[u8], &str, &str); 10] = [
            (b"GET /live HTTP/1.1\r\nHost: x\r\n\r\n", "200 OK", "it lives\n"),
            (b"GET /ready HTTP/1.0\r\n\r\n", "503 Service Unavailable", "it takes no clients\n"),
            (b"GET /metrics?x=1 HTTP/1.1\r\n\r\n", "200 OK", "up 1\n"),
            (b"GET /metrics/ HTTP/1.1\r\n\r\n", "404 Not Found", "there are /metrics, /live and /ready\n"),
            (b"GET / HTTP/1.1\r\n\r\n", "404 Not Found", "there are /metrics, /live and /ready\n"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", "405 Method Not Allowed", "GET and HEAD are allowed\n"),
            (b"\x16\x03\x01\r\n\r\n", "400 Bad Request", "this is no request\n"),
            (b"GET /live\r\n\r\n", "400 Bad Request", "this is no request\n"),
            (b"\r\n\r\n", "400 Bad Request", "this is no request\n"),
            (b"GET /live HTTP/1.1\r\n: x\r\n\r\n", "400 Bad Request", "this is no request\n"),
        ];
        for (request, status, body) in table {
            let answer = answer(request, &Calm);
            assert_eq!((answer.status, &*answer.body), (status, body), "{}", request.escape_ascii());
        }
    }

    #[test]
    fn head_has_the_length_and_no_body() {
        let bytes = answer(b"HEAD /metrics HTTP/1.1\r\n\r\n", &Calm).encode();
        let text = String::from_utf8(bytes).expect("text");
        assert!(text.contains("Content-Length: 5\r\n") && text.ends_with("\r\n\r\n"), "{text}");
    }
}
