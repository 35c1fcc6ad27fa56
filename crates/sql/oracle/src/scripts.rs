//! psql's scripts, cut into texts that the parser takes.
//!
//! A script is no SQL: it has commands of psql's own, and data behind COPY. Lines are gathered until a semicolon ends one
//! and the parser takes what was gathered; what it never takes is left out.

use std::path::{Path, PathBuf};

/// A statement of more lines is given up.
const LINES_MAX: usize = 150;

/// The texts of all scripts below the paths.
pub(crate) fn texts(paths: &[PathBuf]) -> Vec<String> {
    let mut files = Vec::new();
    paths.iter().for_each(|path| gather(path, &mut files));
    files.sort();
    files
        .iter()
        .flat_map(|file| of_a_script(&String::from_utf8_lossy(&std::fs::read(file).expect("readable"))))
        .collect()
}

fn gather(path: &Path, files: &mut Vec<PathBuf>) {
    if path.is_dir() {
        let entries = std::fs::read_dir(path).expect("readable");
        entries.flatten().for_each(|entry| gather(&entry.path(), files));
    } else if path.extension().is_some_and(|extension| extension == "sql") {
        files.push(path.to_owned());
    }
}

fn of_a_script(script: &str) -> Vec<String> {
    let mut texts = Vec::new();
    let lines: Vec<&str> = script.lines().collect();
    let mut at = 0;
    while at < lines.len() {
        if lines[at].starts_with('\\') || lines[at].trim().is_empty() {
            at += 1;
            continue;
        }
        match one(&lines[at..]) {
            Some((text, count)) => {
                at += count;
                if is_copy_of_data(&text) {
                    at += lines[at..].iter().position(|line| *line == "\\.").map_or(0, |end| end + 1);
                }
                texts.push(text);
            }
            None => at += 1,
        }
    }
    texts
}

/// The shortest text from here that the parser takes, and its number of lines.
fn one(lines: &[&str]) -> Option<(String, usize)> {
    let mut text = String::new();
    for (count, line) in lines.iter().take(LINES_MAX).enumerate() {
        text += line;
        text.push('\n');
        let may_end = line.contains(';');
        if may_end && pg_query::parse(&text).is_ok() {
            return Some((text, count + 1));
        }
    }
    None
}

fn is_copy_of_data(text: &str) -> bool {
    let folded = text.to_ascii_lowercase();
    folded.contains("copy") && folded.contains("stdin")
}
