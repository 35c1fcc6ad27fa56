//! The requests sent to each server with their times, and how much of the answers the pooler has read: they decide for
//! which request a cancel may be (I4).
//!
//! ```text
//!   sent       Q₁ ──────► S₂ ──► Q₃                        when the pooler began to send each message
//!   PostgreSQL   └ unit 0 ──── Z   └ unit 1 ─ Z   └ 2 …    a unit: the requests that one ReadyForQuery answers
//!   read                            ▲                      a cancel that is sent here is aimed at unit 0
//! ```
//!
//! A unit begins when its first message is sent, or when the connection's previous unit of a client was answered. The
//! check is in `checks/i04_cancels`.

use std::collections::VecDeque;

use wire::frontend::{self, CancelRequest, Startup, tag};
use wire::{HEADER_LEN, Header};

/// At most so many units of one connection are remembered.
const UNITS_MAX: usize = 4_096;

/// The requests that one ReadyForQuery answers, or will answer.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Unit {
    /// When the pooler began to send it.
    sent_at: u64,
    /// The later of `sent_at` and the end of the previous unit of a client.
    began_at: u64,
    /// The client that sent it; known once it is answered.
    client: Option<u32>,
    /// How many bytes the server had sent by the end of its answer.
    end: Option<u64>,
    read_at: Option<u64>,
}

/// All of one connection.
#[derive(Debug, Default)]
pub(crate) struct Units {
    kept: VecDeque<Unit>,
    /// The number of the first that is kept.
    first: u64,
    /// How many ReadyForQuery have been sent.
    readies: u64,
    /// When a client's unit was answered last.
    answered_at: u64,
}

