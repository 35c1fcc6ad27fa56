//! The pgweirs that `dev` and `run` serve on this machine for this user, so that `pgweir top` finds them without a URL.
//!
//! ```text
//!   dev, run   bind a Unix socket with their process id as its name, and answer each connection with a record
//!   top        connects to each of these sockets, and reads
//!
//!   $XDG_RUNTIME_DIR/pgweir/PID, else /tmp/pgweir-UID/PID        folders that only their user can enter
//! ```
//!
//! Promises: no password is in a file, and a process that has ended, also by SIGKILL, is not found. Its socket, which nobody answers, is
//! removed by the next look. A folder that another user owns or can enter is not used.

use std::fs::{self, DirBuilder};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::geteuid;

/// How long a process of this machine may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// A record is a few names and a password.
const RECORD_BYTES_MAX: u64 = 64 * 1024;
/// The first field. A record of another layout is not read.
const LAYOUT: &str = "pgweir 1";

/// How to connect to the console of a running pgweir.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The command that started it: `dev` or `run`.
    pub command: String,
    /// In microseconds since 1970.
    pub started: u64,
    /// An address, a name, or the folder of a Unix socket.
    pub host: String,
    pub port: u16,
    pub user: String,
    /// `None`: clients are trusted.
    pub password: Option<String>,
}

impl Record {
    fn encode(&self) -> Vec<u8> {
        let Record { command, started, host, port, user, password } = self;
        let (started, port) = (started.to_string(), port.to_string());
        let fields = [LAYOUT, command, &started, host, &port, user, password.as_deref().unwrap_or_default()];
        // None of these can have a NUL in it.
        fields.join("\0").into_bytes()
    }

    fn decode(bytes: Vec<u8>) -> Option<Record> {
        let text = String::from_utf8(bytes).ok()?;
        let fields: Vec<&str> = text.split('\0').collect();
        let [LAYOUT, command, started, host, port, user, password] = fields[..] else { return None };
        Some(Record {
            command: command.to_owned(),
            started: started.parse().ok()?,
            host: host.to_owned(),
            port: port.parse().ok()?,
            user: user.to_owned(),
            password: Some(password.to_owned()).filter(|password| !password.is_empty()),
        })
    }
}

/// The time for `started`.
#[must_use]
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// The socket's file, which is removed with the value.
#[derive(Debug)]
pub struct File(PathBuf);

impl Drop for File {
    fn drop(&mut self) {
        // A process that was root and has become another user may not. The next look removes it.
        let _ = fs::remove_file(&self.0);
        // Unless another process has a socket there.
        let _ = self.0.parent().map(fs::remove_dir);
    }
}

/// A socket that does not answer yet.
#[derive(Debug)]
pub struct Socket(UnixListener);

/// Makes this process one that [`list`] finds as soon as the socket answers. To be called before a change of the user. `None`: there
/// is no folder for it.
#[must_use]
pub fn bind() -> Option<(File, Socket)> {
    // Another process that ends may remove the folder between two steps here.
    let twice = |folder: &PathBuf| bind_in(folder).or_else(|| bind_in(folder));
    folders().iter().find_map(twice)
}

fn bind_in(folder: &Path) -> Option<(File, Socket)> {
    // It may be there.
    let _ = DirBuilder::new().mode(0o700).create(folder);
    if !is_private(folder) {
        return None;
    }
    let path = folder.join(std::process::id().to_string());
    // Another container may share the folder, and have a process of this number; a socket that nobody answers is of an earlier process.
    if read(&path).is_err_and(|why| why.kind() == io::ErrorKind::ConnectionRefused) {
        let _ = fs::remove_file(&path);
    }
    let listener = UnixListener::bind(&path).ok()?;
    Some((File(path), Socket(listener)))
}

impl Socket {
    /// Answers in a thread of its own until the process ends. `record` is asked at each connection.
    pub fn answer(self, record: impl Fn() -> Record + Send + 'static) {
        let answer = move || {
            for stream in self.0.incoming() {
                let Ok(mut stream) = stream else {
                    // Without descriptors for a while: the next one is not taken either.
                    thread::sleep(PATIENCE);
                    continue;
                };
                let _ = stream.set_write_timeout(Some(PATIENCE));
                // A reader that has gone is not served.
                let _ = stream.write_all(&record().encode());
            }
        };
        // Without the thread this process is not found, and nothing else is missing.
        let _ = thread::Builder::new().name("running".to_owned()).spawn(answer);
    }
}

