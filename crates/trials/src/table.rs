//! The figures beside the documents', as text for a terminal and as Markdown.

use std::fmt::Write;

use measure::statistics::Range;

use crate::arithmetic;
use crate::plan::{Mode, Source, Theirs, Trial};
use crate::sample::{Metric, Results, Samples, Way, number};

/// Columns that are shown, where anybody has a figure for them.
const SHOWN: [Metric; 9] = [
    Metric::Tps,
    Metric::LatencyMean,
    Metric::Connect,
    Metric::ServerMemory,
    Metric::PoolerMemory,
    Metric::Locks,
    Metric::Connections,
    Metric::Runnable,
    Metric::Command,
];

/// What the document says of a way; its pooler was always PgBouncer.
pub(crate) fn theirs(trial: &Trial, way: Way) -> &Theirs {
    match way {
        Way::Direct | Way::Pgbench => &trial.theirs.direct,
        Way::Pgweir(Mode::Transaction) | Way::Auto | Way::PgBouncer(Mode::Transaction) => &trial.theirs.pooled,
        Way::Pgweir(Mode::Session) | Way::PgBouncer(Mode::Session) => &trial.theirs.session,
    }
}

/// A test as rows of cells: the first row names the columns.
fn rows(samples: &Samples, trial: &Trial) -> Vec<Vec<String>> {
    let ways = samples.ways(trial.name);
    let has_any = |metric: &Metric| ways.iter().any(|way| samples.figure(trial.name, *way, *metric).is_some());
    let mut rows = vec![["".to_owned()].into_iter().chain(ways.iter().map(|way| way.label().to_owned())).collect()];
    for metric in SHOWN.into_iter().filter(has_any) {
        let cell = |way: &Way| {
            let ours = samples.figure(trial.name, *way, metric).map_or_else(|| "\u{2013}".to_owned(), shown);
            match metric.of(theirs(trial, *way)) {
                Some(figure) => format!("{ours} (theirs {})", number(figure)),
                None => ours,
            }
        };
        rows.push([metric.words().to_owned()].into_iter().chain(ways.iter().map(cell)).collect());
    }
    rows
}

/// A median, and the range where there is one.
fn shown(figure: Range) -> String {
    let [median, low, high] = [figure.median, figure.low, figure.high].map(number);
    if low == high { median } else { format!("{median} [{low}\u{2013}{high}]") }
}

/// Ratios of throughput, in a sentence each; theirs beside ours.
pub(crate) fn ratios(samples: &Samples, trial: &Trial) -> Vec<String> {
    let mut lines = Vec::new();
    for (mode, _) in trial.pools() {
        let (pgweir, pgbouncer) = (Way::Pgweir(mode), Way::PgBouncer(mode));
        let in_mode = if mode == Mode::Session { " (session mode)" } else { "" };
        let theirs = theirs(trial, pgweir).tps.zip(trial.theirs.direct.tps).filter(|(_, direct)| *direct > 0.0);
        let theirs = theirs.map(|(pooled, direct)| format!(" (theirs {})", number(pooled / direct)));
        for (of, by, note) in
            [(pgweir, Way::Direct, theirs.clone()), (pgbouncer, Way::Direct, theirs), (pgweir, pgbouncer, None)]
        {
            let Some(ratio) = samples.ratio(trial.name, of, by, Metric::Tps) else { continue };
            let [of, by] = [of, by].map(|way| way.label().split(',').next().unwrap_or_default());
            lines.push(format!("{of} \u{f7} {by}{in_mode}: {}{}", shown(ratio), note.unwrap_or_default()));
        }
    }
    let pgweir = Way::Pgweir(Mode::Transaction);
    for by in [Way::Direct, pgweir, Way::PgBouncer(Mode::Transaction)] {
        let Some(ratio) = samples.ratio(trial.name, Way::Auto, by, Metric::Tps) else { continue };
        let of = if by == pgweir { format!("pgweir, {} servers", trial.pool) } else { by.label().to_owned() };
        lines.push(format!("{} \u{f7} {of}: {}", Way::Auto.label(), shown(ratio)));
    }
    if let Some(ratio) = samples.ratio(trial.name, Way::Direct, Way::Pgbench, Metric::Tps) {
        lines.push(format!("our driver \u{f7} pgbench, both direct: {}", shown(ratio)));
    }
    lines
}

