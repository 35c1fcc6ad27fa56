//! What clients define just now, and what that does to what was defined before: before any catalogue shows it.

use std::time::Duration;

use sql::{Rules, Summary, Text};
use wire::HEADER_LEN;
use wire::backend::encode_data_row;

use super::{Hidden, Known, Next, UNSURE};
use crate::id::{ConnId, Kind};
use crate::time::Time;

const A1: &str =
    "create function a1() returns void language plpgsql as $$begin perform set_config('app.x', '1', false); end$$";
const HARMLESS: &str = "create or replace function a1() returns void language sql as 'select 1'";

fn server(slot: u32) -> ConnId {
    ConnId::new(Kind::Server, 0, slot, 0)
}

fn at(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

fn hides(known: &Known, text: &str) -> Hidden {
    let summary = Summary::of(&Text::new(text.as_bytes(), Rules::default()));
    known.hides(summary.words(), summary.marks())
}

fn define(known: &mut Known, text: &str, now: Time) {
    let summary = Summary::of(&Text::new(text.as_bytes(), Rules::default()));
    let makes_routine = ["create function", "create or replace function", "create aggregate"];
    let only_calls = makes_routine.iter().any(|start| text.starts_with(start));
    known.define(text.as_bytes(), summary.words(), only_calls, server(1), now);
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
    assert!(hides(&known, "select 1").is_empty());
    known
}

/// What hides a1 as soon as both are sent, whichever comes first: the definition, and a text that meets it.
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
fn what_meets_a_new_function_hides_what_that_does() {
    for (definition, text) in WRAPPERS {
        let mut known = known(&[]);
        define(&mut known, A1, at(2));
        assert_eq!(hides(&known, "select 1 from others"), Hidden::NONE);
        define(&mut known, definition, at(2));
        assert!(hides(&known, text).contains(Hidden::SETTINGS), "{definition}");
        assert_eq!(known.settings().collect::<Vec<_>>(), [b"app.x"], "{definition}");
    }
}

#[test]
fn what_meets_a_function_hides_what_that_does_once_it_is_another() {
    for (definition, text) in WRAPPERS {
        let mut known = known(&[]);
        define(&mut known, HARMLESS, at(2));
        define(&mut known, definition, at(2));
        define(&mut known, A1, at(2));
        assert!(hides(&known, text).contains(Hidden::SETTINGS), "{definition}");
    }
}

#[test]
fn what_meets_what_meets_a_new_function_hides_it_too() {
    let mut known = known(&[]);
    define(&mut known, A1, at(2));
    define(&mut known, "create function s2() returns int language sql as 'select a1(); select 1'", at(2));
    define(&mut known, "create view v as select s2()", at(2));
    define(&mut known, "create view w as select * from v", at(2));
    define(&mut known, "create function s3() returns bigint language sql as 'select count(*) from w'", at(2));
    assert_eq!(hides(&known, "select s3()"), Hidden::SETTINGS);
    assert_eq!(hides(&known, "select * from w"), Hidden::SETTINGS);
    assert!(hides(&known, "select 1 from others").is_empty());
}

#[test]
fn what_was_read_hides_what_is_defined_now() {
    let rows = [
        ["plpgsql", "c", "s2", "begin perform a1(); end"],
        ["edge", "sa", "v", "s2"],
        ["plpgsql", "c", "a1", "begin end"],
    ];
    let mut known = known(&rows);
    assert!(hides(&known, "select * from v").is_empty());
    define(&mut known, A1, at(2));
    assert!(hides(&known, "select * from v").contains(Hidden::SETTINGS));
    known.settled(server(1), at(3));
    // What cannot be looked for is cleared; nobody keeps a server for it.
    define(
        &mut known,
        "create or replace function a1() returns void language plpgsql as 'begin load ''x''; end'",
        at(3),
    );
    assert!(hides(&known, "select * from v").contains(UNSURE) && !hides(&known, "select * from v").any(Hidden::LOAD));
    known.settled(server(1), at(4));
    let rows = [
        ["plpgsql", "c", "s2", "begin perform a1(); end"],
        ["edge", "sa", "v", "s2"],
        ["plpgsql", "c", "a1", "begin load 'x'; end"],
    ];
    read(&mut known, "2", &rows, at(5));
    assert_eq!(hides(&known, "select * from v"), Hidden::LOAD);
    assert!(hides(&known, "select 1").is_empty());
    // As it was: nothing new to fear.
    define(
        &mut known,
        "create or replace function a1() returns void language plpgsql as 'begin load ''x''; end'",
        at(6),
    );
    assert!(hides(&known, "select 1").is_empty());
}

#[test]
fn a_new_serial_column_puts_nobody_else_in_doubt() {
    let mut known = known(&[["plpgsql", "c", "f", "begin insert into t values (1); end"]]);
    define(&mut known, "create table t (id serial)", at(2));
    assert!(hides(&known, "select 1 from others").is_empty());
    assert_eq!(hides(&known, "insert into t default values"), Hidden::SEQUENCE);
}

#[test]
fn what_is_mentioned_is_bounded() {
    let mut known = known(&[]);
    let words: String = (0..20_000).map(|number| format!("w{number}(); ")).collect();
    let text = format!("create function f() returns void language plpgsql as $$begin {words} end$$");
    define(&mut known, &text, at(2));
    assert_eq!(hides(&known, "select g()"), UNSURE);
    known.settled(server(1), at(3));
    read(&mut known, "2", &[], at(4));
    assert!(hides(&known, "select g()").is_empty());
}
