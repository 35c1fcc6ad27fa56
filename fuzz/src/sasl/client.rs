//! SASL as a client of PostgreSQL: a server that does not know our keys is never taken for ours, no proof is made for a challenge
//! that was refused, and what a challenge makes us hash and keep has bounds.

use auth::scram::{ITERATIONS_MAX, NONCE_LEN, SALT_LEN_MAX, SERVER_MESSAGE_LEN_MAX};
use auth::{ClientBinding, ClientExchange};

use super::{HASH, filled_in, keys, nonce_of};
use crate::tape::Tape;

/// One run of the target.
pub fn run(bytes: &[u8]) {
    let mut tape = Tape::new(bytes);
    let (binding, header) = match tape.byte() % 3 {
        0 => (ClientBinding::Unused, "c=biws,r="),
        1 => (ClientBinding::NotOffered, "c=eSws,r="),
        _ => (ClientBinding::Chosen(&HASH), "c=cD10bHMtc2VydmVyLWVuZC1wb2ludCws"),
    };
    let (mut exchange, client_first) = ClientExchange::start_in(binding, &[3; NONCE_LEN]);
    assert_eq!(exchange.is_bound(), matches!(binding, ClientBinding::Chosen(_)));
    let nonce = nonce_of(&client_first);
    let server_first = filled_in(tape.counted(), &nonce);
    let Ok(challenge) = exchange.challenge(&server_first) else {
        assert!(exchange.respond(&keys()).is_err(), "a proof for a challenge that was refused");
        return;
    };
    assert!(server_first.len() <= SERVER_MESSAGE_LEN_MAX);
    assert!((1..=ITERATIONS_MAX).contains(&challenge.iterations));
    assert!((1..=SALT_LEN_MAX).contains(&challenge.salt.len()));
    assert!(nonce_of(&server_first).starts_with(&nonce), "a nonce that is not ours");
    let proof = exchange.respond(&keys()).expect("it was challenged");
    assert!(proof.starts_with(header.as_bytes()), "{}", proof.escape_ascii());
    assert!(exchange.challenge(&server_first).is_err(), "a second challenge");
    let server_final = filled_in(tape.rest(), &nonce);
    assert!(exchange.verify(&server_final).is_err(), "a stranger was taken for our server");
}
