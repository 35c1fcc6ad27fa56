//! Failed logins, counted by the client's address and by address and user: how long the answer to the next one is delayed.
//!
//! Promises: at most [`ENTRIES_MAX`] entries, whatever clients send; when there are more, the entry that failed least recently
//! is dropped. The first failures of an entry are free. After that the delay doubles with each failure, up to the given
//! longest delay. Each [`FORGET`] without a failure halves the count. Logins that succeed are never delayed.
//!
//! Does not do: keep the answers that are delayed (the door does). An attacker that does not wait for the answer is not
//! slowed: how many logins may be under way bounds it.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::time::Duration;

use units::Time;

/// Entries that are kept: at about 130 bytes each, 2 MB.
pub const ENTRIES_MAX: usize = 16_384;

/// Failures of one user from one address that are answered at once: mistyped passwords.
pub const FREE_PER_USER: u32 = 3;

/// Failures of all users from one address that are answered at once. Many people may share an address.
pub const FREE_PER_ADDRESS: u32 = 20;

/// The first delay. It doubles with each further failure.
pub const FIRST_DELAY: Duration = Duration::from_millis(250);

/// After so long without a failure, an entry's count is halved.
pub const FORGET: Duration = Duration::from_secs(60);

/// Where a client comes from.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    V4(u32),
    /// The first 64 bits: a network of one site, in which a host takes any address it likes.
    V6(u64),
    /// A user of this machine.
    Uid(u32),
}

impl Origin {
    /// IPv4 within IPv6 counts as IPv4.
    #[must_use]
    pub fn of_address(address: IpAddr) -> Origin {
        match address.to_canonical() {
            IpAddr::V4(address) => Origin::V4(address.to_bits()),
            IpAddr::V6(address) => Origin::V6((address.to_bits() >> 64) as u64),
        }
    }
}

/// An address, or a user at an address. The user is a hash, so an entry's size does not depend on the name. Two names with
/// one hash share an entry, which harms only clients of the same address.
type Key = (Origin, Option<u64>);

#[derive(Copy, Clone, Debug)]
struct Entry {
    count: u32,
    last: Time,
    /// Its place in the order of failures.
    place: u64,
}

/// The failures of late.
#[derive(Debug, Default)]
pub struct Failures {
    entries: BTreeMap<Key, Entry>,
    /// The same entries, by their last failure.
    by_place: BTreeMap<u64, Key>,
    places: u64,
}

impl Failures {
    /// A login has failed. How long its answer is to be delayed.
    pub fn failed(&mut self, now: Time, origin: Origin, user: &str, longest: Duration) -> Duration {
        let by_user = self.count((origin, Some(hash(user))), now);
        let by_address = self.count((origin, None), now);
        delay(by_user, FREE_PER_USER, longest).max(delay(by_address, FREE_PER_ADDRESS, longest))
    }

    /// A login has succeeded: the failures of this user at this address are forgotten. Those of the address stay, so that an
    /// attacker with a password of its own cannot clear them.
    pub fn succeeded(&mut self, origin: Origin, user: &str) {
        if self.entries.is_empty() {
            return;
        }
        if let Some(entry) = self.entries.remove(&(origin, Some(hash(user)))) {
            self.by_place.remove(&entry.place);
        }
    }

    /// Entries that are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Counts a failure, and returns the sum.
    fn count(&mut self, key: Key, now: Time) -> u32 {
        self.places += 1;
        let entry = self.entries.entry(key).or_insert(Entry { count: 0, last: now, place: 0 });
        let halvings = now.since(entry.last).as_secs() / FORGET.as_secs();
        let halvings = u32::try_from(halvings).unwrap_or(u32::MAX);
        entry.count = entry.count.checked_shr(halvings).unwrap_or(0).saturating_add(1);
        let before = std::mem::replace(&mut entry.place, self.places);
        entry.last = now;
        let count = entry.count;
        self.by_place.remove(&before);
        self.by_place.insert(self.places, key);
        if self.entries.len() > ENTRIES_MAX
            && let Some((_, oldest)) = self.by_place.pop_first()
        {
            self.entries.remove(&oldest);
        }
        count
    }
}

