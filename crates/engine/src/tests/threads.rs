//! Between threads: messages with sockets, returned messages, computations, deadlines, answers.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use auth::Secret;
use machine::arrival::{Arrival, Identity};
use machine::startup_parameters::StartupParameters;
use machine::{Action, Event, Exchange, Job, Look, Mail, Peer, Place, Snapshot, Stop, ToCoordinator, ToWorker};
use units::{Kind, Life, PoolId, PoolKey, Serial, Time, WorkerId};

use super::{PATIENCE, Script, Stage, ping};
use crate::host::{VISITORS_ALONE_MAX, VISITORS_MAX};
use crate::letter::OFFERED_MAX;

/// A message with a number for a test's worker.
fn cancelling(pid: i32) -> Mail {
    Mail::ToWorker(WorkerId(0), ToWorker::Cancel { pid, secret: [0; 4].into(), ticket: None })
}

/// A message that a full mailbox returns.
fn begging(to: WorkerId, pool: PoolId) -> Mail {
    Mail::ToWorker(to, ToWorker::Exchange(Exchange::Beg { pool, from: to }))
}

/// The door sends every client to a worker with its first byte. The worker notes that byte and echoes what follows.
fn sending_on(to: WorkerId) -> impl Fn(Place) -> Option<Script> + Send + Sync {
    move |place| {
        Some(match place {
            Place::Door(_) => Box::new(move |actor, event| match *event {
                Event::Received { conn, bytes } => {
                    let mail = Mail::ToWorker(
                        to,
                        ToWorker::Cancel { pid: i32::from(bytes[0]), secret: [0; 4].into(), ticket: None },
                    );
                    vec![Action::Post { mail, carrying: Some(conn) }]
                }
                _ => actor.echo(event),
            }),
            Place::Worker(_) | Place::Coordinator => Box::new(|actor, event| match *event {
                Event::Mail(Mail::ToWorker(_, ToWorker::Cancel { pid, .. })) => {
                    let conn = actor.fresh(Kind::Client);
                    actor.note(format!("{:?} adopts with {pid}", actor.place));
                    vec![Action::Adopt { conn }]
                }
                _ => actor.echo(event),
            }),
        })
    }
}

#[test]
fn a_client_moves_to_its_worker_with_what_it_has_sent() {
    for workers in [1, 3] {
        let home = WorkerId(workers - 1);
        let stage = Stage::open(workers, sending_on(home));
        let mut stream = stage.tcp();
        stream.write_all(b"!").expect("it reads");
        assert_eq!(stage.expect("Worker"), format!("{:?} adopts with 33", Place::Worker(home)));
        for _ in 0..100 {
            ping(&mut stream, b"served at home");
        }
        drop(stream);
    }
}

#[test]
fn a_busy_reader_costs_its_writers_no_wake() {
    let stage = Stage::open(2, sending_on(WorkerId(0)));
    for _ in 0..50 {
        let mut stream = stage.tcp();
        stream.write_all(b"!").expect("it reads");
        stage.expect("Worker");
        ping(&mut stream, b"x");
    }
    let counters = stage.counters();
    // Each message wakes at most once. Wakes are received as often as sent, except for those by letters of the control
    // plane.
    assert!(counters.wakes_sent <= 50, "{counters:?}");
    assert!(counters.wakes_taken >= counters.wakes_sent, "{counters:?}");
}

