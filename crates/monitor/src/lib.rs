//! HTTP for those who watch: `/metrics`, `/live` and `/ready`.
//!
//! ```text
//!   listener ─► a thread of its own for each connection, CONNECTIONS_MAX of them ─► one request, one answer, closed
//! ```
//!
//! Promises that strangers cost little: a connection has [`PATIENCE`] for its request and as long for its answer, however it spreads its bytes over
//! them; a request has [`HEAD_LEN_MAX`] bytes; all who take the page of metrics at one time share one copy. Beyond [`CONNECTIONS_MAX`] a newcomer
//! replaces the connection that has sent no request for longest, or else the oldest: slow clients keep no probe out. Threads and descriptors are
//! bounded too: a replaced connection counts until its thread has ended. Nothing that a request says is kept or given on but its method, path and the
//! format that it asks for.
//! Does not: TLS, users, more than one request a connection.
//!
//! //= rfc9112#section-9.6

mod accept;
mod room;
mod socket;

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use room::{Room, Seat};
use socket::{Listener, Stream};

/// The longest head of a request: scrapers send some hundred bytes.
pub const HEAD_LEN_MAX: usize = 8 * 1024;

/// Headers of a request.
const HEADERS_MAX: usize = 64;

/// Connections at a time: a scraper or two, probes, and room for some that say nothing.
pub const CONNECTIONS_MAX: usize = 32;

/// How long a client may take to send its request, and to take its answer.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// How long a client that has its answer may take to close, and how much it may have sent too much: what is unread when a connection is closed makes
/// the kernel throw away what has not arrived.
const LINGER: Duration = Duration::from_secs(1);
const UNREAD_LEN_MAX: usize = 256 * 1024;

/// How metrics are written.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus's exposition format 0.0.4.
    Text,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl Format {
    fn media_type(self) -> &'static str {
        match self {
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// What is watched.
pub trait Source: Send + Sync + 'static {
    /// All metrics. `None`: they are not to be had in time. A call has a thread to itself, and few wait at a time.
    fn metrics(&self, format: Format) -> Option<Arc<str>>;

    /// Whether new clients are taken.
    fn is_ready(&self) -> bool;
}

/// Begins to serve at an address, as `127.0.0.1:9127`, `*:9127` or `unix:/run/pgweir/http`, and says which it is, if it is one of TCP: port 0 is
/// any that is free.
///
/// # Errors
/// The address is none, or cannot be listened on.
pub fn serve(address: &str, source: Arc<dyn Source>) -> io::Result<Monitor> {
    let listener = Listener::bind(address)?;
    let bound = listener.address()?;
    let monitor = Monitor {
        address: bound.map_or_else(|| address.to_owned(), |bound| bound.to_string()),
        bound,
        is_over: Arc::default(),
    };
    let is_over = Arc::clone(&monitor.is_over);
    thread::Builder::new().name("monitor".to_owned()).spawn(move || accept(&listener, &source, &is_over))?;
    Ok(monitor)
}

/// Where it is served, until this is dropped.
#[derive(Debug)]
#[must_use]
pub struct Monitor {
    address: String,
    bound: Option<SocketAddr>,
    is_over: Arc<AtomicBool>,
}

impl Monitor {
    /// If it is one of TCP.
    #[must_use]
    pub fn address(&self) -> Option<SocketAddr> {
        self.bound
    }
}

impl Drop for Monitor {
    /// Stops to listen: another process may. Requests that have come are answered.
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        Listener::wake(&self.address);
    }
}

fn accept(listener: &Listener, source: &Arc<dyn Source>, is_over: &AtomicBool) {
    let room = Arc::new(Room::of(CONNECTIONS_MAX));
    loop {
        let stream = listener.accept();
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let Ok(stream) = stream else {
            // Without descriptors it would be tried again and again at once.
            thread::sleep(Duration::from_millis(50));
            continue;
        };
        let Some(seat) = Room::enter(&room, stream) else { continue };
        let source = Arc::clone(source);
        // A client that has left, or takes no answer, is nobody's concern. Without a thread it is closed.
        let serve = move || drop(converse(&seat, &*source));
        let _ = thread::Builder::new().name("monitor".to_owned()).spawn(serve);
    }
}

