//! The simulator's PostgreSQL as all servers of a run: whether they answer by themselves, and what they find wrong.

use machine::Settings;
use settings::PoolMode;
use sim::shared::Server;
use units::{ConnId, Kind};

use super::server::Process;
use super::socket::Socket;

pub(super) struct Postgres {
    /// What all servers share.
    database: Server,
    /// A client keeps its server, so that only it may speak there.
    is_session: bool,
    /// Servers log in and answer by themselves.
    serves: bool,
    /// Some server has said what no PostgreSQL says: what clients hear may be anything.
    lies: bool,
}

impl Postgres {
    pub(super) fn new(settings: &Settings) -> Postgres {
        let is_session = settings.global.pools.pool_mode == PoolMode::Session;
        Postgres { database: Server::default(), is_session, serves: true, lies: false }
    }

    pub(super) fn serves(&self) -> bool {
        self.serves
    }

    pub(super) fn set_serves(&mut self, serves: bool) {
        self.serves = serves;
    }

    pub(super) fn lies(&self) -> bool {
        self.lies
    }

    /// The far end of a connection that the pooler asks for.
    pub(super) fn socket(&self, conn: ConnId) -> Socket {
        let is_server = conn.kind() == Kind::Server;
        Socket::new(conn, is_server.then(|| Process::new(&self.database, self.is_session, conn)))
    }

    /// A server says what it was not asked.
    pub(super) fn lie(&mut self, socket: &mut Socket, bytes: &[u8]) {
        if socket.is_live_server() {
            self.lies = true;
            socket.incoming.extend_from_slice(bytes);
        }
    }

    /// A server answers one message. False: there is none.
    pub(super) fn answer(&self, socket: &mut Socket) -> bool {
        let Some(process) = &mut socket.process else { return false };
        let Some(used) = process.message(&socket.heard, &mut socket.incoming) else { return false };
        socket.heard.drain(..used);
        self.judge(socket);
        true
    }

    /// A statement that takes time comes to its end.
    pub(super) fn wake(&self, socket: &mut Socket) {
        if let Some(process) = socket.process.as_mut().filter(|process| process.is_at_work()) {
            process.wake(false, &mut socket.incoming);
            self.judge(socket);
        }
    }

    /// What a server finds wrong with what it was told. A client may say anything unmarked (I11).
    fn judge(&self, socket: &mut Socket) {
        let Some(process) = &mut socket.process else { return };
        socket.ends |= process.has_ended();
        assert!(process.is_convinced() || self.lies, "a server is shown a wrong password");
        if let Some(complaint) = process.take_complaint().filter(|complaint| complaint.invariant != 11) {
            assert!(self.lies, "I{}: {}", complaint.invariant, complaint.text);
        }
    }
}
