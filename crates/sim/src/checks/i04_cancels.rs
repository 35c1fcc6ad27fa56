//! I4: a cancel strikes only a query of the key's owner, or one whose owner is gone.
//!
//! One that `query_timeout` sends is for the first unit that the pooler knows of no answer to, and that must have taken as long
//! as that allows when the cancel was sent. What its client had sent behind it by then may be struck in its place: a CancelRequest
//! names a process, not a query.

use settings::Fidelity;

use crate::asked::Aim;
use crate::course::Finding;
use crate::crowd::Visitor;
use crate::link::Link;
use crate::plan::Plan;
use crate::process::Process;

/// What the cancel was for had taken as long as `query_timeout` allows. The pooler's time begins when it sends: however long a
/// query travels, it is not forgiven anything.
pub(crate) fn is_overdue(plan: &Plan, process: &Process, aim: Option<Aim>) -> bool {
    let global = &plan.settings.global;
    let timeout = global.waiting.query_timeout.map_or(u64::MAX, |timeout| timeout.as_micros() as u64);
    let is_aimed_at = |aim: &Aim| process.units.is_aimed_at(aim, process.backend.client());
    let was_late = aim.is_some_and(|aim| aim.lasted() >= timeout && is_aimed_at(&aim));
    global.pools.pool_fidelity != Fidelity::Classic && was_late
}

/// A cancel is about to strike what this process is doing for a client, whose connection this is.
pub(crate) fn check(process: &Process, (client, visitor): (u32, Visitor), link: Option<&Link>) -> Result<(), Finding> {
    // Who has been closed, and perhaps has not learned so yet, wants no answer any more.
    let closed = link.is_none_or(|link| link.pooler.closed);
    if !visitor.gone && !closed && visitor.struck > visitor.cancels {
        let (number, cancels) = (process.number(), visitor.cancels);
        return Err((4, format!("a cancel strikes client {client} on server {number}, which asked for {cancels}")));
    }
    Ok(())
}
