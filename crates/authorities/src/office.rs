//! The queue of questions, and the threads that take them from it.
//!
//! Threads are started when there is more to ask than they are, and stay. They have a name, by which the methods check that
//! they run on one of them: they wait for others for as long as it takes.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use machine::{Inquiry, Outside, Verdict};
use units::heap;
use units::limits::{INQUIRIES_MAX, INQUIRY_BYTES_MAX};

use crate::keys::Keys;
use crate::trust::Trust;
use crate::{ldap, token};

/// The name of the threads.
const NAME: &str = "authority";

/// What is kept for somebody who has left is kept for so long at most, unless all threads are busy.
const SWEPT_AFTER: Duration = Duration::from_secs(1);

/// Who hears the verdict.
type Answer = Box<dyn FnOnce(Verdict) + Send>;

/// Where questions are asked. The threads end some time after it is dropped.
pub struct Office {
    shared: Arc<Shared>,
    threads_max: usize,
}

struct Shared {
    queue: Mutex<Queue>,
    has_more: Condvar,
    remembered: Remembered,
}

/// What the methods know from questions before.
#[derive(Default)]
struct Remembered {
    trust: Trust,
    keys: Keys,
    #[cfg(feature = "gssapi")]
    half_done: crate::gss::HalfDone,
}

impl Remembered {
    /// Drops what was kept for those who have left. Whether there are others.
    fn sweep(&self) -> bool {
        #[cfg(feature = "gssapi")]
        return self.half_done.sweep();
        #[cfg(not(feature = "gssapi"))]
        false
    }
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Question>,
    /// What those that wait weigh.
    bytes: usize,
    threads: usize,
    idle: usize,
    is_closed: bool,
    /// Whether something is kept for those who may leave.
    keeps: bool,
}

struct Question {
    inquiry: Inquiry,
    until: Instant,
    answer: Answer,
}

impl Office {
    /// At most so many questions are asked at one time.
    #[must_use]
    pub fn new(threads_max: usize) -> Office {
        let shared = Shared { queue: Mutex::default(), has_more: Condvar::new(), remembered: Remembered::default() };
        Office { shared: Arc::new(shared), threads_max }
    }

    /// Asks. `answer` gets the verdict, on another thread or at once; not if nobody waits for it any more.
    pub fn ask(&self, inquiry: Inquiry, answer: Answer) {
        let until = Instant::now() + inquiry.within;
        let mut removed = Vec::new();
        self.take(Question { inquiry, until, answer }, &mut removed);
        for (question, verdict) in removed {
            (question.answer)(verdict);
        }
    }

    /// Queues a question, and starts a thread if there are too few. `removed`: those that are not asked, and why.
    fn take(&self, question: Question, removed: &mut Vec<(Question, Verdict)>) {
        let mut queue = self.shared.lock();
        queue.push(question, removed);
        if queue.idle >= queue.waiting.len() || queue.threads >= self.threads_max {
            self.shared.has_more.notify_one();
            return;
        }
        let shared = Arc::clone(&self.shared);
        match thread::Builder::new().name(NAME.to_owned()).spawn(move || shared.work()) {
            Ok(_) => queue.threads += 1,
            // Those that are there have one more to do.
            Err(_) if queue.threads > 0 => {}
            Err(error) => {
                let verdict = Verdict::Unreachable(format!("there is no thread to ask on: {error}"));
                while let Some(question) = queue.pop() {
                    removed.push((question, verdict.clone()));
                }
            }
        }
    }
}

