//! Guessing is slow: after some wrong passwords whoever sends them from one place waits, each time twice as long; and so do all who try one user.
//!
//! Promises a bound for what is remembered. A try counts as failed when it begins, so that many at a time are no way around. A right password takes
//! back its own try and no other: whoever has one password guesses another one as slowly as anybody.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// The wait after the first wrong password that costs.
const WAIT_FIRST: Duration = Duration::from_secs(1);
/// After so long it is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(15 * 60);
/// Places, and users, that are remembered. Beyond them the oldest one is forgotten.
const KEPT_MAX: usize = 1024;

/// What wrong passwords cost.
#[derive(Debug)]
struct Price {
    /// So many cost nothing: people mistype.
    free: u32,
    /// The longest wait.
    most: Duration,
}

const OF_PLACE: Price = Price { free: 3, most: Duration::from_secs(60) };
/// Strangers anywhere may make a user wait, so it is not for long. A day has 8640 of these waits.
const OF_USER: Price = Price { free: 10, most: Duration::from_secs(10) };

/// Where tries come from, and whom they are for.
#[derive(Debug)]
pub(crate) struct Attempts {
    by_place: Tally<Option<IpAddr>>,
    /// By a number that is made of the name: names are as long as strangers like, and whether such a user exists is not looked at.
    by_user: Tally<u64>,
    names: RandomState,
}

impl Default for Attempts {
    fn default() -> Attempts {
        Attempts { by_place: Tally::of(OF_PLACE), by_user: Tally::of(OF_USER), names: RandomState::new() }
    }
}

impl Attempts {
    /// A try begins.
    ///
    /// # Errors
    /// How long its sender has to wait: it is none.
    pub(crate) fn begin(&mut self, from: Option<IpAddr>, user: &str, now: Instant) -> Result<(), Duration> {
        let (place, user) = (place(from), self.names.hash_one(user));
        let left = self.by_place.left(&place, now).max(self.by_user.left(&user, now));
        if !left.is_zero() {
            return Err(left);
        }
        self.by_place.count(place, now);
        self.by_user.count(user, now);
        Ok(())
    }

    /// The password was right.
    pub(crate) fn succeeded(&mut self, from: Option<IpAddr>, user: &str) {
        self.by_place.take_back(&place(from));
        self.by_user.take_back(&self.names.hash_one(user));
    }
}

#[derive(Debug)]
struct Tally<K> {
    price: Price,
    failed: HashMap<K, Failed>,
}

#[derive(Debug)]
struct Failed {
    count: u32,
    last: Instant,
}

impl<K: Copy + Eq + Hash> Tally<K> {
    fn of(price: Price) -> Tally<K> {
        Tally { price, failed: HashMap::new() }
    }

    /// How long the next try has to wait.
    fn left(&mut self, of: &K, now: Instant) -> Duration {
        self.failed.retain(|_, failed| now.duration_since(failed.last) < FORGOTTEN);
        let beyond = self.failed.get(of).and_then(|failed| Some((failed, failed.count.checked_sub(self.price.free)?)));
        let Some((failed, beyond)) = beyond else { return Duration::ZERO };
        let wait = WAIT_FIRST.saturating_mul(1 << beyond.min(16)).min(self.price.most);
        wait.saturating_sub(now.duration_since(failed.last))
    }

    fn count(&mut self, of: K, now: Instant) {
        if !self.failed.contains_key(&of) && self.failed.len() >= KEPT_MAX {
            let oldest = self.failed.iter().min_by_key(|(_, failed)| failed.last).map(|(oldest, _)| *oldest);
            oldest.map(|oldest| self.failed.remove(&oldest));
        }
        let failed = self.failed.entry(of).or_insert(Failed { count: 0, last: now });
        failed.count += 1;
        failed.last = now;
    }

    /// The last try was none. Where it was forgotten meanwhile, nothing is to be done.
    fn take_back(&mut self, of: &K) {
        let Some(failed) = self.failed.get_mut(of) else { return };
        failed.count -= 1;
        if failed.count == 0 {
            self.failed.remove(of);
        }
    }
}

