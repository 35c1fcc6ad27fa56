//! What clients of the console keep between messages: prepared statements, portals with the rows that were not fetched, and whether they are in
//! a transaction block, which is one in name only.
//!
//! ```text
//!   Parse ─► statement ─ Bind ─► portal New ─ Execute ─► Suspended(rows) ─ Execute ─► Done
//! ```
//!
//! Promises that what one client keeps weighs at most [`CONSOLE_KEPT_MAX`]; a client that uses simple queries alone keeps nothing. Does not
//! answer: the rules do (`sessions/console.rs`, `sessions/extended.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use units::ConnId;
use units::limits::{CONSOLE_ENTRY_WEIGHT, CONSOLE_KEPT_MAX};
use wire::backend::Status;

/// The console's clients that have something to keep.
#[derive(Debug, Default)]
pub(crate) struct Consoles(BTreeMap<ConnId, Console>);

/// One of them.
#[derive(Debug, Default)]
pub(crate) struct Console {
    pub(crate) block: Block,
    pub(crate) reading: Reading,
    /// What the outstanding question is asked for.
    pub(crate) awaited: Awaited,
    statements: BTreeMap<Box<[u8]>, Statement>,
    portals: BTreeMap<Box<[u8]>, Portal>,
}

impl Console {
    /// It keeps nothing, and nothing is under way.
    pub(crate) fn is_fresh(&self) -> bool {
        self.statements.is_empty()
            && self.portals.is_empty()
            && self.block == Block::Outside
            && self.reading == Reading::All
    }
}

/// Whether BEGIN was said.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Block {
    #[default]
    Outside,
    Inside,
}

/// What is done with a message that comes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reading {
    #[default]
    All,
    /// An error has been told: nothing is done until Sync.
    UntilSync,
}

/// What a question to the control plane is asked for.
#[derive(Debug, Default)]
pub(crate) enum Awaited {
    #[default]
    Query,
    Parse {
        name: Box<[u8]>,
        text: Arc<[u8]>,
    },
    DescribeStatement,
    DescribePortal,
    Execute {
        portal: Box<[u8]>,
        rows_max: usize,
    },
}

/// A prepared statement: a command that was found to be one.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub(crate) text: Arc<[u8]>,
    /// Of its rows, 0 if it gives none.
    pub(crate) columns: u16,
    /// How many values have to be bound. Only what tools ask of the catalogue has any, and none is read.
    pub(crate) parameters: u16,
}

#[derive(Debug)]
pub(crate) struct Portal {
    /// The name of the statement that it was made of.
    pub(crate) statement: Box<[u8]>,
    pub(crate) text: Arc<[u8]>,
    /// One for each column.
    pub(crate) formats: Box<[u16]>,
    pub(crate) rows: Rows,
}

/// What a portal still has to give.
#[derive(Debug)]
pub(crate) enum Rows {
    New,
    /// The answer's messages, of which those before `at` have been sent.
    Suspended {
        answer: Vec<u8>,
        at: usize,
    },
    Done,
}

impl Consoles {
    /// A client's own; it has one from now on.
    pub(crate) fn of(&mut self, conn: ConnId) -> &mut Console {
        self.0.entry(conn).or_default()
    }

    /// `None`: it keeps nothing.
    pub(crate) fn get(&mut self, conn: ConnId) -> Option<&mut Console> {
        self.0.get_mut(&conn)
    }

    /// What its next ReadyForQuery says.
    pub(crate) fn status(&self, conn: ConnId) -> Status {
        match self.0.get(&conn).map(|console| console.block) {
            Some(Block::Inside) => Status::InTransaction,
            Some(Block::Outside) | None => Status::Idle,
        }
    }

    pub(crate) fn forget(&mut self, conn: ConnId) {
        self.0.remove(&conn);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ConnId, &Console)> {
        self.0.iter().map(|(conn, console)| (*conn, console))
    }
}

impl Console {
    /// Bytes of all that it keeps.
    pub(crate) fn weight(&self) -> usize {
        let statements =
            self.statements.iter().map(|(name, statement)| CONSOLE_ENTRY_WEIGHT + name.len() + statement.text.len());
        let portals = self.portals.iter().map(|(name, portal)| CONSOLE_ENTRY_WEIGHT + name.len() + portal.weight());
        statements.chain(portals).sum()
    }

    pub(crate) fn has_room(&self, len: usize) -> bool {
        self.weight() + CONSOLE_ENTRY_WEIGHT + len <= CONSOLE_KEPT_MAX
    }

    pub(crate) fn statement(&self, name: &[u8]) -> Option<&Statement> {
        self.statements.get(name)
    }

    pub(crate) fn prepare(&mut self, name: Box<[u8]>, statement: Statement) {
        self.statements.insert(name, statement);
    }

    /// Closes a statement and the portals that were made of it.
    pub(crate) fn close_statement(&mut self, name: &[u8]) {
        self.statements.remove(name);
        self.portals.retain(|_, portal| *portal.statement != *name);
    }

    pub(crate) fn portal(&mut self, name: &[u8]) -> Option<&mut Portal> {
        self.portals.get_mut(name)
    }

    pub(crate) fn open_portal(&mut self, name: Box<[u8]>, portal: Portal) {
        self.portals.insert(name, portal);
    }

    pub(crate) fn close_portal(&mut self, name: &[u8]) {
        self.portals.remove(name);
    }

    /// Sync, or a simple query: portals live as long as their transaction, which is that batch where no block was begun.
    pub(crate) fn end_batch(&mut self) {
        self.reading = Reading::All;
        if self.block == Block::Outside {
            self.portals.clear();
        }
    }
}

impl Portal {
    fn weight(&self) -> usize {
        let rows = match &self.rows {
            Rows::Suspended { answer, .. } => answer.len(),
            Rows::New | Rows::Done => 0,
        };
        self.statement.len() + self.text.len() + size_of_val(&*self.formats) + rows
    }
}
