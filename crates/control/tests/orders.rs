//! Orders at the console: what the data plane is told, when each is answered, and how.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use connections::databases::{Address, Database, Host};
use control::{Asker, ControlEvent, EngineFacts, KnownName, KnownNames, Loaded, Plane, Signal, Steward, Wanted};
use jiff::Zoned;
use machine::snapshot::SuspendedCounts;
use machine::upgrade::ServersLeft;
use machine::{Hint, Level, Look, Manner, Orders, Question, Settings, Snapshot, Stop, Suspension};
use units::{ConnId, Kind, Serial, WorkerId};
use wire::{HEADER_LEN, Header, backend};

mod world;

/// What the data plane is told, one line each, and what it shows.
#[derive(Clone, Default)]
struct Outside {
    lines: Rc<RefCell<Vec<String>>>,
    open: Rc<Cell<u32>>,
    closing: Rc<Cell<u32>>,
    /// Workers that do not answer.
    mute: Rc<Cell<bool>>,
    /// While SUSPEND is in force: what each worker shows of it.
    suspended: Rc<Cell<Option<SuspendedCounts>>>,
    logins: Rc<Cell<u64>>,
    elsewhere: Rc<Cell<Elsewhere>>,
}

/// The process whose place we take.
#[derive(Copy, Clone, Default, PartialEq)]
enum Elsewhere {
    #[default]
    Nobody,
    Silent,
    /// It has so many servers for `app`, and so many of these are closed when they are free.
    Has(u32, u32),
}

impl Outside {
    fn note(&self, line: String) {
        self.lines.borrow_mut().push(line);
    }
}

impl Plane for Outside {
    fn wall_clock(&self) -> Zoned {
        Zoned::default()
    }

    fn look(&mut self, _look: Look) -> Vec<Snapshot> {
        let mut snapshots = world::World::new().snapshots;
        for pool in snapshots.iter_mut().flat_map(|snapshot| &mut snapshot.pools) {
            (pool.open_servers, pool.closing_servers) = (0, 0);
            if &*pool.key.database == "app" {
                (pool.open_servers, pool.closing_servers) = (self.open.get(), self.closing.get());
            }
        }
        for snapshot in &mut snapshots {
            snapshot.suspension = self.suspended.get();
        }
        snapshots.truncate(if self.mute.get() { 1 } else { usize::MAX });
        snapshots
    }

    fn counters(&mut self) -> EngineFacts {
        let mut facts = EngineFacts::default();
        facts.door.logins = self.logins.get();
        facts
    }

    fn configure(&mut self, settings: Arc<Settings>) {
        let (all, app) = (settings.orders.only_of(None), settings.orders.only_of(Some("app")));
        let words = |orders: machine::DatabaseOrders| {
            let (paused, disabled) = (u8::from(orders.paused), u8::from(orders.disabled));
            format!("paused={paused} disabled={disabled} reconnects={} kills={}", orders.reconnects, orders.kills)
        };
        let host = |host| Address { host, port: 5432 };
        let at = host(Host::Ip([10, 0, 0, 1].into()));
        let left = settings.orders.addresses.have_left(&host(Host::Name("db.example".to_owned())), &at);
        let moved = if left { "; db.example has left 10.0.0.1" } else { "" };
        let suspended = match settings.orders.suspension {
            None => "",
            Some(Suspension::Flushing) => "; suspended",
            Some(Suspension::Overdue) => "; suspended, overdue",
        };
        self.note(format!("all: {}; app: {}{moved}{suspended}", words(all), words(app)));
    }

    fn leave(&mut self) {
        self.note("leaves".to_owned());
    }

    fn accept(&mut self, accepts: bool) {
        self.note(format!("accept {accepts}"));
    }

    fn order_predecessor(&mut self, orders: &Orders) {
        if self.elsewhere.get() != Elsewhere::Nobody {
            let app = orders.of("app");
            self.note(format!("elsewhere: paused={} kills={}", u8::from(app.paused), app.kills));
        }
    }

    fn has_predecessor(&mut self) -> bool {
        self.elsewhere.get() != Elsewhere::Nobody
    }

