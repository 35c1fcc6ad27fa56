//! What a record says of `pool_size = auto` beside fixed sizes.
//!
//! The best fixed size is chosen from half of the rounds, by the highest mean, and auto is held against it in the other half; then the
//! halves change places. Chosen and compared in the same rounds, the luckiest size would be taken for the best. Intervals are
//! bootstrapped over the rounds of each half, and over the half seconds within each slice.

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
    /// The one that each half of the rounds chose, once if both chose the same.
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
         The ratio is auto's ÷ the best fixed size's, which was chosen from the other half of the rounds, with its 95 % interval by \
         bootstrap over rounds and half seconds.\n",
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

/// Auto against the best fixed size of a part; `None` if either was not measured in each half of the rounds.
#[must_use]
pub fn compare(part: &Value) -> Option<Comparison> {
    let auto = speeds(part, AUTO);
    let fixed: Vec<(String, Speeds)> =
        sizes(part).into_iter().map(|size| (size.clone(), speeds(part, &size))).collect();
    let sides = [(0, 1), (1, 0)].map(|(chosen_in, held_in)| {
        let (size, best) = best_of(&fixed, chosen_in)?;
        let side = Half { auto: half(&auto, held_in), best: half(best, held_in) };
        (!side.auto.is_empty() && mean(&side.best) > 0.0).then_some((size, side))
    });
    let [Some((one, first)), Some((other, second))] = sides else { return None };
    let sides = [first, second];
    let mut random = Seeded::new(1);
    let drawn: Vec<f64> = (0..RESAMPLES).map(|_| ratio(sides.each_ref().map(|side| side.drawn(&mut random)))).collect();
    let searched: Speeds =
        samples(part, AUTO).map(|one| [numbers(one, "speeds_before"), numbers(one, "speeds")].concat()).collect();
    let best_mean = sides.iter().map(|side| mean(&side.best)).sum::<f64>() / 2.0;
    Some(Comparison {
        ratio: ratio(sides.each_ref().map(|side| (mean(&side.auto), mean(&side.best)))),
        low: quantile(&drawn, 0.025)?,
        high: quantile(&drawn, 0.975)?,
        with_search: mean(&searched) / best_mean,
        best: if one == other { one.to_owned() } else { format!("{one}, {other}") },
    })
}

/// One half of the rounds: auto, and the size that the other half chose.
struct Half {
    auto: Speeds,
    best: Speeds,
}

impl Half {
    /// Both means of samples drawn anew: the same rounds for both, ticks of each on their own.
    fn drawn(&self, random: &mut Seeded) -> (f64, f64) {
        let rounds = self.auto.len().min(self.best.len());
        let (mut auto, mut best) = (0.0, 0.0);
        for _ in 0..rounds {
            let round = random.below(rounds);
            let mut of = |ticks: &[f64]| {
                let sum: f64 = (0..ticks.len()).map(|_| ticks[random.below(ticks.len())]).sum();
                sum / ticks.len().max(1) as f64
            };
            auto += of(&self.auto[round]);
            best += of(&self.best[round]);
        }
        (auto / rounds as f64, best / rounds as f64)
    }
}

/// Of both halves together, each of which counts as much.
fn ratio(sides: [(f64, f64); 2]) -> f64 {
    let (auto, best) = sides.into_iter().fold((0.0, 0.0), |sum, side| (sum.0 + side.0, sum.1 + side.1));
    auto / best.max(1e-9)
}

/// The size that was the fastest in one half of the rounds.
fn best_of(fixed: &[(String, Speeds)], number: usize) -> Option<(&str, &Speeds)> {
    let mean_of = |speeds: &Speeds| mean(&half(speeds, number));
    let found = fixed.iter().filter(|(_, speeds)| !half(speeds, number).is_empty());
    found.max_by(|a, b| mean_of(&a.1).total_cmp(&mean_of(&b.1))).map(|(size, speeds)| (size.as_str(), speeds))
}

/// Half of the rounds, by turns: two and two where there are four or more, so that each has sizes going up as well as down.
fn half(speeds: &Speeds, number: usize) -> Speeds {
    let run = if speeds.len() < 4 { 1 } else { 2 };
    let of_it = speeds.iter().enumerate().filter(|(round, _)| round / run % 2 == number);
    of_it.map(|(_, ticks)| ticks.clone()).collect()
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

    fn round(small: f64, large: f64, auto: f64) -> Value {
        let sample = |speed: f64| json!({ "speeds": [speed - 1.0, speed, speed + 1.0] });
        let mut searched = sample(auto);
        searched["speeds_before"] = json!([0.0, 0.0, 0.0]);
        searched["settled_at"] = json!(8);
        json!({ "order": [], "samples": { "4": sample(small), "16": sample(large), "auto": searched } })
    }

    #[test]
    fn auto_is_held_against_the_size_that_the_other_rounds_chose() {
        // The first rounds choose 4, which has 80 in the second; these choose 16, which has 90 in the first.
        let first = round(100.0, 90.0, 90.0);
        let second = round(80.0, 110.0, 80.0);
        let part = json!({ "kind": "sizing", "about": "select, 50 clients", "rounds": [first, second] });
        let found = compare(&part).expect("all were measured");
        assert_eq!((found.best.as_str(), found.ratio), ("4, 16", 1.0));
        assert!(found.low < 1.0 && 1.0 < found.high, "{found:?}");
        assert!((found.with_search - 0.5).abs() < 1e-9);
        let mut table = String::new();
        write(&mut table, &json!({ "scenarios": [part] }));
        assert!(table.contains("| select, 50 clients | 90 | 100 | 85 | 8, 8 | not, not | **1.000**"), "{table}");
    }

    #[test]
    fn a_half_of_many_rounds_has_both_orders() {
        let speeds: Speeds = (0..7).map(|round| vec![f64::from(round)]).collect();
        let rounds = |number| half(&speeds, number).concat();
        assert_eq!((rounds(0), rounds(1)), (vec![0.0, 1.0, 4.0, 5.0], vec![2.0, 3.0, 6.0]));
        assert_eq!(compare(&json!({ "rounds": [round(1.0, 2.0, 3.0)] })), None, "one round has no halves");
    }
}
