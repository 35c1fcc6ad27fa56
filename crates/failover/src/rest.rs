//! Patroni's REST API: one request a connection, by HTTP/1.0, so that an answer ends with its connection.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// The longest answer to be read (the state of three members takes 1 kB).
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// The answer's body, as JSON if it is some, else as a text.
///
/// # Errors
/// Nobody answers in time, or the status is not 200, 201 or 202.
pub(crate) fn ask(
    place: SocketAddr,
    method: &str,
    path: &str,
    body: Option<&Value>,
    patience: Duration,
) -> Result<Value, String> {
    let words = |error: std::io::Error| format!("{method} http://{place}{path}: {error}");
    // A host that is cut off does not refuse a connection either.
    let mut stream = TcpStream::connect_timeout(&place, patience.min(Duration::from_secs(2))).map_err(words)?;
    stream.set_read_timeout(Some(patience)).map_err(words)?;
    let body = body.map(Value::to_string).unwrap_or_default();
    let length = body.len();
    let head =
        format!("{method} {path} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all((head + &body).as_bytes()).map_err(words)?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).map_err(words)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).unwrap_or_default();
    if !matches!(status, "200" | "201" | "202") {
        return Err(format!("{method} http://{place}{path}: status {status}: {}", body.trim()));
    }
    Ok(serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.trim().to_owned())))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;

    use super::*;

    /// The value or error for an answer.
    fn answered(answer: &'static str) -> Result<Value, String> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let place = listener.local_addr().expect("it is bound");
        let server = std::thread::spawn(move || {
            let (stream, _) = listener.accept().expect("a client");
            let mut lines = BufReader::new(&stream).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
            let first = lines.next();
            lines.for_each(drop);
            (&stream).write_all(answer.as_bytes()).expect("it listens");
            first
        });
        let answer = ask(place, "GET", "/cluster", None, Duration::from_secs(60));
        assert_eq!(server.join().expect("it does not panic").as_deref(), Some("GET /cluster HTTP/1.0"));
        answer
    }

    #[test]
    fn answers_are_json_or_text_or_errors_with_the_servers_words() {
        assert_eq!(answered("HTTP/1.0 200 OK\r\nA: b\r\n\r\n{\"a\": 1}"), Ok(serde_json::json!({ "a": 1 })));
        assert_eq!(answered("HTTP/1.0 202 Accepted\r\n\r\nscheduled\n"), Ok("scheduled".into()));
        let error = answered("HTTP/1.0 503 Busy\r\n\r\nno leader").expect_err("503 is none");
        assert!(error.ends_with("/cluster: status 503: no leader"), "{error}");
        assert!(answered("").is_err());
    }
}