impl Queue {
    /// Adds a question. What is then too much gives way: at first those of clients who have left, who hear nothing of it;
    /// then the heaviest, of several the last one, so that a few long passwords do not keep others from asking.
    fn push(&mut self, question: Question, removed: &mut Vec<(Question, Verdict)>) {
        self.bytes += question.weight();
        self.waiting.push_back(question);
        if !self.is_too_much() {
            return;
        }
        self.waiting.retain(|question| question.inquiry.is_awaited());
        self.bytes = self.waiting.iter().map(Question::weight).sum();
        while self.is_too_much() {
            let last = self.waiting.len() - 1;
            let heaviest = (0..=last).max_by_key(|&index| self.waiting[index].weight()).unwrap_or(last);
            let index = if self.bytes > INQUIRY_BYTES_MAX { heaviest } else { last };
            let question = self.waiting.remove(index).expect("too much is something");
            self.bytes -= question.weight();
            removed.push((question, Verdict::Busy));
        }
    }

    fn is_too_much(&self) -> bool {
        self.waiting.len() > INQUIRIES_MAX || self.bytes > INQUIRY_BYTES_MAX
    }

    fn pop(&mut self) -> Option<Question> {
        let question = self.waiting.pop_front()?;
        self.bytes -= question.weight();
        Some(question)
    }
}

impl Question {
    /// The memory that it takes. Names that it shares with its login count, too: they stay when that has left.
    fn weight(&self) -> usize {
        let Inquiry { user, database, given, ca_file, .. } = &self.inquiry;
        let names = [Some(user), Some(database), ca_file.as_ref()].into_iter().flatten();
        let names: usize = names.map(|name| heap::of_name(name)).sum();
        size_of::<Question>() + heap::taken(given.text().len() + given.message().len()) + names
    }
}

impl Drop for Office {
    fn drop(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.has_more.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("nothing panics while it holds this lock")
    }

    fn work(&self) {
        while let Some(Question { inquiry, until, answer }) = self.next() {
            if !inquiry.is_awaited() {
                continue;
            }
            let found = catch_unwind(AssertUnwindSafe(|| check(&inquiry, until, &self.remembered)));
            // A panic is a bug in a method, and no reason to let anybody in.
            answer(found.unwrap_or_else(|_| Verdict::Unreachable("the question has failed".to_owned())));
            // Looked up under the lock: who looks before another and writes after it would write what no longer holds.
            let mut queue = self.lock();
            let kept_before = std::mem::replace(&mut queue.keeps, self.remembered.sweep());
            if queue.keeps && !kept_before {
                // One that is idle must not sleep past what it has to sweep; this thread may be busy by then.
                self.has_more.notify_one();
            }
        }
    }

    /// Waits for a question. `None`: there will be none.
    fn next(&self) -> Option<Question> {
        let mut queue = self.lock();
        loop {
            if queue.is_closed {
                return None;
            }
            if let Some(question) = queue.pop() {
                return Some(question);
            }
            queue.idle += 1;
            let timeout = if queue.keeps { SWEPT_AFTER } else { Duration::MAX };
            let woken = self.has_more.wait_timeout(queue, timeout);
            queue = woken.expect("nothing panics while it holds this lock").0;
            queue.idle -= 1;
            queue.keeps = queue.keeps && self.remembered.sweep();
        }
    }
}

