//! Two workers with clients and servers, made by hand: what the golden files show.

#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod observed;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ::settings::Over;
use activity::History;
use auth::Secret;
use connections::databases::{Address, Database, Host};
use control::averages::{Averages, by_database};
use control::{
    Detail, DoorFacts, Exemplar, Exemplars, HostProbe, HostSeen, HostsSeen, KnownName, KnownNames, KnownZone,
    SettingRow, ShowInput, WorkerFacts,
};
use jiff::Zoned;
use machine::histogram::{Bucket, Spans};
use machine::peering::{PeerEntry, PeerId, PeerPool};
use machine::snapshot::{
    CallCounts, ClientCounts, ClientSnapshot, ClientTimes, Doing, FidelityCounts, FidelitySnapshot, Kept, LimitCounts,
    LinkSnapshot, LongCounts, ObjectSizes, PinCounts, PoolSnapshot, QueryCounts, Rotations, ServerCounts, ServerEnds,
    ServerSnapshot, ServerTimes, StatementCounts, Ties, Totals,
};
use machine::{HostRole, HostState, Peer, ReplicationKind, Settings, Snapshot, Upstream};
use queueing::classes::LimitKind;
use queueing::classes::{Class, ClassId, Classes, Limits, Pattern, Rate, Rule};
use queueing::queue::ClassCounts;
use queueing::refusals::{Reason, RefusalCounts};
use queueing::sizing::{Change, SizingSnapshot};
use session_state::catalogue::CatalogueProgress;
use session_state::state::{PinSnapshot, Pins};
use settings::UserSettings;
use settings::{ClassSettings, DatabaseSettings, Fidelity, Global, PoolMode, PoolSize};
use units::{ConnId, PoolId, PoolKey, Serial, Time, WorkerId};
use wire::sqlstate;

pub(crate) struct World {
    pub(crate) settings: Settings,
    pub(crate) rows: Vec<SettingRow>,
    pub(crate) snapshots: Vec<Snapshot>,
    pub(crate) workers: Vec<WorkerFacts>,
    pub(crate) averages: Averages,
    pub(crate) names: KnownNames,
    pub(crate) hosts_seen: HostsSeen,
    pub(crate) peer_pools: Vec<PeerPool>,
    pub(crate) exemplars: Exemplars,
    pub(crate) history: History,
}

impl World {
    pub(crate) fn new() -> World {
        let snapshots = vec![first_worker(), second_worker()];
        let mut averages = Averages::default();
        averages.period_ended(by_database(&snapshots), 10_000_000);
        let rows = vec![
            row("auth_user", None, None, true),
            row("listen_port", Some("6999"), Some("6432"), false),
            row("pool_mode", Some("transaction"), Some("session"), true),
        ];
        let workers = vec![WorkerFacts { worker: 0, rounds: 900, recvs: 800, sends: 700, ..WorkerFacts::default() }];
        let hosts = vec![KnownName {
            name: "db.example".to_owned(),
            ttl: Duration::from_secs(7),
            addresses: vec![IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2])],
        }];
        let zones = vec![KnownZone { name: "example".to_owned(), serial: 4_000_000_000, hosts: 1 }];
        let names = KnownNames { hosts, zones, lookups: 1 };
        let peer_pools = vec![PeerPool { peer: PeerId(2), waiting: 4, opening: 2, sent: 1 }];
        let settings = settings();
        let history = observed::history(&settings, &snapshots);
        let leader = Address { host: Host::Ip(IpAddr::from([10, 0, 0, 7])), port: 5433 };
        let hosts_seen = HostsSeen::from([
            (
                leader,
                HostSeen {
                    patroni: Some("leader".to_owned()),
                    probe: Some(HostProbe { timeline: Some(7), position: Some(5_000), ..HostProbe::default() }),
                },
            ),
            (
                Address { host: Host::Ip(IpAddr::from([10, 0, 0, 7])), port: 5434 },
                HostSeen {
                    patroni: None,
                    probe: Some(HostProbe {
                        ago: Duration::from_millis(1_200),
                        timeline: Some(7),
                        position: Some(4_000),
                        ..HostProbe::default()
                    }),
                },
            ),
        ]);
        let exemplars = exemplars();
        World { settings, rows, snapshots, workers, averages, names, hosts_seen, peer_pools, exemplars, history }
    }

    pub(crate) fn show_input(&self) -> ShowInput<'_> {
        let now: Zoned = "2026-07-01T12:00:00+00:00[UTC]".parse().expect("a time of day");
        ShowInput {
            settings: &self.settings,
            rows: &self.rows,
            listen_port: 6999,
            snapshots: &self.snapshots,
            detail: Detail::Connections,
            workers: &self.workers,
            averages: &self.averages,
            names: &self.names,
            hosts_seen: &self.hosts_seen,
            door: door(),
            peer_pools: &self.peer_pools,
            exemplars: &self.exemplars,
            log_lines_lost: 3,
            history: &self.history,
            shows_statements: true,
            now,
            pools: OnceCell::new(),
        }
    }
}

