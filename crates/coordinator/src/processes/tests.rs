//! Two coordinators, one of which takes the place of the other, with mail that arrives at once.

use std::collections::VecDeque;
use std::sync::Arc;

use machine::Machine;
use machine::action::{Action, Actions};
use machine::event::Event;
use machine::mail::{Applicant, Application, Mail, ToCoordinator, ToDoor, ToWorker};
use machine::observe::Peer;
use machine::processes::{FromProcess, Inventory, ToGranter, ToMember, ToProcess};
use machine::upgrade::{ToPlace, Turn};
use machine::{Orders, Settings};
use queueing::board::Board;
use queueing::classes::{Class, Classes, DEFAULT, LimitKind, Rate};
use queueing::limiting::{Allowance, Limit};
use settings::{Over, PoolSize};
use units::{ConnId, DoorId, Kind, Life, PoolId, PoolKey, ProcessId, Serial, Time, WorkerId};

use crate::Coordinator;

const WORKER: WorkerId = WorkerId(0);

#[derive(Copy, Clone, PartialEq, Eq)]
enum Side {
    Old,
    New,
}
use Side::{New, Old};

/// The two processes, each with one worker.
struct Pair {
    old: Coordinator,
    new: Coordinator,
    now: Time,
    /// What they have sent to their workers and doors.
    posted: Vec<(Side, Mail)>,
}

impl Pair {
    fn new(change: impl FnOnce(&mut Settings)) -> Pair {
        let mut settings = Settings::default();
        change(&mut settings);
        let coordinator = || Coordinator::new(1, Arc::new(settings.clone()));
        Pair { old: coordinator(), new: coordinator(), now: Time(1_000_000), posted: Vec::new() }
    }

    fn side(&mut self, side: Side) -> &mut Coordinator {
        match side {
            Old => &mut self.old,
            New => &mut self.new,
        }
    }

    /// Tells one of them something, and both what follows from it.
    fn tell(&mut self, side: Side, mail: ToCoordinator) {
        self.see_through(side, Event::Mail(Mail::ToCoordinator(mail)));
    }

    fn turn(&mut self, side: Side, turn: Turn) {
        self.tell(side, ToCoordinator::Upgrade(Box::new(turn)));
    }

    /// The one of this side gets mail of the other.
    fn hears(&mut self, side: Side, said: FromProcess) {
        self.tell(side, from_other(side, said));
    }

    /// The other process is gone.
    fn left_alone(&mut self, side: Side) {
        self.hears(side, FromProcess::Left);
    }

    fn see_through(&mut self, side: Side, event: Event<'_>) {
        let mut under_way = self.step(side, event);
        while let Some((side, said)) = under_way.pop_front() {
            under_way.extend(self.step(side, Event::Mail(Mail::ToCoordinator(from_other(side, said)))));
        }
    }

    /// What the two tell each other in a step.
    fn step(&mut self, side: Side, event: Event<'_>) -> VecDeque<(Side, FromProcess)> {
        let (now, mut actions) = (self.now, Actions::new());
        let coordinator = self.side(side);
        coordinator.step(now, &Board::new(1), event, &mut actions);
        assert_eq!(coordinator.check(), Ok(()));
        let mut told = VecDeque::new();
        for action in actions.take() {
            match action {
                Action::PostToProcess { mail, .. } => match *mail {
                    ToProcess::ToGranter(told_new) => told.push_back((New, FromProcess::ToGranter(told_new))),
                    ToProcess::ToMember(told_old) => told.push_back((Old, FromProcess::ToMember(told_old))),
                    ToProcess::Moved(..) => panic!("a coordinator moves nothing"),
                },
                Action::Post { mail, .. } => self.posted.push((side, mail)),
                Action::Placed { place, .. } => assert!(place.is_some(), "there is room for its pool"),
                Action::Tell(_) | Action::Trace(_) => {}
                other => panic!("{other:?}"),
            }
        }
        told
    }

    /// So much was allowed to the worker since the last time.
    fn allowed(&mut self) -> u32 {
        let allowed = self.posted.drain(..).filter_map(|(_, mail)| match mail {
            Mail::ToWorker(_, ToWorker::Allow(allowed)) => Some(allowed.1),
            _ => None,
        });
        allowed.map(|Allowance { granted, .. }| granted).sum()
    }

