//! Channel binding, both sides: who binds to what, and what each side says of mistakes.

#![allow(clippy::unwrap_used, reason = "clippy sees only the functions marked as tests as such")]

use auth::{ClientBinding, ClientExchange, Keys, ScramError, ServerBinding, ServerDone, ServerExchange, Verifier};
use base64ct::{Base64, Encoding};
use hmac::{Hmac, KeyInit, Mac};
use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};
use sha2::Sha256;

const PASSWORD: &str = "correct horse";
const SALT: &[u8] = b"0123456789abcdef";
const HASH: &[u8] = &[0xa5; 32];
/// The hash of a certificate signed with SHA-384.
const LONG_HASH: &[u8] = &[0x5a; 48];

fn verifier() -> Verifier {
    Verifier::derive(PASSWORD, SALT, 8)
}

/// Our client at our server.
fn login(client: ClientBinding<'_>, server: ServerBinding<'_>) -> Result<bool, ScramError> {
    let (mut ours, first) = ClientExchange::start_in(client, &[1; 18]);
    let (exchange, answer) = ServerExchange::start_in(server, &first, verifier(), &[2; 18])?;
    let challenge = ours.challenge(&answer)?;
    let last = ours.respond(&Keys::derive(PASSWORD, &challenge.salt, challenge.iterations))?;
    exchange.check(&last)?;
    let done = exchange.finish(&last)?;
    ours.verify(&done.server_final)?;
    Ok(ours.is_bound())
}

#[test]
fn each_client_at_each_server() {
    use ClientBinding as Client;
    use ServerBinding as Server;
    let other: &[u8] = &[0xa4; 32];
    let table = [
        (Client::Unused, Server::NotOffered, Ok(false)),
        (Client::Unused, Server::Declined, Ok(false)),
        (Client::Unused, Server::Chosen(HASH), Err(ScramError::ChannelBinding)),
        (Client::NotOffered, Server::NotOffered, Ok(false)),
        (Client::NotOffered, Server::Declined, Err(ScramError::Downgrade)),
        (Client::NotOffered, Server::Chosen(HASH), Err(ScramError::ChannelBinding)),
        (Client::Chosen(HASH), Server::NotOffered, Err(ScramError::ChannelBinding)),
        (Client::Chosen(HASH), Server::Declined, Err(ScramError::ChannelBinding)),
        (Client::Chosen(HASH), Server::Chosen(HASH), Ok(true)),
        (Client::Chosen(LONG_HASH), Server::Chosen(LONG_HASH), Ok(true)),
        (Client::Chosen(other), Server::Chosen(HASH), Err(ScramError::OtherCertificate)),
        (Client::Chosen(LONG_HASH), Server::Chosen(HASH), Err(ScramError::OtherCertificate)),
        (Client::Chosen(&HASH[..31]), Server::Chosen(HASH), Err(ScramError::OtherCertificate)),
        (Client::Chosen(b""), Server::Chosen(HASH), Err(ScramError::OtherCertificate)),
    ];
    for (client, server, expected) in table {
        assert_eq!(login(client, server), expected, "{client:?} {server:?}");
    }
}

#[test]
fn client_of_the_oracle_binds_to_our_server() {
    for hash in [HASH, LONG_HASH, &[7; 64]] {
        let binding = ChannelBinding::tls_server_end_point(hash.to_vec());
        let mut client = ScramSha256::new(PASSWORD.as_bytes(), binding);
        let chosen = ServerBinding::Chosen(hash);
        let (server, first) = ServerExchange::start_in(chosen, client.message(), verifier(), &[7; 18]).unwrap();
        client.update(&first).unwrap();
        let done = server.finish(client.message()).unwrap();
        client.finish(&done.server_final).unwrap();
    }
}

