//! One door, one coordinator, some workers, and what connects them: mail that arrives at once and in order, a board, a
//! clock that stands still, sockets whose far ends the transcript plays.
//!
//! It carries out actions as the engine must: all of a step, in order, before the next step.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use machine::{Action, Actions, Event, Evidence, Inquiry, Machine, Mail, Outside, Place, Secure, Settings, ToWorker};
use pooling::{Coordinator, Door, Worker};
use queueing::board::Board;
use units::{ConnId, DoorId, Kind, Life, Time, WorkerId, limits};

use super::report::Report;
use super::socket::{Role, Socket};
use super::upgrade::Told;
use super::words::show;

/// Mail under way, with the socket that goes along.
pub(crate) struct Letter {
    pub(crate) mail: Mail,
    pub(crate) carrying: Option<usize>,
    pub(crate) companion: Option<usize>,
}

/// How the network splits what the far ends send.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    Nowhere,
    EveryByte,
    /// What the pooler writes is taken a few bytes at a time instead, and the rest later.
    ShortWrites,
    /// One of the sends, after so many bytes.
    Once {
        send: usize,
        after: usize,
    },
}

pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) settings: Settings,
    pub(crate) door: Door,
    pub(crate) coordinator: Coordinator,
    pub(crate) workers: Vec<Worker>,
    pub(crate) lives: Vec<Life>,
    /// How long ago each worker has read its clock.
    pub(crate) clock_ages: Vec<Duration>,
    pub(crate) sockets: Vec<Socket>,
    pub(crate) report: Report,
    /// Servers log in by themselves.
    pub(crate) automatic: bool,
    pub(crate) mail_waits: bool,
    pub(crate) board_is_late: bool,
    pub(crate) hashing_waits: bool,
    pub(crate) full: BTreeSet<WorkerId>,
    /// What a full mailbox refused in this step, and what would have gone along.
    refused: VecDeque<(Mail, Option<usize>)>,
    refusals: usize,
    /// How what is sent to the pooler is cut up, and how long each send was.
    pub(crate) cut: Cut,
    pub(crate) sent: Vec<usize>,
    pub(crate) by_id: BTreeMap<ConnId, usize>,
    pub(crate) first_ids: BTreeMap<ConnId, usize>,
    pub(crate) board: Board,
    pub(crate) written: Board,
    pub(crate) letters: VecDeque<Letter>,
    to_log_in: VecDeque<usize>,
    computations: VecDeque<(ConnId, machine::Job)>,
    /// What others were asked and have not answered.
    pub(crate) inquiries: VecDeque<(ConnId, Box<Inquiry>)>,
    /// The socket that comes with the mail being delivered.
    in_hand: Option<usize>,
    companion: Option<usize>,
    /// For another process, in an online upgrade.
    pub(crate) told: Told,
    actions: Actions,
    violation: Option<String>,
}

impl World {
    pub(crate) fn new(settings: Settings) -> World {
        let shared = Arc::new(settings.clone());
        let count = settings.workers;
        let worker = |number: u16| Worker::new(WorkerId(number), count, Arc::clone(&shared), [number as u8 + 1; 32]);
        let mut door = Door::new(DoorId(0), Arc::clone(&shared), [0; 32]);
        door.system_users.set_owner(1000);
        World {
            now: Time(1_000_000),
            door,
            coordinator: Coordinator::new(count, Arc::clone(&shared)),
            workers: (0..count).map(worker).collect(),
            lives: vec![Life::default(); usize::from(count)],
            clock_ages: vec![Duration::ZERO; usize::from(count)],
            sockets: Vec::new(),
            report: Report::default(),
            automatic: true,
            mail_waits: false,
            board_is_late: false,
            hashing_waits: false,
            full: BTreeSet::new(),
            refused: VecDeque::new(),
            refusals: 0,
            cut: Cut::Nowhere,
            sent: Vec::new(),
            by_id: BTreeMap::new(),
            first_ids: BTreeMap::new(),
            board: Board::new(count),
            written: Board::new(count),
            letters: VecDeque::new(),
            to_log_in: VecDeque::new(),
            computations: VecDeque::new(),
            inquiries: VecDeque::new(),
            in_hand: None,
            companion: None,
            told: Told::default(),
            actions: Actions::new(),
            violation: None,
            settings,
        }
    }

