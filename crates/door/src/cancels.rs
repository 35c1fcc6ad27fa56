//! Cancel requests under way: to whom each goes, and who waits until it has been carried out.
//!
//! ```text
//!   CancelRequest ─► workers here that may know its key ─► `CancelOver` of each ─┐
//!            │ └───► the peer that its key names ─► the peer closes              ├─► the client's connection is closed
//!            └─────► the process whose place this one takes ─► `CancelOver` ─────┘
//! ```
//!
//! A driver takes the end of this connection for the sign that the cancel strikes nothing any more, and sends its next statement. So
//! the connection stays open until PostgreSQL has ended the pooler's own cancel connections, twice `cancel_wait_timeout` at most.
//!
//! //= pg18 protocol-flow#PROTOCOL-FLOW-CANCELING-REQUESTS

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

use machine::Settings;
use machine::action::Actions;
use machine::mail::{CancelTicket, ToWorker};
use machine::peering;
use machine::pids::{self, PidKey};
use machine::processes::{ToGranter, ToMember, ToProcess};
use machine::sabotage::{Fault, does};
use units::random::Random;
use units::{ConnId, DoorId, ProcessId, Time, WorkerId, limits};

use super::lookup::Turn;
use super::peers::Peers;

/// Who waits until a cancel request has been carried out.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// The client whose connection has brought it.
    Client(ConnId),
    /// The process that takes this one's place, by its own ticket.
    Successor { door: DoorId, number: u32 },
}

/// What has become of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CancelNews {
    /// It does not reach its peer: why, for the log.
    Strays(String),
    /// It has been carried out, there is nobody to do that, or it has taken too long.
    Over,
}

#[derive(Debug)]
struct UnderWay {
    asker: Asker,
    since: Time,
    awaited: Awaited,
}

/// The workers and peers that have not yet answered a cancel request.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
struct Awaited {
    /// So many workers and peers.
    count: u32,
    /// The process whose place this one takes.
    predecessor: bool,
}

/// The cancel requests of one door that are not over.
#[derive(Debug)]
pub(super) struct Cancels {
    door: DoorId,
    /// By the number of its ticket: the oldest first.
    under_way: BTreeMap<u32, UnderWay>,
    last: u32,
    patience: Duration,
    news: VecDeque<(Asker, CancelNews)>,
    /// As the workers have it.
    pub(super) pid_key: PidKey,
    /// This process has taken the place of another one: keys of that one's clients may live on any worker.
    inherits_keys: bool,
    /// That process has not ended: they may live there, too.
    has_predecessor: bool,
}

impl Cancels {
    pub(super) fn new(door: DoorId, settings: &Settings, random: &mut Random) -> Cancels {
        // An answer to a door that has panicked fits no ticket of this one.
        let last = u32::from_be_bytes(random.bytes()) >> 1;
        Cancels {
            door,
            under_way: BTreeMap::new(),
            last,
            patience: patience(settings),
            news: VecDeque::new(),
            pid_key: PidKey::default(),
            inherits_keys: false,
            has_predecessor: false,
        }
    }

    /// This process takes the place of another one.
    pub(super) fn begin_beside_predecessor(&mut self) {
        (self.inherits_keys, self.has_predecessor) = (true, true);
    }

    pub(super) fn configure(&mut self, settings: &Settings) {
        self.patience = patience(settings);
    }

    fn next_ticket(&mut self) -> CancelTicket {
        self.last = self.last.wrapping_add(1);
        CancelTicket { door: self.door, number: self.last }
    }

    /// One of those that were asked has carried it out, or has nothing to do.
    pub(super) fn carried_out(&mut self, number: u32) {
        // Its time may be over.
        let Some(request) = self.under_way.get_mut(&number) else { return };
        request.awaited.count -= 1;
        self.look_whether_over(number);
    }

    /// The same of the process whose place this one takes.
    pub(super) fn carried_out_by_predecessor(&mut self, number: u32) {
        if let Some(request) = self.under_way.get_mut(&number) {
            request.awaited.predecessor = false;
        }
        self.look_whether_over(number);
    }

