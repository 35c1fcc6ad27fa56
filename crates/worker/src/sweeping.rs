//! Side effects were found that nobody knew of: something was defined past the pooler.
//!
//! ```text
//!   the poll finds them ──► every server of the pool that has run anything since the last poll found nothing
//!                            idle ──► cleared ──► idle
//!                            linked, draining, busy ──► cleared when it is free
//!                            and closed instead, where they leave what cannot be cleared
//! ```
//!
//! What a session has set through the pooler is kept as ever: it is set again where it goes on. A setting that came out of such a
//! function, which its session never knew to be followed, is lost, since nobody can tell whose it was.

use connections::server::{Group, Server};
use machine::Turn;
use session_state::catalogue::News;
use session_state::state::Pins;
use units::PoolId;

use crate::Worker;

const WHY: &str = "something was defined past the pooler that leaves what cannot be cleared";

impl Worker {
    /// What was learned by one pool is known to all of the same database here; and servers are cleared.
    pub(super) fn spread_names(&mut self, turn: &mut Turn<'_>, id: PoolId) {
        let Some(pool) = self.pool(id) else { return };
        let Some(lesson) = pool.names.known.lesson() else { return };
        let database = std::sync::Arc::clone(&pool.database);
        let mut swept = Vec::new();
        for pool in self.pools.iter_mut() {
            let is_same =
                pool.database.hosts == database.hosts && pool.database.name_at_server() == database.name_at_server();
            if pool.id != id && is_same {
                pool.names.known.take_over(&lesson);
            }
            if let Some(news) = pool.names.known.take_news().filter(|_| pool.id == id || is_same) {
                swept.push((pool.id, news));
            }
        }
        for (pool, news) in swept {
            self.sweep(turn, pool, news);
        }
    }

    fn sweep(&mut self, turn: &mut Turn<'_>, id: PoolId, news: News) {
        for conn in self.servers.ids() {
            let Some(server) = self.servers.get_mut(conn).filter(|server| server.pool == id) else { continue };
            if !taint(server, news) || server.state.group() != Group::Idle {
                continue;
            }
            match server.end.close_needed {
                Some(why) => self.close_server(turn, conn, why),
                None => {
                    (server.traces.tainted, server.traces.soiled) = (false, true);
                    self.reset_or_free(turn, conn);
                }
            }
        }
    }
}

/// Marks a server that may have what was left behind. Whether it may.
pub(super) fn taint(server: &mut Server, news: News) -> bool {
    let is_linked = server.session().is_some();
    if !is_linked && server.work.worked_at < news.since {
        return false;
    }
    // Settings made up inside are cleared with all others.
    let lasting = Pins::of_hidden(news.hidden).lasting() & !Pins::DYNAMIC;
    if !lasting.is_empty() {
        server.end.close_needed = Some(WHY);
    }
    server.traces.tainted = true;
    true
}
