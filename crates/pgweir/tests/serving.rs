//! The built program serving a file, from outside: console, signals, reload, pidfile, background. The console needs no
//! PostgreSQL, so that neither do these tests.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use rustix::process::{Signal, kill_process};
use wire::frontend;

mod stage;

use stage::{Console, PGWEIR, Place, wait_until};

#[test]
fn the_log_has_the_lines_that_people_search_for() {
    let place = Place::new();
    let postgres = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
    let port = postgres.local_addr().expect("bound").port();
    place.write_ini(&format!("server_tls_sslmode = disable\n[databases]\n* = host=localhost port={port}\n"));
    let running = place.start();
    let mut client = UnixStream::connect(place.path(".s.PGSQL.6432")).expect("the program listens");
    let pairs = [("user", "adm"), ("database", "shop")].map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let mut startup = Vec::new();
    frontend::encode_startup(&mut startup, pairs);
    client.write_all(&startup).expect("it reads");
    let (server, from) = postgres.accept().expect("it connects");
    drop(server);
    let pid = std::process::id();
    let lines = [
        format!(
            " LOG C-0x1000000000000000: shop/adm@unix({pid}):6432 login attempt: db=shop user=adm tls=no replication=no\n"
        ),
        format!("shop/adm@unix({pid}):6432 registered new auto-database: shop\n"),
        format!("shop/adm@127.0.0.1:{port} new connection to server (from {from})\n"),
        format!("shop/adm@127.0.0.1:{port} closing because: server conn crashed during login (age="),
    ];
    for line in lines {
        wait_until(&line, || place.log().contains(&line).then_some(()));
    }
    drop(client);
    wait_until("the client's end", || place.log().contains("closing because: client unexpected eof").then_some(()));
    running.signal(Signal::QUIT);
}

/// What PgBouncer runs, runs, with the words of `pgweir check` in the log.
#[test]
fn the_log_warns_of_what_check_warns_of() {
    let place = Place::new();
    place.write_ini("pool_mode = session\nadmin_users = adm, misspelt\nmax_client_conn = 2000000000\n");
    let file = place.path("pgweir.ini");
    let checked = Command::new(PGWEIR).arg("check").arg(&file).output().expect("it was built");
    assert!(checked.status.success(), "{checked:?}");
    let text = String::from_utf8(checked.stderr).expect("we write UTF-8");
    let warnings: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("warning: ")).collect();
    for words in ["admin_users: found a second one", "\"misspelt\"", "file descriptors"] {
        assert!(warnings.iter().any(|line| line.contains(words)), "{words}: {text}");
    }
    let running = place.start();
    for warning in warnings {
        wait_until(warning, || place.log().contains(&format!(" WARNING {warning}\n")).then_some(()));
    }
    // Somebody who is not in auth_file is refused, and the log says why.
    let mut client = UnixStream::connect(place.path(".s.PGSQL.6432")).expect("the program listens");
    let pairs = [("user", "stranger"), ("database", "app")].map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let mut startup = Vec::new();
    frontend::encode_startup(&mut startup, pairs);
    client.write_all(&startup).expect("it reads");
    let reason = "login refused: no such user\n";
    wait_until(reason, || place.log().contains(reason).then_some(()));
    running.signal(Signal::QUIT);
}

#[test]
fn the_console_shows_the_version_that_the_program_prints() {
    let place = Place::new();
    let mut running = place.start();
    let printed = Command::new(PGWEIR).arg("--version").output().expect("it was built").stdout;
    let printed = String::from_utf8(printed).expect("text");
    let mut console = place.console("adm");
    assert_eq!(console.ask("show version;"), [printed.lines().next().expect("a line"), "SHOW"]);
    assert_eq!(console.ask("show state"), ["active|yes", "paused|no", "suspended|no", "SHOW"]);
    assert_eq!(console.ask("select 1"), ["08P01 invalid command 'select 1', use SHOW HELP;"]);
    let clients = console.ask("show clients");
    assert!(clients[0].starts_with("C|adm|pgbouncer|none|active|unix|6432|unix|6432|"), "{clients:?}");
    assert_eq!(console.ask("show workers").len(), 2, "one worker and the tag");
    let mut watcher = place.console("sta");
    assert_eq!(watcher.ask("reload"), ["08P01 admin access needed"]);
    assert_eq!(watcher.ask("show pools").last().map(String::as_str), Some("SHOW"));
    running.signal(Signal::QUIT);
    assert!(running.wait().success());
}

