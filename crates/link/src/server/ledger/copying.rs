//! COPY FROM STDIN: which messages the server reads inside it, and which outside.
//!
//! ```text
//!                 in COPY IN                               after it has failed
//!  CopyData       a piece of the data                      ignored
//!  CopyDone, -Fail ends it                                 ignored
//!  Flush, Sync    ignored                                  as usual
//!  other messages end it with 08P01, and the server        as usual; of the extended protocol, skipped
//!                 with FATAL                               with all others up to the next Sync
//! ```
//!
//! Messages are sent before it is known whether the COPY has failed. If that decides how the server reads a message, it
//! shows afterwards: by an error 08P01, or by whether a Sync gets its ReadyForQuery before the answer to the message
//! sent after it. If the client sends nothing after it, the pooler sends a query of its own. If it does not show, the
//! ledger is doubtful.
//!
//! //= pg18 protocol-flow#PROTOCOL-COPY

use session_state::access::Access;
use units::StatementRow;
use wire::backend::tag;

use super::{Answerer, Entry, Expect, Ledger};

/// The COPY IN of one server, as far as it is known, and what it leaves in doubt.
#[derive(Debug, Default)]
pub struct Copying {
    stage: CopyIn,
    /// A statement that may be a COPY FROM STDIN was sent, and not its end. Its answer may have come, if no answer is owed.
    may_begin: bool,
    /// A Sync was sent between such a statement and its end. PostgreSQL ignores it, unless there is no COPY or it has failed before.
    hides_sync: bool,
    /// Syncs that were sent between its beginning and its end: ignored, unless it has failed before.
    syncs: u32,
    /// As many of them as the server may have answered, once it has failed.
    unsure: Option<Unsure>,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
enum CopyIn {
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
struct Unsure {
    count: u32,
    owner: Answerer,
    /// The next ReadyForQuery may answer one of them. Otherwise it belongs to the Query that has failed.
    here: bool,
}

impl Copying {
    /// The server reads COPY data, and neither CopyDone nor CopyFail has been sent.
    pub fn is_open(&self) -> bool {
        self.stage == CopyIn::Open
    }

    /// One of the answers that are owed, if there are any, may be CopyInResponse. The server would read the next message inside COPY IN.
    #[inline]
    pub(crate) fn may_begin(&self) -> bool {
        self.may_begin
    }

    /// Answers are owed, and whether a ReadyForQuery for one more Sync is among them is known only when they have come.
    #[inline]
    pub(crate) fn may_hide_sync(&self) -> bool {
        self.hides_sync || self.stage == CopyIn::Ended && self.syncs > 0
    }

    /// A message is sent. `is_alone`: no answer is owed before its own, so those of earlier statements have come.
    #[inline]
    pub(super) fn note_sent(&mut self, is_alone: bool) {
        self.may_begin &= !is_alone;
        self.hides_sync &= !is_alone;
    }

    /// A Sync is sent.
    #[inline]
    pub(super) fn note_sync(&mut self) {
        self.hides_sync |= self.may_begin;
    }

    /// A statement is sent that may be a COPY FROM STDIN.
    #[inline]
    pub(super) fn note_copy(&mut self) {
        self.may_begin = true;
    }

    /// A message that does not belong to a COPY was sent where the server may have read it within one.
    pub(crate) fn is_cut(&self) -> bool {
        self.stage == CopyIn::Cut
    }

    /// The pooler has ended it in the client's stead.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stage == CopyIn::Stopped
    }

    /// How the server reads a message depends on whether a COPY IN has failed.
    #[inline]
    pub(crate) fn is_guarded(&self) -> bool {
        self.is_open() || self.is_in_doubt()
    }

    /// CopyDone or CopyFail is sent.
    #[inline]
    pub(super) fn note_end(&mut self) {
        self.may_begin = false;
    }

    /// None decides what the server reads, or has read.
    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        self.stage == CopyIn::No && self.unsure.is_none()
    }

