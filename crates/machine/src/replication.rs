//! What a client has asked for that wants to replicate instead of running queries in a pool.
//!
//! Such a client gets a server of its own, which is opened with the client's own startup parameters. Does not know what
//! replication does: a replication connection's messages pass unread.
//!
//! //= pg18 protocol-replication#PROTOCOL-REPLICATION
//! //= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-STARTUPMESSAGE

use units::heap;

use crate::startup_parameters::StartupParameters;

/// Which kind.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ReplicationKind {
    /// Of the whole cluster: it belongs to no database.
    Physical,
    /// Of the database that it names, in which it can run SQL too.
    Logical,
}

impl ReplicationKind {
    /// The value of `replication` in a startup packet: `Ok(None)` is a "no". `Err`: PostgreSQL would refuse it.
    pub fn read(value: &[u8]) -> Result<Option<ReplicationKind>, ()> {
        if value == b"database" {
            return Ok(Some(ReplicationKind::Logical));
        }
        is_true(value).map(|yes| yes.then_some(ReplicationKind::Physical)).ok_or(())
    }

    /// What PostgreSQL is asked for with.
    #[must_use]
    pub fn value(self) -> &'static [u8] {
        match self {
            ReplicationKind::Physical => b"true",
            ReplicationKind::Logical => b"database",
        }
    }

    /// The log's word, as in PgBouncer.
    #[must_use]
    pub fn logged(kind: Option<ReplicationKind>) -> &'static str {
        match kind {
            None => "no",
            Some(ReplicationKind::Physical) => "yes",
            Some(ReplicationKind::Logical) => "database",
        }
    }

    /// The console's word.
    //= pgbouncer usage.md#show-clients
    #[must_use]
    pub fn shown(kind: Option<ReplicationKind>) -> &'static str {
        match kind {
            None => "none",
            Some(ReplicationKind::Physical) => "physical",
            Some(ReplicationKind::Logical) => "logical",
        }
    }
}

/// As PostgreSQL reads a Boolean: any beginning of these words that says which one is meant, in any case.
fn is_true(value: &[u8]) -> Option<bool> {
    let words: [(&[u8], usize, bool); 8] = [
        (b"true", 1, true),
        (b"false", 1, false),
        (b"yes", 1, true),
        (b"no", 1, false),
        (b"on", 2, true),
        (b"off", 2, false),
        (b"1", 1, true),
        (b"0", 1, false),
    ];
    let fits = |(word, least, _): &&(&[u8], usize, bool)| {
        value.len() >= *least && word.get(..value.len()).is_some_and(|start| start.eq_ignore_ascii_case(value))
    };
    words.iter().find(fits).map(|(_, _, yes)| *yes)
}

/// What such a client has asked for.
#[derive(Debug)]
pub struct Replication {
    pub kind: ReplicationKind,
    /// Its startup packet, `options` included, without what names the user, the database and the kind.
    pub parameters: StartupParameters,
}

impl Replication {
    /// Bytes of memory that it takes.
    #[must_use]
    pub fn weight(&self) -> usize {
        heap::taken(size_of::<Replication>()) + self.parameters.weight()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_read_as_postgresql_reads_it() {
        let physical = Ok(Some(ReplicationKind::Physical));
        for yes in ["true", "TRUE", "t", "tr", "on", "ON", "yes", "y", "1"] {
            assert_eq!(ReplicationKind::read(yes.as_bytes()), physical, "{yes}");
        }
        for no in ["false", "f", "off", "of", "no", "n", "0", "No"] {
            assert_eq!(ReplicationKind::read(no.as_bytes()), Ok(None), "{no}");
        }
        assert_eq!(ReplicationKind::read(b"database"), Ok(Some(ReplicationKind::Logical)));
        for wrong in ["", "o", "maybe", "DATABASE", "truee", "10", "2"] {
            assert_eq!(ReplicationKind::read(wrong.as_bytes()), Err(()), "{wrong}");
        }
    }
}
