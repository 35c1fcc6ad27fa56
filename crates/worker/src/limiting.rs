//! Which transactions begin now, which wait before a gate of their class or statement, and which are told that they may not.
//!
//! ```text
//!   first message ──► statement's gate ──► class's gate ──► a server, or its pool's queue ──► over: what it used is free
//!                        └ line               └ line
//! ```
//!
//! A session that keeps its server between transactions keeps its slots with it (who waited for one beside a server that others
//! wait for could wait for ever), and comes to its class's rates at each transaction. Statements after a
//! transaction's first are never held up, since others may wait for what it has locked: they are counted, and what they use is
//! missing from what may begin.

use std::sync::Arc;

use ::settings::Over;
use connections::server::State as ServerState;
use link::first_text::first_text;
use link::session::{Admission, Line, Rest, Session, State};
use machine::Turn;
use machine::action::Source;
use machine::mail::ToCoordinator;
use queueing::classes::{ClassId, Kind};
use queueing::commented::Commented;
use queueing::limiting::gate::{Gate, Passage, StatementGate, Told};
use queueing::limiting::{Allowance, CallBack, Limit, TICK};
use sql::Text;
use units::{ConnId, PoolId, Time};
use wire::backend::{ErrorResponse, ParameterStatus, Status};
use wire::frontend::tag;
use wire::{Header, backend, sqlstate};

use crate::Worker;
use crate::gates::{Before, Outcome, Wait};

/// Whether a session's messages go on.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Goes {
    On,
    /// They wait, and are to be kept.
    Later,
    /// They were refused, and are to be passed over.
    PassedOver,
}

impl Worker {
    /// As [`Worker::begin`], where something is limited.
    #[inline(never)]
    pub(super) fn begin_at_gates(&mut self, turn: &mut Turn<'_>, conn: ConnId, bytes: &[u8], source: Source) {
        let mut from = 0;
        while let Some(at) = self.needs_server(turn, conn, bytes, from) {
            match self.enter_gates(turn, conn, &bytes[at..]) {
                Goes::On => return self.acquire_for(turn, conn, bytes, source, at),
                Goes::Later => return self.stash(turn, conn, &bytes[at..]),
                Goes::PassedOver => from = at,
            }
        }
    }

    /// A transaction is to begin with these messages.
    pub(super) fn enter_gates(&mut self, turn: &mut Turn<'_>, conn: ConnId, messages: &[u8]) -> Goes {
        let Some(session) = self.sessions.get(conn) else { return Goes::On };
        let since = match session.claim.admission {
            Admission::In { .. } => return Goes::On,
            Admission::Waits { .. } => return Goes::Later,
            Admission::Halfway { since } => since,
            Admission::Not => turn.now,
        };
        if let Some(outcome) = self.gates.outcomes.remove(&conn) {
            return self.conclude(turn, conn, outcome, messages);
        }
        let (class, linked) = (session.claim.class, session.server().is_some());
        let class = if self.settings.classes.is_single() { class } else { self.classify(conn, messages).0 };
        let stated = if linked { Passage::Open } else { self.pass_statement(turn, conn, messages) };
        let passage = match stated {
            Passage::Open => self.pass_class(turn, conn, class, messages),
            passage => passage,
        };
        match passage {
            Passage::Open => {
                if let Some(session) = self.sessions.get_mut(conn) {
                    session.claim.admission = Admission::Halfway { since };
                }
                self.pass_in(turn, conn);
                Goes::On
            }
            Passage::Later => Goes::Later,
            Passage::Refused(told) => {
                self.give_up_passing(turn, conn);
                self.refuse_for_now(turn, conn, &told, messages);
                Goes::PassedOver
            }
        }
    }

