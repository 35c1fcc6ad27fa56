//! The tables of `SHOW`: one file for each, with its columns and how its rows are made from a [`ShowInput`].
//!
//! PgBouncer's tables have PgBouncer's columns in their order and types, and no more
//! (`//= pgbouncer usage.md#show-commands`): programs read them by number. pgweir's own columns are in tables of its own. Rows are ordered by
//! name, so that two answers can be compared.

mod held;
mod show_activity;
mod show_classes;
mod show_clients;
mod show_config;
mod show_databases;
mod show_dns;
mod show_events;
mod show_fds;
mod show_fidelity;
mod show_fidelity_reasons;
mod show_fingerprints;
pub(crate) mod show_histograms;
mod show_history;
mod show_holders;
mod show_hosts;
mod show_lanes;
mod show_limits;
mod show_lists;
mod show_locks;
mod show_mem;
mod show_peers;
mod show_pgweir;
mod show_pins;
mod show_pools;
mod show_queries;
mod show_servers;
mod show_sessions;
mod show_sizing;
mod show_sockets;
mod show_state;
mod show_stats;
mod show_stats_averages;
mod show_stats_totals;
mod show_totals;
mod show_users;
mod show_version;
mod show_waits;
mod show_why;
mod show_workers;
pub mod shown;
mod socket;

use crate::show_input::{Detail, ShowInput};
use crate::sight::Sight;
use crate::table::Table;

