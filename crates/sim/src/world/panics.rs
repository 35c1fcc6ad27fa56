//! A worker panics in a step: the step's actions are dropped, all its connections are closed, and a new worker replaces
//! it.
//!
//! This follows `engine::recover`, except that the step always runs to its end first. The old worker and its actions
//! are dropped in both cases, so the point of the panic matters only for which clients can get an error.

use std::sync::Arc;

use machine::mail::Lost;
use machine::{Actions, Event, Mail, Place, ToWorker};
use pooling::Worker;
use units::{ConnId, Kind};

use super::World;
use super::rounds::close_link;
use crate::link::{LinkId, Peer};
use crate::machines::Machinery;

/// Facts about an event, taken before the machine handles it.
pub(super) struct AtStake {
    served: Option<ConnId>,
    lost: Option<Box<Lost>>,
    /// The connection in hand is a client's.
    client: bool,
    /// No panic happens at a request for a snapshot: the control plane would wait for the answer until a timeout, which
    /// the model does not have. Nor in the first step of a worker that replaces another: then the process ends, because
    /// the news in the event would be lost.
    may_panic: bool,
}

impl AtStake {
    pub(super) fn of(event: &Event<'_>) -> AtStake {
        let served = match event {
            Event::Received { conn, .. }
            | Event::Hangup { conn, .. }
            | Event::Blocked { conn }
            | Event::Drained { conn, .. }
            | Event::Opened { conn, .. }
            | Event::OpenFailed { conn, .. }
            | Event::Secured { conn, .. }
            | Event::Weighed { conn, .. }
            | Event::Computed { conn, .. }
            | Event::Answered { conn, .. } => Some(*conn),
            _ => None,
        };
        let mail = if let Event::Mail(mail) = event { Some(mail) } else { None };
        AtStake {
            served,
            lost: mail.and_then(Mail::if_lost),
            client: matches!(mail, Some(Mail::ToWorker(_, ToWorker::Arrive(_)))),
            may_panic: !matches!(event, Event::Mail(Mail::ToWorker(_, ToWorker::Look { .. })) | Event::Renewed { .. }),
        }
    }
}

/// Whether this machine panics now.
pub(super) fn is_now(world: &mut World, node: u16, at_stake: &AtStake) -> bool {
    let one_in = world.course.plan.faults.panics;
    let is_worker = world.pooler.machines.node(node).worker().is_some();
    let may = one_in > 0 && is_worker && world.course.is_working() && world.course.census.world.stops == 0;
    may && at_stake.may_panic && world.panics.below(one_in) == 0
}

/// The worker has panicked in a step with these actions.
pub(super) fn happen(world: &mut World, node: u16, at_stake: AtStake, actions: &Actions) {
    let World { course, pooler, panics, .. } = world;
    let entry = pooler.machines.node(node);
    let (Place::Worker(id), Some(worker)) = (entry.place, entry.worker()) else { return };
    course.census.world.panics += 1;
    course.note_fault();
    course.note(|| format!("worker {} panics, and is made anew", id.0));
    let notified = worker.clients_to_notify(actions.as_slice(), at_stake.served);
    let conns: Vec<(ConnId, LinkId)> =
        [Kind::Client, Kind::Server, Kind::Cancel].into_iter().flat_map(|kind| entry.all(kind)).collect();
    let settings = Arc::clone(&course.plan.settings);
    let fresh = Worker::new(id, course.plan.workers, settings, panics.bytes());
    let with_backlog: Vec<ConnId> =
        conns.iter().map(|(conn, _)| *conn).filter(|conn| !entry.backlog(*conn).is_empty()).collect();
    let entry = pooler.machines.node_mut(node);
    entry.machinery = Machinery::Worker(Box::new(fresh));
    entry.life = entry.life.next();
    let life = entry.life;
    pooler.machines.forget_shown(node);
    for (conn, link) in conns {
        world.pooler.machines.node_mut(node).forget(conn);
        end(world, link, notified.contains(&conn) && !with_backlog.contains(&conn));
    }
    if let Some(link) = world.adopting.take() {
        end(world, link, at_stake.client);
    }
    // The engine returns mail in the step that posts it, and drops it with the step.
    for letter in world.pooler.machines.node_mut(node).take_returned() {
        if let Some(link) = letter.carrying {
            end(world, link, false);
        }
    }
    world.step(node, Event::Renewed { life, lost: at_stake.lost }, &[]);
}

/// Closes a connection of the old worker; `is_notified`: its client gets an error.
fn end(world: &mut World, id: LinkId, is_notified: bool) {
    let World { course, pooler, crowd, .. } = world;
    let Some(link) = pooler.network.get_mut(id) else { return };
    let words = Worker::last_words();
    let can_hear = link.stands && !link.broken && !link.peer.closed && !link.pooler.end_delivered;
    if is_notified && can_hear && link.down.space() >= words.len() {
        link.down.write(&words);
    } else if let Peer::Client(index, number) = link.peer.who
        && let Some(client) = crowd.at_mut(index, number)
    {
        client.is_cut_off();
    }
    pooler.network.pump(course, id, false);
    close_link(world, id);
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::Exchange;
    use units::{PoolId, WorkerId};

    use crate::machines::Letter;
    use crate::plan::Plan;
    use crate::trace::Trace;
    use crate::wishes::Wishes;

    #[test]
    fn a_worker_that_replaces_another_does_not_panic_in_its_first_step() {
        let mut plan = Plan::new(&Wishes { seed: 1, workers: Some(2), ..Wishes::default() });
        plan.faults.panics = 2;
        let mut world = World::new(plan, Trace::new(false, false));
        let is_worker = |node: &u16| world.pooler.machines.node(*node).worker().is_some();
        let node = (0..).find(is_worker).expect("there are two");
        let counted = |world: &World| world.course.census.world.panics;
        for _ in 0..100 {
            let before = counted(&world);
            world.step(node, Event::RoundEnded, &[]);
            assert!(counted(&world) <= before + 1, "the news in the first step is lost");
        }
        assert!(counted(&world) > 30);
    }

    #[test]
    fn mail_that_was_returned_to_a_worker_ends_with_it() {
        let plan = Plan::new(&Wishes { seed: 1, workers: Some(2), ..Wishes::default() });
        let mut world = World::new(plan, Trace::new(false, false));
        let is_worker = |node: &u16| world.pooler.machines.node(*node).worker().is_some();
        let node = (0..).find(is_worker).expect("there are two");
        let mail = || {
            let begs = Exchange::Beg { pool: PoolId(1), from: WorkerId(0) };
            Mail::ToWorker(WorkerId(1), ToWorker::Exchange(begs))
        };
        for returned in [false, true] {
            let letter = Letter { from: node, at: 0, mail: mail(), carrying: None, returned };
            world.pooler.machines.deliver(&mut world.course, node, letter);
        }
        happen(&mut world, node, AtStake::of(&Event::RoundEnded), &Actions::new());
        let mut left = std::iter::from_fn(|| world.pooler.machines.node_mut(node).next_letter(0));
        assert_eq!(left.by_ref().map(|letter| letter.returned).collect::<Vec<_>>(), [false]);
    }
}