    pub(crate) fn socket(&self, name: &str) -> Result<usize, String> {
        // Names may be used again once their first owner is gone.
        let found = self.sockets.iter().rposition(|socket| socket.name == name);
        found.ok_or_else(|| format!("there is no connection '{name}'"))
    }

    pub(crate) fn add(&mut self, name: String, role: Role, id: ConnId) -> usize {
        let socket = self.sockets.len();
        self.sockets.push(Socket::new(name, role, id));
        self.by_id.insert(id, socket);
        self.first_ids.insert(id, socket);
        socket
    }

    /// Who decides about a connection.
    pub(crate) fn place(conn: ConnId) -> Place {
        match conn.kind() {
            Kind::Login | Kind::Lookup | Kind::Peer => Place::Door(DoorId(0)),
            Kind::Client | Kind::Server | Kind::Cancel => Place::Worker(WorkerId(conn.owner())),
        }
    }

    fn machine(&mut self, place: Place) -> &mut dyn Machine {
        match place {
            Place::Door(_) => &mut self.door,
            Place::Coordinator => &mut self.coordinator,
            Place::Worker(worker) => &mut self.workers[usize::from(worker.0)],
        }
    }

    pub(crate) fn backlog(&mut self, socket: usize) -> Vec<u8> {
        let Some(id) = self.sockets[socket].id else { return Vec::new() };
        self.machine(World::place(id)).backlog(id).to_vec()
    }

    /// Tells a machine one thing and sees it through. Returns whether it asked for anything.
    pub(crate) fn step(&mut self, place: Place, event: Event<'_>) -> bool {
        let chunk = if let Event::Received { bytes, .. } = &event { *bytes } else { &[] };
        let mut actions = std::mem::take(&mut self.actions);
        let (now, board) = (Time(self.now.micros_since(Time::ZERO + self.clock_age(place))), self.board.clone());
        self.machine(place).step(now, &board, event, &mut actions);
        self.check(place);
        let mut list = actions.take();
        let acted = !list.is_empty();
        let mut blocked = Vec::new();
        for action in list.drain(..) {
            self.carry_out(place, action, &actions, chunk, &mut blocked);
        }
        actions.put_back(list);
        let machine = self.machine(place);
        actions.clear(|buffer| machine.recycle(buffer));
        self.actions = actions;
        for conn in blocked {
            if self.by_id.contains_key(&conn) {
                self.step(place, Event::Blocked { conn });
            }
        }
        while let Some((mail, socket)) = self.refused.pop_front() {
            self.refusals += 1;
            assert!(self.refusals < 100, "a full mailbox is tried again and again, without an end of the round");
            self.in_hand = socket;
            self.step(place, Event::Returned(mail.into_returned()));
        }
        acted
    }

    fn check(&mut self, place: Place) {
        let sound = match place {
            Place::Worker(worker) => self.workers[usize::from(worker.0)].check(),
            Place::Coordinator => self.coordinator.check(),
            Place::Door(_) => Ok(()),
        };
        if let Err(violation) = sound {
            self.violation.get_or_insert(violation.to_string());
        }
    }

    pub(crate) fn violation(&mut self) -> Result<(), String> {
        self.violation.take().map_or(Ok(()), |violation| Err(format!("an invariant does not hold: {violation}")))
    }

