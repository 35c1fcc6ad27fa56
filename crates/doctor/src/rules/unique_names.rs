//! Names of clients that fill pg_stat_statements with SET commands.

use crate::facts::Facts;
use crate::finding::{Finding, Weight};

/// Since this version all SET commands of one parameter are one entry.
//= pg18 pgstatstatements
const VERSION: u32 = 18;

pub(super) fn find(facts: &Facts) -> Option<Finding> {
    let (pooler, postgres) = (facts.pooler.as_ref()?, facts.postgres.as_ref()?);
    let template = pooler.setting("server_application_name");
    // `%%` is a percent sign, whatever follows it.
    let escapes = template.replace("%%", "");
    let (has_tag, has_id) = (escapes.contains("%t{"), escapes.contains("%i"));
    let track = "pg_stat_statements.track_utility";
    let version = postgres.identity.version.split(|c: char| !c.is_ascii_digit()).next()?;
    let is_old = version.parse::<u32>().ok()? < VERSION;
    if !(has_tag || has_id) || !is_old || postgres.setting(track) != "on" {
        return None;
    }
    Some(Finding {
        rule: "unique-names",
        // Nobody knows here how many values a tag has; ids of clients are as many as there were clients.
        weight: if has_tag { Weight::Warning } else { Weight::Notice },
        title: "names of clients drive statements out of pg_stat_statements".to_owned(),
        evidence: vec![format!(
            "server_application_name = {template}; {track} = on; PostgreSQL {}",
            postgres.identity.version
        )],
        reason: "Before PostgreSQL 18 each SET application_name with another name is an entry of its own. Names that do not come again fill \
                 pg_stat_statements.max, and the statements that it is there for go."
            .to_owned(),
        source: "PostgreSQL manual, pg_stat_statements",
        mend: vec![
            format!("ALTER SYSTEM SET {track} = off; SELECT pg_reload_conf(); -- leaves out SET, BEGIN and DDL"),
            "server_application_name = %a %c -- or in the pooler's file: names that come again".to_owned(),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::example::{check, pooler, postgres};

    #[test]
    fn ids_before_postgresql_18() {
        let named = |template: &'static str, version: &'static str, tracks: Option<&'static str>| {
            move |facts: &mut Facts| {
                pooler(facts).settings.insert("server_application_name".to_owned(), template.to_owned());
                let own = postgres(facts);
                own.identity.version = version.to_owned();
                let tracks = tracks.map(|value| ("pg_stat_statements.track_utility".to_owned(), value.to_owned()));
                own.settings.extend(tracks);
            }
        };
        check(
            find,
            &[
                ("a tag", &named("%a %t{id}", "17.10 (Debian 17.10-1)", Some("on")), Some(Weight::Warning)),
                ("an id", &named("%i", "14.23", Some("on")), Some(Weight::Notice)),
                ("few names", &named("%a@%h %c %u", "17.10", Some("on")), None),
                ("a percent sign", &named("%%i %%t{x}", "17.10", Some("on")), None),
                ("PostgreSQL 18", &named("%t{id}", "18.4", Some("on")), None),
                ("a beta of it", &named("%t{id}", "18beta1", Some("on")), None),
                ("not tracked", &named("%t{id}", "17.10", Some("off")), None),
                ("not loaded", &named("%t{id}", "17.10", None), None),
            ],
        );
    }
}