fn row(key: &'static str, value: Option<&str>, default: Option<&str>, changeable: bool) -> SettingRow {
    SettingRow { key, value: value.map(str::to_owned), default: default.map(str::to_owned), changeable }
}

/// A connection's id: kind, worker, slot, generation, as `units::id` draws them.
pub(crate) fn conn(kind: u64, worker: u64, slot: u64, generation: u64) -> ConnId {
    ConnId::from_bits(((kind << 9 | worker) << 24 | slot) << 27 | generation)
}

pub(crate) fn key(database: &str, user: &str) -> PoolKey {
    PoolKey { database: database.into(), user: user.into() }
}

pub(crate) fn database(name: &str, hosts: Vec<Host>) -> Database {
    Database::new(name, hosts.into_iter().map(|host| Address { host, port: 5432 }).collect())
}

fn settings() -> Settings {
    let local = Host::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let app = Database {
        dbname: Some("app_production".to_owned()),
        forced_user: Some("app_owner".to_owned()),
        settings: DatabaseSettings {
            pool_size: Some(PoolSize::Fixed(7)),
            pool_mode: Some(PoolMode::Transaction),
            pool_fidelity: Some(Fidelity::Strict),
            max_db_connections: Some(50),
            server_lifetime: Some(Duration::ZERO),
            ..DatabaseSettings::default()
        },
        ..database("app", vec![local.clone(), Host::Name("replica.example".to_owned())])
    };
    let other = database("other", vec![Host::Unix("/run/postgresql".to_owned())]);
    let alice = UserSettings {
        pool_size: Some(PoolSize::Auto),
        max_user_client_connections: Some(9),
        ..UserSettings::default()
    };
    let bob = UserSettings {
        pool_mode: Some(PoolMode::Statement),
        pool_fidelity: Some(Fidelity::Classic),
        ..UserSettings::default()
    };
    let mut global = Global::default();
    global.pools.max_user_client_connections = 33;
    global.listening.peer_id = 1;
    global.classes = ClassSettings {
        fingerprint_max_active: 9,
        fingerprint_limits: BTreeMap::from([(0xfeed, 7), (0xdead, 1)]),
        ..ClassSettings::default()
    };
    Settings {
        global,
        databases: BTreeMap::from([("app".to_owned(), Arc::new(app)), ("other".to_owned(), Arc::new(other))]),
        fallback: Some(Arc::new(database("*", vec![local]))),
        users: BTreeMap::from([("alice".to_owned(), alice), ("bob".to_owned(), bob)]),
        secrets: BTreeMap::from([("adm".to_owned(), Secret::parse("a")), ("alice".to_owned(), Secret::parse("b"))]),
        classes: Arc::new(classes()),
        peers: BTreeMap::from([(PeerId(1), peer("10.0.0.1", 7)), (PeerId(2), peer("/run/weir-2", 20))]),
        ..Settings::default()
    }
}

fn peer(host: &str, pool_size: u32) -> PeerEntry {
    let host = host.parse().map_or_else(|_| Host::Unix(host.to_owned()), Host::Ip);
    PeerEntry { address: Arc::new(Address { host, port: 6432 }), pool_size }
}

