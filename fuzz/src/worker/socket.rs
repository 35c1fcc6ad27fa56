//! One connection: what is on its way to the pooler, what its socket still takes, who is at the far end.

use units::{ConnId, Kind};
use wire::frontend::{self, Startup};

use super::server::Process;

pub(super) struct Socket {
    pub(super) id: Option<ConnId>,
    pub(super) kind: Kind,
    /// The connection stands; a server's is asked for first.
    pub(super) stands: bool,
    pub(super) reading: bool,
    /// How many more bytes it takes; `None`: any number.
    pub(super) room: Option<usize>,
    /// On its way to the pooler, and whether an end follows.
    pub(super) incoming: Vec<u8>,
    pub(super) ends: bool,
    /// Taken and not looked at yet.
    pub(super) heard: Vec<u8>,
    /// The number of the client at the far end, or the server.
    pub(super) client: u32,
    pub(super) process: Option<Process>,
}

impl Socket {
    pub(super) fn new(id: ConnId, process: Option<Process>) -> Socket {
        let stands = matches!(id.kind(), Kind::Login | Kind::Client);
        Socket {
            id: Some(id),
            kind: id.kind(),
            stands,
            reading: true,
            room: None,
            incoming: Vec::new(),
            ends: false,
            heard: Vec::new(),
            client: 0,
            process,
        }
    }

    pub(super) fn is_client(&self) -> bool {
        matches!(self.kind, Kind::Client | Kind::Login)
    }

    /// A server's, which stands and has not ended.
    pub(super) fn is_live_server(&self) -> bool {
        self.stands && !self.ends && self.kind == Kind::Server
    }

    /// The far end says something, if it is still there.
    pub(super) fn say(&mut self, bytes: &[u8]) {
        if self.id.is_some() && !self.ends {
            self.incoming.extend_from_slice(bytes);
        }
    }

    /// A cancel strikes the server: the client whose statement it was at.
    pub(super) fn strike(&mut self) -> Option<u32> {
        self.process.as_mut()?.strike(&mut self.incoming)
    }

    /// What the pooler asks for by a cancel connection, which ends with it: pid and secret.
    pub(super) fn take_cancel(&mut self) -> Option<(i32, Vec<u8>)> {
        let (packet, used) = frontend::parse_startup(&self.heard).expect("a sound packet")?;
        let key = match packet {
            Startup::Cancel(request) => (request.pid, request.secret.to_vec()),
            Startup::Ssl => {
                self.heard.drain(..used);
                self.incoming.push(b'S');
                return None;
            }
            other => panic!("a cancel connection says {other:?}"),
        };
        self.heard.drain(..used);
        self.ends = true;
        Some(key)
    }

    pub(super) fn is_readable(&self) -> bool {
        self.stands && self.reading && (self.ends || !self.incoming.is_empty())
    }

    /// The next bytes on their way, so many at most if that is not zero; none: the end.
    pub(super) fn read(&mut self, piece: usize) -> Vec<u8> {
        let all = units::limits::CHUNK_LEN_MAX.min(self.incoming.len());
        // Pieces of a byte of something long would only take time.
        let len = if piece == 0 { all } else { piece.max(self.incoming.len() / 64).min(all) };
        self.incoming.drain(..len).collect()
    }

    /// How many of so many bytes it takes.
    pub(super) fn takes(&mut self, len: usize) -> usize {
        let taken = self.room.unwrap_or(usize::MAX).min(len);
        self.room = self.room.map(|room| room - taken);
        taken
    }
}
