//! Names of system users, which `peer` compares with those of database users.
//!
//! The system may ask a directory for them, so a name is asked for once between two reloads, and only where some method needs
//! it. That the directory could not be asked is no answer: the user's next connection asks again.
//!
//! Blocks the door's thread for as long as the system takes: a door knows its client's name before it reads from it, and
//! the accept that asks has nothing to wait with. Where the system's users are in a directory, a cache of the system's
//! (nscd, sssd) bounds it.

use std::sync::Arc;

use nix::unistd::{Uid, User};

/// What the system says of a user: its name, or that it has none. The error: it cannot tell.
pub(crate) fn name(uid: u32) -> nix::Result<Option<Arc<str>>> {
    name_of(User::from_uid(Uid::from_raw(uid)))
}

/// Only a look-up that has come to its end says that there is no such user. Some systems say ENOENT for that, and glibc says it
/// where a service cannot be reached; to ask once more costs less than to shut somebody out.
fn name_of(found: nix::Result<Option<User>>) -> nix::Result<Option<Arc<str>>> {
    found.map(|user| user.map(|user| user.name.into()))
}

#[cfg(test)]
mod tests {
    use nix::errno::Errno;

    use super::*;

    #[test]
    fn what_cannot_be_told_is_no_answer() {
        assert_eq!(name_of(Ok(None)), Ok(None));
        for error in [Errno::EIO, Errno::EMFILE, Errno::ENOENT, Errno::EAGAIN] {
            assert_eq!(name_of(Err(error)), Err(error));
        }
        assert_eq!(name(0), Ok(Some("root".into())));
    }
}
