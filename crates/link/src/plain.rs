//! The fast case: a link of which nothing is special, and the messages that are most frequent.
//!
//! A [`Plain`] is made by [`Link::plain`] only, if none of the facts of its session, its server and its pool makes it
//! [special](crate::special). Its functions deal with messages that are whole and of the most frequent kinds, and refuse all others: then
//! [`Requests`](crate::requests::Requests) or [`Answers`](crate::answers::Answers) read the same messages, with the same effect.
//!
//! | | messages |
//! |---|---|
//! | [`Plain::send`] | one Query, alone, or one batch that runs a prepared statement, if it has no effect but its answer |
//! | [`pass`] | Describe of a portal, Execute, Sync behind a Bind |
//! | [`Plain::answered`] | messages that concern the client alone, up to the ReadyForQuery after which it is owed nothing |
//! | [`Plain::end`] | the end of the link |
//!
//! [`pass`] and [`passed`] serve special links as well: the general walkers call them before each message that they read themselves.
//!
//! //= pg18 protocol-flow#PROTOCOL-FLOW-SIMPLE-QUERY
//! //= pg18 protocol-flow#PROTOCOL-FLOW-EXT-QUERY

use std::sync::Arc;

use machine::action::{Actions, Source};
use machine::histogram::Bucket;
use session_state::prepared::StatementNames;
use session_state::state::{Defines, Reading};
use session_state::{shape, unnamed};
use units::{PoolId, Time};
use wire::backend::{self, Status};
use wire::frontend::{BindNames, Describe, Target, encode_bind_prefix, tag};
use wire::{HEADER_LEN, Header};

use crate::caches::Caches;
use crate::first_reading::FirstReading;
use crate::link::Link;
use crate::pool::LocalBuffers;
use crate::requests::Requests;
use crate::server::{Expect, Server};
use crate::server_names::ServerNames;
use crate::special::Special;
use crate::statistics::Statistics;
use crate::{attribution, counting, kept_texts, malformed, matching, reserving, server_statements, untouched};

/// A longer message of a batch is rare.
const BATCHED_LEN_MAX: usize = 256;

/// Whether the fast case has sent a request.
#[derive(Copy, Clone, Debug)]
pub enum Sent {
    Yes,
    /// The message is left to the general walker. If it is a Query whose text was read, its reading goes with it.
    No(Option<FirstReading>),
}

/// A link of which nothing is special.
#[derive(Debug)]
pub struct Plain<'l, 'a>(&'l mut Link<'a>);

impl<'a> Link<'a> {
    /// The fast case, unless a fact of the session, the server or the pool makes the link special.
    #[inline(always)]
    pub fn plain(&mut self) -> Option<Plain<'_, 'a>> {
        let noted = self.session.facts.noted() | self.server.facts.noted() | self.pool.rules.special;
        debug_assert!(self.session.facts.is_in_step() && self.server.facts.is_in_step(), "a fact has changed unseen");
        (noted.is_none() || self.special().is_none()).then_some(Plain(self))
    }

    /// The bits of all three, read again where a fact may have changed.
    #[inline(never)]
    fn special(&mut self) -> Special {
        self.pool.rules.special | self.session.facts.special() | self.server.facts.special()
    }
}

/// The text, if the bytes are one Query and nothing else.
#[inline(always)]
pub fn lone_text(message: &[u8]) -> Option<&[u8]> {
    let header = Header::parse(message).ok()??;
    if header.tag != tag::QUERY || header.total_len() != message.len() {
        return None;
    }
    let (&0, text) = message[HEADER_LEN..].split_last()? else { return None };
    Some(text)
}

/// A batch that runs a prepared statement, and nothing else: what libpq and most drivers send for it.
///
/// ```text
/// Bind of a named statement │ Describe of the portal, or not │ Execute │ Sync        the portal has no name
/// ```
struct Batch<'a> {
    statement: &'a [u8],
    /// Bytes of the Bind behind its names, and of the batch.
    bind_len: usize,
    behind_names_len: usize,
    is_described: bool,
}

