//! Clients of a ledger: every request has an id of its own, so that the ledger shows afterwards what became of it.
//!
//! ```text
//!   a third    blocks   begin; insert the id; 50 ms of the application's own work; update an account; commit
//!   a third    calls    one statement that writes both
//!   a third    idle     a call at the beginning, and one on the same connection at the end
//! ```
//!
//! A client whose connection ends opens another one, as an application would; a request is never repeated.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use client::{Answer, Gone};
use measure::statistics::Seeded;

use crate::seen::{Commits, IDS_OF_A_CLIENT, Kind, Request, Seen, Told, UNKNOWN};
use crate::session::{Access, Session, code_of};

/// Within a block, the application's own work: so that some clients are in a block at any time, on a fast machine too.
const WORKS: Duration = Duration::from_millis(50);
/// Between two requests of a client.
const THINKS_MS: usize = 300;
/// Before another login, after one that failed.
const LOGS_IN_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// How soon a client that thinks, or is idle, notices that the run ends.
const LOOKS_EVERY: Duration = Duration::from_millis(20);

/// State that all clients and the run share.
struct Shared {
    /// No new requests.
    closing: AtomicBool,
    /// No answers are awaited any more.
    cut: Arc<AtomicBool>,
    commits: Commits,
    began: Instant,
}

/// Running clients.
pub struct Clients {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<Seen>>,
}

impl Clients {
    /// # Errors
    /// The kernel has no more threads.
    pub(crate) fn start(access: &Access, count: usize, began: Instant) -> Result<Self, String> {
        let commits = Commits::none(count);
        let shared = Arc::new(Shared { closing: AtomicBool::default(), cut: Arc::default(), commits, began });
        let mut clients = Self { shared: Arc::clone(&shared), threads: Vec::new() };
        for number in 0..count {
            let random = Seeded::new(number as u64 + 1);
            let client = Client {
                number,
                kind: Kind::of(number),
                access: access.clone(),
                shared: Arc::clone(&shared),
                random,
                seen: Seen::default(),
                next: 0,
            };
            let thread = thread::Builder::new().stack_size(256 << 10).spawn(move || client.live());
            clients.threads.push(thread.map_err(|error| format!("cannot start a client: {error}"))?);
        }
        Ok(clients)
    }

    #[must_use]
    pub fn commits(&self) -> &Commits {
        &self.shared.commits
    }

    /// Lets all finish what they do, but not for longer than `grace`; what each has seen.
    #[must_use]
    pub fn finish(mut self, grace: Duration) -> Vec<Seen> {
        self.shared.closing.store(true, Ordering::Relaxed);
        let until = Instant::now() + grace;
        while Instant::now() < until && !self.threads.iter().all(JoinHandle::is_finished) {
            thread::sleep(LOOKS_EVERY);
        }
        self.shared.cut.store(true, Ordering::Relaxed);
        self.threads.drain(..).map(|thread| thread.join().expect("clients do not panic")).collect()
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Relaxed);
        self.shared.cut.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

struct Client {
    number: usize,
    kind: Kind,
    access: Access,
    shared: Arc<Shared>,
    random: Seeded,
    seen: Seen,
    next: u64,
}

impl Client {
    fn live(mut self) -> Seen {
        let mut session = None;
        if self.kind == Kind::Idle {
            self.rest(&mut session);
            return self.seen;
        }
        while !self.is_closing() {
            if let Some(mut open) = session.take().or_else(|| self.log_in()) {
                session = self.request(&mut open).then_some(open);
                self.think();
            }
        }
        self.seen
    }

    /// An idle client: what it had at the beginning must be there at the end.
    fn rest(&mut self, session: &mut Option<Session>) {
        while session.is_none() && !self.is_closing() {
            *session = self.log_in().and_then(|mut open| self.request(&mut open).then_some(open));
        }
        while !self.is_closing() {
            thread::sleep(LOOKS_EVERY);
        }
        let Some(open) = session else { return };
        self.seen.idle_lost = !self.request(open);
    }

    fn log_in(&mut self) -> Option<Session> {
        match Session::open(&self.access, Some(&self.shared.cut)) {
            Ok(session) => Some(session),
            Err(_) if self.is_cut() => None,
            Err(refusal) => {
                *self.seen.login_errors.entry(refusal.code()).or_default() += 1;
                thread::sleep(LOGS_IN_AGAIN_AFTER);
                None
            }
        }
    }

    fn think(&mut self) {
        let until = Instant::now() + Duration::from_millis((THINKS_MS / 2 + self.random.below(THINKS_MS)) as u64);
        while Instant::now() < until && !self.is_closing() {
            thread::sleep(LOOKS_EVERY);
        }
    }

