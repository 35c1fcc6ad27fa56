//! Named prepared statements in transaction and statement mode: a client's names, and one name a text on servers.
//!
//! A client's statement is known by a 128-bit digest of its text and parameter types; its name on every server derives
//! from that, so clients that prepare the same text share it, and a server that comes from another worker is understood.
//! A server that lacks a statement gets it prepared right before it is used; each server keeps the most recently used
//! `max_prepared_statements`.
//!
//! //= pgbouncer config.md#max_prepared_statements

use std::collections::BTreeMap;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use wire::frontend::Parse;

use crate::limits;

/// The digest that stands for a statement everywhere.
pub(crate) type StatementId = u128;

/// A statement's text and types, shared by all clients of a worker that use it.
#[derive(Debug)]
pub struct Statement {
    pub(crate) id: StatementId,
    /// Its name on servers.
    pub(crate) name: Box<[u8]>,
    query: Box<[u8]>,
    types: Box<[u8]>,
}

impl Statement {
    fn new(id: StatementId, parse: &Parse<'_>) -> Statement {
        let name = format!("pgweir_{id:032x}").into_bytes().into();
        Statement { id, name, query: parse.query.into(), types: parse.types.into() }
    }

    /// The Parse message that makes it known to a server.
    pub(crate) fn write_parse(&self, out: &mut Vec<u8>) {
        Parse { name: &self.name, query: &self.query, types: &self.types }.encode(out);
    }

    fn len(&self) -> usize {
        self.query.len() + self.types.len() + self.name.len()
    }
}

/// Which statement a Parse message means.
pub(crate) fn identify(parse: &Parse<'_>) -> StatementId {
    let mut digest = Sha256::new();
    digest.update((parse.query.len() as u64).to_be_bytes());
    digest.update(parse.query);
    digest.update(parse.types);
    let digest = digest.finalize();
    let half: [u8; 16] = digest[..16].try_into().expect("a SHA-256 digest has 32 bytes");
    u128::from_be_bytes(half)
}

/// One copy of each statement on a worker.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    statements: BTreeMap<StatementId, Arc<Statement>>,
    sweep_at: usize,
}

impl Catalog {
    pub(crate) fn intern(&mut self, parse: &Parse<'_>) -> Arc<Statement> {
        let id = identify(parse);
        if let Some(known) = self.statements.get(&id) {
            return Arc::clone(known);
        }
        if self.statements.len() >= self.sweep_at {
            self.statements.retain(|_, statement| Arc::strong_count(statement) > 1);
            self.sweep_at = 256 + 2 * self.statements.len();
        }
        let statement = Arc::new(Statement::new(id, parse));
        self.statements.insert(id, Arc::clone(&statement));
        statement
    }
}

/// One client's names.
#[derive(Debug, Default)]
pub struct Names {
    names: BTreeMap<Box<[u8]>, Named>,
    bytes: usize,
}

#[derive(Debug)]
struct Named {
    statement: Arc<Statement>,
    /// ParseComplete has been answered; before that an error may still undo it.
    confirmed: bool,
}

impl Names {
    pub(crate) fn get(&self, name: &[u8]) -> Option<&Arc<Statement>> {
        self.names.get(name).map(|named| &named.statement)
    }

    /// False: the client keeps too much already.
    pub(crate) fn insert(&mut self, name: &[u8], statement: Arc<Statement>) -> bool {
        let bytes = self.bytes + name.len() + statement.len();
        let fits =
            bytes <= limits::STATEMENT_BYTES_PER_CLIENT_MAX && self.names.len() < limits::STATEMENTS_PER_CLIENT_MAX;
        if fits {
            self.bytes = bytes;
            self.names.insert(name.into(), Named { statement, confirmed: false });
        }
        fits
    }

    pub(crate) fn remove(&mut self, name: &[u8]) {
        if let Some(named) = self.names.remove(name) {
            self.bytes -= name.len() + named.statement.len();
        }
    }

    /// A Parse of this statement was answered.
    pub(crate) fn confirm(&mut self, id: StatementId) {
        let unconfirmed = self.names.values_mut().filter(|named| named.statement.id == id);
        unconfirmed.for_each(|named| named.confirmed = true);
    }

