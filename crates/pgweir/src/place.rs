//! What only one process has at a time, of all that take each other's place: the files of its Unix sockets, the pidfile, and the addresses of http.
//!
//! ```text
//!   the first process   serves http and has written its pidfile before it accepts anybody
//!   a successor         take ─► the pidfile and http are ours; the socket files are once the process before has ended (predecessor_gone)
//!   a predecessor       give ─► http and the files are the other one's      take_back, if that one is gone ─► ours again
//! ```
//!
//! Nothing here fails: clients are served meanwhile, and are not to suffer for a file. The log says what went wrong.

use engine::Handle;
use machine::Level;

use control::pidfile::Pidfile;

use crate::http::Http;

/// What only one process has at a time.
pub(crate) struct Place {
    handle: Handle,
    pidfile: Option<Pidfile>,
    pub(crate) http: Http,
    has_successor: bool,
}

impl Place {
    pub(crate) fn new(handle: Handle, pidfile: Option<Pidfile>, http: Http) -> Place {
        Place { handle, pidfile, http, has_successor: false }
    }

    /// The process before this one hands over.
    pub(crate) fn take(&mut self) {
        self.claim_pidfile();
        self.http.serve_soon(&self.handle);
    }

    /// The process before this one has ended.
    pub(crate) fn predecessor_gone(&mut self) {
        self.settle_files();
    }

    /// Another process has started to take our place.
    pub(crate) fn give(&mut self) {
        self.has_successor = true;
        self.http.stop();
        self.settle_files();
    }

    /// It is gone.
    pub(crate) fn take_back(&mut self) {
        self.has_successor = false;
        self.settle_files();
        self.take();
    }

    fn claim_pidfile(&self) {
        if let Some(Err(why)) = self.pidfile.as_ref().map(Pidfile::claim) {
            self.handle.log().say(Level::Error, why);
        }
    }

    /// In a chain of upgrades either neighbour may live on with the files of Unix sockets.
    fn settle_files(&self) {
        self.handle.keep_socket_files(self.has_successor || self.handle.has_predecessor());
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // It goes on, and writes its own id there.
        if self.handle.has_predecessor()
            && let Some(pidfile) = &mut self.pidfile
        {
            pidfile.leave();
        }
    }
}
