//! A client's Query and FunctionCall.

use session_state::state::{Effects, Pins, Reading, Remedy, TEMP_BUFFERS};
use session_state::tracker::Split;
use wire::HEADER_LEN;
use wire::frontend::Query;

use crate::requests::{DISCARD_SEQUENCES, Renamed, Requests};
use crate::server::Expect;
use crate::{announcing, attribution, following, listening, remedies, reserving, splitting, texts, vacating};

/// A Query is sent. `Yes`: it was sent in another form, or dealt with.
pub(crate) fn query(requests: &mut Requests<'_>, at_hand: &[u8], whole: bool, in_stream: bool) -> Renamed {
    if splitting::is_rest_of_failed(requests, at_hand.len(), in_stream) {
        return Renamed::Yes;
    }
    if !requests.follows() {
        let text = whole.then(|| Query::unchecked(&at_hand[HEADER_LEN..])).flatten().map(|query| query.text);
        attribution::unfollowed(requests, text);
        requests.holds |= reserving::refuses_names(requests, &at_hand[HEADER_LEN..]);
        requests.ended(Expect::Query);
        return Renamed::No;
    }
    if !whole {
        attribution::unfollowed(requests, None);
        following::begin_pieces(requests, &at_hand[HEADER_LEN..]);
        requests.ended(Expect::Query);
        return Renamed::No;
    }
    let text = Query::unchecked(&at_hand[HEADER_LEN..]).map(|query| query.text);
    if text.is_none() {
        // The server refuses it, since it has no end.
        attribution::unfollowed(requests, None);
        requests.ended(Expect::Query);
        return Renamed::No;
    }
    let reading = texts::read_text(requests, text);
    requests.link.server.ledger.speaks_of(requests.caches.said);
    if requests.link.session.facts.tracker.is_some() || reading.is_active() || reading.names_statements() {
        let split = split(requests, text.unwrap_or_default(), reading, in_stream);
        if split != Renamed::No {
            return split;
        }
        return if query_followed(requests, text, reading, false) { Renamed::No } else { Renamed::Later };
    }
    if texts::sequences(requests, reading, text.unwrap_or_default()) {
        return if query_followed(requests, text, reading, true) { Renamed::No } else { Renamed::Later };
    }
    listening::note_notify(requests, reading, text);
    requests.ended(Expect::Query);
    Renamed::No
}

#[cold]
pub(crate) fn query_followed(
    requests: &mut Requests<'_>,
    text: Option<&[u8]>,
    reading: Reading,
    discards: bool,
) -> bool {
    let bytes = text.unwrap_or_default();
    let is_open = requests.link.session.facts.tracker.get_or_insert_default().is_open();
    let is_noted = reading.is_noted(is_open) || reading.names_statements();
    let mut effects = if is_noted {
        texts::effects(requests.link.server, requests.link.session, requests.caches, bytes)
    } else {
        Effects::default()
    };
    if effects.set(TEMP_BUFFERS) {
        requests.link.pool.servers.local_buffers_set();
    }
    // Only these two may note something of a text that is not sent yet.
    if !announcing::may_define(requests, text, reading) || !listening::may_listen(requests, &mut effects) {
        return false;
    }
    listening::bring_channels(requests, reading);
    remedies::end_strangers(requests, reading, bytes);
    let mut remedy = Remedy::new();
    if reading.names_statements() {
        let Some(brought) = remedies::remedy(requests, reading, &effects, bytes) else {
            splitting::is_prepared_for(requests);
            return false;
        };
        remedy = brought;
    }
    listening::note_notify(requests, reading, text);
    if (discards || texts::sequences(requests, reading, bytes)) && !requests.run_apart(DISCARD_SEQUENCES) {
        remedy.push(DISCARD_SEQUENCES.to_vec());
    }
    announcing::defined(requests.link.session);
    // The text may call what it has just defined.
    let calls_too = reading.redefines()
        && texts::effects(requests.link.server, requests.link.session, requests.caches, bytes).statements() > 1;
    let reading = if calls_too { texts::read_text(requests, text) } else { reading };
    vacating::vacate(requests, bytes, reading);
    texts::suspect(requests.link.session, requests.link.pool, reading, bytes);
    remedy.extend(texts::raised(requests.link.server, requests.link.session, requests.caches, reading, bytes));
    if !remedy.is_empty() {
        requests.run_prelude(&remedy);
        requests.holds = true;
    }
    if is_noted || reading.is_noted(is_open) {
        if !is_noted {
            effects = texts::effects(requests.link.server, requests.link.session, requests.caches, bytes);
        }
        requests.batch_ended();
        remedies::note(requests.link.server, requests.link.session, requests.caches, Expect::Query, effects, bytes);
    } else {
        requests.ended(Expect::Query);
    }
    true
}

/// A FunctionCall is sent, which names a function by its oid.
pub(crate) fn function_call(requests: &mut Requests<'_>, at_hand: &[u8]) {
    if requests.follows() {
        let oid = at_hand.get(HEADER_LEN..HEADER_LEN + 4).and_then(|oid| oid.try_into().ok());
        let reading = Reading::of_function(oid.map_or(u32::MAX, u32::from_be_bytes));
        if texts::sequences(requests, reading, b"function call") {
            requests.run_prelude(&vec![DISCARD_SEQUENCES.to_vec()]);
        }
        if requests.link.session.facts.tracker.is_some() || reading.is_active() {
            texts::suspect(requests.link.session, requests.link.pool, reading, b"function call");
        }
        if reading.is_unknown() {
            // It is treated like a text that cannot be read.
            requests.link.session.facts.tracker.get_or_insert_default().pinning.pin(Pins::DYNAMIC, b"function call");
        }
    }
    requests.sent(Expect::Function);
}

/// Sends the first part of a Query that has to be sent in two. `No`: it need not be split.
#[cold]
pub(crate) fn split(requests: &mut Requests<'_>, text: &[u8], reading: Reading, in_stream: bool) -> Renamed {
    let Some(at) = splitting::first_part(requests.link.server, requests.link.session, requests.caches, text, reading)
    else {
        return Renamed::No;
    };
    if requests.link.server.ledger.depth() > 0 {
        requests.call_for_answers();
        return Renamed::Later;
    }
    let (first, rest) = text.split_at(at);
    let reading = texts::read_text(requests, Some(first));
    requests.link.server.ledger.speaks_of(requests.caches.said);
    if !query_followed(requests, Some(first), reading, false) {
        return Renamed::Later;
    }
    // A text ends with a zero byte.
    let total = HEADER_LEN + text.len() + 1;
    requests.replace(total, in_stream, |out| Query { text: first }.encode(out));
    requests.link.session.facts.tracker.get_or_insert_default().split = Some(Split::UnderWay);
    let blanks = first.iter().filter(|&&byte| byte & 0xc0 != 0x80).map(|_| b' ');
    let rest: Vec<u8> = blanks.chain(rest.iter().copied()).collect();
    Query { text: &rest }.encode(&mut requests.link.session.incoming.inbox);
    requests.holds = true;
    Renamed::Yes
}
