//! The search: from where the size is, to the top of the curve.
//!
//! After each window it computes for every size what a look at it would bring: by how much, on average, the best size would be
//! better known to be a better one, for the time that the look takes. It goes where that is most (and stays, if that is here), and
//! ends when no size is left that is likely to be better by what matters.

use std::f64::consts::{FRAC_1_SQRT_2, TAU};
use std::time::Duration;

use units::Time;

use super::evidence::Sample;
use super::settled::Rest;
use super::{Mode, SEARCH_END, SEARCH_MAX, Sizing};

/// What more looks may still bring on average, as a logarithm of throughput, is not worth them below this.
const FINE: f64 = 0.003;

/// Windows of a look at another size, and what it takes in windows: servers come and go.
const LOOK_WINDOWS: f64 = 3.0;
const MOVE_WINDOWS: f64 = 3.0;

/// Servers that are opened in a window, where PostgreSQL has work to do besides: many are looked at for a reason only.
const OPENED_IN_WINDOW: f64 = 15.0;

/// Windows that each size is given at least, once there.
const STAY_MIN: u32 = 3;

/// Rungs that it goes at once, from the sizes that it knows: a factor of four up, of eight down.
const UP_MAX: usize = 4;
const DOWN_MAX: usize = 6;

/// So many standard errors below the best: the top does not lie beyond it.
const SURELY: f64 = 3.0;

#[derive(Copy, Clone, Debug)]
pub(super) struct Search {
    since: Time,
    down_first: bool,
    /// How long the pool rests after it.
    pub(super) rest: Duration,
    /// At this rung nobody waited: more servers change nothing.
    enough: Option<usize>,
    /// Throughput has jumped meanwhile, and it began anew.
    renewed: bool,
}

impl Search {
    pub(super) fn new(now: Time, down_first: bool, rest: Duration) -> Search {
        Search { since: now, down_first, rest, enough: None, renewed: false }
    }
}

impl Sizing {
    pub(super) fn search(&mut self, now: Time, sample: Sample) {
        let rung = self.rung;
        let lowest = f64::from(self.size()).min(f64::from(self.ladder.size(self.best())));
        if !sample.saturated && sample.busy < 0.5 * lowest {
            self.settle(now, "the load went away while looking");
            return;
        }
        if let Mode::Searching(search) = &mut self.mode {
            search.enough = if sample.saturated { search.enough.filter(|&from| from > rung) } else { Some(rung) };
        }
        if self.see(sample) {
            // The curve may be another one now, too.
            self.belief.forget();
            self.believe(sample);
            if let Mode::Searching(search) = &mut self.mode
                && !std::mem::replace(&mut search.renewed, true)
            {
                search.since = now;
            }
        }
        let Mode::Searching(search) = self.mode else { return };
        let spent = now.since(search.since);
        if self.visited < STAY_MIN && spent < SEARCH_END {
            return;
        }
        let best = self.best();
        let next = if spent < SEARCH_MAX { self.next_look(now, search) } else { None };
        match next {
            Some(next) if next == rung => {}
            Some(next) => {
                let known = self.belief.is_known(next);
                let why = if known { "comparing once more" } else { "looking for the best size" };
                self.move_to(now, next, why);
            }
            None => {
                let why = self.finding(best);
                self.settle(now, &why);
            }
        }
    }

    /// The rung that is worth most of those that were looked at.
    pub(super) fn best(&self) -> usize {
        self.best_of((0..self.ladder.len()).filter(|&rung| self.belief.is_known(rung)))
    }

    fn best_of(&self, rungs: impl Iterator<Item = usize>) -> usize {
        let worth =
            rungs.map(|rung| (rung, self.belief.above(rung, self.rung).mean - self.ladder.bar(rung, self.rung)));
        worth.max_by(|a, b| a.1.total_cmp(&b.1)).map_or(self.rung, |(rung, _)| rung)
    }

    /// Rungs that may be looked at next.
    fn open_to_look(&self, now: Time, search: Search) -> Vec<usize> {
        let known = |rung: &usize| self.belief.is_known(*rung);
        let rungs = 0..self.ladder.len();
        let (Some(lowest), Some(highest)) = (rungs.clone().find(known), rungs.clone().rev().find(known)) else {
            return vec![self.rung];
        };
        let up = if search.down_first && lowest == highest && lowest > 0 { highest } else { highest + UP_MAX };
        // Beyond a size that is surely worse it only becomes worse.
        let best = self.best();
        let worse = |rung: &usize| {
            known(rung) && self.belief.above(*rung, best).sureness(self.ladder.bar(*rung, best)) < -SURELY
        };
        let wall_below = (0..best).rev().find(worse).unwrap_or(0);
        let wall_above = (best + 1..=self.ladder.top()).find(worse).unwrap_or(self.ladder.top());
        let open = |&rung: &usize| {
            rung + DOWN_MAX >= lowest
                && rung <= up
                && (wall_below..=wall_above).contains(&rung)
                && search.enough.is_none_or(|enough| rung <= enough)
                && !self.is_blocked(now, rung)
        };
        rungs.filter(open).collect()
    }

