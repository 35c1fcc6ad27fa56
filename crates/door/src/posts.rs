//! What a door tells other machines besides its logins, and other processes: cancel requests, and places that are given back.

use std::sync::Arc;

use machine::action::Actions;
use machine::mail::{ToCoordinator, ToWorker};
use machine::observe::{Level, Topic};
use machine::peering::{self, PeerId};
use machine::{Settings, pids};
use units::{ConnId, Life, PoolId, Time, WorkerId};

use super::Door;

/// Where a cancel request goes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Route {
    /// The process that its key names.
    peer: Option<PeerId>,
    /// To the workers here: the key may have been given out by this process.
    here: bool,
}

impl Route {
    fn find(settings: &Settings, pid: i32) -> Route {
        let peer = Some(peering::owner(pid)).filter(|id| settings.peer(*id).is_some());
        // Keys that name no process look as if they named one: those from before there were peers, and servers' own process ids.
        let nameless = pids::from_virtual_pid(pid).is_some() || pids::may_be_real_pid(pid);
        Route { peer, here: peer.is_none() || nameless }
    }
}

impl Door {
    /// A client has sent a CancelRequest instead of a startup packet.
    pub(super) fn cancel(&mut self, now: Time, conn: ConnId, pid: i32, secret: &[u8], actions: &mut Actions) {
        let Route { peer, here } = Route::find(&self.settings, pid);
        if here {
            cancel_here(self.settings.workers, pid, secret, actions);
        }
        let Some(peer) = peer else {
            let owner = peering::owner(pid);
            if peering::is_ours(pid) && self.settings.own_peer_id().is_some_and(|own| own != owner) {
                let text = format!("closing because: cancel request for peer {}, which is not configured", owner.0);
                self.tell(conn, Level::Log, Topic::Disconnections, &text, actions);
            }
            return;
        };
        let mut secret: Box<[u8]> = secret.into();
        if peering::count_down(&mut secret) {
            self.pass_on(now, actions, |peers, turn| peers.pass_on(turn, peer, pid, secret));
        } else {
            let text = "closing because: cancel request was passed on too often";
            self.tell(conn, Level::Log, Topic::Disconnections, text, actions);
        }
    }
}

/// Passes a cancel request on to the workers that may know its key.
fn cancel_here(workers: u16, pid: i32, secret: &[u8], actions: &mut Actions) {
    let asked = match pids::from_virtual_pid(pid) {
        Some((worker, _)) => worker..(worker + 1).min(workers),
        // It may have been sent to a client on any worker: a server's own process id, or one that names this process.
        None if pids::may_be_real_pid(pid) || peering::is_ours(pid) => 0..workers,
        None => 0..0,
    };
    let mut secret: Box<[u8]> = secret.into();
    if peering::is_ours(pid) {
        peering::restore(&mut secret);
    }
    for worker in asked {
        actions.post_to_worker(WorkerId(worker), ToWorker::Cancel { pid, secret: secret.clone() });
    }
}

/// Gives back a place at a worker.
pub(super) fn depart(pool: PoolId, worker: WorkerId, life: Life, user: Arc<str>, actions: &mut Actions) {
    actions.post_to_coordinator(ToCoordinator::Departed { pool, worker, life, user });
}
