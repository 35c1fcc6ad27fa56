//! Where and when a record was made.

use std::fs;

use measure::machine::said;
use measure::process;
use serde_json::{Value, json};

/// Kernel, processor, cores and memory.
pub fn machine() -> Value {
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    json!({
        "kernel": said("uname", &["-sr"]),
        "architecture": std::env::consts::ARCH,
        "processor": after(&processor, "model name"),
        "hypervisor": processor.contains("hypervisor"),
        "cores": process::cores().len(),
        "memory": after(&memory, "MemTotal"),
        "load_average": fs::read_to_string("/proc/loadavg").unwrap_or_default().trim(),
    })
}

/// The commit that was measured, and whether the tree had changes on top of it.
pub fn commit() -> Value {
    let changed = said("git", &["status", "--porcelain", "--untracked-files=no"]);
    json!({ "commit": said("git", &["rev-parse", "HEAD"]), "changed": changed.is_none_or(|text| !text.is_empty()) })
}

/// The commit in words: twelve digits of it, and whether there are changes on top. `None` outside a repository.
pub fn commit_words() -> Option<String> {
    let commit = commit();
    let digits = commit["commit"].as_str()?.get(..12)?;
    Some(format!("commit {digits}{}", if commit["changed"] == true { " with changes" } else { "" }))
}

/// The time now, as 2026-01-31T12:00:00Z.
pub fn now() -> String {
    said("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]).unwrap_or_else(|| "unknown".to_owned())
}

fn after<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_once(':').map(|(_, value)| value.trim())
}
