//! `pgweir report`: a part of the history as one HTML page, or as CSV or JSON, from a console or from the history's file.
//!
//! ```text
//!   console ─ SHOW HISTORY, a minute at a time ─┬─► ::report ─► HTML
//!   --file ── observer::file ─► History ────────┘─► CSV, JSON: as the console has them
//! ```
//!
//! Promises: a console is held up by no more than a minute of its history at a time; nothing is written if nothing is known of that time.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::time::Duration;

use ::report::{Heading, Sums};
use activity::history::{Options, SECONDS_MAX, Span};
use activity::{At, History};
use ask::Monitor;
use control::admin::history_table;
use control::admin::shown::Clock;
use control::table::TableFormat;
use control::version;
use jiff::{Timestamp, Zoned};

use crate::cli::{Report, ReportFormat};
use crate::complain;
use crate::doctor::console_of;
use crate::observer::file::read_back;

/// If only the end is said, or nothing.
const LENGTH_MS: u64 = 300_000;

/// What is asked for at a time.
const PART_MS: u64 = 60_000;

/// How the console sees us.
const NAME: &str = "pgweir report";

/// For each answer of a console.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn report(wanted: &Report) -> ExitCode {
    match made(wanted) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("pgweir report: {why}");
            ExitCode::FAILURE
        }
    }
}

fn made(wanted: &Report) -> Result<(), String> {
    let now = Zoned::now();
    let span = span(wanted, &now)?;
    let shown = |at: At| zoned(at, &now).strftime("%Y-%m-%d %H:%M:%S").to_string();
    let (from, to) = (shown(span.from), shown(span.to));
    let (source, span) = Origin::open(wanted, span, &now)?;
    let nothing = || format!("nothing is known of the time from {from} to {to}");
    let mut parts = Parts { source, left: Some(span), now: &now };
    let text = match wanted.format {
        ReportFormat::Html => {
            let mut sums = Sums::default();
            while let Some(part) = parts.next(TableFormat::Json)? {
                sums.add(&part.concat())?;
            }
            if sums.seconds() == 0 {
                return Err(nothing());
            }
            let source = parts.source.name();
            sums.page(&Heading { source, from: from.clone(), to: to.clone(), version: version::PGWEIR.to_owned() })
        }
        ReportFormat::Csv => csv(&mut parts)?.ok_or_else(nothing)?,
        ReportFormat::Json => json(&mut parts)?.ok_or_else(nothing)?,
    };
    write(wanted, &text)
}

/// The names once, above all parts. `None`: there is no row.
fn csv(parts: &mut Parts<'_>) -> Result<Option<String>, String> {
    let (mut out, mut rows) = (String::new(), 0);
    while let Some(part) = parts.next(TableFormat::Csv)? {
        let from = usize::from(!out.is_empty());
        rows += part.len().saturating_sub(1);
        for line in part.iter().skip(from) {
            out.push_str(line);
            // As RFC 4180 has it.
            out.push_str("\r\n");
        }
    }
    Ok((rows > 0).then_some(out))
}

/// One array of all parts. `None`: there is no row.
fn json(parts: &mut Parts<'_>) -> Result<Option<String>, String> {
    let mut out = String::new();
    while let Some(part) = parts.next(TableFormat::Json)? {
        let part = part.concat();
        let rows =
            part.strip_prefix('[').and_then(|part| part.strip_suffix(']')).ok_or("the console answers no JSON")?;
        if !rows.is_empty() {
            out.push_str(if out.is_empty() { "[" } else { ",\n" });
            out.push_str(rows);
        }
    }
    Ok((!out.is_empty()).then(|| out + "]\n"))
}

fn write(wanted: &Report, text: &str) -> Result<(), String> {
    let words = |error: io::Error| complain::why(&error);
    match &wanted.out {
        Some(path) => {
            let file = File::create(path).map_err(|error| format!("{}: {}", path.display(), words(error)))?;
            let mut file = BufWriter::new(file);
            let written = file.write_all(text.as_bytes()).and_then(|()| file.flush());
            written.map_err(|error| format!("{}: {}", path.display(), words(error)))
        }
        None => match io::stdout().lock().write_all(text.as_bytes()) {
            // Who reads has enough of it.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written.map_err(words),
        },
    }
}

fn span(wanted: &Report, now: &Zoned) -> Result<Span, String> {
    let clock = |text: &Option<String>| -> Result<Option<At>, String> {
        let Some(text) = text else { return Ok(None) };
        let zoned = Clock::parse(text).and_then(|clock| clock.at(now));
        let zoned = zoned.ok_or_else(|| {
            format!("\"{text}\" is no time, such as 14:03, '2026-07-01 14:03:20' or 2026-07-01T12:03:20Z")
        })?;
        Ok(Some(at(&zoned)))
    };
    let to = clock(&wanted.to)?.unwrap_or_else(|| at(now));
    let from = clock(&wanted.from)?.unwrap_or(At(to.0.saturating_sub(LENGTH_MS)));
    if from > to {
        return Err("--from is later than --to".to_owned());
    }
    Ok(Span { from, to })
}

