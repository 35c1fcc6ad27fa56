//! What a pool knows as its clients define things, and as it asks.

use super::super::defined::FRESH_MAX;
use super::super::schedule::SOON;
use super::super::timetable::RETRY_MAX;

use super::super::TIMEOUT;
use super::*;
use crate::catalogue::{Land, Row, What};
use sql::{Rules, Summary, Text};
use std::time::Duration;
use units::Kind;
use wire::HEADER_LEN;
use wire::backend::encode_data_row;

fn server(slot: u32) -> ConnId {
    ConnId::new(Kind::Server, 0, slot, 0)
}

fn at(seconds: u64) -> Time {
    Time::ZERO + Duration::from_secs(seconds)
}

/// On the session.
fn side_effects(known: &Known, text: &str) -> SideEffects {
    all_side_effects(known, text).without(SideEffects::WRITES)
}

fn all_side_effects(known: &Known, text: &str) -> SideEffects {
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

/// Asks, with these bodies of functions.
fn read(known: &mut Known, poll: &str, bodies: &[(&str, &str)], now: Time) {
    assert!(known.is_due(now, true));
    known.begin(server(0), false, now);
    known.row(&row(&[poll]));
    if known.answered(now) == Next::Read {
        for (name, body) in bodies {
            known.row(&row(&["plpgsql", "c", name, body]));
        }
        assert_eq!(known.answered(now), Next::Nothing);
    }
}

#[test]
fn until_it_was_read_everything_is_suspect_and_a_check_tells() {
    let mut known = Known::new(true);
    assert_eq!(side_effects(&known, "select 1 from t"), UNSURE);
    assert!(side_effects(&Known::new(false), "select f()").is_empty());
    read(&mut known, "1", &[("f", "begin create temp table t(); end")], at(1));
    assert!(side_effects(&known, "select 1 from t").is_empty());
    assert_eq!(side_effects(&known, "select f()"), SideEffects::TEMPORARY);
    assert!(!known.is_due(at(2), true) && known.is_due(at(3), true) && !known.is_due(at(3), false));
    assert!(known.is_due(at(4), false));
    assert!(!known.is_overdue(at(4)) && known.is_overdue(at(5)), "nobody waits for longer");
    known.aged(at(61));
    assert!(side_effects(&known, "select 1").is_empty());
    known.aged(at(62));
    assert_eq!(side_effects(&known, "select 1"), UNSURE);
    read(&mut known, "1", &[], at(62));
    assert!(side_effects(&known, "select 1").is_empty());
    assert_eq!(side_effects(&known, "select f()"), SideEffects::TEMPORARY, "nothing has changed, so it was not read");
}

#[test]
fn a_new_table_s_rows_are_known_to_be_numbered() {
    for column in ["id serial", "id BIGSERIAL", "id int generated always as identity", "id int default nextval('s')"] {
        let mut known = Known::new(true);
        read(&mut known, "1", &[], at(1));
        define(&mut known, &format!("create table orders ({column}, note text)"), at(2));
        assert_eq!(side_effects(&known, "insert into orders (note) values ('x')"), SideEffects::SEQUENCE, "{column}");
        assert!(side_effects(&known, "insert into others values (1)").is_empty());
    }
}

#[test]
fn what_a_client_defines_is_known_until_it_was_read() {
    let mut known = Known::new(true);
    read(&mut known, "1", &[("g", "begin perform pg_advisory_lock(1); end")], at(1));
    define(&mut known, "create function f() returns void language plpgsql as $$begin set work_mem = 1; end$$", at(2));
    assert_eq!(side_effects(&known, "select f()"), SideEffects::SETTINGS);
    assert!(side_effects(&known, "create table x (a int)").is_empty());
    define(&mut known, "create trigger x before insert on t execute function g()", at(2));
    assert_eq!(side_effects(&known, "insert into t default values"), SideEffects::ADVISORY);
    // Read while the transaction that defines it is still open.
    read(&mut known, "1", &[], at(3));
    assert_eq!(side_effects(&known, "select f()"), SideEffects::SETTINGS);
    known.settle(server(1), at(4), false);
    read(&mut known, "2", &[("f", "begin null; end")], at(5));
    assert!(side_effects(&known, "select f()").is_empty());
}

#[test]
fn a_question_that_fails_is_asked_again_later_and_later() {
    let mut known = Known::new(true);
    let mut now = at(1);
    for failure in 0..12 {
        assert!(known.is_due(now, true));
        known.begin(server(0), false, now);
        match failure % 2 {
            0 => {
                assert_eq!(known.refused(at(0)) == Unanswered::First, failure == 0);
                assert_eq!(known.answered(now), Next::Nothing);
            }
            _ => known.lost(server(0), now),
        }
        assert!(!known.is_due(now, true));
        now = now + SOON.saturating_mul(1 << failure).min(RETRY_MAX);
    }
    assert!(side_effects(&known, "select 1").is_empty(), "texts count by their own words");
    assert_eq!(known.names(), CatalogueProgress::Unreadable);
    known.begin(server(0), false, now);
    known.row(&row(&["1"]));
    assert_eq!(known.answered(now), Next::Read);
    known.row(b"\0\x01");
    assert_ne!(known.answered(now), Next::Read, "what is no row is an error");
}

#[test]
fn another_database_s_transactions_are_no_reason_to_ask() {
    let mut known = Known::new(true);
    read(&mut known, "1", &[], at(1));
    known.settle(server(7), at(2), false);
    assert!(!known.is_due(at(2), true) && known.is_due(at(3), true));
}

#[test]
fn whoever_failed_to_ask_waits_though_something_is_defined() {
    let mut known = Known::new(true);
    for now in [at(1), at(2), at(4)] {
        assert!(known.is_due(now, true));
        known.begin(server(0), false, now);
        known.refused(at(0));
        known.answered(now);
    }
    // Four seconds.
    define(&mut known, "create table t (id serial)", at(5));
    assert!(!known.is_due(at(5), true));
    known.settle(server(1), at(6), false);
    known.doubt(server(2), at(6));
    known.settle(server(2), at(6), true);
    known.settle(server(7), at(6), false);
    assert!(!known.is_due(at(7), true) && known.is_due(at(8), true));
}

#[test]
fn what_is_fresh_is_bounded() {
    let mut known = Known::new(true);
    read(&mut known, "1", &[], at(1));
    for number in 0..=FRESH_MAX {
        let text = format!("create function f{number}() returns void language plpgsql as 'begin listen x; end'");
        define(&mut known, &text, at(2));
    }
    assert!(known.defined.len() <= FRESH_MAX);
    assert_eq!(side_effects(&known, "select g()"), UNSURE);
    known.settle(server(1), at(3), false);
    read(&mut known, "2", &[], at(4));
    assert!(known.defined.is_empty() && side_effects(&known, "select g()").is_empty());
    let row = Row::Other { land: Land::Called, name: b"g", keeps: false };
    assert_eq!(Catalogue::new([row]).touches(&[Word::of(b"g")]), SideEffects::UNKNOWN);
}

#[test]
fn what_was_defined_past_the_pooler_is_news_and_what_its_clients_defined_is_not() {
    let mut known = Known::new(true);
    read(&mut known, "1", &[("f", "begin null; end")], at(1));
    assert_eq!(known.take_news(), None, "before the first time everything was suspect");
    let text = "create function g() returns void language plpgsql as $$begin set work_mem = 1; end$$";
    define(&mut known, text, at(2));
    known.settle(server(1), at(2), false);
    read(&mut known, "2", &[("f", "begin null; end"), ("g", "begin set work_mem = 1; end")], at(3));
    assert_eq!(known.take_news(), None);
    read(&mut known, "3", &[("f", "begin listen x; end"), ("g", "begin set work_mem = 1; end")], at(6));
    assert_eq!(
        known.news_since(at(3)),
        known.take_news().inspect(|news| assert_eq!(news.side_effects, SideEffects::LISTEN))
    );
    assert_eq!((known.news_since(at(2)), known.take_news()), (None, None));
    // The same function, and another setting: nobody has asked for that.
    read(&mut known, "4", &[("f", "begin listen x; end"), ("g", "begin set app.x = 1; end")], at(9));
    assert_eq!(known.take_news().map(|news| news.side_effects), Some(SideEffects::SETTINGS));
}

#[test]
fn another_pool_of_the_database_takes_over_what_one_has_read() {
    let (mut one, mut other) = (Known::new(true), Known::new(true));
    read(&mut one, "1", &[], at(1));
    other.take_over(&one.lesson().expect("it was read"));
    assert_eq!(side_effects(&other, "select 1"), UNSURE, "nobody waits for another pool's first reading");
    read(&mut other, "1", &[], at(1));
    read(&mut one, "2", &[("f", "begin listen x; end")], at(3));
    assert!(other.is_due(at(3), true));
    other.take_over(&one.lesson().expect("it was read"));
    assert_eq!(side_effects(&other, "select f()"), SideEffects::LISTEN);
    assert_eq!(other.take_news().map(|news| news.since), Some(at(1)));
    assert!(!other.is_due(at(4), true) && other.is_due(at(5), true));
}

#[test]
fn a_server_that_is_lost_while_it_is_asked_is_not_one_that_cannot_be_asked() {
    let mut known = Known::new(true);
    known.begin(server(0), false, at(1));
    known.lost(server(0), at(1));
    assert_eq!((known.names(), side_effects(&known, "select 1")), (CatalogueProgress::Reading, UNSURE));
}

#[test]
fn names_that_can_be_read_again_are_read_and_what_was_left_is_news() {
    let mut known = Known::new(true);
    known.begin(server(0), false, at(1));
    known.refused(at(0));
    known.answered(at(1));
    define(&mut known, "create function f() returns void language plpgsql as 'begin listen x; end'", at(1));
    assert_eq!(side_effects(&known, "select f()"), SideEffects::LISTEN, "what clients define is known all the same");
    known.begin(server(0), false, at(3));
    known.row(&row(&["1"]));
    assert_eq!(known.answered(at(3)), Next::Read);
    known.row(&row(&["plpgsql", "c", "g", "begin set work_mem = 1; end"]));
    assert_eq!(known.answered(at(3)), Next::Recovered);
    assert_eq!((known.names(), side_effects(&known, "select g()")), (CatalogueProgress::Read, SideEffects::SETTINGS));
    assert_eq!(
        known.take_news().map(|news| (news.side_effects, news.since)),
        Some((SideEffects::SETTINGS, Time::ZERO))
    );
}

/// Has a pool fail to read its catalogue.
fn fail_to_read(known: &mut Known, now: Time) {
    known.begin(server(0), false, now);
    known.refused(at(0));
    known.answered(now);
}

#[test]
fn a_catalogue_taken_over_from_another_pool_begins_a_new_edition() {
    let mut last = Edition::default();
    let (mut one, mut other) = (Known::new(true), Known::new(true));
    read(&mut other, "1", &[("f", "begin null; end")], at(1));
    let before = other.publish(&mut last);
    read(&mut one, "2", &[("f", "begin listen x; end")], at(1));
    other.take_over(&one.lesson().expect("it was read"));
    assert_eq!(side_effects(&other, "select f()"), SideEffects::LISTEN);
    assert_ne!(other.publish(&mut last), before);
}

#[test]
fn a_catalogue_that_another_pool_can_read_again_begins_a_new_edition() {
    let mut last = Edition::default();
    let (mut one, mut other) = (Known::new(true), Known::new(true));
    read(&mut one, "1", &[], at(1));
    read(&mut other, "1", &[], at(1));
    fail_to_read(&mut other, at(3));
    other.doubt(server(1), at(4));
    assert!(side_effects(&other, "select 1").is_empty(), "doubts do not count while the catalogue cannot be read");
    let before = other.publish(&mut last);
    other.take_over(&one.lesson().expect("it was read"));
    assert_eq!(side_effects(&other, "select 1"), UNSURE);
    assert_ne!(other.publish(&mut last), before);
}

#[test]
fn a_function_that_is_not_known_may_write() {
    let writes = |known: &Known, text: &str| all_side_effects(known, text).any(SideEffects::WRITING);
    let mut known = Known::new(true);
    assert!(writes(&known, "select 1"), "nothing was read yet");
    read(&mut known, "1", &[("f", "begin insert into t values (1); end"), ("g", "begin return 1; end")], at(1));
    assert!(!writes(&known, "select 1") && writes(&known, "select f()") && !writes(&known, "select g()"));
    define(&mut known, "create function h() returns int language sql as 'insert into t values (1) returning 1'", at(1));
    define(
        &mut known,
        "create function i() returns int language sql begin atomic insert into t values (1) returning a; end",
        at(1),
    );
    define(&mut known, "create table u (a int)", at(1));
    assert!(writes(&known, "select h()") && writes(&known, "select i()") && !writes(&known, "select a from u"));
}

#[test]
fn a_function_that_is_not_known_may_notify() {
    let notifies = |known: &Known, text: &str| all_side_effects(known, text).any(SideEffects::NOTIFYING);
    let mut known = Known::new(true);
    assert!(notifies(&known, "insert into t values (1)"), "nothing was read yet");
    let functions = [
        ("f", "begin perform pg_notify('jobs', ''); end"),
        ("g", "begin execute a; end"),
        ("h", "begin return 1; end"),
    ];
    read(&mut known, "1", &functions, at(1));
    assert!(notifies(&known, "select f()") && notifies(&known, "select g()"), "they do, or may");
    assert!(!notifies(&known, "select h()") && !notifies(&known, "insert into t values (1)"));
}

#[test]
fn a_rule_that_a_client_defines_runs_notify_at_once() {
    let notifies = |known: &Known, text: &str| all_side_effects(known, text).any(SideEffects::NOTIFYING);
    let mut known = Known::new(true);
    read(&mut known, "1", &[], at(1));
    assert!(!notifies(&known, "insert into t values (1)"));
    define(&mut known, "create rule r as on insert to t do also notify jobs", at(1));
    define(&mut known, "create view v as select pg_notify('jobs', '')", at(1));
    assert!(notifies(&known, "insert into t values (1)") && notifies(&known, "select * from v"));
}

#[test]
fn what_takes_too_long_stays_in_doubt_and_is_asked_for_ever_more_rarely() {
    let mut known = Known::new(true);
    let mut now = at(1);
    for pause in [1, 2, 4, 8] {
        assert!(known.is_due(now, true), "{now:?}");
        known.begin(server(1), true, now);
        now = now + TIMEOUT;
        assert_eq!((known.refused(now), known.answered(now)), (Unanswered::TooLong, Next::Nothing));
        assert!(!known.is_unreadable() && known.is_blank() && !known.is_awaited());
        let next = now + std::time::Duration::from_secs(pause);
        assert!(!known.is_due(Time(next.0 - 1), true), "{pause}");
        now = next;
    }
}
