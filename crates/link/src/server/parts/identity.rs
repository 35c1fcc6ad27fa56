//! What a server is: its name, its host, and the settings that it was opened for.

use std::net::SocketAddr;
use std::sync::Arc;

use auth::Mark;
use connections::databases::{Address, Database, Host};
use connections::encryption::Encryption;
use machine::HostRole;
use units::{ConnId, Serial, Time};

/// What does not change once a connection is open.
#[derive(Debug)]
pub struct Identity {
    pub(crate) serial: Serial,
    /// Its name in the log and the console: its id on the worker that opened it.
    pub(crate) name: ConnId,
    /// The pooler's own address, once a TCP connection is open.
    pub(crate) local: Option<SocketAddr>,
    /// What it was opened to, as the database's entry has it.
    pub(crate) host: Arc<Address>,
    /// What it is connected to: of a name, the address that was found.
    pub(crate) address: Arc<Address>,
    /// How its bytes are encrypted.
    pub(crate) encryption: Encryption,
    /// Of what a client has proved, if the server was shown that.
    pub(crate) mark: Option<Mark>,
    /// The settings it was opened with: it may be on its way to another worker while they change.
    pub(crate) opened_for: Arc<Database>,
    /// How often RECONNECT had been ordered by then.
    pub(crate) reconnects: u32,
    pub(crate) connected_at: Time,
    /// The role of its host at its login; `None`: it is not known.
    pub(crate) role: Option<HostRole>,
    /// The session that it was opened for, and whose own it will be: one that replicates.
    pub(crate) opened_for_session: Option<ConnId>,
}

impl Identity {
    /// A connection that is opened to this host now.
    #[must_use]
    pub fn new(
        (serial, name): (Serial, ConnId),
        host: &Arc<Address>,
        encryption: Encryption,
        opened_for: Arc<Database>,
        reconnects: u32,
        now: Time,
    ) -> Identity {
        Identity {
            serial,
            name,
            local: None,
            host: Arc::clone(host),
            address: Arc::clone(host),
            encryption,
            mark: None,
            opened_for,
            reconnects,
            connected_at: now,
            role: None,
            opened_for_session: None,
        }
    }

    /// The role of its host, as far as it is known.
    #[must_use]
    pub fn role(&self) -> Option<HostRole> {
        self.role
    }

    /// Notes the role of its host.
    pub fn note_role(&mut self, role: HostRole) {
        self.role = Some(role);
    }

    /// It is opened for this session alone, which replicates.
    #[must_use]
    pub fn for_session(mut self, session: Option<ConnId>) -> Identity {
        self.opened_for_session = session;
        self
    }

    /// The TCP connection is open, from the pooler's address `local`. A name stands for the address `remote` from now on: SHOW SERVERS shows
    /// it, and a cancel has to go there.
    pub fn connected(&mut self, local: SocketAddr, remote: SocketAddr) {
        self.local = Some(local);
        if let Host::Name(_) = self.address.host {
            self.address = Arc::new(Address { host: Host::Ip(remote.ip()), port: remote.port() });
        }
    }

    /// Planted: a server that was lent counts as new.
    pub fn rejuvenate(&mut self, now: Time) {
        self.connected_at = now;
    }

    pub fn serial(&self) -> Serial {
        self.serial
    }

    /// Its name in the log and the console.
    pub fn name(&self) -> ConnId {
        self.name
    }

    /// The pooler's own address, once a TCP connection is open.
    pub fn local(&self) -> Option<SocketAddr> {
        self.local
    }

    /// What it was opened to, as the database's entry has it.
    pub fn host(&self) -> &Arc<Address> {
        &self.host
    }

    /// What it is connected to.
    pub fn address(&self) -> &Arc<Address> {
        &self.address
    }

    /// How its bytes are encrypted.
    pub fn encryption(&self) -> &Encryption {
        &self.encryption
    }

    /// How its bytes are encrypted.
    pub fn encryption_mut(&mut self) -> &mut Encryption {
        &mut self.encryption
    }

    /// What a client has proved, if the server was shown that.
    pub fn mark(&self) -> Option<Mark> {
        self.mark
    }

    /// The database that it was opened for.
    #[inline]
    pub fn opened_for(&self) -> &Arc<Database> {
        &self.opened_for
    }

    /// How often RECONNECT had been ordered when it was opened.
    pub fn reconnects(&self) -> u32 {
        self.reconnects
    }

    #[inline]
    pub fn connected_at(&self) -> Time {
        self.connected_at
    }

    /// The session that it was opened for.
    #[inline]
    pub fn opened_for_session(&self) -> Option<ConnId> {
        self.opened_for_session
    }
}
