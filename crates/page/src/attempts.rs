//! Guessing is slow: after some wrong passwords whoever sends them from one place waits, each time twice as long.
//!
//! Promises a bound for what is remembered. A try counts as failed when it begins, so that many at a time are no way around.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

/// Wrong passwords that cost nothing: people mistype.
const FREE: u32 = 3;
/// The wait after the first one that costs, and the longest one.
const WAIT_FIRST: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(60);
/// After so long it is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(15 * 60);
/// Places that are remembered. Beyond them the oldest one is forgotten.
const PLACES_MAX: usize = 1024;

/// Where tries come from.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    by_place: HashMap<Option<IpAddr>, Failed>,
}

#[derive(Debug)]
struct Failed {
    count: u32,
    last: Instant,
}

impl Failed {
    fn wait(&self) -> Duration {
        let Some(beyond) = self.count.checked_sub(FREE) else { return Duration::ZERO };
        WAIT_FIRST.saturating_mul(1 << beyond.min(16)).min(WAIT_MAX)
    }
}

impl Attempts {
    /// A try begins.
    ///
    /// # Errors
    /// How long its sender has to wait: it is none.
    pub(crate) fn begin(&mut self, from: Option<IpAddr>, now: Instant) -> Result<(), Duration> {
        let place = place(from);
        self.by_place.retain(|_, failed| now.duration_since(failed.last) < FORGOTTEN);
        if !self.by_place.contains_key(&place) && self.by_place.len() >= PLACES_MAX {
            let oldest = self.by_place.iter().min_by_key(|(_, failed)| failed.last).map(|(place, _)| *place);
            oldest.map(|oldest| self.by_place.remove(&oldest));
        }
        let failed = self.by_place.entry(place).or_insert(Failed { count: 0, last: now });
        let left = failed.wait().saturating_sub(now.duration_since(failed.last));
        if failed.count >= FREE && !left.is_zero() {
            return Err(left);
        }
        failed.count += 1;
        failed.last = now;
        Ok(())
    }

    /// The password was right.
    pub(crate) fn succeeded(&mut self, from: Option<IpAddr>) {
        self.by_place.remove(&place(from));
    }
}

/// Who has one address of IPv6 has its network.
fn place(from: Option<IpAddr>) -> Option<IpAddr> {
    from.map(|address| match address {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address @ IpAddr::V4(_) => address,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_minute_and_a_right_password_ends_them() {
        let mut attempts = Attempts::default();
        let from = Some("10.0.0.1".parse().expect("an address"));
        let mut now = Instant::now();
        for _ in 0..FREE {
            assert_eq!(attempts.begin(from, now), Ok(()));
        }
        let mut waits = Vec::new();
        for _ in 0..8 {
            let wait = attempts.begin(from, now).expect_err("it is too soon");
            waits.push(wait.as_secs());
            now += wait;
            assert_eq!(attempts.begin(from, now), Ok(()));
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(attempts.begin(None, now), Ok(()), "others do not wait");
        attempts.succeeded(from);
        assert_eq!(attempts.begin(from, now), Ok(()));
        assert_eq!(attempts.begin(from, now + FORGOTTEN), Ok(()));
    }

    #[test]
    fn a_network_of_ipv6_is_one_place_and_places_have_a_bound() {
        let mut attempts = Attempts::default();
        let now = Instant::now();
        let of = |text: &str| Some(text.parse().expect("an address"));
        for host in 0..FREE {
            assert_eq!(attempts.begin(of(&format!("2001:db8::{host}")), now), Ok(()));
        }
        assert!(attempts.begin(of("2001:db8::ffff:1"), now).is_err());
        assert_eq!(attempts.begin(of("2001:db8:0:1::1"), now), Ok(()));
        for host in 0..5000_u32 {
            let from = Some(IpAddr::from(host.to_be_bytes()));
            assert_eq!(attempts.begin(from, now + Duration::from_millis(u64::from(host))), Ok(()));
        }
        assert_eq!(attempts.by_place.len(), PLACES_MAX);
    }
}
