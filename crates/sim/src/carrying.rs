//! Carries out what a machine asks for, as the engine does, on model sockets and model mailboxes.

use pooling::{Action, Actions, Machine, Mail, Place, Source, ToCoordinator};
use units::{ConnId, Kind};

use crate::network::{LinkId, Peer};
use crate::rounds::Letter;
use crate::world::{Happening, World};

impl World {
    /// All actions, in order. Returns the connections whose sockets did not take everything.
    pub(crate) fn carry_out(&mut self, node: u16, actions: &mut Actions, chunk: &[u8]) -> Vec<ConnId> {
        let mut blocked = Vec::new();
        if actions.is_empty() {
            return blocked;
        }
        let mut list = actions.take();
        for action in list.drain(..) {
            if self.trace.records() {
                self.note_action(node, &action, actions, chunk);
            }
            match action {
                Action::Send { conn, piece } => {
                    debug_assert!(piece.source != Source::Chunk || !chunk.is_empty());
                    self.trace.mix(conn.to_bits() ^ u64::from(piece.len));
                    self.trace.see(&conn.to_bits().to_le_bytes());
                    self.trace.see(without_nonces(actions.bytes(piece, chunk)));
                    self.send(node, conn, actions.bytes(piece, chunk), &mut blocked);
                }
                Action::Interest { conn, read, write } => self.interest(node, conn, read, write),
                Action::Close { conn, .. } => {
                    self.trace.see(format!("close {conn:?}").as_bytes());
                    self.close(node, conn);
                }
                Action::Open { conn, address } => {
                    self.trace.see(format!("open {conn:?} {}", address.port).as_bytes());
                    self.open(node, conn, address.port);
                }
                Action::Compute { conn, job } => {
                    let micros = self.random.range(10, 3_000);
                    self.after(micros, Happening::Computed { node, conn, job: Box::new(job) });
                }
                Action::Post { mail, carrying } => self.post(node, mail, carrying),
                Action::Adopt { conn } => self.adopt(node, conn),
                Action::Publish { pool, cell } => {
                    if let Place::Worker(worker) = self.nodes[usize::from(node)].place {
                        self.board.set(pool, worker, cell);
                    }
                }
                Action::PublishClasses { pool, cells } => {
                    if let Place::Worker(worker) = self.nodes[usize::from(node)].place {
                        self.board.set_classes(pool, worker, cells);
                    }
                }
                Action::Finished => self.nodes[usize::from(node)].finished = true,
                Action::AskControl { conn, question } => self.asked(node, conn, question),
                Action::Report { ticket, snapshot } => self.reported(node, ticket, *snapshot),
                Action::Tell(fact) => self.trace.see(fact.text.as_bytes()),
            }
        }
        actions.put_back(list);
        blocked
    }

    fn note_action(&mut self, node: u16, action: &Action, actions: &Actions, chunk: &[u8]) {
        let place = self.nodes[usize::from(node)].place;
        let now = self.now;
        self.trace.line(now, || format!("{place:?}      {}", crate::words::action(action, actions, chunk)));
    }

    fn link_of(&mut self, node: u16, conn: ConnId, what: &str) -> Option<LinkId> {
        let found = self.nodes[usize::from(node)].find(conn);
        if found.is_none() {
            self.fail(1, format!("{what} names {conn:?}, which is not there"));
        }
        found
    }

    fn send(&mut self, node: u16, conn: ConnId, bytes: &[u8], blocked: &mut Vec<ConnId>) {
        let Some(id) = self.link_of(node, conn, "Send") else { return };
        self.check_last_words(id, conn, bytes);
        let Some(link) = self.network.get_mut(id) else { return };
        if !link.stands {
            self.fail(1, format!("Send to {conn:?}, which is not connected"));
            return;
        }
        if link.told || link.broken {
            return;
        }
        if link.peer_closed {
            // Nobody reads it any more: the answer is a reset.
            self.after(200, Happening::Break(id));
            return;
        }
        self.note_request(id, bytes);
        self.note_sent(id, conn, bytes);
        let Some(link) = self.network.get_mut(id) else { return };
        let machine: &mut dyn Machine = self.nodes[usize::from(node)].machinery.machine();
        let mut taken = 0;
        if link.lingering.is_empty() && machine.backlog(conn).is_empty() {
            let mut len = bytes.len().min(link.down.space());
            if len > 1 && self.random.chance(self.plan.weather.pieces / 4) && conn.kind() != Kind::Login {
                len = self.random.skewed(1, len as u64) as usize;
            }
            taken = link.down.write(&bytes[..len]);
        }
        if taken < bytes.len() {
            self.census.short_writes += 1;
            let machine = self.nodes[usize::from(node)].machinery.machine();
            machine.keep(conn, &bytes[taken..]);
            let backlog = machine.backlog(conn).len();
            if backlog == 0 {
                // The machine has done with it and a Close follows: what is left is ours to bring to its end.
                link.lingering.extend_from_slice(&bytes[taken..]);
            }
            self.check_backlog(id, conn, backlog);
            if !blocked.contains(&conn) {
                blocked.push(conn);
            }
        }
        self.pump(id, false);
    }