#[test]
fn a_reload_takes_up_a_good_file_and_leaves_a_bad_one() {
    let place = Place::new();
    let mut running = place.start();
    let mut console = place.console("adm");
    let pool_mode = |console: &mut Console| {
        let rows = console.ask("show config");
        rows.into_iter().find(|row| row.starts_with("pool_mode|")).expect("it is a setting")
    };
    assert_eq!(pool_mode(&mut console), "pool_mode|transaction|session|yes");
    place.write_ini("pool_mode = statement");
    assert_eq!(console.ask("RELOAD;"), ["RELOAD"]);
    assert_eq!(pool_mode(&mut console), "pool_mode|statement|session|yes");
    place.write_ini("pool_mode = frob");
    assert_eq!(console.ask("reload"), ["F0000 RELOAD failed, see logs for additional details"]);
    assert_eq!(pool_mode(&mut console), "pool_mode|statement|session|yes");
    wait_until("the log", || place.log().contains("config file loading failed").then_some(()));
    let log = place.log();
    assert!(log.contains("pgweir.ini:14: pool_mode: found \"frob\""), "{log}");
    place.write_ini("pool_mode = session");
    running.signal(Signal::HUP);
    wait_until("the reload", || (pool_mode(&mut console) == "pool_mode|session|session|yes").then_some(()));
    wait_until("the log", || place.log().contains("got SIGHUP, re-reading config").then_some(()));
    running.signal(Signal::TERM);
    assert!(running.wait().success());
}

/// A file that could not be read leaves the users as they were: those that have held, not those of a reload that was refused.
#[test]
fn a_refused_reload_leaves_nothing_behind() {
    let place = Place::new();
    let _running = place.start();
    let mut console = place.console("adm");
    fs::write(place.path("other.txt"), "\"adm\" \"\"\n").expect("it is ours");
    let other = place.path("other.txt").display().to_string();
    place.write_ini(&format!(
        "auth_file = {other}\nclient_tls_sslmode = allow\nclient_tls_cert_file = /none\nclient_tls_key_file = /none"
    ));
    assert_eq!(console.ask("reload"), ["F0000 RELOAD failed, see logs for additional details"]);
    place.write_ini("auth_file = /none");
    assert_eq!(console.ask("reload"), ["RELOAD"]);
    assert_eq!(place.console("sta").ask("show version").len(), 2, "it is a user still");
}

#[test]
fn the_soft_signals_end_what_has_no_clients() {
    let table = [
        (Signal::TERM, "got SIGTERM, shutting down", "client connections dropped, exiting"),
        (Signal::INT, "got SIGINT, shutting down", "server connections dropped, exiting"),
    ];
    for (signal, first, last) in table {
        let place = Place::new();
        let mut running = place.start();
        assert_eq!(place.pid().as_raw_nonzero().get(), i32::try_from(running.0.id()).expect("a process id"));
        running.signal(signal);
        assert!(running.wait().success());
        // The observer has a thread of its own, whose first line may come later.
        let log = place.log();
        assert!(log.split_once(first).is_some_and(|(_, behind)| behind.contains(last)), "{log}");
        assert!(!place.path("pid").exists() && !place.path(".s.PGSQL.6432").exists());
    }
}

#[test]
fn quit_and_shutdown_end_at_once() {
    let place = Place::new();
    let mut running = place.start();
    let mut console = place.console("adm");
    running.signal(Signal::QUIT);
    assert!(running.wait().success());
    assert_eq!(console.message(), None, "a client just sees the end");
    assert!(!place.path("pid").exists() && !place.path(".s.PGSQL.6432").exists());
    let mut running = place.start();
    let mut console = place.console("adm");
    let mut bytes = Vec::new();
    frontend::Query { text: b"shutdown" }.encode(&mut bytes);
    console.0.write_all(&bytes).expect("it reads");
    assert_eq!(console.message(), None);
    assert!(running.wait().success());
    assert!(place.log().contains("SHUTDOWN command issued"));
}

#[test]
fn a_second_process_on_the_same_socket_is_refused() {
    let place = Place::new();
    let mut running = place.start();
    // Another pidfile, so that it comes as far as the socket.
    place.write_ini(&format!("pidfile = {}", place.path("pid2").display()));
    let output = place.command().output().expect("it was built");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("FATAL unix socket is in use, cannot continue"), "{text}");
    assert_eq!(place.console("adm").ask("show state").last().map(String::as_str), Some("SHOW"));
    running.signal(Signal::TERM);
    assert!(running.wait().success());
}

#[test]
fn in_the_background_it_is_ready_when_the_parent_ends() {
    let place = Place::new();
    let status = place.command().args(["-q", "-d"]).status().expect("it was built");
    assert!(status.success(), "{}", place.log());
    let pid = place.pid();
    let mut console = place.console("adm");
    assert_eq!(console.ask("show state").last().map(String::as_str), Some("SHOW"));
    kill_process(pid, Signal::TERM).expect("it runs");
    wait_until("the pidfile to go", || (!place.path("pid").exists()).then_some(()));
}

#[test]
fn a_log_that_cannot_be_opened_is_said_even_with_q() {
    let place = Place::new();
    place.write_ini("logfile = /nowhere/at/all/log");
    let output = place.command().arg("-q").output().expect("it was built");
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        told.contains("FATAL could not open logfile '/nowhere/at/all/log': ") && told.contains("No such file"),
        "{told}"
    );
}

#[test]
fn the_background_needs_a_pidfile() {
    let place = Place::new();
    place.write_ini("pidfile =");
    let output = place.command().arg("-d").output().expect("it was built");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("FATAL daemon needs pidfile configured"), "{text}");
}

