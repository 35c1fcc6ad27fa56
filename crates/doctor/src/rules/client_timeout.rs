//! Whether clients wait for as long as the queue lets them.

use crate::facts::Facts;
use crate::finding::{Finding, Weight};
use crate::words::span;

pub(super) fn find(facts: &Facts) -> Option<Finding> {
    let pooler = facts.pooler.as_ref()?;
    let written = pooler.settings.get("query_wait_timeout")?;
    let limit = pooler.time("query_wait_timeout");
    let patience = facts.asked.client_timeout;
    let is_endless = limit.is_zero();
    if !is_endless && patience.is_none_or(|patience| limit < patience) {
        return None;
    }
    let patience_words =
        patience.map(|patience| format!("; clients give up after {}", span(patience))).unwrap_or_default();
    let wanted = patience.map_or(30, |patience| (patience.as_secs() * 2 / 3).max(1));
    Some(Finding {
        rule: "client-timeout",
        weight: if patience.is_some() { Weight::Warning } else { Weight::Notice },
        title: if is_endless { "clients may wait in the queue for ever".to_owned() } else { "clients give up before the queue does".to_owned() },
        evidence: vec![format!("query_wait_timeout = {written}{patience_words}")],
        reason: "A client that gives up and comes again waits anew, at the end of the queue, and nobody tells it why: it sees a timeout of its own. The queue's \
                 error comes in time, says that the pool was busy, and how long the wait was."
            .to_owned(),
        source: "PgBouncer manual, config: query_wait_timeout",
        mend: vec![format!("query_wait_timeout = {wanted} -- in the pooler's file: less than the clients' own timeout")],
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::rules::example::{check, pooler};

    #[test]
    fn the_queue_gives_up_first() {
        let patience = |limit: &'static str, seconds: Option<u64>| {
            move |facts: &mut Facts| {
                pooler(facts).settings.insert("query_wait_timeout".to_owned(), limit.to_owned());
                facts.asked.client_timeout = seconds.map(Duration::from_secs);
            }
        };
        check(
            find,
            &[
                ("the queue does", &patience("29", Some(30)), None),
                ("both at once", &patience("30", Some(30)), Some(Weight::Warning)),
                ("nobody says how long clients wait", &patience("120", None), None),
                ("for ever", &patience("0", None), Some(Weight::Notice)),
                ("for ever, but clients do not", &patience("0", Some(5)), Some(Weight::Warning)),
            ],
        );
    }
}
