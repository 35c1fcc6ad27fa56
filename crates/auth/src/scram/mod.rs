//! SCRAM-SHA-256 as PostgreSQL speaks it: RFC 5802 and RFC 7677, with and without channel binding.
//!
//! ```text
//!   client                                                   server
//!     n,,n=,r=CNONCE                     ── client-first ──▶
//!                         ◀── server-first ──  r=CNONCE SNONCE,s=SALT,i=ITERATIONS
//!     c=biws,r=CNONCE SNONCE,p=PROOF     ── client-final ──▶
//!                         ◀── server-final ──  v=SIGNATURE
//!
//!   SaltedPassword = PBKDF2(password, salt, iterations)          slow, all else is fast
//!   ClientKey = HMAC(SaltedPassword, "Client Key")               StoredKey = SHA-256(ClientKey)
//!   ServerKey = HMAC(SaltedPassword, "Server Key")
//!   AuthMessage = client-first-bare , server-first , client-final-without-proof
//!   PROOF = ClientKey XOR HMAC(StoredKey, AuthMessage)           SIGNATURE = HMAC(ServerKey, AuthMessage)
//! ```
//!
//! `server` is us towards a client, `client` is us towards PostgreSQL; they mirror each other. Neither derives
//! keys: that is slow, so the caller does it elsewhere (`keys`) and hands the result in. What a client proves to
//! us contains its ClientKey, and with that and the verifier we can log in at PostgreSQL without the password.
//!
//! SCRAM-SHA-256-PLUS is the same exchange with another header and another `c=` (`binding`). The caller says whether it was
//! offered and chosen.
//= pg18 sasl-authentication#SASL-SCRAM-SHA-256
//= rfc5802#section-3
//= rfc7677#section-3

mod binding;
mod client;
mod error;
mod keys;
mod message;
mod prepare;
mod server;
#[cfg(test)]
mod tests;
mod verifier;

pub use binding::{ClientBinding, ServerBinding};
pub use client::{Challenge, ClientExchange};
pub use error::{BindingType, ScramError};
pub use keys::Keys;
pub use server::{ServerDone, ServerExchange};
pub use verifier::{Mock, MockSeed, Verifier};

pub use crate::same;

/// The mechanism without channel binding.
pub const MECHANISM: &str = "SCRAM-SHA-256";

/// The mechanism with channel binding, for exchanges inside TLS.
pub const MECHANISM_PLUS: &str = "SCRAM-SHA-256-PLUS";

/// How many rounds a verifier we make has; PostgreSQL's default.
//= pg18 runtime-config-connection#GUC-SCRAM-ITERATIONS
pub const ITERATIONS: u32 = 4096;

/// The largest number of iterations that is computed. A server that asks for two thousand million would otherwise hold
/// a thread for minutes; a million is a good tenth of a second and 60 times what is recommended.
pub const ITERATIONS_MAX: u32 = 1_000_000;

/// Bytes of randomness in a nonce, before base64; what PostgreSQL uses.
pub const NONCE_LEN: usize = 18;

/// Bytes of salt in a verifier we make; what PostgreSQL uses.
pub const SALT_LEN: usize = 16;

/// The longest salt we take from a server or a verifier, in bytes, before base64.
pub const SALT_LEN_MAX: usize = 1024;

/// The longest nonce we take from a server, ours included, in bytes. PostgreSQL's has 48.
pub const NONCE_LEN_MAX: usize = 1024;

/// The longest message we take from a client, in bytes; as PostgreSQL's own limit. It bounds names and nonces too.
pub const CLIENT_MESSAGE_LEN_MAX: usize = 1024;

/// The longest message we take from a server, in bytes: the longest nonce and salt fit.
pub const SERVER_MESSAGE_LEN_MAX: usize = 4096;

const _: () = assert!(ITERATIONS <= ITERATIONS_MAX);
const _: () = assert!(SALT_LEN <= SALT_LEN_MAX);
const _: () = assert!(NONCE_LEN_MAX + SALT_LEN_MAX * 4 / 3 + 64 <= SERVER_MESSAGE_LEN_MAX);
