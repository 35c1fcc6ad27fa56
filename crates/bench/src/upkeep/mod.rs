//! What running a pooler costs besides its traffic: to be watched, to start, to reload.
//!
//! ```text
//!   watched    10,000 idle clients; /metrics and SHOW CLIENTS every second, or not
//!   start      from the process's birth to the first answered query
//!   reload     RELOAD with 1,000 databases, and with a pool in use of each; what running traffic notices
//!   scrape     /metrics and SHOW POOLS with 1,000 pools; what running traffic notices
//!   probed     three hosts that are asked once a second, or not; nothing else going on
//!   reloads    100 RELOADs a second for a minute, half of them of a file with a mistake
//! ```
//!
//! Promises: arms alternate within a round, in shuffled order; latencies are of questions that come at a fixed pace, so that
//! a stall counts for all who would have asked meanwhile; a client that is dropped ends the measurement. Does not: give
//! anybody cores of its own; compare with another pooler.

mod probed;
mod reload;
mod reloads;
mod scrape;
mod site;
mod start;

mod watched;

use std::path::Path;

use measure::machine::raise_descriptor_limit;
use measure::process::{self, pin_self};
use serde_json::{Value, json};

use crate::contestant::{Contestant, Premises};
use crate::record::Record;

/// A part of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpkeepPart {
    Watched,
    Start,
    Reload,
    Scrape,
    Probed,
    Reloads,
}

impl UpkeepPart {
    pub const ALL: [UpkeepPart; 6] = [
        UpkeepPart::Watched,
        UpkeepPart::Start,
        UpkeepPart::Reload,
        UpkeepPart::Scrape,
        UpkeepPart::Probed,
        UpkeepPart::Reloads,
    ];

    pub fn name(self) -> &'static str {
        match self {
            UpkeepPart::Watched => "watched",
            UpkeepPart::Start => "start",
            UpkeepPart::Reload => "reload",
            UpkeepPart::Scrape => "scrape",
            UpkeepPart::Probed => "probed",
            UpkeepPart::Reloads => "reloads",
        }
    }

    /// The part of this name.
    pub fn named(name: &str) -> Option<UpkeepPart> {
        UpkeepPart::ALL.into_iter().find(|part| part.name() == name)
    }
}

/// What is to be run.
#[derive(Clone, Debug)]
pub struct UpkeepPlan {
    pub parts: Vec<UpkeepPart>,
    pub rounds: usize,
    pub seed: u64,
    /// The duration of the storm of reloads, and of a round of `probed`.
    pub storm_s: u64,
}

/// Measures every part and writes the record. Returns it, and whether every one could be measured.
pub fn all(
    place: &Premises,
    pgweir: &Contestant,
    plan: &UpkeepPlan,
    out: Option<&Path>,
) -> Result<(Record, bool), String> {
    raise_descriptor_limit();
    pin_self(&process::cores())?;
    let description = json!({
        "seed": plan.seed,
        "rounds": plan.rounds,
        "order_words": format!("{} rounds, all arms in each, in shuffled order", plan.rounds),
        "placement_words": "nobody is pinned: pooler, load and whoever watches share all cores",
    });
    let mut record = Record::begin(out, "upkeep", std::slice::from_ref(pgweir), description)?;
    let mut whole = true;
    for part in &plan.parts {
        eprintln!("{}", part.name());
        let room = place.room(&format!("upkeep-{}", part.name()))?;
        let measured: Result<Value, String> = match part {
            UpkeepPart::Watched => watched::measure(&room, pgweir, plan),
            UpkeepPart::Start => start::measure(&room, pgweir, plan),
            UpkeepPart::Reload => reload::measure(&room, pgweir, plan),
            UpkeepPart::Scrape => scrape::measure(&room, pgweir, plan),
            UpkeepPart::Probed => probed::measure(&room, pgweir, plan),
            UpkeepPart::Reloads => reloads::measure(&room, pgweir, plan),
        };
        let about = json!({ "name": part.name(), "kind": "upkeep" });
        whole &= record.add_part(about, measured.map(|rounds| [("rounds", rounds)]))?;
    }
    Ok((record, whole))
}
