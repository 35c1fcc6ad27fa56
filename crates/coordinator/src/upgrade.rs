//! An online upgrade: two processes with one set of tokens.
//!
//! The new process has all tokens. The one that leaves is to it one more worker ([`Coordinator::elsewhere`]) and one more door
//! ([`ELSEWHERE`]), whose mail travels between the processes; this file translates, since ids of pools are each process's own. The
//! coordinator of the process that leaves grants nothing by itself any more: it passes requests on, and hands out what it is granted.
//!
//! Promises that no limit is exceeded over both (I5): what the other process has counts here from `Begun` until it says that it is gone,
//! or has arrived. If it ends without a word, nothing of it is left, and all that it had is free.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use machine::Proved;
use machine::action::{Action, Actions, Placed};
use machine::mail::{Application, Mail, Refusal, ToCoordinator, ToDoor, ToWorker};
use machine::upgrade::{Inventory, PoolUse, ToOther, ToPlace, ToPredecessor, ToSuccessor};
use queueing::classes::{ClassId, DEFAULT};
use queueing::limiting::{Allowance, Limit};
use units::{ConnId, DoorId, Life, PoolId, PoolKey, Time, WorkerId};

use crate::server_requests::{CapacityView, ServerRequest};
use crate::{CONSOLE, Coordinator, sizes};

/// The door of the other process.
const ELSEWHERE: DoorId = DoorId(u8::MAX);

/// So many numbers are left to what the process that leaves still opens.
const SERIALS_LEFT: i32 = 1 << 16;

/// How often it is looked whether one of the two processes has more of a pool than its part while the other one waits.
const BALANCE: Duration = Duration::from_millis(50);

/// What a process that leaves has asked the other one for.
#[derive(Debug, Default)]
pub(crate) struct Leaving {
    servers: BTreeMap<PoolId, VecDeque<WorkerId>>,
    allowances: BTreeMap<Limit, VecDeque<(WorkerId, u32)>>,
    applications: BTreeMap<u64, Application>,
    last_ticket: u64,
}

impl Coordinator {
    /// The worker that stands for the process whose place we take.
    pub(crate) fn elsewhere(&self) -> WorkerId {
        WorkerId(self.homes.workers())
    }

    /// Mail of an online upgrade.
    pub(crate) fn upgrade(&mut self, now: Time, mail: ToCoordinator, actions: &mut Actions) {
        match mail {
            ToCoordinator::HandOver => self.hand_over(actions),
            ToCoordinator::GoOn => self.go_on(now, actions),
            ToCoordinator::FromPredecessor(told) => self.from_predecessor(now, *told, actions),
            ToCoordinator::FromSuccessor(told) => self.from_successor(now, *told, actions),
            ToCoordinator::PredecessorGone => self.predecessor_gone(now, actions),
            ToCoordinator::PlaceMoved(moved) => {
                let place = if moved.is_ours { self.place_again(now, &moved) } else { self.place_moved(&moved) };
                actions.push(Action::Placed { ticket: moved.ticket, place });
            }
            ToCoordinator::MovedAway { pool, worker, life, session, server } => {
                self.moved_away(now, (pool, worker, life), session.as_ref(), server);
            }
            other => unreachable!("this is no mail of an upgrade: {other:?}"),
        }
    }

    /// Another process takes our place: tells it what is here, and has the workers hand over.
    fn hand_over(&mut self, actions: &mut Actions) {
        if self.leaving.is_some() {
            return;
        }
        let pools = self.pools.live().map(|(_, entry)| PoolUse {
            key: entry.key.clone(),
            sessions: entry.by_user(),
            tokens: entry.held.total(),
            size: entry.auto.as_ref().map(|_| entry.size),
        });
        let (permits, pending) = self.limits.hand_over();
        let inventory = Inventory { pools: pools.collect(), permits, serial: self.serial };
        actions.tell_other(ToOther::Successor(ToSuccessor::Begun(inventory)));
        self.leaving = Some(Box::default());
        for request in self.requests.take() {
            self.request_elsewhere(request.pool, request.worker, request.reserve(), actions);
        }
        for (limit, worker, count) in pending {
            self.request_allowance_elsewhere(limit, worker, count, actions);
        }
        for application in self.limits.take_applications() {
            self.apply_elsewhere(application, actions);
        }
        (0..self.homes.workers()).for_each(|worker| actions.post_to_worker(WorkerId(worker), ToWorker::HandOver));
    }

