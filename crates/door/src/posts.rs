//! What a door tells other machines besides its logins, and other processes: cancel requests, and places that are given back.

use std::sync::Arc;

use machine::action::Actions;
use machine::mail::{ToCoordinator, ToWorker};
use machine::peering::{self, PeerId};
use machine::pids;
use machine::sabotage::{Fault, does};
use machine::upgrade::{ToOther, ToPredecessor};
use units::{Life, PoolId, WorkerId};

use super::lookup::Turn;
use super::peers::Peers;

/// A client has sent a CancelRequest instead of a startup packet: it goes to the workers here, to the process that its key names, or
/// to both. Returns why it goes nowhere, for the log, if that can be known.
pub(super) fn cancel(peers: &mut Peers, turn: &mut Turn<'_>, pid: i32, secret: &[u8]) -> Option<String> {
    let owner = peering::owner(pid);
    let peer = Some(owner).filter(|id| turn.settings.peer(*id).is_some());
    // Keys that name no process look as if they named one: those from before there were peers, and servers' own process ids.
    let nameless = pids::from_virtual_pid(pid).is_some() || pids::may_be_real_pid(pid);
    if peer.is_none() || nameless {
        cancel_here(turn.settings.workers, peers.has_predecessor, pid, secret, turn.actions);
    }
    let Some(peer) = peer else {
        let is_strange = peering::is_ours(pid) && turn.settings.own_peer_id().is_some_and(|own| own != owner);
        return is_strange.then(|| format!("cancel request for peer {}, which is not configured", owner.0));
    };
    pass_on(peers, turn, peer, pid, secret.into())
}

fn pass_on(peers: &mut Peers, turn: &mut Turn<'_>, to: PeerId, pid: i32, mut secret: Box<[u8]>) -> Option<String> {
    if !peering::count_down(&mut secret) {
        return Some("cancel request was passed on too often".to_owned());
    }
    if does(turn.settings, Fault::PassOnTwice) {
        peers.pass_on(turn, to, pid, secret.clone());
    }
    peers.pass_on(turn, to, pid, secret);
    None
}

/// Passes a cancel request on to the workers that may know its key.
fn cancel_here(workers: u16, has_predecessor: bool, pid: i32, secret: &[u8], actions: &mut Actions) {
    let asked = match pids::from_virtual_pid(pid) {
        _ if has_predecessor => 0..workers,
        Some((worker, _)) => worker..(worker + 1).min(workers),
        // It may have been sent to a client on any worker: a server's own process id, or one that names this process.
        None if pids::may_be_real_pid(pid) || peering::is_ours(pid) => 0..workers,
        None => 0..0,
    };
    let mut secret: Box<[u8]> = secret.into();
    if peering::is_ours(pid) {
        peering::restore(&mut secret);
    }
    if has_predecessor {
        let told = ToPredecessor::Cancel { pid, secret: secret.clone() };
        actions.tell_other(ToOther::Predecessor(told));
    }
    for worker in asked {
        actions.post_to_worker(WorkerId(worker), ToWorker::Cancel { pid, secret: secret.clone() });
    }
}

/// Gives back a place at a worker.
pub(super) fn depart(pool: PoolId, worker: WorkerId, life: Life, user: Arc<str>, actions: &mut Actions) {
    actions.post_to_coordinator(ToCoordinator::Departed { pool, worker, life, user });
}
