//! The program under test as a process: from an ini file, as PostgreSQL's unprivileged account if we are root.

use std::env;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use demo::{Account, Guard};
use measure::{process, program};
use rustix::process::{Pid, Signal, kill_process};

use crate::patience::PATIENCE;
use crate::slots::Slot;

/// How long a pooler may take to listen, to take over, to end. It takes milliseconds, on a busy machine seconds.
const STARTS_WITHIN: Duration = PATIENCE;

/// A running pooler. Dropping it kills it and removes its directory; its log is printed if a test is failing.
pub struct Pooler {
    dir: PathBuf,
    pub port: u16,
    process: Child,
    /// Whether a test fails whose pooler has ended by deliberate unrest.
    must_live: bool,
    fds: Option<u32>,
    // Kills it if this test is killed.
    guard: Guard,
    // Its test runs at least as long as it does.
    _slot: Slot,
}

impl Pooler {
    /// Starts from `ini`, in which `{port}` and `{dir}` stand for what this call chooses, and waits until it listens.
    /// `fds`: the most descriptors it may have. Words in `$PGWEIR_CHAOS` turn on the settings of deliberate unrest that the
    /// file leaves open: `check,rotate` is `chaos_check = 1` and `chaos_rotate = 1`. Wrong passwords are answered at once unless the
    /// file says something else: tests give hundreds of them.
    ///
    /// # Panics
    /// If it does not come up within a minute.
    #[must_use]
    pub fn start(ini: &str, users: &str, fds: Option<u32>) -> Self {
        Self::start_with_files(ini, users, fds, &[])
    }

    /// The same without users, and with more files in `{dir}`.
    ///
    /// # Panics
    /// If it does not come up within a minute.
    #[must_use]
    pub fn start_with(ini: &str, files: &[(&str, String)]) -> Self {
        Self::start_with_files(ini, "", None, files)
    }

    fn start_with_files(ini: &str, users: &str, fds: Option<u32>, files: &[(&str, String)]) -> Self {
        let ini = patient(&with_unrest(ini, &env::var("PGWEIR_CHAOS").unwrap_or_default()));
        let mut pooler = Self::start_in(&binary(), &ini, users, fds, &[("PGWEIR_CHAOS", "1")], files);
        pooler.must_live = true;
        pooler
    }

    /// The same for a given program, with more variables in its environment.
    ///
    /// # Panics
    /// If it does not come up within a minute.
    #[must_use]
    pub fn start_program(
        binary: &Path,
        ini: &str,
        users: &str,
        fds: Option<u32>,
        environment: &[(&str, &str)],
    ) -> Self {
        Self::start_in(binary, ini, users, fds, environment, &[])
    }

    /// One of several processes that listen on the same port, and each on a Unix socket in its [`dir_of_one`](Pooler::dir_of_one):
    /// `so_reuseport` and `unix_socket_dir = {dir}` are up to the file.
    ///
    /// # Panics
    /// If it does not come up within a minute.
    #[must_use]
    pub fn start_one_of(binary: &Path, ini: &str, port: u16, number: usize) -> Self {
        let dir = Self::dir_of_one(port, number);
        let mut pooler = Self::start_at(binary, ini, "", None, &[], &[], (port, dir));
        // The port may have been another's.
        let socket = pooler.dir.join(format!(".s.PGSQL.{port}"));
        let begun = Instant::now();
        while !socket.exists() {
            assert!(begun.elapsed() < STARTS_WITHIN && pooler.is_alive(), "it does not listen:\n{}", pooler.log());
            std::thread::sleep(Duration::from_millis(5));
        }
        pooler
    }

    /// The directory of one of several.
    #[must_use]
    pub fn dir_of_one(port: u16, number: usize) -> PathBuf {
        PathBuf::from(format!("/tmp/outer-{}-{port}-{number}", std::process::id()))
    }

    fn start_in(
        binary: &Path,
        ini: &str,
        users: &str,
        fds: Option<u32>,
        environment: &[(&str, &str)],
        files: &[(&str, String)],
    ) -> Self {
        let port = demo::free_port();
        let dir = PathBuf::from(format!("/tmp/outer-{}-{port}", std::process::id()));
        Self::start_at(binary, ini, users, fds, environment, files, (port, dir))
    }