    /// A client logs in.
    fn applies(&mut self, side: Side, number: u32) {
        let application = Application {
            applicant: applicant(number),
            key: PoolKey { database: "db".into(), user: "u".into() },
            user: "u".into(),
            console: false,
            exempt: false,
            peer: Peer::Unix { pid: 1, uid: 1 },
            class: DEFAULT,
            proved: Arc::default(),
        };
        self.tell(side, ToCoordinator::Apply(Box::new(application)));
    }

    fn withdraws(&mut self, side: Side, number: u32) {
        self.tell(side, ToCoordinator::Withdrawn { applicant: applicant(number) });
    }

    /// So many were let in since the last time.
    fn placed(&mut self) -> usize {
        let is_placed = |(_, mail): &(Side, Mail)| matches!(mail, Mail::ToDoor(_, ToDoor::Placed { .. }));
        self.posted.drain(..).filter(is_placed).count()
    }

    /// All deadlines are reached that are so near.
    fn wait(&mut self, ms: u64) {
        let until = Time(self.now.0 + ms * 1000);
        for side in [New, Old] {
            while let Some(at) = self.side(side).next_deadline().filter(|at| *at <= until) {
                self.now = self.now.max(at);
                self.see_through(side, Event::DeadlineReached);
            }
        }
        self.now = until;
    }

    fn request(&mut self, limit: &Limit, count: u32) {
        self.tell(Old, ToCoordinator::RequestAllowance { limit: limit.clone(), holder: WORKER.into(), count });
    }

    fn give_back(&mut self, limit: &Limit, count: u32) {
        self.tell(Old, ToCoordinator::Unspent { limit: limit.clone(), holder: WORKER.into(), count, missing: 0 });
    }
}

/// Mail for the process of this side, of the other one.
fn from_other(side: Side, said: FromProcess) -> ToCoordinator {
    let from = if side == Old { ProcessId::Successor } else { ProcessId::Predecessor };
    ToCoordinator::Process(from, Box::new(said))
}

/// The inventory of a process that has nothing.
fn nothing() -> Inventory {
    Inventory {
        pools: Vec::new(),
        permits: Vec::new(),
        serial: Serial::default(),
        orders: Orders::default(),
        primaries: Vec::new(),
    }
}

fn applicant(number: u32) -> Applicant {
    Applicant::Login { door: DoorId(0), login: ConnId::new(Kind::Login, 0, number, 0) }
}

/// One login a second, after the first.
fn with_slow_logins(settings: &mut Settings) {
    let host = connections::databases::Address { host: connections::databases::Host::Unix("/tmp".to_owned()), port: 1 };
    settings.databases.insert("db".to_owned(), Arc::new(connections::databases::Database::new("db", vec![host])));
    limited(|class| class.limits.logins = Some(Rate { per_second: 1, burst: 1 }))(settings);
}

/// A class with limits, and these.
fn limited(change: impl FnOnce(&mut Class)) -> impl FnOnce(&mut Settings) {
    move |settings| {
        let mut class = Class::new("default");
        change(&mut class);
        settings.classes = Arc::new(Classes { all: vec![class], ..Classes::default() });
    }
}

fn limit(kind: LimitKind) -> Limit {
    Limit::Class("default".into(), kind)
}

#[test]
fn permits_that_came_back_while_another_process_decided_are_free_when_that_one_dies() {
    let mut pair = Pair::new(limited(|class| class.limits.active = Some(3)));
    let active = limit(LimitKind::Active);
    pair.request(&active, 3);
    assert_eq!(pair.allowed(), 3);
    pair.turn(Old, Turn::HandOver);
    assert_eq!(pair.new.remaining(&active), Some(0), "those that are out count there");
    pair.give_back(&active, 2);
    assert_eq!(pair.new.remaining(&active), Some(2));
    pair.left_alone(Old);
    assert_eq!(pair.old.remaining(&active), Some(2));
}

#[test]
fn what_another_process_has_allowed_counts_when_that_one_dies() {
    let rate = Rate { per_second: 1, burst: 3 };
    let mut pair = Pair::new(limited(|class| {
        (class.limits.active, class.limits.transactions) = (Some(3), Some(rate));
    }));
    pair.turn(Old, Turn::HandOver);
    for limit in [limit(LimitKind::Active), limit(LimitKind::Transactions)] {
        pair.request(&limit, 3);
        let mut allowed = pair.allowed();
        while pair.new.remaining(&limit).is_some_and(|left| left > 0) {
            pair.request(&limit, 1);
            allowed += pair.allowed();
        }
        assert_eq!(allowed, 3, "{limit:?}");
    }
    pair.left_alone(Old);
    for limit in [limit(LimitKind::Active), limit(LimitKind::Transactions)] {
        assert_eq!(pair.old.remaining(&limit), Some(0), "{limit:?}");
        pair.request(&limit, 1);
        assert_eq!(pair.allowed(), 0, "{limit:?} is exceeded");
    }
}

