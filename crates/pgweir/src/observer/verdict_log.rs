//! Lines in the log for each pool whose clients wait long: the verdict when it begins, when its root or kind changes, and once a `stats_period` while
//! it lasts; and a line at its end.
//!
//! Promises: of one pool at most a line in [`BETWEEN`], and at most [`LINES_MAX`] lines a look, with one about those that were left out.

use std::collections::BTreeMap;
use std::mem::{Discriminant, discriminant};
use std::time::Duration;

use activity::verdict::{Detail, Why};
use activity::{At, Verdict};
use machine::Level;
use settings::Global;
use units::PoolKey;
use units::names::shown;

/// The shortest time between two lines of one pool. A queue that comes and goes within it is one trouble.
const BETWEEN: Duration = Duration::from_secs(10);

/// Hundreds of pools may wait behind one root.
const LINES_MAX: usize = 20;

/// The pools in trouble.
#[derive(Default)]
pub(super) struct VerdictLog(BTreeMap<PoolKey, Logged>);

struct Logged {
    began: At,
    /// The last moment at which it was in trouble.
    seen: At,
    line: LastLine,
}

/// The last line of a pool.
struct LastLine {
    at: At,
    cause: (Discriminant<Why>, Option<String>),
}

impl VerdictLog {
    /// The lines for the verdicts of one moment.
    pub(super) fn seen(&mut self, at: At, verdicts: &[Verdict], settings: &Global) -> Vec<(Level, String)> {
        if !settings.log.log_verdicts {
            self.0.clear();
            return Vec::new();
        }
        let period = settings.console.stats_period.max(BETWEEN);
        let (mut lines, mut left_out) = (Vec::new(), 0_usize);
        for (verdict, trouble) in verdicts.iter().filter_map(|verdict| Some((verdict, verdict.trouble()?))) {
            let cause = (discriminant(&trouble.why), trouble.root(Detail::WithoutStatements));
            let known = self.0.get_mut(&trouble.pool);
            let is_due = known.as_ref().is_none_or(|logged| logged.line.is_followed(at, &cause, period));
            let is_written = is_due && lines.len() < LINES_MAX;
            if is_written {
                lines.push((Level::Warning, format!("why: {}", verdict.sentence(Detail::Full))));
            } else if is_due {
                left_out += 1;
            }
            let line = LastLine { at, cause };
            match known {
                Some(logged) if is_written => (logged.seen, logged.line) = (at, line),
                Some(logged) => logged.seen = at,
                // Without a line it begins with the next moment.
                None if is_written => _ = self.0.insert(trouble.pool.clone(), Logged { began: at, seen: at, line }),
                None => {}
            }
        }
        let ended = self.ended(at);
        let room = LINES_MAX.saturating_sub(lines.len());
        left_out += ended.len().saturating_sub(room);
        lines.extend(ended.into_iter().take(room));
        if left_out > 0 {
            lines.push((Level::Warning, format!("why: {left_out} lines about more pools were left out: SHOW WHY")));
        }
        lines
    }

    /// Forgets the pools that have not been in trouble for a while.
    fn ended(&mut self, at: At) -> Vec<(Level, String)> {
        let is_over = |logged: &Logged| since(logged.seen, at).is_none_or(|since| since >= BETWEEN);
        let ended: Vec<(PoolKey, Logged)> = self.0.extract_if(.., |_, logged| is_over(logged)).collect();
        let line = |(pool, logged): (PoolKey, Logged)| {
            let (database, user) = (shown(&pool.database), shown(&pool.user));
            let lasted = since(logged.began, logged.seen).unwrap_or_default().as_secs();
            let text = format!("why: no client of {database}/{user} waits long any more; some did for {lasted} s");
            (Level::Log, text)
        };
        ended.into_iter().map(line).collect()
    }
}

impl LastLine {
    /// Whether it is time for another line.
    fn is_followed(&self, at: At, cause: &(Discriminant<Why>, Option<String>), period: Duration) -> bool {
        let wait = if self.cause == *cause { period } else { BETWEEN };
        since(self.at, at).is_none_or(|since| since >= wait)
    }
}

