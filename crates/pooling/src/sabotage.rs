//! Deliberate faults, to show that the simulator finds such bugs. Without the feature `sabotage`, which no release
//! build has, every function here is a constant that the compiler removes.

use queueing::queue::{Queue, Waiter};
use units::Time;

use crate::server::Server;
use crate::settings::Settings;

/// One fault.
#[cfg(feature = "sabotage")]
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// A server is released at the first ReadyForQuery, whatever is still owed on it (breaks I2, I3).
    ReleaseAtFirstReady,
    /// A cancel is forwarded to the server a session had last, although that is somebody else's now (breaks I4).
    ForwardLateCancel,
    /// A lent server never arrives (breaks I12).
    LoseLentServer,
    /// A server whose client vanished is handed out without reading what it still owes (breaks I2, I3).
    SkipDrain,
    /// The newest waiter is served first (breaks I7).
    NewestWaiterFirst,
    /// A worker's own waiters are served before any stranger (breaks I7 between workers).
    OwnWaitersFirst,
    /// The oldest waiter of any class is served first, whatever its class has had (breaks I14).
    OldestOfAnyClass,
    /// A server that was lent may be lent on before it has served anybody: it travels for ever (breaks I6).
    LendWhatWasLent,
    /// Clients' events are told before servers', so that a session is linked to a server whose FATAL is unread. The
    /// fault is the caller's: nothing in this crate changes.
    LinkBeforeFatal,
    /// Of a cancel's secret only one half is compared (breaks I4).
    HalfASecret,
    /// A reload does not change max_user_connections (breaks I5).
    KeepUserLimit,
    /// A COPY whose client has gone is not ended (breaks I12).
    LeaveCopyOpen,
    /// Whoever says UNLISTEN says it for all (breaks I9, I11).
    UnlistenForAll,
    /// An idle client is not told of notifications until its next request (breaks I9).
    WithholdNews,
    /// A server is read although its client does not take what it says (breaks I10).
    ReadOn,
    /// A pool keeps one server fewer than min_pool_size (breaks I12).
    OneTooFew,
    /// Nobody asks for the reserve (breaks I6).
    LeaveReserve,
    /// A server that is lent is as good as new (breaks I5).
    RejuvenateLent,
    /// Statements are shared across a change of their tables (breaks I11).
    KeepStatements,
    /// Clients may stay idle in a transaction for as long as they like (breaks I8).
    ForgiveIdleTransactions,
    /// Clients of a removed database are not told (breaks I8).
    RemoveSilently,
}

#[cfg(feature = "sabotage")]
impl Sabotage {
    pub const ALL: [Sabotage; 21] = [
        Sabotage::ReleaseAtFirstReady,
        Sabotage::ForwardLateCancel,
        Sabotage::LoseLentServer,
        Sabotage::SkipDrain,
        Sabotage::NewestWaiterFirst,
        Sabotage::OwnWaitersFirst,
        Sabotage::OldestOfAnyClass,
        Sabotage::LendWhatWasLent,
        Sabotage::LinkBeforeFatal,
        Sabotage::HalfASecret,
        Sabotage::KeepUserLimit,
        Sabotage::LeaveCopyOpen,
        Sabotage::UnlistenForAll,
        Sabotage::WithholdNews,
        Sabotage::ReadOn,
        Sabotage::OneTooFew,
        Sabotage::LeaveReserve,
        Sabotage::RejuvenateLent,
        Sabotage::KeepStatements,
        Sabotage::ForgiveIdleTransactions,
        Sabotage::RemoveSilently,
    ];
}

#[cfg(feature = "sabotage")]
mod switched {
    use super::{Queue, Sabotage, Server, Settings, Time, Waiter};

    fn is(settings: &Settings, fault: Sabotage) -> bool {
        settings.sabotage == Some(fault)
    }

    pub(crate) fn releases_early(settings: &Settings, server: &mut Server) -> bool {
        let early = is(settings, Sabotage::ReleaseAtFirstReady) && !server.ledger.is_clear() && server.status_seen;
        if early {
            server.ledger = crate::server::Ledger::default();
            server.skip = 0;
            server.status = wire::backend::Status::Idle;
        }
        early
    }

    /// Whom a queue serves, if it is not who is next.
    pub(crate) fn misserves(settings: &Settings) -> Option<Sabotage> {
        settings.sabotage.filter(|fault| matches!(fault, Sabotage::NewestWaiterFirst | Sabotage::OldestOfAnyClass))
    }

    pub(crate) fn pop(queue: &mut Queue, now: Time, fault: Option<Sabotage>) -> Option<Waiter> {
        match fault {
            Some(Sabotage::NewestWaiterFirst) => queue.pop_newest(),
            Some(Sabotage::OldestOfAnyClass) => queue.pop_oldest(now),
            _ => queue.pop(now),
        }
    }

    pub(crate) fn lends_on(settings: &Settings) -> bool {
        is(settings, Sabotage::LendWhatWasLent)
    }

    pub(crate) fn loses_lent(settings: &Settings) -> bool {
        is(settings, Sabotage::LoseLentServer)
    }

    pub(crate) fn serves_own_first(settings: &Settings) -> bool {
        is(settings, Sabotage::OwnWaitersFirst)
    }

    pub(crate) fn skips_drain(settings: &Settings) -> bool {
        is(settings, Sabotage::SkipDrain)
    }

    pub(crate) fn forwards_late_cancel(settings: &Settings) -> bool {
        is(settings, Sabotage::ForwardLateCancel)
    }

    pub(crate) fn does(settings: &Settings, fault: super::Fault) -> bool {
        is(settings, fault)
    }
}

#[cfg(not(feature = "sabotage"))]
mod switched {
    use std::convert::Infallible;

    use super::{Queue, Server, Settings, Time, Waiter};

    pub(crate) fn releases_early(_: &Settings, _: &mut Server) -> bool {
        false
    }

    pub(crate) const fn misserves(_: &Settings) -> Option<Infallible> {
        None
    }

    pub(crate) fn pop(queue: &mut Queue, now: Time, _: Option<Infallible>) -> Option<Waiter> {
        queue.pop(now)
    }

    pub(crate) const fn lends_on(_: &Settings) -> bool {
        false
    }

    pub(crate) const fn loses_lent(_: &Settings) -> bool {
        false
    }

    pub(crate) const fn serves_own_first(_: &Settings) -> bool {
        false
    }

    pub(crate) const fn skips_drain(_: &Settings) -> bool {
        false
    }

    pub(crate) const fn forwards_late_cancel(_: &Settings) -> bool {
        false
    }

    pub(crate) const fn does(_: &Settings, _: super::Fault) -> bool {
        false
    }
}

pub(crate) use switched::{
    does, forwards_late_cancel, lends_on, loses_lent, misserves, pop, releases_early, serves_own_first, skips_drain,
};

/// What a place in the code asks about: without the feature, nothing happens whichever it names.
#[cfg(feature = "sabotage")]
pub(crate) use Sabotage as Fault;

#[cfg(not(feature = "sabotage"))]
#[derive(Copy, Clone)]
pub(crate) enum Fault {
    HalfASecret,
    KeepUserLimit,
    LeaveCopyOpen,
    UnlistenForAll,
    WithholdNews,
    ReadOn,
    OneTooFew,
    LeaveReserve,
    RejuvenateLent,
    KeepStatements,
    ForgiveIdleTransactions,
    RemoveSilently,
}
