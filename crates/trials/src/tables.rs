//! The tables of the load, in a schema of their own that goes when the run ends.
//!
//! Promises: touches nothing outside the schema; refuses if a schema of that name is somebody else's; takes over what a run
//! of ours left that was killed; two runs in one database refuse each other.

use std::time::{Duration, Instant};

use ask::Monitor;
use measure::interrupt;

use crate::progress::Progress;
use crate::scripts::{SCHEMA, tables};
use crate::target::ours;

/// The comment by which we know our schema again.
const MARK: &str = "made by pgweir bench; it may be dropped";

/// The advisory lock that one run holds; any fixed number will do.
const LOCK: u64 = 0x7067_7765_6972;

/// How long the connections of one slice may stay without one fewer of them.
const SETTLE: Duration = Duration::from_secs(10);

/// The tables, while they are there.
pub(crate) struct Tables {
    pub(crate) monitor: Monitor,
    pub(crate) scale: u32,
    /// When the last slice began, by PostgreSQL's clock in seconds; what has connected since may be ours.
    pub(crate) since: f64,
}

impl Tables {
    /// Makes them.
    ///
    /// # Errors
    /// Another run is at work, the schema is somebody else's, or PostgreSQL refuses.
    pub(crate) fn make(mut monitor: Monitor, scale: u32, progress: &Progress) -> Result<Self, String> {
        if monitor.ask(&format!("SELECT pg_try_advisory_lock({LOCK})"))? != ["t"] {
            return Err("another pgweir bench is at work in this database".to_owned());
        }
        let comment = format!(
            "SELECT coalesce(obj_description(oid, 'pg_namespace'), '') FROM pg_namespace WHERE nspname = '{SCHEMA}'"
        );
        match monitor.ask(&comment)?.first() {
            Some(mark) if mark == MARK => drop(monitor.ask(&format!("DROP SCHEMA {SCHEMA} CASCADE"))?),
            Some(_) => {
                return Err(format!("there is a schema {SCHEMA} that pgweir bench has not made; it is left alone"));
            }
            None => {}
        }
        // In one message both are done or none is: a schema without its mark nobody would know again.
        //= pg18 protocol-flow#PROTOCOL-FLOW-MULTI-STATEMENT
        monitor.ask(&format!("CREATE SCHEMA {SCHEMA}; COMMENT ON SCHEMA {SCHEMA} IS '{MARK}'"))?;
        // A connection that keeps a table of ours costs a slice, and not the run.
        monitor.ask("SET lock_timeout = '30s'")?;
        let since = monitor.now()?;
        let mut made = Self { monitor, scale, since };
        let mut said = String::new();
        for (words, sql) in tables(scale) {
            interrupt::check()?;
            if words != said {
                progress.doing(&format!("making tables: {words}"));
                said = words;
            }
            made.monitor.ask(&sql)?;
        }
        Ok(made)
    }

    /// As pgbench does before each run: the two small tables are vacuumed, the history is emptied.
    pub(crate) fn freshen(&mut self) -> Result<(), String> {
        for sql in ["VACUUM @.branches", "VACUUM @.tellers", "TRUNCATE @.history"] {
            self.monitor.ask(&sql.replace('@', SCHEMA))?;
        }
        Ok(())
    }

    /// Waits until the last slice's connections are gone: a backend notices late that its client has left. Those that do not go
    /// are taken for somebody else's from now on; what is to be said of them.
    pub(crate) fn settle(&mut self) -> Result<Option<String>, String> {
        let count = format!("SELECT count(*) FROM ({}) ours", ours(self.since));
        let (mut fewest, mut since) = (u64::MAX, Instant::now());
        let left = loop {
            interrupt::check()?;
            let left = self.monitor.number(&count)?;
            if left < fewest {
                (fewest, since) = (left, Instant::now());
            }
            if left == 0 || since.elapsed() > SETTLE {
                break left;
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        self.since = self.monitor.now()?;
        let words = || format!("{left} connections that look like this program's were there all the time");
        Ok((left > 0).then(words))
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        // What is left in use, or a lost connection, is a message and not a failure: the next run drops it.
        // Backends of a load that was broken off may keep its tables for a while: they are waited for.
        let dropped = self.monitor.ask("SET lock_timeout = 0");
        let dropped = dropped.and_then(|_| self.monitor.ask(&format!("DROP SCHEMA {SCHEMA} CASCADE")));
        if let Err(why) = dropped {
            eprintln!("the schema {SCHEMA} is still there: {why}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::played::Played;

    #[test]
    fn the_schema_is_never_there_without_its_mark() {
        let played = Played::new(&[("pg_try_advisory_lock", "t"), ("clock_timestamp", "1.5")]);
        let asked = played.asked.clone();
        let progress = Progress::new(Duration::ZERO);
        drop(Tables::make(played.monitor(), 1, &progress).expect("it is made"));
        let asked = asked.lock().expect("nobody panics with it");
        let makes: Vec<_> = asked.iter().filter(|sql| sql.contains("CREATE SCHEMA")).collect();
        let marks = makes.iter().filter(|sql| sql.contains("COMMENT ON SCHEMA") && sql.contains(MARK)).count();
        assert_eq!((makes.len(), marks), (1, 1), "{asked:?}");
    }
}
