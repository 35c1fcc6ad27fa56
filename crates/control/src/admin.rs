//! What `SHOW` shows: one file for each, with its columns and how its rows come from a [`View`].
//!
//! Columns, their order and their types are PgBouncer's (`//= pgbouncer usage.md#show-commands`); columns of our own come
//! behind them. Rows are ordered by name, so that two looks can be compared.

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
use crate::table::Table;
use crate::view::View;

impl Show {
    /// The table; `None` for what is no table, or not there yet.
    #[must_use]
    pub fn table(self, view: &View<'_>) -> Option<Table> {
        Some(match self {
            Show::Classes => show_classes::table(view),
            Show::Clients => show_clients::table(view),
            Show::Config => show_config::table(view),
            Show::Databases => show_databases::table(view),
            Show::Events => show_events::table(view),
            Show::Fidelity => show_fidelity::table(view),
            Show::FidelityReasons => show_fidelity_reasons::table(view),
            Show::Fingerprints => show_fingerprints::table(view),
            Show::Lanes => show_lanes::table(view),
            Show::Limits => show_limits::table(view),
            Show::Lists => show_lists::table(view),
            Show::Pins => show_pins::table(view),
            Show::Pools => show_pools::table(view),
            Show::Servers => show_servers::table(view),
            Show::Sizing => show_sizing::table(view),
            Show::State => show_state::table(),
            Show::Stats => show_stats::table(view),
            Show::StatsAverages => show_stats_averages::table(view),
            Show::StatsTotals => show_stats_totals::table(view),
            Show::Totals => show_totals::table(view),
            Show::Users => show_users::table(view),
            Show::Version => show_version::table(),
            Show::Workers => show_workers::table(view),
            Show::Help | Show::NotYet(_) => return None,
        })
    }

    /// What it needs to look at.
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

/// How closely to look at the workers for a `SHOW`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Detail {
    Nothing,
    Pools,
    /// Each client and server.
    Connections,
}
