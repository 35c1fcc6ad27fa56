//! Password exchanges as state machines: SCRAM-SHA-256, md5, plain, on both sides. Secrets are arguments.
//!
//! ```text
//!   secret.rs   what auth_file or a lookup holds for a user
//!   verify.rs   a clear or md5 password against any secret
//!   mark.rs     what tells two proofs of a password apart
//!   md5.rs      the md5 answer, both to check and to give
//!   bearer.rs   OAUTHBEARER: the messages that show a token
//!   scram/      SCRAM-SHA-256 and -PLUS: keys, verifier, server side, client side
//! ```
//!
//! The crate promises: the same arguments give the same result (no clock, no randomness, no I/O: nonces,
//! salts and seeds are arguments); no input makes it panic; comparisons of secrets take constant time;
//! nothing secret is printed by `Debug`, and secrets it holds are wiped when dropped.
//!
//! It deliberately does not do: the hash of a certificate that SCRAM-SHA-256-PLUS binds to (`tls` does), message framing (`wire` does), deciding which
//! method a client must use, or hiding how long a slow hash takes. What is slow says so; run it off the event loop.

pub mod bearer;
mod mark;
pub mod md5;
mod moved;
pub mod scram;
pub mod secret;
pub mod verify;

pub use mark::Mark;
pub use md5::Md5Hash;
pub use scram::{
    Challenge, ClientBinding, ClientExchange, Keys, Mock, MockSeed, ScramError, ServerBinding, ServerDone,
    ServerExchange, Verifier,
};
pub use secret::{Password, Secret};
pub use verify::{verify_md5, verify_plain};

use subtle::ConstantTimeEq;

/// Compares in constant time for a given length; only a difference in length shows.
pub fn same(a: &[u8], b: &[u8]) -> bool {
    a.ct_eq(b).into()
}
