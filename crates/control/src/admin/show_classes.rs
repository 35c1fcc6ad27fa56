//! `SHOW CLASSES`: one row for each class of clients, with its weight and limits, and its counts over all pools and
//! workers. PgBouncer has none.
//!
//! Counts are since the start, or since classes were last changed. Without rules only refusals are counted, and the other counts are NULL.

use queueing::classes::{Class, ClassId};
use queueing::queue::ClassCounts;

use crate::show_input::ShowInput;
use crate::table::{Column, Table, Value, big, count, int, numeric, text, words};

const COLUMNS: &[Column] = &[
    text("class"),
    int("weight"),
    int("priority"),
    // Servers of each pool.
    int("min"),
    // NULL: no limit, also in the next column.
    int("max"),
    int("max_waiting"),
    // Now.
    int("cl_waiting"),
    int("sv_active"),
    // Server time, including what runs now.
    numeric("server_seconds"),
    // Of the server time of all classes, in percent.
    numeric("share"),
    // How often sessions waited for a server, for how long in total, and the longest wait, including waits that last
    // now.
    numeric("wait_count"),
    numeric("wait_seconds"),
    numeric("maxwait_seconds"),
    // The longest wait divided by the mean wait: 1 if all waits are equal.
    numeric("starvation"),
    // Requests and logins that got no server since the start: full queue, deadline, timeout, PostgreSQL's refusal.
    numeric("refused"),
];

/// In the order of the file, `default` first.
pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let classes = &input.settings.classes;
    let counts: Vec<ClassCounts> = (0..classes.all.len()).map(|index| sum(input, ClassId(index as u8))).collect();
    let served_us = counts.iter().map(|counts| u128::from(counts.served_us)).sum();
    let mut table = Table::new(COLUMNS);
    for (class, counts) in classes.all.iter().zip(&counts) {
        let mut row = claims(class);
        if classes.is_single() {
            row.resize(COLUMNS.len() - 1, None);
        } else {
            row.extend(came_of(counts, served_us));
        }
        row.push(big(refused(input, &class.name)));
        table.push(row);
    }
    table
}

fn claims(class: &Class) -> Vec<Value> {
    vec![
        words(&*class.name),
        count(class.weight),
        count(class.priority),
        count(class.min),
        class.max.and_then(count),
        class.max_waiting.and_then(count),
    ]
}

fn came_of(counts: &ClassCounts, all_served_us: u128) -> Vec<Value> {
    vec![
        count(counts.waiting),
        count(counts.active),
        seconds(counts.served_us),
        tenths(u128::from(counts.served_us) * 100, all_served_us),
        big(counts.served_after_wait),
        seconds(counts.wait_us),
        seconds(counts.wait_max_us),
        tenths(u128::from(counts.wait_max_us) * u128::from(counts.served_after_wait), counts.wait_us.into()),
    ]
}

/// Since the start, over all pools and workers.
fn refused(input: &ShowInput<'_>, class: &str) -> u64 {
    let refusals = input.snapshots.iter().flat_map(|snapshot| &snapshot.refusals);
    let of_class = refusals.filter(|refusal| &*refusal.class == class && refusal.reason.is_of_queue());
    of_class.map(|refusal| refusal.count).sum()
}

/// Over all pools and workers.
fn sum(input: &ShowInput<'_>, class: ClassId) -> ClassCounts {
    let mut sum = ClassCounts { class, ..ClassCounts::default() };
    let pools = input.snapshots.iter().flat_map(|snapshot| &snapshot.pools);
    for part in pools.flat_map(|pool| &pool.classes).filter(|part| part.class == class) {
        sum.waiting = sum.waiting.saturating_add(part.waiting);
        sum.active = sum.active.saturating_add(part.active);
        sum.served_us = sum.served_us.saturating_add(part.served_us);
        sum.served_after_wait = sum.served_after_wait.saturating_add(part.served_after_wait);
        sum.wait_us = sum.wait_us.saturating_add(part.wait_us);
        sum.wait_max_us = sum.wait_max_us.max(part.wait_max_us);
    }
    sum
}

/// To the millisecond.
fn seconds(micros: u64) -> Value {
    Some(format!("{}.{:03}", micros / 1_000_000, micros % 1_000_000 / 1000))
}

/// A quotient with one decimal, rounded down; NULL if the divisor is 0.
fn tenths(dividend: u128, divisor: u128) -> Value {
    let tenths = dividend.saturating_mul(10).checked_div(divisor)?;
    Some(format!("{}.{}", tenths / 10, tenths % 10))
}
