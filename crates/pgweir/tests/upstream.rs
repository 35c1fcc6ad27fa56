//! What `pgweir run` says of its PostgreSQL at the start: to a server that is played, and to none. It serves in any case.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

const PGWEIR: &str = env!("CARGO_BIN_EXE_pgweir");

/// The body of an SSLRequest.
const SSL_REQUEST: [u8; 4] = 80_877_103_u32.to_be_bytes();

/// How long anything may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(120);

/// `pgweir run` in front of an upstream, its log line by line.
struct Running {
    child: Child,
    log: Receiver<String>,
}

impl Running {
    fn before(upstream: u16) -> Running {
        // Free a moment ago; nobody else looks for one so soon.
        let port = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a free port").port();
        let mut child = Command::new(PGWEIR)
            .args(["run", &format!("postgres://app@127.0.0.1:{upstream}/shop"), "--listen", &port.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it was built");
        let stderr = BufReader::new(child.stderr.take().expect("it is a pipe"));
        let (line, log) = channel();
        thread::spawn(move || stderr.lines().map_while(Result::ok).try_for_each(|text| line.send(text)));
        let running = Running { child, log };
        running.line("process up");
        TcpStream::connect(("127.0.0.1", port)).expect("a bare port is one to listen on, whatever the upstream says");
        running
    }

    /// The first line from here on that has these words.
    fn line(&self, words: &str) -> String {
        let mut before = Vec::new();
        loop {
            match self.log.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(words) => return line,
                Ok(line) => before.push(line),
                Err(_) => panic!("no line with {words:?} in\n{}", before.join("\n")),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let len = u32::try_from(body.len() + 4).expect("short").to_be_bytes();
    [&[tag][..], &len, body].concat()
}

fn ready() -> Vec<u8> {
    message(b'Z', b"I")
}

/// A PostgreSQL that greets each client with this, and answers each Query by `answer`.
fn played(greeting: Vec<u8>, answer: fn(&str) -> &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there are free ports");
    let port = listener.local_addr().expect("it is bound").port();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let greeting = greeting.clone();
            thread::spawn(move || converse(stream, &greeting, answer));
        }
    });
    port
}

/// `None`: the client has left.
fn converse(mut stream: TcpStream, greeting: &[u8], answer: fn(&str) -> &'static str) -> Option<()> {
    // It has no TLS.
    if body(&mut stream)? == SSL_REQUEST {
        stream.write_all(b"N").ok()?;
        body(&mut stream)?;
    }
    stream.write_all(greeting).ok()?;
    if greeting.first() == Some(&b'E') {
        // As PostgreSQL: who is refused is closed.
        return None;
    }
    loop {
        stream.read_exact(&mut [0]).ok()?;
        let query = String::from_utf8(body(&mut stream)?).ok()?;
        let value = answer(query.trim_end_matches('\0'));
        let len = u32::try_from(value.len()).expect("short").to_be_bytes();
        let row = message(b'D', &[&[0, 1][..], &len, value.as_bytes()].concat());
        stream.write_all(&[row, message(b'C', b"SELECT 1\0"), ready()].concat()).ok()?;
    }
}

/// A length, and as many bytes as it says.
fn body(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut len = [0; 4];
    stream.read_exact(&mut len).ok()?;
    let mut body = vec![0; u32::from_be_bytes(len) as usize - 4];
    stream.read_exact(&mut body).ok()?;
    Some(body)
}

#[test]
fn a_server_that_answers_is_named_with_what_it_has_left() {
    let welcome = [message(b'R', &[0; 4]), ready()].concat();
    let server = played(welcome, |query| match query {
        "SHOW server_version" => "18.1",
        "SHOW max_connections" => "100",
        _ => "39",
    });
    let line = Running::before(server).line("PostgreSQL 18.1");
    let expected = format!(
        "PostgreSQL 18.1 at 127.0.0.1:{server}, database \"shop\": login as \"app\" works, 40 of max_connections = 100 are left, \
         and up to 90 may be opened"
    );
    assert!(line.contains("WARNING") && line.contains(&expected), "{line}");
}

#[test]
fn a_server_that_refuses_is_quoted() {
    let words = b"SFATAL\0C3D000\0Mdatabase \"shop\" does not exist\0\0";
    let server = played(message(b'E', words), |_| "");
    let line = Running::before(server).line("cannot be used");
    assert!(line.contains("WARNING"), "{line}");
    assert!(line.contains("3D000: database \"shop\" does not exist (the database is named at the end"), "{line}");
}

#[test]
fn a_server_that_is_not_there_keeps_nobody_from_starting() {
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a free port").port();
    let line = Running::before(nobody).line("cannot be used");
    assert!(line.contains("Connection refused") && line.contains("does PostgreSQL run there"), "{line}");
}
