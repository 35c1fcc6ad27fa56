//! User-space instructions of `pgbench -S` through a pooler to a real PostgreSQL: eight clients on a pool of four.
//!
//! Promises: the difference between a long run and a short one, so that starting, logging in and ending do not count; the
//! pooler with its defaults, one worker, without lines for connections. Does not: stay the same to the last digit. How many
//! events one round of the event loop finds depends on when PostgreSQL answers: on a busy machine it finds fewer, and a
//! transaction pays for more rounds.

use measure::process;

use crate::callgrind::{self, Profile};
use crate::contestant::{Contestant, Premises, Running};
use crate::instructions::{self, Count};
use crate::pgbench::{Cluster, Terms};
use crate::scenario::{SCENARIOS, Scenario};
use crate::setup::{self, Upstream};

/// Clients, and servers of the pool.
const CLIENTS: u64 = 8;
const POOL: &str = "4";
/// Transactions of the short and the long run.
const FEW: u64 = 4_000;
const MANY: u64 = 16_000;

/// What the cluster is like: small, and in memory.
const TERMS: Terms = Terms {
    scale: 1,
    settings: &["listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", "max_connections=50"],
};

/// How pgbench sends its queries (`-M`).
const STYLES: [&str; 2] = ["simple", "prepared"];

/// Counts and prints a line for each contestant and style, and with `functions` what is costliest. Errors: no valgrind, no
/// PostgreSQL, or a contestant that does not run.
pub fn print(place: &Premises, contestants: &[Contestant], functions: bool) -> Result<(), String> {
    let cluster = Cluster::start(place, TERMS)?;
    println!("pgbench -S, {CLIENTS} clients on {POOL} servers, {}: instructions a transaction", cluster.version);
    let quiet = [("default_pool_size", POOL), ("log_connections", "0"), ("log_disconnections", "0")];
    for contestant in contestants {
        let contestant = contestant.variant(&contestant.name, &quiet);
        for style in STYLES {
            let few = whole(place, &cluster, &contestant, style, FEW)?;
            let many = whole(place, &cluster, &contestant, style, MANY)?;
            let count = Count { profile: many.since(&few), transactions: MANY - FEW };
            println!("{:<24} {style:<10} {:>8.0}", contestant.name, count.each(count.profile.total));
            if functions {
                print!("{}", instructions::list(&count));
            }
        }
    }
    Ok(())
}

/// Instructions of a whole run with so many transactions.
fn whole(
    place: &Premises,
    cluster: &Cluster,
    contestant: &Contestant,
    style: &str,
    transactions: u64,
) -> Result<Profile, String> {
    let room = place.room(&format!("select-{}-{style}-{transactions}", contestant.name))?;
    setup::write_users(&room)?;
    let scenario: &Scenario = SCENARIOS.iter().find(|one| one.name == "tcp-1").expect("in the table");
    let upstream = Upstream { host: "127.0.0.1".to_owned(), port: cluster.port };
    let file = room.folder.join("callgrind.out");
    let mut wrapper = vec!["valgrind".to_owned(), format!("--callgrind-out-file={}", file.display())];
    wrapper.extend(callgrind::OPTIONS.map(str::to_owned));
    let text = |port| setup::ini(&room, scenario, contestant, &upstream, port);
    let mut running = Running::start(&room, contestant, text, &wrapper, &process::cores())?;
    cluster.select(&room, running.port, style, CLIENTS, transactions / CLIENTS)?;
    running.stop();
    let text = std::fs::read_to_string(&file).map_err(|error| format!("callgrind wrote nothing: {error}"))?;
    callgrind::read(&text)
}
