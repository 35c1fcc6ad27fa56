//! A directory with a configuration, the built program that serves it, and a client of its console.

#![allow(dead_code, reason = "no test uses all of it")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use wire::{HEADER_LEN, Header, backend, frontend};

pub(crate) const PGWEIR: &str = env!("CARGO_BIN_EXE_pgweir");

/// How long anything may take before a test fails: many times what it needs on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A directory with a configuration that listens on a Unix socket in it; gone at the end of the test.
pub(crate) struct Place(pub(crate) PathBuf);

impl Place {
    pub(crate) fn new() -> Place {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("pgweir-test-{}-{number}", std::process::id()));
        fs::create_dir(&dir).expect("nobody else has this name");
        // The tests may run as root, and the program then as nobody.
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).expect("it is ours");
        let place = Place(dir);
        fs::write(place.path("users.txt"), "\"adm\" \"\"\n\"sta\" \"\"\n").expect("it is ours");
        place.write_ini("pool_mode = transaction");
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn write_ini(&self, more: &str) {
        let dir = self.0.display();
        let text = format!(
            "[databases]\napp = host=127.0.0.1 port=1\n[pgbouncer]\nlisten_addr =\nlisten_port = 6432\n\
             unix_socket_dir = {dir}\nauth_type = trust\nauth_file = {dir}/users.txt\nadmin_users = adm\n\
             stats_users = sta\nlogfile = {dir}/log\npidfile = {dir}/pid\nworkers = 1\n{more}\n"
        );
        fs::write(self.path("pgweir.ini"), text).expect("it is ours");
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(PGWEIR);
        command.arg(self.path("pgweir.ini"));
        if rustix::process::geteuid().is_root() {
            command.args(["-u", "nobody"]);
        }
        command
    }

    /// Starts the program and waits until it listens.
    pub(crate) fn start(&self) -> Running {
        let mut command = self.command();
        Place::spawn(&mut command, || self.log())
    }

    /// Starts a command and waits until it listens; with what there is to say if it does not.
    pub(crate) fn spawn(command: &mut Command, log: impl Fn() -> String) -> Running {
        let child = command.arg("-q").env("PGWEIR_ANNOUNCE", "1").stdout(Stdio::piped()).spawn().expect("it was built");
        let mut running = Running(child);
        let mut line = String::new();
        let stdout = running.0.stdout.take().expect("it is a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a pipe can be read");
        assert_eq!(line, "listening\n", "the log says:\n{}", log());
        running
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    pub(crate) fn pid(&self) -> Pid {
        let text = fs::read_to_string(self.path("pid")).expect("a pidfile");
        Pid::from_raw(text.trim().parse().expect("a number")).expect("a process id")
    }

    pub(crate) fn console(&self, user: &str) -> Console {
        Console::open(&self.path(".s.PGSQL.6432"), user)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.0.id().try_into().expect("Linux numbers processes so")).expect("not zero");
        kill_process(pid, signal).expect("it runs");
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        wait_until("the program to end", || self.0.try_wait().expect("it is our child"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn wait_until<T>(what: &str, mut try_it: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = try_it() {
            return found;
        }
        assert!(Instant::now() < until, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Asks for a database, and does not wait for the answer.
pub(crate) fn login(socket: &Path, user: &str, database: &str) -> Console {
    let mut stream = UnixStream::connect(socket).expect("the program listens");
    let pairs = [("user", user), ("database", database)].map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let mut startup = Vec::new();
    frontend::encode_startup(&mut startup, pairs);
    stream.write_all(&startup).expect("it reads");
    Console(stream)
}

/// A client on the admin database.
pub(crate) struct Console(pub(crate) UnixStream);

impl Console {
    pub(crate) fn open(socket: &Path, user: &str) -> Console {
        Console::of_application(socket, user, "")
    }

    pub(crate) fn of_application(socket: &Path, user: &str, application: &str) -> Console {
        let stream = UnixStream::connect(socket).expect("the program listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("not zero");
        let mut console = Console(stream);
        let mut body = 196_608_i32.to_be_bytes().to_vec();
        body.extend_from_slice(
            format!("user\0{user}\0database\0pgbouncer\0application_name\0{application}\0\0").as_bytes(),
        );
        let len = i32::try_from(body.len() + 4).expect("short");
        console.0.write_all(&[&len.to_be_bytes(), body.as_slice()].concat()).expect("it reads");
        console.answer();
        console
    }

    /// What a command leads to: rows with `|` between values, the error's code and text, the tag.
    pub(crate) fn ask(&mut self, text: &str) -> Vec<String> {
        let mut bytes = Vec::new();
        frontend::Query { text: text.as_bytes() }.encode(&mut bytes);
        self.0.write_all(&bytes).expect("it reads");
        self.answer()
    }

    pub(crate) fn answer(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let (tag, body) = self.message().expect("the answer ends with ReadyForQuery");
            match tag {
                b'Z' => return lines,
                b'C' => lines.push(String::from_utf8_lossy(&body[..body.len() - 1]).into_owned()),
                b'D' => {
                    let row = backend::DataRow::decode(&body).expect("sound");
                    let values = row.values().map(|value| String::from_utf8_lossy(value.unwrap_or(b"NULL")));
                    lines.push(values.collect::<Vec<_>>().join("|"));
                }
                b'E' => {
                    let fields = backend::Fields::decode(&body);
                    let text = |field: Option<&[u8]>| String::from_utf8_lossy(field.expect("there")).into_owned();
                    lines.push(format!("{} {}", text(fields.code()), text(fields.message())));
                }
                _ => {}
            }
        }
    }

    /// `None` at the end of the stream.
    pub(crate) fn message(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; HEADER_LEN];
        self.0.read_exact(&mut head).ok()?;
        let header = Header::parse(&head).expect("sound").expect("whole");
        let mut body = vec![0; header.body_len()];
        self.0.read_exact(&mut body).ok()?;
        Some((header.tag, body))
    }
}
