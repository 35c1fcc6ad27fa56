//! The invariants of one worker as code: what must be true after every step.
//!
//! The simulator calls [`check`] after every step, and adds the checks that need all workers (I5, I7, I9, I12). The
//! engine calls it after a panic, to decide whether the worker may go on. It is never called while a query is
//! forwarded.

use std::collections::BTreeMap;

use link::pool::Pool;
use link::server::{Group, Server, ServerState};
use link::session::{Session, SessionState, WaitFor};
use machine::Violation;
use units::{ConnId, PoolId, Time, limits};

use crate::tables::owners::{Plan, Pools, Servers, Sessions};

/// What the checks look at.
struct Parts<'a> {
    sessions: Vec<(ConnId, &'a Session)>,
    servers: Vec<(ConnId, &'a Server)>,
    pools: Vec<&'a Pool>,
    settled: bool,
    stopping: bool,
}

/// Checks every invariant that one worker can check alone. `settled`: nothing is left on the agenda. The error is the first one that does not hold.
pub(crate) fn check(
    sessions: &Sessions,
    servers: &Servers,
    pools: &Pools,
    plan: &Plan,
    settled: bool,
) -> Result<(), Violation> {
    let parts = Parts {
        sessions: sessions.iter().collect(),
        servers: servers.iter().collect(),
        pools: pools.iter().collect(),
        settled,
        stopping: plan.stopping.refuses_new_work(),
    };
    links_agree(&parts)?;
    pools_are_there(pools, &parts)?;
    idle_is_clean(&parts)?;
    special_facts_are_noted(&parts)?;
    no_session_waits_beside_an_idle_server(&parts)?;
    memory_is_bounded(&parts)?;
    consoles_are_bounded(sessions)?;
    lost_blocks_are_kept(sessions)?;
    counts_agree(&parts)
}

/// I26: each session in a lost block has its record, and no other session has one.
fn lost_blocks_are_kept(sessions: &Sessions) -> Result<(), Violation> {
    let is_in_one =
        |session: &Session| matches!(session.state(), SessionState::LostBlock { .. }) && !session.has_begun();
    let count = sessions.iter().filter(|(_, session)| is_in_one(session)).count();
    let kept = sessions.lost_blocks.keys().filter_map(|conn| sessions.get(*conn)).filter(|session| is_in_one(session));
    let kept = (kept.count(), sessions.lost_blocks.len());
    ensure(26, kept == (count, count), || format!("{count} sessions are in a lost block, and {kept:?} are kept"))
}

/// I12: the counts that decisions use equal what the tables contain.
fn counts_agree(parts: &Parts<'_>) -> Result<(), Violation> {
    for pool in &parts.pools {
        let mut groups = [0_u32; 6];
        for (_, server) in parts.servers.iter().filter(|(_, server)| server.pool() == pool.id()) {
            groups[server.state().group() as usize] += 1;
        }
        groups[Group::Recovering as usize] += pool.servers().lent();
        let counted = [Group::Opening, Group::Returning, Group::Recovering, Group::Idle, Group::Linked];
        for group in counted {
            let (count, actual) = (pool.servers().count(group), groups[group as usize]);
            ensure(12, count == actual, || format!("{:?}: {group:?} counts {count}, there are {actual}", pool.key()))?;
        }
        let idle = pool.servers().idle().len() as u32;
        ensure(12, idle == groups[Group::Idle as usize], || format!("{:?}: {idle} in the idle list", pool.key()))?;
        let of_pool = parts.sessions.iter().filter(|(_, session)| session.pool() == pool.id());
        let (mut waiting, mut present, mut to_pin, mut pinned, mut own_waiting) = (0, 0, 0, 0, 0);
        for (_, session) in of_pool {
            match session.state() {
                SessionState::Waiting { wait_for: WaitFor::Server | WaitFor::Login, .. } => waiting += 1,
                SessionState::Waiting { wait_for: WaitFor::Pin, .. } => to_pin += 1,
                _ => {}
            }
            own_waiting += u32::from(matches!(session.state(), SessionState::Waiting { wait_for: WaitFor::Own, .. }));
            pinned += u32::from(session.tracker().is_some_and(|tracker| tracker.has_pin_permit));
            present += u32::from(!matches!(session.state(), SessionState::Leaving { .. }));
        }
        ensure(12, pool.queue().len() == waiting, || {
            format!("{:?}: {} queued, {waiting} waiting", pool.key(), pool.queue().len())
        })?;
        let own = parts
            .servers
            .iter()
            .filter(|(_, server)| server.pool() == pool.id() && server.identity().opened_for_session().is_some());
        let groups: Vec<Group> = own.map(|(_, server)| server.state().group()).collect();
        let opening = groups.iter().filter(|group| **group == Group::Opening).count();
        let counted = pool.servers().own();
        let counted = [counted.queue().len(), counted.opening(), counted.open()];
        ensure(12, counted == [own_waiting, opening as u32, (groups.len() - opening) as u32], || {
            format!("{:?}: {counted:?} counted of sessions' own servers", pool.key())
        })?;
        let charges =
            parts.servers.iter().filter(|(_, server)| server.pool() == pool.id() && server.work().is_charged());
        let active: u32 = pool.queue().counts(Time::ZERO).map(|counts| counts.active).sum();
        ensure(12, !pool.queue().is_counted() || active == charges.count() as u32, || {
            format!("{:?}: {active} servers are charged for", pool.key())
        })?;
        ensure(12, (pool.pins().queue().len(), pool.pins().count()) == (to_pin, pinned), || {
            let (queued, counted) = (pool.pins().queue().len(), pool.pins().count());
            format!(
                "{:?}: {queued} queued to be pinned, {to_pin} waiting; {counted} counted as pinned, of {pinned}",
                pool.key()
            )
        })?;
        let room = pool.may_pin();
        let overlooked = parts.settled && room && !pool.pins().queue().is_empty();
        ensure(6, !overlooked, || {
            format!("{:?}: {} wait to be pinned, and may be", pool.key(), pool.pins().queue().len())
        })?;
        ensure(12, pool.counts().sessions() == present, || {
            format!("{:?}: counts {} of {present} sessions", pool.key(), pool.counts().sessions())
        })?;
    }
    Ok(())
}

fn ensure(invariant: u8, holds: bool, what: impl FnOnce() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation { invariant, what: what() }) }
}

