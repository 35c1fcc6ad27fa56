//! Lines for the log about a session or a server.

use link::server::CloseReason;
use machine::observe::{About, Fact, Level, Topic};
use units::ConnId;

use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::step::Step;

pub(crate) fn log_session(
    sessions: &Sessions,
    step: &mut Step<'_>,
    conn: ConnId,
    level: Level,
    topic: Topic,
    text: String,
) {
    let session = &sessions[conn];
    step.actions.tell(Fact::new(level, topic, session.about(conn), text));
}

pub(crate) fn log_server(
    servers: &Servers,
    pools: &Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    level: Level,
    topic: Topic,
    text: String,
) {
    let server = &servers[conn];
    let pool = &pools[server.pool()];
    let about = About::Server {
        conn,
        name: server.identity().name(),
        database: pool.key().database.clone(),
        user: pool.key().user.clone(),
        address: server.identity().address().clone(),
    };
    let fact = Fact::new(level, topic, about, text);
    step.actions.tell(fact);
}

pub(crate) fn words_of_end(servers: &Servers, step: &Step<'_>, conn: ConnId, why: &CloseReason) -> String {
    format!("closing because: {why} (age={}s)", age(servers, step, conn))
}

fn age(servers: &Servers, step: &Step<'_>, conn: ConnId) -> u64 {
    servers.get(conn).map_or(0, |server| step.now.since(server.identity().connected_at()).as_secs())
}
