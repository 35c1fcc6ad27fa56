//! Everything a machine may ask its caller for.
//!
//! After every step the caller carries out all actions in order, before the next step. The list belongs to the caller
//! and is reused, so a step allocates nothing in the steady state.

use std::sync::Arc;

use connections::Flow;
use connections::databases::Address;
use connections::encryption::Next;
use queueing::board::{Cell, ClassCell};
use units::{ConnId, DoorId, Life, PoolId, ProcessId, WorkerId};

use crate::asking::Inquiry;
use crate::encryption::Secure;
use crate::mail::{Mail, ToCoordinator, ToDoor, ToWorker};
use crate::observe::{Fact, Level, LogFilter, Topic};
use crate::processes::ToProcess;
use crate::snapshot::Snapshot;
use crate::trace::TracedStatement;
use crate::work::Job;

/// One thing to do.
#[derive(Debug)]
pub enum Action {
    /// Write these bytes to a connection, after what was written to it before. Neighbouring sends to one connection may
    /// be gathered into one system call. If the connection has a backlog (`Machine::backlog`), or its socket takes less
    /// than everything, the rest goes to `Machine::keep` at once and `Event::Blocked` follows after the last action.
    Send { conn: ConnId, piece: Piece },
    /// From now on, report readability and writability like this. A new connection starts with reading only.
    Interest { conn: ConnId, read: bool, write: bool },
    /// Close it; there is no event for it any more. What was sent before is on its way. `last_words`: its peer was told
    /// why, and may still be writing; that must reach it all the same.
    Close { conn: ConnId, last_words: bool },
    /// Connect to a PostgreSQL, without waiting: `Event::Opened` or `Event::OpenFailed` follows.
    Open { conn: ConnId, address: Arc<Address> },
    /// A connection to this host could not be opened, was closed by its PostgreSQL, or has led to one of another role: if it has a name, the name
    /// may have other addresses soon.
    DoubtName { host: Arc<Address> },
    /// Encrypt it from now on: `Event::Secured` follows, and until then nothing is sent on it.
    Secure { conn: ConnId, how: Secure },
    /// Compute this off the event loop: `Event::Computed` follows.
    Compute { conn: ConnId, job: Job },
    /// Ask others who a client is, off the event loop: `Event::Answered` follows.
    Ask { conn: ConnId, inquiry: Box<Inquiry> },
    /// Put a message into another machine's mailbox; `carrying` names the connection that goes with it and leaves here.
    Post { mail: Mail, carrying: Option<ConnId> },
    /// The connection that came with the mail being delivered is now called this.
    Adopt { conn: ConnId },
    /// Write this worker's cell of a pool's row on the board.
    Publish { pool: PoolId, cell: Cell },
    /// Show this on the board beside it, before it.
    PublishClasses { pool: PoolId, cells: Box<[ClassCell]> },
    /// A console command for the control plane; `ToWorker::Answer` brings the reply.
    AskControl { conn: ConnId, question: Question },
    /// The answer to `ToWorker::Look`.
    Report { ticket: u64, snapshot: Box<Snapshot> },
    /// Send mail to another process. What moves leaves with its sockets.
    PostToProcess { process: ProcessId, mail: Box<ToProcess> },
    /// The answer to `Turn::Place`; `None`: there is no room for its pool.
    Placed { ticket: u64, place: Option<Placed> },
    /// Shutdown has come to its end here: nothing is left to wait for.
    Finished,
    /// A line for the log.
    Tell(Box<Fact>),
    /// Find out how a host is. `is_urgent`: at once, and often for a while, since a login there has failed or a server was lost; else an answer is long in
    /// coming.
    Probe { host: Arc<Address>, is_urgent: bool },
    /// A statement that is traced has been answered.
    Trace(Box<TracedStatement>),
}

/// Where something lives that another process has handed over.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    pub worker: WorkerId,
    pub pool: PoolId,
    /// On how many workers the pool lives.
    pub homes: u16,
    /// Of the worker.
    pub life: Life,
}

// The list is written and read for every transaction: what is rare and large is boxed.
const _: () = assert!(size_of::<Action>() <= 80);

/// How a command has come to the console, and so what its answer is. Each answer ends with ReadyForQuery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Manner {
    /// As a simple query: it is run, and the answer is all of it.
    Query,
    /// It is only read: the answer is RowDescription with the format that is given for each column (0 text, 1 binary), NoData, or what is
    /// wrong with it.
    Describe { formats: Box<[u16]> },
    /// It is run; rows have no RowDescription before them, and each column its format.
    Execute { formats: Box<[u16]> },
}

