//! The program as a whole, with stand-ins for the poolers: scripts that become the bench's own relay.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Held while a program is written and while one is started: a child that is forked in between inherits the open file
/// for a moment, and nobody can start a program that somebody may still write.
static PROGRAMS: Mutex<()> = Mutex::new(());

/// A folder of a test, which everybody may read: contestants run as another user where the bench is root.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("pgweir-bench-whole-{name}-{}", std::process::id()));
        fs::create_dir(&path).expect("a fresh folder");
        let folder = Folder(path);
        folder.program("bench", &fs::read(env!("CARGO_BIN_EXE_bench")).expect("the program under test"));
        folder
    }

    fn program(&self, name: &str, content: &[u8]) -> PathBuf {
        let _alone = PROGRAMS.lock().expect("no test died in here");
        let path = self.0.join(name);
        fs::write(&path, content).expect("our folder");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("our file");
        path
    }

    /// A pooler that tells its version and only copies.
    fn stand_in(&self, version: &str) -> String {
        let bench = self.0.join("bench");
        let script = format!(
            "#!/bin/sh\nif [ \"$1\" = --version ]; then echo '{version}'; else exec {} relay \"$1\"; fi\n",
            bench.display()
        );
        self.program(&version.replace(' ', "-"), script.as_bytes()).display().to_string()
    }

    fn bench(&self, arguments: &[&str]) -> Child {
        let mut command = Command::new(self.0.join("bench"));
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let _alone = PROGRAMS.lock().expect("no test died in here");
        command.spawn().expect("the bench starts")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Where a bench of this process number does its work.
fn premises(child: &Child) -> String {
    std::env::temp_dir().join(format!("pgweir-bench-{}-0", child.id())).display().to_string()
}

/// Processes that have the folder in their command line.
fn at_work_in(folder: &str) -> Vec<String> {
    let line = |entry: fs::DirEntry| fs::read_to_string(entry.path().join("cmdline")).ok();
    let lines = fs::read_dir("/proc").expect("Linux").flatten().filter_map(line);
    lines.filter(|line| line.contains(folder)).collect()
}

#[test]
fn two_builds_are_compared_and_leave_nothing_behind() {
    let folder = Folder::new("versus");
    let pooler = folder.stand_in("PgBouncer 1.0 (pgweir 0.0.1)");
    let out = folder.0.join("results");
    let mut arguments = vec!["ab", &pooler, &pooler, "--pgbouncer", &pooler, "--scenario", "tcp-8,unix-8"];
    arguments.extend(["--rounds", "3", "--slice-ms", "20", "--out", out.to_str().expect("ASCII")]);
    let child = folder.bench(&arguments);
    let place = premises(&child);
    let output = child.wait_with_output().expect("it ends");
    let (table, words) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{table}\n{words}");
    assert_eq!(table.lines().filter(|line| line.starts_with("tcp-8 ") || line.starts_with("unix-8 ")).count(), 2);
    assert!(!table.contains("NaN") && !table.contains('–'), "every figure was measured:\n{table}");
    assert!(!Path::new(&place).exists() && at_work_in(&place).is_empty(), "{place}");
    let day = fs::read_dir(&out).expect("records").flatten().next().expect("one day").path();
    let records: Vec<_> = fs::read_dir(day).expect("records").flatten().map(|entry| entry.path()).collect();
    assert_eq!(records.len(), 2, "the record and its table: {records:?}");
    let record = records.iter().find(|path| path.extension().is_some_and(|end| end == "gz")).expect("a record");
    let text = bench::record::read(record).expect("readable").to_string();
    assert!(text.contains("\"pgweir 0.0.1\"") && !text.contains("PgBouncer 1.0"), "it is called by its own name");
}

#[test]
fn an_interrupted_run_ends_its_contestants_and_removes_its_folder() {
    let folder = Folder::new("interrupt");
    let pooler = folder.stand_in("PgBouncer 1.0");
    let out = folder.0.join("results");
    let contestant = format!("pgbouncer={pooler}");
    let mut arguments = vec!["--contestant", &contestant, "--scenario", "tcp-8,tcp-64"];
    arguments.extend(["--rounds", "1000000", "--out", out.to_str().expect("ASCII")]);
    let mut child = folder.bench(&arguments);
    let place = premises(&child);
    let mut words = BufReader::new(child.stderr.take().expect("piped")).lines();
    while !words.next().expect("it speaks").expect("text").starts_with("tcp-8") {}
    let limit = Instant::now() + Duration::from_secs(60);
    while at_work_in(&place).is_empty() {
        assert!(Instant::now() < limit && child.try_wait().expect("ours").is_none(), "no contestant was started");
    }
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("process numbers fit")).expect("not zero");
    kill_process(pid, Signal::INT).expect("ours");
    let status = child.wait().expect("it ends");
    assert!(!status.success());
    let rest: Vec<String> = words.map(|line| line.expect("text")).collect();
    assert_eq!(rest.last().map(String::as_str), Some("bench: interrupted"), "{rest:?}");
    assert!(!rest.iter().any(|line| line.starts_with("tcp-64")), "nothing more is begun: {rest:?}");
    assert!(!Path::new(&place).exists() && at_work_in(&place).is_empty(), "{place}");
}
