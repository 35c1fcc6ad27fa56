//! Last night, from the history's files: the console, `pgweir report` and the page name who was in the way then. A user who may not see statements
//! sees none.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use activity::{At, History, Host, Moment, Origin, Pool, Row, Tags};
use archive::{Archive, Location};
use observe::{Backend, Blocking, Lock, LockMode, Object, State, WaitEvent};
use outer::{Client, Stage, Wishes, binary, page};
use units::PoolKey;

const SECONDS: u64 = 90;

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // It may be in use still.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn row(pid: i32, blocking: &Blocking, query: &str) -> Row {
    let waiter = blocking.waiter(pid).cloned();
    let wait = waiter.is_some().then(|| WaitEvent { class: "Lock".to_owned(), event: "relation".to_owned() });
    let backend = Backend {
        pid,
        kind: Some("client backend".to_owned()),
        database: Some("shop".to_owned()),
        user: Some("app".to_owned()),
        state: Some(State::Active),
        wait,
        query: Some(query.to_owned()),
        ..Backend::default()
    };
    let backend = Some(Arc::new(backend));
    let (host, behind) = (Some(0), blocking.count_behind(pid));
    Row { host, backend, session: None, origin: Origin::Stranger, tags: Tags::default(), waiter, behind }
}

/// A night in which an index is built and two wait for it.
fn night(second: u64) -> Moment {
    let lock = |pid, mode, waiting: Option<u64>| {
        let object = Object { kind: "relation".into(), key: "1".into(), name: Some("orders".into()) };
        Lock { pid, leader_pid: None, object, mode, waiting: waiting.map(Duration::from_secs) }
    };
    let exclusive = LockMode::RowExclusive;
    let blocking =
        Blocking::of(&[lock(1, LockMode::Share, None), lock(2, exclusive, Some(9)), lock(3, exclusive, Some(8))]);
    let insert = "insert into orders values (77)";
    let rows =
        vec![row(1, &blocking, "create index on orders (n)"), row(2, &blocking, insert), row(3, &blocking, insert)];
    let hosts = vec![Host { address: "db:5432".into(), blocking, ..Host::default() }];
    let key = PoolKey { database: "shop".into(), user: "app".into() };
    let pool = Pool { waiting: 4, oldest_wait: Duration::from_secs(5), ..Pool::default() };
    Moment { at: At(second * 1000), hosts, rows, pools: [(key, pool)].into() }
}

/// Writes the seconds from `begin` on.
fn written(path: &Path, begin: u64) {
    let place = Location { path: path.to_owned(), size_max: 1 << 20 };
    let (say, said) = std::sync::mpsc::channel();
    let archive = Archive::open(place, move |_, text| say.send(text).expect("the test waits")).expect("a thread");
    let all_is_well = || assert_eq!(said.try_iter().collect::<Vec<String>>(), [""; 0]);
    let mut history = History::default();
    for second in begin..begin + SECONDS {
        history.push(Arc::new(night(second)));
        let (at, bytes) = history.stored().expect("it has a second");
        while !archive.add(at, bytes.clone()) {
            all_is_well();
            thread::yield_now();
        }
    }
    while archive.written().seconds < SECONDS {
        all_is_well();
        thread::yield_now();
    }
}

fn rows(address: SocketAddr, user: &str, sql: &str) -> Vec<Vec<Option<String>>> {
    let mut console = Client::login(address, user, "pgbouncer").expect("it may");
    let answer = console.query(sql).expect("connected");
    assert!(answer.errors.is_empty(), "{sql}: {:?}", answer.errors);
    answer.rows
}

fn report(arguments: &[&str]) -> String {
    let ended = Command::new(binary()).arg("report").args(arguments).output().expect("it starts");
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    String::from_utf8(ended.stdout).expect("UTF-8")
}

/// What the files have of the ten seconds from `from` on, as a user of stats_users.
fn a_user_without_rights_sees_no_statement(stage: &Stage, from: &str) {
    let users = stage.pooler.dir().join("users.txt");
    let known = fs::read_to_string(&users).expect("it is there");
    fs::write(&users, known + "\"joe\" \"\"\n").expect("it is ours");
    rows(stage.pooler.address(), "postgres", "reload");
    let of_joe = |sql: &str| rows(stage.pooler.address(), "joe", &format!("{sql} from '{from}' last 10s"));
    assert_eq!(of_joe("show waits by blocker"), Vec::<Vec<Option<String>>>::new());
    let (why, history) = (of_joe("show why"), of_joe("show history"));
    assert_eq!((why.len(), &why[0][5], &why[0][6]), (1, &None, &None));
    let private = |cell: &Option<String>| cell.as_ref().is_some_and(|text| text.contains("orders"));
    assert!(history.len() >= 10 && !history.iter().flatten().any(private), "{history:?}");
}

