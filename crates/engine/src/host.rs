//! A thread: one epoll, the machines that live on it, and their sockets. Start reading here.
//!
//! ```text
//!   wait ─► clock, once ─► board ─► mail ─► servers ─► clients ─► visitors ─► accept ─► deadlines ─► RoundEnded (twice if it acted)
//!    ▲                                                                                                   │
//!    └──────────── changed interests are registered in epoll ◄──────────── mail between neighbours ◄─────┘
//! ```
//!
//! Visitors are clients that are logging in, that arrive from another thread's door, or that disconnect. In a round at
//! most [`VISITORS_MAX`] arrivals are served, and as many of the others, so that thousands of them at once do not stall
//! the other clients. The rest is still ready in the next round, before any that become ready later. The kernel reports
//! all of them again each round, so [`VISITORS_ALONE_MAX`] are served in a round where no other client has an event.
//!
//! It keeps the contract of `machine::Machine`. It reads the clock once a round. In the steady state it makes no system
//! calls but `recv`, `send` and a share of `epoll_wait`, takes no lock and allocates nothing. With [`busy_poll`](crate::busy_poll)
//! a wait may begin with a look, which is some calls of `epoll_wait` that do not sleep. Servers are served before
//! clients; otherwise a client could get a server whose fatal error is still unread in the same round.
//!
//! It decides nothing: the machines decide what an event means.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use machine::refused_logins::RefusedLogins;
use machine::{Event, Exchange, Hangup, Level, Lost, Mail, Place, Secured, ToWorker};
use units::limits::CHUNK_LEN_MAX;
use units::{ConnId, Kind, Time};

use crate::board_copy::BoardCopy;
use crate::connect::Dialer;
use crate::connections::{Connections, Parcel, Phase};
use crate::count::{Counters, ThreadCounters};
use crate::gate::Gate;
use crate::inbox::{Inbox, LocalMail};
use crate::layer::{Encryption, Keyring};
use crate::letter::Letter;
use crate::log::Patience;
use crate::options::TcpOptions;
use crate::poll::{Interest, Poll, Ready, SocketId, Token};
use crate::residents::Residents;
use crate::shared::{Builder, Shared};
use crate::tcp;

/// At most so many `RoundEnded` without a wait between them, while machines on this thread go on sending each other
/// mail.
const EXCHANGES_MAX: usize = 16;

/// At most so many clients that log in or disconnect are served in one round, which takes about a millisecond; and as
/// many arrivals.
pub(crate) const VISITORS_MAX: usize = 64;

/// The same in a round without events of other clients or servers. A client with an event meanwhile waits a few
/// milliseconds, once. With several workers the door has a thread of its own, where every round is of this kind.
pub(crate) const VISITORS_ALONE_MAX: usize = 256;

/// A step of a TLS handshake takes as long as so many other visitors.
const HANDSHAKE_COST: usize = 24;

/// A longer wait would not fit the argument of `epoll_pwait` and need a newer system call, which sandboxes may forbid.
const WAIT_MS_MAX: u64 = 3_600_000;

/// How often it is accepted from a listener before that is closed: more than its queue is long.
const ROUNDS_TO_CLOSE_MAX: usize = 1024;

/// Events for a machine after its actions were carried out.
pub(crate) enum Aftermath {
    Blocked(ConnId),
    Broken(ConnId),
    /// It was adopted, but there is no socket.
    Lost(ConnId),
    Opened(ConnId),
    Weighed(ConnId, usize),
    Secured(ConnId, Result<Box<Secured>, String>),
    OpenFailed(ConnId, String),
    Returned(Exchange, Option<Parcel>),
}

/// The step under way.
pub(crate) struct UnderWay {
    /// The machine and connection being served: they are blamed for a panic.
    pub(crate) serving: Option<(usize, Option<ConnId>)>,
    pub(crate) at_stake: AtStake,
    /// The socket that came with the mail being delivered, until it is adopted.
    pub(crate) in_hand: Option<Parcel>,
}

