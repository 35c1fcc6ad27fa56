//! The built program as a service, from outside: its log for programs, what it tells a service supervisor, sockets that it is passed.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use rustix::time::{ClockId, clock_gettime};

mod stage;

use stage::{Console, PATIENCE, PGWEIR, Place, wait_until};

/// A service supervisor: a socket that it is told on.
struct Supervisor(UnixDatagram);

impl Supervisor {
    fn new(place: &Place) -> Supervisor {
        let path = place.path("notify");
        let socket = UnixDatagram::bind(&path).expect("a fresh directory");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("it is ours");
        socket.set_read_timeout(Some(PATIENCE)).expect("not zero");
        Supervisor(socket)
    }

    fn next(&self) -> String {
        let mut buffer = [0; 512];
        let len = self.0.recv(&mut buffer).expect("it is told something");
        String::from_utf8_lossy(&buffer[..len]).into_owned()
    }
}

fn monotonic_usec() -> i64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec * 1_000_000 + now.tv_nsec / 1_000
}

#[test]
fn a_supervisor_is_told_of_the_start_reloads_and_the_end() {
    let place = Place::new();
    let supervisor = Supervisor::new(&place);
    let running = Place::spawn(place.command().env("NOTIFY_SOCKET", place.path("notify")), || place.log());
    assert_eq!(supervisor.next(), "READY=1\n");
    let mut console = place.console("adm");
    for (setting, answer) in [("pool_mode = statement", "RELOAD"), ("pool_mode = frob", "F0000 RELOAD failed")] {
        place.write_ini(setting);
        let before = monotonic_usec();
        assert!(console.ask("RELOAD")[0].starts_with(answer));
        let told = supervisor.next();
        let micros = told.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").and_then(|rest| rest.trim_end().parse().ok());
        let micros: i64 = micros.unwrap_or_else(|| panic!("{told}"));
        assert!((before..=monotonic_usec()).contains(&micros), "{before} {micros}");
        assert_eq!(supervisor.next(), "READY=1\n");
    }
    running.signal(Signal::TERM);
    assert_eq!(supervisor.next(), "STOPPING=1\n");
}

#[test]
fn a_watchdog_is_fed_while_the_data_plane_answers() {
    let place = Place::new();
    let supervisor = Supervisor::new(&place);
    let mut command = place.command();
    command.env("NOTIFY_SOCKET", place.path("notify")).env("WATCHDOG_USEC", "400000");
    // From before the first message may have been sent: a test that reads late finds several at once.
    let begun = Instant::now();
    let running = Place::spawn(&mut command, || place.log());
    wait_until("the start", || (supervisor.next() == "READY=1\n").then_some(()));
    (0..5).for_each(|_| assert_eq!(supervisor.next(), "WATCHDOG=1\n"));
    // Every 200 ms and no more often. A test in src/supervisor.rs proves that this is the period.
    let lasted = begun.elapsed();
    assert!(lasted >= Duration::from_millis(800), "every 200 ms: {lasted:?}");
    running.signal(Signal::QUIT);
}

/// Starts the program with listening sockets as descriptors 3 and 4, as systemd does.
fn activated(place: &Place, tcp: TcpListener, unix: UnixListener, flags: &[&str]) -> Command {
    let program = place.command();
    let mut command = Command::new("sh");
    let script = "LISTEN_PID=$$ LISTEN_FDS=2 exec \"$0\" \"$@\" 3<&0 4<&2 </dev/null 2>/dev/null";
    command.args(["-c", script, PGWEIR]).args(program.get_args()).args(flags);
    command.stdin(Stdio::from(OwnedFd::from(tcp))).stderr(Stdio::from(OwnedFd::from(unix)));
    command
}

