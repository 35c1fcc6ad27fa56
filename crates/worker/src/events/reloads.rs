//! What a reload changes for existing sessions and servers.

use connections::databases::Database;
use link::pool::Pool;
use link::session::State;
use machine::Settings;
use machine::sabotage::{Fault, does};
use units::{ConnId, limits};

use crate::tables::notices::DATABASE_REMOVED;
use crate::tables::{Tables, timers};

const _: () = assert!(limits::POOLS_MAX < u32::MAX as usize);

/// A shorter timeout holds at once. A session whose database was removed is closed, unless it is linked.
pub(crate) fn reconfigure_session(tables: &mut Tables, conn: ConnId) {
    // It may have ended since the reload began, after the end of another session gave it what it waited for.
    let Some(session) = tables.sessions.get(conn) else { return };
    let removed = tables.pools.get(session.pool).is_some_and(|pool| pool.is_removed());
    let free = matches!(session.state(), State::Idle { .. } | State::Waiting { .. } | State::Welcoming { .. });
    if removed && free && !does(&tables.settings, Fault::RemoveSilently) {
        tables.agenda.refuse(conn, wire::sqlstate::ADMIN_SHUTDOWN, DATABASE_REMOVED);
    } else {
        timers::arm_session(tables, conn);
    }
}

/// Whether a change of a database's entry makes its open servers unusable.
pub(crate) fn concerns_servers(new: &Database, old: &Database) -> bool {
    new.hosts != old.hosts
        || new.dbname != old.dbname
        || new.forced_user != old.forced_user
        || new.password != old.password
        || new.connect_query != old.connect_query
        || new.startup != old.startup
}

/// Whether the password of the pool's user, as auth_file has it, is another one now. The database's own goes before it.
pub(crate) fn has_another_password(pool: &Pool, new: &Settings, old: &Settings) -> bool {
    let user = &*pool.key.user;
    pool.database.password.is_none() && new.secrets.get(user) != old.secrets.get(user)
}
