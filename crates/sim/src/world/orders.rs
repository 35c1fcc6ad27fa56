//! An administrator who gives orders during the work, whatever consoles order at the same time, and takes back what pauses the pooler.
//!
//! ```text
//!   Order ─► the desk ─► orders ─► every machine          Review ─► Look ─► every worker ─► the desk: PAUSE is answered
//! ```
//!
//! Whoever types PAUSE must be answered, and then no server may be there; whoever types SUSPEND, and then nobody is read but consoles and
//! what logs in (I16). What is paused or suspended is resumed within two seconds: then everybody who waits must be served, or the world does
//! not end.

use std::collections::BTreeMap;

use connections::databases::CONSOLE_DATABASE;
use machine::snapshot::{ClientSnapshot, PoolSnapshot, ServerSnapshot};
use machine::{Look, Mail, Manner, Question, Settings, Suspension, ToWorker};
use units::{ConnId, Kind, PoolKey, Serial, Time, WorkerId, limits};

use super::World;
use crate::agenda::Happening;
use crate::desk::{REVIEW_US, Served};
use crate::link::Peer;
use crate::process::Process;
use crate::random::Random;
use control::Asker;
use machine::mail::Place;

/// Who gives the orders.
#[derive(Debug)]
pub(super) struct Administrator {
    random: Random,
    /// When something was ordered last.
    pub(super) at: u64,
    /// A review is planned.
    is_reviewing: bool,
}

impl Administrator {
    pub(super) fn new(seed: u64) -> Administrator {
        Administrator { random: Random::new(seed ^ 0x6f72_6465_7273), at: 0, is_reviewing: false }
    }
}

/// Orders that are given, with the most frequent more than once. `DB` stands for a database's name, `ID` for a client's id, `VICTIM` for
/// that of one that has a request, and that an administrator may cancel.
const ORDERS: [&str; 18] = [
    "pause",
    "pause DB",
    "pause DB",
    "resume",
    "resume DB",
    "suspend",
    "suspend",
    "reconnect",
    "reconnect DB",
    "wait_close",
    "wait_close DB",
    "disable DB",
    "enable DB",
    "kill DB",
    "kill_client ID",
    "kill_query VICTIM",
    "kill_query VICTIM",
    "reload",
];

/// The longest time between two KILL_QUERY where one query after the other is cancelled.
const KILLS_US: u64 = 20_000;

/// How long a cancel mostly takes.
const CANCEL_US: u64 = 3_000;

/// An id that no client has.
const NOBODY: i32 = -1;

/// How long something stays paused or disabled, at most.
const PAUSED_MAX_US: u64 = 2_000_000;

/// How long after RESUME clients that wait must have a server.
const SERVED_US: u64 = 1_000_000;

/// How long after RESUME no timeout ends anything.
const SPARED_US: u64 = limits::RESUME_GRACE.as_micros() as u64;

/// Who gives the orders: no connection has this id.
fn nobody() -> Asker {
    Asker { worker: WorkerId(0), conn: ConnId::new(Kind::Client, 0, (1 << 20) - 1, 0) }
}

/// Gives one order, and plans the next.
pub(super) fn order(world: &mut World) {
    if !world.course.is_working() {
        return;
    }
    let order = *world.orders.random.pick(&ORDERS);
    let text = filled(world, order);
    world.course.census.world.orders += 1;
    serve_order(world, &text);
    let pause = world.orders.random.skewed(10_000, 1_000_000);
    world.course.after(pause, Happening::Order);
    // What pauses nobody need not be taken back: whatever is paused then would be, too.
    if ["pause", "suspend", "kill", "disable"].iter().any(|word| order.starts_with(word)) {
        let random = &mut world.orders.random;
        let until = if random.chance(500) { random.skewed(1_000, PAUSED_MAX_US) } else { PAUSED_MAX_US };
        world.course.after(until, Happening::Relief);
    }
}

/// Orders that one query is cancelled, one that a cancel will find running if there is any, and plans the next such order.
pub(super) fn kill_query(world: &mut World) {
    if !world.course.is_working() {
        return;
    }
    if let Some(id) = pick(world, runs_on).or_else(|| pick(world, may_be_cancelled)) {
        serve_order(world, &format!("kill_query {id}"));
    }
    let pause = world.orders.random.skewed(100, KILLS_US);
    world.course.after(pause, Happening::KillQuery);
}

