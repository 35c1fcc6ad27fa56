//! What machines tell each other: doors, workers, the coordinator, and the control plane.
//!
//! A full mailbox never blocks: it returns what may be returned ([`Mail::may_be_returned`], `Event::Returned`), and takes the rest
//! above its bound. Of that there is no more than of the logins, servers or console's clients that it is about.

use std::sync::Arc;

use connections::databases::{Address, Database};
use queueing::classes::{ClassId, ClassSet};
use queueing::limiting::{Allowance, CallBack, Limit};
use queueing::refusals::News;
use queueing::sizing::SizingSnapshot;
use queueing::wait_events::WaitCounts;
use session_state::catalogue::Definition;
use session_state::login_report::LoginReport;
use sql::Word;
use units::{ConnId, DoorId, Holder, Life, PoolId, PoolKey, ProcessId, Serial, Time, WorkerId};

use crate::Settings;
use crate::arrival::Arrival;
use crate::hint::Hint;
pub use crate::lent::{Lent, LentServer};
use crate::observe::Peer;
use crate::primaries::{Decision, Origin};
use crate::processes::FromProcess;
use crate::proved::Proved;
pub use crate::refusal::Refusal;
use crate::snapshot::{LimitCounts, Look};
pub use crate::stop::Stop;
use crate::upgrade::{DoorTurn, Luggage, Turn};
use crate::upstreams::Observed;

/// A machine's address.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    Door(DoorId),
    Coordinator,
    Worker(WorkerId),
}

/// One message, with its receiver: a machine is sent nothing that is not for its kind.
#[derive(Debug)]
pub enum Mail {
    ToDoor(DoorId, ToDoor),
    ToCoordinator(ToCoordinator),
    ToWorker(WorkerId, ToWorker),
}

impl Mail {
    /// The machine that it is for.
    #[must_use]
    pub fn place(&self) -> Place {
        match self {
            Mail::ToDoor(door, _) => Place::Door(*door),
            Mail::ToCoordinator(_) => Place::Coordinator,
            Mail::ToWorker(worker, _) => Place::Worker(*worker),
        }
    }

    /// New settings for the machine at a place.
    #[must_use]
    pub fn configure(place: Place, settings: Arc<Settings>) -> Mail {
        match place {
            Place::Door(door) => Mail::ToDoor(door, ToDoor::Configure(settings)),
            Place::Coordinator => Mail::ToCoordinator(ToCoordinator::Configure(settings)),
            Place::Worker(worker) => Mail::ToWorker(worker, ToWorker::Configure(settings)),
        }
    }

    /// The machine at a place is to end.
    #[must_use]
    pub fn stop(place: Place, stop: Stop) -> Mail {
        match place {
            Place::Door(door) => Mail::ToDoor(door, ToDoor::Stop(stop)),
            Place::Coordinator => Mail::ToCoordinator(ToCoordinator::Stop(stop)),
            Place::Worker(worker) => Mail::ToWorker(worker, ToWorker::Stop(stop)),
        }
    }

    /// Whether a full mailbox returns it: the sender can live with that. A client that has logged in always arrives, as
    /// max_client_conn has already counted it.
    #[must_use]
    pub fn may_be_returned(&self) -> bool {
        matches!(self, Mail::ToWorker(_, ToWorker::Exchange(_)))
    }

    /// What is returned to the sender of such a message.
    ///
    /// # Panics
    /// If the message may not be returned.
    #[must_use]
    pub fn into_returned(self) -> Exchange {
        match self {
            Mail::ToWorker(_, ToWorker::Exchange(exchange)) => exchange,
            other => panic!("only what workers exchange is returned, not {other:?}"),
        }
    }

