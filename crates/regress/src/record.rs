//! What was found, as a table on the screen and as files that stay.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{Pinned, Report};
use crate::verdict::{Promise, Verdict};

/// How many different errors are listed for a suite and a path.
const ERRORS_SHOWN_MAX: usize = 8;

/// One line of the table, with its list of failed tests below it.
pub(crate) fn row(report: &Report, wanted: Option<&Promise>) -> String {
    let count = |verdict| report.count(verdict);
    let (passed, allowed, failed) = (count(Verdict::Passed), count(Verdict::Allowed), count(Verdict::Failed));
    let promise = wanted.map_or("—".to_owned(), |wanted| wanted.passed.to_string());
    let seconds = report.wall.as_secs();
    let cancelled = report.cancelled.len();
    let rotated = report.rotated.map_or("—".to_owned(), |count| count.to_string());
    format!(
        "| {} | {} | {passed} | {allowed} | {failed} | {promise} | {seconds} | {cancelled} | {rotated} |",
        report.suite.name(),
        report.route.name
    )
}

const HEAD: &str = "| suite | path | passed | allowed | failed | promised | wall s | locks broken | rotated |\n|---|---|---|---|---|---|---|---|---|\n";

/// The whole table, with the names of failed tests.
pub(crate) fn table(reports: &[(Report, Option<Promise>)]) -> String {
    let mut text = HEAD.to_owned();
    for (report, wanted) in reports {
        writeln!(text, "{}", row(report, wanted.as_ref())).expect("writing to a String cannot fail");
    }
    for (report, _) in reports {
        let title = format!("{} over {}", report.suite.name(), report.route.name);
        for (word, verdict) in [("failed", Verdict::Failed), ("allowed", Verdict::Allowed)] {
            let tests = report.tests(verdict);
            if !tests.is_empty() {
                write!(text, "\n{title}, {word}: {}\n", tests.join(" ")).expect("writing to a String cannot fail");
            }
        }
        if let Some(pinned) = &report.pinned {
            write!(text, "\n{title}, pinned: {}\n", share(pinned)).expect("writing to a String cannot fail");
        }
        for (count, error) in common_errors(report) {
            write!(text, "\n{title}, {count} times: {error}\n").expect("writing to a String cannot fail");
        }
        for complaint in &report.complaints {
            write!(text, "\n{title}, the pooler: {complaint}\n").expect("writing to a String cannot fail");
        }
    }
    text
}

/// How many transactions ran in sessions that kept their server, and why.
fn share(pinned: &Pinned) -> String {
    let percent = |count: u64| 100.0 * count as f64 / pinned.transactions.max(1) as f64;
    let mut text =
        format!("{} of {} transactions, {:.1} %", pinned.pinned, pinned.transactions, percent(pinned.pinned));
    for (reason, count) in pinned.reasons.iter().filter(|(_, count)| **count > 0) {
        write!(text, "; {reason} {:.1} %", percent(*count)).expect("writing to a String cannot fail");
    }
    write!(text, "; state missed {} times", pinned.missed).expect("writing to a String cannot fail");
    text
}

/// What failed tests were told most often instead of what they expected, without names and numbers.
fn common_errors(report: &Report) -> Vec<(usize, String)> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let lines = report.differences.iter().flat_map(|(_, lines)| lines);
    for error in lines.filter_map(|line| line.strip_prefix("+ERROR:  ")) {
        *counts.entry(nameless(error)).or_default() += 1;
    }
    let mut counts: Vec<(usize, String)> = counts.into_iter().map(|(text, count)| (count, text)).collect();
    counts.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    counts.truncate(ERRORS_SHOWN_MAX);
    counts
}

/// Quoted names and numbers as `…`.
fn nameless(text: &str) -> String {
    let quoted = text.split('"').enumerate().map(|(index, part)| if index % 2 == 1 { "…" } else { part });
    let text = quoted.collect::<Vec<_>>().join("");
    let words = text.split(' ').map(|word| if word.contains(|c: char| c.is_ascii_digit()) { "…" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

/// The files of one run, written anew after every suite, so that an interrupted run leaves what it had.
pub(crate) struct Record {
    head: String,
    path: PathBuf,
}

impl Record {
    /// Begins a record below `results`, in a folder named by the day.
    ///
    /// # Errors
    /// If the folder cannot be made.
    pub(crate) fn begin(results: &Path, versions: &str) -> Result<Record, String> {
        let now = said("date", &["-u", "+%Y-%m-%d %H%M"]);
        let (day, time) = now.split_once(' ').unwrap_or((&now, "0000"));
        let folder = results.join(day);
        fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        let commit = said("git", &["describe", "--always", "--dirty", "--abbrev=12"]);
        let head = format!("{day} {time} UTC, {versions}, tree {commit}");
        Ok(Record { head, path: folder.join(format!("regress-{time}.md")) })
    }

    /// Writes the table, and beside it each test's verdict.
    ///
    /// # Errors
    /// If the files cannot be written.
    pub(crate) fn write(&self, reports: &[(Report, Option<Promise>)]) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("cannot write {}: {error}", self.path.display());
        fs::write(&self.path, format!("{}\n\n{}", self.head, table(reports))).map_err(failed)?;
        fs::write(self.path.with_extension("tsv"), verdicts(reports)).map_err(failed)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// A line a test: suite, path, test, verdict, milliseconds, servers used.
fn verdicts(reports: &[(Report, Option<Promise>)]) -> String {
    let mut text = "suite\tpath\ttest\tverdict\tms\tservers\n".to_owned();
    for (report, _) in reports {
        for outcome in &report.outcomes {
            let (suite, route) = (report.suite.name(), report.route.name);
            let word = outcome.verdict.word();
            let servers = outcome.servers.map(|count| count.to_string()).unwrap_or_default();
            writeln!(text, "{suite}\t{route}\t{}\t{word}\t{}\t{servers}", outcome.test, outcome.millis)
                .expect("writing to a String cannot fail");
        }
    }
    text
}

fn said(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output().ok();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_without_names_and_numbers() {
        assert_eq!(nameless("relation \"a b\" does not exist"), "relation … does not exist");
        assert_eq!(nameless("column t1.f2 is \"x\" of 17"), "column … is … of …");
    }
}
