//! Of the hour.

use std::sync::Arc;
use std::time::{Duration, Instant};

use observe::{Backend, Blocking, Lock, LockMode, Object, State, WaitEvent};
use units::PoolKey;

use super::*;
use crate::moment::{Host, Origin, Pool, Row};
use crate::tags::Tags;

fn wait(class: &str, event: &str) -> Option<WaitEvent> {
    Some(WaitEvent { class: class.to_owned(), event: event.to_owned() })
}

/// A stranger's backend, which is all that most of this needs.
fn row(pid: i32, query: &str, wait: Option<WaitEvent>) -> Row {
    let backend = Backend {
        pid,
        database: Some("shop".to_owned()),
        user: Some("app".to_owned()),
        state: Some(State::Active),
        wait,
        query: Some(query.to_owned()),
        ..Backend::default()
    };
    let tags = Tags::of(query.as_bytes());
    let backend = Some(Arc::new(backend));
    Row { host: Some(0), backend, session: None, origin: Origin::Stranger, tags, waiter: None, behind: 0 }
}

fn moment(second: u64, rows: Vec<Row>) -> Arc<Moment> {
    Arc::new(Moment { at: At(second * 1000), hosts: vec![Host::default()], rows, ..Moment::default() })
}

fn whole() -> Span {
    Span { from: At(0), to: At(u64::MAX) }
}

fn sums(history: &History, by: &Dimension) -> Vec<(String, u64, u32, u32)> {
    let waits = history.waits(whole(), by, |_| true);
    waits.into_iter().map(|sum| (sum.name, sum.samples, sum.most, sum.seconds)).collect()
}

#[test]
fn samples_are_summed_by_what_one_asks_for() {
    let mut history = History::new(Options { tags: vec!["controller".into()], ..Options::default() });
    let carts = "select * from carts where id = 1 /*controller:carts,request_id:7f*/";
    history.push(moment(10, vec![row(1, carts, None), row(2, carts, wait("IO", "DataFileRead"))]));
    history.push(moment(
        11,
        vec![row(1, carts, wait("IO", "DataFileRead")), row(2, "select 2", wait("IO", "DataFileRead"))],
    ));
    assert_eq!(
        sums(&history, &Dimension::Event),
        [("IO:DataFileRead".to_owned(), 3, 2, 2), ("CPU".to_owned(), 1, 1, 1)]
    );
    assert_eq!(sums(&history, &Dimension::Pool), [("shop/app".to_owned(), 4, 2, 2)]);
    assert_eq!(
        sums(&history, &Dimension::Statement),
        [("select * from carts where id = ?".to_owned(), 3, 2, 2), ("select ?".to_owned(), 1, 1, 1)]
    );
    assert_eq!(sums(&history, &Dimension::Tag("controller".into())), [("carts".to_owned(), 3, 2, 2)]);
    assert_eq!(sums(&history, &Dimension::Tag("request_id".into())), [], "an id of one request is no dimension");
    let second = Span { from: At(11_000), to: At(11_999) };
    let io = history.waits(second, &Dimension::Statement, |key| &*key.class == "IO");
    assert_eq!(io.len(), 2);
    let (names, series) = history.series(whole(), &Dimension::Class);
    assert_eq!(names.len(), 2);
    let cpu = names.iter().position(|name| name == "CPU").expect("it was seen");
    assert_eq!(series.iter().map(|(at, counts)| (at.second(), counts[cpu])).collect::<Vec<_>>(), [(10, 1), (11, 0)]);
}

