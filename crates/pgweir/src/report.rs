//! `pgweir report`: a part of the history as one HTML page, or as CSV or JSON, from a console or from the history's file. The live page saves the
//! same HTML page of its own process.
//!
//! ```text
//!   console ─ SHOW HISTORY, a minute at a time ─┬─► ::report ─► HTML
//!   --file ── archive, a minute at a time ──────┤─► CSV, JSON: as the console has them
//!   the live page ─► archive, and History ──────┘
//! ```
//!
//! Promises: a console, or this process, is held up by no more than a minute of its history at a time, and no more is held in memory; CSV and JSON are
//! written minute by minute; if the history has no second of that time, nothing is written, and the message gives the time that it has.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use ::report::{Heading, Sums};
use activity::history::Span;
use activity::{At, History};
use archive::Reading;
use ask::Monitor;
use control::admin::history_table;
use control::admin::shown::Clock;
use control::past::BUSY;
use control::table::TableFormat;
use control::version;
use jiff::{SignedDuration, Timestamp, Zoned};

use crate::cli::{Report, ReportFormat};
use crate::complain;
use crate::doctor::console_of;
use crate::observer::past::Past;

/// The length of a report without `--from`.
const LENGTH_MS: u64 = 300_000;

/// The longest time that one question to a console covers, and that all questions cover.
const PART_MS: u64 = 60_000;
const CONSOLE_MS_MAX: u64 = 7 * 86_400_000;

/// How the console sees us.
const NAME: &str = "pgweir report";

/// For each answer of a console.
const PATIENCE: Duration = Duration::from_secs(30);

/// A minute that the console refuses while too many others read is asked for again this many times, after a pause. The console lets it wait in a queue, too.
const BUSY_MAX: u32 = 30;
const BUSY_PAUSE: Duration = Duration::from_secs(1);

/// The caller of a report.
#[derive(Clone, Copy)]
pub(crate) struct Caller<'c> {
    /// Takes a complaint about a file.
    pub(crate) say: &'c dyn Fn(&str),
    /// `false` stops the report.
    pub(crate) is_wanted: &'c dyn Fn() -> bool,
}

pub(crate) fn report(wanted: &Report) -> ExitCode {
    match made(wanted) {
        Ok(()) | Err(Failed::Unread) => ExitCode::SUCCESS,
        Err(Failed::Why(why)) => {
            to_stderr(&why);
            ExitCode::FAILURE
        }
    }
}

/// Standard error may be closed, which is no reason to fail.
fn to_stderr(text: &str) {
    let _ = writeln!(io::stderr(), "pgweir report: {text}");
}

/// Why there is no report, or no whole one.
#[derive(Debug)]
enum Failed {
    Why(String),
    /// The reader of standard output has closed it.
    Unread,
}

impl From<String> for Failed {
    fn from(why: String) -> Failed {
        Failed::Why(why)
    }
}

fn made(wanted: &Report) -> Result<(), Failed> {
    let now = Zoned::now();
    let span = span(wanted, &now)?;
    let shown = |at: At| zoned(at, &now).strftime(TIME).to_string();
    let (from, to) = (shown(span.from), shown(span.to));
    let source = Origin::open(wanted, span)?;
    let caller = Caller { say: &to_stderr, is_wanted: &|| true };
    let mut parts = Parts { source, left: Some(span), now: &now, caller };
    let mut out = Out { path: wanted.out.as_deref(), open: None };
    match wanted.format {
        ReportFormat::Html => {
            if let Some(page) = html(&mut parts, &from, &to)? {
                out.write(&page)?;
            }
        }
        ReportFormat::Csv => csv(&mut parts, &mut out)?,
        ReportFormat::Json => json(&mut parts, &mut out)?,
    }
    let is_written = out.end()?;
    if is_written { Ok(()) } else { Err(Failed::Why(nothing(&from, &to, &parts.source.known(&now)))) }
}

