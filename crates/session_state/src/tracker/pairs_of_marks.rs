//! One text can do several things to its session. For every pair of marks: of a text that has both, both effects are noted.

use std::collections::BTreeSet;
use std::sync::Arc;

use sql::{Marks, Rules, Summary, Text};
use units::Time;

use super::{Places, Tracker};
use crate::catalogue::{Catalogue, Known, SideEffects};
use crate::parameters::{Parameters, Tracked};
use crate::pins;
use crate::state::base::LOGIN;
use crate::state::{Defines, Effect, Effects, OnServer, Pins, Reading, SettingChange};

/// A statement for each mark.
const STATEMENTS: [(Marks, &str); 47] = [
    (Marks::UNKNOWN, "frobnicate t"),
    (Marks::BEGIN, "begin"),
    (Marks::COMMIT, "commit"),
    (Marks::ROLLBACK, "rollback"),
    (Marks::CHAIN, "commit and chain"),
    (Marks::SAVEPOINT, "savepoint s"),
    (Marks::TWO_PHASE, "prepare transaction 'x'"),
    (Marks::SET, "set work_mem = '1MB'"),
    (Marks::SET_LOCAL, "set local jit = off"),
    (Marks::LOCAL_RIGHTS, "set local role boss"),
    (Marks::RESET, "reset app.x"),
    (Marks::DISCARD, "discard sequences"),
    (Marks::PREPARE, "prepare p as select 1"),
    (Marks::EXECUTE, "execute q"),
    (Marks::DEALLOCATE, "deallocate r"),
    (Marks::DECLARE, "declare c cursor for select 1"),
    (Marks::HOLD, "declare c cursor with hold for select 1"),
    (Marks::CLOSE, "close c"),
    (Marks::FETCH, "fetch c"),
    (Marks::LISTEN, "listen l"),
    (Marks::UNLISTEN, "unlisten u"),
    (Marks::NOTIFY, "notify n"),
    (Marks::LOAD, "load 'auto_explain'"),
    (Marks::COPY, "copy t from stdin"),
    (Marks::BLOCK, "do $$ begin end $$"),
    (Marks::CALL, "call f()"),
    (Marks::ALONE, "vacuum"),
    (Marks::EMPTY_DATABASE, "drop database d"),
    (Marks::TEMPORARY, "create temp table x (a int)"),
    (Marks::ROUTINES, "create view v as select 1"),
    (Marks::RELATIONS, "create table y (a int)"),
    (Marks::PERMANENT, "alter table y add b int"),
    (Marks::DEFAULTS, "alter role r set work_mem = '1MB'"),
    (Marks::SET_CONFIG, "select set_config('app.z', 'x', false)"),
    (Marks::ADVISORY, "select pg_advisory_lock(1)"),
    (Marks::CURRVAL, "select currval('s')"),
    (Marks::NEXTVAL, "select nextval('s')"),
    (Marks::BACKEND_PID, "select pg_backend_pid()"),
    (Marks::SEED, "select setseed(0.5)"),
    (Marks::CHANNELS, "select pg_listening_channels()"),
    (Marks::SNAPSHOT, "select pg_export_snapshot()"),
    (Marks::BACKUP, "select pg_backup_start('x')"),
    (Marks::SLOT, "select pg_create_physical_replication_slot('x')"),
    (Marks::ORIGIN, "select pg_replication_origin_session_setup('x')"),
    (Marks::DBLINK, "select dblink_connect('x')"),
    (Marks::SETTINGS_READ, "show jit"),
    (Marks::STATE_READ, "select pg_my_temp_schema()"),
];

/// Statements that evaluate the expression `@`.
const AROUND_EXPRESSIONS: [&str; 16] = [
    "select @",
    "prepare p as select @",
    "prepare p (text) as with x as (select @) select * from x",
    "execute q(@)",
    "explain analyze execute q(@)",
    "create table y as execute q(@)",
    "explain (analyze) select @",
    "declare c cursor with hold for select @",
    "copy (select @) to stdout",
    "call f(@)",
    "create table y as select @",
    "create temp table x as select @",
    "select @ into temp x",
    "with x as (select @) insert into t select * from x",
    "insert into t values (@) returning @",
    "frobnicate @",
];

