//! Reads a client's bytes and decides what goes to its server.
//!
//! Only headers are read, except where a message names a prepared statement or must be answered here. What passes is
//! sent without a copy. A session keeps its server until a message whose beginning was sent is complete.
//!
//! //= pg18 protocol-flow

use units::limits;
use wire::backend::Status;
use wire::frontend::{BindNames, Parse, Query, tag};
use wire::{HEADER_LEN, Header};

use crate::end_reason::EndReason;
use crate::ending::{Ending, checked_header};
use crate::requests::{Renamed, Requests};
use crate::server::Expect;
use crate::session::Rest;
use crate::{
    attribution, copying, following, large_statements, listening, malformed, matching, plain, queries, renaming,
    reserving, slow, untouched,
};

/// How much of a message must be at hand before anything of it is sent.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Extent {
    Header,
    /// As much of a text as the pooler reads.
    Text,
    /// A Bind's two names, and the rest too if it may name settings.
    Names,
    Whole,
}

/// Deals with the messages at hand, as far as possible.
pub fn read(requests: &mut Requests<'_>) -> Result<(), Ending> {
    loop {
        if requests.link.session.incoming.skip > 0 {
            let count = requests.stream.left().min(requests.link.session.incoming.skip as usize);
            match requests.link.session.incoming.rest {
                Rest::Forward => {
                    following::add_piece(requests, count, count == requests.link.session.incoming.skip as usize);
                    let piece = &requests.stream.rest()[..count];
                    matching::keep_for_trial(requests.link.session, piece);
                    requests.stream.pass(count);
                }
                Rest::Discard => requests.discard(count),
            }
            requests.link.session.incoming.skip -= count as u32;
            if requests.link.session.incoming.skip > 0 {
                return Ok(());
            }
        }
        if requests.stream.left() == 0 {
            return Ok(());
        }
        let dealt_with =
            if requests.link.session.incoming.inbox.is_empty() { next(requests) } else { next_from_inbox(requests) };
        let goes_on = match dealt_with {
            Err(Ending::Refuse(..)) if answers_come_first(requests) => {
                requests.stash_rest();
                false
            }
            dealt_with => dealt_with?,
        };
        if !goes_on {
            return Ok(());
        }
    }
}

/// Deals with the next message, which lies in the stream. False: not enough of it is there, or it has to wait.
fn next(requests: &mut Requests<'_>) -> Result<bool, Ending> {
    plain::pass(requests);
    let rest = requests.stream.rest();
    if rest.is_empty() {
        return Ok(true);
    }
    let goes_on = match checked_header(rest)? {
        Some(header) if is_enough(requests, header, rest)? => {
            let dealt_with = message(requests, header, rest, true)?;
            let waits = !dealt_with || std::mem::take(&mut requests.holds);
            if waits != requests.link.server.facts.hold.is_on() {
                requests.link.server.facts.hold.set(waits);
            }
            !waits
        }
        _ => false,
    };
    if !goes_on {
        requests.stash_rest();
    }
    Ok(goes_on)
}

/// Deals with the next message, which began in an earlier read. False: not enough of it is there, or it has to wait.
fn next_from_inbox(requests: &mut Requests<'_>) -> Result<bool, Ending> {
    loop {
        let header = checked_header(&requests.link.session.incoming.inbox)?;
        let enough = match header {
            Some(header) => is_enough(requests, header, &requests.link.session.incoming.inbox)?,
            None => false,
        };
        if let (Some(header), true) = (header, enough) {
            let inbox = std::mem::take(&mut requests.link.session.incoming.inbox);
            let dealt_with = message(requests, header, &inbox, false);
            if !matches!(dealt_with, Ok(true)) {
                requests.link.session.incoming.inbox = inbox;
                dealt_with?;
                requests.link.server.facts.hold.begin();
                requests.stash_rest();
                return Ok(false);
            }
            requests.caches.buffers.put_back(inbox);
            if std::mem::take(&mut requests.holds) {
                requests.link.server.facts.hold.begin();
                requests.stash_rest();
                return Ok(false);
            }
            return Ok(true);
        }
        if requests.stream.left() == 0 {
            return Ok(false);
        }
        // Only bytes that belong to this message: all of it, or its header first.
        let wanted = header.map_or(HEADER_LEN, Header::total_len) - requests.link.session.incoming.inbox.len();
        let count = wanted.min(requests.stream.left());
        let more = &requests.stream.rest()[..count];
        requests.link.session.incoming.inbox.extend_from_slice(more);
        requests.discard(count);
    }
}

