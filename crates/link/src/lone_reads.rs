//! A statement that is proved to only read, outside of a transaction block, is sent again to another server when its own is lost, if its client has
//! got nothing of the answer: `retry_reads`.
//!
//! The request is kept at its server while it is under way: a Query, or a batch of the extended protocol up to its Sync, which counts as one. The
//! statement is sent again once: if it crashes PostgreSQL, it would crash the next one, too.
//!
//! "Proved to only read" is what [`Access::ReadOnly`] says, by which a client is told 08006 and not 08007 when its server is lost.

use session_state::access::Access;
use units::limits;
use wire::Header;
use wire::backend::Status;
use wire::frontend::tag;

use crate::link::Link;
use crate::server::Server;
use crate::session::Session;

impl Link<'_> {
    /// These messages are about to be read. Keeps them if they are one request, and all that the client waits for.
    pub fn keep_request(&mut self, messages: &[u8]) {
        if !self.pool.rules.retries_reads {
            return;
        }
        let (session, server) = (&mut *self.session, &mut *self.server);
        server.request.messages.clear();
        let is_first = server.transaction.status == Status::Idle
            && !server.ledger.owed().awaits_own_ready()
            && !server.ledger.is_open()
            && session.incoming.is_between();
        if !is_first || messages.len() > limits::CHUNK_LEN_MAX || !is_one_request(messages) {
            return;
        }
        if session.facts.retries() > 0 {
            return;
        }
        server.request.messages.extend_from_slice(messages);
        server.request.owed_before = server.ledger.owed_ever();
        server.request.sent_before = server.lease.tally.bytes();
    }
}

/// The messages were read: what waits in the inbox was not sent.
pub fn request_was_read(session: &Session, server: &mut Server) {
    if server.request.messages.is_empty() {
        return;
    }
    if !session.incoming.is_between() {
        server.request.messages.clear();
    }
    server.request.owed_after = server.ledger.owed_ever();
}

/// Puts the request under way into the session's inbox again, if it is a lone read of whose answer nothing was sent to the client. Its server is lost.
/// `sends_writes`: planted, what it does is not asked.
pub fn send_again(server: &Server, session: &mut Session, sends_writes: bool) -> bool {
    let (kept, ledger) = (&server.request, &server.ledger);
    let is_last = !kept.messages.is_empty() && ledger.owed_ever() == kept.owed_after;
    let is_unanswered = ledger.answered_ever() <= kept.owed_before && server.lease.tally.bytes() == kept.sent_before;
    let transaction = &server.transaction;
    let is_alone = transaction.status == Status::Idle && !transaction.answer_failed && !transaction.answer_tagged;
    // Its client does not want the answer any more.
    let is_cancelled = server.facts.cancel.is_any();
    if !is_last || !is_unanswered || !is_alone || is_cancelled || ledger.is_doubtful() {
        return false;
    }
    match &ledger.requests()[..] {
        [request] if (request.access == Access::ReadOnly || sends_writes) && !request.is_open => {
            session.incoming.put_first(&kept.messages);
            session.facts.set_retries(1);
            true
        }
        _ => false,
    }
}

/// Whether these are one Query, or one batch with its Sync, and nothing else.
fn is_one_request(messages: &[u8]) -> bool {
    let mut rest = messages;
    loop {
        let Ok(Some(header)) = Header::parse(rest) else { return false };
        let Some((_, behind)) = rest.split_at_checked(header.total_len()) else { return false };
        match header.tag {
            tag::QUERY => return rest.len() == messages.len() && behind.is_empty(),
            tag::SYNC => return behind.is_empty(),
            tag::PARSE | tag::BIND | tag::DESCRIBE | tag::EXECUTE | tag::CLOSE | tag::FLUSH => rest = behind,
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::frontend::{Execute, Query, encode_flush, encode_sync};

    use super::*;

    fn messages(kinds: &str) -> Vec<u8> {
        let mut out = Vec::new();
        for kind in kinds.bytes() {
            match kind {
                b'Q' => Query { text: b"select 1" }.encode(&mut out),
                b'E' => Execute { portal: b"", rows_max: 0 }.encode(&mut out),
                b'H' => encode_flush(&mut out),
                _ => encode_sync(&mut out),
            }
        }
        out
    }

    #[test]
    fn one_request_is_a_query_or_a_batch_with_its_sync() {
        for kinds in ["Q", "S", "ES", "EHES"] {
            let request = messages(kinds);
            assert!(is_one_request(&request), "{kinds}");
            assert!(!is_one_request(&request[..request.len() - 1]), "{kinds} is not all there");
        }
        for kinds in ["", "QQ", "QS", "EQ", "E", "ESS", "ESE", "H"] {
            assert!(!is_one_request(&messages(kinds)), "{kinds}");
        }
    }
}
