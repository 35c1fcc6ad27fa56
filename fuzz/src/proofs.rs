//! Password exchanges and stored secrets.
//!
//! Asserts that nobody who does not know a password gets in, at either end of SCRAM; that an exchange between honest ends
//! succeeds, and fails when one byte of it is changed on its way; that a secret means the same after it was written and
//! read again; and the same of whole lines of auth_file.

use std::collections::BTreeMap;

use auth::scram::{ITERATIONS_MAX, NONCE_LEN, SALT_LEN_MAX};
use auth::{ClientExchange, Keys, Md5Hash, Secret, ServerExchange, Verifier, verify_md5, verify_plain};

use crate::tape::Tape;

/// In the fuzzer's messages, stands for the nonce that the other end made.
const THEIR_NONCE: u8 = 1;

/// Hashing is slow by design; a few rounds go through the same code.
const ROUNDS_MAX: u32 = 16;

/// One run of the target.
pub fn run(bytes: &[u8]) {
    let mut tape = Tape::new(bytes);
    match tape.byte() % 5 {
        0 => a_stranger_at_our_server(&mut tape),
        1 => a_stranger_as_our_server(&mut tape),
        2 => an_exchange(&mut tape),
        3 => a_secret(&mut tape),
        _ => a_file(tape.rest()),
    }
}

/// Keys of which the fuzzer knows nothing.
fn keys() -> Keys {
    Keys { client_key: [0x5a; 32], server_key: [0xc3; 32] }
}

fn verifier() -> Verifier {
    let keys = keys();
    Verifier::of_keys(4096, &[7; 16], keys.stored_key(), keys.server_key)
}

/// The value of `r=` in server-first or client-first, which end it or stand before a comma.
fn nonce_of(message: &[u8]) -> Vec<u8> {
    let start = message.windows(2).position(|pair| pair == b"r=").map_or(message.len(), |at| at + 2);
    message[start..].iter().copied().take_while(|byte| *byte != b',').collect()
}

fn filled_in(script: &[u8], nonce: &[u8]) -> Vec<u8> {
    let mut message = Vec::new();
    for &byte in script {
        match byte {
            THEIR_NONCE => message.extend_from_slice(nonce),
            other => message.push(other),
        }
    }
    message
}

fn a_stranger_at_our_server(tape: &mut Tape<'_>) {
    let first = tape.counted();
    let Ok((exchange, server_first)) = ServerExchange::start(first, verifier(), &[9; NONCE_LEN]) else { return };
    // What we say must be understood by whoever speaks SCRAM.
    assert!(server_first.ends_with(b",i=4096") && nonce_of(&server_first).len() > NONCE_LEN);
    let last = filled_in(tape.rest(), &nonce_of(&server_first));
    assert!(exchange.finish(&last).is_err(), "a stranger got in with {}", last.escape_ascii());
}

fn a_stranger_as_our_server(tape: &mut Tape<'_>) {
    let (mut exchange, client_first) = ClientExchange::start(&[3; NONCE_LEN]);
    let nonce = nonce_of(&client_first);
    let server_first = filled_in(tape.counted(), &nonce);
    let Ok(challenge) = exchange.challenge(&server_first) else {
        assert!(exchange.respond(&keys()).is_err(), "a proof for a challenge that was refused");
        return;
    };
    assert!((1..=ITERATIONS_MAX).contains(&challenge.iterations));
    assert!((1..=SALT_LEN_MAX).contains(&challenge.salt.len()));
    assert!(nonce_of(&server_first).starts_with(&nonce), "a nonce that is not ours");
    let proof = exchange.respond(&keys()).expect("it was challenged");
    assert!(proof.starts_with(b"c=biws,r="));
    let server_final = filled_in(tape.rest(), &nonce);
    assert!(exchange.verify(&server_final).is_err(), "a stranger was taken for our server");
}

/// Changes one byte of a message, or none.
fn altered(mut message: Vec<u8>, which: u8, tape: &[u8; 3]) -> (Vec<u8>, bool) {
    let [target, at, change] = *tape;
    if target != which || change == 0 || message.is_empty() {
        return (message, false);
    }
    let at = usize::from(at) % message.len();
    message[at] ^= change;
    (message, true)
}