/// One `SHOW`.
struct Listed {
    show: Show,
    word: &'static str,
    looks_at: Detail,
    /// None for what is shown as a notice.
    table: Option<fn(&ShowInput<'_>) -> Table>,
}

macro_rules! shows {
    ($([$($(#[$doc:meta])* $name:ident $word:literal $looks_at:ident $table:expr;)+])+) => {
        /// What `SHOW` can show.
        #[derive(Copy, Clone, Debug, PartialEq, Eq)]
        pub enum Show {
            $($($(#[$doc])* $name,)+)+
        }

        const SHOWN: &[&[Listed]] = &[$(&[$(
            Listed { show: Show::$name, word: $word, looks_at: Detail::$looks_at, table: $table }
        ),+]),+];
    };
}

// In the lines and the order in which `SHOW HELP` names them.
shows! {
    [
        Help "HELP" Nothing None;
        Config "CONFIG" Nothing Some(show_config::table);
        Databases "DATABASES" Pools Some(show_databases::table);
        Pools "POOLS" Pools Some(show_pools::table);
        Clients "CLIENTS" Connections Some(show_clients::table);
        Servers "SERVERS" Connections Some(show_servers::table);
        Users "USERS" Connections Some(show_users::table);
        Peers "PEERS" Nothing Some(show_peers::table);
        PeerPools "PEER_POOLS" Nothing Some(show_peers::pools);
        /// For administrators only.
        Fds "FDS" Nothing Some(show_fds::table);
        Sockets "SOCKETS" Connections Some(show_sockets::table);
        ActiveSockets "ACTIVE_SOCKETS" Connections Some(show_sockets::active);
        Version "VERSION" Nothing Some(show_version::table);
    ]
    [
        Lists "LISTS" Connections Some(show_lists::table);
        Mem "MEM" Connections Some(show_mem::table);
        DnsHosts "DNS_HOSTS" Nothing Some(show_dns::hosts);
        DnsZones "DNS_ZONES" Nothing Some(show_dns::zones);
        State "STATE" Nothing Some(show_state::table);
        /// Not in PgBouncer: pgweir's version, and what it has lost.
        Pgweir "PGWEIR" Pools Some(show_pgweir::table);
        /// Not in PgBouncer: one row for each worker.
        Workers "WORKERS" Pools Some(show_workers::table);
        /// Not in PgBouncer: one row for each host of a database with several.
        Hosts "HOSTS" Pools Some(show_hosts::table);
    ]
    [
        /// Not in PgBouncer: the rows of SHOW CLIENTS, with their class and fidelity.
        Sessions "SESSIONS" Connections Some(show_sessions::table);
        /// Not in PgBouncer: the classes of clients, their limits and counts.
        Classes "CLASSES" Pools Some(show_classes::table);
        /// Not in PgBouncer: one row for each lane of a pool's queue.
        Lanes "LANES" Pools Some(show_lanes::table);
        /// Not in PgBouncer: the limits of classes and statements, and what is left of them.
        Limits "LIMITS" Pools Some(show_limits::table);
        /// Not in PgBouncer: statements that transactions begin with, if statements have limits.
        Fingerprints "FINGERPRINTS" Pools Some(show_fingerprints::table);
        /// Not in PgBouncer: each statement, with its calls, times and rows.
        Queries "QUERIES" Statements Some(show_queries::table);
        /// Not in PgBouncer: counts of pins, replays and checks by pool; the next one by pool and reason.
        Fidelity "FIDELITY" Pools Some(show_fidelity::table);
        FidelityReasons "FIDELITY_REASONS" Pools Some(show_fidelity_reasons::table);
        /// Not in PgBouncer: clients that keep a server between transactions.
        Pins "PINS" Connections Some(show_pins::table);
        /// Not in PgBouncer: the sizes of pools with `pool_size = auto`, and why.
        Sizing "SIZING" Pools Some(show_sizing::table);
    ]
    [
        /// Not in PgBouncer: why clients wait, in a sentence for each pool in trouble.
        Why "WHY" Pools Some(show_why::table);
        /// Not in PgBouncer: what each client and each backend of PostgreSQL does now, joined.
        Activity "ACTIVITY" Nothing Some(show_activity::table);
        /// Not in PgBouncer: samples of what was waited for, over any part of the last hour.
        Waits "WAITS" Nothing Some(show_waits::table);
        /// Not in PgBouncer: the seconds of the history, sample by sample.
        History "HISTORY" Nothing Some(show_history::table);
        /// Not in PgBouncer: who waits for a lock behind whom, as a tree; the next one counts locks.
        Locks "LOCKS" Nothing Some(show_locks::table);
        LockCounts "LOCK_COUNTS" Nothing Some(show_locks::counts);
        /// Not in PgBouncer: who has the servers of a pool, for how long, and for what.
        Holders "HOLDERS" Nothing Some(show_holders::table);
        /// Not in PgBouncer: how many backends each pool has in each of PostgreSQL's states, and since when.
        States "STATES" Nothing Some(show_holders::states);
    ]
    [
        Stats "STATS" Pools Some(show_stats::table);
        StatsTotals "STATS_TOTALS" Pools Some(show_stats_totals::table);
        StatsAverages "STATS_AVERAGES" Pools Some(show_stats_averages::table);
        Totals "TOTALS" Pools Some(show_totals::table);
        /// Not in PgBouncer: waits, queries and transactions of each pool by how long they took.
        Histograms "HISTOGRAMS" Pools Some(show_histograms::table);
        /// Not in PgBouncer: counts of refused requests and similar events since the start.
        Events "EVENTS" Pools Some(show_events::table);
    ]
}

/// `SHOW HISTORY` of a history at hand, for a report. Times are in the zone of `now`. `is_open`: with statements, tags and blockers, for an
/// administrator.
#[must_use]
pub fn history_table(
    history: &activity::History,
    span: activity::history::Span,
    now: &jiff::Zoned,
    is_open: bool,
) -> Table {
    show_history::history(history, span, &show_history::Asked { now, port: 0, is_open })
}

impl Show {
    /// The words after SHOW, in lines as in `SHOW HELP`.
    pub fn lines() -> impl Iterator<Item = impl Iterator<Item = (&'static str, Show)>> {
        SHOWN.iter().map(|line| line.iter().map(|shown| (shown.word, shown.show)))
    }

    /// The `SHOW` of a word.
    #[must_use]
    pub(crate) fn by_word(word: &str) -> Option<Show> {
        let is_it = |name: &str| name.eq_ignore_ascii_case(word);
        Show::lines().flatten().find(|(name, _)| is_it(name)).map(|(_, show)| show)
    }

    /// Whether a user in `stats_users` may see it.
    #[must_use]
    pub(crate) fn is_for_stats_users(self) -> bool {
        // In PgBouncer its rows hold passwords, keys and descriptors.
        self != Show::Fds
    }

    /// What it tells of how it is now, at PostgreSQL too.
    #[must_use]
    pub(crate) fn sight(self) -> Option<Sight> {
        match self {
            Show::Activity | Show::Holders | Show::States => Some(Sight::Backends),
            Show::Locks | Show::LockCounts | Show::Why => Some(Sight::Locks),
            _ => None,
        }
    }

    /// Whether it tells what was seen by the observer.
    #[must_use]
    pub(crate) fn is_of_history(self) -> bool {
        self.sight().is_some() || matches!(self, Show::Waits | Show::History | Show::Sessions | Show::Pgweir)
    }

    fn listed(self) -> &'static Listed {
        let mut all = SHOWN.iter().copied().flatten();
        all.find(|shown| shown.show == self).expect("every one is in the list that it comes from")
    }

    /// The table; `None` for SHOW HELP.
    #[must_use]
    pub fn table(self, input: &ShowInput<'_>) -> Option<Table> {
        Some(self.listed().table?(input))
    }

    /// How detailed the snapshots must be.
    #[must_use]
    pub(crate) fn detail(self) -> Detail {
        self.listed().looks_at
    }
}
