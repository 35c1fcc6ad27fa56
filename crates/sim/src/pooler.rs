//! The pooler of a world: its machines and the connections that they have.
//!
//! Moves bytes and wakes machines and peers for them. What peers do with them is in `world`.

use std::sync::Arc;

use machine::{Action, Actions, Event, Mail, Peer as Address, Stop};
use units::ConnId;

use crate::agenda::Happening;
use crate::course::Course;
use crate::link::{Leaving, LinkId, Peer, ProcessName};
use crate::machines::Machines;
use crate::network::Network;
use crate::secret::Secret;

#[derive(Debug)]
pub(crate) struct Pooler {
    pub(crate) machines: Machines,
    pub(crate) network: Network,
    /// Connections that the kernel has taken and the door has not: SUSPEND is in force. `None`: it accepts.
    unaccepted: Option<Vec<LinkId>>,
}

impl Pooler {
    pub(crate) fn new(course: &mut Course) -> Pooler {
        Pooler { machines: Machines::new(course), network: Network::default(), unaccepted: None }
    }

    /// The connection with this id at a machine.
    pub(crate) fn find(&self, node: u16, conn: ConnId) -> Option<LinkId> {
        self.machines.node(node).find(conn)
    }

    /// The same for a connection in an action: it must exist (I1).
    pub(crate) fn named(&self, course: &mut Course, node: u16, conn: ConnId, what: &str) -> Option<LinkId> {
        let found = self.find(node, conn);
        if found.is_none() {
            course.fail(1, format!("{what} names {conn:?}, which is not there"));
        }
        found
    }

    /// The peer of a machine's connection.
    pub(crate) fn peer(&self, node: u16, conn: ConnId) -> Option<Peer> {
        self.find(node, conn).and_then(|id| self.network.get(id)).map(|link| link.peer.who)
    }

    /// Writes a machine's event to the trace.
    pub(crate) fn note_event(&self, course: &mut Course, node: u16, event: &Event<'_>) {
        let (code, conn, detail) = match event {
            Event::Received { conn, bytes } => (1, Some(*conn), bytes.len() as u64),
            Event::Hangup { conn, why } => (2, Some(*conn), *why as u64),
            Event::Blocked { conn } => (3, Some(*conn), 0),
            Event::Drained { conn, count } => (4, Some(*conn), *count as u64),
            Event::Opened { conn, .. } => (5, Some(*conn), 0),
            Event::OpenFailed { conn, .. } => (6, Some(*conn), 0),
            Event::Computed { conn, .. } => (7, Some(*conn), 0),
            Event::Answered { conn, .. } => (15, Some(*conn), 0),
            Event::Weighed { conn, bytes } => (14, Some(*conn), *bytes as u64),
            Event::Secured { conn, .. } => (13, Some(*conn), 0),
            Event::Mail(_) => (8, None, 0),
            Event::Returned(_) => (9, None, 0),
            Event::Renewed { life, .. } => (12, None, u64::from(life.0)),
            Event::DeadlineReached => (10, None, 0),
            Event::RoundEnded => (11, None, 0),
        };
        let now = course.now();
        course.trace.mix(now);
        course.trace.mix(u64::from(node) << 8 | code);
        course.trace.mix(conn.map_or(0, ConnId::to_bits) ^ detail);
        if !matches!(event, Event::RoundEnded) {
            let place = self.machines.node(node).place;
            course.note(|| format!("{place:?} ── {}", crate::words::event(event)));
        }
    }

    /// Writes a machine's action to the trace.
    pub(crate) fn note_action(&self, course: &mut Course, node: u16, action: &Action, actions: &Actions, chunk: &[u8]) {
        let place = self.machines.node(node).place;
        course.note(|| format!("{place:?}      {}", crate::words::action(action, actions, chunk)));
    }

