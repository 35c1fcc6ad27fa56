//! A machine that panics ends one connection, or all of its own, never the process.

use std::io::Write;

use machine::{Action, Event, Lost, Mail, Place, Stop, ToWorker};
use units::{Life, WorkerId};

use super::{Script, Stage, ping, rest};

/// Panics at `p`; at `u` it becomes unsound before.
fn fragile(place: Place) -> Option<Script> {
    let is_door = matches!(place, Place::Door(_));
    is_door.then(|| -> Script {
        Box::new(|actor, event| {
            if let Event::Received { bytes, .. } = event {
                if bytes.starts_with(b"u") {
                    actor.fault = Some("I5 does not hold".to_owned());
                }
                assert!(!bytes.starts_with(b"p") && !bytes.starts_with(b"u"), "asked for");
            }
            if let Event::Hangup { .. } = event {
                actor.note("end");
            }
            actor.echo(event)
        })
    })
}

// The script is taken out while it runs, so after a panic the machine merely echoes, which is enough here.
#[test]
fn a_panic_of_a_sound_machine_ends_one_connection() {
    let stage = Stage::open(1, fragile);
    let (mut other, mut stream) = (stage.tcp(), stage.tcp());
    ping(&mut other, b"before");
    stream.write_all(b"p").expect("it reads");
    assert_eq!(rest(&mut stream), b"");
    ping(&mut other, b"after");
    assert_eq!(stage.counters().panics, 1);
}

#[test]
fn a_panic_of_an_unsound_machine_ends_its_connections_and_it_begins_anew() {
    let stage = Stage::open(1, fragile);
    let (mut other, mut stream) = (stage.tcp(), stage.tcp());
    ping(&mut other, b"before");
    stream.write_all(b"u").expect("it reads");
    assert_eq!(rest(&mut stream), b"");
    assert_eq!(rest(&mut other), b"");
    ping(&mut stage.tcp(), b"anew");
    stage.expect_log("I5 does not hold");
}

#[test]
fn a_panic_of_an_unsound_coordinator_ends_the_process() {
    let stage = Stage::open(1, |place| {
        (place == Place::Coordinator).then(|| -> Script {
            Box::new(|actor, event| {
                let told = matches!(event, Event::Mail(_));
                actor.fault = told.then(|| "I12 does not hold".to_owned());
                assert!(!told, "asked for");
                Vec::new()
            })
        })
    });
    let mut stream = stage.tcp();
    ping(&mut stream, b"before");
    stage.engine().handle().post(Mail::stop(Place::Coordinator, Stop::WaitForClients));
    assert_eq!(rest(&mut stream), b"");
    stage.expect_log("I12 does not hold");
}

#[test]
fn a_coordinator_that_panics_each_time_ends_the_process() {
    // It panics in the event of its deadline, which stays due.
    let stage = Stage::open(1, |place| {
        (place == Place::Coordinator).then(|| -> Script {
            Box::new(|actor, event| {
                match event {
                    Event::Mail(_) => actor.deadline = Some(units::Time::ZERO),
                    Event::DeadlineReached => panic!("asked for"),
                    _ => {}
                }
                Vec::new()
            })
        })
    });
    let mut stream = stage.tcp();
    ping(&mut stream, b"before");
    stage.engine().handle().post(Mail::stop(Place::Coordinator, Stop::WaitForClients));
    assert_eq!(rest(&mut stream), b"");
    stage.expect_log("4 times in a row");
    stage.expect_log("the process ends");
}

#[test]
fn what_the_coordinator_asked_for_before_it_panicked_is_carried_out() {
    for workers in [1, 2] {
        let stage = Stage::open(workers, |place| {
            Some(Box::new(move |actor, event| match event {
                Event::Mail(Mail::ToCoordinator(_)) => {
                    let noted = ToWorker::RenewalNoted { life: Life(1) };
                    actor.asked.push(Action::Post { mail: Mail::ToWorker(WorkerId(0), noted), carrying: None });
                    panic!("asked for")
                }
                Event::Mail(Mail::ToWorker(_, ToWorker::RenewalNoted { life })) => {
                    actor.note(format!("{place:?} noted {life:?}"));
                    Vec::new()
                }
                _ => actor.echo(event),
            }))
        });
        stage.engine().handle().post(Mail::stop(Place::Coordinator, Stop::WaitForClients));
        assert_eq!(stage.expect("Worker"), "Worker(WorkerId(0)) noted Life(1)");
        ping(&mut stage.tcp(), b"the process goes on");
        assert_eq!(stage.counters().panics, 1);
    }
}

#[test]
fn a_panic_over_what_is_not_one_connections_makes_the_machine_anew() {
    // It panics in the event of its deadline.
    let made = std::sync::atomic::AtomicU32::new(0);
    let stage = Stage::open(1, move |place| {
        let is_first = matches!(place, Place::Door(_)) && made.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0;
        is_first.then(|| -> Script {
            Box::new(|actor, event| {
                if let Event::Received { .. } = event {
                    actor.deadline = Some(units::Time::ZERO);
                }
                actor.echo(event)
            })
        })
    });
    let mut stream = stage.tcp();
    stream.write_all(b"x").expect("it reads");
    assert_eq!(rest(&mut stream), b"x");
    ping(&mut stage.tcp(), b"anew");
    assert_eq!(stage.counters().panics, 1);
}

#[test]
fn the_next_machine_learns_what_was_lost_with_the_one_before_and_that_it_is_to_stop() {
    let stage = Stage::open(1, |place| {
        matches!(place, Place::Worker(_)).then(|| -> Script {
            Box::new(|actor, event| {
                match event {
                    Event::Mail(Mail::ToWorker(_, ToWorker::Renewed { .. })) => panic!("asked for"),
                    Event::Mail(Mail::ToWorker(_, ToWorker::Stop(stop))) => actor.note(format!("stop {stop:?}")),
                    Event::Renewed { life, lost } => match lost.as_deref() {
                        Some(Lost::Renewal { worker, .. }) => actor.note(format!("{life:?} lost news of {worker:?}")),
                        other => actor.note(format!("{other:?}")),
                    },
                    _ => {}
                }
                Vec::new()
            })
        })
    });
    let handle = stage.engine().handle();
    handle.stop(Stop::WaitForServers);
    stage.expect("stop WaitForServers");
    let news = ToWorker::Renewed { worker: WorkerId(1), life: Life(1) };
    handle.post(Mail::ToWorker(WorkerId(0), news));
    assert_eq!(stage.expect("Life(1) lost"), "Life(1) lost news of WorkerId(1)");
    stage.expect("stop WaitForServers");
    assert_eq!(stage.counters().panics, 1);
}
