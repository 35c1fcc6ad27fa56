//! The bound on the memory of clients that have not logged in.
//!
//! All memory that a client causes counts, in the allocator's sizes: its entries in tables, half a message, its startup
//! parameters, the state of its authentication. If the sum is above [`limits::LOGIN_BYTES_MAX`], logins are closed
//! (I10): first those that wait for their refusal, or for the end of a cancel, then those larger than an ordinary one,
//! then the others; of each kind the oldest first. Those larger than an ordinary one may have a third of it, so that
//! they take no room from the others. An ordinary login takes some milliseconds, so a client that fills the door loses
//! its own logins and not those of others.

use machine::Violation;
use machine::action::Actions;
use units::{ConnId, Time, heap, limits};

use super::{Door, Login, Phase, Proof, Refused, Use, inbox};

/// A connection that has sent nothing yet: its entries in the table of logins, among the turns and deadlines, and in the engine.
pub(super) const EMPTY: usize = size_of::<Login>() + 200;

/// A login's share of a lookup: its entries in four tables, and the lookup's in two.
const LOOKUP: usize = 640;

/// A delayed answer's entries among the delayed ones and the deadlines.
const DELAYED: usize = 64;

/// The rank of those that are larger than an ordinary one.
const HEAVY: u8 = 1;

/// What a login keeps.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Weight {
    pub(super) bytes: usize,
    /// More than an ordinary one.
    pub(super) is_heavy: bool,
}

impl Weight {
    pub(super) const NOTHING: Weight = Weight { bytes: 0, is_heavy: false };

    fn heavy(self) -> usize {
        if self.is_heavy { self.bytes } else { 0 }
    }
}

impl Default for Weight {
    /// That of a connection that has sent nothing yet.
    fn default() -> Weight {
        Weight { bytes: EMPTY, is_heavy: false }
    }
}

/// The sums of all logins.
#[derive(Debug)]
pub(super) struct Weights {
    all: usize,
    heavy: usize,
    max: usize,
}

impl Weights {
    pub(super) fn new(max: usize) -> Weights {
        Weights { all: 0, heavy: 0, max }
    }

    /// A login weighs something else now.
    pub(super) fn change(&mut self, login: &mut Weight, now: Weight) {
        self.leave(*login);
        *login = now;
        self.all += now.bytes;
        self.heavy += now.heavy();
    }

    fn leave(&mut self, login: Weight) {
        self.all -= login.bytes;
        self.heavy -= login.heavy();
    }

    fn heavy_max(&self) -> usize {
        self.max / HEAVY_PARTS
    }

    pub(super) fn are_too_much(&self) -> bool {
        self.all > self.max || self.heavy > self.heavy_max()
    }
}

/// Logins are closed until the sum is below the bound by this part, so that the search through all of them is rare.
const SHED_PARTS: usize = 16;

/// Logins larger than an ordinary one may have this part of the bound together.
const HEAVY_PARTS: usize = 3;

impl Door {
    /// Adds a connection.
    pub(super) fn take_in(&mut self, make: impl FnOnce(ConnId) -> Login) -> ConnId {
        self.weights.all += EMPTY;
        self.logins.insert_with(make)
    }

    /// Computes the memory of a login again after an event.
    pub(super) fn weigh(&mut self, now: Time, conn: ConnId, actions: &mut Actions) {
        // It has moved to its worker, or leaves.
        let Some(login) = self.logins.get_mut(conn).filter(|login| login.stands()) else {
            return;
        };
        inbox::fit(login);
        // A client that has sent ahead is not read until another machine has answered.
        let waits = match &login.phase {
            Phase::Announcing | Phase::Greeting | Phase::Securing => true,
            Phase::Proving(proof) => proof.is_waiting(),
            Phase::Queued | Phase::LookingUp { .. } | Phase::Applying { .. } => false,
            Phase::Delayed { .. } | Phase::Cancelling | Phase::Leaving => false,
        };
        actions.watch(conn, &mut login.flow, waits || login.inbox.is_empty());
        let bytes = login.in_full();
        let is_heavy = !login.is_ordinary(bytes);
        self.weights.change(&mut login.weight, Weight { bytes, is_heavy });
        self.shed(now, actions);
    }

