//! What is said is read as it was meant, and its sockets come along.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;

use machine::Orders;

use crate::FORMAT;
use crate::frame::{Frame, receive, send};

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
