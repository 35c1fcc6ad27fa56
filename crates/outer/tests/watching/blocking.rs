//! Who waits behind whom, as `observe` makes it from one reading of pg_locks, is what PostgreSQL's own pg_blocking_pids says of each who waits: on
//! all versions of PostgreSQL that are here.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::path::Path;

use demo::Binaries;
use observe::{ACTIVITY, Backend, Blocking, LOCKS, State, backends, locks, pid_shown, prepared};
use outer::{Client, Stage, Wishes, eventually, frontend};

#[test]
fn blockers_are_those_that_postgresql_names() {
    on(&Stage::set(&wishes()));
    let Some(folder) = env::var_os("PGWEIR_POSTGRESQLS").filter(|folder| !folder.is_empty()) else { return };
    for major in ["14", "16", "17", "18"] {
        let tree = Path::new(&folder).join(major);
        let binaries = Binaries::at(&tree.join("bin"), Some(&tree)).expect("tools/postgresql-versions has made it");
        on(&Stage::set_on(binaries, &wishes()));
    }
}

fn wishes() -> Wishes {
    // Each client has a backend of its own.
    let postgres = vec![("max_prepared_transactions", "3")];
    Wishes { settings: vec![("pool_mode", "session".to_owned())], postgres, ..Wishes::default() }
}

fn on(stage: &Stage) {
    let mut clients = Clients { stage, known: BTreeMap::new() };
    clients.run("owner", "create table orders (id int primary key, n int); insert into orders values (1, 0)");
    clients.run("owner", "create table items (id int primary key, n int); insert into items values (1, 0)");
    // A report, the DDL that waits for it, and all who come after.
    clients.run("report", "begin; select from orders");
    clients.begin("ddl", "alter table orders add column more int");
    clients.begin("reader", "select from orders");
    clients.begin("writer", "insert into orders values (2, 0)");
    // A row, and two who want to change it.
    clients.run("idle", "begin; update items set n = 1 /* it's mine */");
    clients.begin("second", "update items set n = 2");
    clients.begin("third", "update items set n = 3");
    // Locks of the application's own, shared and not.
    clients.run("shared", "begin; select pg_advisory_xact_lock_shared(7)");
    clients.run("too", "begin; select pg_advisory_xact_lock_shared(7)");
    clients.begin("alone", "select pg_advisory_xact_lock(7)");
    clients.begin("late", "select pg_advisory_xact_lock_shared(7)");

    // Prepared transactions, of which one has a savepoint, and so two ids.
    clients.run("owner", "create table ledger (id int); create table paid (id int)");
    clients.run("owner", "begin; lock ledger; savepoint a; insert into paid values (1); prepare transaction 'first'");
    clients
        .run("owner", "begin; lock paid in row share mode; insert into paid values (2); prepare transaction 'second'");
    clients.begin("clerk", "select from ledger");
    clients.begin("auditor", "begin; lock paid");

    let mut observer = stage.client();
    let rows = observer.query(LOCKS).expect("connected").rows;
    let (found, prepared) = (Blocking::of(&locks(&rows)), prepared(&rows));
    let mut names: BTreeMap<i32, &str> = clients.known.iter().map(|(name, (_, pid))| (*pid, *name)).collect();
    names.extend(prepared.iter().map(|(id, prepared)| (*id, prepared.gid.as_str())));
    let behind = |name: &str| -> BTreeSet<&str> {
        let waiter = found.waiter(clients.pid(name)).expect("it waits");
        waiter.blockers.iter().map(|blocker| names[&blocker.pid]).collect()
    };
    assert_eq!((behind("clerk"), behind("auditor")), (["first"].into(), ["first", "second"].into()));
    let drawn: BTreeSet<String> = found
        .waiters()
        .map(|(pid, waiter)| {
            let behind: Vec<&str> = waiter.blockers.iter().map(|blocker| names[&blocker.pid]).collect();
            format!("{} behind {}", names[&pid], behind.join(", "))
        })
        .collect();
    for (pid, waiter) in found.waiters() {
        let sql = format!("select unnest(pg_blocking_pids({pid}))");
        let rows = observer.query(&sql).expect("connected").rows;
        let theirs: BTreeSet<i32> = rows.iter().flatten().flatten().filter_map(|pid| pid.parse().ok()).collect();
        let ours: BTreeSet<i32> = waiter.blockers.iter().map(|blocker| pid_shown(blocker.pid)).collect();
        assert_eq!(ours, theirs, "{}: {drawn:?}", names[&pid]);
    }
    assert_eq!(found.waiters().count(), 9, "{drawn:?}");
    let roots: BTreeSet<&str> = found.roots().iter().map(|pid| names[pid]).collect();
    assert_eq!(roots, BTreeSet::from(["first", "idle", "report", "second", "shared", "too"]));
    assert_eq!(found.count_behind(clients.pid("report")), 3);
    let table = found.waiter(clients.pid("ddl")).and_then(|waiter| waiter.object.name.as_deref());
    assert_eq!(table, Some("orders"));

    let all = backends(&observer.query(ACTIVITY).expect("connected").rows);
    let of =
        |name: &str| -> &Backend { all.iter().find(|backend| backend.pid == clients.pid(name)).expect("it is there") };
    assert_eq!(of("idle").state, Some(State::IdleInTransaction));
    assert_eq!(of("idle").query.as_deref(), Some("begin; update items set n = 1 /* it's mine */"));
    for (pid, waiter) in found.waiters() {
        let backend = of(names[&pid]);
        let wait = backend.wait.as_ref().expect("it waits");
        assert_eq!((wait.class.as_str(), &*wait.event), ("Lock", &*waiter.object.kind), "{}", names[&pid]);
        assert!(backend.ages.query.expect("it runs") >= waiter.waiting, "{backend:?} {waiter:?}");
    }
}

/// Clients by what they do, and their backends.
struct Clients<'s> {
    stage: &'s Stage,
    known: BTreeMap<&'static str, (Client, i32)>,
}

impl Clients<'_> {
    fn one(&mut self, name: &'static str) -> &mut (Client, i32) {
        let stage = self.stage;
        self.known.entry(name).or_insert_with(|| {
            let mut client = stage.client();
            let answer = client.query("select pg_backend_pid()").expect("connected");
            let pid = answer.value().and_then(|pid| pid.parse().ok()).expect("a number");
            (client, pid)
        })
    }

    fn pid(&self, name: &str) -> i32 {
        self.known[name].1
    }

    fn run(&mut self, name: &'static str, sql: &str) {
        let answer = self.one(name).0.query(sql).expect("connected");
        assert!(answer.errors.is_empty(), "{sql}: {:?}", answer.errors);
    }

    /// Begins what waits for a lock, and returns when it does so: the queue's order is that of these calls.
    fn begin(&mut self, name: &'static str, sql: &str) {
        let (client, pid) = self.one(name);
        client.send(&frontend::query(sql)).expect("connected");
        let waits =
            format!("select count(*) from pg_locks where pid = {pid} and not granted and waitstart is not null");
        eventually(name, || self.stage.direct(&waits) == "1");
    }
}
