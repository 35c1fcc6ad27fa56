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
use machine::processes::{FromProcess, ProcessId, ToGranter};
use machine::upgrade::{Luggage, ServersLeft};
use machine::{Orders, Settings};

use crate::frame::{Frame, is_end, receive, send};
use crate::{FORMAT, descriptors, peer};

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
    /// How many it has open.
    descriptors: u64,
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
            Some((Frame::Welcome { version, pid, clock_zero, names, orders, descriptors }, sockets)) => {
                let listeners = sockets.into_iter().map(Arc::new).collect();
                let heritage = Heritage { listeners, clock_zero, names };
                Ok(Succession { stream, pid, version, heritage, orders, descriptors })
            }
            Some((Frame::Refused(why), _)) => Err(Refused::No(why)),
            Some(_) => Err(Refused::No("it has answered something else".to_owned())),
            None => Err(Refused::No("it has closed the connection".to_owned())),
        }
    }

    /// We have started: takes the place of the running process, and returns once its clients are counted and ours are accepted; with what is
    /// ordered, which may have changed since it was asked, and holds in the engine now. `gone` is called when it has ended; with an error if it
    /// has not, and what it hands over is not understood: then we must end at once, or both processes would serve, each with limits of its own.
    ///
    /// # Errors
    /// The system's, or the running process does not hand over. It then goes on, and we must end.
    pub fn begin(self, handle: &Handle, gone: impl FnOnce(io::Result<()>) + Send + 'static) -> io::Result<Orders> {
        let Succession { stream, heritage, descriptors, .. } = self;
        // The engine has its own copies.
        drop(heritage);
        descriptors::check(descriptors).map_err(io::Error::other)?;
        // All that can fail comes before the running process hears that we have started.
        let (sender, telling) = channel();
        handle.set_predecessor(Some(sender));
        stream.set_read_timeout(None)?;
        let (writing, reading) = (stream.try_clone()?, stream.try_clone()?);
        let named = |name: &str| thread::Builder::new().name(name.to_owned());
        named("upgrade-asks").spawn(move || write(&writing, &telling))?;
        let (begun, has_begun) = channel();
        let to = handle.clone();
        named("upgrade").spawn(move || {
            let ended = read(&reading, |arrival| match arrival {
                Arrival::Told(ToGranter::Begun(inventory)) => {
                    let orders = inventory.orders.clone();
                    // Before anybody comes.
                    to.configure(&Arc::new(Settings { orders: orders.clone(), ..Settings::clone(&to.settings()) }));
                    to.from_process(ProcessId::Predecessor, FromProcess::ToGranter(ToGranter::Begun(inventory)));
                    to.accept(true);
                    // Fails if nobody waits any more, who then ends the process.
                    let _ = begun.send(orders);
                }
                Arrival::Told(told) => to.from_process(ProcessId::Predecessor, FromProcess::ToGranter(told)),
                Arrival::Servers(servers) => to.other_control().note_servers(servers),
                Arrival::Luggage(luggage, sockets) => to.take_in(*luggage, sockets),
            });
            drop(begun);
            if ended.is_ok() {
                to.process_left(ProcessId::Predecessor);
            }
            gone(ended);
        })?;
        send(&stream, &Frame::Started, &[])?;
        has_begun.recv_timeout(ANSWER_MAX).map_err(|_| io::Error::other("the running process does not hand over"))
    }
}

/// What comes from the running process.
enum Arrival {
    Told(ToGranter),
    /// It was asked for them.
    Servers(Vec<ServersLeft>),
    /// With its sockets.
    Luggage(Box<Luggage>, Vec<OwnedFd>),
}

/// Takes in what comes, until the running process has ended.
///
/// # Errors
/// It has not, but what comes cannot be understood or taken.
fn read(stream: &UnixStream, mut take: impl FnMut(Arrival)) -> io::Result<()> {
    loop {
        match receive(stream) {
            Ok(None) => return Ok(()),
            Ok(Some((Frame::ToSuccessor(told), _))) => take(Arrival::Told(told)),
            Ok(Some((Frame::Servers(servers), _))) => take(Arrival::Servers(servers)),
            Ok(Some((Frame::Luggage(luggage), sockets))) if luggage.sockets() == sockets.len() => {
                take(Arrival::Luggage(luggage, sockets));
            }
            Ok(Some(_)) => return Err(io::Error::new(io::ErrorKind::InvalidData, "it says something else")),
            // It was killed.
            Err(why) if is_end(&why) => return Ok(()),
            Err(why) => return Err(why),
        }
    }
}

/// Tells the running process what is for it.
fn write(stream: &UnixStream, telling: &Receiver<Leaving>) {
    while let Ok(next) = telling.recv() {
        let frame = match next {
            Leaving::ToPredecessor(told) => Frame::ToPredecessor(told),
            Leaving::Orders(orders) => Frame::Orders(orders),
            Leaving::ServersAsked => Frame::ServersAsked,
            Leaving::HasSuccessor(has_one) => Frame::HasSuccessor(has_one),
            // For the one that takes our place.
            Leaving::ToSuccessor(_) | Leaving::Servers(_) | Leaving::Luggage(..) => continue,
        };
        if send(stream, &frame, &[]).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    /// What a process reads that takes another one's place, if that one has written these bytes and then closed.
    fn after(written: &[u8]) -> io::Result<()> {
        let (mut there, here) = UnixStream::pair()?;
        there.write_all(written)?;
        drop(there);
        read(&here, |_| ())
    }

    #[test]
    fn a_running_process_that_was_killed_has_ended_also_in_the_midst_of_a_frame() {
        for written in [&[][..], &[0, 0, 0], &[0, 0, 0, 9, 0, 0, 0, 0, 1]] {
            assert!(after(written).is_ok(), "{written:?}");
        }
        // It has not read all that was sent to it.
        let (there, mut here) = UnixStream::pair().expect("two descriptors");
        here.write_all(b"unread").expect("there is room");
        drop(there);
        assert!(read(&here, |_| ()).is_ok());
    }

    #[test]
    fn a_frame_whose_sockets_had_no_descriptors_is_not_taken_for_the_end_of_the_running_process() {
        let why = after(&[0, 0, 0, 1, 0, 0, 0, 1, 0xc0]).expect_err("it came without its socket");
        assert!(why.to_string().contains("descriptors"), "{why}");
        assert!(after(&[0, 0, 0, 1, 0, 0, 0, 0, 0xc1]).is_err(), "nothing that can be read");
        assert!(after(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]).is_err(), "longer than any");
    }
}
