//! The server that listens for all sessions of its pool: how it becomes one, what it tells, and how it ends.

use std::sync::Arc;

use connections::server::{Answerer, Expect, Server, State as ServerState};
use link::checking::CLEAR;
use link::session::State;
use machine::Turn;
use machine::sabotage::{Fault, does};
use session_state::parameters::Tracked;
use session_state::state::{Ears, Overflow, Wait};
use units::{ConnId, PoolId};
use wire::backend::{Notification, Status};
use wire::frontend::Query;
use wire::{backend, sqlstate};

use crate::Worker;

const LOST: &str = "the connection that listened for this session was lost";

impl Worker {
    /// A session wants something of its pool's listener.
    pub(super) fn attend(&mut self, turn: &mut Turn<'_>, id: PoolId) {
        let Some(pool) = self.pool(id) else { return };
        let Some(listener) = &pool.listener else { return };
        match listener.server {
            Some(server) => self.ask_listener(turn, server),
            None if !listener.is_wanted() => {}
            None => match self.take_idle(turn, id, None) {
                Some(server) => self.become_listener(turn, server),
                None => self.agenda.feed(id),
            },
        }
    }

    /// An idle server listens from now on.
    pub(super) fn become_listener(&mut self, turn: &mut Turn<'_>, server_id: ConnId) {
        self.turn_server(turn, server_id, ServerState::Listening);
        let Some(server) = self.servers.get_mut(server_id) else { return };
        assert!(server.is_clean() && server.cancel.under_way == 0, "I3: only a clean server listens");
        let Some(pool) = self.pools.get_mut(server.pool) else { return };
        pool.listener.get_or_insert_default().server = Some(server_id);
        let is_base =
            pool.welcome.base.as_ref().is_some_and(|base| Arc::ptr_eq(&base.parameters, &server.kept.parameters));
        server.work.used = true;
        if !is_base || server.kept.session_state.is_some() {
            self.ask(turn, server_id, CLEAR);
        }
        self.ask_listener(turn, server_id);
    }

    fn ask(&mut self, turn: &mut Turn<'_>, server_id: ConnId, text: &[u8]) {
        let Some(server) = self.servers.get_mut(server_id) else { return };
        server.ledger.sent(Answerer::Chore, Expect::Query);
        server.statements.unnamed = session_state::unnamed::NONE;
        server.transaction.query_at = turn.now;
        turn.actions.send_new(server_id, |out| Query { text }.encode(out));
    }

    /// The next round, if none is under way.
    fn ask_listener(&mut self, turn: &mut Turn<'_>, server_id: ConnId) {
        let Some(server) = self.servers.get(server_id).filter(|server| server.ledger.is_clear()) else { return };
        let id = server.pool;
        let Some(listener) = self.pool_mut(id).and_then(|pool| pool.listener.as_mut()) else { return };
        let mut text = Vec::new();
        if listener.next_round(&mut text) {
            self.ask(turn, server_id, &text);
        } else if listener.is_unused()
            && let Some(server) = self.servers.get_mut(server_id)
        {
            server.work.since = turn.now;
        }
        self.arm_server(server_id);
    }

    /// The listener has answered something.
    pub(super) fn listener_progress(&mut self, turn: &mut Turn<'_>, server_id: ConnId, error: Option<String>) {
        let Some(server) = self.servers.get(server_id) else { return };
        if let Some(words) = error {
            self.break_server(turn, server_id, &format!("listen failed: {words}"));
            return;
        }
        if !server.ledger.is_clear() {
            return;
        }
        let id = server.pool;
        let Some(listener) = self.pool_mut(id).and_then(|pool| pool.listener.as_mut()) else { return };
        for conn in listener.answered() {
            self.attended(turn, conn);
        }
        self.ask_listener(turn, server_id);
    }

    /// A session has what it waited for.
    fn attended(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let Some(tracker) = &mut session.tracker else { return };
        match tracker.notifications.wait() {
            Wait::ToSend { .. } => tracker.notifications.ears_mut().wait = Wait::MaySend,
            Wait::ToBeReady => self.tell_ready(turn, conn),
            Wait::Nothing | Wait::MaySend => return,
        }
        self.go_on(turn, conn);
    }