/// I1: a server is linked to at most one session, and each names the other.
fn links_agree(parts: &Parts<'_>) -> Result<(), Violation> {
    let servers: BTreeMap<ConnId, Option<ConnId>> =
        parts.servers.iter().map(|(id, server)| (*id, server.session())).collect();
    let sessions: BTreeMap<ConnId, Option<ConnId>> =
        parts.sessions.iter().map(|(id, session)| (*id, session.server())).collect();
    for (id, link) in &servers {
        let Some(session) = link else { continue };
        let back = sessions.get(session).copied().flatten();
        ensure(1, back == Some(*id), || format!("{id:?} is linked to {session:?}, which is linked to {back:?}"))?;
    }
    for (id, session) in &parts.sessions {
        let SessionState::Opening { server, .. } = session.state() else { continue };
        let opened = parts.servers.iter().find(|(other, _)| *other == server).map(|(_, server)| server);
        let opened_for = opened.and_then(|server| server.identity().opened_for_session());
        ensure(1, opened_for == Some(*id), || format!("{id:?} waits for {server:?}, opened for {opened_for:?}"))?;
    }
    for (id, link) in &sessions {
        let Some(server) = link else { continue };
        let back = servers.get(server).copied().flatten();
        ensure(1, back == Some(*id), || format!("{id:?} is linked to {server:?}, which is linked to {back:?}"))?;
    }
    Ok(())
}

