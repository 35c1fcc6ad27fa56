//! A transaction block of which the server has got only BEGIN, and nothing else: nothing was read or written in it, so that it can begin again at
//! another server, and its client notices nothing when the server is lost.
//!
//! ```text
//!   the server is lost                             the client
//!     before it has answered BEGIN                 waits: its BEGIN is sent to the next server, as if it had been sent to none
//!     after that, and before anything else was     is in a block that no server has begun ([`BegunBlock`]): its next statement goes to another server,
//!     sent                                         behind the same BEGIN, whose answer it does not get
//! ```
//!
//! A server that is lost at its first BEGIN may be the end of each one that logs in, as with a pooler behind this one whose PostgreSQL is down. So of
//! such servers BEGIN is sent to a few only ([`limits::BEGIN_RETRIES`]).
//!
//! The text of BEGIN is noted at its server, in a buffer that each of its links uses again. Whether anything was sent since follows from the number of
//! answers that the server has ever owed, so statements that are no BEGIN cost nothing here.

use machine::action::Actions;
use session_state::access::Access;
use sql::{Kind, Rules, Text};
use units::{ConnId, limits};
use wire::backend::Status;
use wire::frontend::{BindNames, Parse, Query, Target, tag};
use wire::{HEADER_LEN, Header};

use crate::requests::Requests;
use crate::resendable::BegunBlock;
use crate::server::{Answerer, Expect, Server};
use crate::session::Session;

/// The length of what PostgreSQL answers to BEGIN. No message that it sends unasked is as short. START TRANSACTION is answered with 23 bytes, as
/// many as a notification may have: there nothing follows from the length.
const TAGGED_LEN: u64 = HEADER_LEN as u64 + b"BEGIN\0".len() as u64;

/// How far such a block had come when its server was lost.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Untouched {
    /// The client waits for the answer to its BEGIN.
    Unanswered,
    /// It is in the block. `is_ready`: it has got ReadyForQuery.
    Begun { is_ready: bool },
}

/// Whether a text with this access may be a BEGIN, and nothing else. Nothing is known of texts that are not read.
#[inline(always)]
pub(crate) fn may_be_begin(access: Access) -> bool {
    matches!(access, Access::Begin | Access::Commit)
}

/// A text was sent outside of a transaction, which may be a BEGIN. The message is the last of its request.
#[inline(never)]
pub(crate) fn note(server: &mut Server, text: &[u8]) {
    note_before(server, text, 0);
}

/// As [`note`], before so many answers more are owed for the request.
fn note_before(server: &mut Server, text: &[u8], more: u64) {
    let is_outside = server.transaction.status == Status::Idle;
    if !is_outside || text.len() > limits::BEGIN_LEN_MAX || !sql::may_begin_transaction(text) {
        return;
    }
    server.begin.text.clear();
    server.begin.text.extend_from_slice(text);
    server.begin.owed_ever = server.ledger.owed_ever() + more;
    server.begin.sent_before = server.lease.tally.bytes();
}

/// A Parse or a Bind was sent outside of a transaction, which may be of a BEGIN. That is noted if the rest of its batch is at hand, and nothing else.
#[cold]
pub(crate) fn note_batch(requests: &mut Requests<'_>, message: u8, body: &[u8]) {
    let session = &*requests.link.session;
    // A part of the message may still have to be passed on.
    let Some(rest) = requests.stream.rest().get(session.incoming.skip as usize..) else { return };
    let (text, rest) = if message == tag::PARSE {
        let Ok(parse) = Parse::decode(body) else { return };
        let Some(rest) = behind_bind(rest, parse.name) else { return };
        (parse.query.to_vec(), rest)
    } else {
        let Some(names) = BindNames::decode(body).filter(|names| names.portal.is_empty()) else { return };
        let named = session.statements.names().and_then(|known| known.get(names.statement));
        let unnamed = session.statements.unnamed().and_then(|unnamed| unnamed.parse());
        let text = match named {
            Some(statement) => Some(statement.query()),
            None => unnamed.filter(|_| names.statement.is_empty()).map(|parse| parse.query),
        };
        let Some(text) = text else { return };
        (text.to_vec(), rest)
    };
    let Some(is_described) = runs_portal(rest) else { return };
    // To Execute and Sync, and to Bind and Describe before them.
    let more = 2 + u64::from(is_described) + u64::from(message == tag::PARSE);
    note_before(requests.link.server, &text, more);
}

/// Whether messages describe the portal without a name before they run it and end the batch; `None`: they do anything else.
#[inline(always)]
pub(crate) fn runs_portal(messages: &[u8]) -> Option<bool> {
    const DESCRIBE: [u8; 7] = [tag::DESCRIBE, 0, 0, 0, 6, Target::Portal.byte(), 0];
    let execution = messages.strip_prefix(&DESCRIBE);
    // The four bytes are the most rows that are asked for.
    let [tag::EXECUTE, 0, 0, 0, 9, 0, _, _, _, _, tag::SYNC, 0, 0, 0, 4] = *execution.unwrap_or(messages) else {
        return None;
    };
    Some(execution.is_some())
}

