//! The control plane of the model world: the very same console as in production, its looks and answers on their way for
//! as long as mail takes.
//!
//! ```text
//!   worker ──AskControl──► desk ──Look──► every worker ──Report──► desk: the console's answer ──Answer──► worker
//! ```
//!
//! What a look shows is compared with what the world knows of connections, what an answer shows with the looks; the client
//! that asked must be sent that answer, byte for byte (`client/console.rs`).

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use control::{Asker, Knock, Loaded, Plane, Steward, WorkerFacts};
use jiff::Zoned;
use pooling::{Level, Mail, Place, Question, Settings, Snapshot, Stop, ToWorker};
use units::{ConnId, Kind};
use wire::{HEADER_LEN, Header};

use crate::network::Peer;
use crate::rounds::Letter;
use crate::world::{Stage, World};

type Load = Box<dyn FnMut() -> Result<Loaded, Vec<String>>>;

/// The control plane, and the questions that it looks at workers for.
pub(crate) struct Desk {
    steward: Steward<Counter, Load>,
    tray: Rc<RefCell<Tray>>,
    open: VecDeque<Open>,
    next_ticket: u64,
}

/// A question, and what was seen for it so far.
struct Open {
    ticket: u64,
    asker: Asker,
    question: Question,
    snapshots: Vec<Snapshot>,
}

/// What goes over the counter between the console and the world.
#[derive(Debug, Default)]
struct Tray {
    snapshots: Vec<Snapshot>,
    answers: Vec<(Asker, Vec<u8>, bool)>,
    configured: bool,
    stop: Option<Stop>,
    /// What a reload will find; `None`: a mistake in the file.
    file: Option<Arc<Settings>>,
}

#[derive(Debug)]
struct Counter(Rc<RefCell<Tray>>);

impl Plane for Counter {
    fn wall_clock(&self) -> Zoned {
        Zoned::default()
    }

    fn look(&mut self, detail: bool) -> Vec<Snapshot> {
        let mut snapshots = self.0.borrow().snapshots.clone();
        if !detail {
            for snapshot in &mut snapshots {
                snapshot.clients.clear();
                snapshot.servers.clear();
            }
        }
        snapshots
    }

    fn workers(&mut self) -> Vec<WorkerFacts> {
        vec![WorkerFacts::default()]
    }

    fn turned_away(&mut self) -> u64 {
        0
    }

    fn configure(&mut self, _settings: Arc<Settings>) {
        self.0.borrow_mut().configured = true;
    }

    fn stop(&mut self, stop: Stop) {
        self.0.borrow_mut().stop = Some(stop);
    }

    fn answer(&mut self, to: Asker, bytes: Vec<u8>, close: bool) {
        self.0.borrow_mut().answers.push((to, bytes, close));
    }

    fn give_memory_back(&mut self) {}

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
    pub(crate) fn new(settings: &Arc<Settings>) -> Desk {
        let tray = Rc::new(RefCell::new(Tray::default()));
        let shared = Rc::clone(&tray);
        let load: Load = Box::new(move || {
            let found = shared.borrow_mut().file.take();
            found.map(loaded).ok_or_else(|| vec!["a mistake".to_owned()])
        });
        let steward = Steward::new(Counter(Rc::clone(&tray)), load, loaded(Arc::clone(settings)));
        Desk { steward, tray, open: VecDeque::new(), next_ticket: 0 }
    }
}

impl World {
    /// A console client has asked something: every worker is looked at first.
    pub(crate) fn asked(&mut self, node: u16, conn: ConnId, question: Question) {
        let Place::Worker(worker) = self.nodes[usize::from(node)].place else { return };
        self.census.console_questions += 1;
        let link = self.nodes[usize::from(node)].find(conn).and_then(|id| self.network.get(id));
        if let Some(Peer::Client(index, number)) = link.map(|link| link.peer)
            && let Some(client) = self.clients[index as usize].as_mut().filter(|client| client.number == number)
            && let Err((invariant, text)) = client.is_asking(&question)
        {
            return self.fail(invariant, text);
        }
        let ticket = self.desk.next_ticket;
        self.desk.next_ticket += 1;
        let asker = Asker { worker, conn };
        self.desk.open.push_back(Open { ticket, asker, question, snapshots: Vec::new() });
        for node in 0..self.nodes.len() as u16 {
            if let Place::Worker(worker) = self.nodes[usize::from(node)].place {
                self.mail_from_desk(node, Mail::ToWorker(worker, ToWorker::Look { ticket, detail: true }));
            }
        }
    }

