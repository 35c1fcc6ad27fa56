//! The history on disk: a pair of files, to which each second is added, and from which the last hour is read at the start.
//!
//! ```text
//!   PATH       the newest seconds; at half of observe_file_size it becomes
//!   PATH.old   what came before, until the next time
//! ```
//!
//! Promises: who observes waits for no disk, since a thread of its own writes; what cannot be written is said once, and once more when it is over;
//! a file that is not ours is not touched. Only the owner may read the files.
//!
//! Deliberately does not do: fsync. What the machine loses when it loses power is some seconds.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use activity::history::Span;
use activity::history::frames::{Frame, HEADER, SECOND_LEN_MAX, frame, framed, skipped};
use activity::{At, History};
use machine::Level;

use crate::complain;

/// What waits for the disk, at most; the rest is lost.
const WAITING_MAX: usize = 16;

/// After a failure it is tried again so much later.
const RETRY: Duration = Duration::from_secs(30);

/// Torn or strange parts that are passed over, until the rest of a file is given up.
const DAMAGED_MAX: u32 = 100;

/// What is read at a time.
const PART: usize = 1 << 18;

/// Which file, and how large both are together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Location {
    pub(super) path: PathBuf,
    pub(super) size_max: u64,
}

/// The thread that writes. It ends with this.
pub(super) struct HistoryFile {
    pub(super) place: Location,
    seconds: SyncSender<(At, Vec<u8>)>,
}

impl HistoryFile {
    /// # Errors
    /// There is no thread for it.
    pub(super) fn open(place: Location, say: impl Fn(Level, String) + Send + 'static) -> io::Result<HistoryFile> {
        let (seconds, wanted) = sync_channel(WAITING_MAX);
        let mut writer = Writer { place: place.clone(), say, file: None, failed: None };
        thread::Builder::new().name("history".to_owned()).spawn(move || writer.run(&wanted))?;
        Ok(HistoryFile { place, seconds })
    }

    /// Whether it is taken: not if the disk is behind.
    pub(super) fn add(&self, at: At, second: Vec<u8>) -> bool {
        !matches!(self.seconds.try_send((at, second)), Err(TrySendError::Full(_)))
    }
}

struct Writer<S> {
    place: Location,
    /// What the log is told.
    say: S,
    file: Option<Open>,
    /// It has been said.
    failed: Option<Instant>,
}

struct Open {
    file: File,
    len: u64,
}

impl<S: Fn(Level, String)> Writer<S> {
    fn run(&mut self, seconds: &Receiver<(At, Vec<u8>)>) {
        for (at, second) in seconds {
            if self.failed.is_some_and(|since| since.elapsed() < RETRY) {
                continue;
            }
            let path = self.place.path.display().to_string();
            match (self.write(&framed(at, &second)), self.failed) {
                (Ok(()), None) => {}
                (Ok(()), Some(_)) => {
                    (self.say)(Level::Log, format!("observer: the history is written to {path} again"));
                    self.failed = None;
                }
                (Err(error), before) => {
                    if before.is_none() {
                        let why = complain::why(&error);
                        let text =
                            format!("observer: the history cannot be written to {path}: {why}; it is tried again");
                        (self.say)(Level::Warning, text);
                    }
                    (self.failed, self.file) = (Some(Instant::now()), None);
                }
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        // It may have been moved away, by another process of ours too.
        if self.file.as_ref().is_some_and(|open| !is_at(&open.file, &self.place.path)) {
            self.file = None;
        }
        let is_full = |open: &Open| open.len + bytes.len() as u64 > self.place.size_max / 2;
        if self.file.as_ref().is_some_and(is_full) {
            fs::rename(&self.place.path, old(&self.place.path))?;
            self.file = None;
        }
        let open = match &mut self.file {
            Some(open) => open,
            none => none.insert(open_for_writing(&self.place.path)?),
        };
        open.file.write_all(bytes)?;
        open.len += bytes.len() as u64;
        Ok(())
    }
}

/// What came before.
fn old(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".old");
    name.into()
}

fn is_at(file: &File, path: &Path) -> bool {
    let place = |metadata: &fs::Metadata| (metadata.dev(), metadata.ino());
    let ours = file.metadata().map(|metadata| place(&metadata));
    fs::metadata(path).ok().map(|metadata| place(&metadata)) == ours.ok()
}

/// A new one, or ours; one of another format makes room.
fn open_for_writing(path: &Path) -> io::Result<Open> {
    let open = || OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path);
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(io::Error::other("it is no file"));
    }
    let mut file = open()?;
    match header(&mut file)? {
        Header::Ours => {}
        Header::Missing => file.write_all(HEADER)?,
        Header::OfAnother => {
            fs::rename(path, old(path))?;
            file = open()?;
            file.write_all(HEADER)?;
        }
        Header::NotOurs => return Err(io::Error::other("there is a file that is no history of pgweir's")),
    }
    let metadata = file.metadata()?;
    if metadata.mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(Open { file, len: metadata.len() })
}