/// What a panic would lose in addition to the machine's own state.
pub(crate) enum AtStake {
    Nothing,
    /// Facts for the machine that replaces it.
    Mail(Box<Lost>),
    /// The client whose socket came with the message.
    Client,
    /// Its actions are being carried out: it is not known how many are done.
    Actions,
}

// tidy: a thread has this many things of its own
pub(crate) struct Host {
    pub(crate) residents: Residents,
    pub(crate) connections: Connections,
    pub(crate) poll: Poll,
    pub(crate) dialer: Dialer,
    pub(crate) gate: Option<Gate>,
    pub(crate) shared: Arc<Shared>,
    /// The number of this thread in the engine.
    pub(crate) thread: usize,
    pub(crate) inbox: Inbox,
    pub(crate) board: BoardCopy,
    /// The one clock read of this round.
    pub(crate) now: Time,
    /// The earliest deadline when this round's wait began.
    due_at: Time,
    /// The buffer of every `recv`.
    pub(crate) buffer: Vec<u8>,
    pub(crate) encryption: Encryption,
    pub(crate) aftermath: VecDeque<Aftermath>,
    pub(crate) under_way: UnderWay,
    pub(crate) counters: Counters,
    pub(crate) log_patience: Patience,
    /// The switches of the log that the machines have.
    pub(crate) log_switches: Option<u8>,
    pub(crate) leaving: bool,
}

/// What a host is made from.
pub(crate) struct Plan {
    pub(crate) thread: usize,
    pub(crate) places: Vec<Place>,
    pub(crate) builder: Builder,
    pub(crate) shared: Arc<Shared>,
    pub(crate) tcp: TcpOptions,
    pub(crate) busy_poll: Duration,
    pub(crate) tls: Arc<Keyring>,
    pub(crate) listeners: Vec<crate::listener::Listener>,
}

impl Host {
    /// Makes the machines and the epoll; nothing runs yet.
    ///
    /// # Errors
    /// The kernel's, if it has no descriptor left.
    pub(crate) fn new(plan: Plan) -> io::Result<Host> {
        let mut poll = Poll::new()?;
        poll.busy.set_span(plan.busy_poll);
        let mailbox = Arc::clone(&plan.shared.boxes[plan.thread]);
        poll.add(mailbox.bell(), Token::Bell, Interest::READ)?;
        let gate = if plan.listeners.is_empty() { None } else { Some(Gate::open(plan.listeners, &mut poll)?) };
        Ok(Host {
            residents: Residents::new(&plan.places, plan.builder, &plan.shared.settings()),
            connections: Connections::default(),
            poll,
            dialer: Dialer::new(plan.tcp, plan.shared.resolver.clone()),
            gate,
            board: BoardCopy::new(plan.shared.workers),
            shared: plan.shared,
            thread: plan.thread,
            inbox: Inbox::new(mailbox),
            now: Time::ZERO,
            due_at: Time::ZERO,
            buffer: vec![0; CHUNK_LEN_MAX],
            encryption: Encryption::new(plan.tls),
            aftermath: VecDeque::new(),
            under_way: UnderWay { serving: None, at_stake: AtStake::Nothing, in_hand: None },
            counters: Counters::default(),
            log_patience: Patience::default(),
            log_switches: None,
            leaving: false,
        })
    }

    /// One round of the loop.
    pub(crate) fn round(&mut self) {
        self.wait();
        self.read_clock();
        self.board.read(&self.shared, &self.residents);
        self.read_mail();
        let is_called = self.serve_servers();
        self.serve_clients();
        if is_called {
            self.accept();
        }
        self.deliver_deadlines();
        self.end_round();
        self.under_way.serving = None;
    }

    fn wait(&mut self) {
        self.connections.register_interests(&mut self.poll);
        let gate = self.gate.as_ref().and_then(Gate::deadline).unwrap_or(Time::NEVER);
        let own = gate.min(self.dialer.deadline());
        self.due_at = self.residents.await_all().deadline.min(own);
        let mut timeout = time_until(self.due_at, self.now);
        if !self.inbox.prepare_to_wait() {
            timeout = Some(Duration::ZERO);
        }
        self.poll.wait(timeout).expect("our own epoll and buffer are valid");
        self.inbox.end_wait();
        self.counters.rounds += 1;
    }

