//! Asks others by HTTP and HTTPS, on `ureq`: providers of keys, collectors of traces, Patroni.
//!
//! Promises that a request goes to its URL only (no redirect is followed, no proxy is used), that it takes no longer than its time limit, that no
//! more of an answer is read than its limit, and that a server of HTTPS has a certificate that a CA of the system, or of a given file, has
//! signed. It blocks: it is for threads that may wait. Whoever asks again and again keeps the [`Client`], and so connections that the server
//! keeps open. Does not read what the answer means.

mod client;
mod trust;

pub use client::{Answer, Client, Encryption, Failure, Identity};
pub use trust::{certificates, provider};
