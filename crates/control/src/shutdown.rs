//! What signals and SHUTDOWN mean in each phase, as pure functions: what to do, and the log line.
//= pgbouncer usage.md#signals

use machine::{Level, Orders, Stop};

/// A signal that has a meaning here.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    Hangup,
    Terminate,
    Interrupt,
    Quit,
    User1,
    User2,
}

/// The phase of the process.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    #[default]
    Running,
    /// Another process takes our place: no new clients, and those that are here go there as they can.
    HandingOver,
    /// No new clients; existing work ends as the stop says.
    Ending(Stop),
}

/// What an administrator has brought to a stand, as PgBouncer's signals and SHOW STATE tell it apart.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standstill {
    None,
    Paused,
    Suspended,
}

impl Standstill {
    /// What orders have led to. What is both has been killed while it was suspended.
    pub(crate) fn of(orders: &Orders) -> Standstill {
        match (orders.is_suspended(), orders.only_of(None).paused) {
            (true, _) => Standstill::Suspended,
            (false, true) => Standstill::Paused,
            (false, false) => Standstill::None,
        }
    }
}

/// What to do about a signal.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub level: Level,
    /// The line for the log.
    pub text: &'static str,
    pub act: Act,
}

/// What follows from a signal, besides the line.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Act {
    Nothing,
    Reload,
    Stop(Stop),
    Pause,
    Resume,
}

impl Phase {
    /// What a signal means now.
    #[must_use]
    pub(crate) fn on(self, signal: Signal, standstill: Standstill) -> Verdict {
        let log = |text, act| Verdict { level: Level::Log, text, act };
        // A process that hands over is told to end like a running one.
        let ending = matches!(self, Phase::Ending(_));
        match signal {
            Signal::Hangup => log("got SIGHUP, re-reading config", Act::Reload),
            Signal::Quit => log("got SIGQUIT, fast exit", Act::Stop(Stop::Immediate)),
            Signal::Terminate if ending => {
                log("got SIGTERM while shutting down, fast exit", Act::Stop(Stop::Immediate))
            }
            Signal::Interrupt if ending => log("got SIGINT while shutting down, fast exit", Act::Stop(Stop::Immediate)),
            Signal::Terminate => {
                log("got SIGTERM, shutting down, waiting for all clients disconnect", Act::Stop(Stop::WaitForClients))
            }
            Signal::Interrupt => log(
                "got SIGINT, shutting down, waiting for all servers connections to be released",
                Act::Stop(Stop::WaitForServers),
            ),
            Signal::User1 if ending => log("got SIGUSR1 while shutting down, ignoring", Act::Nothing),
            // Orders are the other process's from now on.
            Signal::User1 if self == Phase::HandingOver => {
                log("got SIGUSR1 while another process takes over, ignoring", Act::Nothing)
            }
            Signal::User2 if self == Phase::HandingOver => {
                log("got SIGUSR2 while another process takes over, ignoring", Act::Nothing)
            }
            Signal::User1 if standstill == Standstill::None => log("got SIGUSR1, pausing all activity", Act::Pause),
            Signal::User1 => log("got SIGUSR1, but already paused/suspended", Act::Nothing),
            Signal::User2 if ending => log("got SIGUSR2 while shutting down, ignoring", Act::Nothing),
            Signal::User2 => match standstill {
                Standstill::None => log("got SIGUSR2, but not paused/suspended", Act::Nothing),
                Standstill::Paused => log("got SIGUSR2, continuing from PAUSE", Act::Resume),
                Standstill::Suspended => log("got SIGUSR2, continuing from SUSPEND", Act::Resume),
            },
        }
    }

