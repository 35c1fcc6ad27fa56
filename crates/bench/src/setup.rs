//! From a scenario and a contestant to a running pooler with clients connected to it.
//!
//! Promises: contestants get the same ini lines but for those in their own description.

use std::path::PathBuf;

use measure::encryption::Encryption;
use measure::program::last_lines;
use measure::work::Work;

use crate::contestant::{Contestant, Premises, Running};
use crate::scenario::{CLASSES, CLASSIC, Kind, Proof, Scenario, Tls};
use crate::style::{PASSWORD, USER, work};
use crate::world::{FleetId, World};

/// Which cores the load (with the fake server) and the contestants may use.
#[derive(Clone, Debug)]
pub struct Placement {
    pub load: Vec<usize>,
    pub contestant: Vec<usize>,
}

/// One contestant in a scenario.
#[derive(Debug)]
pub struct Side {
    pub name: String,
    pub fleet: FleetId,
    /// `None` for the direct connection.
    pub running: Option<Running>,
    /// What it shows inside TLS.
    certificate: Option<Certificate>,
}

/// Where a scenario's servers are.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// Address, or several with commas between them, or the folder of a Unix socket.
    pub host: String,
    pub port: u16,
}

impl Upstream {
    /// The fake PostgreSQL, and two standbys that are added to it.
    pub fn hosts(world: &mut World) -> Result<Upstream, String> {
        let hosts = world.add_standbys()?.map(|host| host.to_string());
        Ok(Upstream { host: hosts.join(","), port: world.port })
    }
}

/// The contestants of a scenario: the given ones, and those that the scenario adds.
pub fn contestants(scenario: &Scenario, given: &[Contestant]) -> Result<Vec<Contestant>, String> {
    let mut all = given.to_vec();
    let tuned = scenario.tuned.and_then(|(name, settings)| {
        let plain = given.iter().find(|one| one.name == "pgbouncer")?;
        Some(plain.variant(name, settings))
    });
    all.extend(tuned);
    if let (Some(twin), Some(pgweir)) = (scenario.twin, given.iter().find(|one| one.name == "pgweir")) {
        all.push(if twin == CLASSES { with_classes(pgweir) } else { classic(pgweir) });
    }
    if scenario.relay {
        all.push(Contestant::relay()?);
    }
    if scenario.direct && !given.iter().any(|one| one.program.is_none()) {
        all.push(Contestant::direct());
    }
    Ok(all)
}

/// A pgweir that leaves session state where it was set.
pub fn classic(pgweir: &Contestant) -> Contestant {
    pgweir.variant(CLASSIC, &[("pool_fidelity", "classic")])
}

/// A pgweir whose clients are in ten classes.
fn with_classes(pgweir: &Contestant) -> Contestant {
    Contestant { classes: true, ..pgweir.variant(CLASSES, &[]) }
}

/// The ini file of a contestant.
pub fn ini(place: &Premises, scenario: &Scenario, contestant: &Contestant, upstream: &Upstream, port: u16) -> String {
    let proof = if let Kind::Logins(proof) = scenario.kind { proof } else { Proof::Trust };
    let auth = match proof {
        Proof::Trust => "trust",
        Proof::Md5 => "md5",
        Proof::Scram | Proof::ScramOfPassword => "scram-sha-256",
    };
    let users = users_path(place, proof);
    let fixed = [
        ("listen_addr", "127.0.0.1".to_owned()),
        ("listen_port", port.to_string()),
        ("unix_socket_dir", String::new()),
        ("auth_type", auth.to_owned()),
        ("auth_file", users.display().to_string()),
        ("admin_users", USER.to_owned()),
        ("pool_mode", "transaction".to_owned()),
        ("default_pool_size", pool_size(scenario).to_string()),
        ("max_client_conn", "1000".to_owned()),
    ];
    let mut lines: Vec<(String, String)> = fixed.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    if scenario.tls.is_some() {
        let path = |name: &str| place.folder.join(name).display().to_string();
        let tls = [
            ("client_tls_sslmode", "require".to_owned()),
            ("client_tls_cert_file", path(&Certificate::file(contestant))),
            ("client_tls_key_file", path(&Certificate::key_file(contestant))),
        ];
        lines.extend(tls.map(|(key, value)| (key.to_owned(), value)));
    }
    let own = contestant.settings.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    for (key, value) in scenario.settings.iter().copied().chain(own) {
        lines.retain(|(known, _)| known != key);
        lines.push((key.to_owned(), value.to_owned()));
    }
    if contestant.classes {
        lines.push(("class_file".to_owned(), place.folder.join(RULES_FILE).display().to_string()));
    }
    let lines: String = lines.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
    let classes = if contestant.classes { classes() } else { String::new() };
    let Upstream { host, port } = upstream;
    let role = if contestant.hosts { " target_session_attrs=primary" } else { "" };
    format!(
        "[databases]\nbench = host={host} port={port} dbname=bench user={USER}{role}\n{classes}\n[pgbouncer]\n{lines}"
    )
}

const RULES_FILE: &str = "classes.conf";
/// Half of them for applications, half for tags.
const CLASSES_LEN: usize = 10;

