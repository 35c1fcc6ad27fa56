//! Named statements that the pooler does not keep: longer than [`limits::STATEMENT_LEN_MAX`], or more of them than one client may
//! have.
//!
//! Promises: where sessions are followed, they go to the server under the client's own names, and the session keeps that server
//! until its client disconnects. From then on its new names are the server's to judge; names from before stay mapped. Where
//! sessions are not followed, the Parse fails (54000), and the session goes on behind its Sync.
//!
//! Does not do: reading such a text for what it does to the session. So its server is closed when the client has left.

use connections::server::Expect;
use session_state::state::Pins;
use units::limits;
use wire::frontend::{Describe, Parse, Target};
use wire::{HEADER_LEN, Header};

use crate::ending::Ending;
use crate::requests::{Renamed, Requests};

/// What a client is told where its session cannot keep its server.
pub const TOO_LARGE: &str = "named prepared statement too large, or too many of them in one session";

impl Requests<'_> {
    /// A named Parse of which only the beginning is at hand: it is too long to be kept.
    pub fn parse_large(&mut self, header: Header, at_hand: &[u8], in_stream: bool) -> Result<Renamed, Ending> {
        if self.is_unheard() {
            return Ok(Renamed::No);
        }
        let body = &at_hand[HEADER_LEN..];
        let name = body.iter().position(|&byte| byte == 0).map(|end| &body[..end]);
        let Some(name) = name.filter(|name| name.len() <= limits::NAME_LEN_MAX) else {
            return Err(Ending::violation("name in Parse message is too long"));
        };
        if self.must_wait(name, None) || !self.bring(name) {
            return Ok(Renamed::Later);
        }
        let text = &body[name.len() + 1..];
        let is_mapped = self.session.statements.names.as_ref().is_some_and(|names| names.get(name).is_some());
        if is_mapped || !self.passes(text) {
            self.refuse_large(at_hand.len(), in_stream);
            self.discard_rest(header.total_len() - at_hand.len());
            return Ok(Renamed::Yes);
        }
        Ok(Renamed::No)
    }

    /// A whole Parse that is not kept.
    pub fn pass_or_refuse(&mut self, parse: &Parse<'_>, total: usize, in_stream: bool) -> Renamed {
        if self.passes(parse.query) {
            return Renamed::No;
        }
        self.refuse_large(total, in_stream);
        Renamed::Yes
    }

    /// From now on new names go to the server as they are. False: the session cannot keep its server.
    fn passes(&mut self, text: &[u8]) -> bool {
        if !self.pool.rules.follows() {
            return false;
        }
        self.session.tracker.get_or_insert_default().pinning.pin(Pins::LARGE, text);
        self.session.statements.names.get_or_insert_default().passes = true;
        true
    }

    /// Makes the server fail in the place of a Parse: its transaction fails, and it skips to Sync.
    fn refuse_large(&mut self, replaced: usize, in_stream: bool) {
        self.sent(Expect::TooLarge);
        let unknown = Describe { target: Target::Statement, name: TOO_LARGE.as_bytes() };
        self.replace(replaced, in_stream, |out| unknown.encode(out));
    }
}
