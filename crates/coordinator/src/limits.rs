//! Limits over all workers: a rate source for each rate, permits for each concurrency limit, and the queue of logins.
//!
//! Promises: what workers were given is counted here until it comes back. A limit that a worker knows and this does not (a reload
//! has come here and not yet there) holds nobody up. Tables are bounded: a class has four limits, permits of a statement are kept
//! only while they are used, and the queue of logins is as long as may be let in before the first of them would be ended for
//! waiting too long, and has [`limits::LOGIN_LINE_MAX`] places at most.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ::settings::Over;
use machine::Settings;
use machine::action::Actions;
use machine::mail::{Applicant, Application, Refusal, ToWorker};
use machine::snapshot::LimitCounts;
use queueing::classes::{Class, LimitKind, Rate};
use queueing::limiting::bucket::Bucket;
use queueing::limiting::permit_source::PermitSource;
use queueing::limiting::rate_source::RateSource;
use queueing::limiting::{Allowance, Limit, TICK, permit_source};
use units::{Holder, ProcessId, Time, WorkerId, limits};

use crate::applicants::{refuse, stays_in};
use crate::holders::post_allowances;

/// How often what came of logins is reported.
const TELL: Duration = Duration::from_millis(100);

/// All limits of the process.
#[derive(Debug)]
pub(crate) struct Limits {
    workers: u16,
    /// Other processes that these limits hold for, too.
    members: u16,
    rate_sources: BTreeMap<Limit, RateSource>,
    permits: BTreeMap<Limit, PermitSource>,
    /// By class.
    logins: BTreeMap<Arc<str>, Logins>,
    /// When what came of logins is to be reported, and was last.
    report_at: Option<Time>,
    reported_at: Time,
}

/// Clients of one class that are about to log in.
#[derive(Debug)]
struct Logins {
    bucket: Bucket,
    over: Over,
    waiting: LoginQueue,
    served_at: Option<Time>,
    /// Since the class has a limit.
    delayed: u64,
    rejected: u64,
}

/// Applicants in order of arrival, which may leave from any place.
#[derive(Debug, Default)]
struct LoginQueue {
    by_ticket: BTreeMap<u64, Application>,
    tickets: BTreeMap<Applicant, u64>,
    next_ticket: u64,
}

impl LoginQueue {
    fn len(&self) -> usize {
        self.by_ticket.len()
    }

    fn is_empty(&self) -> bool {
        self.by_ticket.is_empty()
    }

    fn join(&mut self, application: Application) {
        self.tickets.insert(application.applicant, self.next_ticket);
        self.by_ticket.insert(self.next_ticket, application);
        self.next_ticket += 1;
        debug_assert_eq!(self.tickets.len(), self.by_ticket.len(), "everybody has one place");
    }

    fn first(&mut self) -> Option<Application> {
        let (_, application) = self.by_ticket.pop_first()?;
        self.tickets.remove(&application.applicant);
        Some(application)
    }

    /// Whether it was there.
    fn leave(&mut self, applicant: Applicant) -> bool {
        let ticket = self.tickets.remove(&applicant);
        ticket.and_then(|ticket| self.by_ticket.remove(&ticket)).is_some()
    }

    /// All that stay in another process leave.
    fn drop_of(&mut self, process: ProcessId) {
        self.tickets.retain(|applicant, _| !stays_in(*applicant, process));
        self.by_ticket.retain(|_, application| !stays_in(application.applicant, process));
    }
}

impl Logins {
    fn next_at(&self) -> Option<Time> {
        let paced = self.served_at.map_or(Time::ZERO, |at| at + TICK);
        (!self.waiting.is_empty()).then(|| self.bucket.next_at().max(paced))
    }

    /// How long a client that comes now would wait: all that wait come first.
    fn expected_wait(&self, now: Time) -> Duration {
        let ahead = self.waiting.len() as u64 * 1_000_000 / u64::from(self.bucket.rate().per_second);
        Duration::from_micros(self.bucket.next_at().micros_since(now) + ahead)
    }

    /// A client that comes now would be ended before its turn, or there are too many.
    fn is_full(&self, now: Time, timeout: Option<Duration>) -> bool {
        self.waiting.len() >= limits::LOGIN_LINE_MAX
            || timeout.is_some_and(|timeout| self.expected_wait(now) >= timeout)
    }

    fn refusal(&self, now: Time) -> Refusal {
        let retry_ms = self.expected_wait(now).as_micros().div_ceil(1000).max(1);
        let retry_ms = u32::try_from(retry_ms).unwrap_or(u32::MAX);
        Refusal::LoginRate { limit: self.bucket.rate().per_second, retry_ms }
    }
}