/// Takes back all that keeps clients from being served.
pub(super) fn relieve(world: &mut World) {
    let names: Vec<String> = world.course.plan.databases.iter().map(|database| database.name.clone()).collect();
    for name in names {
        serve_order(world, &format!("resume \"{name}\""));
        serve_order(world, &format!("enable \"{name}\""));
    }
    serve_order(world, "resume");
    let now = world.course.now();
    world.course.after(SERVED_US, Happening::Relieved(now));
}

/// I16: a second after everything was resumed, a pool whose clients wait has servers, unless something else has happened meanwhile or
/// pools share a cap.
pub(super) fn check_relieved(world: &mut World, since: u64) {
    let (plan, pools) = (&world.course.plan, &world.course.plan.settings.global.pools);
    let databases = plan.settings.databases.values().chain(&plan.settings.fallback);
    let is_capped = pools.max_user_connections > 0
        || pools.max_db_connections > 0
        || pools.max_server_connections > 0
        || plan.settings.users.values().any(|user| user.max_user_connections.is_some())
        || databases.into_iter().any(|database| database.settings.max_db_connections.is_some());
    let has_changed = world.orders.at > since || world.desk.awaits_looks();
    let is_troubled = world.course.trouble_at().is_some() || world.course.fault_at().is_some();
    let is_slow = plan.weather.pieces > 0 || plan.weather.late > 0 || plan.weather.delay_max > 20_000;
    if is_capped || has_changed || is_troubled || is_slow || plan.is_limited() || plan.is_spread() {
        return;
    }
    let mut pools: BTreeMap<PoolKey, (u32, u32)> = BTreeMap::new();
    for pool in snapshots(world, Look::Pools).flat_map(|shown| shown.pools) {
        let (waiting, open) = pools.entry(pool.key).or_default();
        (*waiting, *open) = (*waiting + pool.clients.waiting, *open + pool.open_servers);
    }
    world.course.census.world.reliefs += 1;
    if let Some((key, (waiting, _))) = pools.into_iter().find(|(_, (waiting, open))| *waiting > 0 && *open == 0) {
        world.course.fail(16, format!("{key:?}: a second after RESUME {waiting} wait and no server is open"));
    }
}

/// An order with a database and a client that are there. If no such client is there, the order is for nobody: any other one may not be
/// ready for it.
fn filled(world: &mut World, order: &str) -> String {
    let database = world.orders.random.pick(&world.course.plan.databases).name.clone();
    let id = match order {
        _ if order.contains("ID") => pick(world, |_, _| true),
        _ if order.contains("VICTIM") => pick(world, may_be_cancelled),
        _ => None,
    };
    let id = id.unwrap_or(NOBODY).to_string();
    order.replace("DB", &format!("\"{database}\"")).replace("ID", &id).replace("VICTIM", &id)
}

/// The id of one of these clients, if there is any.
fn pick(world: &mut World, is_meant: impl Fn(&World, &ClientSnapshot) -> bool) -> Option<i32> {
    let clients = snapshots(world, Look::Connections).flat_map(|shown| shown.clients);
    let ids: Vec<i32> = clients.filter(|client| is_meant(world, client)).map(|client| client.serial.0).collect();
    (!ids.is_empty()).then(|| *world.orders.random.pick(&ids))
}

/// Whether an administrator may cancel what this client runs, and it has a request that a cancel would end.
fn may_be_cancelled(world: &World, shown: &ClientSnapshot) -> bool {
    let client = client_of(world, WorkerId(shown.conn.owner()), shown.conn);
    let client = client.and_then(|(_, number)| world.crowd.find(number));
    let replicates = shown.ties.replication.is_some();
    !replicates
        && shown.doing.has_request
        && client.is_some_and(|client| client.habits.may_be_cancelled && !client.is_at_console())
}

/// Whether, besides, PostgreSQL needs so long for what this client runs that a cancel comes in time.
fn runs_on(world: &World, shown: &ClientSnapshot) -> bool {
    let until = world.course.now() + CANCEL_US;
    let client = client_of(world, WorkerId(shown.conn.owner()), shown.conn).map(|(_, number)| number);
    let is_its = |process: &Process| process.backend.client() == client && process.is_busy(until);
    may_be_cancelled(world, shown) && world.postgres.iter().any(is_its)
}

