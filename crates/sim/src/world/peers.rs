//! The pooler's peers when they wake: clients, processes of PostgreSQL, and the desk.

use std::sync::Arc;

use control::Asker;
use machine::{Mail, Place, Question, Snapshot, ToWorker};
use units::{ConnId, Kind};
use wire::backend::Status;
use wire::frontend::tag;

use super::{World, hosts, orders, siblings};
use crate::agenda::Happening;
use crate::backend::Progress;
use crate::checks::{i04_cancels, i19_roles};
use crate::client::{Circumstances, Client};
use crate::desk::Open;
use crate::link::{Leaving, LinkId, Peer, ProcessName};
use crate::process::{Process, Start};
use crate::secret::Secret;
use crate::working;

/// How long what a console has paused stays so.
const RELIEF_US: u64 = 500_000;

impl World {
    /// The pooler gets the event that the connection is broken.
    pub(super) fn break_link(&mut self, id: LinkId) {
        let Some(who) = self.pooler.break_off(&mut self.course, id) else { return };
        match who {
            Peer::Client(index, _) => self.client_left(index),
            Peer::Canceller(Some((index, number))) => {
                self.course.after(0, Happening::CancelEnded { index, number, is_cut: true });
            }
            _ => {}
        }
        self.pooler.update_link(&mut self.course, id);
    }

    pub(super) fn client_awakes(&mut self, index: u32, number: u32) {
        let is_at_console = self.crowd.at(index, number).is_some_and(Client::is_at_console);
        let victim = if is_at_console { orders::victim(self) } else { None };
        let World { course, pooler, crowd, .. } = self;
        let facts = Circumstances {
            now: course.now(),
            trouble_at: course.trouble_at(),
            fault_at: course.fault_at(),
            closing_time: !course.is_working(),
            victim,
        };
        let Some(client) = crowd.at_mut(index, number) else { return };
        let id = client.link;
        let Some(link) = pooler.network.get_mut(id) else { return };
        let was_ready = client.is_ready();
        let unread = link.down.len();
        let woken = client.wake(facts, &course.plan, &mut course.random, &mut course.census, link);
        link.peer.blocked = true;
        let read = link.down.len() < unread;
        course.census.clients.logins += u64::from(!was_ready && client.is_ready());
        let (cancels, is_over) = (client.cancels.sent(), client.cancels.take_settled());
        crowd.note_cancels(number, cancels, is_over);
        if let Some(complaint) = self.book.borrow_mut().take_complaint() {
            course.fail(complaint.invariant, complaint.text);
        }
        let wants = match woken {
            Ok(wants) => wants,
            Err((invariant, text)) => return course.fail(invariant, text),
        };
        pooler.network.pump(course, id, true);
        if read {
            pooler.list(course, id);
        }
        if let Some((pid, secret)) = wants.cancel {
            let waits = self.crowd.at(index, number).is_some_and(|client| client.cancels.are_awaited());
            siblings::send_cancel(self, pid, secret, waits.then_some((index, number)));
        }
        let World { course, pooler, .. } = self;
        if let Some(how) = wants.leave {
            pooler.close_peer(course, id, how);
            self.client_left(index);
        } else if let Some(micros) = wants.again {
            course.after(micros.max(1), Happening::Client { index, number });
        }
    }

    pub(super) fn process_awakes(&mut self, index: u32, number: u32) {
        let Some(mut process) = self.postgres.take(ProcessName { index, number }) else { return };
        if let Some(until) = hosts::thaws_at(self, process.link) {
            self.postgres.put_back(process);
            return self.course.at(until, Happening::Process { index, number });
        }
        if self.course.plan.is_standby(process.place()) == Some(false) {
            process.report_role();
        }
        let ends = self.serve(&mut process);
        let World { course, crowd, postgres, book, .. } = self;
        for complaint in [process.backend.take_complaint(), book.borrow_mut().take_complaint()].into_iter().flatten() {
            let whom = format!("server {} of {}/{}", process.number(), process.database, process.user);
            course.fail(complaint.invariant, format!("{whom}: {}", complaint.text));
        }
        for (channel, payload) in postgres.take_said() {
            crowd.expect_notification(&channel, &payload, course.now());
        }
        if ends {
            self.pooler.close_peer(course, process.link, Leaving::Orderly);
            return;
        }
        postgres.put_back(process);
        postgres.send_notifications(course);
    }

