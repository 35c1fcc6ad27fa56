//! The world of one seed: all its parts, on one clock, one event at a time.
//!
//! ```text
//!   clients ── network ── door, coordinator, workers (the very same code as in production) ── network ── PostgreSQL
//! ```
//!
//! Future events are in a heap. The earliest is taken and handled, which may add further ones. Nothing reads a real
//! clock, and all random numbers come from the seed, so the same seed gives the same world.
//!
//! The world owns its parts, which do not know each other: effects of one part on another go through here.

mod hosts;
mod orders;
mod panics;
mod peers;
mod prober;
mod rounds;
mod siblings;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use crate::agenda::Happening;
use crate::book::Book;
use crate::census::{Census, CheckCounts};
use crate::checks::Checks;
use crate::course::{Course, Failure, Stage};
use crate::crowd::Crowd;
use crate::desk::Desk;
use crate::link::{LinkId, Peer};
use crate::plan::Plan;
use crate::pooler::Pooler;
use crate::postgres::Postgres;
use crate::random::Random;
use crate::trace::Trace;
use crate::trouble;

use siblings::Siblings;

/// How long the last clients may take after the end of the work, in microseconds. The slowest take a minute.
const CLOSING_US: u64 = 450_000_000;

/// How long after the last client left no connection may remain.
const QUIET_US: u64 = 60_000_000;

/// During the work some machine takes a step at least this often: all timeouts are shorter.
const SILENCE_US: u64 = 600_000_000;

pub struct World {
    course: Course,
    pooler: Pooler,
    crowd: Crowd,
    postgres: Postgres,
    book: Rc<RefCell<Book>>,
    desk: Desk,
    siblings: Siblings,
    checks: Checks,
    /// When a machine was stepped last.
    stepped_at: u64,
    /// The bytes read last.
    chunk: Vec<u8>,
    /// The connection that came with the message being delivered.
    adopting: Option<LinkId>,
    /// A round is delivering its clients' events.
    serving_clients: bool,
    /// When workers panic, so that all else stays as it is.
    panics: Random,
    /// Which rounds have an old clock.
    clocks: Random,
    /// What the administrator orders.
    orders: orders::Administrator,
    hosts: hosts::Hosts,
    prober: prober::Prober,
}

impl World {
    #[must_use]
    pub fn new(plan: Plan, trace: Trace) -> World {
        let book = Rc::default();
        let panics = Random::new(plan.seed ^ 0x7061_6e69_6373);
        let clocks = Random::new(plan.seed ^ 0x636c_6f63_6b73);
        let orders = orders::Administrator::new(plan.seed);
        let (hosts, prober) = (hosts::Hosts::new(&plan), prober::Prober::new(&plan));
        let mut course = Course::new(plan, trace);
        let (mut pooler, crowd) = (Pooler::new(&mut course), Crowd::new(course.plan.extent.visits));
        begin(&mut course, &mut pooler, crowd.visits_left());
        World {
            pooler,
            crowd,
            postgres: Postgres::new(&course.plan, &book),
            book,
            desk: Desk::new(&course.plan.settings, course.plan.promises.orders.operator_stays),
            siblings: Siblings::new(course.plan.seed),
            checks: Checks::default(),
            course,
            stepped_at: 0,
            chunk: Vec::new(),
            adopting: None,
            serving_clients: false,
            panics,
            clocks,
            orders,
            hosts,
            prober,
        }
    }

    /// Runs the world until its end, or until an invariant is violated.
    ///
    /// # Errors
    /// The first invariant that did not hold.
    pub fn run(&mut self) -> Result<(), Failure> {
        prober::begin(self);
        while self.course.stage != Stage::Done {
            let Some(what) = self.course.next() else {
                self.course
                    .fail(8, format!("nothing will ever happen again, but {}", remains(&self.crowd, &self.pooler)));
                break;
            };
            self.happen(what);
            if self.course.failure().is_some() {
                break;
            }
            self.advance();
        }
        self.course.census.checks = CheckCounts {
            compared: self.book.borrow().compared(),
            begun_again: self.book.borrow().begun_again(),
            ..*self.checks.counts()
        };
        match self.course.failure() {
            Some(failure) => Err(failure.clone()),
            None => Ok(()),
        }
    }

    fn happen(&mut self, what: Happening) {
        let World { course, pooler, postgres, .. } = self;
        match what {
            Happening::Round(node) => self.round(node),
            Happening::Arrive { link, up } => pooler.arrive(course, link, up),
            Happening::Connected { link, stands } => {
                pooler.connected(course, link, stands, |course, database| postgres.connect(course, link, database));
            }
            Happening::Break(link) => self.break_link(link),
            Happening::Client { index, number } => self.client_awakes(index, number),
            Happening::Process { index, number } => self.process_awakes(index, number),
            Happening::Secured { node, conn } => pooler.machines.secure(course, node, conn),
            Happening::Computed { node, conn, job } => pooler.machines.compute(course, node, conn, *job),
            Happening::Sibling(link) => siblings::awake(self, link),
            Happening::Strike { link, pid, secret } => match hosts::thaws_at(self, link) {
                Some(until) => self.course.at(until, Happening::Strike { link, pid, secret }),
                None => self.strike(link, pid, secret),
            },
            Happening::CancelEnded { index, number, is_cut } => siblings::cancel_ended(self, (index, number), is_cut),
            Happening::Visit => self.visit(),
            Happening::Reload => self.reload(),
            Happening::Order => orders::order(self),
            Happening::KillQuery => orders::kill_query(self),
            Happening::Relief => orders::relieve(self),
            Happening::Relieved(since) => orders::check_relieved(self, since),
            Happening::Review => orders::review(self),
            Happening::Wander => hosts::wander(self),
            Happening::Promoted(place) => hosts::promote(self, place),
            Happening::Thawed(place) => hosts::thaw(self, place),
            Happening::Demoted(place) => hosts::demote(self, place),
            Happening::Vigil(place) => hosts::check_silent(self, place),
            Happening::Fenced(database, since) => hosts::check_fenced(self, database, since),
            Happening::Probe { place, at } => prober::ask(self, place, at),
            Happening::Probed(place) => prober::answered(self, place),
            Happening::Moved(database, since) => hosts::check_left(self, database, since),
            Happening::Trouble => trouble::happen(course, postgres, pooler),
            Happening::Closing => {}
        }
    }

