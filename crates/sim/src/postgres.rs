//! The model PostgreSQL: its processes, whether it accepts logins, and notifications between its sessions.

use std::cell::RefCell;
use std::rc::Rc;

use crate::book::Book;
use crate::course::Course;
use crate::link::{LinkId, ProcessName};
use crate::plan::Plan;
use crate::process::{LoginRefusal, Process};
use crate::random::Random;
use crate::shared::{Server, Shared};

#[derive(Debug)]
pub(crate) struct Postgres {
    processes: Vec<Option<Box<Process>>>,
    next_number: u32,
    /// Until when each database's server does not listen, and until when it starts up.
    down_until: Vec<u64>,
    starting_until: Vec<u64>,
    /// Until when other programs take all of PostgreSQL's connections.
    full_until: u64,
    shared: Server,
}

impl Postgres {
    pub(crate) fn new(plan: &Plan, book: &Rc<RefCell<Book>>) -> Postgres {
        Postgres {
            processes: Vec::new(),
            next_number: 1,
            down_until: vec![0; plan.databases.len()],
            starting_until: vec![0; plan.databases.len()],
            full_until: 0,
            shared: Shared::new(Rc::clone(book)),
        }
    }

    /// The state that all its sessions share.
    pub(crate) fn shared(&self) -> &Server {
        &self.shared
    }

    pub(crate) fn is_down(&self, database: u16, now: u64) -> bool {
        now < self.down_until[usize::from(database)]
    }

    pub(crate) fn is_starting(&self, database: u16, now: u64) -> bool {
        now < self.starting_until[usize::from(database)]
    }

    /// The reason for which logins are refused now, if any.
    pub(crate) fn turns_away(&self, database: u16, now: u64) -> Option<LoginRefusal> {
        if now < self.starting_until[usize::from(database)] {
            return Some(("57P03", "the database system is starting up"));
        }
        (now < self.full_until).then_some(("53300", "sorry, too many clients already"))
    }

    /// Other programs take all connections until then.
    pub(crate) fn fill(&mut self, until: u64) {
        self.full_until = until;
    }

    /// One database's server is down until `down_until`, and starts up until `starting_until`.
    pub(crate) fn restart(&mut self, database: u16, down_until: u64, starting_until: u64) {
        self.down_until[usize::from(database)] = down_until;
        self.starting_until[usize::from(database)] = starting_until;
    }

    /// Ends all failures.
    pub(crate) fn recover(&mut self) {
        self.down_until.fill(0);
        self.starting_until.fill(0);
        self.full_until = 0;
    }

    /// Starts a process for a new connection.
    pub(crate) fn connect(&mut self, course: &mut Course, link: LinkId, database: u16) -> ProcessName {
        let index = self.processes.iter().position(Option::is_none).unwrap_or_else(|| {
            self.processes.push(None);
            self.processes.len() - 1
        });
        let name = ProcessName { index: index as u32, number: self.next_number };
        self.next_number += 1;
        self.processes[index] = Some(Box::new(Process::new(name, link, database, &self.shared, course)));
        name
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Process> {
        self.processes.iter().flatten().map(|process| &**process)
    }

    pub(crate) fn get(&self, index: u32) -> Option<&Process> {
        self.processes[index as usize].as_deref()
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut Process> {
        self.processes[index as usize].as_deref_mut()
    }

    /// Takes a process out of the table, to run it or to end it.
    pub(crate) fn take(&mut self, name: ProcessName) -> Option<Box<Process>> {
        self.processes[name.index as usize].take_if(|process| process.name() == name)
    }

    pub(crate) fn put_back(&mut self, process: Box<Process>) {
        let index = process.name().index as usize;
        self.processes[index] = Some(process);
    }

    /// The process with this key.
    pub(crate) fn with_key(&self, pid: i32, secret: &[u8]) -> Option<&Process> {
        self.iter().find(|process| process.has_key(pid, secret))
    }

    /// A random process that has logged in, if there is any.
    pub(crate) fn some_process(&self, random: &mut Random) -> Option<ProcessName> {
        let serving: Vec<ProcessName> = self.serving().map(Process::name).collect();
        (!serving.is_empty()).then(|| *random.pick(&serving))
    }

    /// Processes that have logged in.
    pub(crate) fn serving(&self) -> impl Iterator<Item = &Process> {
        self.iter().filter(|process| process.serves() && !process.is_ending())
    }

    /// How many run a statement.
    pub(crate) fn busy(&self, now: u64) -> u32 {
        self.iter().filter(|process| process.is_busy(now)).count() as u32
    }

    /// Takes the channels and payloads of notifications sent since the last call.
    pub(crate) fn take_said(&mut self) -> Vec<(String, String)> {
        self.shared.borrow_mut().take_said()
    }

    /// Idle processes send the notifications of their channels at once.
    pub(crate) fn send_notifications(&mut self, course: &mut Course) {
        if !self.shared.borrow().has_notifications() {
            return;
        }
        for process in self.processes.iter_mut().flatten() {
            if process.send_notifications() {
                process.wake_after(course, 0);
            }
        }
    }
}