    /// The other process is gone: we grant again by ourselves.
    fn go_on(&mut self, now: Time, actions: &mut Actions) {
        let Some(leaving) = self.leaving.take() else { return };
        (0..self.homes.workers()).for_each(|worker| actions.post_to_worker(WorkerId(worker), ToWorker::GoOn));
        for (pool, workers) in leaving.servers {
            workers.into_iter().for_each(|worker| self.requests.push(ServerRequest::new(pool, worker, false, now)));
        }
        for (limit, asked) in leaving.allowances {
            for (worker, count) in asked {
                self.limits.requested(now, &self.settings, &limit, (worker, count), actions);
            }
        }
        leaving.applications.into_values().for_each(|application| self.place(application, actions));
        self.grant_requests(now, actions);
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }

    /// A client that logs in while we leave: the other process says whether it may.
    pub(crate) fn apply_elsewhere(&mut self, application: Application, actions: &mut Actions) {
        let Some(leaving) = &mut self.leaving else { return };
        leaving.last_ticket += 1;
        let ticket = leaving.last_ticket;
        let Application { key, user, console, exempt, class, peer, .. } = application.clone();
        leaving.applications.insert(ticket, application);
        let class = Arc::clone(&self.settings.classes.class(class).name);
        let apply = ToSuccessor::Apply { ticket, key, user, console, exempt, class, peer };
        actions.tell_other(ToOther::Successor(apply));
    }

    fn request_elsewhere(&mut self, pool: PoolId, worker: WorkerId, reserve: bool, actions: &mut Actions) {
        let Some(leaving) = &mut self.leaving else { return };
        leaving.servers.entry(pool).or_default().push_back(worker);
        let key = self.pools[pool].key.clone();
        actions.tell_other(ToOther::Successor(ToSuccessor::RequestServer { key, reserve }));
    }

    fn request_allowance_elsewhere(&mut self, limit: Limit, worker: WorkerId, count: u32, actions: &mut Actions) {
        let Some(leaving) = &mut self.leaving else { return };
        leaving.allowances.entry(limit.clone()).or_default().push_back((worker, count));
        actions.tell_other(ToOther::Successor(ToSuccessor::RequestAllowance { limit, count }));
    }

    /// What a worker says while we leave, as far as it is the other process that decides. Returns what is left to do here.
    pub(crate) fn pass_on(&mut self, mail: ToCoordinator, actions: &mut Actions) -> Option<ToCoordinator> {
        let told = match mail {
            ToCoordinator::Apply(application) => {
                self.apply_elsewhere(*application, actions);
                return None;
            }
            ToCoordinator::Withdrawn { login } => {
                // If the other process lets it in, it has left again.
                if let Some(leaving) = &mut self.leaving {
                    leaving.applications.retain(|_, application| application.login != login);
                }
                return None;
            }
            ToCoordinator::RequestServer { pool, worker, reserve, classes: _ } => {
                self.request_elsewhere(pool, worker, reserve, actions);
                return None;
            }
            ToCoordinator::RequestAllowance { limit, worker, count } => {
                self.request_allowance_elsewhere(limit, worker, count, actions);
                return None;
            }
            ToCoordinator::Unspent { limit, worker: _, count, missing } => {
                ToSuccessor::Unspent { limit, count, missing }
            }
            ToCoordinator::NothingIdle { pool, worker: _, busy } => {
                ToSuccessor::NothingIdle { key: self.pools[pool].key.clone(), busy }
            }
            ToCoordinator::StillNeeded { pool, worker: _, count, classes: _ } => {
                ToSuccessor::StillNeeded { key: self.pools[pool].key.clone(), count }
            }
            ToCoordinator::Opened { pool, .. } => {
                let key = self.pools[pool].key.clone();
                actions.tell_other(ToOther::Successor(ToSuccessor::Opened { key }));
                return Some(mail);
            }
            ToCoordinator::Freed { pool, fresh, .. } => {
                let key = self.pools[pool].key.clone();
                actions.tell_other(ToOther::Successor(ToSuccessor::Freed { key, fresh }));
                return Some(mail);
            }
            ToCoordinator::Departed { pool, worker, life, ref user } => {
                if self.renewals.life(worker) == life {
                    let (key, user) = (self.pools[pool].key.clone(), Arc::clone(user));
                    actions.tell_other(ToOther::Successor(ToSuccessor::Departed { key, user }));
                }
                return Some(mail);
            }
            other => return Some(other),
        };
        actions.tell_other(ToOther::Successor(told));
        None
    }

