//! Guessing passwords is slow: how long a row of guesses takes from one address and from two, and that an honest login from the same
//! address does not wait meanwhile.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::time::{Duration, Instant};

use outer::{Stage, Wishes, frontend};
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

const FIRST: Ipv4Addr = Ipv4Addr::LOCALHOST;
const SECOND: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Wrong passwords in a row, and the sum of their delays: none for the first three, then 250 ms, doubled each time.
const GUESSES: usize = 7;
const DELAYED: Duration = Duration::from_millis(250 + 500 + 1_000 + 2_000);

/// Only a defect makes an answer take this long.
const PATIENCE: Duration = Duration::from_secs(120);

/// `delay`: the longest delay. No slow login times out: client_login_timeout is an hour.
fn stage(delay: &str) -> Stage {
    let settings = [("auth_failure_delay", delay), ("client_login_timeout", "3600"), ("log_connections", "0")];
    let settings = settings.map(|(name, value)| (name, value.to_owned())).to_vec();
    Stage::set(&Wishes { auth: "plain", settings, ..Wishes::default() })
}

/// Connects from this address and sends a password. The answer is still to be read.
fn show(from: Ipv4Addr, to: SocketAddr, user: &str, password: &str) -> TcpStream {
    let SocketAddr::V4(to) = to else { panic!("the pooler listens on IPv4") };
    let fd = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    // Closed by a reset: 100,000 ports that were bound, and wait for late packets, are nobody else's for a minute.
    set_socket_linger(&fd, Some(Duration::ZERO)).expect("our own socket");
    bind(&fd, &SocketAddrV4::new(from, 0)).expect("a loopback address");
    connect(&fd, &to).expect("the pooler listens");
    let mut stream = TcpStream::from(fd);
    stream.set_read_timeout(Some(PATIENCE)).expect("not zero");
    stream.write_all(&frontend::startup(&[("user", user), ("database", "postgres")])).expect("it is read");
    assert_eq!(message(&mut stream), (b'R', vec![0, 0, 0, 3]), "the password is asked for");
    stream.write_all(&frontend::frame(b'p', &[password.as_bytes(), b"\0"].concat())).expect("it is read");
    stream
}

/// The tag of the answer to a password.
fn log_in(from: Ipv4Addr, to: SocketAddr, user: &str, password: &str) -> u8 {
    message(&mut show(from, to, user, password)).0
}

fn message(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut header = [0; 5];
    stream.read_exact(&mut header).expect("an answer in time");
    let len = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
    let mut body = vec![0; len - 4];
    stream.read_exact(&mut body).expect("the rest of it");
    (header[0], body)
}

/// How long `count` wrong passwords take from this address, one after the other.
fn guesses(from: Ipv4Addr, to: SocketAddr, count: usize) -> Duration {
    let begun = Instant::now();
    for number in 0..count {
        assert_eq!(log_in(from, to, "victim", &format!("guess {number}")), b'E');
    }
    begun.elapsed()
}

/// The exact delays are in the transcript `login/wrong-passwords-are-answered-later-and-later.txt`.
#[test]
fn an_address_guesses_slowly_and_an_honest_login_beside_it_does_not_wait() {
    let mut stage = stage("3600");
    let (to, password) = (stage.pooler.address(), stage.cluster.password().to_owned());
    let honest = || {
        let before = Instant::now();
        assert_eq!(log_in(FIRST, to, "postgres", &password), b'R');
        before.elapsed()
    };
    let (one, two, mut took) = std::thread::scope(|scope| {
        let one = scope.spawn(|| guesses(FIRST, to, GUESSES));
        let two = scope.spawn(|| guesses(SECOND, to, GUESSES));
        let mut took = Vec::new();
        while !one.is_finished() {
            took.push(honest());
        }
        (one.join().expect("it has guessed"), two.join().expect("it has guessed"), took)
    });
    assert!(one >= DELAYED && two >= DELAYED, "{GUESSES} guesses took {one:?} and {two:?}");
    // Each waits for twice as long as the one before: the last would be answered after hours.
    let mut waiting: Vec<TcpStream> =
        (0..10).map(|number| show(FIRST, to, "victim", &format!("another guess {number}"))).collect();
    took.extend((0..20).map(|_| honest()));
    let last = waiting.last_mut().expect("ten");
    last.set_nonblocking(true).expect("our own socket");
    let heard = last.read(&mut [0]);
    assert!(heard.as_ref().is_err_and(|why| why.kind() == ErrorKind::WouldBlock), "{heard:?}");
    took.sort_unstable();
    println!(
        "{GUESSES} guesses took {one:?} from one address and {two:?} from another; {} honest logins took {:?} each, {:?} at most",
        took.len(),
        took[took.len() / 2],
        took[took.len() - 1]
    );
    assert!(stage.pooler.is_alive());
}

#[test]
fn without_the_setting_guesses_are_answered_at_once() {
    const MANY: usize = 1_000;
    let stage = stage("0");
    let took = guesses(FIRST, stage.pooler.address(), MANY);
    println!("{MANY} guesses in {took:?}");
    // Delayed by no more than the first delay each, they would take longer than any machine does.
    assert!(took < Duration::from_millis(250) * (MANY as u32 - 3), "{took:?}");
}