    /// A connection may have an event for its machine.
    pub(crate) fn list(&mut self, course: &mut Course, id: LinkId) {
        let Some(link) = self.network.get_mut(id) else { return };
        let (Some((node, conn)), false) = (link.pooler.home, link.pooler.listed) else { return };
        if !self.machines.node(node).has_news(conn, link) {
            return;
        }
        link.pooler.listed = true;
        self.machines.list(course, node, id);
    }

    /// A piece of what is on its way arrives at the pooler (`up`), or at its peer.
    pub(crate) fn arrive(&mut self, course: &mut Course, id: LinkId, up: bool) {
        if !self.network.arrive(course, id, up) {
            return;
        }
        if up {
            self.list(course, id);
        } else {
            self.wake_peer(course, id);
        }
    }

    /// A connection that the pooler opens has reached PostgreSQL, which starts a process for it; or it has failed.
    pub(crate) fn connected(
        &mut self,
        course: &mut Course,
        id: LinkId,
        stands: bool,
        connect: impl FnOnce(&mut Course, u16) -> ProcessName,
    ) {
        let Some(link) = self.network.get_mut(id).filter(|link| !link.pooler.closed) else { return };
        link.opened = Some(stands);
        if stands {
            if let Peer::Postgres { database, .. } = link.peer.who {
                // It can be read and written from now on, though the pooler gets the event a little later.
                let process = Some(connect(course, database));
                link.peer.who = Peer::Postgres { database, process };
            }
        } else {
            link.peer.closed = true;
        }
        self.list(course, id);
    }

    fn wake_peer(&mut self, course: &mut Course, id: LinkId) {
        let Some(link) = self.network.get(id).filter(|link| !link.peer.closed) else { return };
        match link.peer.who {
            Peer::Client(index, number) => course.after(0, Happening::Client { index, number }),
            Peer::Postgres { process: Some(name), .. } => {
                course.after(0, Happening::Process { index: name.index, number: name.number });
            }
            Peer::Postgres { process: None, .. } => {}
            Peer::Sibling(_) => course.after(0, Happening::Sibling(id)),
            Peer::Canceller(client) => {
                // It only waits for the end.
                if link.down.end_arrived {
                    self.close_peer(course, id, Leaving::Orderly);
                    if let Some((index, number)) = client {
                        course.after(0, Happening::CancelEnded { index, number, is_cut: false });
                    }
                }
            }
        }
    }

    /// The pooler has read something: a writer that waited for room may continue.
    pub(crate) fn peer_may_write(&mut self, course: &mut Course, id: LinkId) {
        let Some(link) = self.network.get_mut(id) else { return };
        if std::mem::take(&mut link.peer.blocked) {
            self.wake_peer(course, id);
        }
    }

    /// The peer closes its end, or its host is cut off.
    pub(crate) fn close_peer(&mut self, course: &mut Course, id: LinkId, how: Leaving) {
        if self.network.close_peer(course, id, how) {
            // A writer of the pooler may have waited for room, which there is now.
            self.update_link(course, id);
        }
    }

    /// A connection breaks. Returns the peer, if it had not closed its end; `update_link` must follow.
    pub(crate) fn break_off(&mut self, course: &mut Course, id: LinkId) -> Option<Peer> {
        let link = self.network.get_mut(id).filter(|link| !link.broken)?;
        link.broken = true;
        if link.peer.closed {
            self.update_link(course, id);
            return None;
        }
        // A cut by the network: the peer notices it as well.
        course.census.network.cuts += 1;
        let who = link.peer.who;
        self.close_peer(course, id, Leaving::Cut);
        Some(who)
    }

    /// After a change of a connection: puts it on its machine's list, or forgets it if it has ended.
    pub(crate) fn update_link(&mut self, course: &mut Course, id: LinkId) {
        self.list(course, id);
        self.network.sweep(id);
    }

    /// A peer connects to the door.
    pub(crate) fn connect_to_door(&mut self, course: &mut Course, peer: Peer) -> LinkId {
        let (up, down) = (course.room(), course.room());
        let id = self.network.open(peer, up, down);
        if let Some(link) = self.network.get_mut(id) {
            link.stands = true;
        }
        match &mut self.unaccepted {
            Some(unaccepted) => unaccepted.push(id),
            None => self.accept(course, id),
        }
        id
    }

