//! Peers that mean harm: clients that want in without the password, servers that want our time, memory or trust.
//!
//! The client here is written by hand, so that it can prove a password over messages no honest client would send.

#![allow(clippy::unwrap_used, reason = "clippy sees only the functions marked as tests as such")]

use auth::{ClientExchange, Keys, ScramError, ServerDone, ServerExchange, Verifier, scram};
use base64ct::{Base64, Encoding};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

const PASSWORD: &str = "correct horse";
const SALT: &[u8] = b"0123456789abcdef";
const SERVER_NONCE: [u8; 18] = [2; 18];

fn verifier() -> Verifier {
    Verifier::derive(PASSWORD, SALT, 8)
}

fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(message);
    mac.finalize().into_bytes().into()
}

/// What `start` says of a client's first message.
fn refusal(client_first: &[u8]) -> Option<ScramError> {
    ServerExchange::start(client_first, verifier(), &SERVER_NONCE).err()
}

/// A client that knows the password and proves it over whatever `last` makes of the nonce: `{}` stands for it.
fn proven(header: &str, bare: &str, last: &str) -> Result<ServerDone, ScramError> {
    let first = format!("{header}{bare}");
    let (server, answer) = ServerExchange::start(first.as_bytes(), verifier(), &SERVER_NONCE).unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let nonce = answer.split(',').next().unwrap().strip_prefix("r=").unwrap();
    let without_proof = last.replace("{}", nonce);
    let message = format!("{bare},{answer},{without_proof}");
    let keys = Keys::derive(PASSWORD, SALT, 8);
    let signature = hmac(&keys.stored_key(), message.as_bytes());
    let proof: Vec<u8> = signature.iter().zip(keys.client_key).map(|(a, b)| a ^ b).collect();
    let proof = Base64::encode_string(&proof);
    server.finish(format!("{without_proof},p={proof}").as_bytes())
}

#[test]
fn handmade_client_logs_in() {
    for (header, bare, last) in [
        ("n,,", "n=,r=abc", "c=biws,r={}"),
        // A client that could bind to the channel, and saw that we do not offer it.
        ("y,,", "n=,r=abc", "c=eSws,r={}"),
        ("n,,", "n=somebody,r=abc", "c=biws,r={}"),
        ("n,,", "n=\u{fc}=2C=3D,r=abc", "c=biws,r={}"),
        // Optional extensions are no reason to refuse.
        ("n,,", "n=,r=abc,x=1,y=", "c=biws,r={},z=2"),
        ("n,,", "n=,r=!", "c=biws,r={}"),
    ] {
        let done = proven(header, bare, last);
        assert!(done.is_ok(), "{header} {bare} {last}: {done:?}");
    }
}

#[test]
fn right_proof_over_wrong_words_is_refused() {
    use ScramError::*;
    for (header, last, expected) in [
        ("n,,", "c=eSws,r={}", BindingChanged),
        ("y,,", "c=biws,r={}", BindingChanged),
        ("n,,", "c=,r={}", BindingChanged),
        ("n,,", "c=biws=,r={}", BindingChanged),
        ("n,,", "c=biw,r={}", BindingChanged),
        // "p=tls-server-end-point,," and some hash: bound to a channel that was not offered.
        ("n,,", "c=cD10bHMtc2VydmVyLWVuZC1wb2ludCwsAAAA,r={}", BindingChanged),
        ("n,,", "c=biws,r={}x", OtherNonce),
        ("n,,", "c=biws,r=x{}", OtherNonce),
        ("n,,", "c=biws,r=abc", OtherNonce),
        ("n,,", "c=biws,r=", OtherNonce),
        ("n,,", "c=biws,r={},m=must", Extension),
        ("n,,", "m=must,c=biws,r={}", Extension),
        ("n,,", "c=biws,m=must,r={}", Extension),
        ("n,,", "c=biws,r={},", Malformed),
        ("n,,", "c=biws,r={},x", Malformed),
        ("n,,", "c=biws,r={},1=x", Malformed),
        ("n,,", "c=biws,,r={}", Malformed),
        ("n,,", "r={},c=biws", Malformed),
        ("n,,", "c=biws", Malformed),
        ("n,,", "r={}", Malformed),
        ("n,,", "", Malformed),
        ("n,,", "C=biws,r={}", Malformed),
    ] {
        assert_eq!(proven(header, "n=,r=abc", last), Err(expected), "{last}");
    }
}