    /// That process has ended.
    pub(super) fn predecessor_gone(&mut self) {
        self.has_predecessor = false;
        let numbers: Vec<u32> = self.under_way.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.carried_out_by_predecessor(number));
    }

    fn look_whether_over(&mut self, number: u32) {
        if let Entry::Occupied(request) = self.under_way.entry(number)
            && request.get().awaited == Awaited::default()
        {
            self.news.push_back((request.remove().asker, CancelNews::Over));
        }
    }

    pub(super) fn next_news(&mut self) -> Option<(Asker, CancelNews)> {
        self.news.pop_front()
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.under_way.first_key_value().map(|(_, request)| request.since + self.patience)
    }

    pub(super) fn deadline_reached(&mut self, now: Time) {
        while let Some(request) = self.under_way.first_entry().filter(|first| first.get().since + self.patience <= now)
        {
            let UnderWay { asker, awaited, .. } = request.remove();
            // It has ended while this door's predecessor lived, which has panicked: nobody says so again.
            self.has_predecessor &= awaited != Awaited { count: 0, predecessor: true };
            self.news.push_back((asker, CancelNews::Over));
        }
    }
}

/// How long a client waits at most: workers give each connection to PostgreSQL `cancel_wait_timeout`, and may open it late.
fn patience(settings: &Settings) -> Duration {
    2 * settings.global.waiting.cancel_wait_timeout.unwrap_or(limits::PEER_SILENCE)
}

/// A CancelRequest goes to the workers here, to the process that its key names, or to both.
pub(super) fn begin(
    (cancels, peers): (&mut Cancels, &mut Peers),
    turn: &mut Turn<'_>,
    asker: Asker,
    pid: i32,
    secret: &[u8],
) {
    let owner = peering::owner(pid);
    let peer = Some(owner).filter(|id| turn.settings.peer(*id).is_some());
    // Keys that name no process look as if they named one: those from before there were peers, and servers' own process ids.
    let place = pids::from_virtual_pid(pid, cancels.pid_key);
    let nameless = place.is_some() || pids::may_be_real_pid(pid);
    let ticket = cancels.next_ticket();
    let mut awaited = Awaited::default();
    if peer.is_none() || nameless {
        let workers = workers_with_key(cancels, turn.settings.workers, pid);
        awaited = ask_here(cancels.has_predecessor, workers, pid, restored(pid, secret), ticket, turn.actions);
    }
    let passed_on = peer.map(|peer| (peer, counted_down(secret)));
    let copies = if does(turn.settings, Fault::PassOnTwice) { 2 } else { 1 };
    let why = match passed_on {
        Some((_, Some(_))) => {
            awaited.count += copies;
            None
        }
        Some((_, None)) => Some("cancel request was passed on too often".to_owned()),
        None if peering::is_ours(pid) && turn.settings.own_peer_id().is_some_and(|own| own != owner) => {
            Some(format!("cancel request for peer {}, which is not configured", owner.0))
        }
        None => None,
    };
    cancels.news.extend(why.map(|why| (asker, CancelNews::Strays(why))));
    if awaited == Awaited::default() || does(turn.settings, Fault::EndCancelEarly) {
        cancels.news.push_back((asker, CancelNews::Over));
    } else {
        cancels.under_way.insert(ticket.number, UnderWay { asker, since: turn.now, awaited });
    }
    if let Some((peer, Some(secret))) = passed_on {
        (0..copies).for_each(|_| peers.pass_on(turn, peer, pid, secret.clone(), ticket.number));
    }
}

/// A request of the process that takes this one's place: its key may be of a client here.
pub(super) fn begin_here(cancels: &mut Cancels, turn: &mut Turn<'_>, asker: Asker, pid: i32, secret: Box<[u8]>) {
    let ticket = cancels.next_ticket();
    let awaited = ask_here(cancels.has_predecessor, 0..turn.settings.workers, pid, secret, ticket, turn.actions);
    cancels.under_way.insert(ticket.number, UnderWay { asker, since: turn.now, awaited });
}

/// The secret as the next process is to get it; `None`: it was passed on too often.
fn counted_down(secret: &[u8]) -> Option<Box<[u8]>> {
    let mut secret: Box<[u8]> = secret.into();
    peering::count_down(&mut secret).then_some(secret)
}

/// The secret as it was given to its client.
fn restored(pid: i32, secret: &[u8]) -> Box<[u8]> {
    let mut secret: Box<[u8]> = secret.into();
    if peering::is_ours(pid) {
        peering::restore(&mut secret);
    }
    secret
}