/// Those that run now, the newest first.
#[must_use]
pub fn list() -> Vec<Record> {
    let mut found: Vec<Record> = folders().iter().flat_map(|folder| list_in(folder)).collect();
    found.sort_by_key(|record| std::cmp::Reverse(record.started));
    found
}

fn list_in(folder: &Path) -> Vec<Record> {
    if !is_private(folder) {
        return Vec::new();
    }
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let one = |path: PathBuf| match read(&path) {
        Ok(record) => record,
        Err(why) if why.kind() == io::ErrorKind::ConnectionRefused => {
            let _ = fs::remove_file(&path);
            None
        }
        Err(_) => None,
    };
    entries.filter_map(|entry| one(entry.path())).collect()
}

/// `Ok(None)`: its record is of another layout.
fn read(path: &Path) -> io::Result<Option<Record>> {
    let stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut bytes = Vec::new();
    stream.take(RECORD_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(Record::decode(bytes))
}

/// In the order in which they are tried. Both are looked into: `su` and `sudo` leave XDG_RUNTIME_DIR out.
fn folders() -> Vec<PathBuf> {
    let of_session = std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty());
    let of_session = of_session.map(|folder| PathBuf::from(folder).join("pgweir"));
    let of_machine = PathBuf::from(format!("/tmp/pgweir-{}", geteuid().as_raw()));
    of_session.into_iter().chain([of_machine]).collect()
}

/// Whether it is a folder of this user, and nobody else's. Anyone may have made one of this name in /tmp.
fn is_private(folder: &Path) -> bool {
    let found = fs::symlink_metadata(folder);
    found.is_ok_and(|found| found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & 0o077 == 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            Folder(std::env::temp_dir().join(format!("pgweir-running-{name}-{}", std::process::id())))
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn record(password: Option<&str>) -> Record {
        let [command, host, user] = ["dev", "127.0.0.1", "ann"].map(str::to_owned);
        Record { command, started: now(), host, port: 6432, user, password: password.map(str::to_owned) }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        for password in [None, Some("a line\nand \"more\"")] {
            let record = record(password);
            assert_eq!(Record::decode(record.encode()), Some(record));
        }
        assert_eq!(Record::decode(b"pgweir 2\0dev".to_vec()), None);
        assert_eq!(Record::decode(vec![0xff]), None);
    }

    #[test]
    fn one_that_answers_is_found_until_it_ends() {
        let folder = Folder::new("found");
        assert_eq!(list_in(&folder.0), []);
        let (file, socket) = bind_in(&folder.0).expect("the folder is made");
        let mode = fs::metadata(&folder.0).expect("it is there").mode();
        assert_eq!(mode & 0o777, 0o700);
        let expected = record(Some("secret"));
        let told = expected.clone();
        socket.answer(move || told.clone());
        assert_eq!(list_in(&folder.0), [expected]);
        let path = file.0.clone();
        drop(file);
        assert!(!path.exists() && !folder.0.exists());
        assert_eq!(list_in(&folder.0), []);
    }

    #[test]
    fn a_socket_that_nobody_answers_is_removed_and_its_name_used_again() {
        let folder = Folder::new("stale");
        let leave = || {
            let (file, socket) = bind_in(&folder.0).expect("the folder is made");
            // As after a SIGKILL.
            drop(socket);
            let path = file.0.clone();
            std::mem::forget(file);
            path
        };
        let path = leave();
        assert!(path.exists());
        assert_eq!(list_in(&folder.0), []);
        assert!(!path.exists());
        assert_eq!(leave(), path);
        assert!(bind_in(&folder.0).is_some());
    }

    #[test]
    fn a_folder_that_others_can_enter_is_not_used() {
        let folder = Folder::new("open");
        let (_file, socket) = bind_in(&folder.0).expect("the folder is made");
        socket.answer(|| record(None));
        assert_eq!(list_in(&folder.0).len(), 1);
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o711)).expect("it is ours");
        assert_eq!(list_in(&folder.0), []);
        assert!(bind_in(&folder.0).is_none());
    }
}
