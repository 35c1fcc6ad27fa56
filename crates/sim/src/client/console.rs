//! A client of the console: asks one thing or several at once, mistypes, tries the extended protocol, reads late or never.
//!
//! Its twin is the desk: an answer must come as the desk gave it, byte for byte, each question's in its turn.

use std::collections::VecDeque;

use pooling::Question;
use wire::Header;
use wire::backend::{Fields, tag};
use wire::frontend::{self, Parse};

use super::answers::show;
use super::{Circumstances, Client, Wants};
use crate::course::Finding;
use crate::plan::Plan;
use crate::random::Random;

/// What is asked most.
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
    "pause",
    "show pools; show pools",
    "no such words",
];

/// Questions that a client that does not read asks at once.
const DEAF_QUESTIONS: u64 = 60;

/// What it is to be sent, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Owed {
    Answer(Vec<u8>),
    /// ReadyForQuery, for a Sync.
    Ready,
    /// An error, and the end: the extended protocol is not for the console.
    Farewell,
}

/// What a console client remembers.
#[derive(Clone, Debug, Default)]
pub struct Console {
    owed: VecDeque<Owed>,
    /// Questions among them that the desk has heard.
    heard: usize,
    /// Reads nothing before then.
    pub deaf_until: u64,
    /// May do all, or only look.
    pub admin: bool,
    /// Asks for the end of it all.
    pub stops: bool,
}

impl Console {
    #[must_use]
    pub fn new(admin: bool, now: u64, random: &mut Random) -> Console {
        let deaf_until = if random.chance(200) { now + random.skewed(10_000, 2_000_000) } else { 0 };
        Console { owed: VecDeque::new(), heard: 0, deaf_until, admin, stops: random.chance(100) }
    }
}

impl Client {
    /// The desk has been asked: was it by this client, and is it its turn?
    pub fn is_asking(&mut self, question: &Question) -> Result<(), Finding> {
        let (number, hostile) = (self.number, self.is_hostile());
        let Some(console) = &mut self.console else {
            return Err((2, format!("client {number} is no console's and asks {question:?}")));
        };
        let mut next = console.owed.iter().filter_map(|owed| match owed {
            Owed::Answer(text) => Some(text),
            Owed::Ready | Owed::Farewell => None,
        });
        let wanted = next.nth(console.heard);
        let found = wanted.is_some_and(|text| *text == question.text) && question.admin == console.admin;
        if !found && !hostile {
            let wanted = wanted.map(|text| String::from_utf8_lossy(text).into_owned());
            return Err((11, format!("client {number} asks {wanted:?}, the desk heard {question:?}")));
        }
        console.heard += 1;
        Ok(())
    }

    /// What the desk has answered.
    pub fn expect_answer(&mut self, bytes: &[u8]) {
        self.expected.extend_from_slice(bytes);
    }

    /// A message after login.
    pub(super) fn console_message(&mut self, message: u8, body: &[u8]) -> Result<(), Finding> {
        let number = self.number;
        let wrong = |what: &str| Err((11, format!("console client {number} got {} {what}", show(message, body))));
        let Some(console) = &mut self.console else { return Ok(()) };
        match console.owed.front() {
            None => wrong("and is owed nothing"),
            Some(Owed::Ready) => {
                console.owed.pop_front();
                if message == tag::READY_FOR_QUERY { Ok(()) } else { wrong("instead of ReadyForQuery") }
            }
            Some(Owed::Farewell) => {
                let fields = Fields::decode(body);
                let words = String::from_utf8_lossy(fields.message().unwrap_or_default()).into_owned();
                if message != tag::ERROR || !words.starts_with("extended query protocol") {
                    return wrong("instead of an error");
                }
                self.told = Some(words);
                Ok(())
            }
            Some(Owed::Answer(_)) => {
                let rest = &self.expected[self.expected_at..];
                let header = Header::parse(rest).ok().flatten().filter(|header| rest.len() >= header.total_len());
                let Some(header) = header else { return wrong("before the desk has answered") };
                let len = header.total_len();
                if header.tag != message || rest[wire::HEADER_LEN..len] != *body {
                    return wrong("instead of the desk's answer");
                }
                self.expected_at += len;
                if message == tag::READY_FOR_QUERY {
                    console.owed.pop_front();
                    console.heard = console.heard.saturating_sub(1);
                }
                Ok(())
            }
        }
    }

    /// Notices are part of some answers: they are passed over, there as here.
    pub(super) fn pass_notice(&mut self) {
        let rest = &self.expected[self.expected_at..];
        if let Ok(Some(header)) = Header::parse(rest)
            && header.tag == tag::NOTICE
            && self.console.is_some()
        {
            self.expected_at += header.total_len();
        }
    }

    /// Asks the next things, or leaves.
    pub(super) fn work_at_console(
        &mut self,
        facts: Circumstances,
        plan: &Plan,
        random: &mut Random,
        wants: &mut Wants,
    ) {
        let Some(console) = &self.console else { return };
        let deaf = facts.now < console.deaf_until;
        if deaf && !facts.closing_time {
            wants.again = Some(console.deaf_until - facts.now);
        }
        let over = console.owed.back() == Some(&Owed::Farewell);
        if over || (self.is_owed() && !random.chance(300)) || self.outbox_at < self.outbox.len() {
            return;
        }
        if facts.now < self.resting_until && !facts.closing_time {
            wants.again = Some(self.resting_until - facts.now);
            return;
        }
        if self.units == 0 || facts.closing_time {
            if !self.is_owed() {
                self.say_goodbye(wants);
            }
            return;
        }
        let count = if deaf { DEAF_QUESTIONS } else { random.skewed(1, 5) };
        for _ in 0..count {
            self.ask(deaf, random);
        }
        self.units -= 1;
        let think = random.skewed(100, plan.manners.think_max.max(20_000));
        self.resting_until = facts.now + think;
        wants.again.get_or_insert(think);
    }

    fn ask(&mut self, deaf: bool, random: &mut Random) {
        let Some(console) = &mut self.console else { return };
        if console.owed.back() == Some(&Owed::Farewell) {
            return;
        }
        let text = match random.below(40) {
            0 if !deaf => {
                console.owed.push_back(Owed::Farewell);
                let parse = Parse { name: b"", query: b"show pools", types: Parse::NO_TYPES };
                parse.encode(&mut self.outbox);
                return frontend::encode_sync(&mut self.outbox);
            }
            1 => {
                console.owed.push_back(Owed::Ready);
                return frontend::encode_sync(&mut self.outbox);
            }
            2 => return frontend::encode_copy_done(&mut self.outbox),
            3 if console.stops && console.admin => "shutdown wait_for_servers",
            4 if console.stops && console.admin => "shutdown wait_for_clients",
            _ if deaf => QUESTIONS[1],
            _ => *random.pick(&QUESTIONS),
        };
        console.owed.push_back(Owed::Answer(text.as_bytes().to_vec()));
        frontend::Query { text: text.as_bytes() }.encode(&mut self.outbox);
    }

    pub(super) fn is_owed_at_console(&self) -> bool {
        self.console.as_ref().is_some_and(|console| !console.owed.is_empty())
    }
}
