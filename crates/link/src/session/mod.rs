//! A client's conversation. It refers to things of its worker by ids only.
//!
//! Its states are in [`states`], and drawn in `docs/states.md`.

mod accessors;
mod parts;
pub mod states;

use std::sync::Arc;

use connections::flow::Flow;
use machine::About;
use machine::arrival::{ConsoleRights, Identity};
use queueing::classes::DEFAULT;
use session_state::parameters::{Parameters, Tracked};
use session_state::state::ListenerWait;
use session_state::tracker::Tracker;
use units::deadline::Armed;
use units::{ConnId, PoolId, StatementRow, Time};

pub use parts::{Admission, Claim, ClientStatements, Incoming, OwnParameters, Rest};
pub use states::{SessionState, WaitFor};

use crate::resendable::{BegunBlock, Retried};
use crate::special::{Facts, Special, Watched};

/// One client after login.
#[derive(Debug)]
pub struct Session {
    state: SessionState,
    pub(crate) pool: PoolId,
    pub(crate) identity: Arc<Identity>,
    pub(crate) parameters: Arc<Parameters>,
    /// What it was told that servers begin with, and which of its parameters it has set itself.
    pub(crate) own: OwnParameters,
    /// The values that a RESET brings back, if the client began with parameters of its own.
    pub(crate) reset_to: Option<Arc<Parameters>>,
    /// A server has accepted these parameters once. Before that, the client's messages wait for the answer to the SETs.
    pub(crate) confirmed: bool,
    pub(crate) facts: Watched<SessionFacts>,
    pub(crate) request_at: Time,
    /// When the last byte moved, in either direction.
    pub(crate) progress_at: Time,
    pub(crate) armed: Armed,
    pub(crate) incoming: Incoming,
    pub(crate) statements: ClientStatements,
    /// The statement that was answered last, for the console.
    pub(crate) last_statement: StatementRow,
}

/// The parts of a session that may make its link special.
#[derive(Debug)]
pub struct SessionFacts {
    pub(crate) flow: Flow,
    /// Present while there is session state to follow.
    pub(crate) tracker: Option<Box<Tracker>>,
    pub(crate) claim: Claim,
    /// Present while a request is sent again after the loss of a server, or its block is to begin again.
    pub(crate) retried: Option<Box<Retried>>,
}

impl Facts for SessionFacts {
    fn special(&self) -> Special {
        let SessionFacts { flow, tracker, claim, retried } = self;
        Special::CLIENT_PAUSED.if_so(!flow.is_reading() || !flow.is_clear())
            | Special::TRACKED.if_so(tracker.is_some())
            | Special::LIMITED.if_so(claim.admission != Admission::Not || claim.permits.is_some())
            | Special::RETRIED.if_so(retried.is_some())
    }
}

impl SessionFacts {
    /// The block that no server has begun, since the one that had is lost.
    pub(crate) fn begun(&self) -> Option<&BegunBlock> {
        self.retried.as_ref()?.begun.as_ref()
    }

    /// How often the request under way, or the first that waits, was sent again.
    pub(crate) fn retries(&self) -> u8 {
        self.retried.as_ref().map_or(0, |retried| retried.count)
    }

    pub(crate) fn set_retries(&mut self, count: u8) {
        if count > 0 || self.retried.is_some() {
            self.retried.get_or_insert_default().count = count;
        }
    }
}

/// What a session begins with.
#[derive(Debug)]
pub struct Newcomer {
    pub pool: PoolId,
    pub identity: Arc<Identity>,
    pub parameters: Arc<Parameters>,
    /// Present if it begins with settings that are followed.
    pub tracker: Option<Box<Tracker>>,
    /// Present for a session of the admin database.
    pub console: Option<ConsoleRights>,
    pub reports_limits: bool,
    pub deadline_ms: u32,
}

