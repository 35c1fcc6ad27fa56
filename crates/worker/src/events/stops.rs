//! Shutdown: which sessions are closed at once, and when the shutdown is complete.

use link::end_reason::EndReason;
use link::session::SessionState;
use machine::action::{Action, Actions};
use machine::mail::Stop;
use units::ConnId;

use crate::tables::owners::{Servers, Sessions};
use crate::tables::step::Step;
use crate::tables::stopping::Stopping;

/// A stop has begun.
pub(crate) fn refuse_waiting(sessions: &Sessions, step: &mut Step<'_>) {
    if !step.plan.stopping.refuses_new_work() {
        return;
    }
    for conn in sessions.ids() {
        let queued = sessions.get(conn).is_some_and(|session| {
            matches!(
                session.state(),
                SessionState::Waiting { .. } | SessionState::Welcoming { .. } | SessionState::Opening { .. }
            )
        });
        if queued {
            step.agenda.refuse(conn, EndReason::ShuttingDown);
        }
    }
}

/// The end of a round, in a shutdown that waits for transactions only: a session that is in none ends.
pub(crate) fn end_between_transactions(sessions: &Sessions, servers: &Servers, step: &mut Step<'_>, conn: ConnId) {
    // It may have moved to another process just now.
    let Some(session) = sessions.get(conn) else { return };
    let is_between = match session.state() {
        SessionState::Linked { server } => {
            // One that was closed in this step has its session's end on the agenda.
            let server = servers.get(server);
            server.is_none_or(|server| server.is_between_transactions() && !server.hold().is_on())
        }
        // A stream is no transaction: who replicates goes on from where it was when it comes back. A copy of the cluster is.
        SessionState::Replicating { server } => {
            let server = servers.get(server);
            server.is_none_or(|server| server.incoming().streams() || server.is_between_transactions())
        }
        SessionState::LostBlock { .. } | SessionState::Leaving { .. } => false,
        _ => true,
    };
    if is_between {
        step.agenda.refuse(conn, EndReason::ShuttingDown);
    }
}

/// Reports once that a shutdown has nothing left to wait for on this worker.
pub(crate) fn finish_if_done(sessions: &Sessions, servers: &Servers, stopping: &mut Stopping, actions: &mut Actions) {
    // It was reported already, or there is no shutdown.
    let Some(stop) = stopping.awaits() else { return };
    let done = match stop {
        Stop::Immediate => true,
        Stop::WaitForTransactions => sessions.is_empty(),
        Stop::WaitForServers => servers.iter().all(|(_, server)| server.session().is_none()),
        Stop::WaitForClients => {
            sessions.iter().all(|(_, session)| matches!(session.state(), SessionState::Console { .. }))
        }
    };
    if done {
        stopping.finish();
        actions.push(Action::Finished);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::followups::{Followup, SessionEnd};
    use crate::tables::scene::{POOL, Scene};

    fn is_finished(scene: &mut Scene) -> bool {
        let (tables, stopping) = (&scene.tables, &mut scene.plan.stopping);
        finish_if_done(&tables.sessions, &tables.servers, stopping, &mut scene.actions);
        scene.asked().iter().any(|action| matches!(action, Action::Finished))
    }

    fn stop(scene: &mut Scene, how: Stop) {
        assert!(scene.plan.stopping.begin(how));
        scene.run(|tables, step| refuse_waiting(&tables.sessions, step));
    }

    #[test]
    fn each_stop_waits_for_its_own() {
        let link = |scene: &mut Scene| {
            let (server, session, now) = (scene.idle_server(scene.now), scene.session(), scene.now);
            let pool = &mut scene.tables.pools[POOL];
            pool.hand_to(now, server, &mut scene.tables.servers[server], session, &mut Vec::new());
        };
        type Case = (&'static str, Stop, fn(&mut Scene), bool);
        let cases: [Case; 4] = [
            ("now", Stop::Immediate, |scene| _ = scene.session(), true),
            ("no server is linked", Stop::WaitForServers, |scene| _ = scene.session(), true),
            ("a client is there", Stop::WaitForClients, |scene| _ = scene.session(), false),
            ("no client is there", Stop::WaitForClients, |scene| _ = scene.idle_server(scene.now), true),
        ];
        for (case, how, prepare, expected) in cases {
            let mut scene = Scene::new(|_| ());
            prepare(&mut scene);
            assert!(!is_finished(&mut scene), "{case}: it was not stopped");
            stop(&mut scene, how);
            assert_eq!(is_finished(&mut scene), expected, "{case}");
            assert!(!is_finished(&mut scene), "{case}: it is reported once");
        }
        let mut scene = Scene::new(|_| ());
        link(&mut scene);
        stop(&mut scene, Stop::WaitForServers);
        assert!(!is_finished(&mut scene), "a server is linked");
    }

    #[test]
    fn sessions_that_wait_are_refused_where_no_new_work_is_taken() {
        for (how, refused) in [(Stop::WaitForClients, 0), (Stop::WaitForServers, 1)] {
            let mut scene = Scene::new(|_| ());
            scene.session();
            let waiter = scene.waiter(scene.now);
            stop(&mut scene, how);
            let ends = std::iter::from_fn(|| scene.agenda.next_followup());
            let ends: Vec<_> = ends
                .map(|followup| match followup {
                    Followup::End(session, end) if matches!(*end, SessionEnd::Refused(_)) => session,
                    other => panic!("{other:?}"),
                })
                .collect();
            assert_eq!(ends, vec![waiter; refused], "{how:?}");
        }
    }
}
