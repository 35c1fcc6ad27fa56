//! I4: a cancel strikes only a query of the key's owner, or one whose owner is gone.
//!
//! One that `query_timeout` sends is for the first unit that the pooler knows of no answer to, and that must have taken as long
//! as that allows when the cancel was sent. What its client had sent behind it by then may be struck in its place: a CancelRequest
//! names a process, not a query.

use pooling::settings::Fidelity;

use crate::asking::Aim;
use crate::postgres::Process;
use crate::world::World;

impl World {
    /// What the cancel was for had taken as long as `query_timeout` allows. The pooler's time begins when it sends: however long a
    /// query travels, it is not forgiven anything.
    fn is_overdue(&self, process: &Process, aim: Option<Aim>) -> bool {
        let timeout =
            self.plan.settings.global.waiting.query_timeout.map_or(u64::MAX, |timeout| timeout.as_micros() as u64);
        let was_late = aim.is_some_and(|aim| aim.lasted() >= timeout && process.is_aimed_at(&aim));
        self.plan.settings.global.pools.pool_fidelity != Fidelity::Classic && was_late
    }

    /// A cancel is about to strike what this process is doing.
    pub(crate) fn judge_strike(&mut self, process: &Process, aim: Option<Aim>) {
        let Some(client) = process.backend.client() else { return };
        if self.is_overdue(process, aim) {
            self.census.overdue += 1;
            return;
        }
        let Some(visitor) = self.visitors.get_mut(client as usize) else { return };
        visitor.struck += 1;
        let visitor = *visitor;
        // Who has been closed, and perhaps has not learned so yet, wants no answer any more.
        let present = self.clients.iter().flatten().find(|present| present.number == client);
        let link = present.and_then(|present| self.network.get(present.link));
        let closed = link.is_none_or(|link| link.pooler_closed);
        if !visitor.gone && !closed && visitor.struck > visitor.cancels {
            let (number, cancels) = (process.number, visitor.cancels);
            self.fail(4, format!("a cancel strikes client {client} on server {number}, which asked for {cancels}"));
        }
    }
}
