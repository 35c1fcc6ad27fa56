//! The outcome of a run: counts, the ledger's verdict, and seconds beside the direct writer's.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::ledger::Verdict;
use crate::probe::Write;
use crate::seen::{Kind, Seen, Told};
use crate::session::SILENT;

/// A gap between two direct writes that is no outage: a checkpoint, a busy machine.
const GAP_MIN: f64 = 0.5;
/// The fraction of an outage after which a commit belongs to what follows it.
const LATER_PART: f64 = 0.5;

/// One run.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub case: String,
    pub contestant: String,
    pub version: String,
    /// The pool of the clients' application, and its version; empty: each client had a connection of its own.
    pub pool: String,
    pub pool_version: String,
    pub clients: u64,
    pub committed: u64,
    /// Errors after the login, by SQLSTATE, FATAL ones too.
    pub errors: BTreeMap<String, u64>,
    pub login_errors: BTreeMap<String, u64>,
    /// Errors in answer to a first statement, but for those after which it may have been committed: to clients that had not begun.
    pub held_told: u64,
    /// Connections that ended, and those of idle clients among them.
    pub dropped: u64,
    /// Open connections that the application's pool threw away, by the SQLSTATE of the error before, or a word.
    pub evicted: BTreeMap<String, u64>,
    pub idle: u64,
    pub idle_lost: u64,
    /// Clients that waited for an answer when the run ended.
    pub hung: u64,
    /// Clients without a commit after the server's recovery.
    pub never: u64,
    pub verdict: Verdict,
    pub seconds: Seconds,
}

/// Seconds from the fault on, or beside the direct writer's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Seconds {
    /// From the fault to the first direct write after the outage; `None`: there was no outage.
    pub own: Option<f64>,
    /// From the outage's end to the first commit of a client.
    pub first: Option<f64>,
    /// From there to the first commit of the client that was the last to have one. `None`: some had none.
    pub last: Option<f64>,
    /// The longest time that a client waited for an answer that was a commit.
    pub wait: f64,
}

/// An outage, as the direct writers saw it; without any length, the moment from which there was one primary again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Outage {
    pub(crate) from: f64,
    pub(crate) to: f64,
}

impl Outage {
    /// The longest time without a direct write, after the fault. With `new`: up to the first write at such a host.
    pub(crate) fn find(writes: &[Write], fault: f64, new: Option<&dyn Fn(usize) -> bool>) -> Option<Self> {
        let mut times: Vec<f64> = writes.iter().map(|write| write.told).collect();
        times.sort_by(f64::total_cmp);
        if let Some(is_new) = new {
            let to = writes.iter().filter(|write| write.told > fault && is_new(write.host)).map(|write| write.told);
            let to = to.min_by(f64::total_cmp)?;
            let from = times.iter().copied().filter(|time| *time < to).max_by(f64::total_cmp)?;
            return Some(Self { from, to });
        }
        let gaps = times.windows(2).filter(|two| two[1] > fault).map(|two| Self { from: two[0], to: two[1] });
        let longest = gaps.max_by(|one, other| (one.to - one.from).total_cmp(&(other.to - other.from)))?;
        (longest.to - longest.from >= GAP_MIN).then_some(longest)
    }

    fn later(self) -> f64 {
        self.from + (self.to - self.from) * LATER_PART
    }
}

impl Outcome {
    /// Counts what clients have seen.
    pub(crate) fn count(&mut self, seen: &[Seen]) {
        let add = |to: &mut BTreeMap<String, u64>, code: &str, count| *to.entry(code.to_owned()).or_default() += count;
        for client in seen {
            client.login_errors.iter().for_each(|(code, count)| add(&mut self.login_errors, code, *count));
            client.evicted.iter().for_each(|(code, count)| add(&mut self.evicted, code, *count));
            self.dropped += client.dropped;
            self.hung += u64::from(client.hung);
            self.idle_lost += u64::from(client.idle_lost);
            for request in &client.requests {
                match &request.told {
                    Told::Committed => self.committed += 1,
                    Told::Failed { code, first } => {
                        add(&mut self.errors, code, 1);
                        self.held_told += u64::from(*first);
                    }
                    // The end of the run cut it short, without an error.
                    Told::Unknown { code } if code == SILENT => {}
                    Told::Ended { code } | Told::Unknown { code } => add(&mut self.errors, code, 1),
                    Told::Nothing => {}
                }
            }
        }
        self.clients = seen.len() as u64;
    }

