//! `pgweir dev` runs a pooler and a PostgreSQL of its own, by the program beside pgweir, and leaves nothing behind, however it ends.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use outer::{binary, eventually};
use rustix::process::{Pid, Signal, kill_process};

/// A `pgweir dev` that only `top` with the same folder finds.
struct Dev {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    port: u16,
    found: PathBuf,
}

impl Dev {
    fn start() -> Dev {
        Dev::start_in(&std::env::temp_dir().join(format!("pgweir-dev-{}", demo::free_port())))
    }

    /// `found`: the folder by which `top` finds it. Variables that would turn a pgweir into something else are set.
    fn start_in(found: &Path) -> Dev {
        let port = demo::free_port();
        fs::create_dir_all(found).expect("a temporary folder");
        let mut command = Command::new(binary());
        command.args(["dev", "-q", "--pool-size", "3", "--listen", &format!("127.0.0.1:{port}")]);
        let others = [
            ("DATABASE_URL", "postgres://nobody@192.0.2.1/nothing"),
            ("PGHOST", "192.0.2.1"),
            ("PGWEIR_DAEMON", "1"),
            ("PGWEIR_HTTP_LISTEN", "192.0.2.1:1"),
            ("PGWEIR_LISTEN_PORT", "1"),
            ("LISTEN_FDS", "1"),
        ];
        command.envs(others).env("XDG_RUNTIME_DIR", found);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the program is there");
        let lines = BufReader::new(child.stdout.take().expect("asked for")).lines();
        Dev { child, lines, port, found: found.to_owned() }
    }

    /// The rest of the next line, which begins with a word.
    fn said(&mut self, word: &str) -> String {
        let line = self.lines.next().expect("it serves").expect("text");
        line.strip_prefix(word).unwrap_or_else(|| panic!("{line}")).trim().to_owned()
    }

    /// The URL in the next line, which begins with a word: a command for psql.
    fn url(&mut self, word: &str) -> String {
        let command = self.said(word);
        let quoted = command.split('\'').nth(1);
        quoted.unwrap_or_else(|| panic!("{command}")).to_owned()
    }

    /// The commands and addresses of the lines, once it serves.
    fn addresses(&mut self) -> Addresses {
        let [psql, console] = ["psql", "console"].map(|word| self.url(word));
        let [page, top] = ["page", "top"].map(|word| self.said(word));
        Addresses { psql, console, page, top, direct: self.url("direct") }
    }

    /// The output of `pgweir top` without a URL, and its errors and notes.
    fn top(&self) -> (String, String) {
        let mut command = Command::new(binary());
        command.args(["top", "--once"]).env("XDG_RUNTIME_DIR", &self.found).stdin(Stdio::null());
        let output = command.output().expect("the program is there");
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).into()
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
        let _ = fs::remove_dir_all(&self.found);
    }
}

struct Addresses {
    psql: String,
    console: String,
    page: String,
    top: String,
    direct: String,
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
    let Addresses { psql, console, page, top, direct } = dev.addresses();
    let here = format!("@127.0.0.1:{}/", dev.port);
    assert!(psql.contains(&here) && console.contains(&here) && !direct.contains(&here), "{psql} {console} {direct}");
    assert_eq!(ask(&psql, "SELECT 6 * 7"), "42");
    assert!(ask(&console, "SHOW VERSION").starts_with("PgBouncer "));
    let address = page.strip_prefix("http://").and_then(|rest| rest.split('/').next()).expect("a URL");
    assert!(http_status(address).starts_with("HTTP/1.1 303"), "to the page's login");
    assert!(top.ends_with("pgweir top"), "{top}");
    let (shown, _) = dev.top();
    assert!(shown.starts_with(&format!("pgweir top postgres@127.0.0.1:{}\n", dev.port)), "{shown}");
    let folder = ask(&direct, "SHOW data_directory");
    assert!(dev.end(Signal::INT).success());
    assert!(nobody_listens(dev.port));
    assert!(!Path::new(&folder).exists(), "{folder}");
    assert_eq!(fs::read_dir(&dev.found).expect("it is ours").count(), 0);
}

#[test]
fn top_finds_the_newest_and_names_the_others() {
    let mut first = Dev::start();
    first.addresses();
    let mut second = Dev::start_in(&first.found);
    second.addresses();
    let place = |dev: &Dev| format!("127.0.0.1:{}", dev.port);
    let (shown, said) = first.top();
    assert!(shown.starts_with(&format!("pgweir top postgres@{}\n", place(&second))), "{shown}");
    let expected = format!("dev at {} is shown, the newest; dev at {} may be chosen", place(&second), place(&first));
    assert!(said.contains(&expected), "{said}");
    // It cannot remove what it is found by.
    second.end(Signal::KILL);
    let (shown, said) = first.top();
    assert!(shown.starts_with(&format!("pgweir top postgres@{}\n", place(&first))), "{shown}");
    assert_eq!(said, "");
}

#[test]
fn pooler_and_postgresql_end_when_it_is_killed() {
    let mut dev = Dev::start();
    let folder = ask(&dev.addresses().direct, "SHOW data_directory");
    dev.end(Signal::KILL);
    eventually("the pooler has ended", || nobody_listens(dev.port));
    eventually("PostgreSQL's folder is gone", || !Path::new(&folder).exists());
}

/// The first line of the answer to a request for the page.
fn http_status(address: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the page is served");
    let request = format!("GET / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it is read");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    answer.lines().next().unwrap_or_default().to_owned()
}
