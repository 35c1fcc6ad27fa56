//! Deliberate faults, to show that the simulator finds such bugs. Without the feature `sabotage`, which no release
//! build has, every function here is a constant that the compiler removes.

use crate::queue::{Queue, Waiter};
use crate::server::Server;
use crate::settings::Settings;
use crate::time::Time;

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
    /// Clients' events are told before servers', so that a session is linked to a server whose FATAL is unread. The
    /// fault is the caller's: nothing in this crate changes.
    LinkBeforeFatal,
}

#[cfg(feature = "sabotage")]
impl Sabotage {
    pub const ALL: [Sabotage; 7] = [
        Sabotage::ReleaseAtFirstReady,
        Sabotage::ForwardLateCancel,
        Sabotage::LoseLentServer,
        Sabotage::SkipDrain,
        Sabotage::NewestWaiterFirst,
        Sabotage::OwnWaitersFirst,
        Sabotage::LinkBeforeFatal,
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

    pub(crate) fn serves_newest(settings: &Settings) -> bool {
        is(settings, Sabotage::NewestWaiterFirst)
    }

    pub(crate) fn pop(queue: &mut Queue, now: Time, newest: bool) -> Option<Waiter> {
        if newest { queue.pop_newest() } else { queue.pop(now) }
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
}

#[cfg(not(feature = "sabotage"))]
mod switched {
    use super::{Queue, Server, Settings, Time, Waiter};

    pub(crate) fn releases_early(_: &Settings, _: &mut Server) -> bool {
        false
    }

    pub(crate) const fn serves_newest(_: &Settings) -> bool {
        false
    }

    pub(crate) fn pop(queue: &mut Queue, now: Time, _newest: bool) -> Option<Waiter> {
        queue.pop(now)
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
}

pub(crate) use switched::{
    forwards_late_cancel, loses_lent, pop, releases_early, serves_newest, serves_own_first, skips_drain,
};
