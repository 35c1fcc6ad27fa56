//! A client that replicates: it starts streams on a connection of its own, says something now and then, and ends them.
//!
//! Instead of a twin it has an order: what the server sends is numbered and names this client, and so is what it sends itself. So
//! each end must get what the other has sent, all of it, in order and nobody else's (I2, I11).

use wire::backend::{CommandComplete, tag};
use wire::frontend::{self, Query};

use super::compare::show;
use super::habits::Habits;
use super::socket::Socket;
use super::{Circumstances, Wants};
use crate::course::Finding;
use crate::random::Random;

/// Where a stream is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Passage {
    Resting,
    Asked,
    Streaming,
    /// It has sent CopyDone.
    Ending,
    /// The server has sent CopyDone, too.
    Ended,
}

/// The state of such a client.
#[derive(Debug)]
pub(super) struct Replica {
    stage: Passage,
    streams_left: u32,
    /// In this stream: how much it says, has said and has heard.
    to_say: u32,
    said: u32,
    heard: u32,
    /// It says the next thing then.
    speaks_at: u64,
    last: u8,
}

/// What an end of a stream says: whose it is, its number, and something to make it longer.
pub(crate) fn words(who: char, client: u32, number: u32, padding: usize) -> Vec<u8> {
    let mut words = format!("{who}{client}:{number}:").into_bytes();
    words.resize(words.len() + padding, b'.');
    words
}

/// Whether it is that.
pub(crate) fn is_said(body: &[u8], who: char, client: u32, number: u32) -> bool {
    body.starts_with(&words(who, client, number, 0))
}

impl Replica {
    pub(super) fn new(random: &mut Random) -> Replica {
        Replica {
            stage: Passage::Resting,
            streams_left: random.range(1, 3) as u32,
            to_say: 0,
            said: 0,
            heard: 0,
            speaks_at: 0,
            last: 0,
        }
    }

    /// Whether an answer is owed. A stream may be silent.
    pub(super) fn owes(&self) -> bool {
        matches!(self.stage, Passage::Asked | Passage::Ending | Passage::Ended)
    }

    /// Whether the server has said that its stream is over, and may close the connection without a word.
    pub(super) fn has_heard_goodbye(&self) -> bool {
        self.last == tag::COMMAND_COMPLETE
    }

    pub(super) fn work(
        &mut self,
        number: u32,
        socket: &mut Socket,
        (habits, random): (&Habits, &mut Random),
        facts: Circumstances,
        wants: &mut Wants,
    ) {
        match self.stage {
            Passage::Resting if self.streams_left == 0 || facts.closing_time => socket.say_goodbye(habits, wants),
            Passage::Resting => {
                self.streams_left -= 1;
                (self.to_say, self.said, self.heard) = (random.range(0, 12) as u32, 0, 0);
                self.stage = Passage::Asked;
                let text = format!("START_REPLICATION {number}");
                Query { text: text.as_bytes() }.encode(socket.outbox());
            }
            Passage::Streaming if self.said == self.to_say || facts.closing_time => {
                self.stage = Passage::Ending;
                frontend::encode_copy_done(socket.outbox());
            }
            Passage::Streaming if facts.now < self.speaks_at => wants.again = Some(self.speaks_at - facts.now),
            Passage::Streaming => {
                let padding = random.skewed(0, 3_000) as usize;
                frontend::encode_copy_data(socket.outbox(), &words('c', number, self.said, padding));
                self.said += 1;
                let pause = random.skewed(1, 50_000);
                self.speaks_at = facts.now + pause;
                wants.again = Some(pause);
            }
            Passage::Asked | Passage::Ending | Passage::Ended => {}
        }
    }

    /// A message has come. True: a stream is over.
    pub(super) fn message(&mut self, number: u32, message: u8, body: &[u8]) -> Result<bool, Finding> {
        self.last = message;
        let told = |body| CommandComplete::decode(body).ok().and_then(|told| told.tag.strip_prefix(b"STREAMED "));
        match (self.stage, message) {
            (Passage::Asked, tag::COPY_BOTH) => self.stage = Passage::Streaming,
            (Passage::Streaming | Passage::Ending, tag::COPY_DATA) if is_said(body, 's', number, self.heard) => {
                self.heard += 1;
            }
            (Passage::Ending, tag::COPY_DONE) => self.stage = Passage::Ended,
            (Passage::Ended, tag::COMMAND_COMPLETE) if told(body) == Some(self.heard.to_string().as_bytes()) => {}
            (Passage::Ended, tag::READY_FOR_QUERY) => {
                self.stage = Passage::Resting;
                return Ok(true);
            }
            _ => {
                let what = show(message, body);
                return Err((11, format!("client {number}, which replicates, got {what}: {self:?}")));
            }
        }
        Ok(false)
    }
}
