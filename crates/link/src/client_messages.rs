//! What a client's bytes mean, and what of them goes to its server.
//!
//! Only headers are read, except where a message names a prepared statement or must be answered here. Whatever passes
//! is sent as it lies; a message whose beginning has been sent keeps its server until it is whole.
//!
//! //= pg18 protocol-flow

use connections::server::Expect;
use units::limits;
use wire::backend::Status;
use wire::frontend::{BindNames, Parse, tag};
use wire::{HEADER_LEN, Header};

use crate::ending::{Ending, checked_header};
use crate::plain_messages;
use crate::requests::{Renamed, Requests};
use crate::session::Rest;

/// How much of a message must be at hand before anything of it is sent.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Extent {
    Header,
    /// As much of a text as is read.
    Text,
    /// A Bind: its two names, and the rest where that names settings.
    Names,
    Whole,
}

impl Requests<'_> {
    /// Deals with what is at hand, as far as it goes.
    pub fn read(&mut self) -> Result<(), Ending> {
        loop {
            if self.session.incoming.skip > 0 {
                let count = self.stream.left().min(self.session.incoming.skip as usize);
                match self.session.incoming.rest {
                    Rest::Forward => {
                        self.add_piece(count, count == self.session.incoming.skip as usize);
                        let piece = &self.stream.rest()[..count];
                        self.keep_for_trial(piece);
                        self.stream.pass(count);
                    }
                    Rest::Discard => self.discard(count),
                }
                self.session.incoming.skip -= count as u32;
                if self.session.incoming.skip > 0 {
                    return Ok(());
                }
            }
            if self.stream.left() == 0 {
                return Ok(());
            }
            let goes_on = if self.session.incoming.inbox.is_empty() { self.next()? } else { self.next_from_inbox()? };
            if !goes_on {
                return Ok(());
            }
        }
    }

    /// The next message lies in the stream. False: not enough of it.
    fn next(&mut self) -> Result<bool, Ending> {
        plain_messages::pass(self);
        let rest = self.stream.rest();
        if rest.is_empty() {
            return Ok(true);
        }
        let goes_on = match checked_header(rest)? {
            Some(header) if self.is_enough(header, rest)? => {
                let dealt_with = self.message(header, rest, true)?;
                self.server.gate.is_shut = !dealt_with || std::mem::take(&mut self.holds);
                !self.server.gate.is_shut
            }
            _ => false,
        };
        if !goes_on {
            self.stash_rest();
        }
        Ok(goes_on)
    }

    /// The next message began in an earlier read. False: still not enough of it.
    fn next_from_inbox(&mut self) -> Result<bool, Ending> {
        loop {
            let header = checked_header(&self.session.incoming.inbox)?;
            let enough = match header {
                Some(header) => self.is_enough(header, &self.session.incoming.inbox)?,
                None => false,
            };
            if let (Some(header), true) = (header, enough) {
                let inbox = std::mem::take(&mut self.session.incoming.inbox);
                if !self.message(header, &inbox, false)? {
                    self.session.incoming.inbox = inbox;
                    self.server.gate.is_shut = true;
                    self.stash_rest();
                    return Ok(false);
                }
                self.caches.buffers.put_back(inbox);
                if std::mem::take(&mut self.holds) {
                    self.server.gate.is_shut = true;
                    self.stash_rest();
                    return Ok(false);
                }
                return Ok(true);
            }
            if self.stream.left() == 0 {
                return Ok(false);
            }
            // As much as is surely of this message: all of it, or its header first.
            let wanted = header.map_or(HEADER_LEN, Header::total_len) - self.session.incoming.inbox.len();
            let count = wanted.min(self.stream.left());
            let more = &self.stream.rest()[..count];
            self.session.incoming.inbox.extend_from_slice(more);
            self.discard(count);
        }
    }

    fn extent(&self, header: Header) -> Extent {
        let follows = self.pool.rules.follows();
        match header.tag {
            tag::QUERY | tag::FUNCTION_CALL if follows => Extent::Text,
            tag::QUERY if self.searches_names() => Extent::Text,
            tag::PARSE if follows && !self.is_mapped() => Extent::Text,
            tag::EXECUTE if self.reads_portals() => Extent::Whole,
            tag::BIND if self.is_mapped() => Extent::Names,
            tag::PARSE | tag::DESCRIBE | tag::CLOSE if self.is_mapped() => Extent::Whole,
            _ => Extent::Header,
        }
    }

    fn is_enough(&self, header: Header, at_hand: &[u8]) -> Result<bool, Ending> {
        let whole = at_hand.len() >= header.total_len();
        if whole && (header.tag != tag::BIND || header.body_len() <= 2 * limits::NAME_LEN_MAX) {
            return Ok(true);
        }
        match self.extent(header) {
            Extent::Header => {
                // Outside of a transaction no server is held by half a message, unless it is a large one.
                let streams = header.tag == tag::COPY_DATA || self.server.transaction.status != Status::Idle;
                Ok(streams || whole || at_hand.len() >= limits::CHUNK_LEN_MAX)
            }
            Extent::Text => Ok(whole || at_hand.len() >= limits::CHUNK_LEN_MAX),
            Extent::Whole if whole => Ok(true),
            Extent::Whole if header.tag == tag::EXECUTE => Ok(false),
            Extent::Whole => {
                // A long unnamed statement passes by length, however long.
                let named = at_hand.get(HEADER_LEN).map(|&first| first != 0);
                if named == Some(true) && header.tag == tag::PARSE && header.body_len() > limits::STATEMENT_LEN_MAX {
                    return Ok(at_hand.len() >= limits::CHUNK_LEN_MAX);
                }
                let long = header.body_len() > limits::UNNAMED_LEN_MAX;
                let passes = !self.pool.rules.follows() && !self.searches_names();
                let read = passes || at_hand.len() >= limits::CHUNK_LEN_MAX;
                Ok(header.tag == tag::PARSE && named == Some(false) && long && read)
            }
            Extent::Names => {
                let body = &at_hand[HEADER_LEN..at_hand.len().min(header.total_len())];
                let names = BindNames::decode(body);
                if names.is_none() && body.len() > 2 * limits::NAME_LEN_MAX {
                    return Err(Ending::violation("names in Bind message are too long"));
                }
                if whole || at_hand.len() >= limits::CHUNK_LEN_MAX {
                    return Ok(whole || names.is_some());
                }
                Ok(names.is_some_and(|names| !self.reads_parameters(names.statement)))
            }
        }
    }

    /// Deals with one message of which enough is at hand. False: not before what is under way has been answered.
    #[inline]
    fn message(&mut self, header: Header, at_hand: &[u8], in_stream: bool) -> Result<bool, Ending> {
        let at_hand = &at_hand[..at_hand.len().min(header.total_len())];
        if self.server.ledger.is_guarded()
            && let Some(dealt_with) = self.guard(header.tag)?
        {
            return Ok(dealt_with);
        }
        if self.waits_for_answers(header.tag, at_hand) {
            self.call_for_answers();
            return Ok(false);
        }
        let dealt_with = self.dispatch(header, at_hand, in_stream)?;
        if dealt_with && self.is_trying() {
            // The rest of a Bind may be at hand and is dealt with as what follows.
            let sent = header.total_len() - self.session.incoming.skip as usize;
            self.keep_for_trial(&at_hand[..sent.min(at_hand.len())]);
            // What comes behind must not be read before it is known whether this comes again.
            self.holds |= matches!(header.tag, tag::SYNC | tag::QUERY | tag::FUNCTION_CALL);
        }
        Ok(dealt_with)
    }

    fn dispatch(&mut self, header: Header, at_hand: &[u8], in_stream: bool) -> Result<bool, Ending> {
        let whole = at_hand.len() >= header.total_len();
        let mapped = self.is_mapped();
        match header.tag {
            tag::TERMINATE => return Err(Ending::Terminate),
            tag::QUERY => match self.query(at_hand, whole, in_stream) {
                Renamed::No => self.queries += 1,
                renamed => return Ok(renamed == Renamed::Yes),
            },
            tag::EXECUTE if !self.execute(at_hand) => return Ok(false),
            tag::EXECUTE => self.queries += 1,
            tag::SYNC => self.ended(Expect::Sync),
            tag::FUNCTION_CALL => self.function_call(at_hand),
            tag::COPY_DONE | tag::COPY_FAIL => self.sent(Expect::CopyEnd),
            tag::PARSE if self.refuses_names(&at_hand[HEADER_LEN..]) => self.sent(Expect::Parse(None)),
            tag::PARSE if whole && self.calls_listener(&at_hand[HEADER_LEN..]) => return Ok(false),
            tag::PARSE => {
                let named = at_hand.get(HEADER_LEN).is_some_and(|&first| first != 0);
                let renamed = match mapped && named {
                    true if whole => self.parse(&at_hand[HEADER_LEN..], in_stream)?,
                    true => self.parse_large(header, at_hand, in_stream)?,
                    false => Renamed::No,
                };
                if renamed == Renamed::Later {
                    return Ok(false);
                }
                let goes_on = renamed == Renamed::Yes
                    || if mapped && !named {
                        self.parse_unnamed(at_hand, whole)?
                    } else {
                        self.parse_unmapped(at_hand, whole, mapped)
                    };
                if !goes_on {
                    return Ok(false);
                }
                self.pool.counts.totals.client_parses += 1;
                if renamed == Renamed::Yes {
                    return Ok(true);
                }
                self.pool.counts.totals.server_parses += 1;
            }
            tag::BIND | tag::DESCRIBE | tag::CLOSE => {
                let renamed = match header.tag {
                    _ if !mapped => Renamed::No,
                    tag::BIND => self.bind(header, at_hand, in_stream)?,
                    tag::DESCRIBE => self.describe(&at_hand[HEADER_LEN..], in_stream)?,
                    _ => self.close(&at_hand[HEADER_LEN..], in_stream)?,
                };
                if renamed == Renamed::Later {
                    return Ok(false);
                }
                self.pool.counts.totals.binds += u64::from(header.tag == tag::BIND);
                if renamed == Renamed::Yes {
                    return Ok(true);
                }
                match header.tag {
                    tag::BIND => self.sent(Expect::Bind),
                    tag::DESCRIBE => self.sent(Expect::Describe),
                    _ if mapped && at_hand[HEADER_LEN..] == *b"S\0" => self.close_unnamed(),
                    _ => {
                        self.lose_track(mapped);
                        self.sent(Expect::Close(None));
                    }
                }
            }
            _ => {} // CopyData and Flush have no answer.
        }
        self.pass(header, at_hand, in_stream);
        Ok(true)
    }

    fn parse_unmapped(&mut self, at_hand: &[u8], whole: bool, mapped: bool) -> bool {
        self.lose_track(mapped);
        let parse = whole.then(|| Parse::decode(&at_hand[HEADER_LEN..]).ok()).flatten();
        let goes_on = self.parse_followed(parse.as_ref(), false);
        if goes_on {
            self.sent(Expect::Parse(None));
        }
        goes_on
    }
}