#[test]
fn who_waits_for_a_lock_is_summed_by_the_end_of_its_chain() {
    let object = || Object { kind: "relation".into(), key: "1".into(), name: Some("orders".into()) };
    let lock = |pid, mode, waiting: Option<u64>| {
        let waiting = waiting.map(Duration::from_millis);
        Lock { pid, leader_pid: None, object: object(), mode, waiting }
    };
    let blocking = Blocking::of(&[
        lock(1, LockMode::AccessShare, None),
        lock(2, LockMode::AccessExclusive, Some(900)),
        lock(3, LockMode::AccessShare, Some(500)),
    ]);
    let mut rows = vec![
        row(1, "select report() /*controller:report*/", None),
        row(2, "alter table orders add c int", wait("Lock", "relation")),
        row(3, "select 1", wait("Lock", "relation")),
    ];
    for row in &mut rows {
        let pid = row.pid().expect("it has one");
        (row.waiter, row.behind) = (blocking.waiter(pid).cloned(), blocking.count_behind(pid));
    }
    let host = Host { blocking, ..Host::default() };
    let mut history = History::new(Options { tags: vec!["controller".into()], ..Options::default() });
    history.push(Arc::new(Moment { at: At(5000), hosts: vec![host], rows, ..Moment::default() }));
    let blocker = "shop/app controller=report: select report()".to_owned();
    assert_eq!(sums(&history, &Dimension::Blocker), [(blocker, 2, 2, 1)]);
    let worst = &history.second(At(5000)).expect("it is kept").worst;
    assert_eq!(worst.iter().map(|exact| (exact.pid, exact.behind)).collect::<Vec<_>>()[0], (Some(1), 2));
    let reader = worst.iter().find(|exact| exact.pid == Some(3)).expect("it is one of three");
    assert_eq!((reader.blocker, reader.root), (Some(2), Some(1)));
}

#[test]
fn those_who_wait_and_have_no_row_are_counted_by_class() {
    let key = PoolKey { database: "shop".into(), user: "app".into() };
    let pool = Pool { waiting: 9000, waiting_by_class: [("default".into(), 9000)].into(), ..Pool::default() };
    let mut history = History::default();
    history.push(Arc::new(Moment { at: At(1000), pools: [(key, pool)].into(), ..Moment::default() }));
    assert_eq!(sums(&history, &Dimension::Event), [("Pool:Server".to_owned(), 9000, 9000, 1)]);
    assert_eq!(history.seconds().next().map(|second| second.pools[0].1.waiting), Some(9000));
}

/// Each text is another statement, even without its constants.
#[test]
fn a_million_statements_stay_within_the_bound() {
    let options = Options { memory_max: 4 << 20, ..Options::default() };
    let mut history = History::new(options.clone());
    for second in 0..10_000_u64 {
        let rows = (0..100).map(|index| row(index, &format!("select column_{second}_{index} from t"), None)).collect();
        history.push(moment(second, rows));
        assert!(history.bytes() <= options.memory_max, "second {second}");
    }
    let kept = history.seconds().count();
    assert!((50..SECONDS_MAX).contains(&kept), "{kept}");
    assert_eq!(history.seconds().next_back().map(|second| second.at), Some(At(9_999_000)));
    history.configure(Options { memory_max: 0, ..options });
    assert_eq!((history.bytes(), history.seconds().count()), (0, 0), "what is counted is given back");
}

#[test]
fn more_than_a_second_can_keep_are_counted_by_what_they_wait_for() {
    let mut history = History::default();
    history.push(moment(
        1,
        (0..1000).map(|pid| row(pid, &format!("select c{pid} from t"), wait("IO", "WALWrite"))).collect(),
    ));
    assert_eq!(sums(&history, &Dimension::Event), [("IO:WALWrite".to_owned(), 1000, 1000, 1)]);
    let statements = sums(&history, &Dimension::Statement);
    assert_eq!((statements[0].0.as_str(), statements[0].1), ("", 744), "the rest has no statement");
}

#[test]
fn a_second_is_found_by_its_time_and_a_clock_may_go_back() {
    let mut history = History::default();
    for second in [10, 11, 13] {
        history.push(moment(second, vec![row(1, "select 1", None)]));
    }
    let found = |at| history.second(At(at)).map(|second| second.at.second());
    assert_eq!([found(9_999), found(10_500), found(12_000), found(99_000)], [None, Some(10), Some(11), Some(13)]);
    history.push(moment(11, vec![]));
    assert_eq!(history.seconds().map(|second| second.at.second()).collect::<Vec<_>>(), [10, 11]);
    assert_eq!(sums(&history, &Dimension::Event), [("CPU".to_owned(), 1, 1, 1)]);
    assert_eq!((history.looks(), history.samples()), (3, &[("CPU", 3)].into()), "what is counted never falls");
}

#[test]
fn constants_are_kept_only_if_asked_for() {
    for (literals, expected) in [(false, "select ?"), (true, "select 'secret'")] {
        let mut history = History::new(Options { literals, ..Options::default() });
        history.push(moment(1, vec![row(1, "select 'secret'", None)]));
        assert_eq!(sums(&history, &Dimension::Statement)[0].0, expected);
    }
}

