//! What a logged-in client does next: one unit of work, sent as a whole or in a pipeline with what is still owed.

use pooling::settings::PoolMode;
use wire::backend::Status;
use wire::frontend::{self, Bind, Close, CopyFail, Describe, Execute, Parse, Target, tag};

use super::{Circumstances, Client, Wants};
use crate::census::Census;
use crate::link::Leaving;
use crate::parameters;
use crate::plan::Plan;
use crate::random::Random;
use crate::statement::Mark;

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

/// A pipeline sends no more while so much is owed or unsent.
const OWED_LEN_MAX: usize = 40_000;

/// What a unit is made with.
pub(super) struct Turn<'a> {
    pub(super) plan: &'a Plan,
    pub(super) random: &'a mut Random,
    pub(super) census: &'a mut Census,
}

impl Client {
    pub(super) fn work(
        &mut self,
        facts: Circumstances,
        plan: &Plan,
        random: &mut Random,
        census: &mut Census,
        wants: &mut Wants,
    ) {
        if plan.purpose.curve.is_none() {
            self.maybe_cancel(facts, plan, random, census, wants);
        }
        let mut turn = Turn { plan, random, census };
        if plan.purpose.contest.is_some() {
            return self.contend(facts, &mut turn, wants);
        }
        for _ in 0..8 {
            let owed = self.is_owed();
            let unsent = self.outbox.len() - self.outbox_at;
            let busy = unsent + self.expected.len() - self.expected_at > OWED_LEN_MAX;
            // Where a server may be lost, what follows a SET must know what became of it.
            let waits = self.may_be_struck() || (self.setting && self.may_lose(plan));
            let pipelines = !waits && turn.random.chance(turn.plan.manners.pipeline);
            if busy || (owed && !pipelines) || (unsent > 0 && self.habits.pace > 0) {
                return;
            }
            if facts.now < self.resting_until {
                wants.again = Some(self.resting_until - facts.now);
                return;
            }
            let calm = self.twin.status() == Status::Idle && !owed;
            if (self.units == 0 || facts.closing_time) && calm {
                self.say_goodbye(wants);
                return;
            }
            if owed {
                turn.census.pipelines += 1;
            }
            if !owed && !facts.closing_time && self.dawdled != self.marks {
                self.dawdled = self.marks;
                if let Some(rest) = plan.promises.dawdles(self.number, self.marks) {
                    turn.census.dawdled += 1;
                    self.resting_until = facts.now + rest;
                    wants.again = Some(rest);
                    return;
                }
            }
            if turn.plan.manners.think_max > 0 && !owed && turn.random.chance(400) {
                let think = turn.random.skewed(1, turn.plan.manners.think_max);
                self.resting_until = facts.now + think;
                wants.again = Some(think);
                return;
            }
            self.unit(facts, &mut turn);
            if self.habits.cancels && turn.random.chance(500) {
                self.cancel_at = Some(facts.now + turn.random.skewed(1, 2 * turn.plan.manners.sleep_max));
                wants.again = self.cancel_at.map(|at| at - facts.now);
            }
        }
        wants.again.get_or_insert(100);
    }

    /// Goodbye: with Terminate, or just by closing.
    pub(super) fn say_goodbye(&mut self, wants: &mut Wants) {
        if self.habits.impolite || self.outbox_at == self.outbox.len() && self.said_goodbye {
            wants.leave = Some(Leaving::Orderly);
        } else if !self.said_goodbye {
            self.said_goodbye = true;
            frontend::encode_terminate(&mut self.outbox);
            wants.again = Some(1);
        }
    }

    fn maybe_cancel(
        &mut self,
        facts: Circumstances,
        plan: &Plan,
        random: &mut Random,
        census: &mut Census,
        wants: &mut Wants,
    ) {
        let Some((pid, mut secret)) = self.key else { return };
        if !self.habits.cancels {
            // A cancel with a wrong key must do nothing, whoever's it is.
            let wrong_bit = match self.is_owed() {
                true => plan.promises.wrong_bit(self.number, facts.now),
                false => random.chance(5).then_some(24),
            };
            if let Some(bit) = wrong_bit {
                secret[bit as usize / 8] ^= 1 << (bit % 8);
                wants.cancel = Some((pid, secret));
                census.cancels_wrong += 1;
            }
            return;
        }
        let Some(at) = self.cancel_at else { return };
        if facts.now >= at {
            self.cancel_at = None;
            self.cancels_sent += 1;
            census.cancels_asked += 1;
            wants.cancel = Some((pid, secret));
        } else {
            wants.again = Some(at - facts.now);
        }
    }

