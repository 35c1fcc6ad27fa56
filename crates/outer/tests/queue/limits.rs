//! Limits that talk: rates and numbers at a time over four workers, what whoever is over them is told, and what SHOW has of it.

use std::fs;

use outer::{Answer, Client, Stage, Wishes, eventually, python};

/// A pool that lives on all of four workers, and limits: lines of `[classes]`, and settings, taken up by RELOAD.
fn stage(classes: &str, settings: &str) -> (Stage, Client) {
    let stage = Stage::set(&Wishes { pool: 40, workers: 4, ..Wishes::default() });
    let mut console = Client::login(stage.pooler.address(), "postgres", "pgbouncer").expect("an administrator");
    change(&stage, &mut console, |ini| {
        ini.replace("[pgbouncer]\n", &format!("[classes]\n{classes}[pgbouncer]\n{settings}"))
    });
    (stage, console)
}

fn change(stage: &Stage, console: &mut Client, edit: impl Fn(&str) -> String) {
    let path = stage.pooler.dir().join("pooler.ini");
    let ini = fs::read_to_string(&path).expect("its ini file");
    let edited = edit(&ini);
    assert_ne!(ini, edited, "there is something to change");
    fs::write(&path, edited).expect("its directory is ours");
    let answer = console.query("reload").expect("an answer");
    assert_eq!((answer.errors.len(), answer.tags), (0, vec!["RELOAD".to_owned()]));
}

fn psycopg(stage: &Stage, arguments: &[&str]) {
    let said = python("limits.py", &[&[stage.url().as_str()], arguments].concat());
    println!("{}", said.unwrap_or_else(|wrote| panic!("{wrote}")).trim());
}

/// A row's values, by the names of columns.
fn row(answer: &Answer, first: &str, second: Option<&str>) -> impl Fn(&str) -> String {
    let fits = |row: &&Vec<Option<String>>| {
        row[0].as_deref() == Some(first) && second.is_none_or(|second| row[1].as_deref() == Some(second))
    };
    let row = answer.rows.iter().find(fits).unwrap_or_else(|| panic!("{first}: {answer:?}")).clone();
    let names = answer.names.clone();
    move |name| {
        let index = names.iter().position(|other| other == name).unwrap_or_else(|| panic!("{name}: {names:?}"));
        row[index].clone().unwrap_or_default()
    }
}

#[test]
fn who_is_rejected_is_told_when_to_come_again_and_gets_in_then() {
    let (mut stage, mut console) = stage("default = tps=5 tps_burst=1 over=reject\n", "");
    psycopg(&stage, &["reject"]);
    let limits = console.query("show limits").expect("an answer");
    let tps = row(&limits, "default", Some("tps"));
    assert_eq!((tps("limit").as_str(), tps("burst").as_str(), tps("over").as_str()), ("5", "1", "reject"));
    // The program has gone on until it was refused so often.
    eventually("the refusals are counted", || {
        let limits = console.query("show limits").expect("an answer");
        row(&limits, "default", Some("tps"))("rejected").parse::<u32>().is_ok_and(|rejected| rejected >= 6)
    });
    change(&stage, &mut console, |ini| ini.replace("tps=5 ", "tps=5000 "));
    stage.assert_healthy();
}

#[test]
fn who_is_delayed_gets_what_the_rate_brings_over_four_workers() {
    let (mut stage, mut console) = stage("default = tps=2 tps_burst=1\n", "");
    psycopg(&stage, &["delay"]);
    eventually("those who came at once were delayed", || {
        let limits = console.query("show limits").expect("an answer");
        row(&limits, "default", Some("tps"))("delayed").parse::<u32>().is_ok_and(|delayed| delayed > 0)
    });
    change(&stage, &mut console, |ini| ini.replace("tps=2 tps_burst=1", "weight=1"));
    stage.assert_healthy();
}

#[test]
#[ignore = "test-full: measures what a rate brings in each second; the transcripts limits/tps-delay and limits/over-workers prove when each begins"]
fn a_rate_is_brought_in_full_over_four_workers() {
    let (stage, _console) = stage("default = tps=50 tps_burst=5\n", "");
    psycopg(&stage, &["rate"]);
}

#[test]
fn a_statement_has_so_many_servers_and_no_more_and_may_be_named() {
    let (mut stage, mut console) = stage("default = weight=1\n", "fingerprint_max_active = 2\n");
    psycopg(&stage, &["statement", "2"]);
    let shown = console.query("show fingerprints").expect("an answer");
    let index = shown.names.iter().position(|name| name == "statement").expect("its text");
    let locks = shown
        .rows
        .iter()
        .find(|row| row[index].as_deref().is_some_and(|text| text.starts_with("select pg_advisory_xact_lock_shared")));
    let name = locks.and_then(|row| row[0].clone()).unwrap_or_else(|| panic!("{shown:?}"));
    let lock = row(&shown, &name, None);
    assert_eq!((lock("count").as_str(), lock("waiting").as_str(), lock("active").as_str()), ("6", "0", "0"));
    // The first two only ask, which takes its time where the machine is busy.
    let delayed: u32 = lock("delayed").parse().expect("a count");
    assert!((4..=6).contains(&delayed), "{shown:?}");
    // Now that one alone, by its name.
    change(&stage, &mut console, |ini| {
        ini.replace("fingerprint_max_active = 2\n", &format!("fingerprint_limits = {name}:1\n"))
    });
    psycopg(&stage, &["statement", "1"]);
    change(&stage, &mut console, |ini| ini.replace(&format!("{name}:1"), ""));
    psycopg(&stage, &["statement", "6"]);
    stage.assert_healthy();
}

#[test]
fn logins_have_a_rate() {
    let (stage, mut console) = stage("default = logins=2 logins_burst=1 over=reject\n", "");
    psycopg(&stage, &["logins"]);
    // A newcomer at the new rate waits for less than a millisecond, and would be refused in that: so it may wait.
    let before = "logins=2 logins_burst=1 over=reject";
    change(&stage, &mut console, |ini| ini.replace(before, "logins=5000 over=delay"));
    let mut stage = stage;
    stage.assert_healthy();
}