    fn interest(&mut self, node: u16, conn: ConnId, read: bool, write: bool) {
        let Some(id) = self.link_of(node, conn, "Interest") else { return };
        if let Some(link) = self.network.get_mut(id) {
            if read && !link.read {
                link.read_from = self.now;
            }
            (link.read, link.write) = (read, write);
        }
        self.list(id);
    }

    fn close(&mut self, node: u16, conn: ConnId) {
        let Some(id) = self.link_of(node, conn, "Close") else { return };
        self.nodes[usize::from(node)].forget(conn);
        self.count_closed(id, conn);
        self.close_pooler_side(id);
    }

    /// What was sent is on its way; what was not read is lost.
    pub(crate) fn close_pooler_side(&mut self, id: LinkId) {
        let Some(link) = self.network.get_mut(id) else { return };
        (link.node, link.conn, link.pooler_closed) = (None, None, true);
        let lingering = std::mem::take(&mut link.lingering);
        link.down.force(&lingering);
        link.up.cut(0);
        link.down.end();
        if !link.stands {
            // Never came to be: there is nobody at the other end.
            link.peer_closed = true;
        }
        self.pump(id, false);
        self.network.sweep(id);
    }

    fn open(&mut self, node: u16, conn: ConnId, port: u16) {
        let database = port - 5000;
        let (up, down) = (self.room(), self.room());
        let id = self.network.open(Peer::Postgres { database, backend: None }, up, down);
        if let Some(link) = self.network.get_mut(id) {
            (link.node, link.conn, link.opened_at) = (Some(node), Some(conn), self.now);
        }
        self.nodes[usize::from(node)].register(conn, id);
        self.count_opened(database, conn);
        let delay = self.delay();
        if self.plan_holds() && self.random.chance(self.plan.faults.lost_connects) {
            self.census.connects_lost += 1;
            self.trouble_at = Some(self.now);
            return;
        }
        let down = self.postgres.is_down(database, self.now);
        let refused = down || self.plan_holds() && self.random.chance(self.plan.faults.refused);
        if refused {
            self.census.connects_refused += 1;
            self.trouble_at = Some(self.now);
        }
        self.after(delay, Happening::Connected { link: id, stands: !refused });
    }

    fn post(&mut self, node: u16, mail: Mail, carrying: Option<ConnId>) {
        let link = match carrying {
            Some(conn) => self.link_of(node, conn, "Post"),
            None => None,
        };
        if let (Some(id), Some(conn)) = (link, carrying) {
            self.nodes[usize::from(node)].forget(conn);
            if let Some(link) = self.network.get_mut(id) {
                (link.node, link.conn) = (None, None);
            }
        }
        let lend = mail.lent().is_some();
        let full = mail.may_be_returned() && self.plan_holds() && self.random.chance(self.plan.faults.full_mailbox);
        if full {
            self.census.returned_mail += 1;
            self.note_refusal(node, &mail);
            self.deliver(node, Letter { from: node, at: self.now, mail, carrying: link, returned: true });
            return;
        }
        self.census.lends += u64::from(lend);
        self.census.pools_forgotten += u64::from(matches!(mail, Mail::ToCoordinator(ToCoordinator::Forgotten { .. })));
        let to = mail.place();
        let Some(receiver) = self.nodes.iter().position(|entry| entry.place == to) else {
            self.fail(12, format!("mail to {to:?}, who does not exist"));
            return;
        };
        let receiver = receiver as u16;
        let delay = if self.random.chance(self.plan.weather.late) {
            self.random.range(100, 10_000)
        } else {
            self.random.range(1, 60)
        };
        let last = self.posted.entry((node, receiver)).or_default();
        *last = (*last).max(self.now + delay);
        let at = *last;
        self.note_departure(node, receiver, &mail);
        self.deliver(receiver, Letter { from: node, at, mail, carrying: link, returned: false });
    }

    pub(crate) fn deliver(&mut self, to: u16, letter: Letter) {
        let at = letter.at;
        let letters = &mut self.nodes[usize::from(to)].letters;
        let place = letters.iter().rposition(|other| other.at <= at).map_or(0, |index| index + 1);
        letters.insert(place, letter);
        self.wake_node(to, at);
    }

    fn adopt(&mut self, node: u16, conn: ConnId) {
        let Some(id) = self.adopting.take() else {
            self.fail(12, format!("{conn:?} is adopted, but no connection came along"));
            return;
        };
        if let Some(link) = self.network.get_mut(id) {
            (link.node, link.conn) = (Some(node), Some(conn));
            (link.read, link.write, link.listed) = (true, false, false);
        }
        self.nodes[usize::from(node)].register(conn, id);
        self.note_adoption(conn);
        self.list(id);
    }

    /// Faults happen only while work is going on.
    pub(crate) fn plan_holds(&self) -> bool {
        self.stage == crate::world::Stage::Working
    }
}

/// Bytes as the hash of what is seen has them: of a message that carries a random salt or nonce, its first byte.
fn without_nonces(bytes: &[u8]) -> &[u8] {
    match bytes {
        [b'p', ..] => &bytes[..1],
        [b'R', _, _, _, _, kind @ ..] if kind.get(..4).is_some_and(|kind| kind != [0; 4]) => &bytes[..1],
        _ => bytes,
    }
}
