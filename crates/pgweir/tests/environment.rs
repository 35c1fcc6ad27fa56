//! `pgweir run` as a container starts it: the environment says what to serve and how, and `pgweir health` whether it does.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const PGWEIR: &str = env!("CARGO_BIN_EXE_pgweir");

/// How long anything may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(120);

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a free port").port()
}

fn program(arguments: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(PGWEIR);
    command.args(arguments).env_clear().envs(variables.iter().copied()).stdin(Stdio::null());
    command
}

/// A program that serves until the test ends.
struct Running(Child);

impl Running {
    /// Reads its log up to the line with these words, and returns it.
    fn until(&mut self, words: &str) -> String {
        let mut lines = BufReader::new(self.0.stderr.as_mut().expect("it is a pipe")).lines();
        let mut before = String::new();
        loop {
            let line =
                lines.next().and_then(Result::ok).unwrap_or_else(|| panic!("no line with {words:?} in\n{before}"));
            before.push_str(&line);
            before.push('\n');
            if line.contains(words) {
                return before;
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn served(arguments: &[&str], variables: &[(&str, &str)]) -> Running {
    Running(program(arguments, variables).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it was built"))
}

/// What a program that ends at once says.
fn said(arguments: &[&str], variables: &[(&str, &str)]) -> (bool, String) {
    let Output { status, stderr, .. } = program(arguments, variables).output().expect("it was built");
    (status.success(), String::from_utf8_lossy(&stderr).into_owned())
}

fn file(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("pgweir-environment-{}-{name}", std::process::id()));
    fs::write(&path, text).expect("a temporary directory");
    path
}

#[test]
fn the_environment_says_what_is_served_and_health_whether_it_is() {
    let (port, http) = (free_port().to_string(), format!("127.0.0.1:{}", free_port()));
    let url = file("url", "postgres://app:secret@127.0.0.1:1/shop\n");
    let variables = [
        ("DATABASE_URL_FILE", url.to_str().expect("a plain name")),
        ("PGWEIR_LISTEN_PORT", &*port),
        ("PGWEIR_UNIX_SOCKET_DIR", ""),
        ("PGWEIR_HTTP_LISTEN", &*http),
        ("PGWEIR_POOL_MOD", "session"),
        ("PGWEIR_PORT", "tcp://10.0.0.1:6432"),
    ];
    let (is_well, words) = said(&["health"], &variables);
    assert!(!is_well && words.contains("does not answer"), "{words}");

    let mut running = served(&["run"], &variables);
    let log = running.until("process up");
    assert!(log.contains(&format!("listening on 127.0.0.1:{port}")), "{log}");
    assert!(log.contains("PGWEIR_POOL_MOD") && log.contains("did you mean pool_mode?"), "{log}");
    assert!(!log.contains("PGWEIR_PORT:"), "Kubernetes's: {log}");
    // Clients are taken a moment after it is said.
    let until = Instant::now() + PATIENCE;
    while !said(&["health"], &variables).0 {
        assert!(Instant::now() < until, "it never got well");
    }
    assert!(said(&["health", "--live", &http], &[]).0);
    let (_, words) = said(&["health", "127.0.0.1:1"], &variables);
    assert!(words.contains("127.0.0.1:1/ready"), "the command line counts more: {words}");
    let listen = file("listen", &http);
    assert!(said(&["health"], &[("PGWEIR_HTTP_LISTEN_FILE", listen.to_str().expect("a plain name"))]).0);
    fs::remove_file(listen).expect("it is ours");
    fs::remove_file(url).expect("it is ours");
}

#[test]
fn what_serves_says_how_to_reach_it_and_top_finds_it() {
    let folder = std::env::temp_dir().join(format!("pgweir-environment-{}-found", std::process::id()));
    fs::create_dir_all(&folder).expect("a temporary directory");
    let port = free_port().to_string();
    let found = ("XDG_RUNTIME_DIR", folder.to_str().expect("a plain name"));
    let arguments = ["run", "postgres://app:secret@127.0.0.1:1/shop", "--listen", &port];
    let mut command = program(&arguments, &[found, ("PATH", "/nowhere"), ("PGWEIR_UNIX_SOCKET_DIR", "")]);
    let mut running = Running(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it was built"));
    let lines = BufReader::new(running.0.stdout.as_mut().expect("it is a pipe")).lines();
    let lines: Vec<String> = lines.take(4).map(|line| line.expect("text")).collect();
    let expected = [
        format!("psql     psql 'postgres://app@127.0.0.1:{port}/shop'"),
        format!("console  psql 'postgres://app@127.0.0.1:{port}/pgbouncer'"),
        "page     off; PGWEIR_HTTP_LISTEN=127.0.0.1:9127 PGWEIR_HTTP_PAGE=1 turns it on".to_owned(),
    ];
    assert_eq!(lines[..3], expected);
    assert!(lines[3].starts_with("top      ") && lines[3].ends_with("/pgweir top"), "{}", lines[3]);

    let top = |variables: &[(&str, &str)]| {
        let output = program(&["top", "--once"], variables).output().expect("it was built");
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    // Its password is not in the environment: the process that serves has it.
    let shown = top(&[found, ("DATABASE_URL", "postgres://other@127.0.0.1:1/other")]);
    assert!(shown.starts_with(&format!("pgweir top app@127.0.0.1:{port}\n")), "{shown}");
    // A place that is named counts more.
    let elsewhere = top(&[found, ("PGWEIR_LISTEN_PORT", "1"), ("PGUSER", "app")]);
    assert!(elsewhere.contains("cannot connect to 127.0.0.1:1"), "{elsewhere}");
    drop(running);
    // Another program of this machine may have the default port.
    if std::net::TcpStream::connect("127.0.0.1:6432").is_err() && !PathBuf::from("/run/pgweir").exists() {
        let nothing = top(&[found]);
        assert!(nothing.contains("no pgweir dev or pgweir run of this user serves here"), "{nothing}");
    }
    fs::remove_dir_all(&folder).expect("it is ours");
}

#[test]
fn what_cannot_be_served_is_said_with_what_to_do() {
    let missing = ("PGPASSWORD_FILE", "/run/secrets/nowhere");
    let host = [("PGHOST", "127.0.0.1"), ("PGUSER", "app"), ("PGDATABASE", "shop")];
    let with = |more: &[(&'static str, &'static str)]| [&host[..], more].concat();
    let table = [
        ("run", vec![], "what is to be served? Give a URL"),
        ("run", with(&[missing]), "PGPASSWORD_FILE: found \"/run/secrets/nowhere\": No such file"),
        ("run", with(&[("PGPASSWORD", "x"), missing]), "PGPASSWORD_FILE: found PGPASSWORD too"),
        ("run", with(&[("PGWEIR_LISTEN_ADDR", "*")]), "password: found none for user \"app\" while listening on \"*\""),
        (
            "run",
            with(&[("PGPASSWORD", "x"), ("PGWEIR_MAX_CLIENT_CONN", "many")]),
            "PGWEIR_MAX_CLIENT_CONN: found \"many\"",
        ),
        ("run mysql://a@b/c", vec![], "expected postgres://user@host/database"),
        ("run", with(&[("LISTEN_FDS", "1")]), "sockets passed from service manager need a password"),
        (
            "health",
            vec![("PGWEIR_HTTP_LISTEN_FILE", "/nowhere/address")],
            "PGWEIR_HTTP_LISTEN_FILE: found \"/nowhere/address\"",
        ),
    ];
    for (arguments, variables, expected) in table {
        if expected.starts_with("what is") && PathBuf::from("/etc/pgweir/pgweir.ini").exists() {
            continue;
        }
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let (is_well, words) = said(&arguments, &variables);
        assert!(!is_well && words.contains(expected), "{variables:?}: {words}");
    }
}

#[test]
fn the_version_tells_what_the_program_was_built_with() {
    let mut text = String::new();
    let mut child = program(&["--version"], &[]).stdout(Stdio::piped()).spawn().expect("it was built");
    child.stdout.take().expect("it is a pipe").read_to_string(&mut text).expect("text");
    assert!(child.wait().expect("it ends").success());
    let third = text.lines().nth(2).unwrap_or_default();
    let with = |has: bool, name: &str| if has { name.to_owned() } else { format!("no {name}") };
    let expected = [with(cfg!(feature = "pam"), "pam"), with(cfg!(feature = "gssapi"), "gssapi")].join(", ");
    let linked = if cfg!(target_feature = "crt-static") { "static" } else { "dynamic" };
    assert_eq!(third, format!("features: {expected}; {linked}"), "{text}");
}
