//! One run of the bench, kept: raw samples of every round, and what is needed to judge them.
//!
//! Promises: the file is written anew after every scenario, so that an interrupted run leaves what it had. A scenario
//! that failed stands in the record with its error.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use measure::interrupt;
use serde_json::{Value, json};

use crate::contestant::Contestant;
use crate::{machine, report};

/// What a compressed file begins with (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// A record and its place in the tree.
#[derive(Debug)]
pub struct Record {
    pub value: Value,
    /// Without the endings of its two files. `None`: it is not to be kept.
    path: Option<PathBuf>,
}

impl Record {
    /// Begins a record, below `results` in a folder named by date and cores, or nowhere.
    pub fn begin(
        results: Option<&Path>,
        label: &str,
        contestants: &[Contestant],
        run: Value,
    ) -> Result<Record, String> {
        let (date, machine) = (machine::now(), machine::machine());
        let path = results.map(|results| results.join(name(&date, &machine, label)));
        if let Some(folder) = path.as_deref().and_then(Path::parent) {
            fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        }
        let described =
            |one: &Contestant| json!({ "name": one.name, "version": one.described(), "settings": one.settings });
        let value = json!({
            "format": 1,
            "date": date,
            "tree": machine::commit(),
            "machine": machine,
            "contestants": contestants.iter().map(described).collect::<Vec<_>>(),
            "run": run,
            "scenarios": [],
        });
        Ok(Record { value, path })
    }

    /// Adds a scenario's result and writes the record and its table.
    pub fn add(&mut self, scenario: Value) -> Result<(), String> {
        if let Some(all) = self.value["scenarios"].as_array_mut() {
            all.push(scenario);
        }
        self.write()
    }

    /// Adds a part with what was measured of it, or with the reason why nothing was, which is told too. Whether it was measured.
    pub fn add_part<const N: usize>(
        &mut self,
        mut part: Value,
        measured: Result<[(&str, Value); N], String>,
    ) -> Result<bool, String> {
        let is_measured = measured.is_ok();
        match measured {
            Ok(values) => values.into_iter().for_each(|(key, value)| part[key] = value),
            Err(error) => {
                interrupt::report(&error);
                part["error"] = json!(error);
            }
        }
        self.add(part)?;
        interrupt::check()?;
        Ok(is_measured)
    }

    /// Sets a value of the whole run.
    pub fn set(&mut self, key: &str, value: Value) -> Result<(), String> {
        self.value[key] = value;
        self.write()
    }

    fn write(&self) -> Result<(), String> {
        let Some(path) = &self.path else { return Ok(()) };
        let failed = |error: io::Error| format!("cannot write {}: {error}", path.display());
        keep(&path.with_extension("json.gz"), &self.value)?;
        fs::write(path.with_extension("md"), report::table(&self.value)).map_err(failed)
    }

    /// Where the table lies, if the record is kept.
    pub fn table_path(&self) -> Option<PathBuf> {
        Some(self.path.as_ref()?.with_extension("md"))
    }
}

/// Where a record of this day on this machine is kept: a folder named by date and cores, and in it the label and the time.
pub(crate) fn name(date: &str, machine: &Value, label: &str) -> PathBuf {
    let time: String = date.chars().skip(11).filter(char::is_ascii_digit).take(4).collect();
    let day = format!("{}-{}cores", &date[..10.min(date.len())], machine["cores"]);
    Path::new(&day).join(format!("{label}-{time}"))
}

/// Writes raw samples, compressed. The same samples are the same bytes.
pub(crate) fn keep(path: &Path, samples: &Value) -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot write {}: {error}", path.display());
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text(samples).as_bytes()).map_err(failed)?;
    fs::write(path, encoder.finish().map_err(failed)?).map_err(failed)
}

/// Reads a record, compressed or not.
pub fn read(path: &Path) -> Result<Value, String> {
    let failed = |error: io::Error| format!("cannot read {}: {error}", path.display());
    let bytes = fs::read(path).map_err(failed)?;
    let mut text = Vec::new();
    if bytes.starts_with(&GZIP) {
        MultiGzDecoder::new(&bytes[..]).read_to_end(&mut text).map_err(failed)?;
    } else {
        text = bytes;
    }
    serde_json::from_slice(&text).map_err(|error| format!("{} is no record: {error}", path.display()))
}

/// JSON with one line for each round: readable, and a changed sample is one line of a diff.
pub(crate) fn text(record: &Value) -> String {
    let mut out = String::new();
    write_value(&mut out, record, 0);
    out.push('\n');
    out
}

fn write_value(out: &mut String, value: &Value, depth: usize) {
    let indent = "  ".repeat(depth + 1);
    let closing = "  ".repeat(depth);
    match value {
        Value::Object(map) if depth < 4 && !map.is_empty() && !map.contains_key("order") => {
            out.push_str("{\n");
            for (index, (key, value)) in map.iter().enumerate() {
                out.push_str(&format!("{}{indent}{}: ", if index > 0 { ",\n" } else { "" }, json!(key)));
                write_value(out, value, depth + 1);
            }
            out.push_str(&format!("\n{closing}}}"));
        }
        Value::Array(list) if depth < 4 && !list.is_empty() => {
            out.push_str("[\n");
            for (index, value) in list.iter().enumerate() {
                out.push_str(&format!("{}{indent}", if index > 0 { ",\n" } else { "" }));
                write_value(out, value, depth + 1);
            }
            out.push_str(&format!("\n{closing}]"));
        }
        other => out.push_str(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let record = json!({
            "format": 1, "scenarios": [{ "name": "a", "rounds": [{ "order": ["x"], "samples": { "x": { "cpu_ns": 5 } } }, {}] }],
            "empty": {}, "none": null, "text": "a \"b\"\n",
        });
        let text = text(&record);
        assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), record);
        let folder = std::env::temp_dir().join(format!("bench-record-{}", std::process::id()));
        fs::create_dir(&folder).expect("a fresh folder");
        let [plain, compressed] = ["a.json", "a.json.gz"].map(|name| folder.join(name));
        fs::write(&plain, &text).expect("ours");
        keep(&compressed, &record).expect("ours");
        assert_eq!([read(&plain), read(&compressed)], [Ok(record.clone()), Ok(record)]);
        fs::write(&compressed, GZIP).expect("ours");
        assert!(read(&compressed).is_err(), "it is cut off");
        fs::remove_dir_all(&folder).expect("ours");
        assert!(text.lines().any(|line| line.trim_start().starts_with(r#"{"order""#)), "a round is a line:\n{text}");
    }
}
