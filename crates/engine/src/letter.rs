//! What threads write to each other, and the eventfd that wakes a thread from its wait.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use machine::{Done, Mail};
use rustix::event::{EventfdFlags, eventfd};
use units::ConnId;

use crate::mailbox::{Bell, Mailbox};

/// Letters that are waiting, before the next is refused that may be ([`Mail::may_be_returned`]).
pub(crate) const OFFERED_MAX: usize = 1024;

/// One thread's box.
pub(crate) type Letterbox = Mailbox<Letter, EventBell>;

/// Addresses in the order to try them, or why there are none.
pub(crate) type Resolved = Result<Arc<[IpAddr]>, String>;

pub(crate) enum Letter {
    /// For a machine of the thread; a connection may come with it, which is in nobody's epoll.
    Mail {
        mail: Mail,
        fd: Option<OwnedFd>,
    },
    Computed {
        conn: ConnId,
        done: Done,
    },
    Resolved {
        conn: ConnId,
        resolved: Resolved,
    },
    /// Show your counters.
    Count {
        ticket: u64,
    },
    /// No new clients over TCP, and none at all without `keep_unix`.
    CloseListeners {
        keep_unix: bool,
    },
    /// End the thread, closing everything.
    Leave,
}

/// An eventfd in the reader's epoll.
pub(crate) struct EventBell(OwnedFd);

impl EventBell {
    pub(crate) fn new() -> io::Result<EventBell> {
        Ok(EventBell(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?))
    }

    /// The reader's: silent again.
    pub(crate) fn hush(&self) {
        // Fails only if it was not ringing.
        let _ = rustix::io::read(&self.0, &mut [0_u8; 8]);
    }
}

impl Bell for EventBell {
    fn ring(&self) {
        // Fails only if it has rung 2^64 times unheard.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl AsFd for EventBell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
