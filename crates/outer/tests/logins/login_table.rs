//! Who gets in by six drivers, with each method, right and wrong passwords, over TCP, TLS and the Unix socket: the pooler's verdict is
//! PostgreSQL's, with its words and SQLSTATE.
//!
//! PostgreSQL and the pooler read the same pg_hba.conf, and the pooler looks its users up in that PostgreSQL. Each login is made
//! directly, then twice through the pooler: the first finds no server in its pool, the second one that is there.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use outer::{Authority, Pooler, Program, Stage};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// A database for each method. The first line is the pooler's own way, and that of this test.
const RULES: &str = "
local   all         postgres,asker  trust
hostssl d_cert      all  all        cert
local   d_cert      all             reject
host    d_cert      all  all        reject
local   d_password  all             password
host    d_password  all  all        password
local   d_md5       all             md5
host    d_md5       all  all        md5
local   d_scram     all             scram-sha-256
host    d_scram     all  all        scram-sha-256
local   d_trust     all             trust
host    d_trust     all  all        trust
local   d_peer      all             peer
host    d_peer      all  all        reject
";
const DATABASES: [&str; 6] = ["d_password", "d_md5", "d_scram", "d_trust", "d_cert", "d_peer"];

const ROLES: &str = "
    create role asker login;
    create role nologin password 'right';
    create role expired login password 'right' valid until '2001-01-01';
    create role nopassword login;
    set password_encryption = md5;
    create role old login password 'right';
    create role oldexpired login password 'right' valid until '2001-01-01';
    create schema auth; grant usage on schema auth to asker;
    create function auth.user_lookup(text) returns table(name text, secret text, valid_until timestamptz)
        language sql security definer set search_path = pg_catalog as $$
        select rolname, rolpassword, rolvaliduntil from pg_authid where rolname = $1 and rolcanlogin $$";
const USERS: [&str; 7] = ["ann", "old", "expired", "oldexpired", "nologin", "nopassword", "nobody"];
const PASSWORDS: [&str; 3] = ["right", "wrong", ""];

/// How a client connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Tcp,
    Tls,
    Unix,
}

/// One login, at one of the two.
#[derive(Debug)]
struct Login<'a> {
    host: &'a str,
    port: u16,
    user: &'a str,
    database: &'a str,
    password: &'a str,
    sslmode: &'a str,
    ca: &'a str,
    certificate: &'a str,
    key: &'a str,
}

impl Login<'_> {
    /// As the drivers' programs read it.
    fn line(&self) -> String {
        let Login { host, port, user, database, password, sslmode, ca, certificate, key } = self;
        format!("{host}\t{port}\t{user}\t{database}\t{password}\t{sslmode}\t{ca}\t{certificate}\t{key}\n")
    }
}

/// `Err`: the SQLSTATE, `-` if the driver does not tell it, and the words.
type Verdict = Result<(), (String, String)>;

trait Driver {
    fn log_in(&mut self, login: &Login<'_>) -> Verdict;

    fn has_unix_sockets(&self) -> bool {
        true
    }
}

/// A program that answers a line with a line.
struct Lines {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    has_unix_sockets: bool,
}

impl Lines {
    fn start(program: &Program, arguments: &[&str]) -> Lines {
        let mut command = program.command();
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it was just built");
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().expect("piped"));
        Lines { child, stdin, stdout: BufReader::new(stdout), has_unix_sockets: true }
    }
}

impl Driver for Lines {
    fn log_in(&mut self, login: &Login<'_>) -> Verdict {
        let stdin = self.stdin.as_mut().expect("it is open until the end");
        stdin.write_all(login.line().as_bytes()).and_then(|()| stdin.flush()).expect("it reads");
        let mut answer = String::new();
        self.stdout.read_line(&mut answer).expect("it answers");
        match answer.trim_end().split_once('\t') {
            Some((state, words)) => Err((state.to_owned(), words.to_owned())),
            None => {
                assert_eq!(answer.trim_end(), "ok", "{login:?}");
                Ok(())
            }
        }
    }

