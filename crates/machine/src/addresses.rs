//! Where hosts have moved to. It goes with the orders ([`crate::orders`]): so it reaches every machine in order, and the process that takes our
//! place, and a server that travels meanwhile is compared with it when it arrives.
//!
//! Holds names that have had other addresses before. What a name had at first is not here: whoever has connected to one of
//! those addresses has not been left.

use std::collections::BTreeMap;
use std::net::IpAddr;

use connections::databases::{Address, Host};

/// Names kept; one that is forgotten leaves its servers where they are.
const NAMES_MAX: usize = 1024;

/// The addresses of names that have moved.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Addresses {
    moved: BTreeMap<String, Vec<IpAddr>>,
}

impl Addresses {
    /// A name has these addresses now, and had others.
    pub fn moved(&mut self, name: &str, addresses: &[IpAddr]) {
        if self.moved.len() >= NAMES_MAX && !self.moved.contains_key(name) {
            self.moved.pop_first();
        }
        self.moved.insert(name.to_owned(), addresses.to_vec());
    }

    /// Whether a host has moved since these were known.
    #[must_use]
    pub fn have_moved_since(&self, before: &Addresses, host: &Address) -> bool {
        let Host::Name(name) = &host.host else { return false };
        self.moved.get(name).is_some_and(|addresses| before.moved.get(name) != Some(addresses))
    }

    /// Whether a connection that was opened to `host`, and stands to `address`, is not where `host` is now.
    #[must_use]
    pub fn have_left(&self, host: &Address, address: &Address) -> bool {
        let (Host::Name(name), Host::Ip(ip)) = (&host.host, &address.host) else { return false };
        self.moved.get(name.as_str()).is_some_and(|addresses| !addresses.contains(ip))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_left_when_its_name_has_moved_from_its_address() {
        let ip = |last| IpAddr::from([10, 0, 0, last]);
        let at = |host| Address { host, port: 5432 };
        let (host, other) = (at(Host::Name("db".to_owned())), at(Host::Name("other".to_owned())));
        let mut addresses = Addresses::default();
        assert!(!addresses.have_left(&host, &at(Host::Ip(ip(1)))), "it is where it was found first");
        addresses.moved("db", &[ip(2), ip(3)]);
        let left = |host: &Address, to| addresses.have_left(host, &at(Host::Ip(ip(to))));
        assert_eq!((left(&host, 1), left(&host, 2), left(&host, 3), left(&other, 1)), (true, false, false, false));
        assert!(addresses.have_moved_since(&Addresses::default(), &host));
        let before = addresses.clone();
        assert!(!addresses.have_moved_since(&before, &host) && !addresses.have_moved_since(&before, &other));
        addresses.moved("db", &[ip(2)]);
        assert!(addresses.have_moved_since(&before, &host));
        assert!(!addresses.have_moved_since(&before, &at(Host::Ip(ip(1)))), "an address does not move");
        assert!(!addresses.have_left(&at(Host::Ip(ip(1))), &at(Host::Ip(ip(1)))), "an address does not move");
        assert!(!addresses.have_left(&host, &host), "it is not open yet");
    }
}
