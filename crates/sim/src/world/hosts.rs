//! Worlds whose databases have two hosts: a name that moves from address to address, and one that has its own. Sometimes one of the two is
//! down: it refuses, or does not answer at all.
//!
//! ```text
//!   port 5000 + n: db<n>.example ─► 10.0.<n>.1, 10.0.<n>.2, …         port 5100 + n: the other host of database n
//! ```
//!
//! In some of these worlds one host is a standby, and the two change roles, with a time between in which both are standbys. A database that wants the primary sends nothing to a standby (I19).
//!
//! ```text
//!   frozen: the primary stops where it is ── its standby is promoted, or not ── it thaws
//!                                             └─► it is still a primary for a while ── it is restarted as a standby
//! ```
//!
//! A frozen host takes connections and bytes, as its kernel does, and answers nothing; at the thaw it does what it was sent. Each promotion begins a
//! timeline, which the other host follows once it is a standby. A process reports that it was promoted when it next wakes up.
//!
//! While one host of a database is down the other one lives: who waits is served all the same (I6), since a host that is down is no trouble to a
//! pool that knows it. Some time after a name has moved no idle server is at an address that it has left (I16: what is said is done).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use connections::databases::{Host, TargetSessionAttrs};
use control::ControlEvent;
use machine::observe::{About, Ends, Fact};
use machine::primaries::Why;
use machine::{Mail, ToWorker};
use units::WorkerId;

use super::World;
use super::orders::snapshots;
use crate::agenda::Happening;
use crate::checks::{i20_fence, i21_calm, i23_silent};
use crate::course::Course;
use crate::history::{Away, Frozen, History, Manner};
use crate::link::{LinkId, Peer};
use crate::plan::Plan;
use crate::plan::hosts::{self, HOSTS, Place};
use crate::random::Random;
use crate::trouble;

/// How long there is no primary at most.
const GAP_MAX_US: u64 = 1_500_000;

/// How long a host is down at most.
const DOWN_MAX_US: u64 = 3_000_000;

/// How long one is frozen at most beyond `host_timeout`.
const FROZEN_MAX_US: u64 = 6_000_000;

/// How long a primary that was frozen still is one, when another was promoted.
const ZOMBIE_MAX_US: u64 = 2_000_000;

/// How long all is as usual at most, before something else happens to the same database.
const REST_MAX_US: u64 = 4_000_000;

/// How long it takes at most, when all is over, until all pools are served again.
const SETTLED_US: u64 = 2_000_000;

/// How often it is looked whether servers at a frozen host are closed in time.
const VIGIL_US: u64 = 200_000;

/// How long after a name has moved all workers know it, late letters and long rounds included.
const KNOWN_US: u64 = 500_000;

/// Where databases are now. From a stream of its own, so that worlds without it stay as they are.
#[derive(Debug)]
pub(super) struct Hosts {
    random: Random,
    /// Of each database, the number of its name's address, and when that was changed.
    moves: Vec<(u8, u64)>,
    pub(super) histories: Vec<History>,
}

impl Hosts {
    pub(super) fn new(plan: &Plan) -> Hosts {
        let count = plan.databases.len();
        let random = Random::new(plan.seed ^ 0x0068_6f73_7473);
        Hosts { random, moves: vec![(1, 0); count], histories: vec![History::default(); count] }
    }

    /// Where a connection to this place ends now.
    pub(super) fn ends(&self, place: Place) -> Option<Box<Ends>> {
        let (number, _) = *self.moves.get(place.database)?;
        let remote = if place.host == 0 { address(place.database, number) } else { IpAddr::from([127, 0, 0, 2]) };
        let local = SocketAddr::from(([10, 0, 0, 0], 40_000));
        Some(Box::new(Ends { local, remote: SocketAddr::new(remote, place.port()) }))
    }

    pub(super) fn manner(&self, place: Place, now: u64) -> Manner {
        self.histories.get(place.database).map_or(Manner::Accepts, |history| history.manner(place.host, now))
    }