    fn read_clock(&mut self) {
        self.now = self.shared.clock.now().max(self.now);
        self.counters.clock_reads += 1;
        let switches = self.shared.log.switches();
        if self.log_switches != Some(switches) {
            self.log_switches = Some(switches);
            self.residents.set_log_filter(self.shared.log.filter());
        }
    }

    fn read_mail(&mut self) {
        self.inbox.empty_mailbox();
        while let Some(letter) = self.inbox.next_letter() {
            self.counters.letters += 1;
            self.open_letter(letter);
        }
    }

    fn open_letter(&mut self, letter: Letter) {
        match letter {
            Letter::Mail { mail, parcel } => {
                let arrives = matches!(mail, Mail::ToWorker(_, ToWorker::Arrive(_)));
                if matches!(mail, Mail::ToWorker(_, ToWorker::Stop(_))) {
                    self.let_arrive(usize::MAX);
                }
                let letter = LocalMail { mail, parcel };
                if arrives { self.inbox.add_arrival(letter) } else { self.deliver(letter) }
            }
            Letter::Computed { conn, done } => {
                if let Some(resident) = self.residents.owner_of(conn) {
                    self.deliver_event(resident, Event::Computed { conn, done });
                }
            }
            Letter::Answered { conn, verdict } => {
                if let Some(resident) = self.residents.owner_of(conn) {
                    self.deliver_event(resident, Event::Answered { conn, verdict });
                }
            }
            Letter::Resolved { conn, found } => {
                if let Some(dial) = self.dialer.resolved(conn, found, self.now) {
                    self.dial(conn, dial);
                    self.deliver_aftermath_to_owner(conn);
                }
            }
            Letter::Count { ticket } => self.shared.replies.counters(ticket, self.counted()),
            Letter::SetTcp(options) => set_tcp(self, &options),
            Letter::SetBusyPoll(span) => self.poll.busy.set_span(span),
            Letter::SetTls(keyring) => self.encryption.keyring = keyring,
            Letter::CloseListeners { keep_unix } => {
                // Clients that the kernel has let in are lost with their listener.
                let listeners = self.gate.as_ref().filter(|_| keep_unix).map_or(0, Gate::accepting);
                for listener in 0..listeners {
                    (0..ROUNDS_TO_CLOSE_MAX).find(|_| self.accept_from(listener) == 0);
                }
                if let Some(gate) = &mut self.gate {
                    self.shared.set_listening(gate.close(keep_unix));
                }
            }
            Letter::Accept(accepts) => {
                if let Some(gate) = &mut self.gate {
                    gate.set_open(&mut self.poll, accepts);
                }
            }
            Letter::KeepFiles(keeps) => {
                if let Some(gate) = &mut self.gate {
                    gate.keep_files(keeps);
                }
            }
            Letter::LendListeners(to) => {
                // Fails if nobody waits any more.
                let _ = to.send(self.gate.as_ref().map_or_else(|| Ok(Vec::new()), Gate::lent));
            }
            Letter::Leave => {
                self.let_arrive(usize::MAX);
                self.leaving = true;
            }
        }
    }

    /// Delivers a message, and the socket that may have come with it. A socket that is not adopted is closed.
    fn deliver(&mut self, letter: LocalMail) {
        let to = letter.mail.place();
        let Some(resident) = self.residents.at(to) else { return };
        self.under_way.in_hand = letter.parcel;
        self.deliver_event(resident, Event::Mail(letter.mail));
        self.under_way.in_hand = None;
    }

