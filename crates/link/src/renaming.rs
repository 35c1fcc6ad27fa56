//! Maps the names of prepared statements: the client's name is replaced by the name that the text has on every server,
//! and a server that lacks the statement gets it first.
//!
//! //= pgbouncer config.md#max_prepared_statements

use std::sync::Arc;

use session_state::parameters::Parameters;
use session_state::prepared::{Statement, StatementId};
use session_state::state::State;
use session_state::unnamed::Unnamed;
use session_state::{prepared, unnamed};
use units::limits;
use wire::frontend::{BindNames, Close, Describe, Parse, Target, tag};
use wire::{HEADER_LEN, Header, backend, frontend};

use crate::end_reason::EndReason;
use crate::ending::Ending;
use crate::matching::Match;
use crate::pool::Pool;
use crate::requests::{Renamed, Requests};
use crate::server::{Answerer, Expect, Server};
use crate::{
    attribution, following, large_statements, listening, malformed, matching, pacing, remedies, server_statements,
    synonyms, texts,
};

pub(crate) fn parse(requests: &mut Requests<'_>, body: &[u8], in_stream: bool) -> Result<Renamed, Ending> {
    if requests.is_passed_over() {
        return Ok(Renamed::No);
    }
    let Ok(parse) = Parse::decode(body) else { return Ok(malformed::send(requests, tag::PARSE, body, in_stream)) };
    let total = HEADER_LEN + body.len();
    let (identified, parameters) = identify(requests, &parse);
    // If the name is in use, the statement that has it decides.
    let id = server_statements::id_of(requests.link.session, parse.name).unwrap_or(identified);
    if server_statements::must_wait(
        requests.link.server,
        requests.link.session,
        requests.link.pool,
        parse.name,
        Some(id),
    ) {
        return Ok(Renamed::Later);
    }
    if parse.name.len() > limits::NAME_LEN_MAX {
        return Err(Ending::Refuse(EndReason::ParseNameTooLong));
    }
    if let Some(renamed) = parse_of_a_taken_name(requests, &parse, total, in_stream) {
        return Ok(renamed);
    }
    if requests.link.session.statements.names.as_ref().is_some_and(|names| names.passes) {
        return Ok(Renamed::No);
    }
    // Another session with the same text may be in a pool that follows session state.
    let meant = Arc::clone(texts::meant(requests.link.server, requests.link.session));
    requests.caches.identify(parse.query, &meant, requests.link.pool.id);
    requests.link.server.ledger.speaks_of(requests.caches.said);
    let reader = &mut requests.caches.reader;
    let catalog = &mut requests.caches.catalog;
    let mut statement = catalog.intern(identified, &parse, Some(&parameters), || reader.sketch(parse.query, &meant));
    if statement.executes() || statement.is_dated {
        let id = match statement.executes() {
            true => texts::identify_executing(requests, &parse, &statement),
            false => texts::identify_dated(requests, &parse, &statement),
        };
        if server_statements::must_wait(
            requests.link.server,
            requests.link.session,
            requests.link.pool,
            parse.name,
            Some(id),
        ) {
            return Ok(Renamed::Later);
        }
        let reader = &mut requests.caches.reader;
        let catalog = &mut requests.caches.catalog;
        statement = catalog.intern(id, &parse, Some(&parameters), || reader.sketch(parse.query, &meant));
    }
    let known = requests.link.server.statements.prepared.touch(statement.id).is_some();
    if known && server_statements::is_refused(requests.link.server, &statement) {
        return Ok(parse_in_vain(requests, &statement, total, in_stream));
    }
    let is_ours = known && is_sound(requests.link.server, requests.link.pool);
    if !is_ours && !remedies::bring_executed(requests, &statement) {
        return Ok(Renamed::Later);
    }
    let names = requests.link.session.statements.names.get_or_insert_default();
    if !names.insert(parse.name, Arc::clone(&statement)) {
        return Ok(large_statements::pass_or_refuse(requests, &parse, total, in_stream));
    }
    if is_ours {
        requests.sent(Expect::FakeParse);
        requests.replace(total, in_stream, |_| ());
        requests.answer_fakes();
        return Ok(Renamed::Yes);
    }
    // Behind the Parse, the server could not be given the session's channels any more, nor be rid of other sessions' statements.
    let reading = statement.reading(&requests.link.pool.names.known);
    listening::bring_channels(requests, reading);
    remedies::run_without_strangers(requests, reading, statement.query());
    server_statements::make_way(requests, &statement, known);
    requests.link.server.statements.prepared.add(statement.id);
    requests.sent(Expect::Parse(Some(statement.id)));
    requests.link.pool.counts.totals.server_parses += 1;
    requests.replace(total, in_stream, |out| statement.write_parse(out));
    matching::describe_for(requests, parse.name, &statement);
    Ok(Renamed::Yes)
}

