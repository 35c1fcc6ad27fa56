//! A session on its way to another process, in an online upgrade: between two transactions, with nothing under way.

use std::sync::Arc;

use connections::flow::Flow;
use machine::arrival::Identity;
use machine::upgrade::{MovedIncoming, MovedSession};
use queueing::classes::DEFAULT;
use session_state::parameters::{Parameters, Tracked};
use session_state::prepared::StatementNames;
use session_state::tracker::Tracker;
use session_state::unnamed::Unnamed;
use units::deadline::Armed;
use units::{ConnId, PoolId, Time};

use super::{Admission, Claim, ClientStatements, Incoming, Rest, Session, State};
use crate::caches::Caches;

impl Session {
    /// As another process gets it; `None`: it cannot move, or not now. What is under way on its server is not asked. `cancel_pid`: the
    /// process id that its client was sent.
    pub fn moved(&self, cancel_pid: i32, tracked: &Tracked) -> Option<MovedSession> {
        let is_torn = self.incoming.skip > 0 && self.incoming.rest == Rest::Forward;
        if self.identity.encryption.is_some() || !self.flow.is_clear() || is_torn {
            return None;
        }
        let (waiting, console) = match self.state {
            State::Waiting { since, notified, .. } => (Some((since, notified)), None),
            State::Console { rights, asked: false } => (None, Some(rights)),
            State::Idle { .. } | State::Linked { .. } => (None, None),
            State::Welcoming { .. } | State::Console { .. } | State::Leaving { .. } => return None,
        };
        let tracker = match &self.tracker {
            Some(tracker) => Some(tracker.moved()?),
            None => None,
        };
        let names = match &self.statements.names {
            Some(names) => Some(names.moved()?),
            None => None,
        };
        let unnamed = match &self.statements.unnamed {
            Some(unnamed) => unnamed.moved().ok()?,
            None => None,
        };
        let identity = &self.identity;
        Some(MovedSession {
            serial: identity.serial,
            database: Arc::clone(&identity.database),
            user: Arc::clone(&identity.user),
            peer: identity.peer,
            connected_at: identity.connected_at,
            request_at: self.request_at,
            cancel_pid,
            cancel_secret: identity.cancel_secret.clone(),
            console,
            parameters: self.parameters.by_name(tracked),
            reset_to: self.reset_to.as_ref().map(|first| first.by_name(tracked)),
            confirmed: self.confirmed,
            tracker,
            names,
            unnamed,
            incoming: MovedIncoming {
                inbox: self.incoming.inbox.clone(),
                skip: self.incoming.skip,
                is_skipping: self.incoming.skipping,
            },
            waiting,
            reports_limits: self.claim.reports_limits,
            deadline_ms: self.claim.begun_deadline_ms,
        })
    }

    /// Come from another process. One that waited there is idle at first, and has waited.
    #[must_use]
    pub fn of_moved(now: Time, name: ConnId, pool: PoolId, moved: MovedSession, caches: &mut Caches) -> Session {
        let parameters = caches.interned.intern(Parameters::of_names(&moved.parameters, &caches.tracked));
        let reset_to = moved.reset_to.map(|first| Parameters::of_names(&first, &caches.tracked));
        let names = moved.names.map(|names| {
            let (catalog, reader) = (&mut caches.catalog, &mut caches.reader);
            Box::new(StatementNames::of_moved(names, catalog, |text| reader.sketch(text, &parameters)))
        });
        let unnamed = moved.unnamed.map(|unnamed| Box::new(Unnamed::of_moved(&unnamed, &mut caches.catalog)));
        let waited = moved.waiting.map(|(since, _)| Admission::HasWaited { since });
        Session {
            state: match moved.console {
                Some(rights) => State::Console { rights, asked: false },
                None => State::Idle { since: now },
            },
            pool,
            identity: Arc::new(Identity {
                serial: moved.serial,
                name,
                database: moved.database,
                user: moved.user,
                peer: moved.peer,
                encryption: None,
                connected_at: moved.connected_at,
                cancel_secret: moved.cancel_secret,
            }),
            parameters,
            reset_to: reset_to.map(|first| caches.interned.intern(first)),
            confirmed: moved.confirmed,
            flow: Flow::default(),
            tracker: moved.tracker.map(|tracker| Box::new(Tracker::of_moved(tracker))),
            request_at: moved.request_at,
            progress_at: now,
            armed: Armed::default(),
            incoming: Incoming {
                inbox: moved.incoming.inbox,
                skip: moved.incoming.skip,
                rest: Rest::Discard,
                skipping: moved.incoming.is_skipping,
            },
            statements: ClientStatements { names, unnamed },
            claim: Claim {
                class: DEFAULT,
                standing: None,
                origin: None,
                admission: waited.unwrap_or_default(),
                permits: None,
                reports_limits: moved.reports_limits,
                begun_deadline_ms: moved.deadline_ms,
            },
        }
    }
}
