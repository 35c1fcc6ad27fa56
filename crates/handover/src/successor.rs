//! The new process: asks the running one for what it needs to start, and then takes in what that hands over.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use engine::{Handle, Heritage, Leaving};
use machine::Orders;

use crate::frame::{Frame, receive, send};
use crate::{FORMAT, peer};

/// The running process may take so long to answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Why nobody's place can be taken.
#[derive(Debug)]
pub enum Refused {
    /// No process listens there.
    Nobody,
    /// The running one does not hand over, and why.
    No(String),
    /// A process that is not to be believed listens there, and why not. Nothing was read from it.
    Stranger(String),
}

/// A running process that waits for us to start.
#[derive(Debug)]
pub struct Succession {
    stream: UnixStream,
    /// The running process.
    pub pid: u32,
    pub version: String,
    pub heritage: Heritage,
    /// What was ordered at its console.
    pub orders: Orders,
}

impl Succession {
    /// Asks the running process. Nothing happens to it before [`Succession::begin`].
    ///
    /// # Errors
    /// There is none, it does not hand over, or it is another user's.
    pub fn ask(path: &Path, version: &str) -> Result<Succession, Refused> {
        let no = |why: io::Error| Refused::No(why.to_string());
        let stream = UnixStream::connect(path).map_err(|why| match why.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Refused::Nobody,
            _ => no(why),
        })?;
        peer::check(&stream).map_err(Refused::Stranger)?;
        stream.set_read_timeout(Some(ANSWER_MAX)).map_err(no)?;
        let hello = Frame::Hello { format: FORMAT, version: version.to_owned(), pid: std::process::id() };
        send(&stream, &hello, &[]).map_err(no)?;
        match receive(&stream).map_err(no)? {
            Some((Frame::Welcome { version, pid, clock_zero, names, orders }, sockets)) => {
                let listeners = sockets.into_iter().map(Arc::new).collect();
                let heritage = Heritage { listeners, clock_zero, names };
                Ok(Succession { stream, pid, version, heritage, orders })
            }
            Some((Frame::Refused(why), _)) => Err(Refused::No(why)),
            Some(_) => Err(Refused::No("it has answered something else".to_owned())),
            None => Err(Refused::No("it has closed the connection".to_owned())),
        }
    }

    /// We have started: takes the place of the running process, and returns once its clients are counted and ours are accepted. `gone` is
    /// called when it has ended.
    ///
    /// # Errors
    /// The system's; the running process then goes on, and we must end.
    pub fn begin(self, handle: &Handle, gone: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let Succession { stream, heritage, .. } = self;
        // The engine has its own copies.
        drop(heritage);
        let (sender, telling) = channel();
        handle.set_predecessor(Some(sender));
        send(&stream, &Frame::Started, &[])?;
        match receive(&stream)? {
            Some((Frame::ToSuccessor(begun), _)) => handle.from_predecessor(begun),
            _ => return Err(io::Error::other("the running process does not hand over")),
        }
        handle.accept(true);
        stream.set_read_timeout(None)?;
        let writing = stream.try_clone()?;
        let named = |name: &str| thread::Builder::new().name(name.to_owned());
        named("upgrade-asks").spawn(move || write(&writing, &telling))?;
        let handle = handle.clone();
        named("upgrade").spawn(move || {
            read(&stream, &handle);
            handle.predecessor_gone();
            gone();
        })?;
        Ok(())
    }
}

/// Takes in what comes, until the running process has ended.
fn read(stream: &UnixStream, handle: &Handle) {
    while let Ok(Some((frame, sockets))) = receive(stream) {
        match frame {
            Frame::ToSuccessor(told) => handle.from_predecessor(told),
            Frame::Luggage(luggage) if luggage.sockets() == sockets.len() => handle.take_in(*luggage, sockets),
            _ => drop::<Vec<OwnedFd>>(sockets),
        }
    }
}

/// Tells the running process what is for it.
fn write(stream: &UnixStream, telling: &Receiver<Leaving>) {
    while let Ok(next) = telling.recv() {
        if let Leaving::ToPredecessor(told) = next
            && send(stream, &Frame::ToPredecessor(told), &[]).is_err()
        {
            return;
        }
    }
}
