//! One process that grants for two and three others, which join, take tokens and permits, and leave: by hand, and at random.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use machine::action::{Action, Actions};
use machine::event::Event;
use machine::mail::{Mail, ToCoordinator, ToWorker};
use machine::processes::{FromProcess, Inventory, PoolUse, ToGranter, ToMember, ToProcess};
use machine::upgrade::Turn;
use machine::{Machine, Orders, Settings};
use queueing::board::Board;
use queueing::classes::{Class, Classes, LimitKind};
use queueing::limiting::Limit;
use settings::PoolSize;
use units::random::Random;
use units::{Holder, PeerId, PoolId, PoolKey, ProcessId, Serial, Time, WorkerId};

use crate::Coordinator;

const POOL: PoolId = PoolId(1);
const A: ProcessId = peer(1);
const B: ProcessId = peer(2);
const C: ProcessId = peer(3);

const fn peer(number: u16) -> ProcessId {
    ProcessId::Peer(PeerId(number))
}

fn key() -> PoolKey {
    PoolKey { database: "db".into(), user: "u".into() }
}

fn permits() -> Limit {
    Limit::Class("default".into(), LimitKind::Active)
}

/// What a process or worker has: tokens and permits granted, and not given back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Has {
    tokens: u32,
    permits: u32,
    sessions: u32,
    /// Requested, and not granted.
    requests: u32,
    wishes: u32,
    /// Asked to give back.
    recalled: u32,
}

/// A coordinator with two workers, and everybody who holds something.
struct Budget {
    coordinator: Coordinator,
    now: Time,
    have: BTreeMap<Holder, Has>,
    /// Mail for other processes, in order.
    sent: VecDeque<(ProcessId, ToProcess)>,
    fault: bool,
}

impl Budget {
    /// A pool of this size, and as many permits.
    fn new(size: u32, change: impl FnOnce(&mut Settings)) -> Budget {
        let mut settings = Settings::default();
        let host = connections::databases::Host::Unix("/tmp".to_owned());
        let host = connections::databases::Address { host, port: 1 };
        settings.databases.insert("db".to_owned(), Arc::new(connections::databases::Database::new("db", vec![host])));
        settings.global.pools.default_pool_size = PoolSize::Fixed(size);
        let mut class = Class::new("default");
        class.limits.active = Some(size);
        settings.classes = Arc::new(Classes { all: vec![class], ..Classes::default() });
        change(&mut settings);
        let coordinator = Coordinator::new(2, Arc::new(settings));
        let have = [0, 1].map(|worker| (Holder::Worker(WorkerId(worker)), Has::default()));
        let mut budget = Budget {
            coordinator,
            now: Time(1_000_000),
            have: BTreeMap::from(have),
            sent: VecDeque::new(),
            fault: false,
        };
        assert_eq!(budget.coordinator.pool_of(&key()), Some(POOL));
        budget.coordinator.note_use(budget.now, POOL);
        budget
    }

    fn step(&mut self, event: Event<'_>) {
        let mut actions = Actions::new();
        self.coordinator.step(self.now, &Board::new(2), event, &mut actions);
        for action in actions.take() {
            match action {
                Action::Post { mail: Mail::ToWorker(worker, mail), .. } => self.worker_hears(worker, mail),
                Action::PostToProcess { process, mail } => {
                    if let ToProcess::ToMember(said) = &*mail {
                        self.member_hears(process, said);
                    }
                    self.sent.push_back((process, *mail));
                }
                _ => {}
            }
        }
        if !self.fault {
            self.check();
        }
    }

    /// All that is out is held by somebody who is there, and is no more than may be.
    fn check(&self) {
        assert_eq!(self.coordinator.check(), Ok(()));
        let sum = |of: fn(&Has) -> u32| self.have.values().map(of).sum::<u32>();
        assert_eq!(self.coordinator.held(POOL), sum(|has| has.tokens), "I12: {:?}", self.have);
        assert!(sum(|has| has.tokens) <= self.coordinator.size(POOL), "I5: {:?}", self.have);
        if let Some(left) = self.coordinator.remaining(&permits()) {
            assert_eq!(self.coordinator.size(POOL) - sum(|has| has.permits), left, "{:?}", self.have);
        }
    }

