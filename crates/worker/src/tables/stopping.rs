//! The state of a worker's shutdown.

use machine::mail::Stop;

/// How the worker is to stop, if it is.
#[derive(Debug, Default)]
pub(crate) struct Stopping {
    how: Option<Stop>,
    is_finished: bool,
    hand_over: HandOver,
}

/// Whether another process takes our place. Unlike a stop it can be taken back: the other process may die.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
enum HandOver {
    #[default]
    No,
    /// What can move goes there.
    Moving,
    /// The same, and sessions that have not moved by now end between two transactions.
    Ending,
}

impl Stopping {
    /// Begins a stop. False: a faster stop has begun already.
    pub(crate) fn begin(&mut self, how: Stop) -> bool {
        if self.how >= Some(how) {
            return false;
        }
        self.how = Some(how);
        true
    }

    /// Another process takes our place.
    pub(crate) fn hand_over(&mut self) {
        if self.hand_over == HandOver::No {
            self.hand_over = HandOver::Moving;
        }
    }

    /// It has taken too long.
    pub(crate) fn end_what_stays(&mut self) {
        self.hand_over = HandOver::Ending;
    }

    /// The other process is gone: only an ordered stop still holds.
    pub(crate) fn go_on(&mut self) {
        self.hand_over = HandOver::No;
    }

    #[inline]
    pub(crate) fn hands_over(&self) -> bool {
        self.hand_over != HandOver::No
    }

    /// Whether sessions may be refused, or the process is to end.
    #[inline]
    pub(crate) fn has_begun(&self) -> bool {
        self.how.is_some() || self.hand_over == HandOver::Ending
    }

    /// Whether sessions that wait, or would have to, are refused.
    #[inline]
    pub(crate) fn refuses_new_work(&self) -> bool {
        matches!(self.how, Some(Stop::WaitForServers | Stop::WaitForTransactions)) || self.ends_sessions()
    }

    /// Whether sessions end between two transactions.
    #[inline]
    pub(crate) fn ends_sessions(&self) -> bool {
        self.how == Some(Stop::WaitForTransactions) || self.hand_over == HandOver::Ending
    }

    /// Whether it is looked at the end of each round who can move, or is to end.
    pub(crate) fn walks(&self) -> bool {
        self.hands_over() || self.ends_sessions()
    }

    /// What the stop still waits for. `None`: there is no stop, or it was reported as finished.
    pub(crate) fn awaits(&self) -> Option<Stop> {
        self.how.filter(|_| !self.is_finished)
    }

    /// Whether this worker has nothing left that the stop waits for.
    pub(crate) fn is_finished(&self) -> bool {
        self.is_finished
    }

    pub(crate) fn finish(&mut self) {
        self.is_finished = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_is_only_replaced_by_a_sooner_one() {
        let mut stopping = Stopping::default();
        assert!(stopping.begin(Stop::WaitForClients) && !stopping.refuses_new_work());
        assert!(!stopping.begin(Stop::WaitForClients));
        assert!(stopping.begin(Stop::WaitForServers) && stopping.refuses_new_work());
        assert!(!stopping.begin(Stop::WaitForClients));
        assert_eq!(stopping.awaits(), Some(Stop::WaitForServers));
        stopping.finish();
        assert_eq!(stopping.awaits(), None);
    }

    #[test]
    fn a_hand_over_is_taken_back_whole_and_takes_no_stop_back() {
        let mut stopping = Stopping::default();
        stopping.hand_over();
        assert!(stopping.hands_over() && !stopping.has_begun());
        stopping.end_what_stays();
        assert!(stopping.hands_over() && stopping.has_begun());
        assert!(stopping.ends_sessions() && stopping.refuses_new_work());
        assert_eq!(stopping.awaits(), None, "the process ends when the control plane finds nobody left");
        stopping.hand_over();
        assert!(stopping.ends_sessions(), "a worker that is told twice still ends sessions");
        stopping.go_on();
        assert!(!stopping.hands_over() && !stopping.has_begun() && !stopping.refuses_new_work());
        stopping.begin(Stop::WaitForTransactions);
        stopping.hand_over();
        stopping.end_what_stays();
        stopping.go_on();
        assert!(stopping.ends_sessions(), "it was ordered before");
    }
}
