//! What the network does between the pooler and its peers: delays, pieces, ends and breaks.

use pooling::Peer as Address;

use crate::network::{Leaving, LinkId, Peer};
use crate::world::{Happening, World};

impl World {
    /// How long something takes on its way.
    pub(crate) fn delay(&mut self) -> u64 {
        let weather = self.plan.weather;
        let delay = self.random.range(weather.delay_min, weather.delay_max);
        if self.random.chance(weather.late) { delay * 100 } else { delay }
    }

    /// How much a socket's buffer holds.
    pub(crate) fn room(&mut self) -> usize {
        let weather = self.plan.weather;
        self.random.skewed(weather.room_min, weather.room_max) as usize
    }

    /// Keeps a stream moving: `up` is towards the pooler.
    pub(crate) fn pump(&mut self, id: LinkId, up: bool) {
        let Some(link) = self.network.get_mut(id) else { return };
        let pipe = if up { &mut link.up } else { &mut link.down };
        if pipe.moving || !pipe.is_pending() {
            return;
        }
        pipe.moving = true;
        let delay = self.delay();
        self.after(delay, Happening::Arrive { link: id, up });
    }

    pub(crate) fn arrive(&mut self, id: LinkId, up: bool) {
        let short = self.random.chance(self.plan.weather.pieces);
        let Some(link) = self.network.get_mut(id) else { return };
        let pipe = if up { &mut link.up } else { &mut link.down };
        pipe.moving = false;
        let mut count = pipe.in_flight();
        if short && count > 1 {
            let bytewise = self.plan.weather.bytewise;
            count = if bytewise { 1 } else { self.random.skewed(1, count as u64) as usize };
        }
        pipe.arrive(count);
        self.pump(id, up);
        if up {
            self.last_words_arrive(id);
            self.list(id);
        } else {
            self.wake_peer(id);
        }
    }

    pub(crate) fn wake_peer(&mut self, id: LinkId) {
        let Some(link) = self.network.get(id) else { return };
        if link.peer_closed {
            return;
        }
        match link.peer {
            Peer::Client(index, number) => self.after(0, Happening::Client { index, number }),
            Peer::Postgres { backend: Some(index), .. } => {
                let number = self.postgres.number(index);
                self.after(0, Happening::Process { index, number });
            }
            Peer::Postgres { backend: None, .. } => {}
            Peer::Canceller => {
                // It only waits for the end.
                if link.down.end_arrived {
                    self.close_peer_side(id, Leaving::Orderly);
                }
            }
        }
    }

    /// The pooler has read something: a writer that was short may go on.
    pub(crate) fn peer_may_write(&mut self, id: LinkId) {
        let Some(link) = self.network.get_mut(id) else { return };
        if std::mem::take(&mut link.peer_blocked) {
            self.wake_peer(id);
        }
    }

    /// The peer closes its end, or its machine is cut off.
    pub(crate) fn close_peer_side(&mut self, id: LinkId, how: Leaving) {
        let Some(link) = self.network.get_mut(id) else { return };
        if link.peer_closed {
            return;
        }
        link.peer_closed = true;
        link.down.cut(0);
        match how {
            Leaving::Orderly => {
                link.up.end();
                self.pump(id, true);
            }
            Leaving::Cut => {
                let in_flight = link.up.len() as u64;
                let kept = self.random.below(in_flight + 1) as usize;
                if let Some(link) = self.network.get_mut(id) {
                    link.up.cut(kept);
                }
                self.pump(id, true);
                let delay = self.delay();
                self.after(delay, Happening::Break(id));
            }
        }
        // A writer of ours may have been waiting for room, which there is now.
        self.list(id);
        self.network.sweep(id);
    }

    /// The pooler's side learns that the connection is broken.
    pub(crate) fn break_link(&mut self, id: LinkId) {
        let Some(link) = self.network.get_mut(id) else { return };
        if link.broken {
            return;
        }
        link.broken = true;
        if !link.peer_closed {
            // A cut from outside: the peer notices as well.
            self.census.cuts += 1;
            match link.peer {
                Peer::Client(index, _) => {
                    self.close_peer_side(id, Leaving::Cut);
                    self.client_left(index);
                }
                Peer::Postgres { .. } | Peer::Canceller => self.close_peer_side(id, Leaving::Cut),
            }
        }
        self.list(id);
        self.network.sweep(id);
    }

    pub(crate) fn connect_to_door(&mut self, peer: Peer) -> LinkId {
        let (up, down) = (self.room(), self.room());
        let id = self.network.open(peer, up, down);
        let address = Address::Tcp {
            from: std::net::SocketAddr::from(([10, 0, 0, 1], 1000)),
            to: std::net::SocketAddr::from(([10, 0, 0, 2], 6432)),
        };
        let crate::rounds::Machinery::Door(door) = &mut self.nodes[0].machinery else { return id };
        let Some(conn) = door.accept(units::Time(self.now), address) else {
            self.fail(8, "the door takes nobody any more");
            return id;
        };
        self.nodes[0].register(conn, id);
        if let Some(link) = self.network.get_mut(id) {
            (link.node, link.conn, link.stands) = (Some(0), Some(conn), true);
        }
        self.wake_node(0, self.now + 1);
        id
    }

    pub(crate) fn client_awakes(&mut self, index: u32, number: u32) {
        let present = self.clients[index as usize].as_ref().is_some_and(|client| client.number == number);
        if !present {
            return;
        }
        let Some(mut client) = self.clients[index as usize].take() else { return };
        let (id, facts) = (client.link, self.circumstances());
        let Some(link) = self.network.get_mut(id) else { return };
        let was_ready = client.is_ready();
        let unread = link.down.len();
        let woken = client.wake(facts, &self.plan, &mut self.random, &mut self.census, link);
        link.peer_blocked = true;
        let read = link.down.len() < unread;
        self.census.logins += u64::from(!was_ready && client.is_ready());
        self.visitors[number as usize].cancels = client.cancels_sent;
        self.clients[index as usize] = Some(client);
        let found = self.book.borrow_mut().take_complaint();
        if let Some(complaint) = found {
            self.fail(complaint.invariant, complaint.text);
        }
        let wants = match woken {
            Ok(wants) => wants,
            Err((invariant, text)) => return self.fail(invariant, text),
        };
        self.pump(id, true);
        if read {
            self.list(id);
        }
        if let Some((pid, secret)) = wants.cancel {
            self.send_cancel(pid, secret);
        }
        if let Some(how) = wants.leave {
            self.close_peer_side(id, how);
            self.client_left(index);
        } else if let Some(micros) = wants.again {
            self.after(micros.max(1), Happening::Client { index, number });
        }
    }

    /// A CancelRequest, on a connection of its own.
    fn send_cancel(&mut self, pid: i32, secret: [u8; 4]) {
        let id = self.connect_to_door(Peer::Canceller);
        let mut packet = Vec::new();
        wire::frontend::CancelRequest { pid, secret: &secret }.encode(&mut packet);
        // Sometimes it is cut, at any byte.
        let cut = self.random.chance(self.plan.faults.cuts).then(|| self.random.below(packet.len() as u64) as usize);
        if let Some(link) = self.network.get_mut(id) {
            link.up.force(&packet[..cut.unwrap_or(packet.len())]);
        }
        self.pump(id, true);
        if cut.is_some() {
            self.census.cancels_cut += 1;
            let how = if self.random.chance(500) { Leaving::Orderly } else { Leaving::Cut };
            self.close_peer_side(id, how);
        }
    }
}