#[test]
fn a_request_that_waits_during_the_hand_over_is_not_answered_with_what_is_out_already() {
    for over in [Over::Delay, Over::Reject] {
        let mut pair = Pair::new(limited(|class| (class.limits.active, class.limits.over) = (Some(1), over)));
        let active = limit(LimitKind::Active);
        pair.request(&active, 1);
        assert_eq!(pair.allowed(), 1);
        pair.request(&active, 1);
        assert_eq!(pair.allowed(), 0);
        pair.turn(Old, Turn::HandOver);
        assert_eq!(pair.allowed(), 0, "{over:?}: two transactions at a time");
        pair.give_back(&active, 1);
        assert_eq!(pair.allowed(), u32::from(over == Over::Delay), "{over:?}: the one that waits goes on");
    }
}

/// No mail between the processes calls permits back: those of the old process come back by themselves.
#[test]
fn a_worker_of_the_new_process_gets_a_permit_when_the_old_one_is_done_with_it() {
    for (over, waits) in [(Over::Delay, true), (Over::Reject, false)] {
        let mut pair = Pair::new(limited(|class| (class.limits.active, class.limits.over) = (Some(3), over)));
        let active = limit(LimitKind::Active);
        pair.request(&active, 3);
        pair.turn(Old, Turn::HandOver);
        assert_eq!(pair.allowed(), 3);
        pair.tell(New, ToCoordinator::RequestAllowance { limit: active.clone(), holder: WORKER.into(), count: 1 });
        assert_eq!(pair.allowed(), 0, "{over:?}");
        pair.give_back(&active, 1);
        assert_eq!(pair.allowed(), u32::from(waits), "{over:?}");
    }
}

#[test]
fn clients_that_leave_while_their_login_waits_count_nowhere() {
    let mut pair = Pair::new(with_slow_logins);
    (0..4).for_each(|number| pair.applies(Old, number));
    assert_eq!(pair.placed(), 1);
    pair.turn(Old, Turn::HandOver);
    // One that comes to the new process stands behind them, and has an id as theirs.
    pair.applies(New, 2);
    (2..4).for_each(|number| pair.withdraws(Old, number));
    pair.wait(10_000);
    assert_eq!((pair.placed(), pair.old.clients(), pair.new.clients()), (2, 2, 3));
}

#[test]
fn a_client_that_leaves_while_its_admission_is_on_its_way_counts_nowhere() {
    let mut pair = Pair::new(with_slow_logins);
    pair.turn(Old, Turn::HandOver);
    pair.applies(Old, 0);
    assert_eq!((pair.placed(), pair.new.clients()), (1, 1));
    pair.applies(Old, 1);
    pair.now = Time(pair.now.0 + 2_000_000);
    let answer = pair.step(New, Event::DeadlineReached);
    assert_eq!((answer.len(), pair.new.clients()), (1, 2), "it is admitted");
    let withdrawn = Mail::ToCoordinator(ToCoordinator::Withdrawn { applicant: applicant(1) });
    let told = pair.step(Old, Event::Mail(withdrawn));
    for (side, turn) in told.into_iter().chain(answer) {
        pair.hears(side, turn);
    }
    assert_eq!((pair.placed(), pair.old.clients(), pair.new.clients()), (0, 1, 1));
}

#[test]
fn logins_that_wait_for_a_process_that_is_gone_are_forgotten() {
    let mut pair = Pair::new(with_slow_logins);
    pair.applies(Old, 0);
    (1..4).for_each(|number| pair.applies(Old, number));
    pair.turn(Old, Turn::HandOver);
    pair.applies(New, 9);
    let _ = pair.placed();
    pair.left_alone(New);
    pair.wait(10_000);
    let placed = pair
        .posted
        .iter()
        .filter(|(side, mail)| *side == New && matches!(mail, Mail::ToDoor(_, ToDoor::Placed { .. })));
    assert_eq!((placed.count(), pair.new.clients()), (1, 1), "only its own client is left");
}