    fn start_at(
        binary: &Path,
        ini: &str,
        users: &str,
        fds: Option<u32>,
        environment: &[(&str, &str)],
        files: &[(&str, String)],
        (port, dir): (u16, PathBuf),
    ) -> Self {
        let slot = Slot::any();
        let account = demo::unprivileged();
        fs::create_dir(&dir).expect("the port makes the name fresh");
        let ini = ini.replace("{port}", &port.to_string()).replace("{dir}", &dir.display().to_string());
        fs::write(dir.join("pooler.ini"), ini).expect("a fresh directory is writable");
        for (name, text) in
            [("users.txt", users)].into_iter().chain(files.iter().map(|(name, text)| (*name, text.as_str())))
        {
            fs::write(dir.join(name), text).expect("a fresh directory is writable");
        }
        // The account may not reach our build directory (below /root, for example).
        program::place(binary, &dir.join("pooler")).expect("the binary is readable");
        if let Some(Account { uid, gid, .. }) = account {
            for name in ["", "pooler.ini", "users.txt"].into_iter().chain(files.iter().map(|(name, _)| *name)) {
                std::os::unix::fs::chown(dir.join(name), Some(uid), Some(gid)).expect("root may");
            }
        }
        let mut guard = Guard::start(&dir, "KILL", account.as_ref()).expect("/bin/sh is there");
        let process = spawn(&dir, account.as_ref(), fds, "", environment);
        guard.watch(process.id()).expect("it has just been started");
        let mut pooler = Self { dir, port, process, must_live: false, fds, guard, _slot: slot };
        pooler.wait_until_it_listens();
        pooler
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Whether it is still there; a pooler must survive everything its clients do.
    pub fn is_alive(&mut self) -> bool {
        self.process.try_wait().is_ok_and(|ended| ended.is_none())
    }

    /// Sends it a signal until it has ended: Rust takes the first SIGSEGV for a question about its stack.
    ///
    /// # Panics
    /// If it does not end within a minute.
    pub fn end_by(&mut self, signal: Signal) -> ExitStatus {
        let pid = Pid::from_raw(i32::try_from(self.pid()).expect("a pid")).expect("not 0");
        let begun = Instant::now();
        loop {
            // It may have ended meanwhile, and is not waited for yet.
            let _ = kill_process(pid, signal);
            if let Some(status) = self.process.try_wait().expect("it is our child") {
                return status;
            }
            assert!(begun.elapsed() < STARTS_WITHIN, "{signal:?} does not end it");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Starts another process that is to take this one's place (`-R`), which has not done so yet.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start_successor(&mut self) -> Child {
        self.start_successor_with(self.fds)
    }

    /// The same, with another limit of descriptors than this one has.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start_successor_with(&mut self, fds: Option<u32>) -> Child {
        let process = spawn(&self.dir, demo::unprivileged().as_ref(), fds, "-R", &[("PGWEIR_CHAOS", "1")]);
        self.guard.watch(process.id()).expect("it has just been started");
        process
    }

    /// Another process takes this one's place. Returns the one before, which ends once nobody is left there.
    ///
    /// # Panics
    /// If it has not taken over within a minute.
    pub fn upgrade(&mut self) -> Child {
        let mut successor = self.start_successor();
        let up = format!("[{}] LOG process up", successor.id());
        let begun = Instant::now();
        while !self.log().contains(&up) {
            let has_ended = successor.try_wait().expect("it is our child");
            assert!(has_ended.is_none(), "it has ended:\n{}", program::last_lines(&self.log(), 10));
            assert!(begun.elapsed() < STARTS_WITHIN, "it does not take over within a minute");
            std::thread::yield_now();
        }
        std::mem::replace(&mut self.process, successor)
    }

    /// The process before is the one under test again. Returns the one that had taken its place.
    pub fn take_back(&mut self, before: Child) -> Child {
        std::mem::replace(&mut self.process, before)
    }

    /// What it has written to its log so far.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read(self.dir.join("log")).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    /// Resident memory in kB, and the most it ever was.
    ///
    /// # Panics
    /// If it is gone.
    #[must_use]
    pub fn resident_kb(&self) -> (u64, u64) {
        process::resident_kb(self.pid()).expect("it runs")
    }

    /// Open descriptors.
    ///
    /// # Panics
    /// If it is gone.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        process::descriptors(self.pid()).expect("it runs, and we are root or its user")
    }

    /// Processor time used, user and system together.
    ///
    /// # Panics
    /// If it is gone.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        process::cpu(self.pid()).expect("it runs")
    }

    fn wait_until_it_listens(&mut self) {
        let listens = program::awaits_clients(&mut self.process, self.port, STARTS_WITHIN);
        assert!(listens, "the pooler does not listen within a minute, or has ended:\n{}", self.log());
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            // In a long log the end does not show it.
            for panic in log.lines().filter(|line| line.contains(" panic in ") || line.contains("panicked at")).take(3)
            {
                eprintln!("the pooler's log has: {panic}");
            }
            eprintln!("the pooler's log ends with:\n{}", program::last_lines(&log, 30));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        // A panic ends one connection and is logged; no input may cause one.
        let is_found =
            |line: &&str| line.contains("] ERROR panic in ") || line.contains("] FATAL ") && line.contains(" chaos_");
        let found = self.log().lines().find(is_found).map(str::to_owned);
        let _ = fs::remove_dir_all(&self.dir);
        // Otherwise a test that does not need the pooler any more would not notice why it ended.
        if let Some(found) = found.filter(|_| self.must_live && !std::thread::panicking()) {
            panic!("the pooler has a defect: {found}");
        }
    }
}

