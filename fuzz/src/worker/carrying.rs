//! Carries out what the machines ask for, as the engine must.

use pooling::{Action, Actions, Event, Hangup, Mail, Place, ToWorker};
use units::{ConnId, Kind, WorkerId};

use super::World;
use super::server::Process;
use super::socket::Socket;

impl World<'_> {
    pub(super) fn carry_out(
        &mut self,
        from: Place,
        action: Action,
        actions: &Actions,
        chunk: &[u8],
        blocked: &mut Vec<ConnId>,
    ) {
        match action {
            Action::Send { conn, piece } => self.send(from, conn, actions.bytes(piece, chunk), blocked),
            Action::Interest { conn, read, .. } => {
                let index = self.known(conn);
                self.sockets[index].reading = read;
            }
            Action::Close { conn, .. } => {
                let index = self.known(conn);
                self.sockets[index].id = None;
            }
            Action::Open { conn, .. } => {
                let process =
                    (conn.kind() == Kind::Server).then(|| Process::new(&self.database, self.is_session, conn));
                self.sockets.push(Socket::new(conn, process));
            }
            Action::Compute { conn, job } => self.jobs.push_back((conn, job)),
            Action::Post { mail, carrying } => self.post(from, mail, carrying),
            Action::Adopt { conn } => {
                let index = self.in_hand.take().expect("a connection is adopted from the mail that carries it");
                let socket = &mut self.sockets[index];
                (socket.id, socket.kind, socket.reading) = (Some(conn), conn.kind(), true);
            }
            Action::Publish { pool, cell } => {
                let Place::Worker(worker) = from else { panic!("only workers have cells") };
                self.board.set(pool, worker, cell);
            }
            Action::PublishClasses { pool, cells } => {
                let Place::Worker(worker) = from else { panic!("only workers have cells") };
                self.board.set_classes(pool, worker, cells);
            }
            Action::AskControl { conn, question } => {
                let (mut bytes, close) = (Vec::new(), question.text.starts_with(b"q"));
                wire::backend::encode_command_complete(&mut bytes, "SHOW");
                wire::backend::encode_ready(&mut bytes, wire::backend::Status::Idle);
                let answer = ToWorker::Answer { conn, bytes, close };
                self.letters.push_back((Mail::ToWorker(WorkerId(conn.owner()), answer), None));
            }
            Action::Finished => {
                if let Place::Worker(worker) = from {
                    self.finished.insert(worker);
                }
            }
            Action::Report { ticket, .. } => assert_eq!(ticket, 7),
            Action::Tell(fact) => assert!(!fact.text.is_empty()),
        }
    }

    /// Actions name connections that are there.
    fn known(&self, conn: ConnId) -> usize {
        self.socket(conn).unwrap_or_else(|| panic!("{conn:?} is not there"))
    }

    fn send(&mut self, from: Place, conn: ConnId, bytes: &[u8], blocked: &mut Vec<ConnId>) {
        let index = self.known(conn);
        assert!(self.sockets[index].stands, "{conn:?} is not connected yet");
        assert!(!bytes.is_empty());
        let behind = !self.machine(from).backlog(conn).is_empty();
        let taken = if behind { 0 } else { self.sockets[index].takes(bytes.len()) };
        self.hear(index, &bytes[..taken]);
        if taken < bytes.len() {
            self.machine(from).keep(conn, &bytes[taken..]);
            blocked.push(conn);
        }
    }

    /// The far end gets bytes.
    pub(super) fn hear(&mut self, index: usize, bytes: &[u8]) {
        let lies = self.lies;
        let socket = &mut self.sockets[index];
        socket.heard.extend_from_slice(bytes);
        if socket.is_client() {
            super::client::hear(socket, lies, &mut self.seats);
        }
    }

    fn post(&mut self, from: Place, mail: Mail, carrying: Option<ConnId>) {
        let socket = carrying.map(|conn| self.known(conn));
        if let Some(index) = socket {
            self.sockets[index].id = None;
        }
        let returnable = mail.may_be_returned();
        if let Place::Worker(worker) = mail.place() {
            assert!(usize::from(worker.0) < self.workers.len(), "there is no worker {}", worker.0);
        }
        if returnable && self.full {
            self.refused.push_back((from, mail, socket));
        } else {
            self.letters.push_back((mail, socket));
        }
    }

    /// A connection breaks, or its far end closes it behind what is on its way.
    pub(super) fn hang_up(&mut self, index: usize, why: Hangup) {
        let socket = &mut self.sockets[index];
        let Some(conn) = socket.id.filter(|_| socket.stands) else { return };
        socket.process = None;
        if why == Hangup::Closed {
            socket.ends = true;
        } else {
            socket.incoming.clear();
            self.step(World::place(conn), Event::Hangup { conn, why });
        }
        self.settle();
    }
}

/// An action as a line of the trace.
pub(super) fn shown(action: &Action, actions: &Actions, chunk: &[u8]) -> String {
    match action {
        Action::Send { conn, piece } => format!("Send {conn:?} {}", actions.bytes(*piece, chunk).escape_ascii()),
        other => format!("{other:?}"),
    }
}
