//! The client's side of PostgreSQL's protocol 3, for tools and tests.
//!
//! ```text
//!   place ──► connection   blocks: sends what a caller likes, reads messages or whole answers
//!             frames       bytes to messages, for loads that hold thousands of clients in one thread
//!             message      what a client sends, what a server's messages say
//! ```
//!
//! Promises: shares nothing with pgweir's own `wire`, so that what `wire` gets wrong cannot cancel out in a test or a measurement; allocates
//! nothing on a length's say-so.
//! Does not know passwords: [`Login`] is for whoever has some. Does not check that a message is in its place.

mod connection;
mod frames;
mod message;
mod place;

pub use connection::{Answer, Connection, Gone, Login, ServerError, Trusted};
pub use frames::{Frames, put};
pub use message::{Message, frontend, refusal, text};
pub use place::{Place, Stream};
