//! The state of a worker's shutdown.

use machine::mail::Stop;

/// How the worker is to stop, if it is.
#[derive(Debug, Default)]
pub(crate) struct Stopping {
    how: Option<Stop>,
    is_finished: bool,
    /// Another process takes our place, and what can move goes there.
    pub(crate) hands_over: bool,
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

    #[inline]
    pub(crate) fn has_begun(&self) -> bool {
        self.how.is_some()
    }

    /// Whether sessions that wait, or would have to, are refused.
    #[inline]
    pub(crate) fn refuses_new_work(&self) -> bool {
        matches!(self.how, Some(Stop::WaitForServers | Stop::WaitForTransactions))
    }

    /// Whether sessions end between two transactions.
    #[inline]
    pub(crate) fn ends_sessions(&self) -> bool {
        self.how == Some(Stop::WaitForTransactions)
    }

    /// What the stop still waits for. `None`: there is no stop, or it was reported as finished.
    pub(crate) fn awaits(&self) -> Option<Stop> {
        self.how.filter(|_| !self.is_finished)
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
}
