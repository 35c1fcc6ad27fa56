//! The ledger's clients as an application that shares a pool of connections: a program in `pools`, with a driver's own pool.
//!
//! ```text
//!   PROGRAM HOST PORT ROLE DATABASE CLIENTS       starts; a line on its standard input lets all clients finish, and ends it
//!                                                 (so does the input's end, at once)
//!   its standard output                           a line for each event: EVENT CLIENT [WORD]
//!
//!   sends ID                                      a request is sent; a lone statement may commit from now on
//!   commits                                       a block's COMMIT is sent
//!   committed │ failed CODE │ failed-first CODE │ ended CODE │ unknown CODE        the request's end, as in seen.rs
//!   refused CODE                                  the pool had no connection
//!   dropped CODE                                  a connection was ended by the other side
//!   evicted CODE                                  the pool threw an open one away
//!   idle-lost                                     an idle client's connection did not serve its last request
//! ```
//!
//! Promises: a request without an end is known as one. Times are those of the lines' arrival.

use std::env;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use measure::program;
use rustix::process::Signal;

use crate::ledger::{DATABASE, ROLE};
use crate::seen::{Commits, Kind, Request, Seen, Told};
use crate::session::SILENT;

const LOOKS_EVERY: Duration = Duration::from_millis(20);

/// An application's pool of connections.
#[derive(Clone, Debug)]
pub struct Pool {
    pub name: &'static str,
    /// As its program prints it.
    pub version: String,
    program: PathBuf,
}

impl Pool {
    /// By the name of a program that `tools/pools` makes.
    const ALL: [(&str, &str); 3] = [("hikari", "HikariCP"), ("psycopg", "psycopg_pool"), ("node", "node-postgres")];

    /// Looks for its program in the folder `$PGWEIR_POOLS`, else in `.cache/pools` of this repository.
    ///
    /// # Errors
    /// It is not there, or does not run.
    pub fn find(wanted: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|(name, _)| *name == wanted);
        let (_, name) = known.ok_or_else(|| format!("no clients of '{wanted}': own, hikari, psycopg, node"))?;
        let named = env::var_os("PGWEIR_POOLS").filter(|path| !path.is_empty()).map(PathBuf::from);
        let folder = named.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache/pools"));
        let program = folder.join(wanted);
        let version = program::version(&program).map_err(|error| format!("{error}: tools/pools {wanted} makes it"))?;
        // The program is started in another folder.
        let program = fs::canonicalize(&program).map_err(|error| format!("{}: {error}", program.display()))?;
        Ok(Self { name, version, program })
    }
}

/// A running application.
pub(crate) struct Application {
    process: Child,
    /// `None`: it was closed.
    input: Option<ChildStdin>,
    reader: Option<JoinHandle<Result<Vec<Seen>, String>>>,
    commits: Arc<Commits>,
    errors: PathBuf,
}

impl Application {
    /// Starts its clients, which come to `place`. What it writes to its standard error lands in `room`.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn start(
        pool: &Pool,
        place: SocketAddr,
        room: &Path,
        clients: usize,
        began: Instant,
    ) -> Result<Self, String> {
        let words = |error: std::io::Error| format!("cannot start the clients of {}: {error}", pool.name);
        let errors = room.join("application.log");
        let mut command = Command::new(&pool.program);
        command.args([place.ip().to_string(), place.port().to_string(), ROLE.to_owned(), DATABASE.to_owned()]);
        command.arg(clients.to_string()).current_dir(room).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(&errors).map_err(words)?);
        let mut process = command.spawn().map_err(words)?;
        let (input, output) = (process.stdin.take(), process.stdout.take().expect("it is piped"));
        let commits = Arc::new(Commits::none(clients));
        let diary = Diary::begin(clients, Arc::clone(&commits), began);
        let reader = thread::spawn(move || diary.read(output));
        Ok(Self { process, input, reader: Some(reader), commits, errors })
    }

    pub(crate) fn commits(&self) -> &Commits {
        &self.commits
    }

    /// Lets all clients finish what they do, but not for longer than `grace`; what each has seen.
    ///
    /// # Errors
    /// It printed something else than events.
    pub(crate) fn finish(mut self, grace: Duration) -> Result<Vec<Seen>, String> {
        if let Some(mut input) = self.input.take() {
            // Nobody reads it in a program that has ended, which the reader notices.
            let _ = input.write_all(b"close\n");
            let until = Instant::now() + grace;
            while Instant::now() < until && matches!(self.process.try_wait(), Ok(None)) {
                thread::sleep(LOOKS_EVERY);
            }
        }
        self.kill();
        self.reader.take().expect("it is taken here only").join().expect("the reader does not panic")
    }

    fn kill(&mut self) {
        // Somebody else may have the number of a process that has been waited for.
        if matches!(self.process.try_wait(), Ok(None)) {
            program::end(&mut self.process, Signal::KILL, Duration::ZERO);
        }
    }

    /// The end of what it wrote to its standard error.
    pub(crate) fn log(&self) -> String {
        let log = fs::read(&self.errors).unwrap_or_default();
        program::last_lines(&String::from_utf8_lossy(&log), 8)
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        self.kill();
        if let Some(reader) = self.reader.take() {
            drop(reader.join());
        }
    }
}

