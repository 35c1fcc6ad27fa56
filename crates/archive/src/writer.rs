//! The thread that writes.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use activity::At;
use activity::history::packed::Packer;
use machine::Level;

use crate::segments::{Open, SEGMENTS, make_room, open_for_writing, retire};
use crate::{Location, why};

/// What waits for the disk, at most; the rest is lost.
const WAITING_MAX: usize = 16;

/// The pause after a failure.
pub(crate) const RETRY: Duration = Duration::from_secs(30);

/// The files, as the one who observes sees them. The thread ends with this.
pub struct Archive {
    pub place: Location,
    seconds: SyncSender<(At, Vec<u8>)>,
    counters: Arc<Counters>,
}

/// Seconds since it was opened.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub seconds: u64,
    /// The disk was behind, or nothing could be written.
    pub lost: u64,
}

#[derive(Default)]
pub(crate) struct Counters {
    seconds: AtomicU64,
    lost: AtomicU64,
}

impl Archive {
    /// `say`: to the log.
    ///
    /// # Errors
    /// There is no thread for it.
    pub fn open(place: Location, say: impl Fn(Level, String) + Send + 'static) -> io::Result<Archive> {
        let (seconds, wanted) = sync_channel(WAITING_MAX);
        let mut writer = Writer::new(place.clone(), say)?;
        let counters = Arc::clone(&writer.counters);
        thread::Builder::new().name("history".to_owned()).spawn(move || writer.run(&wanted))?;
        Ok(Archive { place, seconds, counters })
    }

    /// Whether it is taken: not if the disk is behind.
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
    /// To the log.
    say: S,
    file: Option<Open>,
    packer: Packer,
    /// It has been said.
    pub(crate) failed: Option<Instant>,
    pub(crate) counters: Arc<Counters>,
}

impl<S: Fn(Level, String)> Writer<S> {
    pub(crate) fn new(place: Location, say: S) -> io::Result<Writer<S>> {
        Ok(Writer { place, say, file: None, packer: Packer::new()?, failed: None, counters: Arc::default() })
    }

    pub(crate) fn run(&mut self, seconds: &Receiver<(At, Vec<u8>)>) {
        for (at, second) in seconds {
            if self.failed.is_some_and(|since| since.elapsed() < RETRY) {
                self.counters.lost.fetch_add(1, Ordering::Relaxed);
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

    fn write(&mut self, at: At, second: &[u8]) -> io::Result<()> {
        let path = &self.place.path;
        // It may have been moved away, by another process of ours too.
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
            // It stands in another file than what it was packed with.
            frame = self.packer.pack(at, second)?;
        }
        let open = self.file.as_mut().expect("it was just opened");
        open.file.write_all(&frame)?;
        open.len += frame.len() as u64;
        Ok(())
    }

    /// What is added begins a block.
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
