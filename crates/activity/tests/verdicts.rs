//! Facts of one moment, and the verdict on them: both are text, in `verdicts.txt`. `UPDATE=1 cargo test -p activity` writes the verdicts anew.
//!
//! ```text
//!   == a title
//!   pool shop/web waiting=60 longest=24 active=20 idle=0 login=0
//!   client 1-20 shop/web pid=501 app=web runs=24 waits=AccessShare:parent:24      20 clients with pids from 501
//!   client 7 shop/web app=billing tags=a:x,b:y idle=25 holds=AccessShare:parent
//!   direct pid=9 user=dba addr=10.0.0.9 …       a connection past the pooler
//!   server pid=9 …                              a server of the pooler without a client
//!   process pid=9 kind=walsender …              a process of PostgreSQL's own
//!   prepared id=-7 gid=order-7 owner=payer database=shop age=600 holds=…
//!   host partial                                PostgreSQL does not tell all
//!   > the verdict; its queue; its root; how it is ended, and where
//! ```
//!
//! Times are in seconds. A lock is `mode:object`, and `mode:object:seconds` if it is waited for; an object that is a number is a transaction.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use activity::verdict::Detail;
use activity::{
    EndedDeadlock, Host, Moment, Origin, Pool, Prepared, Row, Session, SessionId, Tags, Times, Verdict, View, verdicts,
};
use machine::Peer;
use observe::{Ages, Backend, Blocking, Lock, LockMode, Object, State, WaitEvent};
use units::{ConnId, Kind, PoolKey, Serial, WorkerId};

#[test]
fn facts_have_their_verdicts() {
    let written = include_str!("verdicts.txt");
    let (mut out, mut facts) = (String::new(), Vec::new());
    for line in written.lines().filter(|line| !line.starts_with('>')) {
        if line.is_empty() && !facts.is_empty() {
            judged(&mut out, &facts);
            facts.clear();
        }
        if !line.is_empty() && !line.starts_with("==") && !line.starts_with('#') {
            facts.push(line);
        }
        writeln!(out, "{line}").expect("a string takes all");
    }
    judged(&mut out, &facts);
    if std::env::var_os("UPDATE").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/verdicts.txt");
        std::fs::write(path, &out).expect("the tree is writable");
    }
    let differ: Vec<(&str, &str)> = out.lines().zip(written.lines()).filter(|(found, kept)| found != kept).collect();
    assert!(out == written, "UPDATE=1 writes them anew; found and kept differ: {differ:#?}");
}

fn judged(out: &mut String, facts: &[&str]) {
    for verdict in verdicts(&moment(facts)) {
        let mut line = format!("> {}", verdict.sentence(Detail::Full));
        if let Verdict::Trouble(trouble) = &verdict {
            let queue = trouble.queue().map_or("-", |queue| queue.word());
            let root = trouble.root(Detail::WithoutStatements).unwrap_or("-".to_owned());
            let ending =
                trouble.ending().map_or("-".to_owned(), |ending| format!("{} @ {}", ending.statement, ending.place));
            write!(line, "\n>   {queue} | {root} | {ending}").expect("a string takes all");
        }
        writeln!(out, "{line}").expect("a string takes all");
    }
}

/// The words `name=value` of a line.
struct Words<'l>(Vec<(&'l str, &'l str)>);

impl<'l> Words<'l> {
    fn of(line: &'l str) -> Words<'l> {
        Words(line.split(' ').filter_map(|word| word.split_once('=')).collect())
    }

    fn text(&self, name: &str) -> Option<&'l str> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    fn number(&self, name: &str) -> Option<u32> {
        self.text(name).map(|value| value.parse().expect("a number"))
    }

    fn seconds(&self, name: &str) -> Option<Duration> {
        self.text(name).map(|value| Duration::from_secs_f64(value.parse().expect("seconds")))
    }
}

