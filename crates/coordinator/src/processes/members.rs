//! The members of this process: each joins with what it has, is a holder beside the workers, and leaves with all that it has.

use std::sync::Arc;

use machine::Proved;
use machine::action::Actions;
use machine::mail::{Applicant, Application, ToCoordinator, ToDoor};
use machine::processes::{FromProcess, Inventory, PoolUse, ToGranter, ToMember, ToProcess};
use machine::sabotage::{Fault, does};
use machine::upgrade::DoorTurn;
use queueing::classes::{ClassId, ClassSet, DEFAULT};
use units::{DoorId, Holder, Life, PoolId, ProcessId, Time};

use crate::{Coordinator, sizes};

/// So many numbers are left to what a member still opens.
const SERIALS_LEFT: i32 = 1 << 16;

impl Coordinator {
    /// Mail of another process, or that it has left.
    pub(crate) fn hear_process(&mut self, now: Time, from: ProcessId, said: FromProcess, actions: &mut Actions) {
        match said {
            FromProcess::ToGranter(ToGranter::Begun(inventory)) => self.joined(now, from, inventory, actions),
            FromProcess::ToGranter(said) => self.hear_member(now, from, said, actions),
            FromProcess::ToMember(said) => self.hear_granter(now, from, said, actions),
            FromProcess::Left => {
                self.member_left(now, from, actions);
                self.granter_left(now, from, actions);
            }
        }
    }

    /// A process joins: all that it has counts as that of a worker of ours.
    fn joined(&mut self, now: Time, member: ProcessId, inventory: Inventory, actions: &mut Actions) {
        self.processes.joins(member);
        self.limits.set_members(self.processes.count());
        let serial = inventory.serial.0.checked_add(SERIALS_LEFT).unwrap_or(SERIALS_LEFT);
        self.serial.0 = self.serial.0.max(serial);
        for PoolUse { key, sessions, tokens, size } in inventory.pools {
            // As many pools as this are never in use: `limits::POOLS_MAX` held there too.
            let Some(pool) = self.pool_of(&key) else { continue };
            for (user, count) in sessions {
                (0..count).for_each(|_| self.came_to_member(member, pool, &user));
            }
            if let Some(size) = size {
                self.pools[pool].start_with(size);
            }
            (0..tokens).for_each(|_| self.held_by_member(now, member, pool));
            let entry = &mut self.pools[pool];
            self.unused.comes_into_use(pool, entry);
            sizes::resize(pool, entry, actions);
        }
        for (limit, count) in inventory.permits {
            // Not as a request: the answer would be taken for that to one that the other process makes.
            self.limits.note_given(now, &self.settings, &limit, (member.into(), count));
        }
        self.hosts(now, actions).inherit(inventory.primaries);
    }

    /// A member has one server more.
    pub(super) fn held_by_member(&mut self, now: Time, member: ProcessId, pool: PoolId) {
        debug_assert!(self.processes.has_member(member), "I12: only a member holds tokens");
        let entry = &mut self.pools[pool];
        entry.held.granted(now, member);
        self.tokens.taken(pool, &entry.key);
    }

    /// A member has one session more.
    pub(super) fn came_to_member(&mut self, member: ProcessId, pool: PoolId, user: &Arc<str>) {
        debug_assert!(self.processes.has_member(member), "I12: only a member has sessions");
        let entry = &mut self.pools[pool];
        entry.session_came(member.into(), user);
        self.unused.comes_into_use(pool, entry);
        self.clients.came(&entry.key.database, user);
    }

    /// A client of a member may stay there.
    pub(crate) fn admit_to_member(
        &mut self,
        member: ProcessId,
        ticket: u64,
        (pool, user): (PoolId, Arc<str>),
        actions: &mut Actions,
    ) {
        self.came_to_member(member, pool, &user);
        let key = self.pools[pool].key.clone();
        actions.post_to_process(member, ToProcess::ToMember(ToMember::Admitted { ticket, key, user }));
    }

