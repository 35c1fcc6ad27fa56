//! The listeners in a thread's loop: when to accept, which clients to refuse, when to pause.
//!
//! At most [`ACCEPTS_MAX`] clients are accepted in a round, so that a storm of logins does not starve the sessions. If
//! there is no descriptor for a client, it gets FATAL 53300 by means of a descriptor kept in reserve. Then no client is
//! accepted for [`PAUSE`], since a listener that stays readable would make the loop spin.
//!
//! The kernel gives out the lowest free descriptor, so the number of a new one shows how near the limit is. The last
//! [`KEPT_MAX`] are kept for servers and for clients of the Unix socket, which an administrator can use.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use machine::Peer;
use rustix::net::{SendFlags, Shutdown, send, shutdown};
use rustix::process::{Resource, getrlimit, setrlimit};
use units::Time;
use wire::backend::ErrorResponse;

use crate::listener::{Accepted, Listener, Listening};
use crate::options::TcpOptions;
use crate::poll::{Interest, Poll, Token};

/// Clients accepted from one listener in one round.
const ACCEPTS_MAX: usize = 32;

/// How long no client is accepted after descriptors ran out.
const PAUSE: Duration = Duration::from_millis(100);

/// Descriptors that TCP clients leave to servers and to the console.
const KEPT_MAX: u64 = 128;

/// All listeners of a door's thread.
pub(crate) struct Gate {
    /// `None` where one was closed: its token is its index.
    listeners: Vec<Option<Listener>>,
    /// Closed to accept one client, and refuse it, when no other descriptor is left.
    reserve: Option<File>,
    paused_until: Option<Time>,
    /// Clients are accepted. Otherwise they wait in the kernel, or another process takes them.
    is_open: bool,
    /// TCP clients with a descriptor above this are turned away.
    tcp_fd_max: u64,
    /// How many clients were refused because there was no descriptor.
    turned_away: u64,
}

impl Gate {
    /// Registers the listeners.
    ///
    /// # Errors
    /// The kernel's, if it has no room for them.
    pub(crate) fn open(listeners: Vec<Listener>, poll: &mut Poll) -> io::Result<Gate> {
        for (index, listener) in listeners.iter().enumerate() {
            poll.add(listener, Token::Listener(index), Interest::READ)?;
        }
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let tcp_fd_max = limit - KEPT_MAX.min(limit / 8);
        let listeners = listeners.into_iter().map(Some).collect();
        Ok(Gate { listeners, reserve: spare(), paused_until: None, is_open: true, tcp_fd_max, turned_away: 0 })
    }

    /// How many listeners there are to accept from now.
    pub(crate) fn accepting(&self) -> usize {
        if self.is_open && self.paused_until.is_none() { self.listeners.len() } else { 0 }
    }

    /// Clients that are accepted from now on get these options.
    ///
    /// # Errors
    /// The kernel's, for a value that it does not take.
    pub(crate) fn set_tcp(&self, options: &TcpOptions) -> io::Result<()> {
        self.listeners.iter().flatten().try_for_each(|listener| listener.set_tcp(options))
    }

    /// Accepts from one listener, up to the quota; `admit` takes a client in or gives it back.
    pub(crate) fn accept(
        &mut self,
        poll: &mut Poll,
        index: usize,
        now: Time,
        mut admit: impl FnMut(&mut Poll, OwnedFd, Peer) -> Result<(), OwnedFd>,
    ) -> u64 {
        let mut count = 0;
        for _ in 0..ACCEPTS_MAX {
            let Some(Some(listener)) = self.listeners.get(index) else { break };
            match listener.accept() {
                Accepted::Client(fd, peer) => {
                    count += 1;
                    if matches!(peer, Peer::Tcp { .. }) && fd.as_raw_fd().unsigned_abs() as u64 > self.tcp_fd_max {
                        self.turned_away += 1;
                        turn_away(fd);
                    } else if let Err(fd) = admit(poll, fd, peer) {
                        turn_away(fd);
                    }
                }
                Accepted::Nobody => break,
                Accepted::Exhausted => {
                    self.turn_one_away(index);
                    self.pause(poll, now);
                    break;
                }
            }
        }
        count
    }

