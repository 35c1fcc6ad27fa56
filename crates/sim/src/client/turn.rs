//! What a logged-in client does next: one unit of work, sent as a whole or in a pipeline with what is still owed.

use machine::peering;
use settings::PoolMode;
use wire::backend::Status;
use wire::frontend::{self, Close, CopyFail, Describe, Target, tag};

use super::cancels::Cancels;
use super::contending::Contender;
use super::habits::Habits;
use super::identity::Identity;
use super::talk::Talk;
use super::{Circumstances, Wants};
use crate::census::Census;
use crate::parameters;
use crate::plan::Plan;
use crate::random::Random;

/// Texts that clients prepare by name; many clients prepare the same.
const TEXTS: [&str; 7] = [
    "select 1 10",
    "select 3 50",
    "select 0 0",
    "copy (select 2, 10) to stdout",
    "select pg_sleep(200)",
    "select 1/0",
    "select 12 900",
];

/// The longest statement of clients whose queries are often cancelled, at least.
const CANCELLED_US: u64 = 50_000;

/// A pipeline sends no more while so much is owed or unsent.
const OWED_LEN_MAX: usize = 40_000;

/// What a client does in its work, and how far it has come.
#[derive(Debug)]
pub(super) struct ClientWork {
    /// How many units are left.
    pub(super) units: u64,
    pub(super) resting_until: u64,
    pub(super) began_block: bool,
    /// The unit under way changes settings.
    pub(super) setting: bool,
    /// The transaction block that it is in has changed settings.
    pub(super) has_set_in_block: bool,
    /// What it does next comes after the end of a cancel, which must not strike it.
    is_after_cancel: bool,
    /// The statement after which it paused last.
    dawdled: u32,
    pub(super) contender: Contender,
}

impl ClientWork {
    pub(super) fn new(units: u64) -> ClientWork {
        ClientWork {
            units,
            resting_until: 0,
            began_block: false,
            setting: false,
            has_set_in_block: false,
            is_after_cancel: false,
            dawdled: 0,
            contender: Contender::default(),
        }
    }

    /// Pauses for so long.
    pub(super) fn rest(&mut self, now: u64, micros: u64, wants: &mut Wants) {
        self.resting_until = now + micros;
        wants.again = Some(micros);
    }
}

/// One turn of a client, with all that it needs to make its next units.
pub(super) struct Turn<'a> {
    pub(super) plan: &'a Plan,
    pub(super) random: &'a mut Random,
    pub(super) census: &'a mut Census,
    pub(super) who: &'a Identity,
    pub(super) habits: &'a mut Habits,
    pub(super) talk: &'a mut Talk,
    pub(super) work: &'a mut ClientWork,
    pub(super) cancels: &'a mut Cancels,
    /// The number of servers lost: earlier names may be gone, so others are used.
    pub(super) losses: u32,
}