/// The id of a client whose query a console may order to be cancelled, sometimes.
pub(super) fn victim(world: &mut World) -> Option<i32> {
    let is_now = world.course.plan.promises.orders.are_given && world.orders.random.chance(300);
    if is_now { pick(world, may_be_cancelled) } else { None }
}

fn serve_order(world: &mut World, text: &str) {
    note_order(world, text);
    let question =
        Question { text: text.as_bytes().to_vec(), manner: Manner::Query, user: "operator".into(), admin: true };
    let shown: Vec<_> = snapshots(world, Look::Connections).collect();
    let served = world.desk.serve_at_once(nobody(), question, shown, &world.course.plan.settings);
    world.course.note(|| format!("the operator: {text}"));
    obey(world, served);
}

/// What an order may do to clients from now on.
pub(super) fn note_order(world: &mut World, text: &str) {
    let text = text.trim().to_ascii_lowercase();
    let of = |word: &str| text.split([' ', ';']).next() == Some(word);
    // KILL_QUERY is for one client, and as if this client had sent a CancelRequest.
    if of("kill_query") {
        return;
    }
    world.orders.at = world.course.now();
    let ordered = &mut world.course.plan.promises.orders;
    ordered.changes |= !of("show");
    ordered.pauses |= of("pause") || of("kill") || of("reconnect");
    ordered.kills |= of("kill");
    ordered.client_kills |= of("kill_client");
    ordered.disables |= of("disable");
}

/// Carries out what an order has led to, and answers whoever has waited.
fn obey(world: &mut World, served: Served) {
    set_accepting(world, served.accepts);
    if let Some(settings) = served.configured {
        note_suspension(world, &settings);
        let before = std::mem::replace(&mut world.course.plan.settings, settings);
        world.checks.note_reload(world.course.now(), before);
        world.pooler.configure(&mut world.course);
    }
    end_clients_and_queries(world, served.killed, served.cancelled);
    for (asker, bytes, close) in served.answers {
        world.hand_over(asker, bytes, close);
    }
    plan_review(world);
}

/// Carries out KILL_CLIENT and KILL_QUERY.
pub(super) fn end_clients_and_queries(
    world: &mut World,
    killed: Vec<(WorkerId, ConnId, Serial)>,
    cancelled: Vec<(WorkerId, ConnId, Serial)>,
) {
    for (worker, conn, serial) in killed {
        order_one(world, worker, ToWorker::KillClient { conn, serial });
    }
    for (worker, conn, serial) in cancelled {
        world.course.census.cancels.ordered += 1;
        order_one(world, worker, ToWorker::KillQuery { conn, serial });
    }
}

/// KILL_QUERY is about to reach the worker. If the client has a request now, one cancel may strike this request, or a later one of the
/// same client: that is for the pooler to say when it cancels a server's work. If it has none, nothing may happen to it (I4).
pub(super) fn expect_cancel(world: &mut World, conn: ConnId, serial: Serial) {
    let worker = WorkerId(conn.owner());
    let Some(shown) = world.pooler.machines.worker(worker.0) else { return };
    let mut clients = shown.snapshot(Time(world.course.now()), Look::Connections).clients.into_iter();
    if !clients.any(|client| client.conn == conn && client.serial == serial && client.doing.has_request) {
        return;
    }
    if let Some((index, number)) = client_of(world, worker, conn)
        && let Some(client) = world.crowd.at_mut(index, number)
    {
        let cancels = client.cancels.order();
        world.crowd.note_cancels(number, cancels, false);
    }
}

fn order_one(world: &mut World, worker: WorkerId, mail: ToWorker) {
    if let Some(node) = world.pooler.machines.find(Place::Worker(worker)) {
        world.pooler.machines.deliver_from_desk(&mut world.course, node, Mail::ToWorker(worker, mail));
    }
}

/// The model client whose session this is.
fn client_of(world: &World, worker: WorkerId, conn: ConnId) -> Option<(u32, u32)> {
    let node = world.pooler.machines.find(Place::Worker(worker))?;
    match world.pooler.peer(node, conn)? {
        Peer::Client(index, number) => Some((index, number)),
        _ => None,
    }
}

pub(super) fn set_accepting(world: &mut World, accepts: Option<bool>) {
    if let Some(accepts) = accepts {
        world.pooler.set_accepting(&mut world.course, accepts);
    }
}

