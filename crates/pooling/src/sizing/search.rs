//! The search: from where the size is, up the ladder or down, to the top of the curve.
//!
//! Visits the best rung's neighbours, two away before one away, until none is left that was not visited; then, while there
//! is time, whichever of the best and its neighbours is least certain. Visits are as short as the difference is clear.

use std::time::Duration;

use super::evidence::{Record, Sample};
use super::settled::Rest;
use super::smooth::smooth;
use super::{Mode, SEARCH_END, SEARCH_MAX, Sizing, VISIT_WINDOWS};
use crate::time::Time;

/// Sure enough to go on: a wrong turn is found by the neighbours' visits.
const SURE: f64 = 2.8;

/// Sure enough to stop.
const DOUBTFUL: f64 = 1.5;

/// Differences that are known better than this are not worth more time.
const FINE: f64 = 0.012;

/// Two rungs are a factor of two: this much a rung is nearly that.
const STEEP: f64 = 0.24;

/// A rung whose throughput is another one than before by this much, and surely: the curve has changed.
const STEP: f64 = 0.14;
const STEP_SURE: f64 = 4.0;

#[derive(Copy, Clone, Debug)]
pub(super) struct Search {
    since: Time,
    down_first: bool,
    /// How long the pool rests after it.
    pub(super) rest: Duration,
}

impl Search {
    pub(super) fn new(now: Time, down_first: bool) -> Search {
        Search { since: now, down_first, rest: super::REST_MIN }
    }
}

impl Sizing {
    pub(super) fn search(&mut self, now: Time, sample: Sample) {
        self.visit.add(sample);
        let lowest = f64::from(self.size()).min(f64::from(self.ladder.size(self.best().unwrap_or(self.rung))));
        if !sample.saturated && sample.busy < 0.5 * lowest {
            self.settle(now, "the load went away while looking");
            return;
        }
        let Mode::Searching(search) = &self.mode else { return };
        if !self.visit_is_over() && now.since(search.since) < SEARCH_END {
            return;
        }
        self.remember(now);
        let best = self.best().expect("a visit was just remembered");
        let Mode::Searching(search) = &self.mode else { return };
        let next = if now.since(search.since) < SEARCH_MAX { self.next_visit(now, best) } else { None };
        match next {
            Some(rung) => {
                let why = if rung == best { "comparing once more" } else { "looking for the best size" };
                self.move_to(now, rung, why);
            }
            None => {
                let why = self.finding(best);
                self.settle(now, &why);
            }
        }
    }

    /// Three windows of the first rung; of others, as many as make a clear difference.
    fn visit_is_over(&self) -> bool {
        let visit = &self.visit;
        let mut merged = self.records[self.rung];
        merged.merge(*visit);
        let rival = self.best_but(self.rung);
        let clear = rival.is_some_and(|rival| {
            let bar = self.bar(self.rung, rival);
            merged.above(&self.records[rival], &self.scatter).sureness(bar).abs() > SURE
        });
        visit.weight >= VISIT_WINDOWS || visit.weight >= 2.0 && clear || visit.weight >= 3.0 && rival.is_none()
    }

    /// Adds the visit to what is known of its rung, unless that shows that everything known is of another curve.
    fn remember(&mut self, now: Time) {
        let visit = std::mem::take(&mut self.visit);
        let known = self.records[self.rung];
        if known.weight > 0.0 {
            let difference = visit.above(&known, &self.scatter);
            if difference.mean.abs() > STEP && difference.sureness(0.0).abs() > STEP_SURE {
                self.forget();
                if let Mode::Searching(search) = &mut self.mode {
                    search.since = now;
                }
            }
        }
        self.records[self.rung].merge(visit);
    }

    pub(super) fn forget(&mut self) {
        self.records.fill(Record::default());
    }

    /// The rung that is worth most, of those that are known.
    fn best(&self) -> Option<usize> {
        self.best_but(usize::MAX)
    }

