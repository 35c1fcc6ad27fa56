//! Shutdown: which sessions are closed at once, and when the shutdown is complete.

use link::session::State;
use machine::Step;
use machine::action::Action;
use machine::mail::Stop;

use crate::tables::Tables;

pub(crate) fn stop(tables: &mut Tables, stop: Stop) {
    if !tables.stopping.begin(stop) {
        return;
    }
    if !tables.stopping.refuses_new_work() {
        return;
    }
    for conn in tables.sessions.ids() {
        let queued = tables
            .sessions
            .get(conn)
            .is_some_and(|session| matches!(session.state(), State::Waiting { .. } | State::Welcoming { .. }));
        if queued {
            tables.agenda.refuse(conn, wire::sqlstate::ADMIN_SHUTDOWN, "server shutting down");
        }
    }
}

/// Reports once that a shutdown has nothing left to wait for on this worker.
pub(crate) fn finish_if_done(tables: &mut Tables, step: &mut Step<'_>) {
    // It was reported already, or there is no shutdown.
    let Some(stop) = tables.stopping.awaits() else { return };
    let done = match stop {
        Stop::Immediate => true,
        Stop::WaitForServers => tables.servers.iter().all(|(_, server)| server.session().is_none()),
        Stop::WaitForClients => {
            tables.sessions.iter().all(|(_, session)| matches!(session.state(), State::Console { .. }))
        }
    };
    if done {
        tables.stopping.finish();
        step.actions.push(Action::Finished);
    }
}