fn classes() -> String {
    let lines = (1..=CLASSES_LEN).map(|number| format!("class{number} = weight={number}\n"));
    format!("[classes]\n{}", lines.collect::<String>())
}

/// Only the last one fits: all have to be looked at.
fn rules() -> String {
    let rule = |number: usize| match number {
        CLASSES_LEN => format!("all all all application:web class{number}\n"),
        _ if number <= CLASSES_LEN / 2 => format!("all all application{number}* all class{number}\n"),
        _ => format!("all all all application:other{number} class{number}\n"),
    };
    (1..=CLASSES_LEN).map(rule).collect()
}

fn pool_size(scenario: &Scenario) -> u32 {
    if let Kind::HalfLoad { pool } = scenario.kind { pool } else { 20 }
}

fn users_path(place: &Premises, proof: Proof) -> PathBuf {
    place.folder.join(format!("users-{proof:?}.txt"))
}

/// Writes the auth file of each kind of proof, and the rules of classes.
pub fn write_users(place: &Premises) -> Result<(), String> {
    place.write(RULES_FILE, &rules())?;
    for proof in [Proof::Trust, Proof::Md5, Proof::Scram, Proof::ScramOfPassword] {
        let secret = match proof {
            Proof::Trust => String::new(),
            Proof::Md5 => postgres_protocol::password::md5(PASSWORD.as_bytes(), USER),
            Proof::Scram => postgres_protocol::password::scram_sha_256(PASSWORD.as_bytes()),
            Proof::ScramOfPassword => PASSWORD.to_owned(),
        };
        let path = users_path(place, proof);
        let name = path.file_name().and_then(|name| name.to_str()).expect("made from ASCII above");
        place.write(name, &format!("\"{USER}\" \"{secret}\"\n"))?;
    }
    Ok(())
}

/// Whom the load's certificate is for.
const HOST: &str = "localhost";

/// What contestants show to clients: a P-256 key, signed by itself.
#[derive(Debug)]
struct Certificate {
    der: Vec<u8>,
}

impl Certificate {
    fn file(contestant: &Contestant) -> String {
        format!("{}.crt", contestant.name)
    }

    fn key_file(contestant: &Contestant) -> String {
        format!("{}.key", contestant.name)
    }

    /// Makes one and writes it where the ini file says. Errors: no randomness, or the folder is gone.
    fn write(place: &Premises, contestant: &Contestant) -> Result<Certificate, String> {
        let made = rcgen::generate_simple_self_signed([HOST.to_owned()]).map_err(|error| error.to_string())?;
        place.write(&Self::file(contestant), &made.cert.pem())?;
        place.write(&Self::key_file(contestant), &made.signing_key.serialize_pem())?;
        Ok(Certificate { der: made.cert.der().to_vec() })
    }
}

/// Starts a contestant for a scenario with the fake PostgreSQL behind it. Nobody is connected yet.
pub fn start(
    place: &Premises,
    scenario: &Scenario,
    contestant: &Contestant,
    world: &mut World,
    wrapper: &[String],
    cores: &[usize],
) -> Result<Side, String> {
    if contestant.program.is_none() {
        let work = work(USER, PASSWORD, "bench", scenario.style, scenario.answer);
        let fleet = world.fleet(world.port, work);
        return Ok(Side { name: contestant.name.clone(), fleet, running: None, certificate: None });
    }
    let upstream = match (contestant.hosts, scenario.unix) {
        (true, _) => Upstream::hosts(world)?,
        (false, true) => Upstream { host: place.folder.display().to_string(), port: world.port },
        (false, false) => Upstream { host: "127.0.0.1".to_owned(), port: world.port },
    };
    let text = |port| ini(place, scenario, contestant, &upstream, port);
    let certificate = scenario.tls.map(|_| Certificate::write(place, contestant)).transpose()?;
    let running = Running::start(place, contestant, text, wrapper, cores)?;
    let fleet = world.fleet(running.port, as_clients(scenario, certificate.as_ref())?);
    Ok(Side { name: contestant.name.clone(), fleet, running: Some(running), certificate })
}

/// What the clients of a scenario do, with TLS if there is a certificate to be checked.
fn as_clients(scenario: &Scenario, certificate: Option<&Certificate>) -> Result<Work, String> {
    let work = work(USER, PASSWORD, "bench", scenario.style, scenario.answer);
    let Some(certificate) = certificate else { return Ok(work) };
    let resumes = scenario.tls == Some(Tls::Resumed);
    Ok(work.encrypted(Encryption::new(certificate.der.clone(), HOST, resumes)?))
}

impl Side {
    /// More clients of the same contestant, in another world.
    pub fn another_fleet(&self, world: &mut World, scenario: &Scenario) -> Result<FleetId, String> {
        let running = self.running.as_ref().ok_or("nobody logs in at the direct connection")?;
        Ok(world.fleet(running.port, as_clients(scenario, self.certificate.as_ref())?))
    }

    /// Its process, unless it is the direct connection.
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(Running::pid)
    }

    /// Puts the contestant's name and log before an error.
    pub fn blame(&self, error: &str) -> String {
        let log = self.running.as_ref().map(Running::log).unwrap_or_default();
        format!("{}: {error}\n{}", self.name, last_lines(&log, 5))
    }
}
