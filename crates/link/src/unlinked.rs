//! Reads the first messages of a session without a server. Messages that PostgreSQL would ignore, or that can be
//! answered here, need none.

use machine::action::Actions;
use units::{ConnId, limits};
use wire::backend::{ErrorResponse, Status};
use wire::frontend::{BindNames, Close, Target, tag};
use wire::{HEADER_LEN, Header, backend, sqlstate};

use crate::end_reason::EndReason;
use crate::ending::{Ending, checked_header};
use crate::malformed;
use crate::session::{Rest, Session};

/// Where the messages of a session without a server begin to need one.
pub enum Begun {
    /// From here on they need a server.
    Needs(usize),
    /// From here on there is only part of a message.
    Incomplete(usize),
}

/// A session without a server, while its messages are read.
pub struct Unlinked<'a> {
    pub conn: ConnId,
    pub session: &'a mut Session,
    /// The names of its prepared statements are mapped.
    pub mapped: bool,
    pub actions: &'a mut Actions,
}

impl Unlinked<'_> {
    /// Deals with messages until one needs a server, or is incomplete.
    #[inline]
    pub fn read(&mut self, bytes: &[u8]) -> Result<Begun, Ending> {
        debug_assert!(self.session.server().is_none(), "a linked session's messages may have to go to its server");
        if begins_with_work(bytes) && self.session.incoming.skip == 0 && !self.session.incoming.skipping {
            // The usual case.
            return Ok(Begun::Needs(0));
        }
        self.read_any(bytes)
    }

    #[inline(never)]
    fn read_any(&mut self, bytes: &[u8]) -> Result<Begun, Ending> {
        let mut at = 0;
        loop {
            let rest = &bytes[at..];
            if self.session.incoming.skip > 0 {
                let count = rest.len().min(self.session.incoming.skip as usize);
                self.session.incoming.skip -= count as u32;
                at += count;
                if self.session.incoming.skip > 0 {
                    return Ok(Begun::Incomplete(at));
                }
                continue;
            }
            let Some(header) = checked_header(rest)? else { return Ok(Begun::Incomplete(at)) };
            match header.tag {
                tag::TERMINATE => return Err(Ending::Terminate),
                tag::SYNC => self.session.incoming.skipping = false,
                _ if self.session.incoming.skipping => {
                    (self.session.incoming.skip, self.session.incoming.rest) =
                        (header.body_len() as u32, Rest::Discard);
                    at += HEADER_LEN;
                    continue;
                }
                tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL | tag::FLUSH if !malformed::has_surplus(header) => {
                    // PostgreSQL ignores these outside COPY. They may be left over from a COPY that has failed.
                    (self.session.incoming.skip, self.session.incoming.rest) =
                        (header.body_len() as u32, Rest::Discard);
                    at += HEADER_LEN;
                    continue;
                }
                _ => {}
            }
            if !is_enough(header, rest, self.mapped)? {
                return Ok(Begun::Incomplete(at));
            }
            if rest.len() < header.total_len() || !self.answer(header, &rest[HEADER_LEN..header.total_len()]) {
                return Ok(Begun::Needs(at));
            }
            at += header.total_len();
        }
    }

    /// Skips a message: one after an error, up to the Sync that ends the batch, or one that PostgreSQL ignores.
    pub fn pass_over(&mut self, header: Header) {
        (self.session.incoming.skip, self.session.incoming.rest) = (header.body_len() as u32, Rest::Discard);
        if header.tag == tag::SYNC {
            self.session.incoming.skipping = false;
            self.answer_sync(header);
        }
    }

    /// Like [`Unlinked::read`], for a linked session: skips the rest of a refused batch, and returns where it ends.
    pub fn read_refused(&mut self, bytes: &[u8]) -> Result<Begun, Ending> {
        let mut at = 0;
        while self.session.incoming.skip > 0 || self.session.incoming.skipping {
            let rest = &bytes[at..];
            let count = rest.len().min(self.session.incoming.skip as usize);
            self.session.incoming.skip -= count as u32;
            at += count;
            if self.session.incoming.skip > 0 {
                return Ok(Begun::Incomplete(at));
            }
            if !self.session.incoming.skipping {
                break;
            }
            let Some(header) = checked_header(&bytes[at..])? else { return Ok(Begun::Incomplete(at)) };
            if header.tag == tag::TERMINATE {
                return Err(Ending::Terminate);
            }
            self.pass_over(header);
            at += HEADER_LEN;
        }
        Ok(Begun::Needs(at))
    }

    /// Answers a Sync in the server's place: with PostgreSQL's error first if it has a body.
    fn answer_sync(&mut self, header: Header) {
        let (code, message) = (sqlstate::PROTOCOL_VIOLATION, "invalid message format");
        let error = ErrorResponse { severity: "ERROR", code, message, detail: None, hint: None };
        let status = if self.session.has_begun() { Status::InTransaction } else { Status::Idle };
        self.actions.send_new(self.conn, |out| {
            if malformed::has_surplus(header) {
                error.encode(out);
            }
            backend::encode_ready(out, status);
        });
    }

    /// Answers a message that needs no server. False: it needs one.
    fn answer(&mut self, header: Header, body: &[u8]) -> bool {
        match header.tag {
            // The error would end the transaction block.
            tag::SYNC if self.session.has_begun() && malformed::has_surplus(header) => false,
            tag::SYNC => {
                self.answer_sync(header);
                true
            }
            tag::CLOSE if self.mapped => {
                // A server refuses it.
                let Ok(close) = Close::decode(body) else { return false };
                // If SQL has prepared a statement of that name, a server must close it.
                let of_sql =
                    self.session.facts.tracker.as_ref().is_some_and(|tracker| tracker.statements.has(close.name));
                if close.target != Target::Statement || close.name.is_empty() || of_sql {
                    return false;
                }
                if let Some(names) = &mut self.session.statements.names {
                    // Nothing is under way, so this succeeds.
                    names.remove(close.name);
                    names.answered();
                }
                self.actions.send_new(self.conn, backend::encode_close_complete);
                true
            }
            _ => false,
        }
    }
}

