//! A session on its way to another process, in an online upgrade: between two transactions, with nothing under way.

use std::sync::Arc;

use machine::arrival::Identity;
use machine::pids::PidKey;
use machine::upgrade::{MovedIdentity, MovedIncoming, MovedSession};
use session_state::parameters::{Parameters, Tracked};
use session_state::prepared::StatementNames;
use session_state::tracker::MovedTracker;
use session_state::unnamed::Unnamed;
use units::{ConnId, PoolId, Time};

use crate::caches::Caches;
use crate::session::{Admission, ClientStatements, Incoming, Newcomer, OwnParameters, Rest, Session, SessionState};

/// A session as another process gets it; `None`: it cannot move, or not now. What is under way on its server is not asked. `cancel_pid`: the
/// process id that its client was sent.
pub fn moved(session: &Session, cancel_pid: i32, tracked: &Tracked) -> Option<MovedSession> {
    // Who replicates stays with its own server, which may be in the middle of anything.
    let stays = session.identity.encryption.is_some() || session.identity.replication.is_some();
    if stays || !session.facts.flow.is_clear() || session.is_torn() || session.has_begun() {
        return None;
    }
    let (waiting, console) = match session.state() {
        SessionState::Waiting { since, notified, .. } => (Some((since, notified)), None),
        SessionState::Console { rights, asked: false } => (None, Some(rights)),
        SessionState::Idle { .. } | SessionState::Linked { .. } => (None, None),
        SessionState::Welcoming { .. }
        | SessionState::Opening { .. }
        | SessionState::Replicating { .. }
        // As in a transaction: it moves once its block is over.
        | SessionState::LostBlock { .. }
        | SessionState::Console { .. }
        | SessionState::Leaving { .. } => return None,
    };
    let tracker = match &session.facts.tracker {
        Some(tracker) => Some(MovedTracker::of(tracker)?),
        None => None,
    };
    let names = match &session.statements.names {
        Some(names) => Some(names.moved()?),
        None => None,
    };
    let unnamed = session.statements.unnamed.as_ref();
    if unnamed.is_some_and(|unnamed| !unnamed.can_move()) {
        return None;
    }
    Some(MovedSession {
        identity: identity_of(&session.identity, cancel_pid),
        request_at: session.request_at,
        console,
        parameters: session.parameters.by_name(tracked),
        reset_to: session.reset_to.as_ref().map(|first| first.by_name(tracked)),
        own: [session.own.now, session.own.at_login].map(|own| tracked.names_of(own)),
        confirmed: session.confirmed,
        tracker,
        names,
        unnamed: unnamed.and_then(|unnamed| unnamed.moved()),
        incoming: MovedIncoming {
            inbox: session.incoming.inbox.clone(),
            skip: session.incoming.skip,
            is_skipping: session.incoming.skipping,
            retries: session.facts.retries(),
        },
        waiting,
        reports_limits: session.facts.claim.reports_limits,
        deadline_ms: session.facts.claim.begun_deadline_ms,
    })
}

fn identity_of(identity: &Identity, cancel_pid: i32) -> MovedIdentity {
    MovedIdentity {
        serial: identity.serial,
        database: Arc::clone(&identity.database),
        user: Arc::clone(&identity.user),
        peer: identity.peer,
        connected_at: identity.connected_at,
        cancel_pid,
        cancel_secret: identity.cancel_secret.clone(),
    }
}

/// A session that comes from another process. One that waited there is idle at first, and has waited. `name`: its id here.
#[must_use]
pub fn arrived(now: Time, name: ConnId, pool: PoolId, moved: MovedSession, caches: &mut Caches) -> Session {
    let parameters = caches.interned.intern(Parameters::of_names(&moved.parameters, &caches.tracked));
    let reset_to = moved.reset_to.map(|first| Parameters::of_names(&first, &caches.tracked));
    let names = moved.names.map(|names| {
        let (catalog, reader) = (&mut caches.catalog, &mut caches.reader);
        Box::new(StatementNames::of_moved(names, catalog, &parameters, |text| reader.sketch(text, &parameters)))
    });
    let unnamed = moved.unnamed.map(|unnamed| Box::new(Unnamed::of_moved(&unnamed, &mut caches.catalog)));
    let MovedIdentity { serial, database, user, peer, connected_at, cancel_pid, cancel_secret } = moved.identity;
    let identity = Identity {
        serial,
        name,
        database,
        user,
        peer,
        encryption: None,
        connected_at,
        cancel_secret: cancel_secret.with_pid(cancel_pid),
        // Its client knows the process id of another process.
        pid_key: PidKey::default(),
        replication: None,
    };
    let mut session = Session::new(
        now,
        Newcomer {
            pool,
            identity: Arc::new(identity),
            parameters,
            tracker: moved.tracker.map(|tracker| Box::new(tracker.into_tracker(now))),
            console: moved.console,
            reports_limits: moved.reports_limits,
            deadline_ms: moved.deadline_ms,
        },
    );
    if moved.console.is_none() {
        session.let_in(now);
    }
    let [now, at_login] = moved.own.map(|names| caches.tracked.set_of(names.iter().map(String::as_bytes)));
    session.own = OwnParameters { now, at_login, edition: None };
    session.reset_to = reset_to.map(|first| caches.interned.intern(first));
    session.confirmed = moved.confirmed;
    session.request_at = moved.request_at;
    let MovedIncoming { inbox, skip, is_skipping, retries } = moved.incoming;
    session.incoming = Incoming { inbox, skip, rest: Rest::Discard, skipping: is_skipping };
    session.facts.set_retries(retries);
    session.statements = ClientStatements { names, unnamed };
    if let Some((since, _)) = moved.waiting {
        session.facts.claim.admission = Admission::HasWaited { since };
    }
    session
}
