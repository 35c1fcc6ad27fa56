//! Tests of a watch, with members that answer what a test wants.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};

use http_client::Encryption;

use super::*;

/// Only a defect takes this long.
const LONG: Duration = Duration::from_secs(60);

/// The answers of a member to `/cluster` and to `/patroni`. `None`: nothing at all.
type Says = Option<(String, String)>;

/// A member with prescribed answers, which keeps connections open.
struct Fake {
    address: SocketAddr,
    says: Arc<Mutex<Says>>,
    connections: Arc<AtomicU32>,
    asked: Arc<AtomicU32>,
}

impl Fake {
    fn start(says: Says) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let fake =
            Fake { address, says: Arc::new(Mutex::new(says)), connections: Arc::default(), asked: Arc::default() };
        let (says, connections, asked) =
            (Arc::clone(&fake.says), Arc::clone(&fake.connections), Arc::clone(&fake.asked));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                connections.fetch_add(1, Ordering::SeqCst);
                let (says, asked) = (Arc::clone(&says), Arc::clone(&asked));
                thread::spawn(move || serve(stream, &says, &asked));
            }
        });
        fake
    }

    fn url(&self) -> Url {
        Url { base: format!("http://{}", self.address), host: "127.0.0.1".to_owned() }
    }

    fn say(&self, says: Says) {
        *self.says.lock().expect("nobody panics") = says;
    }
}

fn serve(mut stream: TcpStream, says: &Mutex<Says>, asked: &AtomicU32) {
    let mut reader = BufReader::new(stream.try_clone().expect("a descriptor"));
    let mut lines: Vec<String> = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or_default() == 0 {
            return;
        }
        if line.trim().is_empty() {
            let head = lines.concat().to_lowercase();
            asked.fetch_add(1, Ordering::SeqCst);
            // A refused client gets a status of its own.
            let is_known = !head.contains("authorization:") || head.contains("basic ym9iom9wzw4=");
            let answer = says.lock().expect("nobody panics").clone();
            let Some((cluster, patroni)) = answer else {
                // Silence, for as long as the other one waits.
                thread::sleep(LONG);
                return;
            };
            let answer = if head.starts_with("get /cluster ") { cluster } else { patroni };
            let (status, body) = answer.split_once(' ').expect("a status and a body");
            let status = if is_known { status } else { "401" };
            let date = "Mon, 30 Nov 2026 12:00:30 GMT";
            let len = body.len();
            let answer = format!("HTTP/1.1 {status} X\r\nDate: {date}\r\nContent-Length: {len}\r\n\r\n{body}");
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
            lines.clear();
        } else {
            lines.push(line);
        }
    }
}

