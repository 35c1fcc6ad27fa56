//! The process ids that clients get.

use units::ConnId;

/// The pid that a client gets: its worker and slot, above every pid that a kernel gives out (2²²), so that
/// `pg_terminate_backend` with it hits nobody.
///
/// ```text
/// 0 1 wwwwwwwww ssssssssssssssssssss     9 bits of worker, 20+1 bits of slot
/// ```
#[must_use]
pub fn virtual_pid(conn: ConnId) -> i32 {
    (1 << 30) | i32::from(conn.owner()) << 21 | (conn.slot() as i32 & 0x1f_ffff)
}

/// Worker and slot that a pid of a CancelRequest names, if it is one of ours.
#[must_use]
pub fn from_virtual_pid(pid: i32) -> Option<(u16, usize)> {
    let ours = pid >> 30 == 1;
    ours.then_some(((pid >> 21 & 0x1ff) as u16, (pid & 0x1f_ffff) as usize))
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
        for (owner, slot) in [(0, 0), (511, 0x1f_ffff), (3, 70_000)] {
            let pid = virtual_pid(ConnId::new(Kind::Client, owner, slot, 9));
            assert!(pid > 1 << 22);
            assert_eq!(from_virtual_pid(pid), Some((owner, slot as usize)));
        }
        assert_eq!(from_virtual_pid(4711), None);
        assert_eq!(from_virtual_pid(-1), None);
    }
}