/// The page of a part of this process's history. `source`: its name in the heading.
///
/// # Errors
/// The history has no second of that time. The text gives the time that it has.
pub(crate) fn of_process(
    past: Past,
    span: Span,
    is_open: bool,
    source: String,
    caller: Caller<'_>,
) -> Result<String, String> {
    let now = Zoned::now();
    let shown = |at: At| zoned(at, &now).strftime(TIME).to_string();
    let (from, to) = (shown(span.from), shown(span.to));
    let (reading, left) = past.reading(span);
    let source = Origin::Process { past, reading: reading.map(Box::new), is_open, name: source };
    let mut parts = Parts { source, left, now: &now, caller };
    html(&mut parts, &from, &to)?.ok_or_else(|| nothing(&from, &to, &parts.source.known(&now)))
}

const TIME: &str = "%Y-%m-%d %H:%M:%S";

fn nothing(from: &str, to: &str, known: &str) -> String {
    format!("nothing is known of the time from {from} to {to}: {known}")
}

/// `None`: there is no row.
fn html(parts: &mut Parts<'_>, from: &str, to: &str) -> Result<Option<String>, String> {
    let mut sums = Sums::default();
    while let Some(part) = parts.next(TableFormat::Json)? {
        match &part[..] {
            [json] => sums.add(json)?,
            parts => sums.add(&parts.concat())?,
        }
    }
    let (source, version) = (parts.source.name(), version::PGWEIR.to_owned());
    let heading = Heading { source, from: from.to_owned(), to: to.to_owned(), version };
    Ok((sums.seconds() > 0).then(|| sums.page(&heading)))
}

/// Writes the names of the columns once, above all rows.
fn csv(parts: &mut Parts<'_>, out: &mut Out<'_>) -> Result<(), Failed> {
    while let Some(part) = parts.next(TableFormat::Csv)? {
        if part.len() < 2 {
            continue;
        }
        for line in &part[usize::from(out.open.is_some())..] {
            out.write(line)?;
            // RFC 4180 asks for both characters.
            out.write("\r\n")?;
        }
    }
    Ok(())
}

/// Writes one array of the rows of all parts.
fn json(parts: &mut Parts<'_>, out: &mut Out<'_>) -> Result<(), Failed> {
    while let Some(part) = parts.next(TableFormat::Json)? {
        let part = part.concat();
        let rows = part.strip_prefix('[').and_then(|part| part.strip_suffix(']'));
        let rows = rows.ok_or_else(|| "the console answers no JSON".to_owned())?;
        if !rows.is_empty() {
            let before = if out.open.is_some() { ",\n" } else { "[" };
            out.write(before)?;
            out.write(rows)?;
        }
    }
    if out.open.is_some() { out.write("]\n") } else { Ok(()) }
}

/// A file or standard output. It is opened when the first text is written.
struct Out<'w> {
    path: Option<&'w Path>,
    open: Option<BufWriter<Box<dyn Write>>>,
}

impl Out<'_> {
    fn write(&mut self, text: &str) -> Result<(), Failed> {
        let written = match &mut self.open {
            Some(open) => open.write_all(text.as_bytes()),
            None => self.begin().and_then(|mut open| {
                open.write_all(text.as_bytes())?;
                self.open = Some(open);
                Ok(())
            }),
        };
        written.map_err(|error| self.failed(&error))
    }

    fn begin(&self) -> io::Result<BufWriter<Box<dyn Write>>> {
        let to: Box<dyn Write> = match self.path {
            Some(path) => Box::new(File::create(path)?),
            None => Box::new(io::stdout()),
        };
        Ok(BufWriter::new(to))
    }

    /// Whether anything was written.
    fn end(mut self) -> Result<bool, Failed> {
        let Some(open) = &mut self.open else { return Ok(false) };
        let flushed = open.flush();
        flushed.map_err(|error| self.failed(&error))?;
        Ok(true)
    }

    fn failed(&self, error: &io::Error) -> Failed {
        let words = complain::why(error);
        match self.path {
            Some(path) => Failed::Why(format!("{}: {words}", path.display())),
            None if error.kind() == io::ErrorKind::BrokenPipe => Failed::Unread,
            None => Failed::Why(words),
        }
    }
}

