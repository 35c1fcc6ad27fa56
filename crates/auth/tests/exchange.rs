//! Both sides against each other, and every small change to what they say.

#![allow(clippy::unwrap_used, reason = "clippy sees only the functions marked as tests as such")]

use std::collections::HashMap;

use auth::{Challenge, ClientExchange, Keys, MockSeed, ScramError, ServerDone, ServerExchange, Verifier, scram};

const PASSWORD: &str = "correct horse";
const CLIENT_NONCE: [u8; 18] = [1; 18];
const SERVER_NONCE: [u8; 18] = [2; 18];
/// Few, so that thousands of exchanges are quick.
const ITERATIONS: u32 = 8;

fn verifier() -> Verifier {
    Verifier::derive(PASSWORD, b"0123456789abcdef", ITERATIONS)
}

fn keys(password: &str, challenge: &Challenge) -> Keys {
    Keys::derive(password, &challenge.salt, challenge.iterations)
}

/// An honest exchange up to the server's verdict.
fn login(verifier: Verifier, password: &str) -> (ClientExchange, Result<ServerDone, ScramError>) {
    let (mut client, first) = ClientExchange::start(&CLIENT_NONCE);
    let (server, answer) = ServerExchange::start(&first, verifier, &SERVER_NONCE).unwrap();
    let challenge = client.challenge(&answer).unwrap();
    let last = client.respond(&keys(password, &challenge)).unwrap();
    (client, server.finish(&last))
}

/// An honest exchange, to be spoilt at any point.
struct Exchange {
    client_first: Vec<u8>,
    server_first: Vec<u8>,
    client_final: Vec<u8>,
    server_final: Vec<u8>,
}

fn honest() -> Exchange {
    let (mut client, client_first) = ClientExchange::start(&CLIENT_NONCE);
    let (server, server_first) = ServerExchange::start(&client_first, verifier(), &SERVER_NONCE).unwrap();
    let challenge = client.challenge(&server_first).unwrap();
    let client_final = client.respond(&keys(PASSWORD, &challenge)).unwrap();
    let done = server.finish(&client_final).unwrap();
    client.verify(&done.server_final).unwrap();
    Exchange { client_first, server_first, client_final, server_final: done.server_final }
}

/// Everything one byte away from a message, and everything it begins or ends with.
fn edits(message: &[u8]) -> Vec<Vec<u8>> {
    let mut edits = Vec::new();
    for at in 0..=message.len() {
        edits.push(message[..at].to_vec());
        edits.push(message[at..].to_vec());
        for byte in 0..=255 {
            edits.push([&message[..at], &[byte], &message[at..]].concat());
        }
        let Some(rest) = message.get(at + 1..) else {
            continue;
        };
        edits.push([&message[..at], rest].concat());
        for byte in 0..=255 {
            edits.push([&message[..at], &[byte], rest].concat());
        }
    }
    edits.retain(|edit| edit != message);
    assert!(edits.len() > message.len() * 500);
    edits
}

#[test]
fn both_sides_agree() {
    let (client, done) = login(verifier(), PASSWORD);
    assert_eq!(client.verify(&done.unwrap().server_final), Ok(()));
}

#[test]
fn messages_look_as_libpq_makes_them() {
    let exchange = honest();
    let text = |message: &[u8]| String::from_utf8(message.to_vec()).unwrap();
    assert_eq!(text(&exchange.client_first), "n,,n=,r=AQEBAQEBAQEBAQEBAQEBAQEB");
    assert_eq!(
        text(&exchange.server_first),
        "r=AQEBAQEBAQEBAQEBAQEBAQEBAgICAgICAgICAgICAgICAgIC,s=MDEyMzQ1Njc4OWFiY2RlZg==,i=8"
    );
    assert!(text(&exchange.client_final).starts_with("c=biws,r=AQEBAQEBAQEBAQEBAQEBAQEBAgICAgICAgICAgICAgICAgIC,p="));
    assert!(text(&exchange.server_final).starts_with("v="));
}

#[test]
fn wrong_passwords_fail() {
    for wrong in ["", "correct", "correct horse ", "Correct horse", "\0", "ü"] {
        let (_, done) = login(verifier(), wrong);
        assert_eq!(done, Err(ScramError::WrongProof), "{wrong:?}");
    }
}

#[test]
fn keys_of_a_client_log_in_at_the_server() {
    let (_, done) = login(verifier(), PASSWORD);
    let keys = Keys::from_verifier(&verifier(), done.unwrap().client_key);
    let pass_on = |upstream: Verifier| {
        let (mut client, first) = ClientExchange::start(&[3; 18]);
        let (server, answer) = ServerExchange::start(&first, upstream, &[4; 18]).unwrap();
        let challenge = client.challenge(&answer).unwrap();
        let fits = verifier().matches(&challenge);
        let done = server.finish(&client.respond(&keys).unwrap());
        let is_known = done.map(|done| client.verify(&done.server_final));
        (fits, is_known)
    };
    assert_eq!(pass_on(verifier()), (true, Ok(Ok(()))));
    // The same password, but stored with another salt or cost: its keys are others.
    let resalted = Verifier::derive(PASSWORD, b"fedcba9876543210", ITERATIONS);
    assert_eq!(pass_on(resalted), (false, Err(ScramError::WrongProof)));
    let dearer = Verifier::derive(PASSWORD, b"0123456789abcdef", ITERATIONS + 1);
    assert_eq!(pass_on(dearer), (false, Err(ScramError::WrongProof)));
}

