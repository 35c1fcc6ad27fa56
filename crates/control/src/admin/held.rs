//! Databases whose clients are held, because no host of theirs may be written to: no host accepts writes, or two do. One sentence for each list of
//! hosts, with which `SHOW WHY` begins, and so `pgweir top` and the live page.
//!
//! Deliberately does not do: decide. The workers follow the coordinator's decision (`machine::primaries`), and this is read from their snapshots.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use connections::databases::{Address, Database};
use machine::primaries::Writes;
use machine::{HostRole, Primary, Upstream};
use settings::SplitBrain;
use units::Time;

use super::show_hosts::{latest, why};
use crate::show_input::ShowInput;

/// Names of databases and of hosts in a sentence.
const NAMED_MAX: usize = 3;

/// Why no host may be written to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    NoPrimary,
    TwoPrimaries,
}

impl Lack {
    /// For scripts.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Lack::NoPrimary => "no primary",
            Lack::TwoPrimaries => "two primaries",
        }
    }
}

/// The databases with one list of hosts.
pub(super) struct Held {
    pub(super) databases: Vec<String>,
    /// Clients that wait, and the longest wait.
    pub(super) waiting: u32,
    pub(super) longest: Duration,
    pub(super) sentence: String,
    pub(super) lack: Lack,
    hosts: Vec<Address>,
}

impl Held {
    /// Whether the clients of this database are among those that wait.
    pub(super) fn holds(&self, database: &Database) -> bool {
        database.target_session_attrs.wants_primary() && database.hosts == self.hosts
    }

    pub(super) fn names(&self) -> String {
        named(self.databases.iter().cloned())
    }
}

/// All that are held now, those for which most clients wait first.
pub(super) fn all(input: &ShowInput<'_>) -> Vec<Held> {
    let mut names: BTreeMap<&[Address], Vec<String>> = BTreeMap::new();
    let own = input.settings.databases.iter().map(|(name, database)| (name.as_str(), database));
    let any = input.settings.fallback.iter().map(|database| ("*", database));
    for (name, database) in own.chain(any).filter(|(_, database)| database.target_session_attrs.wants_primary()) {
        names.entry(&database.hosts).or_default().push(name.to_owned());
    }
    let observed: BTreeMap<&Address, Upstream> = latest(input).into_values().collect();
    let mut all: Vec<Held> =
        names.into_iter().filter_map(|(hosts, databases)| held(input, &observed, hosts, databases)).collect();
    all.sort_by_key(|held| std::cmp::Reverse((held.waiting, held.longest)));
    all
}

fn held(
    input: &ShowInput<'_>,
    observed: &BTreeMap<&Address, Upstream>,
    hosts: &[Address],
    databases: Vec<String>,
) -> Option<Held> {
    let now = input.now_in_snapshots();
    let upstream = |host: &Address| observed.get(host).copied().unwrap_or(Upstream::UNTRIED);
    let decided = input.snapshots.first().into_iter().flat_map(|snapshot| &snapshot.primaries);
    let decided = decided.filter(|(list, _)| **list == *hosts).map(|(_, primary)| primary).next();
    let accepts_writes = |host: &&Address| upstream(host).role() == Some(HostRole::Primary);
    let chosen = match decided {
        Some(primary) => primary.host().map(|host| &**host).filter(accepts_writes),
        None => hosts.iter().find(accepts_writes),
    };
    if chosen.is_some() {
        return None;
    }
    let mut held = Held {
        databases,
        waiting: 0,
        longest: Duration::ZERO,
        sentence: String::new(),
        lack: Lack::NoPrimary,
        hosts: hosts.to_vec(),
    };
    for pool in input.pools().values() {
        if input.settings.database(&pool.key.database).is_some_and(|database| held.holds(&database)) {
            held.waiting = held.waiting.saturating_add(pool.clients.waiting);
            held.longest = held.longest.max(Duration::from_micros(pool.maxwait_us));
        }
    }
    if decided.is_some_and(|primary| primary.writes == Writes::Disputed) {
        held.lack = Lack::TwoPrimaries;
    } else if held.waiting == 0 && !hosts.iter().all(|host| is_no_primary(upstream(host), now)) {
        // A host was not looked at yet, and nobody waits for that.
        return None;
    }
    let seconds = now.since(since(decided, hosts, &upstream)).as_secs();
    let of_host = |host: &Address| {
        let probe = input.hosts_seen.get(host).and_then(|seen| seen.probe.as_ref());
        format!("{host}: {}", why(upstream(host), decided, host, probe, now))
    };
    let what = match held.lack {
        Lack::TwoPrimaries => {
            let both: Vec<String> = hosts.iter().filter(accepts_writes).map(Address::to_string).collect();
            let policy = match input.settings.global.servers.split_brain {
                SplitBrain::Hold => "split_brain is hold",
                SplitBrain::HighestTimeline | SplitBrain::Stay => "split_brain cannot choose",
            };
            format!("two hosts accept writes, for {seconds} s ({}), and {policy}", both.join(", "))
        }
        Lack::NoPrimary => format!("no host accepts writes, for {seconds} s ({})", named(hosts.iter().map(of_host))),
    };
    let waits = match held.waiting {
        0 => "No client waits for that yet.".to_owned(),
        1 => "1 client waits, until failover_wait is over.".to_owned(),
        count => format!("{count} clients wait, until failover_wait is over."),
    };
    let mend = match held.lack {
        Lack::TwoPrimaries => "Stop one of them, or name the right one: PROMOTED host;",
        Lack::NoPrimary => "Promoting a standby is for Patroni, repmgr or you: SHOW HOSTS;",
    };
    held.sentence = format!("{}: {what}. {waits} {mend}", held.names());
    Some(held)
}

/// Whether it is known that nobody can write there.
fn is_no_primary(upstream: Upstream, now: Time) -> bool {
    upstream.has_failed(now) || upstream.role().is_some()
}

/// Since when nobody can write. A primary that was lost has been so since it is in its state.
fn since(decided: Option<&Primary>, hosts: &[Address], upstream: &dyn Fn(&Address) -> Upstream) -> Time {
    match decided {
        Some(primary) => primary.host().map_or(primary.since, |host| upstream(host).since),
        None => hosts.iter().map(|host| upstream(host).since).max().unwrap_or_default(),
    }
}

/// The first of them, and how many more there are. Each name once.
fn named(names: impl Iterator<Item = String>) -> String {
    let mut seen = BTreeSet::new();
    let names: Vec<String> = names.filter(|name| seen.insert(name.clone())).collect();
    let first = names.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED_MAX) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}