/// The workers that may have the client of a key.
fn workers_with_key(cancels: &Cancels, workers: u16, pid: i32) -> Range<u16> {
    match pids::from_virtual_pid(pid, cancels.pid_key) {
        _ if cancels.inherits_keys => 0..workers,
        // A guess may name a worker that there is not.
        Some((worker, _)) => worker.min(workers)..(worker + 1).min(workers),
        // It may have been sent to a client on any worker: a server's own process id, or one that names this process.
        None if pids::may_be_real_pid(pid) || peering::is_ours(pid) => 0..workers,
        None => 0..0,
    }
}

/// Passes a cancel request on to these workers, and to the process whose place this one takes. Returns who is to say that it is over.
fn ask_here(
    has_predecessor: bool,
    workers: Range<u16>,
    pid: i32,
    secret: Box<[u8]>,
    ticket: CancelTicket,
    actions: &mut Actions,
) -> Awaited {
    if has_predecessor {
        let CancelTicket { door, number } = ticket;
        let told = ToMember::Cancel { pid, secret: secret.clone(), door: door.0, number };
        actions.post_to_process(ProcessId::Predecessor, ToProcess::ToMember(told));
    }
    let count = workers.len() as u32;
    for worker in workers {
        let mail = ToWorker::Cancel { pid, secret: secret.clone(), ticket: Some(ticket) };
        actions.post_to_worker(WorkerId(worker), mail);
    }
    Awaited { count, predecessor: has_predecessor }
}

/// A cancel of a client of the process that takes this one's place has been carried out, or there was nothing to do.
pub(super) fn tell_successor(door: DoorId, number: u32, actions: &mut Actions) {
    let over = ToGranter::CancelOver { door: door.0, number };
    actions.post_to_process(ProcessId::Successor, ToProcess::ToGranter(over));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cancels() -> Cancels {
        let settings = Settings::default();
        Cancels::new(DoorId(0), &settings, &mut Random::seeded(1))
    }

    fn client(slot: u32) -> Asker {
        Asker::Client(ConnId::new(units::Kind::Login, 0, slot, 0))
    }

    fn under_way(slot: u32, since: Time, count: u32, predecessor: bool) -> UnderWay {
        UnderWay { asker: client(slot), since, awaited: Awaited { count, predecessor } }
    }

    fn next_over(cancels: &mut Cancels) -> Option<Asker> {
        cancels.next_news().map(|(asker, news)| {
            assert_eq!(news, CancelNews::Over);
            asker
        })
    }

    #[test]
    fn a_request_is_over_when_all_have_said_so() {
        let mut cancels = cancels();
        cancels.under_way.insert(7, under_way(1, Time::ZERO, 2, false));
        cancels.carried_out(7);
        assert_eq!(next_over(&mut cancels), None);
        cancels.carried_out(8);
        cancels.carried_out(7);
        assert_eq!((next_over(&mut cancels), next_over(&mut cancels)), (Some(client(1)), None));
        cancels.carried_out(7);
        assert_eq!((next_over(&mut cancels), cancels.next_deadline()), (None, None));
    }

    #[test]
    fn a_request_that_takes_too_long_is_over() {
        let mut cancels = cancels();
        let late = Time::ZERO + Duration::from_secs(1);
        for (number, since) in [(1, Time::ZERO), (2, late)] {
            cancels.under_way.insert(number, under_way(number, since, 1, true));
        }
        assert_eq!(cancels.next_deadline(), Some(Time::ZERO + cancels.patience));
        cancels.deadline_reached(Time::ZERO + cancels.patience);
        assert_eq!((next_over(&mut cancels), next_over(&mut cancels)), (Some(client(1)), None));
        assert_eq!(cancels.next_deadline(), Some(late + cancels.patience));
    }

    #[test]
    fn a_process_that_has_ended_is_not_waited_for() {
        let mut cancels = cancels();
        for (number, count) in [(1, 0), (2, 1)] {
            cancels.under_way.insert(number, under_way(number, Time::ZERO, count, true));
        }
        cancels.predecessor_gone();
        assert_eq!((next_over(&mut cancels), next_over(&mut cancels)), (Some(client(1)), None));
        cancels.carried_out(2);
        assert_eq!(next_over(&mut cancels), Some(client(2)));
    }
}
