//! I8: a client is not handed to a server whose last words had come before the round began: it would be told somebody
//! else's end. Hence servers are told of before clients.

use units::{ConnId, Kind};

use crate::course::Finding;
use crate::link::Link;

/// Something is sent to `conn` while clients are served.
pub(crate) fn check(link: &Link, now: u64, conn: ConnId, bytes: &[u8]) -> Result<(), Finding> {
    if conn.kind() != Kind::Server || bytes.first() == Some(&wire::frontend::tag::TERMINATE) {
        return Ok(());
    }
    // Where reading had paused for a client that reads slowly, the words could not be read before.
    let readable = link.pooler.read && link.pooler.read_from < now;
    let have_come = link.peer.last_words_at.is_some_and(|at| at < now);
    if readable && have_come && !link.up.readable().is_empty() {
        return Err((8, format!("a client's statement goes to {conn:?}, whose last words lie unread")));
    }
    Ok(())
}