    pub(super) fn mark(&mut self) -> Mark {
        self.marks += 1;
        Mark { client: self.number, number: self.marks }
    }

    pub(super) fn marked(&mut self, body: &str) -> String {
        let mark = self.mark();
        format!("{body} /*{}*/", mark.text())
    }

    fn unit(&mut self, facts: Circumstances, turn: &mut Turn<'_>) {
        self.units = self.units.saturating_sub(1);
        if turn.plan.purpose.curve.is_some() {
            return self.select(turn);
        }
        match self.twin.status() {
            Status::Idle => {
                let block = if self.mode == PoolMode::Statement { 5 } else { 300 };
                if turn.random.chance(block) {
                    turn.census.transactions += 1;
                    self.began_block |= self.mode == PoolMode::Statement;
                    let text = self.marked("begin");
                    self.query(&text);
                    return;
                }
            }
            Status::InTransaction if self.units == 0 || facts.closing_time || turn.random.chance(300) => {
                let end = if turn.random.chance(700) { "commit" } else { "rollback" };
                let text = self.marked(end);
                self.query(&text);
                return;
            }
            Status::Failed if self.units == 0 || facts.closing_time || turn.random.chance(700) => {
                let text = self.marked("rollback");
                self.query(&text);
                return;
            }
            Status::InTransaction | Status::Failed => {}
        }
        self.statement(turn);
    }

    fn statement(&mut self, turn: &mut Turn<'_>) {
        let settled = !self.may_lose(turn.plan) || (self.twin.status() == Status::Idle && !self.is_owed());
        if turn.random.chance(turn.plan.manners.errors) {
            turn.census.errors += 1;
            let body = *turn.random.pick(&["select 1/0", "no such words", "set TimeZone = 'Mars/Olympus'"]);
            let text = self.marked(body);
            self.query(&text);
            return;
        }
        if settled && self.remembers(turn.plan) && turn.random.chance(turn.plan.manners.memory) {
            self.setting = true;
            return if self.habits.poisons { self.poison(turn) } else { self.remember(turn) };
        }
        if settled && self.uses_tables(turn.plan) && turn.random.chance(200) {
            return self.use_a_table(turn);
        }
        if settled && turn.random.chance(turn.plan.manners.sets) {
            self.setting = true;
            turn.census.sets += 1;
            return self.set(turn);
        }
        if turn.random.chance(turn.plan.manners.large) {
            turn.census.large_values += 1;
            // Where everything comes in small pieces, a large value would take all the steps there are.
            let most = if turn.plan.weather.pieces >= 300 { 12_000 } else { 300_000 };
            let len = turn.random.skewed(10_000, most);
            let text = self.marked(&format!("select 1 {len}"));
            return self.query(&text);
        }
        match turn.random.below(if self.may_be_struck() { 12 } else { 24 }) {
            0..=3 => self.select(turn),
            4..=6 => self.sleep(turn),
            7 => self.copy_in(turn),
            8 => {
                turn.census.copies_out += 1;
                let rows = turn.random.skewed(1, 200);
                let text = self.marked(&format!("copy (select {rows}, 20) to stdout"));
                self.query(&text);
            }
            9 | 10 => self.sleep(turn),
            11 => {
                turn.census.function_calls += 1;
                let mark = self.mark();
                self.send(tag::FUNCTION_CALL, |out| {
                    wire::message(out, tag::FUNCTION_CALL, |out| out.extend_from_slice(mark.text().as_bytes()));
                });
            }
            12 => self.query(""),
            13 | 14 if settled => {
                self.setting = true;
                self.several(turn);
            }
            15 => self.extended_copy_in(turn),
            16 if settled && self.wishes.is_empty() && self.twin.status() == Status::Idle => {
                self.setting = true;
                let text = self.marked(if turn.random.chance(500) { "discard all" } else { "deallocate all" });
                self.query(&text);
            }
            17 => {
                // What PostgreSQL ignores outside of COPY, and an empty batch.
                self.send(tag::COPY_DONE, frontend::encode_copy_done);
                self.send(tag::SYNC, frontend::encode_sync);
            }
            _ => self.batch(turn),
        }
    }

