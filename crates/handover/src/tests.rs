//! What is said is read as it was meant, and its sockets come along.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use machine::Orders;
use machine::mail::Refusal;
use machine::observe::Peer;
use machine::processes::{Inventory, PoolUse, ToGranter, ToMember};
use queueing::classes::LimitKind;
use queueing::limiting::Limit;
use units::{PoolKey, Serial, Time};

use crate::FORMAT;
use crate::frame::{Frame, receive, send};
use crate::successor::{Refused, Succession};

fn hello(version: &str) -> Frame {
    Frame::Hello { format: FORMAT, version: version.to_owned(), pid: 7 }
}

#[test]
fn frames_arrive_in_order_with_their_sockets() {
    let (here, there) = UnixStream::pair().expect("two descriptors");
    let (mine, other) = UnixStream::pair().expect("two descriptors");
    send(&here, &hello("first"), &[]).expect("there is room");
    let welcome = Frame::Welcome {
        version: "second".to_owned(),
        pid: 8,
        clock_zero: -9,
        names: [1; 32],
        orders: Orders::default(),
        descriptors: 3,
    };
    send(&here, &welcome, &[other.into()]).expect("there is room");
    send(&here, &Frame::Started, &[]).expect("there is room");
    drop(here);
    let (first, none) = receive(&there).expect("it is sound").expect("it came");
    assert!(matches!(first, Frame::Hello { version, .. } if version == "first") && none.is_empty());
    let (second, mut sockets) = receive(&there).expect("it is sound").expect("it came");
    assert!(matches!(second, Frame::Welcome { clock_zero: -9, pid: 8, .. }));
    let mut came = UnixStream::from(sockets.pop().expect("one came"));
    came.write_all(b"it is the same").expect("it is connected");
    let mut read = [0; 14];
    (&mine).read_exact(&mut read).expect("what was written");
    assert_eq!(&read, b"it is the same");
    assert!(matches!(receive(&there), Ok(Some((Frame::Started, _)))));
    assert!(matches!(receive(&there), Ok(None)), "the other end is closed");
}

#[test]
fn a_frame_that_is_longer_than_a_socket_buffer_comes_whole() {
    let (here, there) = UnixStream::pair().expect("two descriptors");
    let long = "x".repeat(4 << 20);
    let sent = long.clone();
    let writer = thread::spawn(move || send(&here, &hello(&sent), &[]).expect("it is read"));
    let (frame, _) = receive(&there).expect("it is sound").expect("it came");
    writer.join().expect("no panic");
    assert!(matches!(frame, Frame::Hello { version, .. } if version == long));
}

#[test]
fn what_is_no_frame_is_an_error_and_no_panic() {
    let cases: [&[u8]; 5] = [
        // Longer than any.
        &[0xff; 8],
        // A socket that does not come.
        &[0, 0, 0, 1, 0, 0, 0, 1, 0xc0],
        // Nothing that can be read.
        &[0, 0, 0, 1, 0, 0, 0, 0, 0xc1],
        // Its end is missing.
        &[0, 0, 0, 9, 0, 0, 0, 0, 1],
        &[0, 0, 0],
    ];
    for case in cases {
        let (mut here, there) = UnixStream::pair().expect("two descriptors");
        here.write_all(case).expect("there is room");
        drop(here);
        assert!(receive(&there).is_err(), "{case:?}");
    }
}

/// It is stopped, for example.
#[test]
fn a_frame_for_a_process_that_does_not_read_is_given_up() {
    let (here, _there) = UnixStream::pair().expect("two descriptors");
    here.set_write_timeout(Some(Duration::from_millis(20))).expect("not zero");
    let why = send(&here, &hello(&"x".repeat(4 << 20)), &[]).expect_err("nobody reads");
    assert_eq!(why.kind(), ErrorKind::WouldBlock);
    let why = send(&here, &hello("short"), &[]).expect_err("there is no room");
    assert_eq!(why.kind(), ErrorKind::WouldBlock);
}

/// A fresh directory in which every user can make files, as in `/tmp`. Removed with the value.
struct Open(PathBuf);

impl Open {
    fn new(name: &str) -> Open {
        let path = std::env::temp_dir().join(format!("handover-{}-{name}", std::process::id()));
        fs::create_dir(&path).expect("a fresh name");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o1777)).expect("it is ours");
        Open(path)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Listens as another user does: on Linux a thread can have a user of its own.