    fn from_successor(&mut self, now: Time, told: ToPredecessor, actions: &mut Actions) {
        if self.leaving.is_none() {
            return;
        }
        match told {
            ToPredecessor::Answer { ticket, refusal } => self.answered_elsewhere(ticket, refusal, actions),
            ToPredecessor::Granted { key } => self.granted_elsewhere(now, &key, actions),
            ToPredecessor::Dropped { key, count, reserve } => {
                for worker in self.dropped_elsewhere(&key, count) {
                    let pool = self.pools.id_of(&key).expect("its requests were dropped");
                    actions.post_to_worker(worker, ToWorker::Dropped { pool, count: 1, reserve });
                }
            }
            ToPredecessor::Inquire { key } => {
                let pool = self.pools.id_of(&key);
                let asked = self.leaving.as_ref().zip(pool).and_then(|(leaving, pool)| leaving.servers.get(&pool));
                let count = asked.map_or(0, |asked| asked.len() as u32);
                actions.tell_other(ToOther::Successor(ToSuccessor::StillNeeded { key, count }));
            }
            ToPredecessor::Recall { key, busy } => self.recall(now, key, busy, actions),
            ToPredecessor::Shrink { key, count } => {
                let Some(pool) = self.pools.id_of(&key) else { return };
                let entry = &mut self.pools[pool];
                let most = entry.held.total().saturating_sub(count);
                for (worker, count) in entry.held.shrink(most).filter(|(_, count)| *count > 0) {
                    actions.post_to_worker(worker, ToWorker::Shrink { pool, count });
                }
            }
            ToPredecessor::Allow { limit, granted, answered, remaining, next_at } => {
                let answer = Allowance { worker: WorkerId(0), granted, answered, remaining, next_at };
                self.allowed_elsewhere(&limit, answer, actions);
            }
            ToPredecessor::Cancel { pid, secret } => {
                // Whichever worker knows it.
                for worker in 0..self.homes.workers() {
                    let secret = secret.clone();
                    actions.post_to_worker(WorkerId(worker), ToWorker::Cancel { pid, secret });
                }
                if self.succeeds {
                    actions.tell_other(ToOther::Predecessor(ToPredecessor::Cancel { pid, secret }));
                }
            }
        }
    }

    fn answered_elsewhere(&mut self, ticket: u64, refusal: Option<Refusal>, actions: &mut Actions) {
        let application = self.leaving.as_mut().and_then(|leaving| leaving.applications.remove(&ticket));
        match (application, refusal) {
            (Some(Application { login, door, .. }), Some(why)) => {
                actions.post_to_door(door, ToDoor::NotPlaced { login, why });
            }
            (Some(application), None) => {
                let (key, user) = (application.key.clone(), Arc::clone(&application.user));
                if !self.place_admitted(application, actions) {
                    actions.tell_other(ToOther::Successor(ToSuccessor::Departed { key, user }));
                }
            }
            (None, _) => {}
        }
    }

    fn granted_elsewhere(&mut self, now: Time, key: &PoolKey, actions: &mut Actions) {
        let asker = self.dropped_elsewhere(key, 1).pop();
        match self.pools.id_of(key).zip(asker) {
            Some((pool, worker)) => self.grant(now, pool, worker, false, actions),
            // Nobody waits for it any more.
            None => {
                actions.tell_other(ToOther::Successor(ToSuccessor::Freed { key: key.clone(), fresh: true }));
            }
        }
    }

    /// The oldest requests of a pool are answered: whose they were.
    fn dropped_elsewhere(&mut self, key: &PoolKey, count: u32) -> Vec<WorkerId> {
        let pool = self.pools.id_of(key);
        let Some((leaving, pool)) = self.leaving.as_mut().zip(pool) else { return Vec::new() };
        let asked = leaving.servers.entry(pool).or_default();
        let count = asked.len().min(count as usize);
        asked.drain(..count).collect()
    }

    fn recall(&mut self, now: Time, key: PoolKey, busy: bool, actions: &mut Actions) {
        match self.pools.id_of(&key).filter(|pool| self.pools[*pool].held.total() > 0) {
            Some(pool) => {
                let worker = self.pools[pool].held.yields_next(now);
                actions.post_to_worker(worker, ToWorker::Recall { pool, busy });
            }
            None => actions.tell_other(ToOther::Successor(ToSuccessor::NothingIdle { key, busy })),
        }
    }