    fn tell(&mut self, mail: ToCoordinator) {
        self.step(Event::Mail(Mail::ToCoordinator(mail)));
    }

    fn hear(&mut self, from: ProcessId, said: ToGranter) {
        self.tell(ToCoordinator::Process(from, Box::new(FromProcess::ToGranter(said))));
    }

    fn has(&mut self, holder: impl Into<Holder>) -> &mut Has {
        self.have.get_mut(&holder.into()).expect("it is there")
    }

    fn tokens(&self, process: ProcessId) -> u32 {
        self.have.get(&Holder::Process(process)).map_or(0, |has| has.tokens)
    }

    fn worker_hears(&mut self, worker: WorkerId, mail: ToWorker) {
        match mail {
            ToWorker::Granted(_) => self.got(worker.into()),
            ToWorker::Recall { .. } => self.has(worker).recalled += 1,
            ToWorker::Dropped { count, .. } => self.has(worker).requests -= count,
            ToWorker::Allow(allow) => self.allowed(worker.into(), allow.1.granted, allow.1.answered),
            _ => {}
        }
    }

    fn member_hears(&mut self, process: ProcessId, said: &ToMember) {
        // It may have left.
        if !self.have.contains_key(&Holder::Process(process)) {
            return;
        }
        match *said {
            ToMember::Granted { .. } => self.got(process.into()),
            ToMember::Recall { .. } => self.has(process).recalled += 1,
            ToMember::Dropped { count, .. } => self.has(process).requests -= count,
            ToMember::Allow { granted, answered, .. } => self.allowed(process.into(), granted, answered),
            ToMember::Admitted { .. } => self.has(process).sessions += 1,
            _ => {}
        }
    }

    fn got(&mut self, holder: Holder) {
        let has = self.has(holder);
        has.tokens += 1;
        has.requests -= 1;
    }

    fn allowed(&mut self, holder: Holder, granted: u32, answered: u32) {
        let has = self.has(holder);
        has.permits += granted;
        has.wishes -= answered;
    }

    /// A process joins with these sessions and tokens, each with a permit.
    fn joins(&mut self, process: ProcessId, sessions: u32, tokens: u32) {
        let pools = vec![PoolUse { key: key(), sessions: vec![("u".into(), sessions)], tokens, size: None }];
        let permits = vec![(permits(), tokens)];
        let inventory =
            Inventory { pools, permits, serial: Serial::default(), orders: Orders::default(), primaries: Vec::new() };
        self.have.insert(process.into(), Has { tokens, permits: tokens, sessions, ..Has::default() });
        self.hear(process, ToGranter::Begun(inventory));
    }

    fn leaves(&mut self, process: ProcessId) {
        self.have.remove(&Holder::Process(process));
        self.tell(ToCoordinator::Process(process, Box::new(FromProcess::Left)));
    }

    fn requests(&mut self, holder: impl Into<Holder>) {
        let holder = holder.into();
        self.has(holder).requests += 1;
        match holder {
            Holder::Worker(_) => {
                let classes = Default::default();
                self.tell(ToCoordinator::RequestServer { pool: POOL, holder, reserve: false, classes });
            }
            Holder::Process(process) => self.hear(process, ToGranter::RequestServer { key: key(), reserve: false }),
        }
    }

    /// A server is closed.
    fn frees(&mut self, holder: Holder) {
        let has = self.has(holder);
        has.tokens -= 1;
        has.recalled = has.recalled.saturating_sub(1);
        let fresh = false;
        match holder {
            Holder::Worker(_) => self.tell(ToCoordinator::Freed { pool: POOL, holder, fresh }),
            Holder::Process(process) => self.hear(process, ToGranter::Freed { key: key(), fresh }),
        }
    }

    fn wishes(&mut self, holder: impl Into<Holder>, count: u32) {
        let holder = holder.into();
        self.has(holder).wishes += count;
        match holder {
            Holder::Worker(_) => self.tell(ToCoordinator::RequestAllowance { limit: permits(), holder, count }),
            Holder::Process(process) => self.hear(process, ToGranter::RequestAllowance { limit: permits(), count }),
        }
    }

