//! Metrics of what the observer has seen: who waits for what at PostgreSQL, how old the oldest is, and the observer itself.
//!
//! Promises: no series of a single client or statement. Labels are servers, pools, and words of bounded lists. Without `observe_interval` there is
//! nothing but the history's size: what was seen by a single look would stay for ever.

use activity::verdict::{Detail, Queue};
use activity::{Host, Moment, Reason, ServerTally, Tally, Verdict, View, WAIT_CLASSES};
use connections::databases::CONSOLE_DATABASE;

use super::page::{Kind, Labels, Page};
use crate::show_input::ShowInput;

/// A metric of a server: its name, its help, and its value.
type OfServer = (&'static str, &'static str, fn(&ServerTally) -> f64);

const OF_SERVERS: [OfServer; 10] = [
    ("pgweir_blocked_clients", "Clients that wait for a lock at PostgreSQL.", |server| server.blocked_clients.into()),
    ("pgweir_blocked_backends", "Backends that wait for a lock, those of strangers too.", |server| {
        server.blocked.into()
    }),
    ("pgweir_blockers", "Backends in whose way others are, and which wait for no lock themselves.", |server| {
        server.blockers.into()
    }),
    ("pgweir_blocked_depth", "The longest chain of backends of which each waits for the one before it.", |server| {
        server.depth.into()
    }),
    ("pgweir_blocked_seconds", "The longest wait for a lock.", |server| server.lock_wait.as_secs_f64()),
    (
        "pgweir_idle_blocker_seconds",
        "For how long a backend that is in the way of others has been idle in its transaction: the longest.",
        |server| server.idle_blocker.as_secs_f64(),
    ),
    ("pgweir_oldest_transaction_seconds", "Since when the oldest transaction is open.", |server| {
        server.ages.transaction.as_secs_f64()
    }),
    (
        "pgweir_oldest_idle_in_transaction_seconds",
        "For how long a client has said nothing in its transaction: the longest.",
        |server| server.ages.idle_in_transaction.as_secs_f64(),
    ),
    ("pgweir_oldest_query_seconds", "For how long a query has run: the longest.", |server| {
        server.ages.query.as_secs_f64()
    }),
    (
        "pgweir_oldest_xmin_transactions",
        "How many transactions ago the oldest snapshot was taken: VACUUM cannot remove what began to be dead since.",
        |server| server.ages.xmin.into(),
    ),
];

const REASONS: [Reason; 4] = [Reason::Active, Reason::Blocked, Reason::IdleInTransaction, Reason::Kept];

pub(super) fn put(page: &mut Page, input: &ShowInput<'_>) {
    let (history, none) = (input.history, Labels::default());
    page.metric("pgweir_history_bytes", Kind::Gauge, "Memory of the history, which observe_memory bounds.")
        .put(&none, history.bytes());
    page.metric("pgweir_history_seconds", Kind::Gauge, "Seconds that are in the history, of an hour at most.")
        .put(&none, history.seconds().len());
    if input.settings.global.observing.observe_interval.is_none() {
        return;
    }
    page.metric(
        "pgweir_observer_looks_total",
        Kind::Counter,
        "Seconds in which PostgreSQL and the workers were looked at.",
    )
    .put(&none, history.looks());
    put_samples(page, input);
    if let Some(moment) = history.latest() {
        put_moment(page, moment);
    }
    put_verdicts(page, input.history.verdicts());
}

fn put_samples(page: &mut Page, input: &ShowInput<'_>) {
    let help = "Sessions and backends that waited, by class of wait event, summed over all looks.";
    let mut samples = page.metric("pgweir_wait_samples_total", Kind::Counter, help);
    for class in WAIT_CLASSES {
        let count = input.history.samples().get(class).copied().unwrap_or(0);
        samples.put(&Labels::of([("class", class)]), count);
    }
}

fn put_moment(page: &mut Page, moment: &Moment) {
    // Milliseconds are exact in a float until the year 287396.
    let at = moment.at.0 as f64 / 1000.0;
    page.metric("pgweir_observer_last_look_timestamp_seconds", Kind::Gauge, "When it was looked last, since 1970.")
        .put(&Labels::default(), at);
    let tally = Tally::of(moment);
    let help =
        "Sessions and backends that wait now, by class of wait event. CPU: they run. Pool: they wait for a server.";
    let mut waits = page.metric("pgweir_waits", Kind::Gauge, help);
    for class in WAIT_CLASSES {
        waits.put(&Labels::of([("class", class)]), tally.waits.get(class).copied().unwrap_or(0));
    }
    for (host, server) in moment.hosts.iter().zip(&tally.servers) {
        put_view(page, host);
        if matches!(host.view, View::Whole(_) | View::Partial(_)) {
            put_server(page, host, server);
        }
    }
    put_holders(page, moment, &tally);
}

