//! Options of TCP sockets. Accepted sockets inherit them from the listener, which saves system calls for each client.

use std::io;

use socket2::{Socket, TcpKeepalive};

use crate::options::TcpOptions;

/// Sets the options that clients' and servers' sockets share.
///
/// # Errors
/// The kernel's, for a value it does not take.
pub(crate) fn set(socket: &Socket, options: &TcpOptions) -> io::Result<()> {
    // Whole answers are written at once, so Nagle's algorithm would only delay them.
    socket.set_tcp_nodelay(true)?;
    if options.keepalive {
        socket.set_keepalive(true)?;
        let mut keepalive = TcpKeepalive::new();
        if let Some(idle) = options.keepalive_idle {
            keepalive = keepalive.with_time(idle);
        }
        if let Some(interval) = options.keepalive_interval {
            keepalive = keepalive.with_interval(interval);
        }
        if let Some(count) = options.keepalive_count {
            keepalive = keepalive.with_retries(count);
        }
        socket.set_tcp_keepalive(&keepalive)?;
    }
    if let Some(timeout) = options.user_timeout {
        socket.set_tcp_user_timeout(Some(timeout))?;
    }
    if let Some(len) = options.buffer_len {
        socket.set_send_buffer_size(len)?;
        socket.set_recv_buffer_size(len)?;
    }
    Ok(())
}