    /// Changes to the next stage when it is time.
    fn advance(&mut self) {
        let (now, present) = (self.course.now(), self.crowd.present());
        match self.course.stage {
            Stage::Working => {
                let idle = present == 0 && self.crowd.visits_left() == 0;
                let plan = &self.course.plan;
                let is_over = plan.purpose.curve.is_some_and(|curve| now >= curve.ends());
                if self.course.census.world.steps >= plan.extent.steps_max || idle || is_over {
                    self.close_for_good();
                } else if now > self.stepped_at + SILENCE_US {
                    self.course.fail(
                        8,
                        format!("no machine has anything to do any more, but {}", remains(&self.crowd, &self.pooler)),
                    );
                }
            }
            Stage::Closing { since } => {
                if present == 0 {
                    self.course.note(|| "nobody is left".to_owned());
                    self.course.stage = Stage::Quiet { since: now };
                    self.course.after(QUIET_US + 1, Happening::Closing);
                } else if now > since + CLOSING_US {
                    self.course.fail(6, format!("faults ended long ago, but {}", remains(&self.crowd, &self.pooler)));
                }
            }
            Stage::Quiet { since } => {
                // min_pool_size continues to open and close servers: tokens are counted when no letter is on its way.
                if now > since + QUIET_US && self.pooler.machines.is_quiet() {
                    self.course.stage = Stage::Done;
                    self.check(|_, view| crate::checks::i12_capacity::nothing_remains(view));
                    self.course.census.world.quiet_ends += 1;
                }
            }
            Stage::Done => {}
        }
    }

    /// The work is done: the clients present finish and leave.
    fn close_for_good(&mut self) {
        if !self.course.is_working() {
            return;
        }
        self.course.note(|| "closing time".to_owned());
        self.course.stage = Stage::Closing { since: self.course.now() };
        self.crowd.end_visits();
        trouble::end(&mut self.course, &mut self.postgres);
        hosts::wander(self);
        if self.course.plan.promises.orders.changes {
            orders::relieve(self);
        }
        if let Some(stop) = self.course.plan.stop {
            self.pooler.stop(&mut self.course, stop);
        }
        self.course.after(CLOSING_US + 1, Happening::Closing);
        self.crowd.hurry(&mut self.course);
    }

    /// A client comes, and connects to the door.
    fn visit(&mut self) {
        let Some((index, number)) = self.crowd.next_visit() else { return };
        let link = self.pooler.connect_to_door(&mut self.course, Peer::Client(index, number));
        self.crowd.enter(&mut self.course, &self.book, (index, link));
    }

    /// A client has left; another one comes in its place, if more are to come.
    fn client_left(&mut self, index: u32) {
        if let Some(number) = self.crowd.leave(&mut self.course, index) {
            self.book.borrow_mut().forget(number);
        }
    }

    /// New settings for all machines, which get them one after another.
    fn reload(&mut self) {
        let course = &mut self.course;
        if !course.is_working() {
            return;
        }
        course.census.world.reloads += 1;
        let before = Arc::clone(&course.plan.settings);
        course.plan.reload(&mut course.random);
        let removed = before.databases.len() - course.plan.settings.databases.len();
        course.census.world.databases_removed += removed as u64;
        self.checks.note_reload(course.now(), before);
        self.desk.read_again(&mut course.plan.settings);
        self.pooler.configure(&mut self.course);
    }

    #[must_use]
    pub fn census(&self) -> &Census {
        &self.course.census
    }

    pub fn trace(&mut self) -> &mut Trace {
        &mut self.course.trace
    }
}

/// Schedules the first events; `visits`: how many clients come in all.
fn begin(course: &mut Course, pooler: &mut Pooler, visits: u32) {
    for _ in 0..course.plan.extent.clients.min(visits) {
        let after = course.random.below(2_000);
        course.after(after, Happening::Visit);
    }
    if course.plan.faults.every > 0 {
        course.after(course.plan.faults.every, Happening::Trouble);
    }
    for _ in 0..course.plan.reloads {
        let after = course.random.skewed(1_000, 2_000_000);
        course.after(after, Happening::Reload);
    }
    if course.plan.is_spread() {
        course.after(20_000, Happening::Wander);
    }
    if course.plan.promises.orders.are_given {
        course.after(10_000, Happening::Order);
    }
    if course.plan.promises.orders.cancels_often {
        course.after(10_000, Happening::KillQuery);
    }
    // The coordinator has deadlines from its first round on.
    let first = course.now() + 1;
    for node in 0..pooler.machines.count() {
        pooler.machines.wake(course, node, first);
    }
}

/// The clients and connections that remain, for the report.
fn remains(crowd: &Crowd, pooler: &Pooler) -> String {
    let first = crowd.iter().next().map(|client| client.describe()).unwrap_or_default();
    format!("{} clients are there, {} connections; {first}", crowd.present(), pooler.network.live())
}
