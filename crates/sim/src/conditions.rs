//! The conditions of a world: the weather of its network, its faults, and the manners of its clients.

use crate::random::Random;

/// The SQLSTATEs of login errors for which a retry is useless.
pub(crate) const FINAL: [&str; 3] = ["28P01", "3D000", "42501"];
pub(crate) const FOR_GOOD: &str = "you shall not pass";

/// Network weather: delays in microseconds, sizes in bytes.
#[derive(Copy, Clone, Debug)]
pub struct Weather {
    pub delay_min: u64,
    pub delay_max: u64,
    /// Per mille of pieces that take a hundred times as long.
    pub late: u32,
    /// Per mille of arrivals that bring only part of what is in flight, and of reads and writes that are short.
    pub pieces: u32,
    /// Pieces are single bytes.
    pub bytewise: bool,
    pub room_min: u64,
    pub room_max: u64,
}

impl Weather {
    /// How long a connection to a server takes that nothing disturbs, in µs: TLS, SCRAM and the parameters are some
    /// 600 bytes, in pieces of two bytes where they come in pieces.
    pub(crate) fn connect_us(&self) -> u64 {
        let pieces = 8 + 300 * u64::from(self.pieces) / 1000;
        let delay = (self.delay_min + self.delay_max) / 2;
        pieces * (delay + delay * 100 * u64::from(self.late) / 1000)
    }

    pub(crate) fn draw(random: &mut Random, calm: bool) -> Weather {
        if calm {
            return Weather {
                delay_min: 20,
                delay_max: 50,
                late: 0,
                pieces: if random.chance(500) { 0 } else { 200 },
                bytewise: false,
                room_min: 60_000,
                room_max: 200_000,
            };
        }
        let small = random.chance(400);
        Weather {
            delay_min: 10,
            delay_max: random.skewed(20, 5_000),
            late: *random.pick(&[0, 0, 5, 20]),
            pieces: *random.pick(&[0, 50, 300, 1000]),
            bytewise: random.chance(150),
            room_min: if small { 600 } else { 8_000 },
            room_max: if small { 4_000 } else { 200_000 },
        }
    }
}

/// Rates in per mille.
#[derive(Copy, Clone, Debug, Default)]
pub struct Faults {
    /// A client's connection is cut at some time.
    pub cuts: u32,
    /// Microseconds between two faults at PostgreSQL; 0: none.
    pub every: u64,
    /// Connecting to PostgreSQL is refused, or never completes.
    pub refused: u32,
    pub lost_connects: u32,
    /// A server login ends in a temporary error.
    pub refused_logins: u32,
    /// A server login ends in a permanent error, as with a wrong password.
    pub final_refusals: u32,
    /// A worker's mailbox has no room.
    pub full_mailbox: u32,
    /// A worker sees the board of the previous round.
    pub late_board: u32,
    /// A round begins late, as after a long step.
    pub late_round: u32,
    /// A round has a clock that was read a while ago.
    pub old_clock: u32,
    /// One in so many steps of workers panics; 0: none.
    pub panics: u64,
}

impl Faults {
    pub(crate) fn draw(random: &mut Random) -> Faults {
        let mut maybe =
            |per_mille: u32, most: u32| if random.chance(per_mille) { random.skewed(1, most.into()) as u32 } else { 0 };
        Faults {
            cuts: maybe(600, 300),
            refused: maybe(300, 300),
            lost_connects: maybe(200, 100),
            refused_logins: maybe(300, 200),
            final_refusals: maybe(300, 200),
            full_mailbox: maybe(400, 500),
            late_board: maybe(500, 900),
            late_round: maybe(400, 100),
            old_clock: 0,
            panics: 0,
            every: if random.chance(600) { random.skewed(20_000, 5_000_000) } else { 0 },
        }
    }
}

/// What clients do, per mille of their units of work or of the clients.
#[derive(Copy, Clone, Debug, Default)]
pub struct Manners {
    pub cancellers: u32,
    pub slow: u32,
    pub vanish: u32,
    pub wrong_password: u32,
    pub pipeline: u32,
    pub errors: u32,
    pub large: u32,
    pub sets: u32,
    /// Statements that change or show the session's state, where a session keeps its server.
    pub memory: u32,
    pub hostile: u32,
    /// Clients of the console.
    pub consoles: u32,
    pub lost: u32,
    /// Longest pause between units, and longest statement, in microseconds.
    pub think_max: u64,
    pub sleep_max: u64,
    pub units_max: u64,
}

impl Manners {
    /// Clients only run plain work, and never leave.
    pub(crate) fn be_plain(&mut self) {
        let Manners { pipeline, sleep_max, .. } = *self;
        let (think_max, units_max) = (0, 1_000_000);
        *self = Manners { pipeline, sleep_max, think_max, units_max, ..Manners::default() };
    }

    pub(crate) fn draw(random: &mut Random, calm: bool, sleep_max: u64) -> Manners {
        let mut maybe = |per_mille: u32, most: u32| {
            let chance = if calm { per_mille / 3 } else { per_mille };
            if random.chance(chance) { random.skewed(1, most.into()) as u32 } else { 0 }
        };
        Manners {
            cancellers: maybe(600, 600),
            slow: maybe(400, 300),
            vanish: maybe(600, 400),
            wrong_password: maybe(300, 200),
            pipeline: maybe(700, 800),
            errors: maybe(800, 200),
            large: maybe(400, 100),
            sets: maybe(700, 300),
            memory: 0,
            hostile: maybe(300, 300),
            consoles: maybe(300, 200),
            lost: maybe(200, 100),
            think_max: *random.pick(&[0, 300, 5_000, 100_000]),
            sleep_max,
            units_max: random.range(2, 40),
        }
    }
}