    /// Where to look next; `None`: nothing is left that could matter.
    fn next_look(&self, now: Time, search: Search) -> Option<usize> {
        let open = self.open_to_look(now, search);
        let likely = self.best_of(open.iter().copied());
        let doubt = |rung: &usize| {
            let difference = self.belief.above(*rung, likely);
            above_zero(difference.mean - self.ladder.bar(*rung, likely), difference.variance.sqrt())
        };
        let others = open.iter().filter(|&&rung| rung != likely);
        if others.map(doubt).fold(0.0, f64::max) < FINE {
            return (!self.belief.is_known(likely)).then_some(likely);
        }
        let value = |rung: usize| (rung, self.value_of_look(rung, likely, &open));
        open.iter().map(|&rung| value(rung)).max_by(|a, b| a.1.total_cmp(&b.1)).map(|(rung, _)| rung)
    }

    /// What a look at a rung brings for each window of time.
    fn value_of_look(&self, rung: usize, best: usize, open: &[usize]) -> f64 {
        let here = rung == self.rung;
        let opened = f64::from(self.ladder.size(rung).saturating_sub(self.size())) / OPENED_IN_WINDOW;
        let (windows, time) = if here { (1.0, 1.0) } else { (LOOK_WINDOWS, LOOK_WINDOWS + MOVE_WINDOWS + opened) };
        let away = if here { 0.0 } else { self.unrest.drift(super::LOOK.as_secs_f64() * MOVE_WINDOWS) };
        let noise = self.unrest.noise() / windows + away;
        let brings = |other: usize| {
            let gap = self.belief.above(other, best).mean - self.ladder.bar(other, best);
            above_zero(gap, self.belief.would_tell(rung, noise, other, best))
        };
        open.iter().filter(|&&other| other != best).map(|&other| brings(other)).fold(0.0, f64::max) / time
    }

    /// What was found, for people.
    fn finding(&self, best: usize) -> String {
        let known = |rung: &usize| self.belief.is_known(*rung);
        let nearest = [(0..best).rev().find(known), (best + 1..self.ladder.len()).find(known)];
        let compared = nearest.into_iter().flatten().map(|rung| {
            let difference = self.belief.above(rung, best).mean;
            format!("{} servers: {}", self.ladder.size(rung), super::percent(difference))
        });
        let compared: Vec<String> = compared.collect();
        match (compared.is_empty(), self.ladder.len()) {
            (false, _) => format!("best; {}", compared.join(", ")),
            (true, 1) => "floor and ceiling are the same".to_owned(),
            (true, _) => "there was no time to look at another size".to_owned(),
        }
    }

    /// Ends the search at the best size known.
    pub(super) fn settle(&mut self, now: Time, why: &str) {
        let Mode::Searching(search) = self.mode else { return };
        let best = self.best();
        self.move_to(now, best, why);
        why.clone_into(&mut self.why);
        self.mode = Mode::Settled(Rest::new(now, best, search.rest, self.is_rather_more(best)));
    }

    /// Whether the larger neighbour is likelier to be better than the smaller one.
    fn is_rather_more(&self, base: usize) -> bool {
        let promise = |rung: usize| {
            let difference = self.belief.above(rung, base);
            above_zero(difference.mean - self.ladder.bar(rung, base), difference.variance.sqrt())
        };
        let up = (base < self.ladder.top()).then(|| promise(base + 1));
        let down = base.checked_sub(1).map(promise);
        up.is_some_and(|up| down.is_none_or(|down| up >= down))
    }

    /// Everything anew, from where the size is.
    pub(super) fn search_again(&mut self, now: Time, base: usize, rest: Duration, down_first: bool, why: &str) {
        self.belief.forget();
        why.clone_into(&mut self.why);
        self.move_to(now, base, why);
        self.mode = Mode::Searching(Search::new(now, down_first, rest));
    }
}

/// The mean of what a normal variable has above zero: how much better, on average, a choice becomes by knowing it.
fn above_zero(mean: f64, deviation: f64) -> f64 {
    if deviation < 1e-9 {
        return mean.max(0.0);
    }
    let z = mean / deviation;
    let density = (-0.5 * z * z).exp() / TAU.sqrt();
    (mean * below(z) + deviation * density).max(0.0)
}

/// How likely a standard normal variable is below `z` (Abramowitz and Stegun, 7.1.26: to seven digits).
fn below(z: f64) -> f64 {
    let x = z.abs() * FRAC_1_SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let terms = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
    let tail = terms.into_iter().fold(0.0, |sum, term| (sum + term) * t) * (-x * x).exp();
    if z < 0.0 { tail / 2.0 } else { 1.0 - tail / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_normal_variable_has_above_zero() {
        for (mean, deviation, expected) in
            [(0.0, 1.0, 0.398_942), (1.0, 1.0, 1.083_315), (-1.0, 1.0, 0.083_315), (-0.1, 0.0, 0.0)]
        {
            assert!((above_zero(mean, deviation) - expected).abs() < 1e-5, "{mean} {deviation}");
        }
    }
}