#[test]
fn sockets_that_are_passed_are_served_in_place_of_those_of_the_file() {
    let place = Place::new();
    place.write_ini("listen_addr = 127.0.0.1\nlisten_port = 1");
    let tcp = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = tcp.local_addr().expect("bound");
    let path = place.path("passed");
    let unix = UnixListener::bind(&path).expect("a fresh directory");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("it is ours");
    // Whoever comes before the program does waits.
    let early = TcpStream::connect(address).expect("the kernel has it");
    let mut running = Place::spawn(&mut activated(&place, tcp, unix, &[]), || place.log());
    let mut console = Console::open(&path, "adm");
    assert_eq!(console.ask("show state")[0], "active|yes");
    drop(early);
    // The log is written by a thread of its own.
    for line in [
        "WARNING sockets passed from service manager, listen_addr ignored\n".to_owned(),
        "WARNING sockets passed from service manager, unix_socket_dir ignored\n".to_owned(),
        format!("listening on {address}\n"),
        format!("listening on unix:{}\n", path.display()),
    ] {
        wait_until(&line, || place.log().contains(&line).then_some(()));
    }
    assert!(!place.path(".s.PGSQL.1").exists());
    drop(console);
    running.signal(Signal::TERM);
    assert!(running.wait().success());
    assert!(path.exists(), "the socket's file belongs to who has made it");
}

