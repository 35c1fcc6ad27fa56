//! Answers to wrong passwords that are delayed, so that one address guesses slowly (`auth_failure_delay`).
//!
//! How long is for [`Failures`]. A delayed login keeps its place among the logins in flight and little else. It is the first to be
//! given up when too much is kept, and at most [`limits::DELAYED_ANSWERS_MAX`] wait: of more, the one that is due first is answered
//! at once. A name without a user is counted like one with a user, so the delay does not tell them apart.

use std::borrow::Cow;
use std::collections::BTreeSet;

use machine::Settings;
use machine::observe::Peer;
use queueing::limiting::failures::{Failures, Origin};
use units::deadline::{Deadlines, Owner};
use units::{ConnId, Time, limits};

use super::{Login, Phase, Refused};

/// Why a login has failed, for the log.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) why: Cow<'static, str>,
    /// A wrong password or no such user, which may be somebody's guess. Not a broken message.
    pub(super) is_guess: bool,
}

/// The failures of late, and the answers that wait.
#[derive(Debug, Default)]
pub(super) struct Penalties {
    failures: Failures,
    waiting: BTreeSet<(Time, ConnId)>,
}

impl Penalties {
    /// Counts a guess, and has its answer wait. The answer is kept in the login's phase. False: it is answered at once.
    pub(super) fn delay(
        &mut self,
        now: Time,
        settings: &Settings,
        (conn, login): (ConnId, &mut Login),
        refused: &Refused,
        deadlines: &mut Deadlines,
    ) -> bool {
        let (Some(longest), Some(wish)) = (settings.global.login.auth_failure_delay, &login.wish) else { return false };
        let delay = self.failures.failed(now, origin(login.peer), &wish.user, longest);
        if delay.is_zero() {
            return false;
        }
        let timeout = settings.global.waiting.client_login_timeout.map(|timeout| login.since + timeout);
        let until = timeout.map_or(now + delay, |timeout| timeout.min(now + delay));
        login.phase = Phase::Delayed { refused: Box::new(refused.clone()), until };
        login.inbox = Vec::new();
        self.waiting.insert((until, conn));
        deadlines.arm(Owner::Conn(conn), &mut login.armed, until);
        true
    }

    /// The delayed login that is to be answered at once, since more wait than may.
    pub(super) fn one_too_many(&self) -> Option<ConnId> {
        let first = self.waiting.first().filter(|_| self.waiting.len() > limits::DELAYED_ANSWERS_MAX);
        first.map(|&(_, conn)| conn)
    }

    /// A login is answered, or has left.
    pub(super) fn over(&mut self, conn: ConnId, phase: &Phase) {
        if let Phase::Delayed { until, .. } = phase {
            self.waiting.remove(&(*until, conn));
        }
    }

    /// A login has succeeded.
    pub(super) fn succeeded(&mut self, login: &Login) {
        if let Some(wish) = &login.wish {
            self.failures.succeeded(origin(login.peer), &wish.user);
        }
    }
}

impl Phase {
    /// The answer that a login waits for.
    pub(super) fn delayed(&self) -> Option<Refused> {
        match self {
            Phase::Delayed { refused, .. } => Some((**refused).clone()),
            _ => None,
        }
    }
}

fn origin(peer: Peer) -> Origin {
    match peer {
        Peer::Tcp { from, .. } => Origin::of_address(from.ip()),
        Peer::Unix { uid, .. } => Origin::Uid(uid),
    }
}
