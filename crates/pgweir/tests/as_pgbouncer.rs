//! What scripts expect of PgBouncer's command line and of its log, from outside: statuses, texts, and the shape of lines.

use std::fs;
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};

use rustix::process::Signal;

mod stage;

use stage::{PGWEIR, Place, wait_until};

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("we write UTF-8")
}

/// Whether a line is `YYYY-MM-DD hh:mm:ss.mmm ZONE [pid] LEVEL text`.
fn has_shape(line: &str) -> bool {
    let (time, rest) = line.split_at(line.len().min(23));
    let digits: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let mut words = rest.trim_start().splitn(4, ' ');
    let (zone, pid, level, text) = (words.next(), words.next(), words.next(), words.next());
    let is_pid = |word: &str| {
        word.strip_prefix('[').and_then(|word| word.strip_suffix(']')).is_some_and(|pid| pid.parse::<u32>().is_ok())
    };
    digits == "0000-00-00 00:00:00.000"
        && rest.starts_with(' ')
        && zone.is_some_and(|zone| zone.starts_with(|c: char| c.is_ascii_uppercase() || c == '+' || c == '-'))
        && pid.is_some_and(is_pid)
        && level.is_some_and(|level| ["LOG", "ERROR", "WARNING", "FATAL", "DEBUG", "NOISE"].contains(&level))
        && text.is_some_and(|text| !text.is_empty())
}

/// A file of its own for the program to refuse, with its last line.
fn refused(place: &Place, more: &str) -> (String, String) {
    place.write_ini(more);
    let output = place.command().output().expect("it was built");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let text = stderr(&output);
    let odd = text.lines().find(|line| !has_shape(line));
    assert_eq!(odd, None, "{text}");
    (text.clone(), text.lines().last().unwrap_or_default().to_owned())
}

#[test]
fn a_mistake_is_named_with_value_key_file_and_line_and_the_end_is_fatal() {
    let place = Place::new();
    let file = place.path("pgweir.ini").display().to_string();
    let line = {
        place.write_ini("");
        fs::read_to_string(&file).expect("just written").lines().count()
    };
    for (mistake, words) in [
        ("listen_port = abc", "listen_port: found \"abc\""),
        ("pool_mode = frob", "pool_mode: found \"frob\""),
        ("frobs = 1", "frobs: found an unknown name"),
        ("[databases]\nshop = frob=1", "databases.shop.frob: found an unknown name"),
    ] {
        let (text, last) = refused(&place, mistake);
        let line = line + mistake.matches('\n').count();
        assert!(text.contains(&format!(" ERROR {file}:{line}: {words}")), "{mistake}: {text}");
        assert!(last.ends_with(" FATAL cannot load config file"), "{last}");
    }
}

#[test]
fn what_keeps_it_from_starting_is_fatal_in_pgbouncers_words() {
    let place = Place::new();
    let words = |more: &str| refused(&place, more).1.split_once(" FATAL ").expect("the end").1.to_owned();
    let log = place.path("no/log").display().to_string();
    assert!(words(&format!("logfile = {log}")).starts_with(&format!("could not open logfile '{log}': ")));
    let mut command = place.command();
    place.write_ini("logfile =");
    let output = command.arg("-d").output().expect("it was built");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).ends_with(" FATAL daemon needs logfile configured\n"), "{}", stderr(&output));
    fs::remove_file(place.path("pgweir.ini")).expect("it is ours");
    let output = place.command().output().expect("it was built");
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(text.contains(" ERROR could not load file \"") && text.contains("No such file or directory\n"), "{text}");
    assert!(text.ends_with(" FATAL cannot load config file\n"), "{text}");
}

#[test]
fn root_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let place = Place::new();
    let output = Command::new(PGWEIR).arg(place.path("pgweir.ini")).output().expect("it was built");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains(" FATAL PgBouncer should not run as root"), "{}", stderr(&output));
    assert!(!place.path(".s.PGSQL.6432").exists() && !place.path("pid").exists());
}

#[test]
fn quiet_is_about_standard_error_and_not_about_the_logfile() {
    for quiet in [true, false] {
        let place = Place::new();
        let mut command = place.command();
        command.args(quiet.then_some("-q")).stderr(Stdio::piped()).stdout(Stdio::null());
        let child = command.spawn().expect("it was built");
        wait_until("the start", || place.log().contains(" LOG process up: PgBouncer ").then_some(()));
        drop(place.console("adm"));
        let ended = "client unexpected eof";
        wait_until("the end of the client", || place.log().contains(ended).then_some(()));
        let mut running = stage::Running(child);
        running.signal(Signal::TERM);
        assert!(running.wait().success());
        let mut told = String::new();
        let mut pipe = running.0.stderr.take().expect("a pipe");
        std::io::Read::read_to_string(&mut pipe, &mut told).expect("text");
        let log = place.log();
        assert_eq!(told, if quiet { "" } else { log.as_str() });
        let odd = log.lines().find(|line| !has_shape(line));
        assert_eq!(odd, None, "{log}");
    }
}

#[test]
fn a_signal_that_comes_too_late_is_ignored_and_a_second_one_ends_it() {
    let place = Place::new();
    // A PostgreSQL that never answers, so that its client stays.
    let postgres = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let port = postgres.local_addr().expect("bound").port();
    place.write_ini(&format!("server_tls_sslmode = disable\n[databases]\nshop = host=127.0.0.1 port={port}\n"));
    let mut running = place.start();
    let _client = stage::login(&place.path(".s.PGSQL.6432"), "adm", "shop");
    let line = |text: &str| wait_until(text, || place.log().contains(text).then_some(()));
    line(&format!("@127.0.0.1:{port} new connection to server (from 127.0.0.1:"));
    running.signal(Signal::TERM);
    line(" LOG got SIGTERM, shutting down, waiting for all clients disconnect\n");
    running.signal(Signal::USR2);
    line(" LOG got SIGUSR2 while shutting down, ignoring\n");
    running.signal(Signal::TERM);
    line(" LOG got SIGTERM while shutting down, fast exit\n");
    assert!(running.wait().success());
    assert!(!place.path(".s.PGSQL.6432").exists() && !place.path("pid").exists());
}

#[test]
fn a_server_that_cannot_be_reached_is_told_of_with_the_reason() {
    let place = Place::new();
    let gone = TcpListener::bind("127.0.0.1:0").expect("loopback").local_addr().expect("bound").port();
    place.write_ini(&format!("[databases]\nlost = host=no.invalid\ndown = host=127.0.0.1 port={gone}\n"));
    let _running = place.start();
    for (database, reason) in
        [("lost", "server DNS lookup failed: no.invalid: "), ("down", "connect failed: Connection refused")]
    {
        let _client = stage::login(&place.path(".s.PGSQL.6432"), "adm", database);
        let line = format!(" closing because: {reason}");
        wait_until(&line, || place.log().contains(&line).then_some(()));
    }
}

/// One that listens on ::1 is there wherever the machine has the address.
#[test]
fn addresses_of_ip_6_stand_in_brackets() {
    let Ok(postgres) = TcpListener::bind("[::1]:0") else { return };
    let port = postgres.local_addr().expect("bound").port();
    let place = Place::new();
    place.write_ini(&format!("server_tls_sslmode = disable\n[databases]\nshop = host=::1 port={port}\n"));
    let _running = place.start();
    let _client = stage::login(&place.path(".s.PGSQL.6432"), "adm", "shop");
    let (_server, from) = postgres.accept().expect("it connects");
    let line = format!("shop/adm@[::1]:{port} new connection to server (from {from})\n");
    wait_until(&line, || place.log().contains(&line).then_some(()));
}
