//! What a record says of storms of logins.

use std::fmt::Write;

use measure::statistics::{Estimate, estimate, paired_ratios};
use serde_json::Value;

const SEED: u64 = 1;

/// Running traffic may have this multiple of the latency that the same storm at another process causes.
const AT_MOST: f64 = 2.0;

/// Writes the table.
pub fn write(out: &mut String, record: &Value) {
    let mut line = |text: String| writeln!(out, "{text}").expect("a String takes everything");
    line("\n## Running traffic while a crowd logs in\n".to_owned());
    line("Latency of questions that come at a fixed pace to clients that are logged in: before the storm, while it is at another pgweir on".to_owned());
    line("the same machine, and while it is at theirs. Medians over the rounds; the ratio of p99 is within a round, with a 95 % interval,".to_owned());
    line(format!("and is to be at most {AT_MOST}.\n"));
    line("| storm | clients | pooler | calm p99 | apart p50, p99 | same p50, p99 | p99 same ÷ apart | | all in: apart, same |".to_owned());
    line("|---|--:|---|--:|--:|--:|--:|---|--:|".to_owned());
    for one in record["scenarios"].as_array().into_iter().flatten().filter(|one| one["error"].is_null()) {
        let middle = |arm: &str, key: &str| {
            estimate(&series(one, arm, key).into_iter().flatten().collect::<Vec<_>>(), SEED).map(|all| all.median)
        };
        let ms = |arm: &str, key: &str| middle(arm, key).map_or("–".to_owned(), |ns| format!("{:.1}", ns / 1e6));
        let ratio = estimate(&paired_ratios(&series(one, "same", "p99_ns"), &series(one, "apart", "p99_ns")), SEED);
        let (words, verdict) = ratio.map_or(("not measured".to_owned(), ""), |ratio| {
            let Estimate { median, low, high, .. } = ratio;
            (format!("{median:.2} ({low:.2}–{high:.2})"), if median <= AT_MOST { "met" } else { "missed" })
        });
        line(format!(
            "| {} | {} | {} | {} ms | {}, {} ms | {}, {} ms | {words} | {verdict} | {}, {} ms |",
            one["about"].as_str().unwrap_or_default(),
            one["crowd"],
            one["contestant"].as_str().unwrap_or_default(),
            ms("apart", "calm_p99_ns"),
            ms("apart", "p50_ns"),
            ms("apart", "p99_ns"),
            ms("same", "p50_ns"),
            ms("same", "p99_ns"),
            ms("apart", "wall_ns"),
            ms("same", "wall_ns"),
        ));
    }
}

fn series(one: &Value, arm: &str, key: &str) -> Vec<Option<f64>> {
    let rounds = one["rounds"].as_array().into_iter().flatten();
    rounds.map(|round| round["samples"][arm][key].as_f64()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_arms_of_a_round_are_compared() {
        let arm = |p99: f64| json!({ "calm_p99_ns": 1e6, "p50_ns": 2e6, "p99_ns": p99, "wall_ns": 3e9 });
        let round = json!({ "samples": { "same": arm(9e6), "apart": arm(6e6) } });
        let one = |rounds: Value| json!({ "about": "SCRAM", "crowd": 7, "contestant": "pgweir", "rounds": rounds });
        let mut out = String::new();
        write(&mut out, &json!({ "scenarios": [one(json!([round, round]))] }));
        let row =
            "| SCRAM | 7 | pgweir | 1.0 ms | 2.0, 6.0 ms | 2.0, 9.0 ms | 1.50 (1.50–1.50) | met | 3000.0, 3000.0 ms |";
        assert!(out.contains(row), "{out}");
        let round = json!({ "samples": { "same": arm(13e6), "apart": arm(6e6) } });
        let mut out = String::new();
        write(&mut out, &json!({ "scenarios": [one(json!([round]))] }));
        assert!(out.contains("| missed |"), "{out}");
    }
}