/// The message at hand ends its session. The messages before it may have been committed, so they are answered first, and
/// this one waits. Inside COPY IN the server answers nothing before the COPY ends, so the COPY is stopped.
#[cold]
fn answers_come_first(requests: &mut Requests<'_>) -> bool {
    let ledger = &requests.link.server.ledger;
    let (copying, depth) = (ledger.copying(), ledger.depth());
    let in_doubt = copying.is_guarded() && !ledger.is_skipping();
    if copying.is_open() {
        copying::stop(requests);
    } else if depth > 0 || in_doubt {
        requests.call_for_answers();
        requests.link.server.facts.hold.begin();
    } else {
        return false;
    }
    true
}

fn extent(requests: &Requests<'_>, header: Header) -> Extent {
    if malformed::has_surplus(header) {
        return Extent::Whole;
    }
    if requests.is_passed_over() {
        return Extent::Header;
    }
    let follows = requests.link.pool.rules.follows();
    match header.tag {
        tag::QUERY | tag::FUNCTION_CALL if follows => Extent::Text,
        tag::QUERY if reserving::searches_names(requests) => Extent::Text,
        tag::PARSE if follows && !requests.is_mapped() => Extent::Text,
        tag::EXECUTE if following::reads_portals(requests.link.session) => Extent::Whole,
        tag::BIND if requests.is_mapped() => Extent::Names,
        tag::PARSE | tag::DESCRIBE | tag::CLOSE if requests.is_mapped() => Extent::Whole,
        _ => Extent::Header,
    }
}

fn is_enough(requests: &Requests<'_>, header: Header, at_hand: &[u8]) -> Result<bool, Ending> {
    let whole = at_hand.len() >= header.total_len();
    if whole && (header.tag != tag::BIND || header.body_len() <= 2 * limits::NAME_LEN_MAX) {
        return Ok(true);
    }
    match extent(requests, header) {
        Extent::Header => {
            // Outside a transaction half a message does not occupy a server, unless it is a large one.
            let streams = header.tag == tag::COPY_DATA || requests.link.server.transaction.status != Status::Idle;
            Ok(streams || whole || at_hand.len() >= limits::CHUNK_LEN_MAX)
        }
        Extent::Text => Ok(whole || at_hand.len() >= limits::CHUNK_LEN_MAX),
        Extent::Whole if whole => Ok(true),
        Extent::Whole if matches!(header.tag, tag::EXECUTE | tag::SYNC | tag::FLUSH) => Ok(false),
        Extent::Whole => {
            // A long unnamed statement passes by length, whatever its size.
            let named = at_hand.get(HEADER_LEN).map(|&first| first != 0);
            if named == Some(true) && header.tag == tag::PARSE && header.body_len() > limits::STATEMENT_LEN_MAX {
                return Ok(at_hand.len() >= limits::CHUNK_LEN_MAX);
            }
            let long = header.body_len() > limits::UNNAMED_LEN_MAX;
            let passes = !requests.link.pool.rules.follows() && !reserving::searches_names(requests);
            let read = passes || at_hand.len() >= limits::CHUNK_LEN_MAX;
            Ok(header.tag == tag::PARSE && named == Some(false) && long && read)
        }
        Extent::Names => {
            let body = &at_hand[HEADER_LEN..at_hand.len().min(header.total_len())];
            let names = BindNames::decode(body);
            if names.is_none() && body.len() > 2 * limits::NAME_LEN_MAX {
                return Err(Ending::Refuse(EndReason::BindNamesTooLong));
            }
            if whole || at_hand.len() >= limits::CHUNK_LEN_MAX {
                return Ok(whole || names.is_some());
            }
            Ok(names.is_some_and(|names| !following::reads_parameters(requests, names.statement)))
        }
    }
}