#[test]
fn what_is_passed_has_to_be_a_listening_socket_for_this_process() {
    let place = Place::new();
    let refused = |script: &str, flags: &[&str]| {
        let mut command = Command::new("sh");
        command.args(["-c", script, PGWEIR]).args(place.command().get_args()).args(flags);
        command.output().expect("there is a shell")
    };
    let output = refused("LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\" 3</dev/null", &[]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text.contains("FATAL socket 0 passed from service manager is not a stream socket of TCP or Unix"),
        "{text}"
    );
    let output = refused("LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\"", &["-d"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("they cannot be used with -d"), "{text}");
    // What is meant for another process is not ours.
    let tcp = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let mut command = Command::new("sh");
    command.args(["-c", "LISTEN_PID=1 LISTEN_FDS=1 exec \"$0\" \"$@\" 3<&0", PGWEIR]).args(place.command().get_args());
    let running = Place::spawn(command.stdin(Stdio::from(OwnedFd::from(tcp))), || place.log());
    assert_eq!(place.console("adm").ask("show state")[0], "active|yes");
    running.signal(Signal::QUIT);
}

#[test]
fn the_log_is_json_where_it_is_asked_for_and_a_reload_changes_it() {
    let place = Place::new();
    place.write_ini("log_format = json");
    let running = place.start();
    let mut console = Console::of_application(&place.path(".s.PGSQL.6432"), "adm", "o'clock \"9\"");
    wait_until("the login", || place.log().contains("login attempt").then_some(()));
    let log = place.log();
    let line = log.lines().find(|line| line.contains("login attempt")).expect("it is there");
    let fields = [
        "\"application_name\":\"o'clock \\\"9\\\"\"",
        "\"client\":\"C-0x1000000000000000\"",
        "\"topic\":\"connections\"",
    ];
    assert!(fields.iter().all(|field| line.contains(field)), "{line}");
    assert!(log.lines().all(|line| line.starts_with('{') && line.ends_with('}')), "{log}");
    place.write_ini("log_format = plain");
    assert_eq!(console.ask("RELOAD"), ["RELOAD"]);
    drop(console);
    wait_until("the end", || place.log().contains("adm@unix").then_some(()));
    running.signal(Signal::QUIT);
}

/// Puts files where a kubelet would: in a directory of their own, to which `..data` is turned in one step.
fn publish(place: &Place, version: &str, files: &[(&str, String)]) {
    let dir = place.path("mount");
    fs::create_dir_all(dir.join(version)).expect("it is ours");
    for (name, text) in files {
        fs::write(dir.join(version).join(name), text).expect("it is ours");
        let link = dir.join(name);
        if !link.exists() {
            symlink(format!("..data/{name}"), link).expect("it is not there yet");
        }
    }
    let before = fs::read_link(dir.join("..data"));
    symlink(version, dir.join("..data_tmp")).expect("the last one was renamed");
    fs::rename(dir.join("..data_tmp"), dir.join("..data")).expect("it is ours");
    if let Ok(before) = before {
        fs::remove_dir_all(dir.join(before)).expect("it is ours");
    }
}

#[test]
fn a_mounted_configuration_that_is_replaced_is_read_again_and_what_it_names_too() {
    let place = Place::new();
    place.write_ini("");
    let base = fs::read_to_string(place.path("pgweir.ini")).expect("it was written");
    let users = place.path("mount/users.txt").display().to_string();
    let base = base.replace(&place.path("users.txt").display().to_string(), &users);
    let ini = |more: &str| {
        ("pgweir.ini", format!("{base}watch_config = 1\n%include {}/more.ini\n{more}", place.path("mount").display()))
    };
    let mode = |mode: &str| ("more.ini", format!("pool_mode = {mode}\n"));
    let known =
        |names: &[&str]| ("users.txt", names.iter().map(|name| format!("\"{name}\" \"\"\n")).collect::<String>());
    publish(&place, "..1", &[ini(""), mode("session"), known(&["adm"])]);
    fs::copy(place.path("pgweir.ini"), place.path("unused.ini")).expect("it is ours");
    fs::remove_file(place.path("pgweir.ini")).expect("it is ours");
    symlink("mount/pgweir.ini", place.path("pgweir.ini")).expect("it is gone");
    let running = place.start();
    let mut console = place.console("adm");
    let shown = |console: &mut Console, key: &str| {
        let rows = console.ask("show config");
        rows.into_iter().find(|row| row.starts_with(&format!("{key}|"))).expect("it is a setting")
    };
    assert!(shown(&mut console, "pool_mode").starts_with("pool_mode|session|"));

    // Only an included file is another one.
    publish(&place, "..2", &[ini(""), mode("transaction"), known(&["adm"])]);
    wait_until("the reload", || shown(&mut console, "pool_mode").starts_with("pool_mode|transaction|").then_some(()));
    assert!(place.log().contains("more.ini has changed, re-reading config\n"), "{}", place.log());

    // Only the users are.
    publish(&place, "..3", &[ini(""), mode("transaction"), known(&["adm", "new"])]);
    wait_until("the user", || console.ask("show users").iter().any(|row| row.starts_with("new|")).then_some(()));

    // What cannot be used changes nothing, and is seen again once it is mended, though it is another file that is.
    publish(&place, "..4", &[ini("max_client_conn = 77\n"), mode("frob"), known(&["adm"])]);
    wait_until("the refusal", || place.log().contains("pool_mode: found \"frob\"").then_some(()));
    assert!(shown(&mut console, "pool_mode").starts_with("pool_mode|transaction|"));
    fs::write(place.path("mount/more.ini"), "pool_mode = statement\n").expect("it is ours");
    wait_until("the reload", || shown(&mut console, "pool_mode").starts_with("pool_mode|statement|").then_some(()));
    assert!(shown(&mut console, "max_client_conn").starts_with("max_client_conn|77|"));

    // Turned off, nothing happens by itself: the next look but one would have seen it. (On a machine that is too busy to look so soon this finds less.)
    publish(&place, "..5", &[("pgweir.ini", base.clone()), mode("statement"), known(&["adm"])]);
    wait_until("the reload", || shown(&mut console, "watch_config").starts_with("watch_config|0|").then_some(()));
    let reloads = place.log().matches("has changed, re-reading").count();
    fs::write(place.path("mount/pgweir.ini"), base.replace("workers = 1", "workers = 1\npool_mode = statement"))
        .expect("ours");
    std::thread::sleep(Duration::from_millis(3_500));
    assert_eq!(place.log().matches("has changed, re-reading").count(), reloads);
    assert!(shown(&mut console, "pool_mode").starts_with("pool_mode|session|"));
    running.signal(Signal::QUIT);
}