/// The batch, if the bytes are one and nothing else.
#[inline(always)]
fn lone_batch(messages: &[u8]) -> Option<Batch<'_>> {
    let header = Header::parse(messages).ok()??;
    let (bind, behind) = messages.split_at_checked(header.total_len())?;
    let is_described = untouched::runs_portal(behind)?;
    let names = BindNames::decode(&bind[HEADER_LEN..])?;
    if header.tag != tag::BIND || !names.portal.is_empty() || names.statement.is_empty() {
        return None;
    }
    let bind_len = header.body_len() - names.len;
    let behind_names_len = bind_len + behind.len();
    Some(Batch { statement: names.statement, bind_len, behind_names_len, is_described })
}

impl<'a> Plain<'_, 'a> {
    #[inline]
    #[must_use]
    pub fn link(&self) -> &Link<'a> {
        self.0
    }

    /// Whether a session and an idle server may be linked for these messages without further work: the server has the session's
    /// parameters, which no other session has set and no report of the pool's servers changes, and nothing else of another session.
    #[inline(always)]
    #[must_use]
    pub fn fits(&self, messages: &[u8], names: &mut ServerNames) -> bool {
        let Plain(Link { conn, session, server, pool, .. }) = self;
        let is_alike = session.confirmed && Arc::ptr_eq(&session.parameters, &server.kept.parameters);
        let is_current = pool.welcome.edition() == session.own.edition;
        let has_others = !server.kept.owners.of_sessions().without(session.own.now).is_empty();
        let is_as_it_is = is_alike && is_current && !has_others && server.kept.session_state.is_none();
        is_as_it_is && names.keeps(*conn, session, &server.kept, messages) && self.may_begin()
    }

    /// Whether neither the client's last message nor an answer is under way.
    #[inline(always)]
    fn may_begin(&self) -> bool {
        let Plain(Link { session, server, .. }) = self;
        session.incoming.is_between() && server.ledger.is_clear()
    }

    /// Sends a request, `bytes` of `source` from `at` on, if it is a Query or a batch that runs a prepared statement, and has no effect
    /// but its answer.
    #[inline(always)]
    pub fn send(
        &mut self,
        now: Time,
        (bytes, source, at): (&[u8], Source, usize),
        caches: &mut Caches,
        actions: &mut Actions,
    ) -> Sent {
        match self.send_query(now, (bytes, source, at), caches, actions) {
            Sent::No(None) if self.send_batch(now, (bytes, source, at), caches, actions) => Sent::Yes,
            sent => sent,
        }
    }

    #[inline(always)]
    fn send_query(
        &mut self,
        now: Time,
        (bytes, source, at): (&[u8], Source, usize),
        caches: &mut Caches,
        actions: &mut Actions,
    ) -> Sent {
        let Some(text) = lone_text(&bytes[at..]) else { return Sent::No(None) };
        if !self.may_begin() {
            return Sent::No(None);
        }
        if let Err(read) = self.is_harmless(text, caches) {
            return Sent::No(read);
        }
        debug_assert!(!matching::is_trying(self.0.session), "a trial has an answer under way");
        let Link { session, server_id, server, pool, .. } = &mut *self.0;
        kept_texts::hear_query(pool, server, text, now);
        if let Some(unnamed) = &mut session.statements.unnamed {
            unnamed.batch_ended();
        }
        server.ledger.sent_query();
        if untouched::may_be_begin(caches.said.access) {
            untouched::note(server, text);
        }
        counting::sent(server, now, true, true);
        actions.send(*server_id, source, at, bytes.len());
        Sent::Yes
    }

    /// Sends a batch that runs a statement which the server has as the client knows it.
    #[inline(never)]
    fn send_batch(
        &mut self,
        now: Time,
        (bytes, source, at): (&[u8], Source, usize),
        caches: &mut Caches,
        actions: &mut Actions,
    ) -> bool {
        let Some(batch) = lone_batch(&bytes[at..]) else { return false };
        if !self.may_begin() || self.0.pool.rules.max_prepared_statements == 0 {
            return false;
        }
        let Link { session, server_id, server, pool, .. } = &mut *self.0;
        let Some((named, reading)) = server_statements::named(session, pool, caches, batch.statement) else {
            return false;
        };
        let statement = &*named.statement;
        let follows = pool.rules.follows();
        let is_the_same = match server.statements.prepared.touch(statement.id) {
            Some(found) if follows => found == named.fingerprint() && found != shape::UNKNOWN,
            found => found.is_some(),
        };
        let is_heard = pool.measured.hears_texts && kept_texts::is_long(statement.query());
        if !is_the_same || is_heard || caches.said.copies || follows && !is_harmless(reading) {
            return false;
        }
        if session.statements.names().is_none_or(StatementNames::has_synonyms) {
            return false;
        }
        debug_assert!(!matching::is_trying(session), "a trial has an answer under way");
        let mut prefix = Ok(());
        actions.send_new(*server_id, |out| {
            prefix = encode_bind_prefix(out, b"", &statement.name, batch.bind_len);
        });
        if prefix.is_err() {
            return false;
        }
        actions.send_or_copy(*server_id, source, bytes, bytes.len() - batch.behind_names_len, bytes.len());
        kept_texts::hear_query(pool, server, statement.query(), now);
        let begin = untouched::may_be_begin(caches.said.access).then(|| Arc::clone(&named.statement));
        pool.counts.totals.binds += 1;
        if let Some(unnamed) = &mut session.statements.unnamed {
            unnamed.batch_ended();
        }
        server.lease.spoken.bind(b"", caches.said);
        server.ledger.speaks_of(caches.said);
        server.ledger.sent_batch(batch.is_described);
        if let Some(begin) = begin {
            untouched::note(server, begin.query());
        }
        counting::sent(server, now, true, true);
        true
    }

    /// Whether a text has no effect but its answer; if it has, its reading, as far as it was read.
    #[inline(always)]
    fn is_harmless(&mut self, text: &[u8], caches: &mut Caches) -> Result<(), Option<FirstReading>> {
        let Link { server, pool, .. } = &mut *self.0;
        if pool.measured.hears_texts && kept_texts::is_long(text) {
            return Err(None);
        }
        let (parameters, id) = (&server.kept.parameters, pool.id);
        if !pool.rules.follows() {
            // Texts are not read here, except for the pooler's names of prepared statements.
            caches.identify(text, parameters, id);
            server.ledger.speaks_of(caches.said);
            let is_harmless = !reserving::reserves_names(&pool.rules) || !reserving::has_server_name(text);
            return if is_harmless { Ok(()) } else { Err(None) };
        }
        let reading = caches.read(text, parameters, &mut pool.names.known, id);
        server.ledger.speaks_of(caches.said);
        if is_harmless(reading) { Ok(()) } else { Err(Some(FirstReading { reading, said: caches.said })) }
    }

    /// Whether the link ends now, and nothing follows from that but that both are free.
    #[inline(always)]
    #[must_use]
    pub fn may_end(&self, now: Time) -> bool {
        let Plain(Link { session, server, pool, .. }) = self;
        server.is_clean()
            && !server.ledger.is_doubtful()
            && !session.is_torn()
            && pool.rules.ends_links_plainly
            && !pool.is_removed()
            && pool.servers.local_buffers() != LocalBuffers::SetNow
            && pool.rules.is_armed_idle(session, now)
    }

    /// The transaction is over: the session and the server are free.
    #[inline(always)]
    pub fn end(self, now: Time, unpublished: &mut Vec<PoolId>) {
        let Plain(Link { session, server_id, server, pool, .. }) = self;
        debug_assert!(session.server() == Some(*server_id), "I1: they are linked");
        debug_assert!(server.is_clean() && server.is_free_at_once(), "I3: nothing has to be done before the next link");
        pool.servers.observe_service(now.micros_since(server.work.since));
        session.unlink(now);
        server.released();
        if let Some(why) = pool.servers.takes_back() {
            server.facts.end.close_when_released(why);
        }
        pool.take_back(now, *server_id, server, unpublished);
    }

    /// Whether the server is between two messages.
    #[inline(always)]
    #[must_use]
    pub fn is_between_messages(&self) -> bool {
        self.0.server.is_between_messages() && can_pass(self.0.server)
    }

    /// Reads whole messages that concern only the client. Returns the length of these, and the status of the ReadyForQuery after them, if
    /// the client is owed nothing more after it and it is the last message.
    #[inline(always)]
    pub fn answered(&mut self, now: Time, bytes: &[u8], statistics: &mut Statistics) -> (usize, Option<Status>) {
        let len = passed(self.0.server, bytes, now, statistics, self.0.pool.id);
        (len, self.ready(now, &bytes[len..], statistics))
    }

    /// Counts bytes that are passed on to the client.
    #[inline(always)]
    pub fn pass_on(&mut self, len: usize) {
        self.0.pool.counts.count_sent(len);
    }

    /// Reads a ReadyForQuery after which the client is owed nothing. `None`: it is another message, and stays unread.
    #[inline(always)]
    fn ready(&mut self, now: Time, message: &[u8], statistics: &mut Statistics) -> Option<Status> {
        let [backend::tag::READY_FOR_QUERY, 0, 0, 0, 5, status] = *message else { return None };
        let status = match status {
            b'I' => Status::Idle,
            b'T' => Status::InTransaction,
            _ => return None,
        };
        let Link { session, server, pool, .. } = &mut *self.0;
        let (is_query, statement) = server.ledger.last_ready()?;
        if let Some(asked) = &mut server.asked
            && !kept_texts::goes_unseen(pool, asked, now.micros_since(server.transaction.query_at))
        {
            return None;
        }
        server.ledger.take_last_ready();
        server.transaction.status = status;
        (server.transaction.answer_failed, server.transaction.answer_tagged) = (false, false);
        #[cfg(debug_assertions)]
        {
            server.transaction.status_seen = true;
        }
        if is_query {
            // PostgreSQL drops the unnamed statement at a simple query. //= pg18 protocol-flow#PROTOCOL-FLOW-EXT-QUERY
            server.statements.unnamed = unnamed::NONE;
            if let Some(unnamed) = &mut session.statements.unnamed {
                unnamed.forget();
            }
        }
        server.lease.tally.sent(message.len());
        let query = is_query.then_some(statement);
        counting::ready((server, pool, Some(session)), statistics, now, status, (query, true));
        Some(status)
    }
}