/// Deals with one message of which enough is at hand. False: it waits for answers under way.
#[inline]
fn message(requests: &mut Requests<'_>, header: Header, at_hand: &[u8], in_stream: bool) -> Result<bool, Ending> {
    let at_hand = &at_hand[..at_hand.len().min(header.total_len())];
    if requests.link.server.ledger.copying().is_guarded()
        && let Some(dealt_with) = copying::guard(requests, header)?
    {
        return Ok(dealt_with);
    }
    if copying::waits(requests, header) {
        return Ok(false);
    }
    if malformed::has_surplus(header) && malformed::waits(requests) {
        return Ok(false);
    }
    if following::waits_for_answers(requests, header.tag, at_hand) {
        requests.call_for_answers();
        return Ok(false);
    }
    let hears = requests.link.pool.measured.hears_texts;
    if hears {
        slow::hear(requests, header.tag, at_hand);
    }
    attribution::note(requests, header.tag, at_hand);
    let may_begin = matches!(header.tag, tag::PARSE | tag::BIND) && in_stream && requests.is_between_batches();
    let dealt_with = dispatch(requests, header, at_hand, in_stream)?;
    if may_begin && dealt_with && untouched::may_be_begin(requests.caches.said.access) {
        untouched::note_batch(requests, header.tag, &at_hand[HEADER_LEN..]);
    }
    if hears && dealt_with {
        slow::dealt_with(requests, header.tag);
    }
    if dealt_with && matching::is_trying(requests.link.session) {
        // If the rest of a Bind is at hand, it is dealt with separately.
        let sent = header.total_len() - requests.link.session.incoming.skip as usize;
        matching::keep_for_trial(requests.link.session, &at_hand[..sent.min(at_hand.len())]);
        // The next message must not be read before it is known whether this one is sent again.
        requests.holds |= matches!(header.tag, tag::SYNC | tag::QUERY | tag::FUNCTION_CALL);
    }
    Ok(dealt_with)
}

