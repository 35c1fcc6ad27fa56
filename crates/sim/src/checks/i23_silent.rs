//! I23: a server that owes an answer at a host that does not answer is closed in time, and none is closed for that while its host answers.

use machine::Look;
use units::Time;

use super::WorldView;
use crate::course::Finding;
use crate::history::History;
use crate::link::Link;
use crate::plan::Plan;
use crate::plan::hosts::Place;

/// How long after `host_timeout` it is closed at the latest: the prober is asked after a second.
const CLOSED_US: u64 = 1_500_000;

/// Late letters, late rounds, and what was still on its way when the host was frozen.
const SLACK_US: u64 = 200_000;

/// How long a question of the prober may wait for an answer, when its host answers again.
const ANSWERED_US: u64 = 1_000_000;

/// A server is closed, as its host does not answer.
pub(crate) fn check_closed(plan: &Plan, history: &History, place: Place, now: u64) -> Result<(), Finding> {
    match history.unanswering_at(place.host, now) {
        Some(at) if now <= at + ANSWERED_US + SLACK_US && plan.host_timeout_us().is_some() => Ok(()),
        at => Err((23, format!("a server at {place:?} is closed for silence, and the host was last silent at {at:?}"))),
    }
}

/// A host is frozen.
pub(crate) fn check_frozen(view: &WorldView<'_>, place: Place) -> Result<(), Finding> {
    // A prober that is not let in asks each 10 s.
    let is_asked = view.plan.probing.is_some_and(|probing| probing.is_let_in);
    // Nor are hosts asked that a RELOAD has taken out.
    let is_asked = is_asked && view.plan.address(place).is_some();
    let Some(timeout) = view.plan.host_timeout_us().filter(|_| is_asked) else { return Ok(()) };
    let since = view.histories[place.database].frozen.since;
    let is_overdue = |asked_at: Time| asked_at.0.max(since) + timeout + CLOSED_US + SLACK_US < view.now;
    for number in 0..view.plan.workers {
        let Some(node) = view.machines.worker_node(number) else { continue };
        let Some(worker) = node.worker().filter(|_| !node.finished) else { continue };
        let snapshot = worker.snapshot(Time(view.now), Look::Connections);
        let overdue = snapshot.servers.iter().find(|server| {
            let link = node.find(server.conn).and_then(|id| view.network.get(id));
            server.state == "active"
                && server.replication.is_none()
                && server.ends.host.port == place.port()
                && is_overdue(server.times.request_at)
                && link.is_some_and(|link| owes(view, link))
        });
        if let Some(server) = overdue {
            let asked_at = server.times.request_at.0;
            let text = format!(
                "worker {number}: {:?} owes an answer since {asked_at} at {place:?}, frozen since {since}",
                server.conn
            );
            return Err((23, text));
        }
    }
    Ok(())
}

/// Whether a process that is frozen has not read all that it was sent.
fn owes(view: &WorldView<'_>, link: &Link) -> bool {
    let crate::link::Peer::Postgres { process: Some(name), .. } = link.peer.who else { return false };
    let process = view.postgres.get(name.index).filter(|process| process.name() == name);
    let rests = process.is_none_or(|process| process.backend.is_in_copy());
    link.pooler.read && !rests && !link.down.is_empty()
}