/// SHOW WHY: series exist while their pool is in trouble. The root is a label of one series of its own, so that the others go on when it changes. Neither
/// has tags, statements, addresses or gids, since the metrics need no login.
fn put_verdicts(page: &mut Page, verdicts: &[Verdict]) {
    for trouble in verdicts.iter().filter_map(Verdict::trouble) {
        let pool = [("database", &*trouble.pool.database), ("user", &*trouble.pool.user)];
        let why = [("reason", trouble.why.reason()), ("queue", trouble.queue().map_or("", Queue::word))];
        let labels = Labels::of(pool.into_iter().chain(why));
        let mut put = |name, help, value: f64| page.metric(name, Kind::Gauge, help).put(&labels, value);
        put("pgweir_why_waiting", "The column waiting of SHOW WHY.", trouble.waiting.into());
        put("pgweir_why_waited_seconds", "The column waited of SHOW WHY.", trouble.longest.as_secs_f64());
        put("pgweir_why_behind", "Servers of the pool that wait for a lock.", trouble.servers.behind.into());
        let Some(root) = trouble.root(Detail::Public) else { continue };
        let to_end = trouble.public_ending().unwrap_or_default();
        let labels = Labels::of(pool.into_iter().chain([("root", &*root), ("to_end", &*to_end)]));
        page.metric("pgweir_why_root", Kind::Gauge, "1: the columns root and to_end of SHOW WHY, as labels.")
            .put(&labels, 1);
    }
}

/// Whether it answers, and how much it tells.
fn put_view(page: &mut Page, host: &Host) {
    let labels = Labels::of([("server", &*host.address)]);
    let (took, is_partial) = match &host.view {
        View::Whole(took) => (Some(*took), false),
        View::Partial(took) => (Some(*took), true),
        View::None(_) | View::Off => (None, false),
    };
    let mut put = |name: &str, help: &str, value: f64| page.metric(name, Kind::Gauge, help).put(&labels, value);
    let up = f64::from(u8::from(took.is_some()));
    put("pgweir_observer_up", "1: PostgreSQL has said what its backends do. 0: it could not be asked.", up);
    if let Some(took) = took {
        let help = "1: the role that asks is not told what other users do, since it has not pg_monitor.";
        put("pgweir_observer_partial", help, f64::from(u8::from(is_partial)));
        put("pgweir_observer_answer_seconds", "How long the last answers took.", took.as_secs_f64());
    }
}

fn put_server(page: &mut Page, host: &Host, server: &ServerTally) {
    let labels = Labels::of([("server", &*host.address)]);
    for (name, help, value) in OF_SERVERS {
        page.metric(name, Kind::Gauge, help).put(&labels, value(server));
    }
    let Some(locks) = &host.locks else { return };
    let counts = &locks.counts;
    for (mode, held) in &counts.held {
        let labels = Labels::of([("server", &*host.address), ("mode", &**mode)]);
        page.metric("pgweir_locks_held", Kind::Gauge, "Locks that are held, by mode.").put(&labels, held);
    }
    let mut put = |name: &str, help: &str, value: u64| page.metric(name, Kind::Gauge, help).put(&labels, value);
    put("pgweir_locks_waiting", "Locks that are waited for.", counts.waiting);
    put("pgweir_locks_fast_path", "Locks that are held and take no room in the shared table.", counts.fast_path);
    put("pgweir_lock_table_entries", "Locks in the shared table: one for each backend and thing.", counts.in_table());
    put("pgweir_lock_table_objects", "Things that are locked in the shared table.", counts.objects);
    if counts.room > 0 {
        let help = "For how many things the shared table of locks has room: max_locks_per_transaction × (max_connections + max_prepared_transactions).";
        put("pgweir_lock_table_room", help, counts.room);
    }
}

/// All reasons of all pools, so that lines do not end in between.
fn put_holders(page: &mut Page, moment: &Moment, tally: &Tally) {
    // The console has no servers.
    for pool in moment.pools.keys().filter(|pool| &*pool.database != CONSOLE_DATABASE) {
        for reason in REASONS {
            let found = tally.holders.get(&(pool.clone(), reason)).copied().unwrap_or_default();
            let labels = [("database", &*pool.database), ("user", &*pool.user), ("reason", reason.words())];
            let labels = Labels::of(labels);
            page.metric(
                "pgweir_holders",
                Kind::Gauge,
                "Sessions that have a server of a pool, by what they have it for.",
            )
            .put(&labels, found.count);
            page.metric(
                "pgweir_holders_oldest_seconds",
                Kind::Gauge,
                "For how long one of them has had its server: the longest.",
            )
            .put(&labels, found.held.as_secs_f64());
        }
    }
}
