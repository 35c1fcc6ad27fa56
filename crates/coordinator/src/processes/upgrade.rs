//! What an online upgrade does beyond joining: sessions and servers of the old process move to the new one.

use std::sync::Arc;

use machine::action::{Action, Actions, Placed};
use machine::mail::ToWorker;
use machine::upgrade::{ToPlace, Turn};
use units::{Holder, Life, PoolId, ProcessId, Time, WorkerId};

use crate::{CONSOLE, Coordinator};

impl Coordinator {
    /// Mail of an online upgrade.
    pub(crate) fn turn(&mut self, now: Time, turn: Turn, actions: &mut Actions) {
        match turn {
            Turn::HandOver => self.hand_over(actions),
            Turn::EndWhatStays => self.end_what_stays(actions),
            Turn::Place(moved) => {
                let place = match moved.from {
                    Some(member) => self.place_moved(now, member, &moved),
                    None => self.place_again(now, &moved),
                };
                actions.push(Action::Placed { ticket: moved.ticket, place });
            }
            Turn::MovedAway { pool, worker, life, session, server } => {
                self.moved_away(now, (pool, worker, life), session.as_ref(), server);
            }
        }
    }

    /// Another process takes our place: we join it, and the workers hand over.
    fn hand_over(&mut self, actions: &mut Actions) {
        if self.processes.has_granter() {
            return;
        }
        self.join(ProcessId::Successor, actions);
        (0..self.homes.workers()).for_each(|worker| actions.post_to_worker(WorkerId(worker), ToWorker::HandOver));
    }

    /// `upgrade_timeout` is over.
    fn end_what_stays(&mut self, actions: &mut Actions) {
        // The other process may have died just before.
        if let Some(granter) = &mut self.processes.granter {
            granter.is_late = true;
            (0..self.homes.workers())
                .for_each(|worker| actions.post_to_worker(WorkerId(worker), ToWorker::EndWhatStays));
        }
    }

    /// A worker is in the place of one that has panicked: it hands over too.
    pub(crate) fn hand_over_again(&mut self, worker: WorkerId, actions: &mut Actions) {
        let Some(granter) = &self.processes.granter else { return };
        actions.post_to_worker(worker, ToWorker::HandOver);
        if granter.is_late {
            actions.post_to_worker(worker, ToWorker::EndWhatStays);
        }
    }

    /// A home for what a member has handed over.
    fn place_moved(&mut self, now: Time, member: ProcessId, moved: &ToPlace) -> Option<Placed> {
        let from = Holder::Process(member);
        let pool = if moved.console { CONSOLE } else { self.pool_of(&moved.key)? };
        // There was no room for its pool when it was counted.
        if let Some(user) = moved.session.as_ref().filter(|user| !self.pools[pool].has_session(from, user)) {
            self.came_to_member(member, pool, user);
        }
        if moved.server && self.pools[pool].held.of(from) == 0 {
            self.held_by_member(now, member, pool);
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

    fn moved_away(
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
    fn place_again(&mut self, now: Time, moved: &ToPlace) -> Option<Placed> {
        let pool = if moved.console { CONSOLE } else { self.pool_of(&moved.key)? };
        let worker = match &moved.session {
            Some(user) => self.place_session(pool, user),
            None => self.pools[pool].poorest_home()?,
        };
        let entry = &mut self.pools[pool];
        if moved.server {
            entry.held.granted(now, worker);
            self.tokens.taken(pool, &entry.key);
            self.unused.comes_into_use(pool, entry);
        }
        let homes = self.pools[pool].homes.len() as u16;
        Some(Placed { worker, pool, homes, life: self.renewals.life(worker) })
    }
}
