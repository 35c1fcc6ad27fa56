//! Other people's programs: psql, pgbench, Python with psycopg, PgBouncer.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::thread::JoinHandle;

use crate::stage::Stage;

/// The program `$PGBOUNCER`, or the one that crates/bench/fetch-pgbouncer has built. `None`: the test has been reported as skipped.
#[must_use]
pub fn pgbouncer() -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/pgbouncer/pgbouncer");
    let found = env::var_os("PGBOUNCER").map(PathBuf::from).or_else(|| built.exists().then_some(built));
    if found.is_none() {
        println!(
            "SKIPPED beside PgBouncer: there is none; crates/bench/fetch-pgbouncer builds one, PGBOUNCER names it"
        );
    }
    found
}

/// What a run of pgbench came to.
#[derive(Debug)]
pub struct Pgbench {
    pub transactions: u64,
    pub failed: u64,
    pub tps: f64,
    pub latency_ms: f64,
    /// Whatever it wrote to standard error that is no progress.
    pub complaints: String,
}

impl Pgbench {
    /// Creates pgbench's tables, straight in PostgreSQL.
    ///
    /// # Panics
    /// If pgbench is missing or fails.
    pub fn prepare(stage: &Stage, scale: u32) {
        let url = stage.cluster.url("postgres");
        let (_, wrote) = run(stage, "pgbench", &["-i", "-q", "-s", &scale.to_string(), &url]).expect("tables are made");
        assert!(wrote.contains("done"), "{wrote}");
    }

    /// Runs it through the pooler with `arguments`.
    ///
    /// # Errors
    /// What it wrote, if its exit status says that a client was aborted.
    ///
    /// # Panics
    /// If pgbench is missing.
    pub fn run(stage: &Stage, arguments: &[&str]) -> Result<Self, String> {
        Self::run_at(stage, &stage.url(), arguments)
    }

    /// The same at a `url` of the caller's choice, PostgreSQL's own for example.
    ///
    /// # Errors
    /// As [`Pgbench::run`].
    ///
    /// # Panics
    /// If pgbench is missing.
    pub fn run_at(stage: &Stage, url: &str, arguments: &[&str]) -> Result<Self, String> {
        let (wrote, complaints) = run(stage, "pgbench", &[&["-n"], arguments, &[url]].concat())?;
        let number = |name: &str| {
            let text = wrote.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            let digits: String = text.trim().chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
            digits.parse::<f64>().unwrap_or_default()
        };
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts, printed as integers")]
        Ok(Self {
            transactions: number("number of transactions actually processed:") as u64,
            failed: number("number of failed transactions:") as u64,
            tps: number("tps ="),
            latency_ms: number("latency average ="),
            complaints: complaints.lines().filter(|line| !is_chatter(line)).collect::<Vec<_>>().join("\n"),
        })
    }
}

/// Progress and greetings.
fn is_chatter(line: &str) -> bool {
    line.is_empty() || ["pgbench (", "starting vacuum", "progress:", "end."].iter().any(|start| line.starts_with(start))
}

/// What psql prints for `arguments` through the pooler: standard output and standard error.
///
/// # Errors
/// Both, if it fails.
///
/// # Panics
/// If psql is missing.
pub fn psql(stage: &Stage, arguments: &[&str]) -> Result<(String, String), String> {
    let url = stage.url();
    run(stage, "psql", &[&["-X", "-d", &url], arguments].concat())
}

/// As [`psql`], in a thread of its own, so that PostgreSQL can be restarted meanwhile.
///
/// # Panics
/// If psql is missing.
#[must_use]
pub fn psql_beside(stage: &Stage, arguments: &[&str]) -> JoinHandle<Result<(String, String), String>> {
    let program = stage.binaries.program("psql").unwrap_or_else(|| panic!("psql is needed for this test"));
    let mut command = Command::new(program);
    command.args(["-X", "-d", &stage.url()]).args(arguments);
    thread::spawn(move || finish(&mut command))
}

/// Runs a script of `crates/outer/python` with the pooler's URL and `arguments`; what it printed.
///
/// # Errors
/// What it printed, if it fails.
///
/// # Panics
/// If there is no Python with drivers: `tools/python` makes one, and `make test` calls that.
pub fn python(script: &str, arguments: &[&str]) -> Result<String, String> {
    let [python, script] = python_with(script);
    finish(Command::new(python).arg(script).args(arguments)).map(|(output, complaints)| output + &complaints)
}

/// The interpreter, and the path of a script of `crates/outer/python`.
pub(crate) fn python_with(script: &str) -> [PathBuf; 2] {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = env::var_os("PGWEIR_PYTHON").map_or_else(|| root.join("../../.cache/venv/bin/python"), PathBuf::from);
    assert!(python.exists(), "no Python with drivers at {}: run tools/python", python.display());
    [python, root.join("python").join(script)]
}

/// What one of PostgreSQL's programs prints for `arguments`: standard output and standard error.
///
/// # Errors
/// Both, if it fails.
///
/// # Panics
/// If it is missing.
pub fn run(stage: &Stage, name: &str, arguments: &[&str]) -> Result<(String, String), String> {
    let program = stage.binaries.program(name).unwrap_or_else(|| panic!("{name} is needed for this test"));
    finish(Command::new(program).args(arguments))
}

pub(crate) fn finish(command: &mut Command) -> Result<(String, String), String> {
    // A server's account may not be allowed where we are, but clients run as ourselves.
    // Python is to leave nothing in the tree.
    command.env("LC_ALL", "C").env("PYTHONDONTWRITEBYTECODE", "1");
    let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    if output.status.success() { Ok((out, err)) } else { Err(format!("{}\n{out}{err}", output.status)) }
}