type Predicate = (&'static str, fn(Reading) -> bool);

/// What a [`Reading`] tells of a text's marks. None may be taken away by what else the text does.
const QUESTIONS: [Predicate; 20] = [
    ("is_noted", |reading| reading.is_noted(false)),
    ("is_noted in a transaction", |reading| reading.is_noted(true)),
    ("defines", |reading| reading.defines() >= Defines::Unclear),
    ("defines for all", |reading| reading.defines() == Defines::ForAll),
    ("redefines", Reading::redefines),
    ("names_statements", Reading::names_statements),
    ("may_notify", Reading::may_notify),
    ("lists_channels", Reading::lists_channels),
    ("lists_statements", Reading::lists_statements),
    ("may_name_statements", Reading::may_name_statements),
    ("executes", Reading::executes),
    ("sets_by_function", Reading::sets_by_function),
    ("is_unknown", Reading::is_unknown),
    ("may_have_local_rights", Reading::may_have_local_rights),
    ("uses_sequences", Reading::uses_sequences),
    ("advances_sequences", Reading::advances_sequences),
    ("draws", Reading::draws),
    ("asks_for_currval", Reading::calls_currval),
    ("is_active", Reading::is_active),
    ("is not plain", |reading| !reading.is_plain()),
];

fn tracked() -> Tracked {
    Tracked::new(&["IntervalStyle".to_owned()])
}

fn marks(text: &str) -> Marks {
    Summary::of(&Text::new(text.as_bytes(), Rules::default())).marks()
}

fn effects(text: &str) -> Effects {
    Effects::read(&Text::new(text.as_bytes(), Rules::default()), &tracked())
}

/// The settings that are noted or asked for.
fn settings<'e>(effects: impl Iterator<Item = &'e Effect>) -> BTreeSet<Vec<u8>> {
    let mut names = BTreeSet::new();
    for effect in effects {
        match effect {
            Effect::QueryAgain { names: asked, .. } => names.extend(asked.iter().map(|name| name.to_vec())),
            Effect::Change(changes) => names.extend(changes.iter().filter_map(|change| match change {
                SettingChange::Set { name, .. } => Some(name.to_vec()),
                _ => None,
            })),
            _ => {}
        }
    }
    names
}

/// The statements that are named, and how.
fn names(effects: &Effects) -> Vec<String> {
    let name = |effect: &Effect| match effect {
        Effect::Prepare(kept) => Some(format!("prepare {}", kept.name.escape_ascii())),
        Effect::Execute(name) => Some(format!("execute {}", name.escape_ascii())),
        Effect::Pin(pins) => Some(format!("pin {pins:?}")),
        _ => None,
    };
    effects.iter().filter_map(name).collect()
}

/// A session, and what it needs to know of answers.
#[derive(Default)]
struct Followed {
    tracker: Tracker,
    on_server: OnServer,
    listens: bool,
    reported: Option<Arc<Parameters>>,
}

impl Followed {
    /// Sends a text, and answers each of its statements.
    fn run(&mut self, text: &str, tags: &[&[u8]]) {
        let reading = Reading { marks: marks(text), side_effects: SideEffects::NONE, only_reads: false };
        self.tracker.suspect(reading, text.as_bytes(), &Known::default());
        let mut effects = effects(text);
        self.tracker.add_executed(&mut effects, None, Rules::default(), &tracked());
        assert_eq!(effects.statements(), tags.len(), "{text}");
        self.tracker.sent(effects, text.as_bytes());
        for tag in tags {
            let tracked = tracked();
            let reported = self.reported.get_or_insert_with(|| Arc::new(tracked.empty()));
            let (on_server, listens) = (&mut self.on_server, &mut self.listens);
            let (names, first, local_rights) = (None, None, false);
            let base = &LOGIN;
            let now = Time::ZERO;
            let places =
                Places { now, on_server, listens, names, tracked: &tracked, reported, first, base, local_rights };
            self.tracker.confirmed(tag, places);
        }
        self.tracker.under_way.finished();
    }

