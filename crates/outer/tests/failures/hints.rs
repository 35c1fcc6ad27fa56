//! Hints about the primary: what Patroni says, and what somebody says at the console. Patroni is played by a few lines that answer as it does.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use outer::{Client, Pooler, Stage, Wishes, eventually};

const FIRST: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const SECOND: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

/// A PostgreSQL at two addresses.
fn stage() -> Stage {
    Stage::set(&Wishes { postgres: vec![("listen_addresses", "127.0.0.1,127.0.0.2,127.0.0.3")], ..Wishes::default() })
}

/// A member that answers as Patroni does: each time on a connection of its own.
struct Patroni {
    address: SocketAddr,
    /// The answer to `/cluster`, with a status.
    says: Arc<Mutex<(&'static str, String)>>,
}

impl Patroni {
    fn start() -> Patroni {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let address = listener.local_addr().expect("it listens");
        let says = Arc::new(Mutex::new(("503 Unavailable", String::new())));
        let told = Arc::clone(&says);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let says = told.lock().expect("nobody panics").clone();
                answer(stream, says);
            }
        });
        Patroni { address, says }
    }

    /// This member leads, on a timeline: `a` is at the first address, `b` at the second.
    fn leads(&self, leader: &str, timeline: u32, port: u16) {
        let member = |name: &str, at: Ipv4Addr| {
            let role = if name == leader { "leader" } else { "replica" };
            format!(
                r#"{{"name": "{name}", "role": "{role}", "state": "running", "api_url": "http://{at}:8008/patroni", "host": "{at}", "port": {port}, "timeline": {timeline}}}"#
            )
        };
        let body = format!(r#"{{"members": [{}, {}], "scope": "shop"}}"#, member("a", FIRST), member("b", SECOND));
        self.says("200 OK", body);
    }

    fn says(&self, status: &'static str, body: String) {
        *self.says.lock().expect("nobody panics") = (status, body);
    }
}

fn answer(mut stream: TcpStream, (status, cluster): (&str, String)) {
    let mut reader = BufReader::new(stream.try_clone().expect("a descriptor"));
    let mut first = String::new();
    let mut line = String::new();
    while reader.read_line(&mut line).unwrap_or_default() > 0 && !line.trim().is_empty() {
        if first.is_empty() {
            first.clone_from(&line);
        }
        line.clear();
    }
    let own = r#"{"state": "running", "patroni": {"version": "4.1.5", "scope": "shop"}}"#;
    let (status, body) = if first.starts_with("GET /cluster ") { (status, &*cluster) } else { ("200 OK", own) };
    let head = format!("HTTP/1.0 {status}\r\nServer: BaseHTTP/0.6\r\nContent-Type: application/json\r\n\r\n");
    // The client may be gone.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
}

fn pooler(stage: &Stage, more: &str) -> Pooler {
    let (port, password) = (stage.cluster.port(), stage.cluster.password());
    let mut ini = "[databases]\n".to_owned();
    ini +=
        &format!("shop = host={FIRST},{SECOND} port={port} user=postgres password={password} dbname=postgres {more}\n");
    ini += "[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n";
    ini += "pool_mode = transaction\nobserve_interval = 0\nadmin_users = postgres\n";
    Pooler::start_with(&ini, &[])
}

fn console(pooler: &Pooler) -> Client {
    Client::login(pooler.address(), "postgres", "pgbouncer").unwrap_or_else(|gone| panic!("{gone}: {}", pooler.log()))
}

/// The column `patroni` of SHOW HOSTS, by host.
fn roles(pooler: &Pooler) -> Vec<(String, Option<String>)> {
    let answer = console(pooler).query("show hosts").expect("the console answers");
    let column = answer.names.iter().position(|column| column == "patroni").expect("a column");
    answer.rows.iter().map(|row| (row[0].clone().expect("a host"), row[column].clone())).collect()
}

#[test]
fn the_console_shows_whom_patroni_has_lead_and_the_log_when_that_changes() {
    let (stage, patroni) = (stage(), Patroni::start());
    let port = stage.cluster.port();
    patroni.leads("a", 1, port);
    let pooler = pooler(&stage, &format!("patroni_urls=http://{}", patroni.address));
    let has = |first: &str, second: &str| {
        let all = [(FIRST, first), (SECOND, second)];
        roles(&pooler) == all.map(|(host, role)| (host.to_string(), Some(role.to_owned())))
    };
    let logs = |words: &str| eventually(words, || pooler.log().contains(words));
    let says = |host: Ipv4Addr, what: &str| logs(&format!("hint: {host}:{port} {what}, says the Patroni cluster shop"));
    logs(&format!("Patroni cluster shop: a at {FIRST}:{port} leads now, timeline 1"));
    says(FIRST, "is the primary now");
    eventually("it is shown", || has("leader", "replica"));
    patroni.leads("b", 2, port);
    logs(&format!("Patroni cluster shop: b at {SECOND}:{port} leads now, timeline 2"));
    says(SECOND, "is the primary now");
    says(FIRST, "is not the primary any more");
    eventually("it is shown", || has("replica", "leader"));
    // An answer that cannot be used changes nothing, and is logged once.
    patroni.says("200 OK", "<html>".to_owned());
    logs("cannot be used: the answer is no JSON: expected value at line 1 column 1");
    assert!(has("replica", "leader"), "{}", pooler.log());
    patroni.leads("-", 2, port);
    logs("can be used again");
    logs("Patroni cluster shop: nobody leads");
    assert_eq!(pooler.log().matches("cannot be used").count(), 1, "{}", pooler.log());
}

#[test]
fn a_hint_at_the_console_is_taken_of_a_host_that_a_database_has() {
    let stage = stage();
    let pooler = pooler(&stage, "target_session_attrs=read-write");
    let port = stage.cluster.port();
    let mut console = console(&pooler);
    let mut gives = |text: &str| match console.query(text) {
        Ok(answer) => answer.errors.first().map_or_else(|| answer.tags.concat(), |error| error.message.clone()),
        Err(gone) => panic!("{gone}"),
    };
    assert_eq!(gives(&format!("promoted {SECOND}")), "PROMOTED");
    assert_eq!(gives(&format!("demoted {FIRST}:{port}")), "DEMOTED");
    assert_eq!(gives("promoted 127.0.0.4"), "no database has such a host: 127.0.0.4");
    for words in [
        format!("hint: {SECOND}:{port} is the primary now, says the console"),
        format!("hint: {FIRST}:{port} is not the primary any more, says the console"),
    ] {
        eventually(&words, || pooler.log().contains(&words));
    }
    assert!(roles(&pooler).iter().all(|(_, role)| role.is_none()));
}