    /// The oldest requests get what was granted.
    fn allowed_elsewhere(&mut self, limit: &Limit, answer: Allowance, actions: &mut Actions) {
        let Some(asked) = self.leaving.as_mut().and_then(|leaving| leaving.allowances.get_mut(limit)) else { return };
        let (mut granted, mut answered) = (answer.granted, answer.answered);
        while let Some((worker, count)) = asked.pop_front() {
            let of_this = count.min(answered);
            let is_last = of_this < count || asked.is_empty();
            // What is granted beyond what was requested is given ahead: to the last one.
            let given = if is_last { granted } else { granted.min(of_this) };
            (granted, answered) = (granted - given, answered - of_this);
            let share = Allowance { worker, granted: given, answered: of_this, ..answer.clone() };
            actions.post_to_worker(worker, ToWorker::Allow(Box::new((limit.clone(), share))));
            if of_this < count {
                asked.push_front((worker, count - of_this));
            }
            if is_last {
                return;
            }
        }
    }

    /// What the process whose place we take says, as one of our workers would.
    fn from_predecessor(&mut self, now: Time, told: ToSuccessor, actions: &mut Actions) {
        let worker = self.elsewhere();
        let mail = match told {
            ToSuccessor::Begun(inventory) => return self.take_inventory(now, inventory, actions),
            ToSuccessor::Apply { ticket, key, user, console, exempt, class, peer } => {
                let classes = &self.settings.classes.all;
                let class = classes.iter().position(|known| known.name == class);
                let class = class.map_or(DEFAULT, |index| ClassId(index as u8));
                let login = ConnId::from_bits(ticket);
                let proved = Arc::new(Proved::default());
                let door = ELSEWHERE;
                ToCoordinator::Apply(Box::new(Application {
                    login,
                    door,
                    key,
                    user,
                    console,
                    exempt,
                    peer,
                    class,
                    proved,
                }))
            }
            ToSuccessor::Departed { key, user } => match self.pools.id_of(&key) {
                Some(pool) => ToCoordinator::Departed { pool, worker, life: Life::default(), user },
                None => return,
            },
            ToSuccessor::RequestAllowance { limit, count } => ToCoordinator::RequestAllowance { limit, worker, count },
            ToSuccessor::Unspent { limit, count, missing } => ToCoordinator::Unspent { limit, worker, count, missing },
            ToSuccessor::RequestServer { key, reserve } => match self.pool_of(&key) {
                Some(pool) => ToCoordinator::RequestServer { pool, worker, reserve, classes: Default::default() },
                None => return,
            },
            ToSuccessor::StillNeeded { ref key, .. }
            | ToSuccessor::NothingIdle { ref key, .. }
            | ToSuccessor::Opened { ref key }
            | ToSuccessor::Freed { ref key, .. } => {
                let Some(pool) = self.pools.id_of(key) else { return };
                match told {
                    ToSuccessor::StillNeeded { count, .. } => {
                        ToCoordinator::StillNeeded { pool, worker, count, classes: Default::default() }
                    }
                    ToSuccessor::NothingIdle { busy, .. } => ToCoordinator::NothingIdle { pool, worker, busy },
                    ToSuccessor::Opened { .. } => ToCoordinator::Opened { pool, worker },
                    _ => ToCoordinator::Freed {
                        pool,
                        worker,
                        fresh: matches!(told, ToSuccessor::Freed { fresh: true, .. }),
                    },
                }
            }
        };
        self.delivered(now, mail, actions);
    }

    /// All that the other process has counts as that of a worker of ours.
    fn take_inventory(&mut self, now: Time, inventory: Inventory, actions: &mut Actions) {
        self.succeeds = true;
        let worker = self.elsewhere();
        let serial = inventory.serial.0.checked_add(SERIALS_LEFT).unwrap_or(SERIALS_LEFT);
        self.serial.0 = self.serial.0.max(serial);
        for PoolUse { key, sessions, tokens, size } in inventory.pools {
            // As many pools as this are never in use: `limits::POOLS_MAX` held there too.
            let Some(pool) = self.pool_of(&key) else { continue };
            for (user, count) in sessions {
                (0..count).for_each(|_| self.came_elsewhere(pool, &user));
            }
            let entry = &mut self.pools[pool];
            if let Some(size) = size {
                entry.start_with(size);
            }
            for _ in 0..tokens {
                entry.held.granted(now, worker);
                self.tokens.held_elsewhere(pool, &entry.key);
            }
            self.unused.comes_into_use(pool, entry);
            sizes::resize(pool, entry, actions);
        }
        for (limit, count) in inventory.permits {
            self.limits.requested(now, &self.settings, &limit, (worker, count), actions);
        }
    }

