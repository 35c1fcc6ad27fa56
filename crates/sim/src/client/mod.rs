//! One model client: logs in, works, checks every answer, leaves or vanishes.
//!
//! Beside it runs its twin, a PostgreSQL session of its own that gets the same messages. Whatever the pooler hands the
//! client must be what the twin says, byte for byte and in order, with nothing missing and nothing besides (I2, I11).
//! Notices are passed over. If the connection ends, there must be a reason, and the client must be told it (I8).

mod answers;
mod console;
mod contending;
mod ending;
mod hostile;
mod hurry;
mod login;
mod loss;
mod memory;
mod news;
mod turn;

use std::cell::RefCell;
use std::rc::Rc;

use pooling::settings::{Fidelity, PoolMode};
use wire::backend::Status;

use crate::backend::Backend;
use crate::book::Book;
use crate::census::Census;
use crate::course::Finding;
use crate::link::{Leaving, Link, LinkId};
use crate::plan::{ANY_NAME, Plan};
use crate::random::Random;
use crate::shared::{Server, Shared};
pub use console::Console;

/// What a client does on the way.
#[derive(Copy, Clone, Debug, Default)]
pub struct Habits {
    /// Sends CancelRequests; then it sends one unit at a time.
    pub cancels: bool,
    /// Reads and writes so many bytes at a time; 0: as many as there are.
    pub pace: usize,
    /// Breaks off after that many bytes were sent; orderly or not.
    pub vanishes_after: Option<u64>,
    pub vanishes_orderly: bool,
    pub wrong_password: bool,
    /// Leaves without saying Terminate.
    pub impolite: bool,
    /// Leaves state behind wherever it can, and looks at none.
    pub poisons: bool,
    /// Uses the channel of its database, not only its own.
    pub shares_channel: bool,
    /// Sends what is no protocol, at once or after a while.
    pub hostile: bool,
    /// Asks for a database, or as a user, that is not there.
    pub lost: Option<Nowhere>,
}

impl Habits {
    fn draw(number: u32, plan: &Plan, random: &mut Random) -> Habits {
        let manners = &plan.manners;
        Habits {
            cancels: random.chance(manners.cancellers),
            pace: if random.chance(manners.slow) { random.skewed(1, 5_000) as usize } else { 0 },
            vanishes_after: random.chance(manners.vanish).then(|| random.skewed(1, 20_000)),
            vanishes_orderly: random.chance(500),
            wrong_password: random.chance(manners.wrong_password),
            impolite: random.chance(200),
            poisons: number % 5 == 1,
            shares_channel: plan.promises.shared_channels,
            hostile: random.chance(manners.hostile),
            lost: random.chance(manners.lost).then(|| {
                // Where there is a database of any name, none is missing.
                let nowhere = plan.settings.fallback.is_none() && random.chance(500);
                if nowhere { Nowhere::Database } else { Nowhere::User }
            }),
        }
    }
}

/// What a client asks for that is not there.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Nowhere {
    Database,
    User,
}

#[derive(Debug)]
enum Phase {
    /// The startup packet is sent, or an SSLRequest before it.
    Starting {
        asked_for_tls: bool,
    },
    Proving(Option<Box<auth::ClientExchange>>),
    /// AuthenticationOk was read.
    Welcoming,
    Ready,
    /// It has sent rubbish; whatever comes is right, if it is not somebody else's.
    Hostile {
        until: u64,
    },
}

/// What a client wants of the world after it was awake.
#[derive(Debug, Default)]
pub struct Wants {
    pub leave: Option<Leaving>,
    /// A CancelRequest with this key.
    pub cancel: Option<(i32, [u8; 4])>,
    /// Wake it again after so many microseconds.
    pub again: Option<u64>,
}

/// What the world knows and a client judges by.
#[derive(Copy, Clone, Debug)]
pub struct Circumstances {
    pub now: u64,
    /// When a server last died, or a login at PostgreSQL last failed.
    pub trouble_at: Option<u64>,
    pub closing_time: bool,
}