    fn servers_elsewhere(&mut self) -> Option<Vec<ServersLeft>> {
        match self.elsewhere.get() {
            Elsewhere::Nobody => Some(Vec::new()),
            Elsewhere::Silent => None,
            Elsewhere::Has(open, closing) => Some(vec![ServersLeft { database: "app".into(), open, closing }]),
        }
    }

    fn tell_servers(&mut self, servers: Vec<ServersLeft>) {
        let words = servers.iter().map(|left| format!("{} {} of {}", left.database, left.closing, left.open));
        let sum: Vec<String> = words.collect();
        self.note(format!("the other process is told: {}", sum.join(", ")));
    }

    fn take_back(&mut self, accepts: bool) {
        self.note(format!("taken back, accepts={accepts}"));
    }

    fn stop(&mut self, stop: Stop) {
        self.note(format!("stop {stop:?}"));
    }

    fn kill_client(&mut self, worker: WorkerId, conn: ConnId, serial: Serial) {
        self.note(format!("kill {conn:?} of {worker:?}, {serial:?}"));
    }

    fn kill_query(&mut self, worker: WorkerId, conn: ConnId, serial: Serial) {
        self.note(format!("cancel {conn:?} of {worker:?}, {serial:?}"));
    }

    fn answer(&mut self, to: Asker, bytes: Vec<u8>, _close: bool) {
        self.note(format!("{}: {}", to.conn.slot(), read(&bytes)));
    }

    fn hint(&mut self, hint: Hint) {
        self.note(format!("{:?} is the primary: {}, by {}", hint.host, hint.is_primary, hint.source));
    }

    fn give_memory_back(&mut self) {}

    fn names(&mut self) -> KnownNames {
        let addresses = vec![std::net::IpAddr::from([10, 0, 0, 3])];
        let known = KnownName { name: "db3.example".to_owned(), ttl: Duration::ZERO, addresses };
        KnownNames { hosts: vec![known], ..KnownNames::default() }
    }

    fn forget_names(&mut self) {
        self.note("names are forgotten".to_owned());
    }

    fn log_lines_lost(&mut self) -> u64 {
        0
    }

    fn tell(&mut self, level: Level, text: String) {
        if level == Level::Log {
            self.note(format!("log: {text}"));
        }
    }
}

/// The tag, or the error's code and text.
fn read(bytes: &[u8]) -> String {
    let header = Header::parse(bytes).expect("sound").expect("whole");
    let body = &bytes[HEADER_LEN..header.total_len()];
    let text = |field: Option<&[u8]>| String::from_utf8_lossy(field.expect("present")).into_owned();
    match header.tag {
        b'E' => {
            let fields = backend::Fields::decode(body);
            format!("{} {}", text(fields.code()), text(fields.message()))
        }
        b'C' => text(Some(&body[..body.len() - 1])),
        tag => format!("{}", char::from(tag)),
    }
}

fn loaded() -> Loaded {
    let mut settings = Settings { workers: 2, ..Settings::default() };
    settings.databases.insert("app".to_owned(), Arc::new(Database::new("app", Vec::new())));
    Loaded {
        settings: Arc::new(settings),
        rows: Vec::new(),
        listen_port: 6432,
        stats_period: 60 * world::SECOND,
        log_stats: true,
        warnings: Vec::new(),
    }
}

