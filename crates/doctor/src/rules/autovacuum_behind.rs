//! Tables with far more dead rows than those at which autovacuum comes, or to which it never comes.

use crate::facts::Facts;
use crate::finding::{Finding, Weight};
use crate::postgres::{Postgres, TableFigures};
use crate::words::{number, percent, qualified, span};

/// So many times the threshold: autovacuum looks once a minute, and takes its time.
const TIMES: f64 = 2.0;
/// Fewer do not matter.
const DEAD: u64 = 1000;
/// More dead rows than live ones.
const HALF: f64 = 0.5;

pub(super) fn find(facts: &Facts) -> Option<Finding> {
    let postgres = facts.postgres.as_ref()?;
    let is_off = |name: &str| postgres.setting(name) == "off";
    let is_switched_off = is_off("autovacuum") || is_off("track_counts");
    let mut late: Vec<&TableFigures> = postgres.tables.iter().filter(|table| is_late(table, is_switched_off)).collect();
    if late.is_empty() && !is_switched_off {
        return None;
    }
    late.sort_by_key(|table| std::cmp::Reverse(table.dead));
    let mut evidence = Vec::new();
    if is_switched_off {
        evidence.push(format!(
            "autovacuum = {}, track_counts = {}",
            postgres.setting("autovacuum"),
            postgres.setting("track_counts")
        ));
    }
    evidence.extend(super::first(late.iter().map(|table| line(table))));
    let is_bloated = late.iter().any(|table| dead_part(table) >= HALF && table.dead >= 100 * DEAD);
    Some(Finding {
        rule: "autovacuum-behind",
        weight: if is_bloated && is_switched_off { Weight::Critical } else { Weight::Warning },
        title: if is_switched_off { "autovacuum is switched off".to_owned() } else { format!("autovacuum is behind on {}", crate::words::counted(late.len() as u64, "table")) },
        evidence,
        reason: "Queries read dead rows, tables and indexes grow, and a plan's estimates go wrong: what was fast becomes slow little by little.".to_owned(),
        source: "PostgreSQL manual, The Autovacuum Daemon",
        mend: mend(postgres, &late, is_switched_off),
    })
}

fn is_late(table: &TableFigures, is_switched_off: bool) -> bool {
    let times = if is_switched_off || table.is_switched_off { 1.0 } else { TIMES };
    table.dead >= DEAD && table.dead as f64 > table.threshold * times
}

fn dead_part(table: &TableFigures) -> f64 {
    table.dead as f64 / (table.dead + table.live).max(1) as f64
}

fn line(table: &TableFigures) -> String {
    let vacuumed =
        table.vacuumed.map_or_else(|| "never vacuumed".to_owned(), |age| format!("vacuumed {} ago", span(age)));
    let own = if table.is_switched_off { ", autovacuum_enabled = false" } else { "" };
    format!(
        "{}.{}: {} dead rows ({} of all); it is due at {}; {vacuumed}{own}",
        table.schema,
        table.name,
        number(table.dead),
        percent(dead_part(table)),
        number(table.threshold as u64),
    )
}

fn mend(postgres: &Postgres, late: &[&TableFigures], is_switched_off: bool) -> Vec<String> {
    let mut mend = Vec::new();
    if is_switched_off {
        mend.push(
            "ALTER SYSTEM SET autovacuum = on; ALTER SYSTEM SET track_counts = on; SELECT pg_reload_conf();".to_owned(),
        );
    }
    for table in late.iter().take(super::NAMED_MAX) {
        let name = qualified(&table.schema, &table.name);
        mend.push(format!("VACUUM (ANALYZE) {name};"));
        if table.is_switched_off {
            mend.push(format!("ALTER TABLE {name} RESET (autovacuum_enabled);"));
        }
    }
    if !postgres.setting("autovacuum").is_empty() && !is_switched_off {
        mend.push("-- if that removes little, something holds an old snapshot".to_owned());
    }
    mend
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::example::{check, postgres};

    #[test]
    fn twice_the_threshold_or_never() {
        let table = |dead: u64, threshold: f64, is_switched_off: bool| {
            move |facts: &mut Facts| {
                let (schema, name) = ("public".to_owned(), "t".to_owned());
                postgres(facts).tables =
                    vec![TableFigures { schema, name, dead, threshold, is_switched_off, ..TableFigures::default() }];
            }
        };
        let off = |facts: &mut Facts| _ = postgres(facts).settings.insert("autovacuum".to_owned(), "off".to_owned());
        let much = |facts: &mut Facts| {
            off(facts);
            table(100_000, 50.0, false)(facts);
        };
        check(
            find,
            &[
                ("twice", &table(2000, 1000.0, false), None),
                ("more than twice", &table(2001, 1000.0, false), Some(Weight::Warning)),
                ("too few to matter", &table(999, 50.0, false), None),
                ("switched off, at the threshold", &table(1000, 1000.0, true), None),
                ("switched off, beyond it", &table(1001, 1000.0, true), Some(Weight::Warning)),
                ("off", &off, Some(Weight::Warning)),
                ("off, and it shows", &much, Some(Weight::Critical)),
            ],
        );
    }
}
