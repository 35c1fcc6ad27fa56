//! The history on disk, and `pgweir report`: after a row lock that one idle in its transaction has kept, the pooler is killed, and another one still
//! names the culprit; so do the page, CSV and JSON.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use outer::{Client, Pooler, Stage, Wishes, binary, eventually, frontend};
use rustix::process::Signal;

/// The culprit's statement, with text that a page must escape.
const CULPRIT: &str = "update stock set n = 7 where id = 1 /*controller='checkout',request_id='%3Cscript%3Ealert(1)'*/";

/// How long it may take until the pooler writes to a file, or logs that it cannot: it tries every 30 s.
const WRITTEN_WITHIN: Duration = Duration::from_secs(300);

/// A folder that both poolers may write to; it goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = PathBuf::from(format!("/tmp/outer-{name}-{}", std::process::id()));
        fs::create_dir(&path).expect("the process makes the name fresh");
        if let Some(account) = demo::unprivileged() {
            chown(&path, Some(account.uid), Some(account.gid)).expect("root may");
        }
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It may be in use still.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What `pgweir report` writes to standard output, or to standard error.
fn report(arguments: &[&str]) -> Result<String, String> {
    let ended = Command::new(binary()).arg("report").args(arguments).output().expect("it starts");
    let [out, error] = [ended.stdout, ended.stderr].map(|bytes| String::from_utf8(bytes).expect("UTF-8"));
    if ended.status.success() { Ok(out) } else { Err(error) }
}

fn stage(file: &Path) -> Stage {
    let settings = vec![("observe_file", file.display().to_string())];
    Stage::set(&Wishes { settings, ..Wishes::default() })
}

/// The same pooler once more, elsewhere.
fn again(stage: &Stage) -> Pooler {
    let dir = stage.pooler.dir();
    let text = |name: &str| fs::read_to_string(dir.join(name)).expect("its own");
    let port = format!("listen_port = {}", stage.pooler.port);
    let ini = text("pooler.ini").replace(&port, "listen_port = {port}").replace(&dir.display().to_string(), "{dir}");
    Pooler::start(&ini, &text("users.txt"), None)
}

fn run(client: &mut Client, sql: &str) {
    let answer = client.query(sql).expect("connected");
    assert!(answer.errors.is_empty(), "{sql}: {:?}", answer.errors);
}

/// The blockers that were seen in `least` looks and more.
fn blockers(address: std::net::SocketAddr, least: u32) -> Vec<String> {
    let mut console = Client::login(address, "postgres", "pgbouncer").expect("an administrator");
    let answer = console.query("show waits by blocker last 1h").expect("connected");
    let seen = answer.names.iter().position(|name| name == "seen").expect("a column");
    let is_known = |row: &&Vec<Option<String>>| {
        row[seen].as_ref().is_some_and(|seen| seen.parse::<u32>().is_ok_and(|seen| seen >= least))
    };
    answer.rows.iter().filter(is_known).filter_map(|row| row[0].clone()).collect()
}

/// How many the one who blocks most does block.
fn most_blocked(json: &str) -> Option<u64> {
    let json: serde_json::Value = serde_json::from_str(json).expect("JSON");
    let rows = json.as_array().expect("an array").iter().filter(|row| row["kind"] == "row");
    rows.filter_map(|row| row["blocking"].as_u64()).max()
}

/// The looks in which one client blocks five others.
fn looks_with_five_blocked(json: &str) -> usize {
    let json: serde_json::Value = serde_json::from_str(json).expect("JSON");
    let rows = json.as_array().expect("an array").iter().filter(|row| row["kind"] == "row" && row["blocking"] == 5);
    rows.filter_map(|row| row["at"].as_u64()).collect::<BTreeSet<u64>>().len()
}

/// Somebody holds a row and says nothing more; five wait for it.
fn wait_for_a_row(stage: &Stage) -> Vec<Client> {
    let mut owner = stage.client();
    run(&mut owner, "create table stock (id int primary key, n int); insert into stock values (1, 0)");
    run(&mut owner, "begin");
    run(&mut owner, CULPRIT);
    let mut clients = vec![owner];
    for _ in 0..5 {
        let mut client = stage.client();
        run(&mut client, "set application_name = '<b>puma'");
        client.send(&frontend::query("update stock set n = 8 where id = 1 /*controller:carts*/")).expect("connected");
        clients.push(client);
    }
    let waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'";
    eventually("all five wait", || stage.direct(waiting) == "5");
    clients
}

