//! A client that competes for a pool with clients of other classes: one transaction after the other, as its crowd does.

use wire::backend::Status;

use super::turn::Turn;
use super::{Circumstances, Wants};

/// Its progress.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Contender {
    /// Statements left in its transaction.
    left: u64,
    /// It has paused since the last one.
    rested: bool,
    /// It has sent the beginning of a transaction.
    pub(super) asks: bool,
}

impl Turn<'_> {
    pub(super) fn contend(&mut self, facts: Circumstances, wants: &mut Wants) {
        let Some(contest) = &self.plan.purpose.contest else { return };
        let crowd = contest.crowds[contest.crowd_of(self.who.number)];
        if self.talk.twin.owes() || !self.talk.socket.is_all_sent() {
            return;
        }
        let is_idle = self.talk.twin.status() == Status::Idle;
        if facts.closing_time && is_idle {
            return self.talk.socket.say_goodbye(self.habits, wants);
        }
        if facts.now < self.work.resting_until {
            wants.again = Some(self.work.resting_until - facts.now);
            return;
        }
        if !is_idle {
            let Some(left) = self.work.contender.left.checked_sub(1).filter(|_| !facts.closing_time) else {
                let text = self.talk.marked("commit");
                return self.talk.query(&text);
            };
            self.work.contender.left = left;
            return self.sleep_for(crowd.lasts);
        }
        let mut pause = crowd.rests(facts.now);
        if pause == 0 && crowd.think_max > 0 && !self.work.contender.rested {
            self.work.contender.rested = true;
            pause = self.random.range(1, crowd.think_max);
        }
        if pause > 0 {
            self.work.resting_until = facts.now + pause;
            wants.again = Some(pause);
            return;
        }
        (self.work.contender.rested, self.work.contender.asks) = (false, true);
        if crowd.statements == 1 {
            return self.sleep_for(crowd.lasts);
        }
        self.work.contender.left = self.random.range(1, crowd.statements);
        self.census.statements.transactions += 1;
        let text = self.talk.marked("begin");
        self.talk.query(&text);
    }

    fn sleep_for(&mut self, (least, most): (u64, u64)) {
        let micros = self.random.range(least, most);
        let text = self.talk.marked(&format!("select pg_sleep({micros})"));
        if self.random.chance(300) { self.talk.one(&text) } else { self.talk.query(&text) }
    }
}
