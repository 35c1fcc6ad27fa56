//! Passes the messages of a session that replicates and of its own server to each other, unread.
//!
//! Only borders of messages are looked at: to know where one ends, how long it is, and whether the client says goodbye. Nothing
//! is owed and nothing followed, since the server serves no other session. Whether it is within a request is known from the last
//! ReadyForQuery, for cancels and for `server_fast_close`.
//!
//! //= pg18 protocol-replication#PROTOCOL-REPLICATION
//! //= pg18 protocol-flow#PROTOCOL-COPY

use machine::Settings;
use machine::action::{Actions, Source};
use units::{ConnId, Time};
use wire::backend::{Status, tag as backend_tag};
use wire::frontend::tag;
use wire::{HEADER_LEN, Header};

use crate::ending::{Ending, checked_header};
use crate::findings::Broken;
use crate::server::Server;
use crate::session::{Rest, Session};

/// A session and its own server.
#[derive(Debug)]
pub struct Relay<'a> {
    pub session_id: ConnId,
    pub session: &'a mut Session,
    pub server_id: ConnId,
    pub server: &'a mut Server,
    pub settings: &'a Settings,
    pub now: Time,
    pub actions: &'a mut Actions,
}

impl Relay<'_> {
    /// Passes a client's bytes on, as far as they are known to belong to a message that may pass. Returns how many that were:
    /// the others are the beginning of a header.
    ///
    /// # Errors
    /// Why the session ends.
    pub fn requests(&mut self, bytes: &[u8], source: Source) -> Result<usize, Ending> {
        debug_assert!(self.server.ledger.is_clear(), "a server of one session's own owes nothing that is counted");
        let (mut at, skip) = (0, &mut self.session.incoming.skip);
        let end = loop {
            at += passed(skip, bytes.len() - at);
            match checked_header(&bytes[at..]) {
                Ok(None) => break Ok(at),
                Ok(Some(header)) if header.tag == tag::TERMINATE => {
                    at += HEADER_LEN;
                    break Err(Ending::Terminate);
                }
                Ok(Some(header)) => *skip = header.total_len() as u32,
                Err(ending) => break Err(ending),
            }
        };
        self.session.incoming.rest = Rest::Forward;
        if at > 0 {
            self.server.transaction.status = Status::InTransaction;
            self.server.transaction.query_at = self.now;
            self.actions.send_or_copy(self.server_id, source, bytes, 0, at);
        }
        end
    }

    /// Passes a server's bytes on, likewise.
    ///
    /// # Errors
    /// It has broken the protocol.
    pub fn answers(&mut self, bytes: &[u8], source: Source) -> Result<usize, Broken> {
        debug_assert!(self.server.ledger.is_clear(), "a server of one session's own owes nothing that is counted");
        let (mut at, incoming) = (0, &mut self.server.incoming);
        incoming.skip_forward = true;
        let end = loop {
            at += passed(&mut incoming.skip, bytes.len() - at);
            if incoming.skip == 0 && at > 0 && incoming.skip_tag == backend_tag::READY_FOR_QUERY {
                let is_idle = bytes[at - 1] == b'I';
                self.server.transaction.status = if is_idle { Status::Idle } else { Status::InTransaction };
                incoming.streams = false;
            }
            match Header::parse(&bytes[at..]) {
                Ok(None) => break Ok(at),
                Ok(Some(header)) => {
                    (incoming.skip, incoming.skip_tag) = (header.total_len() as u32, header.tag);
                    incoming.streams |= header.tag == backend_tag::COPY_BOTH;
                }
                Err(error) => break Err(Broken::Header { error }),
            }
        };
        self.actions.send_or_copy(self.session_id, source, bytes, 0, at);
        end
    }
}

/// Goes on within a message, of which so many bytes are at hand.
fn passed(skip: &mut u32, len: usize) -> usize {
    let count = (*skip as usize).min(len);
    *skip -= count as u32;
    count
}

/// Whether a server that has closed its connection had said before that it would: its last message is an error, or the end of
/// its stream, as of a PostgreSQL that shuts down.
#[must_use]
pub fn has_said_goodbye(server: &Server) -> bool {
    let incoming = &server.incoming;
    let is_last = match incoming.skip_tag {
        backend_tag::ERROR => true,
        backend_tag::COMMAND_COMPLETE => incoming.streams,
        _ => false,
    };
    is_last && server.is_between_messages()
}
