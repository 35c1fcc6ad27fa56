//! Where an upgrade is, and what a process that leaves has asked the other one for.

use std::collections::{BTreeMap, VecDeque};

use machine::mail::Application;
use queueing::limiting::Limit;
use units::{PoolId, Time, WorkerId};

/// Where an upgrade is.
#[derive(Debug, Default)]
pub(crate) struct Upgrade {
    /// Another process takes our place.
    pub(super) leaving: Option<Box<Leaving>>,
    /// We take the place of another process, which still has something.
    pub(super) succeeds: bool,
    /// When it is looked whether servers are divided between the two as they should be.
    pub(super) balance_at: Option<Time>,
}

impl Upgrade {
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }
}

/// What a process that leaves has asked the other one for.
#[derive(Debug, Default)]
pub(crate) struct Leaving {
    pub(super) servers: BTreeMap<PoolId, VecDeque<WorkerId>>,
    pub(super) allowances: BTreeMap<Limit, VecDeque<(WorkerId, u32)>>,
    pub(super) applications: BTreeMap<u64, Application>,
    pub(super) last_ticket: u64,
    /// `upgrade_timeout` is over.
    pub(super) is_late: bool,
}