/// The worker is blocked until the test releases it. The door fills the worker's mailbox, and takes its client back.
fn refusing(go_on: Receiver<()>) -> impl Fn(Place) -> Option<Script> + Send + Sync {
    let go_on = Arc::new(Mutex::new(go_on));
    let begging = || begging(WorkerId(0), PoolId(0));
    move |place| {
        let go_on = Arc::clone(&go_on);
        Some(match place {
            Place::Door(_) => Box::new(move |actor, event| match *event {
                Event::Received { conn, bytes: b"fill" } => {
                    let full = (0..OFFERED_MAX + 1).map(|_| Action::Post { mail: begging(), carrying: None });
                    full.chain([Action::Post { mail: begging(), carrying: Some(conn) }]).collect()
                }
                Event::Returned(Exchange::Beg { .. }) => {
                    let conn = actor.fresh(Kind::Login);
                    actor.note("returned");
                    vec![Action::Adopt { conn }]
                }
                _ => actor.echo(event),
            }),
            Place::Worker(WorkerId(0)) => Box::new(move |actor, event| {
                if let Event::Mail(Mail::ToWorker(_, ToWorker::Cancel { .. })) = event {
                    actor.note("stands still");
                    let _ = go_on.lock().expect("one waits").recv_timeout(PATIENCE);
                }
                Vec::new()
            }),
            Place::Worker(_) | Place::Coordinator => Box::new(|_, _| Vec::new()),
        })
    }
}

#[test]
fn a_full_mailbox_gives_the_message_back_with_its_socket() {
    let (sender, go_on): (Sender<()>, _) = channel();
    let stage = Stage::open(2, refusing(go_on));
    // It is blocked with one message taken out.
    stage.engine().handle().post(cancelling(0));
    stage.expect("stands still");
    let mut stream = stage.tcp();
    stream.write_all(b"fill").expect("it reads");
    stage.expect("returned");
    stage.expect("returned");
    ping(&mut stream, b"still mine");
    drop(sender);
    let counters = stage.counters();
    assert_eq!(counters.returned, 2);
}

/// A session from the door.
fn arriving() -> Mail {
    let name = super::conn(Kind::Login, 0, 0);
    let (database, user): (Arc<str>, Arc<str>) = ("d".into(), "u".into());
    let identity = Identity {
        serial: Serial(1),
        name,
        database: Arc::clone(&database),
        user: Arc::clone(&user),
        peer: Peer::Unix { pid: 1, uid: 1 },
        encryption: None,
        connected_at: Time::ZERO,
        replication: None,
        cancel_secret: machine::CancelSecret::Short([0; 4]),
        pid_key: machine::pids::PidKey::default(),
    };
    let arrival = Arrival {
        identity: Arc::new(identity),
        pool: PoolId(0),
        worker: WorkerId(0),
        life: Life::default(),
        key: PoolKey { database, user },
        homes: 1,
        console: None,
        parameters: StartupParameters::default(),
        stable_backend_pid: None,
        deadline_ms: 0,
        reports_limits: false,
        proved: Arc::default(),
        leftover: Vec::new(),
    };
    Mail::ToWorker(WorkerId(0), ToWorker::Arrive(Box::new(arrival)))
}

/// So many sessions arrive at a worker at once: three times as many as are served in a round.
const MANY: usize = VISITORS_MAX * 3;

/// A stage where [`MANY`] sessions arrive at a worker, followed by one last letter.
fn many_arrive(last: fn() -> Mail) -> Stage {
    let (sender, go_on): (Sender<()>, _) = channel();
    let go_on = Arc::new(Mutex::new(go_on));
    let stage = Stage::open(2, move |place| {
        let go_on = Arc::clone(&go_on);
        let mut arrived = 0;
        Some(match place {
            Place::Door(_) => Box::new(move |actor, event| match *event {
                Event::Received { bytes: b"many", .. } => {
                    let letters = (0..MANY).map(|_| arriving()).chain([last()]);
                    let posts = letters.map(|mail| Action::Post { mail, carrying: None });
                    posts.chain(actor.echo(event)).collect()
                }
                _ => actor.echo(event),
            }),
            Place::Worker(WorkerId(0)) => Box::new(move |actor, event| {
                match event {
                    Event::Mail(Mail::ToWorker(_, ToWorker::Cancel { pid: 1, .. })) => {
                        actor.note("stands still");
                        let _ = go_on.lock().expect("one waits").recv_timeout(PATIENCE);
                    }
                    Event::Mail(Mail::ToWorker(_, ToWorker::Arrive(_))) => {
                        arrived += 1;
                        actor.note(format!("arrived {arrived}."));
                    }
                    Event::Mail(_) => actor.note(format!("letters before the last: {arrived}.")),
                    _ => {}
                }
                Vec::new()
            }),
            Place::Worker(_) | Place::Coordinator => Box::new(|_, _| Vec::new()),
        })
    });
    // It is blocked until all are there.
    stage.engine().handle().post(cancelling(1));
    stage.expect("stands still");
    ping(&mut stage.tcp(), b"many");
    drop(sender);
    stage
}