    /// Closes logins until the rest is below the bound.
    pub(super) fn shed(&mut self, now: Time, actions: &mut Actions) {
        if !self.weights.are_too_much() {
            return;
        }
        let standing = self.logins.iter().filter(|(_, login)| login.stands());
        let mut order: Vec<(u8, Time, ConnId)> =
            standing.map(|(conn, login)| (login.rank(), login.since, conn)).collect();
        order.sort_unstable();
        let part = |bytes: usize| bytes - bytes / SHED_PARTS;
        let is_too_much = self.weights.all > self.weights.max;
        for (rank, _, conn) in order {
            let is_enough = self.weights.all <= part(self.weights.max) || !is_too_much && rank > HEAVY;
            if is_enough && self.weights.heavy <= part(self.weights.heavy_max()) {
                return;
            }
            if !is_too_much && rank < HEAVY {
                continue;
            }
            self.withdraw(conn, actions);
            self.refuse(now, conn, &Refused::TooMuchMemory, actions);
        }
    }

    /// Removes a login; its memory is freed or moves with it to a worker.
    pub(super) fn take_out(&mut self, conn: ConnId) -> Option<Login> {
        let mut login = self.logins.remove(conn)?;
        self.weights.leave(login.weight);
        self.penalties.over(conn, &login.phase);
        self.turns.end(&mut login);
        Some(login)
    }

    /// Between two rounds: checks that the memory of all logins is counted in full, and is below the bound (I10).
    ///
    /// # Errors
    /// The violated invariant.
    pub fn check(&self) -> Result<(), Violation> {
        let violation = |what| Err(Violation { invariant: 10, what });
        let mut sum = 0;
        for (conn, login) in self.logins.iter() {
            let weight = login.in_full();
            if login.weight.bytes != weight {
                return violation(format!("login {conn:?} keeps {weight} bytes, {} are counted", login.weight.bytes));
            }
            sum += weight;
        }
        if sum != self.weights.all {
            return violation(format!("logins keep {sum} bytes, {} are counted", self.weights.all));
        }
        let heavy: usize = self.logins.iter().map(|(_, login)| login.weight.heavy()).sum();
        if heavy != self.weights.heavy || heavy > self.weights.heavy_max() {
            return violation(format!("logins that keep much keep {heavy} bytes, {} are counted", self.weights.heavy));
        }
        if sum > self.weights.max {
            return violation(format!("logins keep {sum} bytes, {} are allowed", self.weights.max));
        }
        Ok(())
    }
}

impl Login {
    fn stands(&self) -> bool {
        !matches!(self.phase, Phase::Leaving)
    }

    /// What it has its turn for, some milliseconds after that has begun.
    pub(super) fn use_of_turn(&self) -> Use {
        match self.phase {
            Phase::Proving(Proof::Computing { .. }) => Use::Hashing,
            _ if self.tls_weight > 0 => Use::Memory,
            _ => Use::Nothing,
        }
    }

    /// Whether nothing that it sends is read any more.
    pub(super) fn is_unread(&self) -> bool {
        matches!(self.phase, Phase::Delayed { .. } | Phase::Cancelling | Phase::Leaving)
    }

    /// Its place among those that are given up when too much is kept: the lowest first.
    fn rank(&self) -> u8 {
        match self.phase {
            Phase::Delayed { .. } | Phase::Cancelling => 0,
            _ if self.weight.is_heavy => HEAVY,
            _ => 2,
        }
    }

    /// Whether it keeps no more than drivers make it keep; with TLS, a half handshake besides.
    fn is_ordinary(&self, bytes: usize) -> bool {
        bytes - self.tls_weight.min(limits::TLS_WEIGHT_ORDINARY) <= limits::LOGIN_WEIGHT_ORDINARY
    }