    /// Handles the bytes that have come. True: the process has ended.
    fn serve(&mut self, process: &mut Process) -> bool {
        if process.is_busy(self.course.now()) {
            return self.flush(process);
        }
        if let Some(progress) = process.resume(self.course.plan.purpose.curve.is_some()) {
            let written = self.pooler.network.written(process.link);
            process.progressed(&mut self.course, progress, written);
        }
        loop {
            if self.flush(process) {
                return true;
            }
            if !process.may_read() {
                return false;
            }
            let World { course, pooler, .. } = self;
            let Some(link) = pooler.network.get_mut(process.link) else { return true };
            if process.pipe.read(link) {
                pooler.list(course, process.link);
            }
            match self.next_message(process) {
                Some(true) => {}
                Some(false) => {
                    let Some(link) = self.pooler.network.get(process.link) else { return true };
                    return link.down.end_arrived && link.down.is_empty();
                }
                None => return true,
            }
        }
    }

    /// Writes as much as possible. True: everything is written and the process has ended.
    fn flush(&mut self, process: &mut Process) -> bool {
        let World { course, pooler, .. } = self;
        let Some(link) = pooler.network.get_mut(process.link) else { return true };
        if link.pooler.closed && process.pipe.has_to_write() {
            // The connection is gone, so the process ends.
            return true;
        }
        if process.pipe.write(link) {
            pooler.network.pump(course, process.link, true);
        }
        process.has_ended()
    }

    /// Handles one message. `Some(false)`: none is whole; `None`: the process ends without a message.
    fn next_message(&mut self, process: &mut Process) -> Option<bool> {
        if process.is_starting() {
            return self.start(process);
        }
        let (message, body) = match process.pipe.next_message() {
            Ok(Some(message)) => message,
            Ok(None) => return Some(false),
            Err(_) => {
                self.course.fail(11, format!("server {} got a message of bad length", process.number()));
                return None;
            }
        };
        if process.is_proving() {
            process.prove(&mut self.course, message, &body);
            return Some(true);
        }
        if message == tag::TERMINATE {
            return None;
        }
        match process.stream(&mut self.course, message, &body) {
            None => self.serve_message(process, message, &body),
            Some(Ok(())) => {}
            Some(Err(what)) => {
                self.course.fail(11, format!("server {}, which replicates, got {what}", process.number()))
            }
        }
        Some(true)
    }

    fn start(&mut self, process: &mut Process) -> Option<bool> {
        let World { course, pooler, postgres, checks, .. } = self;
        match process.start(course, postgres.shared()) {
            Start::Unfinished => Some(false),
            Start::Cancel | Start::Encryption => Some(true),
            Start::Session => {
                process.host = pooler.network.get(process.link).map_or(0, |link| link.host);
                if let Some(link) = pooler.network.get_mut(process.link).filter(|link| !link.pooler.closed) {
                    link.pooler.counted = Some((process.dbname.clone(), process.user.clone()));
                    let counted = checks.started(&course.plan, process, link.opened_at);
                    course.judge(counted);
                }
                process.admit(course, postgres.turns_away(process.database, course.now()));
                Some(true)
            }
            Start::Wrong => {
                course.fail(11, "the pooler's startup packet is not one");
                None
            }
        }
    }

    fn serve_message(&mut self, process: &mut Process, message: u8, body: &[u8]) {
        self.note_taken(process, message);
        let World { course, postgres, checks, .. } = self;
        course.judge(i19_roles::check(&course.plan, process, message));
        process.note_asked(course.now());
        if message == tag::QUERY && working::answers_wait_query(course, postgres, process, body) {
            return process.note_answer(self.course.now(), self.pooler.network.written(process.link));
        }
        let begins = message == tag::QUERY && process.backend.session().status() == Status::Idle;
        let application = checks.seen.application_at(&course.plan, process);
        let progress = process.obey(message, body);
        // A Flush, and messages of a COPY that has ended, begin nothing, and get no answer after which the server would be seen to be idle.
        let is_silent = matches!(message, tag::FLUSH | tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL);
        if is_silent && process.is_between_transactions() {
            self.checks.seen.rest(process.link);
        } else if message != tag::FLUSH {
            self.check(|checks, view| checks.note_run(view, process, begins, application));
        }
        let World { course, postgres, .. } = self;
        let is_asked = progress == Progress::Done && matches!(message, tag::QUERY | tag::SYNC);
        if let Some(curve) = course.plan.purpose.curve.filter(|_| is_asked) {
            // The answer is held back for the time that the statement takes beside the others.
            let now = course.now();
            let micros = curve.work_us(postgres.busy(now), course.plan.seed, now, &mut course.random);
            return process.keep_busy(course, micros);
        }
        process.let_go(message, &progress);
        let written = self.pooler.network.written(process.link);
        process.progressed(&mut self.course, progress, written);
    }