    /// The client discarded all its statements. What it has parsed since is not answered yet.
    pub(crate) fn discard_answered(&mut self) {
        let bytes = &mut self.bytes;
        self.names.retain(|name, named| {
            if named.confirmed {
                *bytes -= name.len() + named.statement.len();
            }
            !named.confirmed
        });
    }

    /// Forgets the names whose Parse was not answered: the server that should have is lost.
    pub(crate) fn forget_all_unconfirmed(&mut self) {
        let pending: Vec<StatementId> =
            self.names.values().filter(|named| !named.confirmed).map(|named| named.statement.id).collect();
        pending.into_iter().for_each(|id| self.forget(id));
    }

    /// Forgets the names of a statement whose Parse failed, but not those that an earlier Parse gave it.
    pub(crate) fn forget(&mut self, id: StatementId) {
        let bytes = &mut self.bytes;
        self.names.retain(|name, named| {
            let stays = named.confirmed || named.statement.id != id;
            if !stays {
                *bytes -= name.len() + named.statement.len();
            }
            stays
        });
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }
}

/// What one server has prepared, most recently used last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prepared {
    used: BTreeMap<StatementId, u64>,
    clock: u64,
}

impl Prepared {
    /// Marks a statement as used; false: the server does not have it.
    pub(crate) fn touch(&mut self, id: StatementId) -> bool {
        self.clock += 1;
        let clock = self.clock;
        self.used.get_mut(&id).map(|used| *used = clock).is_some()
    }

    pub(crate) fn add(&mut self, id: StatementId) {
        self.clock += 1;
        self.used.insert(id, self.clock);
    }

    pub(crate) fn remove(&mut self, id: StatementId) {
        self.used.remove(&id);
    }

    /// The least recently used one, if there are `max` or more.
    pub(crate) fn surplus(&self, max: usize) -> Option<StatementId> {
        if self.used.len() < max.max(1) {
            return None;
        }
        self.used.iter().min_by_key(|(_, used)| **used).map(|(id, _)| *id)
    }

    /// The server has discarded everything but these.
    pub(crate) fn keep_only(&mut self, which: impl Fn(StatementId) -> bool) {
        self.used.retain(|id, _| which(*id));
    }

    pub(crate) fn len(&self) -> usize {
        self.used.len()
    }
}

/// The name that a statement has on servers, for closing it.
pub(crate) fn server_name(id: StatementId) -> String {
    format!("pgweir_{id:032x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(query: &'static [u8], types: &'static [u8]) -> Parse<'static> {
        Parse { name: b"whatever", query, types }
    }

    #[test]
    fn text_and_types_tell_statements_apart() {
        let plain = identify(&parse(b"select 1", b"\0\0"));
        assert_eq!(plain, identify(&Parse { name: b"", query: b"select 1", types: b"\0\0" }));
        assert_ne!(plain, identify(&parse(b"select 1", b"\0\x01\0\0\0\x17")));
        assert_ne!(plain, identify(&parse(b"select 2", b"\0\0")));
        assert_ne!(identify(&parse(b"ab", b"c")), identify(&parse(b"a", b"bc")));
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut prepared = Prepared::default();
        (1..=3).for_each(|id| prepared.add(id));
        assert!(prepared.touch(1) && !prepared.touch(9));
        assert_eq!(prepared.surplus(4), None);
        assert_eq!(prepared.surplus(3), Some(2));
        prepared.remove(2);
        assert_eq!(prepared.surplus(2), Some(3));
    }

    #[test]
    fn a_client_keeps_no_more_than_its_share() {
        let mut names = Names::default();
        let mut catalog = Catalog::default();
        let big = vec![b'x'; limits::STATEMENT_LEN_MAX];
        let mut kept = 0;
        while names
            .insert(format!("s{kept}").as_bytes(), catalog.intern(&Parse { name: b"", query: &big, types: b"\0\0" }))
        {
            kept += 1;
        }
        assert!(kept >= 60 && kept * big.len() <= limits::STATEMENT_BYTES_PER_CLIENT_MAX);
        names.remove(b"s0");
        assert!(names.insert(b"again", catalog.intern(&parse(b"select 1", b"\0\0"))));
        names.forget(identify(&parse(b"select 1", b"\0\0")));
        assert!(names.get(b"again").is_none());
        (1..kept).for_each(|number| names.remove(format!("s{number}").as_bytes()));
        assert_eq!((names.len(), names.bytes), (0, 0));
    }
}
