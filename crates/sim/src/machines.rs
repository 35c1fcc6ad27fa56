//! The machines of a world, each with the parts that its thread would have: a mailbox, a list of connections with
//! events, its time to wake.
//!
//! The actions of machines are carried out in `world`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use machine::work::{Done, Job};
use machine::{Actions, Event, Machine, Mail, Peer as Address, Place, Stop};
use pooling::{Coordinator, Door, Worker};
use queueing::board::Board;
use units::{ConnId, DoorId, Kind, Life, Time, WorkerId};

use crate::agenda::Happening;
use crate::course::Course;
use crate::link::{Link, LinkId};

/// One of the three kinds of machines.
#[derive(Debug)]
pub(crate) enum Machinery {
    Door(Box<Door>),
    Coordinator(Box<Coordinator>),
    Worker(Box<Worker>),
}

impl Machinery {
    fn machine(&self) -> &dyn Machine {
        match self {
            Machinery::Door(door) => &**door,
            Machinery::Coordinator(coordinator) => &**coordinator,
            Machinery::Worker(worker) => &**worker,
        }
    }

    fn machine_mut(&mut self) -> &mut dyn Machine {
        match self {
            Machinery::Door(door) => &mut **door,
            Machinery::Coordinator(coordinator) => &mut **coordinator,
            Machinery::Worker(worker) => &mut **worker,
        }
    }
}

/// A message on its way, or returned.
#[derive(Debug)]
pub(crate) struct Letter {
    /// The machine that sent it; if it comes from outside, its receiver.
    pub(crate) from: u16,
    pub(crate) at: u64,
    pub(crate) mail: Mail,
    pub(crate) carrying: Option<LinkId>,
    pub(crate) returned: bool,
}

/// One machine and the parts that its thread would have.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) place: Place,
    /// Which machine it is of those that this node has had.
    pub(crate) life: Life,
    pub(crate) machinery: Machinery,
    /// By kind, then by slot.
    conns: [Vec<Option<(ConnId, LinkId)>>; Kind::COUNT],
    ready: Vec<LinkId>,
    /// In order of arrival.
    letters: VecDeque<Letter>,
    computed: Vec<(ConnId, Done)>,
    secured: Vec<ConnId>,
    wake_at: u64,
    /// What it takes for the time: read once a round.
    clock: u64,
    pub(crate) board: Board,
    /// This round used an older board.
    pub(crate) board_is_late: bool,
    actions: Actions,
    pub(crate) rounds: u64,
    /// It has sent `Finished`.
    pub(crate) finished: bool,
}

