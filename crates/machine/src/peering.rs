//! Processes that pass cancel requests on to each other, and what a cancel key tells them: whose it is, and how often it
//! may still be passed on. The layout is PgBouncer's, so that its processes and ours can stand side by side.
//!
//! ```text
//!  byte     0            1               2         3        4   5   6      7      8 … 35
//!       001rrrrr │ id's low 8 bits │ id's high │ rrrrrrrr │ r │ r │ r │ rrrrrrtt │ r …        (protocol 3.2 only)
//!       └──────────────── process id ─────────────────────┘ └──────────────── secret ───────┘
//! ```
//!
//! `r` is random: 43 bits that nobody can know, and 224 more in protocol 3.2. PgBouncer has 45 of them: we keep bits 6 and 5
//! of the first byte for ourselves, so that no such process id is one that tells a session's place (`pids`), nor one that
//! a kernel gives out. `tt` counts down from 3 with each process that passes the request on; at 0 nobody does.
//!
//! //= pgbouncer config.md#peer_id
//! //= pgbouncer config.md#section-peers

use std::sync::Arc;

use connections::databases::Address;
pub use units::PeerId;
use units::random::Random;

/// An entry of `[peers]`: a process to which cancel requests are passed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerEntry {
    pub address: Arc<Address>,
    /// The most connections to it.
    pub pool_size: u32,
}

/// The cancel requests for a peer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct PeerPool {
    pub peer: PeerId,
    /// They have no connection yet.
    pub waiting: u32,
    /// Their connections are being opened.
    pub opening: u32,
    /// They are sent; the peer has not closed their connections yet.
    pub sent: u32,
}

/// Where in a secret the count stands: its fourth byte, the eighth of the key.
const COUNT_AT: usize = 3;
const COUNT_MASK: u8 = 0b11;

/// The first byte of our process ids.
const OUR_MARK: u8 = 0b0010_0000;
const OUR_MASK: u8 = 0b1110_0000;

/// A process id that names this process.
#[must_use]
pub fn new_pid(own: PeerId, random: &mut Random) -> i32 {
    let [first, last] = random.bytes();
    let [low, high] = own.0.to_le_bytes();
    i32::from_be_bytes([first & !OUR_MASK | OUR_MARK, low, high, last])
}

/// Whether such a process id is by [`new_pid`], here or at a peer.
#[must_use]
pub fn is_ours(pid: i32) -> bool {
    pid.to_be_bytes()[0] & OUR_MASK == OUR_MARK
}

/// The process that a process id names, if it is one of a process with peers.
#[must_use]
pub fn owner(pid: i32) -> PeerId {
    let [_, low, high, _] = pid.to_be_bytes();
    PeerId(u16::from_le_bytes([low, high]))
}

/// A secret as its owner keeps it: nobody has passed it on yet.
pub fn restore(secret: &mut [u8]) {
    if let Some(byte) = secret.get_mut(COUNT_AT) {
        *byte |= COUNT_MASK;
    }
}

/// A secret is passed on once more. False: too often.
#[must_use]
pub fn count_down(secret: &mut [u8]) -> bool {
    let Some(byte) = secret.get_mut(COUNT_AT).filter(|byte| **byte & COUNT_MASK > 0) else { return false };
    *byte -= 1;
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_id_names_its_owner_where_pgbouncer_looks_for_it() {
        let mut random = Random::seeded(7);
        for id in [1, 2, 255, 256, 0x1234, 16_383] {
            let pid = new_pid(PeerId(id), &mut random);
            let bytes = pid.to_be_bytes();
            assert_eq!(u16::from(bytes[1]) + (u16::from(bytes[2]) << 8), id);
            assert_eq!(owner(pid), PeerId(id));
            assert!(is_ours(pid) && pid > 1 << 29, "neither a kernel's nor negative");
            assert_eq!(crate::pids::from_virtual_pid(pid, crate::pids::PidKey::default()), None);
            assert!(!crate::pids::may_be_real_pid(pid));
        }
        assert!(!is_ours(4711) && !is_ours(1 << 30) && !is_ours(-1) && !is_ours(0x7fff_ffff));
    }

    #[test]
    fn all_other_bits_of_a_process_id_are_random() {
        let mut random = Random::seeded(7);
        let (mut ever, mut always) = (0, -1);
        for _ in 0..200 {
            let pid = new_pid(PeerId(0x2a15), &mut random);
            (ever, always) = (ever | pid, always & pid);
        }
        assert_eq!((ever ^ always).to_be_bytes(), [0b0001_1111, 0, 0, 0xff], "13 bits beside the secret's 30");
    }

    #[test]
    fn a_secret_is_passed_on_three_times() {
        let kept = [1, 2, 3, 0b1010_1011, 5];
        let mut secret = kept;
        for left in [2, 1, 0] {
            assert!(count_down(&mut secret));
            assert_eq!(secret, [1, 2, 3, 0b1010_1000 | left, 5]);
        }
        assert!(!count_down(&mut secret));
        restore(&mut secret);
        assert_eq!(secret, kept);
        assert!(!count_down(&mut [1, 2, 3]), "no key has so short a secret");
    }
}
