//! The coordinator's side of a rate limit: a bucket, and the workers that request tokens of it.
//!
//! Promises: first request, first served, a share at a time, so that no worker takes all; requests come before what is
//! given ahead. Where a request over the limit is to be refused, it is refused at once.

use std::collections::VecDeque;

use units::{Holder, Time};

use super::bucket::Bucket;
use super::{AHEAD, Allowance, TICK};
use crate::classes::Rate;
use ::settings::Over;

/// Where tokens of one rate come from.
#[derive(Clone, Debug)]
pub struct RateSource {
    bucket: Bucket,
    over: Over,
    /// How many are given something ahead at most.
    holders: u16,
    /// Requests, oldest first; each holder once.
    requests: VecDeque<(Holder, u32)>,
    served_at: Option<Time>,
}

impl RateSource {
    #[must_use]
    pub fn new(rate: Rate, over: Over, holders: u16, now: Time) -> RateSource {
        RateSource {
            bucket: Bucket::new(rate, now),
            over,
            holders: holders.max(1),
            requests: VecDeque::new(),
            served_at: None,
        }
    }

    pub fn configure(&mut self, rate: Rate, over: Over, now: Time) {
        self.bucket.configure(rate, now);
        self.over = over;
    }

    /// So many share what is given ahead from now on.
    pub fn set_holders(&mut self, holders: u16) {
        self.holders = holders.max(1);
    }

    /// How many tokens are left, when a holder requested last.
    #[must_use]
    pub fn remaining(&self) -> u32 {
        self.bucket.tokens()
    }

    /// There is no such limit any more: every request is granted.
    pub fn lift(&mut self) -> Vec<Allowance> {
        let free =
            |(holder, count)| Allowance { holder, granted: count, answered: count, remaining: u32::MAX, next_at: None };
        self.requests.drain(..).map(free).collect()
    }

    /// Another process decides from now on: what was requested and not granted.
    pub fn take_requests(&mut self) -> impl Iterator<Item = (Holder, u32)> {
        self.requests.drain(..)
    }

    /// A holder requests `count` more.
    pub fn request(&mut self, now: Time, holder: impl Into<Holder>, count: u32) -> Vec<Allowance> {
        let holder = holder.into();
        self.bucket.refill(now, !self.requests.is_empty());
        match self.requests.iter_mut().find(|(asker, _)| *asker == holder) {
            Some((_, requested)) => *requested = requested.saturating_add(count),
            None => self.requests.push_back((holder, count)),
        }
        self.serve(now)
    }

    /// A holder is gone: nobody waits for what it has requested.
    pub fn holder_lost(&mut self, holder: Holder) {
        self.requests.retain(|(asker, _)| *asker != holder);
    }

    /// Another process has given so many.
    pub fn note_given(&mut self, now: Time, count: u32) {
        self.bucket.refill(now, false);
        self.bucket.take(count);
    }

    /// Some were not used.
    pub fn unspent(&mut self, now: Time, count: u32) -> Vec<Allowance> {
        self.bucket.refill(now, !self.requests.is_empty());
        self.bucket.put_back(count);
        self.serve(now)
    }

    /// When a waiting request may be served.
    #[must_use]
    pub fn next_serve(&self) -> Option<Time> {
        if self.requests.is_empty() {
            return None;
        }
        let paced = self.served_at.map_or(Time::ZERO, |at| at + TICK);
        Some(self.bucket.next_at().max(paced))
    }

    /// Gives the tokens that are there to the workers that have requested some.
    pub fn serve(&mut self, now: Time) -> Vec<Allowance> {
        self.bucket.refill(now, !self.requests.is_empty());
        self.served_at = Some(now);
        let share = self.bucket.worth(AHEAD).max(1);
        let mut answers: Vec<Allowance> = Vec::new();
        while let Some((holder, requested)) = self.requests.pop_front() {
            let granted = self.bucket.take(requested.min(share));
            if granted < requested {
                self.requests.push_back((holder, requested - granted));
            }
            if granted > 0 {
                add(&mut answers, holder, granted, granted);
            }
            if self.bucket.tokens() == 0 {
                break;
            }
        }
        if self.requests.is_empty() {
            self.give_ahead(&mut answers);
        }
        if self.over == Over::Reject {
            for (holder, requested) in std::mem::take(&mut self.requests) {
                add(&mut answers, holder, 0, requested);
                let refused = answers.iter_mut().find(|answer| answer.holder == holder);
                refused.expect("it was added just now").next_at = Some(self.bucket.next_at());
            }
        }
        for answer in &mut answers {
            answer.remaining = self.bucket.tokens();
        }
        answers
    }

    /// So that not each event needs a message.
    fn give_ahead(&mut self, answers: &mut [Allowance]) {
        let ahead = self.bucket.worth(AHEAD.min(AHEAD * 4 / u32::from(self.holders)));
        for answer in answers {
            // What is left is for other workers.
            let most = ahead.saturating_sub(answer.granted).min(self.bucket.tokens() / 2);
            answer.granted += self.bucket.take(most);
        }
    }
}

pub(super) fn add(answers: &mut Vec<Allowance>, holder: Holder, granted: u32, answered: u32) {
    match answers.iter_mut().find(|answer| answer.holder == holder) {
        Some(answer) => {
            answer.granted += granted;
            answer.answered += answered;
        }
        None => answers.push(Allowance { holder, granted, answered, remaining: 0, next_at: None }),
    }
}
