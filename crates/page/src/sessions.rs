//! Who is behind a cookie.
//!
//! A session has a name of 256 random bits, which its browser alone knows. It ends when it is not used for [`IDLE`], after [`LIFE`] anyhow, at logout,
//! and where [`SESSIONS_MAX`] others are used more. Sessions are lost with the process.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Sessions at a time: a team with some browsers each.
pub(crate) const SESSIONS_MAX: usize = 64;
/// Without a request: an open page asks each second.
pub(crate) const IDLE: Duration = Duration::from_secs(15 * 60);
/// A day's work.
pub(crate) const LIFE: Duration = Duration::from_secs(12 * 3600);

/// A session's name.
pub(crate) type Name = [u8; 32];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) user: String,
    pub(crate) mark: u64,
    since: Instant,
    used: Instant,
}

#[derive(Debug, Default)]
pub(crate) struct Sessions {
    by_name: HashMap<Name, Session>,
}

impl Sessions {
    /// `name`: random.
    pub(crate) fn begin(&mut self, name: Name, user: String, mark: u64, now: Instant) {
        self.by_name.retain(|_, session| session.is_alive(now));
        if self.by_name.len() >= SESSIONS_MAX {
            let idlest = self.by_name.iter().min_by_key(|(_, session)| session.used).map(|(name, _)| *name);
            idlest.map(|idlest| self.by_name.remove(&idlest));
        }
        self.by_name.insert(name, Session { user, mark, since: now, used: now });
    }

    /// A request of a session. `None`: there is none of that name any more.
    pub(crate) fn used(&mut self, name: &Name, now: Instant) -> Option<&Session> {
        if !self.by_name.get(name)?.is_alive(now) {
            self.by_name.remove(name);
            return None;
        }
        let session = self.by_name.get_mut(name)?;
        session.used = now;
        Some(session)
    }

    pub(crate) fn end(&mut self, name: &Name) {
        self.by_name.remove(name);
    }
}

impl Session {
    fn is_alive(&self, now: Instant) -> bool {
        now.duration_since(self.used) < IDLE && now.duration_since(self.since) < LIFE
    }
}

/// As a cookie has it.
pub(crate) fn written(name: &Name) -> String {
    name.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Of a cookie's value.
pub(crate) fn read(text: &str) -> Option<Name> {
    let digits = text.as_bytes();
    if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut name = [0; 32];
    for (byte, pair) in name.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(session: Option<&Session>) -> Option<&str> {
        session.map(|session| session.user.as_str())
    }

    #[test]
    fn a_session_ends_when_it_is_idle_or_old_or_left() {
        let mut sessions = Sessions::default();
        let began = Instant::now();
        sessions.begin([1; 32], "ann".to_owned(), 7, began);
        assert_eq!(user(sessions.used(&[1; 32], began + IDLE / 2)), Some("ann"));
        assert_eq!(sessions.used(&[2; 32], began), None);
        assert_eq!(sessions.used(&[1; 32], began + IDLE * 2), None, "idle");
        sessions.begin([1; 32], "ann".to_owned(), 7, began);
        let mut now = began;
        while sessions.used(&[1; 32], now).is_some() {
            now += IDLE / 2;
        }
        assert!(now - began >= LIFE && now - began < LIFE + IDLE);
        sessions.begin([3; 32], "bob".to_owned(), 7, now);
        sessions.end(&[3; 32]);
        assert_eq!(sessions.used(&[3; 32], now), None);
    }

    #[test]
    fn the_idlest_one_makes_room() {
        let mut sessions = Sessions::default();
        let now = Instant::now();
        for number in 0..=u8::try_from(SESSIONS_MAX).expect("few") {
            sessions.begin([number; 32], number.to_string(), 0, now + Duration::from_secs(u64::from(number)));
        }
        assert_eq!(sessions.by_name.len(), SESSIONS_MAX);
        let now = now + Duration::from_secs(100);
        assert_eq!(sessions.used(&[0; 32], now), None);
        assert_eq!(user(sessions.used(&[1; 32], now)), Some("1"));
    }

    #[test]
    fn a_name_is_read_as_it_is_written_and_nothing_else() {
        let name: Name = std::array::from_fn(|at| u8::try_from(at * 8 % 256).expect("below 256"));
        assert_eq!(read(&written(&name)), Some(name));
        for text in ["", "00", &"g".repeat(64), &"ä".repeat(32), &"+0".repeat(32), &"0".repeat(65)] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
