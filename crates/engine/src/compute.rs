//! Slow computations on threads of their own: the key derivation of SCRAM takes a millisecond, as long as a hundred
//! transactions (`machine::work`).
//!
//! Every job is answered through the mailbox of the thread that submitted it. The queue needs no bound of its own: a
//! connection submits one job at a time, and logins are bounded.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use machine::Job;
use units::ConnId;

use crate::letter::{Letter, Letterbox};

/// Threads that compute. Two, so that one slow derivation with many iterations does not hold up all logins.
const THREADS: usize = 2;

struct JobRequest {
    conn: ConnId,
    job: Job,
    answer: Arc<Letterbox>,
}

/// The queue for jobs. The threads end when the last clone is dropped.
#[derive(Clone)]
pub(crate) struct Computers {
    queue: Sender<JobRequest>,
}

impl Computers {
    pub(crate) fn start() -> io::Result<Computers> {
        let (queue, asked) = channel();
        let asked = Arc::new(Mutex::new(asked));
        for _ in 0..THREADS {
            let asked = Arc::clone(&asked);
            std::thread::Builder::new().name("compute".to_owned()).spawn(move || compute(&asked))?;
        }
        Ok(Computers { queue })
    }

    pub(crate) fn submit(&self, conn: ConnId, job: Job, answer: &Arc<Letterbox>) {
        let asked = JobRequest { conn, job, answer: Arc::clone(answer) };
        // The threads live as long as this queue; a derivation that panics is caught below.
        let _ = self.queue.send(asked);
    }
}

fn compute(queue: &Mutex<Receiver<JobRequest>>) {
    loop {
        // The guard lives for the wait only: the other thread takes the next job while this one computes.
        let next = queue.lock().expect("receiving does not panic").recv();
        let Ok(JobRequest { conn, job, answer }) = next else { return };
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| job.run()));
        // A job that panics is a bug in `auth`; its login then ends by its deadline.
        if let Ok(done) = done {
            answer.insist(Letter::Computed { conn, done });
        }
    }
}
