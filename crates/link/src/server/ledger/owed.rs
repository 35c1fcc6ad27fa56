//! The answers owed, oldest first, with counts of some kinds.
//!
//! The oldest one has a field of its own: usually it is the only one, and it is read for every message of an answer.

use std::collections::VecDeque;
use std::sync::Arc;

use session_state::access::Access;
use session_state::prepared::StatementId;
use wire::backend::Status;

use super::counts::Counts;
use super::{Answerer, Entry, Expect};

#[derive(Debug)]
pub struct Owed {
    /// `None` only if nothing is owed.
    front: Option<Entry>,
    later: VecDeque<Entry>,
    /// Counts over all entries.
    pub(super) counts: Counts,
    /// The unnamed statement was prepared or closed on the client's behalf since the last message that ends a batch.
    brought_unnamed: bool,
    /// The position of the oldest entry, counted from the first one that there was.
    first: u64,
    /// The entries whose messages have one of several names of their statement, oldest first; the newest one that was
    /// answered in the batch being answered is kept.
    named: VecDeque<NamedEntry>,
}

/// The client's name of a statement in the message of an entry.
#[derive(Debug)]
struct NamedEntry {
    position: u64,
    statement: StatementId,
    name: Arc<[u8]>,
}

impl Default for Owed {
    fn default() -> Owed {
        // An entry may be put in front of the first one.
        let first = 1 << 32;
        let (front, later, counts, named) = (None, VecDeque::new(), Counts::default(), VecDeque::new());
        Owed { front, later, counts, brought_unnamed: false, first, named }
    }
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

    /// How many there have been, with those that are owed, counted from an arbitrary number.
    pub(super) fn owed_ever(&self) -> u64 {
        self.first + self.len() as u64
    }

    /// An answer that ends with ReadyForQuery is under way: until then the transaction's state is not known.
    pub(crate) fn awaits_ready(&self) -> bool {
        self.counts.readies > 0
    }

    /// One that the client is owed is under way.
    pub(crate) fn awaits_own_ready(&self) -> bool {
        self.counts.own_readies > 0
    }

    /// A simple query of the client's is under way: it may be DISCARD ALL.
    pub(crate) fn awaits_query(&self) -> bool {
        self.counts.own_queries > 0
    }

    /// A message of the client's waits for a description that is read here.
    pub(crate) fn awaits_verdict(&self) -> bool {
        self.counts.verdicts > 0
    }

    /// What the server has prepared is changing.
    pub(crate) fn is_changing(&self) -> bool {
        self.counts.changes > 0
    }

    /// Whether a batch before this one, which may fail, prepares or closes the unnamed statement on the client's behalf.
    /// The server skips that if the batch fails.
    pub(crate) fn may_skip_unnamed(&self) -> bool {
        self.counts.unnamed > 0 && !self.brought_unnamed
    }

    /// The client's name of this statement in the message that is being answered, or in a message before it in the same
    /// batch, such as the Bind before an Execute. `None`: its client has a single name for the statement.
    pub(crate) fn name_of(&self, statement: StatementId) -> Option<&[u8]> {
        let answered = self.named.iter().take_while(|named| named.position <= self.first);
        let named = answered.filter(|named| named.statement == statement).last()?;
        Some(&named.name)
    }

    /// The message of the newest entry has this name of a statement.
    pub(super) fn name_newest(&mut self, statement: StatementId, name: Arc<[u8]>) {
        // The server does not answer the message.
        let Some(behind) = self.len().checked_sub(1) else { return };
        self.named.push_back(NamedEntry { position: self.first + behind as u64, statement, name });
    }

    /// A statement is being prepared or closed.
    pub(crate) fn is_changing_of(&self, id: StatementId) -> bool {
        let of_it =
            |entry: Entry| matches!(entry.expect, Expect::Parse(Some(of)) | Expect::Close(Some(of)) if of == id);
        self.counts.changes > 0 && self.iter().any(of_it)
    }

    /// A statement is being prepared.
    pub(crate) fn is_preparing(&self, id: StatementId) -> bool {
        self.iter().any(|entry| entry.expect == Expect::Parse(Some(id)))
    }