fn listen_as_stranger(path: &Path) -> UnixListener {
    let path = path.to_owned();
    let bind = move || {
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65534)).expect("root may");
        let listener = UnixListener::bind(&path).expect("everybody can make files there");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).expect("it is the stranger's");
        listener
    };
    thread::spawn(bind).join().expect("no panic")
}

/// It could hand over sessions of any user, nobody having asked for a password.
#[test]
fn a_process_of_another_user_that_listens_on_our_name_is_neither_asked_nor_believed() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED another user's socket: only root can listen as another user");
        return;
    }
    let open = Open::new("stranger");
    let path = crate::path(open.0.to_str().expect("ASCII"), 6432).expect("a directory");
    let listener = listen_as_stranger(&path);
    let evil = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("it is asked for");
        let welcome = Frame::Welcome {
            version: "evil".to_owned(),
            pid: 1,
            clock_zero: 0,
            names: [0; 32],
            orders: Orders::default(),
            descriptors: 3,
        };
        // Fails if the other side has closed, as it should.
        let _ = send(&stream, &welcome, &[]);
        let mut heard = Vec::new();
        // A reset, since what was sent is not read.
        let _ = stream.read_to_end(&mut heard);
        heard
    });
    match Succession::ask(&path, "ours") {
        Err(Refused::Stranger(why)) => assert!(why.contains("65534"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(evil.join().expect("no panic"), [0u8; 0], "nothing is told to it");
}

/// A build before or after this one reads what this one writes: a change of these bytes changes [`FORMAT`].
#[test]
fn frames_between_processes_that_share_tokens_are_as_in_other_builds() {
    let key = || PoolKey { database: "d".into(), user: "u".into() };
    let limit = || Limit::Class("c".into(), LimitKind::Active);
    let pools = vec![PoolUse { key: key(), sessions: vec![("u".into(), 2)], tokens: 1, size: None }];
    let permits = vec![(limit(), 1), (Limit::Statement(7), 2)];
    let inventory = Inventory { pools, permits, serial: Serial(3), orders: Orders::default(), primaries: Vec::new() };
    let (user, class, peer) = ("u".into(), "c".into(), Peer::Unix { pid: 1, uid: 2 });
    let apply = ToGranter::Apply { ticket: 1, key: key(), user, console: false, exempt: true, class, peer };
    let to_granter = [
        ToGranter::Begun(inventory),
        apply,
        ToGranter::Withdrawn { ticket: 1 },
        ToGranter::Departed { key: key(), user: "u".into() },
        ToGranter::RequestServer { key: key(), reserve: true },
        ToGranter::StillNeeded { key: key(), count: 1 },
        ToGranter::NothingIdle { key: key(), busy: true },
        ToGranter::Opened { key: key() },
        ToGranter::Freed { key: key(), fresh: true },
        ToGranter::RequestAllowance { limit: limit(), count: 1 },
        ToGranter::Unspent { limit: limit(), count: 1, missing: 2 },
        ToGranter::CancelOver { door: 0, number: 1 },
    ];
    let to_member = [
        ToMember::Admitted { ticket: 1, key: key(), user: "u".into() },
        ToMember::NotAdmitted { ticket: 1, why: Refusal::MaxClientConn },
        ToMember::Granted { key: key() },
        ToMember::Dropped { key: key(), count: 1, reserve: false },
        ToMember::Inquire { key: key() },
        ToMember::Recall { key: key(), busy: true },
        ToMember::Shrink { key: key(), count: 1 },
        ToMember::Allow { limit: limit(), granted: 1, answered: 2, remaining: 3, next_at: Some(Time(4)) },
        ToMember::Cancel { pid: 1, secret: [2, 3].into(), door: 0, number: 1 },
    ];
    let frames = to_granter.map(Frame::ToSuccessor).into_iter().chain(to_member.map(Frame::ToPredecessor));
    let written: String = frames
        .map(|frame| format!("{}\n", rmp_serde::to_vec_named(&frame).expect("it can be written").escape_ascii()))
        .collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/frames.txt");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(path, &written).expect("the frames are recorded");
    }
    assert_eq!(written, fs::read_to_string(path).expect("the frames of other builds"));
}