    fn has_unix_sockets(&self) -> bool {
        self.has_unix_sockets
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        // It ends with its input.
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

/// psql, a process for each login.
struct Psql(std::path::PathBuf);

impl Driver for Psql {
    fn log_in(&mut self, login: &Login<'_>) -> Verdict {
        let mut target = format!(
            "host={} port={} user={} dbname={} password='{}' sslmode={}",
            login.host, login.port, login.user, login.database, login.password, login.sslmode
        );
        for (name, value) in [("sslrootcert", login.ca), ("sslcert", login.certificate), ("sslkey", login.key)] {
            if !value.is_empty() {
                write!(target, " {name}={value}").expect("writing to a String cannot fail");
            }
        }
        let mut psql = Command::new(&self.0);
        // It never asks for a password.
        psql.args(["-wXd", &target, "-Atc", "select 1"]).env("PGCONNECT_TIMEOUT", "120").stdin(Stdio::null());
        let output = psql.output().expect("it was found");
        if output.status.success() {
            return Ok(());
        }
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        let words = words.rsplit_once("FATAL:").map_or(words.as_str(), |(_, fatal)| fatal).trim();
        Err(("-".to_owned(), words.replace('\n', " ")))
    }
}

struct TokioPostgres(tokio::runtime::Runtime);

impl TokioPostgres {
    async fn try_log_in(login: &Login<'_>) -> Result<(), tokio_postgres::Error> {
        let mut config = tokio_postgres::Config::new();
        config.host(login.host).port(login.port).user(login.user).dbname(login.database).password(login.password);
        config.connect_timeout(Duration::from_secs(120));
        let client = if login.sslmode == "disable" {
            config.ssl_mode(tokio_postgres::config::SslMode::Disable);
            let (client, connection) = config.connect(tokio_postgres::NoTls).await?;
            tokio::spawn(connection);
            client
        } else {
            config.ssl_mode(tokio_postgres::config::SslMode::Require);
            let tls = tokio_postgres_rustls::MakeRustlsConnect::new(encryption(login));
            let (client, connection) = config.connect(tls).await?;
            tokio::spawn(connection);
            client
        };
        client.simple_query("select 1").await.map(drop)
    }
}

fn encryption(login: &Login<'_>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(login.ca).expect("a certificate")).expect("a CA");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("defaults");
    let config = config.with_root_certificates(roots);
    if login.certificate.is_empty() {
        return config.with_no_client_auth();
    }
    let certificate = CertificateDer::from_pem_file(login.certificate).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(login.key).expect("a key");
    config.with_client_auth_cert(vec![certificate], key).expect("they belong together")
}

impl Driver for TokioPostgres {
    fn log_in(&mut self, login: &Login<'_>) -> Verdict {
        let outcome = self.0.block_on(Self::try_log_in(login));
        outcome.map_err(|error| match error.as_db_error() {
            Some(told) => (told.code().code().to_owned(), told.message().to_owned()),
            None => ("-".to_owned(), format!("{error:?}")),
        })
    }
}

/// PostgreSQL, the pooler before it, and the certificates of clients.
struct Table {
    pooler: Pooler,
    authority: Authority,
    sockets: String,
    stage: Stage,
}

impl Table {
    fn set() -> Table {
        let (stage, authority) = Stage::encrypted();
        let _ = stage.direct(ROLES);
        for database in DATABASES {
            let _ = stage.direct(&format!("create database {database}"));
        }
        authority.sign("ann", "ann", &[]);
        fs::write(stage.cluster.data().join("pg_hba.conf"), RULES).expect("we are root or its user");
        assert_eq!(stage.cluster.psql("postgres", "select pg_reload_conf()").as_deref().ok(), Some("t"));
        let sockets = stage.cluster.socket_dir().display().to_string();
        let port = stage.cluster.port();
        let mut ini = String::from("[databases]\n");
        for database in DATABASES {
            // By a password or its proof each is logged in to as the client; else nothing would let the pooler in.
            let forced = if ["d_trust", "d_cert", "d_peer"].contains(&database) { " user=postgres" } else { "" };
            writeln!(ini, "{database} = host={sockets} port={port}{forced}").expect("writing to a String cannot fail");
        }
        write!(
            ini,
            "postgres = host={sockets} port={port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {{port}}\n\
             unix_socket_dir = {{dir}}\nauth_type = hba\nauth_hba_file = {}/pg_hba.conf\nauth_user = asker\n\
             auth_dbname = postgres\nauth_query = select name, secret, valid_until from auth.user_lookup($1)\n\
             auth_file = {{dir}}/users.txt\npool_mode = transaction\ndefault_pool_size = 2\nclient_tls_sslmode = prefer\n\
             client_tls_cert_file = {}\nclient_tls_key_file = {}\nclient_tls_ca_file = {}\n",
            stage.cluster.data().display(),
            authority.path("pooler.crt"),
            authority.path("pooler.key"),
            authority.path("ca.crt")
        )
        .expect("writing to a String cannot fail");
        let pooler = Pooler::start(&ini, "\"asker\" \"\"\n", None);
        Table { pooler, authority, sockets, stage }
    }

    /// The logins of a driver: user, database, password, way, and whether with ann's certificate.
    fn logins(has_unix_sockets: bool) -> Vec<(&'static str, &'static str, &'static str, Way, bool)> {
        let mut all = Vec::new();
        for way in [Way::Tcp, Way::Tls, Way::Unix] {
            if way == Way::Unix && !has_unix_sockets {
                continue;
            }
            for database in DATABASES {
                let asks = ["d_password", "d_md5", "d_scram"].contains(&database);
                for user in USERS {
                    let passwords = if asks { &PASSWORDS[..] } else { &PASSWORDS[..1] };
                    all.extend(passwords.iter().map(|password| (user, database, *password, way, false)));
                    if database == "d_cert" && way == Way::Tls {
                        all.push((user, database, "right", way, true));
                    }
                }
            }
        }
        all
    }

    fn compare(&self, name: &str, driver: &mut dyn Driver) {
        let path = |file: &str| self.authority.path(file);
        let (ca, certificate, key) = (path("ca.crt"), path("ann.crt"), path("ann.key"));
        let ours = self.pooler.dir().display().to_string();
        let (mut allowed, mut refused, mut differs) = (0, BTreeMap::new(), Vec::new());
        for (user, database, password, way, shows) in Self::logins(driver.has_unix_sockets()) {
            let (certificate, key) = if shows { (certificate.as_str(), key.as_str()) } else { ("", "") };
            let (sslmode, ca) = if way == Way::Tls { ("verify-full", ca.as_str()) } else { ("disable", "") };
            let host = |sockets| if way == Way::Unix { sockets } else { "localhost" };
            let mut at = |host, port| {
                driver.log_in(&Login { host, port, user, database, password, sslmode, ca, certificate, key })
            };
            let direct = at(host(self.sockets.as_str()), self.stage.cluster.port());
            for pool in ["cold", "warm"] {
                let through = at(host(ours.as_str()), self.pooler.port);
                if !is_as(&direct, &through, user, database, password) {
                    let what = format!("{user} {database} {password:?} {way:?} {shows} {pool}");
                    differs.push(format!("{what}: {direct:?}, through the pooler {through:?}"));
                }
            }
            match direct {
                Ok(()) => allowed += 1,
                Err((state, words)) => {
                    let words = words.replace(user, "…").replace(database, "…");
                    *refused.entry(format!("{state} {words}")).or_insert(0) += 1;
                }
            }
        }
        println!("{name}: {allowed} logins allowed, {} refused: {refused:#?}", refused.values().sum::<i32>());
        assert!(differs.is_empty(), "{name}: {} differ:\n{}", differs.len(), differs.join("\n"));
        assert!(allowed >= 12 && refused.len() >= 4, "the table has lost its meaning");
    }
}

/// Whether the pooler has said what PostgreSQL did.
fn is_as(direct: &Verdict, through: &Verdict, user: &str, database: &str, password: &str) -> bool {
    match (direct, through) {
        // Who may not log in is not found by auth_query, so that the pooler cannot know more of it than of any name that there is not.
        (Err((_, words)), Err((state, other))) if words.ends_with("is not permitted to log in") => {
            let as_unknown = other == &format!("password authentication failed for user \"{user}\"")
                || other == &format!("role \"{user}\" does not exist");
            as_unknown && ["28P01", "28000", "-"].contains(&state.as_str())
        }
        // For a user without a usable password PostgreSQL asks by SCRAM, which some drivers refuse themselves without a password;
        // the pooler asks as it does for others, so that nobody sees who has one.
        (Err(_), Err(_)) if database == "d_md5" && password.is_empty() => true,
        // In the driver's own words there are places.
        (Err((state, words)), Err((other_state, other))) => {
            let own = |words: &str| words.rsplit_once(" failed: ").map_or(words.to_owned(), |(_, own)| own.to_owned());
            state == other_state && own(words) == own(other)
        }
        _ => direct == through,
    }
}

#[test]
fn psql() {
    let table = Table::set();
    let program = table.stage.binaries.program("psql").expect("it is needed");
    table.compare("psql", &mut Psql(program));
}

#[test]
fn psycopg() {
    Table::set().compare("psycopg", &mut Lines::start(&Program::python("logins.py"), &[]));
}

#[test]
fn tokio_postgres() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    Table::set().compare("tokio-postgres", &mut TokioPostgres(runtime));
}

#[test]
#[ignore = "test-full: the same table by one more driver; in the gate: login_table::psql, ::psycopg, ::tokio_postgres, and this driver in clients drivers:: or operation console::"]
fn pgx() {
    let Some(program) = Program::built_by("pgx") else { return };
    Table::set().compare("pgx", &mut Lines::start(&program, &["logins"]));
}

#[test]
#[ignore = "test-full: the same table by one more driver; in the gate: login_table::psql, ::psycopg, ::tokio_postgres, and this driver in clients drivers:: or operation console::"]
fn pgjdbc() {
    let Some(program) = Program::built_by("pgjdbc") else { return };
    let mut driver = Lines::start(&program, &["logins"]);
    driver.has_unix_sockets = false;
    let table = Table::set();
    table.authority.write_pk8("ann");
    table.compare("pgjdbc", &mut driver);
}

#[test]
#[ignore = "test-full: the same table by one more driver; in the gate: login_table::psql, ::psycopg, ::tokio_postgres, and this driver in clients drivers:: or operation console::"]
fn node_postgres() {
    let Some(program) = Program::built_by("node-postgres") else { return };
    Table::set().compare("node-postgres", &mut Lines::start(&program, &["logins"]));
}
