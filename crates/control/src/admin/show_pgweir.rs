//! `SHOW PGWEIR`, which PgBouncer does not have: its version, how many lines of the log were lost, how many clients have logged in, since when the history
//! reaches, which servers cannot be looked at, and how many seconds of the history were written to disk, and were not.

use activity::history::OnDisk;
use activity::{Host, Moment, View};

use super::show_waits::time_of_day;
use crate::averages::by_database;
use crate::show_input::ShowInput;
use crate::table::{Column, Table, text, words};
use crate::version;

const COLUMNS: &[Column] = &[text("key"), text("value")];

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let mut table = Table::new(COLUMNS);
    table.push(vec![words("version"), words(version::PGWEIR)]);
    table.push(vec![words("log_lines_lost"), words(input.log_lines_lost.to_string())]);
    let logins: u64 = by_database(input.snapshots).values().map(|totals| totals.logins).sum();
    table.push(vec![words("logins"), words(logins.to_string())]);
    let mut seconds = input.history.seconds().map(|second| time_of_day(&input.now, second.at));
    let first = seconds.next();
    let last = seconds.next_back().or_else(|| first.clone());
    table.push(vec![words("history_from"), first]);
    table.push(vec![words("history_to"), last]);
    let not_seen: Vec<String> = input.history.latest().map(|moment| not_seen(moment)).unwrap_or_default();
    table.push(vec![words("not_seen"), (!not_seen.is_empty()).then(|| not_seen.join("; "))]);
    // Of the history's files, since they were opened.
    let OnDisk { seconds, lost } = input.history.on_disk;
    table.push(vec![words("history_seconds_written"), words(seconds.to_string())]);
    table.push(vec![words("history_seconds_lost"), words(lost.to_string())]);
    table
}

/// The servers of which not all is known, and why: `db2:5432: connection refused`.
fn not_seen(moment: &Moment) -> Vec<String> {
    let why = |host: &Host| match &host.view {
        View::Whole(_) => None,
        View::Partial(_) => Some("its role may not see what others do (observe_user)".to_owned()),
        View::None(why) => Some(why.clone()),
        View::Off => Some("it is not asked (observe_user)".to_owned()),
    };
    let hosts = moment.hosts.iter();
    hosts.filter_map(|host| Some(format!("{}: {}", host.address, why(host)?))).collect()
}
