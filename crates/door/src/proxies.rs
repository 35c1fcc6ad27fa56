//! Proxies that say which client they speak for, by the PROXY protocol.
//!
//! ```text
//!   from proxy_protocol_networks: Announcing ─► header ─► Greeting, as that client     (or refused: no header, or a broken one)
//!   from anywhere else:           Greeting, and a header is refused
//! ```
//!
//! Promises that a header is believed from these networks only, and that nobody from them is taken for a client without one: a proxy that
//! has lost its setting would else make all clients look like itself, and be let in by rules for its own address. A header of a proxy that
//! speaks for itself leaves its own address in force.

use machine::Settings;
use machine::observe::Peer;
use wire::proxy_header::{self, Client, Malformed};

use super::{Login, Phase, Refused};

/// The least of a header that no startup packet begins with.
const RECOGNISED_LEN: usize = 4;

/// What a connection from there begins with.
pub(super) fn first_phase(settings: &Settings, peer: Peer) -> Phase {
    let networks = &settings.global.network.proxy_protocol_networks;
    match peer {
        Peer::Tcp { from, .. } if networks.contain(from.ip()) => Phase::Announcing,
        Peer::Tcp { .. } | Peer::Unix { .. } => Phase::Greeting,
    }
}

/// # Errors
/// These bytes begin a header, which this connection must not send.
pub(super) fn check_is_none(front: &[u8]) -> Result<(), Refused> {
    if front.len() < RECOGNISED_LEN || !proxy_header::begins(front) {
        return Ok(());
    }
    Err(Refused::ProxyHeader)
}

/// Reads a proxy's header. False: not all of it is there.
///
/// # Errors
/// It is none.
pub(super) fn hear(login: &mut Login) -> Result<bool, Refused> {
    let found = proxy_header::parse(&login.inbox).map_err(|Malformed(why)| Refused::NoProxyHeader { why })?;
    let Some((client, used)) = found else { return Ok(false) };
    login.inbox.drain(..used);
    login.phase = Phase::Greeting;
    if let Client::Tcp { from, to } = client {
        login.peer = Peer::Tcp { from, to };
    }
    Ok(true)
}
