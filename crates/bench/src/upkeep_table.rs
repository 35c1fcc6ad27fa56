//! What a record says of a pooler's upkeep.

use std::fmt::Write;

use measure::statistics::{Estimate, Range, estimate, paired_ratios};
use serde_json::Value;

const SEED: u64 = 1;

/// What being watched may cost the traffic, as a ratio of CPU time.
const WATCHED_AT_MOST: f64 = 1.02;
/// The same as a share of one core, in percent.
const CORE_AT_MOST: f64 = 2.0;
/// The share of a core, in percent, that one probe a second may take.
const PROBE_AT_MOST: f64 = 0.1;
/// Hosts that are asked.
const PROBED: f64 = 3.0;
/// In ms.
const START_AT_MOST: f64 = 20.0;
const RELOAD_AT_MOST: f64 = 100.0;
const PAUSE_AT_MOST: f64 = 5.0;
/// In kB, from the fifth second on: what a storm may leave.
const LEFT_AT_MOST: f64 = 4096.0;
/// Descriptors that come and go: a server more of a pool that has just grown, and whoever looks.
const DESCRIPTORS_AT_MOST: f64 = 4.0;

/// Writes the table.
pub fn write(out: &mut String, record: &Value) {
    let mut line = |text: String| writeln!(out, "{text}").expect("a String takes everything");
    line("\n## Upkeep\n".to_owned());
    line("Medians over the rounds, with 95 % intervals, and the longest in parentheses where it counts.\n".to_owned());
    line("| what | measured | bound | |".to_owned());
    line("|---|--:|--:|---|".to_owned());
    for one in record["scenarios"].as_array().into_iter().flatten().filter(|one| one["error"].is_null()) {
        let rounds = one["rounds"].as_array().map(Vec::as_slice).unwrap_or_default();
        let rows = match one["name"].as_str().unwrap_or_default() {
            "watched" => watched(rounds),
            "start" => start(rounds),
            "reload" => reload(rounds),
            "scrape" => scrape(rounds),
            "probed" => probed(rounds),
            "reloads" => reloads(rounds),
            _ => Vec::new(),
        };
        rows.into_iter().for_each(&mut line);
    }
}

fn verdict(value: Option<f64>, at_most: f64) -> &'static str {
    value.map_or("not measured", |value| if value <= at_most { "met" } else { "missed" })
}

fn middle(values: &[f64]) -> Option<Estimate> {
    estimate(values, SEED)
}

fn numbers(rounds: &[Value], path: &str) -> Vec<f64> {
    rounds.iter().filter_map(|round| round.pointer(path)?.as_f64()).collect()
}

fn most(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::max)
}

/// Median, interval and longest of times in ns, in ms.
fn ms(values: &[f64]) -> String {
    let Some(Estimate { median, low, high, .. }) = middle(values) else { return "–".to_owned() };
    let longest = most(values).unwrap_or_default();
    let [median, low, high, longest] = [median, low, high, longest].map(|ns| ns / 1e6);
    format!("{median:.2} ({low:.2}–{high:.2}; longest {longest:.2}) ms")
}

fn watched(rounds: &[Value]) -> Vec<String> {
    let of = |arm: &str, key: &str| -> Vec<Option<f64>> {
        rounds.iter().map(|round| round["samples"][arm][key].as_f64()).collect()
    };
    let ratio = middle(&paired_ratios(&of("watched", "cpu_ns_each"), &of("quiet", "cpu_ns_each")));
    let words = ratio
        .map_or("–".to_owned(), |Estimate { median, low, high, .. }| format!("{median:.4} ({low:.4}–{high:.4})"));
    let each = |key: &str| -> Vec<f64> {
        let all = rounds.iter().filter_map(|round| round["samples"]["watched"][key].as_array());
        all.flatten().filter_map(Value::as_f64).collect()
    };
    let alone = |key: &str| {
        let all = rounds.iter().filter_map(|round| round["alone"][key].as_array());
        all.flatten().filter_map(Value::as_f64).collect::<Vec<_>>()
    };
    let share = ["scrape_cpu_ns", "show_cpu_ns"].map(|key| middle(&alone(key)).map(|all| all.median / 1e7));
    let share = share[0].zip(share[1]).map(|(page, table)| page + table);
    vec![
        format!("| CPU time of a /metrics, nothing else going on | {} | – | |", ms(&alone("scrape_cpu_ns"))),
        format!("| CPU time of a SHOW CLIENTS, nothing else going on | {} | – | |", ms(&alone("show_cpu_ns"))),
        format!(
            "| both every second, of one core | {} % | {CORE_AT_MOST} % | {} |",
            share.map_or("–".to_owned(), |share| format!("{share:.2}")),
            verdict(share, CORE_AT_MOST)
        ),
        format!(
            "| CPU time a transaction, watched ÷ not, 10,000 idle clients | {words} | {WATCHED_AT_MOST} | {} |",
            verdict(ratio.map(|ratio| ratio.median), WATCHED_AT_MOST)
        ),
        format!("| /metrics under that load | {} | – | |", ms(&each("scrapes_ns"))),
        format!("| SHOW CLIENTS, 10,000 rows, under that load | {} | – | |", ms(&each("shows_ns"))),
    ]
}

