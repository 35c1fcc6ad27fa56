//! All connections of a run, how their bytes are cut, and whether these wait where they are.

use std::ops::{Index, IndexMut};

use units::ConnId;

use super::socket::Socket;

#[derive(Default)]
pub(super) struct Sockets {
    all: Vec<Socket>,
    /// How many bytes come at a time; zero: all.
    piece: usize,
    /// Bytes wait where they are, so that more come together.
    holds: bool,
}

impl Sockets {
    pub(super) fn set_piece(&mut self, piece: usize) {
        self.piece = piece;
    }

    pub(super) fn set_holds(&mut self, holds: bool) {
        self.holds = holds;
    }

    /// Returns the new one's index.
    pub(super) fn push(&mut self, socket: Socket) -> usize {
        self.all.push(socket);
        self.all.len() - 1
    }

    pub(super) fn find(&self, conn: ConnId) -> Option<usize> {
        self.all.iter().position(|socket| socket.id == Some(conn))
    }

    /// The one that an action names: it is there.
    pub(super) fn known(&self, conn: ConnId) -> usize {
        self.find(conn).unwrap_or_else(|| panic!("{conn:?} is not there"))
    }

    /// Those for which it is true.
    pub(super) fn all_that(&self, is: impl Fn(&Socket) -> bool) -> Vec<usize> {
        (0..self.all.len()).filter(|at| is(&self.all[*at])).collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Socket> {
        self.all.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// A server or cancel connection that was asked for and is not decided about.
    pub(super) fn opening(&self) -> Option<usize> {
        self.all.iter().position(|socket| socket.id.is_some() && !socket.stands)
    }

    /// The next bytes that come to the pooler, and by which connection; none: its end. Servers come before clients.
    pub(super) fn read(&mut self) -> Option<(ConnId, Vec<u8>)> {
        if self.holds {
            return None;
        }
        let readable = |socket: &Socket| socket.id.is_some() && socket.is_readable();
        let server = self.all.iter().position(|socket| readable(socket) && !socket.is_client());
        let index = server.or_else(|| self.all.iter().position(readable))?;
        let conn = self.all[index].id.expect("it was looked for");
        Some((conn, self.all[index].read(self.piece)))
    }

    /// The server that a cancel with this key strikes, if it is at something.
    pub(super) fn struck_by(&self, pid: i32, secret: &[u8]) -> Option<usize> {
        let has_key =
            |socket: &Socket| socket.process.as_ref().is_some_and(|process| process.is_struck_by(pid, secret));
        self.all.iter().position(has_key)
    }
}

impl Index<usize> for Sockets {
    type Output = Socket;

    fn index(&self, index: usize) -> &Socket {
        &self.all[index]
    }
}

impl IndexMut<usize> for Sockets {
    fn index_mut(&mut self, index: usize) -> &mut Socket {
        &mut self.all[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Kind;

    fn socket(number: u32, kind: Kind, incoming: &[u8]) -> Socket {
        let conn = ConnId::new(kind, 0, number, 0);
        Socket { stands: true, incoming: incoming.to_vec(), ..Socket::new(conn, None) }
    }

    #[test]
    fn servers_come_first_and_bytes_in_pieces() {
        let mut sockets = Sockets::default();
        sockets.push(socket(1, Kind::Client, b"client"));
        sockets.push(socket(2, Kind::Server, b"server"));
        sockets.set_holds(true);
        assert!(sockets.read().is_none());
        sockets.set_holds(false);
        sockets.set_piece(4);
        let mut heard = || sockets.read().map(|(_, bytes)| bytes);
        assert_eq!(heard().as_deref(), Some(&b"serv"[..]));
        assert_eq!(heard().as_deref(), Some(&b"er"[..]));
        assert_eq!(heard().as_deref(), Some(&b"clie"[..]));
    }
}