/// Who has one address of IPv6 has its network.
fn place(from: Option<IpAddr>) -> Option<IpAddr> {
    from.map(|address| match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address @ IpAddr::V4(_) => address,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<IpAddr> {
        Some(text.parse().expect("an address"))
    }

    #[test]
    fn waits_grow_to_a_minute() {
        let mut attempts = Attempts::default();
        let from = of("10.0.0.1");
        let mut now = Instant::now();
        for user in 0..OF_PLACE.free {
            assert_eq!(attempts.begin(from, &user.to_string(), now), Ok(()));
        }
        let mut waits = Vec::new();
        for user in 0..8 {
            let user = format!("another {user}");
            let wait = attempts.begin(from, &user, now).expect_err("it is too soon");
            waits.push(wait.as_secs());
            now += wait;
            assert_eq!(attempts.begin(from, &user, now), Ok(()));
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(attempts.begin(None, "ann", now), Ok(()), "others do not wait");
        assert_eq!(attempts.begin(from, "ann", now + FORGOTTEN), Ok(()));
    }

    #[test]
    fn a_right_password_takes_back_its_own_try_and_no_other() {
        let mut attempts = Attempts::default();
        let (from, now) = (of("10.0.0.1"), Instant::now());
        for _ in 0..100 {
            assert_eq!(attempts.begin(from, "ann", now), Ok(()), "right ones cost nothing");
            attempts.succeeded(from, "ann");
        }
        assert!(attempts.by_place.failed.is_empty() && attempts.by_user.failed.is_empty());
        for _ in 0..OF_PLACE.free - 1 {
            assert_eq!(attempts.begin(from, "dba", now), Ok(()));
        }
        assert_eq!(attempts.begin(from, "ann", now), Ok(()));
        attempts.succeeded(from, "ann");
        assert_eq!(attempts.begin(from, "dba", now), Ok(()));
        assert!(attempts.begin(from, "dba", now).is_err(), "one who has a password guesses another one");
    }

    #[test]
    fn a_user_who_is_guessed_from_many_places_waits_for_seconds() {
        let mut attempts = Attempts::default();
        let mut now = Instant::now();
        let mut place = 0_u32;
        let mut elsewhere = || {
            place += 1;
            Some(IpAddr::from(place.to_be_bytes()))
        };
        for _ in 0..OF_USER.free {
            assert_eq!(attempts.begin(elsewhere(), "dba", now), Ok(()));
        }
        let mut waits = Vec::new();
        for _ in 0..6 {
            let wait = attempts.begin(elsewhere(), "dba", now).expect_err("it is too soon");
            waits.push(wait.as_secs());
            now += wait;
            assert_eq!(attempts.begin(elsewhere(), "dba", now), Ok(()));
        }
        assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
        assert_eq!(attempts.begin(elsewhere(), "ann", now), Ok(()), "others do not wait");
    }

    #[test]
    fn a_network_of_ipv6_is_one_place_and_what_is_remembered_has_a_bound() {
        let mut attempts = Attempts::default();
        let now = Instant::now();
        for host in 0..OF_PLACE.free {
            assert_eq!(attempts.begin(of(&format!("2001:db8::{host}")), "ann", now), Ok(()));
        }
        assert!(attempts.begin(of("2001:db8::ffff:1"), "ann", now).is_err());
        assert_eq!(attempts.begin(of("2001:db8:0:1::1"), "ann", now), Ok(()));
        for host in 0..5000_u32 {
            let from = Some(IpAddr::from(host.to_be_bytes()));
            let now = now + Duration::from_millis(u64::from(host));
            assert_eq!(attempts.begin(from, &host.to_string(), now), Ok(()));
        }
        assert_eq!((attempts.by_place.failed.len(), attempts.by_user.failed.len()), (KEPT_MAX, KEPT_MAX));
    }
}