    fn counted(&self) -> ThreadCounters {
        let worker = self.residents.iter().find_map(|resident| match resident.place {
            Place::Worker(worker) => Some(worker),
            Place::Door(_) | Place::Coordinator => None,
        });
        let turned_away = self.gate.as_ref().map_or(0, Gate::turned_away);
        let sends = self.counters.sends + self.encryption.sends;
        let mut refused_logins = RefusedLogins::default();
        self.residents.iter().for_each(|resident| refused_logins.add(&resident.machine().refused_logins()));
        let logins = self.residents.iter().map(|resident| resident.machine().logins() as u64).sum();
        let epoll_ctls = self.poll.ctls;
        let counters = Counters { epoll_ctls, turned_away, sends, refused_logins, logins, ..self.counters };
        let peer_pools = self.residents.iter().flat_map(|resident| resident.machine().peer_pools()).collect();
        ThreadCounters { thread: self.thread, worker, counters, peer_pools }
    }

    /// Serves events of servers and cancel connections. Returns whether there are events of listeners or the bell.
    fn serve_servers(&mut self) -> bool {
        let mut is_called = false;
        for index in 0..self.poll.ready_count() {
            match self.poll.token(index) {
                Token::Socket(socket) if socket.serves() => {
                    if let Some((conn, phase, wanted)) = self.connections.occupied(socket) {
                        self.serve_one(socket, conn, phase, wanted, self.poll.ready(index));
                    }
                }
                Token::Socket(_) => {}
                Token::Bell | Token::Listener(_) => is_called = true,
            }
        }
        is_called
    }

    /// Serves events of clients, visitors last.
    fn serve_clients(&mut self) {
        let (mut visitors, mut others) = (0, 0);
        for index in 0..self.poll.ready_count() {
            let Some((socket, conn, phase, wanted)) = self.connections.client(self.poll.token(index)) else { continue };
            let ready = self.poll.ready(index);
            if is_visitor(conn, ready) {
                visitors += 1;
            } else {
                others += 1;
                self.serve_one(socket, conn, phase, wanted, ready);
            }
        }
        if visitors > 0 {
            let is_alone = others == 0 && !self.poll.has_servers_ready();
            self.serve_visitors(if is_alone { VISITORS_ALONE_MAX } else { VISITORS_MAX });
        }
        if self.inbox.arrivals() > 0 {
            self.let_arrive(VISITORS_MAX);
        }
    }

    /// Delivers sessions from another thread's door, the oldest first.
    fn let_arrive(&mut self, count_max: usize) {
        for _ in 0..count_max.min(self.inbox.arrivals()) {
            let Some(letter) = self.inbox.next_arrival() else { break };
            self.deliver(letter);
        }
    }

    #[inline(never)]
    fn serve_visitors(&mut self, count_max: usize) {
        let mut left = count_max;
        for index in 0..self.poll.ready_count() {
            let Some((socket, conn, phase, wanted)) = self.connections.client(self.poll.token(index)) else { continue };
            let ready = self.poll.ready(index);
            if is_visitor(conn, ready) {
                let handshakes = self.encryption.handshakes;
                self.serve_one(socket, conn, phase, wanted, ready);
                let cost = if self.encryption.handshakes == handshakes { 1 } else { HANDSHAKE_COST };
                left = left.saturating_sub(cost);
            }
            if left == 0 {
                return;
            }
        }
    }

    #[inline(always)]
    fn serve_one(&mut self, socket: SocketId, conn: ConnId, phase: Phase, wanted: Interest, ready: Ready) {
        match phase {
            Phase::Ended => return,
            Phase::Connecting => return self.connected(conn),
            Phase::Open | Phase::Deaf => {}
        }
        let mut reads = wanted.read;
        if ready.write && wanted.write {
            self.drain(conn);
            // This may have closed it, or found it broken.
            match self.connections.outlook(conn) {
                Some((Phase::Open | Phase::Deaf, wanted)) => reads = wanted.read,
                Some(_) | None => return,
            }
        }
        if reads {
            if ready.read || ready.hangup || ready.error {
                self.receive(socket, conn);
            }
        } else if ready.error {
            self.hang_up(conn, Hangup::Broken);
        } else if ready.hangup {
            self.hang_up_unread(conn);
        }
    }