impl Turn<'_> {
    /// Sometimes cancels its request, and continues its work.
    pub(super) fn take(&mut self, facts: Circumstances, wants: &mut Wants) {
        if self.plan.purpose.curve.is_none() {
            self.maybe_cancel(facts, wants);
        }
        self.go_on(facts, wants);
    }

    fn maybe_cancel(&mut self, facts: Circumstances, wants: &mut Wants) {
        let Some((pid, secret)) = self.cancels.key else { return };
        if !self.habits.cancels {
            // A cancel with a wrong key must have no effect.
            let wrong_bit = match self.talk.twin.owes() {
                true => self.plan.promises.wrong_bit(self.who.number, facts.now),
                false => self.random.chance(5).then_some(24),
            };
            if let Some(bit) = wrong_bit {
                // Bits that count how often a key was passed on do not make it a wrong one.
                let bit = if peering::is_ours(pid) && matches!(bit, 24 | 25) { 26 } else { bit };
                wants.cancel = Some((pid, secret.with_bit(bit)));
                self.census.cancels.wrong += 1;
            }
            return;
        }
        let Some(at) = self.cancels.at else { return };
        if facts.now >= at {
            self.cancels.send(facts.now, self.habits.awaits_cancels);
            self.census.cancels.asked += 1;
            wants.cancel = Some((pid, secret));
        } else {
            wants.again = Some(at - facts.now);
        }
    }

    /// Sends units until it has to wait for an answer, for its connection, or for a time.
    fn go_on(&mut self, facts: Circumstances, wants: &mut Wants) {
        if self.plan.purpose.contest.is_some() {
            return self.contend(facts, wants);
        }
        for _ in 0..8 {
            let owed = self.talk.twin.owes();
            let unsent = self.talk.socket.unsent();
            if !owed && unsent == 0 && self.cancels.settle() {
                self.work.is_after_cancel = true;
            }
            if self.cancels.are_awaited() {
                return;
            }
            let busy = unsent + self.talk.twin.expected_len() > OWED_LEN_MAX;
            // Where a server may be lost, the result of a SET must be known before the next unit, and that of its COMMIT.
            let sets = self.work.setting || self.work.has_set_in_block;
            let waits = self.talk.may_be_struck() || (sets && self.who.may_lose(self.plan));
            let is_leaving = (self.work.units == 0 || facts.closing_time) && self.talk.twin.status() == Status::Idle;
            // One that adds to its pipeline for ever would never leave.
            let pipelines = !waits && self.random.chance(self.plan.manners.pipeline) && !is_leaving;
            if busy || (owed && !pipelines) || (unsent > 0 && self.habits.pace > 0) {
                return;
            }
            if facts.now < self.work.resting_until {
                wants.again = Some(self.work.resting_until - facts.now);
                return;
            }
            if is_leaving && !owed {
                self.talk.socket.say_goodbye(self.habits, wants);
                return;
            }
            if owed {
                self.census.statements.pipelines += 1;
            } else if let Some(rest) = self.pause(facts) {
                return self.work.rest(facts.now, rest, wants);
            }
            self.unit(facts);
            if self.habits.cancels && self.random.chance(500) {
                let at = facts.now + self.random.skewed(1, 2 * self.plan.manners.sleep_max);
                self.cancels.at = Some(at);
                wants.again = Some(at - facts.now);
            }
        }
        wants.again.get_or_insert(100);
    }

    /// How long it pauses before its next unit, if it is owed nothing.
    fn pause(&mut self, facts: Circumstances) -> Option<u64> {
        if !facts.closing_time && self.work.dawdled != self.talk.marks() {
            self.work.dawdled = self.talk.marks();
            if let Some(rest) = self.plan.promises.dawdles(self.who.number, self.talk.marks()) {
                self.census.clients.dawdled += 1;
                return Some(rest);
            }
        }
        let think_max = self.plan.manners.think_max;
        (think_max > 0 && self.random.chance(400)).then(|| self.random.skewed(1, think_max))
    }

    fn unit(&mut self, facts: Circumstances) {
        self.work.units = self.work.units.saturating_sub(1);
        if self.plan.purpose.curve.is_some() {
            return self.select();
        }
        if std::mem::take(&mut self.work.is_after_cancel) && self.talk.twin.status() != Status::Failed {
            let text = self.talk.marked(&format!("select pg_sleep({CANCELLED_US})"));
            return self.talk.query(&text);
        }
        match self.talk.twin.status() {
            Status::Idle => {
                let block = if self.who.mode == PoolMode::Statement { 5 } else { 300 };
                if self.random.chance(block) {
                    self.census.statements.transactions += 1;
                    self.work.began_block |= self.who.mode == PoolMode::Statement;
                    let text = self.talk.marked("begin");
                    self.talk.query(&text);
                    return;
                }
            }
            Status::InTransaction if self.work.units == 0 || facts.closing_time || self.random.chance(300) => {
                let end = if self.random.chance(700) { "commit" } else { "rollback" };
                let text = self.talk.marked(end);
                self.talk.query(&text);
                return;
            }
            Status::Failed if self.random.chance(100) => {
                let text = self.talk.marked("rollback to a_savepoint_that_is_gone");
                self.talk.query(&text);
                return;
            }
            Status::Failed if self.work.units == 0 || facts.closing_time || self.random.chance(700) => {
                let text = self.talk.marked("rollback");
                self.talk.query(&text);
                return;
            }
            Status::InTransaction | Status::Failed => {}
        }
        self.statement();
    }

    fn statement(&mut self) {
        // Where a server may be lost, what is under way when a setting changes would leave it in doubt.
        let settled = !self.who.may_lose(self.plan) || !self.talk.twin.owes();
        if self.random.chance(self.plan.manners.errors) {
            self.census.statements.errors += 1;
            let body = *self.random.pick(&["select 1/0", "no such words", "set TimeZone = 'Mars/Olympus'"]);
            let text = self.talk.marked(body);
            self.talk.query(&text);
            return;
        }
        if settled && self.remembers() && self.random.chance(self.plan.manners.memory) {
            self.work.setting = true;
            return if self.habits.poisons { self.poison() } else { self.remember() };
        }
        if settled && self.uses_tables() && self.random.chance(200) {
            return self.use_a_table();
        }
        if settled && self.random.chance(self.plan.manners.sets) {
            self.work.setting = true;
            self.census.statements.sets += 1;
            return self.set();
        }
        if self.random.chance(self.plan.manners.large) {
            self.census.statements.large_values += 1;
            // Where everything comes in small pieces, a large value would use up all steps.
            let most = if self.plan.weather.pieces >= 300 { 12_000 } else { 300_000 };
            let len = self.random.skewed(10_000, most);
            let text = self.talk.marked(&format!("select 1 {len}"));
            return self.talk.query(&text);
        }
        match self.random.below(if self.talk.may_be_struck() { 12 } else { 24 }) {
            0..=3 => self.select(),
            4..=6 => self.sleep(),
            7 => self.copy_in(),
            8 => {
                self.census.statements.copies_out += 1;
                let rows = self.random.skewed(1, 200);
                let text = self.talk.marked(&format!("copy (select {rows}, 20) to stdout"));
                self.talk.query(&text);
            }
            9 | 10 => self.sleep(),
            11 => {
                self.census.statements.function_calls += 1;
                let mark = self.talk.mark();
                self.talk.send(tag::FUNCTION_CALL, |out| {
                    wire::message(out, tag::FUNCTION_CALL, |out| out.extend_from_slice(mark.text().as_bytes()));
                });
            }
            12 => self.talk.query(""),
            13 | 14 if settled => {
                self.work.setting = true;
                self.several();
            }
            15 => self.extended_copy_in(),
            16 if settled && self.who.wishes.is_empty() && self.talk.twin.status() == Status::Idle => {
                self.work.setting = true;
                let text = self.talk.marked(if self.random.chance(500) { "discard all" } else { "deallocate all" });
                self.talk.query(&text);
            }
            17 => {
                // Messages that PostgreSQL ignores outside of COPY, and an empty batch.
                self.talk.send(tag::COPY_DONE, frontend::encode_copy_done);
                self.talk.send(tag::SYNC, frontend::encode_sync);
            }
            _ => self.batch(),
        }
    }

    fn select(&mut self) {
        let (rows, len) = (self.random.skewed(0, 30), self.random.skewed(0, 300));
        let text = self.talk.marked(&format!("select {rows} {len}"));
        self.talk.query(&text);
    }

    fn sleep(&mut self) {
        let is_cancelled_often = self.plan.promises.orders.cancels_often && self.habits.may_be_cancelled;
        let sleep_max = self.plan.manners.sleep_max;
        // A cancel takes some milliseconds to come.
        let micros = self.random.skewed(1, if is_cancelled_often { sleep_max.max(CANCELLED_US) } else { sleep_max });
        if self.random.chance(300) {
            let text = self.talk.marked(&format!("select pg_sleep({micros})"));
            self.talk.one(&text);
        } else {
            let text = self.talk.marked(&format!("select pg_sleep({micros})"));
            self.talk.query(&text);
        }
    }

    fn set(&mut self) {
        let parameter = self.random.below(parameters::COUNT as u64) as usize;
        let digit = self.random.below(u64::from(parameters::choices(parameter))) as u8;
        let text = self.talk.marked(&parameters::set_text(parameter, digit));
        if self.random.chance(300) {
            self.talk.one(&text);
        } else {
            self.talk.query(&text);
        }
    }

    /// Several statements in one query.
    fn several(&mut self) {
        let idle = self.talk.twin.status() == Status::Idle;
        let mut texts = Vec::new();
        for _ in 0..self.random.range(2, 4) {
            let mark = self.talk.mark().text();
            let body = match self.random.below(6) {
                0 => {
                    let parameter = self.random.below(parameters::COUNT as u64) as usize;
                    let digit = self.random.below(u64::from(parameters::choices(parameter))) as u8;
                    parameters::set_text(parameter, digit)
                }
                1 => "select pg_sleep(50)".to_owned(),
                2 if self.random.chance(300) => "select 1/0".to_owned(),
                _ => "select 2 20".to_owned(),
            };
            texts.push(format!("{body} /*{mark}*/"));
        }
        if idle && self.who.mode != PoolMode::Statement && self.random.chance(300) {
            let mark = self.talk.mark().text();
            texts.insert(0, format!("begin /*{mark}*/"));
            texts.push(format!("commit /*{}*/", self.talk.mark().text()));
        }
        self.talk.query(&texts.join("; "));
    }

    /// Data for COPY FROM STDIN, its end by CopyDone, CopyFail or an error, all at once or after a Flush.
    fn copy_data(&mut self) {
        for _ in 0..self.random.skewed(0, 20) {
            let len = self.random.skewed(0, 3_000) as usize;
            let data = vec![b'a' + (len % 26) as u8; len];
            self.talk.send(tag::COPY_DATA, |out| frontend::encode_copy_data(out, &data));
        }
        if self.plan.promises.leaves_copy(self.who.number, self.talk.marks()) && self.habits.vanishes_after.is_none() {
            // All that was sent so far arrives, and nothing after it.
            self.habits.vanishes_after = Some(self.talk.socket.sent() + (self.talk.socket.unsent()) as u64);
            self.habits.vanishes_orderly = true;
        }
        if self.random.chance(700) {
            self.talk.send(tag::COPY_DONE, frontend::encode_copy_done);
        } else {
            self.talk.send(tag::COPY_FAIL, |out| CopyFail { message: b"no more" }.encode(out));
        }
    }

    fn copy_in(&mut self) {
        self.census.statements.copies_in += 1;
        let text = self.talk.marked("copy t from stdin");
        self.talk.query(&text);
        self.copy_data();
    }

    fn extended_copy_in(&mut self) {
        self.census.statements.copies_in += 1;
        let text = self.talk.marked("copy t from stdin");
        self.talk.parse(b"", &text);
        self.talk.bind(b"", b"", None);
        self.talk.execute(b"", 0);
        if self.random.chance(300) {
            self.talk.send(tag::FLUSH, frontend::encode_flush);
        }
        self.copy_data();
        self.talk.send(tag::SYNC, frontend::encode_sync);
    }

    /// A pipeline of the extended protocol up to its Sync.
    fn batch(&mut self) {
        if self.random.chance(400) {
            return self.run_prepared();
        }
        for _ in 0..self.random.skewed(1, 12) {
            match self.random.below(10) {
                0 => self.describe_or_close(),
                1 => {
                    let (rows, len) = (self.random.skewed(0, 10), self.random.skewed(0, 100));
                    let text = self.talk.marked(&format!("select {rows} {len}"));
                    self.talk.parse(b"", &text);
                    self.talk.bind(b"", b"", None);
                    self.talk.send(tag::DESCRIBE, |out| Describe { target: Target::Portal, name: b"" }.encode(out));
                    let some = if self.random.chance(300) { 2 } else { 0 };
                    self.talk.execute(b"", some);
                    if some > 0 && self.random.chance(700) {
                        self.talk.execute(b"", 0);
                    }
                }
                2 => self.talk.send(tag::FLUSH, frontend::encode_flush),
                3 if self.random.chance(600) => self.portal(),
                3 if self.random.chance(100) => {
                    let mark = self.talk.mark();
                    self.talk.bind(b"", b"no such statement", Some(mark));
                }
                4 => self.unnamed(),
                _ => self.prepared(),
            }
        }
        self.talk.send(tag::SYNC, frontend::encode_sync);
    }

    /// The unnamed statement in two steps: between them may come a Sync, another server, or a message that ends the
    /// statement.
    fn unnamed(&mut self) {
        // Sometimes one that does not exist; but not after a loss, when another server may have answered earlier
        // messages, so that it may exist.
        let dares = self.losses == 0 && self.random.chance(50);
        let binds =
            if self.talk.twin.session().has_statement(b"") { self.talk.twin.session().takes_mark(b"") } else { dares };
        if !binds || self.random.chance(100) {
            let text = if self.random.chance(100) { "no such words" } else { self.random.pick(&TEXTS[..3]) };
            self.talk.parse(b"", text);
            let (target, name) = (Target::Statement, &b""[..]);
            match self.random.below(10) {
                0 => self.talk.send(tag::CLOSE, |out| Close { target, name }.encode(out)),
                1..=3 => self.talk.send(tag::DESCRIBE, |out| Describe { target, name }.encode(out)),
                _ => {}
            }
            return;
        }
        self.census.statements.unnamed += 1;
        let mark = self.talk.mark();
        self.talk.bind(b"", b"", Some(mark));
        self.talk.execute(b"", 0);
    }

    fn prepared(&mut self) {
        self.census.statements.prepared += 1;
        let kinds = if self.random.chance(200) { TEXTS.len() } else { 3 };
        let text = *self.random.pick(&TEXTS[..kinds]);
        let name = format!("s{}.{}", self.losses, self.random.below(4));
        let known = self.talk.twin.session().has_statement(name.as_bytes());
        // Once in a while a name that is taken, or one that is not there.
        if known == self.random.chance(20) {
            self.talk.parse(name.as_bytes(), text);
            if self.random.chance(300) {
                let name = name.as_bytes();
                self.talk.send(tag::DESCRIBE, |out| Describe { target: Target::Statement, name }.encode(out));
            }
        }
        let mark = self.talk.mark();
        self.talk.bind(b"", name.as_bytes(), Some(mark));
        self.talk.execute(b"", 0);
    }

    /// A batch as drivers write it: it runs one statement that was prepared before.
    fn run_prepared(&mut self) {
        let names: Vec<String> = (0..4).map(|number| format!("s{}.{number}", self.losses)).collect();
        let session = self.talk.twin.session();
        let known: Vec<&String> = names.iter().filter(|name| session.has_statement(name.as_bytes())).collect();
        if known.is_empty() {
            self.prepared();
        } else {
            self.census.statements.prepared += 1;
            let name = *self.random.pick(&known);
            let mark = self.talk.mark();
            self.talk.bind(b"", name.as_bytes(), Some(mark));
            if self.random.chance(500) {
                self.talk.send(tag::DESCRIBE, |out| Describe { target: Target::Portal, name: b"" }.encode(out));
            }
            self.talk.execute(b"", 0);
        }
        self.talk.send(tag::SYNC, frontend::encode_sync);
    }

    /// A named portal, which lives until its transaction ends: bound, fetched from in parts, described, closed.
    fn portal(&mut self) {
        self.census.statements.portals += 1;
        let portal = format!("p{}", self.random.below(3));
        let portal = portal.as_bytes();
        let known = self.talk.twin.session().has_portal(portal);
        // Once in a while a name that is taken, or one that is not there.
        if known == self.random.chance(20) {
            let body = *self.random.pick(&["select 7 20", "select 3 0", "select 40 100"]);
            let text = self.talk.marked(body);
            self.talk.parse(b"", &text);
            self.talk.bind(portal, b"", None);
        }
        for _ in 0..self.random.range(1, 3) {
            let target = Target::Portal;
            match self.random.below(6) {
                0 => self.talk.send(tag::DESCRIBE, |out| Describe { target, name: portal }.encode(out)),
                1 => self.talk.send(tag::CLOSE, |out| Close { target, name: portal }.encode(out)),
                2 => self.talk.send(tag::FLUSH, frontend::encode_flush),
                rows => self.talk.execute(portal, rows as i32 - 3),
            }
        }
    }

    /// Whether it uses tables whose columns change. In session mode, and where sessions are not followed, statements of
    /// a changed table may fail.
    fn uses_tables(&mut self) -> bool {
        let is_followed = self.who.followed && self.who.mode != PoolMode::Session;
        self.plan.promises.alters_tables
            && is_followed
            && self.talk.twin.status() != Status::Failed
            && !self.talk.may_be_struck()
    }

    /// A table of its own: a statement is prepared of it and run, or it gets another column.
    fn use_a_table(&mut self) {
        let table = format!("wide_{}_{}", self.who.number, self.losses);
        if self.talk.twin.status() == Status::Idle && self.random.chance(300) {
            self.census.statements.altered += 1;
            self.work.setting = true;
            let text = self.talk.marked(&format!("alter table {table} add column c int"));
            return self.talk.query(&text);
        }
        let name = format!("w{}.{}", self.losses, self.random.below(3));
        let (target, name) = (Target::Statement, name.as_bytes());
        let mut known = self.talk.twin.session().has_statement(name);
        if known && self.random.chance(300) {
            self.talk.send(tag::CLOSE, |out| Close { target, name }.encode(out));
            known = false;
        }
        if !known {
            self.talk.parse(name, &format!("select * from {table}"));
        }
        if self.random.chance(300) {
            self.talk.send(tag::DESCRIBE, |out| Describe { target, name }.encode(out));
        }
        let mark = self.talk.mark();
        self.talk.bind(b"", name, Some(mark));
        self.talk.execute(b"", 0);
        if self.plan.goes_on_long(self.who.number, self.talk.marks()) {
            // More than the pooler keeps to send it again.
            let (target, name) = (Target::Portal, [b'p'; 9_000]);
            (0..8).for_each(|_| self.talk.send(tag::CLOSE, |out| Close { target, name: &name }.encode(out)));
        }
        self.talk.send(tag::SYNC, frontend::encode_sync);
    }

    fn describe_or_close(&mut self) {
        let name = format!("s{}.{}", self.losses, self.random.below(4));
        let (target, name) = (Target::Statement, name.as_bytes());
        if self.random.chance(500) {
            self.talk.send(tag::CLOSE, |out| Close { target, name }.encode(out));
        } else if self.talk.twin.status() == Status::Failed {
            // A departure from PostgreSQL that is known: a server that lacks the statement gets it prepared first, which
            // fails; PostgreSQL itself describes it if it returns no rows.
        } else if self.talk.twin.session().has_statement(name) || self.random.chance(50) {
            self.talk.send(tag::DESCRIBE, |out| Describe { target, name }.encode(out));
        }
    }
}