#[test]
fn many_new_clients_are_accepted_a_few_in_a_round() {
    let stage = many_arrive(|| cancelling(2));
    stage.expect("letters before the last: 0.");
    stage.expect(&format!("arrived {MANY}."));
}

#[test]
fn a_worker_stops_after_accepting_all_new_clients() {
    let stage = many_arrive(|| Mail::stop(Place::Worker(WorkerId(0)), Stop::WaitForClients));
    stage.expect(&format!("letters before the last: {MANY}."));
}

/// In how many rounds a door reads what [`MANY`] clients have sent while it was blocked. `others_at_work`: a client of
/// the worker on the same thread has sent something too.
fn rounds_of_many(others_at_work: bool) -> usize {
    let (go_on, waits): (Sender<()>, _) = channel();
    let waits = Arc::new(Mutex::new(waits));
    let stage = Stage::open(1, move |place| {
        let waits = Arc::clone(&waits);
        let is_door = matches!(place, Place::Door(_));
        if !is_door {
            return sending_on(WorkerId(0))(place);
        }
        let mut sends_on = sending_on(WorkerId(0))(place)?;
        Some(Box::new(move |actor, event| {
            match *event {
                Event::Received { bytes: b"wait", .. } => {
                    actor.note("stands still");
                    let _ = waits.lock().expect("one waits").recv_timeout(PATIENCE);
                }
                Event::Received { bytes: b"x", .. } => actor.note(format!("read at {:?}", actor.now)),
                _ => return sends_on(actor, event),
            }
            Vec::new()
        }))
    });
    let mut at_work = stage.tcp();
    at_work.write_all(b"!").expect("it reads");
    stage.expect("Worker");
    let (mut first, mut clients) = (stage.tcp(), Vec::new());
    stage.expect("accept");
    for _ in 0..MANY {
        clients.push(stage.tcp());
        stage.expect("accept");
    }
    first.write_all(b"wait").expect("it reads");
    stage.expect("stands still");
    if others_at_work {
        at_work.write_all(b"?").expect("it will read");
    }
    for client in &mut clients {
        client.write_all(b"x").expect("it will read");
    }
    drop(go_on);
    let times: BTreeSet<String> = (0..MANY).map(|_| stage.expect("read at")).collect();
    times.len()
}

const _: () = assert!(VISITORS_MAX < MANY && MANY <= VISITORS_ALONE_MAX);

#[test]
fn while_others_work_only_a_few_logins_are_read_in_a_round() {
    assert_eq!(rounds_of_many(false), 1);
    assert_eq!(rounds_of_many(true), 2, "a few in the first, the others in the next");
}

#[test]
fn a_computation_returns_to_its_worker() {
    let stage = Stage::open(1, |place| {
        let is_door = matches!(place, Place::Door(_));
        is_door.then(|| -> Script {
            Box::new(|actor, event| match event {
                Event::Received { conn, .. } => {
                    let secret = Secret::parse("open sesame");
                    let job = Job::CheckPlain {
                        secret: Box::new(secret),
                        user: "ali".to_owned(),
                        given: b"open sesame".to_vec(),
                    };
                    vec![Action::Compute { conn: *conn, job }]
                }
                Event::Computed { done, .. } => {
                    actor.note(format!("{done:?}"));
                    Vec::new()
                }
                _ => actor.echo(event),
            })
        })
    });
    stage.tcp().write_all(b"?").expect("it reads");
    assert_eq!(stage.expect("Checked"), "Checked(true)");
}