    /// What its receiver must see to all the same, if it was lost.
    #[must_use]
    pub fn if_lost(&self) -> Option<Box<Lost>> {
        let lost = match self {
            Mail::ToWorker(_, ToWorker::Exchange(Exchange::Lend(lent))) => {
                Lost::Loan { pool: lent.pool(), from: lent.from, life: lent.life }
            }
            Mail::ToWorker(_, ToWorker::Renewed { worker, life }) => Lost::Renewal { worker: *worker, life: *life },
            Mail::ToDoor(_, ToDoor::Placed { pool, worker, life, user, .. }) => {
                Lost::Home { pool: *pool, worker: *worker, life: *life, user: Arc::clone(user) }
            }
            Mail::ToDoor(..) | Mail::ToCoordinator(_) | Mail::ToWorker(..) => return None,
        };
        Some(Box::new(lost))
    }

    /// A server that travels with this message.
    #[must_use]
    pub fn lent(&self) -> Option<&Lent> {
        match self {
            Mail::ToWorker(_, ToWorker::Exchange(Exchange::Lend(lent))) => Some(lent),
            _ => None,
        }
    }
}

/// A fact from the event of the step in which a machine panicked, on which other machines rely. The machine that
/// replaces it handles it.
#[derive(Clone, Debug)]
pub enum Lost {
    /// A server that was lent to it. Its connection is closed.
    Loan { pool: PoolId, from: WorkerId, life: Life },
    /// That another worker has panicked.
    Renewal { worker: WorkerId, life: Life },
    /// A home for a client of the door's.
    Home { pool: PoolId, worker: WorkerId, life: Life, user: Arc<str> },
}

/// What a door is sent.
#[derive(Debug)]
pub enum ToDoor {
    // From the coordinator: where a login lives.
    Placed {
        login: ConnId,
        pool: PoolId,
        homes: u16,
        worker: WorkerId,
        life: Life,
        user: Arc<str>,
        serial: Serial,
    },
    NotPlaced {
        login: ConnId,
        why: Refusal,
    },
    Upgrade(DoorTurn),
    /// The state of a host has changed. Users are looked up at hosts, too.
    Upstream(Observed),
    /// Which host of a list is written to from now on.
    Primary(Box<Decision>),

    // From workers.
    /// The worker has carried out a cancel request, or has found no query for it. `number`: the number of its ticket.
    CancelOver {
        number: u32,
    },

    // From the control plane.
    Configure(Arc<Settings>),
    Stop(Stop),
}

/// What the coordinator is sent.
#[derive(Debug)]
pub enum ToCoordinator {
    // From doors: where does this login live?
    Apply(Box<Application>),
    /// An applicant has gone, or was sent away, before it had an answer: it gives up its place in the queue.
    Withdrawn {
        applicant: Applicant,
    },

    // Capacity is tokens, one a server connection.
    /// May I open a server? `reserve`: its oldest waiter has waited for reserve_pool_timeout.
    RequestServer {
        pool: PoolId,
        holder: Holder,
        reserve: bool,
        /// The classes with work in the pool there.
        classes: ClassSet,
    },
    /// The answer to `Inquire`: so many more servers are waited for than are coming without a further token.
    StillNeeded {
        pool: PoolId,
        holder: Holder,
        count: u32,
        classes: ClassSet,
    },
    /// `Recall` found nothing idle here; nor, with `busy`, anything else to give back.
    NothingIdle {
        pool: PoolId,
        holder: Holder,
        busy: bool,
    },
    /// A server has logged in.
    Opened {
        pool: PoolId,
        holder: Holder,
    },
    /// A server could not be opened, or did not let us in, and will be tried again. For the log.
    Failed(Box<Failure>),
    /// A server is closed, or not opened; its token comes back. `fresh`: it was never of use, so its login is over, too.
    Freed {
        pool: PoolId,
        holder: Holder,
        fresh: bool,
    },
    /// A lent server has arrived at `to`, which tells this itself: its token is held there now.
    Moved {
        pool: PoolId,
        from: WorkerId,
        to: WorkerId,
    },

    // Limits: of events a second, and of transactions at a time.
    /// A holder needs `count` more tokens of a rate, or permits of a concurrency limit.
    RequestAllowance {
        limit: Limit,
        holder: Holder,
        count: u32,
    },
    /// Of what was allowed so much is not used; of what was called back, so much is not there.
    Unspent {
        limit: Limit,
        holder: Holder,
        count: u32,
        missing: u32,
    },

