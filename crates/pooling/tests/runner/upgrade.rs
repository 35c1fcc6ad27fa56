//! Another process takes the place of the one that is played: what moves goes there by way of the bytes that are really sent, and from then on
//! that one is played. What has not moved is lost to the transcript, which says so.

use std::collections::{BTreeMap, VecDeque};

use machine::action::Placed;
use machine::mail::TakeIn;
use machine::processes::{FromProcess, ToGranter, ToProcess};
use machine::upgrade::{Luggage, ToPlace, Turn};
use machine::{Event, Mail, Place, ToCoordinator, ToWorker};
use units::{ConnId, Kind, ProcessId, Time};

use super::world::{Letter, World};

/// What has been told for the other process, in order.
#[derive(Default)]
pub(crate) struct Told {
    all: VecDeque<ToGranter>,
    luggage: VecDeque<(Box<Luggage>, Vec<usize>)>,
    /// Being placed, by their tickets.
    placing: BTreeMap<u64, (Box<Luggage>, Vec<usize>)>,
}

impl World {
    /// The machines send mail to another process.
    pub(crate) fn post_to_process(&mut self, mail: ToProcess) {
        match mail {
            ToProcess::ToGranter(told) => self.told.all.push_back(told),
            ToProcess::ToMember(_) => {}
            ToProcess::Moved(luggage, conns) => {
                let sockets: Vec<usize> = conns.into_iter().filter_map(|conn| self.give_up(conn)).collect();
                let names: Vec<&str> = sockets.iter().map(|socket| &*self.sockets[*socket].name).collect();
                let words = format!("{} moves", names.join(" with server "));
                self.note(words.replace("server server", "server"));
                self.told.luggage.push_back((luggage, sockets));
            }
        }
    }

    /// What was to be placed has a home.
    pub(crate) fn placed(&mut self, ticket: u64, place: Option<Placed>) {
        let (luggage, sockets) = self.told.placing.remove(&ticket).expect("it was asked for");
        let Placed { worker, pool, homes, life } = place.expect("there are few pools");
        let take_in = Box::new(TakeIn { luggage: *luggage, pool, homes, life });
        self.post_with(Mail::ToWorker(worker, ToWorker::TakeIn(take_in)), sockets);
    }

    /// `upgrade begins`
    pub(crate) fn begin_upgrade(&mut self) {
        self.tell_coordinator(Turn::HandOver);
        self.run_until_idle();
    }

    /// `upgrade is late`
    pub(crate) fn end_what_stays(&mut self) {
        self.tell_coordinator(Turn::EndWhatStays);
    }

    /// `upgrade fails`: the other process has died, and with it all that it was told and given.
    pub(crate) fn fail_upgrade(&mut self) {
        self.told = Told::default();
        self.hear_process(ProcessId::Successor, FromProcess::Left);
    }

    /// `upgrade [showing all]`
    pub(crate) fn upgrade(&mut self, shows: bool) -> Result<(), String> {
        self.begin_upgrade();
        let stay: Vec<String> = self.names_of_clients();
        let told = std::mem::take(&mut self.told);
        let mut new = World::new(self.settings.clone());
        new.now = self.now.max(Time(1));
        self.take_machines(new);
        for name in stay {
            self.note(format!("{name} stays behind"));
        }
        let mut tickets = 0;
        let mut luggage = told.luggage;
        for told in told.all {
            self.hear_process(ProcessId::Predecessor, FromProcess::ToGranter(through_bytes(&told)?));
        }
        while let Some((moved, sockets)) = luggage.pop_front() {
            let moved: Box<Luggage> = Box::new(through_bytes(&*moved)?);
            if shows {
                spelled(&format!("{moved:?}")).into_iter().for_each(|line| self.note(line));
            }
            let session = moved.session.as_ref();
            tickets += 1;
            let to_place = ToPlace {
                ticket: tickets,
                key: moved.key.clone(),
                session: session.map(|session| session.identity.user.clone()),
                console: session.is_some_and(|session| session.console.is_some()),
                server: moved.server.is_some(),
                from: Some(ProcessId::Predecessor),
            };
            self.told.placing.insert(tickets, (moved, sockets));
            self.tell_coordinator(Turn::Place(to_place));
        }
        self.hear_process(ProcessId::Predecessor, FromProcess::Left);
        self.run_until_idle();
        Ok(())
    }