fn dispatch(requests: &mut Requests<'_>, header: Header, at_hand: &[u8], in_stream: bool) -> Result<bool, Ending> {
    let whole = at_hand.len() >= header.total_len();
    let mapped = requests.is_mapped();
    match header.tag {
        tag::TERMINATE => return Err(Ending::Terminate),
        tag::QUERY => {
            let is_first = whole && requests.is_between_batches();
            match queries::query(requests, at_hand, whole, in_stream) {
                Renamed::No => requests.queries += 1,
                renamed => return Ok(renamed == Renamed::Yes),
            }
            if is_first
                && untouched::may_be_begin(requests.caches.said.access)
                && let Some(query) = Query::unchecked(&at_hand[HEADER_LEN..])
            {
                untouched::note(requests.link.server, query.text);
            }
        }
        tag::EXECUTE if !following::execute(requests, at_hand) => return Ok(false),
        tag::EXECUTE => requests.queries += 1,
        tag::SYNC => requests.ended(Expect::Sync),
        tag::FLUSH if malformed::has_surplus(header) => requests.sent(Expect::Malformed),
        tag::FUNCTION_CALL => queries::function_call(requests, at_hand),
        tag::COPY_DONE | tag::COPY_FAIL => {
            requests.sent(Expect::CopyEnd);
            // It may end a Query. A batch ends with its Sync.
            requests.holds |=
                requests.link.server.ledger.owed().awaits_own_ready() && requests.waits_for_notification();
        }
        tag::PARSE if requests.is_passed_over() => {
            requests.link.pool.counts.totals.client_parses += u64::from(mapped);
            requests.sent(Expect::Parse(None));
        }
        tag::PARSE if reserving::refuses_names(requests, &at_hand[HEADER_LEN..]) => requests.sent(Expect::Parse(None)),
        tag::PARSE if whole && listening::calls_listener(requests, &at_hand[HEADER_LEN..]) => return Ok(false),
        tag::PARSE => {
            let named = at_hand.get(HEADER_LEN).is_some_and(|&first| first != 0);
            let renamed = match mapped && named {
                true if whole => renaming::parse(requests, &at_hand[HEADER_LEN..], in_stream)?,
                true => large_statements::parse_large(requests, header, at_hand, in_stream)?,
                false => Renamed::No,
            };
            if renamed == Renamed::Later {
                return Ok(false);
            }
            let goes_on = renamed == Renamed::Yes
                || if mapped && !named {
                    renaming::parse_unnamed(requests, at_hand, whole)
                } else {
                    parse_unmapped(requests, at_hand, whole, mapped)
                };
            if !goes_on {
                return Ok(false);
            }
            // Statements are counted where their names are mapped, as in PgBouncer.
            requests.link.pool.counts.totals.client_parses += u64::from(mapped);
            if renamed == Renamed::Yes {
                return Ok(true);
            }
            requests.link.pool.counts.totals.server_parses += u64::from(mapped);
        }
        tag::BIND | tag::DESCRIBE | tag::CLOSE => {
            if let Some(dealt_with) = of_a_name(requests, header, at_hand, in_stream)? {
                return Ok(dealt_with);
            }
        }
        _ => {} // CopyData and Flush have no answer.
    }
    requests.pass(header, at_hand, in_stream);
    Ok(true)
}

/// A message that names a statement or a portal. `None`: it is to be sent as it is.
fn of_a_name(
    requests: &mut Requests<'_>,
    header: Header,
    at_hand: &[u8],
    in_stream: bool,
) -> Result<Option<bool>, Ending> {
    let mapped = requests.is_mapped();
    if header.tag == tag::BIND
        && !mapped
        && let Some(names) = BindNames::decode(&at_hand[HEADER_LEN..])
    {
        attribution::bound_by_name(requests, &names);
    }
    let renamed = match header.tag {
        _ if !mapped => Renamed::No,
        tag::BIND => renaming::bind(requests, header, at_hand, in_stream)?,
        tag::DESCRIBE => renaming::describe(requests, &at_hand[HEADER_LEN..], in_stream)?,
        _ => renaming::close(requests, &at_hand[HEADER_LEN..], in_stream)?,
    };
    if renamed == Renamed::Later {
        return Ok(Some(false));
    }
    requests.link.pool.counts.totals.binds += u64::from(mapped && header.tag == tag::BIND);
    if renamed == Renamed::Yes {
        return Ok(Some(true));
    }
    match header.tag {
        tag::BIND => requests.sent(Expect::Bind),
        tag::DESCRIBE => requests.sent(Expect::Describe),
        _ if mapped && at_hand[HEADER_LEN..] == *b"S\0" => renaming::close_unnamed(requests),
        _ => {
            requests.lose_track(mapped);
            requests.sent(Expect::Close(None));
        }
    }
    Ok(None)
}

fn parse_unmapped(requests: &mut Requests<'_>, at_hand: &[u8], whole: bool, mapped: bool) -> bool {
    requests.lose_track(mapped);
    let parse = whole.then(|| Parse::decode(&at_hand[HEADER_LEN..]).ok()).flatten();
    let goes_on = following::parse_followed(requests, parse.as_ref(), false);
    if goes_on {
        requests.sent(Expect::Parse(None));
    }
    goes_on
}