fn converse(seat: &Seat, source: &dyn Source) -> io::Result<()> {
    let stream = seat.stream();
    let head = head(stream)?;
    seat.has_asked();
    let answer = match head {
        Some(head) => answer(&head, source),
        None => Answer::of("431 Request Header Fields Too Large", "the request is too long\n"),
    };
    let deadline = Instant::now() + PATIENCE;
    send(stream, answer.head().as_bytes(), deadline)?;
    if !answer.is_bare {
        send(stream, answer.body.as_bytes(), deadline)?;
    }
    stream.shutdown(Shutdown::Write)?;
    see_off(stream)
}

/// What is left until a deadline.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// The request up to its empty line. `None`: it is too long.
fn head(stream: &Stream) -> io::Result<Option<Vec<u8>>> {
    let deadline = Instant::now() + PATIENCE;
    let mut head = Vec::new();
    let mut part = [0; 1024];
    loop {
        stream.set_read_timeout(left(deadline)?)?;
        let known = head.len();
        match stream.read(&mut part)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => head.extend_from_slice(&part[..count]),
        }
        if head[known.saturating_sub(3)..].windows(4).any(|end| end == b"\r\n\r\n") {
            return Ok(Some(head));
        }
        if head.len() > HEAD_LEN_MAX {
            return Ok(None);
        }
    }
}

/// The deadline is for all of it: a client that takes a byte now and then does not begin it anew.
fn send(stream: &Stream, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(left(deadline)?)?;
        match stream.write(bytes)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => bytes = &bytes[count..],
        }
    }
    Ok(())
}

/// Reads on until the client closes.
fn see_off(stream: &Stream) -> io::Result<()> {
    let deadline = Instant::now() + LINGER;
    let mut part = [0; 1024];
    let mut unread = 0;
    while unread < UNREAD_LEN_MAX {
        stream.set_read_timeout(left(deadline)?)?;
        match stream.read(&mut part)? {
            0 => break,
            count => unread += count,
        }
    }
    Ok(())
}

/// An answer to one request.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: &'static str,
    kind: &'static str,
    body: Arc<str>,
    /// HEAD: the length only.
    is_bare: bool,
}

impl Answer {
    fn of(status: &'static str, body: &str) -> Answer {
        Answer { status, kind: "text/plain; charset=utf-8", body: body.into(), is_bare: false }
    }

    fn head(&self) -> String {
        let Answer { status, kind, body, .. } = self;
        let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{allow}Cache-Control: no-store\r\nConnection: close\r\n\r\n",
            body.len()
        )
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
    let accepts = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("accept"));
    let format = accept::chosen(accepts.map(|header| header.value));
    let answer = match path {
        "/live" => Answer::of("200 OK", "it lives\n"),
        "/ready" if source.is_ready() => Answer::of("200 OK", "it takes clients\n"),
        "/ready" => Answer::of("503 Service Unavailable", "it takes no clients\n"),
        "/metrics" => match source.metrics(format) {
            Some(body) => Answer { status: "200 OK", kind: format.media_type(), body, is_bare: false },
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
        fn metrics(&self, format: Format) -> Option<Arc<str>> {
            Some(if format == Format::Text { "up 1\n" } else { "up 1\n# EOF\n" }.into())
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
    fn the_format_is_the_one_that_is_asked_for() {
        let request = b"GET /metrics HTTP/1.1\r\naccept: application/openmetrics-text; version=1.0.0\r\n\r\n";
        let answer = answer(request, &Calm);
        assert!(answer.kind.starts_with("application/openmetrics-text; version=1.0.0;"), "{answer:?}");
        assert!(answer.body.ends_with("# EOF\n"), "{answer:?}");
    }

    #[test]
    fn head_has_the_length_and_no_body() {
        let answer = answer(b"HEAD /metrics HTTP/1.1\r\n\r\n", &Calm);
        assert!(answer.is_bare && answer.head().contains("Content-Length: 5\r\n"), "{answer:?}");
    }
}