    fn select(&mut self, turn: &mut Turn<'_>) {
        let (rows, len) = (turn.random.skewed(0, 30), turn.random.skewed(0, 300));
        let text = self.marked(&format!("select {rows} {len}"));
        self.query(&text);
    }

    fn sleep(&mut self, turn: &mut Turn<'_>) {
        let micros = turn.random.skewed(1, turn.plan.manners.sleep_max);
        if turn.random.chance(300) {
            let text = self.marked(&format!("select pg_sleep({micros})"));
            self.one(&text);
        } else {
            let text = self.marked(&format!("select pg_sleep({micros})"));
            self.query(&text);
        }
    }

    fn set(&mut self, turn: &mut Turn<'_>) {
        let parameter = turn.random.below(parameters::COUNT as u64) as usize;
        let digit = turn.random.below(u64::from(parameters::choices(parameter))) as u8;
        let text = self.marked(&parameters::set_text(parameter, digit));
        if turn.random.chance(300) {
            self.one(&text);
        } else {
            self.query(&text);
        }
    }

    /// Several statements in one query.
    fn several(&mut self, turn: &mut Turn<'_>) {
        let idle = self.twin.status() == Status::Idle;
        let mut texts = Vec::new();
        for _ in 0..turn.random.range(2, 4) {
            let mark = self.mark().text();
            let body = match turn.random.below(6) {
                0 => {
                    let parameter = turn.random.below(parameters::COUNT as u64) as usize;
                    let digit = turn.random.below(u64::from(parameters::choices(parameter))) as u8;
                    parameters::set_text(parameter, digit)
                }
                1 => "select pg_sleep(50)".to_owned(),
                2 if turn.random.chance(300) => "select 1/0".to_owned(),
                _ => "select 2 20".to_owned(),
            };
            texts.push(format!("{body} /*{mark}*/"));
        }
        if idle && self.mode != PoolMode::Statement && turn.random.chance(300) {
            let mark = self.mark().text();
            texts.insert(0, format!("begin /*{mark}*/"));
            texts.push(format!("commit /*{}*/", self.mark().text()));
        }
        self.query(&texts.join("; "));
    }

    /// Data for COPY FROM STDIN, its end by CopyDone, CopyFail or an error, all at once or after a Flush.
    fn copy_data(&mut self, turn: &mut Turn<'_>) {
        for _ in 0..turn.random.skewed(0, 20) {
            let len = turn.random.skewed(0, 3_000) as usize;
            let data = vec![b'a' + (len % 26) as u8; len];
            self.send(tag::COPY_DATA, |out| frontend::encode_copy_data(out, &data));
        }
        if turn.plan.promises.leaves_copy(self.number, self.marks) && self.habits.vanishes_after.is_none() {
            // All that was sent arrives, and nothing comes behind it.
            self.habits.vanishes_after = Some(self.sent + (self.outbox.len() - self.outbox_at) as u64);
            self.habits.vanishes_orderly = true;
        }
        if turn.random.chance(700) {
            self.send(tag::COPY_DONE, frontend::encode_copy_done);
        } else {
            self.send(tag::COPY_FAIL, |out| CopyFail { message: b"no more" }.encode(out));
        }
    }

    fn copy_in(&mut self, turn: &mut Turn<'_>) {
        turn.census.copies_in += 1;
        let text = self.marked("copy t from stdin");
        self.query(&text);
        self.copy_data(turn);
    }

