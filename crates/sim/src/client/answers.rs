//! A client's handling of the messages it gets: an answer that it is owed, the loss of its server, or the end of the
//! connection, which must have a reason and a message (I8).
//!
//! Outside of session mode it survives the loss of its server: one error for each request under way, or at the next request if it was
//! idle in a transaction; the session goes on. In a transaction block nothing is executed any more until the client has ended it (I26).

use connections::databases::TargetSessionAttrs;
use settings::PoolMode;
use wire::backend::{Fields, ReadyForQuery, Status, tag};
use wire::{HEADER_LEN, Header};

use super::compare::{is_of_another_client, show};
use super::hurry::{self, Refused};
use super::{Circumstances, Client, ClientPhase, Nowhere};
use crate::census::Census;
use crate::conditions::{FINAL, FOR_GOOD};
use crate::course::Finding;
use crate::plan::Plan;

/// The longest time between a failure and the client's notice of it, in microseconds: a server may be dead for long
/// before a client sends it a request.
const TROUBLE_US: u64 = 30_000_000;

/// How the error at `failover_wait` begins.
const NO_HOST: &[u8] = b"no server can be opened: ";

impl Client {
    /// Handles every whole message that has come.
    pub(super) fn progress(&mut self, facts: Circumstances, plan: &Plan, census: &mut Census) -> Result<(), Finding> {
        if matches!(self.phase, ClientPhase::Starting { asked_for_tls: true })
            && !self.talk.socket.inbox.is_empty()
            && self.talk.socket.inbox[0] != b'E'
        {
            self.encryption_answered(plan)?;
        }
        let inbox = std::mem::take(&mut self.talk.socket.inbox);
        let mut at = 0;
        if matches!(self.phase, ClientPhase::Hostile { .. }) {
            // Answers to what it sent before the invalid bytes are not distinguished from answers to these.
            return Ok(());
        }
        loop {
            let rest = &inbox[at..];
            let header = Header::parse(rest).map_err(|error| (11, format!("broken framing: {error}")))?;
            let Some(header) = header.filter(|header| rest.len() >= header.total_len()) else { break };
            let body = &rest[HEADER_LEN..header.total_len()];
            self.message(header.tag, body, facts, plan, census)?;
            at += header.total_len();
        }
        self.talk.socket.inbox = inbox;
        self.talk.socket.inbox.drain(..at);
        Ok(())
    }

    fn message(
        &mut self,
        message: u8,
        body: &[u8],
        facts: Circumstances,
        plan: &Plan,
        census: &mut Census,
    ) -> Result<(), Finding> {
        let number = self.who.number;
        if let Some(fatal_error) = &self.fatal_error {
            return Err((11, format!("client {number} got {} after FATAL {fatal_error}", show(message, body))));
        }
        if message == tag::NOTICE {
            if let Some(console) = &mut self.console {
                console.pass_notice();
            }
            return Ok(());
        }
        if message == tag::PARAMETER_STATUS && body.starts_with(b"in_hot_standby\0") && !plan.standbys.is_empty() {
            // Its servers may be at different hosts.
            return Ok(());
        }
        if message == tag::NOTIFICATION && self.habits.shares_channel && self.who.is_news_of_others(body) {
            census.clients.strangers_heard += 1;
            census.clients.strangers_owed += u64::from(self.count_notification(body));
            return Ok(());
        }
        if message == tag::ERROR && Fields::decode(body).is_fatal() {
            return self.fatal(body, facts, plan, census);
        }
        if !matches!(self.phase, ClientPhase::Ready) {
            if message == tag::ERROR {
                return Err((8, "an error during login must be FATAL".to_owned()));
            }
            return self.login_message(message, body, plan);
        }
        census.statements.messages += 1;
        if let Some(console) = &mut self.console {
            self.fatal_error = console.message(number, message, body)?;
            return Ok(());
        }
        if let Some(replica) = &mut self.replica {
            census.clients.streams += u64::from(replica.message(number, message, body)?);
            return Ok(());
        }
        if message == tag::READY_FOR_QUERY {
            census.statements.queries += 1;
            self.talk.twin.note_ready();
        }
        let is_refusal = is_held_too_long(message, body, facts);
        census.hosts.held += u64::from(is_refusal);
        self.losses.is_refusal |= is_refusal;
        let is_lost = self.losses.is_lost
            || self.is_loss(message, body, facts, plan)
            || self.is_refused_in_begun_block(message, body, facts);
        if is_lost || self.losses.is_in_block {
            self.judge_lost_block(message, body)?;
        }
        if is_lost {
            self.after_loss(message, body, census)?;
        } else {
            self.answer(message, body, facts, plan, census)?;
        }
        self.talk.outcomes.received(message, body)
    }

