//! What a pool's servers begin with, from one worker to another.
//!
//! ```text
//!   RequestServer ──► the coordinator: a cap is reached ──► ShareReport to who has servers ──► Report
//!   servers begin with something else ──► Report to all others
//! ```
//!
//! Otherwise a client whose worker never had a server of the pool would wait in its login until one of another worker is free.

use std::num::NonZeroU32;
use std::sync::Arc;

use link::caches::Caches;
use link::pool::Pool;
use machine::mail::{SharedReport, ToWorker};
use session_state::login_report::LoginReport;
use session_state::parameters::Parameters;
use units::{PoolId, WorkerId};

use crate::sessions::definitions::other_workers;
use crate::sessions::welcome;
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::step::Step;

pub(crate) fn share(pools: &Pools, step: &mut Step<'_>, pool: PoolId, with: WorkerId) {
    // Its server may still be logging in, and then need not be waited for: the other worker has asked for one, too.
    let entry = pools.get(pool).filter(|entry| entry.welcome().is_known(false) && !entry.is_vacating(step.now));
    if let Some(shared) = entry.and_then(|entry| shared(entry, false)) {
        step.actions.post_to_worker(with, ToWorker::Report(Box::new(shared)));
    }
}

/// A server has logged in. `before`: the edition that was known until then.
pub(crate) fn spread(pools: &Pools, step: &mut Step<'_>, pool: PoolId, before: Option<NonZeroU32>) {
    // It is no other worker's, too.
    let Some(entry) = pools.get(pool).filter(|entry| entry.exchange().is_shared()) else { return };
    // Its server is to be replaced.
    let Some(shared) = shared(entry, true) else { return };
    if before.is_some_and(|edition| edition != shared.report.edition) {
        other_workers(step.plan).post(step.actions, || ToWorker::Report(Box::new(shared.clone())));
    }
}

fn shared(entry: &Pool, is_news: bool) -> Option<SharedReport> {
    let report = Arc::clone(entry.welcome().report()?);
    Some(SharedReport { pool: entry.id(), report, reported_by: entry.welcome().reported_by().cloned(), is_news })
}

/// Another worker has sent its report.
pub(crate) fn told(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    shared: &SharedReport,
) {
    let SharedReport { pool, report, reported_by, is_news } = shared;
    let (pool, is_news) = (*pool, *is_news);
    // The pool may not exist here.
    let Some(entry) = pools.get_mut(pool).filter(|entry| !entry.is_vacating(step.now)) else { return };
    // The other worker may not have known of a RECONNECT, or of the new entry, when it sent the report: then its servers are to be replaced.
    let is_older = reported_by.as_ref().is_some_and(|(reconnects, database)| entry.is_older((*reconnects, database)));
    let is_news = is_news || entry.welcome().is_stale();
    if entry.welcome().report().is_some() && (is_older || !is_news) {
        return;
    }
    entry.welcome_mut().take_shared(interned(step.caches, report), is_news, reported_by.as_ref());
    welcome::welcome_all(sessions, servers, pools, step, pool);
}

/// A lent server brings it along. `is_current`: that is not one that is to be replaced.
pub(crate) fn take_along(entry: &mut Pool, caches: &mut Caches, report: &LoginReport, is_current: bool) {
    entry.welcome_mut().take_along(is_current, || interned(caches, report));
}

fn interned(caches: &mut Caches, report: &LoginReport) -> LoginReport {
    let interned = &mut caches.interned;
    report.interned(|values| interned.intern(Parameters::clone(values)), &caches.tracked)
}

#[cfg(test)]
mod tests {
    use session_state::parameters::Tracked;

    use super::*;
    use crate::tables::scene::{POOL, Scene};

    /// A report of this time zone, from a worker that had obeyed `reconnects` orders.
    fn report(scene: &Scene, zone: &[u8], reconnects: u32, is_news: bool) -> SharedReport {
        let tracked = Tracked::new(&[]);
        let index = tracked.index(b"TimeZone").expect("it is always tracked");
        let values = Arc::new(tracked.empty().with(index, zone).expect("short"));
        let reported = vec![(b"TimeZone"[..].into(), zone.into())];
        let report = Arc::new(LoginReport::new(reported, Arc::clone(&values), values, &tracked));
        let database = Arc::clone(scene.tables.pools[POOL].database());
        SharedReport { pool: POOL, report, reported_by: Some((reconnects, database)), is_news }
    }

    fn known(scene: &Scene) -> (&[u8], bool) {
        let welcome = scene.tables.pools[POOL].welcome();
        let report = welcome.report().expect("there is one");
        (&*report.reported[0].1, welcome.is_stale())
    }

    #[test]
    fn a_report_from_before_a_reconnect_does_not_count() {
        let mut scene = Scene::new(|_| ());
        let told_of = |scene: &mut Scene, zone: &[u8], reconnects, is_news| {
            let shared = report(scene, zone, reconnects, is_news);
            scene.run(|tables, step| told(&mut tables.sessions, &mut tables.servers, &mut tables.pools, step, &shared));
        };
        told_of(&mut scene, b"UTC", 0, false);
        assert_eq!(known(&scene), (&b"UTC"[..], false));
        scene.configure(|settings| settings.orders.change(None, |all| all.reconnects += 1));
        scene.tables.pools[POOL].welcome_mut().become_stale();
        told_of(&mut scene, b"Asia/Tokyo", 0, true);
        assert_eq!(known(&scene), (&b"UTC"[..], true), "its servers are to be replaced");
        told_of(&mut scene, b"America/Lima", 1, false);
        assert_eq!(known(&scene), (&b"America/Lima"[..], false), "clients that log in wait for this");
        told_of(&mut scene, b"Asia/Tokyo", 1, false);
        assert_eq!(known(&scene), (&b"America/Lima"[..], false), "it is no news");
        // This worker does not know of the second RECONNECT yet.
        told_of(&mut scene, b"Africa/Cairo", 2, true);
        assert_eq!(known(&scene), (&b"Africa/Cairo"[..], false));
        assert!(scene.tables.pools[POOL].is_reported());
    }
}