/// `None`: the clock was set back.
fn since(before: At, at: At) -> Option<Duration> {
    at.0.checked_sub(before.0).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use activity::verdict::{Servers, Trouble};

    use super::*;

    const HELD: &str = "why: 3 clients of shop/web wait, because they may not have a server: its 2 servers are all idle. A limit or a PAUSE holds \
                        them back: SHOW LIMITS, SHOW CLASSES, SHOW DATABASES.";

    fn trouble(user: &str, why: Why) -> Verdict {
        Verdict::Trouble(Box::new(Trouble {
            pool: PoolKey { database: "shop".into(), user: user.into() },
            waiting: 3,
            longest: Duration::from_secs(2),
            servers: Servers { open: 2, idle: 2, ..Servers::default() },
            why,
            deadlock: None,
        }))
    }

    /// The lines of each second, from 0, by their seconds.
    fn lines(seconds: u64, at: impl Fn(u64) -> Vec<Verdict>) -> Vec<(u64, String)> {
        let (mut log, settings) = (VerdictLog::default(), Global::default());
        let of = |second: u64| {
            let found = log.seen(At(second * 1000), &at(second), &settings);
            found.into_iter().map(move |(_, line)| (second, line)).collect::<Vec<_>>()
        };
        (0..seconds).flat_map(of).collect()
    }

    fn beginnings(lines: &[(u64, String)]) -> Vec<(u64, &str)> {
        lines.iter().map(|(second, line)| (*second, line.split(',').next().unwrap_or_default())).collect()
    }

    #[test]
    fn a_trouble_has_a_line_when_it_begins_one_a_minute_and_one_when_it_is_over() {
        let found = lines(200, |second| if second < 90 { vec![trouble("web", Why::Held)] } else { Vec::new() });
        assert_eq!(found[0], (0, HELD.to_owned()));
        assert_eq!(found[1], (60, HELD.to_owned()));
        assert_eq!(found[2], (99, "why: no client of shop/web waits long any more; some did for 89 s".to_owned()));
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn another_cause_has_a_line_after_ten_seconds_and_a_short_calm_has_none() {
        let of = |second: u64| match second {
            0..=2 | 30..=33 => vec![trouble("web", Why::Held)],
            6..=27 => vec![trouble("web", Why::Standby)],
            _ => Vec::new(),
        };
        let found = lines(60, of);
        assert_eq!(
            beginnings(&found),
            [
                (0, "why: 3 clients of shop/web wait"),
                (10, "why: 3 clients of shop/web wait"),
                (30, "why: 3 clients of shop/web wait"),
                (43, "why: no client of shop/web waits long any more; some did for 33 s"),
            ]
        );
        assert!(found[1].1.contains("synchronous standby"), "{}", found[1].1);
    }

    #[test]
    fn hundreds_of_pools_have_twenty_lines_and_a_count() {
        let all = || (0..300).map(|number| trouble(&format!("user{number}"), Why::Held)).collect::<Vec<_>>();
        let found = lines(1, |_| all());
        assert_eq!(found.len(), LINES_MAX + 1);
        assert_eq!(found[LINES_MAX].1, "why: 280 lines about more pools were left out: SHOW WHY");
        // They have their lines at the next moments.
        let found = lines(16, |_| all());
        let beginning = |line: &&(u64, String)| line.1.starts_with("why: 3 clients of shop/user");
        assert_eq!(found.iter().filter(beginning).count(), 300);
    }

    #[test]
    fn a_clock_that_is_set_back_silences_nothing() {
        let (mut log, settings) = (VerdictLog::default(), Global::default());
        let mut seen = |second: u64, verdicts: &[Verdict]| log.seen(At(second * 1000), verdicts, &settings).len();
        let held = [trouble("web", Why::Held)];
        assert_eq!((seen(7200, &held), seen(3600, &held), seen(3601, &held)), (1, 1, 0));
        assert_eq!((seen(3605, &[]), seen(3612, &[])), (0, 1));
        assert_eq!((seen(3613, &held), seen(10, &[])), (1, 1), "an hour back: it is over");
    }
}
