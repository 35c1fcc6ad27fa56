//! A session's transaction: whether there is one, whether it has failed, and the state that its end keeps or undoes.

use wire::backend::Status;

use super::super::answer::{Done, refused, said};
use super::refusal;
use crate::command::Command;
use crate::settings::SettingRefusal;
use crate::state::State;
use crate::statement::Body;

/// The message of 25P02.
pub(super) const ABORTED: &str = "current transaction is aborted, commands ignored until end of transaction block";

#[derive(Debug)]
pub(super) struct Transaction {
    status: Status,
    state: State,
}

impl Transaction {
    /// None is open.
    pub(super) fn new(state: State) -> Transaction {
        Transaction { status: Status::Idle, state }
    }

    pub(super) fn status(&self) -> Status {
        self.status
    }

    pub(super) fn is_open(&self) -> bool {
        self.status != Status::Idle
    }

    pub(super) fn state(&self) -> &State {
        &self.state
    }

    pub(super) fn state_mut(&mut self) -> &mut State {
        &mut self.state
    }

    pub(super) fn begin(&mut self) {
        self.status = Status::InTransaction;
    }

    /// Commits. Returns the notifications to be sent.
    pub(super) fn commit(&mut self) -> Vec<(String, String)> {
        self.status = Status::Idle;
        self.state.commit()
    }

    pub(super) fn roll_back(&mut self) {
        self.status = Status::Idle;
        self.state.roll_back();
    }

    /// Undoes the transaction at once, though the client must still end the block.
    pub(super) fn fail(&mut self) {
        if self.status != Status::Failed {
            self.state.fail();
        }
        if self.is_open() {
            self.status = Status::Failed;
        }
    }

    /// # Errors
    /// The transaction has failed, and the statement does not end it.
    pub(super) fn admit(&self, body: &Body) -> Result<(), SettingRefusal> {
        if self.status == Status::Failed && !body.ends_transaction() {
            return Err(refusal("25P02", ABORTED));
        }
        Ok(())
    }

    /// SAVEPOINT, RELEASE, ROLLBACK TO.
    pub(super) fn savepoint(&mut self, command: &Command) -> Done {
        let missing = |name: &str| refused("3B001", format!("savepoint \"{name}\" does not exist"));
        match command {
            Command::Savepoint(name) if self.is_open() => {
                self.state.savepoint(name);
                said("SAVEPOINT")
            }
            Command::Release(name) if self.is_open() => {
                if self.state.release(name) {
                    said("RELEASE")
                } else {
                    missing(name)
                }
            }
            Command::RollbackTo(name) if self.is_open() => {
                if !self.state.roll_back_to(name) {
                    return missing(name);
                }
                self.status = Status::InTransaction;
                said("ROLLBACK")
            }
            _ => refused("25P01", "it can only be used in transaction blocks"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::Settings;

    #[test]
    fn a_failed_transaction_takes_only_what_ends_the_failure() {
        let mut transaction = Transaction::new(State::new(Settings::new(), "user1"));
        let savepoint = |transaction: &mut Transaction, text: &str| {
            let command = Command::parse(text).expect("it is in the language");
            transaction.savepoint(&command).map(drop).map_err(|(code, _)| code)
        };
        assert_eq!(savepoint(&mut transaction, "savepoint a"), Err("25P01"));
        transaction.fail();
        assert!(!transaction.is_open(), "outside of a block nothing has to be ended");
        transaction.begin();
        assert_eq!(savepoint(&mut transaction, "savepoint a"), Ok(()));
        transaction.fail();
        assert!(transaction.admit(&Body::parse("select 1 0")).is_err());
        assert!(transaction.admit(&Body::parse("rollback to a")).is_ok());
        assert_eq!(savepoint(&mut transaction, "rollback to b"), Err("3B001"));
        assert_eq!(savepoint(&mut transaction, "rollback to a"), Ok(()));
        assert!(transaction.admit(&Body::parse("select 1 0")).is_ok());
    }
}
