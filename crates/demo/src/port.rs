//! A TCP port nobody listens on.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::{Mutex, PoisonError};

use crate::random::random_below;

/// Linux gives outgoing connections ports from 32768 up (`net.ipv4.ip_local_port_range`). A server's port must lie below:
/// above, a client's own socket could take it while the server restarts, and a client that keeps trying a port in that
/// range on the loopback can even connect to itself.
const LOWEST: u16 = 20_000;
const PAST_HIGHEST: u16 = 32_768;

/// The ports that this process has been given, each with what keeps it from other processes.
static OURS: Mutex<BTreeMap<u16, UnixListener>> = Mutex::new(BTreeMap::new());

/// A port that was free on the loopback a moment ago, outside the range of outgoing connections. Until this process ends,
/// nobody else is given it by this function, in this process or another one.
///
/// A program that picks its ports otherwise may still take it before you do: be ready to ask again.
///
/// # Panics
/// If a thousand ports in a row are taken: such a machine has no room for a server.
#[must_use]
pub fn free_port() -> u16 {
    let mut ours = OURS.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..1000 {
        let port = LOWEST + random_below(PAST_HIGHEST - LOWEST);
        if ours.contains_key(&port) {
            continue;
        }
        let Some(held) = reserve(port) else { continue };
        if is_free(port) {
            ours.insert(port, held);
            return port;
        }
    }
    panic!("a thousand ports in a row are taken");
}

/// Binds an abstract Unix socket whose name contains the port. The kernel releases it when the process ends, however it ends.
/// Abstract names have no files, and belong to the network namespace, as ports do. `None`: another process has it.
fn reserve(port: u16) -> Option<UnixListener> {
    let name = SocketAddr::from_abstract_name(format!("pgweir-port-{port}")).expect("the name is short");
    UnixListener::bind_addr(&name).ok()
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

    #[test]
    fn a_port_is_given_once() {
        let port = free_port();
        assert!(reserve(port).is_none(), "another process would not get it");
        let more: Vec<u16> = (0..200).map(|_| free_port()).collect();
        assert!(!more.contains(&port));
        let different: std::collections::BTreeSet<&u16> = more.iter().collect();
        assert_eq!(different.len(), more.len());
    }
}