    fn accept(&mut self) {
        for index in 0..self.poll.ready_count() {
            match self.poll.token(index) {
                Token::Listener(listener) => _ = self.accept_from(listener),
                Token::Bell => {
                    self.inbox.mailbox().bell().clear();
                    self.counters.wakes_taken += 1;
                }
                Token::Socket(_) => {}
            }
        }
    }

    /// Accepts clients; how many.
    fn accept_from(&mut self, listener: usize) -> u64 {
        let Host { gate, residents, connections, poll, now, .. } = self;
        let (Some(gate), Some(door)) = (gate.as_mut(), residents.door()) else { return 0 };
        let admit = |poll: &mut Poll, fd: OwnedFd, peer| {
            let Some(conn) = door.accept(*now, peer) else { return Err(fd) };
            let parcel = Parcel::new(fd);
            // If the kernel has no memory, the socket is closed, and the door's login deadline ends the login.
            let _ = connections.insert(poll, conn, parcel, Phase::Open, Interest::READ);
            Ok(())
        };
        let accepted = gate.accept(poll, listener, *now, admit);
        self.counters.accepts += accepted;
        accepted
    }

    /// Those that this round has made come in the next one, which does not sleep if they have passed.
    fn deliver_deadlines(&mut self) {
        if self.due_at > self.now {
            return;
        }
        if let Some(gate) = &mut self.gate {
            gate.end_pause(&mut self.poll, self.now);
        }
        while let Some((conn, dial)) = self.dialer.overdue(self.now) {
            drop(self.connections.remove(conn));
            self.dial(conn, dial);
            self.deliver_aftermath_to_owner(conn);
        }
        if self.residents.await_all().deadline > self.now {
            return;
        }
        for resident in 0..self.residents.len() {
            if self.residents.awaits(resident).deadline <= self.now {
                self.deliver_event(resident, Event::DeadlineReached);
            }
        }
    }

    /// Delivers mail between machines of this thread, then `RoundEnded`, until there is no more. What is left after
    /// many exchanges waits for the next round, which then does not sleep.
    fn end_round(&mut self) {
        if !self.inbox.has_local() && !self.residents.await_all().round_end {
            // The usual case.
            return;
        }
        for _ in 0..EXCHANGES_MAX {
            while let Some(letter) = self.inbox.next_local() {
                self.deliver(letter);
            }
            if self.residents.await_all().round_end {
                self.deliver_round_end();
            }
            if !self.inbox.has_local() {
                return;
            }
        }
    }

    fn deliver_round_end(&mut self) {
        for resident in 0..self.residents.len() {
            if self.residents.awaits(resident).round_end && self.deliver_event(resident, Event::RoundEnded) {
                self.board.read(&self.shared, &self.residents);
                self.deliver_event(resident, Event::RoundEnded);
            }
        }
    }
}

/// Whether a client is logging in or leaving.
#[inline]
fn is_visitor(conn: ConnId, ready: Ready) -> bool {
    ready.leaves || conn.kind() == Kind::Login
}

/// Sockets that are opened or accepted from now on get these options. If the kernel refuses one of them, all stay as they are.
fn set_tcp(host: &mut Host, options: &TcpOptions) {
    let outcome = tcp::check(options).and_then(|()| host.gate.as_ref().map_or(Ok(()), |gate| gate.set_tcp(options)));
    match outcome {
        Ok(()) => host.dialer.set_tcp(options.clone()),
        Err(error) => {
            host.shared.log.say(Level::Warning, format!("cannot set the options of TCP sockets, they stay: {error}"));
        }
    }
}

/// The time until a deadline, in whole milliseconds rounded up, since waking early would waste a round.
fn time_until(deadline: Time, now: Time) -> Option<Duration> {
    let wait_ms = || deadline.micros_since(now).div_ceil(1000).min(WAIT_MS_MAX);
    (deadline != Time::NEVER).then(|| Duration::from_millis(wait_ms()))
}