/// A Parse that the server refuses in a failed transaction, whose statement it has. Closed for it, the statement would be lost to the names that
/// have it: in that transaction nothing prepares it again.
fn parse_in_vain(requests: &mut Requests<'_>, statement: &Statement, total: usize, in_stream: bool) -> Renamed {
    if requests.link.server.ledger.depth() > 0 {
        // Answers under way may end the transaction.
        requests.call_for_answers();
        return Renamed::Later;
    }
    requests.sent(Expect::Parse(None));
    requests.link.pool.counts.totals.server_parses += 1;
    requests.replace(total, in_stream, |out| statement.write_parse(out));
    Renamed::Yes
}

/// The statement that a Parse means, by the settings that the session's texts are read by, and its parameters among these.
fn identify(requests: &Requests<'_>, parse: &Parse<'_>) -> (StatementId, Arc<Parameters>) {
    let (initial, parameters) = (State::default(), texts::parameters(requests.link.session));
    let state = requests.link.session.facts.tracker.as_ref().map_or(&initial, |tracker| tracker.state());
    let meaning = parameters.meaning().chain(state.meaning());
    let secret = requests.caches.catalog.secret();
    let id = prepared::identify(secret, parse, meaning, requests.link.pool.names.generation);
    (id, Arc::clone(parameters))
}

/// A Parse with a name that the session has already, prepared by SQL or by the protocol. `None`: it is a new name.
fn parse_of_a_taken_name(
    requests: &mut Requests<'_>,
    parse: &Parse<'_>,
    total: usize,
    in_stream: bool,
) -> Option<Renamed> {
    let of_sql = requests.link.session.facts.tracker.as_ref().is_some_and(|tracker| tracker.statements.has(parse.name));
    if of_sql && requests.follows() {
        // The server has the statement, or gets it now, and refuses the Parse itself: 42P05.
        if !remedies::bring(requests, parse.name) {
            return Some(Renamed::Later);
        }
        requests.sent(Expect::Parse(None));
        requests.replace(total, in_stream, |out| parse.encode(out));
        return Some(Renamed::Yes);
    }
    let taken = requests.link.session.statements.names.get_or_insert_default().get(parse.name).map(Arc::clone)?;
    // The server has this name too, or gets it now, and reports the error itself: 42P05, and skips to Sync.
    if requests.link.server.statements.prepared.touch(taken.id).is_none() {
        if pacing::must_pace(requests, taken.len()) {
            return Some(Renamed::Later);
        }
        server_statements::prepare_as(requests, &taken, false, None);
    }
    requests.sent(Expect::Parse(None));
    synonyms::sent(requests, parse.name);
    requests.link.pool.counts.totals.server_parses += 1;
    let again = Parse { name: &taken.name, ..*parse };
    requests.replace(total, in_stream, |out| again.encode(out));
    Some(Renamed::Yes)
}

/// Whether the pooler may answer a Parse of a statement that the server has.
fn is_sound(server: &Server, pool: &Pool) -> bool {
    // The server may still owe a ReadyForQuery for a Sync before this, which the ledger cannot tell.
    if server.ledger.copying().may_hide_sync() && server.ledger.depth() > 0 {
        return false;
    }
    // In a failed transaction PostgreSQL refuses a Parse. In an open one a trial of another client's statement is not
    // possible.
    match server.transaction.status {
        backend::Status::Idle => !server.ledger.owed().awaits_own_ready(),
        backend::Status::InTransaction => !pool.rules.follows() && !server.ledger.owed().awaits_own_ready(),
        backend::Status::Failed => false,
    }
}

