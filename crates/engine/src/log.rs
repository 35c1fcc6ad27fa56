//! The log: lines in PgBouncer's shape, written by a thread of its own.
//!
//! ```text
//! 2026-11-21 04:12:00.123 UTC [4711] LOG C-0x1000000000001: shop/alice@127.0.0.1:5123 closing because: ... (age=3s)
//! ```
//!
//! A log that blocks (a stopped terminal) or fails (a full disk) never stops the service: lines beyond
//! [`QUEUE_LEN_MAX`] and lines that cannot be written are dropped and counted, and the count is logged when it works
//! again. A file is opened anew even if the queue is full. Lines are collected for some milliseconds ([`REST`]) before
//! they are written. What a line looks like is in `log_line`.
//!
//! Scripts and tests of PgBouncer's look into the log as soon as they have an error, so a thread that sends one to a client waits
//! until its lines are written ([`Log::wait_until_written`]), for a small part of its time at most ([`Patience`]).
//!
//! It does not decide what is logged.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::Thread;
use std::time::Duration;

use jiff::tz::TimeZone;
use machine::{About, Fact, Level, LogFilter, Topic};
use units::Time;

use crate::clock::Clock;
use crate::log_line::LogLine;
use crate::options::LogOptions;
use crate::syslog::Syslog;

/// Lines that may wait for the writer.
const QUEUE_LEN_MAX: usize = 8192;

/// How long the writer sleeps when it has emptied its queue. Meanwhile senders need not wake it, which in a storm of
/// logins would cost more than the line itself.
const REST: Duration = Duration::from_millis(5);

/// A thread waits for the log for [`PATIENCE`] at most in each [`PATIENCE_WINDOW`]: a twentieth of its time, even while the log is blocked.
const PATIENCE: Duration = Duration::from_millis(5);
const PATIENCE_WINDOW: Duration = Duration::from_millis(100);

/// About how much is written at once.
const PAGE_LEN: usize = 64 << 10;

/// How long a stopping process waits for its last lines to be written.
const FLUSH: Duration = Duration::from_secs(1);

const DEBUG: u8 = 1;
const CONNECTIONS: u8 = 2;
const DISCONNECTIONS: u8 = 4;
const POOLER_ERRORS: u8 = 8;

/// The sender of log lines. It can be cloned freely.
#[derive(Clone)]
pub struct Log {
    lines: Sender<Line>,
    state: Arc<State>,
    clock: Clock,
    /// The thread that writes. A thread that waits for a line wakes it.
    writer: Thread,
}

/// How long one thread has waited for the log in the present window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Patience {
    window_began: Time,
    spent: Duration,
}

impl Patience {
    /// How long the thread may wait now.
    fn left(&mut self, now: Time) -> Duration {
        if now.since(self.window_began) >= PATIENCE_WINDOW {
            *self = Patience { window_began: now, spent: Duration::ZERO };
        }
        PATIENCE.saturating_sub(self.spent)
    }
}

#[derive(Default)]
struct State {
    switches: AtomicU8,
    /// Lines in the channel. The channel itself has no bound, since a bounded one would take a megabyte from the start.
    queued: AtomicUsize,
    dropped: AtomicU64,
    /// All lines that were lost, for any reason.
    lost: AtomicU64,
}

enum Line {
    Fact(Time, Fact),
    Reopen(LogOptions),
    Flush(SyncSender<()>),
}

impl Log {
    /// Opens the file and starts the thread, which ends when the last `Log` is dropped.
    ///
    /// # Errors
    /// The system's, if the file cannot be opened or no thread can be had.
    pub(crate) fn start(options: &LogOptions, clock: Clock) -> io::Result<Log> {
        let file = options.file.as_ref().map(|path| open(path)).transpose()?;
        let state = Arc::new(State { switches: AtomicU8::new(switches(options)), ..State::default() });
        let (lines, queue) = channel();
        let writer = Writer {
            queue,
            state: Arc::clone(&state),
            clock,
            zone: TimeZone::system(),
            pid: std::process::id(),
            syslog: options.syslog.clone().map(Syslog::new),
            options: options.clone(),
            file,
            page: String::new(),
            unwritten: 0,
            torn: false,
        };
        let thread = std::thread::Builder::new().name("log".to_owned()).spawn(move || writer.run())?;
        Ok(Log { lines, state, clock, writer: thread.thread().clone() })
    }

