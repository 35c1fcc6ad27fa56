//! `pgweir health`: asks a running pgweir by HTTP whether it takes clients, for the health check of a container.
//!
//! Promises an answer within [`PATIENCE`]: 0 if it is well, 1 with the reason on stderr if not. Reads no configuration: where
//! to ask is said on the command line or by PGWEIR_HTTP_LISTEN.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use crate::complain;

/// As docs and image have it.
const ADDRESS: &str = "127.0.0.1:9127";
/// A check of Docker's takes 30 s at most.
const PATIENCE: Duration = Duration::from_secs(5);
/// The first line of an answer is shorter.
const LINE_BYTES_MAX: u64 = 1000;

/// `address` is what http_listen has, or the first of it.
pub(crate) fn health(address: Option<&str>, only_live: bool) -> ExitCode {
    let variable = std::env::var("PGWEIR_HTTP_LISTEN").ok();
    let listed = address.or(variable.as_deref()).filter(|text| !text.is_empty()).unwrap_or(ADDRESS);
    let address = listed.split(',').next().unwrap_or(listed).trim();
    let path = if only_live { "/live" } else { "/ready" };
    match ask(address, path) {
        Ok(200) => ExitCode::SUCCESS,
        Ok(status) => refuse(&format!("{address}{path} answers {status}")),
        Err(error) => refuse(&format!("{address}{path} does not answer: {}", complain::why(&error))),
    }
}

fn refuse(text: &str) -> ExitCode {
    eprintln!("pgweir health: {text}");
    ExitCode::FAILURE
}

/// The status of the answer.
fn ask(address: &str, path: &str) -> io::Result<u16> {
    match address.strip_prefix("unix:") {
        Some(file) => {
            let stream = UnixStream::connect(file)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            status(&stream, path)
        }
        None => {
            let stream = TcpStream::connect_timeout(&reachable(address)?, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            status(&stream, path)
        }
    }
}

/// Where all addresses are listened on, this machine's own answers.
fn reachable(address: &str) -> io::Result<SocketAddr> {
    let found = names::look_up_with_port(address)?;
    let mut first = found.into_iter().next().ok_or_else(|| io::Error::other("it has no address"))?;
    if first.ip().is_unspecified() {
        let own = if first.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() };
        first.set_ip(own);
    }
    Ok(first)
}

fn status<'a, S>(stream: &'a S, path: &str) -> io::Result<u16>
where
    &'a S: Read + Write,
{
    let mut writer: &S = stream;
    write!(writer, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut line = String::new();
    BufReader::new(stream.take(LINE_BYTES_MAX)).read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    status.filter(|_| line.starts_with("HTTP/1.")).ok_or_else(|| io::Error::other("what it says is not HTTP"))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    fn served(answer: &'static [u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("somebody asks");
            let mut head = [0; 12];
            stream.read_exact(&mut head).expect("a request");
            assert_eq!(&head, b"GET /ready H");
            stream.write_all(answer).expect("it reads");
        });
        address
    }

    #[test]
    fn the_status_is_that_of_the_answer() {
        assert_eq!(ask(&served(b"HTTP/1.1 200 OK\r\n\r\n"), "/ready").expect("an answer"), 200);
        assert_eq!(ask(&served(b"HTTP/1.1 503 Service Unavailable\r\n\r\n"), "/ready").expect("an answer"), 503);
        assert!(ask(&served(b"220 mail.example ESMTP\r\n"), "/ready").is_err());
        assert!(ask("unix:/nowhere/http", "/ready").is_err());
    }

    #[test]
    fn all_addresses_are_reached_on_this_machine() {
        let reached = |text: &str| reachable(text).expect("an address").to_string();
        assert_eq!(reached("0.0.0.0:9127"), "127.0.0.1:9127");
        assert_eq!(reached("[::]:9127"), "[::1]:9127");
        assert_eq!(reached("10.0.0.1:9127"), "10.0.0.1:9127");
        assert!(reachable("9127").is_err());
    }
}