    pub(super) fn tell_ready(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let Some(tracker) = &mut session.tracker else { return };
        tracker.notifications.ears_mut().wait = Wait::Nothing;
        let unread = tracker.take_unread();
        turn.actions.send_new(conn, |out| {
            out.extend_from_slice(&unread);
            backend::encode_ready(out, Status::Idle);
        });
    }

    /// The client's messages go on.
    fn go_on(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let Some(session) = self.sessions.get(conn) else { return };
        let Some(server_id) = session.server() else {
            // It left its server while it waited, so that one was free to listen.
            self.agenda.reconsider(conn);
            return;
        };
        self.settle_channels(turn, server_id, conn);
        if let Some(server) = self.servers.get_mut(server_id) {
            server.gate.is_shut = false;
            self.requests_from_inbox(turn, conn);
            self.balance_if_paused(turn, conn);
        }
    }

    /// A transaction is over. `withheld`: its ReadyForQuery is. Returns whether the session is, too.
    pub(super) fn heard_end(&mut self, turn: &mut Turn<'_>, server_id: ConnId, conn: ConnId, withheld: bool) -> bool {
        if !withheld {
            self.settle_channels(turn, server_id, conn);
            return false;
        }
        let Some(session) = self.sessions.get(conn) else { return true };
        if let Some(why) = session.tracker.as_ref().and_then(|tracker| tracker.missed().map(str::to_owned)) {
            self.refuse_session(turn, conn, sqlstate::ADMIN_SHUTDOWN, &why);
            return true;
        }
        let id = session.pool;
        let Some(pool) = self.pool_mut(id) else { return false };
        pool.listener.get_or_insert_default().wait(conn);
        self.attend(turn, id);
        false
    }

    /// The listener was not to be had in time: the session listens on its own server.
    pub(super) fn listen_alone(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let Some(tracker) = session.tracker.as_mut() else { return };
        if !matches!(tracker.notifications.wait(), Wait::ToSend { .. }) {
            return;
        }
        let channels = tracker.channels().clone();
        let ears = tracker.notifications.ears_mut();
        (ears.alone, ears.wait) = (true, Wait::MaySend);
        let gone = ears.settle(&channels, &channels);
        let Some(pool) = self.pools.get_mut(session.pool) else { return };
        if let Some(listener) = &mut pool.listener {
            listener.wait_no_more(conn);
            gone.iter().for_each(|name| listener.leave(name, conn));
        }
        self.go_on(turn, conn);
    }

    /// Outside of a transaction: the listener need not listen any more to what the session does not.
    pub(super) fn settle_channels(&mut self, turn: &mut Turn<'_>, server_id: ConnId, conn: ConnId) {
        let calm = self.servers.get(server_id).is_some_and(|server| server.transaction.status == Status::Idle);
        let Some(session) = self.sessions.get_mut(conn).filter(|_| calm) else { return };
        let id = session.pool;
        let Some(tracker) = session.tracker.as_mut().filter(|tracker| tracker.notifications.ears().is_some()) else {
            return;
        };
        let gone = tracker.settle_channels();
        self.leave_channels(turn, id, conn, &gone);
    }

    pub(super) fn leave_channels(&mut self, turn: &mut Turn<'_>, id: PoolId, conn: ConnId, names: &[Box<[u8]>]) {
        let for_all = does(&self.settings, Fault::UnlistenForAll);
        let Some(listener) = self.pool_mut(id).and_then(|pool| pool.listener.as_mut()) else { return };
        if !names.is_empty() {
            for name in names.iter().filter(|_| for_all) {
                let others: Vec<ConnId> = listener.audience(name).collect();
                others.into_iter().for_each(|other| listener.leave(name, other));
            }
            names.iter().for_each(|name| listener.leave(name, conn));
            self.attend(turn, id);
        }
    }

    /// A session ends.
    pub(super) fn listens_no_more(&mut self, turn: &mut Turn<'_>, id: PoolId, conn: ConnId, names: &[Box<[u8]>]) {
        if let Some(listener) = self.pool_mut(id).and_then(|pool| pool.listener.as_mut()) {
            listener.wait_no_more(conn);
            self.leave_channels(turn, id, conn, names);
        }
    }

