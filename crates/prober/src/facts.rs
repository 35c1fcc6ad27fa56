//! The question to a host, and the reading of its answer. PostgreSQL 10 and later answer it to any role.
//! Earlier versions have other names for its functions, so that the prober learns no role from them.
//!
//! The timeline is that of the log that is written now, or replayed: `pg_control_checkpoint()` lags until the next checkpoint, which may be
//! that of another timeline.

use std::sync::Arc;

use machine::{HostRole, Origin};

/// One row: whether it is in recovery, which system it is, its timeline, how far its log is written or replayed, and when it was started.
///
/// Functions of the other role are not run: they would fail.
//= pg18 functions-info#FUNCTIONS-INFO-CONTROLDATA
//= pg18 functions-admin#FUNCTIONS-ADMIN-BACKUP-TABLE
pub(crate) const QUESTION: &str = "\
SELECT r, (SELECT system_identifier FROM pg_catalog.pg_control_system()), \
CASE WHEN r THEN (SELECT min_recovery_end_timeline FROM pg_catalog.pg_control_recovery())::text \
ELSE pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()), 8) END, \
CASE WHEN r THEN pg_catalog.pg_last_wal_replay_lsn() ELSE pg_catalog.pg_current_wal_lsn() END, \
extract(epoch FROM pg_catalog.pg_postmaster_start_time()) \
FROM pg_catalog.pg_is_in_recovery() r";

/// The answer of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    pub role: HostRole,
    /// The number that a cluster gets when it is made, and its copies have, too.
    pub system: Option<u64>,
    /// Each promotion begins another one.
    pub timeline: Option<u32>,
    /// How far its log is written, or replayed: bytes since the beginning.
    pub position: Option<u64>,
    /// When its postmaster was started, as PostgreSQL shows it.
    pub started: Option<Arc<str>>,
}

impl Facts {
    /// The values by which the coordinator decides.
    pub(crate) fn origin(&self) -> Origin {
        let Facts { role, system, timeline, ref started, .. } = *self;
        Origin { role, system, timeline, started: started.clone() }
    }

    /// Reads the row. `None`: it is not PostgreSQL's.
    pub(crate) fn read(row: &[Option<String>]) -> Option<Facts> {
        let [in_recovery, system, timeline, position, started] = row else { return None };
        let role = match in_recovery.as_deref()? {
            "t" => HostRole::Standby,
            "f" => HostRole::Primary,
            _ => return None,
        };
        // The name of a log file begins with it, in hexadecimal digits.
        let radix = if role == HostRole::Primary { 16 } else { 10 };
        let timeline = timeline.as_deref().and_then(|text| u32::from_str_radix(text, radix).ok());
        Some(Facts {
            role,
            system: system.as_deref().and_then(|text| text.parse().ok()),
            // A standby that has replayed nothing yet has none.
            timeline: timeline.filter(|timeline| *timeline > 0),
            position: position.as_deref().and_then(position_of),
            started: started.as_deref().map(Arc::from),
        })
    }
}

/// `16/B374D848` in bytes.
//= pg18 datatype-pg-lsn
fn position_of(text: &str) -> Option<u64> {
    let (high, low) = text.split_once('/')?;
    let [high, low] = [high, low].map(|part| u32::from_str_radix(part, 16).ok());
    Some(u64::from(high?) << 32 | u64::from(low?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(columns: [Option<&str>; 5]) -> Vec<Option<String>> {
        columns.map(|column| column.map(str::to_owned)).to_vec()
    }

    #[test]
    fn a_primary_and_its_standby_are_read() {
        let primary = row([Some("f"), Some("7400000000000000001"), Some("0000001A"), Some("16/B374D848"), Some("1.5")]);
        let read = Facts::read(&primary).expect("a row of PostgreSQL");
        assert_eq!((read.role, read.timeline), (HostRole::Primary, Some(26)));
        assert_eq!((read.system, read.position), (Some(7_400_000_000_000_000_001), Some(0x16_B374_D848)));
        let standby = row([Some("t"), Some("7"), Some("26"), Some("0/10"), None]);
        let read = Facts::read(&standby).expect("a row of PostgreSQL");
        assert_eq!((read.role, read.timeline, read.position), (HostRole::Standby, Some(26), Some(16)));
    }

    #[test]
    fn what_is_not_known_is_none() {
        let fresh = Facts::read(&row([Some("t"), None, Some("0"), None, None])).expect("a row of PostgreSQL");
        assert_eq!((fresh.system, fresh.timeline, fresh.position), (None, None, None));
        assert_eq!(Facts::read(&row([Some("maybe"), None, None, None, None])), None);
        assert_eq!(Facts::read(&row([None; 5])), None);
        assert_eq!(Facts::read(&[]), None);
    }
}