/// What SUSPEND and RESUME may do to clients from now on: these settings come into force.
pub(super) fn note_suspension(world: &mut World, settings: &Settings) {
    let was_suspended = world.course.plan.settings.orders.is_suspended();
    let now = world.course.now();
    let is_overdue = |settings: &Settings| settings.orders.suspension == Some(Suspension::Overdue);
    if is_overdue(settings) && !is_overdue(&world.course.plan.settings) {
        world.course.census.world.suspend_timeouts += 1;
    }
    let ordered = &mut world.course.plan.promises.orders;
    ordered.suspended_too_long |= is_overdue(settings);
    if was_suspended && !settings.orders.is_suspended() {
        ordered.spared_until = now + SPARED_US;
    }
}

/// Has it looked soon whether what commands wait for has come.
pub(super) fn plan_review(world: &mut World) {
    if world.desk.awaits_looks() && !std::mem::replace(&mut world.orders.is_reviewing, true) {
        world.course.after(REVIEW_US, Happening::Review);
    }
}

/// Looks whether what commands wait for has come.
pub(super) fn review(world: &mut World) {
    world.orders.is_reviewing = false;
    let ticket = world.desk.ask_for_review();
    look_for(world, ticket);
}

/// The snapshots for a review have come, and these commands are answered, with the database that each was for (`None`: all).
pub(super) fn reviewed(world: &mut World, served: Served, answered: &[(&'static str, Option<String>)]) {
    world.course.census.world.reviews += 1;
    for (command, database) in answered {
        let checked = match *command {
            "PAUSE" => {
                world.course.census.world.pauses += 1;
                check_paused(world, database.as_deref())
            }
            "SUSPEND" => {
                world.course.census.world.suspensions += 1;
                check_suspended(world)
            }
            _ => Ok(()),
        };
        if let Err(text) = checked {
            return world.course.fail(16, text);
        }
    }
    obey(world, served);
}

/// I16: what is paused has no servers when PAUSE is answered.
fn check_paused(world: &World, database: Option<&str>) -> Result<(), String> {
    let concerns = |pool: &PoolSnapshot| database.is_none_or(|name| name == &*pool.key.database);
    let open = |pool: &PoolSnapshot| concerns(pool) && pool.open_servers > 0;
    match snapshots(world, Look::Pools).flat_map(|shown| shown.pools).find(open) {
        Some(pool) => Err(format!("PAUSE is answered, and {:?} has {} servers", pool.key, pool.open_servers)),
        None => Ok(()),
    }
}

/// I16: once SUSPEND is answered, no client is read but those of the console, and no server that a client has or could have.
fn check_suspended(world: &World) -> Result<(), String> {
    for worker in 0..world.course.plan.workers {
        let Some(node) = world.pooler.machines.worker_node(worker) else { continue };
        let Some(machine) = node.worker() else { continue };
        let snapshot = machine.snapshot(Time(world.course.now()), Look::Connections);
        let clients = snapshot.clients.iter().filter(|client| &*client.key.database != CONSOLE_DATABASE);
        let is_used = |server: &&ServerSnapshot| server.link.is_some() || server.state == "idle";
        let servers = snapshot.servers.iter().filter(is_used).map(|server| server.conn);
        for conn in clients.map(|client| client.conn).chain(servers) {
            let link = node.find(conn).and_then(|id| world.pooler.network.get(id));
            if link.is_some_and(|link| link.pooler.read) {
                return Err(format!("SUSPEND is answered, and {conn:?} is read"));
            }
        }
    }
    Ok(())
}

pub(super) fn snapshots(world: &World, look: Look) -> impl Iterator<Item = machine::Snapshot> {
    let now = Time(world.course.now());
    let workers = (0..world.course.plan.workers).filter_map(|worker| world.pooler.machines.worker(worker));
    workers.map(move |worker| worker.snapshot(now, look))
}

/// Requests a snapshot from every worker.
pub(super) fn look_for(world: &mut World, ticket: u64) {
    let World { course, pooler, .. } = world;
    for node in 0..pooler.machines.count() {
        if let Place::Worker(worker) = pooler.machines.node(node).place {
            let look = Mail::ToWorker(worker, ToWorker::Look { ticket, look: Look::Connections });
            pooler.machines.deliver_from_desk(course, node, look);
        }
    }
}