/// I12: a pool exists as long as one of its servers or sessions does.
fn pools_are_there(pools: &Pools, parts: &Parts<'_>) -> Result<(), Violation> {
    let is_there = |id: PoolId| pools.get(id).is_some();
    for (id, server) in &parts.servers {
        ensure(12, is_there(server.pool()), || format!("{id:?} is of a pool that is forgotten"))?;
    }
    for (id, session) in &parts.sessions {
        // A client of a removed database that is being disconnected needs none, and the console has none.
        let needs_pool = !matches!(session.state(), SessionState::Leaving { .. } | SessionState::Console { .. });
        ensure(12, !needs_pool || is_there(session.pool()), || format!("{id:?} is of a pool that is forgotten"))?;
    }
    Ok(())
}

/// I3: a server is idle only when nothing is owed on it, no byte is unread, no cancel is in flight, it is outside a
/// transaction.
fn idle_is_clean(parts: &Parts<'_>) -> Result<(), Violation> {
    for (id, server) in &parts.servers {
        let idle = matches!(server.state(), ServerState::Idle);
        let clean = server.is_clean() && server.cancel().under_way() == 0 && !server.hold().is_on();
        ensure(3, !idle || clean, || format!("{id:?} is idle and not clean: {server:?}"))?;
    }
    Ok(())
}

/// I18: what is noted as special about a session or a server follows from its facts.
fn special_facts_are_noted(parts: &Parts<'_>) -> Result<(), Violation> {
    for (id, session) in &parts.sessions {
        ensure(18, session.is_noted_rightly(), || format!("{id:?} has a fact that is not noted: {session:?}"))?;
    }
    for (id, server) in &parts.servers {
        ensure(18, server.is_noted_rightly(), || format!("{id:?} has a fact that is not noted: {server:?}"))?;
    }
    Ok(())
}

/// I6, within a worker: no session waits while a server of its pool is idle.
fn no_session_waits_beside_an_idle_server(parts: &Parts<'_>) -> Result<(), Violation> {
    if !parts.settled || parts.stopping {
        return Ok(());
    }
    for pool in &parts.pools {
        let both = pool.queue().has_waiters() && !pool.servers().idle().is_empty();
        // Servers that were idle for long are checked before they are handed out.
        let checking = pool.servers().count(Group::Returning) > 0;
        ensure(6, !both || checking, || {
            format!("{:?}: {} wait beside {} idle servers", pool.key(), pool.queue().len(), pool.servers().idle().len())
        })?;
    }
    Ok(())
}

/// I10: a client of the console keeps no more than it may, and nothing stays of one that has left.
fn consoles_are_bounded(sessions: &Sessions) -> Result<(), Violation> {
    for (conn, console) in sessions.consoles.iter() {
        let is_there =
            sessions.get(conn).is_some_and(|session| matches!(session.state(), SessionState::Console { .. }));
        ensure(10, is_there, || format!("{conn:?} has left, and is kept as a client of the console"))?;
        let weight = console.weight();
        ensure(10, weight <= limits::CONSOLE_KEPT_MAX, || format!("{conn:?} keeps {weight} bytes at the console"))?;
    }
    Ok(())
}

/// I10: what is buffered for one connection is bounded.
fn memory_is_bounded(parts: &Parts<'_>) -> Result<(), Violation> {
    let inbox_max = limits::STATEMENT_LEN_MAX + 2 * limits::CHUNK_LEN_MAX;
    for (id, session) in &parts.sessions {
        ensure(10, session.incoming().inbox().len() <= inbox_max, || {
            format!("{id:?} keeps {} bytes", session.incoming().inbox().len())
        })?;
        let backlog = session.flow().backlog().len();
        // An answer of the console may have any length; a session has one at most.
        let bounded = backlog <= limits::BACKLOG_LEN_MAX || matches!(session.state(), SessionState::Console { .. });
        ensure(10, bounded, || format!("{id:?} has a backlog of {backlog} bytes"))?;
    }
    for (id, server) in &parts.servers {
        ensure(10, server.incoming().inbox().len() <= inbox_max, || {
            format!("{id:?} keeps {} bytes", server.incoming().inbox().len())
        })?;
        let backlog = server.flow().backlog().len();
        let bounded = backlog <= limits::SERVER_BACKLOG_LEN_MAX;
        ensure(10, bounded, || format!("{id:?} has a backlog of {backlog} bytes"))?;
    }
    Ok(())
}