fn classes() -> Classes {
    let web = Class { weight: 4, priority: 1, min: 2, ..Class::new("web") };
    let limits = Limits {
        transactions: Some(Rate { per_second: 100, burst: 200 }),
        logins: Some(Rate { per_second: 5, burst: 5 }),
        active: Some(4),
        over: Over::Reject,
        ..Limits::default()
    };
    let background = Class { max: Some(10), max_waiting: Some(500), limits, ..Class::new("background") };
    let rule = Rule {
        databases: vec![Pattern::All],
        users: vec![Pattern::All],
        applications: vec![Pattern::BeginsWith((*b"sidekiq").into())],
        tags: Vec::new(),
        class: ClassId(2),
    };
    let all = vec![Class::new("default"), web, background];
    Classes { all, rules: vec![rule], ..Classes::default() }
}

/// `default` has done nothing yet.
fn class_counts(scale: u64) -> Vec<ClassCounts> {
    let web = ClassCounts {
        class: ClassId(1),
        waiting: 3,
        eligible: 1,
        active: 2,
        served_us: 8_000_400 * scale,
        served_after_wait: 10 * scale,
        wait_us: 40_000 * scale,
        wait_max_us: 9_000 * scale,
    };
    let background =
        ClassCounts { served_us: 2_000_000 * scale, active: 1, class: ClassId(2), ..ClassCounts::default() };
    vec![ClassCounts::default(), web, background]
}

pub(crate) fn pool(id: u32, key: PoolKey, mode: PoolMode) -> PoolSnapshot {
    PoolSnapshot::new(PoolId(id), key, mode)
}

fn fidelity(scale: u64) -> FidelitySnapshot {
    let mut counts = FidelityCounts {
        transactions_pinned: 12 * scale,
        pins: 3 * scale,
        over: scale,
        replays: 40 * scale,
        checks: 7 * scale,
        missed: scale,
        ..FidelityCounts::default()
    };
    counts.by_kind[0] = PinCounts { pins: 2 * scale, transactions: 10 * scale };
    counts.by_kind[2] = PinCounts { pins: scale, transactions: 5 * scale };
    FidelitySnapshot { fidelity: Some(Fidelity::Strict), names: CatalogueProgress::Read, pinned: 1, waiting: 2, counts }
}

fn sizing() -> SizingSnapshot {
    let change = |at, from, to, why: &str| Change { at: Time(at), from, to, why: why.to_owned() };
    SizingSnapshot {
        size: 11,
        floor: 2,
        ceiling: 80,
        settled: Some(8),
        why: "best; 6 servers: -9.1 %, 11 servers: +0.2 %".to_owned(),
        wait_words: Some("of 8 busy: 2 compute, 5 wait for LWLock WALWrite, 1 for IO WALSync".to_owned()),
        changes: vec![
            change(50_000_000, 4, 8, "looking for the best size"),
            change(99_000_000, 8, 11, "trying a neighbour"),
        ],
        change_count: 7,
    }
}

fn totals(scale: u64) -> Totals {
    Totals {
        server_assignments: 100 * scale,
        transactions: 110 * scale,
        queries: 120 * scale,
        received: 13_000 * scale,
        sent: 14_000 * scale,
        transaction_us: 150_000 * scale,
        query_us: 160_000 * scale,
        wait_us: 17_000 * scale,
        client_parses: 180 * scale,
        server_parses: 19 * scale,
        binds: 200 * scale,
        logins: 21 * scale,
    }
}

/// Times from below the lowest bound to above the highest.
fn spans(scale: u64) -> Spans {
    let mut spans = Spans::default();
    [0, 100, 101, 17_000].into_iter().for_each(|wait| spans.wait.count(Bucket::of(wait * scale)));
    [160_000, 70_000_000].into_iter().for_each(|query| spans.query.count(Bucket::of(query)));
    spans.transaction.count(Bucket::of(150_000 * scale));
    spans
}

fn door() -> DoorFacts {
    let mut door = DoorFacts { turned_away: 12, ..DoorFacts::default() };
    door.refused.count(sqlstate::INVALID_PASSWORD);
    door.refused.count(sqlstate::TOO_MANY_CONNECTIONS);
    door
}