    /// A message that the twin must send as well.
    fn answer(
        &mut self,
        message: u8,
        body: &[u8],
        facts: Circumstances,
        plan: &Plan,
        census: &mut Census,
    ) -> Result<(), Finding> {
        let refused = match hurry::refusal(message, body) {
            Some(detail) => {
                self.judge_refusal(&detail, plan, census)?;
                true
            }
            None => false,
        };
        let may_strike = self.cancels.may_strike() || self.overdue;
        let has_struck = self.talk.twin.decide(message, body, refused, may_strike);
        self.losses.is_in_block |= self.talk.twin.take_lost_block();
        self.cancels.seen += u32::from(has_struck);
        census.cancels.obeyed += u64::from(has_struck && !self.habits.cancels && !self.overdue);
        // Only now is it known what the twin answers.
        if self.is_loss(message, body, facts, plan) {
            self.judge_lost_block(message, body)?;
            return self.after_loss(message, body, census);
        }
        self.talk.twin.compare(self.who.number, message, body, self.losses.is_in_block)?;
        if self.talk.twin.has_all_ready() {
            let is_in_block = self.talk.twin.status() != Status::Idle;
            self.work.has_set_in_block = is_in_block && (self.work.has_set_in_block || self.work.setting);
            self.work.setting = false;
            self.talk.twin.catch_up();
        }
        Ok(())
    }

    /// Checks a refusal while it waited: in time, and with a reason?
    fn judge_refusal(&self, detail: &str, plan: &Plan, census: &mut Census) -> Result<(), Finding> {
        let may_be = self.talk.twin.status() == Status::Idle && !self.talk.twin.is_at_work();
        let deadline_ms = self.talk.deadline_ms();
        // It cannot have waited for longer than an answer has been owed.
        let passed_at = self.debt.since.unwrap_or(0) + u64::from(deadline_ms) * 1_000;
        match hurry::judge(detail, deadline_ms, plan.is_spared(passed_at)).filter(|_| may_be) {
            Some(Refused::Late) => census.cancels.late += 1,
            Some(Refused::Hasty) => census.cancels.hasty += 1,
            None => {
                let number = self.who.number;
                return Err((8, format!("client {number} was refused without reason: {detail}: {}", self.describe())));
            }
        }
        Ok(())
    }

    /// An error that says that the server is gone, where there was trouble, or where it was closed for a statement that does not end.
    fn is_loss(&self, message: u8, body: &[u8], facts: Circumstances, plan: &Plan) -> bool {
        if self.is_given_up(message, body, facts, plan) || is_held_too_long(message, body, facts) {
            return true;
        }
        if !self.who.may_lose(plan) || facts.trouble_at.is_none() {
            return false;
        }
        let code = || Fields::decode(body).code().is_some_and(is_of_loss);
        let twin = &self.talk.twin;
        message == tag::ERROR && code() || twin.is_failure_forgotten(message, body) || twin.is_block_lost(message, body)
    }

    /// Whether its first statement in a block was refused while it waited for another server than the one that had begun the block.
    fn is_refused_in_begun_block(&self, message: u8, body: &[u8], facts: Circumstances) -> bool {
        let is_in_block = self.talk.twin.status() == Status::InTransaction;
        let has_waited = || Fields::decode(body).detail().is_some_and(|detail| detail.starts_with(b"waited_ms="));
        is_in_block && facts.trouble_at.is_some() && message == tag::ERROR && has_waited()
    }

