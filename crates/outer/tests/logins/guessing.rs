//! Guessing passwords is slow: how many guesses a second one address makes and two make, and how long an honest login from the
//! same address takes meanwhile.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::time::{Duration, Instant};

use outer::{Stage, Wishes, frontend};
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

const FIRST: Ipv4Addr = Ipv4Addr::LOCALHOST;
const SECOND: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const LASTS: Duration = Duration::from_secs(8);

/// The longest delay, once for each guess.
const DELAY: Duration = Duration::from_secs(1);

fn stage(delay: &str, alone: bool) -> Stage {
    let settings = vec![("auth_failure_delay", delay.to_owned()), ("log_connections", "0".to_owned())];
    Stage::set(&Wishes { auth: "plain", settings, alone, ..Wishes::default() })
}

/// The tag of the answer to a password, sent from this address.
fn log_in(from: Ipv4Addr, to: SocketAddr, user: &str, password: &str) -> u8 {
    let SocketAddr::V4(to) = to else { panic!("the pooler listens on IPv4") };
    let fd = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    // Closed by a reset: 100,000 ports that were bound, and wait for late packets, are nobody else's for a minute.
    set_socket_linger(&fd, Some(Duration::ZERO)).expect("our own socket");
    bind(&fd, &SocketAddrV4::new(from, 0)).expect("a loopback address");
    connect(&fd, &to).expect("the pooler listens");
    let mut stream = TcpStream::from(fd);
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("not zero");
    stream.write_all(&frontend::startup(&[("user", user), ("database", "postgres")])).expect("it is read");
    assert_eq!(message(&mut stream), (b'R', vec![0, 0, 0, 3]), "the password is asked for");
    stream.write_all(&frontend::frame(b'p', &[password.as_bytes(), b"\0"].concat())).expect("it is read");
    message(&mut stream).0
}

fn message(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut header = [0; 5];
    stream.read_exact(&mut header).expect("an answer in time");
    let len = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
    let mut body = vec![0; len - 4];
    stream.read_exact(&mut body).expect("the rest of it");
    (header[0], body)
}

/// How many guesses are answered from this address in the time.
fn guesses(from: Ipv4Addr, to: SocketAddr, lasts: Duration) -> usize {
    let begun = Instant::now();
    let mut count = 0;
    while begun.elapsed() < lasts {
        assert_eq!(log_in(from, to, "victim", &format!("guess {count}")), b'E');
        count += 1;
    }
    count
}

#[test]
fn an_address_guesses_slowly_and_an_honest_login_beside_it_does_not_wait() {
    let mut stage = stage("1", true);
    let (to, password) = (stage.pooler.address(), stage.cluster.password().to_owned());
    // Those that are free, those whose delay still grows, and one for each of the longest delay.
    let most = 3 + 2 + LASTS.as_millis().div_ceil(DELAY.as_millis()) as usize;
    let (one, two, mut honest) = std::thread::scope(|scope| {
        let one = scope.spawn(|| guesses(FIRST, to, LASTS));
        let two = scope.spawn(|| guesses(SECOND, to, LASTS));
        let begun = Instant::now();
        let mut honest = Vec::new();
        while begun.elapsed() < LASTS {
            let before = Instant::now();
            assert_eq!(log_in(FIRST, to, "postgres", &password), b'R');
            honest.push(before.elapsed());
        }
        (one.join().expect("it has guessed"), two.join().expect("it has guessed"), honest)
    });
    honest.sort_unstable();
    let (usual, slowest) = (honest[honest.len() / 2], honest[honest.len() - 1]);
    let nearly_all = honest[honest.len() * 99 / 100];
    println!(
        "in {LASTS:?}, {one} guesses from one address and {two} from another; {} honest logins took {usual:?} each, {slowest:?} \
         at most",
        honest.len()
    );
    assert!(one <= most && two <= most, "{one} and {two} guesses, expected at most {most} each");
    assert!(one >= 5 && two >= 5, "the first few are free: {one}, {two}");
    assert!(usual < Duration::from_millis(100), "an honest login takes {usual:?}");
    // Not the slowest: the machine may be elsewhere for a moment. Delayed as guesses are, most would be.
    assert!(nearly_all < DELAY, "99 % of honest logins took up to {nearly_all:?}, as if they were guesses");
    assert!(stage.pooler.is_alive());
}

#[test]
fn without_the_setting_guesses_are_answered_at_once() {
    let stage = stage("0", false);
    let count = guesses(FIRST, stage.pooler.address(), Duration::from_secs(2));
    println!("{count} guesses in 2 s");
    assert!(count > 100, "{count} guesses");
}
