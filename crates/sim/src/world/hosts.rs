//! Worlds whose databases have two hosts: a name that moves from address to address, and one that has its own. Sometimes one of the two is
//! down: it refuses, or does not answer at all.
//!
//! ```text
//!   port 5000 + n: db<n>.example ─► 10.0.<n>.1, 10.0.<n>.2, …         port 5100 + n: the other host of database n
//! ```
//!
//! In some of these worlds one host is a standby, and the two change roles, with a time between in which both are standbys. A database that wants the primary sends nothing to a standby (I19).
//!
//! While one host of a database is down the other one lives: who waits is served all the same (I6), since a host that is down is no trouble to a
//! pool that knows it. Some time after a name has moved no idle server is at an address that it has left (I16: what is said is done).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use connections::databases::{Host, TargetSessionAttrs};
use control::ControlEvent;
use machine::observe::Ends;

use super::World;
use super::orders::snapshots;
use crate::agenda::Happening;
use crate::plan::Plan;
use crate::plan::hosts::{self, Place};
use crate::random::Random;
use crate::trouble;

/// How long there is no primary at most.
const GAP_MAX_US: u64 = 1_500_000;

/// How long a host is down at most.
const DOWN_MAX_US: u64 = 3_000_000;

/// How long after a name has moved all workers know it, late letters and long rounds included.
const KNOWN_US: u64 = 500_000;

/// What a host does with somebody who connects.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    Accepts,
    Refuses,
    Ignores,
}

#[derive(Copy, Clone, Debug, Default)]
struct Away {
    host: usize,
    until: u64,
    is_silent: bool,
}

/// Where databases are now. From a stream of its own, so that worlds without it stay as they are.
#[derive(Debug)]
pub(super) struct Hosts {
    random: Random,
    /// Of each database, the number of its name's address, and when that was changed.
    moves: Vec<(u8, u64)>,
    away: Vec<Away>,
}

impl Hosts {
    pub(super) fn new(plan: &Plan) -> Hosts {
        let count = plan.databases.len();
        let random = Random::new(plan.seed ^ 0x0068_6f73_7473);
        Hosts { random, moves: vec![(1, 0); count], away: vec![Away::default(); count] }
    }

    /// Where a connection to this place ends now.
    pub(super) fn ends(&self, place: Place) -> Option<Box<Ends>> {
        let (number, _) = *self.moves.get(place.database)?;
        let remote = if place.host == 0 { address(place.database, number) } else { IpAddr::from([127, 0, 0, 2]) };
        let local = SocketAddr::from(([10, 0, 0, 0], 40_000));
        Some(Box::new(Ends { local, remote: SocketAddr::new(remote, place.port()) }))
    }

    pub(super) fn manner(&self, place: Place, now: u64) -> Manner {
        match self.away.get(place.database) {
            Some(away) if away.host == place.host && now < away.until => {
                if away.is_silent {
                    Manner::Ignores
                } else {
                    Manner::Refuses
                }
            }
            _ => Manner::Accepts,
        }
    }
}

fn address(database: usize, number: u8) -> IpAddr {
    IpAddr::from([10, 0, database as u8, number])
}

/// A name moves, or a host goes down; and the next time.
pub(super) fn wander(world: &mut World) {
    if !world.course.is_working() {
        world.hosts.away.fill(Away::default());
        return;
    }
    let pause = world.hosts.random.skewed(20_000, 2_000_000);
    world.course.after(pause, Happening::Wander);
    let database = world.hosts.random.below(world.hosts.moves.len() as u64) as usize;
    let now = world.course.now();
    // Whoever waits for a server that this has cost gets another one from now on.
    world.course.note_trouble();
    if world.hosts.random.chance(500) {
        return moves(world, database);
    }
    if !world.course.plan.standbys.is_empty() && world.hosts.random.chance(500) {
        return lose_primary(world, database);
    }
    world.course.census.world.hosts_down += 1;
    let Hosts { random, away, .. } = &mut world.hosts;
    let (drawn, is_silent) = (random.below(2) as usize, random.chance(300));
    let plan = &world.course.plan;
    let standby = |standbys: &[bool; 2]| usize::from(!standbys[0]);
    // A host with the role that is wanted stays.
    let host = match (plan.standbys.get(database).map(standby), plan.wanted(&plan.databases[database].name)) {
        (Some(standby), wanted) if wanted.wants_primary() => standby,
        (Some(standby), TargetSessionAttrs::Standby | TargetSessionAttrs::ReadOnly) => 1 - standby,
        _ => drawn,
    };
    away[database] = Away { host, until: now + random.skewed(1_000, DOWN_MAX_US), is_silent };
}

/// The primary is lost: it is restarted as a standby. Some time later the other host is promoted. Until then there is no primary.
fn lose_primary(world: &mut World, database: usize) {
    let World { course, postgres, pooler, hosts, .. } = world;
    let standbys = &mut course.plan.standbys[database];
    // It is lost already.
    let Some(host) = standbys.iter().position(|is_standby| !is_standby) else { return };
    course.census.world.switchovers += 1;
    *standbys = [true; 2];
    let Hosts { random, away, .. } = hosts;
    let (now, gap) = (course.now(), random.skewed(1_000, GAP_MAX_US));
    let is_silent = random.chance(500);
    away[database] = Away { host, until: now + random.skewed(1_000, DOWN_MAX_US), is_silent };
    course.after(gap, Happening::Promoted(database, 1 - host));
    trouble::end_all(course, postgres, pooler, database as u16);
}

/// A standby is promoted.
pub(super) fn promote(world: &mut World, database: usize, host: usize) {
    let World { course, postgres, pooler, .. } = world;
    course.note_trouble();
    course.plan.standbys[database][host] = false;
    trouble::end_all(course, postgres, pooler, database as u16);
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