    /// Whether its statement has taken longer than query_timeout and query_cancel_timeout together, so that its server
    /// was closed. Does not check whether a cancel was sent before.
    fn is_given_up(&self, message: u8, body: &[u8], facts: Circumstances, plan: &Plan) -> bool {
        let settings = &plan.settings;
        let (Some(timeout), Some(grace)) =
            (settings.global.waiting.query_timeout, settings.global.waiting.query_cancel_timeout)
        else {
            return false;
        };
        let waited = facts.now.saturating_sub(self.debt.since.unwrap_or(facts.now));
        let fields = Fields::decode(body);
        // What may be committing is not cancelled: its server is closed without more patience.
        let patience = match fields.code() {
            Some(b"57014") => timeout + grace,
            Some(b"08007") => timeout,
            _ => return false,
        };
        message == tag::ERROR
            && plan.cancels_overdue(self.who.mode)
            && fields.message() == Some(b"query timeout")
            && u128::from(waited) >= patience.as_micros()
    }

    /// Handles messages after a loss until all is answered: errors, or its own answers from another server, but no
    /// answers to other clients.
    fn after_loss(&mut self, message: u8, body: &[u8], census: &mut Census) -> Result<(), Finding> {
        if !self.losses.is_lost {
            census.clients.losses += 1;
            self.losses.is_lost = true;
            self.talk.twin.forget();
        }
        if matches!(message, tag::DATA_ROW | tag::COPY_DATA) && is_of_another_client(body, self.who.number) {
            return Err((2, format!("client {} got a stranger's {}", self.who.number, show(message, body))));
        }
        if self.talk.twin.has_all_ready() && message == tag::READY_FOR_QUERY {
            let ready = ReadyForQuery::decode(body).map_err(|error| (11, error.to_string()))?;
            census.clients.lost_blocks += u64::from(ready.status == Status::Failed);
            self.recover(ready.status)?;
        }
        Ok(())
    }

    /// Checks that nothing was executed in a block whose server was lost, also of requests that were sent before the client could know.
    ///
    /// # Errors
    /// Something was executed (I26).
    fn judge_lost_block(&mut self, message: u8, body: &[u8]) -> Result<(), Finding> {
        match message {
            tag::ERROR if Fields::decode(body).code() == Some(b"40001") => self.losses.is_in_block = true,
            tag::READY_FOR_QUERY => self.losses.is_in_block = body == b"E",
            tag::COMMAND_COMPLETE if body == b"ROLLBACK\0" => self.losses.is_in_block = false,
            tag::COMMAND_COMPLETE | tag::DATA_ROW | tag::COPY_IN | tag::COPY_OUT if self.losses.is_in_block => {
                let (number, shown) = (self.who.number, show(message, body));
                return Err((26, format!("client {number} got {shown} in a block whose server was lost")));
            }
            _ => {}
        }
        Ok(())
    }

    /// All is answered: the twin continues at another server, or in the block that it has not ended yet, without the protocol's prepared statements, if the
    /// settings are known.
    ///
    /// # Errors
    /// It had state that cannot be on another server, and got no error about the loss.
    fn recover(&mut self, status: Status) -> Result<(), Finding> {
        self.losses.count += 1;
        // The settings of a commit under way are unknown.
        let is_unknown = self.work.setting || self.work.has_set_in_block && status == Status::Idle;
        if status == Status::InTransaction || is_unknown || self.losses.count > 20 {
            self.work.units = 0;
            self.losses.gives_up = true;
            return Ok(());
        }
        if std::mem::take(&mut self.losses.is_refusal) && self.talk.twin.has_fixed_state() {
            // The state may be kept, or lost by another cause: the twin cannot know.
            self.work.units = 0;
            self.losses.gives_up = true;
            return Ok(());
        }
        let number = self.who.number;
        let lost =
            |what: String| (9, format!("client {number} goes on, and what it had on its server is gone: {what}"));
        self.talk.twin.move_on(status == Status::Failed).map_err(lost)?;
        self.losses.is_lost = false;
        Ok(())
    }

