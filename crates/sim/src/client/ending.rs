//! Whether the end of a client's connection was due, and told (I8).

use pooling::settings::PoolMode;
use wire::backend::Fields;

use super::{Circumstances, Client, Nowhere, Phase};
use crate::census::Census;
use crate::conditions::{FINAL, FOR_GOOD};
use crate::course::Finding;
use crate::plan::Plan;

/// How long before a client notices may the trouble have been that ended it, in microseconds: a server may be dead for
/// long before anybody asks it something.
const TROUBLE_US: u64 = 30_000_000;

impl Client {
    /// A FATAL: was there reason for it?
    pub(super) fn fatal(
        &mut self,
        body: &[u8],
        facts: Circumstances,
        plan: &Plan,
        census: &mut Census,
    ) -> Result<(), Finding> {
        let fields = Fields::decode(body);
        let code = String::from_utf8_lossy(fields.code().unwrap_or(b"?????")).into_owned();
        let words = String::from_utf8_lossy(fields.message().unwrap_or(b"")).into_owned();
        let told = format!("{code} {words}");
        if !self.is_due(&code, &words, facts, plan) {
            return Err((
                8,
                format!("client {} was told FATAL {told} without reason: {}", self.number, self.describe()),
            ));
        }
        if code == "53300" && words.starts_with("sorry") {
            return Err((5, "PostgreSQL's own refusal for too many clients reached a client".to_owned()));
        }
        census.refused += 1;
        self.told = Some(told);
        Ok(())
    }

    fn is_due(&self, code: &str, words: &str, facts: Circumstances, plan: &Plan) -> bool {
        let settings = &plan.settings;
        let since = self.owed_from.unwrap_or(self.since);
        let waited = |span: Option<std::time::Duration>| {
            // The moment it was sent is a little before the moment it was received.
            span.is_some_and(|span| facts.now.saturating_sub(since) + 20_000 >= span.as_micros() as u64)
        };
        let trouble =
            facts.trouble_at.is_some_and(|at| facts.now.saturating_sub(at) <= TROUBLE_US && self.engaged_at.is_some());
        // Whoever kept a server is told what has gone with it, whatever ended it.
        let words = words.split_once(" (lost with it: ").map_or(words, |(words, _)| words);
        match words {
            _ if words.starts_with("no such database") => {
                self.habits.lost == Some(Nowhere::Database) || plan.is_removed(&self.name)
            }
            "database removed" => plan.is_removed(&self.name),
            _ if words.starts_with("the connection that listened") && plan.is_removed(&self.name) => true,
            "\"trust\" authentication failed" | "no such user" => self.habits.lost == Some(Nowhere::User),
            // Told to whoever waits for a server, in the server's words.
            FOR_GOOD => plan.faults.final_refusals > 0 && FINAL.contains(&code) && (self.is_owed() || !self.is_ready()),
            // Who is nobody at all is no user of the console either.
            "not allowed" => self.console.is_some() && (self.user > 1 || self.habits.lost == Some(Nowhere::User)),
            "query_wait_timeout" => waited(settings.global.waiting.query_wait_timeout),
            // What does not stop when it is cancelled is closed.
            "query_timeout" | "query timeout" => settings.global.waiting.query_timeout.is_some(),
            "idle transaction timeout" => settings.global.waiting.idle_transaction_timeout.is_some(),
            "transaction timeout" => settings.global.waiting.transaction_timeout.is_some(),
            "client_idle_timeout" => settings.global.waiting.client_idle_timeout.is_some(),
            "client_login_timeout" => !matches!(self.phase, Phase::Ready),
            "client stalled" => self.habits.pace > 0,
            "no more connections allowed (max_client_conn)" => {
                settings.global.pools.max_client_conn <= plan.extent.clients
            }
            // Its turn would come after client_login_timeout. A reload may have brought the limit.
            "too many clients of your class log in at this moment" => !matches!(self.phase, Phase::Ready),
            "transaction blocks not allowed in statement pooling mode" => {
                self.mode == PoolMode::Statement && self.began_block
            }
            "server shutting down" | "pooler is shutting down" => facts.closing_time,
            "password authentication failed" | "SASL authentication failed" => {
                self.habits.wrong_password || self.habits.lost == Some(Nowhere::User)
            }
            // Whoever listens may be idle when the one goes that listens for it.
            _ if words.starts_with("the connection that listened") => facts.trouble_at.is_some(),
            _ => (code == "08006" || code.starts_with("57P")) && trouble,
        }
    }

    /// The pooler has closed the connection.
    ///
    /// # Errors
    /// It was not told why.
    pub(super) fn judge_end(&self, facts: Circumstances, plan: &Plan) -> Result<(), Finding> {
        if self.told.is_some() || matches!(self.phase, Phase::Hostile { .. }) {
            return Ok(());
        }
        // In the middle of a message there is no place for an error; a server's end may cut one.
        let in_message = !self.inbox.is_empty();
        let trouble = facts.trouble_at.is_some()
            || plan.settings.global.waiting.query_timeout.is_some()
            || plan.settings.global.waiting.transaction_timeout.is_some();
        if in_message && (trouble || self.habits.pace > 0) {
            return Ok(());
        }
        Err((8, format!("the connection ended without a word: {}", self.describe())))
    }
}
