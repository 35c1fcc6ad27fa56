//! I8: a client is not handed to a server whose last words had come before the round began: it would be told somebody
//! else's end. Hence servers are told of before clients.

use units::{ConnId, Kind};

use crate::network::LinkId;
use crate::world::World;

impl World {
    pub(crate) fn check_last_words(&mut self, id: LinkId, conn: ConnId, bytes: &[u8]) {
        if !self.serving_clients
            || conn.kind() != Kind::Server
            || bytes.first() == Some(&wire::frontend::tag::TERMINATE)
        {
            return;
        }
        let Some(link) = self.network.get(id) else { return };
        // Where reading had paused for a client that reads slowly, the words could not be read before.
        let readable = link.read && link.read_from < self.now;
        let unread = readable && link.last_words_at.is_some_and(|at| at < self.now) && !link.up.readable().is_empty();
        if unread {
            self.fail(8, format!("a client's statement goes to {conn:?}, whose last words lie unread"));
        }
    }
}
