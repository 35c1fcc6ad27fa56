//! Lists of what is still to be done in this step, and at the end of the round, so that nothing recurses.

use link::end_reason::EndReason;
use link::ending::Ending;
use link::permits::Permits;
use link::pool::Pool;
use units::deadline::Owner;
use units::{ConnId, PoolId, Time};
use wire::SqlState;

use crate::tables::followups::{Departure, Fatal, Followup, RequestError, SessionEnd};
use crate::tables::limiters::Before;
use crate::tables::stages::{InOrder, Stage};

/// The next thing to do in a step.
#[derive(Debug)]
pub(crate) enum Next {
    /// Sessions have left the limits. This comes before everything else: no session is let in that has left.
    LeaveLimits,
    /// A followup comes before everything but that.
    Followup(Followup),
    /// A timer may have to be set.
    Arm(Arm),
    /// The event of this step has another stage.
    Stage(Stage),
    /// A server is free: find work for it.
    Place(ConnId),
    /// A session may go on: it has more messages, or its wait is over.
    Reconsider(ConnId),
    /// Sessions may wait in a pool that could have another server.
    Feed(PoolId),
}

/// A timer that may have to be set.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Arm {
    /// For the next deadline that its state has, if there is one.
    Next(Owner),
    /// For this time at the latest.
    By(PoolId, Time),
}

/// The lists of one worker.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    /// One of the next four lists may not be empty: a query needs none of them.
    is_urgent: bool,
    left_limits: Vec<Departure>,
    followups: InOrder<Followup>,
    timers: InOrder<Arm>,
    stages: InOrder<Stage>,
    free_servers: Vec<ConnId>,
    sessions: Vec<ConnId>,
    pools_to_feed: Vec<PoolId>,
    leaving: Vec<ConnId>,
    answered: Vec<ConnId>,
    unpublished: Vec<PoolId>,
}

impl Agenda {
    /// A session ends.
    pub(crate) fn end(&mut self, session: ConnId, end: SessionEnd) {
        self.follow(Followup::End(session, Box::new(end)));
    }

    /// A session ends, and its client gets a FATAL error.
    pub(crate) fn refuse(&mut self, session: ConnId, why: impl Into<EndReason>) {
        let why = why.into();
        let code = why.code();
        self.refuse_with(session, code, why);
    }

    /// Like [`Agenda::refuse`], where the SQLSTATE is not the usual one.
    pub(crate) fn refuse_with(&mut self, session: ConnId, code: SqlState, why: impl Into<EndReason>) {
        self.refuse_in_detail(session, code, why.into(), None);
    }

    /// Like [`Agenda::refuse_with`], with a DETAIL.
    pub(crate) fn refuse_in_detail(&mut self, session: ConnId, code: SqlState, why: EndReason, detail: Option<String>) {
        self.end(session, SessionEnd::Refused(Fatal { why, code, detail, hint: None }));
    }

    /// Like [`Agenda::refuse`], with all fields of this error for its request, but as FATAL.
    pub(crate) fn refuse_as(&mut self, session: ConnId, error: &RequestError) {
        self.end(session, SessionEnd::Refused(Fatal::of(error)));
    }

    /// A session ends because of what its client has sent.
    pub(crate) fn end_by_request(&mut self, session: ConnId, ending: Ending) {
        match ending {
            Ending::Terminate => self.end(session, SessionEnd::Left(EndReason::ClientClosed)),
            Ending::Refuse(why) => self.refuse(session, why),
        }
    }

    /// A transaction is over.
    pub(crate) fn release(&mut self, permits: Option<Box<Permits>>) {
        if let Some(permits) = permits {
            self.follow(Followup::Release(permits));
        }
    }

    /// A session has left the limits: before anything else, they forget it.
    pub(crate) fn leave_limits(&mut self, departure: Departure) {
        self.is_urgent = true;
        self.left_limits.push(departure);
    }

    /// A session has left the queue of this limit: before everything that was noted so far, the next may be let in.
    pub(crate) fn admit(&mut self, before: Before) {
        self.is_urgent = true;
        self.followups.push_first(Followup::Admit(before));
    }

