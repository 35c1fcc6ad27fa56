//! A resolv.conf of our own, in the syntax of resolv.conf(5). A name server may have a port, as c-ares takes it: `nameserver
//! 10.0.0.1:5353`, `nameserver [::1]:5353`.
//!
//! Promises that a file that names no name server is refused. As resolv.conf(5) has it, what is not known in it is ignored.
//!
//! //= pgbouncer config.md#resolv_conf

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::system_conf::parse_resolv_conf;

/// Where the system has its own.
pub(crate) const SYSTEM: &str = "/etc/resolv.conf";

/// What asks the name servers of a file.
///
/// # Errors
/// The file cannot be read, or names no name server.
pub(crate) fn resolver(path: &Path) -> io::Result<TokioResolver> {
    let wrong = |why: String| io::Error::other(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let (text, ports) = without_ports(&text);
    let (mut config, options) = parse_resolv_conf(text).map_err(|error| wrong(error.to_string()))?;
    let servers = std::mem::take(&mut config).into_parts();
    let servers = (servers.0, servers.1, servers.2.into_iter().map(|server| with_port(server, &ports)).collect());
    let config = ResolverConfig::from_parts(servers.0, servers.1, servers.2);
    build(config, options).map_err(|error| wrong(error.to_string()))
}

/// Whether it can be used.
///
/// # Errors
/// The file cannot be read, or names no name server.
pub fn probe(path: &Path) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _inside = runtime.enter();
    resolver(path).map(drop)
}

/// What asks nobody: only names of /etc/hosts are found.
///
/// # Errors
/// The system's.
pub(crate) fn hosts_only() -> io::Result<TokioResolver> {
    build(ResolverConfig::from_parts(None, Vec::new(), Vec::new()), ResolverOpts::default()).map_err(io::Error::other)
}

fn build(config: ResolverConfig, mut options: ResolverOpts) -> Result<TokioResolver, NetError> {
    // How long answers hold is PgBouncer's to say, not the record's.
    options.cache_size = 0;
    // It is looked at first, for both families.
    options.use_hosts_file = ResolveHosts::Never;
    let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    *builder.options_mut() = options;
    builder.build()
}

/// The text as resolv.conf(5) has it, and the ports of its name servers.
fn without_ports(text: &str) -> (String, Vec<SocketAddr>) {
    let mut ports = Vec::new();
    let mut plain = String::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next().map(str::parse::<SocketAddr>)) {
            (Some("nameserver"), Some(Ok(address))) => {
                ports.push(address);
                plain.push_str(&format!("nameserver {}\n", address.ip()));
            }
            _ => {
                plain.push_str(line);
                plain.push('\n');
            }
        }
    }
    (plain, ports)
}

/// Name servers with the same address and several ports are one too many for this: the first is asked.
fn with_port(mut server: NameServerConfig, ports: &[SocketAddr]) -> NameServerConfig {
    let ip: IpAddr = server.ip;
    if let Some(address) = ports.iter().find(|address| address.ip() == ip) {
        server.connections.iter_mut().for_each(|connection| connection.port = address.port());
    }
    server
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_server_may_have_a_port() {
        let (plain, ports) = without_ports(
            "# ours\nsearch example\nnameserver 10.0.0.1:53\n nameserver\t[::1]:5353\nnameserver 10.0.0.2\n",
        );
        assert_eq!(plain, "# ours\nsearch example\nnameserver 10.0.0.1\nnameserver ::1\nnameserver 10.0.0.2\n");
        assert_eq!(ports.iter().map(SocketAddr::port).collect::<Vec<_>>(), [53, 5353]);
        let server = with_port(NameServerConfig::udp_and_tcp("::1".parse().expect("an address")), &ports);
        assert!(server.connections.iter().all(|connection| connection.port == 5353));
    }

    #[test]
    fn a_file_without_a_name_server_is_refused() {
        let path = std::env::temp_dir().join(format!("pgweir-resolv-{}.conf", std::process::id()));
        std::fs::write(&path, "search example\n").expect("a temporary directory");
        let refused = resolver(&path).err().map(|error| error.to_string()).expect("it names none");
        std::fs::remove_file(&path).expect("it is ours");
        assert!(refused.contains("nameserver"), "{refused}");
        assert!(resolver(Path::new("/nowhere/resolv.conf")).is_err());
    }
}