    /// All that is known in the end; and what is looked for or keeps the server.
    fn known(&mut self) -> (String, Pins, BTreeSet<&str>) {
        self.tracker.ready(false);
        let (tracker, listens) = (&self.tracker, self.listens);
        let state = tracker.state().settings();
        let prepared: Vec<&[u8]> = self.on_server.names().collect();
        let pins = tracker.pinning.pins() | tracker.pinning.suspects();
        let known = format!("{state:?}, has prepared {prepared:?}, listens: {listens}");
        (known, pins, tracker.inspection.unread().into_iter().collect())
    }
}

fn tag(text: &str) -> &'static [u8] {
    if text == "rollback" { b"ROLLBACK\0" } else { b"DONE\0" }
}

#[test]
fn every_mark_has_its_statement() {
    let all = STATEMENTS.iter().fold(Marks::NONE, |all, (mark, _)| all | *mark);
    assert_eq!(all, Marks::ALL);
    for (mark, text) in STATEMENTS {
        assert!(marks(text).contains(mark), "{text}");
    }
}

/// What a kind of session state needs besides its row.
#[test]
fn a_kind_of_state_is_noticed_in_a_text_and_in_a_body() {
    for (pin, mark, side_effect) in pins::marked() {
        let (_, statement) = STATEMENTS.iter().find(|(known, _)| *known == mark).expect("each mark has one");
        let reading = Reading { marks: mark, side_effects: SideEffects::NONE, only_reads: false };
        assert!(reading.is_active(), "{pin:?}");
        let is_noted = reading.is_noted(false) && effects(statement).iter().any(|effect| *effect != Effect::Nothing);
        assert!(reading.pins().any(pin) || is_noted, "{pin:?}: neither its text nor its tag tells of it");
        let body = Catalogue::new([]).side_effects_of_block(format!("do $$ begin {statement}; end $$").as_bytes());
        assert!(body.side_effects.contains(side_effect), "{pin:?}: {statement:?} is not noticed in a body");
        assert!(Pins::of_side_effects(side_effect).any(pin), "{pin:?}");
    }
}

#[test]
fn what_is_told_of_one_mark_is_told_of_it_beside_any_other() {
    for (one, _) in STATEMENTS {
        for (other, _) in STATEMENTS {
            let reading = |marks: Marks| Reading { marks, side_effects: SideEffects::NONE, only_reads: false };
            for (words, question) in QUESTIONS {
                assert!(!question(reading(one)) || question(reading(one | other)), "{words}: {one:?} and {other:?}");
            }
            let both = reading(one | other).pins();
            assert_eq!(both, reading(one).pins() | reading(other).pins(), "{one:?} and {other:?}");
            let ended = Pins::ended_by(one | other);
            assert_eq!(ended, Pins::ended_by(one) | Pins::ended_by(other), "{one:?} and {other:?}");
        }
    }
}

#[test]
fn a_text_of_two_statements_has_the_effects_of_both() {
    for (_, first) in STATEMENTS {
        for (_, second) in STATEMENTS {
            let text = format!("{first}; {second}");
            assert!(marks(&text).contains(marks(first) | marks(second)), "{text}");
            let (one, other) = (effects(first), effects(second));
            assert!(effects(&text).iter().eq(one.iter().chain(other.iter())), "{text}");
            let (mut apart, mut together) = (Followed::default(), Followed::default());
            apart.run(first, &[tag(first)]);
            apart.run(second, &[tag(second)]);
            together.run(&text, &[tag(first), tag(second)]);
            let ((known, pins, asked), (expected, expected_pins, must_ask)) = (together.known(), apart.known());
            assert_eq!(known, expected, "{text}");
            // The body of a DO is looked for in the whole text: something more may be found.
            assert_eq!(pins & expected_pins, expected_pins, "{text}");
            assert!(asked.is_superset(&must_ask), "{text}");
        }
    }
}

