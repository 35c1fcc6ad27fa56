//! A database with several hosts, a primary and its standbys, and no role that it wants: writes go to standbys too.

use super::hosts;
use crate::facts::Facts;
use crate::finding::{Finding, Weight};
use crate::pooler::PooledDatabase;

pub(super) fn find(facts: &Facts) -> Option<Finding> {
    let postgres = facts.postgres.as_ref()?;
    if !postgres.identity.is_standby && postgres.replicas.is_empty() {
        return None;
    }
    // A console does not show whether a role is wanted.
    let has_no_role = |database: &&PooledDatabase| database.target_session_attrs.is_some() && database.takes_any_role();
    let several: Vec<&PooledDatabase> =
        hosts::that_lead_here(facts).filter(|database| database.hosts().count() > 1).filter(has_no_role).collect();
    let first = several.first()?;
    let names = super::first(several.iter().map(|database| database.name.clone())).join(", ");
    Some(Finding {
        rule: "hosts-without-role",
        weight: Weight::Warning,
        title: format!("writes of {names} go to standbys, too"),
        evidence: hosts::evidence(facts, &several),
        reason: "Without target_session_attrs all hosts are one and the same database: servers are opened at each of them in turn, and a standby \
                 refuses writes (25006)."
            .to_owned(),
        source: "pgweir's guide, A primary and its standbys",
        mend: hosts::mend(facts, first),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::Replica;
    use crate::rules::example::{check, pooler, postgres};

    fn several(attrs: Option<&'static str>, is_replicated: bool) -> impl Fn(&mut Facts) {
        move |facts: &mut Facts| {
            pooler(facts).databases[0].host = Some("10.0.0.9, 10.0.0.10".to_owned());
            pooler(facts).databases[0].target_session_attrs = attrs.map(str::to_owned);
            if is_replicated {
                postgres(facts).replicas = vec![Replica::default()];
            }
        }
    }

    #[test]
    fn several_hosts_need_a_role_where_one_is_a_copy() {
        let at_standby = |facts: &mut Facts| {
            several(Some("any"), false)(facts);
            postgres(facts).identity.is_standby = true;
        };
        check(
            find,
            &[
                ("no role", &several(Some("any"), true), Some(Weight::Warning)),
                ("no role, and a standby answers", &at_standby, Some(Weight::Warning)),
                ("a role", &several(Some("read-write"), true), None),
                ("it is not known", &several(None, true), None),
                ("no copies: they are equal", &several(Some("any"), false), None),
            ],
        );
    }
}
