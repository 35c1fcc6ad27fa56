//! What stays of a run: raw samples as CSV while it runs, the table and the page when it ends.
//!
//! Promises: a sample is on disk before the next one begins; an earlier run's samples are not overwritten; a run without samples
//! leaves no file.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::plan::Trial;
use crate::sample::{Metric, Results, Sample};

/// A run's results, and where they are kept.
pub(crate) struct Record {
    pub(crate) results: Results,
    dir: PathBuf,
    /// Whether the directory was not there before.
    made: bool,
    csv: File,
}

const SAMPLES: &str = "samples.csv";

impl Record {
    /// Makes the directory and the CSV file's first line; facts come later. Without a name the directory is called by the time.
    ///
    /// # Errors
    /// It cannot be written there, or there are samples.
    pub(crate) fn begin(out: Option<&Path>, trials: &[Trial]) -> Result<Self, String> {
        let fresh = || format!("pgweir-bench-{}", jiff::Zoned::now().strftime("%Y-%m-%d-%H%M%S"));
        let dir = out.map_or_else(|| PathBuf::from(fresh()), Path::to_owned);
        let made = !dir.exists();
        fs::create_dir_all(&dir).map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
        let csv = dir.join(SAMPLES);
        let csv = File::create_new(&csv).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => format!("{} is there already, of an earlier run", csv.display()),
            _ => format!("cannot write {}: {error}", csv.display()),
        })?;
        let results = Results { trials: trials.to_vec(), ..Results::default() };
        let mut record = Self { results, dir, made, csv };
        let keys = Metric::ALL.map(Metric::key).join(",");
        record.line(&format!("test,contestant,round,{keys},note"))?;
        Ok(record)
    }

    /// Keeps a sample.
    pub(crate) fn add(&mut self, sample: Sample) -> Result<(), String> {
        self.line(&csv_line(&sample))?;
        self.results.samples.0.push(sample);
        Ok(())
    }

    /// Writes what is made of the samples.
    pub(crate) fn finish(&self, table: &str, page: &str) -> Result<(), String> {
        self.write("table.md", table)?;
        self.write("report.html", page)
    }

    /// What was written, for a person.
    pub(crate) fn files(&self) -> String {
        let dir = self.dir.display();
        format!(
            "{dir}/report.html  to look at, and to show\n{dir}/table.md     this table\n{dir}/samples.csv  every sample"
        )
    }

    fn write(&self, name: &str, text: &str) -> Result<(), String> {
        let path = self.dir.join(name);
        fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
    }

    fn line(&mut self, text: &str) -> Result<(), String> {
        writeln!(self.csv, "{text}").map_err(|error| format!("cannot write samples.csv: {error}"))
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if !self.results.samples.0.is_empty() {
            return;
        }
        let _ = fs::remove_file(self.dir.join(SAMPLES));
        if self.made {
            // Only if it is empty.
            let _ = fs::remove_dir(&self.dir);
        }
    }
}

//= rfc4180#section-2
fn csv_line(sample: &Sample) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\"").replace('\n', "; "));
    let value = |metric: Metric| sample.values.get(&metric).map_or_else(String::new, |value| format!("{value:.3}"));
    let values = Metric::ALL.map(value).join(",");
    format!("{},{},{},{values},{}", sample.trial, quoted(sample.way.label()), sample.round, quoted(&sample.note))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Mode;
    use crate::sample::Way;
    use std::collections::BTreeMap;

    #[test]
    fn samples_are_kept_and_their_absence_leaves_nothing() {
        let dir = std::env::temp_dir().join(format!("trials-record-{}", demo::random_password()));
        drop(Record::begin(Some(&dir), &[]).expect("it can be made"));
        assert!(!dir.exists(), "nothing was measured");
        let mut record = Record::begin(Some(&dir), &[]).expect("it can be made");
        let (values, note) = (BTreeMap::new(), String::new());
        let sample = Sample { trial: "t", way: Way::Direct, round: 1, values, is_impossible: false, note };
        record.add(sample).expect("it is written");
        drop(record);
        let kept = fs::read_to_string(dir.join(SAMPLES)).expect("it is there");
        let why = Record::begin(Some(&dir), &[]).err().expect("an earlier run's samples are there");
        assert!(why.contains("is there already"), "{why}");
        assert_eq!(fs::read_to_string(dir.join(SAMPLES)).expect("it is there"), kept);
        fs::remove_dir_all(&dir).expect("it is ours");
    }

    #[test]
    fn a_line_has_as_many_fields_as_the_first_and_quotes_what_people_wrote() {
        let values = BTreeMap::from([(Metric::Tps, 12.5)]);
        let way = Way::Pgweir(Mode::Session);
        let sample =
            Sample { trial: "t", way, round: 2, values, is_impossible: false, note: "a \"b\", c\nd".to_owned() };
        assert_eq!(csv_line(&sample), "t,\"pgweir, session\",2,12.500,,,,,,,,,,,\"a \"\"b\"\", c; d\"");
    }
}
