//! What backends take of the machine, where PostgreSQL runs on this one.
//!
//! Read only for somebody who looks, and for a minute after that: of 100 backends it takes some milliseconds.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ask::Target;
use observe::{Backend, Usage};
use stacks::{Claimed, Used, used};

use crate::looked_into::is_own_address;

/// For how long it goes on after somebody has looked.
const LOOKED_AT: Duration = Duration::from_secs(60);

/// Between two readings that processors' time is compared of.
const APART_MIN: Duration = Duration::from_millis(400);

/// One server's.
#[derive(Default)]
pub(super) struct Usages {
    /// Whether it is at an address of this machine's. `None`: that was not looked at since it was connected to.
    is_here: Option<bool>,
    looked_at: Option<Instant>,
    last: BTreeMap<u32, Last>,
}

/// What was read before.
#[derive(Copy, Clone)]
struct Last {
    used: Used,
    at: Instant,
    thousandths: Option<u32>,
}

impl Usages {
    /// Another connection, which may be to another machine.
    pub(super) fn connected(&mut self) {
        self.is_here = None;
    }

    pub(super) fn fill(&mut self, target: &Target, backends: &mut [Backend], is_looked_at: bool) {
        let now = Instant::now();
        if is_looked_at {
            self.looked_at = Some(now);
        }
        if self.looked_at.is_none_or(|at| now.duration_since(at) > LOOKED_AT) {
            self.last.clear();
            return;
        }
        let is_here = || is_own_address(&format!("{}:{}", target.host, target.port));
        if !*self.is_here.get_or_insert_with(is_here) {
            return;
        }
        let claimed: Vec<Claimed> = backends.iter().filter_map(claimed).collect();
        let mut next = BTreeMap::new();
        for (pid, used) in used(&claimed) {
            next.insert(pid, self.compared(pid, used, now));
        }
        self.last = next;
        for backend in backends {
            let last = u32::try_from(backend.pid).ok().and_then(|pid| self.last.get(&pid));
            backend.usage = last.map(|Last { used, thousandths, .. }| Usage {
                memory: used.memory,
                cpu_time: used.cpu,
                cpu_thousandths: *thousandths,
            });
        }
    }

    /// With what it was before, if that was the same process.
    fn compared(&self, pid: u32, used: Used, now: Instant) -> Last {
        let Some(last) = self.last.get(&pid).filter(|last| last.used.began == used.began) else {
            return Last { used, at: now, thousandths: None };
        };
        let apart = now.duration_since(last.at);
        if apart < APART_MIN {
            // The kernel counts in hundredths of a second. What is compared with is kept.
            let used = Used { cpu: last.used.cpu, ..used };
            return Last { used, ..*last };
        }
        let micros = used.cpu.saturating_sub(last.used.cpu).as_micros() * 1000 / apart.as_micros().max(1);
        Last { used, at: now, thousandths: Some(u32::try_from(micros).unwrap_or(u32::MAX)) }
    }
}

fn claimed(backend: &Backend) -> Option<Claimed> {
    let names = backend.user.clone().zip(backend.database.clone());
    Some(Claimed { pid: u32::try_from(backend.pid).ok()?, age: backend.ages.backend?, names })
}