#[test]
fn a_deadline_is_reported_when_it_has_passed_and_not_before() {
    let stage = Stage::open(1, |place| {
        let is_worker = matches!(place, Place::Worker(_));
        is_worker.then(|| -> Script {
            let mut due = None;
            Box::new(move |actor, event| {
                match event {
                    Event::Mail(Mail::ToWorker(_, ToWorker::Cancel { .. })) => {
                        due = Some(actor.now + Duration::from_millis(30));
                        actor.deadline = due;
                    }
                    Event::DeadlineReached => {
                        actor.note(format!("late: {}", due.is_some_and(|due| due <= actor.now)));
                        actor.deadline = None;
                    }
                    _ => {}
                }
                Vec::new()
            })
        })
    });
    stage.engine().handle().post(cancelling(0));
    assert_eq!(stage.expect("late"), "late: true");
    // A wait for a deadline is one wait.
    assert!(stage.counters().rounds < 10);
}

#[test]
fn neighbours_on_one_thread_write_to_each_other_without_a_wait() {
    let stage = Stage::open(1, |_| {
        Some(Box::new(move |actor, event| match event {
            Event::Mail(Mail::ToWorker(_, ToWorker::Received { pool, .. })) => {
                let mail =
                    Mail::ToCoordinator(ToCoordinator::Opened { pool: PoolId(pool.0 + 1), holder: WorkerId(0).into() });
                vec![Action::Post { mail, carrying: None }]
            }
            Event::Mail(Mail::ToCoordinator(ToCoordinator::Opened { pool, .. })) if pool.0 < 99 => {
                let mail =
                    Mail::ToWorker(WorkerId(0), ToWorker::Received { pool: PoolId(pool.0 + 1), life: Life::default() });
                vec![Action::Post { mail, carrying: None }]
            }
            Event::Mail(Mail::ToCoordinator(ToCoordinator::Opened { pool, .. })) => {
                actor.note(format!("done {}", pool.0));
                Vec::new()
            }
            _ => Vec::new(),
        }))
    });
    let mail = Mail::ToWorker(WorkerId(0), ToWorker::Received { pool: PoolId(0), life: Life::default() });
    stage.engine().handle().post(mail);
    stage.expect("done 99");
    assert!(stage.counters().rounds < 10);
}

#[test]
fn every_worker_shows_itself_in_order() {
    let stage = Stage::open(3, |place| {
        Some(Box::new(move |_, event| match (place, event) {
            (Place::Worker(worker), Event::Mail(Mail::ToWorker(_, ToWorker::Look { ticket, .. }))) => {
                let snapshot = Snapshot { worker: Some(worker), ..Snapshot::default() };
                vec![Action::Report { ticket: *ticket, snapshot: Box::new(snapshot) }]
            }
            _ => Vec::new(),
        }))
    });
    let seen: Vec<_> =
        stage.engine().handle().look(Look::Connections, PATIENCE).iter().map(|snapshot| snapshot.worker).collect();
    assert_eq!(seen, [0, 1, 2].map(|worker| Some(WorkerId(worker))));
    let threads: Vec<_> = stage.engine().handle().counters(PATIENCE).iter().map(|counted| counted.worker).collect();
    assert_eq!(threads, [None, Some(WorkerId(0)), Some(WorkerId(1)), Some(WorkerId(2))]);
}

#[test]
fn a_thread_that_stands_still_does_not_answer() {
    let (go_on, wait) = channel::<()>();
    let wait = Mutex::new(Some(wait));
    let stage = Stage::open(2, move |place| {
        let wait =
            (place == Place::Worker(WorkerId(1))).then(|| wait.lock().expect("not poisoned").take()).flatten()?;
        Some(Box::new(move |_, event| {
            if matches!(event, Event::Mail(..)) {
                let _ = wait.recv();
            }
            Vec::new()
        }))
    });
    let handle = stage.engine().handle();
    assert!(handle.answers(PATIENCE));
    handle.kill(WorkerId(1), ToWorker::KillClient { conn: units::ConnId::from_bits(7), serial: Serial(1) });
    assert!(!handle.answers(Duration::from_millis(200)));
    drop(go_on);
    assert!(handle.answers(PATIENCE));
}