impl Session {
    /// A session that arrives from the door.
    #[must_use]
    pub fn new(now: Time, newcomer: Newcomer) -> Session {
        let Newcomer { pool, identity, parameters, tracker, console, reports_limits, deadline_ms } = newcomer;
        let welcoming = SessionState::Welcoming { since: now };
        Session {
            state: console.map_or(welcoming, |rights| SessionState::Console { rights, asked: false }),
            pool,
            identity,
            parameters,
            own: OwnParameters::default(),
            reset_to: None,
            confirmed: false,
            facts: Watched::new(SessionFacts {
                flow: Flow::default(),
                tracker,
                claim: Claim {
                    class: DEFAULT,
                    standing: None,
                    origin: None,
                    admission: Admission::Not,
                    permits: None,
                    reports_limits,
                    begun_deadline_ms: deadline_ms,
                },
                retried: None,
            }),
            request_at: now,
            progress_at: now,
            armed: Armed::default(),
            incoming: Incoming { inbox: Vec::new(), skip: 0, rest: Rest::Discard, skipping: false },
            statements: ClientStatements { names: None, unnamed: None },
            last_statement: StatementRow::NONE,
        }
    }

    /// Whether its noted bits follow from its facts (I18).
    pub fn is_noted_rightly(&self) -> bool {
        self.facts.is_in_step()
    }

    /// What it is called in the log.
    #[must_use]
    pub fn about(&self, conn: ConnId) -> About {
        let name = self.parameters.get(Tracked::APPLICATION_NAME);
        About::Client {
            conn,
            name: self.identity.name,
            database: Some(self.identity.database.clone()),
            user: Some(self.identity.user.clone()),
            peer: self.identity.peer,
            application: name.map(|name| String::from_utf8_lossy(name).into()),
        }
    }

    /// The request that was sent again is answered, or refused.
    #[inline]
    pub fn end_retries(&mut self) {
        if self.facts.retried.as_ref().is_some_and(|retried| retried.begun.is_none()) {
            self.facts.retried = None;
        }
    }

    /// Since when it has waited, including earlier limits.
    pub fn waiting_since(&self) -> Option<Time> {
        match self.facts.claim.admission {
            Admission::HasWaited { since } | Admission::In { since, .. } => Some(since),
            Admission::Not | Admission::Waits { .. } => None,
        }
    }

    pub fn server(&self) -> Option<ConnId> {
        match self.state {
            SessionState::Linked { server } | SessionState::Replicating { server } => Some(server),
            _ => None,
        }
    }

    pub fn is_leaving(&self) -> bool {
        matches!(self.state, SessionState::Leaving { .. })
    }

    /// Its messages wait until its pool's listener is ready.
    pub fn waits_for_listener(&self) -> bool {
        let wait =
            self.facts.tracker.as_ref().map_or(ListenerWait::Nothing, |tracker| tracker.notifications.listener_wait());
        matches!(wait, ListenerWait::ToSend { .. } | ListenerWait::ToBeReady)
    }

    /// The server has only the beginning of a message.
    pub fn is_torn(&self) -> bool {
        self.incoming.skip > 0 && self.incoming.rest == Rest::Forward
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_session_is_small() {
        // 8 of these are for the bits of its facts, 8 for a request that is sent again.
        assert!(size_of::<Session>() <= 248, "{}", size_of::<Session>());
    }

    #[test]
    fn each_fact_of_a_session_makes_its_link_special_and_a_new_session_has_none() {
        let facts = || {
            let claim = Claim {
                class: DEFAULT,
                standing: None,
                origin: None,
                admission: Admission::Not,
                permits: None,
                reports_limits: false,
                begun_deadline_ms: 0,
            };
            SessionFacts { flow: Flow::default(), tracker: None, claim, retried: None }
        };
        type Case = (Special, fn(&mut SessionFacts));
        let cases: [Case; 6] = [
            (Special::CLIENT_PAUSED, |facts| facts.flow.keep(b"x", Vec::new)),
            (Special::CLIENT_PAUSED, |facts| _ = facts.flow.watch(false)),
            (Special::TRACKED, |facts| facts.tracker = Some(Box::default())),
            (Special::RETRIED, |facts| facts.retried = Some(Box::default())),
            (Special::LIMITED, |facts| facts.claim.wait(1)),
            (Special::LIMITED, |facts| _ = facts.claim.ensure_permits(Time(1), Time(1))),
        ];
        assert_eq!(facts().special(), Special::NONE);
        for (number, (special, change)) in cases.into_iter().enumerate() {
            let mut facts = facts();
            change(&mut facts);
            assert_eq!(facts.special(), special, "case {number}");
        }
    }
}
