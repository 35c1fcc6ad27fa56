//! Password exchanges between honest ends, and stored secrets.
//!
//! Asserts that an exchange succeeds, and fails when one byte of it is changed on its way, and that a secret means the same after
//! it was written and read again. Strangers at either end are in `sasl`, whole lines of auth_file in `auth_file`.

use auth::scram::{NONCE_LEN, SALT_LEN_MAX};
use auth::{ClientExchange, Keys, Md5Hash, Secret, ServerExchange, Verifier, verify_md5, verify_plain};

use crate::tape::Tape;

/// Hashing is slow by design; a few rounds go through the same code.
const ROUNDS_MAX: u32 = 16;

/// One run of the target.
pub fn run(bytes: &[u8]) {
    let mut tape = Tape::new(bytes);
    if tape.byte_is_even() { an_exchange(&mut tape) } else { a_secret(&mut tape) }
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
