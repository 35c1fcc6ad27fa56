//! Processes of this machine, as `/proc` has them.
//!
//! Promises: a process that is gone is `None`, or an error in words. Titles of processes hold names that clients have chosen: they are bytes of theirs.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// What PostgreSQL calls its processes that serve no client, by the beginning of their titles.
const BACKGROUND: [&str; 15] = [
    "checkpointer",
    "background writer",
    "walwriter",
    "autovacuum launcher",
    "autovacuum worker",
    "logical replication launcher",
    "logical replication",
    "parallel worker",
    "walsender",
    "walreceiver",
    "startup",
    "archiver",
    "logger",
    "io worker",
    "slotsync worker",
];
/// A backend's own clock and the kernel's count from different moments. In seconds.
pub(crate) const CLOCKS_DIFFER: f64 = 3.0;
/// Ticks of `/proc/PID/stat` in a second: the same on all machines that Linux runs on today.
pub(crate) const TICKS: u64 = 100;

/// The process that started another.
#[must_use]
pub fn parent(pid: u32) -> Option<u32> {
    stat(pid)?.1
}

/// The name of the program, as the kernel keeps it: at most 15 bytes.
#[must_use]
pub fn name(pid: u32) -> Option<String> {
    Some(stat(pid)?.0)
}

/// How long a process has been running.
#[must_use]
pub fn age(pid: u32) -> Option<Duration> {
    let started = Duration::from_millis(stat(pid)?.2 * (1000 / TICKS));
    uptime().checked_sub(started)
}

/// The time since the machine's start, with the time that it slept: the start times of `/proc/PID/stat` count by it. systemd's `ProcSubset=pid` hides
/// `/proc/uptime`.
pub(crate) fn uptime() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

/// The processes that one has started, and that still run.
#[must_use]
pub fn children(pid: u32) -> Vec<u32> {
    let Ok(all) = fs::read_dir("/proc") else { return Vec::new() };
    let ids = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let mut found: Vec<u32> = ids.filter(|id| parent(*id) == Some(pid)).collect();
    found.sort_unstable();
    found
}

/// All backends of the PostgreSQL that a backend belongs to, those of its background processes too.
///
/// # Errors
/// In words, if it is gone, or is no process of PostgreSQL's.
pub fn backends(of: u32) -> Result<Vec<u32>, String> {
    let postmaster = parent(of).ok_or_else(|| format!("process {of} is gone"))?;
    let program = name(postmaster).unwrap_or_default();
    if !program.contains("postgres") {
        return Err(format!("process {of} is no backend of PostgreSQL: \"{}\" has started it", shown(&program)));
    }
    Ok(children(postmaster))
}

/// Whether a backend, by its id and its age in seconds as PostgreSQL has them, is a process of this machine: one with its id is as old, and a
/// postmaster has started it. A clock that was set since, or a machine that has slept, makes PostgreSQL's ages wrong by the same time for all
/// backends: `others` are such of the same PostgreSQL, of which one is enough whose age is wrong by as much and which the same postmaster has
/// started.
#[must_use]
pub fn is_backend(pid: u32, seconds: f64, others: &[(u32, f64)]) -> bool {
    let error = |pid: u32, seconds: f64| Some(seconds - age(pid)?.as_secs_f64());
    let is_sibling = |other: u32| other != pid && parent(other) == parent(pid);
    let others =
        others.iter().filter(|(other, _)| is_sibling(*other)).filter_map(|(other, seconds)| error(*other, *seconds));
    error(pid, seconds).is_some_and(|own| is_explained(own, others)) && backends(pid).is_ok()
}

/// Whether an age is right, or wrong by as much as another one is. In seconds.
fn is_explained(error: f64, mut others: impl Iterator<Item = f64>) -> bool {
    let is_alike = |other: f64| (error - other).abs() < CLOCKS_DIFFER;
    is_alike(0.0) || others.any(is_alike)
}

/// What a process of PostgreSQL does: one of a few words, never a client's.
pub(crate) fn role(pid: u32) -> &'static str {
    let title = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    role_of(&String::from_utf8_lossy(&title))
}

/// `postgres: checkpointer `, `postgres: cluster: app shop [local] SELECT`.
fn role_of(title: &str) -> &'static str {
    let title = title.trim_end_matches(['\0', ' ']);
    let Some((_, rest)) = title.split_once(": ") else { return "postmaster" };
    // cluster_name may stand before it.
    let after = rest.split_once(": ").map_or(rest, |(_, after)| after);
    let background = |title: &str| BACKGROUND.into_iter().find(|word| title.starts_with(word));
    background(rest).or_else(|| background(after)).unwrap_or("client backend")
}

/// The file of its program, without the mark of one that was replaced.
pub(crate) fn program(pid: u32) -> Option<String> {
    let path = fs::read_link(format!("/proc/{pid}/exe")).ok()?.to_string_lossy().into_owned();
    Some(path.strip_suffix(" (deleted)").map_or_else(|| path.clone(), str::to_owned))
}