#[test]
fn the_culprit_is_named_after_the_pooler_was_killed() {
    let folder = Folder::new("history");
    let file = folder.0.join("history");
    let mut stage = stage(&file);
    let clients = wait_for_a_row(&stage);
    let culprit = "postgres/postgres controller=checkout: update stock set n = ? where id = ?";
    let is_known = |address| blockers(address, 3).iter().any(|name| name.starts_with(culprit));
    eventually("the culprit is known", || is_known(stage.pooler.address()));
    let file_text = file.display().to_string();
    let on_disk = || report(&["--file", &file_text, "--format", "json"]);
    // Three looks are asked for below; the next pooler drops one more, of the second in which it makes its own first look.
    eventually("it is on disk, and all that it blocks", || {
        on_disk().is_ok_and(|json| json.contains(culprit) && looks_with_five_blocked(&json) >= 4)
    });
    assert_eq!(fs::metadata(&file).expect("it is written").mode() & 0o777, 0o600);
    stage.pooler.end_by(Signal::KILL);
    drop(clients);

    let other = again(&stage);
    eventually("the history was read", || other.log().contains(" s of history were read from "));
    eventually("the culprit is known again", || is_known(other.address()));
    let password = stage.cluster.password();
    let url = format!("postgres://postgres:{password}@127.0.0.1:{}/pgbouncer", other.port);
    let page = report(&[&url]).expect("a page");
    let top = page.split("class=\"tiles\"").next().expect("what stands first");
    assert!(top.contains("waited for a lock behind postgres/postgres controller=checkout: update stock"), "{top}");
    assert!(top.contains("was in the way of 5, idle in its transaction for "), "{top}");
    for markup in ["<script", "<b>puma"] {
        assert!(!page.contains(markup), "{markup}: {page}");
    }
    let of_file = folder.0.join("page.html");
    report(&["--file", &file_text, "-o", &of_file.display().to_string()]).expect("a page");
    assert!(fs::read_to_string(&of_file).expect("it is there").contains("controller=checkout"));
    let csv = report(&[&url, "--format", "csv"]).expect("rows");
    let mut rows = csv.split("\r\n");
    assert!(rows.next().is_some_and(|names| names.starts_with("time,at,kind,database,")), "{csv}");
    assert!(rows.any(|row| row.contains("\"row\"") && row.contains("controller=checkout request_id=")), "{csv}");
    assert_eq!(most_blocked(&report(&[&url, "--format", "json"]).expect("rows")), Some(5));
    let nothing = report(&[&url, "--from", "2020-01-01T00:00:00Z", "--to", "2020-01-01T00:05:00Z"]);
    let why = nothing.expect_err("nobody looked then");
    assert!(why.contains("nothing is known of the time") && why.contains(": the history reaches from "), "{why}");
    let nothing = report(&["--file", &file_text, "--from", "2020-01-01T00:00:00Z", "--to", "2020-01-01T00:05:00Z"]);
    assert!(nothing.is_err_and(|why| why.contains(": the file reaches from ")));
}

/// A process that takes another one's place has its hour.
#[test]
fn an_hour_survives_an_online_upgrade() {
    let folder = Folder::new("upgraded");
    let settings =
        vec![("observe_file", folder.0.join("history").display().to_string()), ("unix_socket_dir", "{dir}".to_owned())];
    let mut stage = Stage::set(&Wishes { settings, ..Wishes::default() });
    let clients = wait_for_a_row(&stage);
    let is_known = |address, least| blockers(address, least).iter().any(|name| name.contains("controller=checkout"));
    eventually("the culprit is known", || is_known(stage.pooler.address(), 3));
    drop(clients);
    let mut before = stage.pooler.upgrade();
    eventually("the one before has ended", || before.try_wait().expect("our child").is_some());
    eventually("the culprit is known again", || is_known(stage.pooler.address(), 1));
    stage.assert_healthy();
}

#[test]
fn a_history_that_cannot_be_written_is_said_once_and_nobody_notices() {
    let folder = Folder::new("refused");
    let file = folder.0.join("passwords");
    fs::write(&file, "root:x:0:0\n").expect("our own");
    let mut stage = stage(&file);
    let said = "the history cannot be written to";
    eventually("it is said", || stage.pooler.log().contains(said));
    let looks = || {
        let mut console = Client::login(stage.pooler.address(), "postgres", "pgbouncer").expect("an administrator");
        let answer = console.query("show history last 10min").expect("connected");
        answer.rows.iter().filter(|row| row[2].as_deref() == Some("pool")).count()
    };
    run(&mut stage.client(), "select 1");
    eventually("it observes all the same", || looks() >= 4);
    assert_eq!(stage.pooler.log().matches(said).count(), 1, "{}", stage.pooler.log());
    assert_eq!(fs::read_to_string(&file).expect("our own"), "root:x:0:0\n");
    stage.assert_healthy();
}

/// A file system of its own, which only root may make; it goes with the test.
struct Disk(PathBuf);

