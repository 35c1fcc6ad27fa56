//! How the machines are driven: rounds, as the one contract in `pooling` says.
//!
//! One round: the board is read anew, mail is delivered, then what happened on servers is told, then on clients, then
//! the deadline, then the end of the round, twice if the first telling had actions. After each telling all actions are
//! carried out, in order.

use std::collections::VecDeque;

use pooling::work::Done;
use pooling::{Actions, Coordinator, Door, Event, Hangup, Machine, Mail, Place, Worker};
use queueing::board::Board;
use units::{ConnId, Kind, Time};

use crate::network::LinkId;
use crate::world::World;

/// What one read brings at most.
const READ_LEN_MAX: usize = 64 * 1024;

/// One of the three kinds of machines.
#[derive(Debug)]
pub(crate) enum Machinery {
    Door(Box<Door>),
    Coordinator(Box<Coordinator>),
    Worker(Box<Worker>),
}

impl Machinery {
    pub(crate) fn machine(&mut self) -> &mut dyn Machine {
        match self {
            Machinery::Door(door) => &mut **door,
            Machinery::Coordinator(coordinator) => &mut **coordinator,
            Machinery::Worker(worker) => &mut **worker,
        }
    }
}

/// A message on its way, or come back.
#[derive(Debug)]
pub(crate) struct Letter {
    /// The machine that sent it; its receiver, where it comes from outside.
    pub(crate) from: u16,
    pub(crate) at: u64,
    pub(crate) mail: Mail,
    pub(crate) carrying: Option<LinkId>,
    pub(crate) returned: bool,
}

/// One machine and what its thread would have.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) machinery: Machinery,
    /// By kind, then by slot.
    conns: [Vec<Option<(ConnId, LinkId)>>; 4],
    pub(crate) ready: Vec<LinkId>,
    /// In order of arrival.
    pub(crate) letters: VecDeque<Letter>,
    pub(crate) computed: Vec<(ConnId, Done)>,
    wake_at: u64,
    pub(crate) board: Board,
    /// What this round's servers and clients were told by was an older board.
    pub(crate) board_is_late: bool,
    actions: Actions,
    pub(crate) rounds: u64,
    /// It has said that nothing is left to wait for.
    pub(crate) finished: bool,
}

impl Node {
    pub(crate) fn new(place: Place, machinery: Machinery, workers: u16) -> Node {
        Node {
            place,
            machinery,
            conns: Default::default(),
            ready: Vec::new(),
            letters: VecDeque::new(),
            computed: Vec::new(),
            wake_at: u64::MAX,
            board: Board::new(workers),
            board_is_late: false,
            actions: Actions::new(),
            rounds: 0,
            finished: false,
        }
    }

    pub(crate) fn find(&self, conn: ConnId) -> Option<LinkId> {
        let slot = self.conns[conn.kind() as usize].get(conn.slot())?;
        slot.filter(|(id, _)| *id == conn).map(|(_, link)| link)
    }

    pub(crate) fn register(&mut self, conn: ConnId, link: LinkId) {
        let slots = &mut self.conns[conn.kind() as usize];
        if slots.len() <= conn.slot() {
            slots.resize(conn.slot() + 1, None);
        }
        slots[conn.slot()] = Some((conn, link));
    }

    pub(crate) fn forget(&mut self, conn: ConnId) {
        if let Some(slot) = self.conns[conn.kind() as usize].get_mut(conn.slot()) {
            *slot = None;
        }
    }

    /// Connections of a kind that it has.
    pub(crate) fn count(&self, kind: Kind) -> usize {
        self.conns[kind as usize].iter().flatten().count()
    }

    pub(crate) fn worker(&self) -> Option<&Worker> {
        match &self.machinery {
            Machinery::Worker(worker) => Some(worker),
            Machinery::Door(_) | Machinery::Coordinator(_) => None,
        }
    }
}

impl World {
    /// Sees to it that a machine has a round at that moment, or before.
    pub(crate) fn wake_node(&mut self, node: u16, at: u64) {
        let entry = &mut self.nodes[usize::from(node)];
        let at = at.max(self.now);
        if at < entry.wake_at {
            entry.wake_at = at;
            self.at(at, crate::world::Happening::Round(node));
        }
    }

    /// A connection may have something to tell its machine.
    pub(crate) fn list(&mut self, id: LinkId) {
        let Some(link) = self.network.get(id) else { return };
        let (Some(node), false) = (link.node, link.listed) else { return };
        if !self.is_ready(id) {
            return;
        }
        if let Some(link) = self.network.get_mut(id) {
            link.listed = true;
        }
        self.nodes[usize::from(node)].ready.push(id);
        let late = self.plan.faults.late_round;
        let delay = if self.random.chance(late) { self.random.skewed(100, 20_000) } else { self.random.range(1, 20) };
        self.wake_node(node, self.now + delay);
    }

