//! A process that has joined another one: it grants nothing by itself any more, passes requests on, and hands out what it is granted.

use std::sync::Arc;

use machine::action::Actions;
use machine::mail::{ToCoordinator, ToDoor, ToWorker};
use machine::primaries::Primary;
use machine::processes::{Inventory, PoolUse, ToGranter, ToMember};
use machine::upgrade::DoorTurn;
use queueing::limiting::{Allowance, Limit};
use units::{DoorId, Holder, PoolId, PoolKey, ProcessId, Time, WorkerId};

use super::state::Granter;
use crate::Coordinator;
use crate::applicants::refuse;
use crate::holders;
use crate::server_requests::ServerRequest;

impl Coordinator {
    /// We join another process: it counts what is here, and grants from now on.
    pub(super) fn join(&mut self, process: ProcessId, actions: &mut Actions) {
        let pools = self.pools.live().map(|(_, entry)| PoolUse {
            key: entry.key.clone(),
            sessions: entry.by_user(),
            tokens: entry.held.total(),
            size: entry.auto.as_ref().map(|_| entry.size),
        });
        let (permits, pending) = self.limits.hand_over();
        let orders = self.settings.orders.clone();
        let primaries = self.upstreams.primaries().iter().map(|(hosts, primary)| (hosts.to_vec(), primary.clone()));
        let primaries = primaries.filter(|(_, primary)| *primary != Primary::default()).collect();
        let inventory = Inventory { pools: pools.collect(), permits, serial: self.serial, orders, primaries };
        let mut granter = Granter::new(process);
        granter.tell(ToGranter::Begun(inventory), actions);
        for request in self.requests.take() {
            let key = self.pools[request.pool].key.clone();
            let mail = ToGranter::RequestServer { key, reserve: request.reserve() };
            granter.request_server(request.pool, request.holder, mail, actions);
        }
        for (limit, holder, count) in pending {
            granter.request_allowance(limit, holder, count, actions);
        }
        for application in self.limits.take_applications() {
            granter.apply(application, &self.settings, actions);
        }
        self.processes.granter = Some(Box::new(granter));
    }

    /// The granter no longer counts the sessions and permits of a holder that is lost.
    pub(crate) fn tell_granter_of_lost(&self, holder: Holder, actions: &mut Actions) {
        let Some(granter) = &self.processes.granter else { return };
        for (_, entry) in self.pools.live() {
            for user in entry.users_of(holder) {
                granter.tell(ToGranter::Departed { key: entry.key.clone(), user }, actions);
            }
        }
        for (limit, count) in self.limits.permits_of(holder) {
            granter.tell(ToGranter::Unspent { limit, count, missing: 0 }, actions);
        }
    }

    /// A process has left: if it is the one that grants, we grant again by ourselves.
    pub(super) fn granter_left(&mut self, now: Time, process: ProcessId, actions: &mut Actions) {
        let Some(granter) = self.processes.granter.take_if(|granter| granter.process == process) else { return };
        (0..self.homes.workers()).for_each(|worker| actions.post_to_worker(WorkerId(worker), ToWorker::GoOn));
        for (pool, holders) in &granter.servers {
            holders.iter().for_each(|holder| self.requests.push(ServerRequest::new(*pool, *holder, false, now)));
        }
        for (limit, asked) in &granter.allowances {
            for (holder, count) in asked {
                self.limits.requested(now, &self.settings, limit, (*holder, *count), actions);
            }
        }
        granter.into_applications().for_each(|application| self.place(application, actions));
        self.grant_requests(now, actions);
    }

    /// Mail while another process grants. Returns what counts here.
    ///
    /// | mail | goes to the granter | counts here |
    /// |---|---|---|
    /// | asks for something, or takes that back: the granter decides | yes | no: here it would be granted once more |
    /// | says what a holder has or has no more | yes | yes: if the granter dies, we go on with these counts |
    /// | is about this process alone | no | yes |
    pub(crate) fn pass_on(&mut self, mail: ToCoordinator, actions: &mut Actions) -> Option<ToCoordinator> {
        let Some(granter) = &mut self.processes.granter else { return Some(mail) };
        let key = |pool: PoolId| self.pools[pool].key.clone();
        match mail {
            ToCoordinator::Apply(application) => granter.apply(*application, &self.settings, actions),
            ToCoordinator::Withdrawn { applicant } => granter.withdraw(applicant, actions),
            ToCoordinator::RequestServer { pool, holder, reserve, classes: _ } => {
                granter.request_server(pool, holder, ToGranter::RequestServer { key: key(pool), reserve }, actions);
            }
            ToCoordinator::StillNeeded { pool, holder: _, count, classes: _ } => {
                granter.tell(ToGranter::StillNeeded { key: key(pool), count }, actions);
            }
            ToCoordinator::RequestAllowance { limit, holder, count } => {
                granter.request_allowance(limit, holder, count, actions);
            }
            ToCoordinator::NothingIdle { .. }
            | ToCoordinator::Opened { .. }
            | ToCoordinator::Freed { .. }
            | ToCoordinator::Unspent { .. }
            | ToCoordinator::Departed { .. } => {
                if let Some(said) = self.to_granter(&mail) {
                    self.processes.tell_granter(said, actions);
                }
                return Some(mail);
            }
            // What a worker that has panicked had is told in `tell_granter_of_lost`, what has moved by the luggage.
            ToCoordinator::Failed(_)
            | ToCoordinator::Upstream(_)
            | ToCoordinator::Probed(_)
            | ToCoordinator::Hinted(_)
            | ToCoordinator::Moved { .. }
            | ToCoordinator::Renewed { .. }
            | ToCoordinator::NewDoor { .. }
            | ToCoordinator::LoansArrived { .. }
            | ToCoordinator::Forgotten { .. }
            | ToCoordinator::Empty { .. }
            | ToCoordinator::Emptied { .. }
            | ToCoordinator::Counted(_)
            | ToCoordinator::Refused(_)
            | ToCoordinator::Upgrade(_)
            | ToCoordinator::Process(..)
            | ToCoordinator::Configure(_)
            | ToCoordinator::Stop(_) => return Some(mail),
        }
        None
    }

