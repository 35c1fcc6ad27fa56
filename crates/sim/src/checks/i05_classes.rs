//! I5, for classes and statements: over all workers, never more transactions at a time than the limit, and never more
//! events than the burst plus the rate times the time since the world began.
//!
//! Checked by the workers' counts in all worlds with limits. Checked also by what PostgreSQL sees, without the pooler,
//! where PostgreSQL can tell a client's class: transaction pooling, sessions that are not followed, no class for long
//! transactions. The class is then given by the server's `application_name` and the client's user when the first
//! message of a client comes to an idle server, and holds until the server is idle again.

use std::collections::BTreeMap;

use machine::{Look, Settings};
use queueing::classes::LimitKind;
use queueing::classes::{Limits, Rate, Subject};
use settings::{Fidelity, PoolMode};
use units::{PoolKey, Time};

use super::WorldView;
use crate::course::Finding;
use crate::link::{Link, LinkId};
use crate::parameters::{self, APPLICATION_NAME};
use crate::plan::Plan;
use crate::process::Process;

/// The counts that PostgreSQL has seen.
#[derive(Debug, Default)]
pub(crate) struct SeenByPostgres {
    /// The class that each server works for, by name.
    running: BTreeMap<LinkId, String>,
    /// The client that each server has worked for last, and its class.
    last: BTreeMap<LinkId, (u32, String)>,
    /// Transactions that began with a simple query on an idle server that had worked for another client before.
    begun: BTreeMap<(LimitKind, String), u64>,
}

impl SeenByPostgres {
    /// The `application_name` on a server before the current message; `None`: not needed.
    pub(crate) fn application_at(&self, plan: &Plan, process: &Process) -> Option<u8> {
        let asks = plan.is_limited() && !self.running.contains_key(&process.link);
        asks.then(|| process.backend.session().values()[APPLICATION_NAME])
    }

    /// A server got a message of a client, perhaps the first. `begins`: a simple query outside of a transaction.
    /// Returns whether the class now runs as many transactions as its limit allows, if that is known.
    pub(super) fn note_run(
        &mut self,
        view: &WorldView<'_>,
        process: &Process,
        begins: bool,
        application: Option<u8>,
    ) -> Result<Option<bool>, Finding> {
        let Some(client) = process.backend.client().filter(|_| view.plan.is_limited()) else { return Ok(None) };
        // Later transactions of a pipeline are let through, and counted against the rate afterwards.
        let is_first = application.is_some();
        if let Some(application) = application {
            let Some(class) = class_at(view, process, client, application) else { return Ok(None) };
            let before = self.last.get(&process.link).filter(|before| before.0 == client);
            if before.is_some_and(|before| before.1 != class) {
                // A change of class in the midst of a pipeline counts only from the pooler's next admission, which is
                // not known here.
                return Ok(None);
            }
            self.running.insert(process.link, class);
        }
        let SeenByPostgres { running, last, begun } = self;
        let is_open = |id: &LinkId| view.network.get(*id).is_some_and(Link::is_open);
        running.retain(|id, _| is_open(id));
        last.retain(|id, _| is_open(id));
        let Some(class) = running.get(&process.link) else { return Ok(None) };
        // A pipeline that comes in pieces finds its server idle in between; the pooler may not know yet.
        let before = last.insert(process.link, (client, class.clone()));
        let is_another = before.is_none_or(|before| before.0 != client);
        *begun.entry((LimitKind::Transactions, class.clone())).or_default() +=
            u64::from(is_first && is_another && begins);
        let at_once = running.values().filter(|other| *other == class).count() as u32;
        let limits = view.plan.settings.classes.all.iter().find(|one| *one.name == **class).map(|one| one.limits);
        let active = BTreeMap::from([(class.clone(), at_once)]);
        if let Some(words) = exceeded(view, &active, begun) {
            return Err((5, format!("PostgreSQL: {words}")));
        }
        Ok(Some(limits.is_some_and(|limits| limits.active == Some(at_once))))
    }

    /// A server is idle.
    pub(crate) fn rest(&mut self, id: LinkId) {
        self.running.remove(&id);
    }
}