/// What a console client typed, and what it may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    pub text: Vec<u8>,
    pub manner: Manner,
    pub user: Arc<str>,
    /// All commands, instead of SHOW only.
    pub admin: bool,
}

/// A run of bytes in one of the places that outlive the step until its actions are carried out.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub source: Source,
    pub start: u32,
    pub len: u32,
}

/// Bytes of a connection's that are copied rather than sent from where they lie.
const COPIED_LEN_MAX: usize = 256;

/// Where a piece lies.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// In the bytes of the `Event::Received` being answered.
    Chunk,
    /// In `Actions::scratch`.
    Scratch,
    /// In one of `Actions::kept`.
    Kept(u32),
}

/// The caller's list of actions and the bytes they speak of.
#[derive(Debug, Default)]
pub struct Actions {
    list: Vec<Action>,
    scratch: Vec<u8>,
    kept: Vec<Vec<u8>>,
    log_filter: LogFilter,
}

impl Actions {
    #[must_use]
    pub fn new() -> Actions {
        Actions::default()
    }

    /// From now on only facts that pass this filter are kept.
    pub fn set_log_filter(&mut self, hearing: LogFilter) {
        self.log_filter = hearing;
    }

    /// Whether a line would be written: to make its text costs more than to ask.
    pub fn logs(&self, level: Level, topic: Topic) -> bool {
        self.log_filter.passes(level, topic)
    }

    pub fn tell(&mut self, mut fact: Fact) {
        if self.logs(fact.level, fact.topic) {
            fact.about.cut_names();
            self.push(Action::Tell(Box::new(fact)));
        }
    }

    /// Has a connection watched for what its flow can do with, if that has changed.
    #[inline]
    pub fn watch(&mut self, conn: ConnId, flow: &mut Flow, read: bool) {
        if let Some((read, write)) = flow.watch(read) {
            self.push(Action::Interest { conn, read, write });
        }
    }

    /// Holds a connection, so that it is not read, or lets it go.
    pub fn hold(&mut self, conn: ConnId, flow: &mut Flow, held: bool) {
        if let Some((read, write)) = flow.hold(held) {
            self.push(Action::Interest { conn, read, write });
        }
    }

    /// Empty again, keeping the memory. Buffers that were kept go to `recycle`.
    pub fn clear(&mut self, mut recycle: impl FnMut(Vec<u8>)) {
        self.list.clear();
        self.scratch.clear();
        while let Some(buffer) = self.kept.pop() {
            recycle(buffer);
        }
    }

