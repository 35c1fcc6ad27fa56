//! `pgweir top` in a terminal: tmux types, and tells what is on the screen. Who holds the others up is there with tag, statement and blocker,
//! and can be ended.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use outer::{Client, Stage, Wishes, binary, eventually, frontend};

/// After a slow answer of PostgreSQL's the observer rests for twenty times as long: what takes longer than this never comes.
const SHOWN_WITHIN: Duration = Duration::from_secs(300);

/// A name that would clear the screen and move what is behind it.
const HOSTILE: &str = "名前\u{1b}[2J\u{202e}e\u{301}\n|x";

#[test]
fn an_index_before_inserts_is_seen_and_its_builder_ended() {
    let Some(stage) = staged() else { return };
    let _ = stage.direct("create table orders (id int, n int); insert into orders values (1, 0)");
    // It takes as long as nobody ends it.
    let _ = stage.direct(
        "create function slow(int) returns int immutable language plpgsql as 'begin perform pg_sleep(3600); return $1; end'",
    );
    let mut deploy = named(&stage, "deploy");
    deploy.send(&frontend::query("/* controller='Deploy' */ create index on orders (slow(n))")).expect("connected");
    eventually("the index is being built", || waits(&stage, "PgSleep") == "1");
    let mut inserts: Vec<Client> = (0..5).map(|_| named(&stage, "web")).collect();
    for insert in &mut inserts {
        insert.send(&frontend::query("insert into orders values (2, 0)")).expect("connected");
    }
    eventually("the inserts wait", || waits(&stage, "relation") == "5");

    let top = Terminal::start(&stage, "index", (150, 40));
    top.shows("Why: 5 clients of");
    top.shows("CREATE INDEX orders of deploy [Deploy]");
    top.shows("Blocker: 5 wait behind client");
    top.shows("(deploy, 127.0.0.1)");
    top.shows("CREATE INDEX CONCURRENTLY");
    top.shows("controller");
    top.shows("create index on orders (slow(n))");
    top.press(&["7"]);
    top.shows("tree: 6 rows");
    top.shows("RowExclusiveLock");
    top.press(&["Enter"]);
    top.shows("SHOW ACTIVITY");
    top.shows("create index on orders (slow(n))");
    top.press(&["c"]);
    top.shows("Cancel the query of client");
    top.press(&["y"]);
    top.shows_any(&["query cancelled", "this pgweir has no KILL_QUERY"]);
    if top.text().contains("has no KILL_QUERY") {
        top.press(&["K"]);
        top.shows("with its transaction?");
        top.press(&["y"]);
        top.shows(": ended");
    }
    for insert in &mut inserts {
        assert_eq!(insert.answer().expect("served").errors, []);
    }
    top.press(&["Escape"]);
    top.shows("tree: 0 rows");
    top.press(&["1"]);
    top.shows("Blocker: nobody waits for a lock");
    top.shows("Why: Nothing is wrong");
    top.press(&["q"]);
    top.shows("ended with 0");
}

#[test]
fn a_row_lock_kept_by_one_idle_in_transaction_is_seen_in_a_small_terminal_too() {
    let Some(stage) = staged() else { return };
    let _ = stage.direct("create table items (id int primary key, n int); insert into items values (1, 0)");
    let mut idle = named(&stage, "billing");
    let answer = idle.query("begin; update items set n = 1 where id = 1 /* controller='Report' */").expect("connected");
    assert_eq!(answer.errors, []);
    let mut waiters: Vec<Client> = (0..30).map(|_| named(&stage, "web")).collect();
    for waiter in &mut waiters {
        waiter.send(&frontend::query("update items set n = n + 1 where id = 1")).expect("connected");
    }
    // The pool has so many servers, of which one is held.
    eventually("all others wait", || waits(&stage, "transactionid") == "1" && waits(&stage, "tuple") == "18");

    let top = Terminal::start(&stage, "row", (150, 40));
    top.shows("19 wait behind client");
    top.shows("(billing, 127.0.0.1)");
    top.shows("idle in transaction");
    top.shows("controller");
    top.shows("update items set n = 1 where id = 1");
    top.shows("11 wait for a server");
    let program = top.program();
    top.press(&["6"]);
    top.shows("holders: 20 rows");
    top.press(&["/", "billing", "Enter"]);
    top.shows("holders: 1 of 20 rows  filter: billing");
    top.press(&["4", "b", "b", "b"]);
    top.shows("by blocker");
    top.shows("controller=Report: begin; update items set n = ?");
    drop(top);
    eventually("the program has ended with its terminal", || {
        !std::path::Path::new(&format!("/proc/{program}")).exists()
    });

    let small = Terminal::start(&stage, "small", (40, 12));
    small.shows("Why: 11 clients of");
    small.shows("19 of its 20 servers");
    small.press(&["6"]);
    small.shows("holders: 20 rows");
    // It is cut in so narrow a terminal.
    small.shows("idle in transac");
    small.press(&["K"]);
    small.shows("End client");
    small.press(&["n", "Home", "K", "y"]);
    eventually("its lock has gone with it", || waits(&stage, "transactionid") == "0");
    for waiter in &mut waiters {
        assert_eq!(waiter.answer().expect("served").errors, []);
    }
}

