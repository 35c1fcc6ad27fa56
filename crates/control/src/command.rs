//! All commands of the console, as a closed list, and their parser.
//!
//! One command a query; case does not matter; blanks around words and one `;` at the end are allowed, comments and
//! quotes are not (`//= pgbouncer usage.md#admin-console`). Rights are checked elsewhere.

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    Show(Show),
    Reload,
    Shutdown(When),
    /// A command of PgBouncer that is not supported yet, with its name for the error.
    NotYet(&'static str),
}

/// When `SHUTDOWN` takes effect.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum When {
    Now,
    ServersReleased,
    ClientsGone,
}

/// What `SHOW` can show.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Show {
    Help,
    /// Not in PgBouncer: the classes of clients, their limits and counts.
    Classes,
    Clients,
    Config,
    Databases,
    /// Not in PgBouncer: counts of refused requests and similar events since the start.
    Events,
    /// Not in PgBouncer: counts of pins, replays and checks by pool; the next one by pool and reason.
    Fidelity,
    FidelityReasons,
    /// Not in PgBouncer: statements that transactions begin with, if statements have limits.
    Fingerprints,
    Lanes,
    /// Not in PgBouncer: the limits of classes and statements, and what is left of them.
    Limits,
    Lists,
    /// Not in PgBouncer: clients that keep a server between transactions.
    Pins,
    Pools,
    Servers,
    /// Not in PgBouncer: the sizes of pools with `pool_size = auto`, and why.
    Sizing,
    State,
    Stats,
    StatsAverages,
    StatsTotals,
    Totals,
    Users,
    Version,
    /// Not in PgBouncer: one row for each worker.
    Workers,
    /// A table of PgBouncer that is not supported yet.
    NotYet(&'static str),
}

/// Words after SHOW, and what they mean.
const SHOWS: &[(&str, Show)] = &[
    ("help", Show::Help),
    ("classes", Show::Classes),
    ("clients", Show::Clients),
    ("config", Show::Config),
    ("databases", Show::Databases),
    ("events", Show::Events),
    ("fidelity", Show::Fidelity),
    ("fidelity_reasons", Show::FidelityReasons),
    ("fingerprints", Show::Fingerprints),
    ("lanes", Show::Lanes),
    ("limits", Show::Limits),
    ("lists", Show::Lists),
    ("pins", Show::Pins),
    ("pools", Show::Pools),
    ("servers", Show::Servers),
    ("sizing", Show::Sizing),
    ("state", Show::State),
    ("stats", Show::Stats),
    ("stats_averages", Show::StatsAverages),
    ("stats_totals", Show::StatsTotals),
    ("totals", Show::Totals),
    ("users", Show::Users),
    ("version", Show::Version),
    ("workers", Show::Workers),
    ("active_sockets", Show::NotYet("SHOW ACTIVE_SOCKETS")),
    ("dns_hosts", Show::NotYet("SHOW DNS_HOSTS")),
    ("dns_zones", Show::NotYet("SHOW DNS_ZONES")),
    ("fds", Show::NotYet("SHOW FDS")),
    ("mem", Show::NotYet("SHOW MEM")),
    ("peers", Show::NotYet("SHOW PEERS")),
    ("peer_pools", Show::NotYet("SHOW PEER_POOLS")),
    ("sockets", Show::NotYet("SHOW SOCKETS")),
];

/// First words of commands that are not supported yet. The words after them are not read.
const NOT_YET: &[(&str, &str)] = &[
    ("disable", "DISABLE"),
    ("enable", "ENABLE"),
    ("kill", "KILL"),
    ("kill_client", "KILL_CLIENT"),
    ("pause", "PAUSE"),
    ("reconnect", "RECONNECT"),
    ("resume", "RESUME"),
    ("set", "SET"),
    ("suspend", "SUSPEND"),
    ("wait_close", "WAIT_CLOSE"),
];

impl Command {
    /// The command in a query's text; `None` if it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Command> {
        let text = text.trim();
        let text = text.strip_suffix(';').unwrap_or(text);
        let mut words = text.split_ascii_whitespace().map(str::to_ascii_lowercase);
        let first = words.next()?;
        if let Some((_, name)) = NOT_YET.iter().find(|(word, _)| *word == first) {
            return Some(Command::NotYet(name));
        }
        let second = words.next();
        if words.next().is_some() {
            return None;
        }
        match (first.as_str(), second.as_deref()) {
            ("show", Some(what)) => {
                let (_, show) = SHOWS.iter().find(|(word, _)| *word == what)?;
                Some(Command::Show(*show))
            }
            ("reload", None) => Some(Command::Reload),
            ("shutdown", None) => Some(Command::Shutdown(When::Now)),
            ("shutdown", Some("wait_for_servers")) => Some(Command::Shutdown(When::ServersReleased)),
            ("shutdown", Some("wait_for_clients")) => Some(Command::Shutdown(When::ClientsGone)),
            _ => None,
        }
    }

    /// Whether a user in `stats_users` may run it.
    #[must_use]
    pub fn is_for_stats_users(&self) -> bool {
        match self {
            // Its rows would hold passwords, keys and descriptors.
            Command::Show(Show::NotYet(name)) => *name != "SHOW FDS",
            Command::Show(_) => true,
            Command::Reload | Command::Shutdown(_) | Command::NotYet(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_texts() {
        let show = |show| Some(Command::Show(show));
        let table = [
            ("show pools", show(Show::Pools)),
            ("SHOW POOLS;", show(Show::Pools)),
            ("  Show\t\n pools ; ", show(Show::Pools)),
            ("show classes", show(Show::Classes)),
            ("show pins", show(Show::Pins)),
            ("show stats_totals", show(Show::StatsTotals)),
            ("show sockets", show(Show::NotYet("SHOW SOCKETS"))),
            ("reload", Some(Command::Reload)),
            ("RELOAD ;", Some(Command::Reload)),
            ("shutdown", Some(Command::Shutdown(When::Now))),
            ("SHUTDOWN wait_for_servers", Some(Command::Shutdown(When::ServersReleased))),
            ("SHUTDOWN WAIT_FOR_CLIENTS;", Some(Command::Shutdown(When::ClientsGone))),
            ("pause", Some(Command::NotYet("PAUSE"))),
            ("pause app;", Some(Command::NotYet("PAUSE"))),
            ("set pool_mode = 'session'", Some(Command::NotYet("SET"))),
            ("kill_client 7", Some(Command::NotYet("KILL_CLIENT"))),
            ("", None),
            (";", None),
            ("show", None),
            ("show foo", None),
            ("show pools x", None),
            ("show 'pools'", None),
            ("show pools; show pools", None),
            ("show pools ; ;", None),
            ("show/*c*/pools", None),
            ("-- x\nshow state", None),
            ("shutdown now", None),
            ("reload x", None),
            ("select 1", None),
        ];
        for (text, expected) in table {
            assert_eq!(Command::parse(text), expected, "{text:?}");
        }
    }

    #[test]
    fn stats_users_only_look() {
        for text in ["show pools", "show classes", "show config", "show help", "show workers", "show pins"] {
            assert!(Command::parse(text).expect("a command").is_for_stats_users(), "{text}");
        }
        for text in ["show fds", "reload", "shutdown", "pause", "kill x", "set a=1"] {
            assert!(!Command::parse(text).expect("a command").is_for_stats_users(), "{text}");
        }
    }
}
