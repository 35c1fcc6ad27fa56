//! An online upgrade: two processes with one set of tokens.
//!
//! The new process has all tokens. The one that leaves is to it one more holder ([`PREDECESSOR`]), whose clients apply here
//! and whose mail travels between the processes; this file translates, since ids of pools are each process's own. The
//! coordinator of the process that leaves grants nothing by itself any more: it passes requests on, and hands out what it is granted.
//!
//! Promises that no limit is exceeded over both (I5): what the other process has counts here from `Begun` until it says that it is gone,
//! or has arrived. If it ends without a word, nothing of it is left, and all that it had is free.

mod granter;
mod members;
mod state;
#[cfg(test)]
mod tests;

use machine::action::{Action, Actions};
use machine::upgrade::Turn;
use units::{Holder, ProcessId, Time};

use crate::Coordinator;

pub(crate) use state::Upgrade;

/// The process whose place we take, as a holder.
const PREDECESSOR: Holder = Holder::Process(ProcessId::Predecessor);

impl Coordinator {
    /// Mail of an online upgrade.
    pub(crate) fn turn(&mut self, now: Time, turn: Turn, actions: &mut Actions) {
        match turn {
            Turn::HandOver => self.hand_over(actions),
            Turn::EndWhatStays => self.end_what_stays(actions),
            Turn::GoOn => self.go_on(now, actions),
            Turn::FromPredecessor(told) => self.hear_predecessor(now, told, actions),
            Turn::FromSuccessor(told) => self.hear_successor(now, told, actions),
            Turn::PredecessorGone => self.predecessor_gone(now, actions),
            Turn::Place(moved) => {
                let place = if moved.is_ours { self.place_again(now, &moved) } else { self.place_moved(now, &moved) };
                actions.push(Action::Placed { ticket: moved.ticket, place });
            }
            Turn::MovedAway { pool, worker, life, session, server } => {
                self.moved_away(now, (pool, worker, life), session.as_ref(), server);
            }
        }
    }
}
