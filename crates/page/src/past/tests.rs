//! One second of an incident: 1 is idle in its transaction with a row lock, 2 waits for it, and 3 to 42 wait behind 2.

use std::sync::Arc;
use std::time::Duration;

use activity::history::Options;
use activity::{Host, Moment, Origin, Row, Tags};
use observe::{Backend, Blocking, Lock, LockMode, Object, State, WaitEvent};
use serde_json::Value;

use super::*;

fn row(pid: i32, query: &str, state: State, wait: Option<(&str, &str)>) -> Row {
    let wait = wait.map(|(class, event)| WaitEvent { class: class.to_owned(), event: event.to_owned() });
    let backend = Backend {
        pid,
        database: Some("shop".to_owned()),
        user: Some("app".to_owned()),
        state: Some(state),
        wait,
        query: Some(query.to_owned()),
        ..Backend::default()
    };
    let tags = Tags::of(query.as_bytes());
    let backend = Some(Arc::new(backend));
    Row { host: Some(0), backend, session: None, origin: Origin::Stranger, tags, waiter: None, behind: 0 }
}

fn history() -> History {
    let lock = |pid: i32, kind: &str, waiting: Option<u64>| Lock {
        pid,
        leader_pid: None,
        object: Object { kind: kind.into(), key: kind.into(), name: None },
        mode: LockMode::Exclusive,
        waiting: waiting.map(Duration::from_millis),
    };
    let mut locks = vec![lock(1, "transactionid", None), lock(2, "transactionid", Some(9000)), lock(2, "tuple", None)];
    let root = "update stock set n = 1 /*controller:basket,request_id:77*/";
    let mut rows = vec![
        row(90, "select pid from pg_stat_activity", State::Active, None),
        row(1, root, State::IdleInTransaction, Some(("Client", "ClientRead"))),
        row(2, "update stock set n = 2 /*controller:checkout*/", State::Active, Some(("Lock", "transactionid"))),
    ];
    rows[0].origin = Origin::Own;
    for pid in 3..43 {
        locks.push(lock(pid, "tuple", Some(8000 - u64::try_from(pid).expect("small"))));
        let text = format!("update stock set n = {pid} /*controller:checkout,request_id:{pid}*/");
        rows.push(row(pid, &text, State::Active, Some(("Lock", "tuple"))));
    }
    let blocking = Blocking::of(&locks);
    for row in &mut rows {
        let pid = row.pid().expect("it has one");
        (row.waiter, row.behind) = (blocking.waiter(pid).cloned(), blocking.count_behind(pid));
    }
    let mut history = History::new(Options { tags: vec!["controller".into()], ..Options::default() });
    let hosts = vec![Host { address: "db1:5432".into(), blocking, ..Host::default() }];
    history.push(Arc::new(Moment { at: At(100_000), hosts, rows, ..Moment::default() }));
    history
}

fn shown(rights: Rights) -> Value {
    serde_json::from_str(&second(&history(), 100, rights).expect("it is known")).expect("JSON")
}

#[test]
fn roots_come_first_and_what_pgweir_runs_comes_last() {
    let second = shown(Rights::Admin);
    let groups = second["groups"].as_array().expect("groups");
    let told: Vec<(u64, &str, bool)> = groups
        .iter()
        .map(|group| {
            let who = &group["who"];
            (
                group["count"].as_u64().expect("a number"),
                group["wait_event"].as_str().expect("an event"),
                who["own"].as_bool().expect("true or false"),
            )
        })
        .collect();
    assert_eq!(told, [(1, "ClientRead", false), (40, "tuple", false), (1, "transactionid", false), (1, "CPU", true)]);
}

#[test]
fn equal_victims_are_one_row_that_has_the_others() {
    let second = shown(Rights::Admin);
    let rows = second["worst"].as_array().expect("rows");
    let told: Vec<(u64, u64, usize)> = rows
        .iter()
        .map(|row| {
            let number = |name: &str| row[name].as_u64().expect("a number");
            (number("pid"), number("count_alike"), row["alike"].as_array().expect("a list").len())
        })
        .collect();
    // Of 43 rows the 32 worst are kept: the two blockers, and 30 of the 40 that wait.
    assert_eq!(told, [(1, 1, 0), (2, 1, 0), (3, 40, 29)]);
}

#[test]
fn a_second_of_the_past_has_its_lock_tree() {
    let second = shown(Rights::Admin);
    let lines = second["locks"].as_array().expect("lines");
    let told: Vec<String> = lines
        .iter()
        .map(|line| {
            let text = |name: &str| line[name].as_str().unwrap_or("-");
            let (depth, count, behind) = (&line["depth"], &line["count"], &line["behind_it"]);
            format!(
                "{depth} {count} {behind} {} {}: {} {}",
                text("holds"),
                text("waits_for"),
                text("tags"),
                text("state")
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            "0 1 41 ExclusiveLock on transactionid -: controller=basket request_id=77 idle in transaction",
            "1 1 40 ExclusiveLock on tuple ExclusiveLock: controller=checkout active",
            "2 40 0  ExclusiveLock: controller=checkout active",
        ]
    );
    assert_eq!(lines[2]["members"].as_array().expect("a list").len(), 20);
    let hidden = shown(Rights::Stats);
    assert_eq!(hidden["locks"], serde_json::json!([]));
    assert!(!hidden.to_string().contains("basket"), "{hidden}");
}

#[test]
fn statements_of_pgweir_itself_are_summed_apart() {
    let sums = waits(&history(), 100, 100, "statement", Rights::Admin).expect("such a sum");
    let sums: Value = serde_json::from_str(&sums).expect("JSON");
    let names =
        |part: &str| sums[part].as_array().expect("a list").iter().map(|sum| sum["name"].clone()).collect::<Vec<_>>();
    assert_eq!(names("own"), ["select pid from pg_stat_activity"]);
    assert_eq!(names("sums"), ["update stock set n = ?"]);
}