#[derive(Debug, PartialEq, Eq)]
enum Header {
    Ours,
    /// It is empty.
    Missing,
    /// Ours, in a format of another version.
    OfAnother,
    NotOurs,
}

fn header(file: &mut impl Read) -> io::Result<Header> {
    let mut found = Vec::new();
    file.take(HEADER.len() as u64).read_to_end(&mut found)?;
    let name = HEADER.split(u8::is_ascii_digit).next().unwrap_or(HEADER);
    Ok(match &found[..] {
        [] => Header::Missing,
        found if found == HEADER => Header::Ours,
        found if found.starts_with(name) => Header::OfAnother,
        _ => Header::NotOurs,
    })
}

/// What has come of reading.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadBack {
    pub(crate) seconds: usize,
    /// What was passed over, and why.
    pub(crate) complaints: Vec<String>,
}

/// Reads both files, from the older one. What is not within the span, or not later than what the history has, is passed over.
pub(crate) fn read_back(path: &Path, history: &mut History, within: Span) -> ReadBack {
    let mut back = ReadBack::default();
    for path in [old(path), path.to_owned()] {
        // Before it is opened: a pipe that nobody writes to would hold us up for ever.
        if fs::metadata(&path).is_ok_and(|metadata| !metadata.is_file()) {
            back.complaints.push(format!("{}: it is no file", path.display()));
            continue;
        }
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => {
                back.complaints.push(format!("{}: {}", path.display(), complain::why(&error)));
                continue;
            }
        };
        match read_file(file, history, within) {
            Ok((seconds, 0)) => back.seconds += seconds,
            Ok((seconds, damaged)) => {
                back.seconds += seconds;
                back.complaints.push(format!("{}: {damaged} parts of it are damaged", path.display()));
            }
            Err(why) => back.complaints.push(format!("{}: {why}", path.display())),
        }
    }
    back
}

/// How many seconds were kept, and how many parts were none.
fn read_file(file: File, history: &mut History, within: Span) -> Result<(usize, u32), String> {
    let words = |error: io::Error| complain::why(&error).to_string();
    let mut file = file;
    match header(&mut file).map_err(words)? {
        Header::Ours => {}
        Header::Missing => return Ok((0, 0)),
        Header::OfAnother => return Err("another version has written it".to_owned()),
        Header::NotOurs => return Err("it is no history of pgweir's".to_owned()),
    }
    let (mut held, mut kept, mut damaged) = (Vec::new(), 0, 0);
    loop {
        let read = (&mut file).take(PART as u64).read_to_end(&mut held).map_err(words)?;
        let (taken, wrong, seconds) = take(&held, read == 0, history, within);
        held.drain(..taken);
        (kept, damaged) = (kept + seconds, damaged + wrong);
        if read == 0 || damaged > DAMAGED_MAX || held.len() > SECOND_LEN_MAX + PART {
            return Ok((kept, damaged));
        }
    }
}

/// Takes what is whole: how many bytes, how many parts that are none, and how many seconds were kept.
fn take(bytes: &[u8], is_end: bool, history: &mut History, within: Span) -> (usize, u32, usize) {
    let (mut at, mut damaged, mut kept) = (0, 0, 0);
    while at < bytes.len() && damaged <= DAMAGED_MAX {
        match frame(&bytes[at..]) {
            Frame::Whole { at: when, bytes: second, len } => {
                at += len;
                let is_wanted = (within.from.second()..=within.to.second()).contains(&when.second());
                match if is_wanted { history.restore(second, within) } else { Ok(false) } {
                    Ok(is_kept) => kept += usize::from(is_kept),
                    Err(_) => damaged += 1,
                }
            }
            Frame::Damaged { len } => (at, damaged) = (at + len, damaged + 1),
            Frame::Short if is_end => (at, damaged) = (at + skipped(&bytes[at..]), damaged + 1),
            Frame::Short => break,
        }
    }
    (at, damaged, kept)
}

#[cfg(test)]
mod tests;
