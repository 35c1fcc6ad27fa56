//! Clients that set and read the state of their session: in transactions, with savepoints and errors, in one statement
//! or many, in both protocols.
//!
//! They must see what the twin returns, also after a change of server.

use settings::PoolMode;
use wire::backend::Status;
use wire::frontend::{self, Close, Describe, Target, tag};

use super::turn::Turn;
use crate::random::Random;
use crate::settings::ROLES;

/// Settings, with values that they may have and some that they may not.
const SETTINGS: [(&str, &[&str]); 12] = [
    ("work_mem", &["'8MB'", "4096", "'100kB'", "'no size'"]),
    ("statement_timeout", &["0", "60000", "'1min'", "'5000ms'"]),
    ("lock_timeout", &["1500", "'2s bad'", "0"]),
    ("search_path", &["a, b", "'a, b'", "\"$user\", public", "app"]),
    ("default_transaction_read_only", &["on", "off", "true"]),
    ("enable_seqscan", &["off", "ON", "'no'", "perhaps"]),
    ("row_security", &["off", "on"]),
    ("session_replication_role", &["replica", "local", "'origin'"]),
    ("app.tenant", &["'17'", "'18'", "''"]),
    ("app.User_Id", &["'it''s'", "42", "E'back\\\\slash'"]),
    ("no_such_setting", &["1"]),
    ("TimeZone", &["'Asia/Tokyo'", "'UTC'", "'Europe/Zurich'"]),
];

/// Not followed yet where a session changes its servers.
const FOLLOWS_SEQUENCES: bool = false;
const FOLLOWS_SIDE_EFFECTS: bool = false;