/// Asks, and waits for the answer.
///
/// # Panics
/// On a thread that has other things to do than to wait.
fn check(inquiry: &Inquiry, until: Instant, remembered: &Remembered) -> Verdict {
    assert_eq!(thread::current().name(), Some(NAME), "others are asked on threads of the office only");
    let Remembered { trust, keys, .. } = remembered;
    match &inquiry.outside {
        Outside::Ldap(directory) => ldap::check(directory, inquiry, until, trust),
        Outside::OAuth(provider) => token::check(provider, inquiry, until, keys),
        #[cfg(feature = "pam")]
        Outside::Pam(service) => crate::pam::check(service, inquiry),
        // Refused when the file is read.
        #[cfg(not(feature = "pam"))]
        Outside::Pam(_) => Verdict::Unreachable("this program was built without PAM".to_owned()),
        #[cfg(feature = "gssapi")]
        Outside::Gss(_) => remembered.half_done.check(inquiry),
        #[cfg(not(feature = "gssapi"))]
        Outside::Gss(_) => Verdict::Unreachable("this program was built without GSSAPI".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use auth::Password;
    use machine::Evidence;
    use std::net::TcpListener;
    use std::sync::mpsc::{Receiver, TryRecvError, channel};

    use super::*;

    /// Only a defect takes this long.
    const LONG: Duration = Duration::from_secs(600);

    /// A server that accepts and says nothing, until it is dropped.
    fn silent() -> (TcpListener, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        (listener, port)
    }

    fn inquiry(port: u16, asker: &Arc<()>, within: Duration) -> Inquiry {
        let directory = format!("ldapserver=127.0.0.1 ldapport={port} ldapprefix=uid=");
        Inquiry {
            outside: Outside::Ldap(Arc::new(hba::read_directory(&directory).expect("it is one"))),
            user: "ann".into(),
            database: "shop".into(),
            given: Evidence::Text(Password::new("secret")),
            address: None,
            ca_file: None,
            within,
            asker: Arc::downgrade(asker),
        }
    }

    fn ask(office: &Office, inquiry: Inquiry) -> Receiver<Verdict> {
        let (sender, answers) = channel();
        office.ask(inquiry, Box::new(move |verdict| _ = sender.send(verdict)));
        answers
    }

    #[test]
    fn who_does_not_answer_in_time_lets_nobody_in() {
        let ((_listener, port), office, asker) = (silent(), Office::new(2), Arc::new(()));
        let answers = ask(&office, inquiry(port, &asker, Duration::from_millis(50)));
        let verdict = answers.recv().expect("there is a verdict");
        assert!(matches!(&verdict, Verdict::Unreachable(why) if why.contains("no answer in time")), "{verdict:?}");
    }

    #[test]
    fn who_is_not_there_lets_nobody_in() {
        let (listener, port) = silent();
        drop(listener);
        let (office, asker) = (Office::new(2), Arc::new(()));
        let verdict = ask(&office, inquiry(port, &asker, LONG)).recv().expect("there is a verdict");
        assert!(matches!(&verdict, Verdict::Unreachable(why) if why.contains("refused")), "{verdict:?}");
    }

    #[test]
    fn who_has_left_is_not_asked_about() {
        let ((listener, port), office) = (silent(), Office::new(1));
        let (stays, leaves) = (Arc::new(()), Arc::new(()));
        // The one thread is busy with the first; the second leaves meanwhile.
        let first = ask(&office, inquiry(port, &stays, LONG));
        let accepted = listener.accept().expect("the first is asked about");
        let second = ask(&office, inquiry(port, &leaves, LONG));
        let third = ask(&office, inquiry(port, &stays, LONG));
        drop(leaves);
        drop(accepted);
        assert!(matches!(first.recv(), Ok(Verdict::Unreachable(_))));
        // It is the third's, and the second has no verdict.
        drop(listener.accept().expect("another is asked about"));
        assert!(matches!(third.recv(), Ok(Verdict::Unreachable(_))));
        assert!(second.recv().is_err());
    }

    #[test]
    fn a_full_queue_answers_at_once() {
        let ((listener, port), office, asker) = (silent(), Office::new(1), Arc::new(()));
        let kept: Vec<_> = (0..=INQUIRIES_MAX)
            .map(|number| {
                let answers = ask(&office, inquiry(port, &asker, LONG));
                let accepted = (number == 0).then(|| listener.accept().expect("the first is asked about"));
                (answers, accepted)
            })
            .collect();
        assert!(kept.iter().all(|(answers, _)| answers.try_recv().is_err()));
        let verdict = ask(&office, inquiry(port, &asker, LONG)).try_recv();
        assert_eq!(verdict, Ok(Verdict::Busy));
    }

    /// Keeps the one thread busy.
    fn busy(office: &Office, listener: &TcpListener, port: u16, asker: &Arc<()>) -> (Receiver<Verdict>, impl Sized) {
        let answers = ask(office, inquiry(port, asker, LONG));
        (answers, listener.accept().expect("the first is asked about"))
    }

    fn with_password(port: u16, asker: &Arc<()>, len: usize) -> Inquiry {
        let given = Evidence::Text(Password::new("x".repeat(len)));
        Inquiry { given, ..inquiry(port, asker, LONG) }
    }

    #[test]
    fn who_has_left_takes_no_room_in_the_queue() {
        let ((listener, port), office, asker) = (silent(), Office::new(1), Arc::new(()));
        let _first = busy(&office, &listener, port, &asker);
        let leaves = Arc::new(());
        let left: Vec<_> = (0..INQUIRIES_MAX).map(|_| ask(&office, with_password(port, &leaves, 1))).collect();
        drop(leaves);
        let verdict = ask(&office, inquiry(port, &asker, LONG)).try_recv();
        assert_eq!(verdict, Err(TryRecvError::Empty), "it waits for its turn");
        assert!(left.iter().all(|answers| answers.try_recv() == Err(TryRecvError::Disconnected)));
    }

    #[test]
    fn the_queue_is_bounded_by_bytes_and_the_heaviest_gives_way() {
        let ((listener, port), office, asker) = (silent(), Office::new(1), Arc::new(()));
        let _first = busy(&office, &listener, port, &asker);
        let light = ask(&office, with_password(port, &asker, 10));
        let heavy: Vec<_> = (0..INQUIRIES_MAX / 2).map(|_| ask(&office, with_password(port, &asker, 65_530))).collect();
        let heavier = ask(&office, with_password(port, &asker, 65_535 * 2)).try_recv();
        assert_eq!(heavier, Ok(Verdict::Busy));
        let waits = |answers: &&Receiver<Verdict>| answers.try_recv() == Err(TryRecvError::Empty);
        let kept = heavy.iter().filter(waits).count();
        assert!((40..INQUIRY_BYTES_MAX / 65_536).contains(&kept), "{kept}");
        let another = ask(&office, with_password(port, &asker, 10));
        assert_eq!((waits(&&light), waits(&&another)), (true, true));
        let queue = office.shared.lock();
        let bytes: usize = queue.waiting.iter().map(Question::weight).sum();
        assert_eq!((queue.bytes, bytes <= INQUIRY_BYTES_MAX), (bytes, true));
    }

    #[test]
    fn passwords_of_those_who_have_left_are_bounded() {
        let ((listener, port), office, asker) = (silent(), Office::new(1), Arc::new(()));
        let _first = busy(&office, &listener, port, &asker);
        for _ in 0..INQUIRIES_MAX {
            // It connects, sends a password and closes.
            _ = ask(&office, with_password(port, &Arc::new(()), 65_535));
        }
        let kept =
            office.shared.lock().waiting.iter().map(|question| question.inquiry.given.text().len()).sum::<usize>();
        assert!(kept <= INQUIRY_BYTES_MAX, "{kept}");
    }

    #[test]
    fn no_more_threads_are_started_than_may_be() {
        let ((listener, port), office, asker) = (silent(), Office::new(3), Arc::new(()));
        let _answers: Vec<_> = (0..10).map(|_| ask(&office, inquiry(port, &asker, LONG))).collect();
        let _accepted: Vec<_> = (0..3).map(|_| listener.accept().expect("three are asked about at once")).collect();
        assert_eq!(office.shared.lock().threads, 3);
        assert_eq!(office.shared.lock().waiting.len(), 7);
    }

    #[test]
    #[should_panic(expected = "others are asked on threads of the office only")]
    fn nobody_is_asked_on_another_thread() {
        let asker = Arc::new(());
        check(&inquiry(1, &asker, Duration::from_secs(1)), Instant::now(), &Remembered::default());
    }
}
