//! The files of the ring: their names, their headers, and how the newest one is retired.
//!
//! A segment's name is the path's, a point, and the time of its first second in UTC. A segment that begins in the future was written while the clock
//! was ahead: it is removed first.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use activity::At;
use activity::history::frames::{HEADER, begun_at};
use jiff::Timestamp;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

/// The number of files of full size in the ring: the newest file and the segments.
pub(crate) const SEGMENTS: u64 = 16;

/// For example 20260701T140512Z.
const STAMP: &str = "%Y%m%dT%H%M%SZ";
const STAMP_LEN: usize = 16;

/// A retired file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Segment {
    /// Ends with a number if another segment has the same first second.
    stamp: String,
    pub(crate) path: PathBuf,
    pub(crate) len: u64,
    pub(crate) inode: Inode,
}

/// The device and the inode of a file: its identity while its name changes.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Inode(u64, u64);

impl Inode {
    pub(crate) fn of(metadata: &Metadata) -> Inode {
        Inode(metadata.dev(), metadata.ino())
    }
}

/// The segments, from the oldest.
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
        // Another process may have removed it.
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_file() {
            found.push(Segment {
                stamp: stamp.to_owned(),
                path: entry.path(),
                len: metadata.len(),
                inode: Inode::of(&metadata),
            });
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

/// Renames the newest file to a segment's name. Another process may have done it already: that is no error.
pub(crate) fn retire(path: &Path, now: At) -> io::Result<()> {
    let begun = begun(path).unwrap_or(now);
    let stamp = stamp(begun);
    let mut place = PathBuf::from(with_end(path.into(), &format!(".{stamp}")));
    // After a clock was set back, a segment may have this name already. So may one of another process.
    for number in 1_u32.. {
        match rename_to_free(path, &place) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            done => return done,
        }
        place = with_end(path.into(), &format!(".{stamp}-{number}")).into();
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Renames without replacing a file. File systems without such a call (NFS) leave a moment between the check and the renaming.
fn rename_to_free(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) if fs::exists(to)? => Err(io::ErrorKind::AlreadyExists.into()),
        Err(Errno::INVAL | Errno::NOSYS) => fs::rename(from, to),
        done => Ok(done?),
    }
}

/// Removes the oldest segments until the others have at most `len_max` bytes. A file with a segment's name that pgweir has not written is neither
/// removed nor counted.
pub(crate) fn make_room(path: &Path, len_max: u64, now: At) -> io::Result<()> {
    let mut all = segments(path)?;
    all.retain(|segment| is_ours(&segment.path));
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

fn is_ours(path: &Path) -> bool {
    let header = File::open(path).and_then(|mut file| header(&mut file));
    matches!(header, Ok(Header::Ours | Header::OfAnother))
}

/// The time of a file's first second.
pub(crate) fn begun(path: &Path) -> Option<At> {
    let mut file = File::open(path).ok()?;
    let mut begin = Vec::new();
    (&mut file).take(HEADER.len() as u64 + 64).read_to_end(&mut begin).ok()?;
    begun_at(begin.strip_prefix(HEADER)?)
}

/// The file that seconds are added to.
pub(crate) struct Open {
    pub(crate) file: File,
    pub(crate) len: u64,
}

impl Open {
    /// Whether the path still names this file.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        let ours = self.file.metadata().map(|metadata| Inode::of(&metadata));
        fs::metadata(path).map(|metadata| Inode::of(&metadata)).ok() == ours.ok()
    }
}

/// Opens the newest file, or creates it. A file of another version's format is renamed first, and its new name is returned.
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
            // Another process may have renamed it.
            match fs::rename(path, &old) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
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
    /// The file is empty.
    Missing,
    /// pgweir's, in a format of another version.
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