    /// Times, and who was never served again.
    pub(crate) fn time(&mut self, seen: &[Seen], fault: f64, outage: Option<Outage>) {
        let commits = |client: &Seen| {
            let committed = client.requests.iter().filter(|request| request.told == Told::Committed);
            committed.map(|request| (request.sent, request.told_at)).collect::<Vec<_>>()
        };
        let waits = seen.iter().flat_map(commits).map(|(sent, told)| told - sent);
        self.seconds.wait = waits.max_by(f64::total_cmp).unwrap_or_default();
        let is_idle = |client: &&Seen| client.requests.first().is_some_and(|request| request.kind == Kind::Idle);
        self.idle = seen.iter().filter(is_idle).count() as u64;
        let Some(outage) = outage else { return };
        let after =
            |client: &Seen| commits(client).into_iter().map(|(_, told)| told).find(|told| *told > outage.later());
        let firsts: Vec<Option<f64>> = seen.iter().filter(|client| !is_idle(client)).map(after).collect();
        self.never = firsts.iter().filter(|first| first.is_none()).count() as u64;
        let served = || firsts.iter().flatten().map(|first| first - outage.to);
        // Two primaries are no outage.
        self.seconds.own = (outage.from < outage.to).then_some(outage.to - fault);
        self.seconds.first = served().min_by(f64::total_cmp);
        self.seconds.last = if self.never == 0 { served().max_by(f64::total_cmp) } else { None };
    }

