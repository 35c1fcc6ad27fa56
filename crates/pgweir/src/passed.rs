//! Sockets that the service manager has opened for us: LISTEN_FDS descriptors from 3 on, if LISTEN_PID is us.
//!
//! No `unsafe` of our own: listenfd looks at a descriptor before it takes it, and takes each once.

use std::os::fd::OwnedFd;

use listenfd::ListenFd;

/// Takes them. This must happen while there is one thread, since the environment forgets them then.
///
/// # Errors
/// A descriptor that is no stream socket of TCP or Unix.
pub(crate) fn take() -> Result<Vec<OwnedFd>, String> {
    let mut passed = ListenFd::from_env();
    (0..passed.len()).map(|index| one(&mut passed, index)).collect()
}

fn one(passed: &mut ListenFd, index: usize) -> Result<OwnedFd, String> {
    if let Ok(Some(tcp)) = passed.take_tcp_listener(index) {
        return Ok(tcp.into());
    }
    match passed.take_unix_listener(index) {
        Ok(Some(unix)) => Ok(unix.into()),
        _ => Err(format!("socket {index} passed from service manager is not a stream socket of TCP or Unix")),
    }
}

/// Are there any?
pub(crate) fn is_any() -> bool {
    std::env::var_os("LISTEN_FDS").is_some_and(|count| count != "0" && !count.is_empty())
}