    fn extended_copy_in(&mut self, turn: &mut Turn<'_>) {
        turn.census.copies_in += 1;
        let text = self.marked("copy t from stdin");
        self.parse(b"", &text);
        self.bind(b"", b"", None);
        self.execute(b"", 0);
        if turn.random.chance(300) {
            self.send(tag::FLUSH, frontend::encode_flush);
        }
        self.copy_data(turn);
        self.send(tag::SYNC, frontend::encode_sync);
    }

    /// One statement by the unnamed statement and portal.
    pub(super) fn one(&mut self, text: &str) {
        self.parse(b"", text);
        self.bind(b"", b"", None);
        self.execute(b"", 0);
        self.send(tag::SYNC, frontend::encode_sync);
    }

    pub(super) fn parse(&mut self, name: &[u8], text: &str) {
        // Whoever has the same text by name shares it.
        let text = if name.is_empty() { self.hurried(text) } else { text.to_owned() };
        let parse = Parse { name, query: text.as_bytes(), types: Parse::NO_TYPES };
        self.send(tag::PARSE, |out| parse.encode(out));
    }

    pub(super) fn bind(&mut self, portal: &[u8], statement: &[u8], mark: Option<Mark>) {
        let text = mark.map(|mark| mark.text());
        let values = text.as_deref().map(|text| Some(text.as_bytes()));
        self.send(tag::BIND, |out| Bind::encode(out, portal, statement, values));
    }

    pub(super) fn execute(&mut self, portal: &[u8], rows_max: i32) {
        self.send(tag::EXECUTE, |out| Execute { portal, rows_max }.encode(out));
    }

    /// A pipeline of the extended protocol up to its Sync.
    fn batch(&mut self, turn: &mut Turn<'_>) {
        for _ in 0..turn.random.skewed(1, 12) {
            match turn.random.below(10) {
                0 => self.describe_or_close(turn),
                1 => {
                    let (rows, len) = (turn.random.skewed(0, 10), turn.random.skewed(0, 100));
                    let text = self.marked(&format!("select {rows} {len}"));
                    self.parse(b"", &text);
                    self.bind(b"", b"", None);
                    self.send(tag::DESCRIBE, |out| Describe { target: Target::Portal, name: b"" }.encode(out));
                    let some = if turn.random.chance(300) { 2 } else { 0 };
                    self.execute(b"", some);
                    if some > 0 && turn.random.chance(700) {
                        self.execute(b"", 0);
                    }
                }
                2 => self.send(tag::FLUSH, frontend::encode_flush),
                3 if turn.random.chance(600) => self.portal(turn),
                3 if turn.random.chance(100) => {
                    let mark = self.mark();
                    self.bind(b"", b"no such statement", Some(mark));
                }
                4 => self.unnamed(turn),
                _ => self.prepared(turn),
            }
        }
        self.send(tag::SYNC, frontend::encode_sync);
    }

    /// The unnamed statement in two steps, between which there may be a Sync, another server, and what ends it.
    fn unnamed(&mut self, turn: &mut Turn<'_>) {
        // Once in a while one that is not there. What was sent ahead of a loss was answered by another server, and may be there.
        let dares = self.losses == 0 && turn.random.chance(50);
        let binds = if self.twin.has_statement(b"") { self.twin.takes_mark(b"") } else { dares };
        if !binds || turn.random.chance(100) {
            let text = if turn.random.chance(100) { "no such words" } else { turn.random.pick(&TEXTS[..3]) };
            self.parse(b"", text);
            let (target, name) = (Target::Statement, &b""[..]);
            match turn.random.below(10) {
                0 => self.send(tag::CLOSE, |out| Close { target, name }.encode(out)),
                1..=3 => self.send(tag::DESCRIBE, |out| Describe { target, name }.encode(out)),
                _ => {}
            }
            return;
        }
        turn.census.unnamed += 1;
        let mark = self.mark();
        self.bind(b"", b"", Some(mark));
        self.execute(b"", 0);
    }