#[test]
fn client_of_the_oracle_is_refused_where_it_has_seen_another_certificate_or_no_offer() {
    let start = |binding: ChannelBinding, server: ServerBinding<'_>| {
        let mut client = ScramSha256::new(PASSWORD.as_bytes(), binding);
        let (exchange, first) = ServerExchange::start_in(server, client.message(), verifier(), &[7; 18])?;
        client.update(&first).unwrap();
        exchange.check(client.message())?;
        exchange.finish(client.message()).map(|_| ())
    };
    let bound = |hash: &[u8]| ChannelBinding::tls_server_end_point(hash.to_vec());
    let chosen = ServerBinding::Chosen(HASH);
    assert_eq!(start(bound(HASH), chosen), Ok(()));
    assert_eq!(start(bound(LONG_HASH), chosen), Err(ScramError::OtherCertificate));
    assert_eq!(start(bound(b""), chosen), Err(ScramError::OtherCertificate));
    assert_eq!(start(bound(HASH), ServerBinding::Declined), Err(ScramError::ChannelBinding));
    assert_eq!(start(ChannelBinding::unrequested(), ServerBinding::Declined), Err(ScramError::Downgrade));
    assert_eq!(start(ChannelBinding::unsupported(), ServerBinding::Declined), Ok(()));
    assert_eq!(start(ChannelBinding::unsupported(), chosen), Err(ScramError::ChannelBinding));
}

/// What PostgreSQL 15 says to each beginning of client-first, by what was chosen.
#[test]
fn gs2_headers() {
    let malformed = "malformed SCRAM message";
    let downgrade = "SCRAM channel binding negotiation error";
    let identity = "client uses authorization identity, but it is not supported";
    let unknown = |name: &str| format!("unsupported SCRAM channel-binding type \"{name}\"");
    // The header; then SCRAM-SHA-256 without an offer of -PLUS, with one; then -PLUS.
    let table: &[(&[u8], [&str; 3])] = &[
        (b"n,,", ["", "", malformed]),
        (b"y,,", ["", downgrade, malformed]),
        (b"p=tls-server-end-point,,", [malformed, malformed, ""]),
        (b"p=tls-unique,,", [malformed, malformed, &unknown("tls-unique")]),
        (b"p=tls-exporter,,", [malformed, malformed, &unknown("tls-exporter")]),
        (b"p=,,", [malformed, malformed, &unknown("")]),
        (b"p=TLS-SERVER-END-POINT,,", [malformed, malformed, &unknown("TLS-SERVER-END-POINT")]),
        (b"p=tls-server-end-point ,,", [malformed, malformed, &unknown("tls-server-end-point?")]),
        (b"p=tls-server-end-poin,,", [malformed, malformed, &unknown("tls-server-end-poin")]),
        (b"p=a\xffb\tc,,", [malformed, malformed, &unknown("a?b?c")]),
        (&[b"p=", &[b'x'; 99][..], b",,"].concat(), [malformed, malformed, &unknown(&"x".repeat(30))]),
        (b"p,,", [malformed; 3]),
        (b"ptls-server-end-point,,", [malformed; 3]),
        (b"P=tls-server-end-point,,", [malformed; 3]),
        (b"yes,,", [malformed; 3]),
        (b"no,,", [malformed; 3]),
        (b",,", [malformed; 3]),
        (b"z,,", [malformed; 3]),
        (b"n,a=ann,", [identity, identity, malformed]),
        (b"y,a=ann,", [identity, downgrade, malformed]),
        (b"p=tls-server-end-point,a=ann,", [malformed, malformed, identity]),
        (b"p=tls-server-end-point,x,", [malformed; 3]),
    ];
    let bindings = [ServerBinding::NotOffered, ServerBinding::Declined, ServerBinding::Chosen(HASH)];
    for (header, expected) in table {
        let message = [header, &b"n=,r=abc"[..]].concat();
        let told = bindings.map(|binding| match ServerExchange::start_in(binding, &message, verifier(), &[2; 18]) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        });
        assert_eq!(told, *expected, "{}", header.escape_ascii());
    }
}

fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(message);
    mac.finalize().into_bytes().into()
}

/// A client that knows the password, has chosen to bind, and proves the password over any `c=`.
fn proven(attribute: &str) -> Result<ServerDone, ScramError> {
    let header = "p=tls-server-end-point,,";
    let first = format!("{header}n=,r=abc");
    let chosen = ServerBinding::Chosen(HASH);
    let (server, answer) = ServerExchange::start_in(chosen, first.as_bytes(), verifier(), &[2; 18]).unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let nonce = answer.split(',').next().unwrap();
    let without_proof = format!("c={attribute},{nonce}");
    let keys = Keys::derive(PASSWORD, SALT, 8);
    let signature = hmac(&keys.stored_key(), format!("n=,r=abc,{answer},{without_proof}").as_bytes());
    let proof: Vec<u8> = signature.iter().zip(keys.client_key).map(|(a, b)| a ^ b).collect();
    server.finish(format!("{without_proof},p={}", Base64::encode_string(&proof)).as_bytes())
}

