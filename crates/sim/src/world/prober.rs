//! A model prober: it asks each host of databases with two, as the `prober` does, and tells the coordinator.
//!
//! ```text
//!   Probe ── what the host would answer now ── 0.1 ms to 5 ms, sometimes much later ──► Probed ──► ToCoordinator::Probed
//! ```
//!
//! At rest it asks each host each second, and every 50 ms while a machine asks for it, or while the host does not answer. It asks one question of a
//! host at a time. A host that refuses has failed; one that is frozen, or ignores who connects, is silent after `host_timeout`. An answer is
//! as old as its question.

use std::sync::Arc;

use connections::databases::Address;
use machine::primaries::Origin;
use machine::upstreams::{HostRole, HostState, Observed, Upstream};
use machine::{Mail, ToCoordinator};
use units::Time;

use super::World;
use crate::agenda::Happening;
use crate::course::Stage;
use crate::history::Manner;
use crate::plan::Plan;
use crate::plan::hosts::{HOSTS, Place};
use crate::random::Random;

/// While nobody asks for a host.
const AT_REST_US: u64 = 1_000_000;

/// A login that is refused is not tried more often.
const REFUSED_US: u64 = 10_000_000;

/// While somebody asks for a host.
const OFTEN_US: u64 = 50_000;

/// How long a host is asked often after a machine has asked for it.
const URGED_US: u64 = 2_000_000;

/// How long it waits for the next answer of a host that has not answered.
const SILENT_US: u64 = 1_000_000;

/// The longest time between two packets that open a connection, where waits are short.
const SENT_AGAIN_US: u64 = 900_000;

/// The system identifier of all hosts of database 0; the others' follow.
const FIRST_SYSTEM: u64 = 7_000_000;

/// The result of a question.
#[derive(Clone, Debug)]
enum Found {
    /// `None`: the prober is not let in.
    Alive(Option<Origin>),
    Failed,
    /// None, for as long as was waited.
    Silent,
}

/// The state of the prober at one host.
#[derive(Debug, Default)]
struct Seat {
    urged_until: u64,
    /// The question that is to be asked next is asked then; others are out of date.
    next_at: u64,
    /// When it has asked the question whose answer it waits for, and what will come.
    asked: Option<(u64, Found)>,
    has_failed: bool,
    /// When the first question was asked that was not answered.
    unanswered_since: Option<u64>,
    failed_told_at: Option<u64>,
}

/// From a stream of its own, so that worlds without it stay as they are.
#[derive(Debug)]
pub(super) struct Prober {
    random: Random,
    seats: Vec<[Seat; HOSTS]>,
}

impl Prober {
    pub(super) fn new(plan: &Plan) -> Prober {
        let seats = plan.databases.iter().map(|_| Default::default()).collect();
        Prober { random: Random::new(plan.seed ^ 0x6173_6b65_7200), seats }
    }

    fn seat(&mut self, place: Place) -> &mut Seat {
        &mut self.seats[place.database][place.host]
    }
}

/// The first questions, if there is a prober.
pub(super) fn begin(world: &mut World) {
    if world.course.plan.probing.is_none() {
        return;
    }
    for place in all(&world.course.plan) {
        let after = world.prober.random.range(1, 5_000);
        plan_next(world, place, world.course.now() + after);
    }
}

fn all(plan: &Plan) -> impl Iterator<Item = Place> + use<> {
    let count = plan.databases.len();
    (0..count).flat_map(|database| (0..HOSTS).map(move |host| Place { database, host }))
}

/// A machine asks for a host: all hosts of its database are asked at once, and often.
pub(super) fn urge(world: &mut World, host: &Address) {
    // A login that is refused is not tried sooner.
    if !world.course.plan.probing.is_some_and(|probing| probing.is_let_in) {
        return;
    }
    let now = world.course.now();
    let database = Place::at(host.port).database;
    for host in 0..HOSTS {
        let place = Place { database, host };
        let seat = world.prober.seat(place);
        let last = if now < seat.urged_until { seat.urged_until - URGED_US } else { 0 };
        seat.urged_until = now + URGED_US;
        if seat.asked.is_none() && now + OFTEN_US < seat.next_at {
            // Not more often than that.
            let at = (last + OFTEN_US).max(now + 1);
            plan_next(world, place, at);
        }
    }
}

fn plan_next(world: &mut World, place: Place, at: u64) {
    world.prober.seat(place).next_at = at;
    world.course.at(at, Happening::Probe { place, at });
}

