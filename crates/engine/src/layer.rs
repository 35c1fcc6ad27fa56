//! Encrypted connections: a layer of TLS between a socket and its machine, which sees plain bytes only.
//!
//! ```text
//!   socket ──recv──► Layer ──plain──► Event::Received          Action::Send ──► Layer ──records──► socket
//!                      └─► answers of the handshake ─► socket                     └─► what it did not take: unsent
//! ```
//!
//! Bytes that are encrypted cannot be taken back. So if a socket takes a part of some records only, the rest of these
//! records stays here, and their plain bytes in the machine's backlog until the socket has taken all of them: a machine's
//! backlog means the same for every connection.
//!
//! The keys, certificates and checks are the [`Keyring`]; a connection keeps those that it began with.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use machine::{CertificateNames, Hangup, Secure, Secured};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use tls::{Acceptor, Connector, Failure, Outgoing, Session};
use units::heap;

const SEND: SendFlags = SendFlags::NOSIGNAL.union(SendFlags::DONTWAIT);

/// At most so many plain bytes are encrypted for one system call.
const BATCH_LEN_MAX: usize = 64 * 1024;

/// What new encrypted connections begin with. `None`: there are no files for this side.
#[derive(Clone, Debug, Default)]
pub struct Keyring {
    /// For clients.
    pub acceptor: Option<Acceptor>,
    /// For servers.
    pub connector: Option<Connector>,
}

/// What one thread has for all of its encrypted connections.
pub(crate) struct Encryption {
    pub(crate) keyring: Arc<Keyring>,
    /// Steps of handshakes so far: they take longer than anything else that a connection asks for.
    pub(crate) handshakes: u64,
    /// System calls that have sent records.
    pub(crate) sends: u64,
    /// Plain bytes that were received.
    pub(crate) plain: Vec<u8>,
    /// Plain bytes to be sent.
    pub(crate) gathered: Vec<u8>,
    out: Outgoing,
}

impl Encryption {
    pub(crate) fn new(keyring: Arc<Keyring>) -> Encryption {
        let (plain, gathered, out) = (Vec::new(), Vec::new(), Outgoing::default());
        Encryption { keyring, handshakes: 0, sends: 0, plain, gathered, out }
    }
}

/// What received bytes say besides the plain ones.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    /// The handshake has come to its end.
    pub(crate) secured: Option<Result<Box<Secured>, String>>,
    /// The connection has.
    pub(crate) ended: Option<Hangup>,
    /// The socket takes nothing any more.
    pub(crate) is_deaf: bool,
}

/// One connection's TLS.
#[derive(Debug)]
pub(crate) struct Layer {
    session: Session,
    /// Encrypted bytes that the socket has not taken.
    unsent: Vec<u8>,
    /// So many bytes at the front of the machine's backlog are in `unsent`.
    covered: usize,
    /// What its machine was told that it weighs.
    told_weight: usize,
}

impl Layer {
    /// Begins a handshake.
    pub(crate) fn begin(fd: BorrowedFd<'_>, how: Secure, shared: &mut Encryption) -> (Option<Layer>, Incoming) {
        let keyring = Arc::clone(&shared.keyring);
        shared.out.clear();
        let mut received = Vec::new();
        let session = match how {
            Secure::Accept { is_direct, received: first } => {
                received = first;
                let acceptor = keyring.acceptor.as_ref().ok_or_else(|| Failure("there is no certificate".to_owned()));
                acceptor.and_then(|acceptor| Session::accept(acceptor, is_direct))
            }
            Secure::Connect { host, is_direct } => {
                let connector = keyring.connector.as_ref().ok_or_else(|| Failure("TLS is disabled".to_owned()));
                connector.and_then(|connector| Session::connect(connector, &host, is_direct, &mut shared.out))
            }
        };
        let session = match session {
            Ok(session) => session,
            Err(Failure(why)) => return (None, Incoming { secured: Some(Err(why)), ..Incoming::default() }),
        };
        let mut layer = Layer { session, unsent: Vec::new(), covered: 0, told_weight: 0 };
        let mut incoming = Incoming { is_deaf: layer.send_records(fd, 0, shared).is_err(), ..Incoming::default() };
        if !received.is_empty() {
            incoming = layer.receive(fd, &mut received, shared);
        }
        (Some(layer), incoming)
    }

    /// What it weighs, if that is not what its machine was told last.
    pub(crate) fn news_of_weight(&mut self) -> Option<usize> {
        let weight = self.session.weight(heap::taken) + heap::taken(self.unsent.capacity());
        (weight != std::mem::replace(&mut self.told_weight, weight)).then_some(weight)
    }

