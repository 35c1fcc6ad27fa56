//! `pgweir health`: asks a running pgweir by HTTP whether it takes clients, for the health check of a container.
//!
//! Promises an answer within [`PATIENCE`]: 0 if it is well, 1 with the reason on stderr if not. Reads no configuration: where
//! to ask is said on the command line or by PGWEIR_HTTP_LISTEN.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use config::Problem;

use crate::complain;
use crate::environment::Environment;

/// As docs and image have it.
const ADDRESS: &str = "127.0.0.1:9127";
/// A check of Docker's takes 30 s at most.
const PATIENCE: Duration = Duration::from_secs(5);
/// The first line of an answer is shorter.
const LINE_BYTES_MAX: u64 = 1000;

/// `address` is what http_listen has, or the first of it.
pub(crate) fn health(address: Option<&str>, only_live: bool) -> ExitCode {
    let listed = match address.map_or_else(of_environment, |address| Ok(Some(address.to_owned()))) {
        Ok(listed) => listed.filter(|text| !text.is_empty()).unwrap_or_else(|| ADDRESS.to_owned()),
        Err(problem) => return refuse(&problem.to_string()),
    };
    let address = listed.split(',').next().unwrap_or(&listed).trim().to_owned();
    let path = if only_live { "/live" } else { "/ready" };
    match ask_in_time(address.clone(), path) {
        Ok(200) => ExitCode::SUCCESS,
        Ok(status) => refuse(&format!("{address}{path} answers {status}")),
        Err(error) => refuse(&format!("{address}{path} does not answer: {}", complain::why(&error))),
    }
}

/// What `pgweir run` takes from the environment.
fn of_environment() -> Result<Option<String>, Problem> {
    Ok(Environment::of_the_process(&config::read_file)?.setting("http_listen").map(str::to_owned))
}

fn refuse(text: &str) -> ExitCode {
    eprintln!("pgweir health: {}", complain::without_passwords(text));
    ExitCode::FAILURE
}

/// Asks on a thread of its own, which is left alone after [`PATIENCE`]: names, connections and answers may each take longer.
fn ask_in_time(address: String, path: &'static str) -> io::Result<u16> {
    let (sender, receiver) = mpsc::channel();
    // Nobody may wait any more.
    thread::spawn(move || _ = sender.send(ask(&address, path)));
    receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| Err(io::Error::other("no answer in time")))
}

/// The status of the answer.
fn ask(address: &str, path: &str) -> io::Result<u16> {
    match address.strip_prefix("unix:") {
        Some(file) => status(&UnixStream::connect(file)?, path),
        None => status(&TcpStream::connect(&*reachable(address)?)?, path),
    }
}

/// Where all addresses are listened on, this machine's own answers.
fn reachable(address: &str) -> io::Result<Vec<SocketAddr>> {
    let own: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    if let Some(port) = address.strip_prefix("*:") {
        let port = port.parse().map_err(|_| io::Error::other("a port is a number from 1 to 65535"))?;
        return Ok(own.map(|ip| SocketAddr::new(ip, port)).to_vec());
    }
    let mut found = names::look_up_with_port(address)?;
    for address in found.iter_mut().filter(|address| address.ip().is_unspecified()) {
        address.set_ip(own[usize::from(address.is_ipv6())]);
    }
    Ok(found)
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
        let reached = |text: &str| {
            let found = reachable(text).expect("an address");
            found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(reached("0.0.0.0:9127"), "127.0.0.1:9127");
        assert_eq!(reached("*:9127"), "127.0.0.1:9127 [::1]:9127");
        assert_eq!(reached("[::]:9127"), "[::1]:9127");
        assert_eq!(reached("10.0.0.1:9127"), "10.0.0.1:9127");
        assert!(reachable("9127").is_err() && reachable("*:http").is_err());
    }

    /// Each read has an answer, and there is no end of them.
    #[test]
    fn a_server_that_says_a_byte_now_and_then_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("somebody asks");
            while stream.write_all(b"H").is_ok() {
                thread::sleep(Duration::from_millis(100));
            }
        });
        let asked = std::time::Instant::now();
        let error = ask_in_time(address, "/ready").expect_err("it says nothing");
        assert_eq!(error.to_string(), "no answer in time");
        assert!(asked.elapsed() >= PATIENCE && asked.elapsed() < PATIENCE * 2);
    }
}