impl Turn<'_> {
    /// Whether it uses more state than a pooler in the mode at hand keeps.
    pub(super) fn remembers(&mut self) -> bool {
        self.keeps_its_server() || self.who.followed
    }

    fn keeps_its_server(&mut self) -> bool {
        self.who.mode == PoolMode::Session && !self.plan.settings.global.servers.server_reset_query.is_empty()
    }

    /// One unit: statements that set state and read it, and others between them.
    pub(super) fn remember(&mut self) {
        self.census.statements.memories += 1;
        match self.random.below(10) {
            0..=4 => {
                let text = self.memory();
                self.talk.query(&text);
            }
            5 | 6 => {
                let text = self.memory();
                self.talk.one(&text);
            }
            7 => self.memories_in_one_query(),
            _ => self.memories_in_one_batch(),
        }
    }

    fn memories_in_one_query(&mut self) {
        let mut texts = Vec::new();
        let may_begin = self.talk.twin.status() == Status::Idle && self.who.mode != PoolMode::Statement;
        let block = may_begin && self.random.chance(400);
        if block {
            texts.push(self.talk.marked("begin"));
        }
        for _ in 0..self.random.range(2, 6) {
            texts.push(if self.random.chance(40) { self.talk.marked("select 1/0") } else { self.memory() });
        }
        if block {
            let end = *self.random.pick(&["commit", "commit", "rollback"]);
            texts.push(self.talk.marked(end));
        }
        self.talk.query(&texts.join("; "));
    }

    fn memories_in_one_batch(&mut self) {
        for _ in 0..self.random.range(2, 6) {
            // In a failed transaction the pooler cannot deallocate other sessions' statements on the server.
            if self.random.chance(100) && self.talk.twin.status() != Status::Failed {
                self.by_its_name();
                continue;
            }
            let text = if self.random.chance(40) { self.talk.marked("select 1/0") } else { self.memory() };
            self.talk.parse(b"", &text);
            self.talk.bind(b"", b"", None);
            self.talk.execute(b"", 0);
        }
        self.talk.send(tag::SYNC, frontend::encode_sync);
    }

    /// Uses a statement of SQL's PREPARE by the extended protocol, which shares its names.
    fn by_its_name(&mut self) {
        let name = format!("q{}", self.random.below(3));
        let (target, name) = (Target::Statement, name.as_bytes());
        match self.random.below(8) {
            0 => self.talk.send(tag::CLOSE, |out| Close { target, name }.encode(out)),
            1 if self.talk.twin.session().has_statement(name) => {
                self.talk.send(tag::DESCRIBE, |out| Describe { target, name }.encode(out))
            }
            _ => {
                let mark = self.talk.mark();
                self.talk.bind(b"", name, Some(mark));
                self.talk.execute(b"", 0);
            }
        }
    }

    /// Leaves all kinds of state in one query, and continues.
    pub(super) fn poison(&mut self) {
        self.census.statements.memories += 1;
        let bodies = [
            "set work_mem = '64MB'",
            "set search_path = poison",
            "set statement_timeout = 1",
            "set session characteristics as transaction read only",
            "set row_security = off",
            "set app.tenant = 'poison'",
            "set TimeZone = 'Asia/Tokyo'",
            "set role writer",
        ];
        let count = self.random.range(1, bodies.len() as u64) as usize;
        let from = self.random.below(bodies.len() as u64) as usize;
        let mut texts: Vec<String> = Vec::new();
        for body in bodies.iter().cycle().skip(from).take(count) {
            texts.push(self.talk.marked(body));
        }
        for name in 0..3 {
            if !self.talk.twin.session().has_statement(format!("q{name}").as_bytes()) {
                texts.push(self.talk.marked(&format!("prepare q{name} as select 1 {}", 60 + name)));
            }
        }
        self.talk.query(&texts.join("; "));
    }

    /// One statement.
    fn memory(&mut self) -> String {
        let body = match self.random.below(21) {
            _ if self.habits.shares_channel && self.random.chance(300) => self.some_channel(),
            0..=4 => self.some_setting(),
            5 | 6 => self.some_identity(),
            7..=9 => self.some_statement(),
            10..=12 => self.some_table(),
            13 | 14 => some_cursor(self.random),
            15 => self.some_lock(),
            16 if FOLLOWS_SEQUENCES || self.who.mode == PoolMode::Session => self.some_sequence(),
            16 => self.some_channel(),
            17 if self.talk.twin.status() != Status::Idle => some_savepoint(self.random),
            17 => (*self.random.pick(&["discard sequences", "discard plans", "load 'auto_explain'"])).to_owned(),
            18 => self.some_seed(),
            19 => self.some_channel(),
            _ => self.something_final(),
        };
        self.talk.marked(&body)
    }

    fn some_setting(&mut self) -> String {
        let (name, values) = self.random.pick(&SETTINGS);
        // A pooled server does not know the session's startup parameters.
        let known = self.who.wishes.is_empty() || *name != "TimeZone";
        let value = *self.random.pick(values);
        match self.random.below(12) {
            0..=2 => format!("set {name} = {value}"),
            3 => format!("set session {name} to {value}"),
            4 => format!("set local {name} to {value}"),
            5 if known => format!("set {name} to default"),
            6 if known => format!("reset {name}"),
            7 if value.starts_with('\'') => {
                let local = if self.random.chance(300) { "true" } else { "false" };
                let function = "set_config";
                format!("select {function}('{name}', {value}, {local})")
            }
            8 => format!("select current_setting('{name}')"),
            9 => (*self.random.pick(&[
                "set session characteristics as transaction isolation level serializable",
                "set session characteristics as transaction read only, isolation level repeatable read",
                "set session characteristics as transaction read write",
                "show default_transaction_isolation",
            ]))
            .to_owned(),
            10 if self.may_call_side_effects() && value.starts_with('\'') && name.starts_with("app") => {
                format!("select hidden_set('{name}', {value})")
            }
            _ => format!("show {name}"),
        }
    }

    fn some_identity(&mut self) -> String {
        let role = *self.random.pick(&ROLES);
        match self.random.below(12) {
            0..=2 => format!("set role {role}"),
            3 => format!("set local role {role}"),
            4 => "reset role".to_owned(),
            5 => "set role none".to_owned(),
            6 => (*self.random.pick(&["set role nobody", "set role stranger"])).to_owned(),
            7 => format!("set session authorization {role}"),
            8 => "reset session authorization".to_owned(),
            9 => "show role".to_owned(),
            _ => "select current_user, session_user".to_owned(),
        }
    }

    /// Whether it may use functions with side effects that its statements do not show.
    fn may_call_side_effects(&mut self) -> bool {
        FOLLOWS_SIDE_EFFECTS || self.who.mode == PoolMode::Session
    }

    fn some_statement(&mut self) -> String {
        let name = format!("q{}", self.random.below(3));
        // A name of the protocol's, which SQL shares; on a pooled server the statement has another name.
        let other = format!("s{}.{}", self.losses, self.random.below(4));
        match self.random.below(9) {
            0 | 1 => format!("prepare {name} as select {} {}", self.random.below(5), self.random.below(30)),
            2..=4 => format!("execute {name}"),
            5 => format!("deallocate {name}"),
            6 if self.who.followed && self.talk.twin.session().is_executable(other.as_bytes()) => {
                format!("execute \"{other}\"")
            }
            7 if self.who.followed && self.who.mode != PoolMode::Session => format!("deallocate \"{other}\""),
            _ => "select name from pg_prepared_statements".to_owned(),
        }
    }

    fn some_table(&mut self) -> String {
        let name = format!("t{}", self.random.below(3));
        match self.random.below(10) {
            0 | 1 => format!("create temp table {name} (x int)"),
            2 => format!("create temporary table {name} (x int) on commit drop"),
            3..=5 => format!("insert into {name} values (default)"),
            6 => format!("drop table {name}"),
            7 if self.random.chance(200) => "discard temp".to_owned(),
            8 if self.may_call_side_effects() && self.random.chance(300) => format!("select hidden_temp('{name}')"),
            _ => format!("select * from {name}"),
        }
    }

    fn some_lock(&mut self) -> String {
        let key = u64::from(self.who.number) * 100 + u64::from(self.losses) * 3 + self.random.below(3);
        match self.random.below(10) {
            0 | 1 => format!("select pg_advisory_lock({key})"),
            2 | 3 => format!("select pg_try_advisory_lock({key})"),
            4 | 5 => format!("select pg_advisory_unlock({key})"),
            6 => "select pg_advisory_unlock_all()".to_owned(),
            7 if self.may_call_side_effects() => format!("select hidden_lock({key})"),
            _ => "select objid from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()".to_owned(),
        }
    }

    fn some_sequence(&mut self) -> String {
        let name = format!("c{}_{}_{}", self.who.number, self.losses, self.random.below(2));
        match self.random.below(6) {
            0..=2 => format!("select nextval('{name}')"),
            3 | 4 => format!("select currval('{name}')"),
            _ => "select lastval()".to_owned(),
        }
    }

    /// A channel that only this client uses; in some worlds one of all clients of its database.
    fn some_channel(&mut self) -> String {
        let name = match self.random.below(2) {
            1 if self.habits.shares_channel => self.who.shared_channel(),
            index => format!("of_{}_{index}", self.who.number),
        };
        match self.random.below(9) {
            0 | 1 => format!("listen {name}"),
            2 => format!("unlisten {name}"),
            3 => "unlisten *".to_owned(),
            4 | 5 => format!("notify {name}, 'c{}.{}'", self.who.number, self.random.below(3)),
            6 => format!("select pg_notify('{name}', 'c{}.9')", self.who.number),
            // On a shared channel the payload says which client has sent it.
            7 if !self.habits.shares_channel => format!("notify {name}"),
            // In other modes it would show the channels of the server.
            _ if self.who.mode == PoolMode::Session => "select pg_listening_channels()".to_owned(),
            _ => format!("listen {name}"),
        }
    }

    fn some_seed(&mut self) -> String {
        // Without setseed the value cannot be foretold.
        if self.talk.twin.session().is_seeded() && self.random.chance(700) {
            return "select random()".to_owned();
        }
        format!("select setseed(0.{})", self.random.below(100))
    }

    fn something_final(&mut self) -> String {
        let known = self.who.wishes.is_empty();
        match self.random.below(6) {
            0 if known => "discard all".to_owned(),
            1 if known => "reset all".to_owned(),
            2 => "deallocate all".to_owned(),
            3 => "close all".to_owned(),
            _ => "select name from pg_prepared_statements".to_owned(),
        }
    }
}

fn some_cursor(random: &mut Random) -> String {
    let name = format!("h{}", random.below(3));
    match random.below(10) {
        0..=2 => format!("declare {name} cursor with hold for select {} {}", random.below(9), random.below(20)),
        3 => format!("declare {name} cursor for select {} {}", random.below(9), random.below(20)),
        4..=6 => format!("fetch {} from {name}", random.range(1, 4)),
        7 => format!("close {name}"),
        _ => "select name from pg_cursors".to_owned(),
    }
}

fn some_savepoint(random: &mut Random) -> String {
    let name = format!("s{}", random.below(3));
    match random.below(4) {
        0 | 1 => format!("savepoint {name}"),
        2 => format!("release savepoint {name}"),
        _ => format!("rollback to savepoint {name}"),
    }
}
