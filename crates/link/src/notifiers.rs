//! The process ids that clients know, for the process ids in PostgreSQL's notifications.
//!
//! Promises: a notification that a session of the same pool and worker has caused gets the process id that its client knows. Does not map
//! the process ids of other workers' servers and of connections past the pooler.

/// One pool's servers on one worker.
#[derive(Debug, Default)]
pub struct Notifiers {
    /// The process id of each server, and the one that the client knows which notifies there.
    pids: Vec<(i32, i32)>,
}

impl FromIterator<(i32, i32)> for Notifiers {
    fn from_iter<I: IntoIterator<Item = (i32, i32)>>(pids: I) -> Notifiers {
        Notifiers { pids: pids.into_iter().collect() }
    }
}

impl Notifiers {
    /// `None`: no server of the pool on this worker has this process id.
    pub fn known_pid(&self, pid: i32) -> Option<i32> {
        self.pids.iter().find(|(server, _)| *server == pid).map(|(_, client)| *client)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_not_known_has_no_client() {
        let notifiers: Notifiers = [(101, 7), (102, 8)].into_iter().collect();
        assert_eq!([101, 102, 103].map(|pid| notifiers.known_pid(pid)), [Some(7), Some(8), None]);
        assert_eq!(Notifiers::default().known_pid(101), None);
    }
}
