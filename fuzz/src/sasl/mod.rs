//! SASL with a stranger at the other end: SCRAM-SHA-256 with and without channel binding, and OAUTHBEARER.
//!
//! `server.rs` and `client.rs` are a target each, for our end. A script is a choice, a message behind its length, and the next
//! message; a byte 1 in the messages of SCRAM stands for the nonce that our end has made.

pub mod client;
pub mod server;

use auth::Keys;

/// In the fuzzer's messages, stands for the nonce that the other end made.
const THEIR_NONCE: u8 = 1;

/// The hash of a certificate to bind to.
const HASH: [u8; 32] = [0xa5; 32];

/// Keys of which the fuzzer knows nothing.
fn keys() -> Keys {
    Keys { client_key: [0x5a; 32], server_key: [0xc3; 32] }
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
