//! What needs the insides: RFC 7677's example, and an oracle's exchange, whose nonces are not ours to choose.

use super::keys::Keys;
use super::{Challenge, ClientBinding, ClientExchange, ServerBinding, ServerExchange, Verifier};

/// The example of RFC 7677, section 3: user "user", password "pencil".
//= rfc7677#section-3
mod example {
    pub(super) const CLIENT_NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
    pub(super) const SERVER_NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    pub(super) const CLIENT_FIRST: &[u8] = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    pub(super) const SERVER_FIRST: &[u8] = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
        s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
    pub(super) const CLIENT_FINAL: &[u8] = b"c=biws,\
        r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
        p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
    pub(super) const SERVER_FINAL: &[u8] = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
}

/// The example's salt, read with the code under test only where that is not the thing tested.
fn salt() -> Vec<u8> {
    super::message::decode(b"W22ZaJ0SNY7soEsUEjb6gQ==").unwrap()
}

#[test]
fn rfc_7677_as_client() {
    let (mut client, first) = ClientExchange::start_with(ClientBinding::Unused, "user", example::CLIENT_NONCE);
    assert_eq!(first, example::CLIENT_FIRST);
    let challenge = client.challenge(example::SERVER_FIRST).unwrap();
    let expected = Challenge { salt: salt(), iterations: 4096 };
    assert_eq!(challenge, expected);
    let keys = Keys::derive("pencil", &challenge.salt, challenge.iterations);
    assert_eq!(client.respond(&keys).unwrap(), example::CLIENT_FINAL);
    assert_eq!(client.verify(example::SERVER_FINAL), Ok(()));
}

#[test]
fn rfc_7677_as_server() {
    let verifier = Verifier::derive("pencil", &salt(), 4096);
    let keys = Keys::derive("pencil", &salt(), 4096);
    let (server, first) =
        ServerExchange::start_with(ServerBinding::NotOffered, example::CLIENT_FIRST, verifier, example::SERVER_NONCE)
            .unwrap();
    assert_eq!(first, example::SERVER_FIRST);
    let done = server.finish(example::CLIENT_FINAL).unwrap();
    assert_eq!(done.server_final, example::SERVER_FINAL);
    assert_eq!(done.client_key, keys.client_key);
}

#[test]
fn pbkdf2_of_known_answers() {
    // RFC 6070's inputs with SHA-256, the first 20 bytes.
    let table = [
        (1, "120fb6cffcf8b32c43e7225256c4f837a86548c9"),
        (2, "ae4d0c95af6b46d32d0adff928f06dd02a303f8e"),
        (4096, "c5e478d59288c841aa530db6845c4c8d962893a0"),
    ];
    for (iterations, expected) in table {
        let sum = super::keys::salted_password(b"password", b"salt", iterations);
        let text: String = sum[..20].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(text, expected, "{iterations} iterations");
    }
}

/// The oracle's client and ours say the same with the same nonce, whatever they are bound to.
#[test]
fn our_client_says_what_the_oracles_does() {
    use postgres_protocol::authentication::sasl::{ChannelBinding, ScramSha256};
    let hash = [9; 48];
    let table = [
        (ChannelBinding::unsupported(), ClientBinding::Unused, ServerBinding::NotOffered),
        (ChannelBinding::unrequested(), ClientBinding::NotOffered, ServerBinding::NotOffered),
        (
            ChannelBinding::tls_server_end_point(hash.to_vec()),
            ClientBinding::Chosen(&hash),
            ServerBinding::Chosen(&hash),
        ),
    ];
    for (theirs, ours, server) in table {
        let mut oracle = ScramSha256::new(b"pencil", theirs);
        let text = std::str::from_utf8(oracle.message()).unwrap();
        let nonce = text.split_once(",r=").unwrap().1.to_owned();
        let (mut client, first) = ClientExchange::start_with(ours, "", &nonce);
        assert_eq!(first, oracle.message());
        let verifier = Verifier::derive("pencil", &salt(), 4096);
        let (_, answer) = ServerExchange::start_in(server, &first, verifier, &[5; 18]).unwrap();
        oracle.update(&answer).unwrap();
        let challenge = client.challenge(&answer).unwrap();
        let keys = Keys::derive("pencil", &challenge.salt, challenge.iterations);
        assert_eq!(client.respond(&keys).unwrap(), oracle.message(), "{ours:?}");
    }
}