/// What was noted, each thing once, with whom it concerns.
pub(crate) fn notes(samples: &Samples, trial: &Trial) -> Vec<String> {
    let ways = samples.ways(trial.name);
    let mut noted: Vec<(&str, Vec<&str>)> = Vec::new();
    for way in &ways {
        for note in samples.notes(trial.name, *way) {
            match noted.iter_mut().find(|(known, _)| *known == note) {
                Some((_, whom)) => whom.push(way.label()),
                None => noted.push((note, vec![way.label()])),
            }
        }
    }
    noted.into_iter().map(|(note, whom)| format!("{}: {note}", whom.join("; "))).collect()
}

/// How far the machine was busy with something else, if that was worth a word.
pub(crate) fn crowding(samples: &Samples) -> Option<String> {
    let others = samples.others().filter(|others| others.median >= 0.1)?;
    Some(format!(
        "The machine was not idle: other programs used {} cores meanwhile. That weighs on the pooled rows most: a pooler is one process \
         among those of the others, hundreds of direct connections are hundreds.",
        shown(others)
    ))
}

/// For a terminal.
pub(crate) fn text(results: &Results) -> String {
    let mut out = String::new();
    for trial in &results.trials {
        let rows = rows(&results.samples, trial);
        if rows[0].len() < 2 {
            continue;
        }
        let _ = writeln!(out, "\n{}  {}: {}", trial.name, trial.source.name(), trial.title);
        text_rows(&mut out, &rows);
        for line in ratios(&results.samples, trial).iter().chain(&notes(&results.samples, trial)) {
            let _ = writeln!(out, "  {line}");
        }
    }
    if let Some(line) = crowding(&results.samples) {
        let _ = writeln!(out, "\n{line}");
    }
    let _ = writeln!(out, "\npods and pools");
    text_rows(&mut out, &arithmetic::rows(arithmetic::cost(&results.samples, &results.trials)));
    out
}

fn text_rows(out: &mut String, rows: &[Vec<String>]) {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        let _ = writeln!(out, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
}

/// For a results.
pub(crate) fn markdown(results: &Results) -> String {
    let mut out = "# The published tests, rerun\n\nMedians of the rounds, with their range in brackets; the document\u{2019}s figure as \
                   \u{201c}theirs\u{201d}. Ratios are taken within a round.\n\n"
        .to_owned();
    for (name, value) in &results.facts {
        let _ = writeln!(out, "* {name}: {value}");
    }
    if let Some(line) = crowding(&results.samples) {
        let _ = writeln!(out, "\n**{line}**");
    }
    for trial in &results.trials {
        let rows = rows(&results.samples, trial);
        if rows[0].len() < 2 {
            continue;
        }
        let _ = writeln!(out, "\n## {}: {} ({})\n", trial.source.name(), trial.title, trial.name);
        markdown_rows(&mut out, &rows);
        let _ = writeln!(out);
        for line in ratios(&results.samples, trial).iter().chain(&notes(&results.samples, trial)) {
            let _ = writeln!(out, "* {line}");
        }
        if !trial.remark.is_empty() {
            let _ = writeln!(out, "* {}", trial.remark);
        }
    }
    let _ = writeln!(out, "\n## Pods and pools\n\n{}\n", arithmetic::WORDS);
    markdown_rows(&mut out, &arithmetic::rows(arithmetic::cost(&results.samples, &results.trials)));
    out.push_str("\n## The documents\n\n");
    for source in Source::ALL {
        let _ = writeln!(out, "* {}", source.title());
    }
    out
}

fn markdown_rows(out: &mut String, rows: &[Vec<String>]) {
    for (at, row) in rows.iter().enumerate() {
        let _ = writeln!(out, "| {} |", row.join(" | "));
        if at == 0 {
            let _ = writeln!(out, "|{}", "---|".repeat(row.len()));
        }
    }
}
