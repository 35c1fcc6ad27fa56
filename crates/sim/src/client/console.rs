//! A client of the console: it sends one command or several at once, mistypes, tries the extended protocol, reads late
//! or never.
//!
//! Instead of a twin it has the desk: each answer must come as the desk gave it, byte for byte and in order.

use std::collections::VecDeque;

use machine::Question;
use wire::Header;
use wire::backend::{Fields, tag};
use wire::frontend::{self, Parse};

use super::compare::show;
use super::socket::Socket;
use super::turn::Turn;
use super::{Circumstances, Wants};
use crate::course::Finding;
use crate::random::Random;

/// The most frequent commands.
const QUESTIONS: [&str; 20] = [
    "show pools",
    "SHOW CLIENTS;",
    "show servers",
    "show lists",
    "show stats",
    "show stats_totals",
    "show stats_averages",
    "show totals",
    "show databases",
    "show users",
    "show config",
    "show state",
    "show version",
    "show workers",
    "show help",
    "show sockets",
    "reload",
    "suspend",
    "show pools; show pools",
    "no such words",
];

/// Orders, in worlds where administrators give some.
const ORDERS: [&str; 6] = ["pause", "resume", "reconnect", "wait_close", "kill_client 0", "kill"];

/// The number of commands that a client that does not read sends at once.
const DEAF_QUESTIONS: u64 = 60;

/// The answers it must get, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Owed {
    Answer(Vec<u8>),
    /// ReadyForQuery, for a Sync.
    Ready,
    /// An error and the end of the connection, since the console has no extended protocol.
    ErrorAndEnd,
}

/// The state of a console client.
#[derive(Clone, Debug, Default)]
pub struct Console {
    owed: VecDeque<Owed>,
    /// The answers of the desk, and how much of them has come.
    answers: Vec<u8>,
    answers_at: usize,
    /// The number of commands that the desk has got.
    questions_received: usize,
    /// It reads nothing before this time.
    pub deaf_until: u64,
    /// An administrator, not a user with read-only rights.
    pub admin: bool,
    /// It sends SHUTDOWN.
    pub stops: bool,
}

impl Console {
    #[must_use]
    pub fn new(admin: bool, now: u64, random: &mut Random) -> Console {
        let deaf_until = if random.chance(200) { now + random.skewed(10_000, 2_000_000) } else { 0 };
        Console { deaf_until, admin, stops: random.chance(100), ..Console::default() }
    }

    /// The desk got a command: checks that this client with this number has sent it, and in this order.
    pub(super) fn is_asking(&mut self, number: u32, hostile: bool, question: &Question) -> Result<(), Finding> {
        let mut next = self.owed.iter().filter_map(|owed| match owed {
            Owed::Answer(text) => Some(text),
            Owed::Ready | Owed::ErrorAndEnd => None,
        });
        let wanted = next.nth(self.questions_received);
        let found = wanted.is_some_and(|text| *text == question.text) && question.admin == self.admin;
        if !found && !hostile {
            let wanted = wanted.map(|text| String::from_utf8_lossy(text).into_owned());
            return Err((11, format!("client {number} asks {wanted:?}, the desk heard {question:?}")));
        }
        self.questions_received += 1;
        Ok(())
    }

    /// Adds an answer of the desk.
    pub(super) fn expect_answer(&mut self, bytes: &[u8]) {
        self.answers.extend_from_slice(bytes);
    }

    /// Whether an answer is owed.
    pub(super) fn owes(&self) -> bool {
        !self.owed.is_empty() || self.answers_at < self.answers.len()
    }

