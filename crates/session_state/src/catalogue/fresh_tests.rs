//! What clients define just now, and what that does to what was defined before: before any catalogue shows it.

use std::sync::Arc;
use std::time::Duration;

use sql::{Rules, Summary, Text};
use units::{ConnId, Kind, Time};
use wire::HEADER_LEN;
use wire::backend::encode_data_row;

use super::{Known, Next, Question, SideEffects, UNSURE};
use crate::catalogue::What;

const A1: &str =
    "create function a1() returns void language plpgsql as $$begin perform set_config('app.x', '1', false); end$$";
const HARMLESS: &str = "create or replace function a1() returns void language sql as 'select 1'";

fn server(slot: u32) -> ConnId {
    ConnId::new(Kind::Server, 0, slot, 0)
}

fn at(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

fn side_effects(known: &Known, text: &str) -> SideEffects {
    let summary = Summary::of(&Text::new(text.as_bytes(), Rules::default()));
    known.side_effects(summary.words(), summary.marks())
}

fn define(known: &mut Known, text: &str, now: Time) {
    known.learn(&What::read(text.as_bytes(), Rules::default()), server(1), now);
}

fn row(values: &[&str]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_data_row(&mut out, values.iter().map(|value| Some(value.as_bytes())));
    out.split_off(HEADER_LEN)
}

/// Reads a catalogue of these rows.
fn read(known: &mut Known, poll: &str, rows: &[[&str; 4]], now: Time) {
    known.begin(server(0), false, now);
    known.row(&row(&[poll]));
    if known.answered(now) == Next::Read {
        rows.iter().for_each(|values| known.row(&row(values)));
        assert_eq!(known.answered(now), Next::Nothing);
    }
}

fn known(rows: &[[&str; 4]]) -> Known {
    let mut known = Known::new(true);
    read(&mut known, "1", rows, at(1));
    assert!(side_effects(&known, "select 1").is_empty());
    known
}

/// What has the side effect a1 as soon as both are sent, whichever comes first: the definition, and a text that meets it.
const WRAPPERS: [(&str, &str); 20] = [
    ("create function s2() returns void language sql as 'select a1()'", "select s2()"),
    ("create function s2() returns void language sql begin atomic select a1(); end", "select s2()"),
    ("create function s2() returns void language plpgsql as $$begin perform public.a1(); end$$", "select s2()"),
    ("create procedure s2() language plpgsql as $$begin if true then perform a1(); end if; end$$", "call s2()"),
    ("create function s2() returns void language plpgsql as $$begin execute 'select a1()'; end$$", "select s2()"),
    ("create view s2 as select a1()", "select * from s2"),
    ("create materialized view s2 as select a1()", "refresh materialized view s2"),
    ("create table s2 (a int default a1())", "insert into s2 default values"),
    ("alter table s2 alter a set default a1()", "insert into s2 default values"),
    ("create policy p on s2 using (a1() is null)", "select * from s2"),
    ("create trigger t before insert on s2 execute function a1()", "insert into s2 values (1)"),
    ("create rule r as on insert to s2 do also select a1()", "insert into s2 values (1)"),
    ("create domain s2 as int check (a1(value))", "select 1::s2"),
    ("create table s2 (a int check (a1(a)))", "insert into s2 values (1)"),
    ("create index on s2 (a1(a))", "insert into s2 values (1)"),
    ("create aggregate s2(int) (sfunc = a1, stype = int)", "select s2(1)"),
    ("create operator === (function = a1, leftarg = int, rightarg = int)", "select 1 === 2"),
    ("create cast (int as box) with function a1(int) as implicit", "select 'x' from boxes"),
    ("create operator class c for type box using btree as function 1 a1(box, box)", "select * from t order by b"),
    ("create event trigger e on ddl_command_start execute function a1()", "create table x ()"),
];

#[test]
fn what_calls_a_new_function_has_its_side_effects() {
    for (definition, text) in WRAPPERS {
        let mut known = known(&[]);
        define(&mut known, A1, at(2));
        assert_eq!(side_effects(&known, "select 1 from others"), SideEffects::NONE);
        define(&mut known, definition, at(2));
        assert!(side_effects(&known, text).contains(SideEffects::SETTINGS), "{definition}");
        assert_eq!(known.settings().collect::<Vec<_>>(), [b"app.x"], "{definition}");
    }
}

#[test]
fn what_calls_a_replaced_function_has_the_new_side_effects() {
    for (definition, text) in WRAPPERS {
        let mut known = known(&[]);
        define(&mut known, HARMLESS, at(2));
        define(&mut known, definition, at(2));
        define(&mut known, A1, at(2));
        assert!(side_effects(&known, text).contains(SideEffects::SETTINGS), "{definition}");
    }
}

/// More places of a name.
const PLACES: [(&str, &str); 13] = [
    ("create table c (a int default a1()) inherits (b, s2)", "insert into s2 values (1)"),
    ("create table c partition of s2 (a default a1()) for values in (1)", "insert into s2 values (1)"),
    ("create table c (a int default a1() references s2 on delete set default)", "delete from s2"),
    ("alter table if exists only s2 alter a set default a1()", "insert into s2 values (1)"),
    ("create table if not exists s2 (a int default a1())", "insert into s2 values (1)"),
    ("create rule r as on delete to s2 do also select a1()", "delete from s2"),
    ("create trigger t before update on public.s2 execute function a1()", "update s2 set a = 1"),
    ("create policy p on s2 to alice using (a1() is null)", "select * from s2"),
    ("create view \"s2\" as select a1()", "select * from \"s2\""),
    ("create view S2 as select a1()", "select * from s2"),
    ("alter domain s2 add check (a1(value))", "select 1::s2"),
    ("create domain public.s2 as int check (a1(value))", "select 1::s2"),
    ("create type s2 (input = a1, output = a1)", "select 1::s2"),
];

/// Keywords that may be names: PostgreSQL takes each of these for a table's.
#[rustfmt::skip]
const NAMES: [&str; 24] = [
    "policy", "rule", "owner", "key", "domain", "event", "type", "text", "name", "view", "trigger", "sequence", "schema", "index",
    "insert", "update", "delete", "set", "drop", "add", "execute", "if", "language", "row",
];

#[test]
fn a_name_spelled_like_a_keyword_has_side_effects_like_another() {
    for (definition, text) in WRAPPERS.iter().chain(&PLACES) {
        for name in NAMES {
            let (definition, text) = (definition.replace("s2", name), text.replace("s2", name));
            let definition = definition.replace("S2", &name.to_uppercase());
            let mut known = known(&[]);
            define(&mut known, A1, at(2));
            define(&mut known, &definition, at(2));
            assert!(side_effects(&known, &text).contains(SideEffects::SETTINGS), "{definition}");
        }
    }
}

#[test]
fn a_keyword_where_no_name_can_be_is_none() {
    for definition in [
        "create table if not exists c (a int default a1() references b on delete cascade on update set null)",
        "create table c (a int default a1() references b on update no action on delete restrict)",
        "create rule r as on delete to c do also select a1()",
        "create trigger t before insert or update or delete on c for each row execute function a1()",
        "alter table c alter a set default a1()",
        "alter table c alter column a type text using a1()",
        "create policy p on c for update using (a1() is null)",
    ] {
        let mut known = known(&[]);
        define(&mut known, A1, at(2));
        define(&mut known, definition, at(2));
        for text in [
            "insert into others values (1)",
            "update others set z = 1",
            "delete from others",
            "create table if not exists others ()",
            "select 1::text",
            "alter table others add z int",
        ] {
            assert!(side_effects(&known, text).is_empty(), "{definition}: {text}");
        }
    }
}

#[test]
fn side_effects_pass_through_two_calls() {
    let mut known = known(&[]);
    define(&mut known, A1, at(2));
    define(&mut known, "create function s2() returns int language sql as 'select a1(); select 1'", at(2));
    define(&mut known, "create view v as select s2()", at(2));
    define(&mut known, "create view w as select * from v", at(2));
    define(&mut known, "create function s3() returns bigint language sql as 'select count(*) from w'", at(2));
    assert_eq!(side_effects(&known, "select s3()"), SideEffects::SETTINGS);
    assert_eq!(side_effects(&known, "select * from w"), SideEffects::SETTINGS);
    assert!(side_effects(&known, "select 1 from others").is_empty());
}

#[test]
fn what_was_read_gets_the_side_effects_of_what_is_defined_now() {
    let rows = [
        ["plpgsql", "c", "s2", "begin perform a1(); end"],
        ["edge", "sa", "v", "s2"],
        ["plpgsql", "c", "a1", "begin end"],
    ];
    let mut known = known(&rows);
    assert!(side_effects(&known, "select * from v").is_empty());
    define(&mut known, A1, at(2));
    assert!(side_effects(&known, "select * from v").contains(SideEffects::SETTINGS));
    known.settle(server(1), at(3), false);
    // What cannot be looked for is cleared; nobody keeps a server for it.
    define(
        &mut known,
        "create or replace function a1() returns void language plpgsql as 'begin load ''x''; end'",
        at(3),
    );
    assert!(
        side_effects(&known, "select * from v").contains(UNSURE)
            && !side_effects(&known, "select * from v").any(SideEffects::LOAD)
    );
    known.settle(server(1), at(4), false);
    let rows = [
        ["plpgsql", "c", "s2", "begin perform a1(); end"],
        ["edge", "sa", "v", "s2"],
        ["plpgsql", "c", "a1", "begin load 'x'; end"],
    ];
    read(&mut known, "2", &rows, at(5));
    assert_eq!(side_effects(&known, "select * from v"), SideEffects::LOAD);
    assert!(side_effects(&known, "select 1").is_empty());
    // As it was: nothing new to fear.
    define(
        &mut known,
        "create or replace function a1() returns void language plpgsql as 'begin load ''x''; end'",
        at(6),
    );
    assert!(side_effects(&known, "select 1").is_empty());
}

#[test]
fn a_new_serial_column_puts_nobody_else_in_doubt() {
    let mut known = known(&[["plpgsql", "c", "f", "begin insert into t values (1); end"]]);
    define(&mut known, "create table t (id serial)", at(2));
    assert!(side_effects(&known, "select 1 from others").is_empty());
    assert_eq!(side_effects(&known, "insert into t default values"), SideEffects::SEQUENCE);
}

#[test]
fn a_temporary_table_with_numbered_rows_is_no_reason_to_ask() {
    let mut known = known(&[]);
    for text in ["create temp table if not exists ts (id serial)", "CREATE LOCAL TEMPORARY TABLE ts (id serial)"] {
        define(&mut known, text, at(1));
        known.settle(server(1), at(1), false);
        assert!(!known.is_due(at(2), true) && known.is_due(at(3), true), "{text}");
        assert!(side_effects(&known, "insert into ts default values").is_empty(), "{text}");
    }
    define(&mut known, "create table ts ( temp int, id serial)", at(1));
    assert_eq!(side_effects(&known, "insert into ts default values"), SideEffects::SEQUENCE);
}

#[test]
fn a_transaction_that_goes_on_is_no_reason_to_poll() {
    let mut known = known(&[]);
    poll_slowly(&mut known, at(3), Duration::from_millis(300));
    define(&mut known, A1, at(4));
    assert!(!known.is_due(at(5), true) && known.is_due(at(6), true));
    assert_eq!(known.begin(server(0), true, at(6)), Question::Glance);
    known.row(&row(&["1"]));
    known.answered(at(6));
    assert!(side_effects(&known, "select a1()").contains(SideEffects::SETTINGS));
}

#[test]
fn what_is_defined_is_polled_after_a_pause_that_the_last_poll_has_earned() {
    let mut known = known(&[]);
    poll_slowly(&mut known, at(3), Duration::from_millis(300));
    define(&mut known, A1, at(4));
    known.settle(server(1), at(5), false);
    // The glance at six.
    assert_eq!(known.begin(server(0), true, at(6)), Question::Glance);
    known.row(&row(&["1"]));
    known.answered(at(6));
    assert_eq!(known.begin(server(0), true, at(18)), Question::Glance);
    known.row(&row(&["1"]));
    known.answered(at(18));
    assert_eq!(known.begin(server(0), true, at(19)), Question::Poll, "15 s are over");
    assert!(side_effects(&known, "select a1()").contains(SideEffects::SETTINGS));
}

/// A poll that finds nothing, and the glance before it.
fn poll_slowly(known: &mut Known, now: Time, took: Duration) {
    known.begin(server(0), true, now);
    known.row(&row(&["1"]));
    assert_eq!(known.answered(now + took), Next::Nothing);
    known.times.glanced(Some(row(&["1"]).into()), now + took + took * 10);
    known.times.polled(now, now + took, false);
}

#[test]
fn many_tables_in_one_text_are_read_once_for_all_pools() {
    let text: String = (0..2200).map(|number| format!("create table t{number} (a int);")).collect();
    let mut pools: Vec<Known> = (0..41).map(|_| known(&[])).collect();
    let what = What::read(text.as_bytes(), Rules::default());
    pools.iter_mut().for_each(|pool| assert!(pool.learn(&what, server(1), at(2))));
    let What::Text(texts) = &what else { panic!("it is a text") };
    assert_eq!(Arc::strong_count(&texts.mentioned), 42, "no pool keeps a list of its own");
    // The side effects that one of the tables gets are unknown.
    define(&mut pools[0], A1, at(2));
    define(&mut pools[0], "create trigger t before insert on t2199 execute function a1()", at(2));
    assert!(side_effects(&pools[0], "select 1 from others").contains(SideEffects::SETTINGS));
    assert!(side_effects(&pools[1], "select 1 from others").is_empty());
    pools[0].settle(server(1), at(3), false);
    read(&mut pools[0], "2", &[], at(4));
    assert_eq!(Arc::strong_count(&texts.mentioned), 41);
}

#[test]
fn what_is_mentioned_is_bounded() {
    let mut known = known(&[]);
    let words: String = (0..20_000).map(|number| format!("w{number}(); ")).collect();
    let text = format!("create function f() returns void language plpgsql as $$begin {words} end$$");
    define(&mut known, &text, at(2));
    assert_eq!(side_effects(&known, "select g()"), UNSURE);
    known.settle(server(1), at(3), false);
    read(&mut known, "2", &[], at(4));
    assert!(side_effects(&known, "select g()").is_empty());
}
