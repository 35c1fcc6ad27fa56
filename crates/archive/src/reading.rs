//! Reads a span of the files, second by second or a minute at a time.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use activity::history::frames::{Frame, frame, passable, skipped};
use activity::history::packed::{BLOCK_MS, Unpacked, Unpacker};
use activity::history::{Options, Span};
use activity::{At, History};

use crate::segments::{Header, Inode, begun, header, segments};
use crate::why;

/// After this number of torn or damaged parts, the rest of a file is left out.
const DAMAGED_MAX: u32 = 100;

/// Bytes in one read.
const PART: u64 = 1 << 18;

/// Seconds in one part of [`Reading::next_part`].
const MINUTE: u64 = 60;

/// The seconds of a span, from the oldest. If the clock was set back and a second was written twice, the first one is read.
pub struct Reading {
    within: Span,
    segments: VecDeque<PathBuf>,
    /// The newest file. It is opened first and read last: the writer may retire it meanwhile.
    newest: Option<OpenFile>,
    open: Option<OpenFile>,
    unpacker: Option<Unpacker>,
    /// The last second that was read.
    last: Option<u64>,
    /// A second that was read and belongs to the next part.
    ahead: Option<Vec<u8>>,
    /// The parts that were skipped, and why. Each text is there once.
    pub complaints: Vec<String>,
}

struct OpenFile {
    path: PathBuf,
    file: File,
    is_newest: bool,
    held: Vec<u8>,
    /// How many bytes of `held` are used.
    taken: usize,
    is_end: bool,
    damaged: u32,
    /// Torn parts behind the last whole frame.
    torn: u32,
}

impl Reading {
    /// Begins to read the files at `path`.
    #[must_use]
    pub fn of(path: &Path, within: Span) -> Reading {
        let mut complaints = Vec::new();
        let newest = OpenFile::open(path.to_owned(), true).unwrap_or_else(|complaint| {
            complaints.push(complaint);
            None
        });
        let inode = newest.as_ref().and_then(OpenFile::inode);
        let olds = match segments(path) {
            // A segment that is the newest file was retired since.
            Ok(olds) => olds.into_iter().filter(|old| Some(old.inode) != inode).map(|old| old.path).collect(),
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                complaints.push(format!("{}: its folder cannot be read: {}", path.display(), why(&error)));
                Vec::new()
            }
        };
        let segments: VecDeque<PathBuf> = olds.into_iter().filter(|old| has_any(old, within)).collect();
        let unpacker = Unpacker::new().inspect_err(|error| complaints.push(why(error))).ok();
        Reading { within, segments, newest, open: None, unpacker, last: None, ahead: None, complaints }
    }

    /// The next second's bytes.
    pub fn next_second(&mut self) -> Option<(At, Vec<u8>)> {
        loop {
            if self.open.is_none() {
                match self.segments.pop_front().map(|path| OpenFile::open(path, false)) {
                    Some(Ok(open)) => self.open = open,
                    Some(Err(complaint)) => self.complain(complaint),
                    None => self.open = Some(self.newest.take()?),
                }
                continue;
            }
            if let Some(second) = self.next_of_file() {
                return Some(second);
            }
            let open = self.open.take().expect("it was just there");
            if let Some(complaint) = open.damage() {
                self.complain(complaint);
            }
        }
    }

    fn complain(&mut self, complaint: String) {
        if !self.complaints.contains(&complaint) {
            self.complaints.push(complaint);
        }
    }

    fn next_of_file(&mut self) -> Option<(At, Vec<u8>)> {
        let (open, unpacker) = (self.open.as_mut()?, self.unpacker.as_mut()?);
        let Span { from, to } = self.within;
        // A block has to be read from its beginning if any of its seconds may be in the span.
        let may_be_wanted = |at: At| at <= to && at.0.saturating_add(BLOCK_MS) >= from.0;
        while open.damaged + open.torn <= DAMAGED_MAX {
            let bytes = &open.held[open.taken..];
            if let Some((_, len)) = passable(bytes).filter(|(at, _)| !may_be_wanted(*at)) {
                open.taken += len;
                unpacker.pass();
                continue;
            }
            match frame(bytes) {
                _ if bytes.is_empty() && open.is_end => return None,
                Frame::Whole { packed, len } => {
                    open.taken += len;
                    open.damaged += std::mem::take(&mut open.torn);
                    let at = packed.at;
                    match unpacker.unpack(&packed) {
                        Unpacked::Second(second) => {
                            let is_later = self.last.is_none_or(|last| at.second() > last);
                            if is_later && (from.second()..=to.second()).contains(&at.second()) {
                                self.last = Some(at.second());
                                return Some((at, second.to_vec()));
                            }
                        }
                        Unpacked::Behind => {}
                        Unpacked::Damaged => open.damaged += 1,
                    }
                }
                Frame::Damaged { len } => (open.taken, open.damaged) = (open.taken + len, open.damaged + 1),
                Frame::Short if open.is_end => {
                    (open.taken, open.torn) = (open.taken + skipped(bytes), open.torn + 1);
                }
                Frame::Short => {
                    if let Err(error) = open.read() {
                        let complaint = format!("{}: {}", open.path.display(), why(&error));
                        self.complain(complaint);
                        return None;
                    }
                }
            }
        }
        None
    }

    /// The next minute that has a second.
    pub fn next_part(&mut self) -> Option<History> {
        let options = Options { memory_max: usize::MAX, seconds_max: usize::MAX, ..Options::default() };
        let mut part = History::new(options);
        let mut first = None;
        if let Some(second) = self.ahead.take() {
            first = self.keep(&mut part, &second).then(|| self.last.map(|last| last / MINUTE)).flatten();
        }
        while let Some((at, second)) = self.next_second() {
            let minute = at.second() / MINUTE;
            if first.is_some_and(|first| first != minute) {
                self.ahead = Some(second);
                return Some(part);
            }
            if self.keep(&mut part, &second) {
                first = Some(minute);
            }
        }
        first.map(|_| part)
    }

    fn keep(&mut self, part: &mut History, second: &[u8]) -> bool {
        match part.restore(second, self.within) {
            Ok(is_kept) => is_kept,
            Err(error) => {
                // This second was the last one that was read: the file is still open.
                let path = self.open.as_ref().map(|open| format!("{}: ", open.path.display())).unwrap_or_default();
                self.complain(format!("{path}a second is passed over: {error}"));
                false
            }
        }
    }
}

