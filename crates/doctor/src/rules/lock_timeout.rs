//! Whether DDL that waits for a lock gives up.

use crate::facts::Facts;
use crate::finding::{Finding, Weight};

pub(super) fn find(facts: &Facts) -> Option<Finding> {
    let postgres = facts.postgres.as_ref()?;
    let names = ["lock_timeout", "statement_timeout"];
    let is_off = |name: &str| postgres.number(name) == Some(0) && !postgres.role_settings.contains(name);
    if !names.into_iter().all(is_off) {
        return None;
    }
    Some(Finding {
        rule: "lock-timeout",
        weight: Weight::Notice,
        title: "DDL may wait for a lock for ever, and stop everybody meanwhile".to_owned(),
        evidence: vec!["lock_timeout = 0, statement_timeout = 0, and no role or database has one".to_owned()],
        reason: "An ALTER TABLE that waits for one long report stands in the queue before all that come after it, readers too. With lock_timeout it gives \
                 up, and a migration tries again."
            .to_owned(),
        source: "PostgreSQL manual, Statement Behavior: lock_timeout",
        mend: vec!["ALTER ROLE … SET lock_timeout = '2s'; -- for the role that runs migrations".to_owned()],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::example::{check, postgres};

    #[test]
    fn any_of_them_is_enough() {
        let off = |facts: &mut Facts| _ = postgres(facts).settings.insert("lock_timeout".to_owned(), "0".to_owned());
        let of_statements = |facts: &mut Facts| {
            off(facts);
            postgres(facts).settings.insert("statement_timeout".to_owned(), "1".to_owned());
        };
        let of_role = |facts: &mut Facts| {
            off(facts);
            postgres(facts).role_settings.insert("lock_timeout".to_owned());
        };
        let untold = |facts: &mut Facts| postgres(facts).settings.clear();
        check(
            find,
            &[
                ("none", &off, Some(Weight::Notice)),
                ("statements end", &of_statements, None),
                ("a role has one", &of_role, None),
                ("not told", &untold, None),
            ],
        );
    }
}