#[test]
fn last_night_is_asked_of_console_report_and_page() {
    let folder = Folder(PathBuf::from(format!("/tmp/outer-night-{}", std::process::id())));
    fs::create_dir(&folder.0).expect("the process makes the name fresh");
    let path = folder.0.join("history");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let begin = now - 20 * 3600;
    written(&path, begin);
    if let Some(account) = demo::unprivileged() {
        for path in [&folder.0, &path] {
            chown(path, Some(account.uid), Some(account.gid)).expect("root may");
        }
    }
    let http: SocketAddr = format!("127.0.0.1:{}", demo::free_port()).parse().expect("an address");
    let settings = vec![
        ("observe_file", path.display().to_string()),
        ("http_listen", http.to_string()),
        ("http_page", "1".to_owned()),
        ("stats_users", "joe".to_owned()),
    ];
    let mut stage = Stage::set(&Wishes { settings, ..Wishes::default() });
    let address = stage.pooler.address();
    let zulu = |second: u64| {
        stage.direct(&format!(
            "select to_char(to_timestamp({second}) at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')"
        ))
    };
    let (from, to) = (zulu(begin), zulu(begin + SECONDS));

    let waits = rows(address, "postgres", &format!("show waits by blocker from '{from}' to '{to}'"));
    assert_eq!(waits.len(), 1, "{waits:?}");
    assert_eq!(waits[0][0].as_deref(), Some("shop/app: create index on orders (n)"));
    let number = |at: usize| waits[0][at].as_deref().and_then(|text| text.parse::<u64>().ok());
    // Two that waited, in each of all seconds.
    assert_eq!((number(1), number(5), number(6)), (Some(2 * SECONDS), Some(SECONDS), Some(SECONDS)));
    // Memory and disk together.
    let day = rows(address, "postgres", "show waits by event last 1d");
    assert!(day.iter().any(|row| row[0].as_deref() == Some("Lock:relation")), "{day:?}");
    let history = rows(address, "postgres", &format!("show history from '{from}' last 10s"));
    let statements = history.iter().filter(|row| row[10].as_deref() == Some("insert into orders values (?)")).count();
    assert!(statements >= 10, "{history:?}");

    let why = rows(address, "postgres", &format!("show why from '{from}' to '{to}'"));
    assert_eq!(why.len(), 1, "{why:?}");
    assert!(why[0][5].as_deref().is_some_and(|sentence| sentence.starts_with("4 clients of shop/app wait")), "{why:?}");
    assert!(why[0][10].is_some() && why[0][10] != why[0][11], "from and to: {why:?}");

    a_user_without_rights_sees_no_statement(&stage, &from);

    let password = stage.cluster.password();
    let url = format!("postgres://postgres:{password}@127.0.0.1:{}/pgbouncer", stage.pooler.port);
    for source in [vec![url.as_str()], vec!["--file", path.to_str().expect("text")]] {
        let page = report(&[&source[..], &["--from", &from, "--to", &to]].concat());
        assert!(page.contains("create index on orders (n)"), "{page}");
    }

    let admin = page::session(http, "postgres", password);
    let moment = page::api(http, &admin, &format!("moment?at={}", begin + 70)).body;
    assert!(moment.contains("create index on orders (n)") && moment.contains("\"count\":2"), "{moment}");
    let hour = page::api(http, &admin, &format!("span?from={begin}&to={}", begin + 3000)).body;
    let hour: serde_json::Value = serde_json::from_str(&hour).expect("JSON");
    assert_eq!(hour["at"].as_array().map(Vec::len), Some(SECONDS as usize), "{hour}");
    let day = page::api(http, &admin, &format!("span?from={}&to={now}", now - 86_400)).body;
    let day: serde_json::Value = serde_json::from_str(&day).expect("JSON");
    let place = day["classes"].as_array().and_then(|all| all.iter().position(|class| class == "Lock"));
    let locks = &day["samples"][place.expect("they waited for locks")];
    assert!(locks.as_array().is_some_and(|counts| counts.iter().filter(|count| **count == 2).count() >= 2), "{day}");
    assert!(page::api(http, &admin, &format!("moment?at={}", begin - 5000)).status == 404);
    stage.assert_healthy();
}
