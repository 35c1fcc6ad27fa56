//! The thread that writes seconds to the files.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use activity::At;
use activity::history::packed::{Packer, fits};
use machine::Level;

use crate::segments::{Open, SEGMENTS, make_room, open_for_writing, retire};
use crate::{Location, why};

/// The queue of seconds for the disk has at most this length. Seconds that find it full are lost.
const WAITING_MAX: usize = 16;

/// The pause after a failure to write.
pub(crate) const RETRY: Duration = Duration::from_secs(30);

/// The observer's end of the queue. The thread ends when this is dropped.
pub struct Archive {
    pub place: Location,
    seconds: SyncSender<(At, Vec<u8>)>,
    counters: Arc<Counters>,
}

/// Seconds since it was opened.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub seconds: u64,
    /// The queue was full, the disk could not be written, or the second was too long.
    pub lost: u64,
}

#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) seconds: AtomicU64,
    pub(crate) lost: AtomicU64,
}

impl Archive {
    /// `say` writes to the log.
    ///
    /// # Errors
    /// The system cannot start a thread, or has no memory for the packer.
    pub fn open(place: Location, say: impl Fn(Level, String) + Send + 'static) -> io::Result<Archive> {
        let (seconds, wanted) = sync_channel(WAITING_MAX);
        let mut writer = Writer::new(place.clone(), say)?;
        let counters = Arc::clone(&writer.counters);
        thread::Builder::new().name("history".to_owned()).spawn(move || writer.run(&wanted))?;
        Ok(Archive { place, seconds, counters })
    }

    /// Returns false if the queue is full: the second is lost.
    pub fn add(&self, at: At, second: Vec<u8>) -> bool {
        let is_taken = self.seconds.try_send((at, second)).is_ok();
        if !is_taken {
            self.counters.lost.fetch_add(1, Ordering::Relaxed);
        }
        is_taken
    }

    #[must_use]
    pub fn written(&self) -> Written {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Written { seconds: count(&self.counters.seconds), lost: count(&self.counters.lost) }
    }
}

pub(crate) struct Writer<S> {
    place: Location,
    /// Writes to the log.
    say: S,
    file: Option<Open>,
    packer: Packer,
    /// The time of the last failure. It is in the log.
    pub(crate) failed: Option<Instant>,
    /// A second was too long, and the log has a line about it.
    was_too_long: bool,
    pub(crate) counters: Arc<Counters>,
}

impl<S: Fn(Level, String)> Writer<S> {
    pub(crate) fn new(place: Location, say: S) -> io::Result<Writer<S>> {
        Ok(Writer {
            place,
            say,
            file: None,
            packer: Packer::new()?,
            failed: None,
            was_too_long: false,
            counters: Arc::default(),
        })
    }

    pub(crate) fn run(&mut self, seconds: &Receiver<(At, Vec<u8>)>) {
        for (at, second) in seconds {
            if self.failed.is_some_and(|since| since.elapsed() < RETRY) {
                self.counters.lost.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            if !fits(&second) {
                self.counters.lost.fetch_add(1, Ordering::Relaxed);
                self.log_too_long();
                continue;
            }
            let path = self.place.path.display().to_string();
            let written = self.write(at, &second);
            let counter = if written.is_ok() { &self.counters.seconds } else { &self.counters.lost };
            counter.fetch_add(1, Ordering::Relaxed);
            match (written, self.failed) {
                (Ok(()), None) => {}
                (Ok(()), Some(_)) => {
                    (self.say)(Level::Log, format!("observer: the history is written to {path} again"));
                    self.failed = None;
                }
                (Err(error), before) => {
                    if before.is_none() {
                        let why = why(&error);
                        let text =
                            format!("observer: the history cannot be written to {path}: {why}; it is tried again");
                        (self.say)(Level::Warning, text);
                    }
                    (self.failed, self.file) = (Some(Instant::now()), None);
                }
            }
        }
    }

    fn log_too_long(&mut self) {
        let text = "observer: the history: a second has more than 4 MB and is not written to disk; others that are too long are only counted";
        if !std::mem::replace(&mut self.was_too_long, true) {
            (self.say)(Level::Warning, text.to_owned());
        }
    }

    fn write(&mut self, at: At, second: &[u8]) -> io::Result<()> {
        let path = &self.place.path;
        // Somebody may have moved the file. During an online upgrade, the other process may have retired it.
        if self.file.as_ref().is_some_and(|open| !open.is_at(path)) {
            self.file = None;
        }
        if self.file.is_none() {
            self.open(at)?;
        }
        let mut frame = self.packer.pack(at, second)?;
        let segment = self.place.size_max / SEGMENTS;
        let is_full = |open: &Open| open.len + frame.len() as u64 > segment;
        if self.file.as_ref().is_some_and(is_full) {
            retire(&self.place.path, at)?;
            self.file = None;
            self.open(at)?;
            // The new file does not have the seconds that this one was packed with.
            frame = self.packer.pack(at, second)?;
        }
        let open = self.file.as_mut().expect("it was just opened");
        open.file.write_all(&frame)?;
        open.len += frame.len() as u64;
        Ok(())
    }

    /// Opens the newest file. The next second begins a block.
    fn open(&mut self, at: At) -> io::Result<()> {
        let (path, segment) = (&self.place.path, self.place.size_max / SEGMENTS);
        let (open, moved) = open_for_writing(path)?;
        if let Some(moved) = moved {
            let (path, moved) = (path.display(), moved.display());
            let text = format!(
                "observer: another version has written the history in {path}: it is {moved} now, which is not read and may be removed"
            );
            (self.say)(Level::Warning, text);
        }
        make_room(path, self.place.size_max - segment, at)?;
        self.packer.part();
        self.file = Some(open);
        Ok(())
    }
}
