//! What a record says of how exactly limits hold.
//!
//! Every span of ten seconds that begins with a count is held against what the rate brings in it: at most one event or 2 % more or less.

use std::fmt::Write;

use serde_json::Value;

/// Whoever is over a limit waits, or is told.
pub const OVERS: [&str; 2] = ["delay", "reject"];

const SPAN_US: u64 = 10_000_000;

/// How far a rate was off.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    pub spans: usize,
    /// Events counted in the span with the fewest and the most, of what the rate brings in just that time.
    pub fewest: (u64, f64),
    pub most: (u64, f64),
    pub exceeded: usize,
    pub refused: u64,
}

/// Writes the table of every rate, if the record has any.
pub fn write(out: &mut String, record: &Value) {
    let all = record["scenarios"].as_array().into_iter().flatten();
    let mut line = |text: String| writeln!(out, "{text}").expect("a String takes everything");
    line("\n## Rate limits: what is let through in 10 seconds after the burst\n".to_owned());
    line(
        "One class over four workers; every client comes again at once. All spans of 10 s in all rounds; bound: the rate ± max(1, 2 %).\n"
            .to_owned(),
    );
    line("| limit | over | spans | fewest in 10 s | most in 10 s | refused | spans beyond the bound |".to_owned());
    line("|---|---|--:|--:|--:|--:|--:|".to_owned());
    for one in all.filter(|one| one["kind"] == "rates" && one["error"].is_null()) {
        for over in OVERS {
            let found = find(one, over);
            let cell = |(count, brings): (u64, f64)| {
                format!("{count} of {brings:.1} ({:+.2} %)", (count as f64 / brings - 1.0) * 100.0)
            };
            line(format!(
                "| {}={} | {over} | {} | {} | {} | {} | {} |",
                // Records from when only transactions were measured do not say.
                one["limited"].as_str().unwrap_or("tps"),
                one["per_second"],
                found.spans,
                cell(found.fewest),
                cell(found.most),
                found.refused,
                if found.exceeded == 0 { "none".to_owned() } else { format!("**{}**", found.exceeded) },
            ));
        }
    }
}

/// All spans of all rounds of one rate.
#[must_use]
pub fn find(one: &Value, over: &str) -> Found {
    let rate = one["per_second"].as_f64().unwrap_or_default();
    let mut found = Found::default();
    for round in one["rounds"].as_array().into_iter().flatten() {
        let sample = &round["samples"][over];
        let numbers = |key: &str| -> Vec<u64> {
            sample[key].as_array().into_iter().flatten().filter_map(Value::as_u64).collect()
        };
        found.refused += sample["refused"].as_u64().unwrap_or_default();
        for (count, micros) in spans(&numbers("counts"), &numbers("ends_us")) {
            let brings = rate * micros as f64 / 1e6;
            let off = |(count, brings): (u64, f64)| count as f64 / brings;
            let span = (count, brings);
            found.fewest = if found.spans == 0 || off(span) < off(found.fewest) { span } else { found.fewest };
            found.most = if found.spans == 0 || off(span) > off(found.most) { span } else { found.most };
            found.spans += 1;
            // A count ends between two events: the one may be on this side or on that.
            let allowed = (brings * 0.02).max(1.0);
            found.exceeded += usize::from((count as f64 - brings).abs() > allowed + f64::EPSILON * brings);
        }
    }
    found
}

/// Events and length of every span of at least ten seconds, in microseconds.
fn spans(counts: &[u64], ends: &[u64]) -> Vec<(u64, u64)> {
    let begin = |first: usize| if first == 0 { 0 } else { ends[first - 1] };
    let span = |first: usize| {
        let last = (first..ends.len()).find(|last| ends[*last] >= begin(first) + SPAN_US)?;
        Some((counts[first..=last].iter().sum(), ends[last] - begin(first)))
    };
    (0..counts.len().min(ends.len())).map_while(span).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(counts: &[u64]) -> Value {
        let ends: Vec<u64> = (1..=counts.len() as u64).map(|tick| tick * 1_000_000).collect();
        let sample = json!({ "counts": counts, "ends_us": ends, "refused": 7 });
        json!({ "kind": "rates", "per_second": 100, "rounds": [{ "samples": { "delay": sample } }] })
    }

    #[test]
    fn every_span_of_ten_seconds_is_looked_at() {
        let mut counts = vec![100; 12];
        assert_eq!(find(&record(&counts), "delay").spans, 3);
        assert_eq!(find(&record(&counts), "delay").exceeded, 0);
        counts[11] = 121;
        let found = find(&record(&counts), "delay");
        assert_eq!((found.exceeded, found.most, found.refused), (1, (1021, 1000.0), 7));
        counts[11] = 120;
        assert_eq!(find(&record(&counts), "delay").exceeded, 0);
    }

    #[test]
    fn the_table_names_what_was_not_kept() {
        let mut out = String::new();
        write(&mut out, &json!({ "scenarios": [record(&[90; 10])] }));
        assert!(out.contains("| tps=100 | delay | 1 | 900 of 1000.0 (-10.00 %) |"), "{out}");
        assert!(out.contains("**1**"), "{out}");
    }
}
