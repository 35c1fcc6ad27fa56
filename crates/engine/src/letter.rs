//! Letters between threads, and the eventfd that wakes a thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use machine::{Done, Exchange, Mail, Verdict};
use names::Found;
use rustix::event::{EventfdFlags, eventfd};
use units::ConnId;

use crate::connections::Parcel;
use crate::layer::Keyring;
use crate::mailbox::{Bell, Mailbox};
use crate::options::TcpOptions;

/// A mailbox with so many letters refuses those that may be refused ([`Mail::may_be_returned`]).
pub(crate) const OFFERED_MAX: usize = 1024;

/// One thread's mailbox.
pub(crate) type Letterbox = Mailbox<Letter, EventBell>;

pub(crate) enum Letter {
    /// For a machine of the thread. A socket may come with it, which is in no epoll.
    Mail {
        mail: Mail,
        parcel: Option<Parcel>,
    },
    Computed {
        conn: ConnId,
        done: Done,
    },
    Answered {
        conn: ConnId,
        verdict: Verdict,
    },
    Resolved {
        conn: ConnId,
        found: Found,
    },
    /// Return the thread's counters.
    Count {
        ticket: u64,
    },
    /// Options of TCP sockets that are opened or accepted from now on.
    SetTcp(Arc<TcpOptions>),
    /// How long to look for events before a sleep.
    SetBusyPoll(Duration),
    /// Connections that become encrypted from now on use these.
    SetTls(Arc<Keyring>),
    /// No new clients over TCP, and none at all without `keep_unix`.
    CloseListeners {
        keep_unix: bool,
    },
    /// Whether clients are accepted.
    Accept(bool),
    /// Whether the files of Unix sockets are removed at the end.
    KeepFiles(bool),
    /// Return copies of the listening sockets.
    LendListeners(Sender<io::Result<Vec<OwnedFd>>>),
    /// End the thread, closing everything.
    Leave,
}

impl Letter {
    /// Takes a refused letter apart: the message that its sender gets back, and its socket.
    pub(crate) fn into_returned(self) -> (Exchange, Option<Parcel>) {
        let Letter::Mail { mail, parcel } = self else { unreachable!("only mail is offered") };
        (mail.into_returned(), parcel)
    }
}

/// An eventfd in the reader's epoll.
pub(crate) struct EventBell(OwnedFd);

impl EventBell {
    pub(crate) fn new() -> io::Result<EventBell> {
        Ok(EventBell(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
    }

    /// The reader clears it.
    pub(crate) fn clear(&self) {
        // Fails only if it was not set.
        let _ = rustix::io::read(&self.0, &mut [0_u8; 8]);
    }
}

impl Bell for EventBell {
    fn ring(&self) {
        // Fails only after 2^64 writes without a read.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl AsFd for EventBell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