fn limit(kind: LimitKind, left: Option<(u32, Time)>, delayed: u64, rejected: u64) -> LimitCounts {
    let class = "background".into();
    LimitCounts { class, kind, left, unused: 3, waiting: 4, active: 1, passed: 500, delayed, rejected }
}

fn limits() -> Vec<LimitCounts> {
    // Reported 0.3 and 0.4 s before the snapshots.
    let logins = LimitCounts { waiting: 0, unused: 0, ..limit(LimitKind::Logins, Some((1, Time(99_800_000))), 5, 0) };
    let transactions = limit(LimitKind::Transactions, Some((40, Time(99_900_000))), 3, 1);
    vec![transactions, logins, limit(LimitKind::Active, None, 30, 10)]
}

fn refusal(class: &str, reason: Reason, count: u64) -> RefusalCounts {
    RefusalCounts { key: key("app", "app_owner"), class: class.into(), reason, count }
}

fn statement(fingerprint: u64, scale: u64) -> StatementCounts {
    StatementCounts {
        fingerprint,
        text: format!("select report({scale})"),
        waiting: 3,
        active: 2,
        count: 100 * scale,
        permits: 3,
        run_us: 5_000_000 * scale,
        run_max_us: 70_000 * scale,
        wait_us: 400_000 * scale,
        wait_max_us: 60_000 * scale,
        delayed: 9 * scale,
        rejected: scale,
    }
}

/// One that most calls of did not wait.
fn query(fingerprint: Option<u64>, text: &str, scale: u64) -> QueryCounts {
    let mut counts = CallCounts {
        calls: 3 * scale,
        errors: scale,
        rows: 40 * scale,
        bytes: 500 * scale,
        run_us: 6_000 * scale,
        run_max_us: 4_000 * scale,
        queue_us: 200 * scale,
        queue_max_us: 200 * scale,
        ..CallCounts::default()
    };
    [800 * scale, 1_200 * scale, 4_000 * scale].into_iter().for_each(|time| counts.run.count(Bucket::of(time)));
    counts.queue.count(Bucket::of(200 * scale));
    QueryCounts { key: key("app", "app_owner"), fingerprint, text: text.to_owned(), counts }
}

fn long() -> Vec<LongCounts> {
    vec![
        LongCounts { count: 12, mean_us: 1_700_000, text: "select report($1)".to_owned() },
        LongCounts { count: 1, mean_us: 4_000_000, text: String::new() },
    ]
}

fn refusals() -> Vec<RefusalCounts> {
    vec![refusal("web", Reason::Deadline, 4), refusal("background", Reason::Limit(LimitKind::Active), 30)]
}

/// It keeps its server.
/// Of one bucket of one pool.
fn exemplars() -> Exemplars {
    let exemplar = Exemplar {
        trace_id: "4bf92f3577b34da6a3ce929d0e0e4736".to_owned(),
        waited_us: 700,
        at: Duration::from_micros(1_700_000_000_123_456),
    };
    Exemplars::from([(key("app", "app_owner"), BTreeMap::from([(3, exemplar)]))])
}

fn linked_client() -> ClientSnapshot {
    let pin = PinSnapshot {
        since: Time(87_400_000),
        kinds: Pins::TEMPORARY | Pins::ADVISORY,
        statement: "create temp table t as select pg_advisory_lock(7)".to_owned(),
    };
    ClientSnapshot {
        kept: Kept { prepared_statements: 2, received: 30, unsent: 0 },
        link: Some(LinkSnapshot { conn: conn(2, 0, 3, 1), name: Some(conn(2, 1, 4, 1)) }),
        doing: Doing { has_request: true, ..Doing::default() },
        ties: Ties { pin: Some(pin), replication: Some(ReplicationKind::Logical), ..ties() },
        ..client(0, 8, key("app", "app_owner"), "bob")
    }
}

