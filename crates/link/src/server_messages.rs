//! What a server's bytes mean, and what of them goes to its client.
//!
//! Rows pass by length, however large. What must be read whole is small: ReadyForQuery, ParameterStatus, command tags,
//! and errors that answer the pooler's own questions.
//!
//! //= pg18 protocol-flow

use connections::server::{Answerer, Chore, Entry, Expect, State, Unexpected};
use session_state::unnamed;
use settings::PoolMode;
use units::limits;
use wire::backend::{Fields, ParameterStatus, ReadyForQuery, Status, tag};
use wire::{HEADER_LEN, Header, sqlstate};

use crate::answers::Answers;
use crate::findings::{Astray, Broken};
use crate::lone_answer::{can_pass, passed};
use crate::naming;

impl Answers<'_> {
    pub fn read(&mut self) -> Result<(), Broken> {
        loop {
            if self.server.incoming.skip > 0 {
                let count = self.stream.left().min(self.server.incoming.skip as usize);
                self.consume(count, self.server.incoming.skip_forward);
                self.server.incoming.skip -= count as u32;
                if self.server.incoming.skip > 0 {
                    return Ok(());
                }
                self.message_ended(self.server.incoming.skip_tag)?;
            }
            if self.stream.left() == 0 {
                return Ok(());
            }
            if self.findings.transaction_block || self.findings.is_lost() {
                // This server is given up: what else it says is nobody's.
                self.consume(self.stream.left(), false);
                return Ok(());
            }
            let goes_on = if self.server.incoming.inbox.is_empty() { self.next()? } else { self.next_from_inbox()? };
            if !goes_on {
                return Ok(());
            }
        }
    }

    /// Whether a message must be read whole before anything is done about it.
    fn is_whole(&self, header: Header) -> bool {
        match header.tag {
            tag::READY_FOR_QUERY | tag::PARAMETER_STATUS => true,
            // Tags of commands are short; a longer one is none we know.
            tag::COMMAND_COMPLETE => header.body_len() <= 64,
            // A longer one passes by length if it is a client's answer.
            tag::ERROR => header.body_len() <= limits::SERVER_MESSAGE_LEN_MAX || !self.is_error_answer(),
            tag::DATA_ROW => self.server.ledger.owner().is_some_and(|owner| self.reads_rows(owner)),
            tag::PARAMETER_DESCRIPTION | tag::ROW_DESCRIPTION => {
                header.body_len() <= limits::SERVER_MESSAGE_LEN_MAX && self.reads_description(header.tag)
            }
            tag::NOTIFICATION => self.pool.rules.follows() || matches!(self.server.state, State::Listening),
            _ => false,
        }
    }

    /// Whether the rows of its answer are for the pooler itself.
    fn reads_rows(&self, owner: Answerer) -> bool {
        owner == Answerer::Check || owner == Answerer::Chore && self.asks_for_rows()
    }

    fn asks_for_rows(&self) -> bool {
        matches!(self.server.state, State::Busy(chore) if chore.asks_for_rows())
    }

    fn whole_len_max(&self, header: Header) -> usize {
        let of_catalogue = header.tag == tag::DATA_ROW && self.asks_for_rows();
        if of_catalogue { limits::CATALOGUE_ROW_LEN_MAX } else { limits::SERVER_MESSAGE_LEN_MAX }
    }

    /// The next message lies in the stream. False: not enough of it.
    fn next(&mut self) -> Result<bool, Broken> {
        if self.pass_on() && self.stream.left() == 0 {
            return Ok(true);
        }
        let rest = self.stream.rest();
        let Some(header) = Header::parse(rest)? else { return Ok(self.keep(rest)) };
        if !self.is_whole(header) {
            self.begin(header)?;
            let at_hand = rest.len().min(header.total_len());
            self.consume(at_hand, self.server.incoming.skip_forward);
            self.rest_follows(header, at_hand)?;
            return Ok(true);
        }
        if header.body_len() > self.whole_len_max(header) {
            return Err(Broken("message from server is too long".to_owned()));
        }
        if rest.len() < header.total_len() {
            return Ok(self.keep(rest));
        }
        let forward = self.whole(header, &rest[HEADER_LEN..header.total_len()])?;
        self.consume(header.total_len(), forward);
        self.message_ended(header.tag)?;
        Ok(true)
    }

    /// Passes messages that concern nobody but the client, as many of them as are there whole: most of what is said. Whether
    /// there were any.
    fn pass_on(&mut self) -> bool {
        let rest = self.stream.rest();
        let mut len = 0;
        if can_pass(self.server) && matches!(&self.session, Some((_, session)) if session.tracker.is_none()) {
            len = passed(self.server, rest);
            self.stream.pass(len);
        } else if let Some((owner, described)) = self.server.ledger.rows().filter(|(owner, _)| !self.reads_rows(*owner))
        {
            let passes =
                |tag| matches!(tag, tag::DATA_ROW | tag::COPY_DATA) || described && tag == tag::ROW_DESCRIPTION;
            while let Ok(Some(header)) = Header::parse(&rest[len..])
                && passes(header.tag)
                && rest.len() - len >= header.total_len()
            {
                len += header.total_len();
            }
            if len > 0 {
                self.consume(len, owner == Answerer::Client);
            }
        }
        len > 0
    }

    /// The next message began in an earlier read. False: still not enough of it.
    fn next_from_inbox(&mut self) -> Result<bool, Broken> {
        loop {
            let header = Header::parse(&self.server.incoming.inbox)?;
            let wanted = match header {
                None => HEADER_LEN,
                Some(header) if !self.is_whole(header) => HEADER_LEN,
                Some(header) if header.body_len() > self.whole_len_max(header) => {
                    return Err(Broken("message from server is too long".to_owned()));
                }
                Some(header) => header.total_len(),
            };
            if let Some(header) = header.filter(|_| self.server.incoming.inbox.len() >= wanted) {
                self.take_inbox(header)?;
                return Ok(true);
            }
            if self.stream.left() == 0 {
                return Ok(false);
            }
            let count = (wanted - self.server.incoming.inbox.len()).min(self.stream.left());
            let more = &self.stream.rest()[..count];
            self.server.incoming.inbox.extend_from_slice(more);
            self.consume(count, false);
        }
    }

    /// Deals with what the inbox holds: a whole message, or the header of one that passes by length.
    fn take_inbox(&mut self, header: Header) -> Result<(), Broken> {
        let inbox = std::mem::take(&mut self.server.incoming.inbox);
        if self.is_whole(header) {
            let forward = self.whole(header, &inbox[HEADER_LEN..])?;
            self.send_apart(&inbox, forward);
            return self.message_ended(header.tag);
        }
        self.begin(header)?;
        self.send_apart(&inbox, self.server.incoming.skip_forward);
        self.rest_follows(header, inbox.len())
    }

    /// A message begins that passes by length.
    fn begin(&mut self, header: Header) -> Result<(), Broken> {
        let forward = match header.tag {
            tag::AUTHENTICATION | tag::BACKEND_KEY_DATA | tag::NEGOTIATE_VERSION | tag::COPY_BOTH => {
                return Err(Unexpected(header.tag).into());
            }
            // These come at any time and belong to whoever is linked.
            tag::NOTICE | tag::NOTIFICATION => self.is_clients(),
            tag::ERROR => self.is_error_answer(),
            _ if !self.server.ledger.accepts(header.tag) => return Err(Unexpected(header.tag).into()),
            tag::ROW_DESCRIPTION if self.server.ledger.is_shape() => {
                self.server.statements.described.long_columns(header.body_len());
                false
            }
            _ => {
                self.tell_held(header.tag);
                self.is_clients()
            }
        };
        self.server.incoming.skip_tag = header.tag;
        self.server.incoming.skip_forward = forward;
        Ok(())
    }

    fn rest_follows(&mut self, header: Header, at_hand: usize) -> Result<(), Broken> {
        self.server.incoming.skip = (header.total_len() - at_hand) as u32;
        if self.server.incoming.skip == 0 {
            self.message_ended(header.tag)?;
        }
        Ok(())
    }

    /// Reads a whole message. Returns whether it is the client's.
    fn whole(&mut self, header: Header, body: &[u8]) -> Result<bool, Broken> {
        if header.tag == tag::READY_FOR_QUERY {
            self.server.ledger.ready_comes();
        }
        let clients = self.is_clients();
        let ends = matches!(header.tag, tag::READY_FOR_QUERY | tag::COMMAND_COMPLETE | tag::DATA_ROW);
        if ends && !self.server.ledger.accepts(header.tag) {
            return Err(Unexpected(header.tag).into());
        }
        match header.tag {
            tag::READY_FOR_QUERY => {
                let ready = ReadyForQuery::decode(body)?;
                self.ready(ready.status)?;
                // A client in statement mode must not take its BEGIN as done.
                let told = clients && !self.findings.transaction_block && !self.is_of_first_part();
                Ok(told && (ready.status != Status::Idle || self.may_be_ready()))
            }
            tag::PARAMETER_STATUS => {
                let status = ParameterStatus::decode(body)?;
                Ok(self.parameter(&status, clients))
            }
            tag::COMMAND_COMPLETE => {
                self.command(body);
                Ok(clients)
            }
            tag::PARAMETER_DESCRIPTION | tag::ROW_DESCRIPTION => {
                self.describes(header.tag, body)?;
                Ok(false)
            }
            tag::DATA_ROW if self.asks_for_rows() => {
                self.pool.told(self.server_id, body);
                Ok(false)
            }
            tag::NOTIFICATION => Ok(self.notification(body)),
            tag::DATA_ROW => {
                match self.tracker() {
                    Some(tracker) => tracker.told(body),
                    None => self.findings.words().rows.push(body.to_vec()),
                }
                Ok(false)
            }
            _ => Ok(self.error(body)),
        }
    }

    /// An error, whole. Returns whether it is the client's.
    fn error(&mut self, body: &[u8]) -> bool {
        let fields = Fields::decode(body);
        let words = || String::from_utf8_lossy(fields.message().unwrap_or(b"no message")).into_owned();
        if let Some(is_passed_on) = self.leads_astray(&fields) {
            return is_passed_on;
        }
        let engaged = self.server.transaction.status != Status::Idle || self.server.ledger.owner().is_some();
        if fields.is_fatal() && self.session.is_some() && self.pool.rules.mode != PoolMode::Session && engaged {
            // The server ends, the session does not: it is told as an error of its request.
            self.findings.words().lost = Some((fields.sqlstate().unwrap_or(sqlstate::CONNECTION_FAILURE), words()));
            return false;
        }
        let misnames = |code| matches!(code, sqlstate::UNDEFINED_PSTATEMENT | sqlstate::DUPLICATE_PSTATEMENT);
        if self.server.ledger.owner() == Some(Answerer::Aside) && fields.sqlstate().is_some_and(misnames) {
            // It has other statements than it is believed to have.
            self.server.kept.on_server.clear();
        }
        if fields.sqlstate() == Some(sqlstate::FEATURE_NOT_SUPPORTED)
            && fields.message().is_some_and(|message| message.starts_with(b"cached plan"))
        {
            // Changed by somebody whom we did not hear: who prepares it again gets it made anew.
            self.pool.names.generation += 1;
        }
        let clients = match self.server.ledger.owner() {
            None => {
                self.findings.words().dying = Some(words());
                // Between transactions it is not the client's business: its next statement goes elsewhere.
                let stays = self.pool.rules.mode == PoolMode::Session || self.is_for_life();
                self.session.is_some() && (self.server.transaction.status != Status::Idle || stays)
            }
            Some(Answerer::Replay | Answerer::Mend) => {
                self.findings.words().replay_error = Some(body.to_vec());
                false
            }
            Some(Answerer::Chore) => {
                self.findings.words().chore_error = Some(words());
                false
            }
            // What is left on the server stays unknown.
            Some(Answerer::Check) => {
                if matches!(self.server.state, State::Busy(Chore::Compare)) {
                    self.findings.words().chore_error = Some(words());
                }
                false
            }
            Some(Answerer::Client) if self.server.ledger.front().is_some_and(Expect::is_refusal) => {
                self.refused();
                false
            }
            Some(Answerer::Client) if self.is_of_trial(&fields) => {
                self.findings.tries_again = true;
                false
            }
            Some(Answerer::Prepare | Answerer::Aside | Answerer::Nobody | Answerer::Client) => self.is_error_answer(),
        };
        self.server.end.last_words_told |= clients && fields.is_fatal();
        clients && !self.says_it_was_late(&fields, body) && !naming::says_it_by_name(self, body)
    }

    fn ready(&mut self, status: Status) -> Result<(), Broken> {
        let owner = self.server.ledger.owner();
        self.server.transaction.status = status;
        self.server.transaction.answer_failed = false;
        self.settle_definitions(status);
        #[cfg(feature = "sabotage")]
        {
            self.server.transaction.status_seen = true;
        }
        if owner == Some(Answerer::Client) {
            self.restart();
            if let Some((_, session)) = &mut self.session
                && let Some(tracker) = &mut session.tracker
            {
                tracker.ready(status == Status::Idle);
                if status == Status::Idle && tracker.pinning.is_pinned() {
                    self.pool.counts.fidelity.count_transaction(tracker.pins());
                }
            }
            self.server.cancel.is_wanted = false;
            if status == Status::Idle {
                self.renew_statements();
            }
            self.count_query(status);
        }
        Ok(())
    }

    /// A message has been read to its end: what did it complete?
    fn message_ended(&mut self, message: u8) -> Result<(), Broken> {
        match message {
            tag::NOTICE | tag::NOTIFICATION | tag::PARAMETER_STATUS => return Ok(()),
            tag::ERROR => return self.failed(),
            _ => {}
        }
        if message == tag::PORTAL_SUSPENDED {
            self.suspended();
        }
        if let Some(entry) = self.server.ledger.answered(message)? {
            self.completed(entry);
            // Only now can one have come to the front.
            self.answer_fakes();
        }
        Ok(())
    }

    fn completed(&mut self, entry: Entry) {
        if entry.noted && entry.expect == Expect::Close(None) {
            self.closed_prepared();
        }
        if entry.noted
            && let Some(tracker) = self.tracker()
        {
            tracker.finished();
        }
        match (entry.owner, entry.expect) {
            // At once: what comes behind it is newer.
            (Answerer::Check, Expect::Query) => self.check_answered(),
            // What it did to the unnamed statement was noted when it was sent: the client's may have been told behind it.
            (Answerer::Replay, Expect::Query) => {
                self.findings.replayed = true;
                // At once: what fails behind it may soil the server again.
                let refused = self.findings.words.as_ref().is_some_and(|words| words.replay_error.is_some());
                self.server.traces.soiled &= self.session.is_none() || refused;
            }
            // Whatever else soils it does so still.
            (Answerer::Mend, Expect::Query) => {
                self.server.traces.soiled |=
                    self.findings.words.as_ref().is_some_and(|words| words.replay_error.is_some());
            }
            (owner, Expect::Query) => {
                self.server.statements.unnamed = unnamed::NONE;
                if let Some(unnamed) = self.unnamed().filter(|_| owner == Answerer::Client) {
                    unnamed.forget();
                }
            }
            (Answerer::Client, Expect::Unnamed) => {
                let doubtful = self.server.ledger.is_doubtful();
                self.server.statements.unnamed =
                    self.unnamed().map_or(unnamed::UNKNOWN, |unnamed| unnamed.answered(doubtful));
            }
            (_, Expect::Unnamed) => self.server.statements.unnamed = unnamed::UNKNOWN,
            (Answerer::Client, Expect::TrialBind | Expect::TrialDescribe) => self.tried(),
            (_, expect @ (Expect::Shape(id) | Expect::Verdict(id))) => self.described(id, expect),
            (Answerer::Client, Expect::Parse(Some(_))) => {
                if let Some(names) = self.session.as_mut().and_then(|(_, session)| session.statements.names.as_mut()) {
                    names.answered();
                }
            }
            _ => {}
        }
    }

    fn failed(&mut self) -> Result<(), Broken> {
        if self.findings.is_lost() {
            return Ok(());
        }
        if self.server.ledger.owner().is_none() {
            // Told to nobody: whoever is linked has all its answers.
            self.findings.words().dying.get_or_insert_with(|| "server sent an error while idle".to_owned());
            return Ok(());
        }
        let tries_again = std::mem::take(&mut self.findings.tries_again);
        self.first_part_failed();
        self.server.transaction.answer_failed |= self.is_error_answer() && !tries_again;
        if self.server.overdue_since().is_some() && self.server.ledger.is_extended() && self.is_error_answer() {
            // What follows up to the Sync is skipped, and has its own time.
            self.server.query_answered();
            self.server.transaction.query_at = self.now;
        }
        self.failed_followed(tries_again);
        let mut skipped = Vec::new();
        self.server.ledger.failed(|entry| skipped.push(entry))?;
        if skipped.first().is_some_and(|entry| (entry.owner, entry.expect) == (Answerer::Client, Expect::Unnamed)) {
            // PostgreSQL lets go of the unnamed statement before it looks at the new one.
            self.server.statements.unnamed = unnamed::NONE;
            if let Some(unnamed) = self.unnamed() {
                unnamed.forget();
            }
        }
        if self.server.ledger.is_doubtful() {
            self.findings.words().astray = Some(Astray::Told);
        }
        self.undo(&skipped);
        self.end_trial(tries_again);
        self.server.traces.aside_failed |= skipped.iter().any(|entry| entry.owner == Answerer::Aside);
        let aside = skipped.first().is_some_and(|entry| entry.owner == Answerer::Aside);
        if aside {
            self.server.traces.soiled = true;
            self.findings.skipped_aside = skipped.iter().any(|entry| entry.expect == Expect::Query);
        }
        Ok(())
    }
}
