//! `pgweir dev` runs a pooler and a PostgreSQL of its own, by the program beside pgweir, and leaves nothing behind, however it ends.

use std::io::{BufRead, BufReader, Lines};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use outer::{binary, eventually};
use rustix::process::{Pid, Signal, kill_process};

struct Dev {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    port: u16,
}

impl Dev {
    fn start() -> Dev {
        let port = demo::free_port();
        let mut command = Command::new(binary());
        command.args(["dev", "-q", "--pool-size", "3", "--port", &port.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program is there");
        let lines = BufReader::new(child.stdout.take().expect("asked for")).lines();
        Dev { child, lines, port }
    }

    /// The URL in the next line, which begins with a word.
    fn url(&mut self, word: &str) -> String {
        let line = self.lines.next().expect("it serves").expect("text");
        line.strip_prefix(word).unwrap_or_else(|| panic!("{line}")).trim().to_owned()
    }

    fn end(&mut self, signal: Signal) -> ExitStatus {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process");
        kill_process(pid, signal).expect("it runs");
        self.child.wait().expect("it is ours")
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What psql prints.
fn ask(url: &str, sql: &str) -> String {
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache");
    let binaries = demo::find_or_install(&cache, &mut |line| println!("{line}")).expect("dev has found it, too");
    let psql = binaries.program("psql").expect("it comes with PostgreSQL");
    let output = Command::new(psql).args(["-X", url, "-Atc", sql]).output().expect("psql starts");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn nobody_listens(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_err()
}

#[test]
fn it_serves_until_ctrl_c_and_then_nothing_is_left() {
    let mut dev = Dev::start();
    let (pooled, direct) = (dev.url("pooled"), dev.url("direct"));
    assert!(pooled.contains(&format!(":{}/", dev.port)) && !direct.contains(&format!(":{}/", dev.port)));
    assert_eq!(ask(&pooled, "SELECT 6 * 7"), "42");
    let folder = ask(&direct, "SHOW data_directory");
    assert!(dev.end(Signal::INT).success());
    assert!(nobody_listens(dev.port));
    assert!(!Path::new(&folder).exists(), "{folder}");
}

#[test]
fn pooler_and_postgresql_end_when_it_is_killed() {
    let mut dev = Dev::start();
    let (_, direct) = (dev.url("pooled"), dev.url("direct"));
    let folder = ask(&direct, "SHOW data_directory");
    dev.end(Signal::KILL);
    eventually("the pooler has ended", || nobody_listens(dev.port));
    eventually("PostgreSQL's folder is gone", || !Path::new(&folder).exists());
}