    /// One request. Whether the connection is still there.
    fn request(&mut self, session: &mut Session) -> bool {
        let id = self.number as u64 * IDS_OF_A_CLIENT + self.next;
        self.next += 1;
        let sent = self.now();
        let (mut told, is_open) = match self.kind {
            Kind::Block => block(session, id, self.number),
            Kind::Call | Kind::Idle => call(session, id, self.number),
        };
        let told_at = self.now();
        if !is_open && self.is_cut() {
            self.seen.hung = true;
            if matches!(told, Told::Ended { .. }) {
                told = Told::Nothing;
            }
        } else if !is_open {
            self.seen.dropped += 1;
        }
        if told == Told::Committed {
            self.shared.commits.note(self.number, told_at);
        }
        self.seen.requests.push(Request { client: self.number, id, kind: self.kind, sent, told_at, told });
        is_open
    }

    fn now(&self) -> f64 {
        self.shared.began.elapsed().as_secs_f64()
    }

    fn is_closing(&self) -> bool {
        self.shared.closing.load(Ordering::Relaxed)
    }

    fn is_cut(&self) -> bool {
        self.shared.cut.load(Ordering::Relaxed)
    }
}

/// The result of a block, and whether the connection is still there.
fn block(session: &mut Session, id: u64, client: usize) -> (Told, bool) {
    let insert = format!("insert into ledger values ({id}, {client})");
    let update = format!("update accounts set entries = entries + 1 where client = {client}");
    for (number, statement) in ["begin", &insert, &update].into_iter().enumerate() {
        let first = number == 0;
        if statement == update {
            thread::sleep(WORKS);
        }
        match session.query(statement) {
            Err(gone) => return (Told::Ended { code: code_of(&gone) }, false),
            Ok(answer) => {
                let Some(error) = answer.errors.first() else { continue };
                let code = error.sqlstate.clone();
                return (Told::Failed { code, first }, session.query("rollback").is_ok());
            }
        }
    }
    verdict(session.query("commit"), "COMMIT", false)
}

/// The result of a lone statement, and whether the connection is still there.
fn call(session: &mut Session, id: u64, client: usize) -> (Told, bool) {
    let sql = "with entry as (insert into ledger values ($1::bigint, $2::int) returning client) \
               update accounts set entries = entries + 1 from entry where accounts.client = entry.client";
    verdict(session.extended(sql, &[&id.to_string(), &client.to_string()]), "UPDATE 1", true)
}

fn verdict(answer: Result<Answer, Gone>, wanted: &str, first: bool) -> (Told, bool) {
    let answer = match answer {
        Ok(answer) => answer,
        Err(gone) => return (Told::Unknown { code: code_of(&gone) }, false),
    };
    let told = match (answer.errors.first(), answer.tags.last()) {
        (Some(error), _) if error.sqlstate == UNKNOWN => Told::Unknown { code: UNKNOWN.to_owned() },
        (Some(error), _) => Told::Failed { code: error.sqlstate.clone(), first },
        (None, Some(tag)) if tag == wanted => Told::Committed,
        (None, tag) => Told::Failed { code: tag.cloned().unwrap_or_else(|| "no tag".to_owned()), first },
    };
    (told, true)
}

#[cfg(test)]
mod tests {
    use client::ServerError;

    use super::*;

    fn error(sqlstate: &str) -> Answer {
        let [severity, message] = ["ERROR", ""].map(str::to_owned);
        Answer { errors: vec![ServerError { severity, sqlstate: sqlstate.to_owned(), message }], ..Answer::default() }
    }

    #[test]
    fn only_the_right_tag_is_a_commit_and_only_what_may_be_one_is_unknown() {
        let tag = |tag: &str| Ok(Answer { tags: vec![tag.to_owned()], ..Answer::default() });
        assert_eq!(verdict(tag("COMMIT"), "COMMIT", false), (Told::Committed, true));
        let failed = |code: &str, first| Told::Failed { code: code.to_owned(), first };
        assert_eq!(verdict(tag("ROLLBACK"), "COMMIT", false), (failed("ROLLBACK", false), true));
        assert_eq!(verdict(Ok(error("25006")), "UPDATE 1", true), (failed("25006", true), true));
        let unknown = |code: &str| Told::Unknown { code: code.to_owned() };
        assert_eq!(verdict(Ok(error("08007")), "COMMIT", false), (unknown("08007"), true));
        assert_eq!(
            verdict(Ok(error("08007")), "UPDATE 1", true),
            (unknown("08007"), true),
            "a lone statement was sent"
        );
        let gone = Gone { error: error("57P01").errors.pop(), how: std::io::ErrorKind::UnexpectedEof.into() };
        assert_eq!(verdict(Err(gone), "COMMIT", false), (unknown("57P01"), false));
    }
}