    /// A connection leaves: its socket.
    fn give_up(&mut self, conn: ConnId) -> Option<usize> {
        let socket = self.by_id.remove(&conn)?;
        (self.sockets[socket].id, self.sockets[socket].logged_as) = (None, None);
        Some(socket)
    }

    /// Other machines are played from now on, by the same sockets.
    fn take_machines(&mut self, other: World) {
        self.workers = other.workers;
        (self.door, self.coordinator, self.lives) = (other.door, other.coordinator, other.lives);
        (self.board, self.written) = (other.board, other.written);
        // They call everything by names of their own.
        self.sockets.iter_mut().for_each(|socket| socket.logged_as = None);
        self.by_id.clear();
        self.first_ids.clear();
        self.letters.clear();
    }

    /// Clients that are still here.
    fn names_of_clients(&self) -> Vec<String> {
        let is_client = |conn: &ConnId| conn.kind() == Kind::Client;
        let here = self.by_id.iter().filter(|(conn, _)| is_client(conn));
        here.map(|(_, socket)| self.sockets[*socket].name.clone()).collect()
    }

    /// Mail with the sockets of what has moved.
    fn post_with(&mut self, mail: Mail, sockets: Vec<usize>) {
        let mut sockets = sockets.into_iter();
        let (carrying, companion) = (sockets.next(), sockets.next());
        self.letters.push_back(Letter { mail, carrying, companion });
    }

    fn hear_process(&mut self, from: ProcessId, said: FromProcess) {
        let mail = ToCoordinator::Process(from, Box::new(said));
        self.step(Place::Coordinator, Event::Mail(Mail::ToCoordinator(mail)));
    }

    fn tell_coordinator(&mut self, turn: Turn) {
        let mail = ToCoordinator::Upgrade(Box::new(turn));
        self.step(Place::Coordinator, Event::Mail(Mail::ToCoordinator(mail)));
    }
}

/// As the other process reads it.
fn through_bytes<T: serde::Serialize + serde::de::DeserializeOwned>(value: &T) -> Result<T, String> {
    let bytes = rmp_serde::to_vec_named(value).map_err(|why| format!("it cannot be written: {why}"))?;
    rmp_serde::from_slice(&bytes).map_err(|why| format!("it cannot be read: {why}"))
}

/// A value's fields, one a line, with bytes as text.
fn spelled(value: &str) -> Vec<String> {
    let mut text = String::new();
    let mut rest = value;
    while let Some(start) = rest.find('[') {
        let end = rest[start..].find(']').map_or(rest.len(), |end| start + end);
        let bytes: Result<Vec<u8>, _> = rest[start + 1..end].split(", ").map(str::parse::<u8>).collect();
        match bytes {
            Ok(bytes) => {
                text.push_str(&rest[..start]);
                text.push_str(&format!("{:?}", String::from_utf8_lossy(&bytes)));
                rest = rest.get(end + 1..).unwrap_or_default();
            }
            Err(_) => {
                text.push_str(&rest[..=start]);
                rest = &rest[start + 1..];
            }
        }
    }
    text.push_str(rest);
    let is_name = |part: &str| {
        part.split(':').next().is_some_and(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
    };
    let mut lines: Vec<String> = Vec::new();
    for part in text.split(", ") {
        match lines.last_mut() {
            Some(last) if !(part.contains(": ") && is_name(part)) => {
                last.push_str(", ");
                last.push_str(part);
            }
            _ => lines.push(part.to_owned()),
        }
    }
    lines
}