    // After a panic.
    /// This worker is in the place of one that has panicked, of which nothing is left but servers on their way to others. What
    /// that one had to tell has come before this.
    Renewed {
        worker: WorkerId,
        life: Life,
    },
    /// This door is in the place of one that has panicked, and knows nothing of hosts.
    NewDoor {
        door: DoorId,
    },
    /// What the worker before this life of `from` had lent to `to`, which tells this, has all arrived there.
    LoansArrived {
        from: WorkerId,
        life: Life,
        to: WorkerId,
    },

    // What has happened.
    /// A session has ended. `life`: of the worker that was chosen for it; the first for another process.
    Departed {
        pool: PoolId,
        holder: Holder,
        life: Life,
        user: Arc<str>,
    },
    /// Nothing is left of this pool here.
    Forgotten {
        pool: PoolId,
        worker: WorkerId,
    },
    /// A statement was sent that needs databases with some of these names empty: DROP DATABASE.
    Empty {
        /// Of the session that sends it.
        pool: PoolId,
        names: Box<[Word]>,
    },
    /// Such a statement has succeeded.
    Emptied {
        names: Box<[Word]>,
    },
    /// What `Count` asked for.
    Counted(Box<Counted>),
    /// A request was refused, the first in a while. For the log.
    Refused(Box<News>),
    /// A connection to a host has failed, or a server has logged in there again.
    Upstream(Observed),
    /// The prober has asked a host. `Origin`: of the system that is there, if it has answered that.
    Probed(Box<(Observed, Option<Origin>)>),
    /// Somebody outside says which host is the primary.
    Hinted(Box<Hint>),

    /// From another process that shares tokens with this one.
    Process(ProcessId, Box<FromProcess>),
    /// In an online upgrade.
    Upgrade(Box<Turn>),

    // From the control plane.
    Configure(Arc<Settings>),
    Stop(Stop),
}

/// A cancel request under way: which door waits until it has been carried out, and what that calls it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct CancelTicket {
    pub door: DoorId,
    pub number: u32,
}

/// A pool's login report, from one worker to another.
#[derive(Clone, Debug)]
pub struct SharedReport {
    pub pool: PoolId,
    pub report: Arc<LoginReport>,
    /// The order and the entry that the reporting server was opened by, if that is known: the count of RECONNECTs, and the database.
    pub reported_by: Option<(u32, Arc<Database>)>,
    /// It differs from the one before, and sessions have to follow it.
    pub is_news: bool,
}

/// What a worker is sent.
#[derive(Debug)]
pub enum ToWorker {
    // From doors.
    /// A session that has logged in; its connection comes along.
    Arrive(Box<Arrival>),
    /// A CancelRequest whose key names this worker.
    Cancel {
        pid: i32,
        secret: Box<[u8]>,
        /// `ToDoor::CancelOver` is the answer.
        ticket: Option<CancelTicket>,
    },

    // From the coordinator: after a panic.
    /// The answer to `Renewed`: what comes from here was meant for the worker before until now, and is for this one from now on.
    RenewalNoted {
        life: Life,
    },

    // From the coordinator: tokens, one a server connection.
    /// Open one server.
    Granted(Grant),
    /// Close one idle server: another pool is waiting at a cap both share. `busy`: it is this other pool's turn, so if none
    /// is idle, close one when it is released.
    Recall {
        pool: PoolId,
        busy: bool,
    },
    /// You have requested servers a while ago: do you still need them?
    Inquire {
        pool: PoolId,
    },
    /// So many of your requests are dropped, since nobody waits for them any more; `reserve`: that for the reserve is one.
    Dropped {
        pool: PoolId,
        count: u32,
        reserve: bool,
    },
    /// A reload has made the pool smaller: close so many servers, idle ones now, others when they are released.
    Shrink {
        pool: PoolId,
        count: u32,
    },
    /// Close what is idle, and the rest when it is released: a client needs the database empty.
    Vacate {
        pool: PoolId,
    },
    /// A client has proved another password of the pool's user than those before: servers are logged in to with this one from now on,
    /// and those of another one are closed.
    OtherPassword {
        pool: PoolId,
        proved: Arc<Proved>,
    },
    /// Nobody uses this pool any more: forget it, and say so.
    Forget {
        pool: PoolId,
    },

