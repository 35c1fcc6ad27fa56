//! How many logins were refused, and for what kind of reason.

use wire::SqlState;

/// Kinds of reasons, by the class of the error that the client got.
const REASONS: [(&str, &[[u8; 2]]); 5] = [
    // A wrong password, no rule of pg_hba.conf, a database or user that is not there.
    ("authentication", &[*b"28", *b"3D", *b"42"]),
    // As many as there may be: of clients, of logins at a time, of a class.
    ("limit", &[*b"53"]),
    // What it sent is no startup packet, or took too long to come.
    ("protocol", &[*b"08", *b"0A", *b"22"]),
    // The pooler is going down, or starting; the database is disabled or cannot be asked.
    ("not_available", &[*b"57"]),
    ("other", &[]),
];

/// Counts since the start.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusedLogins([u64; REASONS.len()]);

impl RefusedLogins {
    /// A login was refused with this error.
    pub fn count(&mut self, code: SqlState) {
        let is_it = |(_, classes): &(&str, &[[u8; 2]])| classes.contains(&code.class());
        self.0[REASONS.iter().position(is_it).unwrap_or(REASONS.len() - 1)] += 1;
    }

    /// Adds those of another door.
    pub fn add(&mut self, other: &RefusedLogins) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum += more);
    }

    /// Each kind of reason, and its count.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        REASONS.iter().map(|(reason, _)| *reason).zip(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::sqlstate;

    #[test]
    fn each_error_has_a_kind() {
        let mut refused = RefusedLogins::default();
        let codes = [
            sqlstate::INVALID_PASSWORD,
            sqlstate::INVALID_AUTHORIZATION,
            sqlstate::TOO_MANY_CONNECTIONS,
            sqlstate::CONFIGURATION_LIMIT_EXCEEDED,
            sqlstate::PROTOCOL_VIOLATION,
            sqlstate::CANNOT_CONNECT_NOW,
            SqlState(*b"XX000"),
        ];
        codes.into_iter().for_each(|code| refused.count(code));
        let counts: Vec<_> = refused.counts().collect();
        let expected = [("authentication", 2), ("limit", 2), ("protocol", 1), ("not_available", 1), ("other", 1)];
        assert_eq!(counts, expected);
    }
}
