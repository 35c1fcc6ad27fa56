//! Servers whose throughput is a known function of how many are busy, and clients that ask again as soon as they are answered.
//!
//! Time goes in ticks of 20 ms. Noise makes the whole database faster or slower for 200 ms at a time, each time anew; drift makes it
//! so for some seconds; chance besides makes something of the number of transactions in a tick.

use std::time::Duration;

use queueing::sizing::Seen;
use units::Time;

const TICK: Duration = Duration::from_millis(20);

/// Servers that may be opened in a tick.
const OPENED: u32 = 4;

/// Transactions a second, by servers that are busy.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(crate) enum Curve {
    /// The universal scalability law: contention, and coherency such that the peak is at `peak`.
    Peak { peak: f64, contention: f64, alone: f64 },
    /// All transactions wait for something else: twice the servers, twice the throughput.
    Latency { alone: f64 },
    /// So many cores, and a little lost to each server beyond.
    Cores { cores: f64, alone: f64, loss: f64 },
}

impl Curve {
    pub(crate) fn at(self, busy: u32) -> f64 {
        let n = f64::from(busy);
        match self {
            Curve::Peak { peak, contention, alone } => {
                let coherency = (1.0 - contention) / (peak * peak);
                alone * n / (1.0 + contention * (n - 1.0) + coherency * n * (n - 1.0))
            }
            Curve::Latency { alone } => alone * n,
            Curve::Cores { cores, alone, loss } => alone * n.min(cores) * (1.0 - loss * (n - cores).max(0.0)).max(0.1),
        }
    }

    pub(crate) fn best(self, floor: u32, ceiling: u32) -> f64 {
        (floor..=ceiling).map(|size| self.at(size)).fold(0.0, f64::max)
    }
}

/// A generator of reproducible chance: splitmix64.
#[derive(Clone, Debug)]
pub(crate) struct Chance(pub u64);

impl Chance {
    pub(crate) fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// What a controller is to the model.
pub(crate) trait Rule {
    fn size(&self) -> u32;
    fn observe(&mut self, now: Time, seen: Seen);
    /// How often it wants to see.
    fn look(&self) -> Duration {
        queueing::sizing::LOOK
    }
}

impl Rule for queueing::sizing::Sizing {
    fn size(&self) -> u32 {
        queueing::sizing::Sizing::size(self)
    }

    fn observe(&mut self, now: Time, seen: Seen) {
        queueing::sizing::Sizing::observe(self, now, seen);
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) curve: Curve,
    pub(crate) clients: u32,
    /// As a part of throughput: one standard deviation.
    pub(crate) noise: f64,
    /// The same, of what comes and goes in five seconds.
    pub(crate) drift: f64,
    /// No more servers than this can be opened.
    pub(crate) available: u32,
    pub(crate) now: Time,
    pub(crate) open: u32,
    chance: Chance,
    factor: f64,
    level: f64,
    seen: Seen,
    seen_at: Time,
}

impl Model {
    pub(crate) fn new(curve: Curve, clients: u32, noise: f64, seed: u64) -> Model {
        Model {
            curve,
            clients,
            noise,
            drift: 0.0,
            available: u32::MAX,
            now: Time::ZERO,
            open: 0,
            chance: Chance(seed.wrapping_mul(0x2545_f491_4f6c_dd1d)),
            factor: 1.0,
            level: 0.0,
            seen: Seen::default(),
            seen_at: Time::ZERO,
        }
    }

    /// Goes on for so long. `each` is told after every tick; what is returned is the mean of noiseless throughput.
    pub(crate) fn run<R: Rule>(&mut self, rule: &mut R, span: Duration, mut each: impl FnMut(&Model, &R)) -> f64 {
        let (end, mut ticks, mut sum) = (self.now + span, 0.0, 0.0);
        while self.now < end {
            sum += self.tick(rule.size());
            ticks += 1.0;
            if self.now.since(self.seen_at) >= rule.look() {
                let seen = Seen { span: self.now.since(self.seen_at), ..self.seen };
                (self.seen, self.seen_at) = (Seen::default(), self.now);
                rule.observe(self.now, seen);
            }
            each(self, rule);
        }
        sum / ticks
    }

    fn tick(&mut self, size: u32) -> f64 {
        let wanted = size.min(self.clients.max(self.open)).min(self.available);
        self.open = if wanted > self.open { (self.open + OPENED).min(wanted) } else { self.open.min(size) };
        let busy = self.open.min(self.clients);
        if self.now.0.is_multiple_of(200_000) {
            // What is left of it after 200 ms, and what is new.
            let stays = 1.0 - 0.2 / 5.0;
            self.level = stays * self.level + (1.0 - stays * stays).sqrt() * self.drift * self.chance.normal();
            self.factor = ((1.0 + self.noise * self.chance.normal()) * (1.0 + self.level)).max(0.1);
        }
        let speed = self.curve.at(busy);
        let expected = speed * self.factor * TICK.as_secs_f64();
        let completed = (expected + expected.sqrt() * self.chance.normal()).max(0.0).round();
        let waiting = self.clients - busy;
        self.seen.completed += completed as u64;
        self.seen.busy += TICK * busy;
        self.seen.waited += TICK * waiting;
        (self.seen.waiting, self.seen.open) = (waiting, self.open);
        self.now = self.now + TICK;
        speed
    }
}