/// The answers of a member that has reached the store `age` seconds ago.
fn says(leader: &str, timeline: u64, age: i64) -> Says {
    let member = |name: &str| {
        let role = if name == leader { "leader" } else { "replica" };
        format!(
            r#"{{"name": "{name}", "role": "{role}", "state": "running", "host": "10.0.0.1", "port": 5432, "timeline": {timeline}}}"#
        )
    };
    let cluster = format!(r#"200 {{"members": [{}, {}], "scope": "shop"}}"#, member("a"), member("b"));
    let seen = 1_796_040_030 - age;
    Some((cluster, format!(r#"200 {{"dcs_last_seen": {seen}, "patroni": {{"scope": "shop"}}}}"#)))
}

struct Watched {
    watch: Watch,
    news: Receiver<News>,
}

impl Watched {
    fn start(fakes: &[&Fake], login: Option<(&str, &str)>) -> Watched {
        Watched::confirmed(fakes, login, LONG)
    }

    fn confirmed(fakes: &[&Fake], login: Option<(&str, &str)>, confirm: Duration) -> Watched {
        let (sender, news) = channel();
        let options = Options {
            urls: fakes.iter().map(|fake| fake.url()).collect(),
            client: Client::new(&[], None, Encryption::AsTheUrlSays, REST),
            login: login.map(|(user, password)| (user.to_owned(), password.to_owned())),
            confirm,
        };
        let watch = Watch::start(options, move |news| _ = sender.send(news)).expect("a thread");
        Watched { watch, news }
    }

    fn next(&self) -> News {
        self.news.recv_timeout(LONG).expect("something is new")
    }

    /// The next leader.
    fn leader(&self) -> Option<String> {
        loop {
            if let News::Seen(seen) = self.next() {
                return seen.view.leader.clone();
            }
        }
    }
}

#[test]
fn a_new_leader_is_told_though_the_old_one_is_silent() {
    let (a, b) = (Fake::start(says("a", 1, 0)), Fake::start(says("a", 1, 0)));
    let watched = Watched::start(&[&a, &b], None);
    assert_eq!(watched.leader().as_deref(), Some("a"));
    a.say(None);
    b.say(says("b", 2, 0));
    assert_eq!(watched.leader().as_deref(), Some("b"));
    assert_eq!(watched.watch.view().and_then(|view| view.leader.clone()).as_deref(), Some("b"));
}

#[test]
fn a_leader_that_stays_is_confirmed() {
    let a = Fake::start(says("a", 1, 0));
    let watched = Watched::confirmed(&[&a], None, HASTE);
    assert_eq!(watched.leader().as_deref(), Some("a"));
    watched.watch.look_now();
    let confirmed = watched.next();
    let News::Confirmed(Seen { view, age }) = confirmed else { panic!("{confirmed:?}") };
    assert_eq!(view.leader.as_deref(), Some("a"));
    assert!(age.is_some_and(|age| age < STATUS_COUNTS + REST), "{age:?}");
}

#[test]
fn an_old_leader_that_is_cut_off_is_not_believed() {
    let (a, b) = (Fake::start(says("a", 1, 0)), Fake::start(says("a", 1, 0)));
    let watched = Watched::start(&[&a, &b], None);
    assert_eq!(watched.leader().as_deref(), Some("a"));
    a.say(says("a", 1, 20));
    b.say(says("-", 1, 0));
    assert_eq!(watched.leader(), None);
    b.say(says("b", 2, 0));
    assert_eq!(watched.leader().as_deref(), Some("b"));
    let refused = watched.next();
    let News::Failed { url, words } = refused else { panic!("{refused:?}") };
    assert_eq!((url, &*words), (a.url().base, "it is at timeline 1, and 2 was seen before"));
}

#[test]
fn what_is_no_patroni_is_told_once_and_changes_nothing() {
    let a = Fake::start(says("a", 1, 0));
    let watched = Watched::start(&[&a], None);
    assert_eq!(watched.leader().as_deref(), Some("a"));
    let table = [
        ("503 {}", "it answers with status 503"),
        ("302 {}", "it answers with status 302, a redirect, which is not followed"),
        ("200 <html>", "the answer is no JSON: expected value at line 1 column 1"),
        ("200 {}", "the answer has no members: it is no Patroni"),
    ];
    for (answer, expected) in table {
        a.say(Some((answer.to_owned(), answer.to_owned())));
        // Soon, since somebody wants to know.
        watched.watch.look_now();
        let base = a.url().base;
        assert_eq!(watched.next(), News::Failed { url: base.clone(), words: expected.to_owned() });
        assert_eq!(watched.watch.view().and_then(|view| view.leader.clone()).as_deref(), Some("a"), "it is kept");
        a.say(says("a", 1, 0));
        watched.watch.look_now();
        assert_eq!(watched.next(), News::Back { url: base });
    }
}

#[test]
fn a_member_that_asks_for_a_password_gets_it() {
    let a = Fake::start(says("a", 1, 0));
    let watched = Watched::start(&[&a], Some(("bob", "open")));
    assert_eq!(watched.leader().as_deref(), Some("a"));
    let refused = Watched::start(&[&a], Some(("bob", "shut"))).next();
    let News::Failed { words, .. } = refused else { panic!("{refused:?}") };
    assert_eq!(words, "it answers with status 401: patroni_user may not ask");
}

#[test]
fn a_connection_is_used_again_and_haste_has_a_limit() {
    let a = Fake::start(says("a", 1, 0));
    let began = Instant::now();
    let watched = Watched::start(&[&a], None);
    assert_eq!(watched.leader().as_deref(), Some("a"));
    while a.asked.load(Ordering::SeqCst) < 10 {
        watched.watch.look_now();
        thread::yield_now();
        assert!(began.elapsed() < LONG);
    }
    // A request a look, and another one at the first: nine looks, and eight pauses between them.
    assert!(began.elapsed() >= HASTE * 8, "{:?}", began.elapsed());
    assert_eq!(a.connections.load(Ordering::SeqCst), 1);
}
