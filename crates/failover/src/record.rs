//! A folder for the outcomes of many runs: a line of JSON for each run, all requests that were not simply committed, and the table.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use measure::machine::{load_average, said};
use measure::process::cores;
use serde_json::{Value, json};

use crate::outcome::Outcome;
use crate::run::Played;
use crate::seen::Told;
use crate::table::table;

/// A folder that runs are added to.
#[derive(Debug)]
pub struct Record {
    folder: PathBuf,
}

const RUNS: &str = "runs.jsonl";

impl Record {
    /// Makes the folder, unless it is there.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open(folder: &Path) -> Result<Self, String> {
        fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// Adds a run, and writes the table anew. A run that is interrupted later leaves what it had.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn add(&self, played: &Played) -> Result<(), String> {
        let words = |error: io::Error| format!("cannot write into {}: {error}", self.folder.display());
        let number = self.outcomes()?.len() + 1;
        let mut line = played.outcome.to_json();
        line["run"] = number.into();
        line["date"] = said("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]).into();
        line["load_average"] = load_average().into();
        let path = self.folder.join(RUNS);
        let mut runs = File::options().create(true).append(true).open(path).map_err(words)?;
        writeln!(runs, "{line}").map_err(words)?;
        let Outcome { case, contestant, pool, .. } = &played.outcome;
        let of = if pool.is_empty() { String::new() } else { format!("-{pool}") };
        let name = format!("{number}-{}-{contestant}{of}", case.replace(' ', "-"));
        fs::write(self.folder.join(format!("{name}.jsonl")), requests(played)).map_err(words)?;
        fs::write(self.folder.join(format!("{name}.log")), &played.log).map_err(words)?;
        fs::write(self.folder.join("table.md"), self.page()?).map_err(words)
    }

    /// The table, below what was measured and where.
    ///
    /// # Errors
    /// A line is no outcome.
    pub fn page(&self) -> Result<String, String> {
        let outcomes = self.outcomes()?;
        let mut versions: Vec<String> = Vec::new();
        let of_contestants = outcomes.iter().map(|outcome| (&outcome.contestant, &outcome.version));
        let of_pools = outcomes.iter().map(|outcome| (&outcome.pool, &outcome.pool_version));
        for (name, version) in of_contestants.chain(of_pools.filter(|(pool, _)| !pool.is_empty())) {
            let line = format!("* {name}: {version}\n");
            if !versions.contains(&line) {
                versions.push(line);
            }
        }
        let clients = outcomes.iter().map(|outcome| outcome.clients).max().unwrap_or(0);
        let kernel = said("uname", &["-sr"]).unwrap_or_default();
        Ok(format!(
            "# Failovers of a cluster under Patroni\n\nMade by the program `failover` from `{RUNS}` beside it; do not edit. The README of that \
             crate describes the columns.\n\n* machine: {} cores, {kernel}\n* clients: {clients}\n{}\n{}",
            cores().len(),
            versions.concat(),
            table(&outcomes)
        ))
    }

    /// All runs so far.
    ///
    /// # Errors
    /// A line is no outcome.
    pub fn outcomes(&self) -> Result<Vec<Outcome>, String> {
        let Ok(text) = fs::read_to_string(self.folder.join(RUNS)) else { return Ok(Vec::new()) };
        let read = |line: &str| {
            let value: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
            Outcome::of_json(&value)
        };
        text.lines().map(read).collect()
    }
}

/// Every request, a line each.
fn requests(played: &Played) -> String {
    let mut text = String::new();
    for request in played.seen.iter().flat_map(|client| &client.requests) {
        let (told, code) = match &request.told {
            Told::Committed => ("committed", ""),
            Told::Failed { code, first: true } => ("failed before it began", code.as_str()),
            Told::Failed { code, first: false } => ("failed", code.as_str()),
            Told::Ended { code } => ("ended", code.as_str()),
            Told::Unknown { code } => ("unknown", code.as_str()),
            Told::Nothing => ("nothing", ""),
        };
        let line = json!({
            "client": request.client, "id": request.id, "kind": request.kind.name(), "sent_s": request.sent,
            "told_s": request.told_at, "told": told, "code": code,
        });
        writeln!(text, "{line}").expect("a text takes any line");
    }
    text
}