    /// Whether PostgreSQL may commit something while it answers what it owes: then a cancel could make a commit that waits for its
    /// standby known too early, and if the server is lost nobody knows what became of it. `status`: of its last ReadyForQuery.
    //= pg18 warm-standby#SYNCHRONOUS-REPLICATION
    pub(crate) fn may_commit(&self, status: Status) -> bool {
        let mut is_block = status != Status::Idle;
        self.iter().any(|entry| match (entry.expect, entry.access) {
            (Expect::Query | Expect::Function | Expect::Sync | Expect::Execute, access) if access.commits() => true,
            (Expect::Query | Expect::Function | Expect::Sync, Access::ReadWrite) => !is_block,
            (Expect::Query | Expect::Sync, Access::Begin) => {
                is_block = true;
                false
            }
            (Expect::Query | Expect::Sync, Access::Rollback) => {
                is_block = false;
                false
            }
            _ => false,
        })
    }

    /// Nothing is owed but the answer to the pooler's query for the client's state, or to a Sync that the pooler has
    /// sent for the client.
    #[inline]
    pub fn owes_no_client(&self) -> bool {
        let ours = |entry: Entry| match entry.owner {
            Answerer::Check => true,
            Answerer::Prepare => entry.expect == Expect::Sync,
            _ => false,
        };
        self.iter().all(ours)
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

    /// The newest messages are a batch without its Sync.
    #[cold]
    pub(super) fn has_batch_at_end(&self) -> bool {
        let newest = self.later.iter().rev().chain(&self.front);
        let mut batch = newest.take_while(|entry| !matches!(entry.expect, Expect::Query | Expect::Sync));
        batch.any(|entry| entry.expect.is_extended() && !entry.expect.is_fake())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Entry> {
        self.front.into_iter().chain(self.later.iter().copied())
    }

    #[inline(always)]
    pub(super) fn push(&mut self, entry: Entry) {
        self.counts.add(entry);
        self.brought_unnamed = entry.brings_unnamed() || self.brought_unnamed && !entry.expect.is_ready();
        debug_assert!(
            self.front.is_some() || self.later.is_empty(),
            "the oldest answer that is owed is in its own field"
        );
        match self.front {
            None => self.front = Some(entry),
            Some(_) => self.later.push_back(entry),
        }
    }

    /// As [`Owed::push`], of a Query of the client's, where nothing is owed.
    #[inline(always)]
    pub(super) fn push_only_query(&mut self, query: Entry) {
        debug_assert!(self.is_empty() && self.counts == Counts::default(), "nothing is owed");
        self.counts = Counts::QUERY;
        self.brought_unnamed = false;
        self.front = Some(query);
    }

    pub(super) fn push_front(&mut self, entry: Entry) {
        self.counts.add(entry);
        self.named.retain(|named| named.position >= self.first);
        self.first -= 1;
        if let Some(next) = self.front.replace(entry) {
            self.later.push_front(next);
        }
    }

    #[inline]
    pub(super) fn pop_front(&mut self) {
        let Some(entry) = self.front else { return };
        self.counts.subtract(entry);
        self.drop_front(entry);
    }

    /// As [`Owed::pop_front`], where nothing else is owed.
    #[inline(always)]
    pub(super) fn pop_only(&mut self) {
        debug_assert!(self.front.is_some() && self.later.is_empty(), "one answer is owed");
        self.first += 1;
        if !self.named.is_empty()
            && let Some(entry) = self.front
        {
            self.forget_names(entry);
        }
        self.counts = Counts::default();
        self.front = None;
    }

    /// As [`Owed::pop_front`], of a message of the client's that is in no count: of a statement that is bound, described or executed.
    #[inline(always)]
    pub(super) fn pop_uncounted(&mut self) {
        let Some(entry) = self.front else { return };
        debug_assert!(Counts::leave_out(entry), "it is in no count");
        self.drop_front(entry);
    }

    #[inline(always)]
    fn drop_front(&mut self, entry: Entry) {
        self.first += 1;
        if !self.named.is_empty() {
            self.forget_names(entry);
        }
        self.front = if self.later.is_empty() { None } else { self.later.pop_front() };
    }

    /// Forgets the names of entries that are gone: all of them after the `last` entry of a batch, else all but the newest.
    #[cold]
    fn forget_names(&mut self, last: Entry) {
        let kept = usize::from(!last.expect.is_ready());
        while self.named.get(kept).is_some_and(|named| named.position < self.first) {
            self.named.pop_front();
        }
    }

    pub(super) fn remove(&mut self, index: usize) {
        match index.checked_sub(1) {
            None => self.pop_front(),
            Some(index) => {
                if let Some(entry) = self.later.remove(index) {
                    self.counts.subtract(entry);
                    self.close_gap(self.first + 1 + index as u64);
                }
            }
        }
    }

    /// The entry at this position is gone, and those after it move up.
    fn close_gap(&mut self, gone: u64) {
        self.named.retain(|named| named.position != gone);
        self.named.iter_mut().filter(|named| named.position > gone).for_each(|named| named.position -= 1);
    }

    /// The answer at this place ends a batch with more in it than was known when it was sent.
    pub(super) fn commit_more(&mut self, index: usize, access: Option<Access>) {
        let entry = match index.checked_sub(1) {
            None => self.front.as_mut(),
            Some(index) => self.later.get_mut(index),
        };
        if let (Some(entry), Some(access)) = (entry, access) {
            entry.access = entry.access.max(access);
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
        self.named.clear();
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
        // The statement that the message of an entry names.
        let mut names: VecDeque<Option<StatementId>> = VecDeque::new();
        let kinds = [Expect::Query, Expect::Sync, Expect::Bind, Expect::Execute, Expect::Parse(None)];
        for step in 0..10_000_usize {
            let new = entry(kinds[step % kinds.len()]);
            // Any fixed sequence that fills and empties it again and again.
            match (step * 7 + step / 11) % 8 {
                0..=2 => (owed.push(new), model.push_back(new), names.push_back(None)).2,
                3 => (owed.push_front(new), model.push_front(new), names.push_front(None)).2,
                4 | 5 => {
                    owed.pop_front();
                    model.pop_front();
                    names.pop_front();
                }
                _ => {
                    owed.remove(step % 4);
                    model.remove(step % 4);
                    names.remove(step % 4);
                }
            }
            if step % 3 == 0 && names.back() == Some(&None) {
                let statement = StatementId::from(step as u128);
                owed.name_newest(statement, b"name"[..].into());
                names[model.len() - 1] = Some(statement);
            }
            let under_way = owed.named.iter().filter(|named| named.position >= owed.first);
            let found: Vec<_> =
                under_way.map(|named| ((named.position - owed.first) as usize, Some(named.statement))).collect();
            let expected: Vec<_> = names.iter().copied().enumerate().filter(|(_, name)| name.is_some()).collect();
            assert_eq!(found, expected, "step {step}");
            assert!(names.front().copied().flatten().is_none_or(|statement| owed.name_of(statement).is_some()));
            assert!(owed.iter().eq(model.iter().copied()), "step {step}");
            assert_eq!((owed.len(), owed.is_empty(), owed.front()), (model.len(), model.is_empty(), owed.get(0)));
            let mut counts = Counts::default();
            model.iter().for_each(|entry| counts.add(*entry));
            assert_eq!(owed.counts, counts, "step {step}");
        }
    }

    #[test]
    fn a_name_lasts_until_its_batch_has_been_answered() {
        let mut owed = Owed::default();
        let statement = StatementId::from(1);
        for (expect, name) in [(Expect::Bind, "a"), (Expect::Bind, "b")] {
            owed.push(entry(expect));
            owed.name_newest(statement, name.as_bytes().into());
            owed.push(entry(Expect::Execute));
        }
        [Expect::Sync, Expect::Query].into_iter().for_each(|expect| owed.push(entry(expect)));
        let mut said = Vec::new();
        while !owed.is_empty() {
            said.push(owed.name_of(statement).map(<[u8]>::to_vec));
            owed.pop_front();
        }
        let shown: Vec<_> = said.iter().map(|name| name.as_deref().unwrap_or(b"-")).collect();
        assert_eq!(shown.concat(), b"aabbb-");
        assert!(owed.named.is_empty());
    }

    #[test]
    fn an_earlier_batch_may_skip_the_unnamed_statement() {
        let brings = Entry { owner: Answerer::Prepare, ..entry(Expect::Parse(None)) };
        let mut owed = Owed::default();
        [brings, entry(Expect::Bind)].into_iter().for_each(|entry| owed.push(entry));
        assert!(!owed.may_skip_unnamed(), "it is of this batch");
        owed.push(entry(Expect::Sync));
        assert!(owed.may_skip_unnamed());
        owed.push(brings);
        assert!(!owed.may_skip_unnamed(), "this batch brings it too");
        owed.push(entry(Expect::Sync));
        (0..3).for_each(|_| owed.pop_front());
        assert!(owed.may_skip_unnamed());
        owed.pop_front();
        assert!(!owed.may_skip_unnamed(), "it was answered");
    }
}
