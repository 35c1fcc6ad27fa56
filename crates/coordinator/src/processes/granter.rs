//! The process that leaves: it grants nothing by itself any more, passes requests on, and hands out what it is granted.

use std::sync::Arc;

use machine::action::{Actions, Placed};
use machine::mail::{ToCoordinator, ToDoor, ToWorker};
use machine::processes::{Inventory, PoolUse, ToGranter, ToMember, ToProcess};
use machine::upgrade::{DoorTurn, ToPlace};
use queueing::limiting::{Allowance, Limit};
use units::{DoorId, Holder, Life, PoolId, PoolKey, ProcessId, Time, WorkerId};

use crate::applicants::refuse;
use crate::holders;
use crate::server_requests::ServerRequest;
use crate::{CONSOLE, Coordinator};

impl Coordinator {
    /// Another process takes our place: tells it what is here, and has the workers hand over.
    pub(super) fn hand_over(&mut self, actions: &mut Actions) {
        if self.upgrade.leaving.is_some() {
            return;
        }
        let pools = self.pools.live().map(|(_, entry)| PoolUse {
            key: entry.key.clone(),
            sessions: entry.by_user(),
            tokens: entry.held.total(),
            size: entry.auto.as_ref().map(|_| entry.size),
        });
        let (permits, pending) = self.limits.hand_over();
        let orders = self.settings.orders.clone();
        let inventory = Inventory { pools: pools.collect(), permits, serial: self.serial, orders };
        actions.post_to_process(ProcessId::Successor, ToProcess::ToGranter(ToGranter::Begun(inventory)));
        self.upgrade.leaving = Some(Box::default());
        for request in self.requests.take() {
            self.request_elsewhere(request.pool, request.holder, request.reserve(), actions);
        }
        for (limit, holder, count) in pending {
            self.upgrade.request_allowance(limit, holder, count, actions);
        }
        for application in self.limits.take_applications() {
            self.upgrade.apply(application, &self.settings, actions);
        }
        (0..self.homes.workers()).for_each(|worker| actions.post_to_worker(WorkerId(worker), ToWorker::HandOver));
    }

    /// `upgrade_timeout` is over.
    pub(super) fn end_what_stays(&mut self, actions: &mut Actions) {
        // The other process may have died just before.
        if let Some(leaving) = &mut self.upgrade.leaving {
            leaving.is_late = true;
            (0..self.homes.workers())
                .for_each(|worker| actions.post_to_worker(WorkerId(worker), ToWorker::EndWhatStays));
        }
    }

    /// A worker is in the place of one that has panicked: it hands over too, and the other process no longer counts what that one had.
    pub(crate) fn hand_over_again(&mut self, worker: WorkerId, actions: &mut Actions) {
        let Some(leaving) = &self.upgrade.leaving else { return };
        actions.post_to_worker(worker, ToWorker::HandOver);
        if leaving.is_late {
            actions.post_to_worker(worker, ToWorker::EndWhatStays);
        }
        for (_, entry) in self.pools.live() {
            for user in entry.users_of(worker.into()) {
                let key = entry.key.clone();
                actions.post_to_process(ProcessId::Successor, ToProcess::ToGranter(ToGranter::Departed { key, user }));
            }
        }
        for (limit, count) in self.limits.permits_of_worker(worker) {
            actions.post_to_process(
                ProcessId::Successor,
                ToProcess::ToGranter(ToGranter::Unspent { limit, count, missing: 0 }),
            );
        }
    }

    /// The other process is gone: we grant again by ourselves.
    pub(super) fn go_on(&mut self, now: Time, actions: &mut Actions) {
        let Some(leaving) = self.upgrade.leaving.take() else { return };
        (0..self.homes.workers()).for_each(|worker| actions.post_to_worker(WorkerId(worker), ToWorker::GoOn));
        for (pool, holders) in leaving.servers {
            holders.into_iter().for_each(|holder| self.requests.push(ServerRequest::new(pool, holder, false, now)));
        }
        for (limit, asked) in leaving.allowances {
            for (holder, count) in asked {
                self.limits.requested(now, &self.settings, &limit, (holder, count), actions);
            }
        }
        leaving.applications.into_values().for_each(|application| self.place(application, actions));
        self.grant_requests(now, actions);
    }

    pub(super) fn request_elsewhere(&mut self, pool: PoolId, holder: Holder, reserve: bool, actions: &mut Actions) {
        let Some(leaving) = &mut self.upgrade.leaving else { return };
        leaving.servers.entry(pool).or_default().push_back(holder);
        let key = self.pools[pool].key.clone();
        actions.post_to_process(ProcessId::Successor, ToProcess::ToGranter(ToGranter::RequestServer { key, reserve }));
    }

