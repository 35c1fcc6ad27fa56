//! The engine's part in an online upgrade: sockets that leave for another process, and those that come from one.
//!
//! ```text
//!   running process   Action::PostToProcess ──► its sockets leave epoll ──► Leaving, to whoever writes to the other process
//!   new process       Handle::take_in ──► waiting room ──► coordinator: Action::Placed ──► TakeIn, to a worker, with the sockets
//! ```
//!
//! Who speaks with the other process, and how, is not known here.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

use machine::action::Placed;
use machine::mail::TakeIn;
use machine::processes::{FromProcess, ToProcess};
use machine::upgrade::{Luggage, ServersLeft, ToPlace, Turn};
use machine::{Mail, Orders, ToCoordinator, ToWorker};
use units::ProcessId;

use crate::connections::Parcel;
use crate::handle::Handle;
use crate::heritage::{Heritage, Leaving};
use crate::host::Host;
use crate::letter::Letter;

/// Sends mail to another process. What moves leaves with its sockets.
pub(crate) fn post_to_process(host: &mut Host, process: ProcessId, mail: ToProcess) {
    let leaving = match mail {
        ToProcess::ToGranter(told) => Leaving::ToSuccessor(told),
        ToProcess::ToMember(told) => Leaving::ToPredecessor(told),
        ToProcess::Moved(luggage, conns) => {
            let sockets: Option<Vec<OwnedFd>> = conns
                .into_iter()
                .map(|conn| Some(host.connections.remove(conn)?.unregistered(&mut host.poll).fd))
                .collect();
            // A connection that is handed over is open.
            let Some(sockets) = sockets else { return };
            Leaving::Luggage(luggage, sockets)
        }
    };
    host.shared.upgrade.tell(process, leaving);
}

/// What another process has handed over has got a home.
pub(crate) fn placed(host: &mut Host, ticket: u64, place: Option<Placed>) {
    // Without one its sockets are closed.
    let Some(((luggage, sockets), place)) = host.shared.upgrade.take(ticket).zip(place) else { return };
    let Placed { worker, pool, homes, life } = place;
    let take_in = Box::new(TakeIn { luggage: *luggage, pool, homes, life });
    let mail = Mail::ToWorker(worker, ToWorker::TakeIn(take_in));
    let mut parcel = None;
    for fd in sockets.into_iter().rev() {
        parcel = Some(Parcel { companion: parcel.map(Box::new), ..Parcel::new(fd) });
    }
    host.shared.boxes[host.shared.thread_of(mail.place())].insist(Letter::Mail { mail, parcel });
}

impl Handle {
    /// What another process needs to take our place. The listening sockets stay ours too.
    ///
    /// # Errors
    /// The kernel's, if a listening socket cannot be copied; or the process is about to end.
    pub fn heritage(&self) -> io::Result<Heritage> {
        let (sender, receiver) = std::sync::mpsc::channel();
        self.mailbox(0, Letter::LendListeners(sender));
        let listeners = receiver.recv().map_err(|_| io::Error::other("it is about to end"))??;
        Ok(Heritage {
            listeners: listeners.into_iter().map(Arc::new).collect(),
            clock_zero: self.shared.clock.zero_nanos(),
            names: self.shared.upgrade.names,
        })
    }

    /// What is for the process that takes our place goes there from now on.
    pub fn set_successor(&self, writer: Sender<Leaving>) {
        self.shared.upgrade.set_writer(ProcessId::Successor, Some(writer));
    }

    /// One of those was written, or never will be.
    pub fn note_written(&self) {
        self.shared.upgrade.unwritten.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether something for the process that takes our place is not written yet.
    #[must_use]
    pub fn has_unwritten(&self) -> bool {
        self.shared.upgrade.unwritten.load(Ordering::Acquire) > 0
    }

    /// The same, for the process whose place we take.
    pub fn set_predecessor(&self, writer: Option<Sender<Leaving>>) {
        self.shared.upgrade.set_writer(ProcessId::Predecessor, writer);
    }

    /// Whether the process whose place we take is still there.
    #[must_use]
    pub fn has_predecessor(&self) -> bool {
        self.shared.upgrade.reaches(ProcessId::Predecessor)
    }

    /// Whether new clients are accepted. While they are not, they wait in the kernel, or go to another process that listens too.
    pub fn accept(&self, accepts: bool) {
        self.mailbox(0, Letter::Accept(accepts));
    }

    /// Whether the files of Unix sockets are ours to remove.
    pub fn keep_socket_files(&self, keeps: bool) {
        self.mailbox(0, Letter::KeepFiles(keeps));
    }

    fn turn(&self, turn: Turn) {
        self.post(Mail::ToCoordinator(ToCoordinator::Upgrade(Box::new(turn))));
    }

    /// Another process takes our place: what can move goes there.
    pub fn hand_over(&self) {
        self.turn(Turn::HandOver);
    }

    /// What has not moved by now ends between two transactions, until the other process has left. The machines go on.
    pub fn end_what_stays(&self) {
        self.turn(Turn::EndWhatStays);
    }

    /// What the control planes of two processes tell each other.
    #[must_use]
    pub fn other_control(&self) -> OtherControl<'_> {
        OtherControl { handle: self }
    }

