//! The invariants, one file each. Cheap ones are checked wherever something happens that could break them, those that
//! must look at everything after a worker's rounds.
//!
//! | invariant | where the world sees it |
//! |---|---|
//! | I1 one link | `i01_one_link`: snapshots; and no action may name a connection that is not there |
//! | I2, I11 answers | in the model clients, against their twins |
//! | I3 clean servers | in the model PostgreSQL: whose transaction, batch, session a statement comes into |
//! | I4 cancels | `i04_cancels`: whom a cancel strikes |
//! | I5 limits | `i05_limits`: connections that exist at this moment, opening ones too; `i05_lifetime`: how old a server gets; `i05_classes`: rates, and what runs at a time, at PostgreSQL too |
//! | I6 nobody waits beside an idle server | `i06_idle` |
//! | I7 order | `i07_order` within a worker, `i07_strangers` between workers |
//! | I8 told why, and in time | in the model clients; and `i08_last_words`, `i08_deadlines`, `i08_idle_transactions`, `i08_removed` |
//! | I9 state | in `book`: at every statement, the state of the server that runs it and the twin's; and `client/news`: what others say reaches who listens |
//! | I10 memory | `i10_memory`; and the door weighs what its logins keep, in full |
//! | I12 capacity | `i12_capacity`; `i12_copies`: a COPY whose client is gone; `i12_minimum`: min_pool_size |
//! | I13 shares | `i13_shares`, in worlds made for it |
//! | I14 classes | `i14_classes`, in worlds made for it; there I6 too, as PostgreSQL sees it |
//! | I15 sizes | `i15_sizes`; whether they are the best ones, in worlds made for it |

pub mod i01_one_link;
pub mod i04_cancels;
pub mod i05_classes;
pub mod i05_lifetime;
pub mod i05_limits;
pub mod i06_idle;
pub mod i07_order;
pub mod i07_strangers;
pub mod i08_deadlines;
pub mod i08_idle_transactions;
pub mod i08_last_words;
pub mod i08_removed;
pub mod i10_memory;
pub mod i12_capacity;
pub mod i12_copies;
pub mod i12_minimum;
pub mod i13_shares;
pub mod i14_classes;
pub mod i15_sizes;

use pooling::snapshot::ClientSnapshot;
use pooling::{Place, Snapshot};
use units::Time;

use crate::rounds::Machinery;
use crate::world::World;

/// What the checks remember between two looks.
#[derive(Debug, Default)]
pub struct Checks {
    pub(crate) limits: i05_limits::Counts,
    pub(crate) seen: i05_classes::Seen,
    pub(crate) beside: i06_idle::Beside,
    pub(crate) order: i07_order::Queues,
    pub(crate) strangers: i07_strangers::Strangers,
    pub(crate) shares: i13_shares::Shares,
    pub(crate) contested: i14_classes::Contested,
    pub(crate) sizes: i15_sizes::Sizes,
    pub(crate) minimum: i12_minimum::Minimum,
    /// When settings changed, each time.
    pub(crate) reloaded_at: Vec<u64>,
}

impl World {
    /// After a round: the machine's own check, and now and then a look at everything it has.
    pub(crate) fn checks_after_round(&mut self, node: u16) {
        let entry = &self.nodes[usize::from(node)];
        let due = entry.rounds.is_multiple_of(self.plan.extent.look_every);
        let checked = match &entry.machinery {
            Machinery::Worker(worker) if due => worker.check(),
            Machinery::Coordinator(coordinator) => coordinator.check(),
            Machinery::Door(door) if due => door.check(),
            Machinery::Worker(_) | Machinery::Door(_) => Ok(()),
        };
        if let Err(violation) = checked {
            let place = entry.place;
            let waiting =
                entry.worker().map(|worker| waiting(&worker.snapshot(Time(self.now), true))).unwrap_or_default();
            return self.fail(violation.invariant, format!("{place:?}: {}{waiting}", violation.what));
        }
        if matches!(entry.machinery, Machinery::Coordinator(_)) {
            i06_idle::note_full(self);
            i12_minimum::check(self);
            return i15_sizes::check(self);
        }
        if !due || self.failure.is_some() {
            return;
        }
        let Place::Worker(id) = entry.place else { return };
        let Some(snapshot) = entry.worker().map(|worker| worker.snapshot(Time(self.now), true)) else { return };
        self.look_at(id.0, &snapshot);
    }

    fn look_at(&mut self, worker: u16, snapshot: &Snapshot) {
        i01_one_link::check(self, snapshot);
        if self.plan.is_limited() {
            // Who waits may wait for something else than a server.
            i05_classes::check(self);
        } else {
            i06_idle::check(self, worker, snapshot);
            i07_order::check(self, worker, snapshot);
            i07_strangers::check(self, worker, snapshot);
        }
        i05_lifetime::check(self, worker, snapshot);
        i08_deadlines::check(self, snapshot);
        i08_idle_transactions::check(self);
        i08_removed::check(self, snapshot);
        i10_memory::check(self, worker, snapshot);
        i12_copies::check(self, worker, snapshot);
        i13_shares::check(self, worker, snapshot);
        i14_classes::check(self);
        let missed = snapshot.rotations.missed;
        if missed > 0 {
            self.fail(6, format!("worker {worker}: chaos_rotate missed {missed} times"));
        }
        self.census.rotated = self.census.rotated.max(snapshot.rotations.rotated);
        self.census.waits += snapshot.pools.iter().map(|pool| u64::from(pool.cl_waiting)).sum::<u64>();
    }
}

/// Who waits, for the report.
fn waiting(snapshot: &Snapshot) -> String {
    let waiting = |client: &ClientSnapshot| {
        client.waiting_since.map(|since| format!("{:?} for {:?} since {}", client.conn, client.key, since.0))
    };
    let found: Vec<String> = snapshot.clients.iter().filter_map(waiting).take(8).collect();
    if found.is_empty() { String::new() } else { format!("; waiting: {}", found.join(", ")) }
}
