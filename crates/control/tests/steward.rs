//! The control thread's decisions, with a data plane that only notes its calls.

mod world;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use activity::history::Span;
use activity::{At, History};
use control::past::{Past, PastWaits, Recall};
use control::{
    Asker, ControlEvent, Ending, EngineFacts, KnownNames, Loaded, Plane, SettingRow, Sight, Signal, Steward, Wanted,
};
use jiff::Zoned;
use machine::{Level, Look, Manner, Question, Settings, Snapshot, Stop};
use settings::PoolSize;
use units::{ConnId, Serial, WorkerId};
use wire::{HEADER_LEN, Header, backend};

/// The calls of the data plane, one line each.
type Diary = Rc<RefCell<Vec<String>>>;

struct FakePlane {
    diary: Diary,
    snapshots: Vec<Snapshot>,
}

impl FakePlane {
    fn note(&self, line: String) {
        self.diary.borrow_mut().push(line);
    }
}

impl Plane for FakePlane {
    fn wall_clock(&self) -> Zoned {
        Zoned::default()
    }

    fn look(&mut self, look: Look) -> Vec<Snapshot> {
        self.note(format!("look {look:?}"));
        self.snapshots.clone()
    }

    fn counters(&mut self) -> EngineFacts {
        EngineFacts::default()
    }

    fn configure(&mut self, settings: Arc<Settings>) {
        let paused = if settings.orders.only_of(None).paused { " paused" } else { "" };
        self.note(format!("configure default_pool_size={}{paused}", settings.global.pools.default_pool_size));
    }

    fn stop(&mut self, stop: Stop) {
        self.note(format!("stop {stop:?}"));
    }

    fn accept(&mut self, accepts: bool) {
        self.note(format!("accept {accepts}"));
    }

    fn kill_client(&mut self, worker: WorkerId, conn: ConnId, _serial: Serial) {
        self.note(format!("kill {conn:?} at {worker:?}"));
    }

    fn kill_query(&mut self, worker: WorkerId, conn: ConnId, _serial: Serial) {
        self.note(format!("cancel {conn:?} at {worker:?}"));
    }

    fn answer(&mut self, to: Asker, bytes: Vec<u8>, close: bool) {
        self.note(format!("answer {} to {:?} close={close}", read(&bytes), to.conn));
    }

    fn observe(&mut self, sight: Sight) -> bool {
        self.note(format!("observe {sight:?}"));
        true
    }

    fn history(&mut self) -> Option<Arc<Mutex<History>>> {
        Some(Arc::default())
    }

    fn recall(&mut self, number: u64, wanted: Recall) -> bool {
        let what = match wanted {
            Recall::Waits(..) => "waits",
            Recall::Seconds(_) => "seconds",
            Recall::Whys(_) => "whys",
        };
        self.note(format!("recall {number}: {what}"));
        true
    }

    fn give_memory_back(&mut self) {}

    fn names(&mut self) -> KnownNames {
        KnownNames::default()
    }

    fn forget_names(&mut self) {}

    fn log_lines_lost(&mut self) -> u64 {
        0
    }

    fn tell(&mut self, level: Level, text: String) {
        self.note(format!("{level:?}: {text}"));
    }
}

/// Tags of messages, with an error's code and text.
fn read(mut bytes: &[u8]) -> String {
    let mut text = Vec::new();
    while let Some(header) = Header::parse(bytes).expect("sound") {
        let body = &bytes[HEADER_LEN..header.total_len()];
        let shown = |field: Option<&[u8]>| String::from_utf8_lossy(field.expect("present")).into_owned();
        match header.tag {
            b'E' => {
                let fields = backend::Fields::decode(body);
                let more = [("DETAIL", fields.detail()), ("HINT", fields.hint())];
                let more =
                    more.into_iter().filter_map(|(name, field)| Some(format!(" {name} {}", shown(Some(field?)))));
                text.push(format!(
                    "E({} {} {}{})",
                    shown(fields.severity()),
                    shown(fields.code()),
                    shown(fields.message()),
                    more.collect::<String>()
                ));
            }
            b'N' => text.push(format!("N({})", shown(backend::Fields::decode(body).message()))),
            b'C' => text.push(format!("C({})", shown(Some(&body[..body.len() - 1])))),
            tag => text.push(char::from(tag).to_string()),
        }
        bytes = &bytes[header.total_len()..];
    }
    text.join(" ")
}

