//! Who is at fault? The situations that people have searched for days, each made on a real PostgreSQL: console, live page and `pgweir top` name the
//! culprit's tag, statement and blocker. SHOW LOCKS looks when it is asked, and the samples have it with the next one: control/tests/steward.rs,
//! pgweir/src/observer. How long a look takes is the machine's business.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, fs, thread};

use outer::page::Page;
use outer::{Client, Row, Stage, Wishes, binary, eventually, frontend};
use serde_json::Value;

/// After a slow answer of PostgreSQL's the observer rests for twenty times as long: a sample that takes longer than this never comes.
const SAMPLED_WITHIN: Duration = Duration::from_secs(300);

/// The page's user has a password; all others are trusted.
fn stage(pool: u32, postgres: Vec<(&'static str, &'static str)>) -> (Stage, Page) {
    let http = SocketAddr::from(([127, 0, 0, 1], demo::free_port()));
    let settings = vec![
        ("observe_tags", "controller, job".to_owned()),
        ("workers", "2".to_owned()),
        ("http_listen", http.to_string()),
        ("http_page", "1".to_owned()),
    ];
    let stage = Stage::set(&Wishes { pool, max_connections: pool + 20, settings, postgres, ..Wishes::default() });
    let page = Page::of(http, "postgres", stage.cluster.password());
    (stage, page)
}

fn show(stage: &Stage, what: &str) -> Vec<Row> {
    let mut console = Client::login(stage.pooler.address(), "postgres", "pgbouncer").expect("an administrator");
    let answer = console.query(&format!("SHOW {what}")).expect("an answer");
    assert!(answer.errors.is_empty(), "{what}: {:?}", answer.errors);
    let named = |row: &Vec<Option<String>>| {
        let values = row.iter().map(|value| value.clone().unwrap_or_default());
        answer.names.iter().cloned().zip(values).collect()
    };
    answer.rows.iter().map(named).collect()
}

fn run(stage: &Stage, sql: &str) -> Client {
    let mut client = stage.client();
    let answer = client.query(sql).expect("connected");
    assert!(answer.errors.is_empty(), "{sql}: {:?}", answer.errors);
    client
}

/// Begins what will wait.
fn begin(stage: &Stage, sql: &str) -> Client {
    let mut client = stage.client();
    client.send(&frontend::query(sql)).expect("connected");
    client
}

fn waiting_for_locks(stage: &Stage) -> usize {
    stage.direct("select count(*) from pg_stat_activity where wait_event_type = 'Lock'").parse().expect("a count")
}

/// Repeats `look` until it finds something, and returns that.
fn found<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < SAMPLED_WITHIN, "it is never seen: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The root of the lock tree, once it blocks `blocking` others.
fn root(stage: &Stage, blocking: &str) -> Row {
    found("SHOW LOCKS", || show(stage, "LOCKS").into_iter().next().filter(|root| root["blocking"] == blocking))
}