/// What a holder has requested of a limit and not got.
pub(crate) type Pending = (Limit, Holder, u32);

impl Limits {
    pub(crate) fn new(settings: &Settings, workers: u16) -> Limits {
        let mut limits = Limits {
            workers,
            members: 0,
            rate_sources: BTreeMap::new(),
            permits: BTreeMap::new(),
            logins: BTreeMap::new(),
            report_at: None,
            reported_at: Time::ZERO,
        };
        limits.read(Time::ZERO, settings);
        limits
    }

    /// Other settings hold from now on.
    pub(crate) fn configure(&mut self, now: Time, settings: &Settings, actions: &mut Actions) {
        for (limit, changes) in self.read(now, settings) {
            post_changes(&limit, changes, actions);
        }
    }

    /// Returns the permits that are to be called back, and those that were granted.
    fn read(&mut self, now: Time, settings: &Settings) -> Vec<(Limit, permit_source::PermitChanges)> {
        let (mut all_changes, holders) = (Vec::new(), self.holders());
        let classes = &settings.classes.all;
        self.rate_sources.retain(|limit, rate_source| {
            let kept = classes.iter().any(|class| rate_of(class, limit).is_some());
            if !kept {
                all_changes.push((
                    limit.clone(),
                    permit_source::PermitChanges { allowances: rate_source.lift(), calls: Vec::new() },
                ));
            }
            kept
        });
        let is_limited = |name: &str| classes.iter().any(|class| *class.name == *name && class.limits.logins.is_some());
        // Clients that wait are let in by the next look: it may have room for all.
        self.logins.retain(|name, logins| is_limited(name) || !logins.waiting.is_empty());
        for class in classes {
            let over = class.limits.over;
            for kind in [LimitKind::Transactions, LimitKind::Queries] {
                let limit = Limit::Class(Arc::clone(&class.name), kind);
                let Some(rate) = rate_of(class, &limit) else { continue };
                let rate_source =
                    self.rate_sources.entry(limit).or_insert_with(|| RateSource::new(rate, over, holders, now));
                rate_source.configure(rate, over, now);
            }
            if let Some(rate) = class.limits.logins {
                let logins = self.logins.entry(Arc::clone(&class.name)).or_insert_with(|| Logins {
                    bucket: Bucket::new(rate, now),
                    over,
                    waiting: LoginQueue::default(),
                    served_at: None,
                    delayed: 0,
                    rejected: 0,
                });
                logins.bucket.configure(rate, now);
                logins.over = over;
            }
        }
        for (_, logins) in self.logins.iter_mut().filter(|(name, _)| !is_limited(name)) {
            logins.bucket.configure(Rate { per_second: u32::MAX, burst: u32::MAX }, now);
        }
        for class in classes.iter().filter(|class| class.limits.active.is_some()) {
            let limit = Limit::Class(Arc::clone(&class.name), LimitKind::Active);
            self.permits.entry(limit).or_insert_with(|| PermitSource::new(u32::MAX, Over::Delay, self.workers));
        }
        for (limit, permits) in &mut self.permits {
            let changes = match active_of(settings, limit) {
                Some((active, over)) => permits.configure(active, over),
                None => permits.lift(),
            };
            all_changes.push((limit.clone(), changes));
        }
        self.permits.retain(|_, permits| !(permits.is_lifted() && permits.is_unused()));
        all_changes
    }

    /// How many share what a rate gives ahead: one process may join at any time.
    fn holders(&self) -> u16 {
        self.workers + self.members.max(1)
    }

    /// So many other processes are held to these limits from now on.
    pub(crate) fn set_members(&mut self, members: u16) {
        self.members = members;
        let holders = self.holders();
        self.rate_sources.values_mut().for_each(|rate_source| rate_source.set_holders(holders));
    }

    /// Another process takes our place: the permits that are out, and what workers have requested and not got.
    pub(crate) fn hand_over(&mut self) -> (Vec<(Limit, u32)>, Vec<Pending>) {
        let out =
            self.permits.iter().map(|(limit, permits)| (limit.clone(), permits.out())).filter(|(_, out)| *out > 0);
        let out = out.collect();
        let mut pending = Vec::new();
        for (limit, permits) in &mut self.permits {
            pending.extend(permits.take_requests().map(|(holder, count)| (limit.clone(), holder, count)));
        }
        for (limit, rate_source) in &mut self.rate_sources {
            let requests = rate_source.take_requests();
            pending.extend(requests.map(|(holder, count)| (limit.clone(), holder, count)));
        }
        (out, pending)
    }

