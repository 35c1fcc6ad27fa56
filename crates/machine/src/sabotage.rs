//! Deliberate faults, to show that the simulator finds such bugs. Builds with debug assertions (tests and the
//! simulator) contain them, and [`Settings::sabotage`] turns one on. In any other build every function here is a constant that the
//! compiler removes; `tools/check-program` checks that a program to be shipped has none of them.

use queueing::queue::{Queue, Waiter};
use units::Time;

use crate::Settings;

pub use crate::fault::Fault;
#[cfg(debug_assertions)]
pub use crate::fault::Sabotage;

#[cfg(debug_assertions)]
mod switched {
    use super::{Queue, Sabotage, Settings, Time, Waiter};

    fn is(settings: &Settings, fault: Sabotage) -> bool {
        settings.sabotage == Some(fault)
    }

    pub fn releases_early(settings: &Settings) -> bool {
        is(settings, Sabotage::ReleaseAtFirstReady)
    }

    /// The session that a queue serves, if it is not the next.
    pub fn misserves(settings: &Settings) -> Option<Sabotage> {
        settings.sabotage.filter(|fault| matches!(fault, Sabotage::NewestWaiterFirst | Sabotage::OldestOfAnyClass))
    }

    pub fn pop(queue: &mut Queue, now: Time, fault: Option<Sabotage>) -> Option<Waiter> {
        match fault {
            Some(Sabotage::NewestWaiterFirst) => queue.pop_newest(),
            Some(Sabotage::OldestOfAnyClass) => queue.pop_oldest(now),
            _ => queue.pop(now),
        }
    }

    pub fn lends_on(settings: &Settings) -> bool {
        is(settings, Sabotage::LendWhatWasLent)
    }

    pub fn loses_lent(settings: &Settings) -> bool {
        is(settings, Sabotage::LoseLentServer)
    }

    pub fn serves_own_first(settings: &Settings) -> bool {
        is(settings, Sabotage::OwnWaitersFirst)
    }

    pub fn skips_drain(settings: &Settings) -> bool {
        is(settings, Sabotage::SkipDrain)
    }

    pub fn forwards_late_cancel(settings: &Settings) -> bool {
        is(settings, Sabotage::ForwardLateCancel)
    }

    pub fn does(settings: &Settings, fault: super::Fault) -> bool {
        is(settings, fault)
    }

    /// Whether any fault is turned on: then requests and answers take the general way, which has the faults.
    pub fn is_on(settings: &Settings) -> bool {
        settings.sabotage.is_some()
    }
}

#[cfg(not(debug_assertions))]
mod switched {
    use std::convert::Infallible;

    use super::{Queue, Settings, Time, Waiter};

    pub const fn releases_early(_: &Settings) -> bool {
        false
    }

    pub const fn misserves(_: &Settings) -> Option<Infallible> {
        None
    }

    pub fn pop(queue: &mut Queue, now: Time, _: Option<Infallible>) -> Option<Waiter> {
        queue.pop(now)
    }

    pub const fn lends_on(_: &Settings) -> bool {
        false
    }

    pub const fn loses_lent(_: &Settings) -> bool {
        false
    }

    pub const fn serves_own_first(_: &Settings) -> bool {
        false
    }

    pub const fn skips_drain(_: &Settings) -> bool {
        false
    }

    pub const fn forwards_late_cancel(_: &Settings) -> bool {
        false
    }

    pub const fn does(_: &Settings, _: super::Fault) -> bool {
        false
    }

    pub const fn is_on(_: &Settings) -> bool {
        false
    }
}

pub use switched::{
    does, forwards_late_cancel, is_on, lends_on, loses_lent, misserves, pop, releases_early, serves_own_first,
    skips_drain,
};
