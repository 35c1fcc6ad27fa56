//! The control plane of the model world: the same console as in production. Its requests for snapshots and its answers
//! take as long as mail takes.
//!
//! ```text
//!   worker ──AskControl──► desk ──Look──► every worker ──Report──► desk: the console's answer ──Answer──► worker
//! ```
//!
//! Snapshots are compared with the world's own count of connections, and answers with the snapshots. The client must
//! get the answer byte for byte (`client/console.rs`).

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control::{
    Asker, ControlEvent, DoorFacts, EngineFacts, KnownNames, Loaded, Plane, Signal, Steward, Wanted, WorkerFacts,
};
use jiff::Zoned;
use machine::{Level, Look, Manner, Question, Settings, Snapshot, Stop};
use units::{ConnId, Serial, WorkerId};
use wire::{HEADER_LEN, Header};

/// How long until it is looked again whether servers are closed.
pub(crate) const REVIEW_US: u64 = 50_000;

type Load = Box<dyn FnMut(Wanted<'_>) -> Result<Loaded, Vec<String>>>;

/// The control plane, and the commands that wait for snapshots.
pub(crate) struct Desk {
    /// What the clock of the process showed when the world's was at 0.
    began: Instant,
    steward: Steward<Counter, Load>,
    tray: Rc<RefCell<Tray>>,
    open: VecDeque<Open>,
    next_ticket: u64,
}

/// A command, and the snapshots that have come for it so far.
pub(crate) struct Open {
    ticket: u64,
    /// `None`: it is a review.
    asked: Option<(Asker, Question)>,
    snapshots: Vec<Snapshot>,
}

/// The outcome of a command.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) answers: Vec<(Asker, Vec<u8>, bool)>,
    pub(crate) configured: Option<Arc<Settings>>,
    pub(crate) killed: Vec<(WorkerId, ConnId, Serial)>,
    /// Whose queries are to be cancelled.
    pub(crate) cancelled: Vec<(WorkerId, ConnId, Serial)>,
    pub(crate) stop: Option<Stop>,
    /// Whether clients are accepted from now on.
    pub(crate) accepts: Option<bool>,
    /// The control plane has ended.
    pub(crate) ends: bool,
}

/// What the console reads from and hands to the world.
#[derive(Debug, Default)]
struct Tray {
    snapshots: Vec<Snapshot>,
    answers: Vec<(Asker, Vec<u8>, bool)>,
    /// The settings that are to be put in force.
    configured: Option<Arc<Settings>>,
    stop: Option<Stop>,
    accepts: Option<bool>,
    killed: Vec<(WorkerId, ConnId, Serial)>,
    cancelled: Vec<(WorkerId, ConnId, Serial)>,
    /// Clients that log in.
    logins: u64,
    /// The settings that a reload will read; `None`: a mistake in the file.
    file: Option<Arc<Settings>>,
}

/// `stays`: whoever gives orders has a console, on no worker. Otherwise it is gone as soon as it has given one.
#[derive(Debug)]
struct Counter {
    tray: Rc<RefCell<Tray>>,
    stays: bool,
}

impl Plane for Counter {
    fn wall_clock(&self) -> Zoned {
        Zoned::default()
    }

    fn look(&mut self, look: Look) -> Vec<Snapshot> {
        let mut snapshots = self.tray.borrow().snapshots.clone();
        if self.stays {
            snapshots.iter_mut().filter_map(|shown| shown.suspension.as_mut()).for_each(|counts| counts.consoles += 1);
        }
        if look == Look::Pools {
            for snapshot in &mut snapshots {
                snapshot.clients.clear();
                snapshot.servers.clear();
            }
        }
        snapshots
    }

    fn counters(&mut self) -> EngineFacts {
        let door = DoorFacts { logins: self.tray.borrow().logins, ..DoorFacts::default() };
        EngineFacts { workers: vec![WorkerFacts::default()], door, ..EngineFacts::default() }
    }

    fn configure(&mut self, settings: Arc<Settings>) {
        self.tray.borrow_mut().configured = Some(settings);
    }

    fn stop(&mut self, stop: Stop) {
        self.tray.borrow_mut().stop = Some(stop);
    }

    fn accept(&mut self, accepts: bool) {
        self.tray.borrow_mut().accepts = Some(accepts);
    }

    fn kill_client(&mut self, worker: WorkerId, conn: ConnId, serial: Serial) {
        self.tray.borrow_mut().killed.push((worker, conn, serial));
    }

    fn kill_query(&mut self, worker: WorkerId, conn: ConnId, serial: Serial) {
        self.tray.borrow_mut().cancelled.push((worker, conn, serial));
    }

    fn answer(&mut self, to: Asker, bytes: Vec<u8>, close: bool) {
        self.tray.borrow_mut().answers.push((to, bytes, close));
    }

    fn give_memory_back(&mut self) {}

    fn names(&mut self) -> KnownNames {
        KnownNames::default()
    }

    fn forget_names(&mut self) {}

    fn log_lines_lost(&mut self) -> u64 {
        0
    }

    fn tell(&mut self, _level: Level, _text: String) {}
}

