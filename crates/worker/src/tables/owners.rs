//! The owners of a worker's state. A rule takes those that it touches, so that its signature lists them.
//!
//! | owner | its state |
//! |---|---|
//! | [`Sessions`] | sessions, what console clients and lost blocks keep, messages that are not whole yet |
//! | [`Servers`] | servers, connections that carry a CancelRequest, what tests do to servers |
//! | [`Pools`] | pools, refusals by pool, definitions of transactions that are not over |
//! | [`Limiters`](crate::tables::limiters::Limiters) | this worker's part of limits, and the sessions that wait for them |
//! | [`Clock`] | timers |
//!
//! [`Plan`] is the same for a whole step.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use link::lost_block::LostBlock;
use link::server::Server;
use link::session::Session;
use machine::{Settings, Upstreams};
use queueing::refusals::Refusals;
use session_state::catalogue::Definition;
use units::deadline::Deadlines;
use units::random::Random;
use units::table::Table;
use units::{ConnId, Kind, Life, Time, WorkerId, limits};

use crate::chaos::{Chaos, chaos};
use crate::tables::cancels::Cancels;
use crate::tables::consoles::Consoles;
use crate::tables::halves::Halves;
use crate::tables::open_definitions::OpenDefinitions;
use crate::tables::pool_table::PoolTable;
use crate::tables::stopping::Stopping;
use crate::tables::walk::Walk;

/// Which worker it is, its settings, and the state of a shutdown.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) id: WorkerId,
    pub(crate) life: Life,
    pub(crate) settings: Arc<Settings>,
    pub(crate) stopping: Stopping,
}

/// Clients that have logged in.
#[derive(Debug)]
pub(crate) struct Sessions {
    pub(crate) table: Table<Session>,
    pub(crate) consoles: Consoles,
    /// The blocks whose servers were lost, for the sessions in that state.
    pub(crate) lost_blocks: BTreeMap<ConnId, LostBlock>,
    /// Messages that are not whole yet.
    pub(crate) halves: Halves,
    /// Sessions that have ended and whose connections are not closed yet.
    pub(crate) departing: u32,
    /// Clients of the console that were let in.
    pub(crate) console_logins: u64,
}

/// Connections to PostgreSQL.
#[derive(Debug)]
pub(crate) struct Servers {
    pub(crate) table: Table<Server>,
    pub(crate) cancels: Cancels,
    /// Only while one of the `chaos_` settings is on.
    pub(crate) chaos: Option<Box<dyn Chaos>>,
    pub(crate) random: Random,
}

/// Pools, what is counted by pool, and the hosts of their databases.
#[derive(Debug)]
pub(crate) struct Pools {
    pub(crate) table: PoolTable,
    pub(crate) refusals: Refusals,
    /// Definitions of transactions that are not over.
    pub(crate) definitions: OpenDefinitions,
    /// Servers lent to other workers.
    pub(crate) lends: u64,
    /// The coordinator's, as far as they are known here.
    pub(crate) upstreams: Upstreams,
}

/// Timers.
#[derive(Debug, Default)]
pub(crate) struct Clock {
    pub(crate) deadlines: Deadlines,
    /// The sessions and servers that can move to another process, or are to end, are looked for in this order.
    pub(crate) walk: Walk,
    /// When servers that owe an answer are looked at next. `None`: there was none at the last look, and no event since.
    pub(crate) look_at: Option<Time>,
    /// The steps so far.
    pub(crate) steps: u64,
}

impl Clock {
    /// Any event but the end of a round may lead to a request to a server.
    #[inline(always)]
    pub(crate) fn note_event(&mut self, now: Time) {
        self.walk.note_change();
        if self.look_at.is_none() {
            self.look_at = Some(now + limits::SILENCE);
        }
    }
}

impl Sessions {
    pub(crate) fn new(id: WorkerId) -> Sessions {
        let table = Table::new(Kind::Client, id.0);
        Sessions {
            table,
            consoles: Consoles::default(),
            lost_blocks: BTreeMap::new(),
            halves: Halves::default(),
            departing: 0,
            console_logins: 0,
        }
    }
}

impl Servers {
    /// `seed`: the worker's, unpredictable.
    pub(crate) fn new(id: WorkerId, settings: &Settings, seed: [u8; 32]) -> Servers {
        Servers {
            table: Table::new(Kind::Server, id.0),
            cancels: Cancels::new(id.0),
            chaos: chaos(settings, id.0),
            random: Random::new(seed),
        }
    }
}

impl Pools {
    pub(crate) fn new(settings: &Settings) -> Pools {
        Pools {
            table: PoolTable::default(),
            refusals: Refusals::default(),
            definitions: OpenDefinitions::default(),
            lends: 0,
            upstreams: Upstreams::new(settings),
        }
    }

    /// A transaction has defined something, and is not over.
    pub(crate) fn note_definition(&mut self, now: Time, definition: &Definition) {
        self.definitions.note(self.table.iter_mut(), now, definition);
    }

    /// The transaction of a server that has defined something is over; `lost`: the server is gone.
    pub(crate) fn settle_definitions(&mut self, now: Time, server: ConnId, lost: bool) {
        self.definitions.settle(self.table.iter_mut(), now, server, lost);
    }
}

impl Deref for Sessions {
    type Target = Table<Session>;

    #[inline(always)]
    fn deref(&self) -> &Table<Session> {
        &self.table
    }
}

impl DerefMut for Sessions {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Table<Session> {
        &mut self.table
    }
}

impl Deref for Servers {
    type Target = Table<Server>;

    #[inline(always)]
    fn deref(&self) -> &Table<Server> {
        &self.table
    }
}

impl DerefMut for Servers {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Table<Server> {
        &mut self.table
    }
}

impl Deref for Pools {
    type Target = PoolTable;

    #[inline(always)]
    fn deref(&self) -> &PoolTable {
        &self.table
    }
}

impl DerefMut for Pools {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut PoolTable {
        &mut self.table
    }
}
