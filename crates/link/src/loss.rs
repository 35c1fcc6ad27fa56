//! The answers to a client whose server is lost: for each request under way an error, unless it can be answered all the same; and whether the client
//! is in a transaction block afterwards.
//!
//! A request is sent to one server only. If it may have been committed, the client gets 08007. A request that was skipped because one before it
//! has failed gets the error of an aborted block, and so does everything after it until the client ends the block ([`lost_block`]): what a
//! client has sent behind a lost request, or sends before it has read the error, fails and does nothing.
//!
//! [`lost_block`]: crate::lost_block
//!
//! //= pg18 protocol-flow#PROTOCOL-FLOW-EXT-QUERY
//! //= pg18 protocol-flow#PROTOCOL-FLOW-PIPELINING

use session_state::access::Access;
use wire::backend::{self, Status};

use crate::server::{Request, Server, Transaction};

/// The error for one request.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The request was a lone statement that certainly did nothing.
    Alone,
    /// Its transaction is rolled back for certain.
    Block,
    /// It comes after such a one, in the same block.
    Aborted,
    /// Whether it was committed is not known.
    Unknown,
}

/// The answer to one request.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// `None`: the client has the error already, or there is none.
    pub failure: Option<Failure>,
    /// The request was a ROLLBACK. It is answered as if it had been carried out, since PostgreSQL rolls back what it loses.
    pub is_rollback: bool,
    /// The status of its ReadyForQuery; `None`: its Sync has not been sent, and what comes before that is skipped.
    pub ready: Option<Status>,
}

/// The loss of a server, for its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// One for each request that is owed an answer.
    pub answers: Vec<Answer>,
    /// The client is in a transaction block, which is lost; and whether it has got an error in it.
    pub block: Option<Told>,
}

/// The state of a lost block as its client knows it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// Nothing.
    Nothing,
    /// A statement has failed in it, which has nothing to do with the loss.
    Failed,
    /// It has the error.
    Lost,
}

impl Loss {
    /// The loss of this server; `None`: its client may be in a block or not, so its connection has to end.
    #[must_use]
    pub fn of(server: &Server) -> Option<Loss> {
        if server.ledger.is_doubtful() || server.ledger.copying().is_cut() || server.ledger.copying().is_stopped() {
            return None;
        }
        let requests = server.ledger.requests();
        let transaction = &server.transaction;
        judge(&requests, transaction, server.may_commit())
    }

    /// Nothing was under way, in a transaction block or otherwise.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.answers.is_empty() && self.block.is_none()
    }

    /// The messages up to the next Sync are skipped.
    #[must_use]
    pub fn skips(&self) -> bool {
        self.answers.last().is_some_and(|answer| answer.ready.is_none())
    }
}

impl Answer {
    /// Appends it. `failure`: writes the error. `reports`: ParameterStatus messages, which come before a ReadyForQuery, as PostgreSQL sends them.
    pub fn write(&self, out: &mut Vec<u8>, reports: &mut Vec<u8>, failure: impl FnOnce(Failure, &mut Vec<u8>)) {
        if self.is_rollback {
            backend::encode_command_complete(out, "ROLLBACK");
        }
        if let Some(kind) = self.failure {
            failure(kind, out);
        }
        out.append(reports);
        if let Some(status) = self.ready {
            backend::encode_ready(out, status);
        }
    }
}