#[test]
fn client_first_messages_are_refused() {
    use ScramError::*;
    let long_name = format!("n,,n={},r=abc", "a".repeat(1100));
    let long_nonce = format!("n,,n=,r={}", "a".repeat(64 << 10));
    for (message, expected) in [
        ("p=tls-server-end-point,,n=,r=abc", ChannelBinding),
        ("p=tls-unique,,n=,r=abc", ChannelBinding),
        ("p=,,n=,r=abc", ChannelBinding),
        ("p,,n=,r=abc", Malformed),
        ("n,a=postgres,n=,r=abc", AuthorizationIdentity),
        ("n,a=,n=,r=abc", AuthorizationIdentity),
        ("n,x,n=,r=abc", Malformed),
        ("n,,m=must,n=,r=abc", Extension),
        ("n,,n=,m=must,r=abc", Extension),
        ("n,,n=,r=abc,m=must", Extension),
        ("n,,n=,r=abc,", Malformed),
        ("n,,n=,r=", Nonce),
        ("n,,n=,r=a b", Nonce),
        ("n,,n=,r=a\0", Nonce),
        ("n,,n=,r=\u{fc}", Nonce),
        ("n,,n=,r=a\u{7f}", Nonce),
        ("n,,r=abc,n=", Malformed),
        ("n,,r=abc", Malformed),
        ("n,,n=", Malformed),
        ("n,,", Malformed),
        ("n,", Malformed),
        ("n", Malformed),
        ("", Malformed),
        ("N,,n=,r=abc", Malformed),
        (",,n=,r=abc", Malformed),
        ("nn,,n=,r=abc", Malformed),
        ("x,,n=,r=abc", Malformed),
        ("n,n=,r=abc", Malformed),
        (&long_name, TooLong),
        (&long_nonce, TooLong),
    ] {
        assert_eq!(refusal(message.as_bytes()), Some(expected), "{message:.60}");
    }
    assert_eq!(refusal(&[0xff; 1024]), Some(Malformed));
    assert_eq!(refusal(&[b','; 1024]), Some(Malformed));
    assert_eq!(refusal(&[b'n'; 1025]), Some(TooLong));
}

#[test]
fn longest_nonce_of_a_client_needs_no_more_than_the_limit() {
    let longest = "a".repeat(scram::CLIENT_MESSAGE_LEN_MAX - "n,,n=,r=".len());
    let message = format!("n,,n=,r={longest}");
    let (server, answer) = ServerExchange::start(message.as_bytes(), verifier(), &SERVER_NONCE).unwrap();
    assert!(answer.len() < scram::CLIENT_MESSAGE_LEN_MAX + 100);
    // Its last message cannot be within the limit any more; as at PostgreSQL, it only hurts itself.
    let last = format!("c=biws,r={longest}AgICAgICAgICAgICAgICAgIC,p=");
    assert_eq!(server.finish(last.as_bytes()), Err(ScramError::TooLong));
}

#[test]
fn proofs_of_odd_lengths_are_refused() {
    let start = || ServerExchange::start(b"n,,n=,r=abc", verifier(), &SERVER_NONCE).unwrap().0;
    let finish = |proof: &str| {
        let last = format!("c=biws,r=abcAgICAgICAgICAgICAgICAgIC,p={proof}");
        start().finish(last.as_bytes())
    };
    for len in (0..100).filter(|len| *len != 32) {
        let proof = Base64::encode_string(&vec![0; len]);
        assert_eq!(finish(&proof), Err(ScramError::Malformed), "{len} bytes");
    }
    // A proof of nothing but zeros or ones is just wrong.
    for byte in [0, 255] {
        let proof = Base64::encode_string(&[byte; 32]);
        assert_eq!(finish(&proof), Err(ScramError::WrongProof));
    }
    let unpadded = "A".repeat(43);
    let not_canonical = format!("{}B=", "A".repeat(42));
    let not_base64 = format!("{}-A=", "A".repeat(41));
    for proof in [&unpadded, &not_canonical, &not_base64] {
        assert_eq!(finish(proof), Err(ScramError::Malformed), "{proof}");
    }
    let long = "A".repeat(64 << 10);
    assert_eq!(finish(&long), Err(ScramError::TooLong));
}

/// A stolen verifier must not be enough: its StoredKey, taken for a ClientKey, proves nothing.
#[test]
fn verifier_is_not_a_key() {
    let stolen = verifier();
    for client_key in [*stolen.stored_key(), *stolen.server_key(), [0; 32]] {
        let keys = Keys::from_verifier(&stolen, client_key);
        let (mut client, first) = ClientExchange::start(&[1; 18]);
        let (server, answer) = ServerExchange::start(&first, verifier(), &SERVER_NONCE).unwrap();
        client.challenge(&answer).unwrap();
        let last = client.respond(&keys).unwrap();
        assert_eq!(server.finish(&last), Err(ScramError::WrongProof));
    }
}