    // Login reports.
    /// From the coordinator: send this worker the pool's login report. A cap keeps it from getting a server.
    ShareReport {
        pool: PoolId,
        with: WorkerId,
    },
    /// From another worker: the pool's login report.
    Report(Box<SharedReport>),

    // From the coordinator: limits.
    /// The answer to `RequestAllowance`, or a part of it.
    Allow(Box<(Limit, Allowance)>),
    /// Another worker needs permits of this limit.
    CallBack(Box<(Limit, CallBack)>),
    /// What came of limits of logins, to be shown. To the first worker only.
    LoginsCounted(Box<[LimitCounts]>),

    // From the coordinator: the size of a pool.
    /// What has happened in this pool so far? `Counted` answers. `waits`: the next answer is to tell what its servers wait for.
    Count {
        pool: PoolId,
        with_wait_events: bool,
    },
    /// The size that was found for this pool, and why: to be shown.
    Sized {
        pool: PoolId,
        account: Arc<SizingSnapshot>,
    },

    // From the coordinator: where servers are opened.
    /// The state of a host has changed.
    Upstream(Observed),
    /// Which host of a list is written to from now on.
    Primary(Box<Decision>),

    // From other workers.
    /// A server, or the wish for one.
    Exchange(Exchange),
    /// It has arrived. `life`: of the worker that lent it.
    Received {
        pool: PoolId,
        life: Life,
    },
    /// That worker is in the place of one that has panicked. What that one had sent has come before this.
    Renewed {
        worker: WorkerId,
        life: Life,
    },
    /// A client of the worker that sends this is about to define something. `session`: it waits for `Noted`; `None`: it has done
    /// so, and does not wait.
    Defines {
        definition: Arc<Definition>,
        session: Option<ConnId>,
    },
    /// The answer: every pool of that database here knows it.
    Noted {
        definition: Arc<Definition>,
        session: ConnId,
        by: WorkerId,
    },
    /// The transaction is over that has defined something on this server; `lost`: or its server is gone.
    Settled {
        server: ConnId,
        lost: bool,
    },

    // In an online upgrade.
    /// Hand over what can move, as soon as it can.
    HandOver,
    /// What has not moved by now ends between two transactions.
    EndWhatStays,
    /// Neither any more: the other process is gone.
    GoOn,
    /// From another process, with its sockets.
    TakeIn(Box<TakeIn>),

    // From the control plane.
    Configure(Arc<Settings>),
    Stop(Stop),
    /// Ends this session, if it is still that one.
    KillClient {
        conn: ConnId,
        serial: Serial,
    },
    /// Cancels what this session runs or waits with, if it is still that session and runs anything.
    KillQuery {
        conn: ConnId,
        serial: Serial,
    },
    /// Show me yourself: `Action::Report` with the same ticket.
    Look {
        ticket: u64,
        look: Look,
    },
    /// The reply to a console client, as wire messages; `close` ends its session.
    Answer {
        conn: ConnId,
        bytes: Vec<u8>,
        close: bool,
    },
}

