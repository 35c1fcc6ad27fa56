//! Whether anything ends a transaction that its client has forgotten.

use crate::facts::Facts;
use crate::finding::{Finding, Weight};

pub(super) fn find(facts: &Facts) -> Option<Finding> {
    let postgres = facts.postgres.as_ref()?;
    let name = "idle_in_transaction_session_timeout";
    let is_off = |name: &str| postgres.number(name) == Some(0) && !postgres.role_settings.contains(name);
    let pooler = facts.pooler.as_ref();
    let ends_there = |name: &str| pooler.is_some_and(|pooler| !pooler.time(name).is_zero());
    let is_found = is_off(name)
        // Since PostgreSQL 17; before, there is none.
        && postgres.number("transaction_timeout").unwrap_or(0) == 0
        && !postgres.role_settings.contains("transaction_timeout")
        && !ends_there("idle_transaction_timeout")
        && !ends_there("transaction_timeout");
    if !is_found {
        return None;
    }
    let of_pooler = if pooler.is_some() { "; the pooler's idle_transaction_timeout = 0" } else { "" };
    Some(Finding {
        rule: "idle-in-transaction-timeout",
        weight: Weight::Notice,
        title: "nothing ends a transaction that its client has forgotten".to_owned(),
        evidence: vec![format!("{name} = 0{of_pooler}")],
        reason: "One client that hangs inside of a transaction keeps a server, its locks and all dead rows until somebody notices.".to_owned(),
        source: "PostgreSQL manual, Statement Behavior: idle_in_transaction_session_timeout",
        mend: vec![
            format!("ALTER SYSTEM SET {name} = '60s'; SELECT pg_reload_conf();"),
            "idle_transaction_timeout = 60 -- or in the pooler's file".to_owned(),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::example::{check, pooler, postgres};

    #[test]
    fn either_side_may_end_it() {
        let off = |facts: &mut Facts| {
            postgres(facts).settings.insert("idle_in_transaction_session_timeout".to_owned(), "0".to_owned());
        };
        let of_role = |facts: &mut Facts| {
            off(facts);
            postgres(facts).role_settings.insert("idle_in_transaction_session_timeout".to_owned());
        };
        let of_transaction = |facts: &mut Facts| {
            off(facts);
            postgres(facts).settings.insert("transaction_timeout".to_owned(), "1".to_owned());
        };
        let of_pooler = |facts: &mut Facts| {
            off(facts);
            pooler(facts).settings.insert("idle_transaction_timeout".to_owned(), "0.5".to_owned());
        };
        let untold = |facts: &mut Facts| postgres(facts).settings.clear();
        check(
            find,
            &[
                ("off", &off, Some(Weight::Notice)),
                ("a role has one", &of_role, None),
                ("transactions end", &of_transaction, None),
                ("the pooler has one", &of_pooler, None),
                ("not told", &untold, None),
            ],
        );
    }
}