    /// PostgreSQL reads a message that the pooler has sent.
    fn note_taken(&mut self, process: &mut Process, message: u8) {
        let Some(link) = self.pooler.network.get_mut(process.link) else { return };
        let Some(sent_at) = link.asked.taken(self.course.now(), message) else { return };
        let is_new = !process.backend.is_in_copy() && process.units.take(sent_at);
        if is_new && !self.course.plan.is_limited() {
            process.backend.forget_mark();
        }
    }

    /// The pooler has read something.
    pub(super) fn note_read(&mut self, id: LinkId) {
        let World { course, pooler, crowd, postgres, checks, .. } = self;
        let (now, plan) = (course.now(), &course.plan);
        let Some(link) = pooler.network.get(id) else { return };
        match link.peer.who {
            Peer::Client(index, number) => {
                let client = crowd.at_mut(index, number).filter(|client| link.up.is_empty() && client.has_asked());
                if let (Some(contest), Some(client)) = (&plan.purpose.contest, client) {
                    client.is_known();
                    checks.contested.note_asked(now, contest, number);
                }
            }
            Peer::Postgres { process: Some(name), .. } => {
                let Some(process) = postgres.get_mut(name.index) else { return };
                let is_watched = plan.purpose.contest.is_some() || plan.is_limited();
                // A long message of a COPY that has failed may still be on its way to a server that is idle.
                if is_watched && link.up.is_empty() && process.is_between_transactions() {
                    checks.seen.rest(id);
                    let home = link.pooler.home.filter(|_| link.down.is_empty());
                    let all_sent = home.is_some_and(|(node, conn)| pooler.machines.node(node).backlog(conn).is_empty());
                    if all_sent && process.is_idle() {
                        checks.contested.freed(now, id);
                        process.backend.forget_mark();
                    }
                }
                if process.link == id {
                    process.units.read(now, link.up.consumed());
                }
            }
            Peer::Postgres { process: None, .. } | Peer::Canceller(_) | Peer::Sibling(_) => {}
        }
    }

    /// A cancel interrupts whatever its process does at that moment (I4); then the cancel's connection is closed.
    pub(super) fn strike(&mut self, id: LinkId, pid: i32, secret: Secret) {
        let link = self.pooler.network.get(id);
        let aim = link.and_then(|link| link.asked.aim);
        if let Some(Peer::Postgres { process: Some(name), .. }) = link.map(|link| link.peer.who) {
            self.postgres.take(name);
        }
        self.pooler.close_peer(&mut self.course, id, Leaving::Orderly);
        let struck = self.postgres.with_key(pid, secret.as_slice()).filter(|process| process.can_be_struck());
        let Some(mut process) = struck.map(Process::name).and_then(|name| self.postgres.take(name)) else { return };
        let World { course, pooler, crowd, .. } = self;
        if let Some(client) = process.backend.client() {
            if process.backend.waits_for_standby() {
                course.judge(i04_cancels::commit(&process, (client, crowd.visitor(client))));
            }
            if i04_cancels::is_overdue(&course.plan, &process, aim) {
                course.census.cancels.overdue += 1;
            } else if let Some(visitor) = crowd.note_struck(client) {
                let link = crowd.find(client).and_then(|client| pooler.network.get(client.link));
                course.judge(i04_cancels::check(&course.plan, (&process, aim), (client, visitor), link));
            }
        }
        let written = self.pooler.network.written(process.link);
        process.strike(&mut self.course, written);
        self.postgres.put_back(process);
    }