/// A person who looks at an incident that still happens may type an end that is later than now. Such an end means now. This holds for a time of day
/// without its day too, if today it is at most this far ahead, or if the beginning would be later than an end of yesterday.
const AHEAD_MAX: SignedDuration = SignedDuration::from_mins(10);

fn span(wanted: &Report, now: &Zoned) -> Result<Span, String> {
    let read = |text: &Option<String>| -> Result<Option<Clock>, String> {
        let Some(text) = text else { return Ok(None) };
        let clock = Clock::parse(text).ok_or_else(|| {
            format!("\"{text}\" is no time, such as 14:03, '2026-07-01 14:03:20' or 2026-07-01T12:03:20Z")
        })?;
        Ok(Some(clock))
    };
    let (from, to) = (read(&wanted.from)?, read(&wanted.to)?);
    let in_zone = |clock: Option<&Clock>| clock.and_then(|clock| clock.at(now));
    let (from, last) = (in_zone(from.as_ref()), in_zone(to.as_ref()));
    let to = match (to, last) {
        (Some(clock @ Clock::Today(_)), Some(last)) => {
            let ahead = clock.at(&now.saturating_add(AHEAD_MAX)).filter(|ahead| ahead > now);
            let is_to_come = last.date() < now.date() && from.as_ref().is_some_and(|from| *from > last);
            if ahead.is_some() || is_to_come { now.clone() } else { last }
        }
        (_, last) => last.map_or_else(|| now.clone(), |last| last.min(now.clone())),
    };
    let to = at(&to);
    let from = from.as_ref().map_or(At(to.0.saturating_sub(LENGTH_MS)), at);
    if from > to {
        return Err("--from is later than --to, or is still to come".to_owned());
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

/// The source of the history.
enum Origin {
    Console(Box<Monitor>, String),
    File {
        reading: Box<Reading>,
        path: PathBuf,
    },
    /// Seconds that memory does not have are read from the files first. `is_open`: with statements, tags and blockers.
    Process {
        past: Past,
        reading: Option<Box<Reading>>,
        is_open: bool,
        name: String,
    },
}

impl Origin {
    fn open(wanted: &Report, span: Span) -> Result<Origin, String> {
        match (&wanted.url, &wanted.file) {
            (Some(url), None) => {
                if span.to.0 - span.from.0 > CONSOLE_MS_MAX {
                    let why =
                        "a console is asked for seven days at most: give a shorter time, or --file on its machine";
                    return Err(why.to_owned());
                }
                let target = console_of(url)?;
                let name = format!("{}:{}", target.host, target.port);
                let monitor =
                    Monitor::connect(&target, NAME, PATIENCE).map_err(|why| format!("the console at {name}: {why}"))?;
                Ok(Origin::Console(Box::new(monitor), name))
            }
            (None, Some(path)) if !archive::is_there(path) => Err(format!("{}: no such file", path.display())),
            (None, Some(path)) => {
                let reading = Box::new(Reading::of(path, span));
                Ok(Origin::File { reading, path: path.clone() })
            }
            _ => Err("the URL of a console, or --file, is needed: one of both".to_owned()),
        }
    }

    fn name(&self) -> String {
        match self {
            Origin::Console(_, name) | Origin::Process { name, .. } => name.clone(),
            Origin::File { path, .. } => path.display().to_string(),
        }
    }

    /// The time that the source has, for a person who has asked for another time.
    fn known(&mut self, now: &Zoned) -> String {
        let of = |ends: Option<(At, At)>| {
            let (from, to) = ends?;
            let shown = |at: At| zoned(at, now).strftime(TIME).to_string();
            Some((shown(from), shown(to)))
        };
        match self {
            Origin::Console(monitor, _) => known_to_console(&monitor.rows("SHOW PGWEIR").unwrap_or_default()),
            Origin::File { path, .. } => reaches("the file", of(archive::ends(path))),
            Origin::Process { past, .. } => {
                let in_memory = ends(&past.history.lock().expect("nothing panics while it holds this lock"));
                let on_disk = past.path().and_then(|path| archive::ends(&path));
                let from = on_disk.or(in_memory).map(|(from, _)| from);
                let to = in_memory.or(on_disk).map(|(_, to)| to);
                reaches("the history", of(from.zip(to)))
            }
        }
    }
}

/// The rows of an earlier build do not have it.
fn known_to_console(rows: &[Vec<Option<String>>]) -> String {
    let value = |key: &str| rows.iter().find(|row| row[0].as_deref() == Some(key))?.get(1)?.clone();
    let mut known = reaches("the history", value("history_from").zip(value("history_to")));
    if let Some(not_seen) = value("not_seen") {
        known.push_str(&format!("; not all is known of {not_seen}"));
    }
    known
}

fn reaches(what: &str, ends: Option<(String, String)>) -> String {
    match ends {
        Some((from, to)) => format!("{what} reaches from {from} to {to}"),
        None => format!("{what} has no second"),
    }
}

/// The first and the last second in memory.
fn ends(history: &History) -> Option<(At, At)> {
    let mut seconds = history.seconds();
    Some((seconds.next()?.at, history.seconds().next_back()?.at))
}

/// The parts of a span that are not read yet.
struct Parts<'n> {
    source: Origin,
    /// For a console and memory.
    left: Option<Span>,
    now: &'n Zoned,
    caller: Caller<'n>,
}

impl Parts<'_> {
    /// The lines of the next minute.
    fn next(&mut self, format: TableFormat) -> Result<Option<Vec<String>>, String> {
        let (now, say) = (self.now, self.caller.say);
        if !(self.caller.is_wanted)() {
            return Err("nobody waits for the report".to_owned());
        }
        let lines = |history: &History, span: Span, is_open: bool| -> Vec<String> {
            let table = history_table(history, span, now, is_open).in_format(format);
            table.rows().map(|row| row[0].unwrap_or_default().to_owned()).collect()
        };
        match &mut self.source {
            Origin::File { reading, .. } => Ok(part_of(reading, say).map(|part| lines(&part, EVER, true))),
            Origin::Process { past, reading, is_open, .. } => {
                if let Some(part) = reading.as_mut().and_then(|reading| part_of(reading, say)) {
                    return Ok(Some(lines(&part, EVER, *is_open)));
                }
                *reading = None;
                let Some(part) = self.left.take() else { return Ok(None) };
                let (part, left) = minute(part);
                self.left = left;
                let history = past.history.lock().expect("nothing panics while it holds this lock");
                Ok(Some(lines(&history, part, *is_open)))
            }
            Origin::Console(monitor, name) => {
                let Some(part) = self.left.take() else { return Ok(None) };
                let (part, left) = minute(part);
                self.left = left;
                let word = if format == TableFormat::Csv { "CSV" } else { "JSON" };
                let sql =
                    format!("SHOW HISTORY FROM '{}' TO '{}' FORMAT {word}", timestamp(part.from), timestamp(part.to));
                let rows = retried(BUSY_PAUSE, || monitor.rows(&sql))
                    .map_err(|why| format!("the console at {name}: {why}"))?;
                Ok(Some(rows.into_iter().filter_map(|mut row| row.pop()?).collect()))
            }
        }
    }
}

