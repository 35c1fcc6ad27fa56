//! The world of one seed: everything there is, on one clock, one thing at a time.
//!
//! ```text
//!   clients ── network ── door, coordinator, workers (the very same code as in production) ── network ── PostgreSQL
//! ```
//!
//! What happens is a heap of moments; the earliest is taken, done, and may put further ones on the heap. Nothing reads a
//! clock and all chance comes from the seed, so the same seed is the same world.

use std::cell::RefCell;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;

use pooling::work::Job;
use pooling::{Coordinator, Door, Place, Worker};
use queueing::board::Board;
use units::{ConnId, DoorId, WorkerId};

use crate::book::Book;
use crate::census::Census;
use crate::checks::Checks;
use crate::client::{Circumstances, Client};
use crate::desk::Desk;
use crate::network::{LinkId, Network, Peer};
use crate::plan::Plan;
use crate::postgres::Postgres;
use crate::random::Random;
use crate::rounds::{Machinery, Node};
use crate::trace::Trace;

/// After the work is done: how long the last clients may take, in microseconds. The slowest of them take a minute.
const CLOSING_US: u64 = 450_000_000;

/// After the last client left: how long until nothing may be left.
const QUIET_US: u64 = 60_000_000;

/// While work is going on no machine is without a step for so long: all time-outs are shorter.
const SILENCE_US: u64 = 600_000_000;

/// An invariant that does not hold.
#[derive(Clone, Debug)]
pub struct Failure {
    pub invariant: u8,
    pub text: String,
    pub step: u64,
}

/// Something that is to happen.
#[derive(Debug)]
pub(crate) enum Happening {
    Round(u16),
    /// Bytes arrive: at the pooler (`up`) or at its peer.
    Arrive {
        link: LinkId,
        up: bool,
    },
    /// A connection that the pooler asked for stands, or does not.
    Connected {
        link: LinkId,
        stands: bool,
    },
    /// The pooler notices that a connection is broken.
    Break(LinkId),
    Client {
        index: u32,
        number: u32,
    },
    Process {
        index: u32,
        number: u32,
    },
    Computed {
        node: u16,
        conn: ConnId,
        job: Box<Job>,
    },
    /// A CancelRequest takes effect, and its connection is closed.
    Strike {
        link: LinkId,
        pid: i32,
        secret: [u8; 4],
    },
    Visit,
    Reload,
    Trouble,
    /// The last faults are over, the last clients are gone: look again.
    Closing,
}

#[derive(Debug)]
struct Moment {
    at: u64,
    order: u64,
    what: Happening,
}

impl PartialEq for Moment {
    fn eq(&self, other: &Moment) -> bool {
        self.order == other.order
    }
}

impl Eq for Moment {}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Moment) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Moment {
    fn cmp(&self, other: &Moment) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// What the world knows about a client beside what the client knows itself; kept when it is gone.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Visitor {
    pub(crate) gone: bool,
    pub(crate) cancels: u32,
    pub(crate) struck: u32,
}

/// Where the world is in its course.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Working,
    /// No more faults; clients finish and leave.
    Closing {
        since: u64,
    },
    /// Nobody is left; idle servers time out.
    Quiet {
        since: u64,
    },
    Done,
}

pub struct World {
    pub(crate) plan: Plan,
    pub(crate) random: Random,
    pub(crate) now: u64,
    heap: BinaryHeap<Reverse<Moment>>,
    order: u64,
    pub(crate) network: Network,
    pub(crate) nodes: Vec<Node>,
    pub(crate) board: Board,
    pub(crate) clients: Vec<Option<Box<Client>>>,
    pub(crate) visitors: Vec<Visitor>,
    pub(crate) present: u32,
    visits_left: u32,
    pub(crate) postgres: Postgres,
    pub(crate) book: Rc<RefCell<Book>>,
    pub(crate) desk: Desk,
    pub(crate) checks: Checks,
    pub(crate) census: Census,
    pub(crate) trace: Trace,
    pub(crate) failure: Option<Failure>,
    pub(crate) stage: Stage,
    pub(crate) trouble_at: Option<u64>,
    /// When a machine was stepped last.
    pub(crate) stepped_at: u64,
    /// The last moment a letter was promised to arrive, per sender and receiver.
    pub(crate) posted: BTreeMap<(u16, u16), u64>,
    /// What was read last.
    pub(crate) chunk: Vec<u8>,
    /// The connection that came with the message being delivered.
    pub(crate) adopting: Option<LinkId>,
    /// A round is at its clients' events.
    pub(crate) serving_clients: bool,
}

