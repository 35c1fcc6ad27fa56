//! The machine, if PostgreSQL runs on this one: cores, memory, and what its backends keep for themselves.
//!
//! Promises to take no other machine's figures: the backend that has answered must be a process of PostgreSQL's here.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ::doctor::{Machine, Memory, Postgres, Unseen};
use ask::Target;

use super::kernel;
use crate::settings;

/// Reading one takes some tenths of a millisecond of the kernel's time.
const READ_MAX: usize = 400;

pub(super) fn read(postgres: &Postgres, target: &Target, unseen: &mut Vec<Unseen>) -> Option<Machine> {
    let mut miss = |why: &str, mend: &str| {
        let what = "memory of backends".to_owned();
        unseen.push(Unseen { what, why: why.to_owned(), mend: Some(mend.to_owned()) });
    };
    let pid = |pid: i32| u32::try_from(pid).unwrap_or_default();
    // By its name alone: what another user runs is told no more of.
    if !is_here(&target.host) || kernel::process_name(pid(postgres.identity.pid)) != "postgres" {
        miss("PostgreSQL does not run on this machine", "pgweir doctor … # there; or --cores N for its cores");
        return None;
    }
    let memory = kernel::memory();
    let pids = postgres.clients().map(|backend| backend.pid).take(READ_MAX);
    let private = |number: i32| Some((number, Memory { private: kernel::private_memory(pid(number))? }));
    let backends: BTreeMap<i32, Memory> = pids.filter_map(private).collect();
    if backends.is_empty() && postgres.clients().next().is_some() {
        miss("they are another user's processes", "sudo -u postgres pgweir doctor …");
    }
    Some(Machine { cores: u32::from(settings::cores()), memory, backends })
}

fn is_here(host: &str) -> bool {
    let is_socket = host.starts_with(['/', '@']);
    is_socket || host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_backend_here_is_elsewhere() {
        let [host, user, database] = ["127.0.0.1", "app", "shop"].map(str::to_owned);
        let target = Target {
            host,
            address: None,
            port: 5432,
            user,
            password: None,
            database,
            verifier: None,
            encryption: None,
        };
        let mut postgres = Postgres::default();
        // This test's own process, which is none of PostgreSQL's.
        postgres.identity.pid = i32::try_from(std::process::id()).expect("a pid");
        let mut unseen = Vec::new();
        assert!(read(&postgres, &target, &mut unseen).is_none());
        assert_eq!(unseen.len(), 1);
        assert!(is_here("::1") && is_here("/run/postgresql") && !is_here("10.0.0.1") && !is_here("db"));
    }
}