/// What a client says to one exchange must be worth nothing in the next, which has another nonce of ours.
#[test]
fn replay_is_refused() {
    let (mut client, first) = ClientExchange::start(&[1; 18]);
    let (server, answer) = ServerExchange::start(&first, verifier(), &SERVER_NONCE).unwrap();
    client.challenge(&answer).unwrap();
    let last = client.respond(&Keys::derive(PASSWORD, SALT, 8)).unwrap();
    server.finish(&last).unwrap();
    let (server, _) = ServerExchange::start(&first, verifier(), &[3; 18]).unwrap();
    assert_eq!(server.finish(&last), Err(ScramError::OtherNonce));
}

const OURS: &str = "AQEBAQEBAQEBAQEBAQEBAQEB";

/// What we say to a server's first message.
fn challenged(server_first: &str) -> Result<(usize, u32), ScramError> {
    let (mut client, _) = ClientExchange::start(&[1; 18]);
    let challenge = client.challenge(server_first.as_bytes())?;
    Ok((challenge.salt.len(), challenge.iterations))
}

#[test]
fn nonces_of_servers_are_bounded() {
    let with = |nonce: &str| challenged(&format!("r={nonce},s=AAAA,i=4096"));
    let padded = |len: usize| format!("{OURS}{}", "x".repeat(len - OURS.len()));
    assert_eq!(with(&padded(OURS.len() + 1)), Ok((3, 4096)));
    assert_eq!(with(&padded(1024)), Ok((3, 4096)));
    assert_eq!(with(&padded(1025)), Err(ScramError::Nonce));
    assert_eq!(with(&padded(64 << 10)), Err(ScramError::TooLong));
    assert_eq!(with(OURS), Err(ScramError::OtherNonce), "nothing of its own");
    assert_eq!(with(""), Err(ScramError::Nonce));
    assert_eq!(with(&OURS[1..]), Err(ScramError::OtherNonce));
    assert_eq!(with(&format!("x{OURS}")), Err(ScramError::OtherNonce));
    assert_eq!(with(&format!("{OURS} ")), Err(ScramError::Nonce));
    assert_eq!(with(&format!("{OURS}\n")), Err(ScramError::Nonce));
    assert_eq!(with(&format!("{OURS}\u{e9}")), Err(ScramError::Nonce));
    assert_eq!(with(&OURS.to_lowercase()), Err(ScramError::OtherNonce));
}

#[test]
fn iterations_of_servers_are_bounded() {
    let with = |iterations: &str| challenged(&format!("r={OURS}x,s=AAAA,i={iterations}"));
    assert_eq!(with("1"), Ok((3, 1)));
    assert_eq!(with("1000000"), Ok((3, scram::ITERATIONS_MAX)));
    let refused = [
        "0",
        "00",
        "1000001",
        "50000000",
        "2147483647",
        "4294967295",
        "4294967296",
        "4294967297",
        "18446744073709551617",
        "-1",
        "+1",
        " 1",
        "1 ",
        "",
        "0x10",
        "1e3",
        "4096.0",
        "\u{664}",
    ];
    for iterations in refused {
        assert_eq!(with(iterations), Err(ScramError::Iterations), "{iterations:?}");
    }
    let digits = "9".repeat(3000);
    assert_eq!(with(&digits), Err(ScramError::Iterations));
}

#[test]
fn salts_of_servers_are_bounded() {
    let with = |salt: &str| challenged(&format!("r={OURS}x,s={salt},i=4096"));
    let of_len = |len: usize| with(&Base64::encode_string(&vec![7; len]));
    for len in [1, 2, 3, 16, 1023, 1024] {
        assert_eq!(of_len(len), Ok((len, 4096)));
    }
    for len in [0, 1025, 1026, 1027, 2000] {
        assert_eq!(of_len(len), Err(ScramError::Salt), "{len} bytes");
    }
    for salt in ["=", "====", "AAA", "AA==A", "A===", "AB==", "AA=", "A A=", "AAA-", "\0\0\0\0", "\u{e9}\u{e9}"] {
        assert_eq!(with(salt), Err(ScramError::Salt), "{salt:?}");
    }
}

