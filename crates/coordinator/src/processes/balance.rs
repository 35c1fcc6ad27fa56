//! Divides the servers of a pool that is at its size among processes.
//!
//! Within a process workers of one pool lend each other servers; between two processes one server has to be closed before another can be
//! opened. Each process has a right to its sessions' part, and to one server at least, if need be in turns.

use std::collections::BTreeSet;

use machine::action::Actions;
use machine::mail::ToWorker;
use units::{PoolId, ProcessId, Time};

use super::state::Processes;
use crate::entry::Entry;
use crate::holders;
use crate::pools::Pools;
use crate::server_requests::ServerRequests;

/// One process, and what it has of a pool.
#[derive(Copy, Clone, Debug)]
struct Side {
    /// `None`: this process.
    process: Option<ProcessId>,
    wants: bool,
    sessions: u32,
    held: u32,
    /// The part of its sessions.
    share: u32,
}

/// Asks for one server of each pool at its size in which a process waits.
pub(crate) fn balance(
    now: Time,
    processes: &mut Processes,
    requests: &ServerRequests,
    pools: &mut Pools,
    blocked: &BTreeSet<PoolId>,
    actions: &mut Actions,
) {
    processes.balance_at = None;
    if !blocked.is_empty() {
        processes.balance_soon(now);
    }
    for &pool in blocked {
        let entry = &mut pools[pool];
        if entry.held.yielding(now).0 > 0 {
            continue;
        }
        let sides = sides(pool, entry, requests, processes.members());
        let giver = giver(&sides).and_then(|giver| entry.held.yields_of(now, giver.process));
        if let Some(holder) = giver {
            holders::post(holder, &entry.key, ToWorker::Recall { pool, busy: true }, actions);
        }
    }
}

/// This process and its members, in this order.
fn sides(
    pool: PoolId,
    entry: &Entry,
    requests: &ServerRequests,
    members: impl Iterator<Item = ProcessId>,
) -> Vec<Side> {
    let all: u32 = entry.sessions.values().sum();
    let of_member = |member: ProcessId| {
        let sessions = entry.sessions.of(member);
        let share = (entry.size * sessions).div_ceil(all.max(1)).max(u32::from(sessions > 0));
        let wants = requests.are_of(pool, Some(member));
        Side { process: Some(member), wants, sessions, held: entry.held.of(member), share }
    };
    let others: Vec<Side> = members.map(of_member).collect();
    let sum = |of: fn(&Side) -> u32| others.iter().map(of).sum::<u32>();
    let here = Side {
        process: None,
        wants: requests.are_of(pool, None),
        sessions: entry.sessions.workers().iter().sum(),
        held: entry.held.total() - sum(|side| side.held),
        share: entry.size.saturating_sub(sum(|side| side.share)),
    };
    [here].into_iter().chain(others).collect()
}

/// The process that gives a server back: of those that have more than their share, the one that has most beyond it; if there is none, and
/// the one that waits has no server, the one that has most.
fn giver(sides: &[Side]) -> Option<Side> {
    let has_a_right = |side: &&Side| {
        side.wants && (side.process.is_none() || side.sessions > 0 && (side.held < side.share || side.held == 0))
    };
    sides.iter().filter(has_a_right).find_map(|waiting| {
        let others = sides.iter().filter(|side| side.process != waiting.process && side.held > 0);
        let may_give = others.filter(|side| side.held > side.share || waiting.held == 0);
        may_give.max_by_key(|side| (side.held.saturating_sub(side.share), side.held)).copied()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ProcessId = ProcessId::Predecessor;
    const OTHER: ProcessId = ProcessId::Successor;

    fn side(process: Option<ProcessId>, wants: bool, (sessions, held, share): (u32, u32, u32)) -> Side {
        Side { process, wants, sessions, held, share }
    }

    #[test]
    fn a_process_without_a_server_gets_one_of_any_other_and_with_some_only_what_is_beyond_a_share() {
        let cases = [
            // Nobody waits.
            (
                [side(None, false, (1, 2, 1)), side(Some(ONE), false, (1, 0, 1)), side(Some(OTHER), false, (1, 0, 1))],
                None,
            ),
            // This process waits: the richest gives, or nobody, since it has one itself.
            (
                [side(None, true, (1, 0, 0)), side(Some(ONE), false, (1, 1, 1)), side(Some(OTHER), false, (1, 2, 1))],
                Some(Some(OTHER)),
            ),
            (
                [side(None, true, (1, 1, 1)), side(Some(ONE), false, (1, 1, 1)), side(Some(OTHER), false, (1, 1, 1))],
                None,
            ),
            // A member has none, and all others have their share: in turns.
            (
                [side(None, false, (1, 1, 1)), side(Some(ONE), true, (1, 0, 1)), side(Some(OTHER), false, (1, 0, 1))],
                Some(None),
            ),
            (
                [side(None, false, (1, 0, 0)), side(Some(ONE), true, (1, 0, 1)), side(Some(OTHER), true, (1, 1, 1))],
                Some(Some(OTHER)),
            ),
            // Beyond its share comes before most.
            (
                [side(None, true, (1, 0, 0)), side(Some(ONE), false, (9, 8, 8)), side(Some(OTHER), false, (1, 2, 1))],
                Some(Some(OTHER)),
            ),
            (
                [side(None, true, (1, 0, 0)), side(Some(ONE), false, (9, 2, 3)), side(Some(OTHER), false, (1, 1, 1))],
                Some(Some(ONE)),
            ),
            // One that has its share, or no session, has no right to more.
            (
                [side(None, false, (1, 2, 1)), side(Some(ONE), true, (1, 1, 1)), side(Some(OTHER), true, (0, 0, 0))],
                None,
            ),
        ];
        for (sides, expected) in cases {
            assert_eq!(giver(&sides).map(|side| side.process), expected, "{sides:?}");
        }
    }
}
