//! A client of the console: it sends one command or several at once, by either protocol, mistypes, reads late or never.
//!
//! Instead of a twin it has the desk: each answer must come as the desk gave it, byte for byte and in order.

use std::borrow::Cow;
use std::collections::VecDeque;

use machine::{Manner, Question};
use wire::Header;
use wire::backend::tag;
use wire::frontend::{self, Bind, Execute, Parse};

use super::compare::show;
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
    "suspend now",
    "show pools; show pools",
    "no such words",
];

/// Orders, in worlds where administrators give some.
const ORDERS: [&str; 7] = ["pause", "resume", "suspend", "reconnect", "wait_close", "kill_client 0", "kill"];

/// The number of commands that a client that does not read sends at once.
const DEAF_QUESTIONS: u64 = 60;

/// The answers it must get, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Owed {
    Answer,
    /// ReadyForQuery, for a Sync.
    Ready,
    /// Of Parse, Bind, Execute and Sync.
    Batch(ConsoleStage),
}

/// What comes next of a batch.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum ConsoleStage {
    /// ParseComplete, or the desk's error.
    Parsed,
    Bound,
    /// The desk's answer.
    Run,
    /// There was an error: ReadyForQuery.
    Failed,
}

/// What the desk is asked to do with a command.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Kind {
    Query,
    Describe,
    Execute,
}

impl Kind {
    fn of(manner: &Manner) -> Kind {
        match manner {
            Manner::Query => Kind::Query,
            Manner::Describe { .. } => Kind::Describe,
            Manner::Execute { .. } => Kind::Execute,
        }
    }
}

/// The state of a console client.
#[derive(Clone, Debug, Default)]
pub struct Console {
    owed: VecDeque<Owed>,
    /// The answers of the desk, and how much of them has come.
    answers: Vec<u8>,
    answers_at: usize,
    /// What the desk is yet to be asked, in order.
    to_ask: VecDeque<(Cow<'static, str>, Kind)>,
    /// What the desk is asked just now.
    asked: Option<Kind>,
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
        let wanted = self.to_ask.pop_front();
        let kind = Kind::of(&question.manner);
        self.asked = Some(kind);
        let is_it = |(text, wanted): &(Cow<'_, str>, Kind)| text.as_bytes() == question.text && *wanted == kind;
        let found = wanted.as_ref().is_some_and(is_it) && question.admin == self.admin;
        if !found && !hostile {
            return Err((11, format!("client {number} asks {wanted:?}, the desk heard {question:?}")));
        }
        Ok(())
    }

    /// Adds an answer of the desk.
    pub(super) fn expect_answer(&mut self, bytes: &[u8]) {
        let is_skipped = self.asked.take() == Some(Kind::Describe) && bytes.first() == Some(&tag::ERROR);
        if is_skipped && matches!(self.to_ask.front(), Some((_, Kind::Execute))) {
            self.to_ask.pop_front();
        }
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
            Some(Owed::Batch(ConsoleStage::Parsed)) if message == tag::PARSE_COMPLETE => {
                // Of a description nothing is told that was not asked for.
                if !self.pass_description() {
                    return wrong("before the desk has answered, or in spite of its error");
                }
                self.owed[0] = Owed::Batch(ConsoleStage::Bound);
                Ok(None)
            }
            Some(Owed::Batch(ConsoleStage::Bound)) => {
                self.owed[0] = Owed::Batch(ConsoleStage::Run);
                if message == tag::BIND_COMPLETE { Ok(None) } else { wrong("instead of BindComplete") }
            }
            Some(Owed::Answer | Owed::Batch(ConsoleStage::Parsed | ConsoleStage::Run | ConsoleStage::Failed)) => {
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
                } else if self.owed.front() == Some(&Owed::Batch(ConsoleStage::Parsed)) {
                    if message != tag::ERROR {
                        return wrong("instead of ParseComplete or an error");
                    }
                    self.owed[0] = Owed::Batch(ConsoleStage::Failed);
                }
                Ok(None)
            }
        }
    }

    /// Skips RowDescription or NoData, and the ReadyForQuery behind it, in the desk's answers. False: that is not what comes next.
    fn pass_description(&mut self) -> bool {
        let mut at = self.answers_at;
        for tags in [[tag::ROW_DESCRIPTION, tag::NO_DATA], [tag::READY_FOR_QUERY; 2]] {
            let header = Header::parse(&self.answers[at..]).ok().flatten();
            let Some(header) = header.filter(|header| tags.contains(&header.tag)) else { return false };
            at += header.total_len();
        }
        self.answers_at = at;
        true
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
        if (self.owes() && !turn.random.chance(300)) || !turn.talk.socket.is_all_sent() {
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
            self.ask(turn, deaf, facts.victim);
        }
        turn.work.units -= 1;
        let think = turn.random.skewed(100, turn.plan.manners.think_max.max(20_000));
        turn.work.resting_until = facts.now + think;
        wants.again.get_or_insert(think);
    }

    /// `victim`: whose query it may order to be cancelled.
    fn ask(&mut self, turn: &mut Turn<'_>, deaf: bool, victim: Option<i32>) {
        let (orders, random) = (turn.plan.promises.orders.are_given, &mut *turn.random);
        let out = turn.talk.socket.outbox();
        let text: Cow<'static, str> = match random.below(40) {
            0 | 13..=18 if !deaf => {
                let text = *random.pick(&QUESTIONS);
                self.owed.push_back(Owed::Batch(ConsoleStage::Parsed));
                self.to_ask.extend([(text.into(), Kind::Describe), (text.into(), Kind::Execute)]);
                Parse { name: b"", query: text.as_bytes(), types: Parse::NO_TYPES }.encode(out);
                Bind::encode(out, b"", b"", []);
                Execute { portal: b"", rows_max: 0 }.encode(out);
                return frontend::encode_sync(out);
            }
            1 => {
                self.owed.push_back(Owed::Ready);
                return frontend::encode_sync(out);
            }
            2 => return frontend::encode_copy_done(out),
            3 if self.stops && self.admin => "shutdown wait_for_servers".into(),
            4 if self.stops && self.admin => "shutdown wait_for_clients".into(),
            _ if deaf => QUESTIONS[1].into(),
            // KILL is rare: it ends everybody's work.
            5 if orders => ORDERS[6].into(),
            6..=12 if orders => (*random.pick(&ORDERS[..6])).into(),
            19..=22 if let Some(id) = victim => format!("kill_query {id}").into(),
            _ => (*random.pick(&QUESTIONS)).into(),
        };
        frontend::Query { text: text.as_bytes() }.encode(out);
        self.owed.push_back(Owed::Answer);
        self.to_ask.push_back((text, Kind::Query));
    }
}