    fn gives_back(&mut self, holder: Holder, count: u32) {
        self.has(holder).permits -= count;
        let missing = 0;
        match holder {
            Holder::Worker(_) => self.tell(ToCoordinator::Unspent { limit: permits(), holder, count, missing }),
            Holder::Process(process) => self.hear(process, ToGranter::Unspent { limit: permits(), count, missing }),
        }
    }

    /// Time passes, and whoever is asked to gives back.
    fn wait(&mut self, ms: u64) {
        let until = Time(self.now.0 + ms * 1000);
        while let Some(at) = self.coordinator.next_deadline().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.step(Event::DeadlineReached);
            let asked = |(holder, has): (&Holder, &Has)| (has.recalled > 0 && has.tokens > 0).then_some(*holder);
            while let Some(holder) = self.have.iter().find_map(asked) {
                self.frees(holder);
            }
        }
        self.now = until;
    }
}

#[test]
fn what_a_process_had_is_free_when_it_leaves_and_goes_to_those_that_wait() {
    for others in [vec![B], vec![B, C]] {
        let mut budget = Budget::new(4, |_| {});
        budget.joins(A, 3, 3);
        others.iter().for_each(|other| budget.joins(*other, 1, 0));
        for other in &others {
            budget.requests(*other);
            budget.requests(*other);
            budget.wishes(*other, 2);
        }
        assert_eq!((budget.coordinator.held(POOL), budget.tokens(A)), (4, 3), "the pool is at its size");
        assert_eq!(budget.coordinator.clients(), 3 + others.len() as u32);
        budget.leaves(A);
        for other in &others {
            assert_eq!((budget.tokens(*other), budget.has(*other).permits), (2, 2), "{others:?}");
        }
        assert_eq!(budget.coordinator.clients(), others.len() as u32);
        others.iter().for_each(|other| budget.leaves(*other));
        assert_eq!((budget.coordinator.held(POOL), budget.coordinator.clients()), (0, 0));
        assert_eq!(budget.coordinator.remaining(&permits()), Some(4));
    }
}

#[test]
fn a_process_may_join_again_after_it_has_left() {
    let mut budget = Budget::new(3, |_| {});
    for _ in 0..3 {
        budget.joins(A, 2, 2);
        budget.joins(B, 1, 1);
        budget.leaves(A);
        budget.requests(B);
        assert_eq!(budget.tokens(B), 2);
        budget.leaves(B);
    }
    assert_eq!((budget.coordinator.held(POOL), budget.coordinator.clients()), (0, 0));
}

#[test]
fn mail_of_a_process_that_has_left_counts_nowhere() {
    let mut budget = Budget::new(2, |_| {});
    budget.joins(A, 1, 1);
    budget.leaves(A);
    let (limit, user) = (permits(), "u".into());
    let late = [
        ToGranter::RequestServer { key: key(), reserve: false },
        ToGranter::RequestAllowance { limit: limit.clone(), count: 1 },
        ToGranter::Unspent { limit, count: 1, missing: 0 },
        ToGranter::Freed { key: key(), fresh: false },
        ToGranter::Departed { key: key(), user },
    ];
    late.into_iter().for_each(|said| budget.hear(A, said));
    assert_eq!((budget.coordinator.held(POOL), budget.coordinator.remaining(&permits())), (0, Some(2)));
}

#[test]
fn of_three_processes_at_a_pools_size_none_is_without_a_server() {
    let mut budget = Budget::new(3, |_| {});
    budget.joins(A, 5, 3);
    budget.joins(B, 1, 0);
    budget.joins(C, 1, 0);
    budget.requests(B);
    budget.requests(C);
    budget.wait(500);
    assert_eq!([A, B, C].map(|process| budget.tokens(process)), [1, 1, 1]);
}

