//! The tables of `SHOW`: one file for each, with its columns and how its rows are made from a [`ShowInput`].
//!
//! Columns, their order and their types are PgBouncer's (`//= pgbouncer usage.md#show-commands`); pgweir's own columns
//! come after them. Rows are ordered by name, so that two answers can be compared.

pub mod help;
mod show_classes;
mod show_clients;
mod show_config;
mod show_databases;
mod show_events;
mod show_fidelity;
mod show_fidelity_reasons;
mod show_fingerprints;
mod show_lanes;
mod show_limits;
mod show_lists;
mod show_pins;
mod show_pools;
mod show_servers;
mod show_sizing;
mod show_state;
mod show_stats;
mod show_stats_averages;
mod show_stats_totals;
mod show_totals;
mod show_users;
mod show_version;
mod show_workers;
mod socket;

use crate::command::Show;
use crate::show_input::ShowInput;
use crate::table::Table;

impl Show {
    /// The table; `None` for SHOW HELP, and for what is not supported yet.
    #[must_use]
    pub fn table(self, input: &ShowInput<'_>) -> Option<Table> {
        Some(match self {
            Show::Classes => show_classes::table(input),
            Show::Clients => show_clients::table(input),
            Show::Config => show_config::table(input),
            Show::Databases => show_databases::table(input),
            Show::Events => show_events::table(input),
            Show::Fidelity => show_fidelity::table(input),
            Show::FidelityReasons => show_fidelity_reasons::table(input),
            Show::Fingerprints => show_fingerprints::table(input),
            Show::Lanes => show_lanes::table(input),
            Show::Limits => show_limits::table(input),
            Show::Lists => show_lists::table(input),
            Show::Pins => show_pins::table(input),
            Show::Pools => show_pools::table(input),
            Show::Servers => show_servers::table(input),
            Show::Sizing => show_sizing::table(input),
            Show::State => show_state::table(),
            Show::Stats => show_stats::table(input),
            Show::StatsAverages => show_stats_averages::table(input),
            Show::StatsTotals => show_stats_totals::table(input),
            Show::Totals => show_totals::table(input),
            Show::Users => show_users::table(input),
            Show::Version => show_version::table(),
            Show::Workers => show_workers::table(input),
            Show::Help | Show::NotYet(_) => return None,
        })
    }

    /// How detailed the snapshots must be.
    #[must_use]
    pub fn detail(self) -> Detail {
        match self {
            Show::Clients | Show::Servers | Show::Users | Show::Lists | Show::Pins => Detail::Connections,
            Show::Classes
            | Show::Databases
            | Show::Events
            | Show::Fidelity
            | Show::FidelityReasons
            | Show::Fingerprints
            | Show::Lanes
            | Show::Limits
            | Show::Pools
            | Show::Sizing
            | Show::Stats
            | Show::StatsAverages
            | Show::StatsTotals
            | Show::Totals
            | Show::Workers => Detail::Pools,
            Show::Config | Show::Help | Show::State | Show::Version | Show::NotYet(_) => Detail::Nothing,
        }
    }
}

/// How detailed the workers' snapshots must be for a `SHOW`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Detail {
    Nothing,
    Pools,
    /// Each client and server.
    Connections,
}
