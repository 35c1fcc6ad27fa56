//! The invariants, one file each. Cheap checks run wherever something happens that could violate them; those that read
//! everything run after a worker's rounds.
//!
//! | invariant | where the world sees it |
//! |---|---|
//! | I1 one link | `i01_one_link`: snapshots; and no action may name a connection that does not exist |
//! | I2, I11 answers | in the model clients, against their twins |
//! | I3 clean servers | in the model PostgreSQL: the transaction, batch or session in which a statement runs |
//! | I4 cancels | `i04_cancels`: which query a cancel interrupts |
//! | I5 limits | `i05_limits`: connections at this moment, including those being opened; `i05_lifetime`: the age of servers; `i05_uses`: how often they are given; `i05_classes`: rates and concurrent transactions, at PostgreSQL too |
//! | I6 no wait while a server is idle | `i06_idle` |
//! | I7 order | `i07_order` within a worker, `i07_strangers` between workers |
//! | I8 errors with a reason, and in time | in the model clients; and `i08_last_words`, `i08_deadlines`, `i08_idle_transactions`, `i08_removed` |
//! | I9 state | in `book`: at every statement, the state of the server that runs it and the twin's; and `client/news`: notifications reach their listeners |
//! | I10 memory | `i10_memory`; and the door counts the memory of its logins in its own check |
//! | I12 capacity | `i12_capacity`; `i12_copies`: a COPY whose client is gone; `i12_minimum`: min_pool_size; `i12_statistics`: counts of forgotten pools |
//! | I13 shares | `i13_shares`, in worlds made for it |
//! | I14 classes | `i14_classes`, in worlds made for it; there I6 too, as PostgreSQL sees it |
//! | I15 sizes | `i15_sizes`; whether they are the best ones, in worlds made for it |
//! | I16 orders | in `world/orders` and `world/hosts` |
//! | I17 hosts | `i17_hosts`: the workers' copies |
//! | I19 roles | `i19_roles`: what comes to a standby |
//! | I20 fence | `i20_fence`: what is sent, and which servers are open |
//! | I21 calm | `i21_calm`: each decision about a primary |
//! | I22 held | `i22_held`: who waits, while no host can be used and when one can |
//! | I23 silent | `i23_silent`: servers at a frozen host, and those that are closed as theirs does not answer |
//! | I24 once, I27 honest | in `book` and `client/outcomes`: what servers have committed, and what the client was told |
//! | I26 lost blocks | in `client/answers`: nothing of a block whose server is lost is executed |

pub(crate) mod i01_one_link;
pub(crate) mod i04_cancels;
pub(crate) mod i05_classes;
pub(crate) mod i05_lifetime;
pub(crate) mod i05_limits;
pub(crate) mod i05_uses;
pub(crate) mod i06_idle;
pub(crate) mod i07_order;
pub(crate) mod i07_strangers;
pub(crate) mod i08_deadlines;
pub(crate) mod i08_idle_transactions;
pub(crate) mod i08_last_words;
pub(crate) mod i08_removed;
pub(crate) mod i10_memory;
pub(crate) mod i12_capacity;
pub(crate) mod i12_copies;
pub(crate) mod i12_minimum;
pub(crate) mod i12_statistics;
pub(crate) mod i13_shares;
pub(crate) mod i14_classes;
pub(crate) mod i15_sizes;
pub(crate) mod i17_hosts;
pub(crate) mod i19_roles;
pub(crate) mod i20_fence;
pub(crate) mod i21_calm;
pub(crate) mod i22_held;
pub(crate) mod i23_silent;
mod world_view;

use std::sync::Arc;

use machine::snapshot::ClientSnapshot;
use machine::{Look, Place, Settings, Snapshot};
use units::Time;

use crate::census::CheckCounts;
use crate::course::Finding;
use crate::machines::Machinery;
use crate::plan::Plan;
use crate::process::Process;
pub(crate) use world_view::WorldView;

/// Settings that were replaced, and when.
#[derive(Debug)]
struct Replaced {
    at: u64,
    settings: Arc<Settings>,
}

/// The state that checks keep between two runs.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    pub(crate) limits: i05_limits::Counts,
    pub(crate) seen: i05_classes::SeenByPostgres,
    uses: i05_uses::Uses,
    beside: i06_idle::Beside,
    order: i07_order::Queues,
    pub(crate) strangers: i07_strangers::Strangers,
    shares: i13_shares::Shares,
    pub(crate) contested: i14_classes::Contested,
    sizes: i15_sizes::Sizes,
    minimum: i12_minimum::Minimum,
    statistics: i12_statistics::Statistics,
    pub(crate) hosts: i17_hosts::Late,
    /// Settings that were in force before, in the order in which they were replaced.
    replaced: Vec<Replaced>,
    /// How much was checked.
    counts: CheckCounts,
}