    /// A console client has sent a command: requests a snapshot from every worker first.
    pub(super) fn asked(&mut self, node: u16, conn: ConnId, question: Question) {
        let World { course, pooler, crowd, desk, .. } = self;
        let Place::Worker(worker) = pooler.machines.node(node).place else { return };
        course.census.clients.console_questions += 1;
        if let Some(Peer::Client(index, number)) = pooler.peer(node, conn)
            && let Some(client) = crowd.at_mut(index, number)
            && let Err((invariant, text)) = client.is_asking(&question)
        {
            return course.fail(invariant, text);
        }
        let ticket = desk.ask(Asker { worker, conn }, question);
        orders::look_for(self, ticket);
    }

    /// A worker's snapshot has come: it must agree with the world's own counts.
    pub(super) fn reported(&mut self, node: u16, ticket: u64, snapshot: Snapshot) {
        let entry = self.pooler.machines.node(node);
        let place = entry.place;
        let mut shown =
            snapshot.clients.iter().map(|client| client.conn).chain(snapshot.servers.iter().map(|server| server.conn));
        if let Some(stranger) = shown.find(|&conn| entry.find(conn).is_none()) {
            return self.course.fail(12, format!("{place:?} shows {stranger:?}, which is not there"));
        }
        // Clients that only read their final error are not shown.
        let (servers, there) = (snapshot.servers.len(), entry.count(Kind::Server));
        if servers != there {
            return self.course.fail(12, format!("{place:?} shows {servers} servers, there are {there}"));
        }
        let workers = usize::from(self.course.plan.workers);
        let Some(open) = self.desk.report(ticket, snapshot, workers) else { return };
        if open.is_review() {
            let (logins, now) = (self.pooler.machines.logins(), self.course.now());
            let (served, answered) = self.desk.review(&open, logins, now);
            return orders::reviewed(self, served, &answered);
        }
        if open.is_by_an_admin() {
            orders::note_order(self, &open.text());
        }
        self.answer(&open);
    }

    fn answer(&mut self, open: &Open) {
        let World { course, desk, .. } = self;
        let before = Arc::clone(&course.plan.settings);
        let reloads = open.asks_reload() && course.is_working() && course.random.chance(500);
        if reloads {
            course.plan.reload(&mut course.random);
        }
        let served = desk.serve(open, reloads.then(|| Arc::clone(&course.plan.settings)));
        if reloads && served.configured.is_none() {
            // The client had no right to change settings.
            course.plan.settings = Arc::clone(&before);
            course.plan.past.pop();
        }
        orders::set_accepting(self, served.accepts);
        if let Some(settings) = &served.configured {
            orders::note_suspension(self, settings);
            let World { course, checks, .. } = self;
            course.plan.settings = Arc::clone(settings);
            course.plan.reloads += 1;
            if reloads {
                checks.note_reload(course.now(), before);
            }
            self.pooler.configure(&mut self.course);
        }
        // In the closing stage the operator has already sent a stop.
        if let Some(stop) = served.stop.filter(|_| self.course.is_working()) {
            self.course.census.clients.console_stops += 1;
            self.course.plan.stop = Some(stop);
            if !served.ends {
                self.close_for_good();
            }
        }
        orders::end_clients_and_queries(self, served.killed, served.cancelled);
        for (asker, bytes, close) in served.answers {
            if let Err(text) = open.agrees(&bytes) {
                return self.course.fail(12, text);
            }
            self.hand_over(asker, bytes, close);
        }
        if self.course.plan.promises.orders.changes {
            // The world takes back each PAUSE and SUSPEND soon, after closing time, too: orders may still be on their way.
            self.course.after(RELIEF_US, Happening::Relief);
        }
        orders::plan_review(self);
    }

    /// Passes the desk's answer to the worker, and to the client as its expected answer.
    pub(super) fn hand_over(&mut self, asker: Asker, bytes: Vec<u8>, close: bool) {
        let World { course, pooler, crowd, .. } = self;
        let Some(node) = pooler.machines.find(Place::Worker(asker.worker)) else { return };
        if let Some(Peer::Client(index, number)) = pooler.peer(node, asker.conn)
            && let Some(client) = crowd.at_mut(index, number)
        {
            client.expect_answer(&bytes);
        }
        let answer = ToWorker::Answer { conn: asker.conn, bytes, close };
        pooler.machines.deliver_from_desk(course, node, Mail::ToWorker(asker.worker, answer));
    }
}
