//! What a client makes of the loss of its server outside of session mode: one error for each request under way, or at the
//! next request if it was idle in a transaction; the session goes on.

use pooling::settings::PoolMode;
use wire::Header;
use wire::backend::{Fields, ReadyForQuery, Status, tag};

use super::answers::{is_strangers, show};
use super::{Circumstances, Client};
use crate::census::Census;
use crate::course::Finding;
use crate::plan::Plan;

impl Client {
    /// Whether its server may die, which it survives.
    pub(super) fn may_lose(&self, plan: &Plan) -> bool {
        plan.faults.every > 0 && self.mode != PoolMode::Session
    }

    /// An error that says that the server is gone, where there was trouble, or where it was closed for a statement that does not end.
    pub(super) fn is_loss(&self, message: u8, body: &[u8], facts: Circumstances, plan: &Plan) -> bool {
        if self.is_given_up(message, body, facts, plan) {
            return true;
        }
        if !self.may_lose(plan) || facts.trouble_at.is_none() {
            return false;
        }
        let code = || Fields::decode(body).code().is_some_and(|code| code == b"08006" || code.starts_with(b"57P"));
        message == tag::ERROR && code() || self.is_failure_forgotten(message, body)
    }

    /// Its statement has taken longer than query_timeout and query_cancel_timeout together, and its server was closed. Does not look
    /// whether a cancel was sent before.
    fn is_given_up(&self, message: u8, body: &[u8], facts: Circumstances, plan: &Plan) -> bool {
        let settings = &plan.settings;
        let (Some(timeout), Some(grace)) =
            (settings.global.waiting.query_timeout, settings.global.waiting.query_cancel_timeout)
        else {
            return false;
        };
        let waited = facts.now.saturating_sub(self.owed_from.unwrap_or(facts.now));
        message == tag::ERROR
            && plan.cancels_overdue(self.mode)
            && Fields::decode(body).code() == Some(b"57014")
            && Fields::decode(body).message() == Some(b"query timeout")
            && u128::from(waited) >= (timeout + grace).as_micros()
    }

    /// A request had failed, the client knew, and its server was lost before the end of the answer: that error is all it
    /// is told, and of the transaction nothing is left to roll back.
    fn is_failure_forgotten(&self, message: u8, body: &[u8]) -> bool {
        let mut expected = &self.expected[self.expected_at..];
        // Settings that had changed in it are reported before its end.
        while let Ok(Some(header)) = Header::parse(expected)
            && header.tag == tag::PARAMETER_STATUS
        {
            expected = &expected[header.total_len()..];
        }
        message == tag::READY_FOR_QUERY && body == b"I" && expected.starts_with(b"Z\0\0\0\x05E")
    }

    /// Whatever comes until all is answered: errors, or true answers of another server, but nobody else's.
    pub(super) fn after_loss(&mut self, message: u8, body: &[u8], census: &mut Census) -> Result<(), Finding> {
        if !self.lost {
            census.losses += 1;
            self.lost = true;
            self.expected.clear();
            self.expected_at = 0;
            self.undecided.clear();
            self.at_work = false;
        }
        if matches!(message, tag::DATA_ROW | tag::COPY_DATA) && is_strangers(body, self.number) {
            return Err((2, format!("client {} got a stranger's {}", self.number, show(message, body))));
        }
        if self.owed_ready == 0 && message == tag::READY_FOR_QUERY {
            let ready = ReadyForQuery::decode(body).map_err(|error| (11, error.to_string()))?;
            self.recover(ready.status)?;
        }
        Ok(())
    }

    /// All is answered: on with a twin at another server, that knows no names of the protocol, if it is known what was set.
    ///
    /// # Errors
    /// It had state that cannot be on another server, and was not told that it is gone.
    fn recover(&mut self, status: Status) -> Result<(), Finding> {
        self.losses += 1;
        if status != Status::Idle || self.setting || self.losses > 20 {
            self.units = 0;
            self.gives_up = true;
            return Ok(());
        }
        let number = self.number;
        let lost =
            |what: String| (9, format!("client {number} goes on, and what it had on its server is gone: {what}"));
        self.twin = self.twin.moved().map_err(lost)?;
        self.lost = false;
        Ok(())
    }
}