fn at(zoned: &Zoned) -> At {
    At(u64::try_from(zoned.timestamp().as_millisecond()).unwrap_or(0))
}

fn timestamp(at: At) -> Timestamp {
    Timestamp::from_millisecond(i64::try_from(at.0).unwrap_or(i64::MAX)).unwrap_or(Timestamp::MAX)
}

fn zoned(at: At, now: &Zoned) -> Zoned {
    timestamp(at).to_zoned(now.time_zone().clone())
}

/// Where the history is.
enum Origin {
    Console(Box<Monitor>, String),
    File(Box<History>, String),
}

impl Origin {
    /// With the part of the span that can be there.
    fn open(wanted: &Report, span: Span, now: &Zoned) -> Result<(Origin, Span), String> {
        match (&wanted.url, &wanted.file) {
            (Some(url), None) => {
                let target = console_of(url)?;
                let name = format!("{}:{}", target.host, target.port);
                let monitor =
                    Monitor::connect(&target, NAME, PATIENCE).map_err(|why| format!("the console at {name}: {why}"))?;
                // Clocks differ.
                let hour = At(at(now).0.saturating_sub(2 * SECONDS_MAX as u64 * 1000));
                Ok((Origin::Console(Box::new(monitor), name), Span { from: span.from.max(hour), ..span }))
            }
            (None, Some(path)) => {
                let options = Options { memory_max: usize::MAX, seconds_max: usize::MAX, ..Options::default() };
                let mut history = History::new(options);
                let back = read_back(path, &mut history, span);
                for complaint in &back.complaints {
                    eprintln!("pgweir report: {complaint}");
                }
                let ends = history.seconds().next().zip(history.seconds().next_back());
                let span =
                    ends.map_or(Span { to: span.from, ..span }, |(first, last)| Span { from: first.at, to: last.at });
                Ok((Origin::File(Box::new(history), path.display().to_string()), span))
            }
            _ => Err("the URL of a console, or --file, is needed: one of both".to_owned()),
        }
    }

    fn name(&self) -> String {
        match self {
            Origin::Console(_, name) | Origin::File(_, name) => name.clone(),
        }
    }
}

/// What is left of the span.
struct Parts<'n> {
    source: Origin,
    left: Option<Span>,
    now: &'n Zoned,
}

impl Parts<'_> {
    /// The lines of the next minute.
    fn next(&mut self, format: TableFormat) -> Result<Option<Vec<String>>, String> {
        let Some(left) = self.left else { return Ok(None) };
        let to = At((left.from.0 - left.from.0 % 1000).saturating_add(PART_MS - 1)).min(left.to);
        self.left = (to < left.to).then_some(Span { from: At(to.0 + 1), ..left });
        let part = Span { from: left.from, to };
        match &mut self.source {
            Origin::File(history, _) => {
                let table = history_table(history, part, self.now).in_format(format);
                Ok(Some(table.rows().map(|row| row[0].unwrap_or_default().to_owned()).collect()))
            }
            Origin::Console(monitor, name) => {
                let word = if format == TableFormat::Csv { "CSV" } else { "JSON" };
                let sql =
                    format!("SHOW HISTORY FROM '{}' TO '{}' FORMAT {word}", timestamp(part.from), timestamp(part.to));
                let rows = monitor.rows(&sql).map_err(|why| format!("the console at {name}: {why}"))?;
                Ok(Some(rows.into_iter().filter_map(|mut row| row.pop()?).collect()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(from: Option<&str>, to: Option<&str>) -> Report {
        let text = |text: Option<&str>| text.map(str::to_owned);
        Report { from: text(from), to: text(to), ..Report::default() }
    }

    #[test]
    fn a_span_is_read_as_the_console_reads_it() {
        let now: Zoned = "2026-07-01T12:00:00+00:00[UTC]".parse().expect("a time");
        let read = |from, to| {
            let span = span(&wanted(from, to), &now)?;
            Ok::<_, String>((timestamp(span.from).to_string(), timestamp(span.to).to_string()))
        };
        let pair = |from: &str, to: &str| Ok((format!("2026-{from}Z"), format!("2026-{to}Z")));
        assert_eq!(read(None, None), pair("07-01T11:55:00", "07-01T12:00:00"));
        assert_eq!(read(Some("11:03"), Some("11:04:30")), pair("07-01T11:03:00", "07-01T11:04:30"));
        assert_eq!(read(Some("23:30"), Some("23:40")), pair("06-30T23:30:00", "06-30T23:40:00"));
        assert_eq!(read(Some("2026-07-01T13:50:00+02:00"), None), pair("07-01T11:50:00", "07-01T12:00:00"));
        assert!(read(Some("11:04"), Some("11:03")).is_err_and(|why| why.contains("later")));
        assert!(read(Some("yesterday"), None).is_err_and(|why| why.contains("\"yesterday\" is no time")));
    }

    #[test]
    fn one_source_is_needed() {
        let made = made(&Report::default());
        assert!(made.is_err_and(|why| why.contains("one of both")));
    }
}