    /// Bytes that it keeps; none if it is closed in this round.
    fn in_full(&self) -> usize {
        if !self.stands() {
            return 0;
        }
        let Login { phase, inbox, flow, wish, source, encryption, tls_weight, .. } = self;
        let user = wish.as_ref().map_or("", |wish| &*wish.user);
        let phase = match phase {
            Phase::Proving(proof) => proof.weight(user),
            Phase::LookingUp { .. } => LOOKUP + heap::of_name(user),
            Phase::Delayed { refused, .. } => heap::taken(size_of::<Refused>()) + refused.weight() + DELAYED,
            Phase::Applying { proved, .. } => proved.weight(),
            Phase::Announcing | Phase::Greeting | Phase::Queued | Phase::Securing => 0,
            Phase::Cancelling | Phase::Leaving => 0,
        };
        let wish = wish.as_ref().map_or(0, |wish| wish.weight());
        EMPTY
            + heap::taken(inbox.capacity())
            + flow.weight()
            + wish
            + source.weight()
            + encryption.weight()
            + tls_weight
            + phase
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use queueing::board::Board;
    use units::DoorId;

    use super::*;
    use machine::Settings;
    use machine::event::Event;
    use machine::observe::Peer;
    use machine::{Action, Machine};
    use settings::AuthType;

    struct Stage {
        door: Door,
        actions: Actions,
        closed: usize,
    }

    impl Stage {
        fn new() -> Stage {
            let mut settings = Settings::default();
            settings.global.login.auth_type = AuthType::Plain;
            Stage { door: Door::new(DoorId(0), Arc::new(settings), [1; 32]), actions: Actions::new(), closed: 0 }
        }

        fn arrive(&mut self) -> ConnId {
            self.arrive_at(Time(1))
        }

        fn arrive_at(&mut self, now: Time) -> ConnId {
            self.door.accept(now, Peer::Unix { pid: 1, uid: 1 }).expect("there is room")
        }

        fn tell(&mut self, event: Event<'_>) {
            self.door.step(Time(1), &Board::new(1), event, &mut self.actions);
            let closed = self.actions.as_slice().iter().filter(|action| matches!(action, Action::Close { .. }));
            self.closed += closed.count();
            self.actions.clear(|_| ());
            self.door.check().expect("I10");
        }

        fn send(&mut self, conn: ConnId, bytes: &[u8]) {
            self.tell(Event::Received { conn, bytes });
        }

        fn end_round(&mut self) {
            self.tell(Event::RoundEnded);
        }

        fn held(&self) -> usize {
            let kept = self.door.logins.iter().map(|(_, login)| login.inbox.capacity());
            kept.sum()
        }
    }

    fn startup(extra: usize) -> Vec<u8> {
        let mut packet = Vec::new();
        let name = "x".repeat(extra);
        let pairs = [("user", "u"), ("application_name", &*name)];
        wire::frontend::encode_startup(
            &mut packet,
            pairs.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())),
        );
        packet
    }

    /// A password of the greatest length, without its last byte.
    fn half_a_password() -> Vec<u8> {
        let mut password = vec![b'p', 0, 0, 255, 255];
        password.resize(65_535, b'x');
        password
    }

    #[test]
    fn logins_with_much_memory_are_closed_and_the_rest_log_in() {
        let mut stage = Stage::new();
        let patient = stage.arrive();
        stage.send(patient, &startup(10));
        for _ in 0..2000 {
            let conn = stage.arrive();
            stage.send(conn, &startup(10));
            stage.send(conn, &half_a_password());
            stage.end_round();
        }
        assert!(stage.closed > 1000, "{}", stage.closed);
        stage.send(patient, b"p\0\0\0\x0asecr");
        let login = stage.door.logins.get(patient).expect("it is light");
        assert!(matches!(login.phase, Phase::Proving(_)), "{:?}", login.phase);
    }

    #[test]
    fn the_oldest_falls_first() {
        let mut stage = Stage::new();
        stage.door.weights.max = 3 * 340_000;
        let conns: Vec<ConnId> = (0..5).map(|number| stage.arrive_at(Time(5 - number))).collect();
        for &conn in &conns {
            stage.send(conn, &startup(4000));
            stage.send(conn, &half_a_password()[..20_000]);
        }
        let left = conns.iter().map(|&conn| stage.door.logins.get(conn).is_some_and(Login::stands));
        assert_eq!(left.collect::<Vec<_>>(), [true, true, true, true, false], "the last was the first to come");
        stage.door.weights.max = 5 * EMPTY;
        stage.end_round();
        assert_eq!(stage.door.logins(), 0, "ordinary or not, they give way");
    }

    #[test]
    fn those_with_much_have_a_third_and_take_no_room_from_the_others() {
        let mut stage = Stage::new();
        let max = stage.door.weights.max;
        let light: Vec<ConnId> = (0..100).map(|number| stage.arrive_at(Time(number))).collect();
        for &conn in &light {
            stage.send(conn, &startup(10));
        }
        for number in 0..1_000 {
            let conn = stage.arrive_at(Time(1_000 + number));
            stage.send(conn, &startup(10));
            stage.send(conn, &half_a_password());
            stage.end_round();
        }
        assert!(
            stage.door.weights.heavy <= max / HEAVY_PARTS && stage.door.weights.all < max / 2,
            "{}",
            stage.door.weights.all
        );
        let left = stage.door.logins.iter().filter(|(_, login)| login.weight.is_heavy).count();
        assert!((80..=max / HEAVY_PARTS / 65_536).contains(&left), "{left}");
        assert!(
            light.iter().all(|&conn| stage.door.logins.get(conn).is_some_and(Login::stands)),
            "though they are older"
        );
    }

    #[test]
    fn connections_that_say_nothing_are_weighed() {
        let mut stage = Stage::new();
        stage.door.weights.max = 10 * EMPTY;
        let conns: Vec<ConnId> = (0..12).map(|number| stage.arrive_at(Time(number))).collect();
        stage.end_round();
        assert!(stage.door.logins.get(conns[0]).is_none() && stage.door.logins.get(conns[11]).is_some());
        assert_eq!(stage.closed, 3);
    }

    /// A startup packet of the greatest length, filled with one parameter many times, or with as many different ones as
    /// possible.
    fn filled(with: impl Fn(u32) -> Vec<u8>) -> Vec<u8> {
        let mut body = [&196_608_u32.to_be_bytes()[..], b"user\0u\0"].concat();
        for number in 0.. {
            let pair = with(number);
            if body.len() + pair.len() + 1 > 10_000 {
                break;
            }
            body.extend_from_slice(&pair);
        }
        body.push(0);
        [&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat()
    }

    #[test]
    fn a_packet_of_tiny_parameters_weighs_no_more_than_it_is_long() {
        let options = |text: &str| [b"options\0", text.as_bytes(), b"\0"].concat();
        let packets: [(&str, Vec<u8>, usize); 6] = [
            ("one name", filled(|_| b"a\0\0".to_vec()), 200),
            ("a tracked name", filled(|_| b"TimeZone\0\0".to_vec()), 200),
            ("options", filled(|_| options("-ca=")), 200),
            ("many names", filled(|number| format!("{number:x}\0\0").into_bytes()), 10_240),
            ("many names in options", filled(|number| options(&format!("-c{number:x}="))), 10_240),
            (
                "one long name",
                filled(|number| [&vec![b'u'; 9_900 + 100 * number as usize][..], b"\0\0"].concat()),
                10_240,
            ),
        ];
        for (what, packet, most) in packets {
            let mut stage = Stage::new();
            let conn = stage.arrive();
            stage.send(conn, &packet);
            let wish = stage.door.logins.get(conn).and_then(|login| login.wish.as_ref());
            let weight = wish.unwrap_or_else(|| panic!("{what}: refused")).weight();
            assert!(weight <= 400 + most, "{what}: {weight}");
        }
    }

    #[test]
    fn what_startup_packets_ask_for_is_weighed_and_given_back() {
        let mut stage = Stage::new();
        let conns: Vec<_> = (0..20).map(|_| stage.arrive()).collect();
        for &conn in &conns {
            stage.send(conn, &startup(4000));
        }
        assert!(stage.door.weights.all > 20 * 4000, "{}", stage.door.weights.all);
        for conn in conns {
            stage.tell(Event::Hangup { conn, why: machine::Hangup::Closed });
        }
        assert_eq!((stage.door.weights.all, stage.door.logins()), (0, 0));
    }

    #[test]
    fn nothing_is_kept_of_what_came_whole_and_room_is_made_for_what_has_begun() {
        let mut stage = Stage::new();
        let conn = stage.arrive();
        stage.send(conn, &startup(10));
        assert_eq!(stage.held(), 0);
        stage.send(conn, &[b'p', 0, 0, 255, 255, b'x']);
        assert_eq!(stage.held(), 65_536, "room for all of it");
    }
}
