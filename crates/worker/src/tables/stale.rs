//! Which free servers have idled for so long that they are checked before their next use, and shown as `used`.

use std::time::Duration;

use link::server::Server;
use machine::Settings;
use units::Time;

/// The time for which a login proves that a server is there. PgBouncer looks for idle servers three times a second.
const LOGIN_COUNTS_FOR: Duration = Duration::from_millis(333);

/// A free server was idle for so long that `server_check_query` is sent first. One that no session has used has shown by its login that it is there:
/// with `server_check_delay = 0`, too, it counts as such for a moment, as in PgBouncer.
#[inline]
pub(crate) fn is_stale(now: Time, server: &Server, settings: &Settings) -> bool {
    is_stale_since(now, server, server.work().since(), settings)
}

/// As [`is_stale`], for a server that has idled since `idle_since`.
#[inline]
pub(crate) fn is_stale_since(now: Time, server: &Server, idle_since: Time, settings: &Settings) -> bool {
    let delay = settings.global.servers.server_check_delay;
    let delay = if server.work().uses() == 0 { delay.max(LOGIN_COUNTS_FOR) } else { delay };
    now > idle_since + delay
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::scene::Scene;

    #[test]
    fn a_server_that_has_just_logged_in_is_not_checked_first() {
        let mut scene = Scene::new(|settings| settings.global.servers.server_check_delay = Duration::ZERO);
        let conn = scene.idle_server(scene.now);
        let mut is_checked = |uses: u32, idle: Duration| {
            (scene.tables.servers[conn].work().uses()..uses)
                .for_each(|_| scene.tables.servers[conn].work_mut().count_use());
            is_stale(scene.now + idle, &scene.tables.servers[conn], &scene.plan.settings)
        };
        let moment = Duration::from_millis(1);
        assert!(!is_checked(0, moment) && is_checked(0, LOGIN_COUNTS_FOR + moment));
        assert!(is_checked(1, moment) && !is_checked(1, Duration::ZERO));
    }
}
