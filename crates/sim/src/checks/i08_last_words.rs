//! I8: no session is linked to a server whose final error had arrived before the round began: the client would get an
//! error that is not its own. Therefore events of servers are delivered before those of clients.

use units::{ConnId, Kind};

use crate::course::Finding;
use crate::link::Link;

/// Bytes are sent to `conn` while clients' events are delivered.
pub(crate) fn check(link: &Link, now: u64, conn: ConnId, bytes: &[u8]) -> Result<(), Finding> {
    if conn.kind() != Kind::Server || bytes.first() == Some(&wire::frontend::tag::TERMINATE) {
        return Ok(());
    }
    // If reading had paused for a slow client, the error could not be read before.
    let readable = link.pooler.read && link.pooler.read_from < now;
    let have_come = link.peer.last_words_at.is_some_and(|at| at < now);
    if readable && have_come && !link.up.readable().is_empty() {
        return Err((8, format!("a client's statement goes to {conn:?}, whose last words lie unread")));
    }
    Ok(())
}
