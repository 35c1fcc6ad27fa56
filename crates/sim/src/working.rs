//! PostgreSQL's wait events, in worlds where a statement's time depends on the other running statements.
//!
//! To the pooler's query it returns the current wait events of the processes in question. In every fourth of these
//! worlds it refuses, as a PostgreSQL that is too old.
//!
//! In other worlds the query is a syntax error.

use queueing::wait_events::QUESTION;
use wire::backend;

use crate::backend::say;
use crate::course::Course;
use crate::curve::refuses_wait_query;
use crate::postgres::Postgres;
use crate::process::Process;

/// How long the query takes, in microseconds.
const LOOK_US: u64 = 300;

/// Answers the pooler's query for wait events at `process`. False: it is another query.
pub(crate) fn answers_wait_query(
    course: &mut Course,
    postgres: &Postgres,
    process: &mut Process,
    query: &[u8],
) -> bool {
    let (Some(curve), Some(asked)) = (course.plan.purpose.curve, query.strip_prefix(QUESTION.as_bytes())) else {
        return false;
    };
    course.census.postgres.waits_asked += 1;
    let listed = asked.split(|&byte| byte == b'}').next().unwrap_or_default();
    let pids: Vec<i32> = listed.split(|&byte| byte == b',').filter_map(number).collect();
    let now = course.now();
    let others = postgres.iter().filter(|other| pids.contains(&other.pid()));
    let busy = others.filter(|other| other.is_busy(now)).count() as u32;
    process.answer(|out| {
        if refuses_wait_query(course.plan.seed) {
            return say("ERROR", "42703", "column a.wait_event_type does not exist", out);
        }
        let rows = curve.waits(busy, now);
        for (kind, event, count) in rows.iter().filter(|(_, _, count)| *count > 0) {
            let count = count.to_string();
            let values = [*kind, *event, Some(count.as_str())].map(|value| value.map(str::as_bytes));
            backend::encode_data_row(out, values);
        }
        backend::encode_command_complete(out, "SELECT 1");
    });
    process.keep_busy(course, LOOK_US);
    true
}

fn number(text: &[u8]) -> Option<i32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
