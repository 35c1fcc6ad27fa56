//! The far end of a client's connection: what it says of itself in its statements, and what it hears.

use sim::statement::Mark;
use wire::backend::{BackendKeyData, DataRow, tag};
use wire::{HEADER_LEN, Header};

use super::socket::Socket;

/// Clients' numbers start here, so that no other bytes look like a client's mark.
pub(super) const FIRST: u32 = 73_190_001;

pub(super) struct Client {
    pub(super) number: u32,
    pub(super) socket: usize,
    /// Whether it says whose its statements are: until it says something of the fuzzer's making, which may change
    /// settings that the mark tells.
    pub(super) is_marked: bool,
    pub(super) statements: u32,
    /// Rows that it heard, with its mark or without.
    pub(super) rows: u32,
    /// Pid and secret of its cancel key.
    pub(super) key: Option<(i32, i32)>,
}

impl Client {
    /// What its next statement carries.
    pub(super) fn mark(&mut self) -> Option<Mark> {
        self.statements += 1;
        self.is_marked.then_some(Mark { client: self.number, number: self.statements })
    }
}

/// Looks at whole messages that have come. If servers lie they may be anything.
pub(super) fn hear(socket: &mut Socket, lies: bool, clients: &mut [Option<Client>]) {
    if lies {
        socket.heard.clear();
        return;
    }
    let client = clients.iter_mut().flatten().find(|client| client.number == socket.client);
    let mut rest = &socket.heard[..];
    let (mut key, mut rows) = (None, 0);
    while let Some(header) = Header::parse(rest).expect("what clients hear has sound lengths") {
        let Some(body) = rest.get(HEADER_LEN..header.total_len()) else { break };
        rest = &rest[header.total_len()..];
        match header.tag {
            tag::BACKEND_KEY_DATA => {
                let data = BackendKeyData::decode(body).expect("our own key");
                let secret = *data.secret.first_chunk().expect("protocol 3.0 has four bytes");
                key = Some((data.pid, i32::from_be_bytes(secret)));
            }
            tag::DATA_ROW => {
                rows += 1;
                check_row(body, socket.client);
            }
            tag::COPY_DATA | tag::FUNCTION_CALL_RESPONSE => is_ours(body, socket.client),
            other => assert!(b"RSKZCETDtn123sIGHVcdNAW".contains(&other), "a client hears {}", other.escape_ascii()),
        }
    }
    if let Some(client) = client {
        client.key = key.or(client.key);
        client.rows += rows;
    }
    let used = socket.heard.len() - rest.len();
    socket.heard.drain(..used);
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
