//! Where an upgrade is, and what a process that leaves has asked the other one for.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use machine::Settings;
use machine::action::Actions;
use machine::mail::{Applicant, Application};
use machine::processes::{ToGranter, ToProcess};
use queueing::limiting::Limit;
use units::{Holder, PoolId, ProcessId, Time};

/// How often it is looked whether one of the two processes has more of a pool than its part while the other one waits.
const BALANCE: Duration = Duration::from_millis(50);

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

    /// A client that logs in while we leave: the other process says whether it may.
    pub(super) fn apply(&mut self, application: Application, settings: &Settings, actions: &mut Actions) {
        let Some(leaving) = &mut self.leaving else { return };
        leaving.last_ticket += 1;
        let ticket = leaving.last_ticket;
        let Application { key, user, console, exempt, class, peer, .. } = application.clone();
        leaving.applications.insert(ticket, application);
        let class = Arc::clone(&settings.classes.class(class).name);
        let apply = ToGranter::Apply { ticket, key, user, console, exempt, class, peer };
        actions.post_to_process(ProcessId::Successor, ToProcess::ToGranter(apply));
    }

    /// A client that has applied has left.
    pub(super) fn withdraw(&mut self, applicant: Applicant, actions: &mut Actions) {
        let Some(leaving) = &mut self.leaving else { return };
        let mut all = leaving.applications.iter();
        let Some((&ticket, _)) = all.find(|(_, application)| application.applicant == applicant) else { return };
        leaving.applications.remove(&ticket);
        actions.post_to_process(ProcessId::Successor, ToProcess::ToGranter(ToGranter::Withdrawn { ticket }));
    }

    /// Whose application is answered. `None`: it has been withdrawn.
    pub(super) fn take_application(&mut self, ticket: u64) -> Option<Application> {
        self.leaving.as_mut()?.applications.remove(&ticket)
    }

    /// A holder requests permits of a limit while we leave.
    pub(super) fn request_allowance(&mut self, limit: Limit, holder: Holder, count: u32, actions: &mut Actions) {
        let Some(leaving) = &mut self.leaving else { return };
        leaving.allowances.entry(limit.clone()).or_default().push_back((holder, count));
        actions
            .post_to_process(ProcessId::Successor, ToProcess::ToGranter(ToGranter::RequestAllowance { limit, count }));
    }

    /// When it is looked again whether servers are divided between the two processes as they should be.
    pub(crate) fn balance_at(&self) -> Option<Time> {
        self.balance_at
    }

    /// A request was not granted: that is looked at soon.
    pub(crate) fn balance_soon(&mut self, now: Time) {
        if self.succeeds && self.balance_at.is_none() {
            self.balance_at = Some(now + BALANCE);
        }
    }
}

/// What a process that leaves has asked the other one for.
#[derive(Debug, Default)]
pub(crate) struct Leaving {
    pub(super) servers: BTreeMap<PoolId, VecDeque<Holder>>,
    pub(super) allowances: BTreeMap<Limit, VecDeque<(Holder, u32)>>,
    pub(super) applications: BTreeMap<u64, Application>,
    pub(super) last_ticket: u64,
    /// `upgrade_timeout` is over.
    pub(super) is_late: bool,
}