/// A view of `pgweir top`, as text.
fn top(stage: &Stage, view: &[&str]) -> String {
    let url = stage.url_of("pgbouncer");
    let output = Command::new(binary()).args(["top", &url, "--once"]).args(view).output().expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The page and top show the row of the lock tree that the console shows: who it is, whose, what it runs, and how many it blocks.
fn assert_shown_elsewhere(stage: &Stage, page: &Page, culprit: &Row) {
    let told = ["pid", "client_id", "tags", "query", "blocking", "blocked_by", "note"];
    found("SHOW LOCKS of the page", || {
        let rows = page.show(&format!("LOCKS?column=pid&is={}", culprit["pid"]));
        rows.into_iter().find(|row| told.iter().all(|name| row[*name] == culprit[*name]))
    });
    let start = |text: &str| text.chars().take(20).collect::<String>();
    found("the locks of top", || {
        let parts = [&*culprit["pid"], &*culprit["tags"], &*culprit["blocking"], &*start(&culprit["query"])];
        let text = top(stage, &["--view", "locks"]);
        text.lines().any(|line| parts.iter().all(|part| line.contains(part))).then_some(())
    });
}

/// `PGWEIR_PICTURES=docs/guide` makes the pictures of the guide "Why is it slow?" anew, where there is a Chromium.
fn draw(stage: &Stage, page: &Page, (view, words): (&str, &str), name: &str) {
    let named = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let Some((folder, chromium)) = named("PGWEIR_PICTURES").zip(named("PGWEIR_CHROMIUM")) else { return };
    // Tests run in the folder of their crate.
    let file = format!("{}/../../{folder}/{name}.png", env!("CARGO_MANIFEST_DIR"));
    let url = format!("http://{}", page.http);
    let arguments = [&chromium, &url, "postgres", stage.cluster.password(), view, words, &file];
    outer::python("picture.py", &arguments).unwrap_or_else(|why| panic!("{why}"));
}

/// A picture of a report, with `PGWEIR_PICTURES` as above.
fn draw_report(stage: &Stage, name: &str) {
    let named = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let Some((folder, chromium)) = named("PGWEIR_PICTURES").zip(named("PGWEIR_CHROMIUM")) else { return };
    let page = stage.cluster.socket_dir().join("report.html");
    let page = page.to_str().expect("a plain path");
    let report = ["report", &stage.url_of("pgbouncer"), "-o", page];
    assert!(Command::new(binary()).args(report).status().expect("the program starts").success());
    let file = format!("{}/../../{folder}/{name}.png", env!("CARGO_MANIFEST_DIR"));
    outer::python("picture.py", &[&*chromium, page, &file]).unwrap_or_else(|why| panic!("{why}"));
}

/// The page and top sum waits of the last minute under such a name.
fn assert_summed_elsewhere(stage: &Stage, page: &Page, by: &str, is_it: impl Fn(&str) -> bool) {
    found(&format!("the page, by {by}"), || {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
        let answer = page.api(&format!("waits?from={}&to={now}&by={by}", now - 60));
        let sums: Value = serde_json::from_str(&answer.body).unwrap_or_else(|_| panic!("{}", answer.body));
        let mut names = sums["sums"].as_array()?.iter().filter_map(|sum| sum["name"].as_str());
        names.any(&is_it).then_some(())
    });
    found(&format!("top, by {by}"), || {
        top(stage, &["--view", "waits", "--table", by]).lines().any(&is_it).then_some(())
    });
}

#[test]
fn create_index_before_234_inserts() {
    let (stage, page) = stage(240, vec![]);
    run(&stage, "create table orders (id int, n int); insert into orders select g, 0 from generate_series(1, 100) g");
    run(
        &stage,
        "create function slowly(int) returns int immutable language plpgsql as 'begin perform pg_sleep(60); return 1; end'",
    );
    let _index = begin(&stage, "create index on orders (slowly(id)) /*job:migrate,correlation_id:0a1b*/");
    eventually("the index is being made", || {
        stage.direct("select count(*) from pg_locks where mode = 'ShareLock'") != "0"
    });
    let _inserts: Vec<Client> =
        (0..234).map(|n| begin(&stage, &format!("insert into orders values ({n}, 1) /*controller:orders*/"))).collect();
    eventually("all wait", || waiting_for_locks(&stage) == 234);
    let culprit = root(&stage, "234");
    assert_eq!((culprit["tags"].as_str(), culprit["depth"].as_str()), ("job=migrate correlation_id=0a1b", "0"));
    assert!(culprit["query"].starts_with("create index on orders"), "{culprit:?}");
    assert!(culprit["note"].starts_with("CREATE INDEX, in the way of 234: CREATE INDEX CONCURRENTLY"), "{culprit:?}");
    assert_eq!((culprit["blocks_with"].as_str(), culprit["blocks_on"].as_str()), ("ShareLock", "orders"));
    // The samples of the last seconds say so, too, and for how long it was so.
    found("SHOW WAITS BY BLOCKER", || {
        let is_it = |row: &Row| row["name"].contains("job=migrate") && row["name"].contains("create index on orders");
        show(&stage, "WAITS BY BLOCKER LAST 60s").into_iter().next().filter(|row| is_it(row) && row["max"] == "234")
    });
    found("SHOW WAITS BY TAG", || {
        show(&stage, "WAITS BY TAG controller LAST 60s").into_iter().next().filter(|row| row["name"] == "orders")
    });
    draw(&stage, &page, ("now", "CREATE INDEX CONCURRENTLY"), "slow-create-index");
    draw_report(&stage, "why-is-it-slow");
    assert_shown_elsewhere(&stage, &page, &culprit);
    assert_summed_elsewhere(&stage, &page, "blocker", |text| {
        text.contains("job=migrate") && text.contains("create index on orders")
    });
    assert_counts_agree(&stage);
}

/// Waits by event are those of pg_stat_activity, and nothing moves meanwhile. A look that PostgreSQL answers too late shows less.
fn assert_counts_agree(stage: &Stage) {
    let theirs = stage.direct(
        "select string_agg(format('%s:%s=%s', wait_event_type, wait_event, n), ' ' order by wait_event_type, wait_event) from \
         (select wait_event_type, wait_event, count(*) n from pg_stat_activity where state = 'active' and pid <> pg_backend_pid() \
          and wait_event_type = 'Lock' group by 1, 2) a",
    );
    found(&theirs, || {
        let mut ours: BTreeMap<String, u32> = BTreeMap::new();
        for row in show(stage, "ACTIVITY").iter().filter(|row| row["wait_event_type"] == "Lock") {
            *ours.entry(format!("{}:{}", row["wait_event_type"], row["wait_event"])).or_default() += 1;
        }
        let ours: Vec<String> = ours.iter().map(|(event, count)| format!("{event}={count}")).collect();
        (ours.join(" ") == theirs).then_some(())
    });
    let states = "select state || '=' || count(*) from pg_stat_activity where backend_type = 'client backend' and pid <> \
                  pg_backend_pid() and application_name <> 'pgweir observer' and state = 'active' group by state";
    let theirs = stage.direct(states);
    found(&theirs, || {
        let rows = show(stage, "STATES").into_iter().filter(|row| row["state"] == "active");
        let active: u32 = rows.map(|row| row["count"].parse::<u32>().expect("a number")).sum();
        (format!("active={active}") == theirs).then_some(())
    });
}

#[test]
fn a_row_lock_that_one_idle_in_transaction_keeps_from_fifty() {
    let (stage, page) = stage(60, vec![]);
    run(&stage, "create table items (id int primary key, n int); insert into items values (1, 0)");
    let _idle = run(&stage, "begin; update items set n = 1 where id = 1 /*controller:basket,correlation_id:77*/");
    let _others: Vec<Client> =
        (0..50).map(|_| begin(&stage, "update items set n = n + 1 where id = 1 /*controller:checkout*/")).collect();
    eventually("all wait", || waiting_for_locks(&stage) == 50);
    let culprit = root(&stage, "50");
    assert_eq!(culprit["state"], "idle in transaction");
    assert_eq!(culprit["tags"], "controller=basket correlation_id=77");
    let holder = found("it holds a server", || show(&stage, "HOLDERS").into_iter().find(|row| row["blocking"] == "50"));
    assert_eq!((holder["reason"].as_str(), holder["pid"].as_str()), ("idle in transaction", culprit["pid"].as_str()));
    assert_eq!(holder["client_id"], culprit["client_id"]);
    draw(&stage, &page, ("locks", "idle in transaction"), "slow-idle-in-transaction");
    assert_shown_elsewhere(&stage, &page, &culprit);
    assert_summed_elsewhere(&stage, &page, "blocker", |text| text.contains("controller=basket"));
    assert_counts_agree(&stage);
    // The culprit is ended by the id that was shown, and all go on.
    let mut console = Client::login(stage.pooler.address(), "postgres", "pgbouncer").expect("an administrator");
    let answer = console.query(&format!("KILL_CLIENT {}", culprit["client_id"])).expect("an answer");
    assert!(answer.errors.is_empty(), "{:?}", answer.errors);
    eventually("nobody waits any more", || show(&stage, "LOCKS").is_empty());
}

#[test]
fn an_alter_table_behind_a_report_with_all_readers_behind_it() {
    let (stage, page) = stage(40, vec![]);
    run(&stage, "create table orders (id int primary key)");
    let _report =
        begin(&stage, "select pg_sleep(3600) from (values (1)) v(x) left join orders on false /*job:report*/");
    eventually("the report runs", || {
        stage.direct("select count(*) from pg_stat_activity where wait_event = 'PgSleep'") == "1"
    });
    let _ddl = begin(&stage, "alter table orders add column note text /*job:migrate*/");
    eventually("the DDL waits", || waiting_for_locks(&stage) == 1);
    let _readers: Vec<Client> =
        (0..20).map(|_| begin(&stage, "select count(*) from orders /*controller:orders*/")).collect();
    eventually("all wait", || waiting_for_locks(&stage) == 21);
    let rows = found("SHOW LOCKS", || {
        Some(show(&stage, "LOCKS")).filter(|rows| rows.first().is_some_and(|root| root["blocking"] == "21"))
    });
    let [report, ddl, reader, ..] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((report["tags"].as_str(), ddl["tags"].as_str()), ("job=report", "job=migrate"));
    assert_eq!((ddl["depth"].as_str(), ddl["blocked_by"].as_str()), ("1", report["pid"].as_str()));
    assert_eq!((reader["depth"].as_str(), reader["blocked_by"].as_str()), ("2", ddl["pid"].as_str()));
    assert_eq!(ddl["blocking"], "20");
    assert!(ddl["note"].starts_with("ALTER TABLE, in the way of 20: SET lock_timeout"), "{ddl:?}");
    draw(&stage, &page, ("locks", "lock_timeout"), "slow-alter-table");
    [report, ddl].into_iter().for_each(|culprit| assert_shown_elsewhere(&stage, &page, culprit));
    assert_summed_elsewhere(&stage, &page, "blocker", |text| text.contains("job=report"));
    assert_counts_agree(&stage);
}

/// pgbench, for as long as it is wanted.
struct Load(std::process::Child);

impl Load {
    fn begin(stage: &Stage, args: &[&str]) -> Self {
        let mut command = Command::new(stage.binaries.program("pgbench").expect("it comes with PostgreSQL"));
        command.args(["-h", "127.0.0.1", "-p", &stage.pooler.port.to_string(), "-U", "postgres", "-n"]).args(args);
        command.arg("postgres").stdout(Stdio::null()).stderr(Stdio::null());
        Load(command.spawn().expect("pgbench starts"))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn initialize(stage: &Stage, scale: &str) {
    let mut command = Command::new(stage.binaries.program("pgbench").expect("it comes with PostgreSQL"));
    command.args(["-h", "127.0.0.1", "-p", &stage.pooler.port.to_string(), "-U", "postgres", "-i", "-q", "-s", scale]);
    let output = command.arg("postgres").output().expect("pgbench starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn eight_hundred_tpc_b_clients_on_scale_1() {
    let (stage, page) = stage(20, vec![("synchronous_commit", "off")]);
    initialize(&stage, "1");
    let _load = Load::begin(&stage, &["-c", "800", "-j", "2", "-T", "36000"]);
    let waits = |by: &str| show(&stage, &format!("WAITS {by} LAST 60s"));
    // Those that wait for the pool are most, and are counted, though not all of them have a row.
    found("they wait for the pool", || {
        let is_it = |row: &Row| row["name"] == "Pool:Server" && row["max"].parse::<u32>().is_ok_and(|max| max > 600);
        waits("BY EVENT").into_iter().next().filter(is_it)
    });
    // Of those that have a server, most wait for the one row of branches.
    found("they wait for each other", || waits("BY EVENT").into_iter().find(|row| row["name"].starts_with("Lock:")));
    found("the statement is named", || {
        let is_it = |name: &str| {
            name.starts_with("UPDATE pgbench_") && (name.contains("bbalance = bbalance +") || name.contains("tbalance"))
        };
        waits("BY STATEMENT").into_iter().find(|row| is_it(&row["name"]))
    });
    found("the blocker is named", || {
        waits("BY BLOCKER").into_iter().find(|row| row["name"].starts_with("postgres/postgres: "))
    });
    draw(&stage, &page, ("now", "UPDATE pgbench_"), "slow-one-row");
    assert_summed_elsewhere(&stage, &page, "event", |text| text.contains("Pool:Server"));
    assert_summed_elsewhere(&stage, &page, "statement", |text| text.contains("UPDATE pgbench_"));
    assert_summed_elsewhere(&stage, &page, "blocker", |text| text.contains("postgres/postgres: "));
}

/// To find a page in memory, and to put another one there, a backend takes the lock of its part of the table of pages.
const MAPPING: &str = "LWLock:BufferMapping";

#[test]
#[ignore = "test-full: measures contention that chance makes; that waits are summed by PostgreSQL's event and by statement is proven by the other \
            tests of this file"]
fn buffer_mapping_contention() {
    // Hardly any page stays in memory, and each statement looks at hundreds, so that all backends look for pages to evict.
    let (stage, page) = stage(60, vec![("shared_buffers", "1MB"), ("synchronous_commit", "off")]);
    initialize(&stage, "4");
    let script = stage.cluster.socket_dir().join("scattered.sql");
    let scattered = "select sum(abalance) from pgbench_accounts \
                     where aid in (select (random() * 400000)::int from generate_series(1, 300));";
    fs::write(&script, scattered).expect("its folder is ours");
    let _load = Load::begin(&stage, &["-f", script.to_str().expect("text"), "-c", "50", "-j", "2", "-T", "36000"]);
    // What PostgreSQL says, asked often, beside what the samples say of the same time.
    let mut theirs: BTreeMap<String, u32> = BTreeMap::new();
    let begun = Instant::now();
    let ask = |theirs: &mut BTreeMap<String, u32>| {
        let rows = stage.direct(
            "select coalesce(string_agg(wait_event_type || ':' || wait_event, ' '), '') from pg_stat_activity \
             where state = 'active' and pid <> pg_backend_pid() and wait_event_type is not null",
        );
        rows.split_whitespace().for_each(|event| *theirs.entry(event.to_owned()).or_default() += 1);
    };
    let of = |counts: &BTreeMap<String, u32>| counts.get(MAPPING).copied().unwrap_or_default();
    found("they wait for each other", || {
        ask(&mut theirs);
        (of(&theirs) >= 20).then_some(())
    });
    found("the samples have it", || {
        show(&stage, "WAITS BY EVENT LAST 60s").into_iter().find(|row| row["name"] == MAPPING)
    });
    println!(
        "after {:?} PostgreSQL: {theirs:?}; samples: {:?}",
        begun.elapsed(),
        show(&stage, "WAITS BY EVENT LAST 60s")
    );
    assert_summed_elsewhere(&stage, &page, "event", |text| text.contains(MAPPING));
    assert_summed_elsewhere(&stage, &page, "statement", |text| text.contains("select sum(abalance)"));
}

/// The locks of a query that reads all partitions, without planning a thousand of them two hundred times.
const READS: &str = "begin; lock table measurements in access share mode /*job:statistics*/";

#[test]
#[ignore = "test-full: measures looks at 200,000 locks, which have to be over before the observer gives them up; what they show is proven by the \
            other tests of this file"]
fn two_hundred_thousand_locks() {
    let (stage, page) = stage(230, vec![("max_locks_per_transaction", "1000"), ("shared_buffers", "256MB")]);
    run(
        &stage,
        "create table measurements (id int) partition by range (id); \
         do $$ begin for n in 0..999 loop execute format('create table measurements_%s partition of measurements for values from (%s) to (%s)', n, n, n + 1); \
         end loop; end $$",
    );
    let _readers: Vec<Client> = (0..200).map(|_| run(&stage, READS)).collect();
    let locks: u32 = stage.direct("select count(*) from pg_locks").parse().expect("a count");
    assert!(locks > 200_000, "{locks}");
    let _ddl = begin(&stage, "alter table measurements_7 add check (id >= 0) /*job:migrate*/");
    eventually("the DDL waits", || waiting_for_locks(&stage) == 1);
    let mut took: Vec<Duration> = Vec::new();
    for _ in 0..5 {
        let begun = Instant::now();
        let rows = show(&stage, "LOCKS");
        took.push(begun.elapsed());
        let ddl = rows.iter().find(|row| row["tags"] == "job=migrate").unwrap_or_else(|| panic!("{rows:?}"));
        assert_eq!(ddl["object"], "measurements_7");
        assert_eq!(rows.iter().filter(|row| row["depth"] == "0").count(), 200);
    }
    took.sort();
    println!("SHOW LOCKS with {locks} locks: {took:?}");
    assert!(took[2] < Duration::from_secs(1), "{took:?}");
    draw(&stage, &page, ("holders", "job=statistics"), "slow-many-locks");
    let rows = show(&stage, "LOCKS");
    assert_shown_elsewhere(&stage, &page, rows.iter().find(|row| row["tags"] == "job=migrate").expect("it waits"));
    assert_summed_elsewhere(&stage, &page, "blocker", |text| text.contains("job=statistics"));
    let counted: u32 = show(&stage, "LOCK_COUNTS")
        .iter()
        .filter(|row| row["mode"] == "AccessShareLock")
        .map(|row| row["held"].parse::<u32>().expect("a number"))
        .sum();
    assert!(counted > 200_000, "{counted}");
}
