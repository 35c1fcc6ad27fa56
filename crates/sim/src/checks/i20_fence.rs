//! I20: where the primary is wanted, nothing is sent to a server at another host than the one that its worker was given. Half a second
//! after a decision no server is open at another host that was opened before it.

use pooling::Worker;
use settings::{Fidelity, PoolMode};
use units::PoolKey;
use wire::frontend::tag;

use super::WorldView;
use crate::course::Finding;
use crate::link::Peer;
use crate::plan::Plan;
use crate::plan::hosts::Place;
use crate::process::Process;

/// How long after a decision all servers elsewhere are closed, late letters and long rounds included.
pub(crate) const CLOSED_US: u64 = 500_000;

/// A worker sends something to a process. `is_read`: that has read all that it was sent before.
pub(crate) fn check_sent(
    plan: &Plan,
    worker: &Worker,
    (process, is_read): (&Process, bool),
    bytes: &[u8],
) -> Result<(), Finding> {
    let is_fenced = process.serves() && bytes.first() != Some(&tag::TERMINATE);
    if !is_fenced || !plan.wanted(&process.dbname).wants_primary() {
        return Ok(());
    }
    let Some(database) = plan.settings.database(&process.dbname) else { return Ok(()) };
    let (view, place) = (worker.view(), process.place());
    match view.upstreams().primary(&database.hosts) {
        Some(primary) if primary.port != place.port() => {
            let tag = bytes.first().map_or(' ', |tag| char::from(*tag));
            Err((20, format!("{:?} is sent to {place:?}, and the primary is at {}", tag, primary.port)))
        }
        None if is_read
            && process.is_idle()
            && begins(plan, process)
            && view.upstreams().are_disputed(&database.hosts) =>
        {
            Err((20, format!("a transaction begins at {place:?}, and two hosts accept writes")))
        }
        _ => Ok(()),
    }
}

/// Whether a process that is idle is given to another client for each transaction.
fn begins(plan: &Plan, process: &Process) -> bool {
    let key = PoolKey { database: process.dbname.as_str().into(), user: process.user.as_str().into() };
    plan.settings.global.pools.pool_fidelity == Fidelity::Classic && plan.mode(&key) != PoolMode::Session
}

/// Half a second ago the primary of a database was decided.
pub(crate) fn check_closed(view: &WorldView<'_>, primary: Place, since: u64) -> Result<(), Finding> {
    let left = view.network.iter().find(|(_, link)| {
        let Peer::Postgres { database, process: Some(name) } = link.peer.who else { return false };
        let place = Place { database: database.into(), host: link.host };
        let wants = |name: &str| view.plan.wanted(name).wants_primary();
        link.serves
            && !link.pooler.closed
            && link.opened_at < since
            && place.database == primary.database
            && place != primary
            && link.pooler.counted.as_ref().is_some_and(|(name, _)| wants(name))
            && view.postgres.get(name.index).is_some_and(|process| process.name() == name)
    });
    match left {
        None => Ok(()),
        Some((_, link)) => {
            let place = Place { host: link.host, ..primary };
            Err((
                20,
                format!("{:?} is open at {place:?}, and the primary is {primary:?} since {since}", link.pooler.home),
            ))
        }
    }
}