/// The client.
#[derive(Debug)]
pub struct Client {
    pub number: u32,
    pub link: LinkId,
    pub mode: PoolMode,
    pub database: usize,
    /// The database it asks for.
    pub name: String,
    pub user: usize,
    pub habits: Habits,
    phase: Phase,
    since: u64,
    twin: Backend,
    /// The server that it believes to be alone at.
    server: Server,
    /// Who it is there.
    login: String,
    /// Its state is to follow it from server to server.
    followed: bool,
    /// What takes too long is cancelled, though it has not asked for that.
    overdue: bool,
    /// How long it can wait for a server; 0: for as long as it takes.
    deadline_ms: u32,
    /// What the twin said and the pooler has not said yet.
    expected: Vec<u8>,
    expected_at: usize,
    /// Messages that the twin has not been given, because a cancel may strike them.
    undecided: Vec<(u8, Vec<u8>)>,
    /// The twin is at a statement that takes time, and it depends on the next answer how that ends.
    at_work: bool,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    outbox_at: usize,
    sent: u64,
    key: Option<(i32, [u8; 4])>,
    /// It talks to the console, not to a database.
    pub console: Option<Box<Console>>,
    pub cancels_sent: u32,
    cancels_seen: u32,
    cancel_at: Option<u64>,
    units: u64,
    marks: u32,
    /// Since when it is owed something.
    owed_since: Option<u64>,
    /// Since when it has not been without a debt.
    owed_from: Option<u64>,
    resting_until: u64,
    began_block: bool,
    /// Tracked parameters it names in its startup packet.
    wishes: Vec<usize>,
    said_goodbye: bool,
    /// How many ReadyForQuery are owed.
    owed_ready: u32,
    /// Its server was lost: what is still owed is answered by errors, or anew by another server.
    lost: bool,
    /// Settings are being changed by what is under way.
    setting: bool,
    /// Losses survived: names of before may be gone, so others are used.
    losses: u32,
    /// It no longer knows where it stands, and leaves.
    gives_up: bool,
    contender: contending::Contender,
    /// The statement that it dawdled behind last.
    dawdled: u32,
    /// The FATAL it was told.
    told: Option<String>,
    /// When it last was in the middle of something with a server.
    engaged_at: Option<u64>,
    news: news::News,
}

impl Client {
    #[must_use]
    pub fn new(
        number: u32,
        link: LinkId,
        plan: &Plan,
        book: &Rc<RefCell<Book>>,
        random: &mut Random,
        now: u64,
    ) -> Client {
        let database = random.below(plan.databases.len() as u64) as usize;
        let user = random.below(plan.users.len() as u64) as usize;
        let name = match plan.databases[database].name.as_str() {
            ANY_NAME => format!("auto{}", random.below(6)),
            name => name.to_owned(),
        };
        let at_server = &plan.users[plan.databases[database].forced.unwrap_or(user)].name;
        let key = units::PoolKey { database: name.as_str().into(), user: at_server.as_str().into() };
        let habits = Habits::draw(number, plan, random);
        let (defaults, login) = (plan.databases[database].defaults, key.user.to_string());
        let server = Shared::new(Rc::clone(book));
        let console = random.chance(plan.manners.consoles).then(|| Console::new(user == 0, now, random));
        Client {
            number,
            link,
            mode: plan.mode(&key),
            database,
            name,
            user,
            habits,
            phase: Phase::Starting { asked_for_tls: false },
            since: now,
            twin: Backend::new(&server, defaults, &login, false, false),
            server,
            login,
            followed: plan.settings.global.pools.pool_fidelity != Fidelity::Classic,
            overdue: plan.cancels_overdue(plan.mode(&key)),
            deadline_ms: hurry::draw(number, plan, plan.mode(&key)),
            expected: Vec::new(),
            expected_at: 0,
            undecided: Vec::new(),
            at_work: false,
            inbox: Vec::new(),
            outbox: Vec::new(),
            outbox_at: 0,
            sent: 0,
            key: None,
            console: console.map(Box::new),
            cancels_sent: 0,
            cancels_seen: 0,
            cancel_at: None,
            units: random.range(1, plan.manners.units_max),
            marks: 0,
            owed_since: None,
            owed_from: None,
            resting_until: 0,
            began_block: false,
            wishes: Vec::new(),
            said_goodbye: false,
            owed_ready: 0,
            lost: false,
            setting: false,
            losses: 0,
            gives_up: false,
            contender: contending::Contender::default(),
            dawdled: 0,
            told: None,
            engaged_at: None,
            news: news::News::default(),
        }
    }

    #[must_use]
    pub fn is_hostile(&self) -> bool {
        matches!(self.phase, Phase::Hostile { .. })
    }

