//! The tables of the load, in a schema of their own that goes when the run ends.
//!
//! Promises: touches nothing outside the schema; refuses if a schema of that name is somebody else's; takes over what a run
//! of ours left that was killed; two runs in one database refuse each other.

use std::time::{Duration, Instant};

use crate::interrupt;
use crate::monitor::Monitor;
use crate::progress::Progress;
use crate::scripts::{SCHEMA, tables};

/// The comment by which we know our schema again.
const MARK: &str = "made by pgweir bench; it may be dropped";

/// The advisory lock that one run holds; any fixed number will do.
const LOCK: u64 = 0x7067_7765_6972;

/// How long the connections of one slice may take to go.
const SETTLE: Duration = Duration::from_secs(30);

/// The tables, while they are there.
pub(crate) struct Tables {
    pub(crate) monitor: Monitor,
    pub(crate) scale: u32,
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
        monitor.ask(&format!("CREATE SCHEMA {SCHEMA}"))?;
        let mut made = Self { monitor, scale };
        made.monitor.ask(&format!("COMMENT ON SCHEMA {SCHEMA} IS '{MARK}'"))?;
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

    /// Waits until the last slice's connections are gone: a backend notices late that its client has left.
    pub(crate) fn settle(&mut self, connections: u64) -> Result<(), String> {
        let limit = Instant::now() + SETTLE;
        while self.monitor.clients()? > connections {
            interrupt::check()?;
            if Instant::now() > limit {
                return Err("connections of the last test do not go".to_owned());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        // What is left in use, or a lost connection, is a message and not a failure: the next run drops it.
        if let Err(why) = self.monitor.ask(&format!("DROP SCHEMA {SCHEMA} CASCADE")) {
            eprintln!("the schema {SCHEMA} is still there: {why}");
        }
    }
}
