//! I4: a cancel interrupts only a query of the key's owner, or one whose owner is gone; and one that an administrator has ordered only a
//! query of the client that was named.
//!
//! No client is interrupted more often than it has asked for itself, and than it was ordered for it while it had a request. A later
//! request of the same client may be interrupted instead: a CancelRequest names a process, not a query. Not so if the client has waited for
//! the end of its cancel's connection, as drivers do, before it has sent that request. Whoever had the server when the
//! cancel was sent must be whom it interrupts.
//!
//! A cancel because of `query_timeout` is for the first unit whose answer the pooler has not read. That unit must have
//! lasted for `query_timeout` when the cancel was sent. It hits no commit. A later unit that the client had sent by then may be
//! interrupted instead: a CancelRequest names a process, not a query.

use settings::Fidelity;

use crate::asked::Aim;
use crate::course::Finding;
use crate::crowd::Visitor;
use crate::link::Link;
use crate::plan::Plan;
use crate::process::Process;

/// A cancel is about to interrupt a commit of this client that waits for its standby: then the client is told what a failover may lose. Only
/// its client may want that.
pub(crate) fn commit(process: &Process, (client, visitor): (u32, Option<Visitor>)) -> Result<(), Finding> {
    if visitor.is_none_or(|visitor| visitor.cancels > 0) {
        return Ok(());
    }
    let number = process.number();
    Err((
        4,
        format!("the pooler cancels a commit of client {client} on server {number}, which has asked for no cancel"),
    ))
}

/// Whether the cancelled unit had lasted for `query_timeout`. The time begins when the pooler sends the query, and
/// includes its travel to the server.
pub(crate) fn is_overdue(plan: &Plan, process: &Process, aim: Option<Aim>) -> bool {
    let global = &plan.settings.global;
    let timeout = global.waiting.query_timeout.map_or(u64::MAX, |timeout| timeout.as_micros() as u64);
    let is_aimed_at = |aim: &Aim| process.units.is_aimed_at(aim, process.backend.client());
    let was_late = aim.is_some_and(|aim| aim.lasted() + plan.clock_error() >= timeout && is_aimed_at(&aim));
    global.pools.pool_fidelity != Fidelity::Classic && was_late
}

/// A cancel with this aim is about to interrupt what this process does for a client; `link` is the client's connection.
pub(crate) fn check(
    plan: &Plan,
    (process, aim): (&Process, Option<Aim>),
    (client, visitor): (u32, Visitor),
    link: Option<&Link>,
) -> Result<(), Finding> {
    // A client whose connection was closed, even if it does not know yet, needs no answer any more.
    let closed = link.is_none_or(|link| link.pooler.closed);
    if visitor.gone || closed {
        return Ok(());
    }
    let (number, cancels, may) = (process.number(), visitor.cancels, visitor.may_be_struck());
    if visitor.struck > may {
        let over = cancels - may;
        let text = format!(
            "a cancel strikes client {client} on server {number}, which asked for {cancels}, of which {over} are over"
        );
        return Err((4, text));
    }
    // Where limits are checked, a server's unit may bear the mark of its last client, though it is the pooler's own.
    let target = aim.filter(|_| !plan.is_limited()).and_then(|aim| process.units.client_of(&aim));
    match target.filter(|target| *target != client) {
        Some(target) => Err((4, format!("a cancel for client {target} strikes client {client} on server {number}"))),
        None => Ok(()),
    }
}
