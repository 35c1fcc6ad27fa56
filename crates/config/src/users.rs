//! `[users]` and `[peers]`.
//!
//! An entry of `[users]` changes limits; it allows no login. Peers are checked and then left alone: passing cancel
//! requests on to them is not supported yet.
//= pgbouncer config.md#section-users

use ::settings::{Key, UserSettings};

use crate::entry::{Entry, EntryReader, Parameter};
use crate::problem::{Problem, quoted};
use ::settings::value::whole;

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

#[rustfmt::skip]
pub const PEER_PARAMETERS: &[Parameter] = &[
    Parameter::new("host", "Address, name or socket directory of the peer."),
    Parameter::new("port", "Default: 6432."),
    Parameter::new("pool_size", "The most cancel requests on their way to the peer."),
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

/// Reads one entry of `[peers]`, for its mistakes only.
pub(crate) fn read_peer(entry: &Entry, problems: &mut Vec<Problem>) {
    let mut parameters = EntryReader { entry, problems };
    let id = whole(&entry.name).filter(|id| (1..=16383).contains(id));
    if id.is_none() {
        parameters.error("", quoted(&entry.name), "a number from 1 to 16383, the peer's peer_id");
    }
    let mut has_host = false;
    for (key, value) in parameters.pairs() {
        match key.as_str() {
            "host" => has_host = !value.is_empty(),
            "port" => drop(parameters.port(&value)),
            "pool_size" => drop(parameters.count(&key, &value)),
            _ => parameters.unknown(&key, PEER_PARAMETERS),
        }
    }
    if !has_host {
        parameters.error("host", "nothing".to_owned(), "the peer's address");
    }
}
