//! Steps a machine and carries out its actions in order.
//!
//! All actions of a step are carried out before the next step of that machine. Events that they cause (a socket is
//! blocked or broken, a connection is open at once, a message was returned) are delivered after the last action.

use std::sync::Arc;

use connections::databases::Host as Upstream;
use machine::{Action, Event, Hangup, Mail, Secure, ToWorker, Topic};
use rustix::net::Shutdown;
use units::{ConnId, Kind};

use crate::connect::{Dial, ends};
use crate::connections::{Parcel, Phase};
use crate::host::{Aftermath, AtStake, Host};
use crate::inbox::LocalMail;
use crate::layer::Layer;
use crate::letter::Letter;
use crate::poll::Interest;
use crate::shared::ConsoleRequest;
use crate::upgrade;

/// At most so many consecutive sends go into one system call.
pub(crate) const GATHER_MAX: usize = 16;

impl Host {
    /// Steps a machine with an event and carries out its actions. Returns whether there were any.
    pub(crate) fn deliver_event(&mut self, resident: usize, event: Event<'_>) -> bool {
        let acted = self.step(resident, event);
        if !self.aftermath.is_empty() {
            self.deliver_aftermath(resident);
        }
        acted
    }

    pub(crate) fn deliver_aftermath_to_owner(&mut self, conn: ConnId) {
        if let Some(resident) = self.residents.owner_of(conn) {
            self.deliver_aftermath(resident);
        }
    }

    fn deliver_aftermath(&mut self, resident: usize) {
        while let Some(next) = self.aftermath.pop_front() {
            match next {
                Aftermath::Blocked(conn) if self.connections.phase(conn).is_some() => {
                    self.step(resident, Event::Blocked { conn });
                }
                Aftermath::Broken(conn) if self.connections.phase(conn).is_some() => {
                    self.connections.set_phase(conn, Phase::Ended);
                    self.step(resident, Event::Hangup { conn, why: Hangup::Broken });
                    self.connections.ignore(&mut self.poll, conn);
                }
                Aftermath::Lost(conn) => {
                    self.step(resident, Event::Hangup { conn, why: Hangup::Broken });
                }
                Aftermath::Opened(conn) if self.connections.phase(conn).is_some() => {
                    let ends = self.connections.fd(conn).and_then(ends).map(Box::new);
                    self.step(resident, Event::Opened { conn, ends });
                }
                Aftermath::Secured(conn, outcome) if self.connections.phase(conn).is_some() => {
                    self.step(resident, Event::Secured { conn, outcome });
                }
                Aftermath::Weighed(conn, bytes) if self.connections.phase(conn).is_some() => {
                    self.step(resident, Event::Weighed { conn, bytes });
                }
                Aftermath::OpenFailed(conn, why) => {
                    self.step(resident, Event::OpenFailed { conn, why });
                }
                Aftermath::Returned(mail, parcel) => {
                    self.under_way.in_hand = parcel;
                    self.step(resident, Event::Returned(mail));
                    self.under_way.in_hand = None;
                }
                // A later action of the same list has closed it.
                Aftermath::Blocked(_)
                | Aftermath::Broken(_)
                | Aftermath::Opened(_)
                | Aftermath::Weighed(..)
                | Aftermath::Secured(..) => {}
            }
        }
    }

    /// Steps a machine with bytes that a connection has sent, and carries out its actions.
    #[inline]
    pub(crate) fn deliver_received(&mut self, resident: usize, conn: ConnId, bytes: &[u8]) {
        self.under_way.serving = Some((resident, Some(conn)));
        self.counters.steps += 1;
        let (machine, actions) = self.residents.stepping(resident);
        machine.receive(self.now, self.board.board(), conn, bytes, actions);
        self.see_through(resident, bytes);
        if !self.aftermath.is_empty() {
            self.deliver_aftermath(resident);
        }
    }

    fn step(&mut self, resident: usize, event: Event<'_>) -> bool {
        let chunk = if let Event::Received { bytes, .. } = &event { *bytes } else { &[] };
        self.under_way.serving = Some((resident, subject(&event)));
        self.under_way.at_stake = at_stake(&event);
        self.counters.steps += 1;
        let (machine, actions) = self.residents.stepping(resident);
        machine.step(self.now, self.board.board(), event, actions);
        let acted = !actions.is_empty();
        self.see_through(resident, chunk);
        acted
    }