impl World {
    #[must_use]
    pub fn new(plan: Plan, trace: Trace) -> World {
        let mut random = Random::new(plan.seed);
        let settings = &plan.settings;
        let door = Door::new(DoorId(0), settings.clone(), random.bytes());
        let coordinator = Coordinator::new(plan.workers, settings.clone());
        let mut nodes = vec![
            Node::new(Place::Door(DoorId(0)), Machinery::Door(Box::new(door)), plan.workers),
            Node::new(Place::Coordinator, Machinery::Coordinator(Box::new(coordinator)), plan.workers),
        ];
        for number in 0..plan.workers {
            let worker = Worker::new(WorkerId(number), plan.workers, settings.clone(), random.bytes());
            let place = Place::Worker(WorkerId(number));
            nodes.push(Node::new(place, Machinery::Worker(Box::new(worker)), plan.workers));
        }
        let book = Rc::default();
        let mut world = World {
            random,
            now: 1,
            heap: BinaryHeap::new(),
            order: 0,
            network: Network::default(),
            nodes,
            board: Board::new(plan.workers),
            clients: Vec::new(),
            visitors: Vec::new(),
            present: 0,
            visits_left: plan.extent.visits,
            postgres: Postgres::new(&plan, &book),
            book,
            desk: Desk::new(&plan.settings),
            checks: Checks::default(),
            census: Census { worlds: 1, ..Census::default() },
            trace,
            failure: None,
            stage: Stage::Working,
            trouble_at: None,
            stepped_at: 0,
            posted: BTreeMap::new(),
            chunk: Vec::new(),
            adopting: None,
            serving_clients: false,
            plan,
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        for _ in 0..self.plan.extent.clients.min(self.visits_left) {
            let after = self.random.below(2_000);
            self.after(after, Happening::Visit);
        }
        if self.plan.faults.every > 0 {
            self.after(self.plan.faults.every, Happening::Trouble);
        }
        self.plan_reloads();
        // The coordinator keeps time from its first round on.
        for node in 0..self.nodes.len() as u16 {
            self.wake_node(node, self.now + 1);
        }
    }

    pub(crate) fn at(&mut self, at: u64, what: Happening) {
        self.order += 1;
        self.heap.push(Reverse(Moment { at: at.max(self.now), order: self.order, what }));
    }

    pub(crate) fn after(&mut self, micros: u64, what: Happening) {
        self.at(self.now + micros, what);
    }

    pub(crate) fn fail(&mut self, invariant: u8, text: impl Into<String>) {
        if self.failure.is_none() {
            let text = text.into();
            self.trace.line(self.now, || format!("I{invariant}: {text}"));
            self.failure = Some(Failure { invariant, text, step: self.census.steps });
        }
    }

    pub(crate) fn circumstances(&self) -> Circumstances {
        let closing_time = self.stage != Stage::Working;
        Circumstances { now: self.now, trouble_at: self.trouble_at, closing_time }
    }

    /// Lives until everything is over, or something is wrong.
    ///
    /// # Errors
    /// The first invariant that did not hold.
    pub fn run(&mut self) -> Result<(), Failure> {
        while self.stage != Stage::Done {
            let Some(Reverse(moment)) = self.heap.pop() else {
                self.fail(8, format!("nothing will ever happen again, but {}", self.remains()));
                break;
            };
            self.now = moment.at;
            self.happen(moment.what);
            if self.failure.is_some() {
                break;
            }
            self.advance();
        }
        self.census.compared = self.book.borrow().compared();
        match self.failure.clone() {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }

    fn happen(&mut self, what: Happening) {
        match what {
            Happening::Round(node) => self.round(node),
            Happening::Arrive { link, up } => self.arrive(link, up),
            Happening::Connected { link, stands } => self.connected(link, stands),
            Happening::Break(link) => self.break_link(link),
            Happening::Client { index, number } => self.client_awakes(index, number),
            Happening::Process { index, number } => self.process_awakes(index, number),
            Happening::Computed { node, conn, job } => {
                self.nodes[usize::from(node)].computed.push((conn, job.run()));
                self.wake_node(node, self.now);
            }
            Happening::Strike { link, pid, secret } => self.strike(link, pid, secret),
            Happening::Visit => self.visit(),
            Happening::Reload => self.reload(),
            Happening::Trouble => self.trouble(),
            Happening::Closing => {}
        }
    }

    /// Goes on to the next stage when its time has come.
    fn advance(&mut self) {
        match self.stage {
            Stage::Working => {
                let idle = self.present == 0 && self.visits_left == 0;
                if self.census.steps >= self.plan.extent.steps_max
                    || idle
                    || self.plan.purpose.curve.is_some_and(|curve| self.now >= curve.ends())
                {
                    self.close_for_good();
                } else if self.now > self.stepped_at + SILENCE_US {
                    self.fail(8, format!("no machine has anything to do any more, but {}", self.remains()));
                }
            }
            Stage::Closing { since } => {
                if self.present == 0 {
                    self.trace.line(self.now, || "nobody is left".to_owned());
                    self.stage = Stage::Quiet { since: self.now };
                    self.after(QUIET_US + 1, Happening::Closing);
                } else if self.now > since + CLOSING_US {
                    self.fail(6, format!("faults ended long ago, but {}", self.remains()));
                }
            }
            Stage::Quiet { since } => {
                // min_pool_size goes on opening and closing: tokens are counted where none is on its way.
                let settled = self.nodes.iter().all(|node| node.letters.is_empty());
                if self.now > since + QUIET_US && settled {
                    self.stage = Stage::Done;
                    crate::checks::i12_capacity::nothing_remains(self);
                    self.census.quiet_ends += 1;
                }
            }
            Stage::Done => {}
        }
    }

    /// The work is done: whoever is there finishes and leaves.
    pub(crate) fn close_for_good(&mut self) {
        if self.stage != Stage::Working {
            return;
        }
        self.trace.line(self.now, || "closing time".to_owned());
        self.stage = Stage::Closing { since: self.now };
        self.visits_left = 0;
        self.end_trouble();
        self.stop();
        self.after(CLOSING_US + 1, Happening::Closing);
        self.wake_everybody();
    }

    /// Nobody dawdles any more.
    fn wake_everybody(&mut self) {
        for index in 0..self.clients.len() as u32 {
            if let Some(client) = &mut self.clients[index as usize] {
                client.habits.pace = 0;
                let number = client.number;
                self.after(1, Happening::Client { index, number });
            }
        }
    }

    fn remains(&self) -> String {
        let first = self.clients.iter().flatten().next().map(|client| client.describe()).unwrap_or_default();
        format!("{} clients are there, {} connections; {first}", self.present, self.network.live())
    }

    /// A client comes, and connects to the door.
    fn visit(&mut self) {
        if self.visits_left == 0 {
            return;
        }
        self.visits_left -= 1;
        let number = self.visitors.len() as u32;
        self.visitors.push(Visitor::default());
        let index = match self.clients.iter().position(Option::is_none) {
            Some(free) => free,
            None => {
                self.clients.push(None);
                self.clients.len() - 1
            }
        };
        let link = self.connect_to_door(Peer::Client(index as u32, number));
        let mut client = Client::new(number, link, &self.plan, &self.book, &mut self.random, self.now);
        client.greet(&self.plan, &mut self.random);
        if let Some(link) = self.network.get_mut(link) {
            link.pace = client.habits.pace;
        }
        if self.random.chance(self.plan.faults.cuts) {
            let after = self.random.skewed(100, 2_000_000);
            self.after(after, Happening::Break(link));
        }
        self.clients[index] = Some(Box::new(client));
        self.present += 1;
        let index = index as u32;
        self.trace.line(self.now, || format!("client {number} comes"));
        self.after(1, Happening::Client { index, number });
    }

    /// Somebody else comes in its place, if more are to come.
    pub(crate) fn client_left(&mut self, index: u32) {
        let Some(client) = self.clients[index as usize].take() else { return };
        self.visitors[client.number as usize].gone = true;
        self.book.borrow_mut().forget(client.number);
        self.present -= 1;
        self.trace.line(self.now, || format!("client {} leaves", client.number));
        let pause = self.random.below(self.plan.manners.think_max + 500);
        self.after(pause, Happening::Visit);
    }

    /// The hash of what clients, servers and the log have seen: see [`Trace::seen`].
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.trace.seen()
    }

    /// The hash of everything that happened.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.trace.hash()
    }

    #[must_use]
    pub fn census(&self) -> &Census {
        &self.census
    }

    pub fn take_lines(&mut self) -> Vec<String> {
        self.trace.take_lines()
    }
}