/// Whether the process is stopped, as by SIGSTOP or a debugger.
pub(crate) fn is_stopped(pid: u32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    text.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't']))
}

/// Which file lies where in a process's memory.
#[derive(Debug, Default)]
pub(crate) struct Maps(Vec<(u64, u64, String)>);

impl Maps {
    pub(crate) fn of(pid: u32) -> Maps {
        Maps::read(&fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default())
    }

    /// Lines such as `7f9b-7f9c r-xp 00000000 fd:01 123    /lib/libc.so.6`.
    fn read(text: &str) -> Maps {
        let line = |line: &str| {
            let mut words = line.splitn(6, ' ');
            let (begin, end) = words.next()?.split_once('-')?;
            let path = words.nth(4)?.trim();
            let path = path.strip_suffix(" (deleted)").unwrap_or(path);
            let hex = |text: &str| u64::from_str_radix(text, 16).ok();
            (!path.is_empty()).then(|| Some((hex(begin)?, hex(end)?, path.to_owned())))?
        };
        Maps(text.lines().filter_map(line).collect())
    }

    /// The file that an address lies in.
    pub(crate) fn file(&self, address: u64) -> Option<&str> {
        let found = self.0.iter().find(|(begin, end, _)| (*begin..*end).contains(&address));
        found.map(|(_, _, path)| path.as_str())
    }
}

/// Name, parent, and start in ticks since the machine's.
fn stat(pid: u32) -> Option<(String, Option<u32>, u64)> {
    let bytes = fs::read(format!("/proc/{pid}/stat")).ok()?;
    read_stat(&String::from_utf8_lossy(&bytes))
}

/// `12 (name) S 1 …`: the name may hold brackets and spaces.
fn read_stat(text: &str) -> Option<(String, Option<u32>, u64)> {
    let (head, rest) = text.rsplit_once(") ")?;
    let (_, name) = head.split_once('(')?;
    let words: Vec<&str> = rest.split(' ').collect();
    let parent = words.get(1)?.parse().ok();
    Some((name.to_owned(), parent, words.get(19)?.parse().ok()?))
}

/// A name on a terminal.
fn shown(name: &str) -> String {
    name.replace(char::is_control, "?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_titles() {
        let table = [
            ("postgres: checkpointer \0\0", "checkpointer"),
            ("postgres: main: walwriter ", "walwriter"),
            ("postgres: postgres shop [local] SELECT", "client backend"),
            ("postgres: 17/main: app shop 10.0.0.1(54321) idle", "client backend"),
            ("postgres: parallel worker for PID 7 ", "parallel worker"),
            ("postgres: autovacuum worker shop", "autovacuum worker"),
            ("/usr/lib/postgresql/15/bin/postgres\0-D\0/data\0", "postmaster"),
            ("", "postmaster"),
        ];
        for (title, role) in table {
            assert_eq!(role_of(title), role, "{title}");
        }
    }

    #[test]
    fn a_clock_that_was_set_makes_all_ages_wrong_by_the_same_time() {
        let table: [(f64, &[f64], bool); 6] = [
            (0.4, &[], true),
            (-2.0, &[600.0], true),
            (3600.0, &[], false),
            (3600.0, &[0.1, 1800.0], false),
            (3600.0, &[0.1, 3601.0], true),
            (-7200.0, &[-7200.5], true),
        ];
        for (error, others, expected) in table {
            assert_eq!(is_explained(error, others.iter().copied()), expected, "{error} beside {others:?}");
        }
    }

    #[test]
    fn a_processs_name_may_hold_anything() {
        let text = "7 (a) S 9 (b) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0";
        assert_eq!(read_stat(text), Some(("a) S 9 (b".to_owned(), Some(1), 4711)));
        for text in ["", "7 (a", "7 (a) S 1"] {
            assert_eq!(read_stat(text), None, "{text}");
        }
    }

    #[test]
    fn this_process_is_its_parents_child() {
        let own = std::process::id();
        let parent = parent(own).expect("every process has one");
        assert!(children(parent).contains(&own));
        assert!(age(own).expect("it runs") < Duration::from_secs(3600));
        assert!(name(u32::MAX).is_none() && backends(u32::MAX).is_err() && age(u32::MAX).is_none());
        let error = backends(own).expect_err("no backend");
        assert!(error.starts_with(&format!("process {own} is no backend of PostgreSQL")), "{error}");
        assert!(!is_stopped(own));
    }

    #[test]
    fn an_address_lies_in_a_file() {
        let text = "1000-2000 r-xp 0 fd:01 12                  /usr/my lib/x.so\n2000-3000 rw-p 0 00:00 0 \n\
                    3000-4000 r-xp 0 fd:01 13   /bin/p (deleted)\nnonsense\n";
        let maps = Maps::read(text);
        assert_eq!(maps.file(0x1000), Some("/usr/my lib/x.so"));
        assert_eq!((maps.file(0x2000), maps.file(0x3fff), maps.file(0x4000)), (None, Some("/bin/p"), None));
    }
}
