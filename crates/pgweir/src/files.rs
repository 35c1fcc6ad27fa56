//! Watches the files that were read: those of TLS always, those of the configuration with `watch_config = 1`.
//!
//! ```text
//!   look, once a second ──► another one than was read ──► the same at the next look ─┬─ of TLS: all of these are read again
//!                                                                                    └─ of the configuration: RELOAD
//! ```
//!
//! Promises that a file that changes after it was read is noticed, once for each change: what it was is looked at before it is read. A
//! file is known by what a path leads to, so that a link that is turned elsewhere is a change too: so Kubernetes renews a volume
//! (`..data`), with all its files at a time. A file that is missing may come.
//!
//! Looks rather than asks the kernel for events (inotify): these come from directories that can be replaced or be on another machine, while
//! some file systems tell nothing; a look at a dozen files costs some microseconds.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use ::settings::TlsSettings;
use control::ControlEvent;
use engine::Handle;

use crate::keyring;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What tells two states of a file apart; `None`: there is none. The time of the last change of the file itself (ctime) tells of edits that
/// keep length and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    len: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

fn stamp(name: &str) -> Option<Stamp> {
    let known = fs::metadata(Path::new(name)).ok()?;
    Some(Stamp {
        device: known.dev(),
        inode: known.ino(),
        len: known.size(),
        modified: (known.mtime(), known.mtime_nsec()),
        changed: (known.ctime(), known.ctime_nsec()),
    })
}

/// Files by name, each as it was when it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Files(BTreeMap<String, Option<Stamp>>);

/// What came of a reading, and the files that were read.
pub(crate) type Noted<T> = (T, Files);

impl Files {
    /// Lets `config` read, and notes what it reads. A folder counts as a file: it changes when a name comes or goes.
    pub(crate) fn noted<T>(reading: impl FnOnce(&config::ini::Read) -> T) -> Noted<T> {
        let files = RefCell::new(Files::default());
        let read = |name: &str| -> io::Result<Vec<u8>> {
            // First: a change in between is noticed.
            files.borrow_mut().0.entry(name.to_owned()).or_insert_with(|| stamp(name));
            config::read_file(name)
        };
        let result = reading(&read);
        (result, files.into_inner())
    }

    /// After a reading that has failed: what it did not come to still counts.
    pub(crate) fn with(mut self, failed: Files) -> Files {
        self.0.extend(failed.0);
        self
    }

    fn now(&self) -> Files {
        Files(self.0.keys().map(|name| (name.clone(), stamp(name))).collect())
    }

    /// As they are now.
    pub(crate) fn of_tls(settings: &TlsSettings) -> Files {
        Files(
            keyring::names(settings)
                .into_iter()
                .filter(|name| !name.is_empty())
                .map(|name| (name.clone(), stamp(name)))
                .collect(),
        )
    }

    /// The first that is another now.
    fn first_changed(&self, now: &Files) -> Option<&str> {
        self.0.iter().find(|(name, stamp)| now.0.get(*name) != Some(stamp)).map(|(name, _)| name.as_str())
    }
}

/// Files that are used together, and what was seen of them last.
#[derive(Debug, Default)]
struct Watch {
    is_on: bool,
    read: Files,
    /// Something else than what was read, at the last look.
    unsettled: Option<Files>,
}

impl Watch {
    /// As they are now: they were read before.
    fn of_tls(settings: &TlsSettings) -> Watch {
        Watch { is_on: true, read: Files::of_tls(settings), unsettled: None }
    }

    fn look_now(&mut self) -> Option<String> {
        if self.is_on { self.look(self.read.now()) } else { None }
    }

    /// The name of a file because of which all are to be read again. They may have been written to in this moment, so it is told at the
    /// next look after which they stayed as they were.
    fn look(&mut self, now: Files) -> Option<String> {
        let changed = self.read.first_changed(&now).filter(|_| self.is_on).map(str::to_owned);
        let Some(name) = changed else {
            self.unsettled = None;
            return None;
        };
        if self.unsettled.as_ref() != Some(&now) {
            self.unsettled = Some(now);
            return None;
        }
        // Whatever comes of it, this state is told of once.
        (self.read, self.unsettled) = (now, None);
        Some(name)
    }
}

/// What the control thread tells after it has read.
enum Told {
    Tls(Box<TlsSettings>),
    Config { is_on: bool, read: Files },
}

/// Looks at the files, on a thread of its own.
#[derive(Clone)]
pub(crate) struct Watcher(Sender<Told>);

impl Watcher {
    /// Begins to watch the files; the engine has what those of TLS hold now. `renewed` is called each time that it has taken up what they hold
    /// since.
    ///
    /// # Errors
    /// The system's, if there is no thread.
    pub(crate) fn start(
        handle: Handle,
        tls: TlsSettings,
        control: Sender<ControlEvent>,
        renewed: impl Fn() + Send + 'static,
    ) -> io::Result<Watcher> {
        let (sender, told) = channel();
        thread::Builder::new().name("files".to_owned()).spawn(move || watch(&handle, tls, &told, &control, renewed))?;
        Ok(Watcher(sender))
    }

