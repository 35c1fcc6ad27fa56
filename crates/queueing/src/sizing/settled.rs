//! What is done once the best size is found: it is watched, and its neighbours are tried now and then.
//!
//! A neighbour is compared with the windows just before it and after it, so that a load that drifts is not taken for a better
//! size, and what several tries have shown is added up. Moving back to where it came from needs twice the certainty for a while.

use std::time::Duration;

use units::Time;

use super::belief::Difference;
use super::evidence::{Record, Sample};
use super::{Mode, PAUSE_MAX, PAUSE_MIN, PROBE_WINDOWS, REST_MIN, STEP, Sizing, percent};

/// So many standard errors better, and the size is another one.
const SURE: f64 = 2.2;

/// The same for the size that was left last, within this time.
const SURE_TO_RETURN: f64 = 4.4;
const RETURN: Duration = Duration::from_secs(60);

/// Windows at the settled size before a neighbour is tried.
const BEFORE: f64 = 5.0;

/// A search has just looked at the neighbours: to try them again at once costs more than it tells.
const PAUSE_FIRST: Duration = Duration::from_secs(10);

/// From the last windows it is decided whether throughput is another one than before.
const STEP_SURE: f64 = 3.3;
const STEP_WINDOWS: f64 = 3.0;

/// Nobody waits, and transactions take longer than they did by this: the best size may be a smaller one.
const SLOWER: f64 = 0.35;

#[derive(Clone, Debug)]
pub(super) struct Rest {
    /// The rung it has settled at.
    pub(super) base: usize,
    /// Windows there, a long time and the last few.
    known: Record,
    recent: Record,
    /// How long transactions take there, as a logarithm, with weights as above.
    service: Record,
    service_recent: Record,
    /// Which is tried next.
    upwards: bool,
    probing: bool,
    next_probe: Time,
    pause: Duration,
    /// No search before this, and how long after the next one.
    pub(super) search_from: Time,
    search_rest: Duration,
    /// Where it was before its last move.
    left: Option<(usize, Time)>,
}

impl Rest {
    /// `upwards`: the larger neighbour is tried first.
    pub(super) fn new(now: Time, base: usize, rest: Duration, upwards: bool) -> Rest {
        Rest {
            base,
            known: Record::default(),
            recent: Record::default(),
            service: Record::default(),
            service_recent: Record::default(),
            upwards,
            probing: false,
            next_probe: now + PAUSE_FIRST,
            pause: PAUSE_FIRST,
            search_from: now + rest,
            search_rest: rest,
            left: None,
        }
    }

    /// A neighbour could not be reached.
    pub(super) fn return_to(&mut self, now: Time, rung: usize) {
        self.probing = false;
        self.pause = (self.pause + self.pause / 2).min(PAUSE_MAX);
        self.next_probe = now + self.pause;
        if rung < self.base {
            *self = Rest { search_from: self.search_from, ..Rest::new(now, rung, self.search_rest, false) };
        }
    }

    /// The last windows, and before they are forgotten, all of them.
    fn add(&mut self, sample: Sample) {
        if self.recent.weight >= STEP_WINDOWS {
            self.known.merge(std::mem::take(&mut self.recent));
            self.service.merge(std::mem::take(&mut self.service_recent));
        }
        self.recent.add(sample.speed);
        self.service_recent.add(service(sample));
    }

    fn move_base(&mut self, now: Time, rung: usize) {
        self.left = Some((self.base, now));
        self.base = rung;
        (self.known, self.recent) = (Record::default(), Record::default());
        (self.service, self.service_recent) = (Record::default(), Record::default());
        self.pause = PAUSE_MIN;
        self.next_probe = now + PAUSE_MIN;
    }
}

/// How long a transaction has its server, in seconds, as a logarithm.
fn service(sample: Sample) -> f64 {
    sample.busy.max(1e-9).ln() - sample.speed
}

impl Sizing {
    pub(super) fn rest(&mut self, now: Time, sample: Sample) {
        let Mode::Settled(rest) = &self.mode else { return };
        if rest.probing {
            self.probe(now, sample);
        } else {
            self.watch(now, sample);
        }
    }

    fn watch(&mut self, now: Time, sample: Sample) {
        let Mode::Settled(rest) = &mut self.mode else { return };
        if !sample.saturated {
            self.watch_unsaturated(now, sample);
            return;
        }
        rest.add(sample);
        let rung = self.rung_of(sample);
        self.see(sample);
        let Mode::Settled(rest) = &mut self.mode else { return };
        let full = rest.recent.weight >= STEP_WINDOWS && rest.known.weight >= STEP_WINDOWS;
        let difference = rest.recent.since(&rest.known, &self.unrest);
        let stepped = difference.mean.abs() > STEP && difference.sureness(0.0).abs() > STEP_SURE;
        if full && stepped && now >= rest.search_from {
            let why = format!("throughput has changed by {}: looking anew", percent(difference.mean));
            self.look_anew(now, difference.mean < 0.0, &why);
            return;
        }
        // A size that was chosen by wait events is left by them.
        let ready = rest.known.weight + rest.recent.weight >= BEFORE && rung == rest.base && !self.waits.have_decided();
        if now >= rest.next_probe && ready {
            self.begin_probe(now);
        }
    }