    /// Clients that wait for a limit of logins.
    pub(crate) fn take_applications(&mut self) -> Vec<Application> {
        let all = self.logins.values_mut();
        all.flat_map(|logins| std::iter::from_fn(|| logins.waiting.first()).collect::<Vec<_>>()).collect()
    }

    /// When the next that waits may go on.
    pub(crate) fn next_at(&self) -> Option<Time> {
        let rate_sources = self.rate_sources.values().filter_map(RateSource::next_serve);
        rate_sources.chain(self.logins.values().filter_map(Logins::next_at)).chain(self.report_at).min()
    }

    /// What there is left of a limit, for everybody; `None`: there is no such limit here.
    pub(crate) fn remaining(&self, limit: &Limit) -> Option<u32> {
        match limit {
            Limit::Class(name, LimitKind::Logins) => self.logins.get(name).map(|logins| logins.bucket.tokens()),
            _ => {
                let rate_source = self.rate_sources.get(limit).map(RateSource::remaining);
                rate_source
                    .or_else(|| self.permits.get(limit).map(|permits| permits.limit().saturating_sub(permits.out())))
            }
        }
    }

    /// Permits that nobody has limited (a worker knows settings that have not come here, or the other way round) are counted too:
    /// they may be limited before they come back.
    fn source_of(&mut self, limit: &Limit, settings: &Settings) -> Option<&mut PermitSource> {
        let counts = matches!(limit, Limit::Class(_, LimitKind::Active) | Limit::Statement(_));
        if counts && !self.permits.contains_key(limit) {
            let (active, over) = active_of(settings, limit).unwrap_or((u32::MAX, Over::Delay));
            self.permits.insert(limit.clone(), PermitSource::new(active, over, self.workers));
        }
        self.permits.get_mut(limit)
    }

    /// A holder requests `count` more.
    pub(crate) fn requested(
        &mut self,
        now: Time,
        settings: &Settings,
        limit: &Limit,
        (holder, count): (Holder, u32),
        actions: &mut Actions,
    ) {
        if let Some(rate_source) = self.rate_sources.get_mut(limit) {
            let answers = rate_source.request(now, holder, count);
            return post_allowances(limit, answers, actions);
        }
        if let Some(permits) = self.source_of(limit, settings) {
            let changes = permits.request(holder, count);
            return post_changes(limit, changes, actions);
        }
        let free = Allowance { holder, granted: count, answered: count, remaining: u32::MAX, next_at: None };
        post_allowances(limit, vec![free], actions);
    }

    /// A holder has got `count` that were not requested here: another process has granted them.
    pub(crate) fn note_given(&mut self, now: Time, settings: &Settings, limit: &Limit, (holder, count): (Holder, u32)) {
        if let Some(rate_source) = self.rate_sources.get_mut(limit) {
            rate_source.note_given(now, count);
        } else if let Some(permits) = self.source_of(limit, settings).filter(|_| count > 0) {
            permits.note_given(holder, count);
        }
    }

    /// A holder gives some back; of those it was called for, `missing` it has no more.
    pub(crate) fn unspent(
        &mut self,
        now: Time,
        limit: &Limit,
        holder: Holder,
        (count, missing): (u32, u32),
        actions: &mut Actions,
    ) {
        if let Some(rate_source) = self.rate_sources.get_mut(limit) {
            let answers = rate_source.unspent(now, count);
            return post_allowances(limit, answers, actions);
        }
        // Of a limit that a reload has taken away meanwhile nothing is counted.
        let Some(permits) = self.permits.get_mut(limit) else { return };
        let changes = permits.returned(holder, count, missing);
        if permits.is_unused() && (permits.is_lifted() || matches!(limit, Limit::Statement(_))) {
            self.permits.remove(limit);
        }
        post_changes(limit, changes, actions);
    }

    /// A client is authenticated: it is returned if it gets a home now. Else it gets one once its class may, or an error.
    pub(crate) fn login_requested(
        &mut self,
        now: Time,
        settings: &Settings,
        application: Application,
        actions: &mut Actions,
    ) -> Option<Application> {
        let name = &settings.classes.class(application.class).name;
        let Some(logins) = self.logins.get_mut(name).filter(|_| !application.console) else {
            return Some(application);
        };
        self.report_at.get_or_insert(self.reported_at + TELL);
        logins.bucket.refill(now, !logins.waiting.is_empty());
        if logins.waiting.is_empty() && logins.bucket.take(1) == 1 {
            return Some(application);
        }
        if logins.over == Over::Reject || logins.is_full(now, settings.global.waiting.client_login_timeout) {
            logins.rejected += 1;
            refuse(application.applicant, logins.refusal(now), actions);
            return None;
        }
        logins.delayed += 1;
        logins.waiting.join(application);
        None
    }

