//! What must hold after every step: sums are those of their parts, and no limit is exceeded.

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::Violation;
use units::Holder;

use crate::Coordinator;
use crate::homes::Burden;

/// The first that does not hold (I5, I12, I25).
pub(crate) fn check(coordinator: &Coordinator) -> Result<(), Violation> {
    let violation = |invariant, what| Err(Violation { invariant, what });
    let mut tokens: BTreeMap<&str, u32> = BTreeMap::new();
    let mut burden = vec![Burden::default(); coordinator.homes.burden().len()];
    let mut databases: BTreeMap<&Arc<str>, u32> = BTreeMap::new();
    for (_, entry) in coordinator.pools.iter() {
        let held = entry.held.total();
        *tokens.entry(&entry.key.database).or_default() += held;
        if held > entry.most() + entry.held.over() {
            return violation(5, format!("{:?} holds {held} tokens", entry.key));
        }
        let unknown = entry.held.processes().chain(entry.sessions.processes());
        if let Some(process) = unknown.map(Holder::Process).find(|holder| !coordinator.processes.knows(*holder)) {
            return violation(12, format!("{:?}: {process:?} has left, and is counted to have something", entry.key));
        }
        burden.iter_mut().zip(entry.sessions.workers()).for_each(|(burden, sessions)| burden.sessions += sessions);
        if entry.is_live() {
            *databases.entry(&entry.key.database).or_default() += 1;
            entry.homes.iter().for_each(|home| burden[usize::from(home.0)].pools += 1);
        }
    }
    if burden != coordinator.homes.burden() || !databases.into_iter().eq(coordinator.pools.by_database().iter()) {
        let counted = coordinator.homes.burden();
        return violation(12, format!("{burden:?} lives on workers, {counted:?} is counted"));
    }
    if let Some(process) = coordinator.requests.holders().find(|holder| !coordinator.processes.knows(*holder)) {
        return violation(12, format!("{process:?} has left, and waits for a server"));
    }
    let (total, counted): (u32, u32) = (tokens.values().sum(), coordinator.tokens.count());
    if total != counted {
        return violation(12, format!("{total} tokens are out, {counted} are counted"));
    }
    for (database, tokens) in tokens {
        let counted = coordinator.tokens.of_database(database);
        if tokens != counted {
            return violation(12, format!("{database}: {tokens} tokens are out, {counted} are counted"));
        }
    }
    coordinator.logins.check().or_else(|what| violation(25, what))
}
