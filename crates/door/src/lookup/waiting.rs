//! Which logins wait for which lookup of one lookup database.
//!
//! ```text
//!   join ──► pending: one lookup a user, in order of arrival ──send──► sent: at most PIPELINE_MAX ──answered──► its logins
//!              ▲ those that arrive now share it                          nobody joins these any more
//! ```
//!
//! Promises that a login shares only a lookup that is sent after it has arrived, so that it is judged by a secret that
//! was valid meanwhile. Does not know connections, nor what a lookup says.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use units::{ConnId, Time, limits};

/// A lookup, and the logins that wait for it.
#[derive(Debug, Default)]
struct Lookup {
    /// Its place in the order of arrival.
    number: u64,
    logins: BTreeSet<ConnId>,
}

/// A lookup that was sent.
#[derive(Debug)]
struct Sent {
    user: Arc<str>,
    lookup: Lookup,
    at: Time,
}

/// The lookups of one lookup database, by users' names.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    pending: BTreeMap<Arc<str>, Lookup>,
    /// The same, in order of arrival.
    order: BTreeMap<u64, Arc<str>>,
    sent: VecDeque<Sent>,
    /// Each login with the end of its wait, and the user that it looks up.
    logins: BTreeMap<ConnId, (Time, Arc<str>)>,
    /// The logins by the end of their waits.
    ends: BTreeSet<(Time, ConnId)>,
    next_number: u64,
}

impl Waiting {
    pub(super) fn join(&mut self, until: Time, user: &Arc<str>, login: ConnId) {
        let lookup = self.pending.entry(Arc::clone(user)).or_insert_with(|| {
            self.next_number += 1;
            self.order.insert(self.next_number, Arc::clone(user));
            Lookup { number: self.next_number, logins: BTreeSet::new() }
        });
        lookup.logins.insert(login);
        self.logins.insert(login, (until, Arc::clone(user)));
        self.ends.insert((until, login));
    }

    /// A login ends, or has its answer.
    pub(super) fn leave(&mut self, login: ConnId) {
        // It may have had its answer already.
        let Some((until, user)) = self.logins.remove(&login) else { return };
        self.ends.remove(&(until, login));
        for sent in &mut self.sent {
            sent.lookup.logins.remove(&login);
        }
        if let Some(lookup) = self.pending.get_mut(&user)
            && lookup.logins.remove(&login)
            && lookup.logins.is_empty()
        {
            self.order.remove(&lookup.number);
            self.pending.remove(&user);
        }
    }

    /// The user of the next lookup to be sent; `None`: there is none, or as many as may be are under way. While one of a
    /// user is under way, logins of that user gather for the next.
    pub(super) fn send(&mut self, now: Time) -> Option<Arc<str>> {
        if self.sent.len() >= limits::LOOKUPS_IN_FLIGHT_MAX {
            return None;
        }
        let is_under_way = |user: &Arc<str>| self.sent.iter().any(|sent| sent.user == *user);
        let user = self.order.values().find(|user| !is_under_way(user)).cloned()?;
        let lookup = self.pending.remove(&user).expect("both have the same lookups");
        self.order.remove(&lookup.number);
        self.sent.push_back(Sent { user: Arc::clone(&user), lookup, at: now });
        Some(user)
    }

    /// The oldest lookup that was sent is answered. Returns its user, when it was sent, and the logins that waited for it.
    pub(super) fn answered(&mut self) -> Option<(Arc<str>, Time, Vec<ConnId>)> {
        let Sent { user, lookup, at } = self.sent.pop_front()?;
        let logins: Vec<ConnId> = lookup.logins.into_iter().collect();
        logins.iter().for_each(|login| self.forget(*login));
        Some((user, at, logins))
    }

    fn forget(&mut self, login: ConnId) {
        if let Some((until, _)) = self.logins.remove(&login) {
            self.ends.remove(&(until, login));
        }
    }

    /// The connection is lost: lookups that were sent have to be sent again, before the others.
    pub(super) fn unsend(&mut self) {
        while let Some(Sent { user, lookup, .. }) = self.sent.pop_back() {
            if lookup.logins.is_empty() {
                continue;
            }
            match self.pending.get_mut(&user) {
                Some(later) => {
                    self.order.remove(&later.number);
                    later.number = lookup.number;
                    later.logins.extend(lookup.logins);
                    self.order.insert(later.number, user);
                }
                None => {
                    self.order.insert(lookup.number, Arc::clone(&user));
                    self.pending.insert(user, lookup);
                }
            }
        }
    }

    /// The login whose wait ends first: the end of its wait, and the user that it looks up.
    pub(super) fn first_to_end(&self) -> Option<(Time, ConnId, &Arc<str>)> {
        let (until, login) = *self.ends.first()?;
        let (_, user) = self.logins.get(&login)?;
        Some((until, login, user))
    }

