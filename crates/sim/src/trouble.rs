//! Failures at PostgreSQL during the work of a world.

use crate::agenda::Happening;
use crate::course::Course;
use crate::link::{Leaving, ProcessName};
use crate::plan::hosts::Place;
use crate::pooler::Pooler;
use crate::postgres::Postgres;
use crate::process::Process;

/// Makes one failure and schedules the next.
pub(crate) fn happen(course: &mut Course, postgres: &mut Postgres, pooler: &mut Pooler) {
    if !course.is_working() {
        return;
    }
    let pause = course.random.range(1, 2 * course.plan.faults.every);
    course.after(pause, Happening::Trouble);
    match course.random.below(20) {
        _ if course.plan.promises.last_words => one_dies(course, postgres, pooler),
        0..=8 => one_dies(course, postgres, pooler),
        9..=14 => one_stalls(course, postgres),
        15 | 16 => restart(course, postgres, pooler),
        17 => {
            let until = course.now() + course.random.skewed(1_000, 500_000);
            postgres.fill(until);
        }
        _ => one_link_breaks(course, postgres, pooler),
    }
}

/// Ends all failures.
pub(crate) fn end(course: &mut Course, postgres: &mut Postgres) {
    postgres.recover();
    // The weather becomes fair too: what is still to be sent arrives whole.
    (course.plan.weather.pieces, course.plan.weather.late) = (0, 0);
}

fn one_dies(course: &mut Course, postgres: &mut Postgres, pooler: &mut Pooler) {
    if let Some(name) = postgres.some_process(&mut course.random) {
        kill(course, postgres, pooler, name);
    }
}

/// Ends a process: mostly with a final error, sometimes without.
fn kill(course: &mut Course, postgres: &mut Postgres, pooler: &mut Pooler, name: ProcessName) {
    let (code, text) = ("57P01", "terminating connection due to administrator command");
    let Some(mut process) = postgres.take(name) else { return };
    course.census.postgres.deaths += 1;
    course.note_trouble();
    course.note(|| format!("server {} dies: {code}", name.number));
    if course.random.chance(300) {
        pooler.close_peer(course, process.link, Leaving::Cut);
        return;
    }
    let link = pooler.network.get_mut(process.link);
    let idle = link.filter(|link| process.is_idle() && link.down.is_empty());
    if let Some(link) = idle {
        course.census.postgres.last_words += 1;
        link.peer.dying = true;
    }
    process.say_fatal(code, text);
    process.wake_after(course, 0);
    postgres.put_back(process);
}

fn one_stalls(course: &mut Course, postgres: &mut Postgres) {
    let Some(name) = postgres.some_process(&mut course.random) else { return };
    let micros = course.random.skewed(1_000, 3_000_000);
    if let Some(process) = postgres.get_mut(name.index).filter(|process| process.is_idle()) {
        course.census.postgres.stalls += 1;
        process.keep_busy(course, micros);
    }
}

/// One database's server ends all its processes, is down for a while, then starts up for a while.
fn restart(course: &mut Course, postgres: &mut Postgres, pooler: &mut Pooler) {
    course.census.postgres.restarts += 1;
    let database = course.random.below(course.plan.databases.len() as u64) as u16;
    let away = course.now() + course.random.skewed(1_000, 500_000);
    postgres.restart(database, away, away + course.random.skewed(1_000, 500_000));
    course.note_trouble();
    end_all(course, postgres, pooler, database);
}

/// Ends all processes of one database.
pub(crate) fn end_all(course: &mut Course, postgres: &mut Postgres, pooler: &mut Pooler, database: u16) {
    end_those(course, postgres, pooler, |process| process.database == database);
}

/// Ends all processes of one host.
pub(crate) fn end_all_at(course: &mut Course, postgres: &mut Postgres, pooler: &mut Pooler, place: Place) {
    end_those(course, postgres, pooler, |process| process.place() == place);
}

fn end_those(course: &mut Course, postgres: &mut Postgres, pooler: &mut Pooler, are_these: impl Fn(&Process) -> bool) {
    let here = postgres.serving().filter(|process| are_these(process));
    let doomed: Vec<ProcessName> = here.map(|process| process.name()).collect();
    for name in doomed {
        kill(course, postgres, pooler, name);
    }
}

fn one_link_breaks(course: &mut Course, postgres: &mut Postgres, pooler: &mut Pooler) {
    let Some(name) = postgres.some_process(&mut course.random) else { return };
    let Some(process) = postgres.take(name) else { return };
    course.census.postgres.deaths += 1;
    course.note_trouble();
    pooler.close_peer(course, process.link, Leaving::Cut);
}
