//! Names of system users, which `peer` compares with those of database users.
//!
//! The system may ask a directory for them and wait for it, so a name is asked for once between two reloads, and only where
//! some method needs it.

use std::sync::Arc;

use nix::unistd::{Uid, User};

/// The name of a user. `None`: the system has none, or cannot tell.
pub(crate) fn name(uid: u32) -> Option<Arc<str>> {
    let user = User::from_uid(Uid::from_raw(uid)).ok()??;
    Some(user.name.into())
}
