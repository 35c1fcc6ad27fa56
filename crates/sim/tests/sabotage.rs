//! Each deliberate fault is caught within [`WORLDS`] worlds, by an invariant that it violates: mostly within a few
//! seconds. The count of worlds does not depend on how busy the computer is.
//!
//! `sabotage.txt` has the seed that caught each fault last, which is tried first; a change of the simulator or of the pooler may make it
//! another world, and then all are searched. `UPDATE=1` records the seeds anew.
#![cfg(debug_assertions)]

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};

use machine::sabotage::Sabotage;
use settings::Fidelity;
use sim::overrides::Overrides;
use sim::run;
use sim::sabotage::shows_as;
use sim::wishes::Wishes;

const WORLDS: u64 = 2_000;

/// Not caught within so many worlds yet. A statement that fails after a change of its table is prepared again, unless
/// more of the batch follows than the pooler keeps. Transcripts show it. No world has another process that shares tokens: tests of the
/// coordinator show that one.
const OPEN: [Sabotage; 2] = [Sabotage::KeepStatements, Sabotage::KeepTokensOfMembers];

/// Faults in the features of `promises`, which most worlds seldom use.
const PROMISED: [Sabotage; 14] = [
    Sabotage::LinkBeforeFatal,
    Sabotage::LeaveCopyOpen,
    Sabotage::HalfASecret,
    Sabotage::KeepUserLimit,
    Sabotage::UnlistenForAll,
    Sabotage::WithholdNews,
    Sabotage::ReadOn,
    Sabotage::OneTooFew,
    Sabotage::LeaveReserve,
    Sabotage::RejuvenateLent,
    Sabotage::ForgiveIdleTransactions,
    Sabotage::RemoveSilently,
    Sabotage::ReadSuspended,
    // One of some 250 worlds; without them one of a thousand.
    Sabotage::RetryWrites,
];

/// Faults that show only where hosts change their roles, freeze and fail.
const OF_HOSTS: [Sabotage; 7] = [
    Sabotage::LinkLentAnywhere,
    Sabotage::ForgetTimelines,
    Sabotage::TakeSilenceForPromotion,
    Sabotage::HoldForEver,
    Sabotage::KeepSilentServers,
    Sabotage::SkipRamp,
    Sabotage::RetryWrites,
];

fn is_caught_by(fault: Sabotage, seed: u64) -> bool {
    // Most worlds have no classes.
    let classes = matches!(fault, Sabotage::OldestOfAnyClass | Sabotage::LendWhatWasLent);
    // In most worlds sessions are not followed.
    let hears = matches!(
        fault,
        Sabotage::UnlistenForAll
            | Sabotage::WithholdNews
            | Sabotage::CancelCommits
            | Sabotage::RetryWrites
            | Sabotage::DenyCommits
    );
    let fidelity = hears.then_some(Fidelity::Transparent);
    // A server must travel.
    let workers = match fault {
        Sabotage::RejuvenateLent => Some(4),
        Sabotage::LinkLentAnywhere => Some(2),
        _ => None,
    };
    let mut set = Overrides::default();
    if fault == Sabotage::LinkLentAnywhere {
        // A smaller pool has one home: its servers stay.
        set.add("default_pool_size=16").expect("a setting");
    }
    let promises = PROMISED.contains(&fault);
    let hosts = OF_HOSTS.contains(&fault);
    let wishes =
        Wishes { seed, classes, promises, hosts, fidelity, workers, set, sabotage: Some(fault), ..Wishes::default() };
    let failure = run::run(&wishes, false, false).failure;
    failure.is_some_and(|failure| shows_as(fault).contains(&failure.invariant))
}

const RECORD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sabotage.txt");

/// The recorded seed of each fault, by its name.
fn recorded() -> BTreeMap<String, u64> {
    let record = std::fs::read_to_string(RECORD).expect("the recorded seeds");
    let lines = record.lines().map(|line| line.split_once(' ').unwrap_or_else(|| panic!("no seed: {line}")));
    lines.map(|(fault, seed)| (fault.to_owned(), seed.parse().unwrap_or_else(|_| panic!("no seed: {seed}")))).collect()
}

fn record(found: &[(Sabotage, Option<u64>)]) {
    let lines = found.iter().filter_map(|(fault, seed)| Some(format!("{fault:?} {}\n", (*seed)?)));
    std::fs::write(RECORD, lines.collect::<String>()).expect("the recorded seeds are written");
}

/// A seed that catches the fault, if there is one. All cores search.
fn hunt(fault: Sabotage) -> Option<u64> {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let found = AtomicU64::new(u64::MAX);
    std::thread::scope(|scope| {
        for first in 0..threads {
            let found = &found;
            scope.spawn(move || {
                let mut seeds = (first as u64..WORLDS).step_by(threads);
                let goes_on = |_: &u64| found.load(Ordering::Relaxed) == u64::MAX;
                if let Some(seed) = seeds.by_ref().take_while(goes_on).find(|&seed| is_caught_by(fault, seed)) {
                    found.fetch_min(seed, Ordering::Relaxed);
                }
            });
        }
    });
    Some(found.into_inner()).filter(|&seed| seed != u64::MAX)
}

#[test]
fn every_fault_is_caught() {
    let faults = Sabotage::ALL.into_iter().filter(|fault| !OPEN.contains(fault));
    let recorded = recorded();
    let catches = |fault: Sabotage| {
        let seed = recorded.get(&format!("{fault:?}")).copied();
        seed.filter(|&seed| is_caught_by(fault, seed)).or_else(|| {
            eprintln!("the recorded seed does not catch {fault:?}; UPDATE=1 records another one");
            hunt(fault)
        })
    };
    let found: Vec<(Sabotage, Option<u64>)> = faults.map(|fault| (fault, catches(fault))).collect();
    eprintln!("caught at these seeds: {found:?}");
    if std::env::var_os("UPDATE").is_some() {
        record(&found);
    }
    assert!(found.iter().all(|(_, seed)| seed.is_some()), "not caught: {found:?}");
}
