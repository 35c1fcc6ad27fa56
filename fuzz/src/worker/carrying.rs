//! Carries out what the machines ask for, as the engine must.

use machine::{Action, Actions, Mail, Place, ToWorker};
use units::{ConnId, WorkerId};

use super::World;

impl World {
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
                let index = self.sockets.known(conn);
                self.sockets[index].reading = read;
            }
            Action::Close { conn, .. } => {
                let index = self.sockets.known(conn);
                self.sockets[index].id = None;
            }
            Action::Open { conn, .. } => {
                self.sockets.push(self.postgres.socket(conn));
            }
            Action::Secure { conn, .. } => self.handshakes.push_back(conn),
            Action::Compute { conn, job } => self.jobs.push_back((conn, job)),
            Action::Ask { .. } => panic!("here others are not asked who a client is"),
            Action::Post { mail, carrying } => self.post(from, mail, carrying),
            Action::Adopt { conn } => {
                let socket = &mut self.sockets[self.post.adopt()];
                (socket.id, socket.kind, socket.reading) = (Some(conn), conn.kind(), true);
            }
            Action::Publish { pool, cell } => {
                let Place::Worker(worker) = from else { panic!("only workers have cells") };
                self.machines.board().set(pool, worker, cell);
            }
            Action::PublishClasses { pool, cells } => {
                let Place::Worker(worker) = from else { panic!("only workers have cells") };
                self.machines.board().set_classes(pool, worker, cells);
            }
            Action::AskControl { conn, question } => {
                let (mut bytes, close) = (Vec::new(), question.text.starts_with(b"q"));
                wire::backend::encode_command_complete(&mut bytes, "SHOW");
                wire::backend::encode_ready(&mut bytes, wire::backend::Status::Idle);
                let answer = ToWorker::Answer { conn, bytes, close };
                self.post.put(Mail::ToWorker(WorkerId(conn.owner()), answer));
            }
            Action::Finished => {
                if let Place::Worker(worker) = from {
                    self.finished.insert(worker);
                }
            }
            Action::PostToProcess { .. } | Action::Placed { .. } => unreachable!("no other process takes over"),
            Action::Report { ticket, .. } => assert_eq!(ticket, 7),
            Action::Probe { .. } => {}
            Action::Trace(_) => panic!("here nothing is traced"),
            Action::DoubtName { .. } => {}
            Action::Tell(fact) => assert!(!fact.text.is_empty()),
        }
    }

    fn send(&mut self, from: Place, conn: ConnId, bytes: &[u8], blocked: &mut Vec<ConnId>) {
        let index = self.sockets.known(conn);
        assert!(self.sockets[index].stands, "{conn:?} is not connected yet");
        assert!(!bytes.is_empty());
        let behind = !self.machines.get(from).backlog(conn).is_empty();
        let taken = if behind { 0 } else { self.sockets[index].takes(bytes.len()) };
        self.hear(index, &bytes[..taken]);
        if taken < bytes.len() {
            self.machines.get(from).keep(conn, &bytes[taken..]);
            blocked.push(conn);
        }
    }

    /// The far end gets bytes.
    pub(super) fn hear(&mut self, index: usize, bytes: &[u8]) {
        let socket = &mut self.sockets[index];
        socket.heard.extend_from_slice(bytes);
        if socket.is_client() {
            self.clients.hear(socket, self.postgres.lies());
        }
    }

    fn post(&mut self, from: Place, mail: Mail, carrying: Option<ConnId>) {
        let socket = carrying.map(|conn| self.sockets.known(conn));
        if let Some(index) = socket {
            self.sockets[index].id = None;
        }
        if let Place::Worker(worker) = mail.place() {
            assert!(self.machines.has_worker(worker), "there is no worker {}", worker.0);
        }
        self.post.send(from, mail, socket);
    }
}

/// An action as a line of the trace.
pub(super) fn shown(action: &Action, actions: &Actions, chunk: &[u8]) -> String {
    match action {
        Action::Send { conn, piece } => format!("Send {conn:?} {}", actions.bytes(*piece, chunk).escape_ascii()),
        other => format!("{other:?}"),
    }
}