    /// When a host thaws, if it is frozen.
    pub(super) fn thaws_at(&self, place: Place, now: u64) -> Option<u64> {
        self.histories.get(place.database)?.thaws_at(place.host, now)
    }

    pub(super) fn timeline(&self, place: Place) -> u32 {
        self.histories[place.database].timelines[place.host]
    }
}

fn address(database: usize, number: u8) -> IpAddr {
    IpAddr::from([10, 0, database as u8, number])
}

/// A name moves, or a host goes down; and the next time.
pub(super) fn wander(world: &mut World) {
    let now = world.course.now();
    if !world.course.is_working() {
        for history in &mut world.hosts.histories {
            history.away.until = history.away.until.min(now);
        }
        return;
    }
    let pause = world.hosts.random.skewed(20_000, 2_000_000);
    world.course.after(pause, Happening::Wander);
    let database = world.hosts.random.below(world.hosts.moves.len() as u64) as usize;
    if world.hosts.random.chance(300) {
        // Whoever waits for a server that this has cost gets another one from now on.
        world.course.note_trouble();
        return moves(world, database);
    }
    if now < world.hosts.histories[database].busy_until {
        return;
    }
    if world.course.plan.faults.every > 0 && world.hosts.random.chance(500) {
        return freeze(world, database);
    }
    if !world.course.plan.standbys.is_empty() && world.hosts.random.chance(500) {
        return lose_primary(world, database);
    }
    world.course.note_trouble();
    world.course.census.world.hosts_down += 1;
    let Hosts { random, histories, .. } = &mut world.hosts;
    let (drawn, is_silent) = (random.below(2) as usize, random.chance(300));
    let plan = &world.course.plan;
    let standby = |standbys: &[bool; HOSTS]| usize::from(!standbys[0]);
    // A host with the role that is wanted stays.
    let host = match (plan.standbys.get(database).map(standby), plan.wanted(&plan.databases[database].name)) {
        (Some(standby), wanted) if wanted.wants_primary() => standby,
        (Some(standby), TargetSessionAttrs::Standby | TargetSessionAttrs::ReadOnly) => 1 - standby,
        _ => drawn,
    };
    let history = &mut histories[database];
    let until = now + random.skewed(1_000, DOWN_MAX_US);
    history.goes(Away { host, until, is_silent }, now);
    history.busy_until = until;
}

/// The primary stops for a while, or one of two equal hosts. Sometimes its standby is promoted meanwhile.
fn freeze(world: &mut World, database: usize) {
    let World { course, hosts: Hosts { random, histories, .. }, .. } = world;
    let primary = course.plan.standbys.get(database).map(|standbys| standbys.iter().position(|is_standby| !is_standby));
    let Some(host) = primary.unwrap_or_else(|| Some(random.below(2) as usize)) else { return };
    let now = course.now();
    let longest = course.plan.host_timeout_us().unwrap_or_default() + FROZEN_MAX_US;
    let span = if random.chance(400) { random.skewed(50_000, longest) } else { random.range(50_000, longest) };
    let frozen = Frozen { host, since: now, until: now + span };
    course.census.hosts.freezes += 1;
    let place = Place { database, host };
    course.note(|| format!("{place:?} is frozen for {span} µs"));
    let history = &mut histories[database];
    history.freezes(frozen);
    history.busy_until = frozen.until + ZOMBIE_MAX_US;
    course.note_trouble_until(history.busy_until + SETTLED_US);
    course.at(frozen.until, Happening::Thawed(place));
    if primary.is_some() && random.chance(600) {
        let at = now + random.below(span);
        course.at(at, Happening::Promoted(Place { database, host: 1 - host }));
    }
    course.after(VIGIL_US, Happening::Vigil(place));
}

