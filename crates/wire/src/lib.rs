//! PostgreSQL's protocol 3: bytes to messages and back.
//!
//! Pure: no sockets, no clock, no globals, no dependency. Decoding allocates nothing and borrows from the bytes it is
//! given; encoding appends to a `Vec` of the caller's. Whatever the bytes are, decoding ends in a value or an [`Error`],
//! never in a panic, and nothing is allocated because a length says so.
//!
//! # How a message is framed
//!
//! ```text
//!            ┌─────┬───────────────┬──────────────────────────┐
//!  message   │ tag │ length, int32 │ body                     │
//!            └─────┴───────────────┴──────────────────────────┘
//!               1          4          length - 4 bytes
//!            └──── HEADER_LEN ────┘
//!                  └─────── counted by `length` ──────────────┘
//!
//!            ┌───────────────┬──────────────┬─────────────────┐
//!  startup   │ length, int32 │ code, int32  │ body            │   no tag: these come before the protocol is agreed
//!            └───────────────┴──────────────┴─────────────────┘
//! ```
//!
//! Integers are big-endian, strings end with a NUL byte (`//= pg18 protocol-message-types`).
//!
//! # Where to look
//!
//! * [`Header`] finds the borders of messages from five bytes; [`message`] writes a whole one.
//! * [`frontend`]: what a client sends. [`frontend::parse_startup`] reads the first packets, which carry no tag.
//! * [`backend`]: what a server sends.
//! * [`proxy_header`]: what a proxy sends before that, if it says for whom it speaks.
//! * [`sqlstate`]: the error codes we send or must recognise.
//!
//! A decoder is given the body, that is what follows the header: the caller has the header already, since it decides by
//! it whether the body must be read at all. DataRow, CopyData and the parameters of Bind pass by length only; their
//! decoders exist for tests, benchmarks and our own queries.
//!
//! # What it does not do
//!
//! It does not say whether a message is allowed now: that is the session's business. It knows no SQL. Character sets are
//! not its concern, so strings are bytes; only what we write ourselves is `&str`.
//!
//! ```
//! use wire::{HEADER_LEN, Header, frontend};
//!
//! let mut bytes = Vec::new();
//! frontend::Query { text: b"select 1" }.encode(&mut bytes);
//!
//! let header = Header::parse(&bytes)?.expect("five bytes are at hand");
//! assert_eq!(header.tag, frontend::tag::QUERY);
//! assert_eq!(header.total_len(), bytes.len());
//! assert_eq!(frontend::Query::decode(&bytes[HEADER_LEN..])?.text, b"select 1");
//! # Ok::<(), wire::Error>(())
//! ```

pub mod backend;
pub mod frontend;
pub mod proxy_header;
pub mod sqlstate;

#[cfg(test)]
mod check;
mod error;
mod frame;
mod reader;

pub use error::Error;
pub use frame::{HEADER_LEN, Header, cstr, message, put_cstr};
pub use sqlstate::SqlState;
