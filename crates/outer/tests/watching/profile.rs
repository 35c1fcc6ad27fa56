//! `pgweir profile` of a pooler under load and of real backends: by gdb, and by perf where this machine permits it.
//!
//! Names of functions are those that PostgreSQL exports, so that its debug symbols are not needed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::panic::{self, AssertUnwindSafe};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use outer::{Client, Stage, Wishes, binary, eventually, frontend};
use stacks::Tool;

#[test]
fn where_a_backend_waits_is_seen_by_gdb() {
    let stage = stage();
    if !can(Tool::Gdb) {
        return;
    }
    let (_sleeper, pid) = sleeping(&stage);
    let url = stage.cluster.url("postgres");
    let picture = stage.pooler.dir().join("waits.svg").display().to_string();
    let waiting = ["--postgres", &url, "--waiting", "Timeout:PgSleep", "--yes", "--seconds", "2", "--pause-max", "20"];
    let folded = stdout(&profile(&[&waiting[..], &["--folded", "-", "--svg", &picture]].concat()));
    let stacks: Vec<&str> = folded.lines().collect();
    assert!(!stacks.is_empty() && stacks.iter().all(|stack| stack.starts_with("postgres;client backend;")), "{folded}");
    assert!(stacks.iter().all(|stack| stack.contains(";pg_sleep;WaitLatch;WaitEventSetWait;")), "{folded}");
    let picture = fs::read_to_string(picture).expect("it was written");
    for part in [
        "<title>PostgreSQL, backends that wait for Timeout:PgSleep</title>",
        "<title>pg_sleep (PostgreSQL)\n",
        "stops in 2 s: time, waiting or not",
    ] {
        assert!(picture.contains(part), "{part} in {picture}");
    }
    // Nobody noticed.
    assert_eq!(stage.direct(&format!("select wait_event from pg_stat_activity where pid = {pid}")), "PgSleep");
    assert!(!is_stopped(pid));

    let pid = pid.to_string();
    let one = stdout(&profile(&[
        "--backend",
        &pid,
        "--by",
        "gdb",
        "--yes",
        "--seconds",
        "1",
        "--pause-max",
        "20",
        "--folded",
        "-",
    ]));
    assert!(one.contains(";pg_sleep;"), "{one}");
    let none = profile(&["--postgres", &url, "--waiting", "IO:Nothing'", "--yes", "--seconds", "1"]);
    assert_eq!(complaint(&none), "pgweir profile: no samples in 1 s: no backend waited for IO:Nothing' when asked\n");
}

#[test]
fn a_pooler_under_load_is_seen_and_serves_on() {
    let stage = stage();
    let ini = stage.pooler.dir().join("pooler.ini").display().to_string();
    for tool in [Tool::Gdb, Tool::Perf].into_iter().filter(|tool| can(*tool)) {
        let how = ["--by", tool.as_str(), "--seconds", "3", "--pause-max", "20", "--yes", "--folded", "-"];
        let folded =
            while_it_serves(&stage, "select 'well'", || stdout(&profile(&[&[ini.as_str()], &how[..]].concat())));
        assert!(folded.lines().all(|stack| stack.starts_with("pgweir;")), "{folded}");
        // gdb knows some functions by the last words of their names only.
        let is_worker = |stack: &str| stack.starts_with("pgweir;worker-") && stack.contains("engine::");
        assert!(folded.lines().any(is_worker), "{}: {folded}", tool.as_str());
    }
}

#[test]
fn backends_at_work_are_seen_by_perf() {
    let stage = stage();
    if !can(Tool::Perf) {
        return;
    }
    let (url, picture) = (stage.cluster.url("postgres"), stage.pooler.dir().join("all.svg").display().to_string());
    let arguments = ["--postgres", &url, "--seconds", "3", "--rate", "199", "--svg", &picture];
    let sql = "select 'well' where (select count(*) from generate_series(1, 20000)) > 0";
    let summary = while_it_serves(&stage, sql, || stdout(&profile(&arguments)));
    let head = summary.starts_with("PostgreSQL, all backends: ") && summary.contains("by perf, 199 a second for 3 s");
    assert!(head, "{summary}");
    let picture = fs::read_to_string(picture).expect("it was written");
    let functions = ["<title>PostgresMain (PostgreSQL)\n", "<title>PortalRun (PostgreSQL)\n"];
    for part in functions.into_iter().chain(["<title>client backend\n", "PostgreSQL, all backends"]) {
        assert!(picture.contains(part), "{part} in {picture}");
    }
}

#[test]
fn what_cannot_be_looked_at_is_said() {
    let stage = stage();
    let pooler = stage.pooler.pid().to_string();
    let gone = i32::MAX.to_string();
    let table: [(&[&str], &str); 5] = [
        (&["--pid", &gone], "there is no process 2147483647 on this machine"),
        (&["--backend", &pooler], "is no backend of PostgreSQL"),
        (&["/nowhere/pgweir.ini"], "/nowhere/pgweir.ini"),
        (&["--pid-file", "/nowhere/pid"], "pidfile /nowhere/pid: No such file or directory"),
        (&["--postgres", "postgres://postgres@127.0.0.1:1/postgres"], "cannot connect to 127.0.0.1:1"),
    ];
    for (arguments, words) in table {
        let told = complaint(&profile(arguments));
        assert!(told.contains(words), "{arguments:?}: {told}");
    }
    if can(Tool::Gdb) {
        let told = complaint(&profile(&["--pid", &pooler, "--by", "gdb"]));
        assert!(told.contains("say --yes if that may be"), "{told}");
    }
}