    /// Refuses one waiting client with the reserved descriptor.
    fn turn_one_away(&mut self, index: usize) {
        drop(self.reserve.take());
        if let Some(Some(listener)) = self.listeners.get(index)
            && let Accepted::Client(fd, _) = listener.accept()
        {
            self.turned_away += 1;
            turn_away(fd);
        }
        self.reserve = spare();
    }

    fn pause(&mut self, poll: &mut Poll, now: Time) {
        self.paused_until = Some(now + PAUSE);
        self.watch(poll, Interest::NONE);
    }

    /// Accepts again once the pause is over.
    pub(crate) fn end_pause(&mut self, poll: &mut Poll, now: Time) {
        if self.paused_until.is_some_and(|until| until <= now) {
            self.paused_until = None;
            self.reserve = self.reserve.take().or_else(spare);
            self.watch_if_open(poll);
        }
    }

    /// Accepts clients, or lets them wait.
    pub(crate) fn set_open(&mut self, poll: &mut Poll, is_open: bool) {
        self.is_open = is_open;
        self.watch_if_open(poll);
    }

    fn watch_if_open(&self, poll: &mut Poll) {
        let accepts = self.is_open && self.paused_until.is_none();
        self.watch(poll, if accepts { Interest::READ } else { Interest::NONE });
    }

    /// Whether the files of Unix sockets are removed when they are closed.
    pub(crate) fn keep_files(&mut self, keeps: bool) {
        self.listeners.iter_mut().flatten().for_each(|listener| listener.keeps_file = keeps);
    }

    /// Copies of the sockets, for another process.
    ///
    /// # Errors
    /// The kernel's, if one cannot be copied: clients who come there would be nobody's once this process has ended.
    pub(crate) fn lent(&self) -> io::Result<Vec<OwnedFd>> {
        self.listeners.iter().flatten().map(|listener| listener.as_fd().try_clone_to_owned()).collect()
    }

    /// When [`Gate::end_pause`] has something to do.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.paused_until
    }

    fn watch(&self, poll: &mut Poll, interest: Interest) {
        for (index, listener) in self.listeners.iter().enumerate() {
            let Some(listener) = listener else { continue };
            // Fails only for a descriptor that is not registered.
            let _ = poll.modify(listener, Token::Listener(index), interest);
        }
    }

    /// Closes listeners: TCP ones, and with them Unix ones unless they are kept for the console.
    /// Returns the addresses that are still listened on.
    pub(crate) fn close(&mut self, keep_unix: bool) -> Vec<Listening> {
        for slot in &mut self.listeners {
            if slot.as_ref().is_some_and(|listener| !(keep_unix && listener.is_unix())) {
                *slot = None;
            }
        }
        self.listeners.iter().flatten().map(|listener| listener.place.clone()).collect()
    }

    /// Clients that were refused because there was no descriptor for them.
    pub(crate) fn turned_away(&self) -> u64 {
        self.turned_away
    }
}

fn spare() -> Option<File> {
    File::open("/dev/null").ok()
}

/// Sends the error and closes. It does not wait if the socket does not take all of it.
//= pg18 protocol-flow#PROTOCOL-FLOW-START-UP
fn turn_away(fd: OwnedFd) {
    let mut bytes = Vec::new();
    let error = ErrorResponse {
        severity: "FATAL",
        code: wire::sqlstate::TOO_MANY_CONNECTIONS,
        message: "sorry, too many clients already: the connection pooler has no room for another",
        detail: None,
        hint: None,
    };
    error.encode(&mut bytes);
    let _ = send(&fd, &bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    let _ = shutdown(&fd, Shutdown::Write);
}

/// Makes the kernel's descriptor table long enough for `count`, or for as many as are allowed. If it grew while threads
/// share it, each doubling would block accept for some 10 ms, until every core has passed a quiescent point.
pub(crate) fn make_room(count: usize) {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let count = u64::try_from(count).unwrap_or(u64::MAX).min(limit);
    if let (Some(file), Ok(last)) = (spare(), i32::try_from(count.saturating_sub(1))) {
        // The table keeps its length when the highest descriptor is closed. If this fails, the table grows as it is
        // used.
        let _ = rustix::io::fcntl_dupfd_cloexec(&file, last);
    }
}

/// Raises the descriptor limit as far as the system allows.
pub(crate) fn raise_descriptor_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        // If that is not allowed, the present limit stays.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}