    /// Handles a message after login. Returns the error text if it ends the connection.
    pub(super) fn message(&mut self, number: u32, message: u8, body: &[u8]) -> Result<Option<String>, Finding> {
        let wrong = |what: &str| Err((11, format!("console client {number} got {} {what}", show(message, body))));
        match self.owed.front() {
            None => wrong("and is owed nothing"),
            Some(Owed::Ready) => {
                self.owed.pop_front();
                if message == tag::READY_FOR_QUERY { Ok(None) } else { wrong("instead of ReadyForQuery") }
            }
            Some(Owed::ErrorAndEnd) => {
                let fields = Fields::decode(body);
                let words = String::from_utf8_lossy(fields.message().unwrap_or_default()).into_owned();
                if message != tag::ERROR || !words.starts_with("extended query protocol") {
                    return wrong("instead of an error");
                }
                Ok(Some(words))
            }
            Some(Owed::Answer(_)) => {
                let rest = &self.answers[self.answers_at..];
                let header = Header::parse(rest).ok().flatten().filter(|header| rest.len() >= header.total_len());
                let Some(header) = header else { return wrong("before the desk has answered") };
                let len = header.total_len();
                if header.tag != message || rest[wire::HEADER_LEN..len] != *body {
                    return wrong("instead of the desk's answer");
                }
                self.answers_at += len;
                if message == tag::READY_FOR_QUERY {
                    self.owed.pop_front();
                    self.questions_received = self.questions_received.saturating_sub(1);
                }
                Ok(None)
            }
        }
    }

    /// Notices are part of some answers; they are skipped in the expected answer and in the one that came.
    pub(super) fn pass_notice(&mut self) {
        if let Ok(Some(header)) = Header::parse(&self.answers[self.answers_at..])
            && header.tag == tag::NOTICE
        {
            self.answers_at += header.total_len();
        }
    }

    /// Sends the next commands, or leaves.
    pub(super) fn work(&mut self, turn: &mut Turn<'_>, facts: Circumstances, wants: &mut Wants) {
        let deaf = facts.now < self.deaf_until;
        if deaf && !facts.closing_time {
            wants.again = Some(self.deaf_until - facts.now);
        }
        let over = self.owed.back() == Some(&Owed::ErrorAndEnd);
        if over || (self.owes() && !turn.random.chance(300)) || !turn.talk.socket.is_all_sent() {
            return;
        }
        if facts.now < turn.work.resting_until && !facts.closing_time {
            wants.again = Some(turn.work.resting_until - facts.now);
            return;
        }
        if turn.work.units == 0 || facts.closing_time {
            if !self.owes() {
                turn.talk.socket.say_goodbye(turn.habits, wants);
            }
            return;
        }
        let count = if deaf { DEAF_QUESTIONS } else { turn.random.skewed(1, 5) };
        for _ in 0..count {
            self.ask(&mut turn.talk.socket, deaf, turn.plan.promises.orders.are_given, turn.random);
        }
        turn.work.units -= 1;
        let think = turn.random.skewed(100, turn.plan.manners.think_max.max(20_000));
        turn.work.resting_until = facts.now + think;
        wants.again.get_or_insert(think);
    }

    fn ask(&mut self, socket: &mut Socket, deaf: bool, orders: bool, random: &mut Random) {
        if self.owed.back() == Some(&Owed::ErrorAndEnd) {
            return;
        }
        let out = socket.outbox();
        let text = match random.below(40) {
            0 if !deaf => {
                self.owed.push_back(Owed::ErrorAndEnd);
                let parse = Parse { name: b"", query: b"show pools", types: Parse::NO_TYPES };
                parse.encode(out);
                return frontend::encode_sync(out);
            }
            1 => {
                self.owed.push_back(Owed::Ready);
                return frontend::encode_sync(out);
            }
            2 => return frontend::encode_copy_done(out),
            3 if self.stops && self.admin => "shutdown wait_for_servers",
            4 if self.stops && self.admin => "shutdown wait_for_clients",
            _ if deaf => QUESTIONS[1],
            // KILL is rare: it ends everybody's work.
            5 if orders => ORDERS[5],
            6..=12 if orders => random.pick(&ORDERS[..5]),
            _ => *random.pick(&QUESTIONS),
        };
        self.owed.push_back(Owed::Answer(text.as_bytes().to_vec()));
        frontend::Query { text: text.as_bytes() }.encode(out);
    }
}