impl Disk {
    fn of(path: PathBuf, size: &str) -> Option<Disk> {
        let options = format!("size={size},mode=1777");
        let made = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&path).output();
        made.is_ok_and(|ended| ended.status.success()).then_some(Disk(path))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).output();
    }
}

/// When the last row of a file's last hour was seen. A copy is read: the disk has no room for another file.
fn latest(file: &Path) -> String {
    let copy = file.parent().expect("a folder").with_extension("copy");
    fs::copy(file, &copy).expect("another disk has room");
    let rows = report(&["--file", copy.to_str().expect("text"), "--format", "json"]).unwrap_or_default();
    let _ = fs::remove_file(copy);
    let rows: serde_json::Value = serde_json::from_str(&rows).unwrap_or_default();
    let times = rows.as_array().into_iter().flatten().filter_map(|row| row["time"].as_str());
    times.max().unwrap_or_default().to_owned()
}

#[test]
fn a_full_disk_is_said_once_and_the_history_goes_on_when_there_is_room() {
    let folder = Folder::new("full");
    let Some(disk) = Disk::of(folder.0.clone(), "256k") else {
        return println!("SKIPPED a full disk: this user may not mount one");
    };
    let (file, filler) = (disk.0.join("history"), disk.0.join("filler"));
    let mut stage = stage(&file);
    let clients = wait_for_a_row(&stage);
    eventually("a second is written", || fs::metadata(&file).is_ok_and(|metadata| metadata.len() > 100));
    assert!(fs::write(&filler, vec![b'x'; 1 << 20]).is_err(), "it is full");
    let said = "the history cannot be written to";
    // What the file's last page has room for is written still.
    let full = Instant::now();
    while !stage.pooler.log().contains(said) {
        assert!(full.elapsed() < WRITTEN_WITHIN, "{}", stage.pooler.log());
        std::thread::sleep(Duration::from_millis(100));
    }
    run(&mut stage.client(), "select 1");
    let last = latest(&file);
    assert!(!last.is_empty(), "what was written is there");
    fs::remove_file(&filler).expect("our own");
    // It is tried every 30 s.
    let freed = Instant::now();
    while !stage.pooler.log().contains("the history is written to") {
        assert!(freed.elapsed() < WRITTEN_WITHIN, "{}", stage.pooler.log());
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(stage.pooler.log().matches(said).count(), 1, "{}", stage.pooler.log());
    // The part that the full disk has torn is passed over; what came before and after is read.
    eventually("later seconds are written", || latest(&file) > last);
    drop(clients);
    stage.assert_healthy();
}

/// Sixty-five clients behind one row, with twenty different statements, are no more than a person reads in a minute: three screens, three sheets of paper.
#[test]
fn a_report_of_an_incident_is_three_screens() {
    let settings = vec![("observe_tags", "controller".to_owned()), ("default_pool_size", "80".to_owned())];
    let stage = Stage::set(&Wishes { pool: 80, max_connections: 100, settings, ..Wishes::default() });
    let mut clients = wait_for_a_row(&stage);
    // Aliases make other statements of them, constants do not.
    for number in 0..60 {
        let mut client = stage.client();
        let name = format!("stock_{number}_{}", "x".repeat(40));
        let sql = match number {
            0..40 => "update stock set n = 8 where id = 1 /*controller:carts*/".to_owned(),
            _ => format!("update stock as {name} set n = 8 where {name}.id = 1 and {name}.n is not null"),
        };
        client.send(&frontend::query(&sql)).expect("connected");
        clients.push(client);
    }
    let url = stage.url_of("pgbouncer");
    let is_whole = |page: &str| page.contains("44 clients alike") && page.contains("more</summary>");
    let mut page = String::new();
    eventually("all are in the report", || {
        page = report(&[&url]).unwrap_or_default();
        is_whole(&page)
    });
    let seen = page.split("<details>").map(|part| part.rsplit("</details>").next().unwrap_or_default());
    let articles: usize = seen.map(|part| part.matches("<article>").count()).sum();
    assert!(articles <= 5, "{articles} are seen at once");
    let Some(chromium) = std::env::var("PGWEIR_CHROMIUM").ok().filter(|path| !path.is_empty()) else {
        return println!("SKIPPED the height of a report: tools/chromium installs a browser, PGWEIR_CHROMIUM names it");
    };
    let folder = Folder::new("screens");
    let file = folder.0.join("report.html");
    fs::write(&file, &page).expect("our own");
    let pictures = std::env::var("PGWEIR_PICTURES").unwrap_or_else(|_| folder.0.display().to_string());
    let arguments = [&*chromium, file.to_str().expect("text"), &*pictures];
    println!("{}", outer::python("report.py", &arguments).unwrap_or_else(|wrote| panic!("{wrote}")));
}