impl Units {
    fn get(&self, number: u64) -> Option<&Unit> {
        self.kept.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// The first whose ReadyForQuery the pooler has not read.
    fn head(&self) -> u64 {
        self.first + self.kept.iter().take_while(|unit| unit.read_at.is_some()).count() as u64
    }

    /// The unit that a cancel sent now is for: the first whose end the pooler has not read. `asked`: the requests on
    /// its connection.
    pub(crate) fn aim(&self, now: u64, asked: &Asked) -> Option<Aim> {
        let unit = self.head();
        let began_at = self.get(unit).map(|unit| unit.began_at);
        // It may not have reached the server yet.
        let sent_at = asked.sent.front().map(|at| *at.max(&self.answered_at));
        Some(Aim { unit, began_at: began_at.or(sent_at)?, sent_at: now })
    }

    /// The server has sent `readies` ReadyForQuery so far, the latest as answers to this client; the last one ends at
    /// byte `end`.
    pub(crate) fn answered(&mut self, now: u64, readies: u64, client: Option<u32>, end: u64) {
        if std::mem::replace(&mut self.readies, readies) == readies {
            return;
        }
        if client.is_some() {
            self.answered_at = now;
        }
        if let Some(unit) = self.kept.back_mut() {
            (unit.client, unit.end) = (client, Some(end));
        }
    }

    /// The pooler has read the first `len` bytes of what the server has sent.
    pub(crate) fn read(&mut self, now: u64, len: u64) {
        let unread = self.kept.iter_mut().filter(|unit| unit.read_at.is_none());
        for unit in unread.take_while(|unit| unit.end.is_some_and(|end| end <= len)) {
            unit.read_at = Some(now);
        }
    }

    /// Whether the server's current unit, for this client, is the one that a cancel was for; or was sent by the same
    /// client before the pooler knew that the other had ended, so that the cancel may hit it instead.
    pub(crate) fn is_aimed_at(&self, aim: &Aim, client: Option<u32>) -> bool {
        let Some(now) = self.kept.back().filter(|unit| unit.end.is_none()) else { return false };
        let number = self.first + self.kept.len() as u64 - 1;
        let Some(target) = self.get(aim.unit) else { return false };
        let in_its_place = target.client == client && target.read_at.is_none_or(|at| now.sent_at <= at);
        aim.unit == number || in_its_place
    }

    /// The client whose unit a cancel was for; `None`: it is the pooler's own, or not answered yet.
    pub(crate) fn client_of(&self, aim: &Aim) -> Option<u32> {
        self.get(aim.unit)?.client
    }

    /// The server takes a message that was sent at that moment.
    pub(crate) fn take(&mut self, sent_at: u64) -> bool {
        if self.kept.back().is_some_and(|unit| unit.end.is_none()) {
            return false;
        }
        let began_at = sent_at.max(self.answered_at);
        self.kept.push_back(Unit { sent_at, began_at, client: None, end: None, read_at: None });
        if self.kept.len() > UNITS_MAX {
            self.kept.pop_front();
            self.first += 1;
        }
        true
    }
}

/// The messages that the pooler sends on one of its connections.
#[derive(Debug, Default)]
pub struct Asked {
    /// The startup packet has been sent.
    greeted: bool,
    header: Vec<u8>,
    skip: usize,
    /// The type of the message that began last.
    pub last: u8,
    /// For each message that the server has not read yet: when it was sent.
    sent: VecDeque<u64>,
    /// On a connection of a cancel: which unit it is for.
    pub aim: Option<Aim>,
}

/// The unit that a cancel is for, as far as the pooler could know when it sent it.
#[derive(Copy, Clone, Debug)]
pub struct Aim {
    unit: u64,
    began_at: u64,
    pub sent_at: u64,
}

impl Aim {
    /// For how long that unit had been running.
    #[must_use]
    pub fn lasted(&self) -> u64 {
        self.sent_at.saturating_sub(self.began_at)
    }
}

/// Whether a message belongs to a unit: COPY data and login messages do not.
fn is_asked(message: u8) -> bool {
    !matches!(message, tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL | tag::PASSWORD | tag::TERMINATE)
}

impl Asked {
    /// Reads the startup packet, the first that the pooler sends. Returns the key, if it is a CancelRequest.
    pub(crate) fn greet<'p>(&mut self, packet: &'p [u8]) -> Option<CancelRequest<'p>> {
        self.greeted = true;
        match frontend::parse_startup(packet) {
            Ok(Some((Startup::Ssl, _))) => {
                // The one that counts follows.
                self.greeted = false;
                None
            }
            Ok(Some((Startup::Cancel(request), _))) => Some(request),
            _ => None,
        }
    }

    pub(crate) fn has_greeted(&self) -> bool {
        self.greeted
    }

    /// The server reads a message. Returns when it was sent, if it belongs to a unit.
    pub(crate) fn taken(&mut self, now: u64, message: u8) -> Option<u64> {
        is_asked(message).then(|| self.sent.pop_front().unwrap_or(now))
    }

    /// The pooler sends these bytes.
    pub(crate) fn note(&mut self, now: u64, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.skip > 0 {
                let count = self.skip.min(bytes.len());
                self.skip -= count;
                bytes = &bytes[count..];
                continue;
            }
            if self.header.is_empty() {
                self.last = bytes[0];
                if is_asked(bytes[0]) {
                    self.sent.push_back(now);
                }
            }
            let count = (HEADER_LEN - self.header.len()).min(bytes.len());
            self.header.extend_from_slice(&bytes[..count]);
            bytes = &bytes[count..];
            if let Ok(Some(header)) = Header::parse(&self.header) {
                self.skip = header.body_len();
                self.header.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_in_pieces_and_a_unit_ends_with_its_answer() {
        let mut asked = Asked { greeted: true, ..Asked::default() };
        let mut bytes = Vec::new();
        frontend::Query { text: b"select 1" }.encode(&mut bytes);
        let first = bytes.len();
        frontend::encode_sync(&mut bytes);
        asked.note(5, &bytes[..3]);
        asked.note(6, &bytes[3..=first]);
        asked.note(7, &bytes[first + 1..]);
        assert_eq!(asked.sent, [5, 6]);
        let mut units = Units { answered_at: 8, ..Units::default() };
        assert!(units.take(5) && !units.take(6));
        assert_eq!((units.head(), units.get(0).map(|unit| unit.began_at)), (0, Some(8)));
        units.kept[0].end = Some(1);
        assert!(units.take(9), "what comes next is another unit, though the first is not read");
        assert_eq!(units.head(), 0);
        units.kept[0].read_at = Some(10);
        assert_eq!((units.head(), units.get(1).map(|unit| unit.began_at)), (1, Some(9)));
    }
}
