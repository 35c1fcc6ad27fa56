//! The page: one HTML file with everything in it, for a person to show to a colleague.
//!
//! ```text
//!   the figures that matter most ──► a card a test: a sentence, published bars beside ours ──► pods ──► the machine, the documents
//! ```
//!
//! Promises: no script, nothing from elsewhere, light and dark, fit for paper. Published and own bars have a scale each: the machines
//! differ, and what can be compared is the ratio within a column.

use askama::Template;
use measure::statistics::Range;

use crate::arithmetic;
use crate::headline::{headline, megabytes};
use crate::plan::{Mode, Source, Theirs, Trial};
use crate::plot::{Bar, Drawing, Whose, bars};
use crate::sample::{Metric, Results, Samples, Way, number};
use crate::table;

const STYLE: &str = include_str!("../templates/page.css");

/// Metrics of a card, where anybody has a figure.
const SHOWN: [(Metric, &str); 9] = [
    (Metric::Tps, "Transactions a second"),
    (Metric::LatencyMean, "Latency, mean, ms"),
    (Metric::Connect, "Until all had logged in, ms"),
    (Metric::ServerMemory, "Memory of PostgreSQL, MB"),
    (Metric::PoolerMemory, "Memory of the pooler, MB"),
    (Metric::Locks, "Locks held, most"),
    (Metric::Connections, "Connections to PostgreSQL, most"),
    (Metric::Runnable, "PostgreSQL processes that want to run"),
    (Metric::Command, "An unrelated command, ms"),
];

/// Who stands in a tile beside pgweir.
const OTHERS: [Way; 2] = [Way::PgBouncer(Mode::Transaction), Way::Auto];

/// What `templates/page.html` shows.
#[derive(Template)]
#[template(path = "page.html")]
struct Page {
    style: &'static str,
    lead: String,
    crowding: Option<String>,
    tiles: Vec<Tile>,
    sections: Vec<Section>,
    pods_words: &'static str,
    pods_columns: Vec<String>,
    pods: Vec<Vec<String>>,
    facts: Vec<(String, String)>,
}

/// A figure that a colleague remembers.
#[derive(Debug, PartialEq)]
struct Tile {
    value: String,
    words: &'static str,
    /// The same of the others that were measured.
    others: Vec<String>,
}

struct Section {
    name: &'static str,
    title: &'static str,
    cards: Vec<Card>,
}