#[test]
fn missing_user_looks_like_a_wrong_password() {
    let seed = [9; 32];
    let answer = |verifier: Verifier| {
        let (mut client, first) = ClientExchange::start(&CLIENT_NONCE);
        let (server, answer) = ServerExchange::start(&first, verifier, &SERVER_NONCE).unwrap();
        let challenge = client.challenge(&answer).unwrap();
        let last = client.respond(&keys(PASSWORD, &challenge)).unwrap();
        (answer, challenge, server.finish(&last))
    };
    let real = Verifier::derive("another", b"0123456789abcdef", scram::ITERATIONS);
    let (real_answer, real_challenge, real_end) = answer(real);
    let (mock_answer, mock_challenge, mock_end) = answer(Verifier::mock(&seed, b"nobody", scram::ITERATIONS));
    assert_eq!(real_end, Err(ScramError::WrongProof));
    assert_eq!(mock_end, real_end);
    assert_eq!(mock_answer.len(), real_answer.len());
    assert_eq!(mock_challenge.iterations, real_challenge.iterations);
    assert_eq!(mock_challenge.salt.len(), real_challenge.salt.len());
}

#[test]
fn mock_salt_stays_and_differs_by_user_and_seed() {
    let salt = |seed: u8, user: &[u8]| Verifier::mock(&[seed; 32], user, ITERATIONS).salt.clone();
    assert_eq!(salt(1, b"alice"), salt(1, b"alice"));
    assert_ne!(salt(1, b"alice"), salt(1, b"bob"));
    assert_ne!(salt(1, b"alice"), salt(2, b"alice"));
    assert_ne!(salt(1, b""), salt(1, b"\0"));
    let mock = Verifier::mock(&[1; 32], b"alice", ITERATIONS);
    assert_ne!(mock.stored_key(), mock.server_key());
    assert_eq!(salt(1, b"\xff not text").len(), scram::SALT_LEN);
}

#[test]
fn untold_bytes_of_a_mock_stay_and_are_no_salt() {
    let mock = |user: &[u8]| MockSeed::new(&[1; 32]).mock(user, ITERATIONS);
    assert_eq!(mock(b"alice").spare, mock(b"alice").spare);
    assert_ne!(mock(b"alice").spare, mock(b"bob").spare);
    assert_ne!(mock(b"alice").spare, *mock(b"alice").verifier.salt);
    // Users that do not exist share keys, but not with another process or with existing users.
    assert_ne!(mock(b"alice").verifier.stored_key(), Verifier::mock(&[2; 32], b"alice", ITERATIONS).stored_key());
}

#[test]
fn a_verifier_takes_the_same_proofs_read_or_derived() {
    let read = Verifier::parse(&verifier().to_string()).unwrap();
    let of_keys = Verifier::of_keys(ITERATIONS, &read.salt, *read.stored_key(), *read.server_key());
    for verifier in [read, of_keys] {
        let (client, done) = login(verifier.clone(), PASSWORD);
        assert_eq!(client.verify(&done.unwrap().server_final), Ok(()));
        assert_eq!(login(verifier, "wrong").1, Err(ScramError::WrongProof));
    }
}

#[test]
fn changed_client_first_never_logs_in() {
    let exchange = honest();
    let mut read = 0;
    for edit in edits(&exchange.client_first) {
        let Ok((server, answer)) = ServerExchange::start(&edit, verifier(), &SERVER_NONCE) else {
            continue;
        };
        read += 1;
        let (mut client, _) = ClientExchange::start(&CLIENT_NONCE);
        assert!(server.finish(&exchange.client_final).is_err());
        // The same with a client that goes on with whatever it is answered.
        let Ok(challenge) = client.challenge(&answer) else {
            continue;
        };
        let last = client.respond(&keys(PASSWORD, &challenge)).unwrap();
        let (server, _) = ServerExchange::start(&edit, verifier(), &SERVER_NONCE).unwrap();
        let end = server.finish(&last);
        assert!(end.is_err(), "{:?}", String::from_utf8_lossy(&edit));
    }
    // Most changes are well-formed: another nonce, another name. If none were, nothing was tested.
    assert!(read > 1000, "{read}");
}