    fn best_but(&self, but: usize) -> Option<usize> {
        let rungs = (0..self.records.len()).filter(|&rung| rung != but);
        let worth = rungs.filter_map(|rung| Some((rung, smooth(&self.records, rung)? - self.bar(rung, 0))));
        worth.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(rung, _)| rung)
    }

    fn is_known(&self, rung: usize) -> bool {
        self.records[rung].weight > 0.0
    }

    /// Where to look next; `None`: nothing is left that could matter.
    fn next_visit(&self, now: Time, best: usize) -> Option<usize> {
        let top = self.top();
        // Where nobody waits, more servers change nothing.
        let upwards = self.records[best].saturated && !self.is_blocked(now, best + 1) && best < top;
        let up = |steps: usize| (best + steps).min(top);
        let down = |steps: usize| best.saturating_sub(steps);
        let far_up = Some(up(self.stride(best, -1))).filter(|&rung| {
            let seen = (best + 1..=up(2)).any(|rung| self.is_known(rung));
            upwards && !seen && !self.is_known(rung) && !self.is_blocked(now, rung)
        });
        let far_down = Some(down(self.stride(best, 1))).filter(|&rung| {
            let seen = (down(2)..best).any(|rung| self.is_known(rung));
            best > 0 && !seen && !self.is_known(rung)
        });
        let falls = self.stride(best, 1) > 2;
        let far = if falls || self.looks_down_first() { far_down.or(far_up) } else { far_up.or(far_down) };
        let between = [best + 2, best.wrapping_sub(2), best + 1, best.wrapping_sub(1)];
        let mut between = between.into_iter().filter(|&rung| rung <= top && (rung < best || upwards));
        far.or_else(|| between.find(|&rung| !self.is_needless(rung, best))).or_else(|| self.doubtful(best))
    }

    fn looks_down_first(&self) -> bool {
        matches!(self.mode, Mode::Searching(Search { down_first: true, .. }))
    }

    /// Known, or two away with one between that is known.
    fn is_needless(&self, rung: usize, best: usize) -> bool {
        let between = rung.abs_diff(best) == 2 && self.is_known((rung + best) / 2);
        self.is_known(rung) || between
    }

    /// How far to look next: where throughput still goes with the size (or against it), the top is not near.
    fn stride(&self, best: usize, back: isize) -> usize {
        let behind = |steps: usize| best.checked_add_signed(back * steps as isize).filter(|&rung| rung <= self.top());
        let nearest = (1..=4).find(|&steps| behind(steps).is_some_and(|rung| self.is_known(rung)));
        let slope = nearest.and_then(|steps| {
            let rung = behind(steps)?;
            Some((self.records[best].mean - self.records[rung].mean) / steps as f64)
        });
        if slope.is_some_and(|slope| slope > STEEP) { 4 } else { 2 }
    }

    /// Of the best and a neighbour that cannot be told apart yet, the one that is known less.
    fn doubtful(&self, best: usize) -> Option<usize> {
        let neighbours = [best + 1, best.wrapping_sub(1)].into_iter().filter(|&rung| rung <= self.top());
        let doubts = neighbours.filter(|&rung| self.is_known(rung)).filter_map(|rung| {
            let difference = self.records[rung].above(&self.records[best], &self.scatter);
            let sureness = difference.sureness(self.bar(rung, best)).abs();
            (sureness < DOUBTFUL && difference.variance.sqrt() > FINE).then_some((sureness, rung))
        });
        let (_, rung) = doubts.min_by(|a, b| a.0.total_cmp(&b.0))?;
        let less_known = self.records[rung].weight <= self.records[best].weight;
        Some(if less_known { rung } else { best })
    }

    /// What was found, for people.
    fn finding(&self, best: usize) -> String {
        let compared = [best.wrapping_sub(1), best.wrapping_sub(2), best + 1, best + 2];
        let compared = compared.into_iter().filter(|&rung| rung <= self.top() && self.is_known(rung));
        let mut nearest = [None, None];
        for rung in compared {
            nearest[usize::from(rung > best)].get_or_insert(rung);
        }
        let told = nearest.into_iter().flatten().map(|rung| {
            let difference = self.records[rung].mean - self.records[best].mean;
            format!("{} servers: {}", self.ladder.size(rung), super::percent(difference))
        });
        let told: Vec<String> = told.collect();
        let size = self.ladder.size(best);
        if told.is_empty() { format!("{size} is all there is") } else { format!("best; {}", told.join(", ")) }
    }

    /// Ends the search at the best size known.
    pub(super) fn settle(&mut self, now: Time, why: &str) {
        let Mode::Searching(search) = self.mode else { return };
        let best = self.best().unwrap_or(self.rung);
        self.move_to(now, best, why);
        why.clone_into(&mut self.why);
        self.mode = Mode::Settled(Rest::new(now, best, search.rest));
    }

    /// Everything anew, from where the size is.
    pub(super) fn search_again(&mut self, now: Time, base: usize, rest: Duration, down_first: bool, why: &str) {
        self.forget();
        why.clone_into(&mut self.why);
        self.move_to(now, base, why);
        self.mode = Mode::Searching(Search { since: now, down_first, rest });
    }
}