/// A frozen host is thawed. If another one was promoted meanwhile, it is still a primary for a while.
pub(super) fn thaw(world: &mut World, place: Place) {
    let World { course, hosts: Hosts { random, histories, .. }, .. } = world;
    course.note(|| format!("{place:?} thaws"));
    let now = course.now();
    let history = &mut histories[place.database];
    let are_two = course.plan.standbys.get(place.database).is_some_and(|standbys| *standbys == [false; HOSTS]);
    if are_two {
        course.census.hosts.zombies += 1;
        let span = if random.chance(500) { random.range(1, ZOMBIE_MAX_US) } else { random.skewed(1, ZOMBIE_MAX_US) };
        course.after(span, Happening::Demoted(place));
    } else {
        history.busy_until = now + random.skewed(1, REST_MAX_US);
    }
}

/// A primary that was frozen is restarted as a standby.
pub(super) fn demote(world: &mut World, place: Place) {
    let World { course, postgres, pooler, hosts, .. } = world;
    course.note(|| format!("{place:?} is restarted as a standby"));
    let history = &mut hosts.histories[place.database];
    history.timelines[place.host] = history.timelines[1 - place.host];
    history.changed_at = course.now();
    history.busy_until = course.now() + hosts.random.skewed(1, REST_MAX_US);
    course.plan.standbys[place.database][place.host] = true;
    trouble::end_all_at(course, postgres, pooler, place);
}

/// The primary is lost: it is restarted as a standby, or in place. Some time later a host is promoted, mostly the other. Until then there is no
/// primary.
fn lose_primary(world: &mut World, database: usize) {
    let World { course, postgres, pooler, hosts, .. } = world;
    let standbys = &mut course.plan.standbys[database];
    // It is lost already.
    let Some(host) = standbys.iter().position(|is_standby| !is_standby) else { return };
    let Hosts { random, histories, .. } = hosts;
    let (now, gap) = (course.now(), random.skewed(1_000, GAP_MAX_US));
    let (is_silent, until) = (random.chance(500), now + random.skewed(1_000, DOWN_MAX_US));
    let history = &mut histories[database];
    history.goes(Away { host, until, is_silent }, now);
    history.busy_until = until.max(now + gap) + random.skewed(1, REST_MAX_US);
    course.note_trouble_until(history.busy_until);
    if random.chance(200) {
        course.note(|| format!("the primary of database {database} is restarted in place"));
    } else {
        course.census.world.switchovers += 1;
        course.plan.standbys[database] = [true; HOSTS];
        let next = if random.chance(150) { host } else { 1 - host };
        course.note(|| {
            format!("database {database} has no primary: host {host} is a standby, and host {next} will not be")
        });
        // The host is up again by then.
        let at = if next == host { until.max(now + gap) } else { now + gap };
        course.at(at, Happening::Promoted(Place { database, host: next }));
    }
    trouble::end_all_at(course, postgres, pooler, Place { database, host });
}

/// A standby is promoted. Its sessions mostly stay.
pub(super) fn promote(world: &mut World, place: Place) {
    let World { course, postgres, pooler, hosts: Hosts { random, histories, .. }, .. } = world;
    course.note_trouble();
    course.census.hosts.promotions += 1;
    let standbys = &mut course.plan.standbys[place.database];
    standbys[place.host] = false;
    let history = &mut histories[place.database];
    history.promotions += 1;
    let timeline = 1 + history.promotions;
    history.timelines[place.host] = timeline;
    if standbys[1 - place.host] {
        history.timelines[1 - place.host] = timeline;
    }
    history.changed_at = course.now();
    course.note(|| format!("{place:?} is promoted to timeline {timeline}"));
    if random.chance(300) {
        trouble::end_all_at(course, postgres, pooler, place);
    }
}

fn moves(world: &mut World, database: usize) {
    let now = world.course.now();
    world.course.census.world.moves += 1;
    let number = world.hosts.moves[database].0.wrapping_add(1).max(1);
    world.hosts.moves[database] = (number, now);
    let name = hosts::name(database);
    let addresses = Arc::from([address(database, number)]);
    let served = world.desk.serve_event(ControlEvent::NameMoved { name: name.into(), addresses });
    if let Some(settings) = served.configured {
        world.course.plan.settings = settings;
        world.pooler.configure(&mut world.course);
    }
    world.course.after(KNOWN_US, Happening::Moved(database, now));
}

