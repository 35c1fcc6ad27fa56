//! The hosts' network: addresses of the loopback, or network namespaces on a bridge, whose cables can be pulled.
//!
//! ```text
//!   namespace 1 ── veth ──┐
//!   namespace 2 ── veth ──┼── bridge (an address of its own: etcd, clients, poolers)
//!   namespace 3 ── veth ──┘
//! ```
//!
//! Promises: a pulled cable is silent: packets are lost, and nobody is answered. Neighbours are permanent, so that no unanswered question for
//! an address turns the silence into an error. Namespaces and bridge are removed with the value, and by the next one if it could not.
//! Namespaces need root.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

use demo::Account;

/// How many hosts a cluster has.
pub const HOSTS: usize = 3;

/// The bridge and the namespaces have names and addresses of which a machine has one.
const BRIDGE: &str = "pgweir-br";
const NET: [u8; 3] = [10, 213, 91];

/// Addresses, and how to run a program at one.
#[derive(Debug)]
pub enum Network {
    /// 127.0.0.10 for etcd, 127.0.0.11 to 127.0.0.13 for the hosts.
    Loopback,
    Namespaces(Namespaces),
}

/// Dropping it removes them.
#[derive(Debug)]
pub struct Namespaces(());

impl Network {
    /// # Errors
    /// Not root, or the kernel has no such devices.
    pub fn namespaces() -> Result<Self, String> {
        remove();
        let made = Namespaces(());
        ip(&format!("link add {BRIDGE} address {} type bridge", hardware(254)))?;
        ip(&format!("addr add {}/24 dev {BRIDGE}", address(254)))?;
        ip(&format!("link set {BRIDGE} up"))?;
        for host in 0..HOSTS {
            connect(host)?;
        }
        Ok(Self::Namespaces(made))
    }

    /// The address of a host.
    #[must_use]
    pub fn host(&self, host: usize) -> Ipv4Addr {
        let last = u8::try_from(host).expect("three hosts") + 11;
        match self {
            Self::Loopback => Ipv4Addr::new(127, 0, 0, last),
            Self::Namespaces(_) => address(last),
        }
    }

    /// The address of etcd.
    #[must_use]
    pub fn outside(&self) -> Ipv4Addr {
        match self {
            Self::Loopback => Ipv4Addr::new(127, 0, 0, 10),
            Self::Namespaces(_) => address(254),
        }
    }

    /// A command that runs a program at a host, as the account.
    pub(crate) fn command(&self, host: usize, program: &Path, account: Option<&Account>) -> Command {
        let Self::Namespaces(_) = self else {
            let mut command = Command::new(program);
            if let Some(account) = account {
                account.apply(&mut command);
            }
            return command;
        };
        // Only root may enter a namespace: the account is taken on inside.
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", namespace(host)));
        if let Some(Account { uid, gid, .. }) = account {
            command.args([format!("--setuid={uid}"), format!("--setgid={gid}")]);
        }
        command.arg("--").arg(program);
        command
    }

    /// Pulls a host's cable.
    ///
    /// # Errors
    /// There is none to pull.
    pub(crate) fn cut(&self, host: usize) -> Result<(), String> {
        match self {
            Self::Loopback => Err("hosts of the loopback have no cables".to_owned()),
            Self::Namespaces(_) => ip(&format!("link set {} nomaster", cable(host))),
        }
    }

    /// Plugs all cables in.
    pub(crate) fn mend(&self) -> Result<(), String> {
        match self {
            Self::Loopback => Ok(()),
            Self::Namespaces(_) => {
                (0..HOSTS).try_for_each(|host| ip(&format!("link set {} master {BRIDGE}", cable(host))))
            }
        }
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        remove();
    }
}

fn connect(host: usize) -> Result<(), String> {
    let last = u8::try_from(host).expect("three hosts") + 11;
    let (space, cable) = (namespace(host), cable(host));
    ip(&format!("netns add {space}"))?;
    ip(&format!("link add {cable} type veth peer name eth0 address {} netns {space}", hardware(last)))?;
    ip(&format!("link set {cable} master {BRIDGE} up"))?;
    ip(&format!("-n {space} addr add {}/24 dev eth0", address(last)))?;
    ip(&format!("-n {space} link set lo up"))?;
    ip(&format!("-n {space} link set eth0 up"))?;
    ip(&format!("neigh replace {} lladdr {} dev {BRIDGE} nud permanent", address(last), hardware(last)))?;
    let others = (0..HOSTS).filter(|other| *other != host).map(|other| u8::try_from(other).expect("three hosts") + 11);
    for other in others.chain([254]) {
        let (to, by) = (address(other), hardware(other));
        ip(&format!("-n {space} neigh replace {to} lladdr {by} dev eth0 nud permanent"))?;
    }
    Ok(())
}

/// Whatever is left of these names.
fn remove() {
    for host in 0..HOSTS {
        let _ = ip(&format!("netns del {}", namespace(host)));
        let _ = ip(&format!("link del {}", cable(host)));
    }
    let _ = ip(&format!("link del {BRIDGE}"));
}

fn address(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(NET[0], NET[1], NET[2], last)
}

fn hardware(last: u8) -> String {
    format!("02:00:{:02x}:{:02x}:{:02x}:{last:02x}", NET[0], NET[1], NET[2])
}

fn namespace(host: usize) -> String {
    format!("pgweir-{}", host + 1)
}

fn cable(host: usize) -> String {
    format!("pgweir-v{}", host + 1)
}

fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output.map_err(|error| format!("cannot run ip: {error}"))?;
    let wrote = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("ip {arguments}: {}", wrote.trim())) }
}
