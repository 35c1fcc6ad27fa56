//! One model client: logs in, works, checks every answer, leaves or vanishes.
//!
//! It has a twin, a PostgreSQL session of its own that gets the same messages. The pooler must send the client exactly
//! what the twin sends, byte for byte and in order (I2, I11). Notices are skipped. If the connection ends, there must
//! be a reason, and the client must get it as an error (I8).

mod answers;
mod cancels;
mod compare;
mod console;
mod contending;
mod habits;
mod hostile;
mod hurry;
mod identity;
mod login;
mod memory;
mod news;
mod outcomes;
pub(crate) mod replica;
mod socket;
mod talk;
mod turn;
mod twin;

use std::cell::RefCell;
use std::rc::Rc;

use connections::databases::CONSOLE_DATABASE;
use machine::Question;
use settings::{AuthType, PoolMode};
use wire::backend::{Notification, Status};

use crate::book::Book;
use crate::census::Census;
use crate::course::Finding;
use crate::link::{Leaving, Link, LinkId};
use crate::plan::Plan;
use crate::random::Random;
use crate::secret::Secret;
use crate::shared::Shared;
use cancels::Cancels;
pub use console::Console;
pub use habits::{Habits, Nowhere};
pub use identity::Identity;
use news::News;
use outcomes::Outcomes;
use replica::Replica;
use talk::Talk;
use turn::{ClientWork, Turn};
use twin::Twin;

#[derive(Debug)]
enum ClientPhase {
    /// The startup packet is sent, or an SSLRequest before it.
    Starting {
        asked_for_tls: bool,
    },
    Proving(Option<Box<auth::ClientExchange>>),
    /// AuthenticationOk was read.
    Welcoming,
    Ready,
    /// It has sent rubbish. Every answer is right, except another client's.
    Hostile {
        until: u64,
    },
}

/// A client's requests to the world after it ran.
#[derive(Debug, Default)]
pub struct Wants {
    pub leave: Option<Leaving>,
    /// Send a CancelRequest with this key.
    pub cancel: Option<(i32, Secret)>,
    /// Wake it again after so many microseconds.
    pub again: Option<u64>,
}

/// Facts of the world for a client's checks.
#[derive(Copy, Clone, Debug)]
pub struct Circumstances {
    pub now: u64,
    /// When a server last died, or a login at PostgreSQL last failed.
    pub trouble_at: Option<u64>,
    /// When a worker last panicked.
    pub fault_at: Option<u64>,
    pub closing_time: bool,
    /// The id of a client whose query an administrator may cancel, for a console.
    pub victim: Option<i32>,
}

/// The losses of its servers.
#[derive(Copy, Clone, Debug, Default)]
struct Losses {
    /// Its server was lost: outstanding answers come as errors, or from another server.
    is_lost: bool,
    /// The server was not lost: a request was refused, since several hosts accept writes. The session's state at the server is kept.
    is_refusal: bool,
    /// The server was lost in a transaction block, which the client has not ended yet.
    is_in_block: bool,
    /// Losses survived.
    count: u32,
    /// It no longer knows its state, and leaves.
    gives_up: bool,
}

/// Since when the pooler owes it something.
#[derive(Copy, Clone, Debug, Default)]
struct Debt {
    /// Since when answers have been owed without a break.
    since: Option<u64>,
    /// When it last was in a transaction or batch with a server.
    engaged_at: Option<u64>,
}