    /// Another process sends this to the coordinator.
    pub fn from_process(&self, process: ProcessId, said: FromProcess) {
        self.post(Mail::ToCoordinator(ToCoordinator::Process(process, Box::new(said))));
    }

    /// Another process has left, or does not read its mail.
    pub fn process_left(&self, process: ProcessId) {
        if process == ProcessId::Predecessor {
            self.set_predecessor(None);
        }
        self.from_process(process, FromProcess::Left);
    }

    /// Takes in what the process whose place we take has handed over.
    pub fn take_in(&self, luggage: Luggage, sockets: Vec<OwnedFd>) {
        self.place(luggage, sockets, Some(ProcessId::Predecessor));
    }

    /// Takes back what could not be handed over.
    pub fn take_back(&self, luggage: Luggage, sockets: Vec<OwnedFd>) {
        self.place(luggage, sockets, None);
    }

    fn place(&self, luggage: Luggage, sockets: Vec<OwnedFd>, from: Option<ProcessId>) {
        let ticket = self.shared.ticket();
        let session = luggage.session.as_ref();
        let to_place = ToPlace {
            ticket,
            key: luggage.key.clone(),
            session: session.map(|session| Arc::clone(&session.identity.user)),
            console: session.is_some_and(|session| session.console.is_some()),
            server: luggage.server.is_some(),
            from,
        };
        let mut room = self.shared.upgrade.waiting_room.lock().expect("nothing panics while it holds this lock");
        room.insert(ticket, (Box::new(luggage), sockets));
        drop(room);
        self.turn(Turn::Place(to_place));
    }
}

/// The control plane of another process: the one whose place we take, or the one that takes ours.
#[derive(Copy, Clone)]
pub struct OtherControl<'a> {
    handle: &'a Handle,
}

impl OtherControl<'_> {
    /// Tells the process whose place we take, if it still lives, whether another one takes ours: if we end, it need not go on then.
    pub fn tell_of_successor(&self, has_one: bool) {
        self.handle.shared.upgrade.tell(ProcessId::Predecessor, Leaving::HasSuccessor(has_one));
    }

    /// The process whose place we take is to do what is ordered here, too.
    pub fn order(&self, orders: Orders) {
        // What it has said before it was told is not about this order.
        drop(
            self.handle
                .shared
                .upgrade
                .servers_elsewhere
                .lock()
                .expect("nothing panics while it holds this lock")
                .take(),
        );
        self.handle.shared.upgrade.tell(ProcessId::Predecessor, Leaving::Orders(Box::new(orders)));
    }

    /// The servers that the process whose place we take still has: none without one. `None`: it has not answered since this was asked
    /// last; it is asked again now.
    #[must_use]
    pub fn servers(&self) -> Option<Vec<ServersLeft>> {
        if !self.handle.has_predecessor() {
            return Some(Vec::new());
        }
        let said = self
            .handle
            .shared
            .upgrade
            .servers_elsewhere
            .lock()
            .expect("nothing panics while it holds this lock")
            .take();
        self.handle.shared.upgrade.tell(ProcessId::Predecessor, Leaving::ServersAsked);
        said
    }

    /// It has answered.
    pub fn note_servers(&self, servers: Vec<ServersLeft>) {
        *self.handle.shared.upgrade.servers_elsewhere.lock().expect("nothing panics while it holds this lock") =
            Some(servers);
    }

    /// The process that takes our place has asked which servers are left here.
    pub fn tell_servers(&self, servers: Vec<ServersLeft>) {
        self.handle.shared.upgrade.tell(ProcessId::Successor, Leaving::Servers(servers));
    }
}
