//! What is read from disk for one answer: the part of its time that memory does not reach back to.

use std::time::Duration;

use activity::History;
use activity::history::{Dimension, Episodes, Span, WaitSum, WaitSums};

/// A question waits no longer than this for the disk. Summing a busy day takes half a minute.
pub const RECALL_MAX: Duration = Duration::from_secs(300);

/// The refusal while too many others read. The question may be repeated.
pub const BUSY: &str = "others read the history from disk: try again";

/// Names in one answer, besides [`activity::history::OTHERS`].
const NAMES_MAX: usize = 10_000;

/// What is to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recall {
    /// Seconds in full.
    Seconds(Span),
    /// Samples, summed.
    Waits(Span, Dimension),
    /// Times of trouble.
    Whys(Span),
}

impl Recall {
    #[must_use]
    pub fn span(&self) -> Span {
        match self {
            Recall::Seconds(span) | Recall::Waits(span, _) | Recall::Whys(span) => *span,
        }
    }
}

/// What was read.
#[derive(Debug)]
pub enum Past {
    Seconds(Span, Box<History>),
    Waits(Span, PastWaits),
    Whys(Span, Episodes),
    /// Why nothing was, in words.
    Refused(String),
}

/// The sums over the seconds that were read.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PastWaits {
    /// Seconds that were looked at.
    pub looks: usize,
    pub samples: u64,
    /// Most samples first.
    pub sums: Vec<WaitSum>,
}

/// Sums that are being made, a part of the time after another.
#[derive(Debug)]
pub struct Summing {
    looks: usize,
    samples: u64,
    sums: WaitSums,
}

impl Default for Summing {
    fn default() -> Summing {
        Summing { looks: 0, samples: 0, sums: WaitSums::of(NAMES_MAX) }
    }
}

impl Summing {
    /// Adds the seconds of the span that a history has.
    pub fn add(&mut self, history: &History, span: Span, by: &Dimension) {
        let (looks, samples) = counted(history, span);
        (self.looks, self.samples) = (self.looks + looks, self.samples + samples);
        self.sums.add(history, span, by);
    }

    #[must_use]
    pub fn done(self) -> PastWaits {
        PastWaits { looks: self.looks, samples: self.samples, sums: self.sums.sorted() }
    }
}

impl PastWaits {
    /// Adds the seconds of the span that memory has. None of them is among those that were read.
    #[must_use]
    pub fn and(self, history: &History, span: Span, by: &Dimension) -> PastWaits {
        let (looks, samples) = counted(history, span);
        let sums = WaitSum::merged(self.sums, history.waits(span, by, |_| true));
        PastWaits { looks: self.looks + looks, samples: self.samples + samples, sums }
    }
}

/// The number of seconds that were looked at, and of their samples.
fn counted(history: &History, span: Span) -> (usize, u64) {
    history.within(span).fold((0, 0), |(looks, samples), second| {
        (looks + 1, samples + second.samples.iter().map(|sample| u64::from(sample.count)).sum::<u64>())
    })
}
