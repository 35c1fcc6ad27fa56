//! The two ways to look a name up: the system's, and name servers that are asked by ourselves.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::path::Path;
use std::sync::Arc;

use hickory_resolver::proto::op::Query;
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use hickory_resolver::{Hosts, TokioResolver};
use tokio::time::timeout;

use crate::{Failure, LOOKUP_MAX, resolv_conf};

/// What a lookup gives.
pub(crate) type Addresses = Result<Arc<[IpAddr]>, Failure>;

/// How addresses are looked up.
#[derive(Clone)]
pub(crate) enum Way {
    /// As every program of the system does it, with /etc/hosts and nsswitch.conf.
    System,
    Own(Arc<TokioResolver>),
}

impl Way {
    /// Addresses of a name, within [`LOOKUP_MAX`]. A call of the system's that takes longer is left alone, on its own thread.
    pub(crate) async fn addresses(self, name: String) -> Addresses {
        let asked = name.clone();
        let found = match self {
            Way::System => {
                let called = tokio::task::spawn_blocking(move || system(&asked));
                match timeout(LOOKUP_MAX, called).await {
                    Ok(found) => found.unwrap_or_else(|_| Err(passing("the lookup has panicked"))),
                    Err(_) => Err(passing("timed out")),
                }
            }
            Way::Own(resolver) => ask(&resolver, &asked).await,
        };
        let found =
            found.and_then(
                |found: Vec<IpAddr>| {
                    if found.is_empty() { Err(lasting("it has no address")) } else { Ok(Arc::from(found)) }
                },
            );
        found
            .map_err(|failure| Failure { why: format!("server DNS lookup failed: {name}: {}", failure.why), ..failure })
    }
}

fn lasting(why: &str) -> Failure {
    Failure { is_passing: false, why: why.to_owned() }
}

fn passing(why: &str) -> Failure {
    Failure { is_passing: true, why: why.to_owned() }
}

/// The system's way, which may take its time. Whether a name server has answered shows in its words only.
fn system(name: &str) -> Result<Vec<IpAddr>, Failure> {
    if IS_STATIC {
        return files_then_dns(name);
    }
    let failure = |error: std::io::Error| {
        let why = error.to_string();
        // EAI_AGAIN, as glibc and musl put it.
        let is_passing = why.contains("Temporary failure in name resolution") || why.contains("Try again");
        Failure { is_passing, why }
    };
    let found = (name, 0).to_socket_addrs().map_err(failure)?;
    Ok(each_once(found.map(|address: SocketAddr| address.ip())))
}

fn each_once(found: impl Iterator<Item = IpAddr>) -> Vec<IpAddr> {
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in found {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}

/// What glibc loads for nsswitch.conf has to be of its own version, and a static program runs on systems with another one.
pub const IS_STATIC: bool = cfg!(target_feature = "crt-static");

/// As getaddrinfo does it where nsswitch.conf says `files dns`: /etc/hosts, then the name servers of /etc/resolv.conf, which is read each
/// time. Addresses that cannot be reached from here come last.
fn files_then_dns(name: &str) -> Result<Vec<IpAddr>, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let resolver = resolv_conf::resolver(Path::new(resolv_conf::SYSTEM)).or_else(|_| resolv_conf::hosts_only());
    let (Ok(runtime), Ok(resolver)) = (runtime, resolver) else {
        return Err(passing("the system gives no thread or no socket to look it up"));
    };
    let mut found = runtime.block_on(ask(&resolver, name))?;
    found.sort_by_key(|ip| !has_route(*ip));
    Ok(found)
}

/// Whether the system knows a way there. Nothing is sent.
//= rfc6724#section-6
fn has_route(ip: IpAddr) -> bool {
    let any: IpAddr = if ip.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    UdpSocket::bind((any, 0)).and_then(|socket| socket.connect((ip, DISCARD))).is_ok()
}

/// Any port does.
const DISCARD: u16 = 9;

/// A name that the file has is looked up nowhere else, as getaddrinfo has it, though it may have an address of one family only.
async fn ask(resolver: &TokioResolver, name: &str) -> Result<Vec<IpAddr>, Failure> {
    let own = Hosts::from_system().map(|hosts| of_file(&hosts, name)).unwrap_or_default();
    if !own.is_empty() {
        return Ok(own);
    }
    match timeout(LOOKUP_MAX, resolver.lookup_ip(name)).await {
        Ok(Ok(found)) => Ok(each_once(found.iter())),
        Ok(Err(error)) if error.is_no_records_found() => Err(lasting("no such name")),
        Ok(Err(error)) => Err(passing(&error.to_string())),
        Err(_) => Err(passing("timed out")),
    }
}

/// What hosts(5) says of a name.
fn of_file(hosts: &Hosts, name: &str) -> Vec<IpAddr> {
    let Ok(name) = Name::from_utf8(name) else { return Vec::new() };
    let of = |kind| hosts.lookup_static_host(&Query::query(name.clone(), kind));
    let answers = [RecordType::A, RecordType::AAAA].into_iter().filter_map(of);
    each_once(answers.flat_map(|lookup| lookup.answers().iter().filter_map(|it| it.data.ip_addr()).collect::<Vec<_>>()))
}