fn start(rounds: &[Value]) -> Vec<String> {
    let answers = numbers(rounds, "/answers_ns");
    let value = middle(&answers).map(|all| all.median / 1e6);
    vec![
        format!("| start to listening | {} | – | |", ms(&numbers(rounds, "/listens_ns"))),
        format!(
            "| start to the first answered query | {} | {START_AT_MOST} ms | {} |",
            ms(&answers),
            verdict(value, START_AT_MOST)
        ),
    ]
}

fn reload(rounds: &[Value]) -> Vec<String> {
    let mut rows = Vec::new();
    for arm in ["unused", "in use"] {
        let own: Vec<Value> = rounds.iter().filter(|round| round["arm"] == arm).cloned().collect();
        let took = numbers(&own, "/took_ns");
        let pauses = numbers(&own, "/stirred/most_ns");
        rows.push(format!(
            "| RELOAD, 1,000 databases, all changed, {arm} | {} | {RELOAD_AT_MOST} ms | {} |",
            ms(&took),
            verdict(most(&took).map(|ns| ns / 1e6), RELOAD_AT_MOST)
        ));
        rows.push(format!(
            "| longest answer around it | {} | {PAUSE_AT_MOST} ms | {} |",
            ms(&pauses),
            verdict(middle(&pauses).map(|all| all.median / 1e6), PAUSE_AT_MOST)
        ));
        rows.push(format!(
            "| longest answer in half a second before it | {} | – | |",
            ms(&numbers(&own, "/calm/most_ns"))
        ));
        let longer: Vec<f64> = own
            .iter()
            .filter_map(|round| Some(round["stirred"]["most_ns"].as_f64()? - round["calm"]["most_ns"].as_f64()?))
            .collect();
        rows.push(format!("| by how much the one is longer, within a round | {} | – | |", ms(&longer)));
    }
    rows
}

fn scrape(rounds: &[Value]) -> Vec<String> {
    let size = middle(&numbers(rounds, "/bytes")).map_or(0.0, |all| all.median / 1e6);
    vec![
        format!(
            "| /metrics, 1,000 pools ({size:.2} MB), nothing else going on | {} | – | |",
            ms(&numbers(rounds, "/alone_ns"))
        ),
        format!("| CPU time of it | {} | – | |", ms(&numbers(rounds, "/cpu_ns"))),
        format!("| /metrics under traffic | {} | – | |", ms(&numbers(rounds, "/page_ns"))),
        format!("| SHOW POOLS under traffic | {} | – | |", ms(&numbers(rounds, "/pools_ns"))),
        format!("| longest answer around them | {} | – | |", ms(&numbers(rounds, "/stirred/most_ns"))),
        format!("| longest answer without them | {} | – | |", ms(&numbers(rounds, "/calm/most_ns"))),
    ]
}

fn probed(rounds: &[Value]) -> Vec<String> {
    let percent = |round: &Value, arm: &str| {
        let sample = &round["samples"][arm];
        Some(100.0 * sample["cpu_ns"].as_f64()? / sample["wall_ns"].as_f64()?)
    };
    let all = |pick: &dyn Fn(&Value) -> Option<f64>| rounds.iter().filter_map(pick).collect::<Vec<_>>();
    let words = |values: Vec<f64>| {
        let range = Range::of(values);
        range.map_or("–".to_owned(), |Range { median, low, high }| format!("{median:.3} ({low:.3} to {high:.3}) %"))
    };
    let each = all(&|round| Some((percent(round, "probed")? - percent(round, "quiet")?) / PROBED));
    let value = Range::of(each.clone()).map(|range| range.median);
    vec![
        format!(
            "| at rest, three hosts, none asked: of one core (with the range, as in the next two) | {} | – | |",
            words(all(&|round| percent(round, "quiet")))
        ),
        format!("| the same, each asked once a second | {} | – | |", words(all(&|round| percent(round, "probed")))),
        format!(
            "| what asking costs, for each host | {} | {PROBE_AT_MOST} % | {} |",
            words(each),
            verdict(value, PROBE_AT_MOST)
        ),
    ]
}

