//! The other processes that are known here, and what was asked of the one that grants.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use machine::Settings;
use machine::action::Actions;
use machine::mail::{Applicant, Application};
use machine::processes::{ToGranter, ToProcess};
use queueing::limiting::Limit;
use units::{Holder, PoolId, ProcessId, Time};

use crate::applicants::stays_in;

/// How often it is looked whether a process has more of a pool than its part while another one waits.
const BALANCE: Duration = Duration::from_millis(50);

/// The other processes.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    /// The process that grants for this one.
    pub(super) granter: Option<Box<Granter>>,
    /// The processes that this one grants for.
    members: BTreeSet<ProcessId>,
    /// When it is looked whether servers are divided among them as they should be.
    pub(super) balance_at: Option<Time>,
}

impl Processes {
    pub(crate) fn has_granter(&self) -> bool {
        self.granter.is_some()
    }

    pub(super) fn has_member(&self, process: ProcessId) -> bool {
        self.members.contains(&process)
    }

    /// Whether a holder may have anything: the workers, and the members.
    pub(crate) fn knows(&self, holder: Holder) -> bool {
        holder.process().is_none_or(|process| self.has_member(process))
    }

    /// How many members there are.
    pub(super) fn count(&self) -> u16 {
        u16::try_from(self.members.len()).unwrap_or(u16::MAX)
    }

    pub(super) fn members(&self) -> impl Iterator<Item = ProcessId> + use<> {
        self.members.clone().into_iter()
    }

    pub(super) fn joins(&mut self, member: ProcessId) {
        let is_new = self.members.insert(member);
        debug_assert!(is_new, "a process joins once, and again after it has left");
    }

    /// Whether it was a member.
    pub(super) fn leaves(&mut self, member: ProcessId) -> bool {
        self.members.remove(&member)
    }

    /// Tells the process that grants, if there is one.
    pub(crate) fn tell_granter(&self, said: ToGranter, actions: &mut Actions) {
        if let Some(granter) = &self.granter {
            granter.tell(said, actions);
        }
    }

    /// When it is looked again whether servers are divided among the processes as they should be.
    pub(crate) fn balance_at(&self) -> Option<Time> {
        self.balance_at
    }

    /// A request was not granted: that is looked at soon.
    pub(crate) fn balance_soon(&mut self, now: Time) {
        if !self.members.is_empty() && self.balance_at.is_none() {
            self.balance_at = Some(now + BALANCE);
        }
    }
}

/// The process that grants for this one, and what it was asked for.
#[derive(Debug)]
pub(crate) struct Granter {
    pub(super) process: ProcessId,
    pub(super) servers: BTreeMap<PoolId, VecDeque<Holder>>,
    pub(super) allowances: BTreeMap<Limit, VecDeque<(Holder, u32)>>,
    applications: BTreeMap<u64, Application>,
    last_ticket: u64,
    /// In an online upgrade: `upgrade_timeout` is over.
    pub(super) is_late: bool,
}

impl Granter {
    pub(super) fn new(process: ProcessId) -> Granter {
        Granter {
            process,
            servers: BTreeMap::new(),
            allowances: BTreeMap::new(),
            applications: BTreeMap::new(),
            last_ticket: 0,
            is_late: false,
        }
    }

    pub(super) fn tell(&self, said: ToGranter, actions: &mut Actions) {
        actions.post_to_process(self.process, ToProcess::ToGranter(said));
    }

    /// A client logs in: the granter decides whether it may.
    pub(super) fn apply(&mut self, application: Application, settings: &Settings, actions: &mut Actions) {
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        let Application { key, user, console, exempt, class, peer, .. } = application.clone();
        self.applications.insert(ticket, application);
        let class = Arc::clone(&settings.classes.class(class).name);
        self.tell(ToGranter::Apply { ticket, key, user, console, exempt, class, peer }, actions);
    }

    /// A client that has applied has left.
    pub(super) fn withdraw(&mut self, applicant: Applicant, actions: &mut Actions) {
        let mut all = self.applications.iter();
        let Some((&ticket, _)) = all.find(|(_, application)| application.applicant == applicant) else { return };
        self.applications.remove(&ticket);
        self.tell(ToGranter::Withdrawn { ticket }, actions);
    }

    /// Whose application is answered. `None`: it has been withdrawn.
    pub(super) fn take_application(&mut self, ticket: u64) -> Option<Application> {
        self.applications.remove(&ticket)
    }

    pub(super) fn into_applications(self) -> impl Iterator<Item = Application> {
        self.applications.into_values()
    }

    /// A holder requests a server in the pool of this name.
    pub(super) fn request_server(&mut self, pool: PoolId, holder: Holder, request: ToGranter, actions: &mut Actions) {
        self.servers.entry(pool).or_default().push_back(holder);
        self.tell(request, actions);
    }

    /// How many servers are requested in a pool.
    pub(super) fn requested(&self, pool: PoolId) -> u32 {
        self.servers.get(&pool).map_or(0, |holders| holders.len() as u32)
    }

    /// A holder requests an allowance of a limit.
    pub(super) fn request_allowance(&mut self, limit: Limit, holder: Holder, count: u32, actions: &mut Actions) {
        self.allowances.entry(limit.clone()).or_default().push_back((holder, count));
        self.tell(ToGranter::RequestAllowance { limit, count }, actions);
    }

    /// A member of ours has left: nothing that is granted is for it any more. If a client is let in for it all the same, its departure is counted at once.
    pub(super) fn forget_requests_of(&mut self, member: ProcessId) {
        let holder = Holder::Process(member);
        self.applications.retain(|_, application| !stays_in(application.applicant, member));
        self.servers.values_mut().for_each(|holders| holders.retain(|one| *one != holder));
        self.allowances.values_mut().for_each(|asked| asked.retain(|(one, _)| *one != holder));
    }
}
