//! Logins: hostile clients at the real door, with the real coordinator behind it.
//!
//! Asserts that everybody who is not let in is told why or closed, at the latest by client_login_timeout, and forgotten;
//! that nobody is let in without a password where one is asked for; that what a client is told is sound protocol with the
//! refusal at its end; that it does not matter how a client's bytes are cut; that memory has a bound per client; that
//! the coordinator's counts are right in the end.
//!
//! ```text
//!   settings, { which client and what, more as the action wants } …
//! ```

mod guest;
mod script;
pub(crate) mod setting;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use machine::arrival::Arrival;
use machine::mail::Stop;
use machine::observe::Peer;
use machine::{Action, Actions, Event, Hangup, Job, Machine, Mail, Place, Settings, ToCoordinator, ToWorker};
use pooling::{Coordinator, Door};
use queueing::board::Board;
use units::{ConnId, DoorId, Time, limits};

use guest::{Fate, Guest};
use script::DoorScript;
use wire::frontend::PASSWORD_LEN_MAX;

const DOOR: Place = Place::Door(DoorId(0));

const GUESTS: usize = 4;

/// What a guest can make the door keep, with room for how vectors grow, and for what this world keeps itself.
const MEMORY_MAX: i64 = GUESTS as i64 * 4 * (PASSWORD_LEN_MAX + limits::CHUNK_LEN_MAX) as i64 + (1 << 20);

/// Longer than any time-out of the settings.
const LONG: Duration = Duration::from_secs(3600);

/// One run of the target.
pub fn run(bytes: &[u8]) {
    let mut heard = Vec::new();
    let counted = allocation_counter::measure(|| {
        let mut script = DoorScript::new(bytes, true);
        script.play();
        heard = script.end();
    });
    assert!(counted.bytes_max <= MEMORY_MAX as u64, "{} bytes for {GUESTS} clients", counted.bytes_max);
    // What stands behind a request for encryption is refused only if it came with it.
    if heard.iter().any(|guest| guest.asked_for_encryption()) {
        return;
    }
    let mut script = DoorScript::new(bytes, false);
    script.play();
    let whole = script.end();
    for (pieces, whole) in heard.iter().zip(&whole) {
        assert_eq!(pieces.heard.escape_ascii().to_string(), whole.heard.escape_ascii().to_string(), "cut or not");
        assert_eq!(pieces.fate, whole.fate, "cut or not");
    }
    assert_eq!(heard.len(), whole.len());
}

struct DoorWorld {
    /// Whether bytes are cut as the script says, or come as they were sent.
    cuts: bool,
    now: Time,
    settings: Arc<Settings>,
    /// No password was asked for at some time of this run.
    trusts: bool,
    door: Door,
    coordinator: Coordinator,
    /// Who is there or was, and who has which place now.
    guests: Vec<Guest>,
    seats: [Option<usize>; GUESTS],
    letters: VecDeque<Mail>,
    jobs: VecDeque<(ConnId, Job)>,
    /// Connections whose handshake is to be done.
    handshakes: VecDeque<ConnId>,
    /// Sessions at the worker, by who they are.
    welcomed: Vec<Arrival>,
    stopped: bool,
    actions: Actions,
}

impl DoorWorld {
    fn new(settings: Settings, cuts: bool) -> DoorWorld {
        let settings = Arc::new(settings);
        let mut door = Door::new(DoorId(0), Arc::clone(&settings), [1; 32]);
        door.system_users.set_owner(1000);
        DoorWorld {
            cuts,
            now: Time(1_000_000),
            coordinator: Coordinator::new(settings.workers, Arc::clone(&settings)),
            trusts: setting::trusts(&settings),
            settings,
            door,
            guests: Vec::new(),
            seats: [None; GUESTS],
            letters: VecDeque::new(),
            jobs: VecDeque::new(),
            handshakes: VecDeque::new(),
            welcomed: Vec::new(),
            stopped: false,
            actions: Actions::new(),
        }
    }

