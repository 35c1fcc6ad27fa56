//! What is nobody's doing in particular: time, reload, shutdown, full mailboxes, a late board, the control plane.

use std::net::IpAddr;
use std::sync::Arc;

use machine::mail::Place;
use machine::snapshot::ClientSnapshot;
use machine::{
    DatabaseOrders, Event, HostRole, HostState, Look, Mail, Observed, Origin, Stop, Suspension, ToCoordinator,
    ToWorker, Upstream, Verdict,
};
use session_state::state::Pins;
use units::{ConnId, PoolKey, WorkerId};

use crate::runner::verbs::observed;
use crate::runner::words::Words;
use crate::runner::world::World;
use crate::runner::{backend, settings};

pub(crate) fn run(world: &mut World, mut words: Words<'_>) -> Result<(), String> {
    if words.eat("after") {
        let span = settings::span(words.bare("how long")?)?;
        let until = world.now + span;
        world.wait(until)?;
        return words.end();
    }
    if words.eat("busy for") {
        // The loop has so much else to do that no timer is looked at.
        world.now = world.now + settings::span(words.bare("how long")?)?;
        return words.end();
    }
    if words.eat("reload") {
        return reload(world, words);
    }
    if words.eat("order") {
        return order(world, words);
    }
    if words.eat("stop") {
        return stop(world, words);
    }
    if words.eat("panic in worker") {
        let worker: u16 = words.number("the worker")?;
        world.panic(WorkerId(worker - 1));
        world.run_until_idle();
        return words.end();
    }
    if words.eat("mailbox of worker") {
        let worker: u16 = words.number("the worker")?;
        let worker = WorkerId(worker - 1);
        if words.eat("is full") {
            world.full.insert(worker);
        } else if words.eat("has room") {
            world.full.remove(&worker);
        }
        return words.end();
    }
    if words.eat("clock of worker") {
        let worker: usize = words.number("the worker")?;
        if words.eat("is behind by") {
            world.clock_ages[worker - 1] = settings::span(words.bare("how far")?)?;
        }
        return words.end();
    }
    if words.eat("control answers") {
        return control_answers(world, words);
    }
    type Verb = fn(&mut World, Words<'_>) -> Result<(), String>;
    let shown: [(&str, Verb); 11] = [
        ("pools", pools),
        ("connections", connections),
        ("fidelity", fidelity),
        ("pins", pins),
        ("events", events),
        ("doing", observed::doing),
        ("queries", observed::queries),
        ("fingerprints", fingerprints),
        ("totals", totals),
        ("name", moves),
        ("host", probed),
    ];
    for (word, show) in shown {
        if words.eat(word) {
            return show(world, words);
        }
    }
    switch(world, &mut words)?;
    world.run_until_idle();
    words.end()
}

fn stop(world: &mut World, mut words: Words<'_>) -> Result<(), String> {
    let stop = match words.bare("how to stop")? {
        "wait_for_clients" => Stop::WaitForClients,
        "wait_for_servers" => Stop::WaitForServers,
        "wait_for_transactions" => Stop::WaitForTransactions,
        "immediate" => Stop::Immediate,
        other => return Err(format!("'{other}' is no way to stop")),
    };
    world.tell_machines(|place| stop.is_sent_to(place).then(|| Mail::stop(place, stop)));
    world.run_until_idle();
    words.end()
}

fn switch(world: &mut World, words: &mut Words<'_>) -> Result<(), String> {
    if words.eat("mail waits") {
        world.mail_waits = true;
    } else if words.eat("mail goes on") {
        world.mail_waits = false;
    } else if words.eat("system user") {
        let uid = words.number("the uid")?;
        let name = (!words.eat("has no name")).then(|| words.bare("the name")).transpose()?;
        world.door.system_users.learn(uid, name.map(Into::into));
    } else if words.eat("board is late") {
        world.board_is_late = true;
    } else if words.eat("board is read") {
        world.board_is_late = false;
    } else if words.eat("hashing waits") {
        world.hashing_waits = true;
    } else if words.eat("hashing goes on") {
        world.hashing_waits = false;
    } else if words.eat("servers wait") {
        world.automatic = false;
    } else if words.eat("servers log in") {
        world.automatic = true;
    } else if words.eat("show startup") {
        world.report.shows_startup = true;
    } else if words.eat("show log") {
        world.report.shows_log = true;
    } else if words.eat("show probes") {
        world.report.shows_probes = true;
    } else if words.eat("show mail") {
        world.report.shows_mail = true;
    } else {
        let word = words.bare("a verb")?;
        return Err(format!("'{word}' is no verb"));
    }
    Ok(())
}

/// `host 127.0.0.1:5433 is primary timeline 2`: the prober has asked it.
fn probed(world: &mut World, mut words: Words<'_>) -> Result<(), String> {
    let host = Arc::new(settings::address(words.bare("the host")?)?);
    let retry = world.settings.global.servers.server_login_retry;
    let (mut state, mut role) = (HostState::Alive { role: None }, None);
    if words.eat("is silent") {
        state = HostState::Silent;
    } else if words.eat("fails") {
        state = HostState::Failed { until: world.now + retry };
    } else if words.eat("is primary") {
        role = Some(HostRole::Primary);
    } else if words.eat("is standby") {
        role = Some(HostRole::Standby);
    } else if !words.eat("answers") {
        return Err("is primary, is standby, is silent, fails, answers".to_owned());
    }
    let mut origin = None;
    if let Some(role) = role {
        state = HostState::Alive { role: Some(role) };
        let timeline = words.eat("timeline").then(|| words.number("the timeline")).transpose()?;
        let system = words.eat("system").then(|| words.number("the system")).transpose()?;
        let started = words.eat("started").then(|| words.bare("when").map(Into::into)).transpose()?;
        origin = Some(Origin { role, system, timeline, started });
    }
    let observed = Observed { host, upstream: Upstream::new(world.now, state) };
    let mail = ToCoordinator::Probed(Box::new((observed, origin)));
    world.step(Place::Coordinator, Event::Mail(Mail::ToCoordinator(mail)));
    world.run_until_idle();
    words.end()
}

/// `authority answers no`: to the oldest question, if somebody still waits for that.
pub(crate) fn authority_answers(world: &mut World, mut words: Words<'_>) -> Result<(), String> {
    let verdict = match words.bare("the verdict")? {
        "yes" => Verdict::Confirmed,
        "name" => Verdict::Known(words.bare("the name")?.to_owned()),
        "exchanged" => Verdict::Exchanged {
            reply: words.text("the message for the client")?,
            principal: (!words.is_empty()).then(|| words.bare("the principal").map(str::to_owned)).transpose()?,
        },
        "no" => Verdict::Denied("it says no".to_owned()),
        "unreachable" => Verdict::Unreachable("nobody is there".to_owned()),
        "busy" => Verdict::Busy,
        other => return Err(format!("'{other}' is no verdict")),
    };
    let (conn, inquiry) = world.inquiries.pop_front().ok_or("nobody has asked anything")?;
    if !inquiry.is_awaited() {
        world.note("nobody waits for the answer".to_owned());
    }
    world.step(World::place(conn), Event::Answered { conn, verdict });
    world.run_until_idle();
    words.end()
}

/// `reload pool default_pool_size=2`, `reload database db host=127.0.0.1 port=5433`
fn reload(world: &mut World, words: Words<'_>) -> Result<(), String> {
    if !words.is_empty() && !settings::apply(&mut world.settings, words)? {
        return Err("reload pool, database, user or secret …".to_owned());
    }
    let shared = Arc::new(world.settings.clone());
    world.tell_machines(|place| Some(Mail::configure(place, Arc::clone(&shared))));
    world.run_until_idle();
    Ok(())
}

/// `name db.example moves to 10.0.0.2 10.0.0.3`: what a lookup has found.
fn moves(world: &mut World, mut words: Words<'_>) -> Result<(), String> {
    let name = words.bare("the name")?;
    if !words.eat("moves to") {
        return Err("name NAME moves to ADDRESS …".to_owned());
    }
    let mut addresses: Vec<IpAddr> = Vec::new();
    while !words.is_empty() {
        addresses.push(words.bare("the address")?.parse().map_err(|_| "that is no address")?);
    }
    world.settings.orders.addresses.moved(name, &addresses);
    reload(world, words)
}

/// `order pause db`, `order resume`, `order kill client a`, `order kill query a`, `order kill query late a`: what is typed at the console.
/// `late`: its query has ended between the console's look and the order.
fn order(world: &mut World, mut words: Words<'_>) -> Result<(), String> {
    if words.eat("kill client") {
        let (conn, client) = session_of(world, &mut words)?;
        return order_one(world, words, conn, ToWorker::KillClient { conn, serial: client.serial });
    }
    if words.eat("kill query") {
        let is_late = words.eat("late");
        let (conn, client) = session_of(world, &mut words)?;
        if !is_late && !client.doing.has_request {
            world.note("client runs no query".to_owned());
            return words.end();
        }
        return order_one(world, words, conn, ToWorker::KillQuery { conn, serial: client.serial });
    }
    if words.eat("suspend") {
        let suspension = if words.eat("overdue") { Suspension::Overdue } else { Suspension::Flushing };
        world.settings.orders.suspension = Some(suspension);
        return reload(world, words);
    }
    let word = words.bare("the order")?;
    let is_resume = word == "resume";
    let change: fn(&mut DatabaseOrders) = match word {
        "pause" => |orders| orders.paused = true,
        "resume" => |orders| orders.paused = false,
        "disable" => |orders| orders.disabled = true,
        "enable" => |orders| orders.disabled = false,
        "reconnect" => |orders| orders.reconnects += 1,
        "kill" => |orders| (orders.paused, orders.kills) = (true, orders.kills + 1),
        other => return Err(format!("'{other}' is no order")),
    };
    let database = (!words.is_empty()).then(|| words.bare("the database")).transpose()?;
    world.settings.orders.change(database, change);
    if is_resume && database.is_none() {
        world.settings.orders.suspension = None;
    }
    reload(world, words)
}

/// A client's session as the console sees it.
fn session_of(world: &World, words: &mut Words<'_>) -> Result<(ConnId, ClientSnapshot), String> {
    let name = words.bare("the client's name")?;
    let conn = world.sockets[world.socket(name)?].id.ok_or("it has no session")?;
    let snapshot = world.workers[usize::from(conn.owner())].snapshot(world.now, Look::Connections);
    let client = snapshot.clients.into_iter().find(|client| client.conn == conn).ok_or("it is not shown")?;
    Ok((conn, client))
}

/// An order for one session.
fn order_one(world: &mut World, words: Words<'_>, conn: ConnId, mail: ToWorker) -> Result<(), String> {
    world.step(World::place(conn), Event::Mail(Mail::ToWorker(WorkerId(conn.owner()), mail)));
    world.run_until_idle();
    words.end()
}

/// `control answers a: CommandComplete "SHOW" | ReadyForQuery I`; `control answers and closes a: …`
fn control_answers(world: &mut World, mut words: Words<'_>) -> Result<(), String> {
    let close = words.eat("and closes");
    let name = words.bare("the client's name")?.trim_end_matches(':');
    let socket = world.socket(name)?;
    let conn = world.sockets[socket].question.ok_or("it has asked nothing")?;
    let mut bytes = Vec::new();
    for message in words.messages() {
        bytes.extend(backend::encode(message)?);
    }
    let mail = Mail::ToWorker(WorkerId(conn.owner()), ToWorker::Answer { conn, bytes, close });
    world.step(World::place(conn), Event::Mail(mail));
    world.run_until_idle();
    Ok(())
}

/// The line of SHOW POOLS for each worker, what is not zero of it.
fn pools(world: &mut World, words: Words<'_>) -> Result<(), String> {
    for worker in 0..world.workers.len() {
        let snapshot = world.workers[worker].snapshot(world.now, Look::Pools);
        for pool in snapshot.pools {
            let counts = [
                ("cl_active", u64::from(pool.clients.active)),
                ("cl_waiting", u64::from(pool.clients.waiting)),
                ("cl_active_cancel_req", u64::from(pool.clients.active_cancel_req)),
                ("sv_active", u64::from(pool.servers.active)),
                ("sv_active_cancel", u64::from(pool.servers.active_cancel)),
                ("sv_being_canceled", u64::from(pool.servers.being_canceled)),
                ("sv_idle", u64::from(pool.servers.idle)),
                ("sv_used", u64::from(pool.servers.used)),
                ("sv_tested", u64::from(pool.servers.tested)),
                ("sv_login", u64::from(pool.servers.login)),
                ("maxwait_us", pool.maxwait_us),
            ];
            line(world, worker, &format!("{}/{}", pool.key.database, pool.key.user), &counts);
        }
    }
    words.end()
}

/// What tells one row of SHOW CLIENTS and SHOW SERVERS from another, by id.
fn connections(world: &mut World, words: Words<'_>) -> Result<(), String> {
    let mut rows = Vec::new();
    for worker in 0..world.workers.len() {
        let snapshot = world.workers[worker].snapshot(world.now, Look::Connections);
        snapshot.clients.iter().for_each(|client| world.check_name(client.conn, client.name));
        snapshot.servers.iter().for_each(|server| world.check_name(server.conn, server.name));
        let clients =
            snapshot.clients.into_iter().map(|client| (client.serial, client.conn, client.state, client.link));
        let servers =
            snapshot.servers.into_iter().map(|server| (server.serial, server.conn, server.state, server.link));
        rows.extend(clients.chain(servers));
    }
    rows.sort_by_key(|row| row.0);
    for (serial, conn, state, link) in rows {
        let name = |conn| {
            let socket = world.sockets.iter().find(|socket| socket.id == Some(conn));
            socket.map_or_else(String::new, |socket| socket.name.clone())
        };
        let link = link.map(|link| format!(" linked to {}", name(link.conn))).unwrap_or_default();
        let row = format!("id {}: {} {state}{link}", serial.0, name(conn));
        world.note(row);
    }
    words.end()
}

/// What SHOW STATS_TOTALS is made of.
fn totals(world: &mut World, words: Words<'_>) -> Result<(), String> {
    for worker in 0..world.workers.len() {
        let snapshot = world.workers[worker].snapshot(world.now, Look::Pools);
        let named = |key: PoolKey| format!("{}/{}", key.database, key.user);
        let there = snapshot.pools.into_iter().map(|pool| (named(pool.key), pool.totals));
        let past = snapshot.past.into_iter().map(|(database, totals)| (format!("forgotten of {database}"), totals));
        for (name, all) in there.chain(past) {
            let counts = [
                ("assignments", all.server_assignments),
                ("transactions", all.transactions),
                ("queries", all.queries),
                ("received", all.received),
                ("sent", all.sent),
                ("transaction_us", all.transaction_us),
                ("query_us", all.query_us),
                ("wait_us", all.wait_us),
                ("client_parses", all.client_parses),
                ("server_parses", all.server_parses),
                ("binds", all.binds),
                ("logins", all.logins),
            ];
            line(world, worker, &name, &counts);
        }
    }
    words.end()
}

/// The counts of refusals and deadlocks for SHOW EVENTS, and the victim of the last deadlock.
fn events(world: &mut World, words: Words<'_>) -> Result<(), String> {
    for worker in 0..world.workers.len() {
        let snapshot = world.workers[worker].snapshot(world.now, Look::Pools);
        for refusal in snapshot.refusals {
            let (key, name) = (&refusal.key, refusal.reason.name());
            let who = format!("{}/{} {}", key.database, key.user, refusal.class);
            line(world, worker, &who, &[(name, refusal.count)]);
        }
        for pool in snapshot.pools {
            let Some(victim) = pool.deadlocks.last else { continue };
            let who = format!("{}/{} {}", pool.key.database, pool.key.user, victim.application_name);
            line(world, worker, &who, &[("deadlock", pool.deadlocks.count)]);
        }
    }
    words.end()
}

/// The lines of SHOW FINGERPRINTS for each worker, what is not zero of them.
fn fingerprints(world: &mut World, words: Words<'_>) -> Result<(), String> {
    for worker in 0..world.workers.len() {
        let snapshot = world.workers[worker].snapshot(world.now, Look::Pools);
        for statement in snapshot.statements {
            let counts = [
                ("active", u64::from(statement.active)),
                ("waiting", u64::from(statement.waiting)),
                ("count", statement.count),
                ("run_us", statement.run_us),
                ("run_max_us", statement.run_max_us),
                ("wait_us", statement.wait_us),
                ("wait_max_us", statement.wait_max_us),
                ("delayed", statement.delayed),
                ("rejected", statement.rejected),
            ];
            line(world, worker, &format!("fingerprint of {:?}", statement.text), &counts);
        }
    }
    words.end()
}

/// The line of SHOW FIDELITY for each worker, what is not zero of it, and its reasons.
fn fidelity(world: &mut World, words: Words<'_>) -> Result<(), String> {
    for worker in 0..world.workers.len() {
        let snapshot = world.workers[worker].snapshot(world.now, Look::Pools);
        for pool in snapshot.pools {
            let all = pool.fidelity.counts;
            let mut counts = vec![
                ("pinned", u64::from(pool.fidelity.pinned)),
                ("waiting", u64::from(pool.fidelity.waiting)),
                ("pinned_transactions", all.transactions_pinned),
                ("pins", all.pins),
                ("over", all.over),
                ("replays", all.replays),
                ("checks", all.checks),
                ("missed", all.missed),
            ];
            let kinds = all.by_kind.iter().enumerate();
            counts.extend(kinds.map(|(index, kind)| (Pins::words_at(index), kind.pins)));
            line(world, worker, &format!("{}/{}", pool.key.database, pool.key.user), &counts);
        }
    }
    words.end()
}

/// What SHOW PINS is made of.
fn pins(world: &mut World, words: Words<'_>) -> Result<(), String> {
    for worker in 0..world.workers.len() {
        let snapshot = world.workers[worker].snapshot(world.now, Look::Connections);
        for client in snapshot.clients {
            let Some(pin) = client.ties.pin else { continue };
            let socket = world.sockets.iter().find(|socket| socket.id == Some(client.conn));
            let name = socket.map_or_else(String::new, |socket| socket.name.clone());
            let reasons = pin.kinds.words().collect::<Vec<_>>().join(", ");
            let age = world.now.since(pin.since);
            let pid =
                if machine::pids::may_be_real_pid(client.pid) { format!(" as {}", client.pid) } else { String::new() };
            world.note(format!("{name} is pinned{pid} for {age:?} by {:?}: {reasons}", pin.statement));
        }
    }
    words.end()
}

fn line(world: &mut World, worker: usize, pool: &str, counts: &[(&str, u64)]) {
    let shown: String =
        counts.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!(" {name}={count}")).collect();
    let at = if world.workers.len() > 1 { format!(" at worker {}", worker + 1) } else { String::new() };
    world.note(format!("{pool}{at}:{shown}"));
}
