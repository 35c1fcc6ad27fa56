//! What the control plane needs from the program: an engine to look at and to control, and a configuration to load.
//!
//! Both are given by the program, so that everything here is tested without a thread or a file.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use activity::History;
use connections::databases::Address;
use jiff::Zoned;
use machine::peering::PeerPool;
use machine::refused_logins::RefusedLogins;
use machine::upgrade::ServersLeft;
use machine::{Hint, Level, Look, Orders, Settings, Snapshot, Stop};
use units::{ConnId, PoolKey, Serial, WorkerId};

use crate::past::Recall;
use crate::sight::Sight;

/// The data plane, as the control plane uses it.
pub trait Plane {
    /// Snapshots of the workers that answer in time, with what `look` asks for.
    fn look(&mut self, look: Look) -> Vec<Snapshot>;

    /// The engine's own counters.
    fn counters(&mut self) -> EngineFacts;

    /// Puts new settings in force.
    fn configure(&mut self, settings: Arc<Settings>);

    /// Stops taking clients, and ends as `stop` says. [`crate::ControlEvent::Finished`] follows, except after an
    /// immediate stop.
    fn stop(&mut self, stop: Stop);

    /// Another process has started to take our place: takes no more clients, and hands over what can move.
    fn hand_over(&mut self) {}

    /// What has not been handed over by now ends at the end of its transaction, with 57P01, unless [`Plane::take_back`] comes first.
    fn end_what_stays(&mut self) {}

    /// It is gone: everything is ours again. `accepts`: new clients are, too.
    fn take_back(&mut self, _accepts: bool) {}

    /// It is gone, and a third process has its place: nothing is handed over any more, and sessions end at the end of their transactions.
    fn leave(&mut self) {}

    /// The process whose place we take, if it is still there, is to do what is ordered here.
    fn order_predecessor(&mut self, _orders: &Orders) {}

    /// Whether that process is still there.
    fn has_predecessor(&mut self) -> bool {
        false
    }

    /// The servers that that process still has; `None`: that is not known now.
    fn servers_elsewhere(&mut self) -> Option<Vec<ServersLeft>> {
        Some(Vec::new())
    }

    /// Answers the process that takes our place, which has asked which servers are left here.
    fn tell_servers(&mut self, _servers: Vec<ServersLeft>) {}

    /// The process before this one has ended: what it still had is ours.
    fn predecessor_gone(&mut self) {}

    /// Whether anybody is left here that has not been handed over: clients, those that log in, and the process before this one.
    fn is_left(&mut self) -> bool {
        false
    }

    /// Takes new clients, or lets them wait in the kernel.
    fn accept(&mut self, accepts: bool);

    /// Sends wire messages to a console client; `close` ends its session.
    fn answer(&mut self, to: Asker, bytes: Vec<u8>, close: bool);

    /// Ends a client, if it is still that one.
    fn kill_client(&mut self, worker: WorkerId, conn: ConnId, serial: Serial);

    /// Cancels what a client runs, if it is still that client and runs anything.
    fn kill_query(&mut self, worker: WorkerId, conn: ConnId, serial: Serial);

    /// The wall clock's time.
    fn wall_clock(&self) -> Zoned;

    /// Lines of the log that were lost since the start.
    fn log_lines_lost(&mut self) -> u64;

    /// What is known of names of servers' hosts.
    fn names(&mut self) -> KnownNames;

    /// Names of servers' hosts are looked up anew by whoever needs one from now on.
    fn forget_names(&mut self);

    /// Somebody at the console says which host is the primary, or is not any more.
    fn hint(&mut self, hint: Hint) {
        let _ = hint;
    }

    /// The findings of the prober and of Patroni about the hosts of databases.
    fn hosts_seen(&mut self) -> HostsSeen {
        HostsSeen::default()
    }

    /// If the data plane answers, tells so whoever asked us to: a service manager's watchdog.
    fn show_life(&mut self) {}

    /// What PostgreSQL and the sessions do, and did during the last hour. `None`: nobody looks.
    fn history(&mut self) -> Option<Arc<Mutex<History>>> {
        None
    }