    /// Checks that a FATAL had a reason.
    fn fatal(&mut self, body: &[u8], facts: Circumstances, plan: &Plan, census: &mut Census) -> Result<(), Finding> {
        let fields = Fields::decode(body);
        let code = String::from_utf8_lossy(fields.code().unwrap_or(b"?????")).into_owned();
        let words = String::from_utf8_lossy(fields.message().unwrap_or(b"")).into_owned();
        let error = format!("{code} {words}");
        if !self.is_due(&code, &words, facts, plan) {
            return Err((
                8,
                format!("client {} was told FATAL {error} without reason: {}", self.who.number, self.describe()),
            ));
        }
        if code == "53300" && words.starts_with("sorry") && self.replica.is_none() {
            return Err((5, "PostgreSQL's own refusal for too many clients reached a client".to_owned()));
        }
        census.clients.refused += 1;
        census.hosts.held += u64::from(fields.message().is_some_and(|words| words.starts_with(NO_HOST)));
        self.fatal_error = Some(error);
        Ok(())
    }

    fn is_due(&self, code: &str, words: &str, facts: Circumstances, plan: &Plan) -> bool {
        let settings = &plan.settings;
        let since = self.debt.since.unwrap_or(self.since);
        let waited = |span: Option<std::time::Duration>| {
            // The moment it was sent is a little before the moment it was received.
            span.is_some_and(|span| facts.now.saturating_sub(since) + 20_000 >= span.as_micros() as u64)
        };
        let trouble_lately = facts.trouble_at.is_some_and(|at| facts.now.saturating_sub(at) <= TROUBLE_US);
        let trouble = trouble_lately && self.debt.engaged_at.is_some();
        // The error of a session that kept its server lists the lost state, whatever the cause.
        let words = words.split_once(" (lost with it: ").map_or(words, |(words, _)| words);
        match words {
            // Nothing limits a stream's time.
            "query timeout"
            | "idle transaction timeout"
            | "transaction timeout"
            | "client_idle_timeout"
            | "client stalled"
                if self.replica.is_some() =>
            {
                false
            }
            _ if words.starts_with("no such database") => {
                self.habits.lost == Some(Nowhere::Database) || plan.is_removed(&self.who.name)
            }
            "database removed" => plan.is_removed(&self.who.name) || plan.promises.orders.kills,
            "suspend_timeout" => plan.promises.orders.suspended_too_long,
            "admin forced disconnect" => plan.promises.orders.client_kills,
            _ if words.starts_with("database \"") && words.ends_with("is disabled") => plan.promises.orders.disables,
            _ if words.starts_with("the connection that listened") && plan.is_removed(&self.who.name) => true,
            _ if words.starts_with("the connection that listened") && plan.promises.orders.pauses => true,
            _ if words.starts_with("role \"") && words.ends_with("does not exist") => {
                self.habits.lost == Some(Nowhere::User)
            }
            // Sent to clients that wait for a server, with the server's text.
            FOR_GOOD => plan.faults.final_refusals > 0 && FINAL.contains(&code) && (self.is_owed() || !self.is_ready()),
            // A user that does not exist is no user of the console either.
            "not allowed" => self.console.is_some() && (self.who.user > 1 || self.habits.lost == Some(Nowhere::User)),
            "query_wait_timeout" => waited(settings.global.waiting.query_wait_timeout),
            // A server that does not stop after a cancel is closed.
            "query_timeout" | "query timeout" => settings.global.waiting.query_timeout.is_some(),
            "idle transaction timeout" => settings.global.waiting.idle_transaction_timeout.is_some(),
            "transaction timeout" => settings.global.waiting.transaction_timeout.is_some(),
            "client_idle_timeout" => settings.global.waiting.client_idle_timeout.is_some(),
            "client_login_timeout" => !matches!(self.phase, ClientPhase::Ready),
            "client stalled" => self.habits.pace > 0,
            "no more connections allowed (max_client_conn)" => {
                settings.global.pools.max_client_conn <= plan.extent.clients
            }
            // The login would be admitted after client_login_timeout. The limit may come from a reload.
            "too many clients of your class log in at this moment" => !matches!(self.phase, ClientPhase::Ready),
            "transaction blocks not allowed in statement pooling mode" => {
                self.who.mode == PoolMode::Statement && self.work.began_block
            }
            "server shutting down" | "pooler is shutting down" => facts.closing_time,
            _ if words.starts_with("password authentication failed for user") => {
                self.habits.wrong_password || self.habits.lost == Some(Nowhere::User)
            }
            "terminating connection because of a fault in the pooler" => code == "57P02" && facts.fault_at.is_some(),
            // A listening client may be idle when the server that listens for it is lost.
            _ if words.starts_with("the connection that listened") => facts.trouble_at.is_some(),
            // A session that replicates does not wait for a host with the role.
            _ if self.replica.is_some() && is_of_role(words) => {
                code == "08006" && plan.wanted(&self.who.name) != TargetSessionAttrs::Any
            }
            // Its server's login is not tried again, and the server's words are its own.
            _ if self.replica.is_some() && !self.is_ready() && is_of_login(code) => {
                trouble_lately || words == "connect timeout" && waited(settings.global.servers.server_connect_timeout)
            }
            _ => is_of_loss(code.as_bytes()) && trouble,
        }
    }