    fn prepared(&mut self, turn: &mut Turn<'_>) {
        turn.census.prepared += 1;
        let kinds = if turn.random.chance(200) { TEXTS.len() } else { 3 };
        let text = *turn.random.pick(&TEXTS[..kinds]);
        let name = format!("s{}.{}", self.losses, turn.random.below(4));
        let known = self.twin.has_statement(name.as_bytes());
        // Once in a while a name that is taken, or one that is not there.
        if known == turn.random.chance(20) {
            self.parse(name.as_bytes(), text);
            if turn.random.chance(300) {
                let name = name.as_bytes();
                self.send(tag::DESCRIBE, |out| Describe { target: Target::Statement, name }.encode(out));
            }
        }
        let mark = self.mark();
        self.bind(b"", name.as_bytes(), Some(mark));
        self.execute(b"", 0);
    }

    /// A named portal, which lives until its transaction ends: bound, fetched from in parts, described, closed.
    fn portal(&mut self, turn: &mut Turn<'_>) {
        turn.census.portals += 1;
        let portal = format!("p{}", turn.random.below(3));
        let portal = portal.as_bytes();
        let known = self.twin.has_portal(portal);
        // Once in a while a name that is taken, or one that is not there.
        if known == turn.random.chance(20) {
            let body = *turn.random.pick(&["select 7 20", "select 3 0", "select 40 100"]);
            let text = self.marked(body);
            self.parse(b"", &text);
            self.bind(portal, b"", None);
        }
        for _ in 0..turn.random.range(1, 3) {
            let target = Target::Portal;
            match turn.random.below(6) {
                0 => self.send(tag::DESCRIBE, |out| Describe { target, name: portal }.encode(out)),
                1 => self.send(tag::CLOSE, |out| Close { target, name: portal }.encode(out)),
                2 => self.send(tag::FLUSH, frontend::encode_flush),
                rows => self.execute(portal, rows as i32 - 3),
            }
        }
    }

    /// In session mode, and where sessions are not followed, nobody promises that a changed table changes no shared statement.
    fn uses_tables(&self, plan: &Plan) -> bool {
        let is_followed = self.followed && self.mode != PoolMode::Session;
        plan.promises.alters_tables && is_followed && self.twin.status() != Status::Failed && !self.may_be_struck()
    }

    /// A table of its own: a statement is prepared of it and run, or it gets another column.
    fn use_a_table(&mut self, turn: &mut Turn<'_>) {
        let table = format!("wide_{}_{}", self.number, self.losses);
        if self.twin.status() == Status::Idle && turn.random.chance(300) {
            turn.census.altered += 1;
            self.setting = true;
            let text = self.marked(&format!("alter table {table} add column c int"));
            return self.query(&text);
        }
        let name = format!("w{}.{}", self.losses, turn.random.below(3));
        let (target, name) = (Target::Statement, name.as_bytes());
        let mut known = self.twin.has_statement(name);
        if known && turn.random.chance(300) {
            self.send(tag::CLOSE, |out| Close { target, name }.encode(out));
            known = false;
        }
        if !known {
            self.parse(name, &format!("select * from {table}"));
        }
        if turn.random.chance(300) {
            self.send(tag::DESCRIBE, |out| Describe { target, name }.encode(out));
        }
        let mark = self.mark();
        self.bind(b"", name, Some(mark));
        self.execute(b"", 0);
        if turn.plan.goes_on_long(self.number, self.marks) {
            // More than is kept to be sent again.
            let (target, name) = (Target::Portal, [b'p'; 9_000]);
            (0..8).for_each(|_| self.send(tag::CLOSE, |out| Close { target, name: &name }.encode(out)));
        }
        self.send(tag::SYNC, frontend::encode_sync);
    }

    fn describe_or_close(&mut self, turn: &mut Turn<'_>) {
        let name = format!("s{}.{}", self.losses, turn.random.below(4));
        let (target, name) = (Target::Statement, name.as_bytes());
        if turn.random.chance(500) {
            self.send(tag::CLOSE, |out| Close { target, name }.encode(out));
        } else if self.twin.status() == Status::Failed {
            // A departure from PostgreSQL that is known: a server that lacks the statement gets it prepared first, which
            // fails; PostgreSQL itself describes it if it returns no rows.
        } else if self.twin.has_statement(name) || turn.random.chance(50) {
            self.send(tag::DESCRIBE, |out| Describe { target, name }.encode(out));
        }
    }
}
