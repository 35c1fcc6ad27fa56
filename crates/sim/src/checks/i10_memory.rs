//! I10: what is kept for a connection is bounded.

use pooling::{ConnId, limits};

use crate::network::{LinkId, Peer};
use crate::world::World;

/// The longest answer of the console in this world: 200 clients, and as many servers as they could have.
const CONSOLE_LEN_MAX: usize = 200_000;

impl World {
    pub(crate) fn check_backlog(&mut self, link: LinkId, conn: ConnId, len: usize) {
        let on_console = match self.network.get(link).map(|link| link.peer) {
            Some(Peer::Client(index, _)) => {
                self.clients[index as usize].as_ref().is_some_and(|client| client.console.is_some())
            }
            _ => false,
        };
        // One answer of the console's may be as long as what it shows.
        let limit = if on_console { CONSOLE_LEN_MAX } else { limits::BACKLOG_LEN_MAX };
        if len > limit {
            self.fail(10, format!("{len} bytes are kept for {conn:?}"));
        }
    }
}
