//! What one class has had of a pool's servers, in server time divided by its weight: its virtual time.
//!
//! A server is charged for from its link until it is free again. What is still running counts with the time it has taken so
//! far, and at first with what this class's links take on average: a class that has just been given ten servers has had them.

use units::Time;

/// Virtual time of one microsecond of one server, at weight 1.
const SCALE: u64 = 1 << 10;

#[derive(Debug, Default)]
pub(crate) struct Account {
    /// Virtual time of what has ended, and of what was never claimed.
    ended: u64,
    /// Links now.
    active: u32,
    /// The sum of their beginnings, in microseconds; it wraps.
    begun: u64,
    /// Smoothed length of a link, in microseconds.
    mean_us: u64,
    /// Server time of all links that have ended, in microseconds.
    served_us: u64,
}

impl Account {
    pub(crate) fn active(&self) -> u32 {
        self.active
    }

    /// Virtual time up to `now`.
    pub(crate) fn virtual_time(&self, weight: u32, now: Time) -> u64 {
        if self.active == 0 {
            return self.ended;
        }
        let running = self.running_us(now);
        let expected = u64::from(self.active) * self.mean_us;
        self.ended + scaled(running.max(expected), weight)
    }

    /// Server time up to `now`, in microseconds.
    pub(crate) fn served_us(&self, now: Time) -> u64 {
        self.served_us + self.running_us(now)
    }

    /// Nothing, at a time before the links that run began: when classes change, links are counted anew, and not in the
    /// order in which they began.
    fn running_us(&self, now: Time) -> u64 {
        let running = u64::from(self.active).wrapping_mul(now.0).wrapping_sub(self.begun);
        u64::try_from(running.cast_signed()).unwrap_or(0)
    }

    /// A class that had nothing to do has something again: it gets no credit for the time in which it had nothing to do.
    pub(crate) fn awake(&mut self, weight: u32, now: Time, others: u64) {
        let behind = others.saturating_sub(self.virtual_time(weight, now));
        self.ended += behind;
    }

    /// Another worker's servers have served it too.
    pub(crate) fn served_elsewhere(&mut self, weight: u32, micros: u64) {
        self.ended += scaled(micros, weight);
    }

    pub(crate) fn begin(&mut self, now: Time) {
        self.active += 1;
        self.begun = self.begun.wrapping_add(now.0);
    }

    pub(crate) fn end(&mut self, weight: u32, since: Time, now: Time) {
        debug_assert!(self.active > 0, "what ends has begun");
        let lasted = now.micros_since(since);
        self.active -= 1;
        self.begun = self.begun.wrapping_sub(since.0);
        self.ended += scaled(lasted, weight);
        self.served_us += lasted;
        self.mean_us = if self.mean_us == 0 { lasted } else { (self.mean_us * 7 + lasted) / 8 };
    }
}

/// Virtual time of so much server time.
pub(crate) fn scaled(micros: u64, weight: u32) -> u64 {
    micros.saturating_mul(SCALE) / u64::from(weight.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_counts_with_what_it_has_taken_or_will_take_on_average() {
        let mut account = Account::default();
        account.begin(Time(100));
        account.begin(Time(300));
        assert_eq!(account.virtual_time(1, Time(400)), 400 * SCALE);
        assert_eq!(account.virtual_time(4, Time(400)), 100 * SCALE);
        account.end(1, Time(100), Time(500));
        assert_eq!((account.active(), account.served_us(Time(500))), (1, 600));
        // The one that is left has taken 200 µs, and will take 400.
        assert_eq!(account.virtual_time(1, Time(500)), 800 * SCALE);
        assert_eq!(account.virtual_time(1, Time(900)), 1000 * SCALE);
    }

    /// Found by the simulator (seed 179528580500129).
    #[test]
    fn links_may_be_counted_in_any_order() {
        let mut account = Account::default();
        account.begin(Time(900));
        account.begin(Time(100));
        assert_eq!((account.virtual_time(1, Time(100)), account.served_us(Time(100))), (0, 0));
        account.awake(1, Time(100), 7);
        assert_eq!(account.virtual_time(1, Time(1000)), 7 + 1000 * SCALE);
    }

    #[test]
    fn nobody_saves_up_what_was_not_wanted() {
        let mut account = Account::default();
        account.awake(1, Time(0), 5000);
        assert_eq!(account.virtual_time(1, Time(0)), 5000);
        account.awake(1, Time(0), 4000);
        assert_eq!(account.virtual_time(1, Time(0)), 5000);
    }
}