/// I16: no idle server is at an address that its host's name has left, unless it has moved again meanwhile.
pub(super) fn check_left(world: &mut World, database: usize, since: u64) {
    let (number, moved_at) = world.hosts.moves[database];
    if moved_at != since || !world.course.is_working() {
        return;
    }
    world.course.census.world.moves_checked += 1;
    let (now, port) = (Host::Ip(address(database, number)), Place { database, host: 0 }.port());
    let left = snapshots(world, machine::Look::Connections).flat_map(|shown| shown.servers).find(|server| {
        server.ends.address.port == port && server.ends.address.host != now && ["idle", "used"].contains(&server.state)
    });
    if let Some(server) = left {
        let text = format!("{:?} is idle at {:?}, which its name has left", server.conn, server.ends.address.host);
        world.course.fail(16, text);
    }
}

/// When the host thaws that a connection leads to, if it is frozen.
pub(super) fn thaws_at(world: &World, link: LinkId) -> Option<u64> {
    let link = world.pooler.network.get(link)?;
    let Peer::Postgres { database, .. } = link.peer.who else { return None };
    world.hosts.thaws_at(Place { database: database.into(), host: link.host }, world.course.now())
}

/// I21, and I20 some time later: the coordinator sends a decision to the first worker.
pub(super) fn note_decision(course: &mut Course, hosts: &mut Hosts, mail: &Mail) {
    let Mail::ToWorker(WorkerId(0), ToWorker::Primary(decision)) = mail else { return };
    let database = Place::at(decision.hosts[0].port).database;
    course.note(|| format!("{decision}"));
    course.census.hosts.epochs += u64::from(matches!(decision.why, Why::Successor { .. }));
    let history = &mut hosts.histories[database];
    course.judge(i21_calm::check(&course.plan, database, history, decision));
    let host = decision.primary.host().map(|host| Place::at(host.port).host);
    if host.is_some() && history.decided.0 == host {
        // A RELOAD repeats it. A server may have been opened elsewhere since the decision, as the primary does not answer.
        return;
    }
    history.decided = (host, course.now());
    course.after(i20_fence::CLOSED_US, Happening::Fenced(database, course.now()));
}

/// I20: no server of a database that wants the primary is open at another host that was opened before.
pub(super) fn check_fenced(world: &mut World, database: usize, since: u64) {
    let (Some(host), decided_at) = world.hosts.histories[database].decided else { return };
    if world.course.is_working() && decided_at == since {
        world.course.census.hosts.fenced += 1;
        world.check(|_, view| i20_fence::check_closed(view, Place { database, host }, since));
    }
}

/// I23, and again a while later.
pub(super) fn check_silent(world: &mut World, place: Place) {
    let now = world.course.now();
    if world.hosts.thaws_at(place, now).is_some() {
        world.check(|_, view| i23_silent::check_frozen(view, place));
        world.course.after(VIGIL_US, Happening::Vigil(place));
    }
}

/// I23: a server is closed, perhaps as its host does not answer.
pub(super) fn check_closed(world: &mut World, node: u16, fact: &Fact) {
    let About::Server { conn, .. } = fact.about else { return };
    if !fact.text.starts_with("closing because: the host does not answer") {
        return;
    }
    let World { course, pooler, hosts, .. } = world;
    let Some(link) = pooler.find(node, conn).and_then(|id| pooler.network.get(id)) else { return };
    let Peer::Postgres { database, .. } = link.peer.who else { return };
    course.census.hosts.closed_silent += 1;
    let place = Place { database: database.into(), host: link.host };
    let history = &hosts.histories[place.database];
    course.judge(i23_silent::check_closed(&course.plan, history, place, course.now()));
}