    /// After a reload, which has read them: these files of TLS count from now on.
    pub(crate) fn follow_tls(&self, settings: &TlsSettings) {
        // The thread lives as long as this sender.
        let _ = self.0.send(Told::Tls(Box::new(settings.clone())));
    }

    /// The files of the configuration were read, or their setting was changed.
    pub(crate) fn follow(&self, is_on: bool, read: &Files) {
        let _ = self.0.send(Told::Config { is_on, read: read.clone() });
    }
}

fn watch(
    handle: &Handle,
    mut tls: TlsSettings,
    told: &Receiver<Told>,
    control: &Sender<ControlEvent>,
    renewed: impl Fn(),
) {
    let mut tls_files = Watch::of_tls(&tls);
    let mut config = Watch::default();
    loop {
        match told.recv_timeout(LOOK_EVERY) {
            Ok(Told::Tls(new)) => {
                tls_files = Watch::of_tls(&new);
                tls = *new;
            }
            Ok(Told::Config { is_on, read }) => config = Watch { is_on, read, unsettled: None },
            Err(RecvTimeoutError::Timeout) => {
                if tls_files.look_now().is_some() && keyring::read_again(handle, &tls) {
                    renewed();
                }
                if let Some(name) = config.look_now() {
                    // Fails when the process is about to end.
                    let _ = control.send(ControlEvent::Changed(name));
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(stamps: &[(&str, Option<u64>)]) -> Files {
        let stamp = |inode| Stamp { device: 1, inode, len: 2, modified: (3, 4), changed: (5, 6) };
        Files(stamps.iter().map(|(name, inode)| ((*name).to_owned(), inode.map(stamp))).collect())
    }

    #[test]
    fn a_change_is_told_once_when_it_has_settled() {
        let read = files(&[("a.ini", Some(1)), ("users", Some(2)), ("hba", None)]);
        let mut watch = Watch { is_on: true, read: read.clone(), unsettled: None };
        assert_eq!(watch.look(read.clone()), None);
        let half = files(&[("a.ini", Some(1)), ("users", Some(7)), ("hba", None)]);
        let whole = files(&[("a.ini", Some(1)), ("users", Some(7)), ("hba", Some(8))]);
        assert_eq!(watch.look(half), None, "it may go on");
        assert_eq!(watch.look(whole.clone()), None, "it did");
        assert_eq!(watch.look(whole.clone()).as_deref(), Some("hba"));
        assert_eq!(watch.look(whole.clone()), None, "told already");
        assert_eq!(watch.look(whole), None);
        // Back to what was read at first is a change of what was read last.
        assert_eq!(watch.look(read.clone()), None);
        assert_eq!(watch.look(read.clone()).as_deref(), Some("hba"));
        // What is undone before it has settled is none.
        assert_eq!(watch.look(files(&[("a.ini", None), ("users", Some(2)), ("hba", None)])), None);
        assert_eq!(watch.look(read.clone()), None);
        assert_eq!(watch.look(read), None);
    }

    #[test]
    fn nothing_is_told_where_it_is_off() {
        let mut watch = Watch { read: files(&[("a.ini", Some(1))]), ..Watch::default() };
        for _ in 0..3 {
            assert_eq!(watch.look(files(&[("a.ini", Some(2))])), None);
        }
        // What has changed meanwhile is one once it is on.
        watch.is_on = true;
        assert_eq!(watch.look(files(&[("a.ini", Some(2))])), None);
        assert_eq!(watch.look(files(&[("a.ini", Some(2))])).as_deref(), Some("a.ini"));
    }

    #[test]
    fn every_file_that_is_read_is_known_as_it_was_before() {
        let dir = std::env::temp_dir().join(format!("pgweir-files-{}", std::process::id()));
        fs::create_dir(&dir).expect("nobody else has this name");
        let path = |name: &str| dir.join(name).display().to_string();
        fs::write(path("a.ini"), "old").expect("a fresh directory");
        let (bytes, read) = Files::noted(|read| {
            assert!(read(&path("missing")).is_err());
            assert!(read(&format!("{}/", dir.display())).is_ok());
            read(&path("a.ini"))
        });
        assert_eq!(bytes.expect("it is there"), b"old");
        assert_eq!((read.0.len(), read.first_changed(&read.now())), (3, None));
        // The same length, and the same time.
        let time = fs::metadata(path("a.ini")).and_then(|known| known.modified()).expect("a time");
        fs::write(path("a.ini"), "new").expect("it is ours");
        fs::File::options().write(true).open(path("a.ini")).and_then(|it| it.set_modified(time)).expect("it is ours");
        assert_eq!(read.first_changed(&read.now()), Some(&*path("a.ini")));
        let (_, read) = Files::noted(|read| (read(&path("missing")), read(&path("a.ini"))));
        fs::write(path("missing"), "").expect("it is ours");
        assert_eq!(read.first_changed(&read.now()), Some(&*path("missing")));
        fs::remove_dir_all(&dir).expect("it is ours");
    }
}