/// The account that PostgreSQL has may not look at root's processes.
#[test]
fn without_permission_the_reason_is_said() {
    let stage = stage();
    let Some(account) = demo::unprivileged() else {
        println!("SKIPPED: only root can become somebody else");
        return;
    };
    let own = std::process::id().to_string();
    for tool in [Tool::Gdb, Tool::Perf].into_iter().filter(|tool| can(*tool)) {
        let mut command = Command::new(stage.pooler.dir().join("pooler"));
        command.args(["profile", "--pid", &own, "--by", tool.as_str(), "--yes", "--seconds", "1"]).current_dir("/");
        account.apply(&mut command);
        let told = complaint(&command.output().expect("it starts"));
        let words = format!(
            "{} may not look at process {own}: it belongs to user 0, and this is user {}",
            tool.as_str(),
            account.uid
        );
        // Some kernels permit it to nobody but root in general.
        assert!(told.contains(&words) || told.contains("is not permitted: kernel."), "{told}");
    }
}

/// A gdb that hangs after it has stopped a process.
#[test]
fn a_process_goes_on_though_gdb_hangs() {
    let stage = stage();
    let (_sleeper, pid) = sleeping(&stage);
    let folder = stage.pooler.dir().join("bin");
    fs::create_dir(&folder).expect("a directory of ours");
    let gdb = folder.join("gdb");
    let script = "#!/bin/sh\nwhile read -r line; do\n  case $line in\n    echo*) echo --sampled-- ;;\n    \
                  attach*) kill -STOP ${line#attach }; echo stopped > \"$0.stopped\"; exec sleep 1000 ;;\n  esac\ndone\n";
    fs::write(&gdb, script).expect("a directory of ours");
    fs::set_permissions(&gdb, fs::Permissions::from_mode(0o755)).expect("it is ours");
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new(binary());
    command.args([
        "profile",
        "--backend",
        &pid.to_string(),
        "--by",
        "gdb",
        "--yes",
        "--seconds",
        "5",
        // Time for the shell that is its gdb to stop the process, on a busy machine too.
        "--pause-max",
        "10",
    ]);
    let told = complaint(&command.env("PATH", path).output().expect("it starts"));
    if told.contains("is not permitted") {
        println!("SKIPPED: {told}");
        return;
    }
    assert!(told.contains("a sample took longer than 10.0 s, and was given up: the process went on"), "{told}");
    assert!(folder.join("gdb.stopped").exists(), "it was stopped");
    eventually("it goes on", || !is_stopped(pid));
}

fn stage() -> Stage {
    Stage::set(&Wishes { settings: vec![("pidfile", "{dir}/pid".to_owned())], ..Wishes::default() })
}

/// What `look` makes of it, while four clients run a statement again and again. Each gets its answer.
fn while_it_serves(stage: &Stage, sql: &str, look: impl FnOnce() -> String) -> String {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let serve = || {
            let mut client = stage.client();
            while !is_done.load(Ordering::Relaxed) {
                assert_eq!(client.query(sql).expect("it is served").value(), Some("well"));
            }
        };
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(serve)).collect();
        eventually("servers are open", || stage.backends() > 0);
        // The clients end also if it panics.
        let looked = panic::catch_unwind(AssertUnwindSafe(look));
        is_done.store(true, Ordering::Relaxed);
        clients.into_iter().for_each(|client| client.join().expect("each answer is right"));
        looked.unwrap_or_else(|why| panic::resume_unwind(why))
    })
}

/// Whether a tool can be used here; it is said if not.
fn can(tool: Tool) -> bool {
    let available = stacks::available();
    let found = if tool == Tool::Gdb { available.gdb } else { available.perf };
    match found {
        Ok(()) => true,
        Err(why) => {
            println!("SKIPPED: {why}");
            false
        }
    }
}

/// A client whose backend sleeps, and that backend.
fn sleeping(stage: &Stage) -> (Client, u32) {
    let mut client = stage.client();
    client.send(&frontend::query("select pg_sleep(600)")).expect("connected");
    let asked = "select coalesce(min(pid), 0) from pg_stat_activity where wait_event = 'PgSleep'";
    eventually("it sleeps", || stage.direct(asked) != "0");
    (client, stage.direct(asked).parse().expect("a number"))
}

fn is_stopped(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    stat.rsplit_once(") ").expect("a name").1.starts_with(['T', 't'])
}

fn profile(arguments: &[&str]) -> Output {
    Command::new(binary()).arg("profile").args(arguments).output().expect("it starts")
}

fn stdout(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(output.status.success(), "{out}{err}");
    out
}

fn complaint(output: &Output) -> String {
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && output.stdout.is_empty(), "{output:?}");
    err
}