/// The class of a client at a server, if it is known.
fn class_at(view: &WorldView<'_>, process: &Process, client: u32, application: u8) -> Option<String> {
    let settings = &view.plan.settings;
    let key = PoolKey { database: process.dbname.as_str().into(), user: process.user.as_str().into() };
    let is_followed = settings.global.pools.pool_fidelity != Fidelity::Classic;
    let has_lanes = settings.classes.all.iter().any(|class| class.long.is_some());
    if is_followed || has_lanes || view.plan.mode(&key) == PoolMode::Session {
        return None;
    }
    let client = view.crowd.find(client)?;
    let subject = Subject {
        database: client.who.name.as_bytes(),
        user: view.plan.users[client.who.user].name.as_bytes(),
        application: parameters::value(APPLICATION_NAME, application).as_bytes(),
    };
    Some(settings.classes.class(settings.classes.of(&subject, &[])).name.to_string())
}

/// All workers are checked at the same moment: a worker gives a permit up before another gets it.
pub(super) fn check(view: &WorldView<'_>) -> Result<(), Finding> {
    let workers = view.machines.iter().filter_map(|node| node.worker());
    let (mut active, mut passed): (BTreeMap<String, u32>, BTreeMap<(LimitKind, String), u64>) = Default::default();
    let mut statements: BTreeMap<u64, u32> = BTreeMap::new();
    for snapshot in workers.map(|worker| worker.snapshot(Time(view.now), Look::Pools)) {
        for row in snapshot.limits {
            *active.entry(row.class.to_string()).or_default() +=
                if row.kind == LimitKind::Active { row.active } else { 0 };
            *passed.entry((row.kind, row.class.to_string())).or_default() += row.passed;
        }
        for row in snapshot.statements {
            *statements.entry(row.fingerprint).or_default() += row.active;
        }
    }
    let found = exceeded(view, &active, &passed).or_else(|| {
        let limits: Option<Vec<u32>> =
            view.plan.all_settings().map(|settings| settings.global.classes.statement_limit(0)).collect();
        let limit = limits?.into_iter().max()?;
        let (fingerprint, count) = statements.into_iter().find(|(_, count)| *count > limit)?;
        Some(format!("{count} transactions at a time begin with {fingerprint:016x}, {limit} may"))
    });
    found.map_or(Ok(()), |words| Err((5, words)))
}

/// After a reload, transactions admitted before it may still run: the highest limit that ever held counts.
fn exceeded(
    view: &WorldView<'_>,
    active: &BTreeMap<String, u32>,
    passed: &BTreeMap<(LimitKind, String), u64>,
) -> Option<String> {
    for class in &view.plan.settings.classes.all {
        let name = &*class.name;
        let held = |settings: &Settings| {
            settings.classes.all.iter().find(|class| &*class.name == name).map(|class| class.limits)
        };
        // If one of these settings had no limit, there is none.
        let Some(limits) = view.plan.all_settings().map(held).collect::<Option<Vec<Limits>>>() else { continue };
        let count = active.get(name).copied().unwrap_or(0);
        let most_active = limits.iter().map(|limits| limits.active).collect::<Option<Vec<u32>>>();
        if let Some(limit) = most_active.and_then(|all| all.into_iter().max()).filter(|limit| count > *limit) {
            return Some(format!("{count} transactions of {name} at a time, max_active is {limit}"));
        }
        let rates = [(LimitKind::Transactions, 0), (LimitKind::Queries, 1)];
        for (kind, place) in rates {
            let rate = |limits: &Limits| [limits.transactions, limits.queries][place];
            let Some(rates) = limits.iter().map(rate).collect::<Option<Vec<Rate>>>() else { continue };
            let count = passed.get(&(kind, name.to_owned())).copied().unwrap_or(0);
            let most = rates.iter().map(|rate| most(view.now, *rate)).sum::<u64>();
            if count > most {
                return Some(format!("{count} events of {} of {name} in {} us, {rates:?}", kind.name(), view.now));
            }
        }
    }
    None
}

fn most(now: u64, rate: Rate) -> u64 {
    let come = u128::from(now) * u128::from(rate.per_second) / 1_000_000;
    u64::from(rate.burst) + u64::try_from(come).unwrap_or(u64::MAX) + 1
}