    /// As [`Actions::clear`], of a list that has nothing but sends.
    #[inline]
    pub fn clear_sends(&mut self, recycle: impl FnMut(Vec<u8>)) {
        debug_assert!(self.list.iter().all(|action| matches!(action, Action::Send { .. })));
        // They own nothing that would have to be dropped.
        while let Some(send) = self.list.pop() {
            std::mem::forget(send);
        }
        if !self.scratch.is_empty() || !self.kept.is_empty() {
            self.clear(recycle);
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    #[must_use]
    pub fn as_slice(&self) -> &[Action] {
        &self.list
    }

    /// Takes the actions out, leaving the bytes they speak of; the vector comes back by [`Actions::put_back`].
    pub fn take(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.list)
    }

    /// Returns the vector of [`Actions::take`], so that its memory is used again once [`Actions::clear`] has emptied it.
    pub fn put_back(&mut self, list: Vec<Action>) {
        debug_assert!(self.list.is_empty(), "actions were added while the last ones were carried out");
        self.list = list;
    }

    /// The bytes of a piece; `chunk` is what was received in the event being answered.
    #[inline]
    #[must_use]
    pub fn bytes<'a>(&'a self, piece: Piece, chunk: &'a [u8]) -> &'a [u8] {
        let range = piece.start as usize..piece.start as usize + piece.len as usize;
        match piece.source {
            Source::Chunk => &chunk[range],
            Source::Scratch => &self.scratch[range],
            Source::Kept(index) => &self.kept[index as usize][range],
        }
    }

    pub fn push(&mut self, action: Action) {
        self.list.push(action);
    }

    pub fn post_to_door(&mut self, door: DoorId, mail: ToDoor) {
        self.push(Action::Post { mail: Mail::ToDoor(door, mail), carrying: None });
    }

    pub fn post_to_coordinator(&mut self, mail: ToCoordinator) {
        self.push(Action::Post { mail: Mail::ToCoordinator(mail), carrying: None });
    }

    pub fn post_to_worker(&mut self, worker: WorkerId, mail: ToWorker) {
        self.push(Action::Post { mail: Mail::ToWorker(worker, mail), carrying: None });
    }

    /// How many bytes of our own, or copied, this step has written so far.
    pub fn written_len(&self) -> usize {
        self.scratch.len()
    }

    /// Sends bytes that `write` appends to the scratch.
    pub fn send_new(&mut self, conn: ConnId, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.scratch.len();
        write(&mut self.scratch);
        self.send(conn, Source::Scratch, start, self.scratch.len());
    }

    /// Sends a range of a source, joined with the last action if it continues that very range.
    #[inline]
    pub fn send(&mut self, conn: ConnId, source: Source, start: usize, end: usize) {
        debug_assert!(start <= end);
        if start == end {
            return;
        }
        let (start, len) = (start as u32, (end - start) as u32);
        // Most steps send once.
        if self.list.is_empty() {
            self.list.push(Action::Send { conn, piece: Piece { source, start, len } });
            return;
        }
        if let Some(Action::Send { conn: last, piece }) = self.list.last_mut() {
            let continues = *last == conn && piece.source == source && piece.start + piece.len == start;
            if continues {
                piece.len += len;
                return;
            }
        }
        self.push(Action::Send { conn, piece: Piece { source, start, len } });
    }

    /// As [`Actions::send`], of bytes that lie in `bytes`. A few of them are copied behind bytes of our own that go to the same
    /// connection: one piece is sent with less ado than two.
    pub fn send_or_copy(&mut self, conn: ConnId, source: Source, bytes: &[u8], start: usize, end: usize) {
        if let Some(Action::Send { conn: last, piece }) = self.list.last_mut()
            && (1..=COPIED_LEN_MAX).contains(&(end - start))
            && *last == conn
            && piece.source == Source::Scratch
            && (piece.start + piece.len) as usize == self.scratch.len()
        {
            self.scratch.extend_from_slice(&bytes[start..end]);
            piece.len += (end - start) as u32;
            return;
        }
        self.send(conn, source, start, end);
    }

    /// Does what comes next on a connection to PostgreSQL before its login. True: nothing, and the login can begin.
    pub fn encrypt(&mut self, conn: ConnId, next: Next) -> bool {
        match next {
            Next::Ask(request) => self.send_new(conn, |out| out.extend_from_slice(&request)),
            Next::Encrypt { host, is_direct } => {
                self.push(Action::Secure { conn, how: Secure::Connect { host, is_direct } });
            }
            Next::LogIn => return true,
        }
        false
    }

    /// Where the next kept buffer will lie. It must be kept before any other.
    pub fn next_kept(&self) -> Source {
        Source::Kept(self.kept.len() as u32)
    }

    /// Sends mail to another process. What moves leaves with its sockets.
    pub fn post_to_process(&mut self, process: ProcessId, mail: ToProcess) {
        self.push(Action::PostToProcess { process, mail: Box::new(mail) });
    }

    /// Keeps a buffer until the actions are carried out. `source`: as [`Actions::next_kept`] gave it before, which the actions that send
    /// from the buffer have.
    pub fn keep(&mut self, source: Source, buffer: Vec<u8>) {
        debug_assert_eq!(source, self.next_kept(), "another buffer was kept in its place");
        self.kept.push(buffer);
    }
}

#[cfg(test)]
mod tests {
    use units::Kind;

    use super::*;

    #[test]
    fn one_step_may_keep_a_buffer_of_every_client_there_is() {
        let conn = ConnId::new(Kind::Client, 0, 0, 0);
        let mut actions = Actions::new();
        for number in 0..100_000_u32 {
            let source = actions.next_kept();
            actions.send(conn, source, 0, 4);
            actions.keep(source, number.to_be_bytes().to_vec());
        }
        let bytes = actions.as_slice().iter().filter_map(|action| match action {
            Action::Send { piece, .. } => Some(actions.bytes(*piece, &[]).to_vec()),
            _ => None,
        });
        assert!(bytes.eq((0..100_000_u32).map(|number| number.to_be_bytes().to_vec())), "I2");
    }
}