    /// Carries out the actions of a step, and gives their memory back.
    #[inline]
    pub(crate) fn see_through(&mut self, resident: usize, chunk: &[u8]) {
        self.under_way.at_stake = AtStake::Actions;
        // Most steps pass one message on, or an answer to its client and the next request to the server.
        let mut done = 0;
        while let Some((conn, piece)) = self.residents.lone_send(resident, done) {
            self.send_one(resident, conn, piece, chunk);
            done += 1;
        }
        let sends_all = done == self.residents[resident].actions.as_slice().len();
        if !sends_all {
            let mut list = self.residents.take_actions(resident);
            self.carry_out(resident, &mut list[done..], chunk);
            self.residents.stepping(resident).1.put_back(list);
        }
        self.under_way.at_stake = AtStake::Nothing;
        let (machine, actions) = self.residents.stepping(resident);
        if sends_all {
            actions.clear_sends(|buffer| machine.recycle(buffer));
        } else {
            actions.clear(|buffer| machine.recycle(buffer));
        }
    }

    fn carry_out(&mut self, resident: usize, list: &mut [Action], chunk: &[u8]) {
        let mut at = 0;
        while at < list.len() {
            if let Action::Send { conn, .. } = list[at] {
                let goes_on = |action: &&Action| matches!(action, Action::Send { conn: next, .. } if *next == conn);
                let more = list[at + 1..].iter().take(GATHER_MAX - 1).take_while(goes_on).count();
                self.send(resident, conn, &list[at..=at + more], chunk);
                at += 1 + more;
            } else {
                // Any action that owns nothing can stand in for the one taken out.
                let action = std::mem::replace(&mut list[at], Action::Finished);
                self.carry_out_one(resident, action);
                at += 1;
            }
        }
    }

    fn carry_out_one(&mut self, resident: usize, action: Action) {
        match action {
            Action::Send { .. } => unreachable!("sends are gathered before"),
            Action::Interest { conn, read, write } => self.connections.set_interest(conn, Interest { read, write }),
            Action::Close { conn, last_words } => self.close(conn, last_words),
            Action::Open { conn, address } => {
                let dial = self.dialer.begin(conn, &address, self.now);
                self.dial(conn, dial);
            }
            Action::Secure { conn, how } => self.secure(conn, how),
            Action::Compute { conn, job } => self.shared.computers.submit(conn, job, self.inbox.mailbox()),
            Action::Ask { conn, inquiry } => self.shared.ask(conn, *inquiry, self.inbox.mailbox()),
            Action::Post { mail, carrying } => self.post(mail, carrying),
            Action::Adopt { conn } => self.adopt(conn),
            Action::Publish { pool, cell } => {
                self.board.publish(&self.shared.board, pool, self.residents[resident].place, cell);
            }
            Action::PublishClasses { pool, cells } => {
                self.board.publish_classes(&self.shared.board, pool, self.residents[resident].place, cells);
            }
            Action::AskControl { conn, question } => {
                let worker = units::WorkerId(conn.owner());
                // This fails only while the process ends.
                let _ = self.shared.questions.send(ConsoleRequest { conn, worker, question });
            }
            Action::Report { ticket, snapshot } => self.shared.replies.snapshot(ticket, *snapshot),
            Action::PostToProcess { process, mail } => upgrade::post_to_process(self, process, *mail),
            Action::Placed { ticket, place } => upgrade::placed(self, ticket, place),
            Action::Finished => self.shared.finish(self.residents[resident].place),
            Action::Tell(fact) => {
                // The client gets the error by a later action.
                let is_error = fact.topic == Topic::PoolerErrors;
                self.shared.tell(self.now, *fact);
                if is_error {
                    self.shared.log.wait_until_written(&mut self.log_patience);
                }
            }
            Action::Probe { host, is_urgent } => {
                // This fails where nobody probes.
                let _ = self.shared.probes.send((host, is_urgent));
            }
            Action::Trace(statement) => self.shared.traces.push(*statement),
            Action::DoubtName { host } => {
                if let Upstream::Name(name) = &host.host {
                    self.shared.resolver.doubt(name);
                }
            }
        }
    }

    /// Closes the socket at once. If the client still writes, it could get a reset that overtakes the last message on
    /// its way, so the sending side is shut down first.
    fn close(&mut self, conn: ConnId, last_words: bool) {
        let is_client = matches!(conn.kind(), Kind::Login | Kind::Client);
        // A peer that has said the same before still waits for it.
        if matches!(self.connections.phase(conn), Some(Phase::Open | Phase::Ended))
            && let Some((fd, layer)) = self.connections.encrypted(conn)
        {
            layer.close(fd, &mut self.encryption);
        }
        if last_words
            && self.connections.phase(conn) == Some(Phase::Open)
            && let Some(fd) = self.connections.fd(conn)
        {
            // Fails if the client is gone already.
            let _ = rustix::net::shutdown(fd, Shutdown::Write);
        }
        if !is_client {
            self.dialer.give_up(conn);
        }
        drop(self.connections.remove(conn));
    }

