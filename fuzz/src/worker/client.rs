//! The far ends of clients' connections: what they say of themselves in their statements, and what they hear.

use std::collections::BTreeSet;

use sim::statement::Mark;
use wire::backend::{BackendKeyData, DataRow, tag};
use wire::{HEADER_LEN, Header};

use super::socket::Socket;

/// As many clients are there at a time.
pub(super) const SEATS: usize = 4;

/// Clients' numbers start here, so that no other bytes look like a client's mark.
const FIRST: u32 = 73_190_001;

pub(super) struct Client {
    number: u32,
    socket: usize,
    /// Whether it says whose its statements are: until it says something of the fuzzer's making, which may change
    /// settings that the mark tells.
    is_marked: bool,
    statements: u32,
    /// Rows that it heard, with its mark or without.
    rows: u32,
    /// Pid and secret of its cancel key.
    key: Option<(i32, Vec<u8>)>,
}

impl Client {
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn socket(&self) -> usize {
        self.socket
    }

    pub(super) fn key(&self) -> Option<(i32, Vec<u8>)> {
        self.key.clone()
    }

    /// What its next statement carries.
    pub(super) fn mark(&mut self) -> Option<Mark> {
        self.statements += 1;
        self.is_marked.then_some(Mark { client: self.number, number: self.statements })
    }

    /// From now on it does not say whose its statements are.
    pub(super) fn drop_marks(&mut self) {
        self.is_marked = false;
    }
}

/// All that are there or were, by seat.
pub(super) struct Clients {
    seats: [Option<Client>; SEATS],
    /// The number of the last that has come.
    last: u32,
    /// Whose keys were used in requests to cancel.
    cancelled: BTreeSet<u32>,
}

impl Clients {
    pub(super) fn new() -> Clients {
        Clients { seats: Default::default(), last: FIRST, cancelled: BTreeSet::new() }
    }

    /// A number for the next.
    pub(super) fn number(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    /// It has come by this socket.
    pub(super) fn sit(&mut self, seat: usize, number: u32, socket: usize, is_marked: bool) {
        self.seats[seat] = Some(Client { number, socket, is_marked, statements: 0, rows: 0, key: None });
    }

    pub(super) fn get(&self, seat: usize) -> Option<&Client> {
        self.seats[seat].as_ref()
    }

    pub(super) fn take(&mut self, seat: usize) -> Option<Client> {
        self.seats[seat].take()
    }

    /// It has what [`Clients::take`] took.
    pub(super) fn put(&mut self, seat: usize, client: Client) {
        self.seats[seat] = Some(client);
    }

    pub(super) fn with_number(&self, number: u32) -> Option<&Client> {
        self.seats.iter().flatten().find(|client| client.number == number)
    }

    /// A client asks for a cancel with its key.
    pub(super) fn note_cancel(&mut self, number: u32) {
        self.cancelled.insert(number);
    }

    pub(super) fn has_cancelled(&self, number: u32) -> bool {
        self.cancelled.contains(&number)
    }

    /// Looks at whole messages that have come. If servers lie they may be anything.
    pub(super) fn hear(&mut self, socket: &mut Socket, lies: bool) {
        if lies {
            socket.heard.clear();
            return;
        }
        let (key, rows) = listen(socket);
        if let Some(client) = self.seats.iter_mut().flatten().find(|client| client.number == socket.client) {
            client.key = key.or_else(|| client.key.take());
            client.rows += rows;
        }
    }

    /// How many rows it has heard, and whether it has a key.
    #[cfg(test)]
    pub(super) fn heard(&self, seat: usize) -> Option<(u32, bool)> {
        self.get(seat).map(|client| (client.rows, client.key.is_some()))
    }
}

/// The key and how many rows there are among the whole messages that have come.
fn listen(socket: &mut Socket) -> (Option<(i32, Vec<u8>)>, u32) {
    let mut rest = &socket.heard[..];
    let (mut key, mut rows) = (None, 0);
    while let Some(header) = Header::parse(rest).expect("what clients hear has sound lengths") {
        let Some(body) = rest.get(HEADER_LEN..header.total_len()) else { break };
        rest = &rest[header.total_len()..];
        match header.tag {
            tag::BACKEND_KEY_DATA => {
                let data = BackendKeyData::decode(body).expect("our own key");
                key = Some((data.pid, data.secret.to_vec()));
            }
            tag::DATA_ROW => {
                rows += 1;
                check_row(body, socket.client);
            }
            tag::COPY_DATA | tag::FUNCTION_CALL_RESPONSE => is_ours(body, socket.client),
            other => assert!(b"RSKZCETDtn123sIGHVcdNAW".contains(&other), "a client hears {}", other.escape_ascii()),
        }
    }
    let used = socket.heard.len() - rest.len();
    socket.heard.drain(..used);
    (key, rows)
}

fn check_row(body: &[u8], number: u32) {
    let row = DataRow::decode(body).expect("a row of the simulator's PostgreSQL");
    row.values().flatten().for_each(|value| is_ours(value, number));
}

/// I2: what carries a client's mark reaches that client only.
fn is_ours(value: &[u8], number: u32) {
    let text = String::from_utf8_lossy(value);
    let Some(at) = text.find("c7319") else { return };
    let digits: String = text[at + 1..].chars().take_while(char::is_ascii_digit).collect();
    assert_eq!(digits.parse(), Ok(number), "I2: client {number} hears {}", value.escape_ascii());
}
