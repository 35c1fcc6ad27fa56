//! Linux Polska's arithmetic: pods with a pool of their own each, and the connections that PostgreSQL must then allow.
//!
//! Promises: what a connection costs is taken from this run's samples, where it has a test with hundreds of connections.

use crate::plan::{Mode, Trial};
use crate::sample::{Metric, Samples, Way, number};

/// The document's example: connections of a pod, those kept in reserve, and its rule of four connections a processor thread.
const A_POD: u64 = 50;
const RESERVE: u64 = 100;
const A_THREAD: u64 = 4;
/// Servers behind the pooler, as in most of the tests.
const POOL: u64 = 20;
/// The document has 10, then asks what happens when they are doubled.
const PODS: [u64; 3] = [10, 20, 40];

/// What one connection costs, in MB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cost {
    /// One of PostgreSQL's.
    pub(crate) server: f64,
    /// One client at pgweir.
    pub(crate) client: f64,
}

/// From the test with the most connections that has both ways.
pub(crate) fn cost(samples: &Samples, trials: &[Trial]) -> Option<Cost> {
    let pgweir = Way::Pgweir(Mode::Transaction);
    let median = |trial: &Trial, way, metric| samples.figure(trial.name, way, metric).map(|figure| figure.median);
    let of = |trial: &Trial| {
        let all = median(trial, Way::Direct, Metric::ServerMemory)?;
        let few = median(trial, pgweir, Metric::ServerMemory)?;
        let pooler = median(trial, pgweir, Metric::PoolerMemory)?;
        let clients = trial.connections() as f64;
        let more = clients - f64::from(trial.pool);
        Some(Cost { server: (all - few) / more, client: pooler / clients })
    };
    let mut large: Vec<&Trial> = trials.iter().filter(|trial| trial.connections() >= 500).collect();
    large.sort_by_key(|trial| std::cmp::Reverse(trial.connections()));
    large.into_iter().filter_map(of).find(|cost| cost.server > 0.0)
}

/// Rows of cells; the first row names the columns.
pub(crate) fn rows(cost: Option<Cost>) -> Vec<Vec<String>> {
    let first =
        ["pods", "connections, directly", "threads for them", "their memory", "connections, pooled", "their memory"];
    let mut rows = vec![first.map(str::to_owned).to_vec()];
    for pods in PODS {
        let clients = pods * A_POD;
        let direct = clients + RESERVE;
        let memory =
            |megabytes: Option<f64>| megabytes.map_or_else(|| "\u{2013}".to_owned(), crate::headline::megabytes);
        let count = |number_of: u64| number(number_of as f64);
        let pooled = POOL + RESERVE;
        let servers = |connections: u64| cost.map(|cost| cost.server * connections as f64);
        let with_pooler = cost.zip(servers(pooled)).map(|(cost, servers)| servers + cost.client * clients as f64);
        rows.push(vec![
            count(pods),
            count(direct),
            count(direct / A_THREAD),
            memory(servers(direct)),
            count(pooled),
            memory(with_pooler),
        ]);
    }
    rows
}

/// What the rows mean.
pub(crate) const WORDS: &str = "Each pod keeps up to 50 connections, and 100 are in reserve for others (Linux Polska\u{2019}s example: 10 pods need \
    600 connections, and by its rule of four connections a thread 150 threads; then the pods are doubled). Through the pooler the pods share \
    20 servers, however many pods there are; memory is what a connection cost in the largest test of this run, the pooler\u{2019}s included.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_pods_are_the_documents_six_hundred() {
        let rows = rows(Some(Cost { server: 2.0, client: 0.01 }));
        assert_eq!(rows[1], ["10", "600", "150", "1.17 GB", "120", "245 MB"]);
        assert_eq!(rows[2][1], "1,100");
        assert!(super::rows(None)[1].contains(&"\u{2013}".to_owned()));
    }
}