struct Card {
    title: &'static str,
    headline: String,
    /// With the document's figures beside ours.
    pairs: Vec<Pair>,
    /// Without.
    alone: Vec<(&'static str, Drawing)>,
    lines: Vec<String>,
}

struct Pair {
    words: &'static str,
    theirs: Option<Drawing>,
    ours: Drawing,
}

/// The whole page.
pub(crate) fn page(results: &Results) -> String {
    let about = |name: &str| {
        let found = results.facts.iter().find(|(fact, _)| fact == name).map(|(_, value)| value.as_str());
        found.unwrap_or_default()
    };
    let lead = format!(
        "PostgreSQL {}, directly and through poolers; pgweir {}, PgBouncer {}. {}; scale {}.",
        about("PostgreSQL"),
        about("pgweir"),
        about("PgBouncer"),
        about("machine"),
        about("scale"),
    );
    let mut pods = arithmetic::rows(arithmetic::cost(&results.samples, &results.trials));
    let pods_columns = pods.remove(0);
    let page = Page {
        style: STYLE,
        lead,
        crowding: table::crowding(&results.samples),
        tiles: tiles(&results.samples),
        sections: Source::ALL.into_iter().filter_map(|source| section(results, source)).collect(),
        pods_words: arithmetic::WORDS,
        pods_columns,
        pods,
        facts: results.facts.clone(),
    };
    page.render().expect("writing to a String cannot fail")
}

/// The few figures a colleague remembers.
fn tiles(samples: &Samples) -> Vec<Tile> {
    let pgweir = Way::Pgweir(Mode::Transaction);
    let mut tiles = Vec::new();
    for (trial, words) in [
        ("linux-7", "4,000 clients that read: throughput through pgweir \u{f7} directly"),
        ("linux-6", "4,000 clients that write: throughput through pgweir \u{f7} directly"),
        ("cern-800", "800 clients that write: throughput through pgweir \u{f7} directly"),
    ] {
        let of = |way| samples.ratio(trial, way, Way::Direct, Metric::Tps).map(|it| format!("{:.1}\u{d7}", it.median));
        tiles.extend(of(pgweir).map(|value| Tile { value, words, others: beside(of) }));
    }
    let seconds = |value: f64| format!("{} s", number(value / 1000.0));
    for (trial, metric, shown, words) in [
        ("linux-6", Metric::Connect, &seconds as &dyn Fn(f64) -> String, "until 4,000 clients had logged in"),
        ("linux-6", Metric::Locks, &number, "locks held under 4,000 clients that write"),
        (
            "cern-idle-5000",
            Metric::ServerMemory,
            &megabytes,
            "memory with 5,000 idle connections, the pooler\u{2019}s included",
        ),
    ] {
        let median = |way, metric| samples.figure(trial, way, metric).map(|figure| figure.median);
        let of = |way: Way| {
            let more = if metric == Metric::ServerMemory { median(way, Metric::PoolerMemory) } else { None };
            Some(shown(median(way, metric)? + more.unwrap_or(0.0)))
        };
        if let (Some(direct), Some(pooled)) = (of(Way::Direct), of(pgweir)) {
            tiles.push(Tile { value: format!("{direct} \u{2192} {pooled}"), words, others: beside(of) });
        }
    }
    tiles
}

/// The others' values, of those that were measured.
fn beside(of: impl Fn(Way) -> Option<String>) -> Vec<String> {
    OTHERS.into_iter().filter_map(|way| Some(format!("{} {}", way.label(), of(way)?))).collect()
}

fn section(results: &Results, source: Source) -> Option<Section> {
    let has_any = |trial: &&Trial| trial.source == source && !results.samples.ways(trial.name).is_empty();
    let cards: Vec<Card> = results.trials.iter().filter(has_any).map(|trial| card(&results.samples, trial)).collect();
    (!cards.is_empty()).then(|| Section { name: source.name(), title: source.title(), cards })
}

fn card(samples: &Samples, trial: &Trial) -> Card {
    let (mut pairs, mut alone) = (Vec::new(), Vec::new());
    for (metric, words) in SHOWN {
        let bars_of_ours = ours(samples, trial, metric);
        if bars_of_ours.iter().all(|bar| bar.figure.is_none()) {
            continue;
        }
        let (theirs, Some(ours)) = (bars(&theirs(trial, metric)), bars(&bars_of_ours)) else { continue };
        if theirs.is_some() || metric == Metric::Tps {
            pairs.push(Pair { words, theirs, ours });
        } else {
            alone.push((words, ours));
        }
    }
    let mut lines = table::ratios(samples, trial);
    lines.extend(table::notes(samples, trial));
    lines.extend(Some(trial.remark.to_owned()).filter(|remark| !remark.is_empty()));
    Card { title: trial.title, headline: headline(samples, trial), pairs, alone, lines }
}

fn ours(samples: &Samples, trial: &Trial, metric: Metric) -> Vec<Bar> {
    let mut ways = samples.ways(trial.name);
    // pgweir stands below PgBouncer: the eye ends there.
    ways.sort_by_key(|way| (*way == Way::Pgbench, in_session(*way), whose(*way) == Whose::Pgweir, *way));
    ways.retain(|way| {
        let is_shown = !matches!(way, Way::Pgbench) || metric == Metric::Tps;
        let has_pooler = !matches!((way, metric), (Way::Direct, Metric::PoolerMemory));
        is_shown && has_pooler
    });
    let bar = |way: &Way| Bar {
        name: way.label().to_owned(),
        whose: whose(*way),
        figure: samples.figure(trial.name, *way, metric),
        words: samples.notes(trial.name, *way).first().map_or("\u{2013}", |note| short(note)).to_owned(),
    };
    ways.iter().map(bar).collect()
}

fn in_session(way: Way) -> bool {
    matches!(way, Way::Pgweir(Mode::Session) | Way::PgBouncer(Mode::Session))
}

fn whose(way: Way) -> Whose {
    match way {
        Way::Direct | Way::Pgbench => Whose::Direct,
        Way::Pgweir(_) | Way::Auto => Whose::Pgweir,
        Way::PgBouncer(_) => Whose::PgBouncer,
    }
}

/// As much of a note as has room where a value would be.
fn short(note: &str) -> &str {
    if note.starts_with("not possible") { "not possible" } else { "\u{2013}" }
}

fn theirs(trial: &Trial, metric: Metric) -> Vec<Bar> {
    let bar = |way: Way, theirs: &Theirs| {
        let value = metric.of(theirs)?;
        let figure = Some(Range { median: value, low: value, high: value });
        Some(Bar { name: way.label().to_owned(), whose: whose(way), figure, words: String::new() })
    };
    let pgbouncer = Way::PgBouncer;
    [
        bar(Way::Direct, &trial.theirs.direct),
        bar(pgbouncer(Mode::Transaction), &trial.theirs.pooled),
        bar(pgbouncer(Mode::Session), &trial.theirs.session),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::sample::Sample;

    fn sample(way: Way, values: &[(Metric, f64)]) -> Sample {
        let values = BTreeMap::from_iter(values.iter().copied());
        Sample { trial: "linux-6", way, round: 1, values, is_impossible: false, note: String::new() }
    }

    #[test]
    fn a_tile_has_everybody_who_was_measured() {
        let values = |tps, locks| [(Metric::Tps, tps), (Metric::Locks, locks)];
        let mut samples = Samples(vec![
            sample(Way::Direct, &values(100.0, 40_000.0)),
            sample(Way::Pgweir(Mode::Transaction), &values(340.0, 1000.0)),
            sample(Way::PgBouncer(Mode::Transaction), &values(300.0, 900.0)),
            sample(Way::Auto, &values(480.0, 200.0)),
        ]);
        let found = tiles(&samples);
        assert_eq!(found[0].value, "3.4\u{d7}");
        assert_eq!(found[0].others, ["PgBouncer 3.0\u{d7}", "pgweir, auto 4.8\u{d7}"]);
        assert_eq!(found[1].value, "40,000 \u{2192} 1,000");
        assert_eq!(found[1].others, ["PgBouncer 900", "pgweir, auto 200"]);
        samples.0.truncate(2);
        assert_eq!(tiles(&samples)[0].others, Vec::<String>::new(), "nobody else was there");
    }
}