#[test]
fn changed_server_first_never_logs_in() {
    let exchange = honest();
    let mut known: HashMap<Challenge, Keys> = HashMap::new();
    let mut read = 0;
    for edit in edits(&exchange.server_first) {
        let (mut client, first) = ClientExchange::start(&CLIENT_NONCE);
        let Ok(challenge) = client.challenge(&edit) else {
            continue;
        };
        read += 1;
        let keys = known.entry(challenge).or_insert_with_key(|challenge| keys(PASSWORD, challenge));
        let last = client.respond(keys).unwrap();
        assert!(client.verify(&exchange.server_final).is_err());
        let (server, _) = ServerExchange::start(&first, verifier(), &SERVER_NONCE).unwrap();
        let end = server.finish(&last);
        assert!(end.is_err(), "{:?}", String::from_utf8_lossy(&edit));
    }
    assert!(read > 1000, "{read}");
}

#[test]
fn changed_client_final_never_logs_in() {
    let exchange = honest();
    let mut wrong_proofs = 0;
    for edit in edits(&exchange.client_final) {
        let (server, _) = ServerExchange::start(&exchange.client_first, verifier(), &SERVER_NONCE).unwrap();
        let end = server.finish(&edit);
        assert!(end.is_err(), "{:?}", String::from_utf8_lossy(&edit));
        wrong_proofs += usize::from(end == Err(ScramError::WrongProof));
    }
    assert!(wrong_proofs > 1000, "{wrong_proofs}");
}

#[test]
fn changed_server_final_is_never_believed() {
    let exchange = honest();
    let mut wrong_signatures = 0;
    let (mut client, _) = ClientExchange::start(&CLIENT_NONCE);
    let challenge = client.challenge(&exchange.server_first).unwrap();
    client.respond(&keys(PASSWORD, &challenge)).unwrap();
    for edit in edits(&exchange.server_final) {
        let end = client.verify(&edit);
        assert!(end.is_err(), "{:?}", String::from_utf8_lossy(&edit));
        wrong_signatures += usize::from(end == Err(ScramError::WrongSignature));
    }
    assert!(wrong_signatures > 1000, "{wrong_signatures}");
    assert_eq!(client.verify(&exchange.server_final), Ok(()));
}

/// Every short text over the alphabet of the grammar, in every place: nothing panics, nothing logs in.
#[test]
fn all_short_messages_are_survived() {
    let tokens: [&[u8]; 16] =
        [b"n", b"y", b"p", b"r", b"c", b"s", b"i", b"v", b"e", b"m", b"=", b",", b"A", b"0", b"\xff", b"\0"];
    let exchange = honest();
    let mut messages: Vec<Vec<u8>> = vec![Vec::new()];
    let mut longest = messages.clone();
    for _ in 0..4 {
        longest = longest.iter().flat_map(|message| tokens.map(|token| [message, token].concat())).collect();
        messages.extend_from_slice(&longest);
    }
    let (mut responded, _) = ClientExchange::start(&CLIENT_NONCE);
    let challenge = responded.challenge(&exchange.server_first).unwrap();
    responded.respond(&keys(PASSWORD, &challenge)).unwrap();
    let verifier = verifier();
    for message in &messages {
        assert!(ServerExchange::start(message, verifier.clone(), &SERVER_NONCE).is_err());
        let (server, _) = ServerExchange::start(&exchange.client_first, verifier.clone(), &SERVER_NONCE).unwrap();
        assert!(server.finish(message).is_err());
        let (mut client, _) = ClientExchange::start(&CLIENT_NONCE);
        assert!(client.challenge(message).is_err());
        assert!(responded.verify(message).is_err());
    }
}

#[test]
fn order_is_kept() {
    let exchange = honest();
    let some_keys = Keys::derive(PASSWORD, b"salt", 1);
    let (mut client, _) = ClientExchange::start(&CLIENT_NONCE);
    assert_eq!(client.respond(&some_keys), Err(ScramError::OutOfOrder));
    assert_eq!(client.verify(&exchange.server_final), Err(ScramError::OutOfOrder));
    let challenge = client.challenge(&exchange.server_first).unwrap();
    assert_eq!(client.challenge(&exchange.server_first), Err(ScramError::OutOfOrder));
    assert_eq!(client.verify(&exchange.server_final), Err(ScramError::OutOfOrder));
    client.respond(&keys(PASSWORD, &challenge)).unwrap();
    assert_eq!(client.respond(&some_keys), Err(ScramError::OutOfOrder));
    assert_eq!(client.challenge(&exchange.server_first), Err(ScramError::OutOfOrder));
    assert_eq!(client.verify(&exchange.server_final), Ok(()));
}

#[test]
fn debug_shows_no_secret() {
    let (client, done) = login(verifier(), PASSWORD);
    let keys = Keys::derive(PASSWORD, b"salt", 1);
    let shown = format!("{client:?} {:?} {keys:?} {:?}", done.unwrap(), verifier());
    assert_eq!(shown, "ClientExchange(responded) ServerDone(..) Keys(..) Verifier(8 iterations, ..)");
}
