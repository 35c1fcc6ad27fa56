//! The rounds of machines, by the contract in `pooling`.
//!
//! One round: the board is read, then mail is delivered, then events of servers, then of clients, then the deadline,
//! then the end of the round, twice if the first one had actions. After each event all actions are carried out in
//! order, as in the engine, on model sockets and model mailboxes.

use machine::{Action, Actions, Event, Hangup, Mail, Secured, Source, ToCoordinator, ToWorker};
use units::{ConnId, Kind};

use super::panics::{self, AtStake};
use super::{World, hosts, orders, prober, siblings};
use crate::agenda::Happening;
use crate::checks::{Checks, WorldView, i08_last_words, i10_memory, i14_classes, i20_fence};
use crate::course::{Course, Finding};
use crate::history::Manner;
use crate::link::{LinkId, Peer};
use crate::machines::Letter;
use crate::network::Network;
use crate::plan::hosts::{LATE_LOAN_US, Place};
use crate::postgres::Postgres;
use crate::random::Random;

/// The most bytes of one read.
const READ_LEN_MAX: usize = 64 * 1024;

impl World {
    pub(super) fn round(&mut self, node: u16) {
        let World { course, pooler, .. } = self;
        if !pooler.machines.node_mut(node).begin_round(course.now()) {
            return;
        }
        course.census.world.rounds += 1;
        let clock = read_clock(course, &mut self.clocks);
        pooler.machines.node_mut(node).read_clock(clock);
        let late = course.random.chance(course.plan.faults.late_board);
        pooler.machines.node_mut(node).board_is_late = late;
        if late {
            course.census.network.late_boards += 1;
        } else {
            pooler.machines.read_board(node);
        }
        self.deliver_letters(node);
        for (conn, done) in self.pooler.machines.node_mut(node).take_computed() {
            self.step(node, Event::Computed { conn, done }, &[]);
        }
        for conn in self.pooler.machines.node_mut(node).take_secured() {
            // It may have been closed meanwhile.
            if self.pooler.find(node, conn).is_some() {
                let outcome = Ok(Box::new(Secured { version: "TLSv1.3", ..Secured::default() }));
                self.step(node, Event::Secured { conn, outcome }, &[]);
            }
        }
        self.deliver_socket_events(node);
        if self.pooler.machines.node(node).is_due() {
            self.step(node, Event::DeadlineReached, &[]);
        }
        if self.step(node, Event::RoundEnded, &[]) {
            self.pooler.machines.read_board(node);
            self.step(node, Event::RoundEnded, &[]);
        }
        self.check(|checks, view| checks.after_round(view, node));
        self.pooler.machines.plan_next_round(&mut self.course, node);
    }