fn reloads(rounds: &[Value]) -> Vec<String> {
    let mut rows = Vec::new();
    for round in rounds {
        let levels = round["levels"].as_array().map(Vec::as_slice).unwrap_or_default();
        let settled: Vec<&Value> = levels.iter().filter(|level| level["at_ms"].as_u64() >= Some(5_000)).collect();
        let all = |key: &str| -> Vec<f64> { settled.iter().filter_map(|level| level[key].as_f64()).collect() };
        let growth = |key: &str| {
            let all = all(key);
            Some((*all.first()?, *all.last()?, all.last()? - all.first()?))
        };
        let last = levels.last().cloned().unwrap_or_default();
        rows.push(format!(
            "| {} reloads in {} s, half of a file with a mistake, {} transactions of {} clients | 0 dropped | 0 | met |",
            last["reloads"],
            last["at_ms"].as_u64().unwrap_or_default() / 1000,
            round["done"],
            round["clients"]
        ));
        for (what, key, bound) in
            [("resident kB", "resident_kb", LEFT_AT_MOST), ("descriptors", "descriptors", DESCRIPTORS_AT_MOST)]
        {
            let words = growth(key).map_or("–".to_owned(), |(from, to, _)| format!("{from} → {to}"));
            let grown = growth(key).map(|(.., grown)| grown);
            rows.push(format!(
                "| {what}, from the fifth second to the last | {words} | + {bound} | {} |",
                verdict(grown, bound)
            ));
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn bounds_are_met_or_missed() {
        let start = |ns: f64| json!([{ "listens_ns": 1e6, "answers_ns": ns }]);
        let record = |ns| json!({ "scenarios": [{ "name": "start", "rounds": start(ns) }] });
        for (ns, expected) in [(19e6, "| met |"), (21e6, "| missed |")] {
            let mut out = String::new();
            write(&mut out, &record(ns));
            assert!(out.contains(expected), "{out}");
        }
        let level = |at: u64, kb: u64| json!({ "at_ms": at, "reloads": at / 10, "resident_kb": kb, "descriptors": 9 });
        let rounds =
            json!([{ "done": 5, "clients": 2, "levels": [level(0, 1), level(5_000, 100), level(9_000, 5_000)] }]);
        let mut out = String::new();
        write(&mut out, &json!({ "scenarios": [{ "name": "reloads", "rounds": rounds }] }));
        assert!(out.contains("| 100 → 5000 | + 4096 | missed |") && out.contains("| 9 → 9 | + 4 | met |"), "{out}");
    }

    #[test]
    fn a_probe_is_what_the_one_that_asks_takes_more_for_each_host() {
        let arm = |cpu: u64| json!({ "cpu_ns": cpu, "wall_ns": 1_000_000_000_u64 });
        let round = |quiet, probed| json!({ "samples": { "quiet": arm(quiet), "probed": arm(probed) } });
        for (probed, expected) in [(3_700_000, "| 0.090 (0.090 to 0.090) % | 0.1 % | met |"), (4_300_000, "missed |")] {
            let record = json!({ "scenarios": [{ "name": "probed", "rounds": [round(1_000_000, probed)] }] });
            let mut out = String::new();
            write(&mut out, &record);
            assert!(out.contains(expected), "{out}");
        }
    }

    #[test]
    fn arms_are_compared_within_a_round() {
        let arm = |each: f64| json!({ "cpu_ns_each": each, "scrapes_ns": [2e6], "shows_ns": [9e6] });
        let round = json!({ "samples": { "quiet": arm(1000.0), "watched": arm(1030.0) } });
        let mut out = String::new();
        write(&mut out, &json!({ "scenarios": [{ "name": "watched", "rounds": [round] }] }));
        assert!(out.contains("| 1.0300 (1.0300–1.0300) | 1.02 | missed |"), "{out}");
    }
}