// tidy: one Bind in all its turns, in the order in which they are decided
pub(crate) fn bind(
    requests: &mut Requests<'_>,
    header: Header,
    at_hand: &[u8],
    in_stream: bool,
) -> Result<Renamed, Ending> {
    let body = &at_hand[HEADER_LEN..];
    if requests.is_passed_over() {
        return Ok(Renamed::No);
    }
    let Some(names) = BindNames::decode(body) else {
        return Ok(malformed::send(requests, tag::BIND, body, in_stream));
    };
    if names.statement.is_empty() {
        attribution::bound_by_name(requests, &names);
        let recalled = recall_unnamed(requests);
        let after_names = &body[names.len..];
        let goes_on = recalled != Renamed::Later && following::bind_followed(requests, &names, None, after_names);
        return Ok(if goes_on { recalled } else { Renamed::Later });
    }
    // An unknown name passes unchanged, and the server answers 26000.
    let Some((named, reading)) =
        server_statements::named(requests.link.session, requests.link.pool, requests.caches, names.statement)
    else {
        attribution::bound_by_name(requests, &names);
        if server_statements::must_wait(
            requests.link.server,
            requests.link.session,
            requests.link.pool,
            names.statement,
            None,
        ) {
            return Ok(Renamed::Later);
        }
        let goes_on = following::bind_followed(requests, &names, None, &body[names.len..]);
        return Ok(if goes_on { Renamed::No } else { Renamed::Later });
    };
    let (statement, client_shape) = (Arc::clone(&named.statement), named.fingerprint());
    attribution::bound(requests, names.portal, requests.caches.said);
    if server_statements::must_wait(
        requests.link.server,
        requests.link.session,
        requests.link.pool,
        names.statement,
        Some(statement.id),
    ) {
        return Ok(Renamed::Later);
    }
    // A statement that it EXECUTEs must be on the server when it is parsed.
    let is_first = statement.varies || reading.names_statements();
    if is_first && !following::bind_followed(requests, &names, Some((&statement, reading)), &body[names.len..]) {
        return Ok(Renamed::Later);
    }
    let rest_len = header.body_len() - names.len;
    let matched = matching::matched(requests, names.statement, &statement, client_shape, header.total_len());
    match matched {
        Match::Yes | Match::Trial => {}
        Match::Later => return Ok(Renamed::Later),
        Match::Refused => {
            matching::refuse(requests, HEADER_LEN + names.len, in_stream);
            requests.discard_rest(rest_len - if in_stream { 0 } else { body.len() - names.len });
            return Ok(Renamed::Yes);
        }
    }
    if !is_first {
        following::bind_followed(requests, &names, Some((&statement, reading)), &body[names.len..]);
    }
    requests.sent(if matched == Match::Trial { Expect::TrialBind } else { Expect::Bind });
    synonyms::sent(requests, names.statement);
    let mut prefix = Ok(());
    requests.replace(HEADER_LEN + names.len, in_stream, |out| {
        prefix = frontend::encode_bind_prefix(out, names.portal, &statement.name, rest_len);
    });
    prefix?;
    if !in_stream {
        let more = &body[names.len..];
        requests.actions.send_new(requests.link.server_id, |out| out.extend_from_slice(more));
        requests.expect_rest(rest_len - more.len());
    } else {
        requests.expect_rest(rest_len);
    }
    Ok(Renamed::Yes)
}

pub(crate) fn describe(requests: &mut Requests<'_>, body: &[u8], in_stream: bool) -> Result<Renamed, Ending> {
    if requests.is_passed_over() {
        return Ok(Renamed::No);
    }
    let Ok(describe) = Describe::decode(body) else {
        return Ok(malformed::send(requests, tag::DESCRIBE, body, in_stream));
    };
    if describe.target != Target::Statement {
        return Ok(Renamed::No);
    }
    if describe.name.is_empty() {
        let recalled = recall_unnamed(requests);
        let goes_on = recalled != Renamed::Later && following::describe_followed(requests);
        return Ok(if goes_on { recalled } else { Renamed::Later });
    }
    if server_statements::must_wait(
        requests.link.server,
        requests.link.session,
        requests.link.pool,
        describe.name,
        server_statements::id_of(requests.link.session, describe.name),
    ) {
        return Ok(Renamed::Later);
    }
    let Some((named, _)) =
        server_statements::named(requests.link.session, requests.link.pool, requests.caches, describe.name)
    else {
        return Ok(if remedies::bring(requests, describe.name) { Renamed::No } else { Renamed::Later });
    };
    let (statement, client_shape) = (Arc::clone(&named.statement), named.fingerprint());
    if !remedies::bring_executed(requests, &statement) {
        return Ok(Renamed::Later);
    }
    let total = HEADER_LEN + body.len();
    match matching::matched(requests, describe.name, &statement, client_shape, total) {
        Match::Yes => requests.sent(Expect::Describe),
        Match::Trial => requests.sent(Expect::TrialDescribe),
        Match::Later => return Ok(Renamed::Later),
        Match::Refused => {
            matching::refuse(requests, total, in_stream);
            return Ok(Renamed::Yes);
        }
    }
    synonyms::sent(requests, describe.name);
    let renamed = Describe { target: Target::Statement, name: &statement.name };
    requests.replace(total, in_stream, |out| renamed.encode(out));
    Ok(Renamed::Yes)
}