impl Checks {
    pub(crate) fn counts(&self) -> &CheckCounts {
        &self.counts
    }

    /// A reload or an order changes the settings; `before`: the ones that are replaced.
    pub(crate) fn note_reload(&mut self, now: u64, before: Arc<Settings>) {
        self.replaced.push(Replaced { at: now, settings: before });
    }

    /// A server's startup packet has come: the connection counts for its pool and its user.
    pub(crate) fn started(&mut self, plan: &Plan, process: &Process, opened_at: u64) -> Result<(), Finding> {
        self.limits.started(plan, &self.replaced, process, opened_at)
    }

    /// A server has had a message, perhaps a client's.
    pub(crate) fn note_run(
        &mut self,
        view: &WorldView<'_>,
        process: &Process,
        begins: bool,
        application: Option<u8>,
    ) -> Result<(), Finding> {
        if let Some(met) = self.seen.note_run(view, process, begins, application)? {
            self.counts.limits_met += u64::from(met);
        }
        Ok(())
    }

    /// After a round: the machine's own check, and now and then the checks of all its state.
    pub(crate) fn after_round(&mut self, view: &WorldView<'_>, node: u16) -> Result<(), Finding> {
        let entry = view.machines.node(node);
        let due = entry.rounds.is_multiple_of(view.plan.extent.look_every);
        let checked = match &entry.machinery {
            Machinery::Worker(worker) if due => worker.check(),
            Machinery::Coordinator(coordinator) => coordinator.check(),
            Machinery::Door(door) if due => door.check(),
            Machinery::Worker(_) | Machinery::Door(_) => Ok(()),
        };
        if let Err(violation) = checked {
            let place = entry.place;
            let waiting = entry
                .worker()
                .map(|worker| waiting(&worker.snapshot(Time(view.now), Look::Connections)))
                .unwrap_or_default();
            return Err((violation.invariant, format!("{place:?}: {}{waiting}", violation.what)));
        }
        if matches!(entry.machinery, Machinery::Coordinator(_)) {
            self.beside.note_full(view);
            self.minimum.check(view)?;
            return self.sizes.check(view, &mut self.counts);
        }
        let Some(snapshot) =
            entry.worker().filter(|_| due).map(|worker| worker.snapshot(Time(view.now), Look::Connections))
        else {
            return Ok(());
        };
        match entry.place {
            Place::Worker(id) => self.look_at(view, id.0, &snapshot),
            Place::Door(_) | Place::Coordinator => Ok(()),
        }
    }

    fn look_at(&mut self, view: &WorldView<'_>, worker: u16, snapshot: &Snapshot) -> Result<(), Finding> {
        i01_one_link::check(snapshot)?;
        if view.plan.is_limited() {
            // With limits, a waiting session may wait for something other than a server.
            i05_classes::check(view)?;
        } else if view.plan.promises.replicas == 0 {
            // Who replicates waits for leave to open a server, not for one of those there are.
            self.beside.check(view, worker, snapshot)?;
            self.order.check(worker, snapshot)?;
            self.strangers.check(view, worker, snapshot)?;
        }
        i05_lifetime::check(view, worker, snapshot)?;
        self.uses.check(view, worker, snapshot)?;
        i08_deadlines::check(view, snapshot)?;
        i08_idle_transactions::check(view)?;
        i08_removed::check(view, self.replaced.last().map(|replaced| replaced.at), snapshot)?;
        i10_memory::check(view, worker, snapshot)?;
        i12_copies::check(view, worker, snapshot)?;
        self.hosts.check(view, worker, &mut self.counts)?;
        i22_held::check(view, snapshot, &self.beside)?;
        self.statistics.check(view, worker, snapshot)?;
        self.shares.check(view, worker, snapshot, &mut self.counts)?;
        let awaits_side_effects = self.beside.any_pool_reads_side_effects(view);
        self.contested.check(view, awaits_side_effects, &mut self.counts)?;
        let missed = snapshot.rotations.missed;
        if missed > 0 {
            return Err((6, format!("worker {worker}: chaos_rotate missed {missed} times")));
        }
        self.counts.rotated = self.counts.rotated.max(snapshot.rotations.rotated);
        self.counts.waits += snapshot.pools.iter().map(|pool| u64::from(pool.clients.waiting)).sum::<u64>();
        Ok(())
    }
}

/// The waiting sessions, for the report.
fn waiting(snapshot: &Snapshot) -> String {
    let waiting = |client: &ClientSnapshot| {
        client.times.waiting_since.map(|since| format!("{:?} for {:?} since {}", client.conn, client.key, since.0))
    };
    let found: Vec<String> = snapshot.clients.iter().filter_map(waiting).take(8).collect();
    if found.is_empty() { String::new() } else { format!("; waiting: {}", found.join(", ")) }
}