#[test]
fn a_worker_that_was_renewed_hands_over_too_and_what_it_had_counts_nowhere() {
    let mut pair = Pair::new(|settings| {
        with_slow_logins(settings);
        limited(|class| class.limits.active = Some(3))(settings);
    });
    let active = limit(LimitKind::Active);
    pair.applies(Old, 0);
    pair.request(&active, 2);
    let pool = PoolId(1);
    pair.tell(
        Old,
        ToCoordinator::RequestServer { pool, holder: WORKER.into(), reserve: false, classes: Default::default() },
    );
    pair.turn(Old, Turn::HandOver);
    pair.turn(Old, Turn::EndWhatStays);
    assert_eq!((pair.new.clients(), pair.new.held(pool), pair.new.remaining(&active)), (1, 1, Some(1)));
    pair.posted.clear();
    pair.tell(Old, ToCoordinator::Renewed { worker: WORKER, life: Life::default().next() });
    let told = pair.posted.iter().filter_map(|(side, mail)| match mail {
        Mail::ToWorker(WORKER, mail) if *side == Old => Some(mail),
        _ => None,
    });
    let told: Vec<&ToWorker> = told.collect();
    assert!(
        matches!(told[..], [ToWorker::RenewalNoted { .. }, ToWorker::HandOver, ToWorker::EndWhatStays]),
        "{told:?}"
    );
    assert_eq!((pair.new.clients(), pair.new.held(pool), pair.new.remaining(&active)), (0, 0, Some(3)));
}

/// The workers of this process cannot send mail to those of the other one.
#[test]
fn a_login_report_is_not_requested_for_a_worker_of_the_other_process() {
    let mut pair = Pair::new(|settings| {
        with_slow_logins(settings);
        settings.global.pools.default_pool_size = PoolSize::Fixed(1);
    });
    pair.applies(Old, 0);
    let pool = PoolId(1);
    pair.turn(Old, Turn::HandOver);
    let request =
        || ToCoordinator::RequestServer { pool, holder: WORKER.into(), reserve: false, classes: Default::default() };
    pair.tell(New, request());
    assert_eq!((pair.new.held(pool), pair.old.held(pool)), (1, 0));
    pair.posted.clear();
    pair.tell(Old, request());
    assert_eq!((pair.new.held(pool), pair.old.held(pool)), (1, 0), "the pool is at its size");
    let shares = pair.posted.iter().filter_map(|(side, mail)| match mail {
        Mail::ToWorker(holder, ToWorker::ShareReport { with, .. }) => Some((*side == New, *holder, *with)),
        _ => None,
    });
    assert_eq!(shares.collect::<Vec<_>>(), []);
}

/// A pool for which there was no room in the new process at first.
#[test]
fn what_was_not_counted_leaves_without_being_missed() {
    let mut pair = Pair::new(with_slow_logins);
    pair.applies(New, 0);
    pair.hears(New, FromProcess::ToGranter(ToGranter::Begun(nothing())));
    let key = PoolKey { database: "db".into(), user: "u".into() };
    for said in [
        ToGranter::Departed { key: key.clone(), user: "u".into() },
        ToGranter::Freed { key: key.clone(), fresh: false },
    ] {
        pair.hears(New, FromProcess::ToGranter(said));
    }
    assert_eq!(pair.new.clients(), 1);
    let (session, from) = (Some("u".into()), Some(ProcessId::Predecessor));
    let mut moved = ToPlace { ticket: 1, key, session, console: false, server: true, from };
    pair.turn(New, Turn::Place(moved.clone()));
    (moved.session, moved.ticket) = (None, 2);
    pair.turn(New, Turn::Place(moved));
    assert_eq!((pair.new.clients(), pair.new.held(PoolId(1)), pair.new.check()), (2, 2, Ok(())));
}

#[test]
fn a_worker_that_had_nothing_to_give_back_owes_nothing_when_the_other_process_dies() {
    let mut pair = Pair::new(with_slow_logins);
    pair.applies(Old, 0);
    let pool = PoolId(1);
    pair.tell(
        Old,
        ToCoordinator::RequestServer { pool, holder: WORKER.into(), reserve: false, classes: Default::default() },
    );
    pair.turn(Old, Turn::HandOver);
    let key = pair.old.pools[pool].key.clone();
    pair.hears(Old, FromProcess::ToMember(ToMember::Recall { key, busy: true }));
    assert_eq!(pair.old.pools[pool].held.yielding(pair.now), (1, 0));
    pair.tell(Old, ToCoordinator::NothingIdle { pool, holder: WORKER.into(), busy: true });
    pair.left_alone(Old);
    assert_eq!(pair.old.pools[pool].held.yielding(pair.now), (0, 0));
}
