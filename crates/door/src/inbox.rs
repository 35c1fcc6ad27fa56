//! What a login has sent and nobody has read yet.
//!
//! The room for a message is made when its length is at hand, for all of it at once. A message of 64 kB that grows from one
//! received piece to the next passes through memory of a dozen sizes, and the allocator keeps what it leaves of each.

use std::collections::TryReserveError;

use units::heap;
use wire::Header;
use wire::frontend;

use super::{Login, Phase};

/// The header of a TLS record: its type, a version, its length.
const RECORD_HEADER_LEN: usize = 5;

/// What a record that is not encrypted may have besides (RFC 8446, section 5.1).
const RECORD_LEN_MAX: usize = 1 << 14;

/// Appends received bytes.
///
/// # Errors
/// There is no memory for them.
pub(super) fn put(login: &mut Login, bytes: &[u8]) -> Result<(), TryReserveError> {
    if login.inbox.is_empty() {
        let room = announced(login, bytes).max(bytes.len());
        login.inbox.try_reserve_exact(room)?;
    }
    login.inbox.try_reserve_exact(bytes.len())?;
    login.inbox.extend_from_slice(bytes);
    let rest = announced(login, &login.inbox).saturating_sub(login.inbox.len());
    login.inbox.try_reserve_exact(rest)
}

/// Gives back the room that the message at its front does not need.
pub(super) fn fit(login: &mut Login) {
    let wanted = announced(login, &login.inbox);
    heap::fit_to(&mut login.inbox, wanted);
}

/// The length of the message that begins with these bytes; 0: it is not known, or not allowed.
fn announced(login: &Login, front: &[u8]) -> usize {
    let len = match login.phase {
        Phase::Proving(_) => match Header::parse(front) {
            Ok(Some(header)) if header.total_len() - 1 <= frontend::PASSWORD_LEN_MAX => Some(header.total_len()),
            _ => None,
        },
        _ if login.begins_directly(front) => record_len(front),
        _ => startup_len(front),
    };
    len.unwrap_or(0)
}

fn startup_len(front: &[u8]) -> Option<usize> {
    let declared = u32::from_be_bytes(*front.first_chunk::<4>()?);
    usize::try_from(declared).ok().filter(|&len| len <= frontend::STARTUP_LEN_MAX)
}

fn record_len(front: &[u8]) -> Option<usize> {
    let &[_, _, _, high, low] = front.first_chunk::<RECORD_HEADER_LEN>()?;
    let len = usize::from(u16::from_be_bytes([high, low]));
    (len <= RECORD_LEN_MAX).then_some(RECORD_HEADER_LEN + len)
}

#[cfg(test)]
mod tests {
    use machine::observe::Peer;
    use units::{ConnId, Kind, Time};

    use super::*;
    use crate::Proof;

    fn login(phase: Phase) -> Login {
        let mut login = Login::new(ConnId::new(Kind::Login, 0, 0, 0), Peer::Unix { pid: 1, uid: 1 }, Time::ZERO);
        login.phase = phase;
        login
    }

    #[test]
    fn room_is_made_once_for_the_whole_message() {
        let sasl = || Phase::Proving(Proof::Sasl);
        let table: [(&str, Phase, &[u8], usize); 9] = [
            ("a startup packet", Phase::Greeting, &[0, 0, 0x27, 0x14, 0, 3], 10_004),
            ("one that is too long", Phase::Greeting, &[0, 0, 0x27, 0x15, 0, 3], 6),
            ("no length yet", Phase::Greeting, &[0, 0, 0x27], 3),
            ("a ClientHello", Phase::Greeting, &[0x16, 3, 1, 0x07, 0xd0, 1], 2005),
            ("a record that is too long", Phase::Greeting, &[0x16, 3, 1, 0x40, 1, 1], 6),
            ("a password", sasl(), &[b'p', 0, 0, 255, 255, b'x'], 65_536),
            ("one that is too long", sasl(), &[b'p', 0, 1, 0, 0, b'x'], 6),
            ("a length that cannot be", sasl(), &[b'p', 0, 0, 0, 3, b'x'], 6),
            ("half a header", sasl(), &[b'p', 0, 0, 255], 4),
        ];
        for (what, phase, bytes, room) in table {
            let mut login = login(phase);
            put(&mut login, bytes).expect("there is memory");
            fit(&mut login);
            let capacity = login.inbox.capacity();
            assert_eq!((capacity, &login.inbox[..]), (room.max(bytes.len()), bytes), "{what}");
        }
    }

    #[test]
    fn byte_by_byte_it_stays_where_it_is() {
        let mut login = login(Phase::Proving(Proof::Clear));
        put(&mut login, &[b'p', 0, 0, 255, 255]).expect("there is memory");
        let place = login.inbox.as_ptr();
        for _ in 0..65_531 {
            put(&mut login, b"x").expect("there is memory");
            fit(&mut login);
        }
        assert_eq!((login.inbox.as_ptr(), login.inbox.len()), (place, 65_536));
    }
}
