//! A worker that was made anew after a panic knows none of the pools that others write to it about: it passes such mail over.

use std::sync::Arc;

use machine::mail::{Exchange, ToWorker};
use machine::{Actions, Event, Machine, Mail, Settings};
use pooling::Worker;
use queueing::board::Board;
use units::{Life, PoolId, Time, WorkerId};

#[test]
fn it_is_passed_over() {
    let pool = PoolId(7);
    let about_it = || {
        [
            ToWorker::Received { pool, life: Life::default() },
            ToWorker::Recall { pool, busy: false },
            ToWorker::Recall { pool, busy: true },
            ToWorker::Inquire { pool },
            ToWorker::Dropped { pool, count: 1, reserve: false },
            ToWorker::Shrink { pool, count: 1 },
            ToWorker::Vacate { pool },
            ToWorker::Forget { pool },
            ToWorker::ShareReport { pool, with: WorkerId(1) },
            ToWorker::Count { pool, with_wait_events: true },
            ToWorker::Exchange(Exchange::Beg { pool, from: WorkerId(1) }),
        ]
    };
    for at in 0..about_it().len() {
        let mut worker = Worker::new(WorkerId(0), 2, Arc::new(Settings::default()), [2; 32]);
        let (board, mut actions) = (Board::new(2), Actions::new());
        let mail = about_it().into_iter().nth(at).expect("one of them");
        let words = format!("{mail:?}");
        worker.step(Time(1), &board, Event::Mail(Mail::ToWorker(WorkerId(0), mail)), &mut actions);
        assert_eq!(worker.check(), Ok(()), "{words}");
    }
}