    /// Nobody waits: throughput is what clients request, and says nothing. How long a transaction takes may.
    fn watch_unsaturated(&mut self, now: Time, sample: Sample) {
        let size = f64::from(self.size());
        let Mode::Settled(rest) = &mut self.mode else { return };
        // What is being compared must have been seen under load.
        let loaded = sample.busy > 0.5 * size && sample.busy > 1.5;
        if !loaded {
            (rest.recent, rest.service_recent) = (Record::default(), Record::default());
            return;
        }
        rest.add(sample);
        let full = rest.service_recent.weight >= STEP_WINDOWS && rest.service.weight >= STEP_WINDOWS;
        let difference = rest.service_recent.since(&rest.service, &self.unrest);
        let slower = difference.mean > SLOWER && difference.sureness(0.0) > STEP_SURE;
        if full && slower && now >= rest.search_from {
            let why = format!("transactions take {} time: looking anew", percent(difference.mean));
            self.look_anew(now, true, &why);
        }
    }

    fn look_anew(&mut self, now: Time, down_first: bool, why: &str) {
        let Mode::Settled(rest) = &self.mode else { return };
        let soon = now.since(rest.search_from) < PAUSE_MAX;
        let pause = if soon { (rest.search_rest * 2).min(PAUSE_MAX) } else { REST_MIN };
        let base = rest.base;
        self.search_again(now, base, pause, down_first, why);
    }

    fn begin_probe(&mut self, now: Time) {
        let Mode::Settled(rest) = &self.mode else { return };
        let base = rest.base;
        let up = (base < self.ladder.top() && !self.is_blocked(now, base + 1)).then_some(base + 1);
        let down = base.checked_sub(1);
        let rung = if rest.upwards { up.or(down) } else { down.or(up) };
        let Some(rung) = rung else { return };
        let Mode::Settled(rest) = &mut self.mode else { return };
        rest.upwards = rung < base;
        rest.probing = true;
        self.move_to(now, rung, "trying a neighbour");
    }

    fn probe(&mut self, now: Time, sample: Sample) {
        let Mode::Settled(rest) = &self.mode else { return };
        let base = rest.base;
        // Where nobody waits, a smaller size says nothing, nor does a larger one that has less to do than before.
        let idle = !sample.saturated && (self.rung < base || sample.busy < 0.5 * f64::from(self.ladder.size(base)));
        if idle {
            self.give_up_probe(now, "nobody waits any more");
            return;
        }
        let jumped = self.see(sample);
        let Mode::Settled(rest) = &self.mode else { return };
        if jumped && now >= rest.search_from {
            // No neighbour is as much better or worse as that: everything is another one.
            let is_slower = self.odd == Some(false);
            self.look_anew(now, is_slower, "throughput has jumped while a neighbour was tried: looking anew");
            return;
        }
        let believed = self.belief.above(self.rung, base);
        let sureness = believed.sureness(self.ladder.bar(self.rung, base));
        if self.visited < 2 || f64::from(self.visited) < PROBE_WINDOWS && sureness.abs() < SURE {
            return;
        }
        let returns = rest.left.is_some_and(|(rung, at)| rung == self.rung && now.since(at) < RETURN);
        let sure = if returns { SURE_TO_RETURN } else { SURE };
        if sureness > sure {
            self.take_neighbour(now, believed);
        } else {
            self.leave_neighbour(now, believed);
        }
    }

    fn take_neighbour(&mut self, now: Time, seen: Difference) {
        let rung = self.rung;
        let Mode::Settled(rest) = &mut self.mode else { return };
        let from = self.ladder.size(rest.base);
        rest.move_base(now, rung);
        rest.probing = false;
        self.visited = 0;
        let to = self.ladder.size(rung);
        self.why = format!("{to} servers instead of {from}: throughput {}", percent(seen.mean));
        if let Some(change) = self.changes.back_mut() {
            self.why.clone_into(&mut change.why);
        }
    }

    /// Back to where it has settled, without having learned anything.
    pub(super) fn give_up_probe(&mut self, now: Time, why: &str) {
        let Mode::Settled(rest) = &mut self.mode else { return };
        if rest.probing {
            rest.probing = false;
            rest.next_probe = now + rest.pause;
            let base = rest.base;
            self.move_to(now, base, why);
        }
    }

    fn leave_neighbour(&mut self, now: Time, believed: Difference) {
        let Mode::Settled(rest) = &mut self.mode else { return };
        rest.probing = false;
        rest.pause = (rest.pause + rest.pause / 2).min(PAUSE_MAX);
        rest.next_probe = now + rest.pause;
        let base = rest.base;
        let tried = self.size();
        let why = format!("back; {tried} servers: {}", percent(believed.mean));
        self.move_to(now, base, &why);
    }
}
