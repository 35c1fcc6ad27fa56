//! The running process: listens for one that is to take its place, and hands everything over to it.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use engine::{Handle, Leaving};
use machine::Orders;

use crate::frame::{Frame, receive, send};
use crate::{FORMAT, peer};

/// A new process may take so long to start.
const START_MAX: Duration = Duration::from_secs(60);

/// Who decides about the process.
pub trait Overseer: Send + Sync + 'static {
    /// Whether another process may take our place now, and what was ordered here.
    ///
    /// # Errors
    /// Why not, for the other process's log.
    fn may_hand_over(&self, pid: u32) -> Result<Orders, String>;

    /// The other process has started: it takes our place.
    fn begun(&self, pid: u32);

    /// The other process is gone.
    fn successor_gone(&self);
}

/// Where processes ask. Dropped, the file is removed if it is still ours.
#[derive(Debug)]
pub struct Meeting {
    path: PathBuf,
    /// Another process listens there now.
    is_given_up: Arc<AtomicBool>,
}

impl Drop for Meeting {
    fn drop(&mut self) {
        if !self.is_given_up.load(Ordering::Relaxed) {
            // It may be gone already.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Listens for a process that is to take our place, on a thread of its own.
///
/// # Errors
/// The system's, if the socket cannot be opened or there is no thread.
pub fn listen(path: &Path, version: &str, handle: Handle, overseer: Arc<dyn Overseer>) -> io::Result<Meeting> {
    let is_given_up = Arc::new(AtomicBool::new(false));
    let meeting = Meeting { path: path.to_owned(), is_given_up: Arc::clone(&is_given_up) };
    let mut listener = bind(path)?;
    let (path, version) = (path.to_owned(), version.to_owned());
    thread::Builder::new().name("upgrade".to_owned()).spawn(move || {
        loop {
            // Of one process at a time.
            let Ok((stream, _)) = listener.accept() else { return };
            let meet = Meet { version: &version, handle: &handle, overseer: &overseer, is_given_up: &is_given_up };
            if meet.with(&stream) {
                // The other process has listened there, and is gone.
                is_given_up.store(false, Ordering::Relaxed);
                match bind(&path) {
                    Ok(again) => listener = again,
                    Err(_) => return,
                }
            }
        }
    })?;
    Ok(meeting)
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    // What another process has left. That the pooler's own socket is ours was found out before.
    let _ = fs::remove_file(path);
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// One process that asks.
struct Meet<'a> {
    version: &'a str,
    handle: &'a Handle,
    overseer: &'a Arc<dyn Overseer>,
    is_given_up: &'a AtomicBool,
}

impl Meet<'_> {
    /// True: it had begun to take our place, and is gone.
    fn with(&self, stream: &UnixStream) -> bool {
        let Some(pid) = self.greet(stream) else { return false };
        let (sender, leaving) = channel();
        self.is_given_up.store(true, Ordering::Relaxed);
        self.handle.set_successor(sender);
        self.overseer.begun(pid);
        // Ends with the connection, or when nothing leaves any more.
        let writer = stream.try_clone().map(|stream| {
            let handle = self.handle.clone();
            thread::spawn(move || write(&stream, &leaving, &handle))
        });
        while let Ok(Some((frame, _))) = receive(stream) {
            if let Frame::ToPredecessor(told) = frame {
                self.handle.from_successor(told);
            }
        }
        // What is on its way there comes back by the writer, which ends when another process comes.
        self.overseer.successor_gone();
        drop(writer);
        true
    }

    /// Tells who it is what it needs to start, and waits until it has. `None`: it may not, or it does not.
    fn greet(&self, stream: &UnixStream) -> Option<u32> {
        stream.set_read_timeout(Some(START_MAX)).ok()?;
        if let Err(why) = peer::check(stream) {
            // It is told, or gone.
            let _ = send(stream, &Frame::Refused(why), &[]);
            return None;
        }
        let Ok(Some((Frame::Hello { format, version, pid }, _))) = receive(stream) else { return None };
        let orders = match format {
            FORMAT => self.overseer.may_hand_over(pid),
            _ => Err(format!(
                "{} hands over in format {FORMAT}, and {version} in format {format}: stop it and start the new one",
                self.version
            )),
        };
        let orders = match orders {
            Ok(orders) => orders,
            Err(why) => {
                // It is told, or gone.
                let _ = send(stream, &Frame::Refused(why), &[]);
                return None;
            }
        };
        let heritage = self.handle.heritage();
        let listeners: Vec<OwnedFd> = heritage.listeners.iter().filter_map(|fd| fd.try_clone().ok()).collect();
        let welcome = Frame::Welcome {
            version: self.version.to_owned(),
            pid: std::process::id(),
            clock_zero: heritage.clock_zero,
            names: heritage.names,
            orders,
        };
        send(stream, &welcome, &listeners).ok()?;
        let Ok(Some((Frame::Started, _))) = receive(stream) else { return None };
        stream.set_read_timeout(None).ok()?;
        Some(pid)
    }
}

/// Writes what leaves, until the connection ends.
fn write(stream: &UnixStream, leaving: &Receiver<Leaving>, handle: &Handle) {
    let mut is_gone = false;
    while let Ok(next) = leaving.recv() {
        let (frame, sockets) = match next {
            Leaving::ToSuccessor(told) => (Frame::ToSuccessor(told), Vec::new()),
            Leaving::Luggage(luggage, sockets) => (Frame::Luggage(luggage), sockets),
            // Only who takes another process's place says this; so do we to the one before us, elsewhere.
            Leaving::ToPredecessor(_) => continue,
        };
        is_gone = is_gone || send(stream, &frame, &sockets).is_err();
        if is_gone && let Frame::Luggage(luggage) = frame {
            handle.take_back(*luggage, sockets);
        }
        handle.note_written();
    }
}
