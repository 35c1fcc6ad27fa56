//! The door's posts: it sends workers the clients that have logged in, and gives back places that no client uses.

use std::sync::Arc;

use machine::action::{Actions, Placed};
use machine::arrival::{Arrival, Identity};
use machine::mail::ToCoordinator;
use machine::pids::PidKey;
use machine::{CancelSecret, Settings};
use units::random::Random;
use units::{Life, PoolId, Serial, WorkerId};

use super::startup::Wish;
use super::{Login, Phase};

/// A client that has logged in, as its worker gets it.
pub(super) fn arrival(
    login: Login,
    wish: Wish,
    (placed, serial): (Placed, Serial),
    settings: &Settings,
    (pid_key, random): (PidKey, &mut Random),
) -> Arrival {
    let Login { name, peer, since: connected_at, .. } = login;
    let Phase::Applying { key, proved } = login.phase else { unreachable!("only a login that has applied is placed") };
    let cancel_secret = match settings.own_peer_id() {
        None => CancelSecret::new(wish.protocol, random),
        Some(own) => CancelSecret::of_peer(own, wish.protocol, random),
    };
    let Placed { worker, pool, homes, life } = placed;
    let identity = Identity {
        serial,
        name,
        database: wish.database,
        user: wish.user,
        peer,
        encryption: login.encryption.facts().cloned(),
        connected_at,
        cancel_secret,
        pid_key,
        replication: wish.replication,
    };
    Arrival {
        identity: Arc::new(identity),
        pool,
        worker,
        life,
        key,
        homes,
        console: wish.console,
        parameters: wish.parameters,
        stable_backend_pid: wish.stable_backend_pid,
        deadline_ms: wish.deadline_ms,
        reports_limits: wish.reports_limits,
        proved,
        leftover: login.inbox,
    }
}

/// Gives back a place at a worker.
pub(super) fn depart(pool: PoolId, worker: WorkerId, life: Life, user: Arc<str>, actions: &mut Actions) {
    actions.post_to_coordinator(ToCoordinator::Departed { pool, holder: worker.into(), life, user });
}
