//! Options of TCP sockets. Accepted sockets inherit them from the listener, which saves system calls for each client.

use std::io;

use socket2::{Domain, Socket, TcpKeepalive, Type};

use crate::options::TcpOptions;

/// Sets them on a listener that may have had others. What they leave to the kernel gets its default again; only a size
/// of buffers, once set, stays until another is set.
///
/// # Errors
/// As [`set`].
pub(crate) fn change(socket: &Socket, options: &TcpOptions) -> io::Result<()> {
    let fresh = Socket::new(socket.domain()?, Type::STREAM, None)?;
    let mut options = options.clone();
    options.keepalive_idle.get_or_insert(fresh.tcp_keepalive_time()?);
    options.keepalive_interval.get_or_insert(fresh.tcp_keepalive_interval()?);
    options.keepalive_count.get_or_insert(fresh.tcp_keepalive_retries()?);
    socket.set_keepalive(options.keepalive)?;
    socket.set_tcp_user_timeout(options.user_timeout)?;
    set(socket, &options)
}

/// Whether the kernel takes these options: they are set on a socket that is used for nothing else.
///
/// # Errors
/// As [`set`].
pub(crate) fn check(options: &TcpOptions) -> io::Result<()> {
    set(&Socket::new(Domain::IPV4, Type::STREAM, None)?, options)
}

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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_count_that_the_kernel_refuses_is_told_before_it_is_used() {
        let of = |count| TcpOptions { keepalive: true, keepalive_count: Some(count), ..TcpOptions::default() };
        // tcp(7), MAX_TCP_KEEPCNT: 127.
        assert_eq!((check(&of(127)).is_ok(), check(&of(128)).is_ok()), (true, false));
    }

    #[test]
    fn what_is_changed_is_as_on_a_socket_that_never_had_anything_else() {
        let socket = || Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let seconds = |number| Some(Duration::from_secs(number));
        let before = TcpOptions {
            keepalive: true,
            keepalive_idle: seconds(7),
            keepalive_interval: seconds(3),
            keepalive_count: Some(2),
            user_timeout: seconds(9),
            buffer_len: None,
        };
        let plain = TcpOptions { keepalive: true, ..TcpOptions::default() };
        let shown = |socket: &Socket| {
            let timers = (socket.tcp_keepalive_time().ok(), socket.tcp_keepalive_interval().ok());
            (socket.keepalive().ok(), timers, socket.tcp_keepalive_retries().ok(), socket.tcp_user_timeout().ok())
        };
        for after in [plain, before.clone()] {
            let (changed, fresh) = (socket(), socket());
            set(&changed, &before).expect("the kernel takes them");
            change(&changed, &after).expect("the kernel takes them");
            set(&fresh, &after).expect("the kernel takes them");
            assert_eq!(shown(&changed), shown(&fresh), "{after:?}");
        }
        let (off, changed) = (TcpOptions { keepalive: false, ..TcpOptions::default() }, socket());
        set(&changed, &before).expect("the kernel takes them");
        change(&changed, &off).expect("the kernel takes them");
        assert_eq!(changed.keepalive().ok(), Some(false));
    }
}