    #[must_use]
    pub fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready)
    }

    /// For reports of clients that are still there at the end.
    #[must_use]
    pub fn describe(&self) -> String {
        format!(
            "client {} ({:?} {:?}) since {}: {} bytes expected, {} undecided, {} to send, twin {:?}",
            self.number,
            self.phase,
            self.mode,
            self.since,
            self.expected.len() - self.expected_at,
            self.undecided.len(),
            self.outbox.len() - self.outbox_at,
            self.twin.status(),
        )
    }

    /// A cancel may strike what it has sent: it sends one unit at a time.
    fn may_be_struck(&self) -> bool {
        self.habits.cancels || self.overdue || self.deadline_ms > 0
    }

    fn is_owed(&self) -> bool {
        self.expected_at < self.expected.len()
            || self.is_owed_at_console()
            || !self.undecided.is_empty()
            || self.owed_ready > 0
    }

    /// In the middle of something: the end of a server may be the end of this client.
    fn is_engaged(&self) -> bool {
        self.is_owed()
            || self.twin.status() != Status::Idle
            || self.mode == PoolMode::Session
            || self.outbox_at < self.outbox.len()
            || !matches!(self.phase, Phase::Ready)
    }

    /// Reads what has come, works on, and writes what the connection takes. `read` and `write` are the connection's.
    ///
    /// # Errors
    /// What it got is not what it was owed.
    pub fn wake(
        &mut self,
        facts: Circumstances,
        plan: &Plan,
        random: &mut Random,
        census: &mut Census,
        link: &mut Link,
    ) -> Result<Wants, Finding> {
        let mut wants = Wants::default();
        let deaf = self.is_ready() && self.console.as_ref().is_some_and(|console| facts.now < console.deaf_until);
        if !deaf || facts.closing_time {
            self.read(link, &mut wants);
        }
        self.progress(facts, plan, census)?;
        let over = link.down.end_arrived && link.down.is_empty();
        if over {
            self.judge_end(facts, plan)?;
            wants.leave = Some(Leaving::Orderly);
            return Ok(wants);
        }
        let is_read = self.inbox.is_empty() && link.down.is_empty();
        if is_read && plan.faults.every == 0 && !facts.closing_time {
            self.judge_news(facts.now)?;
        }
        self.misbehave(facts, random, census, &mut wants);
        if matches!(self.phase, Phase::Ready) && self.console.is_some() {
            self.work_at_console(facts, plan, random, &mut wants);
        } else if matches!(self.phase, Phase::Ready) && !self.lost {
            self.work(facts, plan, random, census, &mut wants);
        }
        if self.gives_up {
            wants.leave = Some(Leaving::Orderly);
        }
        self.write(link, &mut wants);
        self.settle_news(facts.now);
        if self.is_engaged() {
            self.engaged_at = Some(facts.now);
        }
        if self.is_owed() {
            self.owed_since.get_or_insert(facts.now);
            self.owed_from.get_or_insert(facts.now);
        } else {
            (self.owed_since, self.owed_from) = (None, None);
        }
        if let Some(limit) = self.habits.vanishes_after
            && self.sent >= limit
        {
            census.vanished += 1;
            wants.leave = Some(if self.habits.vanishes_orderly { Leaving::Orderly } else { Leaving::Cut });
        }
        Ok(wants)
    }

    fn read(&mut self, link: &mut Link, wants: &mut Wants) {
        let available = link.down.readable().len();
        let count = if self.habits.pace > 0 { available.min(self.habits.pace) } else { available };
        self.inbox.extend_from_slice(&link.down.readable()[..count]);
        link.down.consume(count);
        if count < available {
            wants.again = Some(300);
        }
    }

    fn write(&mut self, link: &mut Link, wants: &mut Wants) {
        let mut rest = &self.outbox[self.outbox_at..];
        if self.habits.pace > 0 {
            rest = &rest[..rest.len().min(self.habits.pace)];
        }
        if let Some(limit) = self.habits.vanishes_after {
            rest = &rest[..rest.len().min(limit.saturating_sub(self.sent) as usize)];
        }
        let count = link.up.write(rest);
        let paced = self.habits.pace > 0 && count == rest.len();
        self.outbox_at += count;
        self.sent += count as u64;
        if self.outbox_at == self.outbox.len() {
            self.outbox.clear();
            self.outbox_at = 0;
        } else if paced {
            wants.again = Some(700);
        }
    }
}
