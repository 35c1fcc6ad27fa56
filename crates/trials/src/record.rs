//! What stays of a run: raw samples as CSV while it runs, the table and the page when it ends.
//!
//! Promises: a sample is on disk before the next one begins.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::page::page;
use crate::plan::Trial;
use crate::sample::{Metric, Sample, Samples};
use crate::table;

/// A run's facts and samples.
pub(crate) struct Record {
    pub(crate) facts: Vec<(String, String)>,
    pub(crate) trials: Vec<Trial>,
    pub(crate) samples: Samples,
    dir: PathBuf,
    csv: File,
}

impl Record {
    /// Makes the directory and the CSV file's first line. Without a name the directory is called by the time.
    pub(crate) fn begin(out: Option<&Path>, facts: Vec<(String, String)>, trials: &[Trial]) -> Result<Self, String> {
        let fresh = || format!("pgweir-bench-{}", jiff::Zoned::now().strftime("%Y-%m-%d-%H%M%S"));
        let dir = out.map_or_else(|| PathBuf::from(fresh()), Path::to_owned);
        fs::create_dir_all(&dir).map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
        let csv = dir.join("samples.csv");
        let csv = File::create(&csv).map_err(|error| format!("cannot write {}: {error}", csv.display()))?;
        let mut record = Self { facts, trials: trials.to_vec(), samples: Samples::default(), dir, csv };
        let keys = Metric::ALL.map(Metric::key).join(",");
        record.line(&format!("test,contestant,round,{keys},note"))?;
        Ok(record)
    }

    /// Keeps a sample.
    pub(crate) fn add(&mut self, sample: Sample) -> Result<(), String> {
        self.line(&csv_line(&sample))?;
        self.samples.0.push(sample);
        Ok(())
    }

    /// Writes what is made of the samples.
    pub(crate) fn finish(&self) -> Result<(), String> {
        self.write("table.md", &table::markdown(self))?;
        self.write("report.html", &page(self))
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
    fn a_line_has_as_many_fields_as_the_first_and_quotes_what_people_wrote() {
        let values = BTreeMap::from([(Metric::Tps, 12.5)]);
        let way = Way::Pgweir(Mode::Session);
        let sample =
            Sample { trial: "t", way, round: 2, values, is_impossible: false, note: "a \"b\", c\nd".to_owned() };
        assert_eq!(csv_line(&sample), "t,\"pgweir, session\",2,12.500,,,,,,,,,,,\"a \"\"b\"\", c; d\"");
    }
}