/// A question is asked, unless it was put off or brought forward.
pub(super) fn ask(world: &mut World, place: Place, at: u64) {
    let asked_at = world.course.now();
    let timeout = world.course.plan.host_timeout_us().unwrap_or(u64::MAX);
    let seat = world.prober.seat(place);
    if seat.asked.is_some() || seat.next_at != at || world.course.stage == Stage::Done {
        return;
    }
    let patience = if seat.unanswered_since.is_some() { SILENT_US.min(timeout) } else { timeout };
    let random = &mut world.prober.random;
    let mut takes = random.range(100, 5_000);
    if random.chance(20) {
        takes = random.skewed(5_000, 900_000).min(patience * 9 / 10);
        world.course.census.hosts.late_answers += 1;
    }
    let is_cut = random.chance(5) && world.course.is_working();
    if is_cut {
        // Nobody opens a server there for a while.
        world.course.note_trouble();
    }
    let answer = if is_cut { Found::Failed } else { answer(world, place, asked_at) };
    // The question is sent again and again until the host takes it.
    let again = if matches!(answer, Found::Silent) { world.prober.random.below(SENT_AGAIN_US) } else { 0 };
    let back_at = world.hosts.histories[place.database].answers_at(place.host, asked_at);
    let (takes, answer) = match back_at {
        None => (takes, answer),
        Some(back_at) if back_at + again + takes < asked_at + patience => {
            (back_at + again + takes - asked_at, self::answer(world, place, back_at))
        }
        Some(_) => (patience, Found::Silent),
    };
    world.prober.seat(place).asked = Some((asked_at, answer));
    world.course.after(takes, Happening::Probed(place));
}

/// The answer of a host that is not frozen.
fn answer(world: &World, place: Place, now: u64) -> Found {
    let World { course, postgres, hosts, .. } = world;
    match hosts.manner(place, now) {
        Manner::Refuses => return Found::Failed,
        Manner::Ignores => return Found::Silent,
        Manner::Accepts => {}
    }
    let database = place.database as u16;
    if postgres.is_down(database, now) || postgres.is_starting(database, now) {
        return Found::Failed;
    }
    let is_let_in = course.plan.probing.is_some_and(|probing| probing.is_let_in);
    let Some(is_standby) = course.plan.is_standby(place).filter(|_| is_let_in) else { return Found::Alive(None) };
    Found::Alive(Some(Origin {
        role: HostRole::of(is_standby),
        system: Some(FIRST_SYSTEM + place.database as u64),
        timeline: Some(hosts.timeline(place)),
        started: Some(format!("{}", place.port()).into()),
    }))
}

/// A question has had its answer, or none.
pub(super) fn answered(world: &mut World, place: Place) {
    let Some((asked_at, answer)) = world.prober.seat(place).asked.take() else { return };
    let now = world.course.now();
    let plan = &world.course.plan;
    let retry = plan.settings.global.servers.server_login_retry;
    let timeout = plan.host_timeout_us().unwrap_or(u64::MAX);
    let is_let_in = plan.probing.is_some_and(|probing| probing.is_let_in);
    let interval = if is_let_in { AT_REST_US } else { REFUSED_US };
    let seat = world.prober.seat(place);
    let is_silent = matches!(answer, Found::Silent);
    seat.unanswered_since = is_silent.then(|| seat.unanswered_since.unwrap_or(asked_at));
    seat.has_failed = !matches!(answer, Found::Alive(_));
    let is_due = seat.failed_told_at.is_none_or(|at| now >= at + retry.as_micros() as u64 / 2);
    let (state, origin) = match answer {
        Found::Alive(origin) => {
            let role = origin.as_ref().map(|origin| origin.role);
            (Some(HostState::Alive { role }), origin)
        }
        Found::Failed => (is_due.then_some(HostState::Failed { until: Time(now) + retry }), None),
        Found::Silent => {
            let unanswered = seat.unanswered_since.map_or(0, |since| now - since);
            ((unanswered >= timeout).then_some(HostState::Silent), None)
        }
    };
    match state {
        Some(HostState::Failed { .. }) => seat.failed_told_at = Some(now),
        Some(_) => seat.failed_told_at = None,
        None => {}
    }
    let pause = if seat.has_failed || is_let_in && now < seat.urged_until { OFTEN_US } else { interval };
    if let Some(state) = state {
        // That there is no answer is seen now.
        let at = if seat.has_failed { now } else { asked_at };
        post(world, place, Upstream::new(Time(at), state), origin);
    }
    plan_next(world, place, (asked_at + pause).max(now + 1));
}

fn post(world: &mut World, place: Place, upstream: Upstream, origin: Option<Origin>) {
    let World { course, pooler, prober, checks, .. } = world;
    course.census.hosts.probes += 1;
    course.census.hosts.silent += u64::from(upstream.is_silent());
    course.note(|| format!("the prober: {place:?} is {:?} {origin:?}", upstream.state));
    let Some(host) = course.plan.address(place) else { return };
    let delay = prober.random.range(1, 300);
    checks.hosts.told(course.now() + delay, upstream.at.0);
    let observed = Observed { host: Arc::new(host), upstream };
    let mail = Mail::ToCoordinator(ToCoordinator::Probed(Box::new((observed, origin))));
    pooler.machines.deliver_from_prober(course, delay, mail);
}