    pub(crate) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Takes received bytes. The plain ones are in `shared.plain` then.
    pub(crate) fn receive(&mut self, fd: BorrowedFd<'_>, bytes: &mut [u8], shared: &mut Encryption) -> Incoming {
        shared.plain.clear();
        shared.out.clear();
        let was_open = self.session.is_open();
        let outcome = self.session.receive(bytes, &mut shared.plain, &mut shared.out);
        shared.handshakes += u64::from(!was_open);
        let is_deaf = self.send_records(fd, 0, shared).is_err();
        let (secured, ended) = match outcome {
            Ok(received) => {
                let facts = received.opened.then(|| Ok(Box::new(secured(self.session.facts()))));
                (facts, received.closed.then_some(Hangup::Closed))
            }
            Err(_) if was_open => (None, Some(Hangup::Broken)),
            Err(Failure(why)) => (Some(Err(why)), None),
        };
        Incoming { secured, ended, is_deaf }
    }

    /// Encrypts and sends `shared.gathered`. Returns how many of its bytes are on their way for good; the others are the
    /// machine's to keep.
    ///
    /// # Errors
    /// The kernel's, if nothing can be sent any more.
    pub(crate) fn send(&mut self, fd: BorrowedFd<'_>, shared: &mut Encryption) -> rustix::io::Result<usize> {
        let gathered = std::mem::take(&mut shared.gathered);
        let outcome = if self.session.is_open() {
            self.send_plain(fd, &gathered, shared)
        } else {
            // In the midst of a handshake nothing can be said, not even why it ends.
            Ok(gathered.len())
        };
        shared.gathered = gathered;
        outcome
    }

    /// Sends what the socket did not take before: first what is encrypted, then of the machine's backlog. Returns how many
    /// bytes of the backlog are done with.
    ///
    /// # Errors
    /// The kernel's, if nothing can be sent any more.
    pub(crate) fn drain(
        &mut self,
        fd: BorrowedFd<'_>,
        backlog: &[u8],
        shared: &mut Encryption,
    ) -> rustix::io::Result<usize> {
        let mut count = 0;
        if self.has_unsent() {
            shared.sends += 1;
            match send(fd, &self.unsent, SEND) {
                Ok(taken) if taken == self.unsent.len() => self.unsent = Vec::new(),
                Ok(taken) => _ = self.unsent.drain(..taken),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error),
            }
            if self.has_unsent() {
                return Ok(0);
            }
            count = std::mem::take(&mut self.covered);
        }
        let rest = &backlog[count..];
        Ok(count + self.send_plain(fd, &rest[..rest.len().min(BATCH_LEN_MAX)], shared)?)
    }

    /// Says that nothing more will be sent, if that can be said at once.
    pub(crate) fn close(&mut self, fd: BorrowedFd<'_>, shared: &mut Encryption) {
        if self.session.is_open() && !self.has_unsent() {
            shared.out.clear();
            self.session.close(&mut shared.out);
            // Fails if the peer is gone already.
            let _ = self.send_records(fd, 0, shared);
        }
    }

    /// Encrypts and sends, as far as the socket takes it. Returns how many bytes it has taken in full batches.
    fn send_plain(&mut self, fd: BorrowedFd<'_>, plain: &[u8], shared: &mut Encryption) -> rustix::io::Result<usize> {
        let mut sent = 0;
        for batch in plain.chunks(BATCH_LEN_MAX) {
            if self.has_unsent() {
                break;
            }
            shared.out.clear();
            self.session.send(batch, &mut shared.out).map_err(|_| Errno::KEYEXPIRED)?;
            self.send_records(fd, batch.len(), shared)?;
            if !self.has_unsent() {
                sent += batch.len();
            }
        }
        Ok(sent)
    }

    /// Sends the records of `out`, in which the machine's next `covered` bytes are.
    fn send_records(&mut self, fd: BorrowedFd<'_>, covered: usize, shared: &mut Encryption) -> rustix::io::Result<()> {
        let records = shared.out.as_slice();
        let mut count = 0;
        if !records.is_empty() && !self.has_unsent() {
            shared.sends += 1;
            match send(fd, records, SEND) {
                Ok(taken) => count = taken,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        if count < records.len() {
            self.unsent.extend_from_slice(&records[count..]);
            self.covered += covered;
        }
        Ok(())
    }
}

fn secured(facts: tls::Facts) -> Secured {
    let tls::Facts { version, cipher, group, is_resumed, peer, end_point } = facts;
    let certificate = peer.map(|names| CertificateNames {
        common_name: names.common_name,
        distinguished_name: names.distinguished_name,
        issuer: names.issuer,
        serial: names.serial,
    });
    Secured { version, cipher, group, is_resumed, certificate, end_point }
}