#[test]
fn shapes_of_server_first_are_refused() {
    use ScramError::*;
    for (message, expected) in [
        ("", Malformed),
        ("r=", Nonce),
        ("{}", Malformed),
        ("r={}x", Malformed),
        ("r={}x,s=AAAA", Malformed),
        ("r={}x,i=4096,s=AAAA", Malformed),
        ("s=AAAA,r={}x,i=4096", Malformed),
        ("r={}x,s=AAAA,i=4096,", Malformed),
        // libpq refuses extensions here, so no PostgreSQL sends them.
        ("r={}x,s=AAAA,i=4096,x=1", Malformed),
        ("m=must,r={}x,s=AAAA,i=4096", Extension),
        ("r={}x,m=must,s=AAAA,i=4096", Extension),
        ("e=other-error", Malformed),
        ("r={}x\0,s=AAAA,i=4096", Nonce),
        ("r={}x,s=AAAA,i=4096\0", Iterations),
    ] {
        let message = message.replace("{}", OURS);
        assert_eq!(challenged(&message), Err(expected), "{message}");
    }
}

/// A server that does not know the user's keys, and says whatever it likes at the end.
#[test]
fn servers_without_the_keys_are_not_believed() {
    use ScramError::*;
    let (mut client, first) = ClientExchange::start(&[1; 18]);
    let (_, answer) = ServerExchange::start(&first, verifier(), &SERVER_NONCE).unwrap();
    client.challenge(&answer).unwrap();
    let last = client.respond(&Keys::derive(PASSWORD, SALT, 8)).unwrap();
    // It may know the StoredKey, out of a stolen verifier, and what we just sent it; both are of no use.
    let transcript = [&first[3..], b",", &answer, b",", &last[..last.len() - 47]].concat();
    let by_stored_key = hmac(verifier().stored_key(), &transcript);
    let ours_again = String::from_utf8(last[last.len() - 44..].to_vec()).unwrap();
    let right = Base64::encode_string(&hmac(verifier().server_key(), &transcript));
    let long = format!("v={}", "A".repeat(64 << 10));
    for (message, expected) in [
        (format!("v={}", Base64::encode_string(&by_stored_key)), WrongSignature),
        (format!("v={ours_again}"), WrongSignature),
        (format!("v={}", Base64::encode_string(&[0; 32])), WrongSignature),
        (format!("v={}", Base64::encode_string(&[0; 31])), Malformed),
        (format!("v={}", Base64::encode_string(&[0; 33])), Malformed),
        (format!("v={right},"), Malformed),
        (format!("v={right},x=1"), Malformed),
        (format!("v={right}\0"), Malformed),
        (format!("V={right}"), Malformed),
        (format!("e=x,v={right}"), Refused),
        ("e=invalid-proof".to_owned(), Refused),
        ("e=".to_owned(), Refused),
        ("m=must".to_owned(), Extension),
        ("v=".to_owned(), Malformed),
        ("".to_owned(), Malformed),
        (long, TooLong),
    ] {
        assert_eq!(client.verify(message.as_bytes()), Err(expected), "{message:.60}");
    }
    assert_eq!(client.verify(format!("v={right}").as_bytes()), Ok(()));
}

#[test]
fn verifiers_in_odd_forms_are_none() {
    let key = Base64::encode_string(&[1; 32]);
    let other = Base64::encode_string(&[1; 31]);
    let fit = format!("SCRAM-SHA-256$4096:AAAA${key}:{key}");
    assert!(Verifier::parse(&fit).is_some());
    let long_salt = Base64::encode_string(&[0; 1025]);
    for text in [
        format!("scram-sha-256$4096:AAAA${key}:{key}"),
        format!("SCRAM-SHA-256-PLUS$4096:AAAA${key}:{key}"),
        format!("SCRAM-SHA-512$4096:AAAA${key}:{key}"),
        format!(" {fit}"),
        format!("{fit} "),
        format!("{fit}:"),
        format!("{fit}$"),
        format!("SCRAM-SHA-256$0:AAAA${key}:{key}"),
        format!("SCRAM-SHA-256$-1:AAAA${key}:{key}"),
        format!("SCRAM-SHA-256$+1:AAAA${key}:{key}"),
        format!("SCRAM-SHA-256$:AAAA${key}:{key}"),
        format!("SCRAM-SHA-256$2147483648:AAAA${key}:{key}"),
        format!("SCRAM-SHA-256$4096:${key}:{key}"),
        format!("SCRAM-SHA-256$4096:AAA${key}:{key}"),
        format!("SCRAM-SHA-256$4096:{long_salt}${key}:{key}"),
        format!("SCRAM-SHA-256$4096:AAAA${key}"),
        format!("SCRAM-SHA-256$4096:AAAA${key}:"),
        format!("SCRAM-SHA-256$4096:AAAA${other}:{key}"),
        format!("SCRAM-SHA-256$4096:AAAA${key}:{other}"),
        format!("SCRAM-SHA-256$4096${key}:{key}"),
    ] {
        assert_eq!(Verifier::parse(&text), None, "{text}");
    }
    for len in 0..fit.len() {
        assert_eq!(Verifier::parse(&fit[..len]), None, "{len}");
    }
}
