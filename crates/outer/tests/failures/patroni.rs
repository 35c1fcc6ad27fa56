//! A real cluster under Patroni that fails, and the ledger of 20 clients afterwards. Verdicts only: seconds are measured by the bench
//! `failover`, whose cluster and clients these are.
//!
//! Both tests have one cluster, which takes a while to start. Its guard ends it with this program.

use std::sync::{Mutex, PoisonError};

use failover::network::Network;
use failover::{Case, Cluster, Contestant, Outcome, Plan, Stock, play};
use outer::{Slot, binary};

const CLIENTS: usize = 20;

static CLUSTER: Mutex<Option<Cluster>> = Mutex::new(None);

/// What the pooler's clients see of a case. `None`: the test has been reported as skipped.
fn outcome(case: Case) -> Option<Outcome> {
    let _slot = Slot::any();
    let stock = match Stock::find() {
        Ok(stock) => stock,
        Err(error) => {
            println!("SKIPPED a failover of a cluster: {error}");
            return None;
        }
    };
    let mut shared = CLUSTER.lock().unwrap_or_else(PoisonError::into_inner);
    // A cluster with which a test has failed is not used again.
    let mut cluster = match shared.take() {
        Some(cluster) => cluster,
        None => Cluster::start(&stock, Network::Loopback).unwrap_or_else(|error| panic!("{error}")),
    };
    let contestant = Contestant::pgweir(&binary()).expect("it says its version");
    let played =
        play(&mut cluster, &Plan { case, contestant, clients: CLIENTS }).unwrap_or_else(|error| panic!("{error}"));
    println!("{}", played.outcome.to_json());
    *shared = Some(cluster);
    Some(played.outcome)
}

/// Nobody was told something that is not so, nobody wrote at a standby, and everybody is served again.
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
#[ignore = "clients that wait for an answer of a frozen primary are not freed yet: that needs a probe of each host"]
fn clients_of_a_frozen_primary_are_served_by_the_next_one() {
    let Some(outcome) = outcome(Case::Frozen) else { return };
    is_honest(&outcome);
    assert_eq!(outcome.idle_lost, 0, "{}", outcome.to_json());
}