#[test]
fn a_right_proof_over_another_binding_is_refused() {
    let of = |header: &str, hash: &[u8]| Base64::encode_string(&[header.as_bytes(), hash].concat());
    let right = of("p=tls-server-end-point,,", HASH);
    assert!(proven(&right).is_ok());
    let refused = [
        of("p=tls-server-end-point,,", &[0xa4; 32]),
        of("p=tls-server-end-point,,", LONG_HASH),
        of("p=tls-server-end-point,,", &HASH[..31]),
        of("p=tls-server-end-point,,", &[HASH, b"x"].concat()),
        of("p=tls-server-end-point,,", b""),
        of("p=tls-unique,,", HASH),
        of("p=tls-server-end-point,a=ann,", HASH),
        of("n,,", b""),
        of("y,,", b""),
        of("", HASH),
        String::new(),
        right.trim_end_matches('=').to_owned(),
        format!("{right}="),
        right.to_lowercase(),
    ];
    for attribute in refused {
        assert_eq!(proven(&attribute), Err(ScramError::OtherCertificate), "{attribute}");
    }
}

/// One bit of the hash: each of them counts.
#[test]
fn every_bit_of_the_hash_counts() {
    for bit in 0..HASH.len() * 8 {
        let mut other = HASH.to_vec();
        other[bit / 8] ^= 1 << (bit % 8);
        let ended = login(ClientBinding::Chosen(&other), ServerBinding::Chosen(HASH));
        assert_eq!(ended, Err(ScramError::OtherCertificate), "bit {bit}");
    }
}

/// Keys that a client has proved to us log in elsewhere, whether either exchange is bound or not.
#[test]
fn keys_pass_from_a_bound_exchange_to_an_unbound_one_and_back() {
    let bindings = [(ClientBinding::Unused, ServerBinding::NotOffered), chosen(HASH), chosen(LONG_HASH)];
    for (client, server) in bindings {
        let (mut ours, first) = ClientExchange::start_in(client, &[1; 18]);
        let (exchange, answer) = ServerExchange::start_in(server, &first, verifier(), &[2; 18]).unwrap();
        ours.challenge(&answer).unwrap();
        let done = exchange.finish(&ours.respond(&Keys::derive(PASSWORD, SALT, 8)).unwrap()).unwrap();
        let keys = Keys::from_verifier(&verifier(), done.client_key);
        for (client, server) in bindings {
            let (mut ours, first) = ClientExchange::start_in(client, &[3; 18]);
            let (exchange, answer) = ServerExchange::start_in(server, &first, verifier(), &[4; 18]).unwrap();
            ours.challenge(&answer).unwrap();
            let done = exchange.finish(&ours.respond(&keys).unwrap()).unwrap();
            assert_eq!(ours.verify(&done.server_final), Ok(()), "{client:?}");
        }
    }
}

fn chosen(hash: &[u8]) -> (ClientBinding<'_>, ServerBinding<'_>) {
    (ClientBinding::Chosen(hash), ServerBinding::Chosen(hash))
}

/// A message with one mistake is refused before a verifier is needed, so that it shows nothing of the user's secret.
#[test]
fn a_broken_last_message_needs_no_verifier() {
    let (mut client, first) = ClientExchange::start_in(ClientBinding::Chosen(HASH), &[1; 18]);
    let chosen = ServerBinding::Chosen(HASH);
    let (server, answer) =
        ServerExchange::start_in(chosen, &first, Verifier::mock(&[1; 32], b"", 8), &[2; 18]).unwrap();
    client.challenge(&answer).unwrap();
    let last = String::from_utf8(client.respond(&Keys::derive("wrong", SALT, 8)).unwrap()).unwrap();
    assert_eq!(server.check(last.as_bytes()), Ok(()), "the proof is not looked at");
    assert_eq!(server.check(last.replace("c=", "c=A").as_bytes()), Err(ScramError::OtherCertificate));
    assert_eq!(server.check(last.replace("r=", "r=A").as_bytes()), Err(ScramError::OtherNonce));
    assert_eq!(server.check(last.replace("p=", "p=A").as_bytes()), Err(ScramError::Malformed));
    assert_eq!(server.finish(last.as_bytes()), Err(ScramError::WrongProof));
}
