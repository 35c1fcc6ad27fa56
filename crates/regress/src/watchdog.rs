//! Ends what hangs: a statement that has waited for a lock for 20 s, and in the end the whole suite.
//!
//! A pooled test may wait for ever for a lock that another test's session left behind on a server. Its statement is
//! cancelled, so that the test fails and the others are still counted.

use std::time::{Duration, Instant};

use demo::Cluster;

const LOCK_WAIT_S: u32 = 20;
const LOOK_EVERY: Duration = Duration::from_millis(100);
const ASK_EVERY: Duration = Duration::from_secs(2);

/// Waits until `is_over`. What was cancelled is added to `cancelled`.
///
/// # Errors
/// If it is not over after `patience`.
pub(crate) fn watch(
    cluster: &Cluster,
    patience: Duration,
    cancelled: &mut Vec<String>,
    mut is_over: impl FnMut() -> bool,
) -> Result<(), String> {
    let begun = Instant::now();
    let mut asked = begun;
    while !is_over() {
        if begun.elapsed() > patience {
            return Err(format!("not over after {} s", patience.as_secs()));
        }
        std::thread::sleep(LOOK_EVERY);
        if asked.elapsed() >= ASK_EVERY {
            asked = Instant::now();
            cancelled.extend(cancel(cluster));
        }
    }
    Ok(())
}

/// Cancels statements that wait for a lock for too long, and returns their text.
fn cancel(cluster: &Cluster) -> Vec<String> {
    // In two steps, or the planner might cancel first and look afterwards.
    let sql = format!(
        "with stuck as materialized (select a.pid, a.query from pg_locks l join pg_stat_activity a using (pid) \
         where not l.granted and l.waitstart < clock_timestamp() - interval '{LOCK_WAIT_S} s') \
         select left(replace(query, E'\\n', ' '), 200) from stuck where pg_cancel_backend(pid)"
    );
    // While PostgreSQL recovers from a crash there is nothing to cancel.
    let text = cluster.psql("postgres", &sql).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}
