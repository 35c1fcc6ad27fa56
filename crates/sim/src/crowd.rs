//! The model clients of a world: those present, those to come, and facts about those that have left.

use std::cell::RefCell;
use std::rc::Rc;

use crate::agenda::Happening;
use crate::book::Book;
use crate::client::Client;
use crate::course::Course;
use crate::link::LinkId;

/// Facts about a client that the client does not know; kept after it has left.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Visitor {
    pub(crate) gone: bool,
    /// The number of CancelRequests that it has sent, and the number of its queries that were interrupted.
    pub(crate) cancels: u32,
    pub(crate) struck: u32,
    /// As many of its CancelRequests have struck nothing, and can no more.
    forfeited: u32,
}

impl Visitor {
    /// How often its queries may be interrupted in all.
    pub(crate) fn may_be_struck(&self) -> u32 {
        self.cancels - self.forfeited
    }
}

#[derive(Debug)]
pub(crate) struct Crowd {
    clients: Vec<Option<Box<Client>>>,
    visitors: Vec<Visitor>,
    present: u32,
    visits_left: u32,
}

impl Crowd {
    /// `visits`: how many clients come in all.
    pub(crate) fn new(visits: u32) -> Crowd {
        Crowd { clients: Vec::new(), visitors: Vec::new(), present: 0, visits_left: visits }
    }

    pub(crate) fn visits_left(&self) -> u32 {
        self.visits_left
    }

    /// No more clients come.
    pub(crate) fn end_visits(&mut self) {
        self.visits_left = 0;
    }

    /// How many clients are present.
    pub(crate) fn present(&self) -> u32 {
        self.present
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Client> {
        self.clients.iter().flatten().map(|client| &**client)
    }

    /// The place and the number of the next one to come, if more are to come.
    pub(crate) fn next_visit(&mut self) -> Option<(u32, u32)> {
        self.visits_left = self.visits_left.checked_sub(1)?;
        let number = self.visitors.len() as u32;
        self.visitors.push(Visitor::default());
        let index = match self.clients.iter().position(Option::is_none) {
            Some(free) => free,
            None => {
                self.clients.push(None);
                self.clients.len() - 1
            }
        };
        Some((index as u32, number))
    }

    /// A client comes.
    pub(crate) fn enter(&mut self, course: &mut Course, book: &Rc<RefCell<Book>>, (index, link): (u32, LinkId)) {
        let number = self.visitors.len() as u32 - 1;
        let now = course.now();
        let mut client = Client::new(number, link, &course.plan, book, &mut course.random, now);
        client.greet(&course.plan, &mut course.random);
        if course.random.chance(course.plan.faults.cuts) {
            let after = course.random.skewed(100, 2_000_000);
            course.after(after, Happening::Break(link));
        }
        self.clients[index as usize] = Some(Box::new(client));
        self.present += 1;
        course.note(|| format!("client {number} comes"));
        course.after(1, Happening::Client { index, number });
    }

    /// A client leaves, if it is present; another one comes in its place, if more are to come. Returns its number.
    pub(crate) fn leave(&mut self, course: &mut Course, index: u32) -> Option<u32> {
        let number = self.clients[index as usize].take()?.number();
        self.visitors[number as usize].gone = true;
        self.present -= 1;
        course.note(|| format!("client {number} leaves"));
        let pause = course.random.below(course.plan.manners.think_max + 500);
        course.after(pause, Happening::Visit);
        Some(number)
    }

    /// The client in this place, if it has this number.
    pub(crate) fn at(&self, index: u32, number: u32) -> Option<&Client> {
        self.clients[index as usize].as_deref().filter(|client| client.number() == number)
    }

    pub(crate) fn at_mut(&mut self, index: u32, number: u32) -> Option<&mut Client> {
        self.clients[index as usize].as_deref_mut().filter(|client| client.number() == number)
    }

    pub(crate) fn find(&self, number: u32) -> Option<&Client> {
        self.iter().find(|client| client.number() == number)
    }

    pub(crate) fn find_mut(&mut self, number: u32) -> Option<&mut Client> {
        self.clients.iter_mut().flatten().map(|client| &mut **client).find(|client| client.number() == number)
    }

    /// Notes how many CancelRequests a client has sent, and whether it takes all of them as over.
    pub(crate) fn note_cancels(&mut self, number: u32, cancels: u32, is_over: bool) {
        let visitor = &mut self.visitors[number as usize];
        visitor.cancels = cancels;
        if is_over {
            visitor.forfeited = cancels.saturating_sub(visitor.struck);
        }
    }

    pub(crate) fn visitor(&self, number: u32) -> Option<Visitor> {
        self.visitors.get(number as usize).copied()
    }

    /// Notes that a cancel has interrupted a query of this client.
    pub(crate) fn note_struck(&mut self, number: u32) -> Option<Visitor> {
        let visitor = self.visitors.get_mut(number as usize)?;
        visitor.struck += 1;
        Some(*visitor)
    }

    /// A notification was sent on a channel.
    pub(crate) fn expect_notification(&mut self, channel: &str, payload: &str, now: u64) {
        self.clients.iter_mut().flatten().for_each(|client| client.expect_notification(channel, payload, now));
    }

    /// Clients make no more pauses.
    pub(crate) fn hurry(&mut self, course: &mut Course) {
        for (index, client) in self.clients.iter_mut().enumerate() {
            let Some(client) = client else { continue };
            client.habits.pace = 0;
            course.after(1, Happening::Client { index: index as u32, number: client.number() });
        }
    }
}
