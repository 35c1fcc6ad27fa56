//! Replication slots that nobody reads, for which WAL is kept.

use crate::facts::Facts;
use crate::finding::{Finding, Weight};
use crate::postgres::Slot;
use crate::words::{bytes, literal};

/// As much as `max_wal_size` is by default.
const KEPT: u64 = 1 << 30;
const KEPT_MUCH: u64 = 16 << 30;
/// A limit is no smaller.
const LIMIT_GB_MIN: u64 = 10;

pub(super) fn find(facts: &Facts) -> Option<Finding> {
    let postgres = facts.postgres.as_ref()?;
    let kept = |slot: &Slot| slot.kept.unwrap_or(0);
    let mut idle: Vec<&Slot> =
        postgres.snapshots.slots.iter().filter(|slot| !slot.is_active && kept(slot) >= KEPT).collect();
    idle.sort_by_key(|slot| std::cmp::Reverse(kept(slot)));
    let most = idle.first()?;
    let mut mend: Vec<String> = idle
        .iter()
        .take(super::NAMED_MAX)
        .map(|slot| {
            format!("SELECT pg_drop_replication_slot({}); -- if nobody will come back to it", literal(&slot.name))
        })
        .collect();
    mend.push(
        "-- or a limit for all slots: the next checkpoint invalidates each one that is further behind, in use or not, and \
         its subscriber or standby must be made anew"
            .to_owned(),
    );
    mend.push(format!(
        "-- ALTER SYSTEM SET max_slot_wal_keep_size = '{}GB'; SELECT pg_reload_conf();",
        limit_gb(&postgres.snapshots.slots)
    ));
    Some(Finding {
        rule: "kept-wal",
        weight: if kept(most) >= KEPT_MUCH { Weight::Critical } else { Weight::Warning },
        title: format!("{} of WAL is kept for a replication slot that nobody reads", bytes(kept(most))),
        evidence: super::first(
            idle.iter().map(|slot| format!("slot {}: not in use, {} behind", slot.name, bytes(kept(slot)))),
        ),
        reason: "It grows until the disk is full, and then PostgreSQL stops.".to_owned(),
        source: "PostgreSQL manual, Sending Servers: max_slot_wal_keep_size",
        mend,
    })
}

/// Twice as far as any slot in use is behind.
fn limit_gb(slots: &[Slot]) -> u64 {
    let most = slots.iter().filter(|slot| slot.is_active).filter_map(|slot| slot.kept).max().unwrap_or(0);
    (most.saturating_mul(2)).div_ceil(1 << 30).max(LIMIT_GB_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::example::{check, healthy, postgres};

    #[test]
    fn a_limit_is_beyond_the_slots_in_use_and_is_not_set_unread() {
        for (active, limit) in [(0, "'10GB'"), (5 << 30, "'10GB'"), ((5 << 30) + 1, "'11GB'"), (20 << 30, "'40GB'")] {
            let mut facts = healthy();
            let slot = |name: &str, is_active: bool, kept: u64| Slot {
                name: name.to_owned(),
                is_active,
                kept: Some(kept),
                ..Slot::default()
            };
            postgres(&mut facts).snapshots.slots = vec![slot("it's", false, 30 << 30), slot("read", true, active)];
            let found = find(&facts).expect("30 GB for nobody");
            assert!(found.mend[0].starts_with("SELECT pg_drop_replication_slot('it''s'); -- if nobody"), "{found:?}");
            assert!(found.mend[1].contains("invalidates each one that is further behind, in use or not"), "{found:?}");
            assert!(found.mend[2].starts_with("-- ALTER SYSTEM") && found.mend[2].contains(limit), "{found:?}");
        }
    }

    #[test]
    fn a_gigabyte_for_nobody() {
        let slot = |is_active: bool, kept: u64| {
            move |facts: &mut Facts| {
                postgres(facts).snapshots.slots.push(Slot { is_active, kept: Some(kept), ..Slot::default() });
            }
        };
        check(
            find,
            &[
                ("less", &slot(false, KEPT - 1), None),
                ("a gigabyte", &slot(false, KEPT), Some(Weight::Warning)),
                ("somebody reads", &slot(true, KEPT_MUCH), None),
                ("much", &slot(false, KEPT_MUCH), Some(Weight::Critical)),
            ],
        );
    }
}
