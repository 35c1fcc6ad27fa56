//! The time that the files have. Two of them are read for it: the beginning of the oldest, and the newest.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use activity::At;
use activity::history::frames::{Frame, HEADER, frame, passable, skipped};

use crate::segments::{begun, segments};

/// Bytes that are read at a time.
const PART: u64 = 1 << 18;

/// Whether there is a file at `path`, or a segment beside it.
#[must_use]
pub fn is_there(path: &Path) -> bool {
    fs::exists(path).unwrap_or(true) || segments(path).is_ok_and(|segments| !segments.is_empty())
}

/// The first and the last second of the files at `path`. Nothing is unpacked. `None`: they have no second.
#[must_use]
pub fn ends(path: &Path) -> Option<(At, At)> {
    let mut files: Vec<PathBuf> = segments(path).unwrap_or_default().into_iter().map(|segment| segment.path).collect();
    // To open a pipe would block.
    files.extend(fs::metadata(path).is_ok_and(|metadata| metadata.is_file()).then(|| path.to_owned()));
    let from = files.iter().find_map(|file| begun(file))?;
    let to = files.iter().rev().find_map(|file| last(file))?;
    Some((from, to.max(from)))
}

/// The last second of one file.
fn last(path: &Path) -> Option<At> {
    let mut file = File::open(path).ok()?;
    let (mut held, mut taken, mut last) = (Vec::new(), HEADER.len(), None);
    (&mut file).take(PART).read_to_end(&mut held).ok()?;
    held.starts_with(HEADER).then_some(())?;
    loop {
        let bytes = &held[taken..];
        if let Some((at, len)) = passable(bytes) {
            (last, taken) = (last.max(Some(at)), taken + len);
            continue;
        }
        match frame(bytes) {
            Frame::Whole { packed, len } => (last, taken) = (last.max(Some(packed.at)), taken + len),
            Frame::Damaged { len } => taken += len.max(1).min(bytes.len()),
            Frame::Short => {
                let passed = skipped(bytes);
                held.drain(..taken);
                taken = 0;
                if (&mut file).take(PART).read_to_end(&mut held).ok()? > 0 {
                    continue;
                }
                if held.is_empty() {
                    return last;
                }
                taken = passed.max(1);
            }
        }
    }
}