/// A request that is under way.
struct Open {
    id: u64,
    sent: f64,
    may_commit: bool,
}

/// The events so far.
struct Diary {
    seen: Vec<Seen>,
    open: Vec<Option<Open>>,
    commits: Arc<Commits>,
    began: Instant,
}

impl Diary {
    fn begin(clients: usize, commits: Arc<Commits>, began: Instant) -> Self {
        let (seen, open) = (0..clients).map(|_| (Seen::default(), None)).unzip();
        Self { seen, open, commits, began }
    }

    fn read(mut self, output: impl Read) -> Result<Vec<Seen>, String> {
        // A program that was killed may leave half a line.
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line);
            let now = self.began.elapsed().as_secs_f64();
            self.note(&line, now).ok_or_else(|| format!("an application's event that is none: '{line}'"))?;
        }
        let now = self.began.elapsed().as_secs_f64();
        for client in 0..self.open.len() {
            let Some(open) = &self.open[client] else { continue };
            let told = if open.may_commit { Told::Unknown { code: SILENT.to_owned() } } else { Told::Nothing };
            self.seen[client].hung = true;
            self.end(client, now, told);
        }
        Ok(self.seen)
    }

    /// `None`: it is no event.
    fn note(&mut self, line: &str, now: f64) -> Option<()> {
        let mut words = line.split_whitespace();
        let (event, client) = (words.next()?, words.next()?.parse::<usize>().ok()?);
        let code = words.next().unwrap_or_default().to_owned();
        let seen = self.seen.get_mut(client)?;
        match event {
            "sends" => {
                let may_commit = Kind::of(client) != Kind::Block;
                self.open[client] = Some(Open { id: code.parse().ok()?, sent: now, may_commit });
            }
            "commits" => self.open[client].as_mut()?.may_commit = true,
            "committed" => {
                self.commits.note(client, now);
                self.end(client, now, Told::Committed)?;
            }
            "failed" | "failed-first" => {
                self.end(client, now, Told::Failed { code, first: event == "failed-first" })?;
            }
            "ended" => self.end(client, now, Told::Ended { code })?,
            "unknown" => self.end(client, now, Told::Unknown { code })?,
            "refused" => *seen.login_errors.entry(code).or_default() += 1,
            "dropped" => seen.dropped += 1,
            "evicted" => *seen.evicted.entry(code).or_default() += 1,
            "idle-lost" => seen.idle_lost = true,
            _ => return None,
        }
        Some(())
    }

    /// `None`: nothing was under way.
    fn end(&mut self, client: usize, told_at: f64, told: Told) -> Option<()> {
        let Open { id, sent, .. } = self.open[client].take()?;
        self.seen[client].requests.push(Request { client, id, kind: Kind::of(client), sent, told_at, told });
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Seen>, String> {
        Diary::begin(3, Arc::new(Commits::none(3)), Instant::now()).read(text.as_bytes())
    }

    #[test]
    fn events_become_requests_with_their_ends() {
        let seen = read("sends 0 7\nsends 1 1000000\nunknown 1 08007\nevicted 1 08007\ncommits 0\ncommitted 0\n");
        let seen = seen.expect("these are events");
        let told = |client: usize| seen[client].requests.iter().map(|request| &request.told).collect::<Vec<_>>();
        assert_eq!(told(0), [&Told::Committed]);
        assert_eq!(told(1), [&Told::Unknown { code: "08007".to_owned() }]);
        assert_eq!((seen[1].evicted.get("08007"), seen[1].dropped, seen[2].hung), (Some(&1), 0, false));
    }

    #[test]
    fn a_request_without_an_end_is_unknown_once_it_may_commit() {
        let silent = Told::Unknown { code: SILENT.to_owned() };
        for (text, client, told) in
            [("sends 0 7", 0, &Told::Nothing), ("sends 0 7\ncommits 0", 0, &silent), ("sends 1 8\n", 1, &silent)]
        {
            let seen = read(text).expect("these are events");
            assert_eq!((&seen[client].requests[0].told, seen[client].hung), (told, true), "{text}");
        }
    }

    #[test]
    fn what_is_no_event_is_an_error() {
        for text in ["sends 3 7", "sends 0 x", "commits 0", "committed 0", "sleeps 0", "sends"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
