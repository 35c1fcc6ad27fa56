//! A class's limits as users write them: `tps=100 tps_burst=20 max_active=5`, in any order.
//!
//! Promises: 0 is no limit, and a burst is as large as its rate unless it is given. Does not do: reading numbers from text, and
//! words for what is wrong with them.

use std::ops::RangeInclusive;

use crate::classes::{LimitKind, Limits, Rate};

/// Events a second, and at once: beyond what one process passes on.
const RATE_MAX: u32 = 10_000_000;
/// As large as a number of PgBouncer's can be.
const ACTIVE_MAX: u32 = i32::MAX as u32;

/// The kinds that have a rate, with the names of their bursts.
const RATES: [(LimitKind, &str); 3] =
    [(LimitKind::Transactions, "tps_burst"), (LimitKind::Queries, "qps_burst"), (LimitKind::Logins, "logins_burst")];

/// What was said of the limits of one class.
#[derive(Copy, Clone, Debug, Default)]
pub struct LimitWords {
    /// In the order of [`RATES`].
    rates: [RateWords; RATES.len()],
    active: Option<u32>,
}

#[derive(Copy, Clone, Debug, Default)]
struct RateWords {
    per_second: Option<u32>,
    burst: Option<u32>,
}

impl RateWords {
    fn of(rate: Option<Rate>) -> RateWords {
        let burst = rate.filter(|rate| rate.burst != rate.per_second).map(|rate| rate.burst);
        RateWords { per_second: rate.map(|rate| rate.per_second), burst }
    }

    fn rate(self) -> Option<Rate> {
        self.per_second.map(|per_second| Rate { per_second, burst: self.burst.unwrap_or(per_second) })
    }
}

/// What a word says.
enum Word {
    PerSecond(usize),
    Burst(usize),
    Active,
}

impl Word {
    fn named(name: &str) -> Option<Word> {
        if name == LimitKind::Active.name() {
            return Some(Word::Active);
        }
        let rate = RATES.iter().position(|(kind, _)| kind.name() == name).map(Word::PerSecond);
        rate.or_else(|| RATES.iter().position(|(_, burst)| *burst == name).map(Word::Burst))
    }
}

impl LimitWords {
    /// As they would have to be written.
    #[must_use]
    pub fn of(limits: &Limits) -> LimitWords {
        let rates = [limits.transactions, limits.queries, limits.logins].map(RateWords::of);
        LimitWords { rates, active: limits.active }
    }

    /// The numbers that a word of this name takes; `None`: it says nothing of limits.
    #[must_use]
    pub fn bounds(name: &str) -> Option<RangeInclusive<u32>> {
        Some(match Word::named(name)? {
            Word::PerSecond(_) => 0..=RATE_MAX,
            Word::Burst(_) => 1..=RATE_MAX,
            Word::Active => 0..=ACTIVE_MAX,
        })
    }

    /// `number` is within the bounds of the word of this name.
    pub fn set(&mut self, name: &str, number: u32) {
        debug_assert!(LimitWords::bounds(name).is_some_and(|bounds| bounds.contains(&number)), "{name}={number}");
        let limit = Some(number).filter(|number| *number > 0);
        match Word::named(name) {
            Some(Word::PerSecond(rate)) => self.rates[rate].per_second = limit,
            Some(Word::Burst(rate)) => self.rates[rate].burst = limit,
            Some(Word::Active) => self.active = limit,
            None => {}
        }
    }

    /// Names of rates that are missing beside their bursts.
    pub fn missing_rates(&self) -> impl Iterator<Item = &'static str> {
        let rates = self.rates.into_iter().zip(RATES);
        rates.filter(|(rate, _)| rate.per_second.is_none() && rate.burst.is_some()).map(|(_, (kind, _))| kind.name())
    }

    /// Nothing is limited.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.active.is_none() && self.rates.iter().all(|rate| rate.per_second.is_none())
    }

    /// Puts them into `limits`; whether what is over a limit waits or is refused stays as it is.
    pub fn apply(&self, limits: &mut Limits) {
        let [transactions, queries, logins] = self.rates.map(RateWords::rate);
        *limits = Limits { transactions, queries, logins, active: self.active, over: limits.over };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(words: &[(&str, u32)]) -> Limits {
        let (mut all, mut limits) = (LimitWords::default(), Limits::default());
        words.iter().for_each(|(name, number)| all.set(name, *number));
        all.apply(&mut limits);
        limits
    }

    #[test]
    fn a_burst_is_as_large_as_its_rate_unless_it_is_given_in_any_order() {
        let rate = |per_second, burst| Some(Rate { per_second, burst });
        assert_eq!(limits(&[("tps", 5)]).transactions, rate(5, 5));
        assert_eq!(limits(&[("qps_burst", 9), ("qps", 5)]).queries, rate(5, 9));
        assert_eq!(limits(&[("logins", 5), ("logins_burst", 9), ("logins", 7)]).logins, rate(7, 9));
        assert_eq!(limits(&[("tps", 5), ("max_active", 3), ("tps", 0), ("max_active", 0)]), Limits::default());
    }

    #[test]
    fn a_burst_alone_is_no_limit() {
        let mut words = LimitWords::default();
        words.set("qps_burst", 9);
        assert!(words.is_none() && words.missing_rates().eq(["qps"]));
        words.set("qps", 5);
        assert!(!words.is_none() && words.missing_rates().next().is_none());
    }

    #[test]
    fn limits_are_what_they_were_when_they_are_written_again() {
        for words in [&[("tps", 5)][..], &[("tps", 5), ("tps_burst", 2), ("max_active", 7)], &[("logins", 1)]] {
            let (before, mut again) = (limits(words), Limits::default());
            LimitWords::of(&before).apply(&mut again);
            assert_eq!(before, again);
        }
    }

    #[test]
    fn every_limit_has_a_word() {
        for name in ["tps", "tps_burst", "qps", "qps_burst", "logins", "logins_burst", "max_active"] {
            assert!(LimitWords::bounds(name).is_some_and(|bounds| bounds.contains(&1)), "{name}");
        }
        assert!(LimitWords::bounds("over").is_none() && LimitWords::bounds("weight").is_none());
    }
}
