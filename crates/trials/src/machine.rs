//! What a reader must know of the machine and the server to make sense of the figures.

use ask::Monitor;
use measure::login::SCRAM;
use measure::machine::{load_average, machine_memory};

use crate::contestant::login_of_clients;
use crate::options::Options;
use crate::sample::number;
use crate::slice::Ground;

/// Names and values, in the order in which they are read.
pub(crate) fn facts(
    options: &Options,
    ground: &Ground<'_>,
    is_embedded: bool,
    monitor: &mut Monitor,
) -> Result<Vec<(String, String)>, String> {
    let mut facts = Vec::new();
    let mut fact = |name: &str, value: String| facts.push((name.to_owned(), value));
    let (all, _) = machine_memory();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let limit = options.memory_limit.map_or_else(|| "none".to_owned(), gigabytes);
    let mut setting = |name: &str| -> Result<String, String> {
        Ok(monitor.ask(&format!("SHOW {name}"))?.first().cloned().unwrap_or_default())
    };
    fact("when", jiff::Zoned::now().strftime("%Y-%m-%d %H:%M %Z").to_string());
    fact(
        "machine",
        format!("{cores} cores, {} of memory, limit on it: {limit}, Linux {}", gigabytes(all), kernel.trim()),
    );
    fact("load average before", load_average());
    let whose = match (is_embedded, ground.around.postmaster) {
        (true, _) => "embedded, started for this run",
        (false, Some(_)) => "yours, on this machine",
        (false, None) => "yours, on another machine: its processes and memory cannot be seen from here",
    };
    fact("PostgreSQL", format!("{} ({whose})", setting("server_version")?));
    let names = ["max_connections", "shared_buffers", "fsync", "synchronous_commit", "full_page_writes"];
    let settings: Vec<String> =
        names.iter().map(|name| Ok(format!("{name} = {}", setting(name)?))).collect::<Result<_, String>>()?;
    fact("its settings", settings.join(", "));
    fact("pgweir", ground.pgweir.version.clone());
    let pgbouncer =
        ground.pgbouncer.map_or_else(|| "not found: set PGBOUNCER=/path".to_owned(), |it| it.version.clone());
    fact("PgBouncer", pgbouncer);
    let accounts = number(f64::from(options.scale) * 100_000.0);
    fact("scale", format!("{} ({accounts} accounts)", options.scale));
    let rounds = options.rounds;
    let quick = if options.quick { "; --quick: slices of a second or two, a look and not a record" } else { "" };
    fact("rounds", format!("{rounds}, contestants in turn within each{quick}"));
    let logins = logins(monitor.login(), login_of_clients(ground.target));
    fact("load", format!("our own, one thread on the same cores; simple protocol; {logins}"));
    Ok(facts)
}

/// How clients log in, directly and at a pooler.
fn logins(directly: &str, pooled: &str) -> String {
    match (directly, pooled) {
        (SCRAM, SCRAM) => format!("logins by {SCRAM}, keys derived once"),
        _ if directly == pooled => format!("logins by {directly}"),
        _ => format!("logins by {directly} directly and by {pooled} at the poolers, whose times do not compare"),
    }
}

pub(crate) fn gigabytes(bytes: u64) -> String {
    format!("{} GB", number((bytes as f64 / f64::from(1 << 30) * 10.0).round() / 10.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_are_called_what_they_are() {
        assert_eq!(logins("SCRAM", "SCRAM"), "logins by SCRAM, keys derived once");
        assert_eq!(logins("md5", "md5"), "logins by md5");
        let different = "logins by trust directly and by md5 at the poolers, whose times do not compare";
        assert_eq!(logins("trust", "md5"), different);
    }
}
