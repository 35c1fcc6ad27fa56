//! User-space instructions of `pgbench -S` through a pooler to a real PostgreSQL: one client, eight on four servers, 64 on twenty.
//!
//! Promises: the difference between a long run and a short one, so that starting, logging in and ending do not count; the
//! pooler with its defaults, one worker, without lines for connections; contestants in turns, the median of all rounds and their
//! range. Does not: stay the same to the last digit. How many events one round of the event loop finds depends on when PostgreSQL
//! answers: on a busy machine it finds fewer, and a transaction pays for more rounds.

use measure::process;
use measure::statistics::Range;

use crate::callgrind::{self, Profile};
use crate::contestant::{Contestant, Premises, Running};
use crate::instructions::{self, Count};
use crate::pgbench::{Cluster, Terms};
use crate::scenario::{SCENARIOS, Scenario};
use crate::setup::{self, Upstream};

/// Transactions of the short and the long run.
const FEW: u64 = 3_200;
const MANY: u64 = 12_800;

/// How pgbench sends its queries.
struct PgbenchLoad {
    /// `-M`
    style: &'static str,
    clients: u64,
    /// Servers of the pool.
    servers: &'static str,
}

const LOADS: [PgbenchLoad; 4] = [
    PgbenchLoad { style: "simple", clients: 1, servers: "4" },
    PgbenchLoad { style: "simple", clients: 8, servers: "4" },
    PgbenchLoad { style: "simple", clients: 64, servers: "20" },
    PgbenchLoad { style: "prepared", clients: 8, servers: "4" },
];

/// What the cluster is like: small, and in memory.
const TERMS: Terms = Terms {
    scale: 1,
    settings: &["listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", "max_connections=50"],
};

/// Counts, and prints a line for each load and contestant, and with `functions` what is costliest. Errors: no valgrind, no
/// PostgreSQL, or a contestant that does not run.
pub fn print(place: &Premises, contestants: &[Contestant], rounds: usize, functions: bool) -> Result<(), String> {
    let cluster = Cluster::start(place, TERMS)?;
    println!("pgbench -S, {}: instructions a transaction, median of {rounds} rounds, and their range", cluster.version);
    for load in &LOADS {
        let quiet = [("default_pool_size", load.servers), ("log_connections", "0"), ("log_disconnections", "0")];
        let mut samples = vec![Vec::new(); contestants.len()];
        for round in 0..rounds {
            for (contestant, samples) in contestants.iter().zip(&mut samples) {
                let contestant = contestant.variant(&contestant.name, &quiet);
                let few = whole(place, &cluster, &contestant, load, FEW)?;
                let many = whole(place, &cluster, &contestant, load, MANY)?;
                let count = Count { profile: many.since(&few), transactions: MANY - FEW };
                samples.push(count.each(count.profile.total));
                if functions && round == 0 {
                    println!("{} {} {}", contestant.name, load.style, load.clients);
                    print!("{}", instructions::list(&count));
                }
            }
        }
        for (contestant, samples) in contestants.iter().zip(samples) {
            let Range { median, low, high } = Range::of(samples).ok_or("no round was counted")?;
            let PgbenchLoad { style, clients, .. } = load;
            println!("{:<24} {style:<10} {clients:>3} clients {median:>8.0} ({low:.0} to {high:.0})", contestant.name);
        }
    }
    Ok(())
}

/// Instructions of a whole run with so many transactions.
fn whole(
    place: &Premises,
    cluster: &Cluster,
    contestant: &Contestant,
    load: &PgbenchLoad,
    transactions: u64,
) -> Result<Profile, String> {
    let room = place.room(&format!("select-{}-{}-{}-{transactions}", contestant.name, load.style, load.clients))?;
    setup::write_users(&room)?;
    let scenario: &Scenario = SCENARIOS.iter().find(|one| one.name == "tcp-1").expect("in the table");
    let upstream = Upstream { host: "127.0.0.1".to_owned(), port: cluster.port };
    let file = room.folder.join("callgrind.out");
    let mut wrapper = vec!["valgrind".to_owned(), format!("--callgrind-out-file={}", file.display())];
    wrapper.extend(callgrind::OPTIONS.map(str::to_owned));
    let text = |port| setup::ini(&room, scenario, contestant, &upstream, port);
    let mut running = Running::start(&room, contestant, text, &wrapper, &process::cores())?;
    cluster.select(&room, running.port, load.style, load.clients, transactions / load.clients)?;
    running.stop();
    let text = std::fs::read_to_string(&file).map_err(|error| format!("callgrind wrote nothing: {error}"))?;
    callgrind::read(&text)
}