/// A test build is many times slower than a release build, and still holds it.
#[test]
#[expect(clippy::disallowed_methods, reason = "it measures")]
fn any_second_and_the_whole_hour_are_there_at_once() {
    let mut history = History::default();
    for second in 0..3600 {
        let rows = (0..100).map(|pid| row(pid, &format!("select c{} from t", pid % 20), wait("IO", "DataFileRead")));
        history.push(moment(second, rows.collect()));
    }
    let mut took: Vec<Duration> = Vec::new();
    for at in 0..3600 {
        let begun = Instant::now();
        assert_eq!(history.second(At(at * 1000)).map(|second| second.at.second()), Some(at));
        took.push(begun.elapsed());
    }
    took.sort_unstable();
    let (usual, slowest) = (took[1800], took[3599]);
    let begun = Instant::now();
    assert_eq!(sums(&history, &Dimension::Event)[0].1, 360_000);
    let hour = begun.elapsed();
    println!("a second: {usual:?}, {slowest:?} at most; all waits of the hour by event: {hour:?}");
    // The slowest may have met another process of a busy machine.
    assert!(took[3599 - 36] < Duration::from_millis(50), "{usual:?}, {slowest:?} at most");
    assert!(hour < Duration::from_secs(2), "{hour:?}");
}

/// A history with what a second can have, two seconds long.
fn varied() -> History {
    let mut history = History::new(Options { tags: vec!["controller".into()], ..Options::default() });
    let rows = |more: i32| {
        let text =
            |pid: i32| format!("select {pid} from c{pid} /*controller:c{more},request_id:{pid}*/ -- \u{1b}[31m<b>");
        (0..40).map(|pid| row(pid, &text(pid), wait("IO", "DataFileRead").filter(|_| pid % 3 > 0))).collect::<Vec<_>>()
    };
    for second in [10_u64, 11] {
        let key = PoolKey { database: "shop".into(), user: "app".into() };
        let pool = Pool {
            waiting: 9,
            oldest_wait: Duration::from_secs(2),
            waiting_by_class: [("web".into(), 9)].into(),
            queries: second,
            ..Pool::default()
        };
        let rows = rows(i32::try_from(second).expect("small"));
        let hosts = vec![Host::default()];
        history.push(Arc::new(Moment { at: At(second * 1000), hosts, rows, pools: [(key, pool)].into() }));
    }
    history
}

/// All that can be asked of a history.
fn all_of(history: &History) -> Vec<String> {
    let by = [
        Dimension::Event,
        Dimension::Pool,
        Dimension::ClientClass,
        Dimension::Statement,
        Dimension::Tag("controller".into()),
    ];
    let mut all: Vec<String> = by.iter().map(|by| format!("{:?}", sums(history, by))).collect();
    for second in history.seconds() {
        let named = second.worst.iter().map(|exact| {
            (history.key(exact.key).clone(), exact.session, exact.pid, exact.tags.clone(), exact.query, exact.behind)
        });
        assert_eq!(second.whys.len(), 1, "clients wait, and there is no server");
        all.push(format!("{} {:?} {:?} {:?}", second.at.0, named.collect::<Vec<_>>(), second.pools, second.whys));
    }
    all
}

#[test]
fn a_second_that_was_stored_is_the_same_afterwards() {
    let (mut first, mut restored) = (History::default(), History::default());
    let history = varied();
    // The last one only is stored each time.
    first.restore(&earlier(&history), whole()).expect("a second");
    let (at, bytes) = history.stored().expect("it has a second");
    assert_eq!(at, At(11_000));
    assert_eq!(restored.restore(&first.stored().expect("it has one").1, whole()), Ok(true));
    assert_eq!(restored.restore(&bytes, whole()), Ok(true));
    assert_eq!(all_of(&restored), all_of(&history));
    assert_eq!(restored.restore(&bytes, whole()), Ok(false), "it is there already");
    let glance = Glance::of(&bytes).expect("a second");
    let (names, counts) = history.series(Span { from: at, to: at }, &Dimension::Class);
    let classes = names.into_iter().zip(counts[0].1.iter().copied()).filter(|(_, count)| *count > 0);
    assert_eq!(glance.classes, classes.collect());
    let second = history.second(at).expect("it has one");
    assert_eq!(glance, history.glance(second));
    assert_eq!((glance.at, glance.hosts_missing, &glance.pools[..]), (at, second.hosts_missing, &*second.pools));
    let tomorrow = Span { from: At(86_400_000), to: At(u64::MAX) };
    assert_eq!(History::default().restore(&bytes, tomorrow), Ok(false));
    println!("a second of 40 rows: {} bytes", bytes.len());
    // All of it is given back.
    restored.configure(Options { memory_max: 0, ..Options::default() });
    assert_eq!((restored.bytes(), restored.seconds().count()), (0, 0));
}

