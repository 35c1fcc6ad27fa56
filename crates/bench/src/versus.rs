//! Two builds of pgweir and PgBouncer in the same rounds: what a change is worth.
//!
//! Promises: ratios within a round only, with their intervals; no threshold is judged and no record has to be kept.
//! Does not: count system calls or measure the direct connection: a look after each change must be quick.

use std::fmt::Write;

use measure::statistics::Estimate;
use serde_json::Value;

use crate::contestant::Contestant;
use crate::figures::{cpu_ns_each, middle, ratio, speed};

/// Names of the two builds in the table.
pub const BUILDS: [&str; 2] = ["before", "after"];
/// What is measured unless something else is asked for.
pub const USUAL: [&str; 4] = ["tcp-8", "tcp-64", "unix-8", "unix-64"];

/// Reads `PROGRAM[,KEY=VALUE…]` as one of the builds. A pgweir has one worker, as everywhere in the bench.
pub fn build(name: &str, text: &str) -> Result<Contestant, String> {
    let mut contestant = Contestant::parse(&format!("{name}={text}"))?;
    let own = contestant.version.contains("pgweir");
    if own && !contestant.settings.iter().any(|(key, _)| key == "workers") {
        contestant.settings.push(("workers".to_owned(), "1".to_owned()));
    }
    Ok(contestant)
}

/// The table: CPU time per transaction and its ratios, a line for each scenario.
pub fn table(record: &Value) -> String {
    let mut out = String::new();
    let [before, after] = BUILDS;
    let mut line = |text: String| writeln!(out, "{text}").expect("a String takes everything");
    line(format!(
        "{:<12} {:>28}   {:<22} {:<22} {:<22} {:<22}",
        "", "CPU ns/transaction", "before ÷ after", "PgBouncer ÷ before", "PgBouncer ÷ after", "tx/s, after ÷ before"
    ));
    line(format!("{:<12} {:>10}{:>9}{:>9}", "", "PgBouncer", before, after));
    for scenario in record["scenarios"].as_array().into_iter().flatten() {
        let name = scenario["name"].as_str().unwrap_or_default();
        if let Some(error) = scenario["error"].as_str() {
            line(format!("{name:<12} not measured: {error}"));
            continue;
        }
        let cpu = |contestant| middle(scenario, contestant, cpu_ns_each).map_or(f64::NAN, |figure| figure.median);
        let of = |above, below| interval(ratio(scenario, above, below, cpu_ns_each));
        line(format!(
            "{name:<12} {:>10.0}{:>9.0}{:>9.0}   {:<22} {:<22} {:<22} {:<22}",
            cpu("pgbouncer"),
            cpu(before),
            cpu(after),
            of(before, after),
            of("pgbouncer", before),
            of("pgbouncer", after),
            interval(ratio(scenario, after, before, speed)),
        ));
    }
    line(format!(
        "{} rounds. Above 1: the second is cheaper (or, in the last column, faster).",
        record["run"]["rounds"]
    ));
    out
}

fn interval(figure: Option<Estimate>) -> String {
    figure.map_or("–".to_owned(), |Estimate { median, low, high, .. }| format!("{median:.3} [{low:.3}, {high:.3}]"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ratios_say_what_a_change_is_worth() {
        let sample = |cpu: u64| json!({ "cpu_ns": cpu, "transactions": 10, "wall_ns": 1000 });
        let round = json!({ "samples": { "pgbouncer": sample(300), "before": sample(200), "after": sample(100) } });
        let failed = json!({ "name": "unix-8", "error": "it fell over" });
        let record = json!({ "run": { "rounds": 1 }, "scenarios": [{ "name": "tcp-8", "rounds": [round] }, failed] });
        let table = table(&record);
        let line = table.lines().find(|line| line.starts_with("tcp-8")).expect("the scenario has a line");
        for part in ["2.000 [2.000, 2.000]", "1.500 [1.500, 1.500]", "3.000 [3.000, 3.000]", " 30 ", " 20 ", " 10 "] {
            assert!(line.contains(part), "{part} in {line}");
        }
        assert!(table.contains("unix-8       not measured: it fell over"), "{table}");
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        assert!(build("before", "/nowhere/pgweir").is_err());
    }
}