    /// One session fewer is pinned in this pool.
    pub(crate) fn admit_to_pin(&mut self, pool: PoolId) {
        self.follow(Followup::AdmitToPin(pool));
    }

    /// A linked session's messages wait no longer.
    pub(crate) fn go_on(&mut self, session: ConnId) {
        self.follow(Followup::GoOn(session));
    }

    /// The state of a connection or a pool has changed: its timer is set for its next deadline, once all followups are done.
    pub(crate) fn arm(&mut self, owner: Owner) {
        self.is_urgent = true;
        self.timers.push(Arm::Next(owner));
    }

    /// A pool is looked at no later than `at`.
    pub(crate) fn arm_by(&mut self, pool: PoolId, at: Time) {
        self.is_urgent = true;
        self.timers.push(Arm::By(pool, at));
    }

    /// The event is not dealt with yet: this stage comes once all followups are done.
    pub(crate) fn then(&mut self, stage: Stage) {
        self.is_urgent = true;
        self.stages.push(stage);
    }

    pub(crate) fn follow(&mut self, followup: Followup) {
        self.is_urgent = true;
        self.followups.push(followup);
    }

    #[cfg(test)]
    pub(crate) fn next_followup(&mut self) -> Option<Followup> {
        self.followups.next()
    }

    #[cfg(test)]
    pub(crate) fn next_timer(&mut self) -> Option<Arm> {
        self.timers.next()
    }

    pub(crate) fn place(&mut self, server: ConnId) {
        self.free_servers.push(server);
    }

    pub(crate) fn reconsider(&mut self, session: ConnId) {
        self.sessions.push(session);
    }

    pub(crate) fn feed(&mut self, pool: PoolId) {
        self.pools_to_feed.push(pool);
    }

    /// What is to be done next in this step: followups and timers first, then the event's next stage,
    /// then servers, sessions and pools, the newest of each first.
    #[inline]
    pub(crate) fn next(&mut self) -> Option<Next> {
        if self.is_urgent
            && let Some(next) = self.next_urgent()
        {
            return Some(next);
        }
        if let Some(server) = self.free_servers.pop() {
            return Some(Next::Place(server));
        }
        if let Some(session) = self.sessions.pop() {
            return Some(Next::Reconsider(session));
        }
        self.pools_to_feed.pop().map(Next::Feed)
    }

    #[inline(never)]
    fn next_urgent(&mut self) -> Option<Next> {
        if !self.left_limits.is_empty() {
            return Some(Next::LeaveLimits);
        }
        if let Some(followup) = self.followups.next() {
            return Some(Next::Followup(followup));
        }
        if let Some(timer) = self.timers.next() {
            return Some(Next::Arm(timer));
        }
        let stage = self.stages.next();
        self.is_urgent = stage.is_some();
        stage.map(Next::Stage)
    }

    /// The next of the sessions that have left the limits.
    pub(crate) fn next_departure(&mut self) -> Option<Departure> {
        self.left_limits.pop()
    }

    /// Whether a step has left nothing to be done.
    pub(crate) fn is_empty(&self) -> bool {
        self.left_limits.is_empty()
            && self.followups.is_empty()
            && self.timers.is_empty()
            && self.stages.is_empty()
            && self.free_servers.is_empty()
            && self.sessions.is_empty()
            && self.pools_to_feed.is_empty()
    }

    /// At the end of the round: closes a session whose last message has been sent, if the socket has taken it by then.
    pub(crate) fn close(&mut self, session: ConnId) {
        self.leaving.push(session);
    }

    pub(crate) fn next_to_close(&mut self) -> Option<ConnId> {
        self.leaving.pop()
    }

    /// At the end of the round: a console session was answered, and is read again if it has taken the answer.
    pub(crate) fn go_on_at_console(&mut self, session: ConnId) {
        self.answered.push(session);
    }

    pub(crate) fn next_at_console(&mut self) -> Option<ConnId> {
        self.answered.pop()
    }

    /// At the end of the round: a pool's cell on the board may have changed.
    pub(crate) fn publish(&mut self, pool: PoolId) {
        self.unpublished.push(pool);
    }

