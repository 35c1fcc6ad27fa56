//! Figures of any time that is in memory or on disk. A chart of an hour or less has a point for each second.
//!
//! In a chart of a longer time a point covers some minutes. A rate is the average over these minutes. A count is the maximum of their seconds, so
//! that a chart of a day shows an incident of some seconds.

use std::ops::ControlFlow;

use activity::At;
use activity::history::{Glance, PoolSecond, Span};
use units::PoolKey;

use crate::Pooler;
use crate::hour::{CLASSES_MAX, Figures, Hour, NAMES, RATES, values};

/// Points of a chart of more than an hour.
const POINTS_MAX: u64 = 1500;

const HOUR: u64 = 3600;
const DAYS_MAX: u64 = 31 * 24 * HOUR;

/// How many seconds a point has: one, or whole minutes.
fn step(seconds: u64) -> u64 {
    if seconds <= HOUR { 1 } else { seconds.div_ceil(60).div_ceil(POINTS_MAX) * 60 }
}

/// The figures of a span as [`Hour::json`] writes them. `from`, `to`: seconds of 1970, both included. `None`: there is no such time, or `is_wanted` has
/// become false.
pub(crate) fn json(pooler: &dyn Pooler, from: u64, to: u64, is_wanted: &dyn Fn() -> bool) -> Option<String> {
    let from = from.max(to.saturating_sub(DAYS_MAX));
    let mut days = Days::new(step(to.checked_sub(from)?));
    let span = Span { from: At(from.checked_mul(1000)?), to: At(to.checked_mul(1000)?.checked_add(999)?) };
    let mut has_ended = true;
    pooler.glances(span, &mut |glance| {
        days.add(glance);
        has_ended = is_wanted();
        if has_ended { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    has_ended.then(|| days.hour().json(0))
}

/// Points, from the oldest.
struct Days {
    step: u64,
    points: Vec<Point>,
    /// Classes of wait events, in the order in which they were first seen.
    classes: Vec<String>,
    before: Option<(At, Vec<(PoolKey, PoolSecond)>)>,
}

struct Point {
    at: At,
    /// The number of seconds whose rates are known.
    rated: u32,
    /// Rates are sums until the end.
    values: [f32; NAMES.len()],
    classes: Vec<u32>,
}

impl Days {
    fn new(step: u64) -> Days {
        Days { step, points: Vec::new(), classes: Vec::new(), before: None }
    }

    fn add(&mut self, glance: Glance) {
        let at = At(glance.at.second() / self.step * self.step * 1000);
        // After a gap the counters have grown over a time that the chart does not show.
        let before = self.before.take().filter(|(before, _)| glance.at.0.saturating_sub(before.0) <= 60_000);
        let values = values(
            before.as_ref().map(|(at, pools)| (*at, &pools[..])),
            (glance.at, &glance.pools),
            glance.hosts_missing,
        );
        if self.points.last().is_none_or(|last| last.at < at) {
            self.points.push(Point { at, rated: 0, values: [0.0; NAMES.len()], classes: Vec::new() });
        }
        let point = self.points.last_mut().expect("there is one now");
        point.rated += u32::from(before.is_some());
        for (place, (known, value)) in point.values.iter_mut().zip(values).enumerate() {
            *known = if place < RATES { *known + value } else { known.max(value) };
        }
        for (class, count) in &glance.classes {
            let known = self.classes.iter().position(|known| known == class);
            // All classes beyond the bound share the last place.
            let place = known.unwrap_or_else(|| self.classes.len().min(CLASSES_MAX - 1));
            if place == self.classes.len() {
                self.classes.push(class.clone());
            }
            point.classes.resize(point.classes.len().max(place + 1), 0);
            point.classes[place] = point.classes[place].max(*count);
        }
        self.before = Some((glance.at, glance.pools));
    }

    fn hour(self) -> Hour {
        let figures = |mut point: Point| {
            let rated = point.rated.max(1) as f32;
            point.values[..RATES].iter_mut().for_each(|value| *value /= rated);
            Figures { at: point.at, values: point.values, classes: point.classes }
        };
        Hour::of(self.points.into_iter().map(figures).collect(), self.classes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glance(second: u64, transactions: u64, waiting: u32, locks: u32) -> Glance {
        let key = PoolKey { database: "app".into(), user: "ann".into() };
        let pool = PoolSecond { transactions, waiting, clients: 5, ..PoolSecond::default() };
        let classes = [("Lock".to_owned(), locks)].into_iter().filter(|(_, count)| *count > 0).collect();
        Glance { at: At(second * 1000), hosts_missing: 0, classes, pools: vec![(key, pool)] }
    }

    fn drawn(step: u64, glances: impl IntoIterator<Item = Glance>) -> serde_json::Value {
        let mut days = Days::new(step);
        glances.into_iter().for_each(|glance| days.add(glance));
        serde_json::from_str(&days.hour().json(0)).expect("JSON")
    }

    #[test]
    fn a_point_has_so_many_seconds_that_a_chart_is_short() {
        let hours = |hours: u64| step(hours * HOUR);
        assert_eq!((hours(1), hours(6), hours(24), hours(26), hours(7 * 24)), (1, 60, 60, 120, 420));
        assert!(DAYS_MAX / step(DAYS_MAX) <= POINTS_MAX);
    }

    #[test]
    fn an_hour_has_its_seconds() {
        let json = drawn(1, [glance(100, 1000, 0, 0), glance(101, 1100, 7, 2), glance(103, 1300, 2, 0)]);
        assert_eq!(json["at"], serde_json::json!([100, 101, 103]));
        assert_eq!(json["transactions"], serde_json::json!([0.0, 100.0, 100.0]));
        assert_eq!(json["waiting"], serde_json::json!([0.0, 7.0, 2.0]));
        assert_eq!(json["samples"], serde_json::json!([[0, 2, 0]]));
    }

    #[test]
    fn in_a_day_a_short_queue_is_seen_and_rates_are_averages() {
        let second = |at: u64| glance(at, at * 50, if at == 130 { 90 } else { 0 }, if at == 131 { 12 } else { 1 });
        let json = drawn(60, (60..240).map(second));
        assert_eq!(json["at"], serde_json::json!([60, 120, 180]));
        assert_eq!(json["transactions"], serde_json::json!([50.0, 50.0, 50.0]));
        assert_eq!(json["waiting"], serde_json::json!([0.0, 90.0, 0.0]));
        assert_eq!(json["samples"], serde_json::json!([[1, 12, 1]]));
        // Counters give no rate over a gap.
        let json = drawn(60, [glance(60, 10, 0, 0), glance(6000, 1_000_000, 0, 0)]);
        assert_eq!(json["transactions"], serde_json::json!([0.0, 0.0]));
    }
}