    fn pass_statement(&mut self, turn: &mut Turn<'_>, conn: ConnId, messages: &[u8]) -> Passage {
        let (limits, gates) = (&self.settings.global.classes, &mut self.gates);
        // Who has a seat has begun with that statement, whatever has come behind it meanwhile.
        let has_seat = gates.seated.get(&conn).is_some_and(|seat| seat.statement.is_some());
        if has_seat || !gates.counts_statements {
            return Passage::Open;
        }
        let Some(session) = self.sessions.get(conn) else { return Passage::Open };
        let Some(text) = first_text(session, messages) else { return Passage::Open };
        let rules = self.caches.reader.rules(&session.parameters);
        let fingerprint = rules.and_then(|rules| Text::new(text, rules).fingerprint(&gates.key).ok());
        // What cannot be read is one statement, whatever it is.
        let fingerprint = fingerprint.map_or(0, |fingerprint| fingerprint.bits()[0]);
        let Some(limit) = limits.statement_limit(fingerprint) else { return Passage::Open };
        let gate = gates.statement(turn.now, fingerprint, text);
        let passage =
            if gate.line.is_empty() { gate.pass(turn.now, limit, limits.fingerprint_over) } else { Passage::Later };
        match passage {
            Passage::Open => {
                let asked_at = session.asked_at().unwrap_or(turn.now);
                gates.seat(turn.now, conn, asked_at).statement = Some(fingerprint);
            }
            Passage::Later => {
                let kind = (limits.fingerprint_over == Over::Delay).then_some(Kind::Active);
                self.wait_at(turn, conn, Before::Statement(fingerprint), kind, messages);
            }
            Passage::Refused(_) => {}
        }
        passage
    }

    fn pass_class(&mut self, turn: &mut Turn<'_>, conn: ConnId, class: ClassId, messages: &[u8]) -> Passage {
        let index = usize::from(class.0);
        let Some(gate) = self.gates.classes.get_mut(index).filter(|gate| !Gate::is_free(&gate.limits)) else {
            return Passage::Open;
        };
        let linked = self.sessions.get(conn).is_some_and(|session| session.server().is_some());
        let passage = if gate.is_next(linked) { gate.pass(turn.now, linked) } else { Passage::Later };
        match passage {
            Passage::Open if linked => {}
            Passage::Open => {
                let asked_at = self.sessions.get(conn).and_then(Session::asked_at).unwrap_or(turn.now);
                self.seat_in_class(turn.now, conn, index, asked_at);
            }
            Passage::Later => {
                let kind = gate.delays();
                self.wait_at(turn, conn, Before::Class(index), kind, messages);
            }
            Passage::Refused(_) => {}
        }
        passage
    }

    fn seat_in_class(&mut self, now: Time, conn: ConnId, index: usize, asked_at: Time) {
        let gate = &self.gates.classes[index];
        if gate.limits.active.is_some() {
            let name = Arc::clone(&gate.name);
            self.gates.seat(now, conn, asked_at).class = Some(name);
        }
    }

    fn wait_at(&mut self, turn: &mut Turn<'_>, conn: ConnId, before: Before, kind: Option<Kind>, messages: &[u8]) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let since = session.asked_at().unwrap_or(turn.now);
        let linked = session.server().is_some();
        let deadline_ms = if linked { session.deadline_ms(messages, Commented::Unread).unwrap_or_default() } else { 0 };
        let ticket = self.gates.enter_line(Wait { conn, before, linked, since, deadline_ms, entered: turn.now, kind });
        session.claim.admission = Admission::Waits { ticket };
        match session.state {
            State::Linked { server } => {
                if let Some(server) = self.servers.get_mut(server) {
                    server.gate.is_shut = true;
                }
            }
            _ => {
                // Who is to be refused waits only until it is told so.
                let notified = kind.is_none();
                session.state = State::Waiting { since, ticket, notified, line: Line::Limit, deadline_ms: 0 };
            }
        }
        self.arm_session(conn);
        self.hurry(turn, conn, messages, Commented::Unread);
        self.settle_gate(turn, before);
    }

