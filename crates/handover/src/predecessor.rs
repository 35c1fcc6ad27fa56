//! The running process: listens for one that is to take its place, and hands everything over to it.

use std::fs;
use std::io;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use engine::{Handle, Heritage, Leaving};
use machine::processes::{FromProcess, ProcessId};
use machine::{Level, Orders};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_peercred;
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::frame::{Frame, receive, send};
use crate::{FORMAT, descriptors, peer};

/// A new process may take so long to start.
const START_MAX: Duration = Duration::from_secs(60);

/// A process that has taken nothing of what is handed over for so long does not run, whatever the reason.
pub const STALL_MAX: Duration = Duration::from_secs(10);

/// How long there is no new attempt after one to accept, or to listen, has failed: there may be no free descriptor.
const PAUSE: Duration = Duration::from_millis(100);

/// Who decides about the process.
pub trait Overseer: Send + Sync + 'static {
    /// Whether another process may take our place now, and what was ordered here.
    ///
    /// # Errors
    /// Why not, for the other process's log.
    fn may_hand_over(&self, pid: u32) -> Result<Orders, String>;

    /// The other process has started: it takes our place.
    fn begun(&self, pid: u32);

    /// The other process was given orders: these hold here, too.
    fn ordered(&self, orders: Orders);

    /// It asks which servers are left here: `OtherControl::tell_servers` answers.
    fn servers_asked(&self);

    /// The other process is gone.
    fn successor_gone(&self);

    /// It is, and a third process takes its place.
    fn successor_replaced(&self);
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
        let tells = |what: &'static str| {
            let log = handle.log();
            move |why: &io::Error| {
                let text = format!("cannot {what} a process that is to take over, trying again: {why}");
                log.say(Level::Warning, text);
            }
        };
        loop {
            // Of one process at a time.
            let stream = insistently(|| listener.accept(), tells("accept")).0;
            let meet = Meet { version: &version, handle: &handle, overseer: &overseer, is_given_up: &is_given_up };
            if meet.with(&stream) {
                // The other process has listened there, and is gone.
                is_given_up.store(false, Ordering::Relaxed);
                listener = insistently(|| bind(&path), tells("listen for"));
            }
        }
    })?;
    Ok(meeting)
}

/// Tries until it succeeds. `tell` is called for the first failure.
fn insistently<T>(mut attempt: impl FnMut() -> io::Result<T>, tell: impl Fn(&io::Error)) -> T {
    let mut is_told = false;
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(why) if is_told => drop(why),
            Err(why) => {
                is_told = true;
                tell(&why);
            }
        }
        thread::sleep(PAUSE);
    }
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    // What another process has left. That the pooler's own socket is ours was found out before.
    let _ = fs::remove_file(path);
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// The process that takes our place.
struct Successor {
    pid: u32,
    stream: UnixStream,
    /// `None`: the system has no such descriptors, or its process is none of our namespace.
    process: Option<OwnedFd>,
}

impl Successor {
    fn of(stream: &UnixStream) -> io::Result<Successor> {
        // The kernel's word, which is right in our namespace.
        let pid = socket_peercred(stream)?.pid;
        let process = pidfd_open(pid, PidfdFlags::empty()).ok();
        Ok(Successor { pid: pid.as_raw_nonzero().get().unsigned_abs(), stream: stream.try_clone()?, process })
    }

