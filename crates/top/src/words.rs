//! The worst holder and the worst blocker in a sentence, and numbers as people read them.

use crate::rows::{Row, Table};
use crate::text::one_line;

/// Who holds a pool up, of the rows of `SHOW HOLDERS`, which has them by their weight.
#[must_use]
pub(crate) fn holder(holders: &Table) -> String {
    // A session that waits for a lock is a victim: the holder is the one that it waits for.
    let is_victim = |row: &Row<'_>| row.get("reason") == Some("waits for a lock");
    let is_in_the_way = |row: &Row<'_>| !is_victim(row) && (row.count("waiting") > 0 || row.count("blocking") > 0);
    let is_open = |row: &Row<'_>| !is_victim(row) && row.get("reason").is_some_and(|reason| reason != "active");
    let longest = |one: &Row<'_>, other: &Row<'_>| {
        let held = |row: &Row<'_>| row.number("held").unwrap_or(0.0);
        held(one).total_cmp(&held(other))
    };
    let found = holders.rows().find(is_in_the_way);
    let Some(row) = found.or_else(|| holders.rows().filter(is_open).max_by(longest)) else {
        return "nobody keeps a server between statements".to_owned();
    };
    let mut text = format!("{} has had its server for {}", client(row), age(row, "held"));
    if let Some(reason) = row.get("reason") {
        text.push_str(&format!(", {reason}"));
    }
    if row.get("idle").is_some() {
        text.push_str(&format!(", silent for {}", age(row, "idle")));
    }
    match row.count("waiting") {
        0 => {}
        1 => text.push_str("; 1 client of the pool waits"),
        count => text.push_str(&format!("; {count} clients of the pool wait")),
    }
    if row.count("blocking") > 0 {
        text.push_str(&format!("; {} behind its locks", row.count("blocking")));
    }
    with_cause(text, row)
}

/// The verdicts of `SHOW WHY`: at most [`VERDICTS_MAX`] sentences, and how many there are more.
#[must_use]
pub(crate) fn verdicts(why: &Table) -> String {
    let sentences: Vec<&str> = why.rows().filter_map(|row| row.get("sentence")).collect();
    let shown = sentences.iter().take(VERDICTS_MAX).copied().collect::<Vec<_>>().join(" — ");
    let more = match sentences.len().saturating_sub(VERDICTS_MAX) {
        0 => String::new(),
        more => format!(" — and {more} more: SHOW WHY"),
    };
    one_line(&format!("{shown}{more}")).into_owned()
}

/// Pools in trouble that have a sentence on the screen. Most often they have one root, and the first sentence has it.
const VERDICTS_MAX: usize = 2;

/// The hosts of `SHOW HOSTS`, the primary first. Empty where there is nothing to choose: an only host that answers.
#[must_use]
pub(crate) fn hosts(hosts: &Table) -> String {
    let is_only = hosts.len() == 1 && hosts.rows().all(|row| row.count("up") == 1);
    if is_only {
        return String::new();
    }
    let mut rows: Vec<Row<'_>> = hosts.rows().collect();
    rows.sort_by_key(|row| row.get("epoch").is_none());
    let more = rows.len().saturating_sub(HOSTS_MAX);
    let mut told: Vec<String> = rows.into_iter().take(HOSTS_MAX).map(host).collect();
    if more > 0 {
        told.push(format!("and {more} more"));
    }
    told.join("; ")
}

/// Hosts that are named in the overview; the table has all.
const HOSTS_MAX: usize = 5;

fn host(row: Row<'_>) -> String {
    let place = [row.get("host"), row.get("port")].into_iter().flatten().collect::<Vec<_>>().join(":");
    let mut text = format!("{place} {}", row.get("why").or(row.get("role")).unwrap_or("?"));
    let number = |name: &str| row.get(name).map(|value| format!(", {name} {value}"));
    if let Some(epoch) = number("epoch") {
        text.push_str(&epoch);
        text.push_str(&number("timeline").unwrap_or_default());
    } else if let Some(lag) = row.number("lag").filter(|_| row.get("role") == Some("standby")) {
        text.push_str(&format!(", {} behind", memory(lag)));
    }
    if let Some(ms) = row.number("probed").filter(|ms| *ms >= LATE_PROBE_MS) {
        text.push_str(&format!(", probed {} ago", seconds(ms / 1000.0)));
    }
    text
}

/// A probe comes each second, and is not worth a word then.
const LATE_PROBE_MS: f64 = 3000.0;

/// Whether a database has no host that may be written to.
#[must_use]
pub(crate) fn is_held(why: &Table) -> bool {
    why.rows().any(|row| matches!(row.get("reason"), Some("no primary" | "two primaries")))
}

