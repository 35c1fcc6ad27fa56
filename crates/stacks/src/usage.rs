//! What backends take of their machine, from files of `/proc` that anybody may read: `stat`, `status` and `cmdline`.
//!
//! Promises: only a process that is the backend is looked at. Its title has the backend's user and database, it is as old as PostgreSQL says, and the
//! same process of PostgreSQL's has started it and the others. In another container the same process ids are other processes.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use crate::processes::{CLOCKS_DIFFER, TICKS, name, uptime};

/// A backend, as PostgreSQL has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    pub pid: u32,
    /// Since it began.
    pub age: Duration,
    /// User and database, if it has them.
    pub names: Option<(String, String)>,
}

/// What a process has taken.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// When it began, in ticks since the machine's: tells two processes of one id apart.
    pub began: u64,
    /// Bytes of its own, in memory: `RssAnon`. Shared memory and mapped files are not in it.
    pub memory: u64,
    /// Of processors.
    pub cpu: Duration,
}

/// Those of the backends of one PostgreSQL that are processes of this machine.
#[must_use]
pub fn used(claimed: &[Claimed]) -> BTreeMap<u32, Used> {
    let uptime = uptime();
    let seen: Vec<Seen<'_>> = claimed.iter().filter_map(|claimed| Seen::of(claimed, uptime)).collect();
    // Whether it is PostgreSQL's.
    let mut parents: BTreeMap<u32, bool> = BTreeMap::new();
    for one in &seen {
        parents.entry(one.parent).or_insert_with(|| name(one.parent).is_some_and(|name| name.contains("postgres")));
    }
    let is_its = |one: &&Seen<'_>| {
        // A clock that was set makes all ages of one PostgreSQL wrong by the same time.
        let siblings = seen.iter().filter(|other| other.parent == one.parent && other.claimed.pid != one.claimed.pid);
        let is_alike = |other: f64| (one.error - other).abs() < CLOCKS_DIFFER;
        parents[&one.parent] && (is_alike(0.0) || siblings.map(|other| other.error).any(is_alike))
    };
    let with_memory = |one: &Seen<'_>| {
        let pid = one.claimed.pid;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        Some((pid, Used { memory: memory(&status)?, ..one.used }))
    };
    seen.iter().filter(is_its).filter_map(with_memory).collect()
}

/// A process with the id of a backend, and its names.
struct Seen<'c> {
    claimed: &'c Claimed,
    parent: u32,
    /// Seconds by which PostgreSQL has it older.
    error: f64,
    used: Used,
}

impl Seen<'_> {
    fn of(claimed: &Claimed, uptime: Duration) -> Option<Seen<'_>> {
        let stat = fs::read(format!("/proc/{}/stat", claimed.pid)).ok()?;
        let (parent, used) = stat_of(&String::from_utf8_lossy(&stat))?;
        let title = fs::read(format!("/proc/{}/cmdline", claimed.pid)).ok()?;
        if !is_title(&String::from_utf8_lossy(&title), claimed.names.as_ref()) {
            return None;
        }
        let age = uptime.as_secs_f64() - used.began as f64 / TICKS as f64;
        Some(Seen { claimed, parent, error: claimed.age.as_secs_f64() - age, used })
    }
}

/// `postgres: app shop [local] SELECT`, `postgres: cluster: checkpointer`.
fn is_title(title: &str, names: Option<&(String, String)>) -> bool {
    let Some((_, rest)) = title.split_once(": ") else { return false };
    names.is_none_or(|(user, database)| rest.contains(&format!("{user} {database} ")))
}

/// `12 (name) S 1 …`: the name may hold brackets and spaces.
fn stat_of(text: &str) -> Option<(u32, Used)> {
    let (_, rest) = text.rsplit_once(") ")?;
    let words: Vec<&str> = rest.split(' ').collect();
    let number = |at: usize| words.get(at)?.parse::<u64>().ok();
    let cpu = Duration::from_millis((number(11)? + number(12)?) * (1000 / TICKS));
    Some((u32::try_from(number(1)?).ok()?, Used { began: number(19)?, memory: 0, cpu }))
}

/// `RssAnon:      1234 kB`.
fn memory(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_process_are_read() {
        let fields = "S 100 7 7 0 -1 4194560 1 2 3 4 250 50 0 0 20 0 1 0 123456 228540416 2048";
        let used = Used { began: 123_456, memory: 0, cpu: Duration::from_secs(3) };
        assert_eq!(stat_of(&format!("42 (postgres) {fields}")), Some((100, used)));
        assert_eq!(stat_of(&format!("42 (a (b) c) {fields}")), Some((100, used)));
        assert_eq!(stat_of("42 (postgres) S 100"), None);
        assert_eq!(memory("VmRSS:\t  90000 kB\nRssAnon:\t    1234 kB\nRssFile: 5 kB\n"), Some(1234 * 1024));
        assert_eq!(memory("VmRSS:\t 90000 kB\n"), None, "a kernel thread");
    }

    #[test]
    fn a_table_of_titles() {
        let names = |user: &str, database: &str| Some((user.to_owned(), database.to_owned()));
        let table = [
            ("postgres: app shop 10.0.0.1(4711) SELECT", names("app", "shop"), true),
            ("postgres: main: app shop [local] idle", names("app", "shop"), true),
            ("postgres: app shop [local] idle", names("app", "shops"), false),
            ("postgres: app other [local] idle", names("app", "shop"), false),
            ("postgres: checkpointer ", None, true),
            ("/usr/bin/python3 app shop ", names("app", "shop"), false),
            ("", None, false),
        ];
        for (title, names, is_its) in table {
            assert_eq!(is_title(title, names.as_ref()), is_its, "{title:?} {names:?}");
        }
    }

    /// This process is no backend, whatever its age.
    #[test]
    fn another_process_with_its_id_is_not_looked_at() {
        let pid = std::process::id();
        let age = crate::age(pid).expect("it runs");
        assert_eq!(used(&[Claimed { pid, age, names: None }]), BTreeMap::new());
    }
}
