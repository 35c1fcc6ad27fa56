//! The table made from the samples: medians over the rounds, and in brackets the least and the most.

use std::fmt::Write;

use measure::statistics::{median, quantile};
use serde_json::Value;

/// A line of text; writing to a String cannot fail.
macro_rules! line {
    ($out:expr, $($text:tt)*) => { writeln!($out, $($text)*).expect("a String takes everything") };
}

/// The whole table, in Markdown.
pub fn table(record: &Value) -> String {
    let mut out = String::new();
    let text = |value: &Value| value.as_str().unwrap_or("unknown").to_owned();
    let changed = if record["tree"]["changed"] == true { " with uncommitted changes" } else { "" };
    let machine = &record["machine"];
    line!(out, "# Fairness, measured {}\n", text(&record["date"]));
    line!(out, "Made by `bench fairness` from the samples beside it; do not edit.\n");
    line!(out, "* tree: {}{changed}", text(&record["tree"]["commit"]));
    line!(
        out,
        "* {}; {}; {}",
        text(&record["pgweir"]),
        text(&record["pgbouncer"]),
        text(&record["postgresql"]["version"])
    );
    line!(
        out,
        "* machine: {}, {} cores, {}; load average {} when it began",
        text(&machine["processor"]),
        machine["cores"],
        text(&machine["kernel"]),
        text(&machine["load_average"])
    );
    line!(
        out,
        "* clients, poolers and PostgreSQL share all cores; {} rounds, order shuffled in each (seed {})\n",
        record["rounds"],
        record["seed"]
    );
    line!(out, "Medians over the rounds; in brackets the least and the most. Every sample is in samples.json.gz.");
    greedy(&mut out, &record["greedy"], &record["slice_ms"]);
    weights(&mut out, &record["weights"]);
    crowd(&mut out, &record["crowd"]);
    out
}

/// `1.52 [1.48–1.57]`
fn range(samples: &[f64], decimals: usize) -> String {
    let (Some(middle), Some(low), Some(high)) = (median(samples), quantile(samples, 0.0), quantile(samples, 1.0))
    else {
        return "–".to_owned();
    };
    format!("{middle:.decimals$} [{low:.decimals$}–{high:.decimals$}]")
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
}

fn arms(part: &Value) -> Vec<(&str, &str)> {
    let all = part["arms"].as_array().into_iter().flatten();
    all.filter_map(|arm| Some((arm[0].as_str()?, arm[1].as_str()?))).collect()
}

/// A figure of each round's sample of one arm.
fn each(rounds: &Value, arm: &str, figure: impl Fn(&Value) -> Option<f64>) -> Vec<f64> {
    let rounds = rounds.as_array().into_iter().flatten();
    rounds.filter_map(|round| figure(&round["samples"][arm])).collect()
}

fn modest_ms(sample: &Value, part: f64) -> Option<f64> {
    Some(quantile(&numbers(&sample["modest_us"]), part)? / 1000.0)
}

fn greedy(out: &mut String, part: &Value, slice_ms: &Value) {
    for (load, measured) in part["loads"].as_object().into_iter().flatten() {
        let rounds = &measured["rounds"];
        line!(
            out,
            "\n## 500 greedy clients and 2 modest ones, {load}: `{}`\n\n\
             The greedy ask again as soon as they are answered, the modest after some 10 ms. Slices of {slice_ms} ms. The bound \
             is 1.5 times the p99 of pools apart, in the same round and with as many workers.\n\n\
             | | modest: median, ms | modest: p99, ms | p99 ÷ apart | greedy: median, ms | greedy: a second |\n\
             |---|--:|--:|--:|--:|--:|",
            measured["sql"].as_str().unwrap_or("unknown")
        );
        for (arm, about) in arms(part) {
            let p99 = each(rounds, arm, |sample| modest_ms(sample, 0.99));
            let apart = each(rounds, apart_from(arm), |sample| modest_ms(sample, 0.99));
            let ratios: Vec<f64> = p99.iter().zip(&apart).map(|(own, apart)| own / apart).collect();
            let speed = |sample: &Value| Some(sample["greedy"].as_f64()? * 1e6 / sample["wall_us"].as_f64()?);
            line!(
                out,
                "| {about} | {} | {} | {} | {} | {} |",
                range(&each(rounds, arm, |sample| modest_ms(sample, 0.5)), 2),
                range(&p99, 2),
                range(&ratios, 2),
                range(&each(rounds, arm, |sample| Some(sample["greedy_p50_us"].as_f64()? / 1000.0)), 1),
                range(&each(rounds, arm, speed), 0)
            );
        }
    }
}

/// The arm of two pools that another is held against: one worker against one.
fn apart_from(arm: &str) -> &'static str {
    if arm.ends_with("-1") { "apart-1" } else { "apart" }
}

/// Of a list's sum, what its entry `index` is.
fn share(list: &Value, index: usize) -> Option<f64> {
    let all = numbers(list);
    Some(all.get(index)? / all.iter().sum::<f64>())
}