/// The client.
#[derive(Debug)]
pub struct Client {
    pub link: LinkId,
    pub who: Identity,
    pub habits: Habits,
    phase: ClientPhase,
    since: u64,
    talk: Talk,
    /// Its queries may be cancelled by query_timeout.
    overdue: bool,
    pub cancels: Cancels,
    /// It talks to the console, not to a database.
    console: Option<Box<Console>>,
    /// It replicates, and has a server of its own.
    replica: Option<Box<Replica>>,
    work: ClientWork,
    losses: Losses,
    debt: Debt,
    /// The FATAL it got.
    fatal_error: Option<String>,
    /// Its worker panicked at a point where no error could be sent.
    cut_off: bool,
    news: News,
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
        let who = Identity::draw(number, plan, random);
        let habits = Habits::draw(number, plan, random);
        let is_admin = who.user == 0 || plan.settings.auth_type(CONSOLE_DATABASE) == AuthType::Any;
        let console = random.chance(plan.manners.consoles).then(|| Console::new(is_admin, now, random));
        let replica = plan.promises.replica(number).filter(|_| console.is_none() && !habits.hostile);
        let (overdue, deadline_ms) = (plan.cancels_overdue(who.mode), hurry::draw(number, plan, who.mode));
        let database = &plan.databases[who.database];
        let twin = Twin::new(Shared::new(Rc::clone(book)), &who.login, database.begins, database.defaults);
        let may_be_struck = habits.may_be_cancelled || overdue || deadline_ms > 0;
        let outcomes = Outcomes::new(book, number, who.followed);
        Client {
            link,
            who,
            habits,
            phase: ClientPhase::Starting { asked_for_tls: false },
            since: now,
            talk: Talk::new(number, twin, outcomes, deadline_ms, may_be_struck),
            overdue,
            cancels: Cancels::default(),
            console: console.map(Box::new),
            replica: replica.map(|mut random| Box::new(Replica::new(&mut random))),
            work: ClientWork::new(random.range(1, plan.manners.units_max)),
            losses: Losses::default(),
            debt: Debt::default(),
            fatal_error: None,
            cut_off: false,
            news: News::default(),
        }
    }

    #[must_use]
    pub fn number(&self) -> u32 {
        self.who.number
    }

    #[must_use]
    pub fn is_hostile(&self) -> bool {
        matches!(self.phase, ClientPhase::Hostile { .. })
    }

    #[must_use]
    pub fn is_ready(&self) -> bool {
        matches!(self.phase, ClientPhase::Ready)
    }

    #[must_use]
    pub fn is_at_console(&self) -> bool {
        self.console.is_some()
    }

    /// For reports of clients that are still there at the end.
    #[must_use]
    pub fn describe(&self) -> String {
        let Talk { twin, socket, .. } = &self.talk;
        format!(
            "client {} ({:?} {:?}) since {}: {} bytes expected, {} undecided, {} to send, twin {:?}",
            self.who.number,
            self.phase,
            self.who.mode,
            self.since,
            twin.expected_len(),
            twin.undecided_len(),
            socket.unsent(),
            twin.status(),
        )
    }

    fn is_owed(&self) -> bool {
        self.talk.twin.owes()
            || self.console.as_ref().is_some_and(|console| console.owes())
            || self.replica.as_ref().is_some_and(|replica| replica.owes())
    }

    /// Whether it is in a transaction or batch, so that the end of a server may end this client.
    fn is_engaged(&self) -> bool {
        self.is_owed()
            || self.talk.twin.status() != Status::Idle
            || self.who.mode == PoolMode::Session
            || !self.talk.socket.is_all_sent()
            || self.replica.is_some()
            || !matches!(self.phase, ClientPhase::Ready)
    }

    /// Reads what has come, continues its work, and writes as much as the connection takes. `read` and `write` are the
    /// connection's.
    ///
    /// # Errors
    /// It got something else than it was owed.
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
            self.talk.socket.read(link, self.habits.pace, &mut wants);
        }
        self.progress(facts, plan, census)?;
        let over = link.down.end_arrived && link.down.is_empty();
        if over {
            self.judge_end(facts, plan)?;
            wants.leave = Some(Leaving::Orderly);
            return Ok(wants);
        }
        let is_read = self.talk.socket.inbox.is_empty() && link.down.is_empty();
        if is_read && plan.faults.every == 0 && !facts.closing_time {
            self.judge_news(facts.now)?;
        }
        self.misbehave(facts, random, census, &mut wants);
        if self.is_ready() {
            self.work(facts, (plan, random, census), &mut wants);
        }
        if self.losses.gives_up {
            wants.leave = Some(Leaving::Orderly);
        }
        self.talk.socket.write(link, &self.habits, &mut wants);
        self.settle(facts.now);
        if let Some(limit) = self.habits.vanishes_after
            && self.talk.socket.sent() >= limit
        {
            census.clients.vanished += 1;
            wants.leave = Some(if self.habits.vanishes_orderly { Leaving::Orderly } else { Leaving::Cut });
        }
        Ok(wants)
    }

    fn work(
        &mut self,
        facts: Circumstances,
        (plan, random, census): (&Plan, &mut Random, &mut Census),
        wants: &mut Wants,
    ) {
        if let Some(replica) = &mut self.replica {
            let draws = (&self.habits, random);
            return replica.work(self.who.number, &mut self.talk.socket, draws, facts, wants);
        }
        let Client { who, habits, talk, work, cancels, console, losses, .. } = self;
        let mut turn = Turn { plan, random, census, who, habits, talk, work, cancels, losses: losses.count };
        if let Some(console) = console {
            console.work(&mut turn, facts, wants);
        } else if !losses.is_lost {
            turn.take(facts, wants);
        }
    }

    /// All requests so far are sent.
    fn settle(&mut self, now: u64) {
        let hears = self.who.followed && self.is_ready() && !self.losses.is_lost && self.habits.pace == 0;
        let listens =
            hears && self.habits.shares_channel && self.talk.twin.session().listens_to(&self.who.shared_channel());
        let is_engaged = self.is_engaged();
        self.news.settle(now, listens, !is_engaged);
        if is_engaged {
            self.debt.engaged_at = Some(now);
        }
        if self.is_owed() {
            self.debt.since.get_or_insert(now);
        } else {
            self.debt.since = None;
        }
    }

    /// Sends its rubbish at its time; leaves after it has waited for long enough.
    fn misbehave(&mut self, facts: Circumstances, random: &mut Random, census: &mut Census, wants: &mut Wants) {
        if let ClientPhase::Hostile { until } = self.phase {
            if facts.now >= until || facts.closing_time {
                wants.leave = Some(Leaving::Cut);
            } else {
                wants.again = Some(until - facts.now);
            }
            return;
        }
        if !self.habits.hostile || !random.chance(100) {
            return;
        }
        census.clients.hostile += 1;
        self.phase = ClientPhase::Hostile { until: facts.now + hostile::PATIENCE_US };
        wants.again = Some(hostile::PATIENCE_US);
        let rubbish = hostile::rubbish(random, &self.talk.mark());
        self.talk.socket.outbox().extend_from_slice(&rubbish);
    }

    /// In a contest: whether it has sent the whole request for which it needs a server.
    #[must_use]
    pub fn has_asked(&self) -> bool {
        self.work.contender.asks && self.talk.socket.is_all_sent()
    }

    /// Notes that its request was counted.
    pub fn is_known(&mut self) {
        self.work.contender.asks = false;
    }

    /// The desk got a command: checks that this client has sent it, and in this order.
    ///
    /// # Errors
    /// It has not, or another one was next.
    pub fn is_asking(&mut self, question: &Question) -> Result<(), Finding> {
        let (number, hostile) = (self.who.number, self.is_hostile());
        match &mut self.console {
            Some(console) => console.is_asking(number, hostile, question),
            None => Err((2, format!("client {number} is no console's and asks {question:?}"))),
        }
    }

    /// Its worker has panicked, and no error can be sent, since the client may have part of a message.
    pub fn is_cut_off(&mut self) {
        self.cut_off = true;
    }

    /// Adds an answer of the desk.
    pub fn expect_answer(&mut self, bytes: &[u8]) {
        if let Some(console) = &mut self.console {
            console.expect_answer(bytes);
        }
    }

    /// Another session has committed a NOTIFY.
    pub(crate) fn expect_notification(&mut self, channel: &str, payload: &str, now: u64) {
        let own = format!("c{}.", self.who.number);
        if self.habits.shares_channel && channel == self.who.shared_channel() && !payload.starts_with(&own) {
            self.news.said(payload, now);
        }
    }

    /// Notes a NotificationResponse from another client. Returns whether it was owed.
    fn count_notification(&mut self, body: &[u8]) -> bool {
        Notification::decode(body).is_ok_and(|said| self.news.arrived(said.payload))
    }

    /// Checks notifications after all that has come was read.
    ///
    /// # Errors
    /// Something has not come.
    fn judge_news(&self, now: u64) -> Result<(), Finding> {
        match self.news.missing(now) {
            None => Ok(()),
            Some(payload) => {
                let (number, channel) = (self.who.number, self.who.shared_channel());
                Err((9, format!("client {number} has not heard {payload} on {channel}")))
            }
        }
    }
}
