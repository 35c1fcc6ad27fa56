//! The process ids that clients get.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use units::ConnId;

/// The key that hides worker and slot in the process ids of clients. With it a machine reads worker and slot from a process id, and needs no table of
/// all clients. All machines of a process have the same key.
#[derive(Copy, Clone, Default, PartialEq, Eq)]
pub struct PidKey(
    /// `None`: worker and slot can be read from a process id. For tests, whose ids stay what they are.
    Option<u64>,
);

/// The bits of worker and slot, and of each half of them.
const PLACE_BITS: u32 = 30;
const HALF_BITS: u32 = PLACE_BITS / 2;
const HALF_MASK: u32 = (1 << HALF_BITS) - 1;

/// The rounds of the cipher. Luby and Rackoff (1988) show that four rounds give a pseudo-random permutation.
const ROUNDS: [u32; 4] = [0, 1, 2, 3];

impl PidKey {
    /// The key that follows from a secret of the process.
    #[must_use]
    pub fn of_secret(secret: &[u8; 32]) -> PidKey {
        let mut hasher = DefaultHasher::new();
        ("process ids", secret).hash(&mut hasher);
        PidKey(Some(hasher.finish()))
    }

    fn round(key: u64, round: u32, half: u32) -> u32 {
        let mut hasher = DefaultHasher::new();
        (key, round, half).hash(&mut hasher);
        hasher.finish() as u32 & HALF_MASK
    }

    fn hide(self, place: u32) -> u32 {
        let Some(key) = self.0 else { return place };
        let (left, right) = ROUNDS.into_iter().fold((place >> HALF_BITS, place & HALF_MASK), |(left, right), round| {
            (right, left ^ PidKey::round(key, round, right))
        });
        left << HALF_BITS | right
    }

    fn show(self, hidden: u32) -> u32 {
        let Some(key) = self.0 else { return hidden };
        let halves = (hidden >> HALF_BITS, hidden & HALF_MASK);
        let (left, right) = ROUNDS
            .into_iter()
            .rev()
            .fold(halves, |(left, right), round| (right ^ PidKey::round(key, round, left), left));
        left << HALF_BITS | right
    }
}

/// It shows nothing of the key.
impl fmt::Debug for PidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "PidKey" } else { "no PidKey" })
    }
}

/// The pid that a client gets: its worker and slot, hidden by the key, above every pid that a kernel gives out (2²²), so that
/// `pg_terminate_backend` with it hits nobody.
///
/// ```text
/// 0 1 wwwwwwwww sssssssssssssssssssss     9 bits of worker, 21 bits of slot, all of them hidden
/// ```
#[must_use]
pub fn virtual_pid(conn: ConnId, key: PidKey) -> i32 {
    let place = u32::from(conn.owner() & 0x1ff) << 21 | (conn.slot() as u32 & 0x1f_ffff);
    1 << PLACE_BITS | key.hide(place) as i32
}

/// Worker and slot that a pid of a CancelRequest names, if it is one of ours.
#[must_use]
pub fn from_virtual_pid(pid: i32, key: PidKey) -> Option<(u16, usize)> {
    let ours = pid >> PLACE_BITS == 1;
    let place = key.show(pid as u32 & ((1 << PLACE_BITS) - 1));
    ours.then_some(((place >> 21) as u16, (place & 0x1f_ffff) as usize))
}

/// Whether a kernel may give out this pid: those of Linux lie below 2²².
#[must_use]
pub fn may_be_real_pid(pid: i32) -> bool {
    (1..=1 << 22).contains(&pid)
}

#[cfg(test)]
mod tests {
    use units::Kind;

    use super::*;

    #[test]
    fn a_virtual_pid_tells_worker_and_slot_and_is_no_real_pid() {
        let keys = [PidKey::default(), PidKey::of_secret(&[7; 32]), PidKey::of_secret(&[8; 32])];
        for (owner, slot) in [(0, 0), (511, 0x1f_ffff), (3, 70_000)] {
            for key in keys {
                let pid = virtual_pid(ConnId::new(Kind::Client, owner, slot, 9), key);
                assert!(pid > 1 << 22);
                assert_eq!(from_virtual_pid(pid, key), Some((owner, slot as usize)));
                assert_eq!(from_virtual_pid(4711, key), None);
                assert_eq!(from_virtual_pid(-1, key), None);
            }
        }
    }

    /// Of ten thousand neighbours no two have the same pid, each bit is set in about half of them, and the next one cannot be told from the last.
    #[test]
    fn neighbours_have_pids_that_look_random() {
        let key = PidKey::of_secret(&[9; 32]);
        let pids: Vec<i32> = (0..10_000).map(|slot| virtual_pid(ConnId::new(Kind::Client, 0, slot, 0), key)).collect();
        for bit in 0..PLACE_BITS {
            let set = |values: &mut dyn Iterator<Item = i32>| values.filter(|value| value >> bit & 1 == 1).count();
            let (ones, changes) =
                (set(&mut pids.iter().copied()), set(&mut pids.windows(2).map(|pair| pair[0] ^ pair[1])));
            assert!(
                (4_700..5_300).contains(&ones) && (4_700..5_300).contains(&changes),
                "bit {bit}: {ones}, {changes}"
            );
        }
        let different: std::collections::BTreeSet<i32> = pids.iter().copied().collect();
        assert_eq!(different.len(), pids.len());
        // Another process gives other ones.
        let other = PidKey::of_secret(&[10; 32]);
        let same = (0..10_000)
            .filter(|slot| pids[*slot as usize] == virtual_pid(ConnId::new(Kind::Client, 0, *slot, 0), other));
        assert!(same.count() < 3);
    }
}