impl Node {
    pub(crate) fn new(place: Place, machinery: Machinery, workers: u16) -> Node {
        Node {
            place,
            life: Life::default(),
            machinery,
            conns: Default::default(),
            ready: Vec::new(),
            letters: VecDeque::new(),
            computed: Vec::new(),
            secured: Vec::new(),
            wake_at: u64::MAX,
            clock: 0,
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

    /// Its connections of a kind.
    pub(crate) fn all(&self, kind: Kind) -> impl Iterator<Item = (ConnId, LinkId)> {
        self.conns[kind as usize].iter().flatten().copied()
    }

    /// The number of its connections of a kind.
    pub(crate) fn count(&self, kind: Kind) -> usize {
        self.conns[kind as usize].iter().flatten().count()
    }

    /// The machine's backlog for a connection.
    pub(crate) fn backlog(&self, conn: ConnId) -> &[u8] {
        self.machinery.machine().backlog(conn)
    }

    /// Adds bytes that a socket did not take to the backlog; returns its length.
    pub(crate) fn keep(&mut self, conn: ConnId, bytes: &[u8]) -> usize {
        self.machinery.machine_mut().keep(conn, bytes);
        self.backlog(conn).len()
    }

    /// Whether the connection has an event for its machine.
    pub(crate) fn has_news(&self, conn: ConnId, link: &Link) -> bool {
        if link.opened.is_some() {
            return true;
        }
        if !link.stands || link.pooler.end_delivered {
            return false;
        }
        let readable = link.pooler.read && (!link.up.readable().is_empty() || link.up.end_arrived);
        let may_write = link.pooler.write && link.down.space() > 0;
        readable || link.broken || may_write && !self.backlog(conn).is_empty()
    }

    /// Takes the list of connections with events.
    pub(crate) fn take_ready(&mut self) -> Vec<LinkId> {
        std::mem::take(&mut self.ready)
    }

    pub(crate) fn take_computed(&mut self) -> Vec<(ConnId, Done)> {
        std::mem::take(&mut self.computed)
    }

    pub(crate) fn take_secured(&mut self) -> Vec<ConnId> {
        std::mem::take(&mut self.secured)
    }

    /// The next letter that has come by now.
    pub(crate) fn next_letter(&mut self, now: u64) -> Option<Letter> {
        self.letters.pop_front_if(|letter| letter.at <= now)
    }

    /// Takes the letters that were returned and are not delivered yet.
    pub(crate) fn take_returned(&mut self) -> VecDeque<Letter> {
        let (returned, others) = self.letters.drain(..).partition(|letter| letter.returned);
        self.letters = others;
        returned
    }

    /// Begins a round, if one is due now. False: it is not.
    pub(crate) fn begin_round(&mut self, now: u64) -> bool {
        if self.wake_at != now {
            return false;
        }
        self.wake_at = u64::MAX;
        self.rounds += 1;
        true
    }

    /// Reads the clock. It never goes back.
    pub(crate) fn read_clock(&mut self, now: u64) {
        self.clock = self.clock.max(now);
    }

    pub(crate) fn is_due(&self) -> bool {
        self.machinery.machine().next_deadline().is_some_and(|at| at.0 <= self.clock)
    }

    /// When the next round is due by what is there for it.
    fn next_round(&self, now: u64) -> Option<u64> {
        let deadline = self.machinery.machine().next_deadline().map(|at| at.0);
        let letter = self.letters.front().map(|letter| letter.at);
        let ready =
            (!self.ready.is_empty() || !self.computed.is_empty() || !self.secured.is_empty()).then_some(now + 1);
        [deadline.map(|at| at.max(now + 1)), letter, ready].into_iter().flatten().min()
    }

    /// One step of the machine. The actions must be given back by `stepped`.
    pub(crate) fn step(&mut self, event: Event<'_>) -> Actions {
        let mut actions = std::mem::take(&mut self.actions);
        self.machinery.machine_mut().step(Time(self.clock), &self.board, event, &mut actions);
        actions
    }

    /// Its actions were carried out.
    pub(crate) fn stepped(&mut self, mut actions: Actions) {
        actions.clear(|buffer| self.machinery.machine_mut().recycle(buffer));
        self.actions = actions;
    }

    pub(crate) fn worker(&self) -> Option<&Worker> {
        match &self.machinery {
            Machinery::Worker(worker) => Some(worker),
            Machinery::Door(_) | Machinery::Coordinator(_) => None,
        }
    }
}

/// The node of the door, and the coordinator's; the workers' come after these.
const DOOR: u16 = 0;
const COORDINATOR: u16 = 1;
pub(crate) const FIRST_WORKER: u16 = 2;

/// All machines of a world.
#[derive(Debug)]
pub(crate) struct Machines {
    nodes: Vec<Node>,
    board: Board,
    /// The latest arrival time of a letter, by sender and receiver.
    posted: BTreeMap<(u16, u16), u64>,
}

impl Machines {
    pub(crate) fn new(course: &mut Course) -> Machines {
        let (workers, settings) = (course.plan.workers, &course.plan.settings);
        let door = Door::new(DoorId(0), Arc::clone(settings), course.random.bytes());
        let coordinator = Coordinator::new(workers, Arc::clone(settings));
        let mut nodes = vec![
            Node::new(Place::Door(DoorId(0)), Machinery::Door(Box::new(door)), workers),
            Node::new(Place::Coordinator, Machinery::Coordinator(Box::new(coordinator)), workers),
        ];
        for number in 0..workers {
            let worker = Worker::new(WorkerId(number), workers, Arc::clone(settings), course.random.bytes());
            nodes.push(Node::new(Place::Worker(WorkerId(number)), Machinery::Worker(Box::new(worker)), workers));
        }
        Machines { nodes, board: Board::new(workers), posted: BTreeMap::new() }
    }

    pub(crate) fn node(&self, node: u16) -> &Node {
        &self.nodes[usize::from(node)]
    }

    pub(crate) fn node_mut(&mut self, node: u16) -> &mut Node {
        &mut self.nodes[usize::from(node)]
    }

    /// All of them, the door first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter()
    }

    pub(crate) fn count(&self) -> u16 {
        self.nodes.len() as u16
    }

    pub(crate) fn find(&self, place: Place) -> Option<u16> {
        self.nodes.iter().position(|node| node.place == place).map(|node| node as u16)
    }

    pub(crate) fn worker_node(&self, worker: u16) -> Option<&Node> {
        self.nodes.get(usize::from(worker + FIRST_WORKER))
    }

    pub(crate) fn worker(&self, worker: u16) -> Option<&Worker> {
        self.worker_node(worker)?.worker()
    }

    /// Clients that log in.
    pub(crate) fn logins(&self) -> usize {
        match &self.node(DOOR).machinery {
            Machinery::Door(door) => door.logins(),
            Machinery::Coordinator(_) | Machinery::Worker(_) => unreachable!("the first node is the door's"),
        }
    }

    pub(crate) fn coordinator(&self) -> &Coordinator {
        match &self.node(COORDINATOR).machinery {
            Machinery::Coordinator(coordinator) => coordinator,
            Machinery::Door(_) | Machinery::Worker(_) => unreachable!("the second node is the coordinator's"),
        }
    }

    /// The door accepts a connection. Returns its id there.
    pub(crate) fn accept(&mut self, now: u64, from: Address) -> Option<(u16, ConnId)> {
        let node = self.node_mut(DOOR);
        node.read_clock(now);
        match &mut node.machinery {
            Machinery::Door(door) => door.accept(Time(now), from).map(|conn| (DOOR, conn)),
            Machinery::Coordinator(_) | Machinery::Worker(_) => unreachable!("the first node is the door's"),
        }
    }

    /// Makes a machine run a round at that time or earlier.
    pub(crate) fn wake(&mut self, course: &mut Course, node: u16, at: u64) {
        let entry = self.node_mut(node);
        let at = at.max(course.now());
        if at < entry.wake_at {
            entry.wake_at = at;
            course.at(at, Happening::Round(node));
        }
    }

    pub(crate) fn plan_next_round(&mut self, course: &mut Course, node: u16) {
        if let Some(at) = self.node(node).next_round(course.now()) {
            self.wake(course, node, at);
        }
    }

    /// A connection of this machine has an event for it.
    pub(crate) fn list(&mut self, course: &mut Course, node: u16, id: LinkId) {
        self.node_mut(node).ready.push(id);
        let (late, random) = (course.plan.faults.late_round, &mut course.random);
        let delay = if random.chance(late) { random.skewed(100, 20_000) } else { random.range(1, 20) };
        self.wake(course, node, course.now() + delay);
    }

    /// A job of this machine's is done.
    pub(crate) fn compute(&mut self, course: &mut Course, node: u16, conn: ConnId, job: Job) {
        self.node_mut(node).computed.push((conn, job.run()));
        self.wake(course, node, course.now());
    }

    /// A handshake of this machine's is done.
    pub(crate) fn secure(&mut self, course: &mut Course, node: u16, conn: ConnId) {
        self.node_mut(node).secured.push(conn);
        self.wake(course, node, course.now());
    }

    /// A worker reads the board, if it shares a pool with others.
    pub(crate) fn read_board(&mut self, node: u16) {
        let Machines { nodes, board, .. } = self;
        let node = &mut nodes[usize::from(node)];
        if node.worker().is_some_and(|worker| !worker.shared_pools().is_empty()) {
            node.board.clone_from(board);
        }
    }

    /// A worker writes to the board.
    pub(crate) fn show(&mut self, node: u16, show: impl FnOnce(&mut Board, WorkerId)) {
        if let Place::Worker(worker) = self.node(node).place {
            show(&mut self.board, worker);
        }
    }

    /// Removes a worker's entries from the board.
    pub(crate) fn forget_shown(&mut self, node: u16) {
        if let Place::Worker(worker) = self.node(node).place {
            self.board.forget(worker);
        }
    }

    /// The arrival time of a letter sent now with this delay: never before an earlier letter.
    pub(crate) fn arrival(&mut self, now: u64, from: u16, to: u16, delay: u64) -> u64 {
        let last = self.posted.entry((from, to)).or_default();
        *last = (*last).max(now + delay);
        *last
    }

    pub(crate) fn deliver(&mut self, course: &mut Course, to: u16, letter: Letter) {
        let at = letter.at;
        let letters = &mut self.node_mut(to).letters;
        let place = letters.iter().rposition(|other| other.at <= at).map_or(0, |index| index + 1);
        letters.insert(place, letter);
        self.wake(course, to, at);
    }

    /// Mail from the desk, delivered in order.
    pub(crate) fn deliver_from_desk(&mut self, course: &mut Course, node: u16, mail: Mail) {
        let late = if course.random.chance(20) { 50_000 } else { 300 };
        let at = self.arrival(course.now(), node, node, course.random.range(1, late));
        self.deliver(course, node, Letter { from: node, at, mail, carrying: None, returned: false });
    }

    /// Mail from the prober to the coordinator.
    pub(crate) fn deliver_from_prober(&mut self, course: &mut Course, delay: u64, mail: Mail) {
        let at = self.arrival(course.now(), u16::MAX - 1, COORDINATOR, delay);
        self.deliver(course, COORDINATOR, Letter { from: COORDINATOR, at, mail, carrying: None, returned: false });
    }

    /// Mail from an operator to all machines, one after another.
    pub(crate) fn deliver_to_all(&mut self, course: &mut Course, mail: impl Fn(Place) -> Mail) {
        self.deliver_to_some(course, |place| Some(mail(place)));
    }

    /// The same to those for whom there is a letter.
    pub(crate) fn deliver_to_some(&mut self, course: &mut Course, mail: impl Fn(Place) -> Option<Mail>) {
        for node in 0..self.count() {
            let Some(mail) = mail(self.node(node).place) else { continue };
            let at = self.arrival(course.now(), u16::MAX, node, course.random.range(1, 2_000));
            self.deliver(course, node, Letter { from: node, at, mail, carrying: None, returned: false });
        }
    }

    /// No letter is on its way.
    pub(crate) fn is_quiet(&self) -> bool {
        self.nodes.iter().all(|node| node.letters.is_empty())
    }

    /// Workers that should have sent `Finished` after this stop, but have not.
    pub(crate) fn unfinished(&self, stop: Option<Stop>) -> Vec<String> {
        // A worker that waits for clients serves them until they leave; all have left by now.
        let asked = matches!(stop, Some(Stop::WaitForClients | Stop::WaitForServers | Stop::Immediate));
        let workers = self.nodes.iter().filter(|node| node.worker().is_some());
        workers
            .filter(|node| asked && !node.finished)
            .map(|node| format!("{:?} has not finished", node.place))
            .collect()
    }
}