    /// When the oldest lookup that is not answered yet was sent.
    pub(super) fn sent_at(&self) -> Option<Time> {
        self.sent.front().map(|sent| sent.at)
    }

    /// Whether a lookup has to be sent.
    pub(super) fn has_pending(&self) -> bool {
        !self.order.is_empty()
    }

    /// All logins that wait, with the users that they look up.
    pub(super) fn all(&self) -> Vec<(ConnId, Arc<str>)> {
        let user = |login: &ConnId| self.logins.get(login).map(|(_, user)| Arc::clone(user));
        self.ends.iter().filter_map(|(_, login)| Some((*login, user(login)?))).collect()
    }

    /// No login waits, and no answer is owed.
    pub(super) fn is_empty(&self) -> bool {
        self.logins.is_empty() && self.sent.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use units::Kind;

    use super::*;

    fn login(number: u32) -> ConnId {
        ConnId::new(Kind::Login, 0, number, 0)
    }

    fn joined(arrivals: &[(u64, &str)]) -> Waiting {
        let mut waiting = Waiting::default();
        for (number, (at, user)) in arrivals.iter().enumerate() {
            waiting.join(Time(*at), &Arc::from(*user), login(number as u32));
        }
        waiting
    }

    fn sent(waiting: &mut Waiting, at: u64) -> Vec<String> {
        std::iter::from_fn(|| waiting.send(Time(at))).map(|user| user.to_string()).collect()
    }

    fn answered(waiting: &mut Waiting) -> (String, Vec<ConnId>) {
        let (user, _, logins) = waiting.answered().expect("one was sent");
        (user.to_string(), logins)
    }

    #[test]
    fn logins_of_a_user_share_the_lookup_that_is_sent_after_they_came() {
        let mut waiting = joined(&[(1, "ann"), (2, "bob"), (3, "ann")]);
        assert_eq!(sent(&mut waiting, 4), ["ann", "bob"]);
        // This one comes when the lookup of its user is under way: it may not use that one.
        waiting.join(Time(5), &Arc::from("ann"), login(9));
        assert!(sent(&mut waiting, 5).is_empty(), "more may come and share it");
        assert_eq!(answered(&mut waiting), ("ann".to_owned(), vec![login(0), login(2)]));
        assert_eq!(waiting.first_to_end().map(|(until, ..)| until), Some(Time(2)));
        assert_eq!(answered(&mut waiting), ("bob".to_owned(), vec![login(1)]));
        assert!(waiting.answered().is_none() && waiting.has_pending());
        assert_eq!(sent(&mut waiting, 6), ["ann"]);
        assert_eq!(waiting.sent_at(), Some(Time(6)));
        assert_eq!(answered(&mut waiting), ("ann".to_owned(), vec![login(9)]));
        assert!(waiting.is_empty());
    }

    #[test]
    fn a_hostile_client_makes_few_lookups_at_a_time() {
        let mut waiting = Waiting::default();
        for number in 0..1000 {
            waiting.join(Time(1), &Arc::from(format!("user {number}")), login(number));
        }
        assert_eq!(sent(&mut waiting, 2).len(), limits::LOOKUPS_IN_FLIGHT_MAX);
        answered(&mut waiting);
        assert_eq!(sent(&mut waiting, 3), [format!("user {}", limits::LOOKUPS_IN_FLIGHT_MAX)]);
    }

    #[test]
    fn a_login_that_leaves_leaves_nothing() {
        let mut waiting = joined(&[(1, "ann"), (2, "bob"), (3, "ann")]);
        waiting.leave(login(1));
        assert_eq!(sent(&mut waiting, 4), ["ann"], "nobody waits for bob any more");
        waiting.leave(login(0));
        assert_eq!(waiting.first_to_end().map(|(_, login, _)| login), Some(login(2)));
        waiting.leave(login(2));
        waiting.leave(login(2));
        assert!(!waiting.is_empty(), "an answer is owed");
        assert_eq!(answered(&mut waiting), ("ann".to_owned(), vec![]));
        assert!(waiting.is_empty() && waiting.all().is_empty());
    }

    #[test]
    fn what_was_sent_in_vain_is_sent_again_first() {
        let mut waiting = joined(&[(1, "ann"), (2, "bob"), (2, "eve")]);
        sent(&mut waiting, 4);
        waiting.leave(login(2));
        waiting.join(Time(5), &Arc::from("cid"), login(7));
        waiting.join(Time(6), &Arc::from("ann"), login(8));
        waiting.unsend();
        assert_eq!(waiting.sent_at(), None);
        assert_eq!(sent(&mut waiting, 7), ["ann", "bob", "cid"]);
        assert_eq!(answered(&mut waiting), ("ann".to_owned(), vec![login(0), login(8)]));
    }
}