/// Its clock shows 100 s.
// tidy: a table of all that a worker has
fn first_worker() -> Snapshot {
    let app = PoolSnapshot {
        clients: ClientCounts { active: 2, waiting: 1, active_cancel_req: 1, waiting_cancel_req: 0 },
        servers: ServerCounts { active: 1, idle: 2, login: 1, ..ServerCounts::default() },
        open_servers: 4,
        maxwait_us: 1_500_000,
        waiting_us: 1_500_000,
        totals: totals(1),
        spans: spans(1),
        fidelity: fidelity(1),
        classes: class_counts(1),
        sizing: Some(Arc::new(sizing())),
        long: long(),
        ..pool(0, key("app", "app_owner"), PoolMode::Transaction)
    };
    let console = PoolSnapshot {
        clients: ClientCounts { active: 1, ..ClientCounts::default() },
        totals: Totals { transactions: 1, queries: 1, logins: 1, ..Totals::default() },
        ..pool(9, key("pgbouncer", "pgbouncer"), PoolMode::Statement)
    };
    let now = Time(100_000_000);
    let waiting = ClientSnapshot {
        kept: Kept { prepared_statements: 2, received: 30, unsent: 0 },
        state: "waiting",
        class: ClassId(2),
        times: ClientTimes { waiting_since: Some(Time(98_500_000)), ..TIMES },
        ..client(0, 7, key("app", "app_owner"), "alice")
    };
    let admin = ClientSnapshot {
        kept: Kept { prepared_statements: 2, received: 30, unsent: 0 },
        peer: Peer::Unix { pid: 4711, uid: 1000 },
        tls: Some("TLSv1.2/ECDHE-RSA-AES256-GCM-SHA384/X25519".to_owned()),
        times: ClientTimes { connected_at: Time(99_000_000), ..TIMES },
        ties: Ties::default(),
        ..client(0, 9, key("pgbouncer", "pgbouncer"), "adm")
    };
    let server = ServerSnapshot {
        kept: Kept { prepared_statements: 5, received: 0, unsent: 70 },
        serial: Serial(17),
        name: conn(2, 1, 4, 1),
        conn: conn(2, 0, 3, 1),
        pool: PoolId(0),
        key: key("app", "app_owner"),
        state: "active",
        ends: ServerEnds {
            host: Arc::new(Address { host: Host::Ip(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7))), port: 5432 }),
            address: Arc::new(Address { host: Host::Ip(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7))), port: 5432 }),
            local: Some(SocketAddr::from((Ipv4Addr::new(10, 0, 0, 9), 41_000))),
        },
        times: ServerTimes { connected_at: Time(10_000_000), request_at: Time(99_900_000) },
        replication: Some(ReplicationKind::Physical),
        link: Some(LinkSnapshot { conn: conn(1, 0, 8, 1), name: Some(conn(1, 9, 8, 1)) }),
        remote_pid: 815,
        application_name: "app".to_owned(),
        close_needed: true,
        tls: Some("TLSv1.3/TLS_AES_256_GCM_SHA384/X25519".into()),
    };
    Snapshot {
        sizes: ObjectSizes { session: 500, server: 900, pool: 700, buffers: 2048 },
        worker: Some(WorkerId(0)),
        now,
        pools: vec![app, console],
        clients: vec![waiting, linked_client(), admin],
        servers: vec![server],
        lends: 3,
        console_logins: 0,
        rotations: Rotations { rotated: 17, kept: 2, missed: 1 },
        limits: limits(),
        statements: vec![statement(0xfeed, 1), statement(0xabba, 10)],
        queries: vec![query(Some(0xfeed), "select report(?)", 1), query(None, "", 2)],
        refusals: refusals(),
        steps: 1234,
        hosts: hosts([failed(99_000_000), alive(80_000_000), Upstream::UNTRIED]),
        ..Snapshot::default()
    }
}

/// The hosts of a database, at ports from 5432 on.
fn hosts(upstreams: [Upstream; 3]) -> Vec<(Address, Upstream)> {
    let address = |port| Address { host: Host::Ip(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7))), port };
    (5432..).map(address).zip(upstreams).collect()
}

fn alive(at: u64) -> Upstream {
    Upstream::new(Time(at), HostState::Alive { role: Some(HostRole::Primary) })
}

