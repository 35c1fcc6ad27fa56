//! A PostgreSQL at work whose statements take the time that others leave them, and what it tells of who waits for what.
//!
//! Promises: statements of a curve's world are answered when its law says so. Asked by the pooler, it tells what those that
//! are asked about do just then, or in every fourth of these worlds refuses to, as one would that is too old.
//!
//! Does not tell anything in other worlds: there the question is an error of syntax.

use queueing::waits::QUESTION;
use wire::backend;

use crate::backend::say;
use crate::postgres::Process;
use crate::world::World;

/// How long it takes to look at who waits, in microseconds.
const LOOK_US: u64 = 300;

impl World {
    /// Where statements take the time that others leave them: the answer is held back until then.
    pub(crate) fn is_at_work(&mut self, process: &mut Process, index: u32) -> bool {
        let now = self.now;
        let processes = self.postgres.processes.iter().flatten();
        let others = processes.filter(|process| process.busy_until.is_some_and(|until| until > now)).count();
        let Some(curve) = self.plan.purpose.curve else { return false };
        let micros = curve.work_us(others as u32, self.plan.seed, now, &mut self.random);
        self.keep_busy(process, index, micros);
        true
    }

    /// The pooler asks what some of its servers wait for. False: it asks for something else.
    pub(crate) fn tells_waits(&mut self, process: &mut Process, index: u32, body: &[u8]) -> bool {
        let (Some(curve), Some(asked)) = (self.plan.purpose.curve, body.strip_prefix(QUESTION.as_bytes())) else {
            return false;
        };
        self.census.waits_asked += 1;
        let listed = asked.split(|&byte| byte == b'}').next().unwrap_or_default();
        let pids: Vec<i32> = listed.split(|&byte| byte == b',').filter_map(number).collect();
        let now = self.now;
        let others = self.postgres.processes.iter().flatten().filter(|other| pids.contains(&other.pid));
        let busy = others.filter(|other| other.busy_until.is_some_and(|until| until > now)).count() as u32;
        if self.plan.seed.is_multiple_of(4) {
            say("ERROR", "42703", "column a.wait_event_type does not exist", &mut process.held);
        } else {
            let rows = curve.waits(busy, now);
            for (kind, event, count) in rows.iter().filter(|(_, _, count)| *count > 0) {
                let count = count.to_string();
                let values = [*kind, *event, Some(count.as_str())].map(|value| value.map(str::as_bytes));
                backend::encode_data_row(&mut process.held, values);
            }
            backend::encode_command_complete(&mut process.held, "SELECT 1");
        }
        process.backend.ready(&mut process.held);
        self.keep_busy(process, index, LOOK_US);
        true
    }
}

fn number(text: &[u8]) -> Option<i32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