    // tidy: a table of all actions
    fn carry_out(&mut self, from: Place, action: Action, bytes: &Actions, chunk: &[u8], blocked: &mut Vec<ConnId>) {
        match action {
            Action::Send { conn, piece } => self.send(from, conn, bytes.bytes(piece, chunk), blocked),
            Action::Interest { conn, read, .. } => {
                let Some(&socket) = self.by_id.get(&conn) else { return };
                let before = std::mem::replace(&mut self.sockets[socket].reading, read);
                if before != read {
                    let words = if read { "is read again" } else { "is not read" };
                    self.note(format!("{} {words}", self.sockets[socket].name));
                }
            }
            Action::Close { conn, .. } => {
                let Some(socket) = self.by_id.remove(&conn) else { return };
                let name = self.sockets[socket].name.clone();
                self.report.forget(&format!("{name} is not read"));
                self.note(format!("close {name}"));
                (self.sockets[socket].id, self.sockets[socket].closed) = (None, true);
            }
            Action::Open { conn, address } => self.open(from, conn, address.port),
            Action::Secure { conn, how } => {
                let words = match how {
                    Secure::Accept { is_direct: true, .. } => "TLS is accepted at once".to_owned(),
                    Secure::Accept { .. } => "TLS is accepted".to_owned(),
                    Secure::Connect { host, is_direct: true } => format!("TLS to {host} begins at once"),
                    Secure::Connect { host, .. } => format!("TLS to {host} begins"),
                };
                let Some(&socket) = self.by_id.get(&conn) else { return };
                self.note(format!("{}: {words}", self.sockets[socket].name));
            }
            Action::Compute { conn, job } => self.computations.push_back((conn, job)),
            Action::Ask { conn, inquiry } => {
                let which = match &inquiry.outside {
                    Outside::Pam(service) => format!(", service {service},"),
                    _ => String::new(),
                };
                let (whom, given) = (inquiry.outside.as_str(), shown(&inquiry.given));
                self.note(format!("{whom}{which} is asked about {}: {given}", inquiry.user));
                self.inquiries.push_back((conn, inquiry));
            }
            Action::Post { mail, carrying } => self.post(from, mail, carrying),
            Action::Adopt { conn } => self.adopt(conn),
            Action::Publish { pool, cell } => {
                let Place::Worker(worker) = from else { return };
                self.written.set(pool, worker, cell);
            }
            Action::PublishClasses { pool, cells } => {
                let Place::Worker(worker) = from else { return };
                self.written.set_classes(pool, worker, cells);
            }
            Action::AskControl { conn, question } => {
                let Some(&socket) = self.by_id.get(&conn) else { return };
                self.sockets[socket].question = Some(conn);
                self.note(super::questions::asked(&self.sockets[socket].name, &question));
            }
            Action::Report { .. } => {}
            Action::Finished => {
                if let Place::Worker(worker) = from {
                    self.note(format!("worker {} is finished", worker.0 + 1));
                }
            }
            Action::PostToProcess { mail, .. } => self.post_to_process(*mail),
            Action::Placed { ticket, place } => self.placed(ticket, place),
            Action::Tell(fact) => self.tell(&fact),
            Action::Probe { host, is_urgent } if self.report.shows_probes => {
                self.note(format!("probe {host}{}", if is_urgent { " at once" } else { "" }));
            }
            Action::Probe { .. } => {}
            Action::DoubtName { host } => {
                let connections::databases::Host::Name(name) = &host.host else { return };
                self.note(format!("the name {name} is doubted"));
            }
            Action::Trace(statement) => super::traced::note(self, &statement),
        }
    }

    /// Writes a line of what was seen; sends gathered so far come first.
    pub(crate) fn note(&mut self, line: String) {
        self.report.flush(&mut self.sockets);
        self.report.line(line);
    }

    fn tell(&mut self, fact: &machine::Fact) {
        use machine::{About, Level};
        let conn = match fact.about {
            About::Pooler => None,
            About::Client { conn, name, .. } | About::Server { conn, name, .. } => {
                self.check_name(conn, name);
                Some(conn)
            }
        };
        // The coordinator speaks of connections that are closed, by the ids that they had first.
        let of = |conn| self.by_id.get(&conn).or_else(|| self.first_ids.get(&conn));
        let who = conn.and_then(of).map_or_else(|| "pooler".to_owned(), |&socket| self.sockets[socket].name.clone());
        // Every login has one of these, and every refusal that is told.
        let expected = fact.text.starts_with("login attempt: ") || fact.text.starts_with("pooler error: ");
        if expected && !self.report.shows_log {
            return;
        }
        let level = match fact.level {
            Level::Debug => return,
            Level::Log => "log",
            Level::Warning => "warning",
            Level::Error => "error",
            Level::Fatal => "fatal",
        };
        let statement = fact.slow.as_ref().map(|slow| {
            let tags = slow.tags.iter().map(|(tag, value)| format!(" {tag}={value}"));
            let class = slow.class.as_ref().map(|class| format!(" class: {class}")).unwrap_or_default();
            format!(" rows: {}{class} statement: {:?}{}", slow.rows, slow.statement, tags.collect::<String>())
        });
        self.note(format!("{level} {who}: {}{}", fact.text, statement.unwrap_or_default()));
    }

