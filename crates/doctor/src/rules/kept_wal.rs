//! Replication slots that nobody reads, for which WAL is kept.

use crate::facts::Facts;
use crate::finding::{Finding, Weight};
use crate::postgres::Slot;
use crate::words::{bytes, literal};

/// As much as `max_wal_size` is by default.
const KEPT: u64 = 1 << 30;
const KEPT_MUCH: u64 = 16 << 30;

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
    mend.push("ALTER SYSTEM SET max_slot_wal_keep_size = '10GB'; SELECT pg_reload_conf();".to_owned());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::example::{check, postgres};

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