type Load = fn(Wanted<'_>) -> Result<Loaded, Vec<String>>;

struct Scene {
    began: Instant,
    outside: Outside,
    steward: Steward<Outside, Load>,
}

impl Scene {
    fn new() -> Scene {
        let outside = Outside::default();
        let load: Load = |_| Ok(loaded());
        Scene { began: Instant::now(), steward: Steward::new(outside.clone(), load, loaded()), outside }
    }

    /// What the console of this number types leads to, but for the log.
    fn types(&mut self, console: u32, text: &str) -> Vec<String> {
        let asker = Asker { worker: WorkerId(0), conn: ConnId::new(Kind::Client, 0, console, 0) };
        let question =
            Question { text: text.as_bytes().to_vec(), manner: Manner::Query, user: "adm".into(), admin: true };
        self.steward.serve(ControlEvent::Asked { asker, question });
        self.told()
    }

    fn told(&mut self) -> Vec<String> {
        let mut lines = self.outside.lines.take();
        lines.retain(|line| !line.starts_with("log: "));
        lines
    }

    fn reviews(&mut self) -> Vec<String> {
        self.reviews_after(0)
    }
}

impl Scene {
    fn reviews_after(&mut self, seconds: u64) -> Vec<String> {
        self.steward.review(self.began + Duration::from_secs(seconds));
        self.told()
    }

    /// What each of the two workers shows.
    fn shows(&mut self, unsent: u32, consoles: u32) {
        self.outside.suspended.set(Some(SuspendedCounts { unsent, consoles }));
    }
}

const NOTHING: [&str; 0] = [];
const CALM: &str = "paused=0 disabled=0 reconnects=0 kills=0";

#[test]
fn a_name_that_has_moved_is_part_of_the_settings_also_after_a_reload() {
    let mut scene = Scene::new();
    let addresses = [std::net::IpAddr::from([10, 0, 0, 2])].into();
    scene.steward.serve(ControlEvent::NameMoved { name: "db.example".into(), addresses });
    let moved = format!("all: {CALM}; app: {CALM}; db.example has left 10.0.0.1");
    assert_eq!(scene.told().join("; "), moved);
    assert_eq!(scene.types(1, "reload"), [moved, "1: RELOAD".to_owned()]);
}

#[test]
fn every_order_changes_its_own_value() {
    let mut scene = Scene::new();
    let only = |app: &str| format!("all: {CALM}; app: {app}");
    let paused = "paused=1 disabled=0 reconnects=0 kills=0";
    assert_eq!(scene.types(1, "pause app"), [only(paused)]);
    assert_eq!(
        scene.types(1, "resume app")[..2],
        [only(CALM), "1: 08P01 RESUME came before all servers were closed".to_owned()]
    );
    assert_eq!(
        scene.types(1, "disable app"),
        [only("paused=0 disabled=1 reconnects=0 kills=0"), "1: DISABLE".to_owned()]
    );
    assert_eq!(scene.types(1, "enable app"), [only(CALM), "1: ENABLE".to_owned()]);
    assert_eq!(
        scene.types(1, "reconnect"),
        [
            "names are forgotten".to_owned(),
            format!("all: paused=0 disabled=0 reconnects=1 kills=0; app: {CALM}"),
            "1: RECONNECT".to_owned()
        ]
    );
    assert_eq!(
        scene.types(1, "kill \"app\";")[..],
        ["all: paused=0 disabled=0 reconnects=1 kills=0; app: paused=1 disabled=0 reconnects=0 kills=1", "1: KILL"]
    );
    // A RELOAD keeps all of it.
    let kept = "all: paused=0 disabled=0 reconnects=1 kills=0; app: paused=1 disabled=0 reconnects=0 kills=1";
    assert_eq!(scene.types(1, "reload"), [kept, "1: RELOAD"]);
}

#[test]
fn orders_that_make_no_sense_are_errors() {
    let mut scene = Scene::new();
    let table = [
        ("pause nowhere", "no such database: nowhere"),
        ("pause pgbouncer", "cannot pause admin db: pgbouncer"),
        ("disable pgbouncer", "cannot disable admin db: pgbouncer"),
        ("kill pgbouncer", "cannot kill admin db: pgbouncer"),
        ("resume app", "database app is not paused"),
        ("resume", "pooler is not paused/suspended"),
        ("kill_client x", "invalid client pointer supplied"),
        ("kill_client 123456", "client not found"),
        ("kill_query", "invalid client pointer supplied"),
        ("kill_query 123456", "client not found"),
    ];
    for (text, expected) in table {
        assert_eq!(scene.types(1, text), [format!("1: 08P01 {expected}")], "{text}");
    }
    scene.types(1, "pause");
    assert_eq!(scene.types(2, "pause"), ["2: 08P01 already suspended/paused"]);
}

#[test]
fn a_hint_names_a_host_of_the_settings() {
    let mut scene = Scene::new();
    let shop = world::database("shop", vec![Host::Ip([10, 0, 0, 1].into()), Host::Name("db3.example".to_owned())]);
    let mut twice = world::database("twice", vec![Host::Name("db4".to_owned()); 2]);
    twice.hosts[1].port = 5433;
    let settings = Settings {
        databases: [shop, twice].into_iter().map(|one| (one.name.clone(), Arc::new(one))).collect(),
        ..Settings::default()
    };
    scene.steward =
        Steward::new(scene.outside.clone(), |_| Ok(loaded()), Loaded { settings: Arc::new(settings), ..loaded() });
    let table = [
        ("promoted 10.0.0.1", "Address { host: Ip(10.0.0.1), port: 5432 } is the primary: true", "PROMOTED"),
        ("demoted 10.0.0.1:5432", "Address { host: Ip(10.0.0.1), port: 5432 } is the primary: false", "DEMOTED"),
        (
            "promoted db3.example",
            "Address { host: Name(\"db3.example\"), port: 5432 } is the primary: true",
            "PROMOTED",
        ),
        // As EFM has it, which names addresses.
        ("promoted 10.0.0.3", "Address { host: Name(\"db3.example\"), port: 5432 } is the primary: true", "PROMOTED"),
        ("promoted DB4:5433", "Address { host: Name(\"db4\"), port: 5433 } is the primary: true", "PROMOTED"),
    ];
    for (text, hint, tag) in table {
        assert_eq!(scene.types(1, text), [format!("{hint}, by the console"), format!("1: {tag}")], "{text}");
    }
    let table = [
        ("promoted", "a host is required"),
        ("promoted db5", "no database has such a host: db5"),
        ("demoted 10.0.0.1:5433", "no database has such a host: 10.0.0.1:5433"),
        ("promoted db4", "several hosts are called db4: db4:5432, db4:5433"),
    ];
    for (text, expected) in table {
        assert_eq!(scene.types(1, text), [format!("1: 08P01 {expected}")], "{text}");
    }
}

#[test]
fn pause_is_answered_when_two_looks_have_found_no_server() {
    let mut scene = Scene::new();
    scene.outside.open.set(3);
    scene.types(1, "pause app");
    assert_eq!(scene.reviews(), NOTHING, "three are left");
    scene.outside.open.set(0);
    assert_eq!(scene.reviews(), NOTHING, "one may be on its way between workers");
    scene.outside.mute.set(true);
    assert_eq!(scene.reviews(), NOTHING, "a worker has not answered");
    scene.outside.mute.set(false);
    assert_eq!(scene.reviews(), ["1: PAUSE"]);
    assert!(!scene.steward.awaits_looks());
    scene.outside.open.set(3);
    scene.types(1, "resume app");
    scene.types(1, "pause app");
    scene.outside.open.set(0);
    scene.reviews();
    scene.outside.open.set(1);
    scene.reviews();
    scene.outside.open.set(0);
    assert_eq!(scene.reviews(), NOTHING, "not in a row");
    assert_eq!(scene.reviews(), ["1: PAUSE"]);
}

#[test]
fn wait_close_waits_for_servers_that_are_to_be_closed() {
    let mut scene = Scene::new();
    scene.outside.open.set(5);
    scene.outside.closing.set(2);
    assert_eq!(scene.types(1, "wait_close"), NOTHING);
    assert_eq!(scene.reviews(), NOTHING);
    scene.outside.closing.set(0);
    assert_eq!((scene.reviews(), scene.reviews()), (Vec::new(), vec!["1: WAIT_CLOSE".to_owned()]));
}

#[test]
fn several_consoles_never_leave_one_without_an_answer() {
    let mut scene = Scene::new();
    scene.outside.open.set(1);
    scene.types(1, "pause");
    scene.types(2, "pause app");
    scene.types(3, "wait_close app");
    let resumed = scene.types(4, "resume");
    assert_eq!(resumed[1..], ["1: 08P01 RESUME came before all servers were closed", "4: RESUME"]);
    assert_eq!(scene.reviews(), ["3: WAIT_CLOSE"], "none was closing");
    let ended = scene.types(5, "shutdown wait_for_clients");
    let expected = [
        "5: SHUTDOWN",
        &format!("all: {CALM}; app: {CALM}"),
        "2: 08P01 pooler is shutting down",
        "stop WaitForClients",
    ];
    assert_eq!(ended, expected, "clients are to finish what they have begun");
    for text in ["pause", "resume", "kill"] {
        assert_eq!(scene.types(6, text), ["6: 08P01 pooler is shutting down"]);
    }
}

#[test]
fn signals_pause_and_resume_everything() {
    let mut scene = Scene::new();
    scene.steward.serve(ControlEvent::Signal(Signal::User1));
    assert_eq!(scene.told(), [format!("all: paused=1 disabled=0 reconnects=0 kills=0; app: {CALM}")]);
    scene.steward.serve(ControlEvent::Signal(Signal::User2));
    assert_eq!(scene.told(), [format!("all: {CALM}; app: {CALM}")]);
    scene.steward.serve(ControlEvent::Signal(Signal::User2));
    assert_eq!(scene.told(), NOTHING);
}

#[test]
fn kill_client_ends_the_one_with_this_id() {
    let mut scene = Scene::new();
    let client = world::World::new().snapshots.into_iter().flat_map(|snapshot| snapshot.clients).next();
    let client = client.expect("the world has clients");
    let killed = scene.types(1, &format!("kill_client {}", client.serial.0));
    let expected = format!("kill {:?} of {:?}, {:?}", client.conn, WorkerId(client.conn.owner()), client.serial);
    assert_eq!(killed, [expected, "1: KILL_CLIENT".to_owned()]);
}

#[test]
fn kill_query_cancels_what_the_client_with_this_id_runs_if_it_runs_anything() {
    let mut scene = Scene::new();
    let clients: Vec<_> = world::World::new().snapshots.into_iter().flat_map(|snapshot| snapshot.clients).collect();
    let (busy, others): (Vec<_>, Vec<_>) = clients.into_iter().partition(|client| client.doing.has_request);
    let busy = busy.first().expect("one runs a query");
    let killed = scene.types(1, &format!("kill_query {}", busy.serial.0));
    let expected = format!("cancel {:?} of {:?}, {:?}", busy.conn, WorkerId(busy.conn.owner()), busy.serial);
    assert_eq!(killed, [expected, "1: KILL_QUERY".to_owned()]);
    let other = others.first().expect("one runs none");
    assert_eq!(scene.types(1, &format!("kill_query {}", other.serial.0)), ["1: 08P01 client runs no query"]);
}

fn suspended(overdue: &str) -> String {
    format!("all: {CALM}; app: {CALM}; suspended{overdue}")
}

fn calm() -> String {
    format!("all: {CALM}; app: {CALM}")
}

#[test]
fn suspend_is_answered_when_nobody_logs_in_and_all_is_sent() {
    let mut scene = Scene::new();
    scene.outside.logins.set(1);
    assert_eq!(scene.types(1, "suspend"), ["accept false".to_owned(), suspended("")]);
    assert_eq!(scene.reviews(), NOTHING, "no worker knows of it yet");
    scene.shows(1, 1);
    assert_eq!(scene.reviews(), NOTHING, "two sockets have not taken everything");
    scene.shows(0, 1);
    assert_eq!((scene.reviews(), scene.reviews()), (Vec::new(), Vec::new()), "somebody logs in");
    scene.outside.logins.set(0);
    assert_eq!((scene.reviews(), scene.reviews()), (Vec::new(), vec!["1: SUSPEND".to_owned()]));
    assert_eq!(scene.reviews_after(3600), NOTHING, "it has come to its end in time");
    for text in ["suspend", "pause"] {
        assert_eq!(scene.types(2, text), ["2: 08P01 already suspended/paused"]);
    }
    assert_eq!(scene.types(2, "reload"), [suspended(""), "2: RELOAD".to_owned()], "a RELOAD keeps it");
    scene.steward.serve(ControlEvent::Signal(Signal::User1));
    assert_eq!(scene.told(), NOTHING);
    let resumed = scene.types(2, "resume");
    assert_eq!(resumed, [calm(), "accept true".to_owned(), "2: RESUME".to_owned()]);
    assert_eq!(scene.types(2, "resume"), ["2: 08P01 pooler is not paused/suspended"]);
}

#[test]
fn suspend_waits_no_longer_than_suspend_timeout() {
    let mut scene = Scene::new();
    scene.types(1, "suspend");
    scene.shows(1, 1);
    assert_eq!(scene.reviews_after(0), NOTHING);
    assert_eq!(scene.reviews_after(9), NOTHING);
    assert_eq!(scene.reviews_after(10), [suspended(", overdue")]);
    assert_eq!(scene.reviews_after(10), ["1: SUSPEND"], "whoever was waited for is closed");
    assert_eq!(scene.types(1, "resume").last().expect("an answer"), "1: RESUME");
    // The next one has its own time.
    scene.types(1, "suspend");
    assert_eq!(scene.reviews_after(60), NOTHING);
    assert_eq!(scene.reviews_after(69), NOTHING);
    assert_eq!(scene.reviews_after(70), [suspended(", overdue")]);
}

#[test]
fn whatever_ends_suspend_answers_it() {
    let began = |scene: &mut Scene| {
        scene.shows(1, 1);
        assert_eq!(scene.types(1, "suspend").len(), 2);
    };
    let mut scene = Scene::new();
    began(&mut scene);
    let resumed = scene.types(2, "resume");
    assert_eq!(resumed[2..], ["1: 08P01 RESUME came before all was sent", "2: RESUME"]);
    began(&mut scene);
    scene.steward.serve(ControlEvent::Signal(Signal::User2));
    assert_eq!(scene.told().last().expect("an answer"), "1: 08P01 RESUME came before all was sent");
    began(&mut scene);
    scene.shows(1, 0);
    assert_eq!(scene.reviews(), NOTHING, "it may be on its way between workers");
    let resumed = scene.reviews();
    assert_eq!(resumed.last().expect("an answer"), "1: 08P01 RESUME came before all was sent", "no console is left");
    began(&mut scene);
    let ended = scene.types(2, "shutdown wait_for_clients");
    let expected = ["2: SHUTDOWN", &calm(), "accept true", "1: 08P01 pooler is shutting down", "stop WaitForClients"];
    assert_eq!(ended, expected, "clients are to finish what they have begun");
    assert_eq!(scene.types(3, "suspend"), ["3: 08P01 pooler is shutting down"]);
}

#[test]
fn what_was_killed_while_it_was_suspended_is_resumed_with_it() {
    let mut scene = Scene::new();
    scene.types(1, "suspend");
    let killed = "all: paused=1 disabled=0 reconnects=0 kills=1";
    assert_eq!(scene.types(1, "kill"), [format!("{killed}; app: {CALM}; suspended"), "1: KILL".to_owned()]);
    let calm = format!("all: paused=0 disabled=0 reconnects=0 kills=1; app: {CALM}");
    assert_eq!(scene.types(1, "resume")[0], calm);
}

#[test]
fn a_process_that_is_suspended_does_not_hand_over() {
    let mut scene = Scene::new();
    scene.types(1, "suspend");
    let (to, answer) = std::sync::mpsc::channel();
    scene.steward.serve(ControlEvent::UpgradeAsked(7, to));
    assert_eq!(answer.recv().expect("an answer"), Err("it is suspended".to_owned()));
    // It was asked before SUSPEND came.
    scene.steward.serve(ControlEvent::UpgradeBegun(7));
    assert_eq!(scene.told()[..2], [calm(), "accept true".to_owned()]);
}

#[test]
fn orders_reach_the_process_before_and_its_servers_are_waited_for() {
    let mut scene = Scene::new();
    scene.outside.elsewhere.set(Elsewhere::Has(2, 1));
    let suspended = scene.types(1, "suspend");
    assert_eq!(suspended, ["1: 08P01 the process before this one still serves clients, whom SUSPEND would not reach"]);
    let told = scene.types(1, "pause app");
    assert_eq!(told.last().map(String::as_str), Some("elsewhere: paused=1 kills=0"));
    assert_eq!((scene.reviews(), scene.reviews()), (Vec::new(), Vec::new()), "two are left there");
    scene.outside.elsewhere.set(Elsewhere::Silent);
    assert_eq!((scene.reviews(), scene.reviews()), (Vec::new(), Vec::new()), "it has not answered");
    scene.types(2, "wait_close app");
    scene.outside.elsewhere.set(Elsewhere::Has(1, 0));
    assert_eq!((scene.reviews(), scene.reviews()), (Vec::new(), vec!["2: WAIT_CLOSE".to_owned()]));
    scene.outside.elsewhere.set(Elsewhere::Nobody);
    assert_eq!((scene.reviews(), scene.reviews()), (Vec::new(), vec!["1: PAUSE".to_owned()]), "it has ended");
}

#[test]
fn a_process_that_hands_over_takes_orders_from_the_other_one_alone() {
    let mut scene = Scene::new();
    scene.outside.open.set(1);
    scene.types(1, "pause app");
    scene.steward.serve(ControlEvent::UpgradeBegun(7));
    let taken_over = "08P01 another process has taken over: connect again to give it commands";
    assert_eq!(scene.told(), [format!("1: {taken_over}")], "nobody is left without an answer");
    for text in ["resume app", "pause", "kill", "disable app", "reconnect", "wait_close", "suspend"] {
        assert_eq!(scene.types(1, text), [format!("1: {taken_over}")], "{text}");
    }
    scene.steward.serve(ControlEvent::Signal(Signal::User1));
    assert_eq!(scene.told(), NOTHING);
    // What it has found out about names itself, it keeps.
    let addresses = [std::net::IpAddr::from([10, 0, 0, 2])].into();
    scene.steward.serve(ControlEvent::NameMoved { name: "db.example".into(), addresses });
    scene.told();
    let mut ordered = Orders::default();
    ordered.change(Some("app"), |own| own.kills += 1);
    for expected in [1, 0] {
        scene.steward.serve(ControlEvent::Ordered(ordered.clone()));
        let told = scene.told();
        let line = format!("all: {CALM}; app: paused=0 disabled=0 reconnects=0 kills=1; db.example has left 10.0.0.1");
        assert_eq!(told.iter().filter(|told| **told == line).count(), expected, "{told:?}");
    }
    scene.steward.serve(ControlEvent::ServersAsked);
    assert_eq!(scene.told(), ["the other process is told: app 0 of 1, app 0 of 1"]);
    // They hold when that process dies.
    scene.steward.serve(ControlEvent::SuccessorGone);
    assert_eq!(scene.told(), ["taken back, accepts=true"]);
    let told = scene.types(1, "disable app");
    assert!(told[0].contains("app: paused=0 disabled=1 reconnects=0 kills=1"), "{told:?}");
}

#[test]
fn a_process_that_shuts_down_serves_whoever_is_left_when_its_successor_dies() {
    let mut scene = Scene::new();
    scene.steward.serve(ControlEvent::UpgradeBegun(7));
    scene.steward.serve(ControlEvent::Signal(Signal::Terminate));
    assert_eq!(scene.told(), ["stop WaitForClients"]);
    scene.steward.serve(ControlEvent::SuccessorGone);
    assert_eq!(scene.told(), ["taken back, accepts=false"]);
    scene.steward.serve(ControlEvent::SuccessorGone);
    assert_eq!(scene.told(), NOTHING);
}

/// It was told to end between the other process's question and its start.
#[test]
fn a_shutdown_that_was_ordered_before_the_other_process_has_started_goes_on() {
    let mut scene = Scene::new();
    scene.steward.serve(ControlEvent::Signal(Signal::Terminate));
    scene.steward.serve(ControlEvent::UpgradeBegun(7));
    scene.steward.serve(ControlEvent::SuccessorGone);
    assert_eq!(scene.told(), ["stop WaitForClients", "taken back, accepts=false"]);
}

#[test]
fn a_process_whose_successor_was_replaced_ends_by_itself() {
    let mut scene = Scene::new();
    scene.steward.serve(ControlEvent::UpgradeBegun(7));
    scene.steward.serve(ControlEvent::SuccessorReplaced);
    assert_eq!(scene.told(), ["leaves"]);
    scene.steward.serve(ControlEvent::SuccessorGone);
    assert_eq!(scene.told(), NOTHING);
    assert_eq!(scene.types(1, "pause"), ["1: 08P01 pooler is shutting down"]);
}

#[test]
fn while_it_is_suspended_it_is_not_ready() {
    let mut scene = Scene::new();
    let ready = scene.steward.readiness();
    let is_ready = || ready.load(std::sync::atomic::Ordering::Relaxed);
    scene.types(1, "suspend");
    assert!(!is_ready(), "whoever comes would wait");
    scene.types(1, "resume");
    assert!(is_ready());
}