/// The second before the last, stored.
fn earlier(history: &History) -> Vec<u8> {
    let mut short = varied();
    let last = short.seconds.pop_back().expect("two");
    short.forget(&last);
    assert_eq!(short.seconds.len() + 1, history.seconds.len());
    short.stored().expect("it has one").1
}

#[test]
fn bytes_that_nobody_has_stored_are_an_error_and_leave_nothing() {
    let (_, bytes) = varied().stored().expect("it has a second");
    let mut history = History::default();
    let mut refused = 0;
    for end in 0..bytes.len() {
        assert!(history.restore(&bytes[..end], whole()).is_err(), "cut at {end}");
    }
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0x55;
        let mut history = History::default();
        refused += u32::from(history.restore(&changed, whole()).is_err());
        history.configure(Options { memory_max: 0, ..Options::default() });
        assert_eq!(history.bytes(), 0, "changed at {at}: what is counted is given back");
    }
    assert!(refused > 0);
    assert_eq!((history.bytes(), history.seconds().count()), (0, 0));
}

/// 1 holds orders; 2 waits to alter it and holds items; 3 to 52 wait behind 2, 60 and 61 for another statement, 70 holds what nobody wants.
fn queue_behind_ddl() -> Arc<Moment> {
    let object = |name: &str| Object { kind: "relation".into(), key: name.into(), name: Some(name.into()) };
    let lock = |pid: i32, name: &str, mode: LockMode, waiting: Option<u64>| {
        let waiting = waiting.map(Duration::from_millis);
        Lock { pid, leader_pid: None, object: object(name), mode, waiting }
    };
    let mut locks = vec![
        lock(1, "orders", LockMode::AccessShare, None),
        lock(2, "orders", LockMode::AccessExclusive, Some(9000)),
        lock(2, "items", LockMode::AccessExclusive, None),
    ];
    let mut rows = vec![
        row(1, "select report() /*controller:report,request_id:7*/", None),
        row(2, "alter table orders add column n int", wait("Lock", "relation")),
        row(70, "select 70", None),
    ];
    let names = ["orders"; 50].into_iter().chain(["items"; 2]);
    for (pid, name) in (3..53).chain(60..62).zip(names) {
        locks.push(lock(pid, name, LockMode::AccessShare, Some(8000 - u64::try_from(pid).expect("small"))));
        let text = format!("select {pid} from {name} /*controller:carts,request_id:{pid}*/");
        rows.push(row(pid, &text, wait("Lock", "relation")));
    }
    let blocking = Blocking::of(&locks);
    for row in &mut rows {
        let pid = row.pid().expect("it has one");
        (row.waiter, row.behind) = (blocking.waiter(pid).cloned(), blocking.count_behind(pid));
    }
    let hosts = vec![Host { address: "db1:5432".into(), blocking, ..Host::default() }];
    Arc::new(Moment { at: At(5000), hosts, rows, ..Moment::default() })
}

fn tree_of(history: &History) -> Vec<String> {
    let second = history.seconds().next_back().expect("a second");
    let line = |line: &LockLine| {
        let (who, seen) = (&history.key(line.key).who, &line.seen);
        let text = |lock: &LockText| format!("{} on {}", lock.mode, lock.object);
        let waits = seen.waits.as_ref().map_or("nothing".to_owned(), text);
        let holds: Vec<String> = seen.holds.iter().map(text).collect();
        let ids: Vec<i32> = seen.members.iter().map(|member| member.pid).collect();
        let first = seen.members.first().expect("a line is of somebody");
        format!(
            "{}{} × {:?} of {}: {} {}; waits {} ms for {waits}, blocks {}, holds {}; {}",
            "  ".repeat(seen.depth.into()),
            seen.count,
            &ids[..ids.len().min(2)],
            ids.len(),
            who.tags,
            who.statement,
            first.waiting_ms,
            seen.behind,
            holds.join(", "),
            seen.note,
        )
    };
    second.locks.iter().map(line).collect()
}