    /// Writes one line where a log with these options would, for whoever ends before it has one. It may be that there is no such place, which
    /// nobody could be told.
    pub fn say_once(options: &LogOptions, level: Level, text: &str) {
        if let Ok(log) = Log::start(options, Clock::start()) {
            log.say(level, text);
            log.flush();
        }
    }

    /// Writes a fact with its time, if its topic and level are on. Never waits.
    pub(crate) fn tell(&self, now: Time, fact: Fact) {
        if self.logs(fact.level, fact.topic) {
            self.put(Line::Fact(now, fact));
        }
    }

    /// Writes a line about the process itself.
    pub fn say(&self, level: Level, text: impl Into<String>) {
        let fact = Fact::new(level, Topic::General, About::Pooler, text.into());
        self.tell(self.clock.now(), fact);
    }

    fn logs(&self, level: Level, topic: Topic) -> bool {
        self.filter().passes(level, topic)
    }

    /// The same as [`Log::filter`], to be compared.
    #[inline]
    pub(crate) fn switches(&self) -> u8 {
        self.state.switches.load(Ordering::Relaxed)
    }

    /// Which lines are written now.
    pub(crate) fn filter(&self) -> LogFilter {
        let switches = self.switches();
        let on = |switch| switches & switch != 0;
        LogFilter {
            connections: on(CONNECTIONS),
            disconnections: on(DISCONNECTIONS),
            pooler_errors: on(POOLER_ERRORS),
            debug: on(DEBUG),
        }
    }

