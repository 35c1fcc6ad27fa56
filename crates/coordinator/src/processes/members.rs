//! The process that takes another one's place: to it that one is one more holder, whose clients apply here.

use std::collections::BTreeSet;
use std::sync::Arc;

use machine::Proved;
use machine::action::{Actions, Placed};
use machine::mail::{Applicant, Application, ToCoordinator, ToDoor, ToWorker};
use machine::processes::{Inventory, PoolUse, ToGranter, ToMember, ToProcess};
use machine::upgrade::{DoorTurn, ToPlace};
use queueing::classes::{ClassId, DEFAULT};
use units::{DoorId, Life, PoolId, ProcessId, Time};

use super::PREDECESSOR;
use crate::server_requests::CapacityView;
use crate::{CONSOLE, Coordinator, holders, sizes};

/// So many numbers are left to what the process that leaves still opens.
const SERIALS_LEFT: i32 = 1 << 16;

impl Coordinator {
    /// What the process whose place we take says, as one of our workers would.
    pub(super) fn hear_predecessor(&mut self, now: Time, told: ToGranter, actions: &mut Actions) {
        let holder = PREDECESSOR;
        let mail = match told {
            ToGranter::Begun(inventory) => return self.take_inventory(now, inventory, actions),
            ToGranter::Apply { ticket, key, user, console, exempt, class, peer } => {
                let classes = &self.settings.classes.all;
                let class = classes.iter().position(|known| known.name == class);
                let class = class.map_or(DEFAULT, |index| ClassId(index as u8));
                let proved = Arc::new(Proved::default());
                ToCoordinator::Apply(Box::new(Application {
                    applicant: Applicant::Process { process: ProcessId::Predecessor, ticket },
                    key,
                    user,
                    console,
                    exempt,
                    peer,
                    class,
                    proved,
                }))
            }
            ToGranter::CancelOver { door, number } => {
                return actions.post_to_door(DoorId(door), ToDoor::Upgrade(DoorTurn::CancelOver { number }));
            }
            ToGranter::Withdrawn { ticket } => {
                ToCoordinator::Withdrawn { applicant: Applicant::Process { process: ProcessId::Predecessor, ticket } }
            }
            // There was no room for its pool when it was counted.
            ToGranter::Departed { key, user } => match self.pools.id_of(&key) {
                Some(pool) if !self.pools[pool].has_session(holder, &user) => return,
                Some(pool) => ToCoordinator::Departed { pool, holder, life: Life::default(), user },
                None => return,
            },
            ToGranter::RequestAllowance { limit, count } => ToCoordinator::RequestAllowance { limit, holder, count },
            ToGranter::Unspent { limit, count, missing } => ToCoordinator::Unspent { limit, holder, count, missing },
            ToGranter::RequestServer { key, reserve } => match self.pool_of(&key) {
                Some(pool) => ToCoordinator::RequestServer { pool, holder, reserve, classes: Default::default() },
                None => return,
            },
            ToGranter::StillNeeded { ref key, .. }
            | ToGranter::NothingIdle { ref key, .. }
            | ToGranter::Opened { ref key }
            | ToGranter::Freed { ref key, .. } => {
                let Some(pool) = self.pools.id_of(key) else { return };
                // There was no room for its pool when it was counted.
                if matches!(told, ToGranter::Freed { .. }) && self.pools[pool].held.of(holder) == 0 {
                    return;
                }
                match told {
                    ToGranter::StillNeeded { count, .. } => {
                        ToCoordinator::StillNeeded { pool, holder, count, classes: Default::default() }
                    }
                    ToGranter::NothingIdle { busy, .. } => ToCoordinator::NothingIdle { pool, holder, busy },
                    ToGranter::Opened { .. } => ToCoordinator::Opened { pool, holder },
                    _ => ToCoordinator::Freed {
                        pool,
                        holder,
                        fresh: matches!(told, ToGranter::Freed { fresh: true, .. }),
                    },
                }
            }
        };
        self.take_mail(now, mail, actions);
    }

    /// All that the other process has counts as that of a worker of ours.
    pub(super) fn take_inventory(&mut self, now: Time, inventory: Inventory, actions: &mut Actions) {
        self.upgrade.succeeds = true;
        let serial = inventory.serial.0.checked_add(SERIALS_LEFT).unwrap_or(SERIALS_LEFT);
        self.serial.0 = self.serial.0.max(serial);
        for PoolUse { key, sessions, tokens, size } in inventory.pools {
            // As many pools as this are never in use: `limits::POOLS_MAX` held there too.
            let Some(pool) = self.pool_of(&key) else { continue };
            for (user, count) in sessions {
                (0..count).for_each(|_| self.came_elsewhere(pool, &user));
            }
            if let Some(size) = size {
                self.pools[pool].start_with(size);
            }
            (0..tokens).for_each(|_| self.hold_elsewhere(now, pool));
            let entry = &mut self.pools[pool];
            self.unused.comes_into_use(pool, entry);
            sizes::resize(pool, entry, actions);
        }
        for (limit, count) in inventory.permits {
            // Not as a request: the answer would be taken for that to one that the other process makes.
            self.limits.note_given(now, &self.settings, &limit, (PREDECESSOR, count));
        }
    }

