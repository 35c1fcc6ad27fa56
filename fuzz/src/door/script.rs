//! The script of a run: who does what next, read off the fuzzer's bytes.

use std::time::Duration;

use machine::observe::Peer;
use wire::frontend;

use super::guest::Guest;
use super::setting::{DATABASES, USERS, tcp};
use super::{DoorWorld, GUESTS, setting};
use crate::tape::Tape;

pub(super) struct DoorScript<'a> {
    tape: Tape<'a>,
    world: DoorWorld,
}

impl<'a> DoorScript<'a> {
    /// A door that is set up as the beginning says. `cuts`: bytes come in the pieces that the script says.
    pub(super) fn new(bytes: &'a [u8], cuts: bool) -> DoorScript<'a> {
        let mut tape = Tape::new(bytes);
        let world = DoorWorld::new(setting::settings(tape.byte()), cuts);
        DoorScript { tape, world }
    }

    /// All clients, when nothing more comes of them.
    pub(super) fn end(self) -> Vec<Guest> {
        self.world.end()
    }

    pub(super) fn play(&mut self) {
        while !self.tape.is_over() {
            let act = self.tape.byte();
            let seat = usize::from(act >> 4) % GUESTS;
            match act & 15 {
                0 => self.sit_down(seat),
                1 => {
                    let bytes = self.tape.counted().to_vec();
                    self.say(seat, &bytes);
                }
                2 => self.startup(seat),
                3 => {
                    let mut out = Vec::new();
                    frontend::encode_ssl_request(&mut out);
                    out[7] ^= self.tape.byte() & 0x1f;
                    self.say(seat, &out);
                }
                4 => {
                    let packet = self.tape.take(8);
                    let mut out = Vec::new();
                    let pid = packet.first_chunk().map_or(0, |pid| i32::from_be_bytes(*pid));
                    frontend::CancelRequest { pid, secret: packet.get(4..8).unwrap_or(b"abcd") }.encode(&mut out);
                    self.say(seat, &out);
                }
                5 => {
                    let (mut out, body) = (Vec::new(), self.tape.counted());
                    wire::message(&mut out, frontend::tag::PASSWORD, |out| out.extend_from_slice(body));
                    self.say(seat, &out);
                }
                6 => {
                    let (mut out, response) = (Vec::new(), Some(self.tape.counted()));
                    let mechanism = auth::scram::MECHANISM.as_bytes();
                    frontend::SaslInitial { mechanism, response }.encode(&mut out);
                    self.say(seat, &out);
                }
                7 => self.answer(seat),
                8 => {
                    let (byte, len) = (self.tape.byte(), 1 + usize::from(self.tape.byte()));
                    self.say(seat, &vec![byte; len * 256]);
                }
                9 => self.world.stand_up(seat),
                other => self.surroundings(seat, other),
            }
            self.world.end_round();
        }
    }

    fn surroundings(&mut self, seat: usize, what: u8) {
        match what {
            10 => drop(self.world.compute_one()),
            11 => drop(self.world.deliver_one()),
            12 => {
                let span = Duration::from_millis(500) * u32::from(self.tape.byte());
                self.world.wait(span);
            }
            13 => self.world.configure(setting::settings(self.tape.byte())),
            14 => match self.tape.byte() % 4 {
                1 => self.world.depart(),
                2 => self.world.stop(),
                _ => {}
            },
            _ => {
                let room = usize::from(self.tape.byte());
                if let Some(guest) = self.world.seated(seat) {
                    guest.room = (room < 200).then_some(room);
                }
            }
        }
    }

    fn sit_down(&mut self, seat: usize) {
        let peer = match self.tape.byte() % 3 {
            0 => tcp(),
            1 => Peer::Unix { pid: 1, uid: 1000 },
            _ => Peer::Unix { pid: 2, uid: 0 },
        };
        self.world.sit_down(seat, peer);
    }

    /// The client sends bytes, in pieces of a length that the script says.
    fn say(&mut self, seat: usize, bytes: &[u8]) {
        let piece = usize::from(self.tape.byte());
        if let Some(guest) = self.world.seated(seat).filter(|guest| guest.conn.is_some()) {
            guest.say(bytes, piece);
        }
    }

    fn startup(&mut self, seat: usize) {
        let names = self.tape.byte();
        let minor = u16::from(self.tape.byte() & 3);
        let user = USERS[usize::from(names & 7)];
        let database = DATABASES[usize::from(names >> 3) % DATABASES.len()];
        let more: Vec<&[u8]> = self.tape.counted().split(|byte| *byte == 0).collect();
        let more = more.chunks_exact(2).map(|pair| (pair[0], pair[1])).filter(|(name, _)| !name.is_empty());
        let named = [(&b"user"[..], user.as_bytes()), (b"database", database.as_bytes())];
        let mut out = Vec::new();
        frontend::encode_startup_version(&mut out, minor, named.into_iter().chain(more));
        if let Some(guest) = self.world.seated(seat) {
            guest.calls_itself(user);
        }
        self.say(seat, &out);
    }

    fn answer(&mut self, seat: usize) {
        if let Some(answer) = self.world.seated(seat).and_then(Guest::answer) {
            self.say(seat, &answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::guest::Fate;
    use super::*;

    /// Sits down, says who it is, answers twice, whoever computes and decides in between.
    fn fate(setting: u8, names: u8, answers: bool) -> Fate {
        let answer = if answers { [7, 0] } else { [5, 0] };
        let script = [&[setting, 0, 0, 2, names, 0, 0, 0][..], &answer, &[10], &answer, &[10, 11, 11, 11]].concat();
        let mut script = DoorScript::new(&script, true);
        script.play();
        script.end()[0].fate
    }

    #[test]
    fn who_knows_the_password_gets_in_and_nobody_else() {
        for (auth_type, user) in [(0, 0), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)] {
            assert_eq!(fate(auth_type, user, true), Fate::Welcome, "{auth_type} {}", USERS[usize::from(user)]);
            assert_eq!(fate(auth_type, user, false), Fate::Closed, "{auth_type} {}", USERS[usize::from(user)]);
        }
        assert_eq!(fate(0, 4, true), Fate::Closed, "nobody is nobody");
    }
}
