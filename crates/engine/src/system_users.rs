//! Names of system users, which `peer` compares with those of database users.
//!
//! The system may ask a directory for them, so a name is asked for once between two reloads, and only where some method needs
//! it. That the directory could not be asked is no answer: the user's next connection asks again.
//!
//! Blocks the door's thread for as long as the system takes: a door knows its client's name before it reads from it, and
//! the accept that asks has nothing to wait with. Where the system's users are in a directory, a cache of the system's
//! (nscd, sssd) bounds it. A static program knows the users of /etc/passwd only.

use std::fs;
use std::sync::Arc;

use nix::errno::Errno;
use nix::unistd::{Uid, User};

/// The name of a system user; `None`: the number has none.
///
/// # Errors
/// The system cannot tell.
pub fn name(uid: u32) -> nix::Result<Option<Arc<str>>> {
    // What glibc loads for nsswitch.conf has to be of its own version, and a static program runs on systems with another one.
    if cfg!(target_feature = "crt-static") {
        let passwd = fs::read_to_string("/etc/passwd").map_err(|_| Errno::EIO)?;
        return Ok(name_in(&passwd, uid));
    }
    name_of(User::from_uid(Uid::from_raw(uid)))
}

/// In passwd(5).
fn name_in(passwd: &str, uid: u32) -> Option<Arc<str>> {
    let line = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?.to_owned();
        let number: u32 = fields.nth(1)?.parse().ok()?;
        (number == uid).then(|| name.into())
    };
    passwd.lines().find_map(line)
}

/// Only a look-up that has come to its end says that there is no such user. Some systems say ENOENT for that, and glibc says it
/// where a service cannot be reached; to ask once more costs less than to shut somebody out.
fn name_of(found: nix::Result<Option<User>>) -> nix::Result<Option<Arc<str>>> {
    found.map(|user| user.map(|user| user.name.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_with_the_number_has_the_name() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nodd\nann:x:1000:1000::/:/bin/sh\nbob:x:1000:1000::/:/bin/sh\n";
        assert_eq!(name_in(passwd, 1000).as_deref(), Some("ann"));
        assert_eq!(name_in(passwd, 7), None);
    }

    #[test]
    fn what_cannot_be_told_is_no_answer() {
        assert_eq!(name_of(Ok(None)), Ok(None));
        for error in [Errno::EIO, Errno::EMFILE, Errno::ENOENT, Errno::EAGAIN] {
            assert_eq!(name_of(Err(error)), Err(error));
        }
        assert_eq!(name(0), Ok(Some("root".into())));
    }
}
