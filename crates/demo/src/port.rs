//! A TCP port nobody listens on.

use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};

use crate::random::random_below;

/// Linux gives outgoing connections ports from 32768 up (`net.ipv4.ip_local_port_range`). A server's port must lie below:
/// above, a client's own socket could take it while the server restarts, and a client that keeps trying a port in that
/// range on the loopback can even connect to itself.
const LOWEST: u16 = 20_000;
const PAST_HIGHEST: u16 = 32_768;

/// A port that was free on the loopback a moment ago, outside the range of outgoing connections.
///
/// Somebody may take it before you do: be ready to ask again.
///
/// # Panics
/// If a thousand ports in a row are taken: such a machine has no room for a server.
#[must_use]
pub fn free_port() -> u16 {
    (0..1000)
        .map(|_| LOWEST + random_below(PAST_HIGHEST - LOWEST))
        .find(|&port| is_free(port))
        .expect("one of a thousand ports is free")
}

fn is_free(port: u16) -> bool {
    let v6 = TcpListener::bind((Ipv6Addr::LOCALHOST, port));
    let v6_taken = v6.is_err_and(|error| error.kind() == std::io::ErrorKind::AddrInUse);
    !v6_taken && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_port_can_be_bound_and_is_then_no_longer_free() {
        let port = free_port();
        assert!((LOWEST..PAST_HIGHEST).contains(&port));
        let _held = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).expect("free a moment ago");
        assert!(!is_free(port));
    }
}
