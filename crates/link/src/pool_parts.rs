//! What a pool consists of, by what changes together.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use auth::{Challenge, Keys};
use machine::snapshot::{FidelityCounts, Totals};
use queueing::board::Cell;
use queueing::queue::ClassQueue;
use queueing::sizing::SizingSnapshot;
use queueing::wait_events::WaitSampling;
use session_state::base::Base;
use session_state::catalogue::Known;
use session_state::spelling::Learnt;
use units::{ConnId, Time, WorkerId};

use crate::experience::Experience;
use crate::published::Published;

/// The servers of a pool here.
#[derive(Debug, Default)]
pub struct Servers {
    /// Least recently used first.
    pub idle: VecDeque<ConnId>,
    /// How many are of each group.
    pub(crate) groups: [u32; 5],
    /// Servers whose clients have prepared without a Sync, and may have gone on since.
    pub resting: Vec<ConnId>,
    /// Servers to close when they are released, since a reload has made the pool smaller.
    pub surplus: u32,
    /// Servers to close when they are released, since it is another pool's turn at a cap.
    pub yields: u32,
    /// Servers on their way to other workers, counted here until they have arrived.
    pub lent: u32,
    /// Smoothed time from link to release, in microseconds.
    pub service_us: u64,
}

/// How more of them are asked for and opened.
#[derive(Debug, Default)]
pub struct Opening {
    /// Tokens asked for and not granted yet.
    pub requested: u32,
    /// Since when some are, and none was granted.
    pub requested_since: Time,
    pub requested_reserve: bool,
    /// Where the last server that was opened did not log in.
    pub pause: Option<Pause>,
    /// A login was refused for good: nothing is opened for min_pool_size before this.
    pub spare_after: Time,
    /// Which host is next.
    pub next_host: usize,
    /// Keys that proved the password to PostgreSQL, so that a login derives them once.
    pub keys: Option<(Challenge, Keys)>,
    /// Keys from a client's own SCRAM proof.
    pub client_keys: Option<Keys>,
}

impl Opening {
    /// Nothing is opened for now, because it failed a moment ago.
    #[inline]
    pub fn is_paused(&self, now: Time) -> bool {
        self.pause.is_some_and(|pause| now < pause.until)
    }
}

/// Nothing is opened for a while after a server has failed to log in.
#[derive(Copy, Clone, Debug)]
pub struct Pause {
    /// How many have failed in a row; the pause doubles with each.
    pub failures: u32,
    /// When the last of them was counted.
    pub failed_at: Time,
    pub until: Time,
}

/// Sessions that keep their servers.
#[derive(Debug, Default)]
pub struct Pins {
    /// Who wants to keep a server, while as many do as may.
    pub queue: ClassQueue,
    /// Sessions with the right to keep a server, and those that keep one without.
    pub count: u32,
}

/// What sessions are told when they are let in.
#[derive(Debug, Default)]
pub struct Welcome {
    /// Sessions that only wait to learn the pool's parameters.
    pub waiting: Vec<(ConnId, Time)>,
    pub base: Option<Arc<Base>>,
    /// How servers report what clients begin with.
    pub learnt: Learnt,
}

/// What is exchanged with the other workers where the pool lives.
#[derive(Debug)]
pub struct Exchange {
    pub homes: u16,
    /// What the board shows of this worker.
    pub published: Cell,
    /// And of its classes.
    pub published_classes: Published,
    /// Whose wait has been answered with a server, and which: the board may show it a little longer.
    pub fed: BTreeMap<WorkerId, Time>,
    /// Who was begged, and for which waiter.
    pub begged: BTreeMap<WorkerId, Time>,
    /// Another worker's mailbox was full: nothing is lent before this.
    pub lends_refused_until: Time,
}

impl Exchange {
    /// Of a pool that lives on so many workers, and has told them nothing yet.
    pub(crate) fn of(homes: u16) -> Exchange {
        Exchange {
            homes,
            published: Cell::CALM,
            published_classes: Published::default(),
            fed: BTreeMap::new(),
            begged: BTreeMap::new(),
            lends_refused_until: Time::ZERO,
        }
    }
}

/// What is counted.
#[derive(Debug, Default)]
pub struct PoolCounts {
    /// Sessions of this pool here.
    pub sessions: u32,
    pub cancels: u32,
    pub totals: Totals,
    pub fidelity: FidelityCounts,
}

/// The side effects of its database's functions, triggers and views.
#[derive(Debug)]
pub struct CatalogueNames {
    /// The side effects of its database's functions, triggers and views.
    pub known: Known,
    /// How often tables, types or functions were changed by clients here, as far as texts tell.
    pub generation: u64,
}

/// How it has run so far.
#[derive(Debug, Default)]
pub struct Measured {
    /// What has run long here.
    pub experience: Experience,
    /// What the coordinator has told of its size, if that is found.
    pub account: Option<Arc<SizingSnapshot>>,
    /// What its servers wait for, if its size is looked for.
    pub wait_sampling: Option<Box<WaitSampling>>,
}
