//! Looks once a second whether files have changed, on a thread of its own.
//!
//! A file is known by what it is, not only by its name: where its links lead, its inode, its length and when it was written. So a directory
//! whose link is turned to another one (as Kubernetes does with a ConfigMap or a Secret) counts as a change of all that lies in it. A change is told once it
//! has settled: when two looks in a row have found the same. Does not know what the files are for.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What tells two states of a file apart; `None`: it cannot be looked at.
type Stamp = Option<(PathBuf, u64, u64, u64, i64, i64)>;

fn stamp(name: &str) -> Stamp {
    let known = fs::metadata(name).ok()?;
    let path = fs::canonicalize(name).ok()?;
    Some((path, known.dev(), known.ino(), known.size(), known.mtime(), known.mtime_nsec()))
}

/// Says whose files are watched. `T` is what names them.
#[derive(Clone)]
pub(crate) struct Watcher<T>(Sender<T>);

impl<T: Send + 'static> Watcher<T> {
    /// Begins to watch the files that `names` finds in `subject`; `changed` is called after each change. What is read from them has been
    /// read already.
    ///
    /// # Errors
    /// The system's, if there is no thread.
    pub(crate) fn start(
        thread: &str,
        subject: T,
        names: fn(&T) -> Vec<String>,
        changed: impl FnMut(&T) + Send + 'static,
    ) -> io::Result<Watcher<T>> {
        let (sender, told) = channel();
        let looks = Looks::new(names(&subject));
        let watch = move || watch(subject, looks, names, changed, &told);
        thread::Builder::new().name(thread.to_owned()).spawn(watch)?;
        Ok(Watcher(sender))
    }

    /// From now on these files count.
    pub(crate) fn follow(&self, subject: T) {
        // The thread lives as long as this sender.
        let _ = self.0.send(subject);
    }
}

fn watch<T>(
    mut subject: T,
    mut looks: Looks,
    names: fn(&T) -> Vec<String>,
    mut changed: impl FnMut(&T),
    told: &Receiver<T>,
) {
    loop {
        match told.recv_timeout(LOOK_EVERY) {
            Ok(new) => {
                subject = new;
                looks.follow(names(&subject));
            }
            Err(RecvTimeoutError::Timeout) => {
                if looks.look(stamp) {
                    changed(&subject);
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// What has been seen.
struct Looks {
    files: Vec<Sight>,
}

struct Sight {
    name: String,
    /// When it was read, or when its change was told.
    told: Stamp,
    /// At the last look.
    last: Stamp,
}

impl Looks {
    fn new(names: Vec<String>) -> Looks {
        let mut looks = Looks { files: Vec::new() };
        looks.follow(names);
        looks
    }

    /// A file that was watched before is known as it was: it may have changed while it was read.
    fn follow(&mut self, names: Vec<String>) {
        let mut before = std::mem::take(&mut self.files);
        let file = |name: String| match before.iter().position(|file| file.name == name) {
            Some(at) => before.swap_remove(at),
            None => {
                let now = stamp(&name);
                Sight { name, told: now.clone(), last: now }
            }
        };
        self.files = names.into_iter().map(file).collect();
    }

    /// Whether something has changed since it was told, and nothing since the last look.
    fn look(&mut self, stamp: impl Fn(&str) -> Stamp) -> bool {
        let (mut is_new, mut is_settled) = (false, true);
        for file in &mut self.files {
            let now = stamp(&file.name);
            is_new |= now != file.told;
            is_settled &= now == file.last;
            file.last = now;
        }
        let is_change = is_new && is_settled;
        if is_change {
            self.files.iter_mut().for_each(|file| file.told = file.last.clone());
        }
        is_change
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(inode: u64) -> Stamp {
        Some((PathBuf::from("/f"), 1, inode, 0, 0, 0))
    }

    #[test]
    fn a_change_is_told_once_when_it_has_settled() {
        let mut looks = Looks { files: vec![Sight { name: "f".to_owned(), told: of(1), last: of(1) }] };
        let states = [of(1), of(2), of(3), of(3), of(3), None, of(3), of(4), of(4)];
        let told: Vec<bool> = states.into_iter().map(|now| looks.look(|_| now.clone())).collect();
        // What was gone for a moment and is back is as it was.
        assert_eq!(told, [false, false, false, true, false, false, false, false, true]);
    }

    #[test]
    fn what_changes_while_it_is_read_is_not_lost() {
        let mut looks = Looks { files: vec![Sight { name: "f".to_owned(), told: of(1), last: of(1) }] };
        looks.follow(vec!["/nonexistent".to_owned(), "f".to_owned()]);
        let stamps = |name: &str| if name == "f" { of(2) } else { None };
        assert!(!looks.look(stamps));
        assert!(looks.look(stamps));
    }
}