impl Session {
    /// Whether these bytes are all that it has sent and not got an answer for, and begin with a complete message that only a server can
    /// answer. False also where its state is followed.
    #[inline(always)]
    #[must_use]
    pub fn begins_with(&self, bytes: &[u8]) -> bool {
        self.incoming.is_between() && self.facts.tracker.is_none() && begins_with_work(bytes)
    }
}

/// Whether the bytes begin with a complete message that only a server can answer.
#[inline]
pub fn begins_with_work(bytes: &[u8]) -> bool {
    let Some(&(tag::QUERY | tag::PARSE | tag::BIND)) = bytes.first() else { return false };
    matches!(Header::parse(bytes), Ok(Some(header)) if bytes.len() >= header.total_len())
}

/// Whether enough of a message is at hand to link a server for it, or to deal with it here. It must be as much as
/// `client_messages` needs, or the server would be released again at once.
fn is_enough(header: Header, at_hand: &[u8], mapped: bool) -> Result<bool, Ending> {
    let whole = at_hand.len() >= header.total_len();
    let body = &at_hand[HEADER_LEN..at_hand.len().min(header.total_len())];
    let named = body.first().is_some_and(|&first| first != 0);
    match header.tag {
        _ if whole => Ok(true),
        tag::PARSE if mapped && body.is_empty() => Ok(false),
        tag::PARSE if mapped && named && header.body_len() <= limits::STATEMENT_LEN_MAX => Ok(false),
        tag::DESCRIBE | tag::CLOSE if mapped => Ok(false),
        tag::BIND if mapped && BindNames::decode(body).is_none() => {
            if body.len() > 2 * limits::NAME_LEN_MAX {
                return Err(Ending::Refuse(EndReason::BindNamesTooLong));
            }
            Ok(false)
        }
        _ => Ok(at_hand.len() >= limits::CHUNK_LEN_MAX),
    }
}
