//! I19: a database that wants the primary sends nothing to a standby.

use wire::frontend::tag;

use crate::course::Finding;
use crate::plan::Plan;
use crate::process::Process;

/// A message has come to a process that serves.
pub(crate) fn check(plan: &Plan, process: &Process, message: u8) -> Result<(), Finding> {
    let is_standby = process.in_hot_standby == Some(true);
    if !is_standby || message == tag::TERMINATE || !plan.wanted(&process.dbname).wants_primary() {
        return Ok(());
    }
    let Process { user, dbname, .. } = process;
    Err((19, format!("{user} at {dbname} sends {:?} to a standby", char::from(message))))
}
