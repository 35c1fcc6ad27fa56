//! `server 1: …` and `cancel 1: …`

use auth::scram::{MECHANISM, MECHANISM_PLUS};
use auth::{ScramError, ServerBinding, ServerExchange, Verifier};
use machine::{Ends, Event, Hangup};
use wire::backend;
use wire::backend::{Authentication, BackendKeyData, ErrorResponse, ParameterStatus, Status};
use wire::frontend::{SaslInitial, SaslResponse};

use super::speak;
use crate::runner::backend as messages;
use crate::runner::words::{Word, Words};
use crate::runner::world::World;

/// What PostgreSQL says after a login.
const PARAMETERS: [(&str, &str); 7] = [
    ("server_version", "18.0"),
    ("client_encoding", "UTF8"),
    ("DateStyle", "ISO, MDY"),
    ("TimeZone", "UTC"),
    ("standard_conforming_strings", "on"),
    ("application_name", ""),
    ("IntervalStyle", "postgres"),
];

pub(crate) fn run(world: &mut World, name: &str, mut words: Words<'_>) -> Result<(), String> {
    let socket = world.socket(name)?;
    if words.eat("connects") {
        let Some(conn) = world.sockets[socket].id else { return Err("it is closed".to_owned()) };
        let to = words.eat("to").then(|| words.bare("the address")).transpose()?;
        let remote = to.map(|to| to.parse().map_err(|_| format!("'{to}' is no address"))).transpose()?;
        let ends = remote.map(|remote| Box::new(Ends { local: ([10, 0, 0, 100], 40_000).into(), remote }));
        world.step(World::place(conn), Event::Opened { conn, ends });
        world.run_until_idle();
        return words.end();
    }
    if words.eat("connect fails") {
        // As the engine says it.
        let why = format!("connect failed: {}", words.string("the reason")?);
        let Some(conn) = world.sockets[socket].id else { return Err("it is closed".to_owned()) };
        world.step(World::place(conn), Event::OpenFailed { conn, why });
        world.run_until_idle();
        return words.end();
    }
    if words.eat("logs in") {
        let changed: Vec<&Word> = std::iter::from_fn(|| words.any()).collect();
        let bytes = welcome(name, &changed);
        world.transmit(socket, &bytes);
        return Ok(());
    }
    if words.eat("checks SCRAM of") {
        let password = words.string("the password")?;
        check_scram(world, socket, &password, None)?;
        return words.end();
    }
    if words.eat("checks SCRAM-PLUS of") {
        let password = words.string("the password")?;
        let hash = if words.eat("with another certificate") { &super::OTHER_HASH } else { &super::CERTIFICATE_HASH };
        check_scram(world, socket, &password, Some(hash))?;
        return words.end();
    }
    if super::end_handshake(world, socket, &mut words)? {
        return words.end();
    }
    if words.eat("hangup") || words.eat("closes") {
        return super::hang_up(world, socket, Hangup::Closed);
    }
    speak::run(world, socket, words, messages::encode)
}

/// AuthenticationOk, ParameterStatus, BackendKeyData, ReadyForQuery of server `name`.
pub(crate) fn welcome(name: &str, changed: &[&Word]) -> Vec<u8> {
    let number: i32 = name.parse().unwrap_or(0);
    let mut out = Vec::new();
    Authentication::Ok.encode(&mut out);
    for (name, value) in PARAMETERS {
        let own = changed.iter().find_map(|word| word.text.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
        ParameterStatus { name: name.as_bytes(), value: own.unwrap_or(value.as_bytes()) }.encode(&mut out);
    }
    let is_other = |name: &&[u8]| PARAMETERS.iter().all(|(known, _)| known.as_bytes() != *name);
    for word in changed {
        let (name, value) =
            word.text.split_at(word.text.iter().position(|byte| *byte == b'=').unwrap_or(word.text.len()));
        if is_other(&name) {
            ParameterStatus { name, value: value.strip_prefix(b"=").unwrap_or(value) }.encode(&mut out);
        }
    }
    BackendKeyData { pid: 100 + number, secret: &number.to_be_bytes() }.encode(&mut out);
    backend::encode_ready(&mut out, Status::Idle);
    out
}

/// A server that asks for SCRAM and knows the password as its user has it. `hash`: of the certificate that it offers to be
/// bound to.
fn check_scram(world: &mut World, socket: usize, password: &str, hash: Option<&[u8]>) -> Result<(), String> {
    let mut out = Vec::new();
    let plain = &[MECHANISM.as_bytes()][..];
    let both = &[MECHANISM_PLUS.as_bytes(), MECHANISM.as_bytes()][..];
    backend::encode_sasl(&mut out, if hash.is_some() { both } else { plain });
    world.transmit(socket, &out);
    let Some(body) = world.sockets[socket].answered.take() else { return Ok(()) };
    let initial = SaslInitial::decode(&body).map_err(|error| error.to_string())?;
    let binding = match hash {
        Some(hash) if initial.mechanism == MECHANISM_PLUS.as_bytes() => ServerBinding::Chosen(hash),
        Some(_) => ServerBinding::Declined,
        None => ServerBinding::NotOffered,
    };
    let verifier = Verifier::derive(password, b"some salt", 2);
    let nonce = [9; auth::scram::NONCE_LEN];
    let started = ServerExchange::start_in(binding, initial.response.unwrap_or_default(), verifier, &nonce);
    let (exchange, first) = started.map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    Authentication::SaslContinue(&first).encode(&mut out);
    world.transmit(socket, &out);
    let Some(body) = world.sockets[socket].answered.take() else { return Ok(()) };
    let response = SaslResponse::decode(&body).map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    match exchange.finish(response.response) {
        Ok(done) => Authentication::SaslFinal(&done.server_final).encode(&mut out),
        Err(error) => {
            let (code, message) = match error {
                ScramError::OtherCertificate => (wire::sqlstate::INVALID_AUTHORIZATION, &*error.to_string()),
                _ => (wire::sqlstate::INVALID_PASSWORD, "password authentication failed for user \"u\""),
            };
            ErrorResponse { severity: "FATAL", code, message, detail: None, hint: None }.encode(&mut out);
        }
    }
    world.transmit(socket, &out);
    Ok(())
}
