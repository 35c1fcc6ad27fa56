//! pgbench, where this machine has it: the same script on the same tables, so that our driver's figures can be trusted.
//!
//! Promises: nothing of a run depends on it.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use ask::Target;
use measure::pgbench::Report;

use crate::driver::Length;
use crate::plan::Trial;
use crate::sample::Metric;
use crate::scripts::for_pgbench;

/// On PATH, or beside the newest PostgreSQL that Debian has installed.
pub(crate) fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let beside = demo::find_binaries().ok().and_then(|binaries| binaries.program("pgbench"));
    std::env::split_paths(&path).map(|dir| dir.join("pgbench")).find(|path| path.is_file()).or(beside)
}

/// Runs a test of fixed length directly on PostgreSQL.
///
/// # Errors
/// What pgbench says against it.
pub(crate) fn measure(
    program: &PathBuf,
    target: &Target,
    trial: &Trial,
    scale: u32,
) -> Result<BTreeMap<Metric, f64>, String> {
    let Length::For(time) = trial.length else { return Err("pgbench is for tests of a fixed length".to_owned()) };
    let mut command = Command::new(program);
    command.args(["-n", "-f", "-", "-D", &format!("scale={scale}")]);
    command.args(["-c", &trial.clients.to_string(), "-j", &trial.threads.to_string()]);
    command.args(["-T", &time.as_secs().max(1).to_string(), "-h", &target.host, "-p", &target.port.to_string()]);
    command.args(["-U", &target.user, &target.database]);
    if let Some(password) = &target.password {
        command.env("PGPASSWORD", password);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().map_err(|error| format!("cannot start pgbench: {error}"))?;
    let mut input = child.stdin.take().expect("asked for above");
    // If it has ended already it says why.
    let _ = input.write_all(for_pgbench(trial.script).as_bytes());
    drop(input);
    let output = child.wait_with_output().map_err(|error| format!("pgbench: {error}"))?;
    if !output.status.success() {
        return Err(format!("pgbench: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(read(&String::from_utf8_lossy(&output.stdout)))
}

fn read(text: &str) -> BTreeMap<Metric, f64> {
    let Report { tps, latency_mean_ms, connect_ms, .. } = Report::read(text);
    let values = [(Metric::Tps, tps), (Metric::LatencyMean, latency_mean_ms), (Metric::Connect, connect_ms)];
    values.into_iter().filter_map(|(metric, value)| Some((metric, value?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_report_is_read() {
        let text = "number of clients: 10\nlatency average = 1.234 ms\ninitial connection time = 20.5 ms\n\
                    tps = 8103.5 (without initial connection time)\n";
        let expected = [(Metric::Tps, 8103.5), (Metric::LatencyMean, 1.234), (Metric::Connect, 20.5)];
        assert_eq!(read(text), BTreeMap::from(expected));
        assert!(read("").is_empty());
    }
}