#[test]
fn a_statement_has_its_own_effect_and_those_of_what_it_calls() {
    let expressions = STATEMENTS.iter().filter_map(|(_, text)| text.strip_prefix("select "));
    let mut count = 0;
    for expression in expressions.chain(["set_config('app.z', $1, false)", "set_config", "pg_temp.f(1)"]) {
        let called = format!("select {expression}");
        for around in AROUND_EXPRESSIONS {
            let (text, plain) = (around.replace('@', expression), around.replace('@', "1"));
            count += 1;
            // What is temporary is nobody else's.
            let expected = (marks(&plain) | marks(&called)).without(Marks::PERMANENT | Marks::RELATIONS);
            assert!(marks(&text).contains(expected), "{text}");
            let (found, runs) = (effects(&text), effects(&called));
            assert_eq!(found.statements(), 1, "{text}");
            assert_eq!(names(&found), names(&effects(&plain)), "{text}");
            match found.iter().find_map(|effect| effect.prepares(b"p")) {
                Some(run) => {
                    assert_eq!(settings([&run].into_iter()), settings(runs.iter()), "executed: {text}");
                    assert!(settings(found.iter()).is_empty(), "it does not run yet: {text}");
                }
                None => assert_eq!(settings(found.iter()), settings(runs.iter()), "{text}"),
            }
        }
    }
    assert!(count > 200, "{count}");
}

#[test]
fn an_execute_has_the_effects_of_what_it_runs() {
    let prepare = "prepare p as select set_config('app.z', $1, false)";
    let mut session = Followed::default();
    session.run(prepare, &[b"PREPARE\0"]);
    assert!(session.tracker.inspection.unread().is_empty() && session.on_server.has(b"p"));
    session.run("execute p('x')", &[b"SELECT 1\0"]);
    assert_eq!(session.tracker.inspection.unread(), ["app.z"]);
    assert!(!session.tracker.pinning.pins().any(Pins::DYNAMIC));
    // In one text, and as a table.
    let mut session = Followed::default();
    session.run(&format!("{prepare}; create table t as execute p('x')"), &[b"PREPARE\0", b"SELECT 1\0"]);
    assert_eq!(session.tracker.inspection.unread(), ["app.z"]);
    // Its last PREPARE is what runs.
    let mut session = Followed::default();
    session.run(prepare, &[b"PREPARE\0"]);
    session.run("deallocate p; prepare p as select 1; execute p", &[b"DEALLOCATE\0", b"PREPARE\0", b"SELECT 1\0"]);
    assert!(session.tracker.inspection.unread().is_empty());
    // Nobody reads the arguments.
    let mut session = Followed::default();
    session.run("prepare p as select set_config($1, $2, false); execute p('a.b', 'c')", &[b"PREPARE\0", b"SELECT 1\0"]);
    assert!(session.tracker.pinning.pins().any(Pins::DYNAMIC));
}

#[test]
fn an_execute_of_what_nobody_has_seen_may_do_anything() {
    let mut session = Followed::default();
    session.run("execute p", &[b"SELECT 1\0"]);
    assert!(
        session.tracker.pinning.suspects().any(Pins::ADVISORY) && session.tracker.pinning.suspects().any(Pins::DYNAMIC)
    );
    // Also where it was too long to be kept.
    let long = format!("prepare p as select '{}', pg_advisory_lock(1)", "x".repeat(units::limits::STATEMENT_LEN_MAX));
    let mut session = Followed::default();
    session.run(&long, &[b"PREPARE\0"]);
    session.run("execute p", &[b"SELECT 1\0"]);
    assert!(session.tracker.pinning.suspects().any(Pins::DYNAMIC));
}