    fn came_elsewhere(&mut self, pool: PoolId, user: &Arc<str>) {
        let worker = self.elsewhere();
        let entry = &mut self.pools[pool];
        entry.session_came(worker, user);
        self.unused.comes_into_use(pool, entry);
        self.clients.came(&entry.key.database, user);
    }

    /// A home for what comes from the other process, whose it is no more.
    fn place_moved(&mut self, moved: &ToPlace) -> Option<Placed> {
        let from = self.elsewhere();
        let pool = if moved.console { CONSOLE } else { self.pools.id_of(&moved.key)? };
        let entry = &mut self.pools[pool];
        let worker = match &moved.session {
            Some(user) => {
                let worker = entry.home_for_session();
                entry.session_left(from, user);
                entry.session_came(worker, user);
                self.homes.session_came(worker);
                worker
            }
            None => entry.poorest_home()?,
        };
        if moved.server {
            entry.held.moved(from, worker);
        }
        let homes = entry.homes.len() as u16;
        Some(Placed { worker, pool, homes, life: self.renewals.life(worker) })
    }

    /// A home for what could not be handed over. It counts as it did before.
    fn place_again(&mut self, now: Time, moved: &ToPlace) -> Option<Placed> {
        let pool = if moved.console { CONSOLE } else { self.pool_of(&moved.key)? };
        let worker = match &moved.session {
            Some(user) => self.place_session(pool, user),
            None => self.pools[pool].poorest_home()?,
        };
        let entry = &mut self.pools[pool];
        if moved.server {
            entry.held.granted(now, worker);
            self.tokens.held_elsewhere(pool, &entry.key);
            self.unused.comes_into_use(pool, entry);
        }
        let homes = self.pools[pool].homes.len() as u16;
        Some(Placed { worker, pool, homes, life: self.renewals.life(worker) })
    }

    fn moved_away(
        &mut self,
        now: Time,
        (pool, worker, life): (PoolId, WorkerId, Life),
        session: Option<&Arc<str>>,
        server: bool,
    ) {
        if let Some(user) = session.filter(|_| self.renewals.life(worker) == life) {
            self.departed(pool, worker, user);
        }
        if server {
            self.freed(pool, worker);
        }
        self.note_use(now, pool);
    }

    /// Within a process workers of one pool lend each other servers; between the two one has to be closed before the other can open one. Each
    /// side has a right to its sessions' part of a pool that is at its size, and to one server at least, if need be in turns.
    fn balance(&mut self, now: Time, actions: &mut Actions) {
        self.balance_at = None;
        if !self.succeeds {
            return;
        }
        let there = self.elsewhere();
        let view = CapacityView { settings: &self.settings, pools: &self.pools, tokens: &self.tokens };
        let blocked: BTreeSet<PoolId> = self.requests.at_their_size(&view).into_iter().collect();
        if !blocked.is_empty() {
            self.balance_at = Some(now + BALANCE);
        }
        for pool in blocked {
            let (wanted_there, wanted_here) = self.requests.sides(pool, there);
            let entry = &mut self.pools[pool];
            let held_there = entry.held.of(there);
            let held_here = entry.held.total() - held_there;
            let sessions: u32 = entry.sessions.iter().sum();
            let of_there = entry.sessions[usize::from(there.0)];
            let share = (entry.size * of_there).div_ceil(sessions.max(1)).max(u32::from(of_there > 0));
            let is_asked_there = wanted_here && held_there > 0 && (held_there > share || held_here == 0);
            let is_asked_here =
                wanted_there && of_there > 0 && held_here > 0 && (held_there < share || held_there == 0);
            if !is_asked_there && !is_asked_here || entry.held.yielding(now).0 > 0 {
                continue;
            }
            if let Some(worker) = entry.held.yields_of(now, there, is_asked_there) {
                actions.post_to_worker(worker, ToWorker::Recall { pool, busy: true });
            }
        }
    }

    /// When [`Coordinator::balance`] has something to do.
    pub(crate) fn balance_at(&self) -> Option<Time> {
        self.balance_at
    }

    pub(crate) fn balance_if_due(&mut self, now: Time, actions: &mut Actions) {
        if self.balance_at.is_some_and(|at| at <= now) {
            self.balance(now, actions);
        }
    }

