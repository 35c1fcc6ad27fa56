//! What clients are told that have applied for a home, and the log of them.

use machine::Settings;
use machine::action::Actions;
use machine::mail::{Applicant, Refusal, ToDoor};
use machine::observe::{About, Fact, Level, Peer, Topic};
use machine::processes::{ToMember, ToProcess};
use units::names::shown;
use units::{ConnId, PoolKey, ProcessId};

/// It gets none: its door is told, or the process in which it stays.
pub(crate) fn refuse(applicant: Applicant, why: Refusal, actions: &mut Actions) {
    match applicant {
        Applicant::Login { door, login } => actions.post_to_door(door, ToDoor::NotPlaced { login, why }),
        Applicant::Process { process, ticket } => {
            actions.post_to_process(process, ToProcess::ToMember(ToMember::NotAdmitted { ticket, why }));
        }
    }
}

/// Whether it is a client that stays in this other process.
pub(crate) fn stays_in(applicant: Applicant, other: ProcessId) -> bool {
    matches!(applicant, Applicant::Process { process, .. } if process == other)
}

/// No client has named this database before: it may be one of `*`.
pub(crate) fn log_database(settings: &Settings, login: ConnId, key: &PoolKey, peer: Peer, actions: &mut Actions) {
    let PoolKey { database, user } = key.clone();
    if settings.database(&database).is_some_and(|entry| entry.automatic) {
        let text = format!("registered new auto-database: {}", shown(&database));
        let about = About::Client {
            conn: login,
            name: login.name_of_login(),
            database: Some(database),
            user: Some(user),
            peer,
            application: None,
        };
        actions.tell(Fact::new(Level::Log, Topic::General, about, text));
    }
}