/// Who is at the root of the greatest tree of `SHOW LOCKS`.
#[must_use]
pub(crate) fn blocker(locks: &Table) -> String {
    let roots = locks.rows().enumerate().filter(|(_, row)| row.get("depth") == Some("0"));
    let Some((at, row)) = roots.max_by_key(|(at, row)| (row.count("blocking"), std::cmp::Reverse(*at))) else {
        return "nobody waits for a lock".to_owned();
    };
    let behind: Vec<Row<'_>> = locks.rows().skip(at + 1).take_while(|row| row.get("depth") != Some("0")).collect();
    let longest = behind.iter().filter_map(|row| row.number("waiting")).fold(0.0, f64::max);
    let waits = if row.count("blocking") == 1 { "waits" } else { "wait" };
    let mut text =
        format!("{} {waits} behind {}, the longest for {}", row.count("blocking"), client(row), seconds(longest));
    if let Some(mode) = row.get("blocks_with") {
        text.push_str(&format!("; it has {mode}"));
        if let Some(object) = row.get("blocks_on") {
            text.push_str(&format!(" on {object}"));
        }
    }
    if let Some(state) = row.get("state") {
        text.push_str(&format!(", {state}"));
    }
    // Whatever holds the others up may itself wait, and be the one that asks for too much.
    let note = row.get("note").or_else(|| behind.iter().find_map(|row| row.get("note")));
    if let Some(note) = note {
        text.push_str(&format!(". {note}"));
    }
    with_cause(text, row)
}

fn client(row: Row<'_>) -> String {
    let mut text = match (row.get("client_id"), row.get("pid")) {
        (Some(id), _) => format!("client {id}"),
        (None, Some("0")) => format!("prepared transaction {}", row.get("gid").unwrap_or("(its gid is not known)")),
        (None, Some(pid)) => format!("backend {pid}"),
        (None, None) => "a client".to_owned(),
    };
    let about: Vec<&str> = ["application_name", "client_addr"].iter().filter_map(|name| row.get(name)).collect();
    if !about.is_empty() {
        text.push_str(&format!(" ({})", about.join(", ")));
    }
    if let (Some(database), Some(user)) = (row.get("database"), row.get("user")) {
        text.push_str(&format!(" of {database}/{user}"));
    }
    text
}

/// Its tags and its statement.
fn with_cause(mut text: String, row: Row<'_>) -> String {
    if let Some(tags) = row.get("tags") {
        text.push_str(&format!(" [{tags}]"));
    }
    if let Some(query) = row.get("query") {
        text.push_str(&format!(": {query}"));
    }
    one_line(&text).into_owned()
}

fn age(row: Row<'_>, name: &str) -> String {
    seconds(row.number(name).unwrap_or(0.0))
}

/// `0.42 s`, `7.3 s`, `93 s`, `12 min`, `3 h 20 min`.
#[must_use]
pub(crate) fn seconds(seconds: f64) -> String {
    // Whole numbers, by the format.
    let minutes = (seconds / 60.0).floor();
    match seconds {
        s if s < 1.0 => format!("{s:.2} s"),
        s if s < 10.0 => format!("{s:.1} s"),
        s if s < 120.0 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{minutes:.0} min"),
        _ => format!("{:.0} h {:.0} min", (minutes / 60.0).floor(), minutes % 60.0),
    }
}

/// Microseconds as `730 µs`, `12.4 ms`, `93.2 s`, `1234 s`.
#[must_use]
pub(crate) fn micros(micros: f64) -> String {
    match micros {
        us if us < 1000.0 => format!("{us:.0} µs"),
        us if us < 1_000_000.0 => format!("{:.1} ms", us / 1000.0),
        us if us < 1_000_000_000.0 => format!("{:.1} s", us / 1_000_000.0),
        us => format!("{:.0} s", us / 1_000_000.0),
    }
}

/// Bytes as `812 kB`, `12.3 MB`, `1.5 GB`.
#[must_use]
pub(crate) fn memory(bytes: f64) -> String {
    match bytes / 1024.0 {
        kb if kb < 1024.0 => format!("{kb:.0} kB"),
        kb if kb < 1024.0 * 1024.0 => format!("{:.1} MB", kb / 1024.0),
        kb => format!("{:.1} GB", kb / 1024.0 / 1024.0),
    }
}