    fn is_ready(&mut self, id: LinkId) -> bool {
        let Some(link) = self.network.get(id) else { return false };
        let (Some(node), Some(conn)) = (link.node, link.conn) else { return false };
        if link.opened.is_some() {
            return true;
        }
        if !link.stands || link.told {
            return false;
        }
        let readable = link.read && (!link.up.readable().is_empty() || link.up.end_arrived);
        let (write, space) = (link.write, link.down.space() > 0);
        if readable || link.broken {
            return true;
        }
        write && space && !self.nodes[usize::from(node)].machinery.machine().backlog(conn).is_empty()
    }

    pub(crate) fn round(&mut self, node: u16) {
        let index = usize::from(node);
        if self.nodes[index].wake_at != self.now {
            return;
        }
        self.nodes[index].wake_at = u64::MAX;
        self.nodes[index].rounds += 1;
        self.census.rounds += 1;
        let late = self.random.chance(self.plan.faults.late_board);
        self.nodes[index].board_is_late = late;
        if late {
            self.census.late_boards += 1;
        } else {
            self.read_board(index);
        }
        self.deliver_letters(node);
        for (conn, done) in std::mem::take(&mut self.nodes[index].computed) {
            self.step(node, Event::Computed { conn, done }, &[]);
        }
        self.tell_of_connections(node);
        let due = self.nodes[index].machinery.machine().next_deadline().is_some_and(|at| at.0 <= self.now);
        if due {
            self.step(node, Event::DeadlineReached, &[]);
        }
        if self.step(node, Event::RoundEnded, &[]) {
            self.read_board(index);
            self.step(node, Event::RoundEnded, &[]);
        }
        self.checks_after_round(node);
        self.plan_next_round(node);
    }

    fn read_board(&mut self, index: usize) {
        let Machinery::Worker(worker) = &self.nodes[index].machinery else { return };
        if !worker.shared_pools().is_empty() {
            self.nodes[index].board.clone_from(&self.board);
        }
    }

    fn plan_next_round(&mut self, node: u16) {
        let entry = &mut self.nodes[usize::from(node)];
        let deadline = entry.machinery.machine().next_deadline().map(|at| at.0);
        let letter = entry.letters.front().map(|letter| letter.at);
        let ready = (!entry.ready.is_empty() || !entry.computed.is_empty()).then_some(self.now + 1);
        let next = [deadline.map(|at| at.max(self.now + 1)), letter, ready].into_iter().flatten().min();
        if let Some(at) = next {
            self.wake_node(node, at);
        }
    }

    fn deliver_letters(&mut self, node: u16) {
        loop {
            let letters = &mut self.nodes[usize::from(node)].letters;
            if letters.front().is_none_or(|letter| letter.at > self.now) {
                return;
            }
            let Some(letter) = letters.pop_front() else { return };
            self.adopting = letter.carrying;
            self.note_arrival(node, &letter);
            let event =
                if letter.returned { Event::Returned(letter.mail.into_returned()) } else { Event::Mail(letter.mail) };
            self.step(node, event, &[]);
            if self.adopting.take().is_some() {
                self.fail(12, "a connection came with a message and was not adopted");
            }
        }
    }

    /// Servers first, then clients: else a client is linked to a server whose last words lie unread.
    fn tell_of_connections(&mut self, node: u16) {
        let ready = std::mem::take(&mut self.nodes[usize::from(node)].ready);
        let mut groups: [Vec<LinkId>; 2] = Default::default();
        for id in ready {
            let Some(link) = self.network.get_mut(id) else { continue };
            link.listed = false;
            let Some(conn) = link.conn.filter(|_| link.node == Some(node)) else { continue };
            let client = matches!(conn.kind(), Kind::Client | Kind::Login);
            groups[usize::from(client != self.plan.clients_first)].push(id);
        }
        for (turn, group) in groups.into_iter().enumerate() {
            self.serving_clients = (turn == 1) != self.plan.clients_first;
            for id in group {
                self.tell_of(node, id);
                self.list(id);
            }
        }
        self.serving_clients = false;
    }

    fn tell_of(&mut self, node: u16, id: LinkId) {
        let Some(link) = self.network.get_mut(id) else { return };
        let Some(conn) = link.conn.filter(|_| link.node == Some(node)) else { return };
        if let Some(stands) = link.opened.take() {
            link.stands = stands;
            let event = if stands {
                Event::Opened { conn, ends: None }
            } else {
                Event::OpenFailed { conn, why: "refused".to_owned() }
            };
            self.step(node, event, &[]);
            return;
        }
        if !link.stands || link.told {
            return;
        }
        let unread = link.read && !link.up.readable().is_empty();
        if link.broken && !(unread && self.random.chance(500)) {
            self.hang_up(node, id, conn, Hangup::Broken);
            return;
        }
        self.drain(node, id, conn);
        self.read(node, id, conn);
    }

