//! How long a run will take, told before it begins.
//!
//! Promises: what is timed is counted exactly; starting, settling and counting are measured values of a two-core machine,
//! so a slower one takes a little longer. Does not: know whether PgBouncer must be fetched first.

use std::time::Duration;

use crate::contestant::Contestant;
use crate::instructions::FIDELITY;
use crate::plan::Plan;
use crate::scenario::{Kind, Proof, Scenario};

/// Starting a contestant, logging its clients in, and settling.
const START: Duration = Duration::from_millis(200);
/// Five thousand clients log in, ask and leave.
const IDLE_ROUND: Duration = Duration::from_millis(1200);
/// initdb, and filling pgbench's tables.
const CLUSTER: Duration = Duration::from_secs(15);
/// The counting of instructions of one contestant: a short and a long run under each load.
pub const INSTRUCTIONS: Duration = Duration::from_secs(13);
/// The same under one load.
const INSTRUCTIONS_CASE: Duration = Duration::from_secs(3);

/// One scenario with these contestants.
pub fn scenario(plan: &Plan, scenario: &Scenario, contestants: &[Contestant]) -> Duration {
    let sides = contestants.len() as u32;
    let poolers = contestants.iter().filter(|one| one.program.is_some()).count() as u32;
    let pace = plan.pace;
    let counting = if plan.bare { Duration::ZERO } else { plan.counting() * poolers };
    let rounds = |slice: Duration| (slice + pace.warm_up) * pace.rounds as u32;
    match scenario.kind {
        Kind::Closed | Kind::Logins(Proof::Trust | Proof::Md5) => (rounds(pace.slice) + START) * sides + counting,
        Kind::Logins(Proof::Scram | Proof::ScramOfPassword) => (rounds(pace.slice * 2) + START) * sides + counting,
        Kind::Idle => IDLE_ROUND * poolers * plan.idle_rounds() as u32,
        // Two sides, each counted once, and twice half a slice to find the rate.
        Kind::HalfLoad { .. } => (rounds(pace.slice) + START + plan.counting()) * 2 + Duration::from_secs(1),
        // Two sides.
        Kind::Instructions => INSTRUCTIONS_CASE * FIDELITY.len() as u32 * 2,
        Kind::Pgbench { .. } => pgbench(plan.pgbench()) * sides,
        Kind::Few { .. } => pgbench(plan.few()) * sides,
    }
}

/// With a round of a second to warm up.
fn pgbench((rounds, seconds): (usize, u64)) -> Duration {
    Duration::from_secs(rounds as u64 * seconds + 1)
}

/// What all scenarios need together, the cluster of pgbench and the counting of instructions with them.
pub fn whole<'a>(
    plan: &Plan,
    scenarios: impl Iterator<Item = (&'a Scenario, Vec<Contestant>)>,
    counted: usize,
) -> Duration {
    let mut sum = INSTRUCTIONS * counted as u32;
    let mut cluster = Duration::ZERO;
    for (one, contestants) in scenarios {
        sum += scenario(plan, one, &contestants);
        if matches!(one.kind, Kind::Pgbench { .. } | Kind::Few { .. }) {
            cluster = CLUSTER;
        }
    }
    sum + cluster
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contestant::Contestant;
    use crate::rounds::Pace;
    use crate::scenario::SCENARIOS;
    use crate::setup;

    /// The usual full run: three poolers at most, the direct connection and the relay where they belong.
    #[test]
    fn the_usual_run_takes_less_than_half_an_hour() {
        let slice = Duration::from_millis(crate::plan::SLICE_MS);
        let pace = Pace { rounds: crate::plan::ROUNDS as usize, warm_up: slice / 4, slice };
        let plan = Plan { pace, quick: false, seed: 1, split: false, wanted: Vec::new(), bare: false };
        let relay = Contestant::relay().expect("this program has a place");
        let given = ["pgweir", "pgbouncer"].map(|name| Contestant { name: name.to_owned(), ..relay.clone() });
        let with = |one| (one, setup::contestants(one, &given).expect("this program has a place"));
        let all = whole(&plan, SCENARIOS.iter().map(with), given.len());
        assert!(all < Duration::from_secs(30 * 60), "{all:?}");
        assert!(all > Duration::from_secs(15 * 60), "{all:?}: are the rounds still counted?");
    }

    #[test]
    fn twice_the_rounds_take_about_twice_the_time() {
        let slice = Duration::from_millis(400);
        let pace = |rounds| Pace { rounds, warm_up: slice / 4, slice };
        let plan =
            |rounds| Plan { pace: pace(rounds), quick: false, seed: 1, split: false, wanted: Vec::new(), bare: true };
        let one = [Contestant::direct()];
        let closed = SCENARIOS.iter().find(|one| one.kind == Kind::Closed).expect("in the table");
        assert_eq!(scenario(&plan(10), closed, &one), Duration::from_secs(5) + START);
        assert_eq!(scenario(&plan(20), closed, &one), Duration::from_secs(10) + START);
    }
}