    fn mail_from_desk(&mut self, node: u16, mail: Mail) {
        let late = if self.random.chance(20) { 50_000 } else { 300 };
        // In order, as in any mailbox.
        let last = self.posted.entry((node, node)).or_default();
        *last = (*last).max(self.now + self.random.range(1, late));
        let at = *last;
        self.deliver(node, Letter { from: node, at, mail, carrying: None, returned: false });
    }

    /// A worker shows itself: it must show what the world knows of it.
    pub(crate) fn reported(&mut self, node: u16, ticket: u64, snapshot: Snapshot) {
        let entry = &self.nodes[usize::from(node)];
        let place = entry.place;
        let mut shown =
            snapshot.clients.iter().map(|client| client.conn).chain(snapshot.servers.iter().map(|server| server.conn));
        if let Some(stranger) = shown.find(|&conn| entry.find(conn).is_none()) {
            return self.fail(12, format!("{place:?} shows {stranger:?}, which is not there"));
        }
        // Clients that only take their last words are not shown.
        let (servers, there) = (snapshot.servers.len(), entry.count(Kind::Server));
        if servers != there {
            return self.fail(12, format!("{place:?} shows {servers} servers, there are {there}"));
        }
        let workers = usize::from(self.plan.workers);
        let Some(open) = self.desk.open.iter_mut().find(|open| open.ticket == ticket) else { return };
        open.snapshots.push(snapshot);
        if open.snapshots.len() < workers {
            return;
        }
        let Some(at) = self.desk.open.iter().position(|open| open.ticket == ticket) else { return };
        if let Some(open) = self.desk.open.remove(at) {
            self.answer(open);
        }
    }

    fn answer(&mut self, open: Open) {
        let mut random = self.random.clone();
        let before = Arc::clone(&self.plan.settings);
        let asks_reload = String::from_utf8_lossy(&open.question.text).eq_ignore_ascii_case("reload");
        let reloads = asks_reload && self.stage == Stage::Working && random.chance(500);
        if reloads {
            self.plan.reload(&mut random);
            self.desk.tray.borrow_mut().file = Some(Arc::clone(&self.plan.settings));
        }
        self.random = random;
        self.desk.tray.borrow_mut().snapshots.clone_from(&open.snapshots);
        let knock = Knock::Asked { asker: open.asker, question: open.question.clone() };
        let ending = self.desk.steward.serve(knock);
        let tray = std::mem::take(&mut *self.desk.tray.borrow_mut());
        if reloads && !tray.configured {
            // Whoever may only look asked for it.
            self.plan.settings = before;
            self.plan.past.pop();
        }
        if tray.configured {
            self.plan.reloads += 1;
            if reloads {
                self.checks.reloaded_at.push(self.now);
            }
            self.spread_settings();
        }
        // At closing time the operator has already said how it ends.
        if let Some(stop) = tray.stop.filter(|_| self.stage == Stage::Working) {
            self.census.console_stops += 1;
            self.plan.stop = Some(stop);
            if ending.is_none() {
                self.close_for_good();
            }
        }
        for (asker, bytes, close) in tray.answers {
            if let Err(text) = agrees(&open, &bytes) {
                return self.fail(12, text);
            }
            self.hand_over(asker, bytes, close);
        }
    }

    /// The client that asked learns from its twin at the desk what it will be sent.
    fn hand_over(&mut self, asker: Asker, bytes: Vec<u8>, close: bool) {
        let Some(node) = self.nodes.iter().position(|node| node.place == Place::Worker(asker.worker)) else { return };
        let link = self.nodes[node].find(asker.conn).and_then(|id| self.network.get(id));
        if let Some(Peer::Client(index, number)) = link.map(|link| link.peer)
            && let Some(client) = self.clients[index as usize].as_mut().filter(|client| client.number == number)
        {
            client.expect_answer(&bytes);
        }
        let answer = ToWorker::Answer { conn: asker.conn, bytes, close };
        self.mail_from_desk(node as u16, Mail::ToWorker(asker.worker, answer));
    }
}

/// Whether an answer is a table that shows what was looked at, if it is one of those that count.
fn agrees(open: &Open, bytes: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(&open.question.text).trim_end_matches(';').trim().to_ascii_lowercase();
    let Some(table) = Shown::read(bytes)? else { return Ok(()) };
    let clients: usize = open.snapshots.iter().map(|snapshot| snapshot.clients.len()).sum();
    let servers: usize = open.snapshots.iter().map(|snapshot| snapshot.servers.len()).sum();
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

/// A table as the wire has it.
#[derive(Debug, Default)]
struct Shown {
    columns: Vec<String>,
    rows: Vec<Vec<Option<String>>>,
}

impl Shown {
    /// Takes an answer apart; `None`: it is no table. Each row must have a value for each column, and the last message be
    /// ReadyForQuery.
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

    /// All values in columns of such names.
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

    /// The second value of the row whose first is this.
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