/// The line of a blocker that waits itself has the lock that it holds, and equal waiters are one line.
#[test]
fn a_second_has_its_lock_tree_with_equal_waiters_as_one_line() {
    let mut history = History::new(Options { tags: vec!["controller".into()], ..Options::default() });
    history.push(queue_behind_ddl());
    let expected = [
        "1 × [1] of 1: controller=report select report(); waits 0 ms for nothing, blocks 53, holds AccessShareLock on orders; ",
        "  1 × [2] of 1:  alter table orders add column n int; waits 9000 ms for AccessExclusiveLock on orders, blocks 52, \
         holds AccessExclusiveLock on items; ALTER TABLE, in the way of 52: SET lock_timeout, and try again: all who come after \
         it wait behind it",
        "    50 × [3, 4] of 20: controller=carts select ? from orders; waits 7997 ms for AccessShareLock on orders, blocks 0, holds ; ",
        "    2 × [60, 61] of 2: controller=carts select ? from items; waits 7940 ms for AccessShareLock on items, blocks 0, holds ; ",
    ];
    assert_eq!(tree_of(&history), expected);
    let second = history.seconds().next_back().expect("a second");
    let tags: Vec<_> = second.locks.iter().map(|line| line.seen.tags.len()).collect();
    assert_eq!(tags, [2, 0, 0, 0], "a single backend has all its tags, and equal ones those that they have in common");
    // It outlasts the file, and takes no memory afterwards.
    let mut restored = History::default();
    assert_eq!(restored.restore(&history.stored().expect("a second").1, whole()), Ok(true));
    assert_eq!(tree_of(&restored), expected);
    restored.configure(Options { memory_max: 0, ..Options::default() });
    assert_eq!(restored.bytes(), 0);
}

/// A deep or wide tree is cut, and what is cut is still counted behind its roots.
#[test]
fn a_tree_has_a_bound() {
    let object = |pid: i32| Object { kind: "advisory".into(), key: pid.to_string().as_str().into(), name: None };
    let pairs = (0..500).flat_map(|pid| {
        let lock =
            |pid, of, waiting| Lock { pid, leader_pid: None, object: object(of), mode: LockMode::Exclusive, waiting };
        [lock(pid, pid, None), lock(1000 + pid, pid, Some(Duration::from_secs(1)))]
    });
    let blocking = Blocking::of(&pairs.collect::<Vec<_>>());
    let hosts = vec![Host { blocking, ..Host::default() }];
    let mut history = History::default();
    history.push(Arc::new(Moment { at: At(1000), hosts, ..Moment::default() }));
    assert_eq!(history.seconds().next().map(|second| second.locks.len()), Some(64));
}

#[test]
fn statements_of_pgweir_itself_are_told_from_those_of_applications() {
    let mut own = row(1, "select pid from pg_stat_activity", None);
    own.origin = Origin::Own;
    let mut history = History::default();
    history.push(moment(1, vec![own, row(2, "select 1", None)]));
    let of = |is_own: bool| history.waits(whole(), &Dimension::Statement, |key| key.who.is_own() == is_own);
    assert_eq!(of(true).iter().map(|sum| &*sum.name).collect::<Vec<_>>(), ["select pid from pg_stat_activity"]);
    assert_eq!(of(false).iter().map(|sum| &*sum.name).collect::<Vec<_>>(), ["select ?"]);
}

#[test]
fn sums_over_days_have_a_bounded_number_of_names_and_lose_no_sample() {
    let mut sums = WaitSums::of(2);
    for second in 0..3 {
        let rows = ["one", "two", "three", "four"].map(|event| row(7, "select 1", wait("IO", event)));
        let mut history = History::default();
        history.push(moment(second, rows.to_vec()));
        sums.add(&history, whole(), &Dimension::Event);
    }
    let sums = sums.sorted();
    assert_eq!(sums.len(), 3);
    let of = |sum: &WaitSum| (sum.samples, sum.most, sum.seconds);
    let others = sums.iter().find(|sum| sum.name == OTHERS).expect("there are others");
    // Both others wait in the same seconds: a second counts once.
    assert_eq!(of(others), (6, 2, 3));
    assert!(sums.iter().filter(|sum| sum.name != OTHERS).all(|sum| of(sum) == (3, 1, 3)), "{sums:?}");
    let again = WaitSum { name: "(others)".to_owned(), samples: 1, most: 9, seconds: 1 };
    let merged = WaitSum::merged(vec![again], sums);
    assert_eq!((merged.len(), &*merged[0].name, of(&merged[0])), (3, OTHERS, (7, 9, 4)));
}