    /// Gives back what nobody here has use for, and asks for what they want.
    fn settle_gate(&mut self, turn: &mut Turn<'_>, before: Before) {
        let now = turn.now;
        let (mut asks, mut back) = (Vec::new(), Vec::new());
        let look_at = match before {
            Before::Class(index) => {
                let Some(gate) = self.gates.classes.get_mut(index) else { return };
                back.extend(gate.unspent(now).map(|(kind, count)| (gate.limit(kind), count)));
                asks.extend(gate.asks(now).into_iter().map(|(kind, count)| (gate.limit(kind), count)));
                gate.next_at(now)
            }
            Before::Statement(fingerprint) => {
                let Some(gate) = self.gates.statements.get_mut(&fingerprint) else { return };
                let waiting = gate.waiting();
                let count = gate.seats.settled(waiting) + gate.seats.unspent(now, waiting);
                back.push((Limit::Statement(fingerprint), count));
                asks.push((Limit::Statement(fingerprint), gate.seats.ask(waiting)));
                gate.seats.next_at(waiting)
            }
        };
        self.gates.look(look_at);
        for (limit, count) in back {
            self.give_back(turn, limit, count, 0);
        }
        let worker = self.id;
        for (limit, count) in asks.into_iter().filter(|(_, count)| *count > 0) {
            let mail = ToCoordinator::Want { limit, worker, count };
            turn.actions.post_to_coordinator(mail);
        }
    }

    /// The coordinator has answered.
    pub(super) fn allowed(&mut self, turn: &mut Turn<'_>, limit: &Limit, allowance: &Allowance) {
        let before = match limit {
            Limit::Class(name, kind) => {
                let Some(index) = self.gates.classes.iter().position(|gate| gate.name == *name) else {
                    return self.give_back(turn, limit.clone(), allowance.granted, 0);
                };
                let gate = &mut self.gates.classes[index];
                match kind {
                    Kind::Active => gate.seats.allowed(turn.now, allowance),
                    Kind::Queries => gate.queries.allowed(turn.now, allowance),
                    Kind::Transactions | Kind::Logins => gate.transactions.allowed(turn.now, allowance),
                }
                Before::Class(index)
            }
            Limit::Statement(fingerprint) => {
                let Some(gate) = self.gates.statements.get_mut(fingerprint) else {
                    return self.give_back(turn, limit.clone(), allowance.granted, 0);
                };
                gate.seats.allowed(turn.now, allowance);
                Before::Statement(*fingerprint)
            }
        };
        self.open(turn, before);
    }

    /// The coordinator wants slots back.
    pub(super) fn called_back(&mut self, turn: &mut Turn<'_>, limit: &Limit, call: &CallBack) {
        let called = match limit {
            Limit::Class(name, _) => {
                let gate = self.gates.classes.iter_mut().find(|gate| gate.name == *name);
                gate.map(|gate| gate.called(call))
            }
            Limit::Statement(fingerprint) => {
                let gate = self.gates.statements.get_mut(fingerprint);
                gate.map(|gate| gate.seats.called(call, gate.waiting()))
            }
        };
        let (count, missing) = called.unwrap_or((0, call.count));
        self.give_back(turn, limit.clone(), count, missing);
    }

    fn give_back(&mut self, turn: &mut Turn<'_>, limit: Limit, count: u32, missing: u32) {
        if count > 0 || missing > 0 {
            let mail = ToCoordinator::Unspent { limit, worker: self.id, count, missing };
            turn.actions.post_to_coordinator(mail);
        }
    }