/// Where a host is reached, by the system's way; blocks for as long as that takes. `host` is a name or an address; one of a link is
/// written with its interface, as in `fe80::1%eth0` (RFC 4007).
///
/// # Errors
/// In the system's words.
pub fn look_up(host: &str, port: u16) -> std::io::Result<Vec<SocketAddr>> {
    if let Ok(ip) = host.parse() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    if host.contains('%') {
        // No name has a % in it, so no name server is asked, and a static program can do it too.
        return (host, port).to_socket_addrs().map(Iterator::collect);
    }
    let found = system(host).map_err(|failure| std::io::Error::other(failure.why))?;
    Ok(found.into_iter().map(|ip| SocketAddr::new(ip, port)).collect())
}

/// The addresses of `host:port`, where an address of IPv6 is in brackets; blocks as [`look_up`] does.
///
/// # Errors
/// It has another form, or no such host is found, in the system's words.
pub fn look_up_with_port(text: &str) -> std::io::Result<Vec<SocketAddr>> {
    let parts = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let in_brackets = |host: &'_ str| host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).map(str::to_owned);
    let parts = parts.and_then(|(host, port)| match in_brackets(host) {
        Some(host) => Some((host, port)),
        None => (!host.is_empty() && !host.contains([':', '[', ']'])).then(|| (host.to_owned(), port)),
    });
    let (host, port) =
        parts.ok_or_else(|| std::io::Error::new(std::io::ErrorKind::InvalidInput, "an address is host:port"))?;
    look_up(&host, port)
}

/// Asks for serials of zones: by the name servers of `resolv_conf`, or of the system's.
#[derive(Clone)]
pub(crate) struct Serials(Option<Arc<TokioResolver>>);

impl Serials {
    pub(crate) fn of(way: &Way) -> Serials {
        match way {
            Way::Own(resolver) => Serials(Some(Arc::clone(resolver))),
            Way::System => Serials(resolv_conf::resolver(Path::new(resolv_conf::SYSTEM)).ok().map(Arc::new)),
        }
    }

    /// A zone's serial; `None`: nobody says.
    pub(crate) async fn of_zone(self, zone: String) -> Option<u32> {
        let fully = if zone.ends_with('.') { zone } else { format!("{zone}.") };
        let lookup = self.0?.lookup(fully, RecordType::SOA).await.ok()?;
        lookup.answers().iter().find_map(|record| match &record.data {
            RData::SOA(soa) => Some(soa.serial),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn localhost_is_this_machine() {
        for found in [system("localhost"), files_then_dns("localhost")] {
            let found = found.map_err(|failure| failure.why).expect("every machine knows itself");
            assert!(!found.is_empty() && found.iter().all(IpAddr::is_loopback), "{found:?}");
        }
    }

    #[test]
    fn an_address_of_a_link_keeps_its_interface() {
        let scope = |text: &str| match look_up(text, 80).expect("an address needs nobody")[..] {
            [SocketAddr::V6(address)] => address.scope_id(),
            ref other => panic!("{other:?}"),
        };
        assert_eq!(scope("fe80::1"), 0);
        // The first interface of a Linux system.
        assert_eq!(scope("fe80::1%lo"), 1);
        assert!(look_up("fe80::1%nowhere", 80).is_err());
        assert_eq!(look_up_with_port("[fe80::1%lo]:80").expect("an address"), look_up("fe80::1%lo", 80).expect("one"));
    }

    #[test]
    fn an_address_has_a_route_if_the_system_would_send_there() {
        assert!(has_route(Ipv4Addr::LOCALHOST.into()));
        // A socket has to ask for leave to broadcast.
        assert!(!has_route(Ipv4Addr::BROADCAST.into()));
    }

    #[test]
    fn a_port_goes_with_each_address_of_its_host() {
        for (text, expected) in [("10.0.0.7:80", "10.0.0.7:80"), ("[::1]:80", "[::1]:80")] {
            let found = look_up_with_port(text).expect("an address needs nobody");
            assert_eq!(found, [expected.parse().expect("an address")]);
        }
        let found = look_up_with_port("localhost:80").expect("every machine knows itself");
        assert!(!found.is_empty() && found.iter().all(|it| it.ip().is_loopback() && it.port() == 80), "{found:?}");
        for text in ["", "80", ":80", "localhost", "localhost:", "localhost:http", "localhost:65536", "::1:80", "[::1]"]
        {
            assert!(look_up_with_port(text).is_err(), "{text}");
        }
    }

    /// The name server, which is asked for the other family too, may be silent.
    #[test]
    fn a_name_of_the_file_needs_no_name_server() {
        let mut hosts = Hosts::default();
        let file = "127.0.0.1 localhost\n10.0.0.7 db.example db # the server\n::1 six\n10.0.0.8 both\nfe80::1 both\n";
        hosts.read_hosts_conf(file.as_bytes()).expect("a file");
        let found = |name: &str| of_file(&hosts, name).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!(found("db.example"), "10.0.0.7");
        assert_eq!(found("DB"), "10.0.0.7");
        assert_eq!(found("six"), "::1");
        assert_eq!(found("both"), "10.0.0.8 fe80::1");
        assert_eq!(found("other.example"), "");
    }

    #[test]
    fn without_name_servers_there_are_still_the_hosts_of_the_file() {
        let resolver = resolv_conf::hosts_only().expect("it needs no file");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        assert!(runtime.block_on(ask(&resolver, "localhost")).is_ok());
        assert!(runtime.block_on(ask(&resolver, "db.example")).is_err());
    }
}
