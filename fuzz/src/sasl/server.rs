//! SASL at our server: whoever does not know the password is not let in, whatever he says of channel binding; a token is taken
//! from a message of OAUTHBEARER only as it stands there; the body of a SASLInitialResponse is read whole or not at all.

use auth::bearer::{self, Shown};
use auth::scram::{CLIENT_MESSAGE_LEN_MAX, MECHANISM, MECHANISM_PLUS, NONCE_LEN};
use auth::{ServerBinding, ServerExchange, Verifier};
use wire::frontend::SaslInitial;

use super::{HASH, filled_in, keys, nonce_of};
use crate::tape::Tape;

/// One run of the target.
pub fn run(bytes: &[u8]) {
    let mut tape = Tape::new(bytes);
    match tape.byte() % 5 {
        0 => scram(ServerBinding::NotOffered, &mut tape),
        1 => scram(ServerBinding::Declined, &mut tape),
        2 => scram(ServerBinding::Chosen(&HASH), &mut tape),
        3 => token(tape.counted(), tape.rest()),
        _ => whole(&mut tape),
    }
}

fn scram(binding: ServerBinding<'_>, tape: &mut Tape<'_>) {
    let first = tape.counted();
    proof(binding, first, tape.rest());
}

fn proof(binding: ServerBinding<'_>, first: &[u8], last: &[u8]) {
    let keys = keys();
    let verifier = Verifier::of_keys(4096, &[7; 16], keys.stored_key(), keys.server_key);
    let Ok((exchange, server_first)) = ServerExchange::start_in(binding, first, verifier, &[9; NONCE_LEN]) else {
        return;
    };
    assert!(first.len() <= CLIENT_MESSAGE_LEN_MAX);
    assert_eq!(first.starts_with(b"p="), matches!(binding, ServerBinding::Chosen(_)), "{}", first.escape_ascii());
    // What we say must be understood by whoever speaks SCRAM.
    assert!(server_first.ends_with(b",i=4096") && nonce_of(&server_first).len() > NONCE_LEN);
    assert!(exchange.kept_len() <= 8 * (first.len() + server_first.len()), "{} bytes are kept", exchange.kept_len());
    let last = filled_in(last, &nonce_of(&server_first));
    let sound = exchange.check(&last).is_ok();
    assert!(sound || exchange.check(&last).is_err(), "the same message, another verdict");
    assert!(exchange.finish(&last).is_err(), "a stranger got in with {}", last.escape_ascii());
}

fn token(first: &[u8], answer: &[u8]) {
    match bearer::read_first(first) {
        Ok(Shown::Token(token)) => {
            let token = token.as_str().as_bytes();
            assert!(!token.is_empty() && token.iter().all(u8::is_ascii_graphic), "{}", token.escape_ascii());
            let shown = [token, b"\x01"].concat();
            assert!(first.windows(shown.len()).any(|part| part == shown), "a token that is not there");
        }
        Ok(Shown::Nothing | Shown::Unlike(_)) => assert!(first.ends_with(b"\x01\x01")),
        Err(error) => assert!(!error.to_string().is_empty() && !error.detail().is_empty()),
    }
    assert_eq!(bearer::read_answer(answer).is_ok(), answer == b"\x01");
}

/// As the door does: the mechanism says what reads the rest.
fn whole(tape: &mut Tape<'_>) {
    let body = tape.counted();
    let Ok(initial) = SaslInitial::decode(body) else { return };
    let response = initial.response.unwrap_or_default();
    assert!(initial.mechanism.len() + 1 + 4 + response.len() == body.len());
    match std::str::from_utf8(initial.mechanism) {
        Ok(MECHANISM) => proof(ServerBinding::Declined, response, tape.rest()),
        Ok(MECHANISM_PLUS) => proof(ServerBinding::Chosen(&HASH), response, tape.rest()),
        Ok(bearer::MECHANISM) => token(response, tape.rest()),
        _ => {}
    }
}
