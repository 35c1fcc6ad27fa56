//! A sentence a test: what came of it, for somebody who reads nothing else.

use measure::script::Script;

use crate::plan::{Mode, Trial};
use crate::sample::{Metric, Samples, Way, number};

const PGWEIR: Way = Way::Pgweir(Mode::Transaction);

/// The sentence, as plain text.
pub(crate) fn headline(samples: &Samples, trial: &Trial) -> String {
    let median = |way, metric| samples.figure(trial.name, way, metric).map(|figure| figure.median);
    let pair = |metric| Some((median(Way::Direct, metric)?, median(PGWEIR, metric)?));
    let mut parts: Vec<String> = rate(samples, trial).into_iter().collect();
    if trial.command {
        parts.extend(pair(Metric::Runnable).map(|(direct, pooled)| {
            format!("{} PostgreSQL processes wanted to run instead of {}", number(pooled), number(direct))
        }));
        parts.extend(pair(Metric::Command).map(|(direct, pooled)| {
            format!("an unrelated command took {} ms instead of {}", number(pooled), number(direct))
        }));
    }
    if trial.clients >= 500 {
        parts.extend(pair(Metric::Connect).map(|(direct, pooled)| {
            format!("they had logged in after {} instead of {}", seconds(pooled), seconds(direct))
        }));
    }
    if trial.theirs.direct.locks.is_some() {
        parts.extend(pair(Metric::Locks).map(|(direct, pooled)| {
            format!("PostgreSQL held at most {} locks instead of {}", number(pooled), number(direct))
        }));
    }
    if trial.idle > 0 || trial.theirs.direct.memory_mb.is_some() {
        parts.extend(pair(Metric::ServerMemory).map(|(direct, pooled)| {
            let pooler = median(PGWEIR, Metric::PoolerMemory).unwrap_or(0.0);
            format!(
                "memory was {} instead of {}, the pooler\u{2019}s included",
                megabytes(pooled + pooler),
                megabytes(direct)
            )
        }));
    }
    match parts.split_last() {
        None => "No figures.".to_owned(),
        Some((last, [])) => format!("{last}."),
        Some((last, before)) => format!("{}, and {last}.", before.join(", ")),
    }
}

/// Throughput, in words that fit how large the difference is.
fn rate(samples: &Samples, trial: &Trial) -> Option<String> {
    let pooled = samples.figure(trial.name, PGWEIR, Metric::Tps)?;
    let work = match trial.script {
        Script::TpcB => "write",
        Script::Select => "read",
    };
    let who = match trial.clients {
        1 => format!("One client {work}s"),
        clients => format!("{} clients {work}", number(clients as f64)),
    };
    let Some(ratio) = samples.ratio(trial.name, PGWEIR, Way::Direct, Metric::Tps) else {
        let directly = if samples.is_impossible(trial.name, Way::Direct) { ", and cannot directly" } else { "" };
        return Some(format!("{who} {} transactions a second through pgweir{directly}", number(pooled.median)));
    };
    let size = ratio.median;
    let how = if (0.95..1.05).contains(&size) {
        "as fast through pgweir as directly".to_owned()
    } else if size >= 1.5 {
        format!("{size:.1} times as fast through pgweir as directly")
    } else if size > 1.0 {
        format!("{:.0} % faster through pgweir than directly", (size - 1.0) * 100.0)
    } else {
        format!("at {:.0} % of the direct rate through pgweir", size * 100.0)
    };
    Some(format!("{who} {how}"))
}

fn seconds(milliseconds: f64) -> String {
    if milliseconds < 1000.0 {
        format!("{} ms", number(milliseconds))
    } else {
        format!("{} s", number(milliseconds / 1000.0))
    }
}

pub(crate) fn megabytes(value: f64) -> String {
    if value < 1024.0 { format!("{} MB", number(value)) } else { format!("{} GB", number(value / 1024.0)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::chosen;
    use crate::sample::Sample;
    use std::collections::BTreeMap;

    fn sample(way: Way, values: &[(Metric, f64)]) -> Sample {
        let values = BTreeMap::from_iter(values.iter().copied());
        Sample { trial: "linux-6", way, round: 1, values, is_impossible: false, note: String::new() }
    }

    #[test]
    fn a_sentence_says_what_changed() {
        let trial = chosen(&["linux-6".to_owned()]).expect("there is one")[0];
        let direct = [(Metric::Tps, 100.0), (Metric::Connect, 20_000.0), (Metric::Locks, 40_000.0)];
        let pooled = [(Metric::Tps, 340.0), (Metric::Connect, 900.0), (Metric::Locks, 1000.0)];
        let samples = Samples(vec![sample(Way::Direct, &direct), sample(PGWEIR, &pooled)]);
        let expected = "4,000 clients write 3.4 times as fast through pgweir as directly, they had logged in after 900 ms \
                        instead of 20 s, and PostgreSQL held at most 1,000 locks instead of 40,000.";
        assert_eq!(headline(&samples, &trial), expected);
        let alone = Samples(vec![sample(PGWEIR, &pooled[..1])]);
        let rate = "4,000 clients write 340 transactions a second through pgweir";
        assert_eq!(headline(&alone, &trial), format!("{rate}."), "nobody has tried it directly");
        let failed = Samples(vec![sample(Way::Direct, &[]), alone.0[0].clone()]);
        assert_eq!(headline(&failed, &trial), format!("{rate}."), "it failed, and may not fail again");
        let impossible = Sample { is_impossible: true, ..sample(Way::Direct, &[]) };
        let impossible = Samples(vec![impossible, alone.0[0].clone()]);
        assert_eq!(headline(&impossible, &trial), format!("{rate}, and cannot directly."));
        assert_eq!(headline(&Samples::default(), &trial), "No figures.");
    }
}