fn delay(count: u32, free: u32, longest: Duration) -> Duration {
    let Some(beyond) = count.checked_sub(free + 1) else { return Duration::ZERO };
    // Twice the first delay so often is more than any setting.
    FIRST_DELAY.saturating_mul(1 << beyond.min(30)).min(longest)
}

fn hash(user: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    user.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONGEST: Duration = Duration::from_secs(5);
    const HERE: Origin = Origin::V4(1);

    fn at(seconds: u64) -> Time {
        Time(0) + Duration::from_secs(seconds)
    }

    fn millis(failures: &mut Failures, user: &str, times: usize) -> Vec<u128> {
        (0..times).map(|_| failures.failed(at(0), HERE, user, LONGEST).as_millis()).collect()
    }

    #[test]
    fn the_delay_doubles_after_the_free_failures_up_to_the_longest() {
        let mut failures = Failures::default();
        assert_eq!(millis(&mut failures, "ann", 10), [0, 0, 0, 250, 500, 1000, 2000, 4000, 5000, 5000]);
        for _ in 0..100 {
            failures.failed(at(0), HERE, "ann", LONGEST);
        }
        assert_eq!(millis(&mut failures, "ann", 1), [5000], "a count beyond any shift");
    }

    #[test]
    fn another_user_and_another_address_have_counts_of_their_own() {
        let mut failures = Failures::default();
        millis(&mut failures, "ann", 10);
        assert_eq!(millis(&mut failures, "bob", 3), [0, 0, 0]);
        assert_eq!(failures.failed(at(0), Origin::V4(2), "ann", LONGEST), Duration::ZERO);
    }

    #[test]
    fn many_users_of_one_address_are_delayed_together() {
        let mut failures = Failures::default();
        let delays: Vec<u128> = (0..23).map(|number| millis(&mut failures, &format!("user{number}"), 1)[0]).collect();
        assert_eq!(delays[..20], [0; 20]);
        assert_eq!(delays[20..], [250, 500, 1000]);
    }

    #[test]
    fn success_forgets_the_user_and_not_the_address() {
        let mut failures = Failures::default();
        millis(&mut failures, "ann", 10);
        failures.succeeded(HERE, "ann");
        assert_eq!(millis(&mut failures, "ann", 4), [0, 0, 0, 250]);
        assert_eq!(failures.entries[&(HERE, None)].count, 14);
    }

    #[test]
    fn time_halves_a_count() {
        let mut failures = Failures::default();
        millis(&mut failures, "ann", 8);
        assert_eq!(failures.failed(at(59), HERE, "ann", LONGEST).as_millis(), 5000, "the ninth");
        assert_eq!(failures.failed(at(119), HERE, "ann", LONGEST).as_millis(), 500, "half of nine, and one");
        assert_eq!(failures.failed(at(1_000_000), HERE, "ann", LONGEST).as_millis(), 0, "the first again");
    }

    #[test]
    fn the_entry_that_failed_least_recently_is_dropped() {
        let mut failures = Failures::default();
        millis(&mut failures, "old", 4);
        millis(&mut failures, "kept", 4);
        for number in 0..ENTRIES_MAX - 3 {
            failures.failed(at(0), HERE, &format!("user{number}"), Duration::ZERO);
        }
        assert_eq!(failures.len(), ENTRIES_MAX, "kept, old, the address, and the others");
        millis(&mut failures, "kept", 1);
        failures.failed(at(0), HERE, "one more", LONGEST);
        assert_eq!((failures.len(), failures.by_place.len()), (ENTRIES_MAX, ENTRIES_MAX));
        assert!(!failures.entries.contains_key(&(HERE, Some(hash("old")))));
        assert!(failures.entries.contains_key(&(HERE, Some(hash("kept")))));
        assert!(failures.entries.contains_key(&(HERE, None)), "each failure counts for the address too");
    }

    #[test]
    fn addresses_of_one_network_share_an_entry_in_ipv6_alone() {
        let origin = |text: &str| Origin::of_address(text.parse().expect("an address"));
        assert_eq!(origin("2001:db8::1"), origin("2001:db8::ffff:2"));
        assert_ne!(origin("2001:db8::1"), origin("2001:db8:0:1::1"));
        assert_ne!(origin("10.0.0.1"), origin("10.0.0.2"));
        assert_eq!(origin("::ffff:10.0.0.1"), origin("10.0.0.1"));
    }
}