    /// What a pool's listener has heard, for everybody who listens.
    pub(super) fn notify_all(&mut self, turn: &mut Turn<'_>, server_id: ConnId, heard: Vec<Vec<u8>>) {
        for body in heard {
            let Some(server) = self.servers.get(server_id) else { return };
            let Ok(said) = Notification::decode(&body) else { continue };
            let encoding = server.kept.parameters.get(Tracked::CLIENT_ENCODING).map(<[u8]>::to_vec);
            let id = server.pool;
            let pid = self.view().known_pid(id, said.pid);
            let mut message = Vec::new();
            Notification { pid, ..said }.encode(&mut message);
            let listener = self.pool(id).and_then(|pool| pool.listener.as_ref());
            let audience: Vec<ConnId> = listener.into_iter().flat_map(|found| found.audience(said.channel)).collect();
            for conn in audience {
                self.notify(turn, conn, &said, &message, encoding.as_deref());
            }
        }
    }

    fn notify(
        &mut self,
        turn: &mut Turn<'_>,
        conn: ConnId,
        said: &Notification<'_>,
        message: &[u8],
        encoding: Option<&[u8]>,
    ) {
        const UNREADABLE: &str = "a notification is not in the session's client_encoding";
        const TOO_MANY: &str = "too many notifications that the client has not read";
        let withheld = does(&self.settings, Fault::WithholdNews);
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let readable = said.payload.is_ascii() && said.channel.is_ascii()
            || session.parameters.get(Tracked::CLIENT_ENCODING) == encoding;
        let Some(tracker) = &mut session.tracker else { return };
        match tracker.hear(said.channel, message) {
            Ok(true) if withheld => {}
            Ok(true) if readable => self.tell_unread(turn, conn),
            Ok(true) => self.refuse_session(turn, conn, sqlstate::UNTRANSLATABLE_CHARACTER, UNREADABLE),
            Ok(false) => {}
            Err(Overflow) => self.refuse_session(turn, conn, sqlstate::PROGRAM_LIMIT_EXCEEDED, TOO_MANY),
        }
    }

    /// Tells a client what was said, if this is a moment for it: between transactions, and it has read all else.
    pub(super) fn tell_unread(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let has_news =
            session.tracker.as_ref().and_then(|tracker| tracker.notifications.ears()).is_some_and(Ears::has_news);
        if !has_news {
            return;
        }
        let between = match session.state {
            State::Idle { .. } | State::Waiting { .. } => true,
            State::Linked { server } => self.servers.get(server).is_some_and(Server::is_clean),
            State::Welcoming { .. } | State::Console { .. } | State::Leaving { .. } => false,
        };
        let Some(tracker) = session.tracker.as_mut().filter(|tracker| tracker.notifications.wait() != Wait::ToBeReady)
        else {
            return;
        };
        if let Some(why) = tracker.missed().filter(|_| between).map(str::to_owned) {
            self.refuse_session(turn, conn, sqlstate::ADMIN_SHUTDOWN, &why);
        } else if between && session.flow.is_clear() {
            let unread = tracker.take_unread();
            turn.actions.send_new(conn, |out| out.extend_from_slice(&unread));
        }
    }

    /// The listener's connection is gone. Who listened has missed something, and is told so where it would have been told that:
    /// not within a transaction, whose answers it may be reading. Who was only about to listen goes on by itself.
    pub(super) fn listener_lost(&mut self, turn: &mut Turn<'_>, id: PoolId, why: &str) {
        let Some(listener) = self.pool_mut(id).and_then(|pool| pool.listener.take()) else { return };
        for conn in listener.everybody() {
            let Some(session) = self.sessions.get_mut(conn) else { continue };
            let Some(tracker) = &mut session.tracker else { continue };
            let server = match session.state {
                State::Linked { server } => self.servers.get(server),
                _ => None,
            };
            let text = format!("{LOST}: {why}");
            let waits = matches!(tracker.notifications.wait(), Wait::ToSend { .. });
            if tracker.is_deaf() && waits {
                self.listen_alone(turn, conn);
            } else if tracker.notifications.wait() != Wait::ToBeReady && server.is_some_and(|server| !server.is_clean())
            {
                tracker.notifications.ears_mut().missed = Some(text.into());
                // What waits for the listener goes on without one.
                if waits {
                    self.listen_alone(turn, conn);
                }
            } else {
                self.refuse_session(turn, conn, sqlstate::ADMIN_SHUTDOWN, &text);
            }
        }
    }
}
