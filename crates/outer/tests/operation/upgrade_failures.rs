//! Online upgrades (`-R`) that fail, are undone, or follow each other: at every moment one process serves, and has what only one may have.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Child;
use std::time::Duration;

use outer::{Client, Stage, Wishes, eventually};
use rustix::process::{Pid, Signal, kill_process};

/// A pooler with all that only one process may have.
struct Scene {
    stage: Stage,
    http: u16,
    good_ini: String,
}

impl Scene {
    fn set(more: &[(&'static str, &str)]) -> Scene {
        let http = demo::free_port();
        let mut settings = vec![
            ("unix_socket_dir", "{dir}".to_owned()),
            ("pidfile", "{dir}/pid".to_owned()),
            ("http_listen", format!("127.0.0.1:{http}")),
        ];
        settings.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
        let stage = Stage::set(&Wishes { pool: 5, settings, ..Wishes::default() });
        let good_ini = fs::read_to_string(stage.pooler.dir().join("pooler.ini")).expect("it was written");
        Scene { stage, http, good_ini }
    }

    /// A new process with these settings besides finds out that it cannot start.
    fn start_in_vain(&mut self, wrong: &str) {
        let file = self.stage.pooler.dir().join("pooler.ini");
        fs::write(&file, self.good_ini.clone() + wrong).expect("it is ours");
        let successor = self.stage.pooler.start_successor();
        assert_fails(successor);
        fs::write(&file, &self.good_ini).expect("it is ours");
    }

    fn socket(&self) -> PathBuf {
        self.stage.pooler.dir().join(format!(".s.PGSQL.{}", self.stage.pooler.port))
    }

    /// The process under test has all that only one process may have.
    fn assert_in_place(&mut self) {
        assert!(self.stage.pooler.is_alive());
        let pid = self.stage.pooler.pid().to_string();
        let written = || fs::read_to_string(self.stage.pooler.dir().join("pid")).unwrap_or_default();
        eventually("the pidfile names the process", || written().trim() == pid);
        eventually("it is ready", || is_ready(self.http));
        assert!(UnixStream::connect(self.socket()).is_ok(), "its Unix socket is there");
        assert_eq!(self.stage.client().query("select 'new'").expect("served").value(), Some("new"));
    }
}

fn is_ready(http: u16) -> bool {
    let ask = || {
        let mut stream = TcpStream::connect(("127.0.0.1", http))?;
        stream.set_read_timeout(Some(Duration::from_secs(120)))?;
        stream.write_all(b"GET /ready HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        std::io::Result::Ok(answer)
    };
    ask().is_ok_and(|answer| answer.starts_with("HTTP/1.0 200 "))
}

fn signal(process: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(process).expect("a pid")).expect("not 0");
    kill_process(pid, signal).expect("it runs");
}

fn assert_ends(mut process: Child) {
    eventually("it ends", || process.try_wait().expect("it is our child").is_some());
}

fn assert_fails(mut successor: Child) {
    let mut status = None;
    eventually("it ends", || {
        status = successor.try_wait().expect("it is our child");
        status.is_some()
    });
    assert!(status.is_some_and(|status| !status.success()), "{status:?}");
}

/// It keeps the process that it is in from ending, since it does not move.
fn in_transaction(stage: &Stage) -> Client {
    let mut client = stage.client();
    let _ = client.query("begin").expect("served");
    client
}

#[test]
fn a_start_that_fails_after_it_has_inherited_the_sockets_leaves_their_files() {
    let mut scene = Scene::set(&[]);
    scene.start_in_vain("resolv_conf = /nowhere/resolv.conf\n");
    scene.assert_in_place();
    scene.stage.assert_healthy();
}

#[test]
fn a_successor_that_is_told_to_end_leaves_everything_to_the_process_before_it() {
    for told in [Signal::INT, Signal::KILL] {
        let mut scene = Scene::set(&[]);
        let mut client = in_transaction(&scene.stage);
        let before = scene.stage.pooler.upgrade();
        scene.assert_in_place();
        signal(scene.stage.pooler.pid(), told);
        let successor = scene.stage.pooler.take_back(before);
        assert_ends(successor);
        eventually("the process before goes on", || scene.stage.pooler.log().contains("going on without it"));
        scene.assert_in_place();
        let _ = client.query("commit").expect("it has not moved");
        // It hands over once more, and the successor has it all for good.
        let before = scene.stage.pooler.upgrade();
        assert_ends(before);
        scene.assert_in_place();
        assert_eq!(client.query("select 'moved'").expect("served").value(), Some("moved"));
        // Until it has heard of that, the files are not its own.
        eventually("it has heard", || scene.stage.pooler.log().contains("the process before this one has ended"));
        let socket = scene.socket();
        signal(scene.stage.pooler.pid(), Signal::QUIT);
        eventually("it ends", || !scene.stage.pooler.is_alive());
        assert!(!socket.exists() && !scene.stage.pooler.dir().join("pid").exists(), "nobody is left who needs them");
    }
}

#[test]
fn a_pidfile_that_cannot_be_written_ends_the_start_before_anybody_has_moved() {
    let mut scene = Scene::set(&[]);
    let mut client = scene.stage.client();
    assert_eq!(client.query("select 1").expect("served").value(), Some("1"));
    scene.start_in_vain("pidfile = /nowhere/pid\n");
    assert!(scene.stage.pooler.log().contains("FATAL could not open pidfile '/nowhere/pid'"));
    assert_eq!(client.query("select 2").expect("it has not moved").value(), Some("2"));
    scene.assert_in_place();
    scene.stage.assert_healthy();
}

/// It would lose the clients that it has no descriptors for.
#[test]
fn a_successor_with_too_few_descriptors_ends_before_anybody_has_moved() {
    let mut scene = Scene::set(&[("max_client_conn", "300")]);
    let mut clients: Vec<Client> = (0..200).map(|_| scene.stage.client()).collect();
    assert_fails(scene.stage.pooler.start_successor_with(Some(250)));
    assert!(scene.stage.pooler.log().contains("and the limit is 250"), "it says why");
    for client in &mut clients {
        assert_eq!(client.query("select 1").expect("it has not moved").value(), Some("1"));
    }
    scene.assert_in_place();
    let before = scene.stage.pooler.upgrade();
    assert_ends(before);
    for client in &mut clients {
        assert_eq!(client.query("select 1").expect("it has moved").value(), Some("1"));
    }
    drop(clients);
    scene.stage.assert_healthy();
}

/// Otherwise the first and the third process would serve, each with the limits of one.
#[test]
fn if_the_second_of_three_processes_dies_the_first_ends_and_the_third_goes_on() {
    let mut scene = Scene::set(&[]);
    let mut clients = [in_transaction(&scene.stage), in_transaction(&scene.stage)];
    let first = scene.stage.pooler.upgrade();
    let mut second = scene.stage.pooler.upgrade();
    signal(second.id(), Signal::KILL);
    let _ = second.wait().expect("it is our child");
    // The first one ends while the other holds the process.
    for client in &mut clients {
        assert_eq!(client.query("select 'a transaction'").expect("it ends first").value(), Some("a transaction"));
        let _ = client.query("commit").expect("as it should");
        // The first process serves until it has noticed that the second is gone.
        let mut gone = None;
        eventually("the other process has its place", || {
            gone = client.query("select 1").err();
            gone.is_some()
        });
        let gone = gone.expect("it was waited for");
        assert!(gone.to_string().contains("57P01"), "{gone}");
    }
    assert_ends(first);
    assert!(!scene.stage.pooler.log().contains("going on without it"));
    scene.assert_in_place();
    // Processes ask the third one.
    let third = scene.stage.pooler.upgrade();
    assert_ends(third);
    scene.assert_in_place();
    scene.stage.assert_healthy();
}

#[test]
fn if_the_third_of_three_processes_dies_the_second_goes_on_and_if_that_dies_too_the_first_does() {
    let mut scene = Scene::set(&[]);
    let mut client = in_transaction(&scene.stage);
    let first = scene.stage.pooler.upgrade();
    let second = scene.stage.pooler.upgrade();
    signal(scene.stage.pooler.pid(), Signal::KILL);
    let third = scene.stage.pooler.take_back(second);
    assert_ends(third);
    scene.assert_in_place();
    signal(scene.stage.pooler.pid(), Signal::KILL);
    let second = scene.stage.pooler.take_back(first);
    assert_ends(second);
    scene.assert_in_place();
    let _ = client.query("commit").expect("it has not moved");
    let before = scene.stage.pooler.upgrade();
    assert_ends(before);
    scene.assert_in_place();
    scene.stage.assert_healthy();
}
