//! News about a host from Patroni or the console: it is the primary now, or is not any more. A hint decides nothing alone: all hosts of the database
//! are probed at once, and it counts for a host that reports itself as the primary.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use connections::databases::{Address, Host};

/// Which host is the primary, or is not any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    pub host: Address,
    pub is_primary: bool,
    pub source: HintSource,
}

/// Who says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HintSource {
    /// An administrator, or a script, by the console: PROMOTED and DEMOTED.
    Console,
    /// The Patroni cluster of this name. `age`: how long ago the member that says so had reached the store of the cluster's state.
    Patroni { scope: String, age: Duration },
}

impl fmt::Display for HintSource {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HintSource::Console => out.write_str("the console"),
            HintSource::Patroni { scope, .. } => write!(out, "the Patroni cluster {scope}"),
        }
    }
}

/// Whether a host of the settings is the one that others call so: by the same text, or by an address that its name or theirs has.
/// `addresses_of` knows the addresses of names. `port`: `None`, any.
#[must_use]
pub fn is_called(address: &Address, name: &str, port: Option<u16>, addresses_of: &dyn Fn(&str) -> Vec<IpAddr>) -> bool {
    if port.is_some_and(|port| port != address.port) {
        return false;
    }
    match &address.host {
        Host::Unix(directory) => directory == name,
        Host::Ip(ip) => match name.parse::<IpAddr>() {
            Ok(other) => other == *ip,
            Err(_) => addresses_of(name).contains(ip),
        },
        Host::Name(own) => {
            let is_theirs = |ip: IpAddr| addresses_of(own).contains(&ip);
            own.eq_ignore_ascii_case(name) || name.parse::<IpAddr>().is_ok_and(is_theirs)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_known_by_its_names_and_addresses() {
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        let addresses_of = |name: &str| match name {
            "db1" => vec![ip("10.0.0.1"), ip("fd00::1")],
            "db1.example" => vec![ip("10.0.0.1")],
            _ => Vec::new(),
        };
        let at = |host| Address { host, port: 5432 };
        let (name, address) = (at(Host::Name("db1".to_owned())), at(Host::Ip(ip("10.0.0.1"))));
        let unix = at(Host::Unix("/run/postgresql".to_owned()));
        let table = [
            (&name, "db1", None, true),
            (&name, "DB1", Some(5432), true),
            (&name, "db1", Some(5433), false),
            (&name, "10.0.0.1", None, true),
            (&name, "fd00:0::1", Some(5432), true),
            (&name, "10.0.0.2", None, false),
            (&name, "db2", None, false),
            (&address, "10.0.0.1", Some(5432), true),
            (&address, "db1.example", None, true),
            (&address, "db2", None, false),
            (&unix, "/run/postgresql", Some(5432), true),
            (&unix, "/tmp", None, false),
        ];
        for (host, called, port, expected) in table {
            assert_eq!(is_called(host, called, port, &addresses_of), expected, "{host:?} {called} {port:?}");
        }
    }

    #[test]
    fn who_gives_a_hint_is_shown() {
        assert_eq!(HintSource::Console.to_string(), "the console");
        assert_eq!(
            HintSource::Patroni { scope: "shop".to_owned(), age: Duration::ZERO }.to_string(),
            "the Patroni cluster shop"
        );
    }
}
