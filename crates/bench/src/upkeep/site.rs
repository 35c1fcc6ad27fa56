//! A pgweir with as many databases as are wanted, the load before it and the fake PostgreSQL behind it, and those who ask it things.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use client::{Connection, Place, Trusted, frontend};
use measure::process;
use measure::statistics::quantile;
use serde_json::{Value, json};

use crate::contestant::{Contestant, Premises, Running};
use crate::fake::Answer;
use crate::setup::{self, Upstream};
use crate::style::{PASSWORD, Style, USER, work};
use crate::world::{FleetId, World};

/// How long whoever asks waits for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often a question comes, and how many clients share these.
pub(super) const INTERVAL: Duration = Duration::from_micros(500);
pub(super) const CLIENTS: usize = 64;

/// A page of metrics is kept for a little less than this.
pub(super) const FRESH: Duration = Duration::from_millis(600);

/// What is measured, and its surroundings.
pub(super) struct Site {
    pub(super) world: World,
    pub(super) running: Running,
    /// Clients of the database `bench`.
    pub(super) fleet: FleetId,
    pub(super) http: SocketAddr,
    file: PathBuf,
    text: String,
}

impl Site {
    /// Starts it, with databases `db0` and so on besides `bench`. Nobody is connected yet.
    pub(super) fn open(place: &Premises, pgweir: &Contestant, databases: usize) -> Result<Site, String> {
        setup::write_users(place)?;
        let mut world = World::open(&place.folder)?;
        let upstream = Upstream { host: "127.0.0.1".to_owned(), port: world.port };
        let http = SocketAddr::from((Ipv4Addr::LOCALHOST, demo::free_port()));
        let contestant = pgweir.variant(
            &pgweir.name,
            &[
                ("max_client_conn", "14000"),
                ("listen_backlog", "4096"),
                ("log_connections", "0"),
                ("log_disconnections", "0"),
                ("http_listen", &http.to_string()),
            ],
        );
        let port = upstream.port;
        let more: String = (0..databases)
            .map(|number| format!("db{number} = host=127.0.0.1 port={port} dbname=bench user={USER} pool_size=7\n"))
            .collect();
        let ini = |port| {
            let text = setup::ini(place, &super::watched::PLAIN, &contestant, &upstream, port);
            text.replacen("[databases]\n", &format!("[databases]\n{more}"), 1)
        };
        let running = Running::start(place, &contestant, ini, &[], &process::cores())?;
        let file = place.folder.join(format!("{}-{}.ini", contestant.name, running.port));
        let text = fs::read_to_string(&file).map_err(|error| error.to_string())?;
        let fleet = world.fleet(running.port, work(USER, PASSWORD, "bench", Style::Simple, Answer::Small));
        Ok(Site { world, running, fleet, http, file, text })
    }

    /// One client of each database, which has asked something: each has a pool.
    pub(super) fn use_databases(&mut self, databases: usize) -> Result<(), String> {
        for number in 0..databases {
            let work = work(USER, PASSWORD, &format!("db{number}"), Style::Simple, Answer::Small);
            let fleet = self.world.fleet(self.running.port, work);
            self.world.connect(fleet, 1)?;
            self.world.start(fleet, crate::world::Mode::Closed)?;
            self.world.settle(fleet)?;
        }
        Ok(())
    }

    pub(super) fn file(&self) -> ConfigFile {
        ConfigFile { path: self.file.clone(), text: self.text.clone() }
    }
}

/// The pooler's file, to be written anew.
pub(super) struct ConfigFile {
    path: PathBuf,
    text: String,
}

impl ConfigFile {
    /// All databases get this size; each reload then changes all of them.
    pub(super) fn set_sizes(&self, size: u32) -> Result<(), String> {
        self.write(&self.text.replace("pool_size=7", &format!("pool_size={size}")))
    }

    /// It cannot be loaded.
    pub(super) fn spoil(&self) -> Result<(), String> {
        self.write(&self.text.replace("pool_mode = transaction", "pool_mode = transactoin"))
    }

    fn write(&self, text: &str) -> Result<(), String> {
        fs::write(&self.path, text).map_err(|error| format!("cannot write {}: {error}", self.path.display()))
    }
}

/// A connection to the console that stays.
pub(super) struct Console {
    connection: Connection,
}

impl Console {
    pub(super) fn open(port: u16) -> Result<Console, String> {
        let place = Place::Tcp((Ipv4Addr::LOCALHOST, port).into());
        let mut connection = Connection::open(place, PATIENCE).map_err(|error| format!("console: {error}"))?;
        let startup = frontend::startup(&[("user", USER), ("database", "pgbouncer")]);
        connection.log_in(&startup, &mut Trusted).map_err(|gone| format!("console: {gone}"))?;
        Ok(Console { connection })
    }

    /// How long the answer took, how many rows it has, and whether it is an error.
    pub(super) fn ask(&mut self, command: &str) -> Result<(Duration, usize, bool), String> {
        let began = Instant::now();
        let answer = self.connection.query(command).map_err(|gone| format!("console: {gone}"))?;
        Ok((began.elapsed(), answer.rows.len(), !answer.errors.is_empty()))
    }
}

/// Reads /metrics. How long it took, and how many bytes they are.
pub(super) fn scrape(http: SocketAddr) -> Result<(Duration, usize), String> {
    let failed = |error: std::io::Error| format!("/metrics: {error}");
    let began = Instant::now();
    let mut stream = TcpStream::connect_timeout(&http, PATIENCE).map_err(failed)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").map_err(failed)?;
    let mut page = Vec::new();
    stream.read_to_end(&mut page).map_err(failed)?;
    if !page.starts_with(b"HTTP/1.1 200 ") {
        return Err("/metrics is refused".to_owned());
    }
    Ok((began.elapsed(), page.len()))
}

/// Of latencies: the middle one, the 99th percentile and the longest, in ns.
pub(super) fn parts(latencies_ns: &[u32]) -> Value {
    let all: Vec<f64> = latencies_ns.iter().copied().map(f64::from).collect();
    json!({ "p50_ns": quantile(&all, 0.5), "p99_ns": quantile(&all, 0.99), "most_ns": quantile(&all, 1.0) })
}
