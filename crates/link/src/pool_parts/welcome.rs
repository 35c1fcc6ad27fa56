//! The parameters that sessions are sent at the end of their login: those that a pool's servers begin with.

use std::num::NonZeroU32;
use std::sync::Arc;

use connections::databases::Database;
use session_state::login_report::LoginReport;
use session_state::parameter_set::ParameterSet;
use session_state::spelling::Learnt;
use session_state::state::Base;
use units::{ConnId, Time};

/// The parameters that sessions are sent at the end of their login.
#[derive(Debug, Default)]
pub struct Welcome {
    /// Sessions that wait until the pool's parameters are known.
    pub(crate) waiting: Vec<(ConnId, Time)>,
    pub(crate) report: Option<Arc<LoginReport>>,
    /// That of the edition before.
    pub(crate) last: Option<Arc<LoginReport>>,
    /// The order and the entry that the reporting server was opened by: the count of RECONNECTs, and the database.
    pub(crate) reported_by: Option<(u32, Arc<Database>)>,
    /// The base of the last new server. Most servers have the same.
    base: Arc<Base>,
    /// Parameters whose values PostgreSQL's configuration has changed since the servers of the newest order and entry have logged in: each of these
    /// servers has the new value by RESET.
    pub(crate) configured: ParameterSet,
    /// Its servers are being replaced, or are gone: new clients wait for the first new server for a second, unless its login fails.
    pub(crate) is_stale: bool,
    /// How servers report the settings that clients begin with.
    pub(crate) learnt: Learnt,
}

impl Welcome {
    /// Whether a client can be sent the login report now. `fails`: no server can log in at the moment.
    pub fn is_known(&self, fails: bool) -> bool {
        self.report.is_some() && (!self.is_stale || fails)
    }

    /// The edition of the report, if there is one.
    #[inline]
    pub(crate) fn edition(&self) -> Option<NonZeroU32> {
        self.report.as_ref().map(|report| report.edition)
    }

    /// The login report, if one is known.
    #[inline]
    pub fn report(&self) -> Option<&Arc<LoginReport>> {
        self.report.as_ref()
    }

    /// The order and the entry that the reporting server was opened by.
    pub fn reported_by(&self) -> Option<&(u32, Arc<Database>)> {
        self.reported_by.as_ref()
    }

    /// Whether new clients wait for the first new server.
    pub fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// PostgreSQL's configuration may have changed, or the servers are being replaced: new clients wait for the first new server.
    pub fn become_stale(&mut self) {
        self.is_stale = true;
    }

    /// The database may be gone: the next login asks PostgreSQL.
    pub fn forget_report(&mut self) {
        self.report = None;
    }

    /// The values that sessions from another process know are the pool's report until a server logs in.
    ///
    /// # Panics
    /// In debug builds, if there is a report.
    pub fn begin_with(&mut self, report: LoginReport) {
        debug_assert!(self.report.is_none(), "a report of this pool's own servers is newer");
        self.report = Some(Arc::new(report));
    }

    /// Takes the report of another worker.
    pub fn take_shared(&mut self, report: LoginReport, is_news: bool, reported_by: Option<&(u32, Arc<Database>)>) {
        self.take(report, is_news);
        self.reported_by = reported_by.cloned();
    }

    /// Takes the report that a lent server has brought along. `is_current`: the server is not to be replaced.
    pub fn take_along(&mut self, is_current: bool, report: impl FnOnce() -> LoginReport) {
        let is_first = self.report.is_none();
        if is_first || self.is_stale && is_current {
            let is_stale = self.is_stale && !is_current;
            self.take(report(), !is_first);
            self.is_stale = is_stale;
        }
    }

    /// How servers report the settings that clients begin with.
    pub fn learnt(&self) -> &Learnt {
        &self.learnt
    }

    /// The sessions that wait for the report.
    pub fn waiting(&self) -> impl ExactSizeIterator<Item = ConnId> {
        self.waiting.iter().map(|(session, _)| *session)
    }

    /// A session begins to wait for the report.
    pub fn wait(&mut self, session: ConnId, now: Time) {
        self.waiting.push((session, now));
    }

    /// A session waits no longer, because it ends or has waited for long enough.
    pub fn stop_waiting(&mut self, session: ConnId) {
        self.waiting.retain(|(waiting, _)| *waiting != session);
    }

    /// The report is known: nobody waits for it any longer.
    pub fn take_waiting(&mut self) -> impl Iterator<Item = ConnId> + use<> {
        std::mem::take(&mut self.waiting).into_iter().map(|(session, _)| session)
    }

    /// One copy of equal bases.
    pub(crate) fn shared(&mut self, base: Base) -> Arc<Base> {
        if *self.base != base {
            self.base = Arc::new(base);
        }
        Arc::clone(&self.base)
    }

    /// A server has logged in with this report. `is_alone`: the pool has no other server on this worker.
    pub(crate) fn learn(&mut self, report: LoginReport, (reconnects, database): (u32, &Arc<Database>), is_alone: bool) {
        let is_newer = |(before, entry): &(u32, Arc<Database>)| *before < reconnects || **entry != **database;
        let is_news = is_alone || self.reported_by.as_ref().is_some_and(is_newer);
        if is_news {
            self.configured = ParameterSet::NONE;
        }
        self.take(report, is_news);
        self.reported_by = Some((reconnects, Arc::clone(database)));
    }

    /// Takes a new login report. `is_news`: sessions that were told other values follow it.
    pub fn take(&mut self, mut report: LoginReport, is_news: bool) {
        if let Some(last) = &self.report {
            report.edition = last.edition;
            if is_news && !last.is_same(&report) {
                report.edition = last.edition.saturating_add(1);
                self.last = Some(Arc::clone(last));
            }
        }
        self.report = Some(Arc::new(report));
        self.is_stale = false;
    }
}