fn loaded(settings: Arc<Settings>) -> Loaded {
    Loaded {
        settings,
        rows: Vec::new(),
        listen_port: 6432,
        stats_period: Duration::from_secs(60),
        log_stats: false,
        warnings: Vec::new(),
    }
}

impl Desk {
    /// `stays`: see [`Counter`].
    pub(crate) fn new(settings: &Arc<Settings>, stays: bool) -> Desk {
        let tray = Rc::new(RefCell::new(Tray::default()));
        let shared = Rc::clone(&tray);
        let load: Load = Box::new(move |_| {
            let found = shared.borrow_mut().file.take();
            found.map(loaded).ok_or_else(|| vec!["a mistake".to_owned()])
        });
        let steward = Steward::new(Counter { tray: Rc::clone(&tray), stays }, load, loaded(Arc::clone(settings)));
        Desk { began: Instant::now(), steward, tray, open: VecDeque::new(), next_ticket: 0 }
    }

    /// A command has come: requests a snapshot from every worker. Returns their ticket.
    pub(crate) fn ask(&mut self, asker: Asker, question: Question) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.open.push_back(Open { ticket, asked: Some((asker, question)), snapshots: Vec::new() });
        ticket
    }

    /// It is to be looked whether servers are closed. Returns the ticket of the snapshots for that.
    pub(crate) fn ask_for_review(&mut self) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.open.push_back(Open { ticket, asked: None, snapshots: Vec::new() });
        ticket
    }

    /// Whether a command waits until servers are closed, or all is sent.
    pub(crate) fn awaits_looks(&self) -> bool {
        self.steward.awaits_looks()
    }

    /// The snapshots for a review have come, at a time in microseconds. Besides, the commands that are answered, and for which database
    /// (`None`: all).
    pub(crate) fn review(
        &mut self,
        open: &Open,
        logins: usize,
        now: u64,
    ) -> (Served, Vec<(&'static str, Option<String>)>) {
        let mut tray = self.tray.borrow_mut();
        tray.snapshots.clone_from(&open.snapshots);
        tray.logins = logins as u64;
        drop(tray);
        let answered = self.steward.review(self.began + Duration::from_micros(now));
        (self.served(false), answered)
    }

    /// New settings are in the file: the control plane reads them, and adds the orders that hold.
    pub(crate) fn read_again(&mut self, settings: &mut Arc<Settings>) {
        self.tray.borrow_mut().file = Some(Arc::clone(settings));
        self.steward.serve(ControlEvent::Signal(Signal::Hangup));
        if let Some(read) = self.served(false).configured {
            *settings = read;
        }
    }

    /// Something has happened outside.
    pub(crate) fn serve_event(&mut self, event: ControlEvent) -> Served {
        self.steward.serve(event);
        self.served(false)
    }

    /// Runs a command with these snapshots. `file`: the settings that a reload would read.
    pub(crate) fn serve_at_once(
        &mut self,
        asker: Asker,
        question: Question,
        snapshots: Vec<Snapshot>,
        file: &Arc<Settings>,
    ) -> Served {
        let open = Open { ticket: 0, asked: Some((asker, question)), snapshots };
        self.serve(&open, Some(Arc::clone(file)))
    }

    /// A worker's snapshot has come. Returns the command once all have come.
    pub(crate) fn report(&mut self, ticket: u64, snapshot: Snapshot, workers: usize) -> Option<Open> {
        let at = self.open.iter().position(|open| open.ticket == ticket)?;
        let open = &mut self.open[at];
        open.snapshots.push(snapshot);
        if open.snapshots.len() < workers {
            return None;
        }
        self.open.remove(at)
    }

    /// Runs a command. `file`: the settings that a reload will read.
    pub(crate) fn serve(&mut self, open: &Open, file: Option<Arc<Settings>>) -> Served {
        self.tray.borrow_mut().file = file;
        let Some((asker, question)) = open.asked.clone() else { return self.served(false) };
        // They are from before the command: for what comes of it, it is looked again.
        let snapshots = if open.waits() { Vec::new() } else { open.snapshots.clone() };
        self.tray.borrow_mut().snapshots = snapshots;
        let ending = self.steward.serve(ControlEvent::Asked { asker, question });
        self.served(ending.is_some())
    }

    fn served(&self, ends: bool) -> Served {
        let Tray { answers, configured, stop, killed, cancelled, accepts, .. } =
            std::mem::take(&mut *self.tray.borrow_mut());
        Served { answers, configured, stop, killed, cancelled, accepts, ends }
    }
}

impl Open {
    /// Whether it is RELOAD.
    pub(crate) fn asks_reload(&self) -> bool {
        self.text().eq_ignore_ascii_case("reload")
    }

    pub(crate) fn is_review(&self) -> bool {
        self.asked.is_none()
    }

    /// Whether it is PAUSE, SUSPEND or WAIT_CLOSE.
    fn waits(&self) -> bool {
        let text = self.text().to_ascii_lowercase();
        ["pause", "suspend", "wait_close"].iter().any(|word| text.starts_with(word))
    }