pub(crate) fn close(requests: &mut Requests<'_>, body: &[u8], in_stream: bool) -> Result<Renamed, Ending> {
    if requests.is_passed_over() {
        return Ok(Renamed::No);
    }
    let Ok(close) = Close::decode(body) else { return Ok(malformed::send(requests, tag::CLOSE, body, in_stream)) };
    if close.target != Target::Statement || close.name.is_empty() {
        return Ok(Renamed::No);
    }
    if server_statements::must_wait(requests.link.server, requests.link.session, requests.link.pool, close.name, None) {
        return Ok(Renamed::Later);
    }
    match following::close_prepared(requests, close.name) {
        Renamed::No => {}
        Renamed::Yes => {
            requests.replace(HEADER_LEN + body.len(), in_stream, |out| close.encode(out));
            return Ok(Renamed::Yes);
        }
        Renamed::Later => return Ok(Renamed::Later),
    }
    let names = requests.link.session.statements.names.get_or_insert_default();
    if names.passes && names.get(close.name).is_none() {
        return Ok(Renamed::No);
    }
    // The pooler's CloseComplete must not come before a ReadyForQuery that the server may still owe.
    let has_turn = requests.link.server.ledger.depth() == 0 || !requests.link.server.ledger.copying().may_hide_sync();
    if !has_turn || !names.remove(close.name) {
        requests.call_for_answers();
        return Ok(Renamed::Later);
    }
    requests.sent(Expect::FakeClose);
    requests.replace(HEADER_LEN + body.len(), in_stream, |_| ());
    requests.answer_fakes();
    Ok(Renamed::Yes)
}

/// An unnamed Parse is sent unchanged. False: it waits for answers under way.
pub(crate) fn parse_unnamed(requests: &mut Requests<'_>, at_hand: &[u8], whole: bool) -> bool {
    if requests.is_passed_over() {
        requests.sent(Expect::Parse(None));
        return true;
    }
    let parse = whole.then(|| Parse::decode(&at_hand[HEADER_LEN..]));
    if let Some(Err(_)) = parse {
        // PostgreSQL refuses it before it drops the unnamed statement.
        requests.sent(Expect::Malformed);
        return true;
    }
    let parse = parse.and_then(Result::ok);
    if whole && !following::parse_followed(requests, parse.as_ref(), true) {
        return false;
    }
    if !whole {
        attribution::unfollowed(requests, None);
        attribution::parsed(requests, b"");
        let text = at_hand[HEADER_LEN..].iter().position(|&byte| byte == 0).map_or(0, |end| HEADER_LEN + end + 1);
        following::begin_pieces(requests, &at_hand[text..]);
        if let Some(tracker) = &mut requests.link.session.facts.tracker {
            // Its effects are suspected from now on, whenever it is executed.
            tracker.portals.parse_unnamed(None);
        }
    }
    let version = requests.caches.catalog.next_version();
    requests.link.session.statements.unnamed.get_or_insert_default().parsed(version, parse.as_ref());
    requests.sent(Expect::Unnamed);
    true
}

/// A Close of the unnamed statement is sent.
pub(crate) fn close_unnamed(requests: &mut Requests<'_>) {
    if requests.is_passed_over() {
        return requests.sent(Expect::Close(None));
    }
    requests.link.session.statements.unnamed.get_or_insert_default().closed();
    requests.sent(Expect::Unnamed);
}

/// The client uses its unnamed statement: a server that lacks it gets it first. If the client has none, another
/// session's or an older one is closed (I2).
fn recall_unnamed(requests: &mut Requests<'_>) -> Renamed {
    let unnamed = requests.link.session.statements.unnamed.as_deref();
    if unnamed.is_some_and(Unnamed::is_in_batch) {
        return Renamed::No;
    }
    if unnamed.is_some_and(Unnamed::is_changing) || requests.link.server.ledger.owed().awaits_query() {
        return Renamed::Later;
    }
    let version = unnamed.map_or(unnamed::NONE, Unnamed::version);
    if requests.link.server.statements.unnamed == version && !requests.link.server.ledger.owed().may_skip_unnamed() {
        return Renamed::No;
    }
    // A statement that it EXECUTEs must be on the server when it is parsed.
    if !following::describe_followed(requests) {
        return Renamed::Later;
    }
    requests.stream.flush(requests.link.server_id, requests.actions);
    match requests.link.session.statements.unnamed.as_deref().and_then(Unnamed::parse) {
        Some(parse) => {
            requests.link.server.statements.unnamed = version;
            requests.link.pool.counts.totals.server_parses += 1;
            requests.link.server.ledger.sent(Answerer::Prepare, Expect::Parse(None));
            requests.actions.send_new(requests.link.server_id, |out| parse.encode(out));
        }
        None => {
            requests.link.server.statements.unnamed = unnamed::NONE;
            requests.link.server.ledger.sent(Answerer::Prepare, Expect::Close(None));
            let close = Close { target: Target::Statement, name: b"" };
            requests.actions.send_new(requests.link.server_id, |out| close.encode(out));
        }
    }
    Renamed::No
}