/// Repeats a question that the console refuses because too many others read its files.
fn retried<T>(pause: Duration, mut ask: impl FnMut() -> Result<T, String>) -> Result<T, String> {
    for _ in 0..BUSY_MAX {
        match ask() {
            Err(why) if why.contains(BUSY) => thread::sleep(pause),
            answered => return answered,
        }
    }
    ask()
}

/// The span of all seconds.
const EVER: Span = Span { from: At(0), to: At(u64::MAX) };

/// The next minute of files.
fn part_of(reading: &mut Reading, say: &dyn Fn(&str)) -> Option<History> {
    let part = reading.next_part();
    for complaint in reading.complaints.drain(..) {
        say(&complaint);
    }
    part
}

/// The first minute of a span, and the rest.
fn minute(span: Span) -> (Span, Option<Span>) {
    let to = At((span.from.0 - span.from.0 % 1000).saturating_add(PART_MS - 1)).min(span.to);
    (Span { from: span.from, to }, (to < span.to).then_some(Span { from: At(to.0 + 1), ..span }))
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
        // An end that is still to come is now.
        assert_eq!(read(None, Some("12:05")), pair("07-01T11:55:00", "07-01T12:00:00"));
        assert_eq!(read(Some("11:58"), Some("12:09:59")), pair("07-01T11:58:00", "07-01T12:00:00"));
        assert_eq!(read(Some("11:58"), Some("13:00")), pair("07-01T11:58:00", "07-01T12:00:00"));
        assert_eq!(read(Some("11:58"), Some("2026-07-01 12:30")), pair("07-01T11:58:00", "07-01T12:00:00"));
        assert_eq!(read(None, Some("12:30")), pair("06-30T12:25:00", "06-30T12:30:00"), "a time of yesterday");
        assert!(read(Some("2026-07-01 12:20"), Some("2026-07-01 12:30")).is_err_and(|why| why.contains("to come")));
        assert!(read(Some("yesterday"), None).is_err_and(|why| why.contains("\"yesterday\" is no time")));
    }

    #[test]
    fn where_nothing_is_known_it_is_said_what_is() {
        let row = |key: &str, value: Option<&str>| vec![Some(key.to_owned()), value.map(str::to_owned)];
        let (from, to) =
            (row("history_from", Some("2026-07-01 11:00:00")), row("history_to", Some("2026-07-01 11:59:59")));
        let not_seen = row("not_seen", Some("db2:5432: connection refused"));
        let reaches = "the history reaches from 2026-07-01 11:00:00 to 2026-07-01 11:59:59";
        assert_eq!(known_to_console(&[from.clone(), to.clone(), row("not_seen", None)]), reaches);
        let unseen = format!("{reaches}; not all is known of db2:5432: connection refused");
        assert_eq!(known_to_console(&[from, to, not_seen]), unseen);
        assert_eq!(known_to_console(&[row("version", Some("1"))]), "the history has no second");
        let caller = Caller { say: &|_| (), is_wanted: &|| true };
        let span = Span { from: At(0), to: At(1000) };
        let none = of_process(Past::new(History::default()), span, true, "db1".to_owned(), caller);
        assert!(none.is_err_and(|why| why.ends_with(": the history has no second")));
    }

    #[test]
    fn a_minute_that_is_refused_is_asked_for_again() {
        let answers = |mut answers: Vec<Result<u32, String>>| {
            answers.reverse();
            retried(Duration::ZERO, || answers.pop().expect("no more questions"))
        };
        let busy = || Err(format!("ERROR: {BUSY}"));
        assert_eq!(answers(vec![busy(), busy(), Ok(7)]), Ok(7));
        assert_eq!(answers(vec![busy(), Err("gone".to_owned())]), Err("gone".to_owned()));
        assert_eq!(retried(Duration::ZERO, busy as fn() -> Result<u32, String>), busy());
    }

    #[test]
    fn one_source_is_needed() {
        assert!(why(&Report::default()).contains("one of both"));
    }

    fn why(wanted: &Report) -> String {
        match made(wanted) {
            Err(Failed::Why(why)) => why,
            made => panic!("{made:?}"),
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let file = Some(PathBuf::from("/nowhere/history"));
        assert_eq!(why(&Report { file, ..Report::default() }), "/nowhere/history: no such file");
    }

    /// A report of a part of the time would have a heading that is wrong.
    #[test]
    fn a_console_is_asked_for_a_week_at_most() {
        let url = Some("postgres://joe@127.0.0.1:1/pgbouncer".to_owned());
        let (from, to) = (Some("2026-07-01T00:00:00Z".to_owned()), Some("2026-07-08T00:00:01Z".to_owned()));
        let why = why(&Report { url, from, to, ..Report::default() });
        assert!(why.starts_with("a console is asked for seven days at most"), "{why}");
    }
}
