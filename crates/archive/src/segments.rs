//! Which files there are, what they begin with, and how one becomes old.
//!
//! A segment's name is the file's, a point, and when its first second was, in UTC. One that begins in the future is of a clock that was ahead: it is
//! the first that is removed.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use activity::At;
use activity::history::frames::{HEADER, begun_at};
use jiff::Timestamp;

/// Of how many files of full size the ring is: the newest, and those that are old.
pub(crate) const SEGMENTS: u64 = 16;

/// As in 20260701T140512Z.
const STAMP: &str = "%Y%m%dT%H%M%SZ";
const STAMP_LEN: usize = 16;

/// One that is full.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Segment {
    /// With what tells two of one second apart.
    stamp: String,
    pub(crate) path: PathBuf,
    pub(crate) len: u64,
}

/// The old ones, from the oldest.
pub(crate) fn segments(path: &Path) -> io::Result<Vec<Segment>> {
    let Some(name) = path.file_name() else { return Ok(Vec::new()) };
    let begin = with_end(name.into(), ".");
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let rest = name.as_encoded_bytes().strip_prefix(begin.as_encoded_bytes());
        let Some(stamp) = rest.and_then(|rest| str::from_utf8(rest).ok()).filter(|stamp| is_stamp(stamp)) else {
            continue;
        };
        // It may be gone meanwhile.
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_file() {
            found.push(Segment { stamp: stamp.to_owned(), path: entry.path(), len: metadata.len() });
        }
    }
    found.sort();
    Ok(found)
}

fn is_stamp(text: &str) -> bool {
    let (stamp, more) = text.split_at_checked(STAMP_LEN).unwrap_or((text, "-"));
    let is_digit = |at: usize, byte: u8| match at {
        8 => byte == b'T',
        15 => byte == b'Z',
        _ => byte.is_ascii_digit(),
    };
    stamp.bytes().enumerate().all(|(at, byte)| is_digit(at, byte))
        && (more.is_empty() || more.strip_prefix('-').is_some_and(|number| number.parse::<u32>().is_ok()))
}

fn stamp(at: At) -> String {
    let at = i64::try_from(at.0).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok()).unwrap_or_default();
    at.strftime(STAMP).to_string()
}

fn with_end(name: OsString, end: &str) -> OsString {
    let mut name = name;
    name.push(end);
    name
}

/// The file becomes a segment.
pub(crate) fn retire(path: &Path, now: At) -> io::Result<()> {
    let begun = begun(path).unwrap_or(now);
    let stamp = stamp(begun);
    let mut place = PathBuf::from(with_end(path.into(), &format!(".{stamp}")));
    // A clock that was set back may come to the same second again.
    for number in 1.. {
        if !fs::exists(&place)? {
            break;
        }
        place = with_end(path.into(), &format!(".{stamp}-{number}")).into();
    }
    fs::rename(path, place)
}

/// Removes the oldest, until the others have no more than `len_max`.
pub(crate) fn make_room(path: &Path, len_max: u64, now: At) -> io::Result<()> {
    let mut all = segments(path)?;
    let now = stamp(now);
    all.sort_by_key(|segment| (segment.stamp[..STAMP_LEN] <= now[..], segment.stamp.clone()));
    let mut len: u64 = all.iter().map(|segment| segment.len).sum();
    for segment in all {
        if len <= len_max {
            break;
        }
        match fs::remove_file(&segment.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => len -= segment.len,
        }
    }
    Ok(())
}

/// When the first second of a file was.
pub(crate) fn begun(path: &Path) -> Option<At> {
    let mut file = File::open(path).ok()?;
    let mut begin = Vec::new();
    (&mut file).take(HEADER.len() as u64 + 64).read_to_end(&mut begin).ok()?;
    begun_at(begin.strip_prefix(HEADER)?)
}

/// A file that is added to.
pub(crate) struct Open {
    pub(crate) file: File,
    pub(crate) len: u64,
}

impl Open {
    /// Whether it is still what the path names.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        let place = |metadata: &fs::Metadata| (metadata.dev(), metadata.ino());
        let ours = self.file.metadata().map(|metadata| place(&metadata));
        fs::metadata(path).ok().map(|metadata| place(&metadata)) == ours.ok()
    }
}

/// A new one, or ours. One of another format makes room, and its new name is returned.
pub(crate) fn open_for_writing(path: &Path) -> io::Result<(Open, Option<PathBuf>)> {
    let open = || OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path);
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(io::Error::other("it is no file"));
    }
    let mut file = open()?;
    let mut moved = None;
    match header(&mut file)? {
        Header::Ours => {}
        Header::Missing => file.write_all(HEADER)?,
        Header::OfAnother => {
            let old = PathBuf::from(with_end(path.into(), ".old"));
            fs::rename(path, &old)?;
            file = open()?;
            file.write_all(HEADER)?;
            moved = Some(old);
        }
        Header::NotOurs => return Err(io::Error::other("there is a file that is no history of pgweir's")),
    }
    let metadata = file.metadata()?;
    if metadata.mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok((Open { file, len: metadata.len() }, moved))
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Header {
    Ours,
    /// It is empty.
    Missing,
    /// Ours, in a format of another version.
    OfAnother,
    NotOurs,
}

pub(crate) fn header(file: &mut impl Read) -> io::Result<Header> {
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
