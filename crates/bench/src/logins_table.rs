//! What a record says of the cost of a login.

use std::fmt::Write;

use measure::statistics::{Estimate, estimate, paired_ratios};
use serde_json::Value;

const SEED: u64 = 1;

/// Writes both tables of every way to log in.
pub fn write(out: &mut String, record: &Value) {
    let measured = || record["scenarios"].as_array().into_iter().flatten().filter(|one| one["error"].is_null());
    let mut line = |text: String| writeln!(out, "{text}").expect("a String takes everything");
    line("\n## A login: connect, authenticate, ReadyForQuery, Terminate\n".to_owned());
    line("User-space instructions (callgrind) and system calls (strace) of the pooler, of each login.\n".to_owned());
    line("| login | at a time | pooler | instructions | system calls | ÷ PgBouncer's | which |".to_owned());
    line("|---|--:|---|--:|--:|--:|---|".to_owned());
    for one in measured() {
        for (at_a_time, contestants) in one["counted"].as_object().into_iter().flatten() {
            for (name, sample) in contestants.as_object().into_iter().flatten() {
                let (ours, theirs) = (costs(sample), costs(&contestants["pgbouncer"]));
                line(format!(
                    "| {} | {at_a_time} | {name} | {:.0} | {:.2} | {:.2}, {:.2} | {} |",
                    one["about"].as_str().unwrap_or_default(),
                    ours.0,
                    ours.1,
                    ours.0 / theirs.0,
                    ours.1 / theirs.1,
                    which(sample)
                ));
            }
        }
    }
    if measured().all(|one| one["rounds"].as_array().is_none_or(Vec::is_empty)) {
        return;
    }
    line("\n## A crowd that comes at once\n".to_owned());
    line("Wall time until the last client is in, and the pooler's CPU time; ratios within a round, with 95 % intervals.\n".to_owned());
    line("| login | clients | pooler | time | CPU | time ÷ PgBouncer's | CPU ÷ PgBouncer's |".to_owned());
    line("|---|--:|---|--:|--:|--:|--:|".to_owned());
    for one in measured() {
        for name in record["contestants"].as_array().into_iter().flatten().filter_map(|one| one["name"].as_str()) {
            let milliseconds = |key| estimate(&series(one, name, key).into_iter().flatten().collect::<Vec<_>>(), SEED);
            let ratio = |key| estimate(&paired_ratios(&series(one, name, key), &series(one, "pgbouncer", key)), SEED);
            line(format!(
                "| {} | {} | {name} | {} | {} | {} | {} |",
                one["about"].as_str().unwrap_or_default(),
                one["crowd"],
                words(milliseconds("wall_ns"), 1e6, " ms"),
                words(milliseconds("cpu_ns"), 1e6, " ms"),
                words(ratio("wall_ns"), 1.0, ""),
                words(ratio("cpu_ns"), 1.0, ""),
            ));
        }
    }
}

/// Instructions and system calls of each login.
fn costs(sample: &Value) -> (f64, f64) {
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let calls: f64 = sample["calls"].as_object().into_iter().flatten().map(|(_, count)| number(count)).sum();
    (number(&sample["instructions"]) / number(&sample["logins"]), calls / number(&sample["logins_traced"]))
}

/// The system calls that are made at least once in a hundred logins.
fn which(sample: &Value) -> String {
    let logins = sample["logins_traced"].as_f64().unwrap_or(f64::NAN);
    let each = |(name, count): (&String, &Value)| (name.clone(), count.as_f64().unwrap_or_default() / logins);
    let mut calls: Vec<(String, f64)> = sample["calls"].as_object().into_iter().flatten().map(each).collect();
    calls.retain(|(_, each)| *each >= 0.01);
    calls.sort_by(|a, b| b.1.total_cmp(&a.1));
    calls.iter().map(|(name, each)| format!("{name} {each:.2}")).collect::<Vec<_>>().join(", ")
}

fn series(one: &Value, contestant: &str, key: &str) -> Vec<Option<f64>> {
    let rounds = one["rounds"].as_array().into_iter().flatten();
    rounds.map(|round| round["samples"][contestant][key].as_f64()).collect()
}

fn words(figure: Option<Estimate>, unit: f64, name: &str) -> String {
    figure.map_or("not measured".to_owned(), |figure| {
        let Estimate { median, low, high, .. } = figure;
        let digits = if unit > 1.0 { 0 } else { 2 };
        format!("{:.digits$}{name} ({:.digits$}–{:.digits$})", median / unit, low / unit, high / unit)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_login_is_held_against_pgbouncers() {
        let sample = |instructions: u64, sends: u64| json!({ "instructions": instructions, "logins": 100, "calls": { "sendto": sends, "brk": 0 }, "logins_traced": 10 });
        let round = json!({ "samples": {
            "pgweir": { "wall_ns": 5e8, "cpu_ns": 1e8 }, "pgbouncer": { "wall_ns": 1e9, "cpu_ns": 1e8 },
        } });
        let record = json!({
            "contestants": [{ "name": "pgweir" }, { "name": "pgbouncer" }],
            "scenarios": [{
                "about": "trust", "crowd": 7, "rounds": [round],
                "counted": { "1": { "pgweir": sample(500_000, 20), "pgbouncer": sample(1_000_000, 40) } },
            }],
        });
        let mut out = String::new();
        write(&mut out, &record);
        assert!(out.contains("| trust | 1 | pgweir | 5000 | 2.00 | 0.50, 0.50 | sendto 2.00 |"), "{out}");
        assert!(
            out.contains("| trust | 7 | pgweir | 500 ms (500–500) | 100 ms (100–100) | 0.50 (0.50–0.50) |"),
            "{out}"
        );
    }
}