fn judge(requests: &[Request], transaction: &Transaction, may_commit: bool) -> Option<Loss> {
    let mut told = match transaction.status {
        Status::Idle => None,
        Status::InTransaction => Some(Told::Nothing),
        Status::Failed => Some(Told::Failed),
    };
    let mut answers = Vec::with_capacity(requests.len());
    for (number, request) in requests.iter().enumerate() {
        let was_in_block = told.is_some();
        if !was_in_block && request.access == Access::Commit && requests.len() > 1 {
            // The request may have begun a block.
            return None;
        }
        let has_failed = request.has_failed || number == 0 && transaction.answer_failed;
        if request.is_open && !request.is_owed && !has_failed {
            // The client has all that it asked for, and gets the error with its next message if that comes in a block. If it has committed, it
            // is in none.
            return (was_in_block && !request.access.commits()).then_some(Loss { answers, block: told });
        }
        if request.access == Access::Begin && !was_in_block {
            told = Some(Told::Nothing);
        }
        let ends = was_in_block && request.access == Access::Rollback && request.is_query && !has_failed;
        // Its client may have all of its answer but ReadyForQuery.
        let is_rollback = ends && !(number == 0 && transaction.answer_tagged);
        let failure = match told {
            _ if has_failed || ends => None,
            _ if may_commit || request.is_open && request.access.commits() => Some(Failure::Unknown),
            None if request.is_open => Some(Failure::Block),
            None => Some(Failure::Alone),
            Some(Told::Nothing | Told::Failed) => Some(Failure::Block),
            Some(Told::Lost) => Some(Failure::Aborted),
        };
        if matches!(request.access, Access::Rollback | Access::End) && !request.is_open {
            told = None;
        } else if let Some(known) = &mut told {
            match failure {
                Some(_) => *known = Told::Lost,
                None if has_failed && *known == Told::Nothing => *known = Told::Failed,
                None => {}
            }
        }
        let status = if told.is_some() { Status::Failed } else { Status::Idle };
        answers.push(Answer { failure, is_rollback, ready: (!request.is_open).then_some(status) });
    }
    Some(Loss { answers, block: told })
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: Request =
        Request { access: Access::ReadOnly, is_query: true, is_open: false, is_owed: true, has_failed: false };

    fn transaction(status: Status, answer_failed: bool) -> Transaction {
        Transaction { status, answer_failed, ..Transaction::idle(units::Time::ZERO) }
    }

    fn query(access: Access) -> Request {
        Request { access, ..QUERY }
    }

    fn loss_of(requests: &[Request], status: Status, answer_failed: bool, may_commit: bool) -> Loss {
        judge(requests, &transaction(status, answer_failed), may_commit).expect("its client can go on")
    }

    fn answers(loss: &Loss) -> Vec<(Option<Failure>, Option<Status>)> {
        loss.answers.iter().map(|answer| (answer.failure, answer.ready)).collect()
    }

    #[test]
    fn a_block_fails_once_and_what_was_sent_behind_it_is_refused() {
        let requests = [query(Access::ReadWrite), query(Access::ReadOnly)];
        let loss = loss_of(&requests, Status::InTransaction, false, false);
        let failed = Some(Status::Failed);
        assert_eq!(answers(&loss), [(Some(Failure::Block), failed), (Some(Failure::Aborted), failed)]);
        assert_eq!(loss.block, Some(Told::Lost));
        // BEGIN may be under way with all that follows it.
        let requests = [query(Access::Begin), query(Access::ReadWrite)];
        assert_eq!(judge(&requests, &transaction(Status::Idle, false), false), Some(loss));
    }

    #[test]
    fn a_commit_under_way_makes_everything_unknown_and_ends_the_block() {
        let loss = loss_of(&[query(Access::ReadWrite), query(Access::End)], Status::InTransaction, false, true);
        let unknown = Some(Failure::Unknown);
        assert_eq!(answers(&loss), [(unknown, Some(Status::Failed)), (unknown, Some(Status::Idle))]);
        assert_eq!(loss.block, None);
        // If its Sync has not been sent, the block ends with nothing but another end.
        let open = Request { is_open: true, is_query: false, ..query(Access::End) };
        let loss = loss_of(&[open], Status::InTransaction, false, true);
        assert_eq!((answers(&loss), loss.skips(), loss.block), (vec![(unknown, None)], true, Some(Told::Lost)));
    }

    #[test]
    fn a_rollback_under_way_is_carried_out() {
        for status in [Status::InTransaction, Status::Failed] {
            let loss = loss_of(&[query(Access::Rollback)], status, false, false);
            assert!(loss.answers[0].is_rollback && loss.block.is_none());
            assert_eq!(answers(&loss), [(None, Some(Status::Idle))]);
            // Its tag has come, and the server is lost before ReadyForQuery.
            let transaction = Transaction { answer_tagged: true, ..transaction(status, false) };
            let loss = judge(&[query(Access::Rollback)], &transaction, false).expect("its client can go on");
            assert!(!loss.answers[0].is_rollback && loss.block.is_none());
            assert_eq!(answers(&loss), [(None, Some(Status::Idle))]);
        }
    }

    #[test]
    fn an_error_that_the_client_has_is_not_sent_again() {
        let loss = loss_of(&[QUERY, QUERY], Status::InTransaction, true, false);
        let failed = Some(Status::Failed);
        assert_eq!(answers(&loss), [(None, failed), (Some(Failure::Block), failed)]);
        let loss = loss_of(&[QUERY], Status::Idle, true, false);
        assert_eq!((answers(&loss), loss.block), (vec![(None, Some(Status::Idle))], None));
    }

    #[test]
    fn who_is_idle_in_a_block_gets_the_error_later() {
        let of = |status| judge(&[], &transaction(status, false), false).map(|loss| (loss.answers.len(), loss.block));
        assert_eq!(of(Status::InTransaction), Some((0, Some(Told::Nothing))));
        assert_eq!(of(Status::Failed), Some((0, Some(Told::Failed))));
        assert_eq!(of(Status::Idle), Some((0, None)));
    }

    #[test]
    fn lone_statements_go_on_unless_one_may_have_begun_a_block() {
        let loss = loss_of(&[QUERY, QUERY], Status::Idle, false, false);
        let alone = (Some(Failure::Alone), Some(Status::Idle));
        assert_eq!((answers(&loss), loss.block), (vec![alone, alone], None));
        assert_eq!(judge(&[QUERY, query(Access::Commit)], &transaction(Status::Idle, false), true), None);
        let loss = loss_of(&[query(Access::Commit)], Status::Idle, false, true);
        assert_eq!((answers(&loss), loss.block), (vec![(Some(Failure::Unknown), Some(Status::Idle))], None));
    }

    #[test]
    fn a_batch_without_its_sync_is_skipped() {
        let open = Request { is_open: true, is_query: false, ..query(Access::ReadWrite) };
        let loss = loss_of(&[open], Status::Idle, false, false);
        assert_eq!((answers(&loss), loss.skips(), loss.block), (vec![(Some(Failure::Block), None)], true, None));
        let failed = Request { has_failed: true, ..open };
        let loss = loss_of(&[failed], Status::InTransaction, false, false);
        assert_eq!((answers(&loss), loss.block), (vec![(None, None)], Some(Told::Failed)));
        // All of it was answered, and the client reads nothing now.
        let at_rest = Request { is_owed: false, ..open };
        assert_eq!(judge(&[at_rest], &transaction(Status::Idle, false), false), None);
        let committed = Request { access: Access::End, ..at_rest };
        assert_eq!(
            judge(&[committed], &transaction(Status::InTransaction, false), false),
            None,
            "what it has committed is no lost block"
        );
        let more = Request { is_owed: true, ..committed };
        let loss = loss_of(&[more], Status::InTransaction, false, false);
        assert_eq!(answers(&loss), [(Some(Failure::Unknown), None)]);
        let loss = loss_of(&[at_rest], Status::InTransaction, false, false);
        assert_eq!((loss.answers.len(), loss.skips(), loss.block), (0, false, Some(Told::Nothing)));
    }
}
