//! The observer's side of the history on disk: hands each second to the thread that writes.
//!
//! Promises: A second is stored once. A look for a person may see a second again that the observer has stored: readers would take the first one.

use activity::At;
use activity::history::OnDisk;
use archive::{Archive, Location, Written};

#[derive(Default)]
pub(super) struct Disk {
    file: Option<Archive>,
    /// The log has a line that the disk is too slow.
    is_behind: bool,
    /// The last second that was stored.
    stored: Option<u64>,
}

impl Disk {
    pub(super) fn place(&self) -> Option<&Location> {
        self.file.as_ref().map(|file| &file.place)
    }

    /// Replaces the file. The thread that writes the former one ends.
    pub(super) fn put(&mut self, file: Option<Archive>) {
        (self.file, self.stored) = (file, None);
    }

    /// Whether the second at this time is still to be stored.
    pub(super) fn wants(&self, at: At) -> bool {
        self.file.is_some() && self.stored != Some(at.second())
    }

    /// Stores a second. Returns what is on disk by now, and a line for the log if the disk is too slow.
    pub(super) fn store(&mut self, at: At, second: Vec<u8>) -> (OnDisk, Option<String>) {
        let Some(file) = &self.file else { return (OnDisk::default(), None) };
        let is_taken = file.add(at, second);
        if is_taken {
            self.stored = Some(at.second());
        }
        let Written { seconds, lost } = file.written();
        let was_behind = std::mem::replace(&mut self.is_behind, !is_taken);
        let path = file.place.path.display();
        let line = format!("observer: {path} is on a disk that is too slow: seconds are missing there");
        (OnDisk { seconds, lost }, (!is_taken && !was_behind).then_some(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_is_stored_once() {
        let folder = std::env::temp_dir().join(format!("pgweir-disk-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary directory");
        let place = |name: &str| Location { path: folder.join(name), size_max: 1 << 20 };
        let file = |name| Archive::open(place(name), |_, text| panic!("{text}")).expect("a thread");
        let mut disk = Disk::default();
        assert!(!disk.wants(At(5_000)), "there is no file");
        disk.put(Some(file("one")));
        assert!(disk.wants(At(5_000)));
        assert_eq!(disk.store(At(5_000), b"a second".to_vec()).1, None);
        assert!(!disk.wants(At(5_999)), "it is stored");
        assert!(disk.wants(At(6_000)));
        assert!(disk.wants(At(4_999)), "the clock was set back");
        disk.put(Some(file("two")));
        assert!(disk.wants(At(5_000)), "another file does not have it");
        assert_eq!(disk.place(), Some(&place("two")));
        drop(disk);
        std::fs::remove_dir_all(&folder).expect("our own");
    }
}