    /// Lets through who may go, tells who may not wait, and asks for the rest.
    pub(super) fn open(&mut self, turn: &mut Turn<'_>, before: Before) {
        let (mut through, mut late) = (Vec::new(), Vec::new());
        while let Some(ticket) = self.gates.next_of(before) {
            let Some(&Wait { conn, linked, since, .. }) = self.gates.waits.get(&ticket) else { break };
            if let Some(told) = self.view().late(turn.now, conn) {
                // It takes nothing, so that nobody has to be looked at for what it gives back.
                self.gates.leave_line(turn.now, ticket);
                self.gates.count_vain_wait(turn.now, before, since);
                late.push((conn, since, linked.then_some(told)));
                continue;
            }
            let passage = match before {
                Before::Class(index) => self.gates.classes[index].pass(turn.now, linked),
                Before::Statement(fingerprint) => {
                    let limits = &self.settings.global.classes;
                    let limit = limits.statement_limit(fingerprint).unwrap_or(u32::MAX);
                    let gate = self.gates.statements.get_mut(&fingerprint);
                    gate.map_or(Passage::Later, |gate| gate.pass(turn.now, limit, limits.fingerprint_over))
                }
            };
            if passage == Passage::Later {
                break;
            }
            self.gates.leave_line(turn.now, ticket);
            if let (Passage::Open, Before::Class(index), false) = (&passage, before, linked) {
                self.seat_in_class(turn.now, conn, index, since);
            }
            if let (Passage::Open, Before::Statement(fingerprint)) = (&passage, before) {
                self.gates.seat(turn.now, conn, since).statement = Some(fingerprint);
            }
            if let Some(session) = self.sessions.get_mut(conn) {
                session.claim.admission = Admission::Halfway { since };
            }
            through.push((conn, passage));
        }
        self.settle_gate(turn, before);
        for (conn, since, told) in late {
            if let Some(session) = self.sessions.get_mut(conn) {
                session.claim.admission = Admission::Halfway { since };
            }
            match told {
                Some((since, deadline_ms)) => self.settle_linked(conn, Outcome::Late { since, deadline_ms }),
                None => _ = self.is_too_late(turn, conn),
            }
        }
        // Who was first is dealt with first: the list is worked off from its end.
        for (conn, passage) in through.into_iter().rev() {
            let is_class = matches!(before, Before::Class(_));
            self.go_through(turn, conn, passage, is_class);
        }
    }

