//! `SHOW LIMITS`: one row for each limit of a class or of statements, with how much of it is left and its counts over
//! all workers. PgBouncer has none.
//!
//! Counts are since the start, or since the limit exists.

use machine::snapshot::{LimitCounts, StatementCounts};
use queueing::classes::LimitKind;
use queueing::classes::{Class, Rate};
use settings::ClassSettings;

use super::show_fingerprints::{self, sums};
use crate::show_input::ShowInput;
use crate::table::{Column, Table, Value, big, count, int, numeric, text, words};

const COLUMNS: &[Column] = &[
    // NULL for a limit of statements.
    text("class"),
    // The name in the file: tps, qps, logins, max_active, fingerprint_max_active.
    text("kind"),
    // Events a second; of max_active and fingerprint_max_active, transactions at a time.
    int("limit"),
    // NULL for max_active and fingerprint_max_active.
    int("burst"),
    // What is left of the burst or of max_active; for fingerprint_max_active, what the statement that uses most of it
    // leaves.
    int("remaining"),
    // Sessions that wait now for any limit of the class; for statements, those that wait for a server too.
    int("waiting"),
    numeric("delayed"),
    numeric("rejected"),
    // delay or reject.
    text("over"),
    // The statement, if the limit is for one.
    text("fingerprint"),
];

/// Classes in the order of the file, `default` first; then the limit of any statement, and those of single statements.
pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let mut table = Table::new(COLUMNS);
    for class in &input.settings.classes.all {
        for kind in LimitKind::ALL {
            if let Some((limit, burst)) = limit_of(class, kind) {
                table.push(row(input, class, kind, limit, burst));
            }
        }
    }
    let statements = sums(input);
    let limits = &input.settings.global.classes;
    if limits.fingerprint_max_active > 0 {
        let others = statements.values().filter(|one| !limits.fingerprint_limits.contains_key(&one.fingerprint));
        table.push(statement_row(limits, limits.fingerprint_max_active, None, &others.collect::<Vec<_>>()));
    }
    for (&fingerprint, &limit) in limits.fingerprint_limits.iter().filter(|(_, limit)| **limit > 0) {
        let one: Vec<&StatementCounts> = statements.get(&fingerprint).into_iter().collect();
        table.push(statement_row(limits, limit, Some(fingerprint), &one));
    }
    table
}

/// The row of a limit that holds for each of `statements`.
fn statement_row(
    limits: &ClassSettings,
    limit: u32,
    fingerprint: Option<u64>,
    statements: &[&StatementCounts],
) -> Vec<Value> {
    let used_most = statements.iter().map(|one| one.permits).max().unwrap_or_default();
    vec![
        None,
        words("fingerprint_max_active"),
        count(limit),
        None,
        count(limit.saturating_sub(used_most)),
        big(statements.iter().map(|one| u64::from(one.waiting)).sum()),
        big(statements.iter().map(|one| one.delayed).sum()),
        big(statements.iter().map(|one| one.rejected).sum()),
        words(limits.fingerprint_over.as_str()),
        fingerprint.map(show_fingerprints::name),
    ]
}

fn limit_of(class: &Class, kind: LimitKind) -> Option<(u32, Option<u32>)> {
    let of = |rate: Option<Rate>| rate.map(|rate| (rate.per_second, Some(rate.burst)));
    match kind {
        LimitKind::Transactions => of(class.limits.transactions),
        LimitKind::Queries => of(class.limits.queries),
        LimitKind::Logins => of(class.limits.logins),
        LimitKind::Active => class.limits.active.map(|active| (active, None)),
    }
}

fn row(input: &ShowInput<'_>, class: &Class, kind: LimitKind, limit: u32, burst: Option<u32>) -> Vec<Value> {
    let parts = input.snapshots.iter().flat_map(|snapshot| &snapshot.limits);
    let parts: Vec<&LimitCounts> = parts.filter(|part| part.class == class.name && part.kind == kind).collect();
    let remaining = match burst {
        Some(burst) => left_of_rate(input, &parts, limit, burst),
        None => parts.iter().fold(limit, |left, part| left.saturating_sub(part.active)),
    };
    vec![
        words(&*class.name),
        words(kind.name()),
        count(limit),
        burst.and_then(count),
        count(remaining),
        big(parts.iter().map(|part| u64::from(part.waiting)).sum()),
        big(parts.iter().map(|part| part.delayed).sum()),
        big(parts.iter().map(|part| part.rejected).sum()),
        words(class.limits.over.as_str()),
        None,
    ]
}

/// What is left: what the coordinator last reported to a worker, what has been added since, and what workers have not
/// used. If no worker has ever asked, the whole burst.
fn left_of_rate(input: &ShowInput<'_>, parts: &[&LimitCounts], per_second: u32, burst: u32) -> u32 {
    let Some((left, reported_at)) =
        parts.iter().filter_map(|part| part.left).max_by_key(|&(_, reported_at)| reported_at)
    else {
        return burst;
    };
    let now = input.snapshots.iter().map(|snapshot| snapshot.now).max().unwrap_or(reported_at);
    let come = now.since(reported_at).as_micros() * u128::from(per_second) / 1_000_000;
    let come = u32::try_from(come).unwrap_or(u32::MAX);
    parts.iter().fold(left.saturating_add(come), |left, part| left.saturating_add(part.unused)).min(burst)
}