/// A process in between: members of its own, and one that grants for it.
#[test]
fn the_granter_hears_what_a_member_had_that_has_left() {
    let mut budget = Budget::new(4, |_| {});
    budget.joins(A, 2, 2);
    budget.tell(ToCoordinator::Upgrade(Box::new(Turn::HandOver)));
    budget.requests(A);
    budget.wishes(A, 1);
    budget.sent.clear();
    budget.leaves(A);
    let told = budget.sent.drain(..).filter_map(|(process, mail)| match mail {
        ToProcess::ToGranter(said) if process == ProcessId::Successor => Some(said),
        _ => None,
    });
    let told: Vec<ToGranter> = told.collect();
    let count = |is: fn(&ToGranter) -> bool| told.iter().filter(|said| is(said)).count();
    assert_eq!(count(|said| matches!(said, ToGranter::Departed { .. })), 2, "{told:?}");
    assert_eq!(count(|said| matches!(said, ToGranter::Freed { .. })), 2, "{told:?}");
    assert_eq!(count(|said| matches!(said, ToGranter::Unspent { count: 2, .. })), 1, "{told:?}");
    // What it had requested is granted too late, and goes back.
    for (said, back) in [
        (ToMember::Granted { key: key() }, "Freed"),
        (ToMember::Allow { limit: permits(), granted: 1, answered: 1, remaining: 0, next_at: None }, "Unspent"),
    ] {
        budget.sent.clear();
        let said = FromProcess::ToMember(said);
        budget.tell(ToCoordinator::Process(ProcessId::Successor, Box::new(said)));
        assert!(format!("{:?}", budget.sent).contains(back), "{:?}", budget.sent);
    }
    assert_eq!(budget.coordinator.held(POOL), 0);
}

/// The planted fault: what a process had stays counted.
#[test]
#[cfg(debug_assertions)]
fn a_process_that_has_left_and_still_counts_is_found() {
    let mut budget = Budget::new(4, |settings| settings.sabotage = Some(machine::sabotage::Fault::KeepTokensOfMembers));
    budget.joins(A, 1, 2);
    budget.fault = true;
    budget.leaves(A);
    let violation = budget.coordinator.check().expect_err("two tokens of nobody");
    assert_eq!((violation.invariant, budget.coordinator.held(POOL)), (12, 2), "{}", violation.what);
}

/// Two workers and three processes, each of which does at any time what it may.
#[test]
fn nothing_is_lost_or_granted_twice_whoever_comes_and_leaves() {
    for seed in 0..200u8 {
        let mut random = Random::new([seed; 32]);
        let mut below = |bound: u32| u32::from_le_bytes(random.bytes()) % bound;
        let size = 1 + below(6);
        let mut budget = Budget::new(size, |_| {});
        for _ in 0..300 {
            let process = [A, B, C][below(3) as usize];
            let is_there = budget.have.contains_key(&Holder::Process(process));
            let all: Vec<Holder> = budget.have.keys().copied().collect();
            let holder = all[below(all.len() as u32) as usize];
            let has = budget.has(holder).clone();
            match below(12) {
                // What it has would count beyond the limits otherwise: a first process has them to itself.
                0 if !is_there => {
                    let free =
                        size - budget.have.values().map(|has| has.tokens.max(has.permits)).sum::<u32>().min(size);
                    let sessions = below(4);
                    budget.joins(process, sessions, below(free + 1));
                }
                1 if is_there => budget.leaves(process),
                2..=4 if has.requests < 3 => budget.requests(holder),
                5 | 6 if has.tokens > 0 => budget.frees(holder),
                7 | 8 if has.wishes < 3 => budget.wishes(holder, 1 + below(2)),
                9 | 10 if has.permits > 0 => budget.gives_back(holder, 1),
                _ => budget.wait(u64::from(below(60))),
            }
        }
        [A, B, C]
            .into_iter()
            .filter(|process| budget.have.contains_key(&Holder::Process(*process)))
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|process| budget.leaves(process));
        let workers: Vec<Holder> = budget.have.keys().copied().collect();
        // What is given back may go to who still waits.
        while let Some(holder) = workers.iter().copied().find(|holder| budget.has(*holder).tokens > 0) {
            budget.frees(holder);
        }
        while let Some(holder) = workers.iter().copied().find(|holder| budget.has(*holder).permits > 0) {
            budget.gives_back(holder, 1);
        }
        assert_eq!((budget.coordinator.held(POOL), budget.coordinator.clients()), (0, 0), "seed {seed}");
        assert_eq!(budget.coordinator.remaining(&permits()), Some(size), "seed {seed}");
    }
}
