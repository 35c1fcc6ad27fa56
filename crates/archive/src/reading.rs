//! What was written, over any time: second by second, or a minute at a time.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use activity::history::frames::{Frame, frame, passable, skipped};
use activity::history::packed::{BLOCK_MS, Unpacked, Unpacker};
use activity::history::{Options, Span};
use activity::{At, History};

use crate::segments::{Header, begun, header, segments};
use crate::why;

/// Torn or strange parts that are passed over, until the rest of a file is given up.
const DAMAGED_MAX: u32 = 100;

/// What is read at a time.
const PART: u64 = 1 << 18;

/// Time in one part of [`Reading::next_part`].
const MINUTE: u64 = 60;

/// The seconds of a span, from the oldest. A clock that was set back: of seconds that were written twice the first is read.
pub struct Reading {
    within: Span,
    files: VecDeque<PathBuf>,
    open: Option<OpenFile>,
    unpacker: Option<Unpacker>,
    /// The last second that was read.
    last: Option<u64>,
    /// It is in no part yet.
    ahead: Option<Vec<u8>>,
    /// What was passed over, and why.
    pub complaints: Vec<String>,
}

struct OpenFile {
    path: PathBuf,
    file: File,
    held: Vec<u8>,
    /// What is taken of it.
    taken: usize,
    is_end: bool,
    damaged: u32,
}

impl Reading {
    /// Of the files at `path`.
    #[must_use]
    pub fn of(path: &Path, within: Span) -> Reading {
        let mut complaints = Vec::new();
        let olds = match segments(path) {
            Ok(olds) => olds.into_iter().map(|segment| segment.path).collect(),
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                complaints.push(format!("{}: its folder cannot be read: {}", path.display(), why(&error)));
                Vec::new()
            }
        };
        let mut files: VecDeque<PathBuf> = olds.into_iter().filter(|old| has_any(old, within)).collect();
        files.push_back(path.to_owned());
        let unpacker = Unpacker::new().inspect_err(|error| complaints.push(why(error))).ok();
        Reading { within, files, open: None, unpacker, last: None, ahead: None, complaints }
    }

    /// The next second's bytes.
    pub fn next_second(&mut self) -> Option<(At, Vec<u8>)> {
        loop {
            if self.open.is_none() {
                let path = self.files.pop_front()?;
                match OpenFile::open(path) {
                    Ok(open) => self.open = open,
                    Err(complaint) => self.complaints.push(complaint),
                }
                continue;
            }
            if let Some(second) = self.next_of_file() {
                return Some(second);
            }
            let open = self.open.take().expect("it was just there");
            if open.damaged > 0 {
                self.complaints.push(format!("{}: {} parts of it are damaged", open.path.display(), open.damaged));
            }
        }
    }

    fn next_of_file(&mut self) -> Option<(At, Vec<u8>)> {
        let (open, unpacker) = (self.open.as_mut()?, self.unpacker.as_mut()?);
        let Span { from, to } = self.within;
        // A block is read from its beginning, if any of its seconds may be wanted.
        let may_be_wanted = |at: At| at <= to && at.0.saturating_add(BLOCK_MS) >= from.0;
        while open.damaged <= DAMAGED_MAX {
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
                    (open.taken, open.damaged) = (open.taken + skipped(bytes), open.damaged + 1);
                }
                Frame::Short => {
                    if let Err(error) = open.read() {
                        self.complaints.push(format!("{}: {}", open.path.display(), why(&error)));
                        return None;
                    }
                }
            }
        }
        None
    }

    /// The seconds of the next minute that has any.
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
                self.complaints.push(format!("a second is passed over: {error}"));
                false
            }
        }
    }
}

/// Whether it may have seconds of the span, by when it begins and when it was written last. A copy was written later than that.
fn has_any(path: &Path, within: Span) -> bool {
    let written = fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let written = written.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let ends_before = written.is_some_and(|at| at.as_millis() + u128::from(BLOCK_MS) < u128::from(within.from.0));
    !ends_before && begun(path).is_none_or(|begun| begun <= within.to)
}

impl OpenFile {
    /// `None`: there is nothing in it.
    fn open(path: PathBuf) -> Result<Option<OpenFile>, String> {
        let complaint = |why: String| format!("{}: {why}", path.display());
        // Before it is opened: a pipe that nobody writes to would hold us up for ever.
        if fs::metadata(&path).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(complaint("it is no file".to_owned()));
        }
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(complaint(why(&error))),
        };
        match header(&mut file).map_err(|error| complaint(why(&error)))? {
            Header::Ours => Ok(Some(OpenFile { path, file, held: Vec::new(), taken: 0, is_end: false, damaged: 0 })),
            Header::Missing => Ok(None),
            Header::OfAnother => Err(complaint("another version has written it".to_owned())),
            Header::NotOurs => Err(complaint("it is no history of pgweir's".to_owned())),
        }
    }

    /// Reads on.
    fn read(&mut self) -> io::Result<()> {
        self.held.drain(..self.taken);
        self.taken = 0;
        let read = (&mut self.file).take(PART).read_to_end(&mut self.held)?;
        self.is_end = read == 0;
        Ok(())
    }
}

/// What has come of reading.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ReadBack {
    pub seconds: usize,
    /// What was passed over, and why.
    pub complaints: Vec<String>,
}

/// Adds the seconds of a span to a history. What is not later than what the history has is passed over.
pub fn read_back(path: &Path, history: &mut History, within: Span) -> ReadBack {
    let mut reading = Reading::of(path, within);
    let mut seconds = 0;
    while let Some((_, second)) = reading.next_second() {
        seconds += usize::from(reading.keep(history, &second));
    }
    ReadBack { seconds, complaints: reading.complaints }
}
