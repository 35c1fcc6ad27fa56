//! What idle backends keep in memory.

use observe::{Backend, State};

use crate::facts::{Facts, Machine};
use crate::finding::{Finding, Weight};
use crate::words::{bytes, percent};

/// Of the machine's memory: from here on it is found, and from there on it is pressing.
const PART: f64 = 0.02;
const PART_PRESSING: f64 = 0.1;
/// Where memory cannot be measured, so many idle backends are worth a word.
const COUNT: usize = 100;

pub(super) fn find(facts: &Facts) -> Option<Finding> {
    let postgres = facts.postgres.as_ref()?;
    let idle: Vec<&Backend> = postgres.clients().filter(|backend| backend.state == Some(State::Idle)).collect();
    let measured = facts.machine.as_ref().and_then(|machine| Measured::of(machine, &idle));
    let part = measured.as_ref().map(|measured| measured.part);
    if !part.map_or(idle.len() >= COUNT, |part| part >= PART) {
        return None;
    }
    let evidence = match &measured {
        Some(measured) => vec![
            format!("{} backends are idle; {} were measured", idle.len(), measured.count),
            format!(
                "private memory: {} each on average, {} the largest, {} together: {} of the machine's",
                bytes(measured.sum / measured.count as u64),
                bytes(measured.most),
                bytes(measured.all),
                percent(measured.part)
            ),
        ],
        None => {
            vec![format!("{} backends are idle; their memory can be measured on PostgreSQL's machine only", idle.len())]
        }
    };
    Some(Finding {
        rule: "idle-memory",
        weight: if part.is_some_and(|part| part >= PART_PRESSING) { Weight::Warning } else { Weight::Notice },
        title: match &measured {
            Some(measured) => format!("idle backends keep {} of memory", bytes(measured.all)),
            None => format!("{} backends are idle", idle.len()),
        },
        evidence,
        reason: "A backend keeps its caches of catalogues and plans until it ends, up to tens of megabytes each; that memory is neither the page cache's nor \
                 work_mem's. An idle client of the pooler costs some kilobytes."
            .to_owned(),
        source: "Percona: Connection Queuing in PgBouncer: Is It a Magical Remedy?",
        mend: vec![
            "server_idle_timeout = 60 -- the pooler closes what nobody needs (600 by default)".to_owned(),
            "server_lifetime = 1800 -- and renews what has grown (3600 by default)".to_owned(),
            "default_pool_size = auto -- and holds no more than are of use".to_owned(),
        ],
    })
}

struct Measured {
    count: usize,
    sum: u64,
    most: u64,
    /// Of all idle ones, those that could not be read taken for average.
    all: u64,
    part: f64,
}

impl Measured {
    fn of(machine: &Machine, idle: &[&Backend]) -> Option<Measured> {
        let private: Vec<u64> =
            idle.iter().filter_map(|backend| machine.backends.get(&backend.pid)).map(|memory| memory.private).collect();
        let (sum, most) = (private.iter().sum::<u64>(), private.iter().copied().max()?);
        let all = sum / private.len() as u64 * idle.len() as u64;
        Some(Measured { count: private.len(), sum, most, all, part: all as f64 / machine.memory.max(1) as f64 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Memory;
    use crate::rules::example::{backend, check, postgres};

    #[test]
    fn a_fiftieth_of_the_memory() {
        let idle = |count: i32, private: u64| {
            move |facts: &mut Facts| {
                postgres(facts).backends = (0..count).map(|n| backend(300 + n, State::Idle)).collect();
                let machine = facts.machine.as_mut().expect("the example has one");
                machine.memory = 1000;
                machine.backends = (0..count).map(|n| (300 + n, Memory { private })).collect();
            }
        };
        let far = |count: i32| {
            move |facts: &mut Facts| {
                idle(count, 1)(facts);
                facts.machine = None;
            }
        };
        let busy = |facts: &mut Facts| {
            idle(10, 100)(facts);
            postgres(facts).backends.iter_mut().for_each(|backend| backend.state = Some(State::Active));
        };
        let half_read = |facts: &mut Facts| {
            idle(10, 2)(facts);
            facts.machine.as_mut().expect("the example has one").backends.retain(|pid, _| pid % 2 == 0);
        };
        check(
            find,
            &[
                ("little", &idle(19, 1), None),
                ("a fiftieth", &idle(20, 1), Some(Weight::Notice)),
                ("a tenth", &idle(10, 10), Some(Weight::Warning)),
                ("busy ones", &busy, None),
                ("half of them could be read", &half_read, Some(Weight::Notice)),
                ("few, elsewhere", &far(99), None),
                ("many, elsewhere", &far(100), Some(Weight::Notice)),
            ],
        );
    }
}