    /// The last line of the log, when everything that was waited for is gone.
    #[must_use]
    pub(crate) fn last_words(self) -> Option<&'static str> {
        match self {
            Phase::Ending(Stop::WaitForClients) => Some("client connections dropped, exiting"),
            Phase::Ending(Stop::WaitForServers) => Some("server connections dropped, exiting"),
            Phase::Ending(Stop::WaitForTransactions) => Some("transactions are over, exiting"),
            Phase::HandingOver => Some("another process has taken over, exiting"),
            Phase::Ending(Stop::Immediate) | Phase::Running => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_signal_ends_at_once() {
        let soft = Phase::Running.on(Signal::Terminate, Standstill::None);
        assert_eq!(soft.act, Act::Stop(Stop::WaitForClients));
        assert_eq!(Phase::Running.on(Signal::Interrupt, Standstill::None).act, Act::Stop(Stop::WaitForServers));
        for stop in [Stop::WaitForClients, Stop::WaitForServers] {
            for signal in [Signal::Terminate, Signal::Interrupt, Signal::Quit] {
                let verdict = Phase::Ending(stop).on(signal, Standstill::None);
                assert_eq!(verdict.act, Act::Stop(Stop::Immediate), "{signal:?}");
                assert!(verdict.text.ends_with("fast exit"), "{}", verdict.text);
            }
        }
    }

    #[test]
    fn quit_is_immediate_and_hangup_reloads_whatever_the_phase() {
        for phase in [Phase::Running, Phase::Ending(Stop::WaitForClients)] {
            assert_eq!(phase.on(Signal::Quit, Standstill::None).act, Act::Stop(Stop::Immediate));
            assert_eq!(phase.on(Signal::Hangup, Standstill::None).act, Act::Reload);
        }
    }

    #[test]
    fn pause_and_resume_are_for_a_running_process_that_needs_them() {
        let ending = Phase::Ending(Stop::WaitForClients);
        let table = [
            (Phase::Running, Signal::User1, Standstill::None, Act::Pause),
            (Phase::Running, Signal::User1, Standstill::Paused, Act::Nothing),
            (Phase::Running, Signal::User1, Standstill::Suspended, Act::Nothing),
            (Phase::Running, Signal::User2, Standstill::Paused, Act::Resume),
            (Phase::Running, Signal::User2, Standstill::Suspended, Act::Resume),
            (Phase::Running, Signal::User2, Standstill::None, Act::Nothing),
            (Phase::HandingOver, Signal::User1, Standstill::None, Act::Nothing),
            (Phase::HandingOver, Signal::User2, Standstill::Paused, Act::Nothing),
            (ending, Signal::User1, Standstill::None, Act::Nothing),
            (ending, Signal::User2, Standstill::Paused, Act::Nothing),
        ];
        for (phase, signal, standstill, act) in table {
            assert_eq!(phase.on(signal, standstill).act, act, "{phase:?} {signal:?} {standstill:?}");
        }
    }

    /// People and scripts look for these in the log.
    #[test]
    fn lines_are_pgbouncers() {
        let ending = Phase::Ending(Stop::WaitForClients);
        let table = [
            (Phase::Running, Signal::Hangup, "got SIGHUP, re-reading config"),
            (Phase::Running, Signal::Terminate, "got SIGTERM, shutting down, waiting for all clients disconnect"),
            (ending, Signal::Terminate, "got SIGTERM while shutting down, fast exit"),
            (
                Phase::Running,
                Signal::Interrupt,
                "got SIGINT, shutting down, waiting for all servers connections to be released",
            ),
            (ending, Signal::Interrupt, "got SIGINT while shutting down, fast exit"),
            (Phase::Running, Signal::Quit, "got SIGQUIT, fast exit"),
            (Phase::Running, Signal::User1, "got SIGUSR1, pausing all activity"),
            (Phase::Running, Signal::User2, "got SIGUSR2, but not paused/suspended"),
            (ending, Signal::User2, "got SIGUSR2 while shutting down, ignoring"),
        ];
        for (phase, signal, text) in table {
            let verdict = phase.on(signal, Standstill::None);
            assert_eq!((verdict.level, verdict.text), (Level::Log, text), "{phase:?} {signal:?}");
        }
        assert_eq!(ending.last_words(), Some("client connections dropped, exiting"));
        assert_eq!(Phase::Ending(Stop::WaitForServers).last_words(), Some("server connections dropped, exiting"));
    }
}