/// For fifteen seconds.
fn failed(at: u64) -> Upstream {
    Upstream::new(Time(at), HostState::Failed { until: Time(at + 15_000_000) })
}

/// Its clock shows 100.2 s.
fn second_worker() -> Snapshot {
    let app = PoolSnapshot {
        clients: ClientCounts { active: 1, ..ClientCounts::default() },
        servers: ServerCounts { used: 1, tested: 1, ..ServerCounts::default() },
        open_servers: 2,
        maxwait_us: 200_000,
        totals: totals(2),
        spans: spans(2),
        fidelity: fidelity(2),
        classes: class_counts(2),
        ..pool(0, key("app", "app_owner"), PoolMode::Transaction)
    };
    let made = PoolSnapshot {
        servers: ServerCounts { idle: 1, ..ServerCounts::default() },
        open_servers: 1,
        ..pool(2, key("made_on_demand", "alice"), PoolMode::Session)
    };
    let idle = ServerSnapshot {
        kept: Kept { prepared_statements: 0, received: 0, unsent: 70 },
        serial: Serial(3),
        name: conn(2, 1, 0, 4),
        conn: conn(2, 1, 0, 4),
        pool: PoolId(2),
        key: key("made_on_demand", "alice"),
        state: "idle",
        ends: ServerEnds {
            host: Arc::new(Address { host: Host::Unix("/run/postgresql".to_owned()), port: 5433 }),
            address: Arc::new(Address { host: Host::Unix("/run/postgresql".to_owned()), port: 5433 }),
            local: None,
        },
        times: ServerTimes { connected_at: Time(5_000_000), request_at: Time(6_000_000) },
        replication: None,
        link: None,
        remote_pid: 816,
        application_name: String::new(),
        close_needed: false,
        tls: None,
    };
    Snapshot {
        suspension: None,
        sizes: ObjectSizes { session: 500, server: 900, pool: 700, buffers: 2048 },
        worker: Some(WorkerId(1)),
        now: Time(100_200_000),
        pools: vec![app, made],
        clients: vec![client(1, 0, key("app", "app_owner"), "alice")],
        servers: vec![idle],
        lends: 0,
        console_logins: 0,
        rotations: Rotations::default(),
        limits: vec![limit(LimitKind::Transactions, None, 100, 2), limit(LimitKind::Active, None, 1000, 20)],
        statements: vec![statement(0xfeed, 2)],
        queries: vec![query(Some(0xfeed), "select report(?)", 10), query(Some(0xabba), "select\n'<b>", 1)],
        refusals: vec![refusal("web", Reason::Deadline, 5), refusal("default", Reason::MaxWaiting, 1)],
        past: vec![("app".into(), totals(3))],
        sessions: 0,
        steps: 99,
        hosts: hosts([alive(20_000_000), failed(70_000_000), Upstream::UNTRIED]),
        primaries: Vec::new(),
    }
}

const TIMES: ClientTimes =
    ClientTimes { connected_at: Time(40_000_000), request_at: Time(95_000_000), waiting_since: None };

fn client(worker: u64, slot: u64, key: PoolKey, user: &str) -> ClientSnapshot {
    ClientSnapshot {
        kept: Kept { prepared_statements: 2, received: 30, unsent: 0 },
        serial: Serial(100 * worker as i32 + slot as i32),
        name: conn(1, 9, slot, 1),
        conn: conn(1, worker, slot, 1),
        key,
        user: user.into(),
        state: "active",
        peer: Peer::Tcp {
            from: SocketAddr::from((Ipv4Addr::new(10, 0, 0, 5), 40_000)),
            to: SocketAddr::from((Ipv4Addr::new(10, 0, 0, 9), 6999)),
        },
        times: TIMES,
        tls: None,
        link: None,
        application_name: "psql".to_owned(),
        pid: 1,
        ties: ties(),
        doing: Doing::default(),
        class: queueing::classes::DEFAULT,
    }
}

fn ties() -> Ties {
    Ties { fidelity: Some(Fidelity::Transparent), pin: None, replication: None }
}

/// A second, for readers of tests.
pub(crate) const SECOND: Duration = Duration::from_secs(1);
