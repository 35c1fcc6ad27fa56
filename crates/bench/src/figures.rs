//! From a record's raw samples to figures.
//!
//! Promises: computes from the record alone, so that a figure can be checked, or computed anew, years later.

use measure::statistics::{Estimate, Verdict, estimate, judge, paired_ratios};
use serde_json::Value;

use crate::scenario::{CLASSIC, Figure, Pair, SCENARIOS, Threshold};

/// The bootstrap's seed: any fixed number, so that a record always gives the same table.
const SEED: u64 = 20;

/// A quantity of one sample.
pub type Quantity = fn(&Value) -> Option<f64>;

/// The pooler's CPU time per transaction, in ns.
pub fn cpu_ns_each(sample: &Value) -> Option<f64> {
    Some(sample["cpu_ns"].as_f64()? / sample["transactions"].as_f64()?)
}

/// Context switches of the pooler per transaction, of both kinds.
pub fn switches_each(sample: &Value) -> Option<f64> {
    let switches = sample["voluntary_switches"].as_f64()? + sample["involuntary_switches"].as_f64()?;
    Some(switches / sample["transactions"].as_f64()?)
}

/// CPU time per transaction of the servers that the pooler keeps, in ns: what waking the pooler costs them is in it.
pub fn servers_cpu_ns_each(sample: &Value) -> Option<f64> {
    Some(sample["servers_cpu_ns"].as_f64()? / sample["transactions"].as_f64()?)
}

/// Times per transaction that one of these servers went to sleep.
pub fn servers_sleeps_each(sample: &Value) -> Option<f64> {
    Some(sample["servers_sleeps"].as_f64()? / sample["transactions"].as_f64()?)
}

/// Transactions a second.
pub fn speed(sample: &Value) -> Option<f64> {
    sample["tps"].as_f64().or_else(|| Some(sample["transactions"].as_f64()? / sample["wall_ns"].as_f64()? * 1e9))
}

/// Bytes per idle client.
pub fn client_bytes(sample: &Value) -> Option<f64> {
    sample["client_bytes"].as_f64()
}

/// The middle latency, in µs.
pub fn latency_p50_us(sample: &Value) -> Option<f64> {
    Some(sample["latency_p50_ns"].as_f64()? / 1e3)
}

/// The latency that one in a hundred exceeds, in µs.
pub fn latency_p99_us(sample: &Value) -> Option<f64> {
    Some(sample["latency_p99_ns"].as_f64()? / 1e3)
}

/// One contestant's quantity in every round of a scenario.
pub fn series(scenario: &Value, contestant: &str, quantity: Quantity) -> Vec<Option<f64>> {
    let rounds = scenario["rounds"].as_array().into_iter().flatten();
    rounds.map(|round| quantity(&round["samples"][contestant])).collect()
}

/// Median and interval of one contestant's quantity.
pub fn middle(scenario: &Value, contestant: &str, quantity: Quantity) -> Option<Estimate> {
    let samples: Vec<f64> = series(scenario, contestant, quantity).into_iter().flatten().collect();
    estimate(&samples, SEED)
}

/// Median and interval of `above`'s quantity ÷ `below`'s in the same round.
pub fn ratio(scenario: &Value, above: &str, below: &str, quantity: Quantity) -> Option<Estimate> {
    let ratios = paired_ratios(&series(scenario, above, quantity), &series(scenario, below, quantity));
    estimate(&ratios, SEED)
}

/// Median and interval of how much more of it the one has than the other in the same round.
pub fn more(scenario: &Value, with: &str, without: &str, quantity: Quantity) -> Option<Estimate> {
    let both = series(scenario, with, quantity).into_iter().zip(series(scenario, without, quantity));
    let more: Vec<f64> = both.filter_map(|(with, without)| Some(with? - without?)).collect();
    estimate(&more, SEED)
}

/// Contestants of a scenario, in the order of the record, with those that have a process first.
pub fn names(scenario: &Value) -> Vec<String> {
    let Some(round) = scenario["rounds"].as_array().and_then(|rounds| rounds.first()) else { return Vec::new() };
    let mut names: Vec<String> =
        round["samples"].as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
    names.sort_by_key(|name| (name == "direct", name.clone()));
    names
}

/// System calls of one contestant per transaction, by name, the most frequent first.
pub fn calls_each(scenario: &Value, contestant: &str) -> Vec<(String, f64)> {
    let counted = &scenario["system_calls"][contestant];
    let transactions = counted["transactions"].as_f64().unwrap_or(f64::NAN);
    let calls = counted["calls"].as_object().into_iter().flatten();
    let mut each: Vec<(String, f64)> =
        calls.filter_map(|(name, calls)| Some((name.clone(), calls.as_f64()? / transactions))).collect();
    each.sort_by(|one, other| other.1.total_cmp(&one.1));
    each
}

