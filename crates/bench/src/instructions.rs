//! User-space instructions per transaction, counted by callgrind: a figure without noise.
//!
//! Promises: one client and a fixed number of transactions; the difference between a long run and a short one, so
//! that starting, warming up and ending do not count. Does not: see the kernel, which is most of the CPU time.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::contestant::{Contestant, Workplace};
use crate::scenario::Scenario;
use crate::setup::{self, Placement};
use crate::world::{Mode, World};

/// Transactions of the short and the long run.
const FEW: u64 = 1_000;
const MANY: u64 = 11_000;

/// Counts for every contestant. Errors: no valgrind, or a contestant that does not run under it.
pub fn run(
    place: &Workplace,
    scenario: &Scenario,
    contestants: &[Contestant],
    placement: &Placement,
) -> Result<Map<String, Value>, String> {
    let mut result = Map::new();
    for contestant in contestants.iter().filter(|one| one.program.is_some()) {
        let (few, few_done) = count(place, scenario, contestant, placement, FEW)?;
        let (many, many_done) = count(place, scenario, contestant, placement, MANY)?;
        let each = many.saturating_sub(few) as f64 / (many_done - few_done) as f64;
        let sample = json!({
            "short": { "instructions": few, "transactions": few_done },
            "long": { "instructions": many, "transactions": many_done },
            "instructions_per_transaction": each,
        });
        result.insert(contestant.name.clone(), sample);
    }
    Ok(result)
}

/// Instructions of a whole run with `transactions` in it, and how many there were exactly.
fn count(
    place: &Workplace,
    scenario: &Scenario,
    contestant: &Contestant,
    placement: &Placement,
    transactions: u64,
) -> Result<(u64, u64), String> {
    let place = &place.room(&format!("{}-{}-{transactions}-under-callgrind", scenario.name, contestant.name))?;
    setup::write_users(place)?;
    let mut world = World::open(&place.folder)?;
    let profile = place.folder.join(format!("callgrind-{}-{transactions}.out", contestant.name));
    let wrapper =
        ["valgrind".to_owned(), "--tool=callgrind".to_owned(), format!("--callgrind-out-file={}", profile.display())];
    let mut side = setup::start(place, scenario, contestant, &mut world, &wrapper, &placement.contestant)?;
    let drive = |world: &mut World| {
        world.connect(side.fleet, 1)?;
        world.start(side.fleet, Mode::Closed)?;
        while world.done(side.fleet) + 1 < transactions {
            world.run_for(Duration::from_millis(1))?;
        }
        world.settle(side.fleet)?;
        world.disconnect(side.fleet)
    };
    drive(&mut world).map_err(|error| side.blame(&error))?;
    let done = world.done(side.fleet);
    if let Some(running) = &mut side.running {
        running.stop();
    }
    let text = std::fs::read_to_string(&profile).map_err(|error| format!("callgrind wrote nothing: {error}"))?;
    Ok((total(&text).ok_or("callgrind's file has no total")?, done))
}

/// The total in callgrind's output: a line `totals: N` (or `summary: N`).
fn total(text: &str) -> Option<u64> {
    let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    line("totals:").or_else(|| line("summary:"))?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_found() {
        assert_eq!(total("events: Ir\nsummary: 12 0\nfn=a\ntotals: 34\n"), Some(34));
        assert_eq!(total("events: Ir\nsummary: 12\n"), Some(12));
        assert_eq!(total("events: Ir\n"), None);
    }
}