/// Whether [`passed`] may be called.
#[inline]
pub(crate) fn can_pass(server: &Server) -> bool {
    server.ledger.is_plain() && server.facts.effects.emptying.is_none()
}

/// The length of the whole messages at the beginning that concern only the client; the ledger takes them as answered.
/// The session has no tracked state.
#[inline(always)]
pub(crate) fn passed(server: &mut Server, bytes: &[u8], now: Time, statistics: &mut Statistics, pool: PoolId) -> usize {
    debug_assert!(can_pass(server), "its messages may have to be read one by one");
    let mut len = 0;
    while let Ok(Some(header)) = Header::parse(&bytes[len..])
        && let Some(message) = bytes[len..].get(..header.total_len())
    {
        if header.tag != backend::tag::COMMAND_COMPLETE {
            if !server.ledger.passes(header.tag) {
                break;
            }
            len += message.len();
            continue;
        }
        if !says_little(message) {
            break;
        }
        let Some(statement) = server.ledger.passes_tag() else { break };
        len += message.len();
        if let Some(call) = counting::completed(server, now, statement, &message[HEADER_LEN..], len) {
            statistics.count(pool, &call, Bucket::of(call.run_us));
        }
    }
    server.lease.tally.sent(len);
    len
}

/// Sends messages from the front of the stream that only have to be sent, as most of those that follow a Bind.
pub(crate) fn pass(requests: &mut Requests<'_>) {
    // A reload may have turned lines on since the link.
    let begins_to_hear = requests.link.pool.measured.hears_texts && requests.link.server.asked.is_none();
    let is_tracked = requests.link.session.facts.tracker.is_some();
    let is_trying = matching::is_trying(requests.link.session);
    if is_tracked || is_trying || begins_to_hear || !requests.link.server.ledger.is_plain() {
        return;
    }
    while let Ok(Some(header)) = Header::parse(requests.stream.rest())
        && header.total_len() <= BATCHED_LEN_MAX
        && let Some(message) = requests.stream.rest().get(..header.total_len())
    {
        match header.tag {
            tag::EXECUTE => {
                attribution::note(requests, tag::EXECUTE, message);
                requests.queries += 1;
                requests.sent(Expect::Execute);
            }
            tag::SYNC if !malformed::has_surplus(header) => {
                requests.ended(Expect::Sync);
                if let Some(asked) = &mut requests.link.server.asked {
                    asked.ended();
                }
            }
            tag::DESCRIBE if is_of_portal(&message[HEADER_LEN..]) => requests.sent(Expect::Describe),
            _ => return,
        }
        requests.stream.pass(message.len());
    }
}