    /// What a holder has or has no more, in words that both processes know.
    fn to_granter(&self, mail: &ToCoordinator) -> Option<ToGranter> {
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

    /// Mail of the process that grants. A process that granted earlier may have sent it.
    pub(super) fn hear_granter(&mut self, now: Time, from: ProcessId, said: ToMember, actions: &mut Actions) {
        let Some(granter) = self.processes.granter.as_mut().filter(|granter| granter.process == from) else { return };
        match said {
            ToMember::Admitted { ticket, key, user } => self.admitted(ticket, key, user, actions),
            ToMember::NotAdmitted { ticket, why } => {
                if let Some(application) = granter.take_application(ticket) {
                    refuse(application.applicant, why, actions);
                }
            }
            ToMember::Granted { key } => self.granted(now, &key, actions),
            ToMember::Dropped { key, count, reserve } => {
                for holder in self.answered_requests(&key, count) {
                    let pool = self.pools.id_of(&key).expect("its requests were dropped");
                    holders::post(holder, &key, ToWorker::Dropped { pool, count: 1, reserve }, actions);
                }
            }
            ToMember::Inquire { key } => {
                let count = self.pools.id_of(&key).map_or(0, |pool| granter.requested(pool));
                granter.tell(ToGranter::StillNeeded { key, count }, actions);
            }
            ToMember::Recall { key, busy } => {
                let pool = self.pools.id_of(&key);
                match pool.and_then(|pool| Some((pool, self.pools[pool].held.yields_next(now)?))) {
                    Some((pool, holder)) => holders::post(holder, &key, ToWorker::Recall { pool, busy }, actions),
                    None => granter.tell(ToGranter::NothingIdle { key, busy }, actions),
                }
            }
            ToMember::Shrink { key, count } => {
                let Some(pool) = self.pools.id_of(&key) else { return };
                let entry = &mut self.pools[pool];
                let most = entry.held.total().saturating_sub(count);
                for (holder, count) in entry.held.shrink(most).filter(|(_, count)| *count > 0) {
                    holders::post(holder, &key, ToWorker::Shrink { pool, count }, actions);
                }
            }
            ToMember::Allow { limit, granted, answered, remaining, next_at } => {
                self.allowed(now, &limit, (granted, answered), (remaining, next_at), actions);
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

    /// The granter counts a client that has applied there, which may have left meanwhile.
    fn admitted(&mut self, ticket: u64, key: PoolKey, user: Arc<str>, actions: &mut Actions) {
        let application = self.processes.granter.as_mut().and_then(|granter| granter.take_application(ticket));
        let is_placed = application.is_some_and(|application| self.place_admitted(application, actions));
        if !is_placed {
            self.processes.tell_granter(ToGranter::Departed { key, user }, actions);
        }
    }

    fn granted(&mut self, now: Time, key: &PoolKey, actions: &mut Actions) {
        let asker = self.answered_requests(key, 1).pop();
        match self.pools.id_of(key).zip(asker) {
            Some((pool, holder)) => self.grant(now, pool, holder, false, actions),
            // Nobody waits for it any more.
            None => self.processes.tell_granter(ToGranter::Freed { key: key.clone(), fresh: true }, actions),
        }
    }

    /// The oldest requests of a pool are answered: their holders.
    fn answered_requests(&mut self, key: &PoolKey, count: u32) -> Vec<Holder> {
        let pool = self.pools.id_of(key);
        let Some((granter, pool)) = self.processes.granter.as_mut().zip(pool) else { return Vec::new() };
        let asked = granter.servers.entry(pool).or_default();
        let count = asked.len().min(count as usize);
        asked.drain(..count).collect()
    }

    /// The oldest requests get what was granted.
    fn allowed(
        &mut self,
        now: Time,
        limit: &Limit,
        (mut granted, mut answered): (u32, u32),
        (remaining, next_at): (u32, Option<Time>),
        actions: &mut Actions,
    ) {
        let Some(granter) = &mut self.processes.granter else { return };
        let asked = granter.allowances.entry(limit.clone()).or_default();
        while let Some((holder, count)) = asked.pop_front() {
            let of_this = count.min(answered);
            let is_last = of_this < count || asked.is_empty();
            // What is granted beyond what was requested is given ahead: to the last one.
            let given = if is_last { granted } else { granted.min(of_this) };
            (granted, answered) = (granted - given, answered - of_this);
            // If the granter dies, we grant again, and have to know what is out.
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
        if granted > 0 {
            // A member has requested it that has left.
            granter.tell(ToGranter::Unspent { limit: limit.clone(), count: granted, missing: 0 }, actions);
        }
    }
}
