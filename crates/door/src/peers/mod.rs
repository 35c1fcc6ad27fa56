//! Cancel requests for other processes: each peer has a pool of connections, of which each carries one request, and a queue.
//!
//! ```text
//!   request ─► waiting, in order of arrival ─► a connection of its own, of `pool_size` at most ─► done
//!                 └ cancel_wait_timeout            └ cancel_wait_timeout
//! ```
//!
//! Promises that a request goes to a peer once, and counted down, so that it goes round no circle; that a peer which is down
//! or silent keeps nobody but its own requests waiting, and these not for ever; and that a reload changes all peers at once:
//! a request that waits then goes where the new settings say, or nowhere. Does not know whose a key is: `cancels` does.
//!
//! //= pgbouncer config.md#section-peers

mod carrier;
mod failure;

pub use failure::PeerFailure;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use carrier::{Carrier, Request};
use connections::databases::{Address, Host};
use connections::flow::Flow;
use machine::Settings;
use machine::action::Action;
use machine::event::Event;
use machine::observe::{About, Fact, Level, Topic};
use machine::peering::{PeerId, PeerPool};
use units::table::Table;
use units::{ConnId, DoorId, Kind, Life, Time, limits};

use super::lookup::Turn;

/// The requests for one peer.
#[derive(Debug, Default)]
struct Pool {
    waiting: VecDeque<Request>,
    /// Connections, opened or being opened.
    carriers: u32,
}

/// All peers of one door.
#[derive(Debug)]
pub(super) struct Peers {
    /// Those of the settings, and those before that still have connections.
    pools: BTreeMap<PeerId, Pool>,
    carriers: Table<Carrier>,
    /// The carriers, the oldest first.
    by_age: BTreeSet<(Time, ConnId)>,
    /// As in the settings.
    timeout: Option<Duration>,
    /// The tickets of requests that have been carried out, or given up.
    over: VecDeque<u32>,
}

impl Peers {
    pub(super) fn new(door: DoorId, settings: &Settings) -> Peers {
        Peers {
            pools: settings.peers().map(|(id, _)| (id, Pool::default())).collect(),
            carriers: Table::new(Kind::Peer, u16::from(door.0)),
            by_age: BTreeSet::new(),
            timeout: settings.global.waiting.cancel_wait_timeout,
            over: VecDeque::new(),
        }
    }

    pub(super) fn begin_life(&mut self, life: Life) {
        self.carriers.begin_life(life);
    }

    /// The number of the ticket of a request that has been carried out, or given up.
    pub(super) fn next_over(&mut self) -> Option<u32> {
        self.over.pop_front()
    }

    /// Passes a request on, which is counted down already. The settings have this peer. `ticket`: what `next_over` calls it.
    pub(super) fn pass_on(&mut self, turn: &mut Turn<'_>, peer: PeerId, pid: i32, secret: Box<[u8]>, ticket: u32) {
        let pool = self.pools.get_mut(&peer).expect("each peer of the settings has its pool");
        if pool.waiting.len() >= limits::PEER_CANCELS_WAITING_MAX {
            self.over.push_back(ticket);
            return tell(turn, peer, None, &PeerFailure::TooManyWait);
        }
        pool.waiting.push_back(Request { pid, secret, since: turn.now, ticket });
        self.advance(turn, peer);
    }

    /// Opens connections for the requests that wait, as far as the peer's pool has room.
    fn advance(&mut self, turn: &mut Turn<'_>, peer: PeerId) {
        // A reload has removed it.
        let (Some(to), Some(pool)) = (turn.settings.peer(peer), self.pools.get_mut(&peer)) else { return };
        while pool.carriers < to.pool_size
            && let Some(request) = pool.waiting.pop_front()
        {
            pool.carriers += 1;
            let address = Arc::clone(&to.address);
            let tls = &turn.settings.global.tls;
            let carrier = Carrier::new(peer, Arc::clone(&address), request, tls, turn.now);
            let conn = self.carriers.insert_with(|_| carrier);
            self.by_age.insert((turn.now, conn));
            turn.actions.push(Action::Open { conn, address });
        }
    }

    /// An event of a connection.
    pub(super) fn event(&mut self, turn: &mut Turn<'_>, conn: ConnId, event: Event<'_>) {
        let Some(carrier) = self.carriers.get_mut(conn) else {
            // A door that has panicked has asked for it; or it was closed in this round.
            if matches!(event, Event::Opened { .. }) {
                turn.actions.push(Action::Close { conn, last_words: false });
            }
            return;
        };
        let step = match event {
            Event::Opened { .. } => {
                carrier.opened(conn, turn.actions);
                Ok(())
            }
            Event::Received { bytes, .. } => carrier.received(conn, bytes, turn.actions),
            Event::Secured { outcome, .. } => carrier.secured(conn, outcome, turn.actions),
            Event::Hangup { .. } if carrier.is_sent => return self.done(turn, conn),
            Event::Hangup { .. } => Err(PeerFailure::Closed),
            Event::OpenFailed { why, .. } => Err(PeerFailure::NotOpened { why }),
            Event::Drained { count, .. } => {
                carrier.flow.drained(count);
                turn.actions.watch(conn, &mut carrier.flow, true);
                Ok(())
            }
            Event::Blocked { .. } => {
                turn.actions.watch(conn, &mut carrier.flow, true);
                Ok(())
            }
            other => unreachable!("no event of a connection: {other:?}"),
        };
        if let Err(why) = step {
            self.failed(turn, conn, &why);
        }
    }

