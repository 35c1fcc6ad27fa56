//! What queries of the configuration's own change on a server: `server_reset_query` and `server_check_query`.
//!
//! ```text
//!   SELECT 1                 nothing
//!   RESET ALL; RESET ROLE    its state is what they leave, and it gets again what it began with
//!   DISCARD ALL              the same; connect_query runs again if it has set more than has names
//!   anything else            nobody knows: DISCARD ALL follows
//! ```
//!
//! Where texts are not read, only what the server began with is brought back.

use link::server::Chore;
use session_state::catalogue::Known;
use session_state::state::{Effects, rules_by};
use sql::Text;
use units::ConnId;

use crate::servers::chores;
use crate::tables::owners::{Pools, Servers};
use crate::tables::step::Step;

/// Sends one of them to a server without a session.
pub(crate) fn send(
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    server_id: ConnId,
    chore: Chore,
    query: &str,
) {
    note(servers, pools, step, server_id, chore, query.as_bytes());
    chores::start_chore(servers, pools, step, server_id, chore, query.as_bytes());
}

fn note(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, server_id: ConnId, chore: Chore, query: &[u8]) {
    let server = &mut servers[server_id];
    let pool = &mut pools[server.pool()];
    let rules = rules_by(server.kept().parameters()).unwrap_or_default();
    let effects = Effects::read(&Text::new(query, rules), &step.caches.tracked);
    // A check is sent to servers that were idle for long, when the catalogue may be too old to be asked.
    let (mut unasked, is_check) = (Known::default(), chore == Chore::Check);
    let known = if is_check { &mut unasked } else { pool.known_mut() };
    let is_harmless =
        effects.are_none() && !step.caches.reader.read(query, server.kept().parameters(), known).is_active();
    server.own_query_sent(&effects, is_harmless, pool.rules().follows());
}
