//! How fast a pool's queue moves, and so how long somebody in it will wait.
//!
//! ```text
//!   expected wait = place × the time from one session that is served to the next
//!                           begins, as the queue does, with the mean service time ÷ the servers in use;
//!                           then it is what is seen, smoothed over some sixteen of them
//! ```
//!
//! What is seen counts in whatever makes a queue slow: servers that are stuck, kept, reset, or lent elsewhere. If nobody is
//! served for longer than usual, that counts as it lasts. Promises the mean wait within a factor of two while what is requested
//! of the pool stays as it is. Does not foresee which sessions will leave the queue, or which servers will be opened.

use std::time::Duration;

use units::Time;

/// Over how many served sessions the time between them is smoothed: its error is then some 20 %.
const SPAN: u64 = 16;

/// Of one queue that is not empty.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Pace {
    /// When somebody was served last, or the queue began.
    moved_at: Time,
    /// [`SPAN`] times the mean time between two served sessions, in microseconds; 0: unknown.
    span_us: u64,
}

impl Default for Pace {
    /// Of a queue of which nothing has been seen.
    fn default() -> Pace {
        Pace { moved_at: Time::NEVER, span_us: 0 }
    }
}

impl Pace {
    /// The first one waits. `service_us`: mean time of a link, 0 if unknown; `busy`: servers that serve this pool.
    pub(crate) fn begin(&mut self, now: Time, service_us: u64, busy: u32) {
        let span_us = if busy == 0 { 0 } else { service_us.saturating_mul(SPAN) / u64::from(busy) };
        *self = Pace { moved_at: now, span_us };
    }

    /// The next one is served.
    #[inline]
    pub(crate) fn moved(&mut self, now: Time) {
        let took = now.micros_since(self.moved_at);
        self.span_us =
            if self.span_us == 0 { took.saturating_mul(SPAN) } else { self.span_us - self.span_us / SPAN + took };
        self.moved_at = now;
    }

    /// How long it takes until so many have been served; `None`: nobody knows.
    pub(crate) fn expected(&self, now: Time, place: u32) -> Option<Duration> {
        if self.span_us == 0 {
            return None;
        }
        let lasts = now.micros_since(self.moved_at);
        let late = lasts.saturating_mul(SPAN) > self.span_us;
        let span_us = if late { self.span_us - self.span_us / SPAN + lasts } else { self.span_us };
        Some(Duration::from_micros(span_us.saturating_mul(u64::from(place)) / SPAN))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use units::random::Random;

    use super::*;

    /// How long links last, in a model of a pool.
    #[derive(Copy, Clone, Debug)]
    enum Service {
        /// Always so long.
        Fixed(u64),
        /// Without memory, with this mean.
        Exponential(u64),
        /// One in a hundred a hundred times as long.
        Reports(u64),
    }

    impl Service {
        fn draw(self, random: &mut Random) -> u64 {
            let unit = || (u32::from_ne_bytes(random.bytes()) as f64 + 1.0) / (f64::from(u32::MAX) + 2.0);
            let mut unit = unit;
            match self {
                Service::Fixed(micros) => micros,
                Service::Exponential(mean) => (-unit().ln() * mean as f64) as u64 + 1,
                Service::Reports(micros) => {
                    if unit() < 0.01 {
                        100 * micros
                    } else {
                        micros
                    }
                }
            }
        }
    }

    /// Clients that come again at once, or after a while, at so many servers, some of them stuck. Returns the sums of expected
    /// and of real waits, and how many of those with at least eight before them waited within a factor of two.
    fn run(service: Service, servers: usize, stuck: usize, clients: usize, think_us: u64) -> (f64, f64, f64) {
        let mut random = Random::new([7; 32]);
        let (mut pace, mut service_us) = (Pace::default(), 0_u64);
        let mut queue: VecDeque<(u64, Option<u64>, u32)> = VecDeque::new();
        let mut free = servers - stuck;
        // When a client comes, or a server is free.
        let mut events: std::collections::BTreeSet<(u64, usize, bool, u64)> =
            (0..clients).map(|index| (index as u64 * 7, index, true, 0)).collect();
        let (mut expected, mut real, mut far, mut near) = (0.0, 0.0, 0, 0);
        let mut next = clients;
        while let Some((now, _, comes, lasted)) = events.pop_first() {
            if now > 20_000_000 {
                break;
            }
            let mut begin = |events: &mut std::collections::BTreeSet<_>, next: &mut usize| {
                *next += 1;
                let lasts = service.draw(&mut random);
                events.insert((now + lasts, *next, false, lasts));
            };
            if comes && free > 0 {
                free -= 1;
                begin(&mut events, &mut next);
                continue;
            }
            if comes {
                if queue.is_empty() {
                    pace.begin(Time(now), service_us, servers as u32);
                }
                let place = queue.len() as u32 + 1;
                queue.push_back((now, pace.expected(Time(now), place).map(|wait| wait.as_micros() as u64), place));
                continue;
            }
            service_us = if service_us == 0 { lasted } else { (service_us * 7 + lasted) / 8 };
            next += 1;
            events.insert((now + think_us, next, true, 0));
            let Some((since, told, place)) = queue.pop_front() else {
                free += 1;
                continue;
            };
            pace.moved(Time(now));
            begin(&mut events, &mut next);
            if let Some(told) = told.filter(|_| now > 2_000_000) {
                let (told, waited) = (told as f64, (now - since) as f64);
                (expected, real) = (expected + told, real + waited);
                far += u32::from(place >= 8);
                near += u32::from(place >= 8 && told < 2.0 * waited && waited < 2.0 * told);
            }
        }
        (expected, real, f64::from(near) / f64::from(far.max(1)))
    }

    #[test]
    fn what_is_expected_is_what_comes() {
        let services = [Service::Fixed(2_000), Service::Exponential(2_000), Service::Reports(1_000)];
        for service in services {
            // Few and many waiters, queues that empty all the time, and servers that serve nobody.
            for (servers, stuck, clients, think_us) in
                [(1, 0, 5, 0), (4, 0, 30, 0), (20, 0, 500, 0), (4, 0, 8, 1_000), (20, 10, 60, 500), (4, 3, 40, 0)]
            {
                let (expected, real, near) = run(service, servers, stuck, clients, think_us);
                let ratio = expected / real;
                let world =
                    format!("{service:?} {servers} servers, {stuck} stuck, {clients} clients: {ratio:.2} {near:.2}");
                assert!((0.5..2.0).contains(&ratio), "{world}");
                let is_regular = !matches!(service, Service::Reports(_));
                assert!(!is_regular || clients < servers + 9 || near > 0.9, "{world}");
            }
        }
    }

    #[test]
    fn nothing_is_known_of_a_queue_that_nobody_has_left() {
        let mut pace = Pace::default();
        pace.begin(Time(5), 0, 4);
        assert_eq!(pace.expected(Time(5), 3), None);
        pace.begin(Time(5), 1_000, 0);
        assert_eq!(pace.expected(Time(5), 3), None);
        pace.begin(Time(0), 1_000, 4);
        assert_eq!(pace.expected(Time(0), 3), Some(Duration::from_micros(750)));
    }

    #[test]
    fn a_queue_that_stands_still_is_expected_to_be_slow() {
        let mut pace = Pace::default();
        pace.begin(Time(0), 1_000, 1);
        let waits = [0, 1_000, 16_000, 1_600_000].map(|now| pace.expected(Time(now), 1).map(|wait| wait.as_micros()));
        assert_eq!(waits, [Some(1_000), Some(1_000), Some(1_937), Some(100_937)]);
    }
}
