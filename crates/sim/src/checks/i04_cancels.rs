//! I4: a cancel strikes only a query of the key's owner, or one whose owner is gone.

use crate::postgres::Process;
use crate::world::World;

impl World {
    /// A cancel is about to strike what this process is doing.
    pub(crate) fn judge_strike(&mut self, process: &Process) {
        let Some(client) = process.backend.client() else { return };
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