/// The messages behind a Bind of this statement to the portal without a name.
fn behind_bind<'a>(messages: &'a [u8], statement: &[u8]) -> Option<&'a [u8]> {
    let header = Header::parse(messages).ok()??;
    let (bind, rest) = messages.split_at_checked(header.total_len())?;
    let names = BindNames::decode(&bind[HEADER_LEN..])?;
    (header.tag == tag::BIND && names.portal.is_empty() && names.statement == statement).then_some(rest)
}

/// How far the client's transaction block had come, if nothing but its BEGIN was sent. The server is lost.
#[must_use]
pub fn untouched(server: &Server, session: &Session) -> Option<Untouched> {
    // A cancel request is lost with the server, and its client wants no more of the block.
    if session.is_torn()
        || server.ledger.is_doubtful()
        || server.facts.cancel.is_any()
        || has_retried_enough(server, session)
    {
        return None;
    }
    if session.has_begun() {
        // Its messages have waited for the answer.
        return Some(Untouched::Begun { is_ready: true });
    }
    let is_last = server.ledger.owed_ever() == server.begin.owed_ever;
    if !is_last || !sql::begins_transaction(&server.begin.text) {
        return None;
    }
    match (&server.ledger.requests()[..], server.transaction.status) {
        ([], Status::InTransaction) => Some(Untouched::Begun { is_ready: true }),
        ([begin], Status::Idle) if begin.is_query && !server.transaction.answer_failed => {
            // The fast case passes the tag on without a look.
            match server.lease.tally.bytes().checked_sub(server.begin.sent_before)? {
                0 => Some(Untouched::Unanswered),
                TAGGED_LEN => Some(Untouched::Begun { is_ready: false }),
                _ => None,
            }
        }
        _ => None,
    }
}

/// Whether nobody but this session has used the server.
fn is_new(server: &Server) -> bool {
    server.work.uses <= 1
}

fn has_retried_enough(server: &Server, session: &Session) -> bool {
    is_new(server) && session.facts.retries() >= limits::BEGIN_RETRIES
}

/// Keeps the messages that begin the block again. `error`: an ErrorResponse, for the client if the block cannot begin anywhere.
pub fn keep(server: &Server, session: &mut Session, untouched: Untouched, error: Vec<u8>) {
    if is_new(server) && (untouched == Untouched::Unanswered || session.has_begun()) {
        let retries = session.facts.retries() + 1;
        session.facts.set_retries(retries);
    }
    match untouched {
        Untouched::Unanswered => {
            let mut begin = Vec::new();
            Query { text: &server.begin.text }.encode(&mut begin);
            session.incoming.put_first(&begin);
        }
        Untouched::Begun { .. } => {
            let retried = session.facts.retried.get_or_insert_default();
            retried.begun.get_or_insert_with(|| BegunBlock::new(&server.begin.text, error));
        }
    }
}

/// The session has got a server: sends it the BEGIN of the block that no server has begun. The client's messages wait for the answer.
pub fn begin_again(session: &Session, server_id: ConnId, server: &mut Server, actions: &mut Actions) {
    let Some(begun) = session.facts.begun() else { return };
    server.ledger.sent(Answerer::Begin, Expect::Query);
    server.statements.unnamed = session_state::unnamed::NONE;
    server.facts.hold.begin();
    actions.send_new(server_id, |out| Query { text: &begun.text }.encode(out));
    note(server, &begun.text);
}

/// If a message is a Query that only ends the block: the tag of its answer, and its length. Nothing is committed or rolled back.
#[must_use]
pub fn end_of_block(messages: &[u8]) -> Option<(&'static str, usize)> {
    let header = Header::parse(messages).ok()??;
    let message = messages.get(..header.total_len()).filter(|_| header.tag == tag::QUERY)?;
    let text = Text::new(Query::unchecked(&message[HEADER_LEN..])?.text, Rules::default());
    let mut statements = text.statements();
    let tag = match statements.next()?.kind {
        Kind::Commit { chain: false } => "COMMIT",
        Kind::Rollback { chain: false } => "ROLLBACK",
        _ => return None,
    };
    statements.next().is_none().then_some((tag, message.len()))
}

impl Session {
    /// The session is in a transaction block that no server has begun, since the one that had is lost.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.facts.begun().is_some()
    }

    /// The block does not begin anywhere.
    pub fn take_begun(&mut self) -> Option<BegunBlock> {
        // To take it marks the facts as changed.
        self.facts.begun()?;
        self.facts.retried.take()?.begun
    }

    /// The transaction status for its client, if a request fails that no server has seen.
    #[must_use]
    pub fn status_after_refusal(&self) -> Status {
        if self.has_begun() { Status::Failed } else { Status::Idle }
    }
}
