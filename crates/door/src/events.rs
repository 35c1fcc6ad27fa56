//! What a door hears: events of clients, of lookups, of threads that compute and of other machines, each given to whoever acts on it.

use machine::action::Actions;
use machine::event::Event;
use machine::mail::{Lost, Mail, ToCoordinator};
use machine::observe::{Level, Topic};
use queueing::board::Board;
use units::{ConnId, Kind, Time};

use super::Door;
use super::posts::depart;

impl machine::Machine for Door {
    // tidy: a table of all events
    fn step(&mut self, now: Time, _board: &Board, event: Event<'_>, actions: &mut Actions) {
        match event {
            Event::Received { conn, .. }
            | Event::Hangup { conn, .. }
            | Event::Opened { conn, .. }
            | Event::OpenFailed { conn, .. }
            | Event::Blocked { conn }
            | Event::Drained { conn, .. }
            | Event::Secured { conn, .. }
            | Event::Computed { conn, .. }
                if matches!(conn.kind(), Kind::Lookup | Kind::Peer) =>
            {
                self.look_out(now, actions, |outward, turn| outward.event(turn, conn, event));
            }
            Event::Received { conn, bytes } => self.received(now, conn, bytes, actions),
            Event::Hangup { conn, .. } => {
                self.tell(conn, Level::Debug, Topic::Disconnections, "client disconnect before login", actions);
                self.withdraw(conn, actions);
                self.close(conn, false, actions);
            }
            // The messages of a login are short; a client that does not read them is closed.
            Event::Blocked { conn } => {
                self.withdraw(conn, actions);
                self.close(conn, false, actions);
            }
            // It may have been given up meanwhile.
            Event::Secured { conn, outcome } => {
                if let Some(Err(why)) = self.logins.get_mut(conn).map(|login| login.secured(outcome)) {
                    let text = format!("closing because: TLS handshake failed: {why}");
                    self.tell(conn, Level::Log, Topic::Disconnections, &text, actions);
                    self.close(conn, true, actions);
                }
                self.weigh(now, conn, actions);
            }
            Event::Weighed { conn, bytes } => {
                if let Some(login) = self.logins.get_mut(conn) {
                    login.tls_weight = bytes;
                    self.weigh(now, conn, actions);
                }
            }
            Event::Computed { conn, done } => {
                let proved = self.proof_computed(conn, done, actions);
                self.resume(now, conn, proved, actions);
            }
            Event::Answered { conn, verdict } => self.proof_answered(now, conn, verdict, actions),
            Event::Mail(Mail::ToDoor(_, mail)) => self.delivered(now, mail, actions),
            Event::Mail(other) => unreachable!("mail is delivered where it is addressed: {other:?}"),
            Event::Renewed { life, lost } => {
                self.logins.begin_life(life);
                self.outward.begin_life(life);
                actions.post_to_coordinator(ToCoordinator::NewDoor { door: self.id });
                if let Some(Lost::Home { pool, worker, life, user }) = lost.map(|lost| *lost) {
                    depart(pool, worker, life, user, actions);
                }
            }
            Event::Returned(mail) => unreachable!("a door posts nothing that may be returned: {mail:?}"),
            Event::DeadlineReached => {
                self.deadline_reached(now, actions);
                self.look_out(now, actions, |outward, turn| outward.deadline_reached(turn));
                self.take_turns(now, actions);
            }
            Event::RoundEnded => {
                self.shed(now, actions);
                // A socket that did not take these few bytes at once will not take them later.
                while let Some(conn) = self.leaving.pop() {
                    self.close(conn, true, actions);
                }
                self.stopping.finish_if_over(&self.logins, actions);
            }
            Event::Drained { .. } | Event::Opened { .. } | Event::OpenFailed { .. } => {}
        }
    }

    fn backlog(&self, conn: ConnId) -> &[u8] {
        match conn.kind() {
            Kind::Lookup | Kind::Peer => self.outward.backlog(conn),
            _ => self.logins.get(conn).map_or(&[], |login| login.flow.backlog()),
        }
    }

    fn keep(&mut self, conn: ConnId, bytes: &[u8]) {
        let flow = match conn.kind() {
            Kind::Lookup | Kind::Peer => self.outward.flow_mut(conn),
            _ => self.logins.get_mut(conn).map(|login| &mut login.flow),
        };
        if let Some(flow) = flow {
            flow.keep(bytes, Vec::new);
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        [self.deadlines.next(), self.outward.next_deadline(), self.turns.next_deadline()].into_iter().flatten().min()
    }

    fn awaits_round_end(&self) -> bool {
        self.stopping.is_over(&self.logins) || !self.leaving.is_empty() || self.weights.are_too_much()
    }

    fn recycle(&mut self, _buffer: Vec<u8>) {}
}
