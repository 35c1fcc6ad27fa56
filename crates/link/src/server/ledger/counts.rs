//! Counts of some kinds of answers owed, so that a deep pipeline is not searched for every message.

use super::{Answerer, Entry, Expect};

/// Counts of a ledger's entries; they follow every change of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Answers that end with ReadyForQuery; those of them for the client; those of these to simple queries.
    pub(super) readies: u32,
    pub(super) own_readies: u32,
    pub(super) own_queries: u32,
    /// Answers to messages that prepare or close a statement.
    pub(super) changes: u32,
    /// Answers that a message of the client waits for.
    pub(super) verdicts: u32,
    /// Answers to messages that prepare or close the unnamed statement on the client's behalf.
    pub(super) unnamed: u32,
}

impl Counts {
    #[inline(always)]
    fn count(&mut self, entry: Entry, step: impl Fn(&mut u32)) {
        let own = entry.owner == Answerer::Client;
        match entry.expect {
            Expect::Query | Expect::Function | Expect::Sync => {
                step(&mut self.readies);
                if own {
                    step(&mut self.own_readies);
                }
                if own && entry.expect == Expect::Query {
                    step(&mut self.own_queries);
                }
            }
            Expect::Parse(Some(_)) | Expect::Close(Some(_)) => step(&mut self.changes),
            Expect::Verdict(_) => step(&mut self.verdicts),
            _ if entry.brings_unnamed() => step(&mut self.unnamed),
            _ => {}
        }
    }

    /// Those of one Query of the client's, and nothing else.
    pub(super) const QUERY: Counts =
        Counts { readies: 1, own_readies: 1, own_queries: 1, changes: 0, verdicts: 0, unnamed: 0 };

    #[inline(always)]
    pub(super) fn add(&mut self, entry: Entry) {
        self.count(entry, |count| *count += 1);
    }

    pub(super) fn subtract(&mut self, entry: Entry) {
        self.count(entry, |count| *count -= 1);
    }

    /// Whether an entry is in none of them.
    pub(super) fn leave_out(entry: Entry) -> bool {
        let mut counts = Counts::default();
        counts.add(entry);
        counts == Counts::default()
    }

    /// No entry is the client's any more.
    pub(super) fn disown(&mut self) {
        (self.own_readies, self.own_queries, self.unnamed) = (0, 0, 0);
    }
}