    /// The pooler has closed the connection.
    ///
    /// # Errors
    /// There was no message with the reason.
    pub(super) fn judge_end(&self, facts: Circumstances, plan: &Plan) -> Result<(), Finding> {
        // The pooler closes the connection of a client that has sent Terminate. A slow client reads what came before that until then.
        if self.talk.socket.has_sent_goodbye() {
            return Ok(());
        }
        if self.fatal_error.is_some() || self.cut_off || matches!(self.phase, ClientPhase::Hostile { .. }) {
            return Ok(());
        }
        // SUSPEND closes clients that do not read.
        if plan.promises.orders.suspended_too_long {
            return Ok(());
        }
        // In the middle of a message no error can be sent; a server's end may cut a message.
        let in_message = !self.talk.socket.inbox.is_empty();
        let trouble = facts.trouble_at.is_some()
            || plan.promises.orders.kills
            || plan.promises.orders.client_kills
            || plan.settings.global.waiting.query_timeout.is_some()
            || plan.settings.global.waiting.transaction_timeout.is_some();
        if in_message && (trouble || self.habits.pace > 0) {
            return Ok(());
        }
        if trouble && self.replica.as_ref().is_some_and(|replica| replica.has_heard_goodbye()) {
            return Ok(());
        }
        Err((8, format!("the connection ended without a word: {}", self.describe())))
    }
}

/// Whether these words are of a host without the role that is wanted.
fn is_of_role(words: &str) -> bool {
    let is_of_several = ["another host is the primary now", "two hosts accept writes"].contains(&words);
    is_of_several || words.contains(", and target_session_attrs is ")
}

/// Whether a lost server's error has this code: what may have been committed has another one than what was not.
fn is_of_loss(code: &[u8]) -> bool {
    code == b"08006" || code == b"08007" || code == b"40001" || code.starts_with(b"57P")
}

/// Whether a request was refused as no server could be opened for it, where there was trouble.
fn is_held_too_long(message: u8, body: &[u8], facts: Circumstances) -> bool {
    let fields = Fields::decode(body);
    let is_of_hosts = fields.message().is_some_and(|words| words.starts_with(NO_HOST));
    message == tag::ERROR && is_of_hosts && fields.code() == Some(b"57P03") && facts.trouble_at.is_some()
}

/// Whether a failed login of a server, or one that did not come about, has this code.
fn is_of_login(code: &str) -> bool {
    code == "08006" || code == "53300" || code.starts_with("57P")
}
