//! Servers are asked what the names of their database hide: one that is idle, when nobody waits.
//!
//! Promises: no client waits for it as long as another server may be opened, but a pool's very first ones, who wait for
//! [`units::limits::FIRST_NAMES`] at most; and no pool stands still because it fails.

use connections::server::{Chore, State};
use machine::Turn;
use machine::observe::{Level, Topic};
use session_state::catalogue;
use session_state::catalogue::{Next, Question};
use units::{ConnId, PoolId};

use crate::Worker;

impl Worker {
    /// An idle server that nobody waits for, or for which somebody waits though it is high time to ask.
    pub(super) fn ask_for_names(&mut self, turn: &mut Turn<'_>, server_id: ConnId) {
        let Some(server) = self.servers.get(server_id) else { return };
        let Some(pool) = self.pools.get_mut(server.pool) else { return };
        if self.stopping.has_begun() || !pool.names.known.wants(turn.now, pool.servers.idle.len() > 1) {
            return;
        }
        let chore = if pool.names.known.is_awaited() { Chore::First } else { Chore::Poll };
        let counts = pool.welcome.base.as_ref().is_some_and(|base| base.counts_changes);
        let question = match pool.names.known.begin(server_id, counts, turn.now) {
            Question::Glance => catalogue::GLANCE,
            Question::Poll => catalogue::POLL,
        };
        self.ask_server(turn, server_id, chore, question);
    }

    /// As [`Worker::ask_for_names`], if it is high time: a pool whose servers are never idle is asked, too. Whether it is.
    pub(super) fn must_ask_for_names(&mut self, turn: &mut Turn<'_>, id: PoolId, server_id: ConnId) -> bool {
        let is_overdue = self.pool(id).is_some_and(|pool| pool.names.known.is_overdue(turn.now));
        if is_overdue {
            self.ask_for_names(turn, server_id);
        }
        is_overdue && self.pool(id).is_some_and(|pool| pool.names.known.is_asking())
    }

    /// Whether the pool's servers are for nobody yet: what its database's names hide is to be known first. An idle one is asked.
    pub(super) fn must_learn(&mut self, turn: &mut Turn<'_>, id: PoolId, idle: ConnId) -> bool {
        let Some(pool) = self.pool(id).filter(|pool| pool.names.known.is_awaited()) else { return false };
        if self.stopping.has_begun() {
            return false;
        }
        if !pool.names.known.is_asking() {
            self.ask_for_names(turn, idle);
        }
        true
    }

    /// The answer is not waited for any longer.
    pub(super) fn names_late(&mut self, turn: &mut Turn<'_>, server_id: ConnId) {
        let Some(id) = self.servers.get(server_id).map(|server| server.pool) else { return };
        if let Some(pool) = self.pool_mut(id) {
            pool.names.known.is_late();
        }
        self.turn_server(turn, server_id, State::Busy(Chore::Catalogue));
        self.agenda.feed(id);
    }

    /// The answer has come to its end.
    pub(super) fn names_answered(&mut self, turn: &mut Turn<'_>, server_id: ConnId) {
        let Some(server) = self.servers.get(server_id) else { return };
        let Some(pool) = self.pools.get_mut(server.pool) else { return };
        let id = pool.id;
        match pool.names.known.answered(turn.now) {
            Next::Poll => return self.ask_server(turn, server_id, Chore::Poll, catalogue::POLL),
            Next::Read => {
                let chore = if pool.names.known.is_awaited() { Chore::First } else { Chore::Catalogue };
                return self.ask_server(turn, server_id, chore, catalogue::QUERY);
            }
            Next::Complain => self.tell_of_names(turn, server_id, "the server's answer is not what was expected"),
            Next::Recovered => {
                let told =
                    "the database's names can be read: what functions, triggers and views do is followed from now on";
                self.view().tell_of_server(turn, server_id, Level::Log, Topic::General, told.to_owned());
                self.spread_names(turn, id);
            }
            Next::Nothing => self.spread_names(turn, id),
        }
        self.agenda.feed(id);
        self.free(turn, server_id);
    }

    /// An error is the answer, or its end.
    pub(super) fn names_refused(&mut self, turn: &mut Turn<'_>, server_id: ConnId, words: &str) {
        let Some(server) = self.servers.get(server_id) else { return };
        let Some(pool) = self.pools.get_mut(server.pool) else { return };
        if pool.names.known.refused() {
            self.tell_of_names(turn, server_id, words);
        }
    }

    fn tell_of_names(&self, turn: &mut Turn<'_>, server_id: ConnId, why: &str) {
        let told = format!(
            "the database's names cannot be read: {why}; statements are followed by their own words only: what functions, triggers \
             and views do inside stays on the server, for whoever gets it next"
        );
        self.view().tell_of_server(turn, server_id, Level::Warning, Topic::General, told);
    }

    fn ask_server(&mut self, turn: &mut Turn<'_>, server_id: ConnId, chore: Chore, query: &str) {
        let text = [catalogue::PREFIX.as_bytes(), query.as_bytes()].concat();
        self.start_chore(turn, server_id, chore, &text);
    }
}