    fn step(&mut self, place: Place, event: Event<'_>) {
        let mut actions = std::mem::take(&mut self.actions);
        let chunk = if let Event::Received { bytes, .. } = &event { *bytes } else { &[] };
        let board = Board::new(self.settings.workers);
        let machine: &mut dyn Machine =
            if place == Place::Coordinator { &mut self.coordinator } else { &mut self.door };
        machine.step(self.now, &board, event, &mut actions);
        let mut list = actions.take();
        let mut blocked = None;
        for action in list.drain(..) {
            self.carry_out(action, &actions, chunk, &mut blocked);
        }
        actions.put_back(list);
        actions.clear(drop);
        self.actions = actions;
        self.coordinator.check().expect("the coordinator's invariants hold");
        if let Some(conn) = blocked {
            self.step(place, Event::Blocked { conn });
        }
    }

    /// The client that has this seat, or had it.
    fn seated(&mut self, seat: usize) -> Option<&mut Guest> {
        let guest = self.seats[seat]?;
        Some(&mut self.guests[guest])
    }

    fn guest(&mut self, conn: ConnId) -> Option<&mut Guest> {
        self.guests.iter_mut().find(|guest| guest.conn == Some(conn))
    }

    fn carry_out(&mut self, action: Action, actions: &Actions, chunk: &[u8], blocked: &mut Option<ConnId>) {
        match action {
            Action::Send { conn, piece } => {
                let guest = self.guest(conn).expect("only who is there is told something");
                let bytes = actions.bytes(piece, chunk);
                let taken = guest.takes(bytes);
                if taken < bytes.len() {
                    self.door.keep(conn, &bytes[taken..]);
                    *blocked = Some(conn);
                }
            }
            Action::Close { conn, last_words } => {
                let guest = self.guest(conn).expect("only who is there is closed");
                guest.conn = None;
                guest.fate = Fate::Closed;
                guest.got_last_words = last_words;
            }
            Action::Secure { conn, .. } => self.handshakes.push_back(conn),
            Action::Compute { conn, job } => self.jobs.push_back((conn, job)),
            Action::Post { mail: Mail::ToWorker(worker, mail), carrying } => {
                assert!(worker.0 < self.settings.workers, "there is no worker {}", worker.0);
                match carrying {
                    Some(conn) => self.arrive(mail, conn),
                    None if let ToWorker::Forget { pool } = mail => {
                        // Who was let in has left since, or the coordinator would not ask.
                        self.letters.push_back(Mail::ToCoordinator(ToCoordinator::Forgotten { pool, worker }));
                    }
                    // The door's cancels, and what the coordinator tells workers after a reload.
                    None => assert!(matches!(mail, ToWorker::Cancel { .. } | ToWorker::Shrink { .. }), "{mail:?}"),
                }
            }
            Action::Post { mail, .. } => self.letters.push_back(mail),
            Action::Trace(_) | Action::DoubtName { .. } => panic!("the door runs no statements and opens no servers"),
            Action::Tell(fact) => assert!(!fact.text.is_empty()),
            Action::Interest { conn, read, .. } => {
                self.guest(conn).expect("only who is there is listened to").reading = read;
            }
            Action::Finished => {}
            Action::Adopt { .. }
            | Action::Open { .. }
            | Action::Publish { .. }
            | Action::PublishClasses { .. }
            | Action::AskControl { .. }
            | Action::Ask { .. }
            | Action::Probe { .. }
            | Action::PostToProcess { .. }
            | Action::Placed { .. }
            | Action::Report { .. } => {
                panic!("no business of a door: {action:?}")
            }
        }
    }

    /// What follows what a script makes happen.
    fn end_round(&mut self) {
        self.read();
        self.step(DOOR, Event::RoundEnded);
    }

    /// What clients have said is read as far as the door wants to.
    fn read(&mut self) {
        for index in 0..self.guests.len() {
            while let Some((conn, piece)) = self.guests[index].next_piece(self.cuts) {
                self.step(DOOR, Event::Received { conn, bytes: &piece });
            }
        }
    }

    /// A client that has logged in comes to its worker.
    fn arrive(&mut self, mail: ToWorker, conn: ConnId) {
        let ToWorker::Arrive(arrival) = mail else { panic!("a client travels with {mail:?}") };
        let trusts = self.trusts;
        let guest = self.guest(conn).expect("it was there");
        assert!(
            guest.proved || guest.is_owner(&arrival) || trusts,
            "{} got in without a password",
            arrival.identity.user
        );
        assert!(guest.sent.ends_with(&arrival.leftover), "what it sent beyond its login");
        assert!(arrival.parameters.iter().all(|(name, value)| !name.contains(&0) && !value.contains(&0)));
        // What was not read waits in its socket.
        guest.pending.clear();
        guest.conn = None;
        guest.fate = Fate::Welcome;
        self.welcomed.push(*arrival);
    }