    /// Reads from disk what is not in memory any more: [`crate::ControlEvent::Recalled`] of this number follows, unless this is false: there is no
    /// disk.
    fn recall(&mut self, number: u64, wanted: Recall) -> bool {
        let _ = (number, wanted);
        false
    }

    /// Has it looked at now: [`crate::ControlEvent::Observed`] of this sight or a larger one follows, unless this is false.
    fn observe(&mut self, sight: Sight) -> bool {
        let _ = sight;
        false
    }

    /// Gives unused memory back to the system.
    fn give_memory_back(&mut self);

    /// Writes a line to the log.
    fn tell(&mut self, level: Level, text: String);
}

/// Facts about hosts that the workers do not have.
pub type HostsSeen = BTreeMap<Address, HostSeen>;

/// One host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostSeen {
    /// Patroni's word for what it is: `leader`, `sync_standby`, `replica`.
    pub patroni: Option<String>,
    /// `None`: it was not probed yet.
    pub probe: Option<HostProbe>,
}

/// The last probe of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostProbe {
    pub ago: Duration,
    /// Why there was no answer.
    pub trouble: Option<String>,
    pub timeline: Option<u32>,
    /// How far its log is written, or replayed: bytes since the beginning.
    pub position: Option<u64>,
}

/// What is known of names, and of the zones that they are in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownNames {
    pub hosts: Vec<KnownName>,
    pub zones: Vec<KnownZone>,
    /// Lookups that are under way.
    pub lookups: usize,
}

/// A zone with names that were looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownZone {
    pub name: String,
    /// 0: it was not asked for yet.
    pub serial: u32,
    /// How many of our names are in it.
    pub hosts: usize,
}

/// The addresses of a host's name, as they were found last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownName {
    pub name: String,
    /// How long they are known still.
    pub ttl: Duration,
    /// None: it could not be resolved.
    pub addresses: Vec<IpAddr>,
}

/// A console client that has sent a command.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Asker {
    pub worker: WorkerId,
    pub conn: ConnId,
}

/// The engine's counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineFacts {
    pub workers: Vec<WorkerFacts>,
    pub door: DoorFacts,
    pub peer_pools: Vec<PeerPool>,
    pub exemplars: Exemplars,
}

/// Traces of statements that have waited for a server: of each pool, by the place of the bucket that counts the wait.
pub type Exemplars = BTreeMap<PoolKey, BTreeMap<usize, Exemplar>>;

/// The last traced statement that has waited about so long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exemplar {
    /// As headers have it: 32 digits.
    pub trace_id: String,
    pub waited_us: u64,
    /// Since 1970.
    pub at: Duration,
}

/// Clients that were not let in, or not yet.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct DoorFacts {
    /// Because there was no file descriptor.
    pub turned_away: u64,
    pub refused: RefusedLogins,
    /// Clients that log in at this moment.
    pub logins: u64,
}

/// The engine's counters of a worker, for SHOW WORKERS.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerFacts {
    pub worker: u16,
    /// Rounds of its thread's loop.
    pub rounds: u64,
    /// System calls that read.
    pub recvs: u64,
    /// System calls that write.
    pub sends: u64,
    pub epoll_ctls: u64,
    /// How often it woke another thread, or was woken.
    pub wakes: u64,
    /// Messages that another thread's full mailbox refused.
    pub returned: u64,
    /// Panics that were caught: bugs.
    pub panics: u64,
}

/// A configuration that was read without an error.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub settings: Arc<Settings>,
    /// The rows of SHOW CONFIG.
    pub rows: Vec<SettingRow>,
    pub listen_port: u16,
    /// Averages are over this long.
    pub stats_period: Duration,
    /// A `stats:` line in the log at the end of each period.
    pub log_stats: bool,
    /// Warnings for the user, one line each.
    pub warnings: Vec<String>,
}

/// What the configuration is read for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Wanted<'a> {
    /// RELOAD: what the files say now. It undoes SET.
    Again,
    /// SET: what holds, with one setting changed.
    Set { key: &'a str, value: &'a str },
}

/// A row of SHOW CONFIG.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingRow {
    pub key: &'static str,
    pub value: Option<String>,
    pub default: Option<String>,
    /// Takes effect on RELOAD, without a restart.
    pub changeable: bool,
}