/// All system calls of one contestant per transaction; `None` if they were not counted.
pub fn calls_sum(scenario: &Value, contestant: &str) -> Option<f64> {
    let each = calls_each(scenario, contestant);
    (!each.is_empty()).then(|| each.iter().map(|(_, calls)| calls).sum())
}

/// System calls per transaction that the one makes and the other does not; `None` if they were not counted.
pub fn calls_more(scenario: &Value, pair: Pair) -> Option<f64> {
    Some(calls_sum(scenario, pair.with)? - calls_sum(scenario, pair.without)?)
}

/// Median and interval of the CPU time per transaction that the one takes in a round and the other does not, in ns.
pub fn cpu_more(scenario: &Value, pair: Pair) -> Option<Estimate> {
    more(scenario, pair.with, pair.without, cpu_ns_each)
}

/// Instructions per transaction that pgweir takes under a load and classic does not; `None` if they were not counted.
pub fn instructions_more(scenario: &Value, case: &str) -> Option<f64> {
    let of = |name: &str| scenario["instructions"][case][name]["instructions_per_transaction"].as_f64();
    Some(of("pgweir")? - of(CLASSIC)?)
}

/// Lends per transaction of one contestant; `None` where its console did not say.
pub fn lends_each(scenario: &Value, contestant: &str) -> Option<f64> {
    let lent = &scenario["lends"][contestant];
    Some(lent["lends"].as_f64()? / lent["transactions"].as_f64()?)
}

/// A threshold with what was measured.
#[derive(Clone, Debug)]
pub struct Judgement {
    pub scenario: String,
    pub what: String,
    pub threshold: Threshold,
    /// `None`: not measured.
    pub figure: Option<Estimate>,
    /// `None`: nothing that only copies was measured, or the figure is not about CPU time.
    pub ceiling: Option<Ceiling>,
}

/// What a pooler could reach at most if it did nothing but copy.
#[derive(Clone, Copy, Debug)]
pub struct Ceiling {
    /// The other contestant's CPU time per transaction ÷ the relay's.
    pub ratio: Estimate,
    /// The relay's CPU time per transaction, in ns.
    pub cpu_ns: f64,
}

impl Judgement {
    /// Reached or missed; `None` if it was not measured.
    pub fn must(&self) -> Option<Verdict> {
        Some(judge(self.figure?, self.threshold.must, self.threshold.at_most))
    }

    /// Whether nothing that copies on this machine could reach the value.
    pub fn is_above_ceiling(&self, value: f64) -> bool {
        self.ceiling.is_some_and(|ceiling| value > ceiling.ratio.median)
    }

    /// The same for what should be reached.
    pub fn should(&self) -> Option<Verdict> {
        Some(judge(self.figure?, self.threshold.should?, self.threshold.at_most))
    }
}

/// Every threshold of the table, with the figures of this record beside it.
pub fn judgements(record: &Value) -> Vec<Judgement> {
    let mut all = Vec::new();
    for scenario in SCENARIOS {
        let measured = record["scenarios"].as_array().into_iter().flatten().find(|one| one["name"] == scenario.name);
        for threshold in scenario.thresholds {
            let measured = measured.unwrap_or(&Value::Null);
            let (what, figure) = measure(measured, threshold.figure);
            let ceiling = ceiling(measured, threshold.figure);
            all.push(Judgement { scenario: scenario.name.to_owned(), what, threshold: *threshold, figure, ceiling });
        }
    }
    all
}

fn ceiling(scenario: &Value, figure: Figure) -> Option<Ceiling> {
    let Figure::CpuRatio { against } = figure else { return None };
    let cpu_ns = middle(scenario, "relay", cpu_ns_each)?.median;
    Some(Ceiling { ratio: ratio(scenario, against, "relay", cpu_ns_each)?, cpu_ns })
}

