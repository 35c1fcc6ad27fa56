//! What was seen of the two workers' PostgreSQL: a report, DDL behind it, a reader behind that, and a client that waits.

use std::sync::Arc;
use std::time::Duration;

use activity::history::Options;
use activity::{Answer, At, History, LockCounts, Moment, Reading, join};
use connections::databases::{Address, Host};
use machine::snapshot::Doing;
use machine::{Settings, Snapshot};
use observe::{Ages, Backend, Counts, Lock, LockMode, Object, State, Usage, WaitEvent};

/// 2026-07-01 11:59:59, a second before the input's now.
const AT: At = At(1_782_907_199_000);

/// Its entry has a name; the pooler's servers know which address that was.
const ADDRESS: &str = "db.example:5432";

pub(crate) fn history(settings: &Settings, snapshots: &[Snapshot]) -> History {
    let mut snapshots = at_host(snapshots);
    for client in snapshots.iter_mut().flat_map(|snapshot| &mut snapshot.clients) {
        client.doing = Doing { statement: Some(0xabc), waited_us: 1500, ..Doing::default() };
        if client.times.waiting_since.is_some() {
            client.doing.waits_with = Some("select 1 /*controller:carts*/".to_owned());
        }
    }
    let counts =
        Counts { held: [("AccessShareLock".into(), 7)].into(), waiting: 2, fast_path: 6, objects: 3, room: 6400 };
    let counts = Some(LockCounts { at: AT, counts });
    let answer = Answer { counts, ..answer() };
    let mut history = History::new(Options { tags: vec!["controller".into()], ..Options::default() });
    history.push(Arc::new(moment(answer, &snapshots, settings)));
    history
}

/// The servers are at the one host that is observed.
pub(crate) fn at_host(snapshots: &[Snapshot]) -> Vec<Snapshot> {
    let mut snapshots = snapshots.to_vec();
    for server in snapshots.iter_mut().flat_map(|snapshot| &mut snapshot.servers) {
        server.ends.host = Arc::new(Address { host: Host::Name("db.example".into()), port: 5432 });
        server.ends.address = Arc::new(Address { host: Host::Ip([127, 0, 0, 1].into()), port: 5432 });
    }
    snapshots
}

pub(crate) fn moment(answer: Answer, snapshots: &[Snapshot], settings: &Settings) -> Moment {
    join(AT, vec![Reading { address: ADDRESS.into(), answer: Ok(answer) }], snapshots, settings)
}

pub(crate) fn answer() -> Answer {
    let backends = vec![
        backend(
            815,
            State::IdleInTransaction,
            ("Client", "ClientRead"),
            "select * from orders /*controller:report,request_id:7*/",
        ),
        backend(900, State::Active, ("Lock", "relation"), "alter table orders add column more int"),
        backend(901, State::Active, ("Lock", "relation"), "select 'private' from orders"),
        backend(816, State::Idle, ("Client", "ClientRead"), "commit"),
    ];
    let locks = vec![
        lock(815, LockMode::AccessShare, None),
        lock(900, LockMode::AccessExclusive, Some(9000)),
        lock(901, LockMode::AccessShare, Some(4000)),
    ];
    let (took, age) = (Duration::from_millis(2), Duration::from_millis(3));
    Answer { backends, locks, took, age, ..Answer::default() }
}

fn backend(pid: i32, state: State, (class, event): (&str, &str), query: &str) -> Backend {
    let text = |text: &str| Some(text.to_owned());
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    Backend {
        pid,
        kind: text("client backend"),
        database: text("app_production"),
        user: text("app_owner"),
        application_name: text("migrate"),
        client_addr: text("10.0.0.77"),
        state: Some(state),
        wait: Some(WaitEvent { class: class.to_owned(), event: event.to_owned() }),
        ages: Ages { backend: seconds(90), transaction: seconds(60), query: seconds(50), state: seconds(40) },
        xmin_age: Some(12),
        query_id: Some(-5),
        query: text(query),
        usage: Some(Usage { memory: 52_428_800, cpu_time: Duration::from_millis(71_320), cpu_thousandths: Some(985) }),
    }
}

pub(crate) fn lock(pid: i32, mode: LockMode, waiting: Option<u64>) -> Lock {
    let object = Object { kind: "relation".into(), key: "1".into(), name: Some("orders".into()) };
    Lock { pid, leader_pid: None, object, mode, waiting: waiting.map(Duration::from_millis) }
}