/// `740`, `12.3 k`, `4.5 M`.
#[must_use]
pub(crate) fn amount(number: f64) -> String {
    match number {
        n if n < 10.0 && n.fract() > 0.05 => format!("{n:.1}"),
        n if n < 10_000.0 => format!("{n:.0}"),
        n if n < 1_000_000.0 => format!("{:.1} k", n / 1e3),
        n if n < 1_000_000_000.0 => format!("{:.1} M", n / 1e6),
        n => format!("{:.1} G", n / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::table;

    #[test]
    fn a_holder_is_told_with_its_tags_and_statement() {
        let names = [
            "client_id",
            "application_name",
            "database",
            "user",
            "held",
            "idle",
            "reason",
            "waiting",
            "blocking",
            "tags",
            "query",
        ];
        let holders = table(
            &names,
            &[
                &["3", "", "shop", "app", "400", "", "active", "0", "0", "", "select 1"],
                &[
                    "17",
                    "billing",
                    "shop",
                    "app",
                    "93.4",
                    "90.1",
                    "idle in transaction",
                    "12",
                    "3",
                    "controller=Report",
                    "update a\nset b = 1",
                ],
            ],
        );
        let told = holder(&holders);
        let expected = "client 17 (billing) of shop/app has had its server for 93 s, idle in transaction, silent for 90 s; \
                        12 clients of the pool wait; 3 behind its locks [controller=Report]: update a set b = 1";
        assert_eq!(told, expected);
        let names = ["client_id", "reason", "waiting", "held", "blocking"];
        let victims = table(&names, &[&["7", "waits for a lock", "12", "90", "3"], &["8", "active", "12", "2", "0"]]);
        assert!(holder(&victims).starts_with("client 8 has had"), "a victim is no holder");
        assert_eq!(holder(&Table::default()), "nobody keeps a server between statements");
    }

    #[test]
    fn the_blocker_with_the_most_behind_it_is_told() {
        let names =
            ["depth", "pid", "client_id", "blocking", "waiting", "blocks_with", "blocks_on", "state", "note", "query"];
        let locks = table(
            &names,
            &[
                &["0", "10", "", "1", "", "", "", "active", "", "a"],
                &["1", "11", "5", "0", "3", "", "", "active", "", "b"],
                &[
                    "0",
                    "20",
                    "7",
                    "234",
                    "",
                    "ShareLock",
                    "orders",
                    "active",
                    "CREATE INDEX, in the way of 234",
                    "create index on orders (n)",
                ],
                &["1", "21", "8", "0", "12", "", "", "active", "", "insert"],
            ],
        );
        let expected = "234 wait behind client 7, the longest for 12 s; it has ShareLock on orders, active. CREATE INDEX, in the way of 234: \
                        create index on orders (n)";
        assert_eq!(blocker(&locks), expected);
        assert_eq!(blocker(&Table::default()), "nobody waits for a lock");
    }

    #[test]
    fn hosts_are_named_with_the_primary_first() {
        let names = ["host", "port", "up", "role", "timeline", "lag", "epoch", "probed", "why"];
        let hosts_of = |rows: &[&[&str]]| hosts(&table(&names, rows));
        let standby: &[&str] = &["10.0.0.6", "5432", "1", "standby", "7", "1610612736", "", "812", "a standby"];
        let silent: &[&str] = &["10.0.0.7", "5432", "0", "", "", "", "", "7300", "it does not answer"];
        let primary: &[&str] = &["10.0.0.5", "5432", "1", "primary", "7", "0", "2", "95", "the primary"];
        let expected = "10.0.0.5:5432 the primary, epoch 2, timeline 7; 10.0.0.6:5432 a standby, 1.5 GB behind; \
                        10.0.0.7:5432 it does not answer, probed 7.3 s ago";
        assert_eq!(hosts_of(&[standby, silent, primary]), expected);
        assert_eq!(hosts_of(&[primary]), "", "there is nothing to choose");
        assert_eq!(hosts_of(&[silent]), "10.0.0.7:5432 it does not answer, probed 7.3 s ago");
        assert_eq!(hosts_of(&[]), "");
        assert!(hosts_of(&[standby; 7]).ends_with("; and 2 more"));
    }

    #[test]
    fn numbers_are_short() {
        let memory = [(831_488.0, "812 kB"), (12_897_485.0, "12.3 MB"), (1_610_612_736.0, "1.5 GB")];
        memory.into_iter().for_each(|(bytes, expected)| assert_eq!(super::memory(bytes), expected));
        assert_eq!(
            [0.42, 7.34, 93.4, 721.0, 12_000.0].map(seconds),
            ["0.42 s", "7.3 s", "93 s", "12 min", "3 h 20 min"]
        );
        assert_eq!([730.0, 12_400.0, 93_200_000.0].map(micros), ["730 µs", "12.4 ms", "93.2 s"]);
        assert_eq!(
            [0.0, 7.3, 740.0, 12_300.0, 4.5e6, 2e9].map(amount),
            ["0", "7.3", "740", "12.3 k", "4.5 M", "2.0 G"]
        );
    }
}