fn measure(scenario: &Value, figure: Figure) -> (String, Option<Estimate>) {
    let exact = |value: f64| Estimate { median: value, low: value, high: value, samples: 1 };
    match figure {
        Figure::CpuRatio { against } => {
            (format!("CPU, {against} ÷ pgweir"), ratio(scenario, against, "pgweir", cpu_ns_each))
        }
        Figure::SystemCalls => ("system calls a transaction".to_owned(), calls_sum(scenario, "pgweir").map(exact)),
        Figure::EpollControls => {
            let counted = calls_sum(scenario, "pgweir").is_some();
            let calls = calls_each(scenario, "pgweir");
            let controls = calls.iter().find(|(name, _)| name == "epoll_ctl").map_or(0.0, |(_, calls)| *calls);
            ("epoll_ctl a transaction".to_owned(), counted.then_some(exact(controls)))
        }
        Figure::ClientBytes => ("bytes an idle client".to_owned(), middle(scenario, "pgweir", client_bytes)),
        Figure::ClientBytesRatio { against } => {
            (format!("bytes an idle client, {against} ÷ pgweir"), ratio(scenario, against, "pgweir", client_bytes))
        }
        Figure::Lends => ("lends a transaction".to_owned(), lends_each(scenario, "pgweir-2-workers").map(exact)),
        Figure::SystemCallGrowth => {
            let two = calls_sum(scenario, "pgweir-2-workers");
            let growth = two.zip(calls_sum(scenario, "pgweir-1-worker")).map(|(two, one)| exact(two / one));
            ("system calls, 2 workers ÷ 1".to_owned(), growth)
        }
        Figure::SystemCallsMore { pair } => {
            (format!("system calls, {} − {}", pair.with, pair.without), calls_more(scenario, pair).map(exact))
        }
        Figure::CpuMore { pair } => {
            (format!("CPU ns a transaction, {} − {}", pair.with, pair.without), cpu_more(scenario, pair))
        }
        Figure::InstructionsMore { case } => {
            (format!("instructions more than classic, {case}"), instructions_more(scenario, case).map(exact))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::scenario::{FIDELITY, SHARING};

    fn scenario() -> Value {
        let sample = |cpu: u64| json!({ "cpu_ns": cpu, "transactions": 10, "wall_ns": 1000 });
        json!({
            "name": "tcp-64",
            "rounds": [
                { "samples": { "pgbouncer": sample(400), "pgweir": sample(200), "direct": { "transactions": 5, "wall_ns": 1000 } } },
                { "samples": { "pgbouncer": sample(660), "pgweir": sample(300) } },
                { "samples": { "pgbouncer": sample(500) } },
            ],
            "system_calls": { "pgweir": { "transactions": 100, "calls": { "read": 200, "write": 201 } } },
        })
    }

    #[test]
    fn ratios_come_from_rounds_with_both() {
        let figure = ratio(&scenario(), "pgbouncer", "pgweir", cpu_ns_each).expect("measured");
        assert_eq!((figure.samples, figure.median), (2, 2.1));
        assert_eq!(middle(&scenario(), "pgbouncer", cpu_ns_each).expect("measured").samples, 3);
        assert!(ratio(&scenario(), "pgbouncer", "direct", cpu_ns_each).is_none(), "nothing is made up");
        assert_eq!(names(&scenario()), ["pgbouncer", "pgweir", "direct"]);
    }

    #[test]
    fn more_than_classic_is_a_difference() {
        let count = |instructions: f64| json!({ "instructions_per_transaction": instructions });
        let calls = |calls: u64| json!({ "transactions": 100, "calls": { "read": calls } });
        let scenario = json!({
            "instructions": { "unique": { "pgweir": count(3000.0), "pgweir-classic": count(2100.0) } },
            "system_calls": { "pgweir": calls(450), "pgweir-classic": calls(400) },
        });
        assert_eq!(instructions_more(&scenario, "unique"), Some(900.0));
        assert_eq!(instructions_more(&scenario, "simple"), None, "nothing is made up");
        assert_eq!(calls_more(&scenario, FIDELITY), Some(0.5));
        let sample = |cpu: u64| json!({ "cpu_ns": cpu, "transactions": 10 });
        let round = |with: u64, without: u64| json!({ "samples": { "pgweir-classes": sample(with), "pgweir": sample(without) } });
        let scenario = json!({ "rounds": [round(100, 70), round(500, 450), round(90, 80)] });
        assert_eq!(cpu_more(&scenario, SHARING).map(|more| (more.median, more.samples)), Some((3.0, 3)));
    }

    #[test]
    fn every_threshold_is_judged_or_named_as_not_measured() {
        let record = json!({ "scenarios": [scenario()] });
        let all = judgements(&record);
        let expected: usize = SCENARIOS.iter().map(|one| one.thresholds.len()).sum();
        assert_eq!(all.len(), expected);
        let of = |figure: Figure| {
            all.iter().find(|one| one.scenario == "tcp-64" && one.threshold.figure == figure).expect("in the table")
        };
        assert_eq!(of(Figure::CpuRatio { against: "pgbouncer" }).must(), Some(Verdict::Reached));
        assert_eq!(of(Figure::SystemCalls).must(), Some(Verdict::Reached));
        assert_eq!(of(Figure::EpollControls).must(), Some(Verdict::Reached));
        let other = all.iter().find(|one| one.scenario == "unix-8").expect("in the table");
        assert_eq!(other.must(), None);
    }
}
