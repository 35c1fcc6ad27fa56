//! One client at the door: what it is told, and how it would log in if it knew the password.

use auth::{ClientExchange, Keys, Md5Hash};
use machine::arrival::Arrival;
use machine::observe::Peer;
use units::{ConnId, limits};
use wire::backend::{Authentication, Fields, tag};
use wire::frontend;
use wire::{HEADER_LEN, Header};

use super::setting::PASSWORD;

/// What a client's socket holds.
const PENDING_MAX: usize = 256 * 1024;

/// More of what a client sent is not needed to compare.
const SENT_KEPT: usize = 160 * 1024;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Undecided,
    /// By the door.
    Closed,
    /// It went by itself.
    Gone,
    Welcome,
}

pub(super) struct Guest {
    pub(super) conn: Option<ConnId>,
    pub(super) peer: Peer,
    pub(super) fate: Fate,
    /// It was closed with its last words on their way.
    pub(super) got_last_words: bool,
    /// It gave the answer that only its user's password gives.
    pub(super) proved: bool,
    /// How many more bytes its socket takes.
    pub(super) room: Option<usize>,
    /// It did not take all that it was told.
    is_deaf: bool,
    /// Said and not read yet; in pieces of this length if it is not zero.
    pub(super) pending: Vec<u8>,
    pub(super) piece: usize,
    pub(super) reading: bool,
    /// What was read of it, the end of it if it is long.
    pub(super) sent: Vec<u8>,
    pub(super) heard: Vec<u8>,
    user: String,
    exchange: Option<ClientExchange>,
}

impl Guest {
    pub(super) fn new(conn: ConnId, peer: Peer) -> Guest {
        Guest {
            conn: Some(conn),
            peer,
            fate: Fate::Undecided,
            got_last_words: false,
            proved: false,
            room: None,
            is_deaf: false,
            pending: Vec::new(),
            piece: 0,
            reading: true,
            sent: Vec::new(),
            heard: Vec::new(),
            user: String::new(),
            exchange: None,
        }
    }

    /// Its socket takes so many of these bytes.
    pub(super) fn takes(&mut self, bytes: &[u8]) -> usize {
        let taken = self.room.unwrap_or(usize::MAX).min(bytes.len());
        self.room = self.room.map(|room| room - taken);
        self.heard.extend_from_slice(&bytes[..taken]);
        self.is_deaf |= taken < bytes.len();
        taken
    }

    /// It says so much more, as far as its socket has room for it.
    pub(super) fn say(&mut self, bytes: &[u8], piece: usize) {
        let room = PENDING_MAX.saturating_sub(self.pending.len()).min(bytes.len());
        self.pending.extend_from_slice(&bytes[..room]);
        self.piece = piece;
    }

    /// What is read of it next, if anything is.
    pub(super) fn next_piece(&mut self, cuts: bool) -> Option<(ConnId, Vec<u8>)> {
        let conn = self.conn.filter(|_| self.reading && !self.pending.is_empty())?;
        let all = self.pending.len().min(limits::CHUNK_LEN_MAX);
        // Pieces of a byte of something long would only take time.
        let len = if self.piece == 0 || !cuts { all } else { self.piece.max(self.pending.len() / 256).min(all) };
        let piece: Vec<u8> = self.pending.drain(..len).collect();
        self.sent.extend_from_slice(&piece);
        let more = self.sent.len().saturating_sub(SENT_KEPT);
        self.sent.drain(..more);
        Some((conn, piece))
    }

    pub(super) fn calls_itself(&mut self, user: &str) {
        self.user = user.to_owned();
    }

    /// The process's own user over the Unix socket, who wants the console.
    pub(super) fn is_owner(&self, arrival: &Arrival) -> bool {
        let owner = matches!(self.peer, Peer::Unix { uid: 1000, .. });
        owner && arrival.console.is_some() && &*arrival.identity.user == "pgbouncer"
    }

    pub(super) fn asked_for_encryption(&self) -> bool {
        let refused: &[u8] = b"received unencrypted data";
        self.heard.first() == Some(&b'N') || self.heard.windows(refused.len()).any(|words| words == refused)
    }

    /// The messages it was told, without answers to requests for encryption; the last may be cut off.
    fn messages(&self) -> Vec<(u8, &[u8])> {
        let letters = self.heard.iter().take_while(|byte| **byte == b'N').count();
        let (mut rest, mut found) = (&self.heard[letters..], Vec::new());
        while let Some(header) = Header::parse(rest).expect("what the door writes has sound lengths") {
            let Some(body) = rest.get(HEADER_LEN..header.total_len()) else { break };
            found.push((header.tag, body));
            rest = &rest[header.total_len()..];
        }
        assert!(rest.is_empty() || self.is_deaf, "half a message: {}", rest.escape_ascii());
        found
    }

    /// What it must have been told by its end.
    pub(super) fn check(&self) {
        assert_ne!(self.fate, Fate::Undecided);
        let messages = self.messages();
        let is_refused = messages.last().is_some_and(|(message, _)| *message == tag::ERROR);
        // Who went, or did not listen, may have been refused all the same.
        assert!(
            is_refused == self.got_last_words || self.is_deaf || self.fate == Fate::Gone,
            "refused, told, and closed"
        );
        for (at, (message, body)) in messages.iter().enumerate() {
            match *message {
                tag::AUTHENTICATION => drop(Authentication::decode(body).expect("it is sound")),
                tag::NEGOTIATE_VERSION => drop(wire::backend::NegotiateVersion::decode(body).expect("it is sound")),
                tag::ERROR => {
                    assert_eq!(at + 1, messages.len(), "nothing follows the last words");
                    let fields = Fields::decode(body);
                    assert!(fields.is_fatal() && fields.sqlstate().is_some());
                    assert!(fields.message().is_some_and(|text| !text.is_empty()));
                    assert_ne!(self.fate, Fate::Welcome, "refused and let in");
                }
                other => panic!("a door says no {}", other.escape_ascii()),
            }
        }
    }

    /// The right answer to what it was asked last, if it was asked anything.
    pub(super) fn answer(&mut self) -> Option<Vec<u8>> {
        let messages = self.messages();
        let (_, body) = messages.last().filter(|(message, _)| *message == tag::AUTHENTICATION)?;
        let mut out = Vec::new();
        match Authentication::decode(body).expect("it is sound") {
            Authentication::CleartextPassword => {
                frontend::Password { password: PASSWORD.as_bytes() }.encode(&mut out);
                self.proved = true;
            }
            Authentication::Md5Password { salt } => {
                let answer = auth::md5::response(&Md5Hash::of(PASSWORD, &self.user), salt);
                frontend::Password { password: answer.as_bytes() }.encode(&mut out);
                self.proved = true;
            }
            Authentication::Sasl { .. } => {
                let (exchange, first) = ClientExchange::start(&[7; auth::scram::NONCE_LEN]);
                let mechanism = auth::scram::MECHANISM.as_bytes();
                frontend::SaslInitial { mechanism, response: Some(&first) }.encode(&mut out);
                self.exchange = Some(exchange);
            }
            Authentication::SaslContinue(line) => {
                let line = line.to_vec();
                let exchange = self.exchange.as_mut()?;
                let challenge = exchange.challenge(&line).ok()?;
                let keys = Keys::derive(PASSWORD, &challenge.salt, challenge.iterations);
                frontend::SaslResponse { response: &exchange.respond(&keys).ok()? }.encode(&mut out);
                self.proved = true;
            }
            _ => return None,
        }
        Some(out)
    }
}
