//! The page: one HTML file with everything in it, for a person to show to a colleague.
//!
//! ```text
//!   the figures that matter most ──► a card a test: a sentence, published bars beside ours ──► pods ──► the machine, the documents
//! ```
//!
//! Promises: no script, nothing from elsewhere, light and dark, fit for paper. Published and own bars have a scale each: the machines
//! differ, and what can be compared is the ratio within a column.

use std::fmt::Write;

use crate::arithmetic;
use crate::headline::{headline, megabytes};
use crate::plan::{Mode, Source, Theirs, Trial};
use crate::record::Record;
use crate::sample::{Figure, Metric, Samples, Way, number};
use crate::svg::{Bar, bars, escaped};
use crate::table;

const STYLE: &str = include_str!("page.css");

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

const NOT_PUBLISHED: &str = "<span class=\"no\">not published</span>";

/// The whole page.
pub(crate) fn page(record: &Record) -> String {
    let mut out = String::from("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    out.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    let _ = write!(out, "<title>The published tests, rerun</title><style>{STYLE}</style></head><body><main>");
    let about = |name: &str| {
        let found = record.facts.iter().find(|(fact, _)| fact == name).map(|(_, value)| value.as_str());
        escaped(found.unwrap_or_default())
    };
    let _ = write!(
        out,
        "<header><h1>The published tests of connection pooling, rerun</h1>\
         <p class=\"lead\">PostgreSQL {}, directly and through two poolers; pgweir {}, PgBouncer {}. {}; scale {}.</p></header>",
        about("PostgreSQL"),
        about("pgweir"),
        about("PgBouncer"),
        about("machine"),
        about("scale"),
    );
    if let Some(line) = table::crowding(&record.samples) {
        let _ = write!(out, "<p class=\"crowded\">{}</p>", escaped(&line));
    }
    tiles(&mut out, record);
    out.push_str(
        "<p class=\"key\"><span class=\"direct\">direct</span><span class=\"pgbouncer\">PgBouncer</span>\
         <span class=\"pgweir\">pgweir</span> Bars are medians, thin lines the range of the rounds. \
         Each column has its own scale: compare within a column.</p>",
    );
    for source in [Source::Cern, Source::Percona, Source::LinuxPolska] {
        section(&mut out, record, source);
    }
    pods(&mut out, record);
    ending(&mut out, record);
    out.push_str("</main></body></html>\n");
    out
}

/// The few figures a colleague remembers.
fn tiles(out: &mut String, record: &Record) {
    let pgweir = Way::Pgweir(Mode::Transaction);
    let samples = &record.samples;
    let median = |trial, way, metric| samples.figure(trial, way, metric).map(|figure| figure.median);
    let mut tiles: Vec<(String, String)> = Vec::new();
    for (trial, words) in [
        ("linux-7", "4,000 clients that read: throughput through pgweir \u{f7} directly"),
        ("linux-6", "4,000 clients that write: throughput through pgweir \u{f7} directly"),
        ("cern-800", "800 clients that write: throughput through pgweir \u{f7} directly"),
    ] {
        let ratio = samples.ratio(trial, pgweir, Way::Direct, Metric::Tps);
        tiles.extend(ratio.map(|ratio| (format!("{:.1}\u{d7}", ratio.median), words.to_owned())));
    }
    let both = |trial, metric| Some((median(trial, Way::Direct, metric)?, median(trial, pgweir, metric)?));
    if let Some((direct, pooled)) = both("linux-6", Metric::Connect) {
        let value = format!("{} \u{2192} {} s", number(direct / 1000.0), number(pooled / 1000.0));
        tiles.push((value, "until 4,000 clients had logged in".to_owned()));
    }
    if let Some((direct, pooled)) = both("linux-6", Metric::Locks) {
        tiles.push((
            format!("{} \u{2192} {}", number(direct), number(pooled)),
            "locks held under 4,000 clients that write".to_owned(),
        ));
    }
    if let Some((direct, pooled)) = both("cern-idle-5000", Metric::ServerMemory) {
        let pooler = median("cern-idle-5000", pgweir, Metric::PoolerMemory).unwrap_or(0.0);
        let value = format!("{} \u{2192} {}", megabytes(direct), megabytes(pooled + pooler));
        tiles.push((value, "memory with 5,000 idle connections, the pooler\u{2019}s included".to_owned()));
    }
    if tiles.is_empty() {
        return;
    }
    out.push_str("<div class=\"tiles\">");
    for (value, words) in tiles {
        let _ = write!(out, "<div><b>{}</b><span>{}</span></div>", escaped(&value), escaped(&words));
    }
    out.push_str("</div>");
}

fn section(out: &mut String, record: &Record, source: Source) {
    let has_any = |trial: &&Trial| trial.source == source && !record.samples.ways(trial.name).is_empty();
    let trials: Vec<&Trial> = record.trials.iter().filter(has_any).collect();
    if trials.is_empty() {
        return;
    }
    let _ = write!(out, "<section><h2>{}</h2><p class=\"source\">{}</p>", source.name(), escaped(source.title()));
    trials.into_iter().for_each(|trial| card(out, &record.samples, trial));
    out.push_str("</section>");
}

fn card(out: &mut String, samples: &Samples, trial: &Trial) {
    let sentence = escaped(&headline(samples, trial));
    let _ = write!(out, "<article><h3>{}</h3><p class=\"headline\">{sentence}</p>", escaped(trial.title));
    let drawn = SHOWN.map(|(metric, words)| (words, theirs(trial, metric), ours(samples, trial, metric)));
    let (published, more): (Vec<_>, Vec<_>) = drawn
        .into_iter()
        .filter(|(_, _, ours)| ours.iter().any(|bar| bar.figure.is_some()))
        .partition(|(words, theirs, _)| !theirs.is_empty() || *words == SHOWN[0].1);
    out.push_str("<div class=\"grid\"><span></span><span class=\"column\">published</span>");
    out.push_str("<span class=\"column\">here</span>");
    for (words, theirs, ours) in published {
        let theirs = if theirs.is_empty() { NOT_PUBLISHED.to_owned() } else { bars(&theirs) };
        let _ = write!(out, "<span class=\"metric\">{words}</span><div>{theirs}</div><div>{}</div>", bars(&ours));
    }
    out.push_str("</div><div class=\"more\">");
    for (words, _, ours) in more {
        let _ = write!(out, "<figure><figcaption>{words}</figcaption>{}</figure>", bars(&ours));
    }
    out.push_str("</div>");
    let mut lines = table::ratios(samples, trial);
    lines.extend(table::notes(samples, trial));
    lines.extend(Some(trial.remark.to_owned()).filter(|remark| !remark.is_empty()));
    out.push_str("<ul>");
    for line in lines {
        let _ = write!(out, "<li>{}</li>", escaped(&line));
    }
    out.push_str("</ul></article>");
}

fn ours(samples: &Samples, trial: &Trial, metric: Metric) -> Vec<Bar> {
    let mut ways = samples.ways(trial.name);
    // pgweir stands below PgBouncer: the eye ends there.
    ways.sort_by_key(|way| (*way == Way::Pgbench, in_session(*way), matches!(way, Way::Pgweir(_)), *way));
    ways.retain(|way| {
        let is_shown = !matches!(way, Way::Pgbench) || metric == Metric::Tps;
        let has_pooler = !matches!((way, metric), (Way::Direct, Metric::PoolerMemory));
        is_shown && has_pooler
    });
    let bar = |way: &Way| Bar {
        name: way.label().replace(", session", " (session)").replace(", direct", ""),
        class: class(*way),
        figure: samples.figure(trial.name, *way, metric),
        words: samples.notes(trial.name, *way).first().map_or("\u{2013}", |note| short(note)).to_owned(),
    };
    ways.iter().map(bar).collect()
}

fn in_session(way: Way) -> bool {
    matches!(way, Way::Pgweir(Mode::Session) | Way::PgBouncer(Mode::Session))
}

fn class(way: Way) -> &'static str {
    match way {
        Way::Direct | Way::Pgbench => "direct",
        Way::Pgweir(_) => "pgweir",
        Way::PgBouncer(_) => "pgbouncer",
    }
}

