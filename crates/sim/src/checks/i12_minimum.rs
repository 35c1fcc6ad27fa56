//! I12: a pool has min_pool_size servers, some seconds after the last obstacle is gone. Checked for pools that exist
//! from the beginning, as those of a forced user, where no cap, failure, short lifetime or connect timeout closes servers again.

use std::collections::BTreeMap;
use std::time::Duration;

use connections::databases::TargetSessionAttrs;
use units::{PoolId, limits};

use super::WorldView;
use crate::course::{Finding, Stage};

/// For each pool three servers are opened in a second; opening all may take so long, including the logins of other
/// pools.
const OPENING_US: u64 = 5_000_000;

/// With a shorter lifetime the first servers may be gone before the last one comes.
const LIFETIME_MIN: Duration = Duration::from_secs(10);

/// Since when each pool has fewer.
#[derive(Debug, Default)]
pub(crate) struct Minimum {
    short_since: BTreeMap<PoolId, u64>,
}

impl Minimum {
    /// After a round of the coordinator.
    pub(super) fn check(&mut self, view: &WorldView<'_>) -> Result<(), Finding> {
        let (plan, settings) = (view.plan, &view.plan.settings);
        let capped = settings.global.pools.max_user_connections > 0
            || settings.global.pools.max_server_connections > 0
            || settings.databases.values().any(|database| database.settings.max_db_connections.is_some());
        let is_short_lived = settings.global.servers.server_lifetime < LIFETIME_MIN;
        let takes = Duration::from_micros(2 * plan.weather.connect_us());
        let is_impatient = settings.global.servers.server_connect_timeout.is_some_and(|timeout| timeout < takes);
        let is_stopped = plan.stop.is_some() && view.stage != Stage::Working;
        if !plan.promises.keeps_minimum
            || capped
            || is_short_lived
            || is_impatient
            || is_stopped
            || settings.global.tests.chaos_close
            || plan.is_changed()
        {
            return Ok(());
        }
        let coordinator = view.machines.coordinator();
        let timeout = settings.global.servers.server_connect_timeout.unwrap_or_default()
            + settings.global.servers.server_login_retry;
        let limit = OPENING_US + timeout.as_micros() as u64;
        let role_us = limits::ROLE_IS_KNOWN.as_micros() as u64;
        let mut wrong = None;
        for (pool, key) in coordinator.pools() {
            let Some(entry) = settings.databases.get(&*key.database) else { continue };
            let min = entry.settings.min_pool_size.unwrap_or(0).min(coordinator.size(pool));
            let is_forced = entry.forced_user.as_deref() == Some(&*key.user);
            let since = &mut self.short_since;
            if !is_forced || coordinator.held(pool) >= min {
                since.remove(&pool);
                continue;
            }
            let short_since = (*since.entry(pool).or_insert(view.now)).max(view.trouble_at.unwrap_or(0));
            // The only host of a standby's role may have been the primary, and is not tried while that is known.
            let wants_standby =
                matches!(plan.wanted(&key.database), TargetSessionAttrs::ReadOnly | TargetSessionAttrs::Standby);
            let limit = limit + if wants_standby && !plan.standbys.is_empty() { role_us } else { 0 };
            if view.now > short_since + limit {
                let held = coordinator.held(pool);
                wrong =
                    wrong.or(Some(format!("{key:?} has {held} servers since {short_since}, min_pool_size is {min}")));
            }
        }
        wrong.map_or(Ok(()), |text| Err((12, text)))
    }
}