fn loaded(default_pool_size: u32) -> Loaded {
    let mut settings = Settings::default();
    settings.global.pools.default_pool_size = PoolSize::Fixed(default_pool_size);
    settings.global.observing.observe_tags = vec!["action".to_owned(), "controller".to_owned()];
    Loaded {
        settings: Arc::new(settings),
        rows: Vec::new(),
        listen_port: 6432,
        stats_period: 60 * world::SECOND,
        log_stats: true,
        warnings: vec!["a warning".to_owned()],
    }
}

fn asked(text: &str, admin: bool) -> ControlEvent {
    let asker = Asker { worker: WorkerId(0), conn: ConnId::from_bits(1 << 60) };
    ControlEvent::Asked {
        asker,
        question: Question { text: text.as_bytes().to_vec(), manner: Manner::Query, user: "adm".into(), admin },
    }
}

/// What events lead to: lines of the diary, and how the process ends, if it does.
fn after(events: Vec<ControlEvent>, reloads: Result<Loaded, Vec<String>>) -> (Vec<String>, Option<Ending>) {
    let diary = Diary::default();
    let plane = FakePlane { diary: Rc::clone(&diary), snapshots: world::World::new().snapshots };
    let mut steward = Steward::new(plane, move |_: Wanted<'_>| reloads.clone(), loaded(20));
    let mut ending = None;
    for event in events {
        diary.borrow_mut().clear();
        ending = steward.serve(event);
    }
    (diary.take(), ending)
}

fn no_reload() -> Result<Loaded, Vec<String>> {
    Err(vec!["no reload was requested".to_owned()])
}

#[test]
fn a_show_looks_as_closely_as_it_must() {
    let table =
        [("show version", None), ("show pools", Some("look Pools")), ("show clients", Some("look Connections"))];
    for (text, look) in table {
        let (diary, ending) = after(vec![asked(text, false)], no_reload());
        assert_eq!(diary.iter().find(|line| line.starts_with("look")).map(String::as_str), look, "{text}");
        assert!(diary.last().expect("an answer").contains("C(SHOW) Z to client:0.0.0 close=false"), "{diary:?}");
        assert_eq!(ending, None);
    }
}

#[test]
fn it_is_ready_from_the_start_of_its_loop_until_a_shutdown_begins() {
    let plane = FakePlane { diary: Diary::default(), snapshots: Vec::new() };
    let mut steward = Steward::new(plane, |_: Wanted<'_>| no_reload(), loaded(20));
    let ready = steward.readiness();
    let is_ready = || ready.load(Ordering::Relaxed);
    assert!(!is_ready(), "it does not run yet");
    // What the loop leaves behind when nobody sends anything any more.
    let (sender, events) = std::sync::mpsc::channel();
    drop(sender);
    assert_eq!(steward.run(&events), Ending::AtOnce);
    assert!(is_ready());
    assert_eq!(steward.serve(ControlEvent::Signal(Signal::Hangup)), None);
    assert!(is_ready(), "a reload is no shutdown");
    assert_eq!(steward.serve(ControlEvent::Signal(Signal::Terminate)), None);
    assert!(!is_ready(), "clients are there still, and no new ones are taken");
}

#[test]
fn errors_are_protocol_violations_and_leave_the_client_ready() {
    let table = [
        ("select 1", true, "invalid command 'select 1', use SHOW HELP;"),
        ("", true, "invalid command '', use SHOW HELP;"),
        ("reload", false, "admin access needed"),
        ("shutdown", false, "admin access needed"),
        ("show fds", false, "admin access needed"),
    ];
    for (text, admin, expected) in table {
        let (diary, ending) = after(vec![asked(text, admin)], no_reload());
        assert_eq!(
            diary,
            [format!("Error: {expected}"), format!("answer E(ERROR 08P01 {expected}) Z to client:0.0.0 close=false"),]
        );
        assert_eq!(ending, None);
    }
}

#[test]
fn reload_puts_new_settings_in_force() {
    let (diary, _) = after(vec![asked("RELOAD;", true)], Ok(loaded(7)));
    assert_eq!(
        diary,
        [
            "Log: RELOAD command issued",
            "Warning: a warning",
            "configure default_pool_size=7",
            "answer C(RELOAD) Z to client:0.0.0 close=false",
        ]
    );
    let (diary, _) = after(vec![ControlEvent::Signal(Signal::Hangup)], Ok(loaded(7)));
    assert_eq!(diary, ["Log: got SIGHUP, re-reading config", "Warning: a warning", "configure default_pool_size=7"]);
    let (diary, _) = after(vec![ControlEvent::Changed("/etc/a.ini".to_owned())], Ok(loaded(7)));
    let line = "Log: /etc/a.ini has changed, re-reading config";
    assert_eq!(diary, [line, "Warning: a warning", "configure default_pool_size=7"]);
}

#[test]
fn a_failed_reload_changes_nothing_and_says_why() {
    let problems = Err(vec!["pgbouncer.ini:3: unknown key".to_owned(), "pgbouncer.ini:9: not a number".to_owned()]);
    let (diary, _) = after(vec![asked("reload", true)], problems);
    assert_eq!(
        diary,
        [
            "Log: RELOAD command issued",
            "Error: pgbouncer.ini:3: unknown key",
            "Error: pgbouncer.ini:9: not a number",
            "Warning: config file loading failed",
            "Error: RELOAD failed, see logs for additional details",
            "answer E(ERROR F0000 RELOAD failed, see logs for additional details DETAIL pgbouncer.ini:3: unknown key\n\
             pgbouncer.ini:9: not a number) Z to client:0.0.0 close=false",
        ]
    );
    let many = Err((1..=30).map(|line| format!("pgbouncer.ini:{line}: unknown key")).collect());
    let (diary, _) = after(vec![asked("reload", true)], many);
    let answer = diary.last().expect("an answer");
    assert!(answer.contains("ini:10: unknown key\n20 more are in the log)"), "{answer}");
}

#[test]
fn a_mistyped_command_has_a_hint() {
    let (diary, _) = after(vec![asked("show pool", true)], no_reload());
    let expected =
        "answer E(ERROR 08P01 invalid command 'show pool', use SHOW HELP; HINT Perhaps you meant SHOW POOLS.) Z";
    assert!(diary[1].starts_with(expected), "{diary:?}");
}

#[test]
fn waits_by_a_tag_that_is_not_counted_say_so() {
    let answer = |text: &str, admin| after(vec![asked(text, admin)], no_reload()).0.pop().expect("an answer");
    let kept = "N(the tag \"correlation_id\" is not counted: observe_tags names action, controller)";
    let of_table = answer("show waits by tag correlation_id", true);
    assert!(of_table.starts_with(&format!("answer {kept} T ")), "{of_table}");
    let past = || Past::Waits(Span { from: At(0), to: At(0) }, PastWaits::default());
    let counted = [asked("show waits by tag action", true), ControlEvent::Recalled(1, Box::new(past()))];
    let counted = after(counted.into(), no_reload()).0.pop().expect("an answer");
    assert!(counted.starts_with("answer T "), "{counted}");
    let hidden = answer("show waits by tag action", false);
    assert!(hidden.starts_with("answer N(only users in admin_users see statements, tags and blockers) T "), "{hidden}");
}

#[test]
fn the_disk_is_not_read_for_an_answer_that_has_no_rows() {
    let begins = |text: &str, admin| after(vec![asked(text, admin)], no_reload()).0.remove(0);
    for text in ["statement", "blocker", "tag action"] {
        let text = format!("SHOW WAITS BY {text} LAST 1d");
        let notice = "answer N(only users in admin_users see statements, tags and blockers) T ";
        assert!(begins(&text, false).starts_with(notice), "{text}");
        assert_eq!(begins(&text, true), "recall 1: waits", "{text}");
    }
    assert_eq!(begins("SHOW WAITS BY EVENT LAST 1d", false), "recall 1: waits");
    assert_eq!(begins("SHOW WHY LAST 1d", false), "recall 1: whys");
    assert!(!begins("SHOW WHY", false).starts_with("recall"), "it is of now");
    assert!(begins("SHOW WAITS BY TAG other LAST 1d", true).starts_with("answer N(the tag \"other\" is not counted"));
}

#[test]
fn a_soft_shutdown_waits_for_its_end() {
    let (diary, ending) = after(vec![asked("shutdown wait_for_clients", true)], no_reload());
    assert_eq!(
        diary,
        [
            "Log: SHUTDOWN WAIT_FOR_CLIENTS command issued",
            "answer C(SHUTDOWN) Z to client:0.0.0 close=false",
            "stop WaitForClients",
        ]
    );
    assert_eq!(ending, None);
    let (diary, ending) = after(vec![asked("shutdown wait_for_clients", true), ControlEvent::Finished], no_reload());
    assert_eq!(diary, ["Log: client connections dropped, exiting"]);
    assert_eq!(ending, Some(Ending::Soft));
    let (diary, ending) = after(vec![ControlEvent::Signal(Signal::Interrupt), ControlEvent::Finished], no_reload());
    assert_eq!(diary, ["Log: server connections dropped, exiting"]);
    assert_eq!(ending, Some(Ending::Soft));
}

#[test]
fn a_hard_shutdown_sends_no_answer() {
    let (diary, ending) = after(vec![asked("shutdown", true)], no_reload());
    assert_eq!(diary, ["Log: SHUTDOWN command issued", "stop Immediate"]);
    assert_eq!(ending, Some(Ending::AtOnce));
    let twice = vec![ControlEvent::Signal(Signal::Terminate), ControlEvent::Signal(Signal::Terminate)];
    let (diary, ending) = after(twice, no_reload());
    assert_eq!(diary, ["Log: got SIGTERM while shutting down, fast exit", "stop Immediate"]);
    assert_eq!(ending, Some(Ending::AtOnce));
}

#[test]
fn a_data_plane_that_ends_by_itself_is_a_failure() {
    let (diary, ending) = after(vec![ControlEvent::Finished], no_reload());
    assert_eq!(diary, ["Fatal: the data plane has ended by itself"]);
    assert_eq!(ending, Some(Ending::Broken));
}

#[test]
fn a_period_ends_with_a_line_and_new_averages() {
    let diary = Diary::default();
    let plane = FakePlane { diary: Rc::clone(&diary), snapshots: world::World::new().snapshots };
    let mut steward = Steward::new(plane, |_: Wanted<'_>| no_reload(), loaded(20));
    steward.end_period(10 * world::SECOND);
    let lines = diary.take();
    // 661 transactions in ten seconds over both workers, 300 of a pool that was forgotten and the console's one among them.
    let is_stats = |line: &String| line.starts_with("Log: stats: 66 xacts/s, 72 queries/s, ");
    assert!(lines.iter().any(is_stats), "{lines:?}");
    let refused =
        "Warning: pool app/app_owner: 30 requests of class \"background\" refused (max_active, 53400) in the last 10 s";
    assert!(lines.iter().any(|line| line == refused), "{lines:?}");
    steward.end_period(10 * world::SECOND);
    assert!(!diary.take().iter().any(|line| line.starts_with("Warning")), "nothing has happened since");
}

#[test]
fn set_changes_one_setting_and_a_refused_one_changes_nothing() {
    let row = |key, value: &str| SettingRow { key, value: Some(value.to_owned()), default: None, changeable: true };
    let rows = vec![row("default_pool_size", "7"), row("auth_ldap_options", "…")];
    let found = Loaded { rows, ..loaded(7) };
    let (diary, _) = after(vec![asked("set default_pool_size = '7';", true)], Ok(found.clone()));
    assert_eq!(
        diary,
        [
            "Log: SET default_pool_size=7 command issued",
            "Warning: a warning",
            "configure default_pool_size=7",
            "answer C(SET default_pool_size=7) Z to client:0.0.0 close=false",
        ]
    );
    let (diary, _) = after(vec![asked("set default_pool_size = x", true)], Err(vec!["not a number".to_owned()]));
    assert_eq!(
        diary,
        [
            "Log: SET default_pool_size command issued",
            "Error: not a number",
            "Error: SET failed",
            "answer E(ERROR 08P01 SET failed DETAIL not a number) Z to client:0.0.0 close=false",
        ]
    );
    let (diary, _) = after(vec![asked("set auth_ldap_options = 'ldapbindpasswd=x'", true)], Ok(found));
    assert_eq!(diary[0], "Log: SET auth_ldap_options=… command issued", "what SHOW CONFIG hides is not logged");
}

/// Sums without one worker's part fall, and rise again when it answers: as if all had begun anew.
#[test]
fn what_a_worker_that_does_not_answer_has_done_is_not_left_out() {
    let diary = Diary::default();
    let mut snapshots = world::World::new().snapshots;
    snapshots.truncate(1);
    let mut known = loaded(20);
    known.settings = Arc::new(Settings { workers: 2, ..Settings::clone(&known.settings) });
    let plane = FakePlane { diary: Rc::clone(&diary), snapshots };
    let mut steward = Steward::new(plane, |_: Wanted<'_>| no_reload(), known);
    steward.end_period(10 * world::SECOND);
    assert_eq!(diary.take(), ["look Pools"], "no line, and no averages");
    let (to, page) = std::sync::mpsc::channel();
    steward.serve(ControlEvent::Scraped(control::metrics::Format::Text, to));
    assert!(page.recv().is_err(), "no page");
}

#[test]
fn what_is_asked_of_now_is_answered_by_a_look_that_has_seen_it() {
    let asked = || vec![asked("SHOW LOCKS", true), asked("SHOW HOLDERS", true)];
    let answers = |last: Sight| {
        let events = asked().into_iter().chain([ControlEvent::Observed(last)]).collect();
        after(events, no_reload()).0.iter().filter(|line| line.starts_with("answer ")).count()
    };
    assert_eq!(after(asked(), no_reload()).0, ["observe Backends"]);
    assert_eq!((answers(Sight::Backends), answers(Sight::Locks)), (1, 2));
}

/// Reading the disk takes seconds, in which others are served.
#[test]
fn what_is_asked_of_the_past_is_answered_once_the_disk_is_read() {
    let diary = Diary::default();
    let plane = FakePlane { diary: Rc::clone(&diary), snapshots: world::World::new().snapshots };
    let mut steward = Steward::new(plane, |_: Wanted<'_>| no_reload(), loaded(20));
    for text in ["SHOW WAITS LAST 1d", "SHOW HISTORY LAST 60s", "SHOW WAITS"] {
        assert_eq!(steward.serve(asked(text, false)), None);
    }
    assert_eq!(diary.take(), ["recall 1: waits", "recall 2: seconds", "recall 3: waits"]);
    let span = Span { from: At(0), to: At(0) };
    let waits = || Past::Waits(span, PastWaits::default());
    let mut answers = |number, past| {
        assert_eq!(steward.serve(ControlEvent::Recalled(number, Box::new(past))), None);
        diary.take().iter().filter(|line| line.starts_with("answer ")).count()
    };
    assert_eq!(answers(2, Past::Seconds(span, Box::default())), 1);
    assert_eq!((answers(1, waits()), answers(1, waits())), (1, 0), "it is answered once");
    assert_eq!((answers(9, waits()), answers(3, Past::Refused("too many".to_owned()))), (0, 1));
}

#[test]
fn waits_are_answered_from_memory_if_the_disk_is_not_read_and_a_history_is_refused() {
    let answer = |text: &str| {
        let refused = Past::Refused("too many".to_owned());
        let events = vec![asked(text, true), ControlEvent::Recalled(1, Box::new(refused))];
        after(events, no_reload()).0.pop().expect("an answer")
    };
    let waits = answer("SHOW WAITS LAST 1d");
    assert!(waits.starts_with("answer N(the history on disk is left out: too many) T "), "{waits}");
    let history = answer("SHOW HISTORY LAST 60s");
    assert_eq!(history, "answer E(ERROR 08P01 too many) Z to client:0.0.0 close=false");
}

/// A disk may hang for ever.
#[test]
fn what_is_asked_of_the_past_is_answered_after_five_minutes_without_the_disk() {
    let diary = Diary::default();
    let plane = FakePlane { diary: Rc::clone(&diary), snapshots: world::World::new().snapshots };
    let mut steward = Steward::new(plane, |_: Wanted<'_>| no_reload(), loaded(20));
    let asked_at = Instant::now();
    let _ = steward.serve(asked("SHOW WAITS LAST 1d", true));
    let _ = steward.review(asked_at + 299 * world::SECOND);
    assert_eq!(diary.take(), ["recall 1: waits"]);
    let _ = steward.review(asked_at + 301 * world::SECOND);
    let lines = diary.take();
    let notice = "answer N(the history on disk is left out: it was not read within 300 s) T ";
    assert!(lines.len() == 1 && lines[0].starts_with(notice), "{lines:?}");
    let late = Past::Refused("too late".to_owned());
    assert_eq!(steward.serve(ControlEvent::Recalled(1, Box::new(late))), None);
    assert_eq!(diary.take(), [""; 0]);
}

/// The look that it waits for may be lost.
#[test]
fn what_is_asked_of_now_is_answered_after_three_seconds_whoever_looks() {
    let diary = Diary::default();
    let plane = FakePlane { diary: Rc::clone(&diary), snapshots: world::World::new().snapshots };
    let mut steward = Steward::new(plane, |_: Wanted<'_>| no_reload(), loaded(20));
    let _ = steward.serve(asked("SHOW ACTIVITY", true));
    let answers = || diary.borrow().iter().filter(|line| line.starts_with("answer ")).count();
    let asked_at = Instant::now();
    let _ = steward.review(asked_at + 2 * world::SECOND);
    assert_eq!(answers(), 0);
    let _ = steward.review(asked_at + 3 * world::SECOND);
    let _ = steward.review(asked_at + 4 * world::SECOND);
    assert_eq!(answers(), 1);
}