impl ToWorker {
    /// Whether the coordinator sends it, by what it knows of a worker.
    #[must_use]
    pub fn is_by_coordinator(&self) -> bool {
        match self {
            ToWorker::Granted(_)
            | ToWorker::Recall { .. }
            | ToWorker::Inquire { .. }
            | ToWorker::Dropped { .. }
            | ToWorker::Shrink { .. }
            | ToWorker::Vacate { .. }
            | ToWorker::ShareReport { .. }
            | ToWorker::OtherPassword { .. }
            | ToWorker::Forget { .. }
            | ToWorker::Allow(_)
            | ToWorker::CallBack(_)
            | ToWorker::LoginsCounted(_)
            | ToWorker::Count { .. }
            | ToWorker::Sized { .. }
            | ToWorker::Upstream(_)
            | ToWorker::Primary(_) => true,
            ToWorker::Arrive(_)
            | ToWorker::Cancel { .. }
            | ToWorker::RenewalNoted { .. }
            | ToWorker::Exchange(_)
            | ToWorker::Received { .. }
            | ToWorker::Renewed { .. }
            | ToWorker::Defines { .. }
            | ToWorker::Noted { .. }
            | ToWorker::Settled { .. }
            | ToWorker::Report(_)
            | ToWorker::HandOver
            | ToWorker::EndWhatStays
            | ToWorker::GoOn
            | ToWorker::TakeIn(_)
            | ToWorker::Configure(_)
            | ToWorker::Stop(_)
            | ToWorker::KillClient { .. }
            | ToWorker::KillQuery { .. }
            | ToWorker::Look { .. }
            | ToWorker::Answer { .. } => false,
        }
    }
}

/// How workers share idle servers. A full mailbox returns it to its sender.
#[derive(Debug)]
pub enum Exchange {
    /// A server, its connection with it. Counted by the sender until `Received` comes back.
    Lend(Box<Lent>),
    /// Sessions wait here in this pool, and the board says that you have an idle server.
    Beg { pool: PoolId, from: WorkerId },
}

/// One worker's counts of a pool since the worker's start, and what is there now: what its size is found by.
#[derive(Clone, Debug)]
pub struct Counted {
    pub pool: PoolId,
    pub worker: WorkerId,
    pub at: Time,
    pub transactions: u64,
    /// Microseconds in which servers were in transactions.
    pub transaction_us: u64,
    /// Microseconds for which the sessions had waited that were given a server.
    pub wait_us: u64,
    /// How many wait now.
    pub waiting: u32,
    /// Servers that have logged in.
    pub open: u32,
    /// Wait events of servers with work, if they were read since the last time.
    pub wait_events: Option<WaitCounts>,
}

/// What another process has handed over, and where it lives here.
#[derive(Debug)]
pub struct TakeIn {
    pub luggage: Luggage,
    pub pool: PoolId,
    /// On how many workers the pool lives.
    pub homes: u16,
    /// Of the worker, when it was chosen.
    pub life: Life,
}

/// A token: the right to one server connection.
#[derive(Clone, Debug)]
pub struct Grant {
    pub pool: PoolId,
    pub homes: u16,
    pub key: PoolKey,
    /// Although nobody waits, for min_pool_size.
    pub spare: bool,
    /// Beyond the pool's size, for a client that has waited for reserve_pool_timeout.
    pub reserve: bool,
    /// The server's.
    pub serial: Serial,
}

/// Why a server could not be opened.
#[derive(Clone, Debug)]
pub struct Failure {
    pub pool: PoolId,
    /// What the log calls it.
    pub server: ConnId,
    pub address: Arc<Address>,
    /// What tells one failure from another.
    pub why: Box<str>,
    /// Log lines.
    pub lines: Vec<String>,
}

/// Who has applied for a home, and gets the answer.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Applicant {
    /// A client at a door of this process.
    Login { door: DoorId, login: ConnId },
    /// A client that stays in another process, which has given it this number.
    Process { process: ProcessId, ticket: u64 },
}

/// An authenticated client that needs a home.
#[derive(Clone, Debug)]
pub struct Application {
    pub applicant: Applicant,
    pub key: PoolKey,
    /// The user that logged in, before forcing: what max_user_client_connections counts.
    pub user: Arc<str>,
    /// For the console, which has no servers.
    pub console: bool,
    /// Console admins are exempt from client limits.
    pub exempt: bool,
    pub peer: Peer,
    /// Of its session before its first statement.
    pub class: ClassId,
    /// What it has proved, if that is good for the pool's user.
    pub proved: Arc<Proved>,
}

impl Stop {
    /// Whether the machine at a place is sent this stop. One that waits for clients goes to the door, which passes it on when no login is under way.
    #[must_use]
    pub fn is_sent_to(self, place: Place) -> bool {
        self != Stop::WaitForClients || matches!(place, Place::Door(_))
    }
}
