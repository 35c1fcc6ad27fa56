//! I22: who waits while no host can be used is told so when `failover_wait` is over, or is served soon after a host can be used again.
//!
//! A pool that may not open another server waits for one of its own, so its time counts from when it could.

use machine::snapshot::{PoolSnapshot, Snapshot};

use super::WorldView;
use super::i06_idle::{self, Beside};
use crate::course::{Finding, Stage};
use crate::plan::hosts::{HOSTS, Place};

/// How long until the prober asks a host at rest.
const AT_REST_US: u64 = 1_000_000;

/// Late letters, late rounds, and the pause of a second at most before all hosts are tried again.
const MARGIN_US: u64 = 2_000_000;

pub(crate) fn check(view: &WorldView<'_>, snapshot: &Snapshot, beside: &Beside) -> Result<(), Finding> {
    let (plan, settings) = (view.plan, &view.plan.settings);
    if !plan.probing.is_some_and(|probing| probing.is_let_in)
        || plan.standbys.is_empty()
        || view.stage != Stage::Working
        || !i06_idle::opens_in_time(view)
        // With limits a client may wait for another client.
        || crate::classes::have_maximum(settings)
        || crate::classes::are_limited(settings)
    {
        return Ok(());
    }
    let attempt_us = settings.global.servers.server_connect_timeout.unwrap_or_default().as_micros() as u64;
    for pool in snapshot.pools.iter().filter(|pool| pool.clients.waiting > 0) {
        let Some(number) = plan.number(&pool.key.database) else { continue };
        if !plan.wanted(&pool.key.database).wants_primary() {
            continue;
        }
        let settled_at = view.histories[number].settled_at(view.now).max(beside.full_at(pool.id));
        let since = settled_at.max(view.now - pool.maxwait_us);
        let waited = view.now - since;
        let unstruck = view.now - since.max(view.struck_at.unwrap_or(0));
        let wait = settings.databases.get(&*pool.key.database).and_then(|database| database.settings.failover_wait);
        let wait = wait.unwrap_or(settings.global.servers.failover_wait).as_micros() as u64;
        let text = |what: &str| format!("{:?}: somebody waits for {waited} µs since {since}, {what}", pool.key);
        match primaries(view, number) {
            0 if waited > wait + 2 * attempt_us + MARGIN_US => {
                return Err((22, text("and no host could be used")));
            }
            1 if is_up(view, number) && unstruck > AT_REST_US + MARGIN_US && !is_looked_at(pool) => {
                return Err((22, text("and there was one primary")));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether a server is there that will be given to somebody.
fn is_looked_at(pool: &PoolSnapshot) -> bool {
    pool.servers.tested > 0
}

/// How many hosts of a database accept writes and answer.
fn primaries(view: &WorldView<'_>, database: usize) -> usize {
    let is_primary = |host: &usize| {
        let place = Place { database, host: *host };
        view.plan.is_standby(place) == Some(false) && view.histories[database].is_usable(*host, view.now)
    };
    (0..HOSTS).filter(is_primary).count()
}

fn is_up(view: &WorldView<'_>, database: usize) -> bool {
    let (postgres, number) = (view.postgres, database as u16);
    !postgres.is_down(number, view.now) && !postgres.is_starting(number, view.now)
}
