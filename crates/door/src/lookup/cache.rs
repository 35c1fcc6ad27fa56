//! What lookups have said, for as long as their database cannot be reached.
//!
//! Promises that nothing is used that is older than `auth_cache_ttl`, nor of a password that is not valid any more; that the last
//! answer replaces what was known; and its bounds. Does not decide when it may be used.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use units::{Time, heap, limits};

use super::answer::Found;
use super::target::Target;
use crate::kinds::{Kinds, SecretKind};

/// About what an entry takes besides its texts, its entries in two tables included.
const ENTRY: usize = 512;

type Key = (Arc<Target>, Arc<str>);

#[derive(Debug)]
struct Entry {
    number: u64,
    at: Time,
    kind: SecretKind,
    /// `None`: only its kind is kept, since `auth_cache_ttl` is 0.
    found: Option<Found>,
    weight: usize,
}

/// The answers for users who exist.
#[derive(Debug, Default)]
pub(super) struct Cache {
    entries: BTreeMap<Key, Entry>,
    /// The same, the oldest answer first.
    order: BTreeMap<u64, Key>,
    weight: usize,
    next_number: u64,
    /// The kinds of all users' secrets.
    kinds: Kinds,
}

impl Cache {
    /// A lookup has said this of a user; `None`: there is no such user.
    pub(super) fn put(&mut self, now: Time, ttl: Option<Duration>, key: Key, found: Option<&Found>) {
        self.remove(&key);
        let Some((found, secret)) = found.and_then(|found| Some((found, found.secret.as_ref()?))) else { return };
        let weight = ENTRY + heap::of_name(&key.1);
        self.next_number += 1;
        let (number, kind) = (self.next_number, SecretKind::of(secret));
        let entry = Entry { number, at: now, kind, found: ttl.map(|_| found.clone()), weight };
        self.kinds.add(kind, 1);
        self.weight += weight;
        self.order.insert(number, key.clone());
        self.entries.insert(key, entry);
        while self.entries.len() > limits::LOOKUP_CACHE_MAX || self.weight > limits::LOOKUP_CACHE_LEN_MAX {
            let Some((_, oldest)) = self.order.first_key_value().map(|(number, key)| (*number, key.clone())) else {
                return;
            };
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.entries.remove(key) {
            self.order.remove(&entry.number);
            self.weight -= entry.weight;
            self.kinds.remove(entry.kind);
        }
    }

    /// What may be used of a user.
    pub(super) fn get(&self, now: Time, ttl: Option<Duration>, key: &Key) -> Option<&Found> {
        let entry = self.entries.get(key)?;
        if now.since(entry.at) > ttl? {
            return None;
        }
        entry.found.as_ref()
    }

    pub(super) fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// Forgets what one lookup database has said.
    pub(super) fn forget(&mut self, target: &Arc<Target>) {
        let first: Key = (Arc::clone(target), "".into());
        let of_target = self.entries.range(first..).take_while(|((other, _), _)| other == target);
        let keys: Vec<Key> = of_target.map(|(key, _)| key.clone()).collect();
        keys.iter().for_each(|key| self.remove(key));
    }
}

#[cfg(test)]
mod tests {
    use auth::Secret;

    use super::super::answer::Validity;
    use super::*;

    const TTL: Option<Duration> = Some(Duration::from_secs(300));

    fn key(database: &str, user: &str) -> Key {
        let target = Target { database: database.into(), user: "asker".into(), query: "q".into() };
        (Arc::new(target), user.into())
    }

    fn found(secret: &str) -> Found {
        Found { secret: Some(Secret::parse(secret)), validity: Validity::Forever }
    }

    #[test]
    fn an_answer_is_used_for_as_long_as_auth_cache_ttl_says() {
        let mut cache = Cache::default();
        let ann = key("d", "ann");
        cache.put(Time(1_000_000), TTL, ann.clone(), Some(&found("s")));
        assert_eq!(cache.get(Time(301_000_000), TTL, &ann), Some(&found("s")));
        assert_eq!(cache.get(Time(301_000_001), TTL, &ann), None);
        assert_eq!(
            cache.get(Time(2_000_000), Some(Duration::from_secs(0)), &ann),
            None,
            "a reload has made it shorter"
        );
        assert_eq!(cache.get(Time(1_000_000), None, &ann), None);
        assert_eq!(cache.get(Time(1_000_000), TTL, &key("other", "ann")), None, "of another database");
    }

    #[test]
    fn the_last_answer_counts() {
        let mut cache = Cache::default();
        let ann = key("d", "ann");
        cache.put(Time(1), TTL, ann.clone(), Some(&found("s")));
        cache.put(Time(2), TTL, ann.clone(), Some(&found("t")));
        assert_eq!(cache.get(Time(3), TTL, &ann), Some(&found("t")));
        cache.put(Time(4), TTL, ann.clone(), None);
        assert_eq!(cache.get(Time(5), TTL, &ann), None);
        cache.put(Time(6), TTL, ann.clone(), Some(&found("t")));
        cache.put(Time(7), TTL, ann.clone(), Some(&Found { secret: None, validity: Validity::Forever }));
        assert_eq!(cache.get(Time(8), TTL, &ann), None, "there is no password any more");
        assert_eq!((cache.weight, cache.order.len()), (0, 0));
    }

    #[test]
    fn without_auth_cache_ttl_no_secret_is_kept() {
        let mut cache = Cache::default();
        cache.put(Time(1), None, key("d", "ann"), Some(&found("s")));
        assert_eq!(cache.get(Time(1), TTL, &key("d", "ann")), None);
        assert_eq!(cache.kinds().count(), 1);
    }

    #[test]
    fn a_database_that_is_another_one_now_is_forgotten() {
        let mut cache = Cache::default();
        let keys = [key("c", "ann"), key("d", "ann"), key("d", "bob"), key("e", "ann")];
        keys.iter().for_each(|key| cache.put(Time(1), TTL, key.clone(), Some(&found("s"))));
        cache.forget(&keys[1].0);
        let known = keys.map(|key| cache.get(Time(2), TTL, &key).is_some());
        assert_eq!(known, [true, false, false, true]);
    }

    #[test]
    fn the_oldest_answers_make_room() {
        let mut cache = Cache::default();
        for number in 0..=limits::LOOKUP_CACHE_MAX {
            cache.put(Time(1), TTL, key("d", &format!("user {number}")), Some(&found("s")));
        }
        assert_eq!(cache.entries.len(), limits::LOOKUP_CACHE_MAX);
        assert_eq!(cache.get(Time(2), TTL, &key("d", "user 0")), None);
        assert!(cache.get(Time(2), TTL, &key("d", "user 1")).is_some());
        let long = "n".repeat(limits::LOOKUP_CACHE_LEN_MAX / 2);
        for last in ["a", "b", "c"] {
            cache.put(Time(3), TTL, key("d", &format!("{long}{last}")), Some(&found("s")));
        }
        assert_eq!(cache.entries.len(), 1);
        assert_eq!(cache.kinds().count(), 1);
        assert!(cache.weight <= limits::LOOKUP_CACHE_LEN_MAX);
    }
}