    /// Who reads the log must know a connection again, wherever it lives meanwhile.
    pub(crate) fn check_name(&mut self, conn: ConnId, name: ConnId) {
        let Some(&socket) = self.by_id.get(&conn) else { return };
        let is_taken = self.sockets.iter().enumerate().any(|(at, other)| at != socket && other.logged_as == Some(name));
        let known = *self.sockets[socket].logged_as.get_or_insert(name);
        if known != name || is_taken {
            let socket = &self.sockets[socket].name;
            self.violation.get_or_insert(format!("{socket} is called {name:?}, and was {known:?}; taken: {is_taken}"));
        }
    }

    fn send(&mut self, from: Place, conn: ConnId, bytes: &[u8], blocked: &mut Vec<ConnId>) {
        let Some(&socket) = self.by_id.get(&conn) else { return };
        let behind = !self.machine(from).backlog(conn).is_empty();
        // A door gives up on whoever does not take the little that it says.
        let short = (self.cut == Cut::ShortWrites && conn.kind() != Kind::Login).then_some(3);
        let room = self.sockets[socket].room;
        let taken = if behind { 0 } else { room.or(short).unwrap_or(usize::MAX).min(bytes.len()) };
        self.sockets[socket].room = room.map(|room| room - taken);
        self.receive(socket, &bytes[..taken]);
        if taken < bytes.len() {
            self.machine(from).keep(conn, &bytes[taken..]);
            blocked.push(conn);
        }
    }

