//! A connection that carries one CancelRequest to a peer.
//!
//! ```text
//!   opened ─► encrypted as `server_tls_sslmode` says ─► the request is sent ─► the peer closes
//! ```
//!
//! Does not know how many of them there may be.

use std::sync::Arc;

use connections::databases::Address;
use connections::encryption::{Encryption, Next};
use connections::flow::Flow;
use machine::Secured;
use machine::action::Actions;
use machine::peering::PeerId;
use settings::TlsSettings;
use units::{ConnId, Time};
use wire::frontend::CancelRequest;

use super::failure::PeerFailure;

/// A CancelRequest on its way to a peer.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) pid: i32,
    pub(super) secret: Box<[u8]>,
    /// When it came.
    pub(super) since: Time,
    /// The number of its ticket.
    pub(super) ticket: u32,
}

#[derive(Debug)]
pub(super) struct Carrier {
    pub(super) peer: PeerId,
    pub(super) address: Arc<Address>,
    request: Request,
    encryption: Encryption,
    pub(super) is_sent: bool,
    /// When it was asked for.
    pub(super) since: Time,
    pub(super) flow: Flow,
}

impl Carrier {
    pub(super) fn new(peer: PeerId, address: Arc<Address>, request: Request, tls: &TlsSettings, now: Time) -> Carrier {
        let encryption = Encryption::new(tls, &address);
        Carrier { peer, address, request, encryption, is_sent: false, since: now, flow: Flow::default() }
    }

    /// The number of its request's ticket.
    pub(super) fn ticket(&self) -> u32 {
        self.request.ticket
    }

    /// The connection is open.
    pub(super) fn opened(&mut self, conn: ConnId, actions: &mut Actions) {
        let next = self.encryption.opened();
        self.go_on(conn, next, actions);
    }

    /// Bytes of the peer: its answer to SSLRequest. To a CancelRequest there is none.
    ///
    /// # Errors
    /// It says something else.
    pub(super) fn received(&mut self, conn: ConnId, bytes: &[u8], actions: &mut Actions) -> Result<(), PeerFailure> {
        if self.is_sent {
            return Err(PeerFailure::Answers);
        }
        let next = self.encryption.received(bytes)?;
        self.go_on(conn, next, actions);
        Ok(())
    }

    /// The end of the handshake.
    ///
    /// # Errors
    /// It has failed.
    pub(super) fn secured(
        &mut self,
        conn: ConnId,
        outcome: Result<Box<Secured>, String>,
        actions: &mut Actions,
    ) -> Result<(), PeerFailure> {
        let secured = outcome.map_err(|why| PeerFailure::TlsFailed { why })?;
        let next = self.encryption.secured((*secured).into());
        self.go_on(conn, next, actions);
        Ok(())
    }

    fn go_on(&mut self, conn: ConnId, next: Next, actions: &mut Actions) {
        if actions.encrypt(conn, next) {
            self.is_sent = true;
            let request = CancelRequest { pid: self.request.pid, secret: &self.request.secret };
            actions.send_new(conn, |out| request.encode(out));
        }
    }
}