fn moment(facts: &[&str]) -> Moment {
    let mut moment = Moment::default();
    let mut host = Host { address: "db1:5432".into(), view: View::Whole(Duration::ZERO), ..Host::default() };
    let mut locks = Vec::new();
    for line in facts {
        let mut words = line.split(' ');
        let (kind, of) = (words.next().unwrap_or_default(), Words::of(line));
        match kind {
            "pool" => _ = moment.pools.insert(key(words.next().expect("a pool")), pool(&of)),
            "host" => host.view = if line.ends_with("off") { View::Off } else { View::Partial(Duration::ZERO) },
            "prepared" => {
                let id = of.text("id").and_then(|id| id.parse().ok()).expect("an id");
                let word = |name| of.text(name).unwrap_or_default().to_owned();
                let age = of.seconds("age").unwrap_or_default();
                let prepared = Prepared { gid: word("gid"), owner: word("owner"), database: word("database"), age };
                locks.extend(lock(id, &of));
                if of.text("gid").is_some() {
                    host.prepared.insert(id, prepared);
                }
            }
            "client" => {
                let numbers = words.next().expect("a number");
                let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
                let [first, last]: [i32; 2] = [first, last].map(|number| number.parse().expect("a number"));
                let pool = key(words.next().expect("a pool"));
                for (pid, number) in
                    (of.text("pid").map_or(1000 + first, |pid| pid.parse().expect("a pid"))..).zip(first..=last)
                {
                    locks.extend(lock(pid, &of));
                    let session = Some(session(number, &pool, &of));
                    let backend = of.text("unseen").is_none().then(|| backend(pid, "client backend", &of));
                    moment.rows.push(row(Origin::Client, session, backend, &of));
                }
            }
            _ => {
                let pid = of.text("pid").and_then(|pid| pid.parse().ok()).expect("a pid");
                locks.extend(lock(pid, &of));
                let origin = if kind == "server" { Origin::Server } else { Origin::Stranger };
                let backend = backend(pid, of.text("kind").unwrap_or("client backend"), &of);
                moment.rows.push(row(origin, None, Some(backend), &of));
            }
        }
    }
    host.blocking = Blocking::of(&locks);
    for row in &mut moment.rows {
        let Some(pid) = row.pid() else { continue };
        (row.waiter, row.behind) = (host.blocking.waiter(pid).cloned(), host.blocking.count_behind(pid));
    }
    moment.hosts.push(host);
    moment
}

fn key(name: &str) -> PoolKey {
    let (database, user) = name.split_once('/').expect("database/user");
    PoolKey { database: database.into(), user: user.into() }
}

fn pool(of: &Words<'_>) -> Pool {
    let number = |name| of.number(name).unwrap_or(0);
    Pool {
        waiting: number("waiting"),
        oldest_wait: of.seconds("longest").unwrap_or_default(),
        servers_active: number("active"),
        servers_idle: number("idle"),
        servers_login: number("login"),
        deadlock: of.seconds("deadlock").map(|ago| EndedDeadlock {
            ago,
            client: i32::try_from(number("victim")).expect("a client's id"),
            application_name: of.text("app").unwrap_or_default().to_owned(),
        }),
        held_for: of.text("held").map(|hosts| hosts.replace('_', " ").into()),
        ..Pool::default()
    }
}

/// The locks that a line of facts holds and waits for.
fn lock(pid: i32, of: &Words<'_>) -> Vec<Lock> {
    let both = [of.text("holds"), of.text("waits")].into_iter().flatten();
    let one = |text: &str| {
        let parts: Vec<&str> = text.split(':').collect();
        let is_transaction = parts[1].bytes().all(|byte| byte.is_ascii_digit());
        let (kind, name) = if is_transaction { ("transactionid", None) } else { ("relation", Some(parts[1].into())) };
        let object = Object { kind: kind.into(), key: parts[1].into(), name };
        let mode = LockMode::of(&format!("{}Lock", parts[0])).expect("a mode");
        let waiting = parts.get(2).map(|seconds| Duration::from_secs(seconds.parse().expect("seconds")));
        Lock { pid, leader_pid: None, object, mode, waiting }
    };
    both.flat_map(|texts| texts.split(',')).map(one).collect()
}