    /// Begins a handshake.
    fn secure(&mut self, conn: ConnId, how: Secure) {
        let Some(fd) = self.connections.fd(conn) else { return };
        let (layer, incoming) = Layer::begin(fd, how, &mut self.encryption);
        if let Some(mut layer) = layer {
            let weight = layer.news_of_weight().filter(|_| conn.kind() == Kind::Login);
            self.aftermath.extend(weight.map(|bytes| Aftermath::Weighed(conn, bytes)));
            self.connections.set_layer(conn, layer);
            self.connections.watch_unsent(conn);
        }
        if incoming.is_deaf {
            self.deafen(conn);
        }
        if let Some(outcome) = incoming.secured {
            self.aftermath.push_back(Aftermath::Secured(conn, outcome));
        }
    }

    fn post(&mut self, mail: Mail, carrying: Option<ConnId>) {
        let parcel = carrying.and_then(|conn| self.connections.remove(conn));
        let thread = self.shared.thread_of(mail.place());
        if thread == self.thread {
            self.inbox.add_local(LocalMail { mail, parcel });
            return;
        }
        let parcel = parcel.map(|parcel| parcel.unregistered(&mut self.poll));
        let mailbox = &self.shared.boxes[thread];
        let (is_lend, may_be_returned) = (mail.lent().is_some(), mail.may_be_returned());
        let letter = Letter::Mail { mail, parcel };
        let posted = if may_be_returned { mailbox.offer(letter) } else { Ok(mailbox.insist(letter)) };
        match posted {
            Ok(rung) => {
                self.counters.wakes_sent += u64::from(rung);
                self.counters.lends += u64::from(is_lend);
            }
            Err(letter) => {
                let (mail, parcel) = letter.into_returned();
                self.counters.returned += 1;
                self.aftermath.push_back(Aftermath::Returned(mail, parcel));
            }
        }
    }

    /// Gives the socket that came with the message its new id. Without a socket, the connection has broken on its way.
    fn adopt(&mut self, conn: ConnId) {
        let mut parcel = self.under_way.in_hand.take();
        self.under_way.in_hand = parcel.as_mut().and_then(|parcel| parcel.companion.take()).map(|companion| *companion);
        let adopted =
            parcel.map(|parcel| self.connections.insert(&mut self.poll, conn, parcel, Phase::Open, Interest::READ));
        if !matches!(adopted, Some(Ok(()))) {
            self.aftermath.push_back(Aftermath::Lost(conn));
        }
    }

    /// Does the next step for a connection that is being opened.
    pub(crate) fn dial(&mut self, conn: ConnId, dial: Dial) {
        let (fd, phase, interest) = match dial {
            Dial::Watch(fd) => (fd, Phase::Connecting, Interest::WRITE),
            Dial::Standing(fd) => (fd, Phase::Open, Interest::READ),
            Dial::Resolve(name) => {
                let mailbox = Arc::clone(self.inbox.mailbox());
                let answer = move |found| _ = mailbox.insist(Letter::Resolved { conn, found });
                return self.shared.resolver.look_up(name, answer);
            }
            Dial::Failed(why) => return self.aftermath.push_back(Aftermath::OpenFailed(conn, why)),
        };
        let parcel = Parcel::new(fd);
        match self.connections.insert(&mut self.poll, conn, parcel, phase, interest) {
            Ok(()) if phase == Phase::Open => self.aftermath.push_back(Aftermath::Opened(conn)),
            Ok(()) => {}
            Err(error) => {
                self.dialer.give_up(conn);
                let why = format!("connect failed: {error}");
                self.aftermath.push_back(Aftermath::OpenFailed(conn, why));
            }
        }
    }
}

/// The connection that an event is about.
fn subject(event: &Event<'_>) -> Option<ConnId> {
    match event {
        Event::Received { conn, .. }
        | Event::Hangup { conn, .. }
        | Event::Blocked { conn }
        | Event::Drained { conn, .. }
        | Event::Opened { conn, .. }
        | Event::OpenFailed { conn, .. }
        | Event::Secured { conn, .. }
        | Event::Weighed { conn, .. }
        | Event::Computed { conn, .. }
        | Event::Answered { conn, .. } => Some(*conn),
        Event::Mail(_) | Event::Returned(_) | Event::Renewed { .. } | Event::DeadlineReached | Event::RoundEnded => {
            None
        }
    }
}

/// What a panic at this event loses that is not the machine's yet.
fn at_stake(event: &Event<'_>) -> AtStake {
    match event {
        Event::Mail(Mail::ToWorker(_, ToWorker::Arrive(_))) => AtStake::Client,
        Event::Mail(mail) => mail.if_lost().map_or(AtStake::Nothing, AtStake::Mail),
        _ => AtStake::Nothing,
    }
}
