//! The answers owed, oldest first, with counts of some kinds.
//!
//! The oldest one has a field of its own: usually it is the only one, and it is read for every message of an answer.

use std::collections::VecDeque;

use session_state::access::Access;
use session_state::prepared::StatementId;

use wire::backend::Status;

use super::counts::Counts;
use super::{Answerer, Entry, Expect};

#[derive(Debug, Default)]
pub struct Owed {
    /// `None` only if nothing is owed.
    front: Option<Entry>,
    later: VecDeque<Entry>,
    /// Counts over all entries.
    pub(super) counts: Counts,
}

impl Owed {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.front.is_none()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        if self.front.is_some() { 1 + self.later.len() } else { 0 }
    }

    /// An answer that ends with ReadyForQuery is under way: until then the transaction's state is not known.
    pub fn awaits_ready(&self) -> bool {
        self.counts.readies > 0
    }

    /// One that the client is owed is under way.
    pub fn awaits_own_ready(&self) -> bool {
        self.counts.own_readies > 0
    }

    /// A simple query of the client's is under way: it may be DISCARD ALL.
    pub fn awaits_query(&self) -> bool {
        self.counts.own_queries > 0
    }

    /// A message of the client's waits for a description that is read here.
    pub(crate) fn awaits_verdict(&self) -> bool {
        self.counts.verdicts > 0
    }

    /// What the server has prepared is changing.
    pub fn is_changing(&self) -> bool {
        self.counts.changes > 0
    }

    /// A statement is being prepared or closed.
    pub fn is_changing_of(&self, id: StatementId) -> bool {
        let of_it =
            |entry: Entry| matches!(entry.expect, Expect::Parse(Some(of)) | Expect::Close(Some(of)) if of == id);
        self.counts.changes > 0 && self.iter().any(of_it)
    }

    /// A statement is being prepared.
    pub fn is_preparing(&self, id: StatementId) -> bool {
        self.iter().any(|entry| entry.expect == Expect::Parse(Some(id)))
    }

    /// Whether PostgreSQL may commit something while it answers what it owes: then a cancel could make a commit that waits for its
    /// standby known too early, and if the server is lost nobody knows what became of it. `status`: of its last ReadyForQuery.
    //= pg18 warm-standby#SYNCHRONOUS-REPLICATION
    pub fn may_commit(&self, status: Status) -> bool {
        let mut is_block = status != Status::Idle;
        self.iter().any(|entry| match (entry.expect, entry.access) {
            (Expect::Query | Expect::Function | Expect::Sync | Expect::Execute, Access::Commit) => true,
            (Expect::Query | Expect::Function | Expect::Sync, Access::ReadWrite) => !is_block,
            (Expect::Query | Expect::Sync, Access::Begin) => {
                is_block = true;
                false
            }
            _ => false,
        })
    }

    /// Whether a single cancel ends all that it owes, or it is a single answer.
    pub fn owes_one(&self, status: Status) -> bool {
        let answers = self.iter().filter(|entry| entry.expect.is_ready()).count();
        answers <= 1 || status != Status::Idle && !self.may_commit(status)
    }

    #[inline]
    pub(super) fn front(&self) -> Option<Entry> {
        self.front
    }

    pub(super) fn get(&self, index: usize) -> Option<Entry> {
        match index.checked_sub(1) {
            None => self.front,
            Some(index) => self.later.get(index).copied(),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Entry> {
        self.front.into_iter().chain(self.later.iter().copied())
    }

    #[inline]
    pub(super) fn push(&mut self, entry: Entry) {
        self.counts.add(entry);
        match self.front {
            None => self.front = Some(entry),
            Some(_) => self.later.push_back(entry),
        }
    }

    pub(super) fn push_front(&mut self, entry: Entry) {
        self.counts.add(entry);
        if let Some(next) = self.front.replace(entry) {
            self.later.push_front(next);
        }
    }

    #[inline]
    pub(super) fn pop_front(&mut self) {
        let Some(entry) = self.front else { return };
        self.counts.subtract(entry);
        self.front = if self.later.is_empty() { None } else { self.later.pop_front() };
    }

    pub(super) fn remove(&mut self, index: usize) {
        match index.checked_sub(1) {
            None => self.pop_front(),
            Some(index) => {
                if let Some(entry) = self.later.remove(index) {
                    self.counts.subtract(entry);
                }
            }
        }
    }

    /// The oldest answer ends a batch that has failed: nothing is committed with it.
    pub(super) fn commit_nothing(&mut self) {
        if let Some(entry) = &mut self.front {
            entry.access = Access::ReadOnly;
        }
    }

    /// No entry has an owner any more.
    pub(super) fn disown(&mut self) {
        self.front.iter_mut().chain(&mut self.later).for_each(|entry| entry.owner = Answerer::Nobody);
        self.counts.disown();
    }
}

#[cfg(test)]
mod tests {
    use units::StatementRow;

    use super::*;

    fn entry(expect: Expect) -> Entry {
        Entry { owner: Answerer::Client, expect, noted: false, access: Access::ReadOnly, statement: StatementRow::NONE }
    }

    #[test]
    fn the_oldest_comes_first_whatever_is_put_in_or_taken_out() {
        let mut owed = Owed::default();
        let mut model: VecDeque<Entry> = VecDeque::new();
        let kinds = [Expect::Query, Expect::Sync, Expect::Bind, Expect::Execute, Expect::Parse(None)];
        for step in 0..10_000_usize {
            let new = entry(kinds[step % kinds.len()]);
            // Any fixed sequence that fills and empties it again and again.
            match (step * 7 + step / 11) % 8 {
                0..=2 => (owed.push(new), model.push_back(new)).1,
                3 => (owed.push_front(new), model.push_front(new)).1,
                4 | 5 => {
                    owed.pop_front();
                    model.pop_front();
                }
                _ => {
                    owed.remove(step % 4);
                    model.remove(step % 4);
                }
            }
            assert!(owed.iter().eq(model.iter().copied()), "step {step}");
            assert_eq!((owed.len(), owed.is_empty(), owed.front()), (model.len(), model.is_empty(), owed.get(0)));
            let mut counts = Counts::default();
            model.iter().for_each(|entry| counts.add(*entry));
            assert_eq!(owed.counts, counts, "step {step}");
        }
    }
}
