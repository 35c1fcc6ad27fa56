//! What is read from disk for one answer: the part of its time that memory does not reach back to.

use activity::History;
use activity::history::{Dimension, Span, WaitSum};

/// What is to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recall {
    /// Seconds in full.
    Seconds(Span),
    /// Samples, summed.
    Waits(Span, Dimension),
}

impl Recall {
    #[must_use]
    pub fn span(&self) -> Span {
        match self {
            Recall::Seconds(span) | Recall::Waits(span, _) => *span,
        }
    }
}

/// What was read.
#[derive(Debug)]
pub enum Past {
    Seconds(Span, Box<History>),
    Waits(Span, PastWaits),
    /// Why nothing was, in words.
    Refused(String),
}

/// Sums over what was read.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PastWaits {
    /// Seconds that were looked at.
    pub looks: usize,
    pub samples: u64,
    pub sums: Vec<WaitSum>,
}

impl PastWaits {
    /// Adds what a history has of the span.
    pub fn add(&mut self, history: &History, span: Span, by: &Dimension) {
        for second in history.within(span) {
            self.looks += 1;
            self.samples += second.samples.iter().map(|sample| u64::from(sample.count)).sum::<u64>();
        }
        self.sums = WaitSum::merged(std::mem::take(&mut self.sums), history.waits(span, by, |_| true));
    }
}
