//! Whether PostgreSQL's log names lock waits and temporary files.

use crate::facts::Facts;
use crate::finding::{Finding, Weight};

pub(super) fn find(facts: &Facts) -> Option<Finding> {
    let postgres = facts.postgres.as_ref()?;
    let table = [
        ("log_lock_waits", "off", "ALTER SYSTEM SET log_lock_waits = on;"),
        ("log_temp_files", "-1", "ALTER SYSTEM SET log_temp_files = '10MB';"),
    ];
    let off: Vec<_> = table.into_iter().filter(|(name, off, _)| postgres.setting(name) == *off).collect();
    if off.is_empty() {
        return None;
    }
    let mut mend: Vec<String> = off.iter().map(|(_, _, mend)| (*mend).to_owned()).collect();
    mend.push("SELECT pg_reload_conf();".to_owned());
    Some(Finding {
        rule: "log-settings",
        weight: Weight::Notice,
        title: "PostgreSQL's log does not say what one will look for".to_owned(),
        evidence: off.iter().map(|(name, off, _)| format!("{name} = {off}")).collect(),
        reason: "Whoever waited for a lock for longer than deadlock_timeout, and for whom, and which statement wrote large temporary files, cannot be \
                 found out afterwards. A line costs nothing while nobody waits."
            .to_owned(),
        source: "PostgreSQL manual, What to Log",
        mend,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::example::{check, postgres};

    #[test]
    fn either_of_them() {
        let set = |name: &'static str, value: &'static str| {
            move |facts: &mut Facts| _ = postgres(facts).settings.insert(name.to_owned(), value.to_owned())
        };
        check(
            find,
            &[
                ("lock waits", &set("log_lock_waits", "off"), Some(Weight::Notice)),
                ("temporary files", &set("log_temp_files", "-1"), Some(Weight::Notice)),
                ("large ones only", &set("log_temp_files", "10240"), None),
            ],
        );
    }
}
