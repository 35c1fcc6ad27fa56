//! The history of the hosts of a database that has two: which of them is down or frozen, and their timelines.

use crate::plan::hosts::HOSTS;

/// A host's answer to a new connection.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    Accepts,
    Refuses,
    Ignores,
}

/// A host that is down, or was.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Away {
    pub(crate) host: usize,
    pub(crate) until: u64,
    pub(crate) is_silent: bool,
}

/// A host that is frozen, or was.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Frozen {
    pub(crate) host: usize,
    pub(crate) since: u64,
    pub(crate) until: u64,
}

/// The history of the hosts of a database.
#[derive(Clone, Debug)]
pub(crate) struct History {
    /// Of each host.
    pub(crate) timelines: [u32; HOSTS],
    /// How many there were, each of which began a timeline.
    pub(crate) promotions: u32,
    pub(crate) away: Away,
    pub(crate) frozen: Frozen,
    /// The end of the last time for each host in which it answers nobody.
    unanswering_until: [u64; HOSTS],
    /// Until its hosts are as before, or have changed their roles, nothing else happens to them.
    pub(crate) busy_until: u64,
    /// The host that the coordinator has chosen, if it has, and when it last decided.
    pub(crate) decided: (Option<usize>, u64),
    /// When something last changed at one of its hosts. An end of `away` or `frozen` comes on top.
    pub(crate) changed_at: u64,
}

impl Default for History {
    fn default() -> History {
        History {
            timelines: [1; HOSTS],
            promotions: 0,
            away: Away::default(),
            frozen: Frozen::default(),
            unanswering_until: [0; HOSTS],
            busy_until: 0,
            decided: (None, 0),
            changed_at: 0,
        }
    }
}

impl History {
    /// Since when the hosts of its database have been as they are now.
    pub(crate) fn settled_at(&self, now: u64) -> u64 {
        let ends = [self.away.until, self.frozen.until].into_iter().filter(|until| *until <= now);
        ends.fold(self.changed_at, u64::max)
    }

    pub(crate) fn manner(&self, host: usize, now: u64) -> Manner {
        let Away { host: away, until, is_silent } = self.away;
        match (away == host && now < until, is_silent) {
            (false, _) => Manner::Accepts,
            (true, true) => Manner::Ignores,
            (true, false) => Manner::Refuses,
        }
    }

    pub(crate) fn thaws_at(&self, host: usize, now: u64) -> Option<u64> {
        let Frozen { host: frozen, since, until } = self.frozen;
        (frozen == host && since <= now && now < until).then_some(until)
    }

    /// When a host answers again that does not answer now.
    pub(crate) fn answers_at(&self, host: usize, now: u64) -> Option<u64> {
        let ignores = (self.manner(host, now) == Manner::Ignores).then_some(self.away.until);
        self.thaws_at(host, now).max(ignores)
    }

    /// Whether somebody who connects to this host is served.
    pub(crate) fn is_usable(&self, host: usize, now: u64) -> bool {
        self.manner(host, now) == Manner::Accepts && self.thaws_at(host, now).is_none()
    }

    /// When this host last did not answer, if it ever did not.
    pub(crate) fn unanswering_at(&self, host: usize, now: u64) -> Option<u64> {
        Some(self.unanswering_until[host].min(now)).filter(|at| *at > 0)
    }

    /// A host is down for a while.
    pub(crate) fn goes(&mut self, away: Away, now: u64) {
        (self.away, self.changed_at) = (away, now);
        if away.is_silent {
            self.unanswering_until[away.host] = away.until;
        }
    }

    /// A host is frozen for a while.
    pub(crate) fn freezes(&mut self, frozen: Frozen) {
        (self.frozen, self.changed_at) = (frozen, frozen.since);
        self.unanswering_until[frozen.host] = frozen.until;
    }
}