    /// Like [`Agenda::publish`], but only if the pool has several homes: no worker reads the other cells.
    pub(crate) fn publish_shared(&mut self, pool: &Pool) {
        if pool.exchange().is_shared() {
            self.publish(pool.id());
        }
    }

    /// The list of those pools, to which a pool can add itself.
    pub(crate) fn unpublished(&mut self) -> &mut Vec<PoolId> {
        &mut self.unpublished
    }

    /// Those pools, each once. [`Agenda::published`] takes the emptied list back.
    pub(crate) fn take_unpublished(&mut self) -> Vec<PoolId> {
        let mut pools = std::mem::take(&mut self.unpublished);
        pools.sort_unstable();
        pools.dedup();
        pools
    }

    pub(crate) fn published(&mut self, mut pools: Vec<PoolId>) {
        debug_assert!(self.unpublished.is_empty(), "publishing changes no cell");
        pools.clear();
        self.unpublished = pools;
    }

    /// Whether there is something to do at the end of the round.
    pub(crate) fn awaits_round_end(&self) -> bool {
        !(self.unpublished.is_empty() && self.leaving.is_empty() && self.answered.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use units::Kind;

    use super::*;

    #[test]
    fn servers_come_before_sessions_and_these_before_pools() {
        let conn = |slot| ConnId::new(Kind::Client, 0, slot, 0);
        let mut agenda = Agenda::default();
        agenda.feed(PoolId(1));
        agenda.reconsider(conn(1));
        agenda.place(conn(2));
        agenda.reconsider(conn(3));
        agenda.admit_to_pin(PoolId(2));
        let order: Vec<_> = std::iter::from_fn(|| agenda.next()).collect();
        assert!(
            matches!(
                order[..],
                [Next::Followup(_), Next::Place(a), Next::Reconsider(b), Next::Reconsider(c), Next::Feed(PoolId(1))]
                    if [a, b, c] == [conn(2), conn(3), conn(1)]
            ),
            "{order:?}"
        );
        assert!(agenda.is_empty());
    }

    #[test]
    fn a_stage_waits_for_followups_and_timers_and_no_server_is_placed_before_it() {
        let conn = |slot| ConnId::new(Kind::Client, 0, slot, 0);
        let mut agenda = Agenda::default();
        agenda.place(conn(1));
        agenda.then(Stage::Deadlines);
        agenda.then(Stage::EndRound);
        agenda.arm(Owner::Conn(conn(2)));
        agenda.arm_by(PoolId(3), Time(4));
        agenda.admit_to_pin(PoolId(5));
        agenda.leave_limits(Departure { session: conn(6), ticket: None, outcome: None });
        assert!(matches!(agenda.next(), Some(Next::LeaveLimits)) && agenda.next_departure().is_some());
        let mut next = || agenda.next();
        assert!(matches!(next(), Some(Next::Followup(Followup::AdmitToPin(PoolId(5))))));
        assert!(matches!(next(), Some(Next::Arm(Arm::Next(_)))));
        assert!(matches!(next(), Some(Next::Arm(Arm::By(PoolId(3), Time(4))))));
        assert!(matches!(next(), Some(Next::Stage(Stage::Deadlines))));
        agenda.admit_to_pin(PoolId(7));
        agenda.then(Stage::Stop);
        let mut next = || agenda.next();
        assert!(matches!(next(), Some(Next::Followup(_))));
        assert!(matches!(next(), Some(Next::Stage(Stage::Stop))), "what a stage adds comes before the stage after it");
        assert!(matches!(next(), Some(Next::Stage(Stage::EndRound))));
        assert!(matches!(next(), Some(Next::Place(_))));
        assert!(agenda.is_empty());
    }

    #[test]
    fn a_pool_is_published_once_a_round() {
        let mut agenda = Agenda::default();
        for pool in [3, 1, 3] {
            agenda.publish(PoolId(pool));
        }
        assert!(agenda.awaits_round_end());
        let pools = agenda.take_unpublished();
        assert_eq!(pools, [PoolId(1), PoolId(3)]);
        agenda.published(pools);
        assert!(!agenda.awaits_round_end());
    }
}
