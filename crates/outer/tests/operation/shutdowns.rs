//! What a shutdown by signal means to those who are connected, and to those who come: sockets, words, files, the log.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::path::PathBuf;

use outer::{Client, Pooler, Stage, Wishes, eventually};
use rustix::process::{Pid, Signal, kill_process};

struct Scene {
    stage: Stage,
    socket: PathBuf,
}

fn scene() -> Scene {
    let settings = vec![("unix_socket_dir", "{dir}".to_owned()), ("pidfile", "{dir}/pid".to_owned())];
    let stage = Stage::set(&Wishes { pool: 2, settings, ..Wishes::default() });
    let socket = stage.pooler.dir().join(format!(".s.PGSQL.{}", stage.pooler.port));
    Scene { stage, socket }
}

fn signal(pooler: &Pooler, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pooler.pid()).expect("a pid")).expect("not 0");
    kill_process(pid, signal).expect("it runs");
}

impl Scene {
    fn by_unix(&self, user: &str, database: &str) -> Result<Client, String> {
        let client = Client::login(client::Place::Unix(self.socket.clone()), user, database);
        client.map_err(|gone| gone.error.map_or_else(|| "closed".to_owned(), |error| error.message))
    }

    /// Nobody is listening by TCP any more.
    fn refuses_tcp(&self) -> bool {
        TcpStream::connect(self.stage.pooler.address()).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    }

    /// It has ended by itself, and has left nothing but its log, which has these lines.
    fn has_ended(&mut self, lines: &[&str]) {
        let Scene { stage, socket } = self;
        eventually("it ends", || !stage.pooler.is_alive());
        assert!(!socket.exists() && !stage.pooler.dir().join("pid").exists(), "a socket or a pidfile is left");
        let log = stage.pooler.log();
        for line in lines {
            assert!(log.contains(line), "no {line:?} in\n{log}");
        }
    }
}

#[test]
fn sigterm_waits_for_clients_and_takes_no_new_ones() {
    let mut scene = scene();
    let mut client = scene.stage.client();
    assert!(scene.stage.pooler.dir().join("pid").exists());
    signal(&scene.stage.pooler, Signal::TERM);
    eventually("TCP is closed at once", || scene.refuses_tcp());
    for _ in 0..3 {
        assert_eq!(client.query("begin").expect("it goes on").status, b'T');
        assert_eq!(client.query("select 1; commit").expect("it goes on").value(), Some("1"));
    }
    let refused = scene.by_unix("postgres", "postgres").map(|_| ());
    assert_eq!(refused, Err("pooler is shutting down".to_owned()));
    let mut console = scene.by_unix("postgres", "pgbouncer").expect("the console is there still");
    let resumed = console.query("resume").expect("answered");
    assert_eq!(resumed.errors[0].message, "pooler is shutting down");
    drop(console);
    assert!(scene.stage.pooler.is_alive());
    drop(client);
    scene.has_ended(&[
        "got SIGTERM, shutting down, waiting for all clients disconnect",
        "client connections dropped, exiting",
    ]);
}

#[test]
fn a_second_sigterm_ends_it_at_once() {
    let mut scene = scene();
    let mut client = scene.stage.client();
    client.query("begin").expect("served");
    signal(&scene.stage.pooler, Signal::TERM);
    eventually("it waits", || scene.refuses_tcp());
    signal(&scene.stage.pooler, Signal::TERM);
    assert_eq!(client.last_words(), None, "it just sees the end");
    scene.has_ended(&["got SIGTERM while shutting down, fast exit"]);
}

#[test]
fn sigint_waits_for_servers_and_refuses_new_work() {
    let mut scene = scene();
    let mut busy = scene.stage.client();
    let mut idle = scene.stage.client();
    busy.query("begin").expect("served");
    signal(&scene.stage.pooler, Signal::INT);
    eventually("TCP is closed at once", || scene.refuses_tcp());
    let told = idle.query("select 1").expect_err("nothing new is begun");
    assert_eq!(told.error.map(|error| error.message), Some("server shutting down".to_owned()));
    assert_eq!(busy.query("select 2").expect("what has begun goes on").value(), Some("2"));
    assert!(scene.stage.pooler.is_alive());
    assert_eq!(busy.query("commit").expect("to its end").tags, ["COMMIT"]);
    scene.has_ended(&[
        "got SIGINT, shutting down, waiting for all servers connections to be released",
        "closing because: server shutting down",
        "server connections dropped, exiting",
    ]);
}

#[test]
fn sigquit_ends_it_without_a_word() {
    let mut scene = scene();
    let mut client = scene.stage.client();
    client.query("begin").expect("served");
    signal(&scene.stage.pooler, Signal::QUIT);
    assert_eq!(client.last_words(), None, "it just sees the end");
    scene.has_ended(&["got SIGQUIT, fast exit"]);
}

#[test]
fn signals_that_ask_for_nothing_are_told() {
    let mut scene = scene();
    signal(&scene.stage.pooler, Signal::USR2);
    eventually("it is not paused", || scene.stage.pooler.log().contains("got SIGUSR2, but not paused/suspended"));
    signal(&scene.stage.pooler, Signal::HUP);
    eventually("it reads its file", || scene.stage.pooler.log().contains("got SIGHUP, re-reading config"));
    signal(&scene.stage.pooler, Signal::USR1);
    eventually("it pauses", || scene.stage.pooler.log().contains("got SIGUSR1, pausing all activity"));
    signal(&scene.stage.pooler, Signal::USR2);
    scene.stage.assert_healthy();
}
