//! What clients that have not logged in keep in memory here, and that it has a bound.
//!
//! A message that came whole is dealt with at once and weighs nothing. What has to wait (half a message, what came behind
//! a password that is being hashed, what the startup packet asked for) is weighed; beyond [`limits::LOGIN_BYTES_MAX`]
//! whoever weighs most is refused. So those who stuff the door with halves of messages fall over each other, and nobody
//! else (I10).

use wire::sqlstate;

use super::{Door, Login, Phase, Refused};
use crate::action::Actions;
use crate::id::ConnId;
use crate::limits;
use crate::time::Time;

impl Door {
    /// Looks at what a login keeps after something has happened to it.
    pub(super) fn weigh(&mut self, now: Time, conn: ConnId, actions: &mut Actions) {
        let Some(login) = self.logins.get_mut(conn).filter(|login| !matches!(login.phase, Phase::Leaving)) else {
            return;
        };
        login.inbox.shrink_to_fit();
        // Nothing more is read of whoever has sent ahead: its turn comes after an answer of somebody else's.
        let waits = match &login.phase {
            Phase::Greeting => true,
            Phase::Proving(proof) => proof.is_waiting(),
            Phase::Applying | Phase::Leaving => false,
        };
        login.flow.watch(conn, waits || login.inbox.is_empty(), actions);
        let weight = login.inbox.capacity() + login.keeps();
        self.weight = self.weight - login.weight + weight;
        login.weight = weight;
        while self.weight > limits::LOGIN_BYTES_MAX {
            self.refuse_heaviest(now, actions);
        }
    }

    fn refuse_heaviest(&mut self, now: Time, actions: &mut Actions) {
        let heaviest = self.logins.iter().max_by_key(|(_, login)| login.weight).map(|(conn, _)| conn);
        let conn = heaviest.expect("a sum above zero has parts");
        let text = "too much data before login, of all clients together".to_owned();
        self.withdraw(conn, actions);
        self.refuse(now, conn, &Refused(sqlstate::TOO_MANY_CONNECTIONS, text), actions);
    }

    /// A login ends here, and what it kept is gone or moves on with it.
    pub(super) fn take_out(&mut self, conn: ConnId) -> Option<Login> {
        let login = self.logins.remove(conn)?;
        self.weight -= login.weight;
        Some(login)
    }
}

impl Login {
    /// Bytes kept besides the inbox.
    fn keeps(&self) -> usize {
        let wish = self.wish.as_ref().map_or(0, |wish| wish.weight());
        let proof = if let Phase::Proving(proof) = &self.phase { proof.weight() } else { 0 };
        wish + proof
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::board::Board;
    use crate::event::Event;
    use crate::id::DoorId;
    use crate::observe::Peer;
    use crate::settings::{AuthType, Settings};
    use crate::{Action, Machine};

    struct Stage {
        door: Door,
        actions: Actions,
        closed: usize,
    }

    impl Stage {
        fn new() -> Stage {
            let settings = Settings { auth_type: AuthType::Plain, ..Settings::default() };
            Stage { door: Door::new(DoorId(0), Arc::new(settings), [1; 32]), actions: Actions::new(), closed: 0 }
        }

        fn arrive(&mut self) -> ConnId {
            self.door.accept(Time(1), Peer::Unix { pid: 1, uid: 1 }).expect("there is room")
        }

        fn tell(&mut self, event: Event<'_>) {
            self.door.step(Time(1), &Board::new(1), event, &mut self.actions);
            let closed = self.actions.as_slice().iter().filter(|action| matches!(action, Action::Close { .. }));
            self.closed += closed.count();
            self.actions.clear(|_| ());
            let sum: usize = self.door.logins.iter().map(|(_, login)| login.weight).sum();
            assert_eq!(self.door.weight, sum);
            assert!(sum <= limits::LOGIN_BYTES_MAX, "I10");
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

    #[test]
    fn whoever_holds_most_falls_and_the_rest_log_in() {
        let mut stage = Stage::new();
        let patient = stage.arrive();
        stage.send(patient, &startup(10));
        // A password of the longest kind, but for its last byte.
        let mut password = vec![b'p', 0, 0, 255, 255];
        password.resize(65_535, b'x');
        for _ in 0..2000 {
            let conn = stage.arrive();
            stage.send(conn, &startup(10));
            stage.send(conn, &password);
            stage.end_round();
        }
        assert!(stage.closed > 1000, "{}", stage.closed);
        assert!(stage.held() <= limits::LOGIN_BYTES_MAX);
        stage.send(patient, b"p\0\0\0\x0asecr");
        let login = stage.door.logins.get(patient).expect("it is light");
        assert!(matches!(login.phase, Phase::Proving(_)), "{:?}", login.phase);
    }

    #[test]
    fn what_startup_packets_ask_for_is_weighed_and_given_back() {
        let mut stage = Stage::new();
        let conns: Vec<_> = (0..20).map(|_| stage.arrive()).collect();
        for &conn in &conns {
            stage.send(conn, &startup(4000));
        }
        assert!(stage.door.weight > 20 * 4000, "{}", stage.door.weight);
        for conn in conns {
            stage.tell(Event::Hangup { conn, why: crate::Hangup::Closed });
        }
        assert_eq!((stage.door.weight, stage.door.logins()), (0, 0));
    }

    #[test]
    fn nothing_is_kept_of_what_came_whole() {
        let mut stage = Stage::new();
        let conn = stage.arrive();
        stage.send(conn, &startup(10));
        assert_eq!(stage.held(), 0);
        stage.send(conn, &[b'p', 0, 0, 255, 255, b'x']);
        assert_eq!(stage.held(), 6);
    }
}