    pub(crate) fn is_by_an_admin(&self) -> bool {
        self.asked.as_ref().is_some_and(|(_, question)| question.admin)
    }

    /// The command that is to be run; empty if one is only read.
    pub(crate) fn text(&self) -> String {
        let is_run = |(_, question): &&(Asker, Question)| !matches!(question.manner, Manner::Describe { .. });
        let asked = self.asked.as_ref().filter(is_run);
        asked.map(|(_, question)| String::from_utf8_lossy(&question.text).into_owned()).unwrap_or_default()
    }

    /// Checks an answer against the snapshots, if it is a table with counts.
    pub(crate) fn agrees(&self, bytes: &[u8]) -> Result<(), String> {
        // A table without its columns is compared by the client.
        if self.asked.as_ref().is_some_and(|(_, question)| question.manner != Manner::Query) {
            return Ok(());
        }
        let text = self.text().trim_end_matches(';').trim().to_ascii_lowercase();
        let Some(table) = Shown::read(bytes)? else { return Ok(()) };
        let clients: usize = self.snapshots.iter().map(|snapshot| snapshot.clients.len()).sum();
        let servers: usize = self.snapshots.iter().map(|snapshot| snapshot.servers.len()).sum();
        let counts: &[(usize, usize)] = match text.as_str() {
            "show clients" => &[(table.rows.len(), clients)],
            "show servers" => &[(table.rows.len(), servers)],
            "show pools" => &[(table.sum(|name| name.starts_with("sv_") && name != "sv_active_cancel")?, servers)],
            "show lists" => &[(table.item("used_clients")?, clients), (table.item("used_servers")?, servers)],
            _ => &[],
        };
        match counts.iter().find(|(shown, there)| shown != there) {
            Some((shown, there)) => Err(format!("{text} shows {shown}, and {there} were seen: {table:?}")),
            None => Ok(()),
        }
    }
}

/// A table read from its wire messages.
#[derive(Debug, Default)]
struct Shown {
    columns: Vec<String>,
    rows: Vec<Vec<Option<String>>>,
}

impl Shown {
    /// Reads an answer; `None`: it is no table. Each row must have a value for each column, and the last message must
    /// be ReadyForQuery.
    fn read(bytes: &[u8]) -> Result<Option<Shown>, String> {
        let mut shown = Shown::default();
        let (mut at, mut last) = (0, 0);
        while at < bytes.len() {
            let header = Header::parse(&bytes[at..]).map_err(|error| error.to_string())?.ok_or("half a header")?;
            let body = bytes.get(at + HEADER_LEN..at + header.total_len()).ok_or("half a message")?;
            match header.tag {
                b'T' => shown.columns = columns(body).ok_or("a RowDescription that is none")?,
                b'D' => shown.rows.push(values(body).ok_or("a DataRow that is none")?),
                _ => {}
            }
            (at, last) = (at + header.total_len(), header.tag);
        }
        if last != b'Z' {
            return Err("an answer does not end with ReadyForQuery".to_owned());
        }
        if shown.rows.iter().any(|row| row.len() != shown.columns.len()) {
            return Err(format!("rows do not fit their columns: {shown:?}"));
        }
        Ok((!shown.columns.is_empty()).then_some(shown))
    }

    /// The sum of all values in these columns.
    fn sum(&self, which: impl Fn(&str) -> bool) -> Result<usize, String> {
        let mut sum = 0;
        for row in &self.rows {
            for (_, value) in self.columns.iter().zip(row).filter(|(name, _)| which(name)) {
                let number = value.as_deref().and_then(|value| value.parse::<usize>().ok());
                sum += number.ok_or_else(|| format!("not a number: {value:?}"))?;
            }
        }
        Ok(sum)
    }

    /// The second value of the row whose first value is `name`.
    fn item(&self, name: &str) -> Result<usize, String> {
        let row = self.rows.iter().find(|row| row.first().is_some_and(|first| first.as_deref() == Some(name)));
        let value = row.and_then(|row| row.get(1)?.as_deref()?.parse().ok());
        value.ok_or_else(|| format!("no row {name}"))
    }
}

fn columns(body: &[u8]) -> Option<Vec<String>> {
    let count = u16::from_be_bytes(*body.first_chunk()?);
    let mut rest = &body[2..];
    let mut columns = Vec::new();
    for _ in 0..count {
        let (name, after) = wire::cstr(rest)?;
        columns.push(String::from_utf8_lossy(name).into_owned());
        rest = after.get(18..)?;
    }
    rest.is_empty().then_some(columns)
}

fn values(body: &[u8]) -> Option<Vec<Option<String>>> {
    let count = u16::from_be_bytes(*body.first_chunk()?);
    let mut rest = &body[2..];
    let mut values = Vec::new();
    for _ in 0..count {
        let len = i32::from_be_bytes(*rest.first_chunk()?);
        rest = &rest[4..];
        let Ok(len) = usize::try_from(len) else {
            values.push(None);
            continue;
        };
        values.push(Some(String::from_utf8_lossy(rest.get(..len)?).into_owned()));
        rest = &rest[len..];
    }
    rest.is_empty().then_some(values)
}
