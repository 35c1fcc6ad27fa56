//! The script of a run: who does what next, read off the fuzzer's bytes.

use std::sync::Arc;
use std::time::Duration;

use pooling::mail::Stop;
use pooling::observe::Peer;
use pooling::{Event, Hangup, Mail, Place, ToCoordinator};
use units::DoorId;
use wire::frontend;

use super::guest::{Fate, Guest};
use super::setting::{DATABASES, USERS, tcp};
use super::{GUESTS, World, setting};

const DOOR: Place = Place::Door(DoorId(0));

impl World<'_> {
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
                9 => self.stand_up(seat),
                other => self.surroundings(seat, other),
            }
            self.read();
            self.step(DOOR, Event::RoundEnded);
        }
    }

    fn surroundings(&mut self, seat: usize, what: u8) {
        match what {
            10 => drop(self.compute_one()),
            11 => drop(self.deliver_one()),
            12 => {
                let span = Duration::from_millis(500) * u32::from(self.tape.byte());
                self.wait(span);
            }
            13 => self.reload(),
            14 => self.steer(),
            _ => {
                let room = usize::from(self.tape.byte());
                if let Some(guest) = self.seats[seat] {
                    self.guests[guest].room = (room < 200).then_some(room);
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
        if self.seats[seat].is_some_and(|guest| self.guests[guest].conn.is_some()) {
            return;
        }
        let conn = self.door.accept(self.now, peer).expect("there are few");
        self.seats[seat] = Some(self.guests.len());
        self.guests.push(Guest::new(conn, peer));
    }

    fn stand_up(&mut self, seat: usize) {
        let Some(guest) = self.seats[seat] else { return };
        let Some(conn) = self.guests[guest].conn else { return };
        self.step(DOOR, Event::Hangup { conn, why: Hangup::Broken });
        assert_eq!(self.guests[guest].conn, None, "who has gone is closed");
        self.guests[guest].fate = Fate::Gone;
    }

    /// The client sends bytes, in pieces of a length that the script says.
    fn say(&mut self, seat: usize, bytes: &[u8]) {
        let piece = usize::from(self.tape.byte());
        if let Some(guest) = self.seats[seat].filter(|guest| self.guests[*guest].conn.is_some()) {
            self.guests[guest].say(bytes, piece);
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
        if let Some(guest) = self.seats[seat] {
            self.guests[guest].calls_itself(user);
        }
        self.say(seat, &out);
    }

    fn answer(&mut self, seat: usize) {
        let Some(guest) = self.seats[seat] else { return };
        if let Some(answer) = self.guests[guest].answer() {
            self.say(seat, &answer);
        }
    }

    fn reload(&mut self) {
        let mut settings = setting::settings(self.tape.byte());
        settings.workers = self.settings.workers;
        self.settings = Arc::new(settings);
        self.trusts |= setting::trusts(&self.settings);
        for place in [DOOR, Place::Coordinator] {
            self.step(place, Event::Mail(Mail::configure(place, Arc::clone(&self.settings))));
        }
    }

    fn steer(&mut self) {
        match self.tape.byte() % 4 {
            1 => self.depart(),
            2 if !self.stopped => {
                self.stopped = true;
                for place in [DOOR, Place::Coordinator] {
                    self.step(place, Event::Mail(Mail::stop(place, Stop::WaitForServers)));
                }
            }
            _ => {}
        }
    }

    /// A session that was let in has ended.
    fn depart(&mut self) {
        let Some(arrival) = self.welcomed.pop() else { return };
        let user = Arc::clone(&arrival.identity.user);
        let mail = ToCoordinator::Departed { pool: arrival.pool, worker: arrival.worker, user };
        self.step(Place::Coordinator, Event::Mail(Mail::ToCoordinator(mail)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sits down, says who it is, answers twice, whoever computes and decides in between.
    fn fate(setting: u8, names: u8, answers: bool) -> Fate {
        let answer = if answers { [7, 0] } else { [5, 0] };
        let script = [&[setting, 0, 0, 2, names, 0, 0, 0][..], &answer, &[10], &answer, &[10, 11, 11, 11]].concat();
        let mut world = World::new(&script, true);
        world.play();
        world.end()[0].fate
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