    /// A request was not granted.
    pub(crate) fn balance_soon(&mut self, now: Time) {
        if self.succeeds && self.balance_at.is_none() {
            self.balance_at = Some(now + BALANCE);
        }
    }

    /// The other process is gone with all that it had.
    fn predecessor_gone(&mut self, now: Time, actions: &mut Actions) {
        let worker = self.elsewhere();
        self.requests.drop_of_worker(worker);
        self.tokens.forget_logins(worker);
        self.limits.worker_lost(worker, actions);
        for pool in self.pools.ids() {
            for user in self.pools[pool].users_of(worker) {
                self.departed(pool, worker, &user);
            }
            while self.pools[pool].held.of(worker) > 0 {
                self.freed(pool, worker);
            }
            if self.pools[pool].is_live() {
                self.note_use(now, pool);
            }
        }
        self.grant_requests(now, actions);
        self.redirect(now, actions);
        self.succeeds = false;
    }

    /// Mail for the worker and the door that stand for the other process goes to that.
    pub(crate) fn redirect(&mut self, now: Time, actions: &mut Actions) {
        if !self.succeeds {
            return;
        }
        let (elsewhere, mut vain) = (self.elsewhere(), Vec::new());
        let keys = |pool: PoolId| self.pools.get(pool).map(|entry| entry.key.clone());
        actions.replace_each(|action| match action {
            Action::Post { mail: Mail::ToWorker(worker, mail), .. } if worker == elsewhere => {
                if let ToWorker::CallBack(call) = &mail {
                    vain.push((call.0.clone(), call.1.count));
                }
                let told = to_predecessor(mail, keys)?;
                Some(Action::TellOther(Box::new(ToOther::Predecessor(told))))
            }
            Action::Post { mail: Mail::ToDoor(ELSEWHERE, mail), .. } => {
                let (login, refusal) = match mail {
                    ToDoor::Placed { login, .. } => (login, None),
                    ToDoor::NotPlaced { login, why } => (login, Some(why)),
                    _ => return None,
                };
                let answer = ToPredecessor::Answer { ticket: login.to_bits(), refusal };
                Some(Action::TellOther(Box::new(ToOther::Predecessor(answer))))
            }
            other => Some(other),
        });
        // Permits come back from there by themselves, once they are not used.
        for (limit, count) in vain {
            self.limits.unspent(now, &limit, elsewhere, (0, count), actions);
        }
    }

    /// Whether an application is the other process's.
    pub(crate) fn is_elsewhere(application: &Application) -> bool {
        application.door == ELSEWHERE
    }

    /// The other process lets a client in, which stays there.
    pub(crate) fn place_elsewhere(&mut self, application: &Application, actions: &mut Actions) {
        let Application { login, door, key, user, console, exempt, .. } = application;
        let (login, user) = (*login, Arc::clone(user));
        let pool = match self.admit(key, &user, *console, *exempt) {
            Ok(()) if *console => Ok(CONSOLE),
            Ok(()) => self.pool_of(key).ok_or(Refusal::TooManyPools),
            Err(why) => Err(why),
        };
        let answer = match pool {
            Err(why) => ToDoor::NotPlaced { login, why },
            Ok(pool) => {
                self.came_elsewhere(pool, &user);
                let (worker, life) = (self.elsewhere(), Life::default());
                ToDoor::Placed { login, pool, homes: 0, worker, life, user, serial: self.serial }
            }
        };
        actions.post_to_door(*door, answer);
    }
}

fn to_predecessor(mail: ToWorker, keys: impl Fn(PoolId) -> Option<PoolKey>) -> Option<ToPredecessor> {
    Some(match mail {
        ToWorker::Granted(grant) => ToPredecessor::Granted { key: grant.key },
        ToWorker::Dropped { pool, count, reserve } => ToPredecessor::Dropped { key: keys(pool)?, count, reserve },
        ToWorker::Inquire { pool } => ToPredecessor::Inquire { key: keys(pool)? },
        ToWorker::Recall { pool, busy } => ToPredecessor::Recall { key: keys(pool)?, busy },
        ToWorker::Shrink { pool, count } if count > 0 => ToPredecessor::Shrink { key: keys(pool)?, count },
        ToWorker::Allow(allowed) => {
            let (limit, Allowance { worker: _, granted, answered, remaining, next_at }) = *allowed;
            ToPredecessor::Allow { limit, granted, answered, remaining, next_at }
        }
        _ => return None,
    })
}