/// Whether a segment may have seconds of the span: compares the time of its first second and of its last change. A copy of a file has a later time
/// of change, which does no harm.
fn has_any(path: &Path, within: Span) -> bool {
    let written = fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let written = written.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let ends_before = written.is_some_and(|at| at.as_millis() + u128::from(BLOCK_MS) < u128::from(within.from.0));
    !ends_before && begun(path).is_none_or(|begun| begun <= within.to)
}

impl OpenFile {
    /// Returns `None` if there is no such file, or it is empty.
    fn open(path: PathBuf, is_newest: bool) -> Result<Option<OpenFile>, String> {
        let complaint = |why: String| format!("{}: {why}", path.display());
        // This comes before opening: opening a pipe without a writer would block.
        if fs::metadata(&path).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(complaint("it is no file".to_owned()));
        }
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(complaint(why(&error))),
        };
        match header(&mut file).map_err(|error| complaint(why(&error)))? {
            Header::Ours => Ok(Some(OpenFile {
                path,
                file,
                is_newest,
                held: Vec::new(),
                taken: 0,
                is_end: false,
                damaged: 0,
                torn: 0,
            })),
            Header::Missing => Ok(None),
            Header::OfAnother => Err(complaint("another version has written it".to_owned())),
            Header::NotOurs => Err(complaint("it is no history of pgweir's".to_owned())),
        }
    }

    fn inode(&self) -> Option<Inode> {
        self.file.metadata().ok().map(|metadata| Inode::of(&metadata))
    }

    /// The complaint about its damaged parts. The writer may just be adding to the newest file: a torn part at its end is no damage.
    fn damage(&self) -> Option<String> {
        let damaged = self.damaged + if self.is_newest { 0 } else { self.torn };
        let path = self.path.display();
        if self.damaged + self.torn > DAMAGED_MAX {
            return Some(format!(
                "{path}: more than {DAMAGED_MAX} parts of it are damaged: the rest of it is left out"
            ));
        }
        (damaged > 0).then(|| format!("{path}: {damaged} parts of it are damaged"))
    }

    /// Reads the next bytes of the file.
    fn read(&mut self) -> io::Result<()> {
        self.held.drain(..self.taken);
        self.taken = 0;
        let read = (&mut self.file).take(PART).read_to_end(&mut self.held)?;
        self.is_end = read == 0;
        Ok(())
    }
}

/// The result of [`read_back`].
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ReadBack {
    pub seconds: usize,
    /// As [`Reading::complaints`].
    pub complaints: Vec<String>,
}

/// Adds the seconds of a span to a history. Seconds that are not later than the history's last one are skipped.
pub fn read_back(path: &Path, history: &mut History, within: Span) -> ReadBack {
    let mut reading = Reading::of(path, within);
    let mut seconds = 0;
    while let Some((_, second)) = reading.next_second() {
        seconds += usize::from(reading.keep(history, &second));
    }
    ReadBack { seconds, complaints: reading.complaints }
}