    /// The other process has one server more.
    fn hold_elsewhere(&mut self, now: Time, pool: PoolId) {
        let entry = &mut self.pools[pool];
        entry.held.granted(now, PREDECESSOR);
        self.tokens.held_elsewhere(pool, &entry.key);
    }

    pub(super) fn came_elsewhere(&mut self, pool: PoolId, user: &Arc<str>) {
        let entry = &mut self.pools[pool];
        entry.session_came(PREDECESSOR, user);
        self.unused.comes_into_use(pool, entry);
        self.clients.came(&entry.key.database, user);
    }

    /// A home for what comes from the other process, whose it is no more.
    pub(super) fn place_moved(&mut self, now: Time, moved: &ToPlace) -> Option<Placed> {
        let from = PREDECESSOR;
        let pool = if moved.console { CONSOLE } else { self.pool_of(&moved.key)? };
        // There was no room for its pool when it was counted.
        if let Some(user) = moved.session.as_ref().filter(|user| !self.pools[pool].has_session(from, user)) {
            self.came_elsewhere(pool, user);
        }
        if moved.server && self.pools[pool].held.of(from) == 0 {
            self.hold_elsewhere(now, pool);
        }
        let entry = &mut self.pools[pool];
        let worker = match &moved.session {
            Some(user) => {
                let worker = entry.home_for_session();
                entry.session_left(from, user);
                entry.session_came(worker.into(), user);
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

    /// The other process is gone with all that it had.
    pub(super) fn predecessor_gone(&mut self, now: Time, actions: &mut Actions) {
        let holder = PREDECESSOR;
        // There is one.
        actions.post_to_door(DoorId(0), ToDoor::Upgrade(DoorTurn::PredecessorGone));
        self.requests.drop_of_holder(holder);
        self.tokens.forget_logins(holder);
        self.limits.holder_lost(holder, actions);
        self.limits.drop_applications_of(ProcessId::Predecessor);
        if let Some(leaving) = &mut self.upgrade.leaving {
            // Whoever is let in nevertheless is said to have departed.
            leaving.applications.retain(|_, application| !application.applicant.stays_in(ProcessId::Predecessor));
        }
        for pool in self.pools.ids() {
            for user in self.pools[pool].users_of(holder) {
                self.departed(pool, holder, &user);
            }
            while self.pools[pool].held.of(holder) > 0 {
                self.freed(pool, holder);
            }
            if self.pools[pool].is_live() {
                self.note_use(now, pool);
            }
        }
        self.grant_requests(now, actions);
        self.upgrade.succeeds = false;
    }

    /// A client of the other process may stay there.
    pub(crate) fn admit_elsewhere(
        &mut self,
        process: ProcessId,
        ticket: u64,
        (pool, user): (PoolId, Arc<str>),
        actions: &mut Actions,
    ) {
        self.came_elsewhere(pool, &user);
        let key = self.pools[pool].key.clone();
        actions.post_to_process(process, ToProcess::ToMember(ToMember::Admitted { ticket, key, user }));
    }

    /// Within a process workers of one pool lend each other servers; between the two one has to be closed before the other can open one. Each
    /// side has a right to its sessions' part of a pool that is at its size, and to one server at least, if need be in turns.
    pub(super) fn balance(&mut self, now: Time, actions: &mut Actions) {
        self.upgrade.balance_at = None;
        if !self.upgrade.succeeds {
            return;
        }
        let there = ProcessId::Predecessor;
        let view = CapacityView { settings: &self.settings, pools: &self.pools, tokens: &self.tokens };
        let blocked: BTreeSet<PoolId> = self.requests.at_their_size(&view).into_iter().collect();
        if !blocked.is_empty() {
            self.upgrade.balance_soon(now);
        }
        for pool in blocked {
            let (wanted_there, wanted_here) = self.requests.sides(pool, there);
            let entry = &mut self.pools[pool];
            let held_there = entry.held.of(there);
            let held_here = entry.held.total() - held_there;
            let sessions: u32 = entry.sessions.values().sum();
            let of_there = entry.sessions.of(there);
            let share = (entry.size * of_there).div_ceil(sessions.max(1)).max(u32::from(of_there > 0));
            let is_asked_there = wanted_here && held_there > 0 && (held_there > share || held_here == 0);
            let is_asked_here =
                wanted_there && of_there > 0 && held_here > 0 && (held_there < share || held_there == 0);
            if !is_asked_there && !is_asked_here || entry.held.yielding(now).0 > 0 {
                continue;
            }
            if let Some(holder) = entry.held.yields_of(now, there, is_asked_there) {
                holders::post(holder, &entry.key, ToWorker::Recall { pool, busy: true }, actions);
            }
        }
    }

    pub(crate) fn balance_if_due(&mut self, now: Time, actions: &mut Actions) {
        if self.upgrade.balance_at.is_some_and(|at| at <= now) {
            self.balance(now, actions);
        }
    }
}
