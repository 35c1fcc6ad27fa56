//! All connections of a world, with the network's effects on them: delays, pieces, ends and breaks.

use crate::agenda::Happening;
use crate::course::Course;
use crate::link::{Leaving, Link, LinkId, Peer};

/// All connections.
#[derive(Debug, Default)]
pub(crate) struct Network {
    links: Vec<(u32, Option<Box<Link>>)>,
    free: Vec<u32>,
    live: usize,
}

impl Network {
    pub(crate) fn open(&mut self, peer: Peer, up_room: usize, down_room: usize) -> LinkId {
        let link = Link::new(peer, up_room, down_room);
        self.live += 1;
        let index = self.free.pop().unwrap_or_else(|| {
            self.links.push((0, None));
            self.links.len() as u32 - 1
        });
        let slot = &mut self.links[index as usize];
        slot.1 = Some(Box::new(link));
        LinkId { index, generation: slot.0 }
    }

    #[must_use]
    pub(crate) fn get(&self, id: LinkId) -> Option<&Link> {
        let slot = self.links.get(id.index as usize)?;
        slot.1.as_deref().filter(|_| slot.0 == id.generation)
    }

    #[must_use]
    pub(crate) fn get_mut(&mut self, id: LinkId) -> Option<&mut Link> {
        let slot = self.links.get_mut(id.index as usize)?;
        slot.1.as_deref_mut().filter(|_| slot.0 == id.generation)
    }

    /// Forgets a connection that both sides have closed.
    pub(crate) fn sweep(&mut self, id: LinkId) {
        let over = self.get(id).is_some_and(|link| link.pooler.closed && link.peer.closed);
        if over {
            let slot = &mut self.links[id.index as usize];
            slot.0 += 1;
            slot.1 = None;
            self.free.push(id.index);
            self.live -= 1;
        }
    }

    #[must_use]
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (LinkId, &Link)> {
        self.links.iter().enumerate().filter_map(|(index, (generation, link))| {
            let id = LinkId { index: index as u32, generation: *generation };
            link.as_deref().map(|link| (id, link))
        })
    }

    /// Schedules the next arrival of a stream; `up`: towards the pooler.
    pub(crate) fn pump(&mut self, course: &mut Course, id: LinkId, up: bool) {
        let Some(link) = self.get_mut(id) else { return };
        let pipe = if up { &mut link.up } else { &mut link.down };
        if pipe.moving || !pipe.is_pending() {
            return;
        }
        pipe.moving = true;
        let delay = course.delay();
        course.after(delay, Happening::Arrive { link: id, up });
    }

    /// How many bytes a peer has written to its connection, if that exists.
    pub(crate) fn written(&self, id: LinkId) -> Option<u64> {
        self.get(id).map(|link| link.up.written())
    }

    /// A piece of what is on its way arrives. False: the connection is gone.
    pub(crate) fn arrive(&mut self, course: &mut Course, id: LinkId, up: bool) -> bool {
        let short = course.random.chance(course.plan.weather.pieces);
        let Some(link) = self.get_mut(id) else { return false };
        let pipe = if up { &mut link.up } else { &mut link.down };
        pipe.moving = false;
        let mut count = pipe.in_flight();
        if short && count > 1 {
            let bytewise = course.plan.weather.bytewise;
            count = if bytewise { 1 } else { course.random.skewed(1, count as u64) as usize };
        }
        pipe.arrive(count);
        self.pump(course, id, up);
        if let Some(link) = self.get_mut(id).filter(|_| up) {
            link.note_last_words(course.now());
        }
        true
    }

    /// The peer closes its end, or its host is cut off. False: it was closed before.
    pub(crate) fn close_peer(&mut self, course: &mut Course, id: LinkId, how: Leaving) -> bool {
        let Some(link) = self.get_mut(id).filter(|link| !link.peer.closed) else { return false };
        link.peer.closed = true;
        link.down.cut(0);
        match how {
            Leaving::Orderly => {
                link.up.end();
                self.pump(course, id, true);
            }
            Leaving::Cut => {
                let in_flight = link.up.len() as u64;
                link.up.cut(course.random.below(in_flight + 1) as usize);
                self.pump(course, id, true);
                let delay = course.delay();
                course.after(delay, Happening::Break(id));
            }
        }
        true
    }

    /// The pooler closes its end: what was sent is on its way; what was not read is lost.
    pub(crate) fn close_pooler(&mut self, course: &mut Course, id: LinkId) {
        let Some(link) = self.get_mut(id) else { return };
        (link.pooler.home, link.pooler.closed) = (None, true);
        let lingering = std::mem::take(&mut link.pooler.lingering);
        link.down.force(&lingering);
        link.up.cut(0);
        link.down.end();
        if !link.stands {
            // It was never established: there is no other end.
            link.peer.closed = true;
        }
        self.pump(course, id, false);
        self.sweep(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_name_finds_nothing() {
        let mut network = Network::default();
        let first = network.open(Peer::Canceller(None), 1, 1);
        let link = network.get_mut(first).expect("just opened");
        (link.pooler.closed, link.peer.closed) = (true, true);
        network.sweep(first);
        let second = network.open(Peer::Canceller(None), 1, 1);
        assert!(network.get(first).is_none() && network.get(second).is_some());
    }
}
