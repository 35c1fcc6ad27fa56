//! Each deliberate fault is caught within a minute, by an invariant that it breaks.
#![cfg(feature = "sabotage")]

use std::time::{Duration, Instant};

use pooling::sabotage::Sabotage;
use sim::plan::Wishes;
use sim::run;
use sim::sabotage::shows_as;

const WITHIN: Duration = Duration::from_secs(60);

/// The seed that catches it, if any does in time.
fn hunt(fault: Sabotage) -> Option<u64> {
    let began = Instant::now();
    (0..).take_while(|_| began.elapsed() < WITHIN).find(|&seed| {
        // In most worlds classes are not told apart.
        let classes = matches!(fault, Sabotage::OldestOfAnyClass | Sabotage::LendWhatWasLent);
        let wishes = Wishes { seed, classes, sabotage: Some(fault), ..Wishes::default() };
        let failure = run::run(&wishes, false, false).failure;
        failure.is_some_and(|failure| shows_as(fault).contains(&failure.invariant))
    })
}

#[test]
fn every_fault_is_caught() {
    let found: Vec<(Sabotage, Option<u64>)> = Sabotage::ALL.into_iter().map(|fault| (fault, hunt(fault))).collect();
    eprintln!("caught at these seeds: {found:?}");
    assert!(found.iter().all(|(_, seed)| seed.is_some()), "not caught: {found:?}");
}