fn session(number: i32, pool: &PoolKey, of: &Words<'_>) -> Session {
    let conn = ConnId::new(Kind::Client, 0, u32::try_from(number).expect("a number"), 0);
    let from = "10.0.0.5:40000".parse().expect("an address");
    let kept = of.seconds("kept");
    Session {
        id: SessionId { serial: Serial(number), name: conn, worker: WorkerId(0), conn },
        peer: Peer::Tcp { from, to: from },
        pool: pool.clone(),
        application_name: of.text("app").unwrap_or_default().to_owned(),
        class: "default".into(),
        fingerprint: None,
        times: Times {
            transaction: if kept.is_some() { None } else { of.seconds("transaction").or(Some(Duration::ZERO)) },
            idle: of.seconds("idle"),
            kept,
            ..Times::default()
        },
        keeps: None,
        kept_for: None,
        text: None,
    }
}

fn backend(pid: i32, kind: &str, of: &Words<'_>) -> Backend {
    let wait = |class: &str, event: &str| Some(WaitEvent { class: class.to_owned(), event: event.to_owned() });
    let text = |name| of.text(name).map(|text| text.replace('_', " "));
    let idle = of.seconds("idle");
    let (state, wait) = match (idle, of.text("waits"), of.text("event")) {
        (Some(_), ..) => (State::IdleInTransaction, wait("Client", "ClientRead")),
        (None, Some(_), _) => (State::Active, wait("Lock", "relation")),
        (None, None, Some(event)) => {
            (State::Active, event.split_once(':').and_then(|(class, event)| wait(class, event)))
        }
        _ => (State::Active, None),
    };
    let ages = Ages { backend: None, transaction: of.seconds("transaction"), query: of.seconds("runs"), state: idle };
    Backend {
        pid,
        kind: (of.text("hidden").is_none()).then(|| text("kind").unwrap_or(kind.to_owned())),
        user: text("user"),
        application_name: text("app"),
        client_addr: text("addr"),
        state: Some(state),
        wait,
        ages,
        query: text("query"),
        ..Backend::default()
    }
}

fn row(origin: Origin, session: Option<Session>, backend: Option<Backend>, of: &Words<'_>) -> Row {
    let comment = of.text("tags").map(|tags| format!("/*{tags}*/")).unwrap_or_default();
    let (host, tags) = (backend.as_ref().map(|_| 0), Tags::of(comment.as_bytes()));
    Row { host, backend: backend.map(Arc::new), session, origin, tags, waiter: None, behind: 0 }
}

/// Whoever is named as a link holds up somebody, and no victim is the root.
#[test]
fn no_root_is_a_victim() {
    let (mut facts, mut seen) = (Vec::new(), BTreeMap::new());
    let mut check = |facts: &[&str]| {
        let moment = moment(facts);
        for verdict in verdicts(&moment) {
            let Verdict::Trouble(trouble) = verdict else { continue };
            let Some(ending) = trouble.ending() else { continue };
            for (pid, _) in moment.hosts[0].blocking.waiters() {
                assert!(!ending.statement.contains(&format!("({pid})")), "{ending:?}");
                let row = moment.row(0, pid).and_then(|row| row.session.as_ref());
                let victim = row.map(|session| format!("KILL_CLIENT {};", session.id.serial.0));
                assert_ne!(victim.as_deref(), Some(&*ending.statement));
            }
            assert!(!ending.statement.contains("pg_terminate_backend(0)"), "it would end nothing");
            *seen.entry(ending.statement.split(' ').next().unwrap_or_default().to_owned()).or_insert(0) += 1;
        }
    };
    for line in include_str!("verdicts.txt").lines().filter(|line| !line.starts_with('>') && !line.starts_with("==")) {
        if line.is_empty() {
            check(&std::mem::take(&mut facts));
        } else {
            facts.push(line);
        }
    }
    check(&facts);
    assert!(seen.keys().map(String::as_str).eq(["KILL_CLIENT", "ROLLBACK", "SELECT"]), "{seen:?}");
}
