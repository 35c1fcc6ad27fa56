//! `SHOW LIMITS`: one row for each limit of each class: how much of it is left, and what came of it, over all workers. PgBouncer
//! has none.
//!
//! Counts are since the start, or since there is such a limit.

use pooling::classes::{Class, Rate};
use pooling::limiting::Kind;
use pooling::snapshot::LimitCounts;

use crate::table::{Column, Table, Value, big, count, int, numeric, text, words};
use crate::view::View;

const COLUMNS: &[Column] = &[
    text("class"),
    // As the file has it: tps, qps, logins, max_active.
    text("kind"),
    // Events a second; of max_active, transactions at a time.
    int("limit"),
    // NULL for max_active.
    int("burst"),
    // NULL: nobody has asked yet.
    int("remaining"),
    // Now: who waits for any limit of the class.
    int("waiting"),
    numeric("delayed"),
    numeric("rejected"),
    // delay or reject.
    text("over"),
];

/// Classes in the order of the file, `default` first.
pub(super) fn table(view: &View<'_>) -> Table {
    let mut table = Table::new(COLUMNS);
    for class in &view.settings.classes.all {
        for kind in Kind::ALL {
            if let Some((limit, burst)) = limit_of(class, kind) {
                table.push(row(view, class, kind, limit, burst));
            }
        }
    }
    table
}

fn limit_of(class: &Class, kind: Kind) -> Option<(u32, Option<u32>)> {
    let of = |rate: Option<Rate>| rate.map(|rate| (rate.per_second, Some(rate.burst)));
    match kind {
        Kind::Transactions => of(class.limits.transactions),
        Kind::Queries => of(class.limits.queries),
        Kind::Logins => of(class.limits.logins),
        Kind::Active => class.limits.active.map(|active| (active, None)),
    }
}

fn row(view: &View<'_>, class: &Class, kind: Kind, limit: u32, burst: Option<u32>) -> Vec<Value> {
    let parts = view.snapshots.iter().flat_map(|snapshot| &snapshot.limits);
    let parts: Vec<&LimitCounts> = parts.filter(|part| part.class == class.name && part.kind == kind).collect();
    // What each worker was told last: the least of it is nearest to what there is now, unless that has grown since.
    let remaining =
        parts.iter().map(|part| part.remaining).min().map(|remaining| remaining.min(burst.unwrap_or(limit)));
    vec![
        words(&*class.name),
        words(kind.name()),
        count(limit),
        burst.and_then(count),
        remaining.and_then(count),
        big(parts.iter().map(|part| u64::from(part.waiting)).sum()),
        big(parts.iter().map(|part| part.delayed).sum()),
        big(parts.iter().map(|part| part.rejected).sum()),
        words(class.limits.over.as_str()),
    ]
}