    /// One line of a record.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let Verdict { lost, doubled, ghost, torn, unknown, unknown_done } = self.verdict;
        let Seconds { own, first, last, wait } = self.seconds;
        json!({
            "case": self.case, "contestant": self.contestant, "version": self.version,
            "pool": self.pool, "pool_version": self.pool_version, "clients": self.clients,
            "committed": self.committed, "errors": self.errors, "login_errors": self.login_errors,
            "held_told": self.held_told, "dropped": self.dropped, "evicted": self.evicted,
            "idle": self.idle, "idle_lost": self.idle_lost, "hung": self.hung, "never": self.never, "lost": lost, "doubled": doubled, "ghost": ghost, "torn": torn,
            "unknown": unknown, "unknown_done": unknown_done,
            "own_s": own, "first_s": first, "last_s": last, "wait_s": wait,
        })
    }

    /// A line that [`Outcome::to_json`] made.
    ///
    /// # Errors
    /// A field is missing.
    pub fn of_json(line: &Value) -> Result<Self, String> {
        let text = |key: &str| line[key].as_str().map(str::to_owned).ok_or_else(|| format!("no text {key}"));
        let count = |key: &str| line[key].as_u64().ok_or_else(|| format!("no count {key}"));
        let counts = |key: &str| {
            let each = line[key].as_object().ok_or_else(|| format!("no counts {key}"))?;
            Ok::<_, String>(each.iter().filter_map(|(code, count)| Some((code.clone(), count.as_u64()?))).collect())
        };
        let second = |key: &str| line[key].as_f64();
        // Earlier records have no application's pools.
        let is_later = !line["pool"].is_null();
        let later = |key: &str| if is_later { text(key) } else { Ok(String::new()) };
        let verdict = Verdict {
            lost: count("lost")?,
            doubled: count("doubled")?,
            ghost: count("ghost")?,
            torn: count("torn")?,
            unknown: count("unknown")?,
            unknown_done: count("unknown_done")?,
        };
        let wait = second("wait_s").ok_or("no wait_s")?;
        let seconds = Seconds { own: second("own_s"), first: second("first_s"), last: second("last_s"), wait };
        Ok(Self {
            case: text("case")?,
            contestant: text("contestant")?,
            version: text("version")?,
            pool: later("pool")?,
            pool_version: later("pool_version")?,
            clients: count("clients")?,
            committed: count("committed")?,
            errors: counts("errors")?,
            login_errors: counts("login_errors")?,
            held_told: count("held_told")?,
            dropped: count("dropped")?,
            evicted: if is_later { counts("evicted")? } else { BTreeMap::new() },
            idle: count("idle")?,
            idle_lost: count("idle_lost")?,
            hung: count("hung")?,
            never: count("never")?,
            verdict,
            seconds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seen::Request;

    fn write(host: usize, told: f64) -> Write {
        Write { host, told }
    }

    #[test]
    fn an_outage_ends_with_the_first_write_where_it_is_looked_for() {
        let writes = [write(0, 1.0), write(0, 1.1), write(0, 1.6), write(1, 4.0), write(0, 9.0), write(1, 4.1)];
        let moved = Outage::find(&writes, 1.05, Some(&|host| host != 0));
        assert_eq!(moved, Some(Outage { from: 1.6, to: 4.0 }));
        let longest = Outage::find(&writes, 1.05, None);
        assert_eq!(longest, Some(Outage { from: 4.1, to: 9.0 }));
        assert_eq!(Outage::find(&writes[..2], 1.05, None), None, "a tenth of a second is none");
        assert_eq!(Outage::find(&writes[..3], 1.05, Some(&|host| host != 0)), None);
    }

    #[test]
    fn held_and_told_are_errors_for_those_who_had_not_begun_only() {
        let code = |code: &str| code.to_owned();
        let told = [
            Told::Failed { code: code("40001"), first: true },
            Told::Failed { code: code("40001"), first: false },
            Told::Unknown { code: code("08007") },
            Told::Ended { code: code("57P01") },
        ];
        let request = |told| Request { client: 0, id: 0, kind: Kind::Block, sent: 0.0, told_at: 0.0, told };
        let evicted = [(code("08007"), 1)].into();
        let mut outcome = Outcome::default();
        outcome.count(&[Seen { requests: told.map(request).to_vec(), evicted, ..Seen::default() }]);
        assert_eq!((outcome.held_told, outcome.errors.values().sum::<u64>()), (1, 4));
        assert_eq!(outcome.evicted.get("08007"), Some(&1));
        let again = Outcome::of_json(&outcome.to_json()).expect("it is whole");
        assert_eq!(again.to_json(), outcome.to_json());
    }

    #[test]
    fn a_line_of_an_earlier_record_has_no_pool() {
        let mut line = Outcome { pool: "HikariCP".to_owned(), ..Outcome::default() }.to_json();
        for key in ["pool", "pool_version", "evicted"] {
            line.as_object_mut().expect("it is one").remove(key);
        }
        assert_eq!(Outcome::of_json(&line).expect("it was written so").to_json(), Outcome::default().to_json());
    }

    #[test]
    fn times_are_beside_the_direct_writers() {
        let told = |kind, times: &[f64]| {
            let request =
                |at: &f64| Request { client: 0, id: 0, kind, sent: at - 0.1, told_at: *at, told: Told::Committed };
            Seen { requests: times.iter().map(request).collect(), ..Seen::default() }
        };
        let seen = [told(Kind::Block, &[1.0, 5.5]), told(Kind::Call, &[0.9, 1.1, 6.0]), told(Kind::Idle, &[0.5])];
        let mut outcome = Outcome::default();
        outcome.count(&seen);
        outcome.time(&seen, 0.95, Some(Outage { from: 1.0, to: 5.25 }));
        assert_eq!((outcome.clients, outcome.idle, outcome.committed, outcome.never), (3, 1, 6, 0));
        let round = |value: Option<f64>| value.map(|value| (value * 100.0).round() / 100.0);
        let Seconds { own, first, last, .. } = outcome.seconds;
        assert_eq!((round(own), round(first), round(last)), (Some(4.3), Some(0.25), Some(0.75)));
        let again = Outcome::of_json(&outcome.to_json()).expect("it is whole");
        assert_eq!(again.to_json(), outcome.to_json());
        outcome.time(&[told(Kind::Block, &[1.0])], 0.95, Some(Outage { from: 1.0, to: 5.25 }));
        assert_eq!((outcome.never, outcome.seconds.last), (1, None));
    }
}
