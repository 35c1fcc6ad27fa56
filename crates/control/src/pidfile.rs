//! The pidfile: written while the process runs, and removed at its end.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// A written pidfile; dropping it removes the file.
#[derive(Debug)]
pub struct Pidfile {
    path: PathBuf,
}

impl Pidfile {
    /// Writes this process's id.
    ///
    /// # Errors
    /// A message for the log, in PgBouncer's words, if another instance runs or the file cannot be written. A file left
    /// by a process that is gone is replaced.
    pub fn write(path: &Path) -> Result<Pidfile, String> {
        let shown = path.display();
        if is_alive(path) {
            return Err(format!("pidfile '{shown}' exists, another instance running?"));
        }
        Pidfile::replace(path)
    }

    /// Writes this process's id, whoever's was there: the process before hands over to this one.
    ///
    /// # Errors
    /// As [`Pidfile::write`], if it cannot be written.
    pub fn replace(path: &Path) -> Result<Pidfile, String> {
        let shown = path.display();
        let failed = |why: io::Error| format!("could not open pidfile '{shown}': {why}");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(path).map_err(failed)?;
        writeln!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(Pidfile { path: path.to_owned() })
    }
}

impl Drop for Pidfile {
    fn drop(&mut self) {
        // It may be another process's by now, which has taken our place.
        if fs::read_to_string(&self.path).is_ok_and(|text| text.trim() == std::process::id().to_string()) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether the process with the file's id exists. This process's own id is left from an earlier process with the same
/// id, as happens in containers.
fn is_alive(path: &Path) -> bool {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(32).read_to_string(&mut text));
    let Ok(pid) = text.trim().parse::<u32>() else {
        return false;
    };
    read.is_ok() && pid != std::process::id() && Path::new(&format!("/proc/{pid}")).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("control-{}-{name}.pid", std::process::id()))
    }

    #[test]
    fn a_pidfile_lives_as_long_as_its_value() {
        let path = a_path("lives");
        let pidfile = Pidfile::write(&path).expect("a fresh path");
        let text = fs::read_to_string(&path).expect("it was written");
        assert_eq!(text.trim(), std::process::id().to_string());
        drop(pidfile);
        assert!(!path.exists());
    }

    #[test]
    fn a_living_process_keeps_its_file_and_a_dead_one_does_not() {
        let path = a_path("alive");
        // The parent of a test runs for as long as the test.
        fs::write(&path, format!("{}\n", std::os::unix::process::parent_id())).expect("a writable directory");
        let refused = Pidfile::write(&path).expect_err("the process exists");
        assert!(refused.ends_with("exists, another instance running?"), "{refused}");
        // Larger than any process id that Linux gives (2^22).
        fs::write(&path, "999999999\n").expect("a writable directory");
        drop(Pidfile::write(&path).expect("no process has that id"));
        assert!(!path.exists());
    }
}