    fn put(&self, line: Line) {
        if self.state.queued.fetch_add(1, Ordering::Relaxed) >= QUEUE_LEN_MAX || self.lines.send(line).is_err() {
            self.state.queued.fetch_sub(1, Ordering::Relaxed);
            self.state.dropped.fetch_add(1, Ordering::Relaxed);
            self.state.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sends a command to the writer. There are few, and none may be lost.
    fn insist(&self, line: Line) {
        self.state.queued.fetch_add(1, Ordering::Relaxed);
        if self.lines.send(line).is_err() {
            self.state.queued.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Changes what is written and where, and opens the file anew, so that a rotated one is closed.
    pub fn reopen(&self, options: &LogOptions) {
        self.state.switches.store(switches(options), Ordering::Relaxed);
        self.insist(Line::Reopen(options.clone()));
    }

    /// Lines that were dropped because the queue was full, and that the log has not mentioned yet.
    #[must_use]
    #[cfg(test)]
    fn dropped(&self) -> u64 {
        self.state.dropped.load(Ordering::Relaxed)
    }

    /// Lines that were lost since the start: the queue was full, or the file could not be written.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.state.lost.load(Ordering::Relaxed)
    }

    /// Waits until all earlier lines are written, at most a second.
    pub fn flush(&self) {
        // A timeout means that the log is blocked: its lines are lost, and the process ends anyway.
        let _ = self.flush_within(FLUSH);
    }

    /// Waits until all earlier lines are written, at most for `patience`. Returns whether they are written.
    fn flush_within(&self, patience: Duration) -> bool {
        let (done, wait) = sync_channel(1);
        self.insist(Line::Flush(done));
        self.writer.unpark();
        wait.recv_timeout(patience).is_ok()
    }

    /// Waits until all earlier lines are written, or until the caller's patience is at its end.
    pub(crate) fn wait_until_written(&self, patience: &mut Patience) {
        let began = self.clock.now();
        let left = patience.left(began);
        // A log that is blocked for days must not collect requests.
        let has_room = self.state.queued.load(Ordering::Relaxed) < QUEUE_LEN_MAX;
        if has_room && !left.is_zero() {
            self.flush_within(left);
            patience.spent += self.clock.now().since(began);
        }
    }
}

fn switches(options: &LogOptions) -> u8 {
    let of = |on: bool, switch: u8| if on { switch } else { 0 };
    of(options.debug, DEBUG)
        | of(options.log_connections, CONNECTIONS)
        | of(options.log_disconnections, DISCONNECTIONS)
        | of(options.log_pooler_errors, POOLER_ERRORS)
}

fn open(path: &std::path::Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

struct Writer {
    queue: Receiver<Line>,
    state: Arc<State>,
    clock: Clock,
    zone: TimeZone,
    pid: u32,
    options: LogOptions,
    file: Option<File>,
    syslog: Option<Syslog>,
    /// Lines to be written together.
    page: String,
    /// Lines that could not be written to the file, and that it has not mentioned yet.
    unwritten: u64,
    /// The file ends with a part of a line.
    torn: bool,
}

impl Writer {
    fn run(mut self) {
        while let Ok(line) = self.queue.recv() {
            self.take(line);
            while let Ok(line) = self.queue.try_recv() {
                self.take(line);
            }
            self.turn_page();
            std::thread::park_timeout(REST);
        }
    }

    fn take(&mut self, line: Line) {
        self.state.queued.fetch_sub(1, Ordering::Relaxed);
        match line {
            Line::Fact(time, fact) => self.write(time, &fact),
            Line::Reopen(options) => self.reopen(options),
            Line::Flush(done) => {
                self.turn_page();
                let _ = done.try_send(());
            }
        }
        self.mention_dropped();
        if self.page.len() >= PAGE_LEN {
            self.turn_page();
        }
    }

    fn mention_dropped(&mut self) {
        if self.state.dropped.load(Ordering::Relaxed) == 0 {
            return;
        }
        let dropped = self.state.dropped.swap(0, Ordering::Relaxed);
        self.own(Level::Warning, format!("{dropped} log lines were lost because the log was blocked"));
    }

    fn own(&mut self, level: Level, text: String) {
        let fact = Fact::new(level, Topic::General, About::Pooler, text);
        self.write(self.clock.now(), &fact);
    }

    fn reopen(&mut self, options: LogOptions) {
        self.turn_page();
        let opened = options.file.as_ref().map(|path| open(path)).transpose();
        if self.options.syslog != options.syslog {
            self.syslog = options.syslog.clone().map(Syslog::new);
        }
        let before = std::mem::replace(&mut self.options, options);
        match opened {
            Ok(file) => self.file = file,
            // The old file stays in use: a line in a rotated file is better than none.
            Err(error) => {
                self.own(Level::Error, format!("could not open the log file, going on with the old one: {error}"));
                self.options.file = before.file;
            }
        }
    }

    fn write(&mut self, time: Time, fact: &Fact) {
        let moment = self.clock.on_the_wall(time).to_zoned(self.zone.clone());
        let line = LogLine { moment: &moment, pid: self.pid, fact, port: self.options.port };
        line.write(self.options.format, &mut self.page);
        let lost = self.syslog.as_mut().and_then(|syslog| {
            // It adds the time and the process itself.
            syslog.send(fact.level, &moment, self.pid, &line.words())
        });
        if let Some(error) = lost {
            // This goes to the file and to standard error. If syslog loses it too, that is not reported again.
            self.own(Level::Warning, format!("syslog cannot be reached: {error}"));
        }
    }

    fn turn_page(&mut self) {
        self.write_file();
        if self.options.stderr {
            let _ = io::stderr().write_all(self.page.as_bytes());
        }
        self.page.clear();
    }
}

impl Writer {
    /// Writes the page to the file. Lines that could not be written are mentioned when writing works again.
    fn write_file(&mut self) {
        let Some(file) = &mut self.file else { return };
        if self.page.is_empty() {
            return;
        }
        let begin = if self.torn { "\n" } else { "" };
        let mention = match self.unwritten {
            0 => String::new(),
            count => {
                let moment = self.clock.on_the_wall(self.clock.now()).to_zoned(self.zone.clone());
                let text = format!("{count} log lines were lost because the log file could not be written");
                let fact = Fact::new(Level::Warning, Topic::General, About::Pooler, text);
                let line = LogLine { moment: &moment, pid: self.pid, fact: &fact, port: self.options.port };
                let mut mention = String::new();
                line.write(self.options.format, &mut mention);
                mention
            }
        };
        let bytes = [begin, &mention, &self.page].concat().into_bytes();
        let (mut written, mut failed) = (0, false);
        while written < bytes.len() && !failed {
            match file.write(&bytes[written..]) {
                Ok(0) => failed = true,
                Ok(count) => written += count,
                Err(error) => failed = error.kind() != io::ErrorKind::Interrupted,
            }
        }
        if written > 0 {
            self.torn = bytes[written - 1] != b'\n';
        }
        let head = begin.len() + mention.len();
        if written >= head {
            self.unwritten = 0;
        }
        let lost = bytes[written.max(head)..].iter().filter(|&&byte| byte == b'\n').count() as u64;
        self.unwritten += lost;
        self.state.lost.fetch_add(lost, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use machine::Peer;
    use units::ConnId;

    use super::*;

    /// Waits until all is written, for longer than that takes anywhere.
    fn written(log: &Log) {
        assert!(log.flush_within(Duration::from_secs(120)), "the log is blocked");
    }

    fn client(name: &str) -> About {
        let address = |text: &str| text.parse().expect("an address");
        let peer = Peer::Tcp { from: address("[::1]:5123"), to: address("[::1]:6432") };
        let (conn, name_of) = (ConnId::from_bits(0x9999), ConnId::from_bits(0x1234));
        About::Client { conn, name: name_of, database: Some(name.into()), user: None, peer, application: None }
    }

    #[test]
    fn lines_reach_the_file_and_topics_obey_their_switches() {
        let dir = std::env::temp_dir().join(format!("engine-log-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a temporary directory");
        let path = dir.join("pgweir.log");
        let mut options =
            LogOptions { file: Some(path.clone()), stderr: false, log_connections: false, ..LogOptions::default() };
        let log = Log::start(&options, Clock::start()).expect("a file in a fresh directory");
        let fact = |topic, text: &str| Fact::new(Level::Log, topic, client("db"), text.to_owned());
        log.tell(Time(1), fact(Topic::Connections, "unseen"));
        log.tell(Time(1), fact(Topic::General, "seen"));
        log.say(Level::Debug, "unseen too");
        written(&log);
        std::fs::rename(&path, dir.join("old")).expect("rotated");
        options.log_connections = true;
        options.debug = true;
        log.reopen(&options);
        log.tell(log.clock.now(), fact(Topic::Connections, "now it is"));
        written(&log);
        let old = std::fs::read_to_string(dir.join("old")).expect("the first file");
        let new = std::fs::read_to_string(&path).expect("the second file");
        std::fs::remove_dir_all(&dir).expect("our own directory");
        assert_eq!(old.lines().count(), 1, "{old}");
        assert!(old.ends_with("LOG C-0x1234: db/(nouser)@[::1]:5123 seen\n"), "{old}");
        assert!(new.ends_with("now it is\n") && new.lines().count() == 1, "{new}");
    }

    /// `/dev/full` refuses every write, like a full disk.
    #[test]
    fn lines_that_a_full_disk_refuses_are_counted_and_mentioned() {
        let dir = std::env::temp_dir().join(format!("engine-log-full-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a temporary directory");
        let path = dir.join("pgweir.log");
        std::os::unix::fs::symlink("/dev/full", &path).expect("a fresh directory");
        let options = LogOptions { file: Some(path.clone()), stderr: false, ..LogOptions::default() };
        let log = Log::start(&options, Clock::start()).expect("/dev/full can be opened");
        for text in ["first", "second", "third"] {
            log.say(Level::Log, text);
            written(&log);
        }
        assert_eq!(log.lost(), 3);
        std::fs::remove_file(&path).expect("ours");
        log.reopen(&options);
        log.say(Level::Log, "there is room again");
        written(&log);
        let text = std::fs::read_to_string(&path).expect("it was opened anew");
        std::fs::remove_dir_all(&dir).expect("our own directory");
        let ends: Vec<&str> = text.lines().map(|line| line.split_once("] ").expect("a process id").1).collect();
        let lost = "WARNING 3 log lines were lost because the log file could not be written";
        assert_eq!(ends, [lost, "LOG there is room again"]);
    }

    #[test]
    fn a_full_queue_does_not_keep_the_file_from_being_opened_anew() {
        let dir = std::env::temp_dir().join(format!("engine-log-rotation-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a temporary directory");
        let path = dir.join("pgweir.log");
        let options = LogOptions { file: Some(path.clone()), stderr: false, ..LogOptions::default() };
        let log = Log::start(&options, Clock::start()).expect("a file in a fresh directory");
        written(&log);
        std::fs::rename(&path, dir.join("old")).expect("rotated");
        // As if so many lines were waiting.
        log.state.queued.fetch_add(QUEUE_LEN_MAX, Ordering::Relaxed);
        log.say(Level::Log, "lost");
        log.reopen(&options);
        written(&log);
        log.state.queued.fetch_sub(QUEUE_LEN_MAX, Ordering::Relaxed);
        assert!(path.exists(), "it was opened anew");
        assert_eq!(log.lost(), 1);
        std::fs::remove_dir_all(&dir).expect("our own directory");
    }

    #[test]
    fn a_blocked_log_takes_a_twentieth_of_a_threads_time() {
        // Nothing reads the queue.
        let (lines, _queue) = channel();
        let log = Log { lines, state: Arc::default(), clock: Clock::start(), writer: std::thread::current() };
        let mut patience = Patience::default();
        log.wait_until_written(&mut patience);
        assert!(patience.spent >= PATIENCE);
        let began = patience.window_began;
        assert_eq!(patience.left(began + PATIENCE_WINDOW / 2), Duration::ZERO, "it has waited in this window");
        assert_eq!(patience.left(began + PATIENCE_WINDOW), PATIENCE, "the next window");
    }

    #[test]
    fn lines_reach_syslog_without_time_and_level() {
        let dir = std::env::temp_dir().join(format!("engine-log-syslog-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a temporary directory");
        let path = dir.join("socket");
        let receiver = std::os::unix::net::UnixDatagram::bind(&path).expect("a fresh directory");
        let mut options = LogOptions { stderr: false, ..LogOptions::default() };
        let log = Log::start(&options, Clock::start()).expect("no file to open");
        let facility = crate::Facility::DAEMON;
        options.syslog = Some(crate::SyslogOptions { path, ident: "weir".to_owned(), facility });
        log.reopen(&options);
        let fact = Fact::new(Level::Warning, Topic::General, client("db"), "a\nb".to_owned());
        log.tell(Time(1), fact);
        written(&log);
        let mut buffer = [0; 200];
        receiver.set_nonblocking(true).expect("a socket");
        let count = receiver.recv(&mut buffer).expect("flushed");
        std::fs::remove_dir_all(&dir).expect("our own directory");
        let text = String::from_utf8_lossy(&buffer[..count]);
        let tail = format!(" weir[{}]: C-0x1234: db/(nouser)@[::1]:5123 a?b", std::process::id());
        assert!(text.starts_with("<28>") && text.ends_with(&tail), "{text}");
    }

    #[test]
    fn a_full_queue_drops_and_counts() {
        // Nothing reads the queue.
        let (lines, queue) = channel();
        let log = Log { lines, state: Arc::default(), clock: Clock::start(), writer: std::thread::current() };
        for _ in 0..=QUEUE_LEN_MAX {
            log.say(Level::Log, "a line");
        }
        assert_eq!((log.dropped(), queue.iter().take(QUEUE_LEN_MAX).count()), (1, QUEUE_LEN_MAX));
    }
}