    /// It is gone, or does not behave: it is killed before anything is taken back from it.
    fn end(&self) {
        // Fails if it has ended already; or is root's, and then nothing more can be done.
        if let Some(process) = self.process.as_ref().filter(|process| pidfd_send_signal(process, Signal::KILL).is_ok())
        {
            let timeout = Timespec { tv_sec: STALL_MAX.as_secs().cast_signed(), tv_nsec: 0 };
            // Readable once it has ended.
            let _ = poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&timeout));
        }
        // Whoever reads from it wakes.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
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
        let (sender, leaving) = channel();
        let Some(successor) = self.greet(stream, leaving) else { return false };
        self.is_given_up.store(true, Ordering::Relaxed);
        self.handle.set_successor(sender);
        self.handle.other_control().tell_of_successor(true);
        self.overseer.begun(successor.pid);
        let mut has_successor = false;
        while let Ok(Some((frame, _))) = receive(stream) {
            match frame {
                Frame::ToPredecessor(told) => {
                    self.handle.from_process(ProcessId::Successor, FromProcess::ToMember(told));
                }
                Frame::Orders(orders) => self.overseer.ordered(*orders),
                Frame::ServersAsked => self.overseer.servers_asked(),
                Frame::HasSuccessor(has_one) => has_successor = has_one,
                _ => break,
            }
        }
        successor.end();
        if has_successor {
            // The name where processes ask is the third one's.
            self.overseer.successor_replaced();
            return false;
        }
        self.handle.other_control().tell_of_successor(false);
        // What is on its way there comes back by the writer, which ends when another process comes.
        self.overseer.successor_gone();
        true
    }

    /// Tells who it is what it needs to start, and waits until it has. `None`: it may not, or it does not. `leaving` is written to it from then on.
    fn greet(&self, stream: &UnixStream, leaving: Receiver<Leaving>) -> Option<Arc<Successor>> {
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
        let orders = match orders.and_then(|orders| self.prepare(stream, leaving).map(|prepared| (orders, prepared))) {
            Ok(orders) => orders,
            Err(why) => {
                // It is told, or gone.
                let _ = send(stream, &Frame::Refused(why), &[]);
                return None;
            }
        };
        let (orders, (heritage, listeners, successor)) = orders;
        let welcome = Frame::Welcome {
            version: self.version.to_owned(),
            pid: std::process::id(),
            clock_zero: heritage.clock_zero,
            names: heritage.names,
            orders,
            descriptors: descriptors::open(),
        };
        send(stream, &welcome, &listeners).ok()?;
        let Ok(Some((Frame::Started, _))) = receive(stream) else { return None };
        stream.set_read_timeout(None).ok()?;
        Some(successor)
    }

    /// All that can fail, before the other process starts.
    fn prepare(&self, stream: &UnixStream, leaving: Receiver<Leaving>) -> Result<Prepared, String> {
        let system = |why: io::Error| format!("it cannot prepare for that: {why}");
        let heritage = self.handle.heritage().map_err(system)?;
        let copies = heritage.listeners.iter().map(|fd| fd.try_clone()).collect::<io::Result<Vec<OwnedFd>>>();
        stream.set_write_timeout(Some(STALL_MAX)).map_err(system)?;
        let successor = Arc::new(Successor::of(stream).map_err(system)?);
        let (to, handle) = (Arc::clone(&successor), self.handle.clone());
        let writer = thread::Builder::new().name("upgrade-writes".to_owned());
        writer.spawn(move || write(&to, &leaving, &handle)).map_err(system)?;
        Ok((heritage, copies.map_err(system)?, successor))
    }
}

/// What the other process gets, with copies of the listening sockets, and the process.
type Prepared = (Heritage, Vec<OwnedFd>, Arc<Successor>);

/// Writes what leaves, until nothing does any more. What the other process does not take comes back.
fn write(to: &Successor, leaving: &Receiver<Leaving>, handle: &Handle) {
    let mut is_gone = false;
    while let Ok(next) = leaving.recv() {
        let (frame, sockets) = match next {
            Leaving::ToSuccessor(told) => (Frame::ToSuccessor(told), Vec::new()),
            Leaving::Luggage(luggage, sockets) => (Frame::Luggage(luggage), sockets),
            // Only who takes another process's place says this; so do we to the one before us, elsewhere.
            Leaving::ToPredecessor(_) | Leaving::Orders(_) | Leaving::ServersAsked | Leaving::HasSuccessor(_) => {
                continue;
            }
            Leaving::Servers(servers) => (Frame::Servers(servers), Vec::new()),
        };
        if !is_gone && send(&to.stream, &frame, &sockets).is_err() {
            is_gone = true;
            to.end();
        }
        if is_gone && let Frame::Luggage(luggage) = frame {
            handle.take_back(*luggage, sockets);
        }
        handle.note_written();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::process::Command;

    use super::*;

    #[test]
    fn accepting_goes_on_after_errors_and_the_first_of_them_is_told() {
        let (tries, told) = (Cell::new(0), Cell::new(0));
        let attempt = || {
            tries.set(tries.get() + 1);
            if tries.get() < 3 { Err(io::Error::from(rustix::io::Errno::MFILE)) } else { Ok("accepted") }
        };
        assert_eq!(insistently(attempt, |_| told.set(told.get() + 1)), "accepted");
        assert_eq!((tries.get(), told.get()), (3, 1));
    }

    /// What it has taken must not be served twice.
    #[test]
    fn a_successor_that_does_not_run_is_killed_before_anything_is_taken_back() {
        let mut stopped = Command::new("sleep").arg("600").spawn().expect("it is everywhere");
        let pid = rustix::process::Pid::from_child(&stopped);
        rustix::process::kill_process(pid, Signal::STOP).expect("it is ours");
        let (here, there) = UnixStream::pair().expect("two descriptors");
        let process = pidfd_open(pid, PidfdFlags::empty()).ok();
        let successor = Successor { pid: stopped.id(), stream: here.try_clone().expect("a descriptor"), process };
        successor.end();
        assert!(stopped.try_wait().expect("it is our child").is_some(), "it has ended");
        assert!(matches!(receive(&here), Ok(None)), "who reads from it wakes");
        drop(there);
        // Once more, to no effect.
        successor.end();
    }
}