fn is_of_portal(body: &[u8]) -> bool {
    Describe::decode(body).is_ok_and(|describe| describe.target == Target::Portal)
}

/// Whether a text has no effect except its answer.
#[inline(always)]
fn is_harmless(reading: Reading) -> bool {
    let is_noted = reading.is_active() || reading.names_statements() || reading.uses_sequences();
    !is_noted && !reading.may_have_local_rights() && !reading.may_notify() && reading.defines() == Defines::Nothing
}

/// Whether a command tag does not change the state of sessions. //= pg18 protocol-message-formats
fn says_little(message: &[u8]) -> bool {
    let tag = &message[HEADER_LEN..];
    matches!(
        tag,
        [b'S' | b'I' | b'U' | b'B' | b'M' | b'F', ..] | [b'D', b'E', b'L', ..] | [b'C', b'O', b'M' | b'P', ..]
    )
}

#[cfg(test)]
mod tests {
    use wire::frontend::{Bind, Execute, encode_sync};

    use super::*;

    /// Bind of this statement and portal, the other messages of these tags, and what they are taken for.
    fn batch(statement: &[u8], portal: &[u8], tags: &[u8]) -> Option<(usize, bool)> {
        let mut messages = Vec::new();
        Bind::encode(&mut messages, portal, statement, [Some(&b"5"[..])]);
        let bind_len = messages.len();
        for tag in tags {
            match tag {
                b'D' => Describe { target: Target::Portal, name: portal }.encode(&mut messages),
                b'd' => Describe { target: Target::Statement, name: portal }.encode(&mut messages),
                b'E' => Execute { portal, rows_max: 7 }.encode(&mut messages),
                _ => encode_sync(&mut messages),
            }
        }
        let batch = lone_batch(&messages)?;
        assert_eq!(batch.statement, statement);
        assert_eq!(batch.bind_len, bind_len - HEADER_LEN - statement.len() - 2);
        assert_eq!(messages.len() - batch.behind_names_len, HEADER_LEN + statement.len() + 2);
        assert!((0..messages.len()).all(|len| lone_batch(&messages[..len]).is_none()), "not all of it is there");
        Some((bind_len, batch.is_described))
    }

    #[test]
    fn a_batch_binds_a_named_statement_to_the_unnamed_portal_and_runs_it() {
        assert_eq!(batch(b"s", b"", b"DES").map(|(_, is_described)| is_described), Some(true));
        assert_eq!(batch(b"s", b"", b"ES").map(|(_, is_described)| is_described), Some(false));
        assert_eq!(batch(b"", b"", b"DES"), None, "its statement may be on another server");
        assert_eq!(batch(b"s", b"p", b"DES"), None, "its portal has a name");
        assert_eq!(batch(b"s", b"", b"dES"), None);
        for tags in [&b"E"[..], b"DE", b"S", b"DS", b"EES", b"DDES", b"EDS", b"DESS", b"DESES", b""] {
            assert_eq!(batch(b"s", b"", tags), None, "{}", tags.escape_ascii());
        }
    }
}
