//! A client that contests a pool with those of other classes: one transaction after the other, as its crowd does.

use wire::backend::Status;

use super::turn::Turn;
use super::{Circumstances, Client, Wants};

/// Where it is in its work.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Contender {
    /// Statements that its transaction still has.
    left: u64,
    /// It has paused since the last one.
    rested: bool,
    /// It has sent what a transaction begins with.
    pub(super) asks: bool,
}

impl Client {
    /// Whether it has sent all that it asks for a server with.
    #[must_use]
    pub fn has_asked(&self) -> bool {
        self.contender.asks && self.outbox_at == self.outbox.len()
    }

    /// It is known that it waits, or is served already.
    pub fn is_heard(&mut self) {
        self.contender.asks = false;
    }

    pub(super) fn contend(&mut self, facts: Circumstances, turn: &mut Turn<'_>, wants: &mut Wants) {
        let Some(contest) = &turn.plan.purpose.contest else { return };
        let crowd = contest.crowds[contest.crowd_of(self.number)];
        if self.is_owed() || self.outbox_at < self.outbox.len() {
            return;
        }
        let is_idle = self.twin.status() == Status::Idle;
        if facts.closing_time && is_idle {
            return self.say_goodbye(wants);
        }
        if facts.now < self.resting_until {
            wants.again = Some(self.resting_until - facts.now);
            return;
        }
        if !is_idle {
            let Some(left) = self.contender.left.checked_sub(1).filter(|_| !facts.closing_time) else {
                let text = self.marked("commit");
                return self.query(&text);
            };
            self.contender.left = left;
            return self.sleep_for(turn, crowd.lasts);
        }
        let mut pause = crowd.rests(facts.now);
        if pause == 0 && crowd.think_max > 0 && !self.contender.rested {
            self.contender.rested = true;
            pause = turn.random.range(1, crowd.think_max);
        }
        if pause > 0 {
            self.resting_until = facts.now + pause;
            wants.again = Some(pause);
            return;
        }
        (self.contender.rested, self.contender.asks) = (false, true);
        if crowd.statements == 1 {
            return self.sleep_for(turn, crowd.lasts);
        }
        self.contender.left = turn.random.range(1, crowd.statements);
        turn.census.transactions += 1;
        let text = self.marked("begin");
        self.query(&text);
    }

    fn sleep_for(&mut self, turn: &mut Turn<'_>, (least, most): (u64, u64)) {
        let micros = turn.random.range(least, most);
        let text = self.marked(&format!("select pg_sleep({micros})"));
        if turn.random.chance(300) { self.one(&text) } else { self.query(&text) }
    }
}