    /// Runs a check, unless a failure was found before.
    pub(super) fn check(&mut self, check: impl FnOnce(&mut Checks, &WorldView<'_>) -> Result<(), Finding>) {
        if self.course.failure().is_some() {
            return;
        }
        let World { course, pooler, crowd, postgres, checks, hosts, .. } = self;
        let checked = check(checks, &WorldView::new(course, pooler, postgres, crowd, &hosts.histories));
        course.judge(checked);
    }

    fn deliver_letters(&mut self, node: u16) {
        while let Some(letter) = self.pooler.machines.node_mut(node).next_letter(self.course.now()) {
            self.adopting = letter.carrying;
            self.checks.strangers.arrived(node, &letter);
            if let Mail::ToWorker(_, ToWorker::KillQuery { conn, serial }) = letter.mail {
                orders::expect_cancel(self, conn, serial);
            }
            let event =
                if letter.returned { Event::Returned(letter.mail.into_returned()) } else { Event::Mail(letter.mail) };
            self.step(node, event, &[]);
            if self.adopting.take().is_some() {
                self.course.fail(12, "a connection came with a message and was not adopted");
            }
        }
    }

    /// Servers first, then clients: otherwise a session could be linked to a server whose final error lies unread.
    fn deliver_socket_events(&mut self, node: u16) {
        let ready = self.pooler.machines.node_mut(node).take_ready();
        let clients_first = self.course.plan.clients_first;
        let mut groups: [Vec<LinkId>; 2] = Default::default();
        for id in ready {
            let Some(link) = self.pooler.network.get_mut(id) else { continue };
            link.pooler.listed = false;
            let Some((_, conn)) = link.pooler.home.filter(|(home, _)| *home == node) else { continue };
            let client = matches!(conn.kind(), Kind::Client | Kind::Login);
            groups[usize::from(client != clients_first)].push(id);
        }
        for (turn, group) in groups.into_iter().enumerate() {
            self.serving_clients = (turn == 1) != clients_first;
            for id in group {
                self.deliver_socket_event(node, id);
                self.pooler.list(&mut self.course, id);
            }
        }
        self.serving_clients = false;
    }

    fn deliver_socket_event(&mut self, node: u16, id: LinkId) {
        let Some(link) = self.pooler.network.get_mut(id) else { return };
        let Some((_, conn)) = link.pooler.home.filter(|(home, _)| *home == node) else { return };
        if let Some(stands) = link.opened.take() {
            link.stands = stands;
            let event = if stands {
                Event::Opened { conn, ends: link.ends.clone() }
            } else {
                Event::OpenFailed { conn, why: "refused".to_owned() }
            };
            self.step(node, event, &[]);
            return;
        }
        if !link.stands || link.pooler.end_delivered {
            return;
        }
        let unread = link.pooler.read && !link.up.readable().is_empty();
        if link.broken && !(unread && self.course.random.chance(500)) {
            self.hang_up(node, id, conn, Hangup::Broken);
            return;
        }
        self.drain(node, id, conn);
        self.read(node, id, conn);
    }

    fn hang_up(&mut self, node: u16, id: LinkId, conn: ConnId, why: Hangup) {
        if let Some(link) = self.pooler.network.get_mut(id) {
            link.pooler.end_delivered = true;
        }
        self.step(node, Event::Hangup { conn, why }, &[]);
    }

    /// The socket takes more of the backlog.
    fn drain(&mut self, node: u16, id: LinkId, conn: ConnId) {
        let World { course, pooler, .. } = self;
        let link = pooler.network.get_mut(id).filter(|link| link.pooler.write && !link.broken);
        let Some(link) = link else { return };
        let backlog = pooler.machines.node(node).backlog(conn);
        let mut len = backlog.len().min(link.down.space());
        if len > 1 && course.random.chance(course.plan.weather.pieces) {
            len = course.random.skewed(1, len as u64) as usize;
        }
        if len == 0 {
            return;
        }
        let count = if link.peer.closed { len } else { link.down.write(&backlog[..len]) };
        pooler.network.pump(course, id, false);
        self.step(node, Event::Drained { conn, count }, &[]);
    }

    fn read(&mut self, node: u16, id: LinkId, conn: ConnId) {
        let World { course, pooler, .. } = self;
        let Some(link) = pooler.network.get_mut(id) else { return };
        let ours =
            link.pooler.home.is_some_and(|(_, home)| home == conn) && link.pooler.read && !link.pooler.end_delivered;
        if !ours {
            return;
        }
        let available = link.up.readable().len().min(READ_LEN_MAX);
        if available == 0 {
            if link.up.end_arrived {
                self.hang_up(node, id, conn, Hangup::Closed);
            }
            return;
        }
        let mut len = available;
        // A final error is read whole: its check must know that it could be read.
        if link.peer.last_words_at.is_none() && course.random.chance(course.plan.weather.pieces) {
            let bytewise = course.plan.weather.bytewise;
            len = if bytewise { 1 } else { course.random.skewed(1, available as u64) as usize };
        }
        course.census.network.short_reads += u64::from(len < available);
        let mut chunk = std::mem::take(&mut self.chunk);
        chunk.clear();
        chunk.extend_from_slice(&link.up.readable()[..len]);
        link.up.consume(len);
        pooler.network.pump(course, id, true);
        pooler.peer_may_write(course, id);
        self.note_read(id);
        self.step(node, Event::Received { conn, bytes: &chunk }, &chunk);
        self.chunk = chunk;
    }

    /// One step of a machine and its actions. Returns whether there were any.
    pub(super) fn step(&mut self, node: u16, event: Event<'_>, chunk: &[u8]) -> bool {
        if self.course.failure().is_some() {
            return false;
        }
        let now = self.course.now();
        self.course.census.world.steps += 1;
        self.stepped_at = now;
        self.pooler.note_event(&mut self.course, node, &event);
        let at_stake = AtStake::of(&event);
        let panics = panics::is_now(self, node, &at_stake);
        let mut actions = self.pooler.machines.node_mut(node).step(event);
        if panics {
            panics::happen(self, node, at_stake, &actions);
            return true;
        }
        let any = !actions.is_empty();
        let blocked = self.carry_out(node, &mut actions, chunk);
        self.pooler.machines.node_mut(node).stepped(actions);
        for conn in blocked {
            if self.pooler.find(node, conn).is_none() {
                // It was closed by a later action of the same list.
                continue;
            }
            self.step(node, Event::Blocked { conn }, &[]);
        }
        any
    }

    /// All actions, in order. Returns the connections whose sockets did not take everything.
    fn carry_out(&mut self, node: u16, actions: &mut Actions, chunk: &[u8]) -> Vec<ConnId> {
        let mut blocked = Vec::new();
        if actions.is_empty() {
            return blocked;
        }
        let mut list = actions.take();
        for action in list.drain(..) {
            let World { course, pooler, .. } = self;
            pooler.note_action(course, node, &action, actions, chunk);
            match action {
                Action::Send { conn, piece } => {
                    debug_assert!(piece.source != Source::Chunk || !chunk.is_empty());
                    course.trace.mix(conn.to_bits() ^ u64::from(piece.len));
                    course.trace.see(&conn.to_bits().to_le_bytes());
                    course.trace.see(without_nonces(actions.bytes(piece, chunk)));
                    self.send(node, conn, actions.bytes(piece, chunk), &mut blocked);
                }
                Action::Interest { conn, read, write } => pooler.set_interest(course, node, conn, (read, write)),
                Action::Close { conn, .. } => {
                    course.trace.see(format!("close {conn:?}").as_bytes());
                    self.close(node, conn);
                }
                Action::Open { conn, address } => {
                    course.trace.see(format!("open {conn:?} {}", address.port).as_bytes());
                    self.open(node, conn, address.port);
                }
                Action::Secure { conn, .. } => {
                    let micros = course.random.range(100, 10_000);
                    course.after(micros, Happening::Secured { node, conn });
                }
                Action::Compute { conn, job } => {
                    let micros = course.random.range(10, 3_000);
                    course.after(micros, Happening::Computed { node, conn, job: Box::new(job) });
                }
                Action::Ask { .. } => unreachable!("in no world others are asked who a client is"),
                Action::Post { mail, carrying } => self.post(node, mail, carrying),
                Action::Adopt { conn } => self.adopt(node, conn),
                Action::Publish { pool, cell } => {
                    pooler.machines.show(node, |board, worker| board.set(pool, worker, cell));
                }
                Action::PublishClasses { pool, cells } => {
                    pooler.machines.show(node, |board, worker| board.set_classes(pool, worker, cells));
                }
                Action::Finished => pooler.machines.node_mut(node).finished = true,
                Action::AskControl { conn, question } => self.asked(node, conn, question),
                Action::PostToProcess { .. } | Action::Placed { .. } => {
                    unreachable!("in no world another process takes over")
                }
                Action::Report { ticket, snapshot } => self.reported(node, ticket, *snapshot),
                Action::Probe { host, is_urgent: true } => prober::urge(self, &host),
                // Each host is asked at rest, too.
                Action::Probe { is_urgent: false, .. } => {}
                // Its hosts have addresses only.
                Action::Trace(_) | Action::DoubtName { .. } => {}
                Action::Tell(fact) => {
                    course.trace.see(fact.text.as_bytes());
                    hosts::check_closed(self, node, &fact);
                }
            }
        }
        actions.put_back(list);
        blocked
    }

    fn send(&mut self, node: u16, conn: ConnId, bytes: &[u8], blocked: &mut Vec<ConnId>) {
        let Some(id) = self.pooler.named(&mut self.course, node, conn, "Send") else { return };
        let World { course, pooler, crowd, postgres, checks, .. } = self;
        let Some(link) = pooler.network.get_mut(id) else { return };
        if self.serving_clients {
            course.judge(i08_last_words::check(link, course.now(), conn, bytes));
        }
        if !link.stands {
            course.fail(1, format!("Send to {conn:?}, which is not connected"));
            return;
        }
        if link.pooler.end_delivered || link.broken {
            return;
        }
        if link.peer.closed {
            // The peer has closed: the answer is a reset.
            course.after(200, Happening::Break(id));
            return;
        }
        if let Peer::Postgres { process, .. } = link.peer.who {
            let serving = process.and_then(|name| postgres.get(name.index)).filter(|process| process.link == id);
            if let (Some(process), Some(worker)) = (serving, pooler.machines.node(node).worker()) {
                course.judge(i20_fence::check_sent(&course.plan, worker, (process, link.down.is_empty()), bytes));
            }
            note_request(course.now(), (&mut pooler.network, postgres), id, bytes);
        }
        let contest = course.plan.purpose.contest.as_ref().filter(|_| conn.kind() == Kind::Server);
        if let Some(contest) = contest.filter(|_| checks.contested.has_begun()) {
            let whose = i14_classes::client_in(bytes);
            if let Some(client) = whose.and_then(|number| crowd.find_mut(number)) {
                client.is_known();
            }
            checks.contested.note_sent(course.now(), contest, id, (bytes, whose));
        }
        let Some(link) = pooler.network.get_mut(id) else { return };
        let machine = pooler.machines.node_mut(node);
        let mut taken = 0;
        if link.pooler.lingering.is_empty() && machine.backlog(conn).is_empty() {
            let mut len = bytes.len().min(link.down.space());
            if len > 1 && course.random.chance(course.plan.weather.pieces / 4) && conn.kind() != Kind::Login {
                len = course.random.skewed(1, len as u64) as usize;
            }
            taken = link.down.write(&bytes[..len]);
        }
        if taken < bytes.len() {
            course.census.network.short_writes += 1;
            let backlog = machine.keep(conn, &bytes[taken..]);
            if backlog == 0 {
                // The machine will close it next: the world sends the rest.
                link.pooler.lingering.extend_from_slice(&bytes[taken..]);
            }
            let on_console = matches!(link.peer.who, Peer::Client(index, number)
                if crowd.at(index, number).is_some_and(|client| client.is_at_console()));
            course.judge(i10_memory::check_backlog(on_console, conn, backlog));
            if !blocked.contains(&conn) {
                blocked.push(conn);
            }
        }
        pooler.network.pump(course, id, false);
    }

    fn close(&mut self, node: u16, conn: ConnId) {
        let Some(id) = self.pooler.named(&mut self.course, node, conn, "Close") else { return };
        self.pooler.machines.node_mut(node).forget(conn);
        close_link(self, id);
    }

    fn open(&mut self, node: u16, conn: ConnId, port: u16) {
        if conn.kind() == Kind::Peer {
            return siblings::open(self, node, conn, port - siblings::FIRST_PORT);
        }
        let World { course, pooler, postgres, checks, hosts, .. } = self;
        let place = Place::at(port);
        let database = place.database as u16;
        let (up, down) = (course.room(), course.room());
        let id = pooler.network.open(Peer::Postgres { database, process: None }, up, down);
        if let Some(link) = pooler.network.get_mut(id) {
            link.opened_at = course.now();
            link.host = place.host;
            link.ends = if course.plan.is_spread() { hosts.ends(place) } else { None };
        }
        pooler.adopt(node, conn, id);
        if conn.kind() == Kind::Server {
            if let Some(link) = pooler.network.get_mut(id) {
                link.serves = true;
            }
            let counted = checks.limits.opened(&course.plan, database);
            course.judge(counted);
        }
        let (delay, is_working, faults) = (course.delay(), course.is_working(), course.plan.faults);
        if is_working && course.random.chance(faults.lost_connects) {
            course.census.postgres.connects_lost += 1;
            course.note_trouble();
            return;
        }
        let manner = hosts.manner(place, course.now());
        if manner != Manner::Accepts {
            // No trouble: there is another host.
            if manner == Manner::Refuses {
                course.after(delay, Happening::Connected { link: id, stands: false });
            }
            return;
        }
        let down = postgres.is_down(database, course.now());
        let refused = down || is_working && course.random.chance(faults.refused);
        if refused {
            course.census.postgres.connects_refused += 1;
            course.note_trouble();
        }
        course.after(delay, Happening::Connected { link: id, stands: !refused });
    }

    fn post(&mut self, node: u16, mail: Mail, carrying: Option<ConnId>) {
        let link = match carrying {
            Some(conn) => self.pooler.named(&mut self.course, node, conn, "Post"),
            None => None,
        };
        let World { course, pooler, checks, hosts, .. } = self;
        if let (Some(id), Some(conn)) = (link, carrying) {
            pooler.give_away(node, conn, id);
        }
        let (now, lend) = (course.now(), mail.lent().is_some());
        let may_fail = mail.may_be_returned() && course.is_working();
        if may_fail && course.random.chance(course.plan.faults.full_mailbox) {
            course.census.network.returned_mail += 1;
            checks.strangers.refused(node, pooler.machines.count(), &mail, now);
            let letter = Letter { from: node, at: now, mail, carrying: link, returned: true };
            pooler.machines.deliver(course, node, letter);
            return;
        }
        course.census.network.lends += u64::from(lend);
        let forgets = matches!(mail, Mail::ToCoordinator(ToCoordinator::Forgotten { .. }));
        course.census.network.pools_forgotten += u64::from(forgets);
        hosts::note_decision(course, hosts, &mail);
        let to = mail.place();
        let Some(receiver) = pooler.machines.find(to) else {
            course.fail(12, format!("mail to {to:?}, who does not exist"));
            return;
        };
        // A loan that is on its way at closing time may still be late, so the plan keeps its setting (I6).
        let loans = if lend && course.is_working() { course.plan.late_loans } else { 0 };
        let (late, random) = (course.plan.weather.late, &mut course.random);
        let delay = if loans > 0 && random.chance(loans) {
            random.range(100, LATE_LOAN_US)
        } else if random.chance(late) {
            random.range(100, 10_000)
        } else {
            random.range(1, 60)
        };
        let at = pooler.machines.arrival(now, node, receiver, delay);
        checks.strangers.departed(node, receiver, &mail);
        let letter = Letter { from: node, at, mail, carrying: link, returned: false };
        pooler.machines.deliver(course, receiver, letter);
    }

    fn adopt(&mut self, node: u16, conn: ConnId) {
        let World { course, pooler, checks, .. } = self;
        let Some(id) = self.adopting.take() else {
            course.fail(12, format!("{conn:?} is adopted, but no connection came along"));
            return;
        };
        if let Some(link) = pooler.network.get_mut(id) {
            (link.pooler.read, link.pooler.write, link.pooler.listed) = (true, false, false);
        }
        pooler.adopt(node, conn, id);
        checks.strangers.adopted(conn, course.now());
        pooler.list(course, id);
    }
}

/// The pooler closes its end.
pub(super) fn close_link(world: &mut World, id: LinkId) {
    let World { course, pooler, checks, .. } = world;
    if let Some(link) = pooler.network.get_mut(id).filter(|link| link.serves)
        && let Peer::Postgres { database, .. } = link.peer.who
    {
        checks.limits.closed(database, link.pooler.counted.take());
    }
    pooler.network.close_pooler(course, id);
}

/// The time that a thread reads. The kernel may stop the thread after that, while other threads run.
fn read_clock(course: &mut Course, random: &mut Random) -> u64 {
    let now = course.now();
    if !random.chance(course.plan.faults.old_clock) {
        return now;
    }
    course.census.network.old_clocks += 1;
    now.saturating_sub(random.skewed(1, course.plan.clock_error()))
}

/// The pooler sends something to PostgreSQL.
fn note_request(now: u64, (network, postgres): (&mut Network, &Postgres), id: LinkId, bytes: &[u8]) {
    let Some(link) = network.get_mut(id) else { return };
    if link.asked.has_greeted() {
        return link.asked.note(now, bytes);
    }
    let Some(request) = link.asked.greet(bytes) else { return };
    let struck = postgres.with_key(request.pid, request.secret);
    let aim = struck.and_then(|process| process.units.aim(now, &network.get(process.link)?.asked));
    if let Some(link) = network.get_mut(id) {
        link.asked.aim = aim;
    }
}

/// The bytes for the hash: of a message with a random salt or nonce only the first byte.
fn without_nonces(bytes: &[u8]) -> &[u8] {
    match bytes {
        [b'p', ..] => &bytes[..1],
        [b'R', _, _, _, _, kind @ ..] if kind.get(..4).is_some_and(|kind| kind != [0; 4]) => &bytes[..1],
        _ => bytes,
    }
}