fn an_exchange(tape: &mut Tape<'_>) {
    let alteration = [tape.byte(), tape.byte(), tape.byte()];
    let iterations = u32::from(tape.byte()) % ROUNDS_MAX + 1;
    let salt = [b"s", tape.counted()].concat();
    let password = String::from_utf8_lossy(tape.rest()).into_owned();
    let verifier = Verifier::derive(&password, &salt, iterations);

    let done = exchange(&password, &verifier, &alteration);
    assert_eq!(done.is_some(), !matches!(alteration, [1..=4, _, 1..=255]), "with {alteration:?}");
    if let Some(keys) = done {
        assert!(keys == Keys::derive(&password, &salt, iterations), "the client's proof contains its key");
    }
    let stored = Secret::Scram(verifier);
    assert_eq!(verify_plain(&stored, "u", password.as_bytes()), !password.is_empty());
}

/// Both ends honest, and somebody between them. The keys that the server took from the client, if both are content.
fn exchange(password: &str, verifier: &Verifier, alteration: &[u8; 3]) -> Option<Keys> {
    let (mut client, client_first) = ClientExchange::start(&[3; NONCE_LEN]);
    let (client_first, _) = altered(client_first, 1, alteration);
    let (server, server_first) = ServerExchange::start(&client_first, verifier.clone(), &[9; NONCE_LEN]).ok()?;
    let (server_first, _) = altered(server_first, 2, alteration);
    let challenge = client.challenge(&server_first).ok()?;
    if challenge.iterations > 100 * ROUNDS_MAX {
        // Allowed, and too slow to follow here.
        return None;
    }
    let proof = client.respond(&Keys::derive(password, &challenge.salt, challenge.iterations)).ok()?;
    let (proof, _) = altered(proof, 3, alteration);
    let done = server.finish(&proof).ok()?;
    let (server_final, _) = altered(done.server_final.clone(), 4, alteration);
    client.verify(&server_final).ok()?;
    Some(Keys::from_verifier(verifier, done.client_key))
}

fn a_secret(tape: &mut Tape<'_>) {
    let given = tape.counted();
    let salt = [tape.byte(), tape.byte(), tape.byte(), tape.byte()];
    let Ok(text) = std::str::from_utf8(tape.rest()) else { return };
    let secret = Secret::parse(text);
    match &secret {
        Secret::Plain(password) => {
            assert_eq!(password.as_str(), text);
            assert_eq!(verify_plain(&secret, "u", given), given == text.as_bytes() && !given.is_empty());
            let answer = auth::md5::response(&Md5Hash::of(text, "u"), salt);
            assert_eq!(verify_md5(&secret, "u", salt, answer.as_bytes()), !text.is_empty());
        }
        Secret::Md5(hash) => {
            assert!(text.len() == 35 && text.starts_with("md5"));
            let answer = auth::md5::response(hash, salt);
            assert!(verify_md5(&secret, "u", salt, answer.as_bytes()));
        }
        Secret::Scram(verifier) => {
            assert!(verifier.iterations > 0 && (1..=SALT_LEN_MAX).contains(&verifier.salt.len()));
            assert_eq!(Secret::parse(&verifier.to_string()), secret, "it means the same once written");
            // Of an unknown password, and slow with many rounds.
            assert!(verifier.iterations > ROUNDS_MAX || !verify_plain(&secret, "u", given));
        }
    }
    assert!(!verify_plain(&secret, "u", b""), "an empty password lets nobody in");
    let shown = format!("{secret:?}");
    assert!(text.len() < 20 || !shown.contains(text), "a secret is shown: {shown}");
}

fn a_file(bytes: &[u8]) {
    let (users, problems) = config::userlist::parse("users.txt", bytes);
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
    // A secret that seems to be a hash, and a user who is there already.
    assert!(users.len() <= lines && problems.len() <= 2 * lines, "no more users than lines, and two warnings for each");
    for problem in &problems {
        assert!((1..=lines).contains(&(problem.line as usize)), "line {} of {lines}", problem.line);
        assert!(!problem.to_string().contains('\n'));
    }
    // A hash of which only the digest is kept cannot be written again.
    let known: BTreeMap<&String, &Secret> =
        users.iter().filter(|(_, secret)| !matches!(secret, Secret::Md5(_))).collect();
    let text: String = known.iter().map(|(name, secret)| line(name, secret)).collect();
    let (again, problems) = config::userlist::parse("users.txt", text.as_bytes());
    assert!(problems.iter().all(|problem| problem.found.contains("begins as")), "{problems:?}");
    assert!(again.iter().eq(known), "users who are written are read again");
}

fn line(name: &str, secret: &Secret) -> String {
    let secret = match secret {
        Secret::Plain(password) => password.as_str().to_owned(),
        Secret::Scram(verifier) => verifier.to_string(),
        Secret::Md5(_) => String::new(),
    };
    format!("\"{}\" \"{}\"\n", name.replace('"', "\"\""), secret.replace('"', "\"\""))
}
