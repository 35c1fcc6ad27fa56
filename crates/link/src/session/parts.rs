//! The parts of a session: fields that change together.

use std::num::NonZeroU32;
use std::sync::Arc;

use queueing::classes::{ClassId, Standing};
use session_state::own_changes::OwnChanges;
use session_state::parameter_set::ParameterSet;
use session_state::parameters::Parameters;
use session_state::prepared::StatementNames;
use session_state::unnamed::Unnamed;
use units::Time;

use crate::charge::Origin;
use crate::permits::Permits;

/// Bytes that it has sent and that are not dealt with yet.
#[derive(Debug)]
pub struct Incoming {
    /// Received and kept: part of a message, or messages that wait for a server.
    pub(crate) inbox: Vec<u8>,
    /// Bytes of the current message still to come.
    pub(crate) skip: u32,
    pub(crate) rest: Rest,
    /// A batch was refused: its messages up to the Sync are discarded.
    pub(crate) skipping: bool,
}

impl Incoming {
    /// The bytes that are received and kept.
    #[inline]
    pub fn inbox(&self) -> &[u8] {
        &self.inbox
    }

    /// How much memory the inbox has.
    pub fn capacity(&self) -> usize {
        self.inbox.capacity()
    }

    /// The kept bytes are read.
    #[inline]
    pub fn take_inbox(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.inbox)
    }

    /// The kept bytes were looked at, and stay.
    #[inline]
    pub fn put_back(&mut self, inbox: Vec<u8>) {
        debug_assert!(self.inbox.is_empty(), "nothing was kept while the inbox was looked at");
        self.inbox = inbox;
    }

    /// Keeps more bytes. `buffer`: an empty one, if there is none yet.
    pub fn stash(&mut self, bytes: &[u8], buffer: impl FnOnce() -> Vec<u8>) {
        if self.inbox.capacity() == 0 {
            self.inbox = buffer();
        }
        self.inbox.extend_from_slice(bytes);
    }

    /// Makes room for just so many more bytes. False: there is no memory.
    pub fn reserve(&mut self, len: usize) -> bool {
        self.inbox.try_reserve_exact(len).is_ok()
    }

    /// A request that was sent to a lost server comes before the messages that are kept.
    pub(crate) fn put_first(&mut self, request: &[u8]) {
        self.inbox.splice(..0, request.iter().copied());
    }

    /// Removes the first bytes, which are dealt with.
    pub fn drain(&mut self, len: usize) -> std::vec::Drain<'_, u8> {
        self.inbox.drain(..len)
    }

    /// The session ends: what is kept is not dealt with.
    pub fn forget(&mut self) {
        self.inbox = Vec::new();
    }

    /// The bytes of the current message still to come.
    #[inline]
    pub fn skip(&self) -> u32 {
        self.skip
    }

    /// No rest of a message is to be forwarded.
    pub fn forwards_nothing(&self) -> bool {
        self.skip == 0 || self.rest == Rest::Discard
    }

    /// The server is lost that had the beginning of a message: the rest goes nowhere.
    pub fn forward_no_more(&mut self) {
        self.rest = Rest::Discard;
    }

    /// A message was refused, of which no byte has been passed over.
    pub fn discard_message(&mut self, len: u32) {
        (self.skip, self.rest) = (len, Rest::Discard);
    }

    /// No message is half read, and none is kept or discarded.
    #[inline(always)]
    pub(crate) fn is_between(&self) -> bool {
        self.skip == 0 && self.inbox.is_empty() && !self.skipping
    }

    /// A batch was refused.
    pub fn discard_batch(&mut self) {
        self.skipping = true;
    }

    /// Messages up to the Sync are discarded.
    #[inline]
    pub fn discards_batch(&self) -> bool {
        self.skipping
    }
}

/// The parameters that the session has set itself. All others follow its pool's servers.
#[derive(Copy, Clone, Debug, Default)]
pub struct OwnParameters {
    pub(crate) now: ParameterSet,
    /// In its startup packet.
    pub(crate) at_login: ParameterSet,
    /// The edition of the values that its pool's servers begin with, as far as it has followed them; `None`: it comes from another process, or
    /// follows a server that is being replaced.
    pub(crate) edition: Option<NonZeroU32>,
}

impl OwnParameters {
    /// The parameters that the session has set itself.
    #[inline]
    pub fn now(&self) -> ParameterSet {
        self.now
    }

    #[must_use]
    pub(crate) fn begun(at_login: ParameterSet, edition: NonZeroU32) -> OwnParameters {
        OwnParameters { now: at_login, at_login, edition: Some(edition) }
    }

    /// Its statements have done this.
    pub(crate) fn change(&mut self, changes: OwnChanges) {
        self.now = changes.over(self.now, self.at_login);
    }
}

/// The statements that it has prepared, by its own names.
#[derive(Debug)]
pub struct ClientStatements {
    pub(crate) names: Option<Box<StatementNames>>,
    pub(crate) unnamed: Option<Box<Unnamed>>,
}

impl ClientStatements {
    /// The named statements, if it has prepared any.
    pub fn names(&self) -> Option<&StatementNames> {
        self.names.as_deref()
    }

    /// The unnamed statement, if there is one.
    pub fn unnamed(&self) -> Option<&Unnamed> {
        self.unnamed.as_deref()
    }

    /// A Sync is sent for it.
    pub fn batch_ended(&mut self) {
        if let Some(unnamed) = &mut self.unnamed {
            unnamed.batch_ended();
        }
    }