    /// The door accepts those who come, and those who have waited for that; or it lets them wait.
    pub(crate) fn set_accepting(&mut self, course: &mut Course, accepts: bool) {
        if !accepts {
            self.unaccepted.get_or_insert_default();
            return;
        }
        for id in self.unaccepted.take().into_iter().flatten() {
            self.accept(course, id);
            self.update_link(course, id);
        }
    }

    fn accept(&mut self, course: &mut Course, id: LinkId) {
        let address = Address::Tcp {
            from: std::net::SocketAddr::from(([10, 0, 0, 1], 1000)),
            to: std::net::SocketAddr::from(([10, 0, 0, 2], 6432)),
        };
        let Some((node, conn)) = self.machines.accept(course.now(), address) else {
            return course.fail(8, "the door takes nobody any more");
        };
        self.adopt(node, conn, id);
        self.machines.wake(course, node, course.now() + 1);
    }

    /// A machine adopts a connection under this id.
    pub(crate) fn adopt(&mut self, node: u16, conn: ConnId, id: LinkId) {
        self.machines.node_mut(node).register(conn, id);
        if let Some(link) = self.network.get_mut(id) {
            link.pooler.home = Some((node, conn));
        }
    }

    /// Sets a machine's interest in reading and writing.
    pub(crate) fn set_interest(&mut self, course: &mut Course, node: u16, conn: ConnId, (read, write): (bool, bool)) {
        let Some(id) = self.named(course, node, conn, "Interest") else { return };
        if let Some(link) = self.network.get_mut(id) {
            if read && !link.pooler.read {
                link.pooler.read_from = course.now();
            }
            (link.pooler.read, link.pooler.write) = (read, write);
        }
        self.list(course, id);
    }

    /// A machine hands a connection over.
    pub(crate) fn give_away(&mut self, node: u16, conn: ConnId, id: LinkId) {
        self.machines.node_mut(node).forget(conn);
        if let Some(link) = self.network.get_mut(id) {
            link.pooler.home = None;
        }
    }

    /// All machines get the current settings.
    pub(crate) fn configure(&mut self, course: &mut Course) {
        course.note(|| "settings are reloaded".to_owned());
        let settings = Arc::clone(&course.plan.settings);
        self.machines.deliver_to_all(course, |place| Mail::configure(place, Arc::clone(&settings)));
    }

    /// The machines get the message to stop.
    pub(crate) fn stop(&mut self, course: &mut Course, stop: Stop) {
        course.census.world.stops += 1;
        course.note(|| format!("the pooler is stopped: {stop:?}"));
        self.machines.deliver_to_some(course, |place| stop.is_sent_to(place).then(|| Mail::stop(place, stop)));
    }

    /// A CancelRequest, on a connection of its own. `client`: it waits for the end of this connection.
    pub(crate) fn send_cancel(&mut self, course: &mut Course, pid: i32, secret: Secret, client: Option<(u32, u32)>) {
        let id = self.connect_to_door(course, Peer::Canceller(client));
        let mut packet = Vec::new();
        wire::frontend::CancelRequest { pid, secret: secret.as_slice() }.encode(&mut packet);
        // Sometimes it is cut, at any byte.
        let (cuts, random) = (course.plan.faults.cuts, &mut course.random);
        let cut = random.chance(cuts).then(|| random.below(packet.len() as u64) as usize);
        if let Some(link) = self.network.get_mut(id) {
            link.up.force(&packet[..cut.unwrap_or(packet.len())]);
        }
        self.network.pump(course, id, true);
        if cut.is_some() {
            course.census.cancels.cut += 1;
            let how = if course.random.chance(500) { Leaving::Orderly } else { Leaving::Cut };
            self.close_peer(course, id, how);
            if let Some((index, number)) = client {
                course.after(0, Happening::CancelEnded { index, number, is_cut: true });
            }
        }
    }
}
