//! A line in the log for each client that has waited for a lock for a second, with who is in its way.
//!
//! Promises one line a wait, at most [`LINES_MAX`] a look, and one line each, whatever clients call themselves and their statements.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use activity::{Moment, Row, View, pid_shown};
use settings::Global;
use sql::redacted_by_any_rules;
use units::names::shown;

/// As PostgreSQL's deadlock_timeout, after which it says that somebody waits.
//= pg18 runtime-config-locks#GUC-DEADLOCK-TIMEOUT
const LONG: Duration = Duration::from_secs(1);

/// Hundreds may begin to wait at once, and for the same.
const LINES_MAX: usize = 20;

/// Waits at servers that are not asked any more, at most.
const TOLD_MAX: usize = 10_000;

/// Of a statement, in bytes.
const STATEMENT_LEN_MAX: usize = 1000;

/// Those that wait and that the log has been told of.
#[derive(Default)]
pub(super) struct LockWaits {
    /// By server, pid, and the thing's key: who waits for another thing waits anew.
    told: BTreeSet<(Arc<str>, i32, String)>,
}

impl LockWaits {
    /// The lines for what is seen now.
    pub(super) fn seen(&mut self, moment: &Moment, settings: &Global) -> Vec<String> {
        let mut waiting = BTreeSet::new();
        let (mut lines, mut unsaid) = (Vec::new(), 0_usize);
        for row in &moment.rows {
            let (Some(waiter), Some(host), Some(pid)) = (&row.waiter, moment.host(row), row.pid()) else { continue };
            // A stranger's wait is told of by PostgreSQL.
            if waiter.waiting < LONG || row.session.is_none() || !settings.log.log_lock_waits {
                continue;
            }
            let key = (Arc::clone(&host.address), pid, waiter.object.key.to_string());
            let is_new = !self.told.contains(&key);
            waiting.insert(key);
            match is_new {
                true if lines.len() < LINES_MAX => lines.push(line(moment, row, settings)),
                true => unsaid += 1,
                false => {}
            }
        }
        // Those that do not wait any more may begin to. Of a server that has not answered, or is not asked for now, nobody knows.
        let answered: BTreeSet<&str> =
            moment.hosts.iter().filter(|host| !matches!(host.view, View::None(_))).map(|host| &*host.address).collect();
        self.told.retain(|(server, ..)| !answered.contains(&**server));
        if self.told.len() > TOLD_MAX {
            self.told.clear();
        }
        self.told.append(&mut waiting);
        if unsaid > 0 {
            lines.push(format!("lock wait: and {unsaid} more clients that have waited for a lock for a second"));
        }
        lines
    }
}

/// `lock wait: client 7 …`.
fn line(moment: &Moment, row: &Row, settings: &Global) -> String {
    let Some((session, waiter)) = row.session.as_ref().zip(row.waiter.as_ref()) else { return String::new() };
    let object = waiter.object.name.as_ref().unwrap_or(&waiter.object.kind);
    let blocker = waiter.blockers.iter().min_by_key(|blocker| blocker.waits_too);
    let prepared = |pid: i32| moment.host(row)?.prepared.get(&pid);
    let behind = match blocker.zip(row.host).map(|(blocker, host)| (blocker, moment.row(host, blocker.pid))) {
        Some((blocker, _)) if let Some(other) = prepared(blocker.pid) => {
            let (gid, owner, database) = (shown(&other.gid), shown(&other.owner), shown(&other.database));
            let mode = blocker.mode.name();
            format!(
                "prepared transaction {gid} (of {owner} in {database}, {:.3} s old) with {mode}",
                other.age.as_secs_f64()
            )
        }
        Some((blocker, Some(other))) => format!("{} with {}", described(other, settings), blocker.mode.name()),
        Some((blocker, None)) => format!("pid {} with {}", pid_shown(blocker.pid), blocker.mode.name()),
        None => "nobody any more".to_owned(),
    };
    format!(
        "lock wait: {} waits for {} on {} for {:.3} s, had queued for {:.3} s, {} behind it; in its way: {behind}",
        described(row, settings),
        waiter.mode.name(),
        shown(object),
        waiter.waiting.as_secs_f64(),
        session.times.queued.as_secs_f64(),
        row.behind,
    )
}

/// Who it is, with its tags and its statement.
fn described(row: &Row, settings: &Global) -> String {
    let pid = row.pid_shown().unwrap_or_default();
    let who = match &row.session {
        Some(session) => {
            let (database, user) = (shown(&session.pool.database), shown(&session.pool.user));
            let name = shown(&session.application_name);
            format!("client {} ({database}/{user}, {name}, class {}, pid {pid})", session.id.serial.0, session.class)
        }
        None => {
            let name = row.backend.as_ref().and_then(|backend| backend.application_name.as_deref()).unwrap_or_default();
            format!("stranger (pid {pid}, {})", shown(name))
        }
    };
    let state = row.state().unwrap_or("unknown");
    let tags = if row.tags.is_empty() { String::new() } else { format!(" [{}]", row.tags) };
    let text = row.statement().unwrap_or_default();
    let statement = if settings.observing.observe_literals {
        let end = text.floor_char_boundary(STATEMENT_LEN_MAX);
        text[..end].to_owned()
    } else {
        redacted_by_any_rules(text.as_bytes(), STATEMENT_LEN_MAX)
    };
    format!("{who}{tags} {state}: {statement}")
}
