//! `[users]` and `[peers]`.
//!
//! An entry of `[users]` changes limits; it allows no login. One of `[peers]` says where another process of the pooler is.
//= pgbouncer config.md#section-users
//= pgbouncer config.md#section-peers

use std::sync::Arc;

use ::settings::{Key, UserSettings};

use connections::databases::Address;
use machine::peering::{PeerEntry, PeerId};

use crate::databases;
use crate::entry::{Entry, EntryReader, Parameter};
use crate::problem::{Problem, quoted};
use ::settings::value::{INT_MAX, whole};

/// These come first in the manual.
const FIRST: [&str; 4] = ["pool_mode", "pool_fidelity", "max_pinned", "stable_backend_pid"];

/// Of `[users]`: each setting that a user may have.
#[must_use]
pub fn parameters() -> Vec<Parameter> {
    let parameter = |(name, key): &(&'static str, Key)| Parameter::in_place_of(name, *key, true);
    let mut all: Vec<Parameter> = UserSettings::NAMES.iter().map(parameter).collect();
    all.sort_by_key(|parameter| FIRST.iter().position(|first| *first == parameter.name).unwrap_or(FIRST.len()));
    all
}

/// Where a peer listens unless its entry says otherwise.
const PEER_PORT: u16 = 6432;

#[rustfmt::skip]
pub const PEER_PARAMETERS: &[Parameter] = &[
    Parameter::new("host", "Address, name or socket directory of the peer."),
    Parameter::new("port", "Default: 6432."),
    Parameter::new("pool_size", "The most connections to the peer, each of which carries one cancel request. Default: default_pool_size."),
];

/// Reads one entry of `[users]`.
pub(crate) fn read(entry: &Entry, problems: &mut Vec<Problem>) -> UserSettings {
    let mut user = UserSettings::default();
    let mut parameters = EntryReader { entry, problems };
    for (key, value) in parameters.pairs() {
        match UserSettings::key(&key) {
            Some(setting) => user.set(setting, parameters.setting(&key, setting, &value).as_ref()),
            None => parameters.unknown(&key, &self::parameters()),
        }
    }
    user
}

/// Reads one entry of `[peers]`. `None`: it has a mistake.
pub(crate) fn read_peer(entry: &Entry, pool_size: u32, problems: &mut Vec<Problem>) -> Option<(PeerId, PeerEntry)> {
    let mut parameters = EntryReader { entry, problems };
    let id = whole(&entry.name).filter(|id| (1..=16383).contains(id)).and_then(|id| u16::try_from(id).ok());
    if id.is_none() {
        parameters.error("", quoted(&entry.name), "a number from 1 to 16383, the peer's peer_id");
    }
    let (mut host, mut port, mut own_size) = (String::new(), None, None);
    for (key, value) in parameters.pairs() {
        match key.as_str() {
            "host" => host = value,
            "port" => port = parameters.port(&value),
            "pool_size" => own_size = parameters.number(&key, &value, 1, INT_MAX),
            _ => parameters.unknown(&key, PEER_PARAMETERS),
        }
    }
    if host.is_empty() {
        parameters.error("host", "nothing".to_owned(), "the peer's address");
        return None;
    }
    // A list is for databases.
    let Some(host) = databases::host(&host).filter(|_| !host.contains(',')) else {
        parameters.error("host", quoted(&host), "an address, a name or a socket directory");
        return None;
    };
    let address = Arc::new(Address { host, port: port.unwrap_or(PEER_PORT) });
    Some((PeerId(id?), PeerEntry { address, pool_size: own_size.unwrap_or(pool_size) }))
}
