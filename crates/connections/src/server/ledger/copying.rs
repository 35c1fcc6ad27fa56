//! COPY FROM STDIN: which messages the server reads inside it, and which outside.
//!
//! ```text
//!                 in COPY IN                               after it has failed
//!  CopyData       a piece of the data                      ignored
//!  CopyDone, -Fail ends it                                 ignored
//! Flush, Sync ignored as usual
//! other messages end it with 08P01, and the server as usual; of the extended protocol, skipped
//!                 with FATAL                               with all others up to the next Sync
//! ```
//!
//! Messages are sent before it is known whether the COPY has failed. If that decides how the server reads a message, it
//! shows afterwards: by an error 08P01, or by whether a Sync gets its ReadyForQuery before the answer to the message
//! sent after it. If the client sends nothing after it, the pooler sends a query of its own. If it does not show, the
//! ledger is doubtful.
//!
//! //= pg18 protocol-flow#PROTOCOL-COPY

use wire::backend::tag;

use super::{Answerer, Entry, Expect, Ledger};

/// Where the server is in a COPY IN, as far as that is known.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum CopyIn {
    #[default]
    No,
    /// The server reads COPY data, and neither CopyDone nor CopyFail has been sent.
    Open,
    /// CopyDone or CopyFail has been sent.
    Ended,
    /// A message that does not belong to a COPY was sent before the server answered with CopyInResponse.
    Cut,
    /// The pooler has sent CopyFail, since the client has sent a message that does not belong to the COPY.
    Stopped,
}

/// Syncs of a COPY IN that has failed. The server answers those that it reads after the failure, and ignores those
/// before it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Unsure {
    pub(super) count: u32,
    pub(super) owner: Answerer,
    /// The next ReadyForQuery may answer one of them. Otherwise it belongs to the Query that has failed.
    pub(super) here: bool,
}

impl Ledger {
    pub fn is_copy_open(&self) -> bool {
        self.copy == CopyIn::Open
    }

    /// A message that does not belong to a COPY was sent where the server may have read it within one.
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

    /// Only a query of the pooler's own can show whether Syncs were answered.
    pub fn needs_question(&self) -> bool {
        let is_here = self.unsure.is_some_and(|unsure| unsure.here);
        is_here && self.entries.is_empty() && !self.open && !self.skipping
    }

    /// CopyFail is sent before a message of the client that does not belong to the COPY.
    pub fn stop_copy(&mut self) {
        debug_assert!(self.is_copy_open(), "there is something to stop");
        self.copy = CopyIn::Stopped;
        self.entries.push(Entry { owner: Answerer::Client, expect: Expect::CopyEnd, noted: false });
    }

    /// Notes a message that is sent to a server which is, as far as is known, in COPY IN.
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

    /// CopyInResponse: the server reads what was sent after the COPY statement as within a COPY.
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

    /// CommandComplete of the COPY: the server has read it to its end, and ignored Syncs before that.
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

    /// The statement being answered has failed, and its COPY with it. Returns how many Syncs may have been read within
    /// the COPY.
    pub(super) fn copy_failed(&mut self) -> u32 {
        self.copy = CopyIn::No;
        std::mem::take(&mut self.copy_syncs)
    }

    /// Syncs sent after a Query whose COPY has failed.
    pub(super) fn sync_in_failed_query(&mut self, syncs: u32) {
        // An answer of the pooler's would have to come after theirs, and it is not known whether theirs come.
        self.doubtful |= syncs > 0 && self.entries.iter().any(|entry| entry.expect.is_fake());
        self.doubt_syncs(syncs, false);
    }

    pub(super) fn doubt_syncs(&mut self, count: u32, here: bool) {
        if count > 0 {
            self.unsure = Some(Unsure { count, owner: Answerer::Client, here });
        }
    }

    /// A message that answers something sent after such Syncs shows that they were not answered.
    pub(super) fn sure_by(&mut self, message: u8) {
        match &mut self.unsure {
            Some(unsure) if message == tag::READY_FOR_QUERY => unsure.here = true,
            Some(unsure) if unsure.here => self.unsure = None,
            _ => {}
        }
    }

    /// ReadyForQuery is about to be read: it may answer one of those Syncs.
    #[inline]
    pub fn ready_comes(&mut self) {
        if self.unsure.is_some() {
            self.sync_is_answered();
        }
    }

    fn sync_is_answered(&mut self) {
        let Some(unsure) = self.unsure.filter(|unsure| unsure.here) else { return };
        if self.entries.front().is_some_and(|entry| entry.expect == Expect::Sync) {
            // It may answer that Sync or this one: they are alike, and one of them remains.
            return;
        }
        (self.skipping, self.open) = (false, false);
        self.unsure = (unsure.count > 1).then_some(Unsure { count: unsure.count - 1, ..unsure });
        let entry = Entry { owner: unsure.owner, expect: Expect::Sync, noted: false };
        self.entries.push_front(entry);
    }
}
