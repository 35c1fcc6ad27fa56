//! What two processes of an online upgrade have of each other: what the new one gets before it starts, and what leaves for the other one.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use machine::Orders;
use machine::processes::{ToGranter, ToMember};
use machine::upgrade::{Luggage, ServersLeft};
use units::ProcessId;

/// What leaves for the other process.
#[derive(Debug)]
pub enum Leaving {
    ToSuccessor(ToGranter),
    ToPredecessor(ToMember),
    /// To the predecessor: what is ordered now.
    Orders(Box<Orders>),
    /// To the predecessor: which servers has it still?
    ServersAsked,
    /// To the successor: these.
    Servers(Vec<ServersLeft>),
    /// For the process whose place we take: whether another one takes ours.
    HasSuccessor(bool),
    /// With its sockets, the session's first.
    Luggage(Box<Luggage>, Vec<OwnedFd>),
}

/// What a process gets from the one whose place it takes, before it starts.
#[derive(Clone, Debug)]
pub struct Heritage {
    /// Its listening sockets.
    pub listeners: Vec<Arc<OwnedFd>>,
    /// The zero of its clock, in nanoseconds of the system's monotonic clock: moments mean the same in both.
    pub clock_zero: i64,
    /// The key of names of prepared statements: servers that come along have these.
    pub names: [u8; 32],
}

/// Luggage, and its sockets.
type Arrived = (Box<Luggage>, Vec<OwnedFd>);

/// What all threads share of an upgrade.
pub(crate) struct Upgrade {
    /// The key of names of prepared statements: servers that move have these.
    pub(crate) names: [u8; 32],
    /// Who writes to another process, while there is one.
    writers: Mutex<BTreeMap<ProcessId, Sender<Leaving>>>,
    /// What was told for the process that takes our place, and is not written yet.
    pub(crate) unwritten: AtomicUsize,
    /// What the process whose place we take has said last of its servers.
    pub(crate) servers_elsewhere: Mutex<Option<Vec<ServersLeft>>>,
    /// What has come and has no home yet.
    pub(crate) waiting_room: Mutex<BTreeMap<u64, Arrived>>,
}

impl Upgrade {
    pub(crate) fn new(names: [u8; 32]) -> Upgrade {
        Upgrade {
            names,
            writers: Mutex::default(),
            unwritten: AtomicUsize::new(0),
            servers_elsewhere: Mutex::default(),
            waiting_room: Mutex::default(),
        }
    }

    /// Mail to this process goes to this writer from now on; `None`: to nobody.
    pub(crate) fn set_writer(&self, process: ProcessId, writer: Option<Sender<Leaving>>) {
        let mut writers = self.writers.lock().expect("nothing panics while it holds this lock");
        match writer {
            Some(writer) => _ = writers.insert(process, writer),
            None => _ = writers.remove(&process),
        }
    }

    /// Whether somebody writes to this process.
    pub(crate) fn reaches(&self, process: ProcessId) -> bool {
        self.writers.lock().expect("nothing panics while it holds this lock").contains_key(&process)
    }

    pub(crate) fn tell(&self, process: ProcessId, leaving: Leaving) {
        if let Some(other) = self.writers.lock().expect("nothing panics while it holds this lock").get(&process) {
            let counts = process == ProcessId::Successor;
            // Before it is sent, since it is counted down at once.
            self.unwritten.fetch_add(usize::from(counts), Ordering::AcqRel);
            if other.send(leaving).is_err() {
                // The other process is gone, which is told otherwise.
                self.unwritten.fetch_sub(usize::from(counts), Ordering::AcqRel);
            }
        }
    }

    pub(crate) fn take(&self, ticket: u64) -> Option<Arrived> {
        self.waiting_room.lock().expect("nothing panics while it holds this lock").remove(&ticket)
    }
}