#[test]
fn once_is_text_and_hostile_names_are_text_in_it() {
    let Some(mut stage) = staged() else { return };
    let mut client = named(&stage, "x");
    let sql = format!("set application_name = e'{}'", escaped(HOSTILE));
    assert_eq!(client.query(&sql).expect("connected").errors, []);
    let answer =
        client.query("begin; select '\u{1b}]0;title\u{7}\u{202e}' /* controller='a\u{1b}[2Jb' */").expect("connected");
    assert_eq!(answer.errors, []);

    // A look that is answered too late shows less.
    let mut text = String::new();
    eventually("the holder is shown", || {
        let (shown, complaints, is_well) = once(&stage.url_of("pgbouncer"), &["--view", "holders"]);
        assert!(is_well, "{complaints}");
        text = shown;
        text.lines().count() == 2 && text.contains("idle in transaction")
    });
    let lines: Vec<&str> = text.lines().collect();
    assert!(!text.contains(|c: char| c.is_control() && c != '\n') && !text.contains('\u{202e}'), "{text:?}");
    assert!(lines[1].contains("idle in transaction") && lines[1].contains("\\x1b]0;title\\x07"), "{text}");
    // The one before may be there still.
    eventually("it sees itself", || {
        let clients = ["--view", "clients", "--table", "all", "--filter", "pgweir top"];
        once(&stage.url_of("pgbouncer"), &clients).0.lines().count() == 2
    });
    eventually("the first view shows both", || {
        let (text, ..) = once(&stage.url_of("pgbouncer"), &[]);
        text.contains("Holder: client") && text.contains("Blocker: nobody waits for a lock")
    });
    let (_, complaints, is_well) = once(&stage.url_of("pgbouncer"), &["--view", "moon"]);
    assert!(!is_well && complaints.contains("there is no view \"moon\""), "{complaints}");

    let top = Terminal::start(&stage, "hostile", (120, 30));
    top.press(&["8"]);
    top.shows("\\x1b]0;title\\x07");
    // Rows of the table stand in their columns, whatever is in them.
    top.shows("active: ");
    stage.pooler.end_by(rustix::process::Signal::KILL);
    top.shows("LOST");
    top.shows("trying again: ");
    top.press(&["q"]);
    top.shows("ended with 0");
    let (_, complaints, is_well) = once(&stage.url_of("pgbouncer"), &[]);
    assert!(!is_well && complaints.starts_with("pgweir top: "), "{complaints}");
}

/// `None`, and said so, where there is no tmux.
fn staged() -> Option<Stage> {
    if tmux().is_none() {
        println!("SKIPPED pgweir top in a terminal: there is no tmux; tools/tmux finds one, PGWEIR_TMUX names it");
        return None;
    }
    Some(Stage::set(&Wishes { settings: vec![("observe_interval", "1".to_owned())], ..Wishes::default() }))
}

fn tmux() -> Option<PathBuf> {
    env::var_os("PGWEIR_TMUX").filter(|path| !path.is_empty()).map(PathBuf::from)
}

fn named(stage: &Stage, name: &str) -> Client {
    let mut client = stage.client();
    let answer = client.query(&format!("set application_name = '{name}'")).expect("connected");
    assert_eq!(answer.errors, []);
    client
}

fn escaped(text: &str) -> String {
    text.chars().fold(String::new(), |mut all, c| {
        let _ = write!(all, "\\U{:08x}", c as u32);
        all
    })
}

fn waits(stage: &Stage, event: &str) -> String {
    stage.direct(&format!("select count(*) from pg_stat_activity where wait_event = '{event}'"))
}

fn once(url: &str, arguments: &[&str]) -> (String, String, bool) {
    let output = Command::new(binary()).args(["top", url, "--once"]).args(arguments).stdin(Stdio::null()).output();
    let output = output.expect("the program starts");
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("text"));
    (out, err, output.status.success())
}

/// A terminal in which the program runs. Dropping it ends both.
struct Terminal {
    tmux: PathBuf,
    folder: PathBuf,
}

impl Terminal {
    fn start(stage: &Stage, name: &str, (columns, rows): (u32, u32)) -> Terminal {
        let folder = env::temp_dir().join(format!("pgweir-top-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for its socket");
        let terminal = Terminal { tmux: tmux().expect("the test has begun"), folder };
        let program = binary();
        let program = program.display();
        let url = stage.url_of("pgbouncer");
        let command = format!("{program} top '{url}' --interval 0.2; echo ended with $?; sleep 3600");
        let (columns, rows) = (columns.to_string(), rows.to_string());
        terminal.run(&["-f", "/dev/null", "new-session", "-d", "-x", &columns, "-y", &rows, &command]);
        terminal
    }

    fn run(&self, arguments: &[&str]) -> String {
        let mut command = Command::new(&self.tmux);
        command.arg("-u").arg("-S").arg(self.folder.join("socket")).args(arguments);
        let output = command.env("LC_ALL", "C.UTF-8").env_remove("TMUX").output().expect("tmux runs");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// Keys by tmux's names.
    fn press(&self, keys: &[&str]) {
        self.run(&[&["send-keys"], keys].concat());
    }

    /// The process in it: the shell's child.
    fn program(&self) -> String {
        let shell = self.run(&["display-message", "-p", "#{pane_pid}"]);
        let shell = shell.trim();
        let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children")).expect("it is there");
        children.trim().to_owned()
    }

    fn text(&self) -> String {
        self.run(&["capture-pane", "-p"])
    }

    fn shows(&self, part: &str) {
        self.shows_any(&[part]);
    }

    fn shows_any(&self, parts: &[&str]) {
        let begun = Instant::now();
        loop {
            let last = self.text();
            // A sentence may go on in the next line.
            let flat = last.lines().map(str::trim).collect::<Vec<_>>().join(" ");
            if parts.iter().any(|part| last.contains(part) || flat.contains(part)) {
                return;
            }
            assert!(begun.elapsed() < SHOWN_WITHIN, "{parts:?} does not come: {last}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new(&self.tmux).arg("-S").arg(self.folder.join("socket")).arg("kill-server").output();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