    /// The far end gets bytes.
    pub(crate) fn receive(&mut self, socket: usize, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.report.turn_to(socket, &mut self.sockets);
            self.sockets[socket].receive(bytes);
        }
    }

    fn open(&mut self, from: Place, conn: ConnId, port: u16) {
        let role = Role::of(conn.kind());
        let number = self.sockets.iter().filter(|socket| socket.role == role).count() + 1;
        let name = role.named(number);
        // The same one may try another way to its server.
        let (name, socket) = match self.first_ids.get(&conn) {
            Some(&socket) => {
                let name = self.sockets[socket].name.clone();
                self.sockets[socket] = Socket::new(name.clone(), role, conn);
                self.by_id.insert(conn, socket);
                (name, socket)
            }
            None => (name.clone(), self.add(name, role, conn)),
        };
        let worker = match from {
            Place::Worker(worker) if self.workers.len() > 1 => format!(" at worker {}", worker.0 + 1),
            _ => String::new(),
        };
        let port = if port == 5432 { String::new() } else { format!(" to port {port}") };
        self.note(format!("open {name}{worker}{port}"));
        if !matches!(role, Role::Cancel | Role::Peer) && self.automatic {
            self.sockets[socket].quiet = true;
            self.to_log_in.push_back(socket);
        }
    }

    fn adopt(&mut self, conn: ConnId) {
        let socket = self.in_hand.take().expect("a connection is adopted from the mail that carries it");
        self.in_hand = self.companion.take();
        self.by_id.insert(conn, socket);
        self.sockets[socket].id = Some(conn);
        self.sockets[socket].reading = true;
        if self.workers.len() > 1 && conn.kind() != Kind::Login {
            let words = if conn.kind() == Kind::Client { "lives on" } else { "is now at" };
            self.note(format!("{} {words} worker {}", self.sockets[socket].name, conn.owner() + 1));
        }
    }

    fn post(&mut self, from: Place, mail: Mail, carrying: Option<ConnId>) {
        let socket = carrying.and_then(|conn| self.by_id.remove(&conn));
        if let Some(socket) = socket {
            self.sockets[socket].id = None;
        }
        if self.report.shows_mail {
            let (from, to) = (place_name(from), place_name(mail.place()));
            self.note(format!("mail {from} -> {to}: {}", mail_name(&mail)));
        }
        let returnable = mail.may_be_returned();
        match mail.place() {
            Place::Worker(worker) if returnable && self.full.contains(&worker) => {
                self.refused.push_back((mail, socket));
            }
            _ => self.letters.push_back(Letter { mail, carrying: socket, companion: None }),
        }
    }

    /// A worker panics between two steps: another is in its place, and clients that can be told are told.
    pub(crate) fn panic(&mut self, worker: WorkerId) {
        let at = usize::from(worker.0);
        let told = self.workers[at].clients_to_notify(&[], None);
        let is_its = |conn: &ConnId| World::place(*conn) == Place::Worker(worker);
        let conns: Vec<ConnId> = self.by_id.keys().copied().filter(is_its).collect();
        for conn in conns {
            let Some(socket) = self.by_id.remove(&conn) else { continue };
            if told.contains(&conn) {
                self.receive(socket, &Worker::last_words());
            }
            self.note(format!("close {}", self.sockets[socket].name));
            (self.sockets[socket].id, self.sockets[socket].closed) = (None, true);
        }
        let (count, settings) = (self.settings.workers, Arc::new(self.settings.clone()));
        self.workers[at] = Worker::new(worker, count, settings, [at as u8 + 1; 32]);
        self.lives[at] = self.lives[at].next();
        self.written.forget(worker);
        let life = self.lives[at];
        self.step(Place::Worker(worker), Event::Renewed { life, lost: None });
    }

    /// Everything that follows by itself: mail, hashing, logins of servers, the end of the round.
    pub(crate) fn run_until_idle(&mut self) {
        for _ in 0..300_000 {
            if self.deliver_one() || self.compute_one() || self.log_in_one() || self.read_one() || self.drain_one() {
                continue;
            }
            self.end_round();
            if self.is_at_rest() {
                self.report.flush(&mut self.sockets);
                return;
            }
        }
        panic!("the world does not come to rest");
    }

    fn deliver_one(&mut self) -> bool {
        if self.mail_waits {
            return false;
        }
        let Some(letter) = self.letters.pop_front() else { return false };
        (self.in_hand, self.companion) = (letter.carrying, letter.companion);
        self.step(letter.mail.place(), Event::Mail(letter.mail));
        assert!(self.in_hand.is_none(), "a connection that came with mail was not adopted");
        true
    }

    fn compute_one(&mut self) -> bool {
        if self.hashing_waits {
            return false;
        }
        let Some((conn, job)) = self.computations.pop_front() else { return false };
        self.step(World::place(conn), Event::Computed { conn, done: job.run() });
        true
    }

    fn log_in_one(&mut self) -> bool {
        let Some(socket) = self.to_log_in.pop_front() else { return false };
        let Some(conn) = self.sockets[socket].id else { return true };
        self.step(World::place(conn), Event::Opened { conn, ends: None });
        // A server answers what it has read.
        while self.drain_one() {}
        self.report.flush(&mut self.sockets);
        let mut welcome = super::verbs::server::welcome(&self.sockets[socket].name, &[]);
        if self.sockets[socket].role == Role::Lookup {
            super::verbs::lookup::prepared(&mut welcome);
        }
        self.step(World::place(conn), Event::Received { conn, bytes: &welcome });
        self.sockets[socket].quiet = false;
        true
    }

    /// The far end of a connection sends bytes; they are read once the pooler wants to read.
    pub(crate) fn transmit(&mut self, socket: usize, bytes: &[u8]) {
        let after = match self.cut {
            Cut::Once { send, after } if send == self.sent.len() => after.min(bytes.len()),
            _ => 0,
        };
        self.sent.push(bytes.len());
        let (first, second) = bytes.split_at(after);
        let chunk = if self.cut == Cut::EveryByte { 1 } else { limits::CHUNK_LEN_MAX };
        let pieces = first.chunks(chunk).chain(second.chunks(chunk));
        self.sockets[socket].in_flight.extend(pieces.map(<[u8]>::to_vec));
        self.run_until_idle();
    }

    fn read_one(&mut self) -> bool {
        let ready = |socket: &Socket| socket.id.is_some() && socket.reading && !socket.in_flight.is_empty();
        let Some(socket) = self.sockets.iter_mut().find(|socket| ready(socket)) else { return false };
        let (Some(conn), Some(bytes)) = (socket.id, socket.in_flight.pop_front()) else { return false };
        self.step(World::place(conn), Event::Received { conn, bytes: &bytes });
        true
    }

    /// A socket whose far end reads takes more of what is kept for it.
    fn drain_one(&mut self) -> bool {
        if self.cut != Cut::ShortWrites {
            return false;
        }
        let open = (0..self.sockets.len()).filter(|&socket| self.sockets[socket].room.is_none());
        for socket in open.collect::<Vec<_>>() {
            let backlog = self.backlog(socket);
            let (Some(conn), false) = (self.sockets[socket].id, backlog.is_empty()) else { continue };
            let count = backlog.len().div_ceil(2);
            self.receive(socket, &backlog[..count]);
            self.step(World::place(conn), Event::Drained { conn, count });
            return true;
        }
        false
    }

    /// Nothing would wake anybody but time and the transcript.
    fn is_at_rest(&self) -> bool {
        let unread = |socket: &Socket| socket.id.is_some() && socket.reading && !socket.in_flight.is_empty();
        let mail = !self.mail_waits && !self.letters.is_empty();
        let hashing = !self.hashing_waits && !self.computations.is_empty();
        !mail && !hashing && self.to_log_in.is_empty() && !self.sockets.iter().any(unread)
    }

    /// Told to everybody; once more, with the board read anew, to whoever had something to do.
    fn end_round(&mut self) {
        self.refusals = 0;
        self.step(Place::Door(DoorId(0)), Event::RoundEnded);
        for worker in 0..self.workers.len() {
            let place = Place::Worker(WorkerId(worker as u16));
            self.read_board();
            if self.step(place, Event::RoundEnded) {
                self.read_board();
                self.step(place, Event::RoundEnded);
            }
        }
    }

    fn read_board(&mut self) {
        if !self.board_is_late {
            self.board = self.written.clone();
        }
    }

    /// How long ago a machine has read its clock.
    fn clock_age(&self, place: Place) -> Duration {
        match place {
            Place::Worker(worker) => self.clock_ages[usize::from(worker.0)],
            Place::Door(_) | Place::Coordinator => Duration::ZERO,
        }
    }

    /// Lets time pass, stopping wherever a deadline is.
    pub(crate) fn wait(&mut self, until: Time) -> Result<(), String> {
        for _ in 0..100_000 {
            let mut places = vec![Place::Door(DoorId(0)), Place::Coordinator];
            places.extend((0..self.workers.len()).map(|worker| Place::Worker(WorkerId(worker as u16))));
            let next = places.into_iter().filter_map(|place| {
                let seen_at = self.machine(place).next_deadline()? + self.clock_age(place);
                Some((seen_at.max(self.now), place))
            });
            match next.min().filter(|(at, _)| *at <= until) {
                Some((at, place)) => {
                    self.now = at;
                    self.step(place, Event::DeadlineReached);
                    self.run_until_idle();
                }
                None => {
                    self.now = until;
                    return Ok(());
                }
            }
        }
        Err("a deadline is reached again and again".to_owned())
    }

    /// The same for everybody: new settings, the end.
    pub(crate) fn tell_machines(&mut self, mail: impl Fn(Place) -> Option<Mail>) {
        let workers = (0..self.workers.len()).map(|worker| Place::Worker(WorkerId(worker as u16)));
        for place in [Place::Door(DoorId(0)), Place::Coordinator].into_iter().chain(workers) {
            if let Some(mail) = mail(place) {
                self.step(place, Event::Mail(mail));
            }
        }
    }
}

fn place_name(place: Place) -> String {
    match place {
        Place::Door(_) => "door".to_owned(),
        Place::Coordinator => "coordinator".to_owned(),
        Place::Worker(worker) => format!("worker {}", worker.0 + 1),
    }
}

fn mail_name(mail: &Mail) -> String {
    let shown = match mail {
        Mail::ToDoor(_, mail) => format!("{mail:?}"),
        Mail::ToCoordinator(mail) => format!("{mail:?}"),
        Mail::ToWorker(_, ToWorker::Exchange(mail)) => format!("{mail:?}"),
        Mail::ToWorker(_, mail) => format!("{mail:?}"),
    };
    let end = shown.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(shown.len());
    shown[..end].to_owned()
}

/// What a client has shown to others.
fn shown(given: &Evidence) -> String {
    match given {
        Evidence::Text(text) => format!("{:?}", text.as_str()),
        Evidence::Message(message) => show(message),
    }
}