    /// Time passes, from deadline to deadline.
    fn wait(&mut self, span: Duration) {
        let until = self.now + span;
        for _ in 0..1000 {
            let due = |at: Option<Time>| at.filter(|at| *at <= until);
            let (door, coordinator) = (due(self.door.next_deadline()), due(self.coordinator.next_deadline()));
            let (at, place) = match (door, coordinator) {
                (Some(at), other) if other.is_none_or(|other| at <= other) => (at, DOOR),
                (_, Some(at)) => (at, Place::Coordinator),
                (_, None) => {
                    self.now = until;
                    return;
                }
            };
            self.now = self.now.max(at);
            self.step(place, Event::DeadlineReached);
            self.step(DOOR, Event::RoundEnded);
        }
        panic!("a deadline is reached again and again");
    }

    fn deliver_one(&mut self) -> bool {
        let Some(mail) = self.letters.pop_front() else { return false };
        self.step(mail.place(), Event::Mail(mail));
        true
    }

    fn compute_one(&mut self) -> bool {
        if let Some(conn) = self.handshakes.pop_front() {
            if self.guest(conn).is_some() {
                self.step(DOOR, Event::Secured { conn, outcome: Ok(Box::default()) });
            }
            return true;
        }
        let Some((conn, job)) = self.jobs.pop_front() else { return false };
        self.step(DOOR, Event::Computed { conn, done: job.run() });
        true
    }

    /// A client comes, unless its seat is taken.
    fn sit_down(&mut self, seat: usize, peer: Peer) {
        if self.seated(seat).is_some_and(|guest| guest.conn.is_some()) {
            return;
        }
        let conn = self.door.accept(self.now, peer).expect("there are few");
        self.seats[seat] = Some(self.guests.len());
        self.guests.push(Guest::new(conn, peer));
    }

    /// A client's connection breaks.
    fn stand_up(&mut self, seat: usize) {
        let Some(conn) = self.seated(seat).and_then(|guest| guest.conn) else { return };
        self.step(DOOR, Event::Hangup { conn, why: Hangup::Broken });
        let guest = self.seated(seat).expect("it was there");
        assert_eq!(guest.conn, None, "who has gone is closed");
        guest.fate = Fate::Gone;
    }

    /// New settings, for as many workers.
    fn configure(&mut self, mut settings: Settings) {
        settings.workers = self.settings.workers;
        self.settings = Arc::new(settings);
        self.trusts |= setting::trusts(&self.settings);
        for place in [DOOR, Place::Coordinator] {
            self.step(place, Event::Mail(Mail::configure(place, Arc::clone(&self.settings))));
        }
    }

    /// The pooler is told to stop, once.
    fn stop(&mut self) {
        if std::mem::replace(&mut self.stopped, true) {
            return;
        }
        for place in [DOOR, Place::Coordinator] {
            self.step(place, Event::Mail(Mail::stop(place, Stop::WaitForServers)));
        }
    }

    /// A session that was let in has ended.
    fn depart(&mut self) {
        let Some(arrival) = self.welcomed.pop() else { return };
        let user = Arc::clone(&arrival.identity.user);
        let mail =
            ToCoordinator::Departed { pool: arrival.pool, holder: arrival.worker.into(), life: arrival.life, user };
        self.step(Place::Coordinator, Event::Mail(Mail::ToCoordinator(mail)));
    }

    /// Nothing more comes of anybody; what was under way arrives too late.
    fn end(mut self) -> Vec<Guest> {
        self.step(DOOR, Event::RoundEnded);
        self.wait(LONG);
        assert_eq!(self.door.logins(), 0, "a login outlives its time");
        assert!(self.guests.iter().all(|guest| guest.conn.is_none()));
        while self.compute_one() || self.deliver_one() {}
        self.step(DOOR, Event::RoundEnded);
        assert_eq!(self.coordinator.clients() as usize, self.welcomed.len(), "places are taken by nobody");
        for guest in &self.guests {
            guest.check();
        }
        self.guests
    }
}
