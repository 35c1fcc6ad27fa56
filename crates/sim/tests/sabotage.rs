//! Each deliberate fault is caught within a minute, by an invariant that it breaks.
#![cfg(feature = "sabotage")]

use std::time::{Duration, Instant};

use pooling::sabotage::Sabotage;
use pooling::settings::Fidelity;
use sim::plan::Wishes;
use sim::run;
use sim::sabotage::shows_as;

const WITHIN: Duration = Duration::from_secs(60);

/// What settings promise that most worlds seldom ask for.
const PROMISED: [Sabotage; 11] = [
    Sabotage::HalfASecret,
    Sabotage::KeepUserLimit,
    Sabotage::LeaveCopyOpen,
    Sabotage::UnlistenForAll,
    Sabotage::ReadOn,
    Sabotage::OneTooFew,
    Sabotage::LeaveReserve,
    Sabotage::RejuvenateLent,
    Sabotage::KeepStatements,
    Sabotage::ForgiveIdleTransactions,
    Sabotage::RemoveSilently,
];

/// The seed that catches it, if any does in time.
fn hunt(fault: Sabotage) -> Option<u64> {
    let began = Instant::now();
    (0..).take_while(|_| began.elapsed() < WITHIN).find(|&seed| {
        // In most worlds classes are not told apart.
        let classes = matches!(fault, Sabotage::OldestOfAnyClass | Sabotage::LendWhatWasLent);
        // And in most of them sessions are not followed.
        let followed = matches!(fault, Sabotage::UnlistenForAll | Sabotage::KeepStatements);
        let fidelity = followed.then_some(Fidelity::Transparent);
        let promises = PROMISED.contains(&fault);
        let wishes = Wishes { seed, classes, promises, fidelity, sabotage: Some(fault), ..Wishes::default() };
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