/// As much of a note as has room where a bar would be.
fn short(note: &str) -> &str {
    if note.starts_with("not possible") { "not possible" } else { "\u{2013}" }
}

fn theirs(trial: &Trial, metric: Metric) -> Vec<Bar> {
    let bar = |name: &str, class, theirs: &Theirs| {
        let value = metric.of(theirs)?;
        let figure = Some(Figure { median: value, low: value, high: value });
        Some(Bar { name: name.to_owned(), class, figure, words: String::new() })
    };
    [
        bar("direct", "direct", &trial.direct),
        bar("PgBouncer", "pgbouncer", &trial.pooled),
        bar("PgB. (session)", "pgbouncer", &trial.session),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn pods(out: &mut String, record: &Record) {
    let cost = arithmetic::cost(&record.samples, &record.trials);
    let _ = write!(out, "<section><h2>Pods and pools</h2><article><p>{}</p><table>", escaped(arithmetic::WORDS));
    for (at, row) in arithmetic::rows(cost).iter().enumerate() {
        let cell = if at == 0 { "th" } else { "td" };
        let cells: String = row.iter().map(|text| format!("<{cell}>{}</{cell}>", escaped(text))).collect();
        let _ = write!(out, "<tr>{cells}</tr>");
    }
    out.push_str("</table></article></section>");
}

fn ending(out: &mut String, record: &Record) {
    out.push_str("<section><h2>How it was measured</h2><article><table class=\"facts\">");
    for (name, value) in &record.facts {
        let _ = write!(out, "<tr><th>{}</th><td>{}</td></tr>", escaped(name), escaped(value));
    }
    out.push_str(
        "</table><p>The load, the poolers and PostgreSQL share this machine\u{2019}s cores. Contestants take turns within a round and get the same \
         ini lines; ratios are taken within a round. Memory is each process\u{2019}s share (PSS) with its page tables. Locks and connections are \
         counted about three times a second, runnable processes up to twenty times. Every sample is in <code>samples.csv</code>, \
         these figures as text in <code>table.md</code>. Made by <code>pgweir bench</code>.</p></article></section>",
    );
}