#[test]
fn the_background_needs_a_log() {
    let place = Place::new();
    place.write_ini("logfile =");
    let output = place.command().arg("-d").output().expect("it was built");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("FATAL daemon needs logfile configured"), "{text}");
}

#[test]
fn a_process_that_could_serve_nobody_does_not_start() {
    let place = Place::new();
    place.write_ini("unix_socket_dir =");
    let output = place.command().output().expect("it was built");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("FATAL nowhere to listen on"), "{text}");
    // Whoever starts a daemon by a script does not see stderr.
    assert!(place.log().contains(" FATAL nowhere to listen on"), "{}", place.log());
}

#[test]
fn a_daemon_says_nothing_on_stderr_but_why_it_cannot_start() {
    let place = Place::new();
    place.write_ini("admin_users = adm, misspelt");
    let output = place.command().arg("-d").output().expect("it was built");
    assert!(output.status.success(), "{}", place.log());
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "",
        "what comes before it has let go of stderr would be chance"
    );
    let is_told = || place.log().contains(" WARNING ") && place.log().contains("process up");
    wait_until("the log", || is_told().then_some(()));
    kill_process(place.pid(), Signal::TERM).expect("it runs");
    wait_until("the pidfile to go", || (!place.path("pid").exists()).then_some(()));
    std::fs::write(place.path("pid"), std::process::id().to_string()).expect("a directory of ours");
    let output = place.command().arg("-d").output().expect("it was built");
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let (_, why) = told.trim_end().split_once(" FATAL ").expect("why");
    assert!(place.log().contains(&format!(" FATAL {why}\n")), "{why}: {}", place.log());
}

/// Who is not root cannot become somebody else, and would serve as a user that nobody has chosen.
#[test]
fn another_user_than_the_own_cannot_be_had_without_root() {
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65_534;
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let place = Place::new();
    // The one that was built may lie where nobody may look.
    let program = place.path("pgweir");
    // By another process: one that another test starts at this moment would inherit the file while it is open for writing, and nobody could run it.
    let copied = Command::new("cp").arg(stage::PGWEIR).arg(&program).status();
    assert!(copied.expect("cp can be started").success());
    let start = |user: &str| {
        let mut command = Command::new(&program);
        command.arg(place.path("pgweir.ini")).args(["-u", user]).uid(NOBODY).gid(NOBODY);
        command
    };
    for (user, words) in [
        ("root", "failed to assume identity of user 'root': only root can; "),
        ("nosuch", "could not find user 'nosuch'"),
    ] {
        let output = start(user).output().expect("it can be started");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(&format!(" FATAL {words}")), "{text}");
    }
    let file = place.path("pgweir.ini");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("it is ours");
    let output = start("nobody").output().expect("it can be started");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains(": Permission denied: user \"nobody\" has to be able to read it\n"), "{text}");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("it is ours");
    let running = Place::spawn(&mut start("nobody"), || place.log());
    running.signal(Signal::QUIT);
}

#[test]
fn quiet_is_nothing_on_stderr_and_all_in_the_log() {
    let place = Place::new();
    let mut output = Vec::new();
    for flags in [&["-q"][..], &["-q", "-v", "-v"], &["--quie", "--verb"]] {
        let mut child = place.command().args(flags).stderr(Stdio::piped()).spawn().expect("it was built");
        wait_until("it to listen", || place.log().contains("process up").then_some(()));
        kill_process(place.pid(), Signal::QUIT).expect("it runs");
        assert!(child.wait().expect("it is ours").success());
        child.stderr.take().expect("it is a pipe").read_to_end(&mut output).expect("a pipe can be read");
        assert_eq!(String::from_utf8_lossy(&output), "", "{flags:?}");
        std::fs::remove_file(place.path("log")).expect("it was written");
    }
}

#[test]
fn who_is_to_serve_has_to_exist_and_not_to_be_root() {
    let place = Place::new();
    let run = |flags: &[&str]| {
        let output = Command::new(PGWEIR).arg(place.path("pgweir.ini")).args(flags).output().expect("it was built");
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    // Only root is asked to become somebody else.
    if rustix::process::geteuid().is_root() {
        assert!(run(&[]).contains("FATAL PgBouncer should not run as root"));
        assert!(run(&["-u", "no such user"]).contains("FATAL could not find user 'no such user' to switch to"));
    }
}

#[test]
fn a_process_that_is_to_take_over_needs_a_directory_to_ask_in() {
    let place = Place::new();
    place.write_ini("unix_socket_dir =\nlisten_addr = 127.0.0.1\nlisten_port = 0");
    let output = place.command().arg("-R").output().expect("it was built");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("FATAL an online restart (-R) needs unix_socket_dir, a directory"), "{text}");
}

#[test]
fn a_process_that_is_to_take_over_from_nobody_starts() {
    let place = Place::new();
    let mut child = place.command().arg("-R").stderr(Stdio::null()).spawn().expect("it was built");
    wait_until("it to listen", || place.log().contains("process up").then_some(()));
    assert!(!place.log().contains("taking over"), "{}", place.log());
    kill_process(place.pid(), Signal::QUIT).expect("it runs");
    assert!(child.wait().expect("it is ours").success());
}
