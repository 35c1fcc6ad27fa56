//! The most frequent request: one whole Query of a linked session that only has to be sent.
//!
//! It has the same effect as [`Requests`], without building one. All other messages go to [`Requests`], unchanged.

use std::sync::Arc;

use machine::action::{Actions, Source};
use session_state::state::{Defines, Reading};
use units::{ConnId, Time};
use wire::frontend::tag;
use wire::{HEADER_LEN, Header};

use crate::caches::Caches;
use crate::other_workers::OtherWorkers;
use crate::pool::Pool;
use crate::requests::Requests;
use crate::server::{Answerer, Expect, Server};
use crate::session::Session;
use crate::stream::Stream;
use crate::{reserving, slow};

/// A linked session and its `bytes` of `source`, from `at`.
pub struct LoneQuery<'a> {
    pub session: &'a mut Session,
    pub server_id: ConnId,
    pub server: &'a mut Server,
    pub pool: &'a mut Pool,
    pub bytes: &'a [u8],
    pub source: Source,
    pub at: usize,
}

impl<'a> LoneQuery<'a> {
    /// Its text, if the bytes are one Query and nothing else.
    #[inline(always)]
    pub fn text(&self) -> Option<&'a [u8]> {
        text(&self.bytes[self.at..])
    }

    /// Whether its text has no effect except its answer.
    #[inline(always)]
    pub fn is_harmless(&mut self, text: &[u8], caches: &mut Caches) -> bool {
        if self.pool.measured.hears_texts && slow::is_long(text) {
            return false;
        }
        let (rules, server) = (&self.pool.rules, &mut *self.server);
        let (parameters, id) = (&server.kept.parameters, self.pool.id);
        if !rules.follows() {
            // Texts are not read here, except for the pooler's names of prepared statements.
            caches.identify(text, parameters, id);
            server.ledger.speaks_of(caches.said);
            return !reserving::reserves_names(rules) || !reserving::has_server_name(text);
        }
        let reading = caches.read(text, parameters, &mut self.pool.names.known, id);
        server.ledger.speaks_of(caches.said);
        is_harmless(reading)
    }

    /// Continues as a general request.
    #[inline(always)]
    pub fn into_requests(
        self,
        now: Time,
        conn: ConnId,
        caches: &'a mut Caches,
        others: OtherWorkers,
        actions: &'a mut Actions,
    ) -> Requests<'a> {
        let LoneQuery { session, server_id, server, pool, bytes, source, at } = self;
        Requests {
            now,
            conn,
            server_id,
            session,
            server,
            pool,
            caches,
            holds: false,
            sent_some: false,
            attends: false,
            definitions: Vec::new(),
            others,
            written_before: actions.written_len(),
            queries: 0,
            actions,
            stream: Stream::new(bytes, source, at),
        }
    }

    #[inline(always)]
    pub fn send(&mut self, now: Time, text: &[u8], actions: &mut Actions) {
        slow::hear_query(self.pool, self.server, text);
        if let Some(unnamed) = &mut self.session.statements.unnamed {
            unnamed.batch_ended();
        }
        self.server.ledger.sent(Answerer::Client, Expect::Query);
        self.server.transaction.query_at = now;
        self.server.transaction.began_at.get_or_insert(now);
        actions.send(self.server_id, self.source, self.at, self.bytes.len());
    }

    /// Whether a session and a server that are not linked yet may be linked without further work: they have the same
    /// parameters, which no other session has set and no report of the pool's servers changes, and nothing else to replay, reading is paused
    /// on neither, and no earlier state matters.
    #[inline(always)]
    pub fn may_be_linked_as_is(&self) -> bool {
        let LoneQuery { session, server, pool, .. } = self;
        let is_alike = session.confirmed && Arc::ptr_eq(&session.parameters, &server.kept.parameters);
        let is_current = pool.welcome.edition() == session.own.edition;
        let has_others = !server.kept.owners.of_sessions().without(session.own.now).is_empty();
        let flows = session.flow.is_reading() && session.flow.is_clear() && server.flow.is_reading();
        let is_replayed = server.kept.session_state.is_some() || session.claim.permits.is_some();
        is_alike && is_current && !has_others && flows && !is_replayed && self.is_free_of_state()
    }

    /// Whether no earlier state of the session or server matters for sending the query.
    #[inline(always)]
    pub fn is_free_of_state(&self) -> bool {
        let LoneQuery { session, server, pool, .. } = self;
        let is_new = session.incoming.skip == 0
            && session.incoming.inbox.is_empty()
            && !session.incoming.skipping
            && server.ledger.is_clear();
        let is_trying = session.statements.names.as_ref().is_some_and(|names| names.trial.is_some());
        let is_watched =
            server.transaction.local_rights || server.traces.last_text.is_some() || server.end.close_needed.is_some();
        let is_timed = pool.rules.times_links() || pool.measured.takes_the_long_way || !session.flow.is_clear();
        is_new && session.tracker.is_none() && !is_trying && !is_watched && !is_timed
    }
}

/// The text, if the bytes are one Query and nothing else.
#[inline(always)]
fn text(message: &[u8]) -> Option<&[u8]> {
    let header = Header::parse(message).ok()??;
    if header.tag != tag::QUERY || header.total_len() != message.len() {
        return None;
    }
    let (&0, text) = message[HEADER_LEN..].split_last()? else { return None };
    Some(text)
}

/// Whether a text has no effect except its answer.
#[inline(always)]
fn is_harmless(reading: Reading) -> bool {
    let is_noted = reading.is_active() || reading.names_statements() || reading.uses_sequences();
    !is_noted && !reading.may_have_local_rights() && !reading.may_notify() && reading.defines() == Defines::Nothing
}
