//! A real cluster under Patroni that fails, and the ledger of 20 clients afterwards. Verdicts only: seconds are measured by the bench
//! `failover`, whose cluster and clients these are.
//!
//! All tests but one have one cluster, which takes a while to start. Its guard ends it with this program.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use failover::network::Network;
use failover::{Case, Cluster, Contestant, Outcome, Plan, Stock, play};
use outer::{Slot, binary};

const CLIENTS: usize = 20;
/// A busy machine takes seconds; a client that is not served in a minute never is.
const PATIENCE: Duration = Duration::from_secs(60);

static CLUSTER: Mutex<Option<Cluster>> = Mutex::new(None);

/// `None`: the test has been reported as skipped.
fn stock() -> Option<Stock> {
    let found = Stock::find();
    if let Err(error) = &found {
        println!("SKIPPED a failover of a cluster: {error}");
    }
    found.ok()
}

fn played(cluster: &mut Cluster, case: Case) -> Outcome {
    let contestant = Contestant::pgweir(&binary()).expect("it says its version");
    let plan = Plan { case, contestant, pool: None, clients: CLIENTS, patience: PATIENCE };
    let played = play(cluster, &plan).unwrap_or_else(|error| panic!("{error}"));
    println!("{}", played.outcome.to_json());
    played.outcome
}

/// The outcome of a case, on the shared cluster. `None`: the test has been reported as skipped.
fn outcome(case: Case) -> Option<Outcome> {
    let stock = stock()?;
    // A test that waits for the cluster needs no slot.
    let mut shared = CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
    let _slot = Slot::any();
    // A cluster with which a test has failed is not used again.
    let mut cluster = match shared.take() {
        Some(cluster) => cluster,
        None => Cluster::start(&stock, Network::Loopback).unwrap_or_else(|error| panic!("{error}")),
    };
    let outcome = played(&mut cluster, case);
    *shared = Some(cluster);
    Some(outcome)
}

/// No client got a wrong answer, none wrote at a standby, and all are served again.
fn is_honest(outcome: &Outcome) {
    let verdict = outcome.verdict;
    assert_eq!((verdict.lost, verdict.doubled, verdict.ghost, verdict.torn), (0, 0, 0, 0), "{}", outcome.to_json());
    assert_eq!(outcome.errors.get("25006"), None, "{}", outcome.to_json());
    assert_eq!((outcome.never, outcome.hung), (0, 0), "{}", outcome.to_json());
    assert!(outcome.login_errors.is_empty(), "{}", outcome.to_json());
}

#[test]
fn a_switchover_loses_and_doubles_nothing_and_everybody_is_served_again() {
    let Some(outcome) = outcome(Case::Switchover) else { return };
    is_honest(&outcome);
    assert_eq!(outcome.idle_lost, 0, "{}", outcome.to_json());
}

#[test]
fn clients_of_a_frozen_primary_are_served_by_the_next_one() {
    let Some(outcome) = outcome(Case::Frozen) else { return };
    is_honest(&outcome);
    assert_eq!(outcome.idle_lost, 0, "{}", outcome.to_json());
}

#[test]
#[ignore = "test-full: 30 s; in the gate: a_switchover_loses_and_doubles_nothing_and_everybody_is_served_again"]
fn a_killed_primary_loses_and_doubles_nothing() {
    outcome(Case::Kill9).iter().for_each(is_honest);
}

#[test]
#[ignore = "test-full: 50 s; in the gate: a_switchover_loses_and_doubles_nothing_and_everybody_is_served_again"]
fn a_primary_that_wakes_up_beside_the_next_one_gets_no_writes() {
    outcome(Case::Zombie).iter().for_each(is_honest);
}

#[test]
#[ignore = "test-full: 20 s; in the gate: a_switchover_loses_and_doubles_nothing_and_everybody_is_served_again"]
fn an_etcd_that_is_away_ends_nothing() {
    outcome(Case::Etcd).iter().for_each(is_honest);
}

#[test]
#[ignore = "test-full: 10 s; in the gate: a_switchover_loses_and_doubles_nothing_and_everybody_is_served_again"]
fn a_restart_in_place_is_waited_for() {
    outcome(Case::Restart).iter().for_each(is_honest);
}

#[test]
#[ignore = "test-full: 20 s; in the gate: a_switchover_loses_and_doubles_nothing_and_everybody_is_served_again"]
fn a_second_primary_gets_no_writes() {
    outcome(Case::Two).iter().for_each(is_honest);
}

#[test]
#[ignore = "test-full: a minute, as root; in the gate: a_switchover_loses_and_doubles_nothing_and_everybody_is_served_again"]
fn a_primary_that_is_cut_off_loses_and_doubles_nothing() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED a primary that is cut off: network namespaces need root");
        return;
    }
    let _slot = Slot::any();
    let Some(stock) = stock() else { return };
    let network = Network::namespaces().unwrap_or_else(|error| panic!("{error}"));
    let mut cluster = Cluster::start(&stock, network).unwrap_or_else(|error| panic!("{error}"));
    is_honest(&played(&mut cluster, Case::Cut));
}