    /// Whether Syncs were answered is not known.
    #[inline]
    pub(super) fn is_in_doubt(&self) -> bool {
        self.unsure.is_some()
    }

    /// The next message tells whether they were.
    fn is_about_to_be_known(&self) -> bool {
        self.unsure.is_some_and(|unsure| unsure.here)
    }

    /// It is over, whatever became of it.
    #[inline]
    pub(super) fn leave(&mut self) {
        self.stage = CopyIn::No;
    }

    /// It was read to its end, and Syncs before that were ignored. False: there was none.
    fn done(&mut self) -> bool {
        let was_on = self.stage != CopyIn::No;
        if was_on {
            (self.stage, self.syncs) = (CopyIn::No, 0);
        }
        was_on
    }

    /// The statement being answered has failed, and its COPY with it. Returns how many Syncs may have been read within
    /// the COPY.
    pub(super) fn failed(&mut self) -> u32 {
        self.leave();
        std::mem::take(&mut self.syncs)
    }

    /// So many Syncs may have been answered. `here`: the next ReadyForQuery may be of one of them.
    pub(super) fn doubt_syncs(&mut self, count: u32, here: bool) {
        if count > 0 {
            self.unsure = Some(Unsure { count, owner: Answerer::Client, here });
        }
    }

    /// A message that answers something sent after such Syncs shows that they were not answered.
    pub(super) fn learn_from(&mut self, message: u8) {
        match &mut self.unsure {
            Some(unsure) if message == tag::READY_FOR_QUERY => unsure.here = true,
            Some(unsure) if unsure.here => self.unsure = None,
            _ => {}
        }
    }

    /// One of them was answered, to this one.
    fn take_answered(&mut self) -> Option<Answerer> {
        let unsure = self.unsure?;
        debug_assert!(unsure.count > 0, "Syncs are in doubt only if there are some");
        self.unsure = (unsure.count > 1).then_some(Unsure { count: unsure.count - 1, ..unsure });
        Some(unsure.owner)
    }

    /// The client is gone.
    pub(super) fn disown(&mut self) {
        if let Some(unsure) = &mut self.unsure {
            unsure.owner = Answerer::Nobody;
        }
    }
}

impl Ledger {
    /// Only a query of the pooler's own can show whether Syncs were answered.
    pub(crate) fn needs_question(&self) -> bool {
        self.copying.is_about_to_be_known() && self.owed.is_empty() && !self.open && !self.skipping
    }

    /// CopyFail is sent before a message of the client that does not belong to the COPY.
    pub(crate) fn stop_copy(&mut self) {
        debug_assert!(self.copying.is_open(), "there is something to stop");
        self.end_copy(CopyIn::Stopped);
    }

    fn end_copy(&mut self, stage: CopyIn) {
        self.copying.stage = stage;
        self.owed.push(Entry {
            owner: Answerer::Client,
            expect: Expect::CopyEnd,
            noted: false,
            access: Access::ReadOnly,
            statement: StatementRow::NONE,
        });
    }

