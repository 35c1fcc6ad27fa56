//! The clock of a world and its future events, in order of time; events of one moment in the order in which they were
//! added.

use crate::secret::Secret;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use machine::work::Job;
use units::ConnId;

use crate::link::LinkId;
use crate::plan::hosts::Place;

/// A future event.
#[derive(Debug)]
pub(crate) enum Happening {
    Round(u16),
    /// Bytes arrive: at the pooler (`up`) or at its peer.
    Arrive {
        link: LinkId,
        up: bool,
    },
    /// A connection that the pooler opens is established, or has failed.
    Connected {
        link: LinkId,
        stands: bool,
    },
    /// The pooler notices that a connection is broken.
    Break(LinkId),
    Client {
        index: u32,
        number: u32,
    },
    Process {
        index: u32,
        number: u32,
    },
    Computed {
        node: u16,
        conn: ConnId,
        job: Box<Job>,
    },
    /// A handshake is done.
    Secured {
        node: u16,
        conn: ConnId,
    },
    /// Something has come to another process of the pooler.
    Sibling(LinkId),
    /// A CancelRequest takes effect, and its connection is closed.
    Strike {
        link: LinkId,
        pid: i32,
        secret: Secret,
    },
    /// The connection of a client's CancelRequest has ended; `is_cut`: by the network.
    CancelEnded {
        index: u32,
        number: u32,
        is_cut: bool,
    },
    Visit,
    Reload,
    /// An administrator gives an order.
    Order,
    /// An administrator orders that a query is cancelled.
    KillQuery,
    /// What is paused or disabled is so no more.
    Relief,
    /// A second later: whoever waits has a server to wait for. When it was.
    Relieved(u64),
    /// It is looked whether servers are closed, for whoever waits for that.
    Review,
    Trouble,
    /// A host goes down, or a name moves.
    Wander,
    /// This host of a database is promoted.
    Promoted(Place),
    /// This host was frozen, and answers again.
    Thawed(Place),
    /// The host is restarted as a standby.
    Demoted(Place),
    /// Checks whether servers at a frozen host are closed in time.
    Vigil(Place),
    /// Half a second after the primary of a database was decided: no server is open at another host. When it was decided.
    Fenced(usize, u64),
    /// The prober asks a host, unless it is to do so at another time.
    Probe {
        place: Place,
        at: u64,
    },
    /// The prober has the answer, or has waited for long enough.
    Probed(Place),
    /// Half a second after a database's name has moved: nobody is idle where it was. When it moved.
    Moved(usize, u64),
    /// Check whether the last faults are over and the last clients gone.
    Closing,
}

#[derive(Debug)]
struct Scheduled {
    at: u64,
    order: u64,
    what: Happening,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Scheduled) -> bool {
        self.order == other.order
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Scheduled) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Scheduled) -> Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// The clock, and the future events.
#[derive(Debug)]
pub(crate) struct Agenda {
    now: u64,
    heap: BinaryHeap<Reverse<Scheduled>>,
    order: u64,
}

impl Default for Agenda {
    fn default() -> Agenda {
        Agenda { now: 1, heap: BinaryHeap::new(), order: 0 }
    }
}

impl Agenda {
    /// In microseconds.
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// A time in the past means now.
    pub(crate) fn at(&mut self, at: u64, what: Happening) {
        self.order += 1;
        self.heap.push(Reverse(Scheduled { at: at.max(self.now), order: self.order, what }));
    }

    /// Takes the next event and sets the clock to its time.
    pub(crate) fn next(&mut self) -> Option<Happening> {
        let Reverse(moment) = self.heap.pop()?;
        self.now = moment.at;
        Some(moment.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_of_one_moment_the_first() {
        let mut agenda = Agenda::default();
        agenda.at(5, Happening::Reload);
        agenda.at(3, Happening::Round(1));
        agenda.at(3, Happening::Round(2));
        assert!(matches!(agenda.next(), Some(Happening::Round(1))));
        assert!(matches!(agenda.next(), Some(Happening::Round(2))));
        agenda.at(0, Happening::Visit);
        assert!(matches!(agenda.next(), Some(Happening::Visit)));
        assert_eq!(agenda.now(), 3);
        assert!(matches!(agenda.next(), Some(Happening::Reload)) && agenda.next().is_none());
    }
}