    /// A Query of its was answered without a server, which would have dropped the unnamed statement.
    pub fn query_answered(&mut self) {
        if let Some(unnamed) = &mut self.unnamed {
            unnamed.forget();
        }
    }

    /// Its server is lost, and it goes on. `within`: a request of its was under way.
    pub fn server_lost(&mut self, within: bool) {
        if let Some(names) = &mut self.names {
            names.undo_all();
        }
        if let Some(unnamed) = &mut self.unnamed {
            unnamed.skipped_all();
            unnamed.batch_ended();
            if within {
                // It is not known whether the request replaced the unnamed statement, so the older one must not be used.
                unnamed.forget();
            }
        }
    }
}

/// Its class, and what the limits allow it.
#[derive(Debug)]
pub struct Claim {
    /// The class it had when it last needed a server.
    pub(crate) class: ClassId,
    /// What the rules of classes give to it, and the parameters for which this holds.
    pub(crate) standing: Option<Box<(Arc<Parameters>, Arc<Standing>)>>,
    /// How that transaction began, if its class has a class for long ones.
    pub(crate) origin: Option<Origin>,
    pub(crate) admission: Admission,
    /// The permits of its transaction.
    pub(crate) permits: Option<Box<Permits>>,
    /// The client wants to be sent how much its limits leave.
    pub(crate) reports_limits: bool,
    /// Its deadline from the startup packet, where session state is not followed; 0: none.
    pub(crate) begun_deadline_ms: u32,
}

impl Claim {
    /// The class that it had when it last needed a server.
    #[inline]
    pub fn class(&self) -> ClassId {
        self.class
    }

    /// It needs a server, in this class.
    pub fn take_class(&mut self, class: ClassId) {
        (self.class, self.origin) = (class, None);
    }

    /// Its class has a class for long transactions. `long`: that class, if this transaction is expected to be long.
    pub fn take_origin(&mut self, origin: Option<Origin>, long: Option<ClassId>) {
        self.origin = origin;
        self.class = long.unwrap_or(self.class);
    }

    /// What the rules of classes give to it, if that is known for these parameters.
    pub fn standing(&self, parameters: &Arc<Parameters>) -> Option<&Standing> {
        self.standing.as_ref().filter(|known| Arc::ptr_eq(&known.0, parameters)).map(|known| &*known.1)
    }

    /// The rules of classes have changed.
    pub fn forget_standing(&mut self) {
        self.standing = None;
    }

    /// Whether the limits let its transaction run.
    #[inline]
    pub fn admission(&self) -> Admission {
        self.admission
    }

    /// It begins to wait for a limit.
    pub fn wait(&mut self, ticket: u64) {
        debug_assert!(!matches!(self.admission, Admission::Waits { .. }), "it waits in one queue at a time");
        self.admission = Admission::Waits { ticket };
    }

    /// It has passed a limit, or need not wait for one any longer.
    pub fn has_waited(&mut self, since: Time) {
        debug_assert!(!matches!(self.admission, Admission::In { .. }), "a session that was let in waits no more");
        self.admission = Admission::HasWaited { since };
    }

    /// Its transaction may begin.
    pub fn admit(&mut self, since: Time) {
        let has_passed = matches!(self.admission, Admission::HasWaited { .. });
        debug_assert!(has_passed, "a session is let in once it has passed its limits");
        self.admission = Admission::In { since, transactions: 1, queries: 1 };
    }

    /// Its transaction is over, or does not begin. Returns how far it had come.
    pub fn take_admission(&mut self) -> Admission {
        std::mem::take(&mut self.admission)
    }

    /// Transactions and queries of an admitted session have begun. Returns how many of them were not counted when it was admitted.
    /// `None`: its transaction began before there were limits, or it has none.
    pub fn pay(&mut self, transactions: u32, queries: u32) -> Option<(u32, u32)> {
        let Admission::In { transactions: begun, queries: asked, .. } = &mut self.admission else { return None };
        let paid = |credit: &mut u8, count: u32| {
            let free = u32::from(*credit).min(count);
            *credit -= free as u8;
            count - free
        };
        Some((paid(begun, transactions), paid(asked, queries)))
    }

    /// The permits of its transaction.
    #[inline]
    pub fn permits(&self) -> Option<&Permits> {
        self.permits.as_deref()
    }

    /// The permits of its transaction.
    #[inline]
    pub fn permits_mut(&mut self) -> Option<&mut Permits> {
        self.permits.as_deref_mut()
    }

    /// The permits of its transaction, which the client asked for at `asked_at`.
    pub fn ensure_permits(&mut self, now: Time, asked_at: Time) -> &mut Permits {
        self.permits.get_or_insert_with(|| Box::new(Permits::new(now, asked_at)))
    }

    /// Its transaction is over, or its server keeps them.
    pub fn take_permits(&mut self) -> Option<Box<Permits>> {
        self.permits.take()
    }

    /// The client wants to be sent how much its limits leave.
    pub fn reports_limits(&self) -> bool {
        self.reports_limits
    }
}

/// Whether the limits let its transaction run.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Admission {
    /// No transaction has been requested.
    #[default]
    Not,
    /// It waits in the queue of a limit; the ticket is its place.
    Waits { ticket: u64 },
    /// It has waited for one limit and passed it, and there may be another.
    HasWaited { since: Time },
    /// It runs, or waits for a server. `transactions` and `queries` were counted already and have not begun. `since`:
    /// when it was requested.
    In { since: Time, transactions: u8, queries: u8 },
}

/// What happens to the rest of a message whose beginning was dealt with.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Rest {
    Forward,
    Discard,
}
