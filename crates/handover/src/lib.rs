//! Online upgrade: a running process hands its listeners, clients and servers to another one, over a Unix socket between the two.
//!
//! ```text
//!   running process ([`predecessor`])                new process ([`successor`])
//!                          ◄──────────────── Hello
//!     may it?              Welcome ────────────────► listening sockets, clock, key of names, orders: it starts, and accepts nobody yet
//!     stops accepting      ◄──────────────── Started
//!     Begun: what is here  ────────────────────────► counts it, and accepts
//!     sessions, servers    ────────────────────────► serves them
//!     asks for servers     ◄───────────────────────► answers          for whoever cannot move
//!     ends, when nobody is left
//! ```
//!
//! Until `Started` nothing has happened to the running process: if the new one does not start, it goes on. If the new one ends later, the
//! running one accepts again and keeps who is left; it kills the new one before, should that still live. So there are never two processes
//! that serve without knowing of each other. In a chain of upgrades the one in the middle tells the first that it has a successor (`HasSuccessor`): if
//! it then ends, the first one ends too.
//!
//! Either process speaks only with one of the same user or of root ([`peer`]): the new one gets everybody's secrets, and believes who is logged in.
//! What is said is in MessagePack with the names of fields; [`FORMAT`] counts the changes of its meaning, and two processes that do not agree on it refuse
//! before anything has happened.

mod descriptors;
mod frame;
mod peer;
pub mod predecessor;
pub mod successor;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

/// Changes with everything that makes an older or newer process read what is handed over as something else: a golden file holds what is
/// written for one session and its server.
pub const FORMAT: u32 = 4;

/// Where a process that listens in `dir` with this port can be asked to hand over. `None`: an abstract name has no directory.
#[must_use]
pub fn path(dir: &str, port: u16) -> Option<PathBuf> {
    (!dir.starts_with('@')).then(|| Path::new(dir).join(format!(".s.PGWEIR.{port}.upgrade")))
}