    /// Mail while we leave. Returns what counts here.
    ///
    /// | mail | goes to the other process | counts here |
    /// |---|---|---|
    /// | asks for something, or takes that back: the other process decides | yes | no: here it would be granted once more |
    /// | says what a holder has or has no more | yes | yes: if the other process dies, we go on with these counts |
    /// | is about this process alone | no | yes |
    pub(crate) fn pass_on(&mut self, mail: ToCoordinator, actions: &mut Actions) -> Option<ToCoordinator> {
        match mail {
            ToCoordinator::Apply(application) => self.upgrade.apply(*application, &self.settings, actions),
            ToCoordinator::Withdrawn { applicant } => self.upgrade.withdraw(applicant, actions),
            ToCoordinator::RequestServer { pool, holder, reserve, classes: _ } => {
                self.request_elsewhere(pool, holder, reserve, actions);
            }
            ToCoordinator::StillNeeded { pool, holder: _, count, classes: _ } => {
                let key = self.pools[pool].key.clone();
                actions
                    .post_to_process(ProcessId::Successor, ToProcess::ToGranter(ToGranter::StillNeeded { key, count }));
            }
            ToCoordinator::RequestAllowance { limit, holder, count } => {
                self.upgrade.request_allowance(limit, holder, count, actions);
            }
            ToCoordinator::NothingIdle { .. }
            | ToCoordinator::Opened { .. }
            | ToCoordinator::Freed { .. }
            | ToCoordinator::Unspent { .. }
            | ToCoordinator::Departed { .. } => {
                if let Some(told) = self.said_elsewhere(&mail) {
                    actions.post_to_process(ProcessId::Successor, ToProcess::ToGranter(told));
                }
                return Some(mail);
            }
            // What a renewed worker's predecessor had is told in `hand_over_again`, what has moved by the luggage.
            ToCoordinator::Failed(_)
            | ToCoordinator::Moved { .. }
            | ToCoordinator::Renewed { .. }
            | ToCoordinator::LoansArrived { .. }
            | ToCoordinator::Forgotten { .. }
            | ToCoordinator::Empty { .. }
            | ToCoordinator::Emptied { .. }
            | ToCoordinator::Counted(_)
            | ToCoordinator::Refused(_)
            | ToCoordinator::Upgrade(_)
            | ToCoordinator::Configure(_)
            | ToCoordinator::Stop(_) => return Some(mail),
        }
        None
    }

    /// What a worker has or has no more, in words that both processes know.
    fn said_elsewhere(&self, mail: &ToCoordinator) -> Option<ToGranter> {
        let key = |pool: PoolId| self.pools[pool].key.clone();
        Some(match *mail {
            ToCoordinator::NothingIdle { pool, busy, .. } => ToGranter::NothingIdle { key: key(pool), busy },
            ToCoordinator::Opened { pool, .. } => ToGranter::Opened { key: key(pool) },
            ToCoordinator::Freed { pool, fresh, .. } => ToGranter::Freed { key: key(pool), fresh },
            ToCoordinator::Unspent { ref limit, count, missing, .. } => {
                ToGranter::Unspent { limit: limit.clone(), count, missing }
            }
            // Others have departed with their worker.
            ToCoordinator::Departed { pool, holder, life, ref user } if self.renewals.life(holder) == life => {
                ToGranter::Departed { key: key(pool), user: Arc::clone(user) }
            }
            _ => return None,
        })
    }

    pub(super) fn hear_successor(&mut self, now: Time, told: ToMember, actions: &mut Actions) {
        if self.upgrade.leaving.is_none() {
            return;
        }
        match told {
            ToMember::Admitted { ticket, key, user } => self.admitted(ticket, key, user, actions),
            ToMember::NotAdmitted { ticket, why } => {
                if let Some(application) = self.upgrade.take_application(ticket) {
                    refuse(application.applicant, why, actions);
                }
            }
            ToMember::Granted { key } => self.granted_elsewhere(now, &key, actions),
            ToMember::Dropped { key, count, reserve } => {
                for holder in self.dropped_elsewhere(&key, count) {
                    let pool = self.pools.id_of(&key).expect("its requests were dropped");
                    holders::post(holder, &key, ToWorker::Dropped { pool, count: 1, reserve }, actions);
                }
            }
            ToMember::Inquire { key } => {
                let pool = self.pools.id_of(&key);
                let asked =
                    self.upgrade.leaving.as_ref().zip(pool).and_then(|(leaving, pool)| leaving.servers.get(&pool));
                let count = asked.map_or(0, |asked| asked.len() as u32);
                actions
                    .post_to_process(ProcessId::Successor, ToProcess::ToGranter(ToGranter::StillNeeded { key, count }));
            }
            ToMember::Recall { key, busy } => self.recall(now, key, busy, actions),
            ToMember::Shrink { key, count } => {
                let Some(pool) = self.pools.id_of(&key) else { return };
                let entry = &mut self.pools[pool];
                let most = entry.held.total().saturating_sub(count);
                for (holder, count) in entry.held.shrink(most).filter(|(_, count)| *count > 0) {
                    holders::post(holder, &key, ToWorker::Shrink { pool, count }, actions);
                }
            }
            ToMember::Allow { limit, granted, answered, remaining, next_at } => {
                self.allowed_elsewhere(now, &limit, (granted, answered), (remaining, next_at), actions);
            }
            ToMember::Cancel { pid, secret, door, number } => {
                // There is one.
                actions.post_to_door(
                    DoorId(0),
                    ToDoor::Upgrade(DoorTurn::Cancel { pid, secret, door: DoorId(door), number }),
                );
            }
        }
    }

