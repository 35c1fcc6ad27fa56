//! A server's checks of the statements that it is given: whether this client may use the server now (I3, I11), and
//! whether the session's state is that of the client's twin (I9).

use crate::book::{Book, Complaint, Step};
use crate::command::Command;
use crate::state::Moment;
use crate::statement::{Body, Mark};

/// For how long a server belongs to a client.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// To one client until the end of a transaction or batch.
    ForTransaction,
    /// To one client until DISCARD ALL, in session mode.
    ForSession,
}

#[derive(Debug)]
pub(super) struct Judge {
    /// False for a twin, which checks nothing.
    judges: bool,
    held: Held,
    /// The client of the current transaction, batch or session.
    owner: Option<u32>,
    /// The first one that was not taken yet.
    complaint: Option<Complaint>,
}

impl Judge {
    pub(super) fn new(judges: bool, held: Held) -> Judge {
        Judge { judges, held, owner: None, complaint: None }
    }

    /// A judge for the same session at another server.
    pub(super) fn moved(&self) -> Judge {
        Judge::new(self.judges, self.held)
    }

    /// Whether it is a server's, and no twin's.
    pub(super) fn judges(&self) -> bool {
        self.judges
    }

    /// Notes the state at a client's statement. Of twin and server, the one that runs it second compares.
    pub(super) fn compare(&self, book: &mut Book, mark: Mark, step: Step, moment: Moment, body: &Body) {
        if self.judges {
            book.server_at(mark, step, moment, || format!("{body:?}"));
        } else {
            book.twin_at(mark, step, moment);
        }
    }

    /// A statement is run: checks whether its client may use the server.
    pub(super) fn note(&mut self, body: &Body, mark: Option<Mark>) {
        if !self.judges {
            return;
        }
        let Some(mark) = mark else {
            if !is_housekeeping(body) {
                self.complain(11, format!("{body:?} is nobody's: no client sent it and it is not the pooler's either"));
            }
            return;
        };
        if let Some(owner) = self.owner
            && owner != mark.client
        {
            let what = match self.held {
                Held::ForSession => "session",
                Held::ForTransaction => "transaction or batch",
            };
            self.complain(3, format!("{body:?} of client {} comes into the {what} of client {owner}", mark.client));
        }
        self.owner = Some(mark.client);
    }

    /// The end of a transaction, or of a batch without one.
    pub(super) fn transaction_ended(&mut self) {
        if self.held == Held::ForTransaction {
            self.owner = None;
        }
    }

    /// DISCARD ALL.
    pub(super) fn session_ended(&mut self) {
        self.owner = None;
    }

    pub(super) fn take_complaint(&mut self) -> Option<Complaint> {
        self.complaint.take()
    }

    fn complain(&mut self, invariant: u8, text: String) {
        self.complaint.get_or_insert(Complaint { invariant, text });
    }
}

/// Whether the pooler sends this statement on its own.
fn is_housekeeping(body: &Body) -> bool {
    match body {
        Body::Rollback | Body::Empty => true,
        // The connect_query of some databases.
        Body::Select { rows, len } => (*rows, *len) == (1, 0),
        Body::Command(command) => is_of_following(command),
        _ => false,
    }
}

/// Statements by which the pooler carries a session's state to a server, or removes state from a server.
fn is_of_following(command: &Command) -> bool {
    // Sent before a question of the pooler, and valid only for it.
    if let Command::Set { name, value, local: true } = command {
        let limits = [("statement_timeout", "0"), ("lock_timeout", "1000")];
        return limits.iter().any(|(known, to)| name == known && value.as_deref().is_some_and(|value| value == [*to]));
    }
    matches!(
        command,
        Command::Set { local: false, .. }
            | Command::SetConfig { local: false, .. }
            | Command::Reset(_)
            | Command::DiscardAll
            | Command::Listen(_)
            | Command::Unlisten(_)
            | Command::DiscardSequences
            | Command::Prepare { .. }
            | Command::Deallocate(_)
            | Command::Check { .. }
            | Command::Catalogue { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(judge: &mut Judge, text: &str, client: Option<u32>) -> Option<u8> {
        judge.note(&Body::parse(text), client.map(|client| Mark { client, number: 1 }));
        judge.take_complaint().map(|complaint| complaint.invariant)
    }

    #[test]
    fn another_client_in_a_transaction_is_noticed() {
        let mut judge = Judge::new(true, Held::ForTransaction);
        assert_eq!(note(&mut judge, "begin", Some(1)), None);
        assert_eq!(note(&mut judge, "select 1 0", Some(2)), Some(3));
        judge.transaction_ended();
        assert_eq!(note(&mut judge, "select 1 0", Some(1)), None);
    }

    #[test]
    fn a_session_outlasts_its_transactions() {
        let mut judge = Judge::new(true, Held::ForSession);
        assert_eq!(note(&mut judge, "begin", Some(1)), None);
        judge.transaction_ended();
        assert_eq!(note(&mut judge, "begin", Some(2)), Some(3));
        judge.session_ended();
        assert_eq!(note(&mut judge, "begin", Some(1)), None);
    }

    #[test]
    fn the_pooler_says_nothing_but_housekeeping() {
        let mut judge = Judge::new(true, Held::ForTransaction);
        for text in ["rollback", "", "select 1 0", "discard all", "set local statement_timeout = 0"] {
            assert_eq!(note(&mut judge, text, None), None, "{text}");
        }
        for text in ["commit", "select 2 0", "set local work_mem = 0"] {
            assert_eq!(note(&mut judge, text, None), Some(11), "{text}");
        }
        assert_eq!(note(&mut Judge::new(false, Held::ForTransaction), "commit", None), None);
    }
}