    fn hang_up(&mut self, node: u16, id: LinkId, conn: ConnId, why: Hangup) {
        if let Some(link) = self.network.get_mut(id) {
            link.told = true;
        }
        self.step(node, Event::Hangup { conn, why }, &[]);
    }

    /// The socket takes more of the backlog.
    fn drain(&mut self, node: u16, id: LinkId, conn: ConnId) {
        let Some(link) = self.network.get_mut(id).filter(|link| link.write && !link.broken) else { return };
        let backlog = self.nodes[usize::from(node)].machinery.machine().backlog(conn);
        let mut len = backlog.len().min(link.down.space());
        if len > 1 && self.random.chance(self.plan.weather.pieces) {
            len = self.random.skewed(1, len as u64) as usize;
        }
        if len == 0 {
            return;
        }
        let count = if link.peer_closed { len } else { link.down.write(&backlog[..len]) };
        self.pump(id, false);
        self.step(node, Event::Drained { conn, count }, &[]);
    }

    fn read(&mut self, node: u16, id: LinkId, conn: ConnId) {
        let Some(link) = self.network.get_mut(id) else { return };
        let ours = link.conn == Some(conn) && link.read && !link.told;
        if !ours {
            return;
        }
        let available = link.up.readable().len().min(READ_LEN_MAX);
        if available == 0 {
            if link.up.end_arrived {
                self.hang_up(node, id, conn, Hangup::Closed);
            }
            return;
        }
        let mut len = available;
        // Last words are read at once: the check for them must know that they could be read.
        if link.last_words_at.is_none() && self.random.chance(self.plan.weather.pieces) {
            len = if self.plan.weather.bytewise { 1 } else { self.random.skewed(1, available as u64) as usize };
        }
        self.census.short_reads += u64::from(len < available);
        let mut chunk = std::mem::take(&mut self.chunk);
        chunk.clear();
        chunk.extend_from_slice(&link.up.readable()[..len]);
        link.up.consume(len);
        self.pump(id, true);
        self.peer_may_write(id);
        self.note_asked(id);
        self.note_read(id);
        self.note_answer_read(id);
        self.step(node, Event::Received { conn, bytes: &chunk }, &chunk);
        self.chunk = chunk;
    }

    /// One step of a machine, and what it asks for. Says whether it asked for anything.
    pub(crate) fn step(&mut self, node: u16, event: Event<'_>, chunk: &[u8]) -> bool {
        if self.failure.is_some() {
            return false;
        }
        self.census.steps += 1;
        self.stepped_at = self.now;
        self.note_event(node, &event);
        let entry = &mut self.nodes[usize::from(node)];
        let mut actions = std::mem::take(&mut entry.actions);
        entry.machinery.machine().step(Time(self.now), &entry.board, event, &mut actions);
        let any = !actions.is_empty();
        let blocked = self.carry_out(node, &mut actions, chunk);
        let entry = &mut self.nodes[usize::from(node)];
        actions.clear(|buffer| entry.machinery.machine().recycle(buffer));
        entry.actions = actions;
        for conn in blocked {
            if self.nodes[usize::from(node)].find(conn).is_none() {
                // It was closed by a later action of the same list.
                continue;
            }
            self.step(node, Event::Blocked { conn }, &[]);
        }
        any
    }

    fn note_event(&mut self, node: u16, event: &Event<'_>) {
        let (code, conn, detail) = match event {
            Event::Received { conn, bytes } => (1, Some(*conn), bytes.len() as u64),
            Event::Hangup { conn, why } => (2, Some(*conn), *why as u64),
            Event::Blocked { conn } => (3, Some(*conn), 0),
            Event::Drained { conn, count } => (4, Some(*conn), *count as u64),
            Event::Opened { conn, .. } => (5, Some(*conn), 0),
            Event::OpenFailed { conn, .. } => (6, Some(*conn), 0),
            Event::Computed { conn, .. } => (7, Some(*conn), 0),
            Event::Mail(_) => (8, None, 0),
            Event::Returned(_) => (9, None, 0),
            Event::DeadlineReached => (10, None, 0),
            Event::RoundEnded => (11, None, 0),
        };
        self.trace.mix(self.now);
        self.trace.mix(u64::from(node) << 8 | code);
        self.trace.mix(conn.map_or(0, ConnId::to_bits) ^ detail);
        if self.trace.records() && !matches!(event, Event::RoundEnded) {
            let place = self.nodes[usize::from(node)].place;
            self.trace.line(self.now, || format!("{place:?} ── {}", crate::words::event(event)));
        }
    }
}
