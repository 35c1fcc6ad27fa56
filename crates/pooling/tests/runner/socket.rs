//! One connection of the world, seen from its far end: what it was sent, and what of that has been shown.

use std::collections::VecDeque;

use units::{ConnId, Kind};
use wire::backend::{Authentication, BackendKeyData, tag};
use wire::{HEADER_LEN, Header};

use super::{backend, frontend};

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Client,
    Server,
    /// Carries one CancelRequest to PostgreSQL.
    Cancel,
    /// Looks users' secrets up.
    Lookup,
    /// Carries one CancelRequest to another process of the pooler.
    Peer,
}

impl Role {
    /// Of a connection that the pooler opens.
    pub(crate) fn of(kind: Kind) -> Role {
        match kind {
            Kind::Cancel => Role::Cancel,
            Kind::Lookup => Role::Lookup,
            Kind::Peer => Role::Peer,
            Kind::Login | Kind::Client | Kind::Server => Role::Server,
        }
    }

    /// What the connection of that number is called.
    pub(crate) fn named(self, number: usize) -> String {
        match self {
            Role::Cancel => format!("cancel {number}"),
            Role::Lookup => format!("lookup {number}"),
            Role::Peer => format!("peer {number}"),
            Role::Client | Role::Server => number.to_string(),
        }
    }
}

/// A client's side of a login.
#[derive(Debug, Default)]
pub(crate) struct Proof {
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) exchange: Option<auth::ClientExchange>,
    pub(crate) binds: Binds,
}

/// What a client that logs in by SCRAM does about channel binding.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Binds {
    /// It binds where it is offered to.
    #[default]
    Offered,
    /// It never binds.
    Never,
    /// It could bind, and believes that it was not offered to.
    UnawareOfOffer,
    /// It binds to the certificate of somebody between it and the pooler.
    ToAnother,
}

#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) name: String,
    pub(crate) role: Role,
    /// What its machine calls it; `None` while it travels and once it is closed.
    pub(crate) id: Option<ConnId>,
    /// What the log called it first, and must ever after.
    pub(crate) logged_as: Option<ConnId>,
    pub(crate) closed: bool,
    /// How many more bytes the far end takes; `None`: any number.
    pub(crate) room: Option<usize>,
    pub(crate) reading: bool,
    /// The rest of a message that was sent in part.
    pub(crate) rest: Vec<u8>,
    /// The cancel key it was given.
    pub(crate) key: Option<(i32, Vec<u8>)>,
    /// The body of the last authentication request, and what the client proves with.
    pub(crate) asked: Option<Vec<u8>>,
    pub(crate) proof: Proof,
    /// The body of the last password or SASL message it was sent.
    pub(crate) answered: Option<Vec<u8>>,
    /// Who asked the control plane last: an answer goes to that very id, whoever is there by then.
    pub(crate) question: Option<ConnId>,
    /// Sent to the pooler and not read by it yet.
    pub(crate) in_flight: VecDeque<Vec<u8>>,
    /// What is said during its login is not shown.
    pub(crate) quiet: bool,
    /// Bytes of our answer to an SSLRequest or GSSENCRequest that are still to come.
    pub(crate) letters: usize,
    /// Everything it was ever sent, for comparing runs.
    pub(crate) all: Vec<u8>,
    /// The first packet has no tag.
    untagged: bool,
    unread: Vec<u8>,
    /// How much of an unfinished message has been shown.
    told: usize,
}

impl Socket {
    pub(crate) fn new(name: String, role: Role, id: ConnId) -> Socket {
        Socket {
            name,
            role,
            id: Some(id),
            logged_as: None,
            closed: false,
            room: None,
            reading: true,
            rest: Vec::new(),
            key: None,
            asked: None,
            proof: Proof::default(),
            answered: None,
            question: None,
            in_flight: VecDeque::new(),
            quiet: false,
            letters: 0,
            all: Vec::new(),
            untagged: role != Role::Client,
            unread: Vec::new(),
            told: 0,
        }
    }

    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
        self.all.extend_from_slice(bytes);
    }

    /// What has come since the last time, as texts; a message that is not whole as far as it goes.
    pub(crate) fn take(&mut self) -> Vec<String> {
        let mut shown = Vec::new();
        let unread = std::mem::take(&mut self.unread);
        let mut at = 0;
        while let Some((text, used)) = self.next(&unread[at..]) {
            let continued = if std::mem::take(&mut self.told) > 0 { "..." } else { "" };
            shown.push(format!("{continued}{text}"));
            at += used;
        }
        let left = unread.len() - at;
        if left > self.told {
            self.told = left;
            shown.push(self.unfinished(&unread[at..]));
        }
        self.unread = unread[at..].to_vec();
        shown
    }

    fn next(&mut self, bytes: &[u8]) -> Option<(String, usize)> {
        // A parameter's report, which begins with an S too, comes with more in one go.
        let letter = bytes.first().filter(|&&letter| letter == b'N' || letter == b'S' && bytes.len() == 1);
        if self.letters > 0
            && let Some(&letter) = letter
        {
            self.letters -= 1;
            return Some((format!("'{}'", char::from(letter)), 1));
        }
        if self.untagged {
            let (text, used) = frontend::show_startup(bytes)?;
            // The startup packet follows it.
            self.untagged = text == "SSLRequest";
            return Some((text, used));
        }
        let header = Header::parse(bytes).expect("what the pooler writes has sound lengths")?;
        let body = bytes.get(HEADER_LEN..header.total_len())?;
        let text = match self.role {
            Role::Client => {
                self.learn(header.tag, body);
                backend::show_message(header.tag, body)
            }
            Role::Server | Role::Cancel | Role::Lookup | Role::Peer => {
                if header.tag == wire::frontend::tag::PASSWORD {
                    self.answered = Some(body.to_vec());
                }
                frontend::show_message(header.tag, body)
            }
        };
        Some((text, header.total_len()))
    }

    fn learn(&mut self, message: u8, body: &[u8]) {
        match message {
            tag::BACKEND_KEY_DATA => {
                let key = BackendKeyData::decode(body).expect("the pooler's own key");
                self.key = Some((key.pid, key.secret.to_vec()));
            }
            tag::AUTHENTICATION if Authentication::decode(body) != Ok(Authentication::Ok) => {
                self.asked = Some(body.to_vec());
            }
            _ => {}
        }
    }

    fn unfinished(&self, bytes: &[u8]) -> String {
        let Ok(Some(header)) = Header::parse(bytes) else { return format!("<{} bytes>", bytes.len()) };
        let name = match self.role {
            Role::Client => backend::name(header.tag),
            Role::Server | Role::Cancel | Role::Lookup | Role::Peer => frontend::name(header.tag),
        };
        format!("{name} ({} of {} bytes)", bytes.len(), header.total_len())
    }
}