    fn failed(&mut self, turn: &mut Turn<'_>, conn: ConnId, why: &PeerFailure) {
        let carrier = &self.carriers[conn];
        let (peer, address) = (carrier.peer, Arc::clone(&carrier.address));
        tell(turn, peer, Some(&address), why);
        self.done(turn, conn);
    }

    /// A connection has done what it could.
    fn done(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let carrier = self.carriers.remove(conn).expect("its connection was there");
        turn.actions.push(Action::Close { conn, last_words: false });
        self.by_age.remove(&(carrier.since, conn));
        self.over.push_back(carrier.ticket());
        let pool = self.pools.get_mut(&carrier.peer).expect("a peer with connections is kept");
        pool.carriers -= 1;
        if pool.carriers == 0 && turn.settings.peer(carrier.peer).is_none() {
            self.pools.remove(&carrier.peer);
        }
        self.advance(turn, carrier.peer);
    }

    /// The settings have changed.
    pub(super) fn configure(&mut self, turn: &mut Turn<'_>) {
        self.timeout = turn.settings.global.waiting.cancel_wait_timeout;
        for (&peer, pool) in &mut self.pools {
            if turn.settings.peer(peer).is_none() && !pool.waiting.is_empty() {
                self.over.extend(pool.waiting.drain(..).map(|request| request.ticket));
                tell(turn, peer, None, &PeerFailure::Removed);
            }
        }
        self.pools.retain(|peer, pool| pool.carriers > 0 || turn.settings.peer(*peer).is_some());
        for (peer, _) in turn.settings.peers() {
            self.pools.entry(peer).or_default();
            self.advance(turn, peer);
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        let carried = self.by_age.first().map(|(since, _)| *since + self.patience());
        let waiting = self.timeout.and_then(|timeout| {
            let oldest = self.pools.values().filter_map(|pool| pool.waiting.front()).map(|request| request.since);
            oldest.min().map(|since| since + timeout)
        });
        [carried, waiting].into_iter().flatten().min()
    }

    /// How long a connection may take.
    fn patience(&self) -> Duration {
        self.timeout.unwrap_or(limits::PEER_SILENCE)
    }

    pub(super) fn deadline_reached(&mut self, turn: &mut Turn<'_>) {
        if let Some(timeout) = self.timeout {
            for (&peer, pool) in &mut self.pools {
                while let Some(request) = pool.waiting.pop_front_if(|request| request.since + timeout <= turn.now) {
                    self.over.push_back(request.ticket);
                    tell(turn, peer, None, &PeerFailure::CancelWaitTimeout);
                }
            }
        }
        let patience = self.patience();
        while let Some(&(_, conn)) = self.by_age.first().filter(|(since, _)| *since + patience <= turn.now) {
            let carrier = &self.carriers[conn];
            let why = if carrier.is_sent { PeerFailure::Silent } else { PeerFailure::CancelWaitTimeout };
            let (peer, address) = (carrier.peer, Arc::clone(&carrier.address));
            tell(turn, peer, Some(&address), &why);
            self.done(turn, conn);
        }
    }

    /// For SHOW PEER_POOLS.
    pub(super) fn shown(&self) -> Vec<PeerPool> {
        let size = |pool: &Pool| u32::try_from(pool.waiting.len()).unwrap_or(u32::MAX);
        let shown = |(&peer, pool): (&PeerId, &Pool)| {
            let own = self.carriers.iter().filter(|(_, carrier)| carrier.peer == peer);
            let sent = own.filter(|(_, carrier)| carrier.is_sent).count() as u32;
            PeerPool { peer, waiting: size(pool), opening: pool.carriers - sent, sent }
        };
        self.pools.iter().map(shown).collect()
    }

    pub(super) fn flow_mut(&mut self, conn: ConnId) -> Option<&mut Flow> {
        self.carriers.get_mut(conn).map(|carrier| &mut carrier.flow)
    }

    pub(super) fn backlog(&self, conn: ConnId) -> &[u8] {
        self.carriers.get(conn).map_or(&[], |carrier| carrier.flow.backlog())
    }
}

/// A request does not reach its peer.
fn tell(turn: &mut Turn<'_>, peer: PeerId, address: Option<&Address>, why: &PeerFailure) {
    if !turn.actions.logs(Level::Warning, Topic::PoolerErrors) {
        return;
    }
    let at = address.map(shown).unwrap_or_default();
    let text = format!("cancel request not passed on to peer {}{at}: {why}", peer.0);
    turn.actions.tell(Fact::new(Level::Warning, Topic::PoolerErrors, About::Pooler, text));
}

fn shown(address: &Address) -> String {
    match &address.host {
        Host::Unix(dir) => format!(" ({dir}:{})", address.port),
        Host::Ip(ip) => format!(" ({})", std::net::SocketAddr::new(*ip, address.port)),
        Host::Name(name) => format!(" ({name}:{})", address.port),
    }
}
