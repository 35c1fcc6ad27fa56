//! Figures over time: a point for each second, or for some seconds where the time is long.
//!
//! Promises: there are no more than [`POINTS_MAX`] points, and a point has no more than [`CLASSES_MAX`] classes.

use std::collections::BTreeMap;

/// Points that are kept: some for each place of a chart.
pub(crate) const POINTS_MAX: usize = 1500;

/// Classes of wait events of one point. PostgreSQL has ten, and an extension may add some.
const CLASSES_MAX: usize = 32;
const OTHERS: &str = "(others)";

/// One second, over all pools; or some seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Point {
    /// When the first of its seconds was, by the pooler's clock and zone.
    pub(crate) time: String,
    pub(crate) seconds: u64,
    /// Sums of samples by class of wait event.
    pub(crate) classes: BTreeMap<String, u64>,
    /// The most of any second, as the next one.
    pub(crate) waiting: u64,
    pub(crate) max_wait: f64,
    /// Sums over the seconds, as the next one.
    pub(crate) active: u64,
    pub(crate) idle: u64,
    /// The sum of the transactions in a second, over the seconds for which they are known.
    pub(crate) transactions: f64,
    pub(crate) rated: u64,
}

impl Point {
    pub(crate) fn add_class(&mut self, class: &str, count: u64) {
        let is_known = self.classes.contains_key(class) || self.classes.len() < CLASSES_MAX;
        let class = if is_known { class } else { OTHERS };
        if let Some(known) = self.classes.get_mut(class) {
            *known = known.saturating_add(count);
        } else {
            self.classes.insert(class.to_owned(), count);
        }
    }

    pub(crate) fn add_rate(&mut self, rate: f64) {
        self.transactions += rate;
        self.rated = 1;
    }

    fn merge(&mut self, later: Point) {
        self.seconds += later.seconds;
        self.waiting = self.waiting.max(later.waiting);
        self.max_wait = self.max_wait.max(later.max_wait);
        self.active = self.active.saturating_add(later.active);
        self.idle = self.idle.saturating_add(later.idle);
        self.transactions += later.transactions;
        self.rated += later.rated;
        for (class, count) in later.classes {
            self.add_class(&class, count);
        }
    }
}

#[derive(Debug)]
pub(crate) struct Points {
    /// Seconds of a point.
    width: u64,
    /// By second since 1970, divided by the width.
    points: BTreeMap<u64, Point>,
    /// The second to which lines are added now.
    now: Option<(u64, Point)>,
}

impl Default for Points {
    fn default() -> Points {
        Points { width: 1, points: BTreeMap::new(), now: None }
    }
}

impl Points {
    /// The second of a line. Lines of a second come together.
    pub(crate) fn second(&mut self, at: u64, time: &str) -> &mut Point {
        if self.now.as_ref().is_some_and(|(now, _)| *now != at) {
            self.end_second();
        }
        let begun = || (at, Point { time: time.to_owned(), seconds: 1, ..Point::default() });
        &mut self.now.get_or_insert_with(begun).1
    }

    /// All lines of the last second have come.
    pub(crate) fn end_second(&mut self) {
        let Some((at, point)) = self.now.take() else { return };
        self.put(at / self.width, point);
        while self.points.len() > POINTS_MAX {
            self.width *= 2;
            for (place, point) in std::mem::take(&mut self.points) {
                self.put(place / 2, point);
            }
        }
    }

    fn put(&mut self, place: u64, point: Point) {
        match self.points.get_mut(&place) {
            Some(known) => known.merge(point),
            None => _ = self.points.insert(place, point),
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Point> {
        self.points.values()
    }

    pub(crate) fn width(&self) -> u64 {
        self.width
    }

    /// The places of the first and of the last point.
    pub(crate) fn ends(&self) -> Option<(u64, u64)> {
        Some((*self.points.first_key_value()?.0, *self.points.last_key_value()?.0))
    }

    pub(crate) fn between(&self, from: u64, end: u64) -> impl Iterator<Item = &Point> {
        self.points.range(from..end).map(|(_, point)| point)
    }

    pub(crate) fn seconds(&self) -> u64 {
        self.all().map(|point| point.seconds).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_week_has_few_points_which_keep_its_averages_and_its_worst_second() {
        let mut points = Points::default();
        let week = 7 * 86_400;
        for at in 0..week {
            let second = points.second(1_000_000 + at, "12:00");
            second.add_class("Lock", 3);
            second.active += 5;
            second.waiting += if at == 300_000 { 90 } else { 1 };
            second.add_rate(2.0);
        }
        points.end_second();
        let count = points.all().count();
        assert!((POINTS_MAX / 2..=POINTS_MAX).contains(&count), "{count}");
        assert_eq!((points.seconds(), points.width()), (week, 512));
        assert_eq!(points.all().map(|point| point.waiting).max(), Some(90));
        assert!(
            points.all().all(|point| point.classes["Lock"] == 3 * point.seconds && point.active == 5 * point.seconds)
        );
        assert!(points.all().all(|point| (point.transactions / point.rated as f64 - 2.0).abs() < 1e-9));
    }
}
