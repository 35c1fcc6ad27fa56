//! The live page without a browser: its requests, one connection each, and what comes back.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use crate::Row;
use crate::patience::PATIENCE;

/// A page that is asked by one who has logged in.
#[derive(Debug)]
pub struct Page {
    /// Where it listens.
    pub http: SocketAddr,
    session: String,
}

/// What came back.
#[derive(Debug)]
pub struct Answered {
    /// The status.
    pub status: u16,
    /// The first line and the headers.
    pub head: String,
    /// What is behind them.
    pub body: String,
}

impl Answered {
    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let is_it = |line: &&str| line.split(':').next().is_some_and(|found| found.eq_ignore_ascii_case(name));
        self.head.lines().find(is_it).map(|line| line[name.len() + 1..].trim())
    }
}

impl Page {
    /// Logs in with a password that is encoded as forms are.
    ///
    /// # Panics
    /// If it is not let in.
    pub fn of(http: SocketAddr, user: &str, password: &str) -> Page {
        Page { http, session: session(http, user, password) }
    }

    /// What its scripts ask.
    pub fn api(&self, path: &str) -> Answered {
        api(self.http, &self.session, path)
    }

    /// The rows of a table, by their columns' names.
    ///
    /// # Panics
    /// If there is no such table.
    pub fn show(&self, table: &str) -> Vec<Row> {
        let answer = self.api(&format!("show/{table}"));
        let json: Value = serde_json::from_str(&answer.body).unwrap_or_else(|_| panic!("{table}: {}", answer.body));
        let names = json["columns"].as_array().unwrap_or_else(|| panic!("{table}: {json}"));
        let names: Vec<&str> = names.iter().filter_map(|column| column["name"].as_str()).collect();
        let named = |row: &Value| {
            let values = row.as_array().expect("values").iter();
            let texts = values.map(|value| value.as_str().map_or_else(String::new, str::to_owned));
            names.iter().map(|name| (*name).to_owned()).zip(texts).collect()
        };
        json["rows"].as_array().expect("rows").iter().map(named).collect()
    }
}

/// Asks by the cookie of a session.
pub fn api(http: SocketAddr, session: &str, path: &str) -> Answered {
    ask(http, "GET", &format!("/api/{path}"), &[("Cookie", session), ("X-Pgweir", "1")], "")
}

/// The cookie of a session.
///
/// # Panics
/// If the user is not let in.
pub fn session(http: SocketAddr, user: &str, password: &str) -> String {
    let answer = log_in(http, user, password);
    assert_eq!(answer.status, 204, "{} {}", answer.head, answer.body);
    answer.header("set-cookie").and_then(|cookie| cookie.split(';').next()).expect("a cookie").to_owned()
}

/// Tries to log in; waits until the pooler knows passwords.
pub fn log_in(http: SocketAddr, user: &str, password: &str) -> Answered {
    let body = format!("user={user}&password={password}");
    let origin = format!("http://{http}");
    let try_once = || ask(http, "POST", "/login", &[("Origin", &origin)], &body);
    // It listens before it knows passwords.
    let mut answer = try_once();
    crate::eventually("the pooler has begun", || {
        let has_begun = answer.status != 503;
        if !has_begun {
            answer = try_once();
        }
        has_begun
    });
    answer
}

/// One request with these headers besides those that each has.
///
/// # Panics
/// If no answer comes within a minute.
pub fn ask(http: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answered {
    let mut stream = TcpStream::connect(http).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("not zero");
    let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| *name == "Host") {
        request += &format!("Host: {http}\r\n");
    }
    headers.iter().for_each(|(name, value)| request += &format!("{name}: {value}\r\n"));
    if method == "POST" {
        request += &format!("Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n", body.len());
    }
    request += "\r\n";
    stream.write_all(request.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).expect("it is read");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer, and the end");
    let answer = String::from_utf8(answer).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    Answered { status, head: head.to_owned(), body: body.to_owned() }
}
