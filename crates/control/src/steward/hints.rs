//! PROMOTED and DEMOTED: which host of the settings somebody means. Nothing is decided here by a hint.

use std::collections::BTreeSet;
use std::net::IpAddr;

use connections::databases::Address;
use machine::Settings;
use machine::hint::is_called;

use crate::plane::KnownNames;
use crate::show_input;

/// The host that is called so: `host`, `host:port`, or `[address]:port`.
///
/// # Errors
/// None is, or several are, in words.
pub(super) fn host(settings: &Settings, called: &str, names: &KnownNames) -> Result<Address, String> {
    if called.is_empty() {
        return Err("a host is required".to_owned());
    }
    let addresses_of = |name: &str| -> Vec<IpAddr> {
        let known = names.hosts.iter().find(|known| known.name.eq_ignore_ascii_case(name));
        known.map(|known| known.addresses.clone()).unwrap_or_default()
    };
    let (name, port) = parts(called);
    let databases = settings.databases.values().chain(settings.fallback.as_ref());
    let hosts: BTreeSet<&Address> = databases.flat_map(|database| &database.hosts).collect();
    let mut found = hosts.into_iter().filter(|host| is_called(host, name, port, &addresses_of));
    let Some(first) = found.next() else { return Err(format!("no database has such a host: {called}")) };
    let others: Vec<&Address> = found.collect();
    if others.is_empty() {
        return Ok(first.clone());
    }
    let shown = |host: &Address| format!("{}:{}", show_input::host(&host.host), host.port);
    let all: Vec<String> = [first].into_iter().chain(others).map(shown).collect();
    Err(format!("several hosts are called {called}: {}", all.join(", ")))
}

/// Name and port. An address of IPv6 has its port behind brackets.
fn parts(called: &str) -> (&str, Option<u16>) {
    if let Some(address) = bracketed(called) {
        return (address, None);
    }
    let Some((name, port)) = called.rsplit_once(':') else { return (called, None) };
    let Ok(port) = port.parse::<u16>() else { return (called, None) };
    match bracketed(name) {
        Some(address) => (address, Some(port)),
        // The last group of an address without brackets is no port.
        None if name.contains(':') => (called, None),
        None => (name, Some(port)),
    }
}

fn bracketed(text: &str) -> Option<&str> {
    text.strip_prefix('[')?.strip_suffix(']')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_behind_the_last_colon() {
        let table = [
            ("db1", ("db1", None)),
            ("db1:5433", ("db1", Some(5433))),
            ("10.0.0.1:5432", ("10.0.0.1", Some(5432))),
            ("[::1]:5432", ("::1", Some(5432))),
            ("[::1]", ("::1", None)),
            ("fd00::5432", ("fd00::5432", None)),
            ("db1:port", ("db1:port", None)),
            ("db1:", ("db1:", None)),
            ("/run/postgresql", ("/run/postgresql", None)),
            ("[", ("[", None)),
        ];
        for (called, expected) in table {
            assert_eq!(parts(called), expected, "{called}");
        }
    }
}