/// The ini file with a line for each word, `check` for `chaos_check`, where it has none for that setting. The word `1` stands for
/// none. Sessions that are rotated need more servers than one.
fn with_unrest(ini: &str, words: &str) -> String {
    let has = |name: &str| ini.lines().any(|line| line.split('=').next().is_some_and(|key| key.trim() == name));
    let mut lines = String::new();
    for word in words.split(',').filter(|word| !word.is_empty() && *word != "1") {
        let name = format!("chaos_{word}");
        if !has(&name) {
            writeln!(lines, "{name} = 1").expect("writing to a String cannot fail");
        }
        if word == "rotate" && !has("min_pool_size") {
            let size = ini.lines().find_map(|line| line.strip_prefix("default_pool_size = ")?.parse().ok());
            writeln!(lines, "min_pool_size = {}", size.unwrap_or(ROTATED).min(ROTATED))
                .expect("writing to a String cannot fail");
        }
    }
    ini.replacen("[pgbouncer]\n", &format!("[pgbouncer]\n{lines}"), 1)
}

/// The ini file without a delay for wrong passwords, if it says nothing of one.
fn patient(ini: &str) -> String {
    if ini.contains("auth_failure_delay") {
        return ini.to_owned();
    }
    ini.replacen("[pgbouncer]\n", "[pgbouncer]\nauth_failure_delay = 0\n", 1)
}

/// How many servers a pool has from the beginning whose sessions are rotated, if it may have so many.
const ROTATED: u32 = 4;

fn spawn(dir: &Path, account: Option<&Account>, fds: Option<u32>, flags: &str, environment: &[(&str, &str)]) -> Child {
    let log = File::options().create(true).append(true).open(dir.join("log")).expect("a fresh directory is writable");
    let limit = fds.map_or_else(String::new, |fds| format!("ulimit -n {fds}; "));
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(format!("{limit}exec {0}/pooler {flags} {0}/pooler.ini", dir.display()));
    command.current_dir(dir).stdin(Stdio::null()).stdout(log.try_clone().expect("a descriptor is left")).stderr(log);
    command.process_group(0).envs(environment.iter().copied());
    if let Some(account) = account {
        account.apply(&mut command);
    }
    command.spawn().expect("/bin/sh is there")
}

/// The program under test: `$PGWEIR_BIN`, else the newest build.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn binary() -> PathBuf {
    if let Some(path) = env::var_os("PGWEIR_BIN") {
        return path.into();
    }
    let target = env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"), PathBuf::from);
    let builds = ["release", "debug"].map(|profile| target.join(profile).join("pgweir"));
    let age = |path: &PathBuf| fs::metadata(path).and_then(|about| about.modified()).ok();
    let newest = builds.into_iter().filter(|path| age(path).is_some()).max_by_key(age);
    newest.expect("there is no pgweir to test: cargo build -p pgweir, or set PGWEIR_BIN")
}

/// The program with the methods of login that need libraries of the system: `$PGWEIR_FULL_BIN`, which `tools/full-binary` builds.
/// `None`, and a line that begins with `SKIPPED`: there is none.
#[must_use]
pub fn full_binary(what: &str) -> Option<PathBuf> {
    let binary = env::var_os("PGWEIR_FULL_BIN").filter(|name| !name.is_empty()).map(PathBuf::from);
    if binary.is_none() {
        println!("SKIPPED {what}: there is no program with it; tools/full-binary builds one, PGWEIR_FULL_BIN names it");
    }
    binary
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_turn_on_what_the_file_leaves_open() {
        let ini = "[databases]\na =\n[pgbouncer]\ndefault_pool_size = 3\nchaos_check = 0\n";
        assert_eq!(with_unrest(ini, ""), ini);
        assert_eq!(with_unrest(ini, "1"), ini);
        let expected = "[databases]\na =\n[pgbouncer]\nchaos_poison = 1\ndefault_pool_size = 3\nchaos_check = 0\n";
        assert_eq!(with_unrest(ini, "check,poison"), expected);
        let expected = expected.replace("poison = 1", "rotate = 1\nmin_pool_size = 3");
        assert_eq!(with_unrest(ini, "rotate"), expected);
    }
}
