//! Which user's process is at the other end of the socket. The kernel says so, for either side, before a byte is read.
//!
//! The socket may lie in a directory where every user can make files, as `/tmp`. A process of another user that listens there could hand over
//! sessions that it has made up, of any database user; one that connects would get everybody's secrets.

use std::os::unix::net::UnixStream;

use rustix::net::sockopt::socket_peercred;
use rustix::process::Uid;

/// # Errors
/// The other process is neither ours nor root's, in words that name its user.
pub(crate) fn check(stream: &UnixStream) -> Result<(), String> {
    let owner = socket_peercred(stream).map_err(|why| format!("cannot find out whose process it is: {why}"))?.uid;
    check_owner(owner, rustix::process::geteuid())
}

fn check_owner(owner: Uid, us: Uid) -> Result<(), String> {
    if owner == us || owner.is_root() {
        return Ok(());
    }
    Err(format!("it belongs to the user with number {}, and not to ours ({}) or root", owner.as_raw(), us.as_raw()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_user_and_root_are_believed_and_nobody_else() {
        let [root, us, stranger] = [0, 999, 1000].map(Uid::from_raw);
        assert_eq!([check_owner(us, us), check_owner(root, us)], [Ok(()), Ok(())]);
        let why = check_owner(stranger, us).expect_err("another user");
        assert!(why.contains("1000") && why.contains("999"), "{why}");
        // Root does not believe others either: it is the one with most to lose.
        assert!(check_owner(us, root).is_err());
    }
}
