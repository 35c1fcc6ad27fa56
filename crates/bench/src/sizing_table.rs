//! What a record says of `pool_size = auto` beside fixed sizes.
//!
//! The best fixed size is the one with the highest mean over all rounds. That choice favours whichever was lucky, so the ratio to it is
//! rather too low than too high. Intervals are bootstrapped over rounds, and over the half seconds within each slice.

use std::fmt::Write;

use measure::statistics::{Seeded, quantile};
use serde_json::Value;

/// The name of auto in records.
pub const AUTO: &str = "auto";

const RESAMPLES: usize = 4000;

/// Transactions a second of one size: of each round, of each tick.
type Speeds = Vec<Vec<f64>>;

/// Auto held against the best of the fixed sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    pub best: String,
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
    /// Auto's from the first transaction on, its search included.
    pub with_search: f64,
}

/// Writes the table of every part, if the record has any.
pub fn write(out: &mut String, record: &Value) {
    let all = record["scenarios"].as_array().into_iter().flatten();
    let mut parts = all.filter(|one| one["kind"] == "sizing" && one["error"].is_null()).peekable();
    let Some(first) = parts.peek() else { return };
    let cluster = &first["postgresql"];
    let settings: Vec<&str> = cluster["settings"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let version = cluster["version"].as_str().unwrap_or_default();
    let mut line = |text: String| writeln!(out, "{text}").expect("a String takes everything");
    line(format!("\n## pool_size = auto beside fixed sizes, scale {}, {version}\n", cluster["scale"]));
    line(format!(
        "Settings of the cluster: {}. Transactions a second, mean over rounds; auto after it has settled. \
         The ratio is auto's ÷ the best fixed size's of these, with its 95 % interval by bootstrap over rounds and half seconds.\n",
        settings.join(" ")
    ));
    let mut headed = false;
    for part in parts {
        let sizes = sizes(part);
        if !std::mem::replace(&mut headed, true) {
            let names: String = sizes.iter().map(|size| format!(" {size} |")).collect();
            line(format!("| load |{names} auto | settled at | after s | auto ÷ best | its search included |"));
            line(format!("|---|{} --:|---|---|---|--:|", " --:|".repeat(sizes.len())));
        }
        let fixed: String = sizes.iter().map(|size| format!(" {:.0} |", mean(&speeds(part, size)))).collect();
        let Some(found) = compare(part) else { continue };
        let each = |key: &str| {
            let values = samples(part, AUTO).map(|sample| sample[key].to_string().replace("null", "not"));
            values.collect::<Vec<String>>().join(", ")
        };
        let Comparison { best, ratio, low, high, with_search } = found;
        line(format!(
            "| {} |{fixed} {:.0} | {} | {} | **{ratio:.3}** [{low:.3}, {high:.3}] of {best} | {with_search:.3} |",
            part["about"].as_str().unwrap_or_default(),
            mean(&speeds(part, AUTO)),
            each("settled_at"),
            each("settled_after_s"),
        ));
    }
}

/// Auto against the best fixed size of a part; `None` if either was not measured.
#[must_use]
pub fn compare(part: &Value) -> Option<Comparison> {
    let auto = speeds(part, AUTO);
    let fixed = sizes(part).into_iter().map(|size| (speeds(part, &size), size));
    let (speeds, best) = fixed.max_by(|a, b| mean(&a.0).total_cmp(&mean(&b.0)))?;
    if auto.is_empty() || mean(&speeds) <= 0.0 {
        return None;
    }
    let mut random = Seeded::new(1);
    let draw = |_| ratio_of(&auto, &speeds, &mut random);
    let drawn: Vec<f64> = (0..RESAMPLES).map(draw).collect();
    let searched: Speeds =
        samples(part, AUTO).map(|one| [numbers(one, "speeds_before"), numbers(one, "speeds")].concat()).collect();
    Some(Comparison {
        ratio: mean(&auto) / mean(&speeds),
        low: quantile(&drawn, 0.025)?,
        high: quantile(&drawn, 0.975)?,
        with_search: mean(&searched) / mean(&speeds),
        best,
    })
}

/// The ratio of the means of samples drawn anew: the same rounds for both, ticks of each on their own.
fn ratio_of(auto: &Speeds, best: &Speeds, random: &mut Seeded) -> f64 {
    let rounds = auto.len().min(best.len());
    let (mut above, mut below) = (0.0, 0.0);
    for _ in 0..rounds {
        let round = random.below(rounds);
        let mut of = |ticks: &[f64]| {
            let sum: f64 = (0..ticks.len()).map(|_| ticks[random.below(ticks.len())]).sum();
            sum / ticks.len().max(1) as f64
        };
        above += of(&auto[round]);
        below += of(&best[round]);
    }
    above / below.max(1e-9)
}

fn samples<'a>(part: &'a Value, name: &'a str) -> impl Iterator<Item = &'a Value> {
    let rounds = part["rounds"].as_array().into_iter().flatten();
    rounds.map(move |round| &round["samples"][name]).filter(|sample| sample.is_object())
}

/// Names of the fixed sizes, from small to large.
fn sizes(part: &Value) -> Vec<String> {
    let first = part["rounds"].as_array().and_then(|rounds| rounds.first()?["samples"].as_object());
    let mut sizes: Vec<u32> = first.into_iter().flatten().filter_map(|(name, _)| name.parse().ok()).collect();
    sizes.sort_unstable();
    sizes.iter().map(u32::to_string).collect()
}

fn numbers(sample: &Value, key: &str) -> Vec<f64> {
    sample[key].as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
}

fn speeds(part: &Value, name: &str) -> Speeds {
    samples(part, name).map(|sample| numbers(sample, "speeds")).filter(|ticks| !ticks.is_empty()).collect()
}

/// Of the rounds' means.
fn mean(speeds: &Speeds) -> f64 {
    let of = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    of(&speeds.iter().map(|ticks| of(ticks)).collect::<Vec<f64>>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn auto_is_held_against_the_best_of_all_rounds() {
        let round = |small: f64, large: f64, auto: f64| {
            let sample = |speed: f64| json!({ "speeds": [speed - 1.0, speed, speed + 1.0] });
            let mut searched = sample(auto);
            searched["speeds_before"] = json!([0.0, 0.0, 0.0]);
            searched["settled_at"] = json!(8);
            json!({ "order": [], "samples": { "4": sample(small), "16": sample(large), "auto": searched } })
        };
        let rounds = [round(100.0, 90.0, 95.0), round(80.0, 110.0, 95.0)];
        let part = json!({ "kind": "sizing", "about": "select, 50 clients", "rounds": rounds });
        let found = compare(&part).expect("all were measured");
        assert_eq!((found.best.as_str(), found.ratio), ("16", 0.95));
        assert!(found.low < 0.95 && 0.95 < found.high, "{found:?}");
        assert!((found.with_search - 0.475).abs() < 1e-9);
        let mut table = String::new();
        write(&mut table, &json!({ "scenarios": [part] }));
        assert!(table.contains("| select, 50 clients | 90 | 100 | 95 | 8, 8 | not, not | **0.950**"), "{table}");
    }
}