    /// The other process counts a client that has applied there, which may have left meanwhile.
    fn admitted(&mut self, ticket: u64, key: PoolKey, user: Arc<str>, actions: &mut Actions) {
        let is_placed = match self.upgrade.take_application(ticket) {
            Some(application) => self.place_admitted(application, actions),
            None => false,
        };
        if !is_placed {
            actions.post_to_process(ProcessId::Successor, ToProcess::ToGranter(ToGranter::Departed { key, user }));
        }
    }

    pub(super) fn granted_elsewhere(&mut self, now: Time, key: &PoolKey, actions: &mut Actions) {
        let asker = self.dropped_elsewhere(key, 1).pop();
        match self.pools.id_of(key).zip(asker) {
            Some((pool, holder)) => self.grant(now, pool, holder, false, actions),
            // Nobody waits for it any more.
            None => {
                actions.post_to_process(
                    ProcessId::Successor,
                    ToProcess::ToGranter(ToGranter::Freed { key: key.clone(), fresh: true }),
                );
            }
        }
    }

    /// The oldest requests of a pool are answered: whose they were.
    pub(super) fn dropped_elsewhere(&mut self, key: &PoolKey, count: u32) -> Vec<Holder> {
        let pool = self.pools.id_of(key);
        let Some((leaving, pool)) = self.upgrade.leaving.as_mut().zip(pool) else { return Vec::new() };
        let asked = leaving.servers.entry(pool).or_default();
        let count = asked.len().min(count as usize);
        asked.drain(..count).collect()
    }

    pub(super) fn recall(&mut self, now: Time, key: PoolKey, busy: bool, actions: &mut Actions) {
        let asked = self.pools.id_of(&key).and_then(|pool| Some((pool, self.pools[pool].held.yields_next(now)?)));
        match asked {
            Some((pool, holder)) => holders::post(holder, &key, ToWorker::Recall { pool, busy }, actions),
            None => actions
                .post_to_process(ProcessId::Successor, ToProcess::ToGranter(ToGranter::NothingIdle { key, busy })),
        }
    }

    /// The oldest requests get what was granted.
    fn allowed_elsewhere(
        &mut self,
        now: Time,
        limit: &Limit,
        (mut granted, mut answered): (u32, u32),
        (remaining, next_at): (u32, Option<Time>),
        actions: &mut Actions,
    ) {
        // It may have gone back to granting by itself meanwhile.
        let Some(asked) = self.upgrade.leaving.as_mut().and_then(|leaving| leaving.allowances.get_mut(limit)) else {
            return;
        };
        while let Some((holder, count)) = asked.pop_front() {
            let of_this = count.min(answered);
            let is_last = of_this < count || asked.is_empty();
            // What is granted beyond what was requested is given ahead: to the last one.
            let given = if is_last { granted } else { granted.min(of_this) };
            (granted, answered) = (granted - given, answered - of_this);
            // If the other process dies, we grant again, and have to know what is out.
            self.limits.note_given(now, &self.settings, limit, (holder, given));
            let share = Allowance { holder, granted: given, answered: of_this, remaining, next_at };
            holders::post_allowances(limit, vec![share], actions);
            if of_this < count {
                asked.push_front((holder, count - of_this));
            }
            if is_last {
                return;
            }
        }
    }

    pub(super) fn moved_away(
        &mut self,
        now: Time,
        (pool, worker, life): (PoolId, WorkerId, Life),
        session: Option<&Arc<str>>,
        server: bool,
    ) {
        if let Some(user) = session.filter(|_| self.renewals.life(worker) == life) {
            self.departed(pool, worker.into(), user);
        }
        if server {
            self.freed(pool, worker.into());
        }
        self.note_use(now, pool);
    }

    /// A home for what could not be handed over. It counts as it did before.
    pub(super) fn place_again(&mut self, now: Time, moved: &ToPlace) -> Option<Placed> {
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
}
