//! The pidfile: written while the process runs, and removed at its end.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// A written pidfile; dropping it removes the file.
#[derive(Debug)]
pub struct Pidfile {
    path: PathBuf,
    /// It is not removed: another process goes on with it.
    is_left: bool,
}

impl Pidfile {
    /// Writes this process's id.
    ///
    /// # Errors
    /// A message for the log, in PgBouncer's words, if another instance runs or the file cannot be written. A file left
    /// by a process that is gone is replaced.
    pub fn write(path: &Path) -> Result<Pidfile, String> {
        let shown = path.display();
        if living(path).is_some() {
            return Err(format!("pidfile '{shown}' exists, another instance running?"));
        }
        let pidfile = Pidfile { path: path.to_owned(), is_left: false };
        pidfile.claim()?;
        Ok(pidfile)
    }

    /// Finds out whether [`Pidfile::claim`] will succeed, for a process that is about to take the place of `predecessor`. Until then the file
    /// stays as it is.
    ///
    /// # Errors
    /// As [`Pidfile::write`], if it cannot be written, or is the file of a third process.
    pub fn prepare(path: &Path, predecessor: u32) -> Result<Pidfile, String> {
        if living(path).is_some_and(|pid| pid != predecessor) {
            return Err(format!("pidfile '{}' exists, another instance running?", path.display()));
        }
        let is_new = !path.exists();
        let opened = OpenOptions::new().append(true).create(true).open(path);
        opened.map_err(|why| failed(path, &why))?;
        if is_new {
            // It can be made again.
            let _ = fs::remove_file(path);
        }
        Ok(Pidfile { path: path.to_owned(), is_left: false })
    }

    /// Writes this process's id, whoever's was there: its place is ours.
    ///
    /// # Errors
    /// As [`Pidfile::write`], if it cannot be written.
    pub fn claim(&self) -> Result<(), String> {
        fs::write(&self.path, format!("{}\n", std::process::id())).map_err(|why| failed(&self.path, &why))
    }

    /// Another process goes on with the file when this one ends.
    pub fn leave(&mut self) {
        self.is_left = true;
    }
}

fn failed(path: &Path, why: &io::Error) -> String {
    format!("could not open pidfile '{}': {why}", path.display())
}

impl Drop for Pidfile {
    fn drop(&mut self) {
        // It may be another process's by now, which has taken our place.
        if !self.is_left
            && fs::read_to_string(&self.path).is_ok_and(|text| text.trim() == std::process::id().to_string())
        {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The file's id, if there is a process with it. This process's own id is left from an earlier process with the same
/// id, as happens in containers.
fn living(path: &Path) -> Option<u32> {
    let mut text = String::new();
    File::open(path).and_then(|file| file.take(32).read_to_string(&mut text)).ok()?;
    let pid = text.trim().parse::<u32>().ok()?;
    (pid != std::process::id() && Path::new(&format!("/proc/{pid}")).exists()).then_some(pid)
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

    #[test]
    fn a_process_that_ends_before_its_predecessor_leaves_the_pidfile() {
        let path = a_path("left");
        let predecessor = std::os::unix::process::parent_id();
        fs::write(&path, format!("{predecessor}\n")).expect("a writable directory");
        drop(Pidfile::prepare(&path, predecessor).expect("it can be written"));
        assert_eq!(fs::read_to_string(&path).expect("nothing has happened to it"), format!("{predecessor}\n"));
        let mut pidfile = Pidfile::prepare(&path, predecessor).expect("it can be written");
        pidfile.claim().expect("as was found out");
        assert_eq!(fs::read_to_string(&path).expect("it is there"), format!("{}\n", std::process::id()));
        pidfile.leave();
        drop(pidfile);
        assert!(path.exists(), "its predecessor goes on with it");
        fs::remove_file(&path).expect("our own");
    }

    #[test]
    fn a_pidfile_that_cannot_be_written_is_found_out_before_it_is_needed() {
        let nowhere = a_path("no-such-directory").join("pid");
        let refused = Pidfile::prepare(&nowhere, 1).expect_err("there is no such directory");
        assert!(refused.starts_with("could not open pidfile"), "{refused}");
        let path = a_path("third");
        fs::write(&path, format!("{}\n", std::os::unix::process::parent_id())).expect("a writable directory");
        let refused = Pidfile::prepare(&path, 999_999_999).expect_err("it is a third process's");
        assert!(refused.ends_with("exists, another instance running?"), "{refused}");
        fs::remove_file(&path).expect("our own");
        drop(Pidfile::prepare(&path, 1).expect("it can be made"));
        assert!(!path.exists(), "it was not claimed");
    }
}