    /// Notes a message that is sent to a server which is, as far as is known, in COPY IN.
    pub(super) fn sent_in_copy(&mut self, entry: Entry) -> bool {
        match entry.expect {
            Expect::Sync => {
                self.copying.syncs += 1;
                false
            }
            Expect::FakeParse | Expect::FakeClose => false,
            Expect::CopyEnd => {
                self.end_copy(CopyIn::Ended);
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
        (self.copying.stage, self.copying.may_begin) = (CopyIn::Open, false);
        let is_extended = self.front().is_some_and(Expect::is_extended);
        let mut index = 1;
        while let Some(entry) = self.owed.get(index) {
            match entry.expect {
                Expect::CopyEnd => {
                    self.copying.stage = CopyIn::Ended;
                    return;
                }
                Expect::Sync => {
                    self.owed.remove(index);
                    self.copying.syncs += 1;
                    let end = self.owed.iter().skip(index).position(|entry| entry.expect.is_ready());
                    self.open |= is_extended && end.is_none();
                    // The next Sync ends the batch of the COPY, and commits it.
                    let access = Some(entry.access).filter(|_| is_extended);
                    match end {
                        Some(behind) => self.owed.commit_more(index + behind, access),
                        None => self.batch = self.batch.max(access),
                    }
                }
                Expect::FakeParse | Expect::FakeClose => index += 1,
                _ => {
                    self.copying.stage = CopyIn::Cut;
                    return;
                }
            }
        }
    }

    /// CommandComplete, of a COPY perhaps.
    pub(super) fn copy_done(&mut self) {
        if !self.copying.done() {
            return;
        }
        let end = self.owed.iter().position(|entry| entry.expect == Expect::CopyEnd);
        if let Some(end) = end {
            self.owed.remove(end);
        }
    }

    /// Syncs sent after a Query whose COPY has failed.
    pub(super) fn sync_in_failed_query(&mut self, syncs: u32) {
        // An answer of the pooler's would have to come after theirs, and it is not known whether theirs come.
        self.doubtful |= syncs > 0 && self.owed.iter().any(|entry| entry.expect.is_fake());
        self.copying.doubt_syncs(syncs, false);
    }

    /// ReadyForQuery is about to be read: it may answer one of those Syncs.
    #[inline]
    pub(crate) fn ready_comes(&mut self) {
        if self.copying.is_in_doubt() {
            self.sync_is_answered();
        }
    }

    fn sync_is_answered(&mut self) {
        if !self.copying.is_about_to_be_known() {
            return;
        }
        if self.owed.front().is_some_and(|entry| entry.expect == Expect::Sync) {
            // It may answer that Sync or this one: they are alike, and one of them remains.
            return;
        }
        let Some(owner) = self.copying.take_answered() else { return };
        self.skipping = false;
        // A batch that was sent behind the COPY is not ended by it.
        self.open = self.owed.has_batch_at_end();
        // It answers a COPY that may have been done.
        let access = Access::ReadWrite;
        self.owed.push_front(Entry {
            owner,
            expect: Expect::Sync,
            noted: false,
            access,
            statement: StatementRow::NONE,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syncs_of_a_failed_copy_are_in_doubt_until_a_later_message_is_answered() {
        let mut copying = Copying { stage: CopyIn::Open, syncs: 2, ..Copying::default() };
        assert!(copying.is_guarded() && !copying.is_settled());
        assert_eq!((copying.failed(), copying.failed()), (2, 0), "they are counted once");
        copying.doubt_syncs(2, false);
        assert!(copying.is_guarded() && !copying.is_open());
        copying.learn_from(tag::COMMAND_COMPLETE);
        assert!(copying.is_in_doubt() && !copying.is_about_to_be_known(), "that was the failed query's own");
        copying.learn_from(tag::READY_FOR_QUERY);
        assert!(copying.is_about_to_be_known());
        copying.learn_from(tag::ROW_DESCRIPTION);
        assert!(copying.is_settled(), "the answer to what came behind them: they were ignored");
    }

    #[test]
    fn each_sync_that_was_answered_is_its_owners() {
        let mut copying = Copying::default();
        copying.doubt_syncs(0, true);
        assert!(copying.is_settled());
        copying.doubt_syncs(2, true);
        assert_eq!(copying.take_answered(), Some(Answerer::Client));
        copying.disown();
        assert_eq!(copying.take_answered(), Some(Answerer::Nobody));
        assert!(copying.take_answered().is_none() && copying.is_settled());
    }

    #[test]
    fn a_copy_that_was_read_to_its_end_leaves_no_doubt() {
        let mut copying = Copying { stage: CopyIn::Ended, syncs: 1, ..Copying::default() };
        assert!(copying.done() && copying.is_settled() && copying.failed() == 0);
        assert!(!copying.done());
    }
}