    /// The permits that a holder has.
    pub(crate) fn permits_of(&self, holder: Holder) -> Vec<(Limit, u32)> {
        let all = self.permits.iter().map(|(limit, permits)| (limit.clone(), permits.of(holder)));
        all.filter(|(_, count)| *count > 0).collect()
    }

    /// A holder is gone: the permits that it had are free, and it requests nothing. Tokens of a rate that it had are spent.
    pub(crate) fn holder_lost(&mut self, holder: Holder, actions: &mut Actions) {
        self.rate_sources.values_mut().for_each(|rate_source| rate_source.holder_lost(holder));
        for (limit, permits) in &mut self.permits {
            post_changes(limit, permits.holder_lost(holder), actions);
        }
        self.permits.retain(|limit, permits| {
            !(permits.is_unused() && (permits.is_lifted() || matches!(limit, Limit::Statement(_))))
        });
    }

    /// An applicant has gone. It may have been answered meanwhile.
    pub(crate) fn login_withdrawn(&mut self, applicant: Applicant) {
        if self.logins.values_mut().any(|logins| logins.waiting.leave(applicant)) {
            self.report_at.get_or_insert(self.reported_at + TELL);
        }
    }

    /// Another process is gone, and with it all who log in there.
    pub(crate) fn drop_applications_of(&mut self, process: ProcessId) {
        self.logins.values_mut().for_each(|logins| logins.waiting.drop_of(process));
        if !self.logins.is_empty() {
            self.report_at.get_or_insert(self.reported_at + TELL);
        }
    }

    /// Time has passed: waiting clients may go on. Returns those that get a home now.
    pub(crate) fn serve(&mut self, now: Time, actions: &mut Actions) -> Vec<Application> {
        let due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        for (limit, rate_source) in
            self.rate_sources.iter_mut().filter(|(_, rate_source)| due(rate_source.next_serve()))
        {
            post_allowances(limit, rate_source.serve(now), actions);
        }
        let mut admitted = Vec::new();
        for logins in self.logins.values_mut().filter(|logins| due(logins.next_at())) {
            logins.bucket.refill(now, true);
            logins.served_at = Some(now);
            let count = logins.bucket.take(u32::try_from(logins.waiting.len()).unwrap_or(u32::MAX));
            admitted.extend((0..count).map_while(|_| logins.waiting.first()));
            self.report_at.get_or_insert(self.reported_at + TELL);
        }
        admitted
    }

    /// The first worker gets what came of logins, where they are limited, ten times a second at most.
    pub(crate) fn report_logins(&mut self, now: Time, actions: &mut Actions) {
        let due = self.report_at.is_some_and(|at| at <= now);
        if !due {
            return;
        }
        (self.report_at, self.reported_at) = (None, now);
        let counts = self.logins.iter().map(|(name, logins)| LimitCounts {
            class: Arc::clone(name),
            kind: LimitKind::Logins,
            left: Some((logins.bucket.tokens(), now)),
            unused: 0,
            waiting: u32::try_from(logins.waiting.len()).unwrap_or(u32::MAX),
            active: 0,
            passed: 0,
            delayed: logins.delayed,
            rejected: logins.rejected,
        });
        actions.post_to_worker(WorkerId(0), ToWorker::LoginsCounted(counts.collect()));
    }
}

fn active_of(settings: &Settings, limit: &Limit) -> Option<(u32, Over)> {
    match limit {
        Limit::Class(name, _) => {
            let class = settings.classes.all.iter().find(|class| class.name == *name)?;
            class.limits.active.map(|active| (active, class.limits.over))
        }
        Limit::Statement(fingerprint) => {
            let active = settings.global.classes.statement_limit(*fingerprint)?;
            Some((active, settings.global.classes.fingerprint_over))
        }
    }
}

fn rate_of(class: &Class, limit: &Limit) -> Option<Rate> {
    match limit {
        Limit::Class(name, LimitKind::Transactions) if *name == class.name => class.limits.transactions,
        Limit::Class(name, LimitKind::Queries) if *name == class.name => class.limits.queries,
        _ => None,
    }
}

fn post_changes(limit: &Limit, changes: permit_source::PermitChanges, actions: &mut Actions) {
    for call in changes.calls {
        actions.post_to_worker(call.worker, ToWorker::CallBack(Box::new((limit.clone(), call))));
    }
    post_allowances(limit, changes.allowances, actions);
}