fn weights(out: &mut String, part: &Value) {
    let weights = numbers(&part["weights"]);
    let sum: f64 = weights.iter().sum();
    for (load, measured) in part["loads"].as_object().into_iter().flatten() {
        line!(
            out,
            "\n## Weights 1:2:4 over ten seconds, {load}\n\n\
             All classes want everything. The bound is 5 % of what is due.\n\n\
             | weight | due | share of server time, by SHOW CLASSES | ÷ due | transactions, by the clients' count | ÷ due |\n\
             |--:|--:|--:|--:|--:|--:|"
        );
        for (index, weight) in weights.iter().enumerate() {
            let due = weight / sum;
            let shares = |key: &str| each(&measured["rounds"], "classes", |sample| share(&sample[key], index));
            let of_due = |shares: &[f64]| shares.iter().map(|share| share / due).collect::<Vec<f64>>();
            let (time, counted) = (shares("server_seconds"), shares("transactions"));
            // Transactions tell of time only where all take as long.
            let counts = if load.starts_with("one") { of_due(&counted) } else { Vec::new() };
            line!(
                out,
                "| {weight} | {due:.4} | {} | {} | {} | {} |",
                range(&time, 4),
                range(&of_due(&time), 3),
                range(&counted, 4),
                range(&counts, 3)
            );
        }
    }
}

fn crowd(out: &mut String, part: &Value) {
    if part.is_null() {
        return;
    }
    line!(
        out,
        "\n## {} clients at once on 20 servers, `{}`\n\n\
         All ask at the same moment, and again when they are answered, until {} times as many have been. The bound is a longest \
         wait of 3 times the mean. The fairness of waits all alike is 1; of one line that was there at once, 2.\n\n\
         | | first waits: longest ÷ mean | all waits: longest ÷ mean | mean, ms | p99, ms | longest, ms |\n\
         |---|--:|--:|--:|--:|--:|",
        part["clients"],
        part["sql"].as_str().unwrap_or("unknown"),
        part["asks"]
    );
    let clients = part["clients"].as_u64().unwrap_or(0) as usize;
    for (arm, about) in arms(part) {
        let figure = |figure: &dyn Fn(&[f64]) -> Option<f64>| {
            each(&part["rounds"], arm, |sample| figure(&numbers(&sample["waits_us"])))
        };
        let mean = |waits: &[f64]| waits.iter().sum::<f64>() / waits.len().max(1) as f64;
        let worst = |waits: &[f64]| Some(quantile(waits, 1.0)? / mean(waits));
        line!(
            out,
            "| {about} | {} | {} | {} | {} | {} |",
            // In the order in which they were answered: the first of them asked once.
            range(&figure(&|waits| worst(&waits[..clients.min(waits.len())])), 2),
            range(&figure(&worst), 2),
            range(&figure(&|waits| Some(mean(waits) / 1000.0)), 0),
            range(&figure(&|waits| Some(quantile(waits, 0.99)? / 1000.0)), 0),
            range(&figure(&|waits| Some(quantile(waits, 1.0)? / 1000.0)), 0)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn medians_and_ranges_come_from_the_samples() {
        let sample = |modest: [u64; 2]| json!({ "modest_us": modest, "greedy": 100, "wall_us": 1_000_000, "greedy_p50_us": 7000.0 });
        let round = |apart, classes| {
            let one_worker = sample([1000, 1000]);
            let samples = json!({ "apart": sample(apart), "classes": sample(classes), "classes-1": sample([1000, 1500]), "apart-1": one_worker });
            json!({ "order": [], "samples": samples })
        };
        let rounds = [round([1000, 2000], [1000, 3000]), round([1000, 4000], [1000, 4000])];
        let arms = json!([["apart", "apart"], ["classes", "classes"], ["classes-1", "with one worker"]]);
        let shares = json!([{ "order": [], "samples": { "classes": { "transactions": [1, 2, 1], "server_seconds": [1.0, 2.0, 4.0] } } }]);
        let waits = json!([{ "order": [], "samples": { "pgweir": { "waits_us": [1000, 3000, 2000, 2000] } } }]);
        let record = json!({
            "greedy": { "arms": arms, "loads": { "work": { "sql": "x", "rounds": rounds } } },
            "weights": { "arms": [], "weights": [1, 2, 4], "loads": { "one length": { "rounds": shares } } },
            "crowd": { "arms": [["pgweir", "pgweir"]], "clients": 2, "asks": 2, "sql": "x", "rounds": waits },
        });
        let table = table(&record);
        let classes =
            "| classes | 1.00 [1.00–1.00] | 3.50 [3.00–4.00] | 1.25 [1.00–1.50] | 7.0 [7.0–7.0] | 100 [100–100] |";
        let one = "| with one worker | 1.00 [1.00–1.00] | 1.50 [1.50–1.50] | 1.50 [1.50–1.50] | 7.0 [7.0–7.0] |";
        let four = "| 4 | 0.5714 | 0.5714 [0.5714–0.5714] | 1.000 [1.000–1.000] | 0.2500 [0.2500–0.2500] | 0.438 [0.438–0.438] |";
        let crowd = "| pgweir | 1.50 [1.50–1.50] | 1.50 [1.50–1.50] | 2 [2–2] | 3 [3–3] | 3 [3–3] |";
        for line in [classes, one, four, crowd] {
            assert!(table.contains(line), "{line}\n{table}");
        }
    }
}