    /// Mail of a member. It may come from one that is none any more.
    fn hear_member(&mut self, now: Time, member: ProcessId, said: ToGranter, actions: &mut Actions) {
        if let ToGranter::CancelOver { door, number } = said {
            return actions.post_to_door(DoorId(door), ToDoor::Upgrade(DoorTurn::CancelOver { number }));
        }
        if self.processes.has_member(member)
            && let Some(mail) = self.as_of_worker(member, said)
        {
            self.take_mail(now, mail, actions);
        }
    }

    /// The mail that a worker would have sent. `None`: it is about a pool for which there was no room, or about none of ours.
    fn as_of_worker(&mut self, member: ProcessId, said: ToGranter) -> Option<ToCoordinator> {
        let (holder, classes) = (Holder::Process(member), ClassSet::default());
        Some(match said {
            ToGranter::Begun(_) | ToGranter::CancelOver { .. } => return None,
            ToGranter::Apply { ticket, key, user, console, exempt, class, peer } => {
                let known = self.settings.classes.all.iter().position(|known| known.name == class);
                let class = known.map_or(DEFAULT, |index| ClassId(index as u8));
                let applicant = Applicant::Process { process: member, ticket };
                let proved = Arc::new(Proved::default());
                let application = Application { applicant, key, user, console, exempt, peer, class, proved };
                ToCoordinator::Apply(Box::new(application))
            }
            ToGranter::Withdrawn { ticket } => {
                ToCoordinator::Withdrawn { applicant: Applicant::Process { process: member, ticket } }
            }
            ToGranter::Departed { key, user } => {
                let pool = self.pools.id_of(&key).filter(|pool| self.pools[*pool].has_session(holder, &user))?;
                ToCoordinator::Departed { pool, holder, life: Life::default(), user }
            }
            ToGranter::RequestServer { key, reserve } => {
                ToCoordinator::RequestServer { pool: self.pool_of(&key)?, holder, reserve, classes }
            }
            ToGranter::StillNeeded { key, count } => {
                ToCoordinator::StillNeeded { pool: self.pools.id_of(&key)?, holder, count, classes }
            }
            ToGranter::NothingIdle { key, busy } => {
                ToCoordinator::NothingIdle { pool: self.pools.id_of(&key)?, holder, busy }
            }
            ToGranter::Opened { key } => ToCoordinator::Opened { pool: self.pools.id_of(&key)?, holder },
            ToGranter::Freed { key, fresh } => {
                let pool = self.pools.id_of(&key).filter(|pool| self.pools[*pool].held.of(holder) > 0)?;
                ToCoordinator::Freed { pool, holder, fresh }
            }
            ToGranter::RequestAllowance { limit, count } => ToCoordinator::RequestAllowance { limit, holder, count },
            ToGranter::Unspent { limit, count, missing } => ToCoordinator::Unspent { limit, holder, count, missing },
        })
    }

    /// A process has left, or died, with all that it had.
    fn member_left(&mut self, now: Time, member: ProcessId, actions: &mut Actions) {
        if member == ProcessId::Predecessor {
            // There is one.
            actions.post_to_door(DoorId(0), ToDoor::Upgrade(DoorTurn::PredecessorGone));
        }
        // It may have died before it joined.
        if !self.processes.leaves(member) {
            return;
        }
        self.limits.set_members(self.processes.count());
        let holder = Holder::Process(member);
        self.tell_granter_of_lost(holder, actions);
        self.limits.drop_applications_of(member);
        if let Some(granter) = &mut self.processes.granter {
            granter.forget_requests_of(member);
        }
        self.drop_requests_of(holder, actions);
        for pool in self.pools.ids() {
            self.drop_sessions_of(holder, pool);
            while self.pools[pool].held.of(holder) > 0 && !does(&self.settings, Fault::KeepTokensOfMembers) {
                self.freed(pool, holder);
                let key = self.pools[pool].key.clone();
                self.processes.tell_granter(ToGranter::Freed { key, fresh: false }, actions);
            }
            self.pools[pool].held.forget(member);
            if self.pools[pool].is_live() {
                self.note_use(now, pool);
            }
        }
        self.grant_requests(now, actions);
    }
}