    fn go_through(&mut self, turn: &mut Turn<'_>, conn: ConnId, passage: Passage, is_class: bool) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        if session.server().is_some() {
            return match passage {
                Passage::Refused(told) => self.settle_linked(conn, Outcome::Refused(told)),
                _ if is_class => self.settle_linked(conn, Outcome::Passed),
                _ => self.agenda.reconsider(conn),
            };
        }
        if let Passage::Refused(told) = passage {
            self.give_up_passing(turn, conn);
            let Some(session) = self.sessions.get_mut(conn) else { return };
            let inbox = std::mem::take(&mut session.incoming.inbox);
            self.refuse_for_now(turn, conn, &told, &inbox);
            if let Some(session) = self.sessions.get_mut(conn) {
                session.incoming.inbox = inbox;
            }
        } else if is_class {
            self.pass_in(turn, conn);
        }
        if let Some(session) = self.sessions.get_mut(conn) {
            session.state = State::Idle { since: turn.now };
        }
        self.agenda.reconsider(conn);
    }

    /// Its transaction may begin.
    pub(super) fn pass_in(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let since = session.asked_at().unwrap_or(turn.now);
        session.claim.admission = Admission::In { since, transactions: 1, queries: 1 };
        self.report_limits(turn, conn);
    }

    /// It does not begin its transaction. What belongs to a server that it has stays with that.
    pub(super) fn give_up_passing(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        match self.sessions.get_mut(conn) {
            Some(session) if session.server().is_some() => session.claim.admission = Admission::Not,
            _ => self.leave_gates(turn, conn),
        }
    }

    /// A session has nothing to do with limits any more: its transaction is over, or it goes.
    pub(super) fn leave_gates(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let admission = std::mem::take(&mut session.claim.admission);
        self.gates.outcomes.remove(&conn);
        if let Admission::Waits { ticket } = admission
            && let Some(wait) = self.gates.leave_line(turn.now, ticket)
        {
            self.gates.count_vain_wait(turn.now, wait.before, wait.since);
            // Whoever was behind it may need less.
            self.open(turn, wait.before);
        }
        self.leave_seat(turn, conn);
    }

    /// A session goes, and its server has still to be done with its transaction: its slots are that server's until then.
    pub(super) fn pass_seat_on(&mut self, conn: ConnId, server: ConnId) {
        if self.servers.get(server).is_some_and(|server| matches!(server.state, ServerState::Linked(_)))
            && let Some(seat) = self.gates.seated.remove(&conn)
        {
            let before = self.gates.seated.insert(server, seat);
            debug_assert!(before.is_none(), "a server has the slots of one transaction");
        }
    }

    /// The transaction of a session, or that a server was left with, is over.
    pub(super) fn leave_seat(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let Some(seat) = self.gates.seated.remove(&conn) else { return };
        let lasted = turn.now.since(seat.since);
        if let Some(name) = seat.class {
            let limit = Limit::Class(Arc::clone(&name), Kind::Active);
            match self.gates.classes.iter().position(|gate| gate.name == name) {
                Some(index) => {
                    let back = self.gates.classes[index].seats.release(turn.now, lasted);
                    self.give_back(turn, limit, back, 0);
                    self.open(turn, Before::Class(index));
                }
                None => self.give_back(turn, limit, 1, 0),
            }
        }
        if let Some(fingerprint) = seat.statement {
            let gate = self.gates.statements.get_mut(&fingerprint);
            let waited = seat.linked_at.unwrap_or(turn.now).since(seat.asked_at);
            let ran = seat.linked_at.map(|linked_at| turn.now.since(linked_at));
            let back = gate.map_or(1, |gate| gate.release(turn.now, lasted, waited, ran));
            self.give_back(turn, Limit::Statement(fingerprint), back, 0);
            self.open(turn, Before::Statement(fingerprint));
        }
    }

    /// So many transactions of that server's client have ended since there were `before`.
    #[inline(never)]
    pub(super) fn count_ended(&mut self, turn: &mut Turn<'_>, client: Option<ConnId>, pool: PoolId, before: u64) {
        let Some(pool) = self.pool(pool) else { return };
        let ended = pool.counts.totals.transactions.saturating_sub(before);
        if let Some(client) = client.filter(|_| ended > 0) {
            self.count_in_gates(turn, client, u32::try_from(ended).unwrap_or(u32::MAX), 0);
        }
    }

    /// What goes on with a linked session at its server: so many statements, and transactions that ended.
    pub(super) fn count_in_gates(&mut self, turn: &mut Turn<'_>, conn: ConnId, transactions: u32, queries: u32) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let Admission::In { transactions: begun, queries: asked, .. } = &mut session.claim.admission else { return };
        let paid = |credit: &mut u8, count: u32| {
            let free = u32::from(*credit).min(count);
            *credit -= free as u8;
            count - free
        };
        let (transactions, queries) = (paid(begun, transactions), paid(asked, queries));
        let index = usize::from(session.claim.class.0);
        let Some(gate) = self.gates.classes.get_mut(index) else { return };
        if gate.limits.transactions.is_some() {
            (0..transactions).for_each(|_| gate.transactions.owe());
        }
        if gate.limits.queries.is_some() {
            (0..queries).for_each(|_| gate.queries.owe());
        }
        if transactions > 0 || queries > 0 {
            self.settle_gate(turn, Before::Class(index));
        }
    }

    /// The client is told, and its batch is passed over as PostgreSQL does behind an error.
    pub(super) fn refuse_for_now(&mut self, turn: &mut Turn<'_>, conn: ConnId, told: &Told, messages: &[u8]) {
        self.report_limits(turn, conn);
        self.count_refusal(turn, conn, told.reason, &told.text);
        let (detail, hint) = (told.exceeded.detail(), told.exceeded.hint());
        let error = ErrorResponse {
            severity: "ERROR",
            code: sqlstate::CONFIGURATION_LIMIT_EXCEEDED,
            message: &told.text,
            detail: Some(&detail),
            hint: Some(&hint),
        };
        self.refuse_batch(turn, conn, &error, messages);
    }

    /// Tells a session, which has nothing under way, an error in place of what it has at hand. What it has at hand is passed
    /// over by whoever reads it next: of a Query that message, else everything to the next Sync.
    //= pg18 protocol-flow#PROTOCOL-FLOW-EXT-QUERY
    pub(super) fn refuse_batch(
        &mut self,
        turn: &mut Turn<'_>,
        conn: ConnId,
        error: &ErrorResponse<'_>,
        messages: &[u8],
    ) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        turn.actions.send_new(conn, |out| error.encode(out));
        match Header::parse(messages) {
            Ok(Some(header)) if matches!(header.tag, tag::QUERY | tag::FUNCTION_CALL) => {
                session.incoming.skip = header.total_len() as u32;
                session.incoming.rest = Rest::Discard;
                turn.actions.send_new(conn, |out| backend::encode_ready(out, Status::Idle));
            }
            _ => session.incoming.skipping = true,
        }
    }

    fn report_limits(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let Some(session) = self.sessions.get(conn).filter(|session| session.claim.reports_limits) else { return };
        let gate =
            self.gates.classes.get(usize::from(session.claim.class.0)).filter(|gate| !Gate::is_free(&gate.limits));
        let Some((remaining, retry_ms)) = gate.map(|gate| gate.left(turn.now)) else { return };
        turn.actions.send_new(conn, |out| {
            for (name, value) in [
                (&b"pgweir.limit_remaining"[..], u64::from(remaining)),
                (&b"pgweir.limit_retry_after_ms"[..], retry_ms),
            ] {
                ParameterStatus { name, value: value.to_string().as_bytes() }.encode(out);
            }
        });
    }

    /// What was not needed for long enough goes back.
    pub(super) fn tidy_gates(&mut self, turn: &mut Turn<'_>) {
        if self.gates.look_at.is_none_or(|at| at > turn.now) {
            return;
        }
        self.gates.look_at = None;
        for index in 0..self.gates.classes.len() {
            self.open(turn, Before::Class(index));
        }
        let due = |gate: &StatementGate| gate.seats.next_at(gate.waiting()).is_some();
        let statements: Vec<u64> =
            self.gates.statements.iter().filter(|(_, gate)| due(gate)).map(|(fingerprint, _)| *fingerprint).collect();
        for fingerprint in statements {
            self.settle_gate(turn, Before::Statement(fingerprint));
        }
    }

    /// Other limits hold from now on: whoever waits asks anew.
    pub(super) fn configure_gates(&mut self, turn: &mut Turn<'_>) {
        let had_limits = !self.gates.is_none();
        let waits = std::mem::take(&mut self.gates.waits);
        for gate in &mut self.gates.classes {
            gate.line.clear();
            gate.linked.clear();
        }
        self.gates.statements.values_mut().for_each(|gate| gate.line.clear());
        for (limit, count) in self.gates.configure(&self.settings) {
            self.give_back(turn, limit, count, 0);
        }
        for wait in waits.into_values().rev() {
            if let Some(session) = self.sessions.get_mut(wait.conn) {
                session.claim.admission = Admission::Halfway { since: wait.since };
            }
            self.go_through(turn, wait.conn, Passage::Open, false);
        }
        if !self.gates.is_none() {
            // What is there may be needed no more.
            self.gates.look(Some(turn.now + TICK));
        } else if had_limits {
            // If there are limits again some day, nobody has asked yet.
            self.gates.outcomes.clear();
            for conn in self.sessions.ids() {
                if let Some(session) = self.sessions.get_mut(conn) {
                    session.claim.admission = Admission::Not;
                    // What it has sent may be held, with its server, for no other reason.
                    self.agenda.reconsider(conn);
                }
            }
        }
    }
}
