//! COPY FROM STDIN: what the server reads inside of it, and what outside.
//!
//! ```text
//!                 in COPY IN                               after it has failed
//!  CopyData       a piece of the data                      ignored
//!  CopyDone, -Fail ends it                                 ignored
//!  Flush, Sync    ignored                                  as ever
//!  other messages end it with 08P01, and the server        as ever; of the extended protocol, skipped
//!                 with FATAL                               with all others up to the next Sync
//! ```
//!
//! Messages are sent before it is known whether the COPY has failed. Where that decides how one is read, it is known
//! afterwards: by an error 08P01; by whether a ReadyForQuery comes for a Sync before the answer to what was sent behind it,
//! which is a question of the pooler's own if the client sends nothing. Where it cannot be known, the ledger is doubtful.
//!
//! //= pg18 protocol-flow#PROTOCOL-COPY

use wire::backend::tag;

use super::{Answerer, Entry, Expect, Ledger};

/// Where the server is in a COPY IN, as far as that is known.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum CopyIn {
    #[default]
    No,
    /// The server reads copy data and nothing that ends it has been sent.
    Open,
    /// CopyDone or CopyFail has been sent.
    Ended,
    /// A message that is not of the copy was sent before the server said that there is one.
    Cut,
    /// The pooler has sent CopyFail, since the client has sent a message that is not of the copy.
    Stopped,
}

/// Syncs of a COPY IN that has failed: answered if the server read them behind the failure, ignored if before.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Unsure {
    pub(super) count: u32,
    pub(super) owner: Answerer,
    /// The next ReadyForQuery may be of one of them; if not, it is of the Query that has failed.
    pub(super) here: bool,
}

impl Ledger {
    pub fn is_copy_open(&self) -> bool {
        self.copy == CopyIn::Open
    }

    /// A message that is not of a copy was sent where the server may have read it in one.
    pub fn is_copy_cut(&self) -> bool {
        self.copy == CopyIn::Cut
    }

    pub fn is_copy_stopped(&self) -> bool {
        self.copy == CopyIn::Stopped
    }

    /// How the server reads a message depends on whether a COPY IN has failed.
    #[inline]
    pub fn is_guarded(&self) -> bool {
        self.copy == CopyIn::Open || self.unsure.is_some()
    }

    /// Nothing but a question shows whether Syncs were answered.
    pub fn needs_question(&self) -> bool {
        let is_here = self.unsure.is_some_and(|unsure| unsure.here);
        is_here && self.entries.is_empty() && !self.open && !self.skipping
    }

    /// CopyFail is sent in front of a message of the client's that is not of the copy.
    pub fn stop_copy(&mut self) {
        debug_assert!(self.is_copy_open(), "there is something to stop");
        self.copy = CopyIn::Stopped;
        self.entries.push(Entry { owner: Answerer::Client, expect: Expect::CopyEnd, noted: false });
    }

    /// A message is sent to a server that is in COPY IN, or was a moment ago.
    pub(super) fn sent_in_copy(&mut self, entry: Entry) -> bool {
        match entry.expect {
            Expect::Sync => {
                self.copy_syncs += 1;
                false
            }
            Expect::FakeParse | Expect::FakeClose => false,
            Expect::CopyEnd => {
                self.copy = CopyIn::Ended;
                self.entries.push(Entry { owner: Answerer::Client, expect: Expect::CopyEnd, noted: false });
                true
            }
            _ => {
                debug_assert!(false, "the copy is stopped first");
                self.doubtful = true;
                false
            }
        }
    }

    /// CopyInResponse: what was sent behind the message that it answers is read as it is in a copy.
    pub(super) fn copy_begins(&mut self) {
        self.copy = CopyIn::Open;
        let is_extended = self.is_extended();
        let mut index = 1;
        while let Some(entry) = self.entries.get(index) {
            match entry.expect {
                Expect::CopyEnd => {
                    self.copy = CopyIn::Ended;
                    return;
                }
                Expect::Sync => {
                    self.entries.remove(index);
                    self.copy_syncs += 1;
                    let closed_later = self.entries.iter().skip(index).any(|entry| entry.expect.is_ready());
                    self.open |= is_extended && !closed_later;
                }
                Expect::FakeParse | Expect::FakeClose => index += 1,
                _ => {
                    self.copy = CopyIn::Cut;
                    return;
                }
            }
        }
    }

    /// CommandComplete of the COPY: it was read to its end, and Syncs before that were ignored.
    pub(super) fn copy_done(&mut self) {
        if self.copy == CopyIn::No {
            return;
        }
        (self.copy, self.copy_syncs) = (CopyIn::No, 0);
        let end = self.entries.iter().position(|entry| entry.expect == Expect::CopyEnd);
        if let Some(end) = end {
            self.entries.remove(end);
        }
    }

    /// The message being answered has failed, and with it its COPY. Returns how many Syncs may have been read in it.
    pub(super) fn copy_failed(&mut self) -> u32 {
        self.copy = CopyIn::No;
        std::mem::take(&mut self.copy_syncs)
    }

    /// Syncs behind a Query whose COPY has failed.
    pub(super) fn sync_in_failed_query(&mut self, syncs: u32) {
        // An answer that is given here has no place before theirs, and there is none to tell it by.
        self.doubtful |= syncs > 0 && self.entries.iter().any(|entry| entry.expect.is_fake());
        self.doubt_syncs(syncs, false);
    }

    pub(super) fn doubt_syncs(&mut self, count: u32, here: bool) {
        if count > 0 {
            self.unsure = Some(Unsure { count, owner: Answerer::Client, here });
        }
    }

    /// What comes now tells whether such Syncs were answered: of what was sent behind them.
    pub(super) fn sure_by(&mut self, message: u8) {
        match &mut self.unsure {
            Some(unsure) if message == tag::READY_FOR_QUERY => unsure.here = true,
            Some(unsure) if unsure.here => self.unsure = None,
            _ => {}
        }
    }

    /// ReadyForQuery has come and is about to be read: whose is it?
    #[inline]
    pub fn ready_comes(&mut self) {
        if self.unsure.is_some() {
            self.sync_is_answered();
        }
    }

    fn sync_is_answered(&mut self) {
        let Some(unsure) = self.unsure.filter(|unsure| unsure.here) else { return };
        if self.entries.front().is_some_and(|entry| entry.expect == Expect::Sync) {
            // Of that one or of this: they are alike, and one of them is left.
            return;
        }
        (self.skipping, self.open) = (false, false);
        self.unsure = (unsure.count > 1).then_some(Unsure { count: unsure.count - 1, ..unsure });
        let entry = Entry { owner: unsure.owner, expect: Expect::Sync, noted: false };
        self.entries.push_front(entry);
    }
}
