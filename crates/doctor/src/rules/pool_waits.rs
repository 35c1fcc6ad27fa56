//! Clients that wait for a server: now, on the whole, and so that some were refused.

use std::time::Duration;

use crate::facts::Facts;
use crate::finding::{Finding, Weight};
use crate::pooler::{Pool, Pooler, Traffic};
use crate::words::{counted, number, percent, span};

/// A client that waits so long now is found.
const WAIT: Duration = Duration::from_secs(1);
/// Of the time that clients spend in the queue and in transactions together.
const PART: f64 = 0.1;
/// Of SHOW EVENTS: the queue was full, or too long for the client's deadline. query_wait_timeout is not counted there.
const REFUSALS: [&str; 2] = ["max_waiting", "deadline"];
/// Fewer transactions say nothing about the whole.
const TRANSACTIONS: u64 = 1000;

pub(super) fn find(facts: &Facts) -> Option<Finding> {
    let pooler = facts.pooler.as_ref()?;
    let counts = REFUSALS.map(|name| (name, pooler.events.get(name).copied().unwrap_or(0)));
    let refused: u64 = counts.iter().map(|(_, count)| count).sum();
    let waiting: Vec<&Pool> = pooler.pools.iter().filter(|pool| pool.waiting > 0 && pool.wait_max >= WAIT).collect();
    let slow: Vec<(&Traffic, f64)> =
        pooler.traffic.iter().filter_map(|traffic| Some((traffic, part(traffic)?))).collect();
    if refused == 0 && waiting.is_empty() && slow.is_empty() {
        return None;
    }
    let now = waiting.iter().map(|pool| {
        let Pool { database, user, waiting, servers, wait_max, .. } = pool;
        format!(
            "{database}/{user}: {} waiting now, the first for {}, behind {}",
            counted((*waiting).into(), "client"),
            span(*wait_max),
            counted((*servers).into(), "server")
        )
    });
    let mut evidence = super::first(now);
    evidence.extend(super::first(slow.iter().map(|(traffic, part)| {
        let average =
            traffic.wait_time.checked_div(u32::try_from(traffic.transactions).unwrap_or(u32::MAX)).unwrap_or_default();
        format!(
            "{}: {} of the time is spent in the queue, {} a transaction on average",
            traffic.database,
            percent(*part),
            span(average)
        )
    })));
    for (name, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        evidence.push(format!("{} by {name} since the start", plural(count)));
    }
    Some(Finding {
        rule: "pool-waits",
        weight: if refused > 0 && !waiting.is_empty() { Weight::Critical } else { Weight::Warning },
        title: "clients wait for servers".to_owned(),
        evidence,
        reason: "Either servers are kept by transactions that are slow or idle, or there are fewer than PostgreSQL could use. Look at what holds them \
                 first: beyond about twice the cores, more servers make each slower."
            .to_owned(),
        source: "Percona: Connection Queuing in PgBouncer: Is It a Magical Remedy?",
        mend: mend(facts, pooler),
    })
}

fn plural(count: u64) -> String {
    if count == 1 { "1 request was refused".to_owned() } else { format!("{} requests were refused", number(count)) }
}

/// `None`: little was waited.
fn part(traffic: &Traffic) -> Option<f64> {
    let all = traffic.wait_time + traffic.transaction_time;
    let part = traffic.wait_time.as_secs_f64() / all.as_secs_f64().max(f64::MIN_POSITIVE);
    (traffic.transactions >= TRANSACTIONS && part >= PART).then_some(part)
}

fn mend(facts: &Facts, pooler: &Pooler) -> Vec<String> {
    let cores = facts.cores().map(|cores| format!("; up to {} for {cores} cores", 2 * cores)).unwrap_or_default();
    let mut mend = vec![
        "-- see the findings about idle transactions, locks and statements: they say what holds the servers".to_owned(),
    ];
    if pooler.sizes.is_empty() && pooler.setting("default_pool_size") != "auto" {
        mend.push(format!("default_pool_size = auto -- pgweir finds the size with the most throughput{cores}"));
    } else {
        mend.push("SHOW SIZING; -- on the console: why the size that was found is what it is".to_owned());
    }
    mend
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::example::{check, pooler};

    #[test]
    fn now_on_the_whole_and_refused() {
        let now = |ms: u64| {
            move |facts: &mut Facts| {
                let pool = &mut pooler(facts).pools[0];
                (pool.waiting, pool.wait_max) = (3, Duration::from_millis(ms));
            }
        };
        let whole = |transactions: u64, wait_s: u64| {
            move |facts: &mut Facts| {
                let (wait_time, transaction_time) = (Duration::from_secs(wait_s), Duration::from_secs(90));
                pooler(facts).traffic =
                    vec![Traffic { database: "shop".to_owned(), transactions, wait_time, transaction_time }];
            }
        };
        let refused = |facts: &mut Facts| _ = pooler(facts).events.insert("max_waiting".to_owned(), 1);
        let both = |facts: &mut Facts| {
            refused(facts);
            now(1000)(facts);
        };
        check(
            find,
            &[
                ("for a moment", &now(999), None),
                ("a second", &now(1000), Some(Weight::Warning)),
                ("a ninth", &whole(1000, 9), None),
                ("a tenth", &whole(1000, 10), Some(Weight::Warning)),
                ("a tenth of little", &whole(999, 10), None),
                ("somebody was refused", &refused, Some(Weight::Warning)),
                ("refused, and still waiting", &both, Some(Weight::Critical)),
            ],
        );
    }
}
